"""Sums of rows at every level, against pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gmtree as gm

ROWS = {
    "state": ["NY", "VT", None, "NY", "VT", "NY"],
    "county": ["Kings", "Orange", None, "Orange", None, "Kings"],
    "n": [3, 4, 5, 6, 7, 2**60],
    "x": [0.5, 1.0, None, 2.0, 4.0, 8.0],
}
FORMS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def by_path(frame):
    """Values of each node by its labels."""
    if isinstance(frame, pa.Table):
        frame = frame.to_pandas()
    elif isinstance(frame, pl.DataFrame):
        frame = pd.DataFrame(frame.to_dict(as_series=False))
    paths = [tuple(x for x in row if x is not None and x == x) for row in frame.iloc[:, :2].values]
    return {path: (n, x) for path, n, x in zip(paths, frame.n, frame.x, strict=True)}


@pytest.mark.parametrize("kind", list(FORMS))
def test_rollup_is_a_groupby_at_each_level(kind):
    given = FORMS[kind](ROWS)
    found = gm.rollup_frame(given, ["state", "county"], ["n", "x"], missing="?")
    assert type(found) is type(given)
    frame = pd.DataFrame(ROWS).fillna({"state": "?", "county": "?"})
    expected = {(): (frame.n.sum(), frame.x.sum())}
    for depth in (1, 2):
        groups = frame.groupby(["state", "county"][:depth])[["n", "x"]].sum()
        for labels, row in zip(groups.index, groups.itertuples(index=False), strict=True):
            expected[(labels,) if depth == 1 else labels] = tuple(row)
    assert by_path(found) == expected


def test_whole_numbers_as_labels_may_be_missing_and_a_label_may_be_called_missing():
    frame = pd.DataFrame({"year": pd.array([2020, None, 2020], "Int64"), "n": [1, 2, 3]})
    assert gm.rollup_frame(frame, ["year"], "n").n.tolist() == [6, 4, 2]
    frame = pd.DataFrame({"a": ["(missing)", None, "b"], "n": [1, 2, 3]})
    assert gm.rollup_frame(frame, ["a"], "n").n.tolist() == [6, 3, 3]


def test_the_result_can_be_reconciled_without_a_change():
    found = gm.rollup_frame(pd.DataFrame(ROWS), ["state", "county"], "x")
    again = gm.reconcile_frame(found, ["state", "county"], "x")
    np.testing.assert_allclose(again.x, found.x, atol=1e-12)


def test_a_label_of_a_sum_is_questioned():
    frame = pd.DataFrame(
        {"state": ["NY", "NY", "NY"], "county": ["a", "b", "Total"], "n": [1, 2, 3]}
    )
    with pytest.warns(gm.DataWarning, match="'NY / Total' looks like that of a sum"):
        assert gm.rollup_frame(frame, ["state", "county"], "n").n[0] == 6


def test_rows_that_are_sums_already_are_questioned():
    parts = pd.DataFrame({"state": list("aab"), "county": list("xyz"), "n": [1, 2, 3]})
    whole = gm.rollup_frame(parts, ["state", "county"], "n")
    message = r"The value of node 5, 'total / a / \(missing\)' is about as large .* sums already"
    with pytest.warns(gm.DataWarning, match=message):
        gm.rollup_frame(whole, ["state", "county"], "n")


def test_wrong_arguments():
    frame = pd.DataFrame(ROWS)
    with pytest.raises(gm.InputError, match="must not name a level; 'state' is one"):
        gm.rollup_frame(frame, ["state"], "state")
    with pytest.raises(TypeError, match="must hold real numbers"):
        gm.rollup_frame(frame, ["state"], "county")
    with pytest.raises(gm.IntegerOverflowError, match="'n' must have sums that fit"):
        gm.rollup_frame(frame.assign(n=2**62), ["state"], "n")
