"""DataFrames that look wrong cause warnings that name labels; noisy ones do not."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pandas as pd
import pytest
from frames.kinds import KINDS, MAKE

import gmtree as gm
from gmtree import DataWarning

PEOPLE = "country,people\nNA,2540905\nIS,364134\nDE,83240525\nCN,1402112000\n"


def test_a_label_that_is_missing_by_mistake_is_questioned():
    """pandas reads Namibia's code NA as a missing label, which stands for the total."""
    frame = pd.read_csv(io.StringIO(PEOPLE))
    message = (
        r"The value 2,540,905 of node 0, 'total' is far below 1,402,112,000, the value of "
        r"node 3, 'total / CN'\. A row without a label is read as the sum of the rows below it"
    )
    with pytest.warns(DataWarning, match=message):
        gm.reconcile_frame(frame, ["country"], "people")
    whole = pd.read_csv(io.StringIO(PEOPLE), keep_default_na=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm.reconcile_frame(whole, ["country"], "people")


@pytest.mark.parametrize("kind", KINDS)
def test_values_far_from_the_sum_of_their_children_are_questioned(kind):
    columns = {
        "month": [1] * 3 + [2] * 3,
        "shop": [None, "a", "b"] * 2,
        "sales": [50.0, 30.0, 20.0, 25.0, 30.0, 20.0],
    }
    options = {"levels": ["shop"], "value": "sales", "by": "month"}
    message = r"25 of node 0, 'total' in the group month 2 is 25 standard deviations from 50, the"
    with pytest.warns(DataWarning, match=message):
        gm.reconcile_frame(MAKE[kind](columns), variance=1 / 3, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm.reconcile_frame(MAKE[kind](columns), **options)
        gm.reconcile_frame(MAKE[kind](columns), variance=1.0, **options)


def test_the_usual_difference_between_parents_and_children_is_no_contradiction():
    """One county without a label among states whose counties add up, and among noisy ones."""
    rng = np.random.default_rng(0)
    state = np.repeat(list("abcdefgh"), 5)
    leaves = pd.DataFrame({"state": state, "county": list(range(5)) * 8, "x": 100.0})
    sums = leaves.groupby("state", as_index=False).x.sum()
    sums.loc[3, "x"] = 40
    frame = pd.concat([leaves, sums], ignore_index=True)
    with pytest.warns(DataWarning, match=r"The value 40 of node 4, 'total / d' is far below 100"):
        gm.reconcile_frame(frame, ["state", "county"], "x")
    frame["x"] = np.maximum(frame.x + rng.normal(0, 30, len(frame)), 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm.reconcile_frame(frame, ["state", "county"], "x")


@pytest.mark.parametrize("label", ["Total", "ALL", "sum", " Subtotal "])
def test_rows_of_sums_among_their_parts_are_refused(label):
    columns = {"state": ["NY", "NY", "NY", "VT"], "county": ["a", "b", label, "c"]}
    frame = pd.DataFrame({**columns, "x": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(ValueError, match=r"must have no rows of subtotals; node 5, 'total / NY / "):
        gm.reconcile_frame(frame, ["state", "county"], "x")
    frame.loc[2, "x"] = 2.5
    with pytest.warns(DataWarning, match=r"The label of node 5, .* looks like that of a sum"):
        gm.reconcile_frame(frame, ["state", "county"], "x")
    public = frame[["state", "county"]]
    with pytest.warns(DataWarning, match="looks like that of a sum"):
        gm.release_frame(frame[:0], ["state", "county"], tree=public, epsilon=1)


def test_rows_of_sums_that_have_finer_labels_are_refused():
    columns = {"state": ["NY", "NY", "VT", "All"], "county": ["a", "b", "c", "All"]}
    frame = pd.DataFrame({**columns, "x": [1.0, 2.0, 4.0, 7.0]})
    with pytest.raises(ValueError, match=r"no rows of subtotals; node 3, 'total / All' has"):
        gm.reconcile_frame(frame, ["state", "county"], "x")


@pytest.mark.parametrize(
    ("sums", "node"),
    [
        ([("USA", None, 15.1)], "node 8, 'total / USA'"),
        ([("NY", "NY", 6.1), ("VT", "VT", 4.0)], "node 8, 'total / NY / NY'"),
    ],
)
def test_sums_of_siblings_are_questioned_whatever_their_label(sums, node):
    rows = [("NY", c, x) for c, x in zip("abc", [1.0, 2.0, 3.0], strict=True)]
    rows += [("VT", "d", 4.0), ("VT", "e", 5.0)]
    frame = pd.DataFrame([*rows, *sums], columns=["state", "county", "x"])
    message = f"The value of {node} is about as large as all its siblings together"
    with pytest.warns(DataWarning, match=message):
        gm.reconcile_frame(frame, ["state", "county"], "x")
    frame.loc[5:, "x"] *= 1.2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm.reconcile_frame(frame, ["state", "county"], "x")
        gm.reconcile_frame(frame.assign(x=0.0), ["state", "county"], "x")


def test_a_single_node_may_be_called_like_a_sum():
    frame = pd.DataFrame({"all": ["All"] * 3, "shop": [None, "a", "b"], "x": [3.0, 1.0, 2.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gm.reconcile_frame(frame, ["all", "shop"], "x").x.tolist() == [3, 1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_changes_are_reported(kind):
    columns = {
        "month": [1] * 3 + [2] * 3,
        "shop": [None, "a", "b"] * 2,
        "sales": [11.0, 5.0, 3.0, 8.0, 4.0, None],
    }
    frame = MAKE[kind](columns)
    made, info = gm.reconcile_frame(frame, ["shop"], "sales", by="month", return_info=True)
    assert type(made) is type(frame)
    assert info.largest_change == pytest.approx(1)
    assert info.rows_added == 0
    assert [(c.row, c.group, c.labels) for c in info.changes] == [
        (0, (1,), ()),
        (1, (1,), ("a",)),
        (2, (1,), ("b",)),
    ]
    assert (info.changes[1].before, info.changes[1].after) == (5, 6)
    lines = str(info).splitlines()
    assert lines[0] == "Values changed by 1 at most; 0 rows were added."
    assert lines[4].split() == ["1", "1", "/", "a", "sales", "5", "6", "+1"]


def test_a_frame_that_adds_up_has_no_changes():
    frame = pd.DataFrame({"shop": ["a", "b"], "sales": [1, 2]})
    _, info = gm.reconcile_frame(frame, ["shop"], "sales", return_info=True)
    assert (info.rows_added, info.largest_change, info.changes) == (1, 0, ())
    assert str(info) == "Values changed by 0 at most; 1 row was added."


@pytest.mark.parametrize("kind", KINDS)
def test_changes_of_large_whole_numbers_are_exact(kind):
    frame = MAKE[kind]({"shop": ["a", "b"], "sales": [2**53 + 1, 2]})
    _, info = gm.reconcile_frame(frame, ["shop"], "sales", return_info=True)
    assert info.largest_change == 1
    assert info.changes[0].before == 2**53 + 1
