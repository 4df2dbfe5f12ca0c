"""Forecasts of shops, made coherent inside hierarchicalforecast's HierarchicalReconciliation."""

import argparse

import pandas as pd
from hierarchicalforecast.core import HierarchicalReconciliation
from hierarchicalforecast.utils import aggregate

import gmtree as gm

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--picture", help="draw the result into this file")
picture = parser.parse_args().picture

rows = [("all", "abc"[k], day, 10.0 + 3 * k + day % 7) for k in range(3) for day in range(28)]
sales = pd.DataFrame(rows, columns=["top", "shop", "ds", "y"])
Y, S, tags = aggregate(sales, [["top"], ["top", "shop"]])
base = Y[Y.ds >= 21].rename(columns={"y": "naive"})
base.loc[base.unique_id == "all", "naive"] *= 1.1  # the total was forecast by someone else
methods = [gm.forecast.MinTrace("wls_struct"), gm.forecast.BottomUp()]
found = HierarchicalReconciliation(methods).reconcile(Y_hat_df=base, S_df=S, tags=tags)
print(found[found.ds == 21].round(2).to_string(index=False))
if picture:
    ax = found[found.unique_id == "all"].plot(x="ds", xlabel="day", ylabel="sales of all shops")
    ax.figure.savefig(picture, dpi=100, bbox_inches="tight")
