"""Labels decide, never positions: shuffled, foreign, missing and repeated labels everywhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from frames.kinds import KINDS, MAKE, by_path, kind_of, listed, names, shuffled
from hypothesis import given
from hypothesis import strategies as st

import gmtree as gm

LEVELS = ["state", "county"]
LEAVES = {"state": ["NY", "NY", "VT"], "county": ["Albany", "Orange", "Orange"]}
NODES = {
    "state": [None, "NY", "VT", "NY", "NY", "VT"],
    "county": [None, None, None, "Albany", "Orange", "Orange"],
}
TREE = gm.Tree.from_levels(LEAVES, levels=LEVELS)
COUNTS = [3, 4, 5]
NOISY = [13.0, 6.0, 5.5, 2.5, 4.5, 5.0]
seeds = st.integers(0, 2**32 - 1)


def by_leaf(seed=None, counts=COUNTS):
    columns = {**LEAVES, "x": counts}
    return columns if seed is None else shuffled(columns, seed)


def by_node(seed=None, values=NOISY):
    columns = {**NODES, "x": values}
    return columns if seed is None else shuffled(columns, seed)


def series(columns):
    return pd.DataFrame(columns).set_index(LEVELS)["x"]


# Every function that takes a vector, as a function of that vector.
PER_LEAF = {
    "aggregate": lambda x: TREE.aggregate(x),
    "lower": lambda x: gm.Consistency(TREE).project(NOISY, lower=x),
    "leaf_sum_variance": lambda x: gm.Consistency(TREE).leaf_sum_variance(x),
    "range_rmse": lambda x: gm.queries.range_rmse(TREE, NOISY, x, [[0, 2]]),
}
PER_NODE = {
    "leaf_values": lambda v: TREE.leaf_values(v),
    "project": lambda v: gm.Consistency(TREE).project(v),
    "consistent": lambda v: gm.reconcile(TREE, v, nonnegative=True),
    "consistency_bias": lambda v: gm.consistency_bias(TREE, v),
    "variance": lambda v: gm.Consistency(TREE, v).node_variance(),
    "solve": lambda v: gm.GenerationMatrix(TREE).solve(v),
    "T.solve": lambda v: gm.GenerationMatrix(TREE).T.solve(v),
    "product": lambda v: gm.GenerationMatrix(TREE) @ v,
    "weights": lambda v: gm.GenerationMatrix(TREE, node_weight=v).toarray(),
    "distance": lambda v: TREE.distance(3, [4, 5], v),
    "range_sum": lambda v: gm.queries.range_sum(TREE, v, [[0, 2]]),
    "node_rmse": lambda v: gm.queries.node_rmse(v, NOISY),
    "boosting": lambda v: gm.baselines.boosting(TREE, v),
    "outline": lambda v: TREE.outline(v),
    "to_frame": lambda v: listed(TREE.to_frame(x=v), "x"),
    "to_newick": lambda v: TREE.to_newick(length=v),
}


def same(a, b):
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


@pytest.mark.parametrize("name", [*PER_LEAF, *PER_NODE])
def test_labelled_series_is_aligned_or_refused(name):
    """A Series with labels, in any order, gives the same numbers as the plain vector."""
    function = PER_LEAF.get(name) or PER_NODE[name]
    plain, table = (COUNTS, by_leaf) if name in PER_LEAF else (NOISY, by_node)
    if name == "leaf_sum_variance":
        plain = [True, False, True]
    expected = function(np.array(plain))
    results = []
    for seed in range(6):
        s = series(table(seed, plain))
        try:
            results.append(same(function(s), expected))
        except ValueError as error:
            assert "labels" in str(error)  # noqa: PT017
            results.append(None)
    assert len(set(results)) == 1
    assert results[0] in (True, None)
    # Without labels, the order is that of the tree.
    assert same(function(pd.Series(plain)), expected)
    assert same(function(pl.Series(plain)), expected)
    assert same(function(pa.array(plain)), expected)


# Bounds may be given for some nodes only.
ALIGNED_LEAF = ["aggregate", "leaf_sum_variance"]
ALIGNED_NODE = ["leaf_values", "project", "consistent", "variance", "solve", "T.solve", "to_frame"]


@pytest.mark.parametrize("name", [*ALIGNED_LEAF, *ALIGNED_NODE])
@pytest.mark.parametrize("kind", ["series", *KINDS])
def test_misaligned_labels_are_errors_that_name_them(name, kind):
    leaf = name in ALIGNED_LEAF
    function, table = (PER_LEAF[name], by_leaf) if leaf else (PER_NODE[name], by_node)
    plain = [True, False, True] if name == "leaf_sum_variance" else COUNTS if leaf else NOISY

    def given(columns):
        return series(columns) if kind == "series" else MAKE[kind](columns)

    columns = table(3, plain)
    assert same(function(given(columns)), function(np.array(plain)))
    k = columns["county"].index("Albany")
    without = {name: x[:k] + x[k + 1 :] for name, x in columns.items()}
    with pytest.raises(ValueError, match=r"must have a row for every .*; total / NY / Albany has"):
        function(given(without))
    twice = {name: [*x, x[k]] for name, x in columns.items()}
    with pytest.raises(ValueError, match=rf"rows {k} and .* belong to node \('NY', 'Albany'\)"):
        function(given(twice))
    foreign = {name: list(x) for name, x in columns.items()}
    foreign["county"][k] = "Alibi"
    with pytest.raises(ValueError, match=rf"row {k} has unknown labels: \('NY', 'Alibi'\)"):
        function(given(foreign))
    gap = {name: list(x) for name, x in columns.items()}
    gap["state"][k] = None
    with pytest.raises(ValueError, match="no label below a missing one; row"):
        function(given(gap))


def test_release_counts_are_aligned_and_errors_tell_no_label():
    r = gm.release(TREE, series(by_leaf(1, [10**6, 2 * 10**6, 3 * 10**6])), epsilon=10)
    assert r.values[TREE.leaves].round(-5).tolist() == [1e6, 2e6, 3e6]
    for change in ({"county": ["Albany", "Secret", "Orange"]}, {"county": ["Orange"] * 3}):
        with pytest.raises(ValueError, match="'counts' must have") as caught:
            gm.release(TREE, series(by_leaf() | change), epsilon=1)
        assert "Secret" not in str(caught.value)
        assert "NY" not in str(caught.value)


def test_whole_numbers_in_an_index_must_say_what_they_are():
    frame = pd.DataFrame(by_leaf())
    assert TREE.aggregate(frame.x).tolist() == [12, 7, 5, 3, 4, 5]
    with pytest.raises(ValueError, match="must have a named index if the whole numbers"):
        TREE.aggregate(frame.x[::-1])
    with pytest.raises(ValueError, match="must have an index named after 'state', 'county', not"):
        TREE.aggregate(frame.set_index(pd.Index([1, 2, 3], name="id")).x)
    numbered = gm.Tree.from_levels({"id": [7, 5, 6]}, levels=["id"])
    assert numbered.aggregate(
        pd.Series([6, 7, 5], index=pd.Index([6, 7, 5], name="id"))
    ).tolist() == [18, 7, 5, 6]
    bare = gm.shapes.star(4)
    with pytest.raises(ValueError, match="must have no labels, because the tree has no labels"):
        bare.aggregate(pd.Series([1, 2, 3], index=list("abc")))
    with pytest.raises(ValueError, match="'parent' must not have an index of labels"):
        gm.Tree.from_parents(pd.Series([-1, 0, 0], index=[2, 1, 0]))


def test_trees_of_edges_are_aligned_by_label():
    tree = gm.Tree.from_edges(["b", "c"], ["a", "a"])
    assert tree.aggregate(pd.Series({"c": 10, "b": 1})).tolist() == [11, 1, 10]
    assert tree.aggregate(pl.DataFrame({"label": ["c", "b"], "x": [10, 1]})).tolist() == [11, 1, 10]
    with pytest.raises(ValueError, match=r"row 0 has unknown labels: \('d'\)"):
        tree.aggregate(pd.Series({"d": 10, "b": 1}))


def test_several_columns_are_aligned_together():
    frame = pd.DataFrame({**by_leaf(2), "y": [1, 2, 3]})
    second = frame.set_index(LEVELS).y.to_dict()
    expected = [second[path] for path in zip(*LEAVES.values(), strict=True)]
    out = TREE.aggregate(frame)
    assert out[TREE.leaves].tolist() == np.column_stack([COUNTS, expected]).tolist()
    assert TREE.aggregate(frame.set_index(LEVELS)).tolist() == out.tolist()


# --------------------------------------------------------------------------- values


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_measurements_at_any_levels(kind, seed):
    states = MAKE[kind](shuffled({"state": ["NY", "VT"], "x": [7.0, 5.0], "v": [2.0, 3.0]}, seed))
    counties = MAKE[kind](shuffled({**LEAVES, "x": [3.0, None, 5.5], "v": [4.0, 5.0, 6.0]}, seed))
    m = TREE.align(
        {"state": states, "county": counties, "total": 11},
        value="x",
        variance={"state": "v", "county": "v"},
    )
    assert np.array_equal(m.values, [11, 7, 5, 3, np.nan, 5.5], equal_nan=True)
    assert m.variance.tolist() == [1, 2, 3, 4, np.inf, 6]
    consistent = gm.Consistency(TREE, m.variance).project(m.values)
    assert consistent[0] == pytest.approx(consistent[1] + consistent[2])
    long = TREE.align(MAKE[kind](by_node(seed)), variance={"county": 2.0, "total": 0.0})
    assert long.values.tolist() == NOISY
    assert long.variance.tolist() == [0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_measurements_by_a_label_alone(kind):
    albany = MAKE[kind]({"county": ["Albany"], "x": [3.0]})
    assert TREE.align({"county": albany}).values[3] == 3
    orange = MAKE[kind]({"county": ["Orange"], "x": [3.0]})
    with pytest.raises(ValueError, match=r"\('Orange'\), matches several nodes"):
        TREE.align({"county": orange})


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_measurements(kind):
    make = MAKE[kind]
    states = make({"state": ["NY", "VT"], "x": [7.0, 5.0]})
    with pytest.raises(ValueError, match=r"must have levels of the tree as keys .*, not 'town'"):
        TREE.align({"town": states})
    with pytest.raises(ValueError, match="must have a column 'county', for the labels"):
        TREE.align({"county": states})
    with pytest.raises(ValueError, match=r"row 1 has unknown labels: \('CA'\)"):
        TREE.align({"state": make({"state": ["NY", "CA"], "x": [7.0, 5.0]})})
    with pytest.raises(ValueError, match=r"rows 0 and 1 belong to node \('NY'\)"):
        TREE.align({"state": make({"state": ["NY", "NY"], "x": [7.0, 5.0]})})
    with pytest.raises(ValueError, match="must have nodes of level 'county' only; row 0"):
        TREE.align({"county": make(by_node())})
    with pytest.raises(ValueError, match="'value' must name the column of values, one of 'x', 'y'"):
        TREE.align(make({"state": ["NY"], "x": [1.0], "y": [2.0]}))
    with pytest.raises(ValueError, match="'variance' must not be negative or missing; row 1"):
        TREE.align(make({"state": ["NY", "VT"], "x": [1.0, 2.0], "v": [1.0, -2.0]}), variance="v")
    with pytest.raises(TypeError, match="'x' must hold real numbers"):
        TREE.align(make({"state": ["NY"], "x": ["many"]}))
    with pytest.raises(ValueError, match="must have a column of labels"):
        TREE.align(make({"x": [1.0]}))


def test_measurements_in_a_series():
    m = TREE.align(pd.Series({"VT": 5.0, "NY": 7.0}).rename_axis("state"), variance=2.0)
    assert np.array_equal(m.values, [np.nan, 7, 5, np.nan, np.nan, np.nan], equal_nan=True)
    grouped = pd.DataFrame(by_leaf(3)).groupby(LEVELS).x.sum()
    assert TREE.align(grouped).values[TREE.leaves].tolist() == COUNTS


# --------------------------------------------------------------------------- out


@pytest.mark.parametrize("kind", KINDS)
def test_to_frame_gives_the_kind_that_came_in(kind):
    tree = gm.Tree.from_levels(MAKE[kind](LEAVES), levels=LEVELS)
    frame = tree.to_frame(total=tree.aggregate(COUNTS))
    assert kind_of(frame) == kind
    assert names(frame) == ["node", "parent", "depth", *LEVELS, "total"]
    assert listed(frame, "state") == NODES["state"]
    assert listed(frame, "county") == NODES["county"]
    assert listed(frame, "parent") == tree.parent.tolist()
    # Each value finds its node again.
    assert TREE.align(frame, value="total").values.tolist() == tree.aggregate(COUNTS).tolist()
    assert kind_of(gm.release(tree, COUNTS, epsilon=1).to_frame()) == kind


@pytest.mark.parametrize("kind", KINDS)
def test_to_frame_of_numbers_dates_and_plain_labels(kind):
    days = np.array(["2024-01-01", "2024-02-01"], "M8[us]")
    tree = gm.Tree.from_levels([1, 2], days, levels=["depth", "day"])
    frame = tree.to_frame(backend=kind)
    assert names(frame) == ["node", "parent", "depth", "level_depth", "day"]
    assert listed(frame, "level_depth") == [None, 1, 2, 1, 2]
    assert [str(x)[:10] for x in listed(frame, "day")[3:]] == ["2024-01-01", "2024-02-01"]
    edges = gm.Tree.from_edges(["b", "c"], ["a", "a"]).to_frame(backend=kind)
    assert listed(edges, "label") == ["a", "b", "c"]
    assert "label" not in names(gm.shapes.star(3).to_frame(backend=kind))
    newick = gm.Tree.from_newick("(a,b);").to_frame(backend=kind)
    assert listed(newick, "label") == [None, "a", "b"]


def test_to_frame_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"'x' must have shape \(6,\), one per node"):
        TREE.to_frame(x=[1, 2])
    with pytest.raises(ValueError, match="'parent' must have another name"):
        TREE.to_frame(parent=NOISY)
    with pytest.raises(ValueError, match="'backend' must be 'pandas' or 'polars'"):
        TREE.to_frame(backend="excel")


@pytest.mark.parametrize("kind", KINDS)
def test_unmeasured_counts_are_missing_in_the_frame_of_a_release(kind):
    r = gm.release(TREE, COUNTS, epsilon=1, shares=[0, 1, 1])
    frame = r.to_frame(backend=kind)
    noisy = listed(frame, "noisy")
    assert noisy[0] is None
    assert noisy[1:] == r.noisy[1:].tolist()
    assert by_path(frame, LEVELS, "value")["NY", None] == r.values[1]


def test_an_unknown_label_is_not_that_of_a_node_without_a_name():
    tree = gm.Tree.from_newick("(a,b);")
    for label in ("c", None):
        x = pd.Series([1.0, 2.0, 3.0], index=pd.Index(["a", "b", label], name="label"))
        with pytest.raises(ValueError, match="row 2 has unknown labels"):
            tree.leaf_values(x)
