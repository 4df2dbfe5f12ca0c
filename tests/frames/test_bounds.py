"""Bounds in frames and on the command line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gmtree as gm
from gmtree import cli

FRAME = pd.DataFrame({
    "state": [None, "NY", "VT", "NY", "NY", "VT"],
    "county": [None, None, None, "Albany", "Kings", "Orange"],
    "people": [9.0, 6.0, 4.0, 3.0, 2.0, 5.0],
    "capacity": [np.nan, 4.5, np.nan, 3.0, 1.0, np.nan],
    "least": [9.5, np.nan, np.nan, np.nan, np.nan, np.nan],
})  # fmt: skip
LEVELS = ["state", "county"]


def by_node(tree: gm.Tree, column: str, none: float) -> dict[str, np.ndarray]:
    bounds = np.full(tree.n, none)
    for label, x in zip(FRAME[LEVELS].itertuples(index=False), FRAME[column], strict=True):
        path = tuple(part for part in label if isinstance(part, str))
        if not np.isnan(x):
            bounds[tree.node(path) if path else tree.root] = x
    return {"node": bounds}


def expected() -> np.ndarray:
    leaves = FRAME.dropna(subset=["county"])
    tree = gm.Tree.from_levels(leaves["state"], leaves["county"])
    nodes = [
        tree.node(tuple(part for part in label if isinstance(part, str)) or "total")
        for label in FRAME[LEVELS].itertuples(index=False)
    ]
    noisy = np.empty(tree.n)
    noisy[nodes] = FRAME["people"]
    bounds = {
        "lower": by_node(tree, "least", -np.inf),
        "upper": by_node(tree, "capacity", np.inf),
    }
    return gm.reconcile(tree, noisy, **bounds)[nodes]


def test_columns_of_bounds():
    found = gm.reconcile_frame(FRAME, LEVELS, "people", lower="least", upper="capacity")
    np.testing.assert_allclose(found["people"], expected(), rtol=1e-13)
    np.testing.assert_array_equal(found["capacity"], FRAME["capacity"])


def test_bounds_may_differ_by_group():
    other = FRAME.assign(day=2, capacity=np.nan, least=np.nan)
    both = pd.concat([FRAME.assign(day=1), other])
    found = gm.reconcile_frame(both, LEVELS, "people", lower="least", upper="capacity", by="day")[
        "people"
    ].to_numpy()
    np.testing.assert_allclose(found[:6], expected(), rtol=1e-13)
    plain = gm.reconcile_frame(FRAME, LEVELS, "people")["people"]
    np.testing.assert_allclose(found[6:], plain, rtol=1e-13)


def test_one_number_bounds_all_leaves():
    found = gm.reconcile_frame(FRAME, LEVELS, "people", upper=2.5)
    assert found["people"][3:].max() <= 2.5


def test_infeasible_bounds_are_named():
    small = FRAME.assign(capacity=np.where(FRAME["county"].notna(), 1.0, np.nan))
    with pytest.raises(gm.InputError, match="leave room"):
        gm.reconcile_frame(small, LEVELS, "people", lower="least", upper="capacity")


def test_command_line(tmp_path):
    FRAME.to_csv(tmp_path / "in.csv", index=False)
    command = ["reconcile", tmp_path / "in.csv", "--levels", "state,county", "--value", "people"]
    command += ["--lower", "least", "--upper", "capacity", "-o", tmp_path / "out.csv"]
    assert cli.main([str(x) for x in command]) == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["people"], expected(), rtol=1e-12)
    command[6:10] = ["--upper", "2.5"]
    command[-1] = tmp_path / "other.csv"
    assert cli.main([str(x) for x in command]) == 0
    assert pd.read_csv(tmp_path / "other.csv")["people"][3:].max() <= 2.5
