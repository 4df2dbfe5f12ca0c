"""Counts per county become a private release; an account keeps the budget in a file."""

import argparse
import tempfile

import pandas as pd

import gmtree as gm

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--picture", help="draw the result into this file")
picture = parser.parse_args().picture

rows = [("NY", "Albany", 314), ("NY", "Kings", 2736), ("VT", "Orange", 29)]
counts = pd.DataFrame(rows, columns=["state", "county", "people"])  # or pd.read_csv("counts.csv")
folder = tempfile.mkdtemp()
acc = gm.privacy.Account(epsilon=2, path=folder + "/budget.json")
levels = ["state", "county"]
r = gm.release_frame(counts, levels, count="people", tree=counts[levels], epsilon=1, account=acc)
r.save(folder + "/release.npz")
print(r.to_frame()[[*levels, "value", "estimate_std_error"]].round(1))
print(acc)
if picture:
    r.plot(unit="people").figure.savefig(picture, dpi=100)
