"""Diagnostics of the values in DataFrames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from frames.kinds import KINDS, MAKE, kind_of, listed, names, shuffled
from frames.test_alignment import LEVELS, NODES, TREE, by_node

import gmtree as gm

FIGURES = ["measured", "reconciled", "residual", "standardized", "leave_one_out",
           "leave_one_out_std_error", "leverage"]  # fmt: skip
PATHS = list(zip(*NODES.values(), strict=True))
# The second county of the first state is wrong.
VALUES = [40.0, 26.0, 14.0, 12.0, 60.0, 14.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variance", [2.0, {"total": 1.0, "county": 3.0}])
def test_figures_are_those_of_the_tree(kind, variance):
    found = gm.diagnose_frame(MAKE[kind](by_node(4, VALUES)), LEVELS, "x", variance=variance)
    assert kind_of(found) == kind
    assert names(found) == [*LEVELS, *FIGURES]
    scale = variance if isinstance(variance, float) else [1.0, 1.0, 1.0, 3.0, 3.0, 3.0]
    d = gm.Consistency(TREE, scale).diagnose(VALUES)
    size = np.abs(listed(found, "standardized"))
    assert (np.diff(size) <= 0).all()
    paths = zip(*(listed(found, name) for name in LEVELS), strict=True)
    order = [PATHS.index(path) for path in paths]
    for name in FIGURES[1:]:
        np.testing.assert_array_equal(listed(found, name), getattr(d, name)[order])
    np.testing.assert_array_equal(listed(found, "measured"), np.array(VALUES)[order])


@pytest.mark.parametrize("kind", KINDS)
def test_each_group_is_compared_with_itself(kind):
    rng = np.random.default_rng(3)
    days = ["mon", "tue", "wed"]
    columns = {"day": [d for d in days for _ in PATHS]}
    columns |= {k: [path[i] for _ in days for path in PATHS] for i, k in enumerate(LEVELS)}
    columns["x"] = rng.normal(10, 3, len(columns["day"])).tolist()
    columns["v"] = rng.choice([1.0, 2.0, np.inf], len(columns["day"]), p=[0.5, 0.4, 0.1]).tolist()
    columns = shuffled(columns, 1)
    found = gm.diagnose_frame(MAKE[kind](columns), LEVELS, "x", variance="v", by="day")
    key = dict(zip(zip(listed(found, "day"), *(listed(found, k) for k in LEVELS), strict=True),
                   listed(found, "standardized"), strict=True))  # fmt: skip
    rows = list(zip(columns["day"], *(columns[k] for k in LEVELS), strict=True))
    for day in days:
        at = [rows.index((day, *path)) for path in PATHS]
        v, s = (np.array([columns[k][i] for i in at]) for k in ("x", "v"))
        z = gm.Consistency(TREE, {"node": s}).diagnose(v).standardized
        mine = np.array([key[(day, *path)] for path in PATHS], float)
        np.testing.assert_array_equal(mine, z)


def test_missing_values_come_last_and_have_estimates():
    frame = pd.DataFrame({"shop": [None, "a", "b"], "x": [np.nan, 2.0, 3.0]})
    found = gm.diagnose_frame(frame, ["shop"], "x")
    assert found.standardized.isna().all()  # no value is checked by the others
    assert found.reconciled.tolist() == [5.0, 2.0, 3.0]
    frame = pd.DataFrame({
        "state": ["n", "n", "n", "n", None], "town": ["x", "y", "z", None, None],
        "x": [2.0, 3.0, np.nan, 9.0, 9.5],
    })  # fmt: skip
    found = gm.diagnose_frame(frame, ["state", "town"], "x")
    assert found.measured.tolist()[:2] == [9.0, 9.5]
    assert found.reconciled.tolist()[-1] == pytest.approx(4.25)


def test_levels_in_the_index_and_types_are_kept():
    frame = pd.DataFrame(by_node(0, VALUES)).astype({"state": "category"})
    plain = gm.diagnose_frame(frame, LEVELS, "x", variance=1)
    assert plain.state.dtype == frame.state.dtype
    inside = gm.diagnose_frame(frame.set_index(LEVELS), LEVELS, "x", variance=1)
    np.testing.assert_array_equal(plain[FIGURES], inside[FIGURES])
    assert inside.county.fillna("").tolist() == plain.county.fillna("").tolist()


@pytest.mark.parametrize(
    ("columns", "options", "error", "words"),
    [
        ({"s": ["a", "b"], "x": [1, 2]}, {"value": ["x"]}, TypeError, "one column"),
        ({"measured": ["a", "b"], "x": [1, 2]}, {"levels": ["measured"]}, ValueError, "'measured'"),
        ({"s": ["a", "b"], "x": [1, np.inf]}, {}, ValueError, "'x' must be finite"),
        ({"s": ["a", "a"], "x": [1, 2]}, {}, ValueError, "each node once"),
        ({"s": ["a", "b"], "x": [1, 2]}, {"variance": -1}, ValueError, "'variance'"),
    ],
)
def test_bad_input_is_refused(columns, options, error, words):
    with pytest.raises(error, match=words):
        gm.diagnose_frame(pd.DataFrame(columns), **{"levels": ["s"], "value": "x", **options})
