"""A DataFrame whose levels do not add up: shop, region and country sales, counted separately."""

import argparse

import pandas as pd

import gmtree as gm

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--picture", help="draw the result into this file")
picture = parser.parse_args().picture

sales = pd.DataFrame({
    "region": [None, "north", "south", "north", "north", "south", "south"],
    "shop": [None, None, None, "A", "B", "C", "D"],
    "sales": [1010.0, 590.0, 385.0, 310.0, 268.0, 205.0, 190.0],
    "variance": [25.0, 100.0, 100.0, 64.0, 64.0, 64.0, 64.0],  # squares of standard errors
})  # fmt: skip
levels = ["region", "shop"]
found = gm.reconcile_frame(sales, levels, "sales", variance="variance")
print(found.round(1))
if picture:
    tree = gm.Tree.from_levels(sales.dropna()[levels], levels=levels)
    x = tree.align(found.drop(columns="variance")).values
    gm.plot.sums(tree, x, unit="EUR").figure.savefig(picture, dpi=100)
