"""Trees from columns of labels of any type, in any order."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from frames.kinds import KINDS, MAKE
from hypothesis import given
from hypothesis import strategies as st
from reference.frames import sums_by_path, tree_of_rows

import gmtree as gm

COLUMNS = {"state": ["NY", "VT", "NY"], "county": ["Albany", "Orange", "Orange"], "n": [3, 4, 5]}
LEVELS = ["state", "county"]

label = st.one_of(st.sampled_from("abc"), st.integers(-2, 2))
rows_of_labels = st.integers(1, 3).flatmap(
    lambda depth: st.lists(st.tuples(*[label] * depth), min_size=1, max_size=30)
)
ragged_rows = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 2)),
    min_size=1,
    max_size=20,
).map(
    lambda rows: [tuple(x if k < row[0] else None for k, x in enumerate(row[1:])) for row in rows]
)


def path(tree, i, rooted):
    """Labels from the first level down."""
    return tree.path(i) if rooted else tree.path(i)[1:]


@given(rows_of_labels)
def test_records_add_up_by_path(rows):
    tree, leaf = gm.Tree.from_records(*zip(*rows, strict=True))
    counts = tree.aggregate(np.bincount(leaf, minlength=tree.n_leaves))
    rooted = len({row[0] for row in rows}) == 1
    expected = sums_by_path(rows, [1] * len(rows))
    if rooted:
        del expected[()]
    assert {path(tree, i, rooted): counts[i] for i in range(tree.n)} == expected


@given(st.lists(st.tuples(label, label), min_size=1, max_size=20, unique=True), st.randoms())
def test_any_order_of_rows_gives_the_same_sums(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    values = np.arange(len(rows)) ** 2
    totals = []
    for chosen in (list(range(len(rows))), order):
        tree = gm.Tree.from_levels(*zip(*(rows[k] for k in chosen), strict=True))
        assert [tree.path(i)[-2:] for i in tree.leaves] == [rows[k] for k in chosen]
        x = tree.aggregate(values[chosen])
        totals.append({tree.path(i): x[i] for i in range(tree.n)})
    assert totals[0] == totals[1]


@given(ragged_rows)
def test_rows_may_stop_early(rows):
    paths, ends = tree_of_rows(rows)
    inner = {end[:k] for end in ends for k in range(len(end))}
    columns = list(zip(*rows, strict=True))
    columns = [c for c in columns if any(x is not None for x in c)]
    if any(end in inner for end in ends):
        with pytest.raises(ValueError, match="'levels' must end every row at a leaf; row"):
            gm.Tree.from_records(*columns, missing="stop")
        return
    tree, leaf = gm.Tree.from_records(*columns, missing="stop")
    rooted = len({row[0] for row in rows}) == 1
    assert {path(tree, i, rooted) for i in range(tree.n)} == paths - ({()} if rooted else set())
    assert [path(tree, tree.leaves[k], rooted) for k in leaf] == ends
    # Leaves are numbered by first appearance.
    assert list(dict.fromkeys(leaf.tolist())) == list(range(tree.n_leaves))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame(kind):
    tree = gm.Tree.from_levels(MAKE[kind](COLUMNS), levels=LEVELS)
    assert tree == gm.Tree.from_levels(COLUMNS, levels=LEVELS)
    assert tree.level_names == ("state", "county")
    assert tree.path(tree.leaves[1]) == ("total", "VT", "Orange")


@pytest.mark.parametrize(
    "make",
    [
        lambda x: pd.Series(x, dtype="category"),
        lambda x: pd.Series(x, dtype="string"),
        lambda x: pd.Series(x, dtype=object),
        lambda x: pd.Series(x, dtype=pd.ArrowDtype(pa.string())),
        lambda x: pd.Categorical(x),
        lambda x: pd.Index(x),
        lambda x: pl.Series(x),
        lambda x: pl.Series(x, dtype=pl.Categorical),
        lambda x: pl.Series(x, dtype=pl.Enum(["VT", "x", "NY", "Orange", "Albany"])),
        lambda x: pa.array(x),
        lambda x: pa.array(x).dictionary_encode(),
        lambda x: pa.chunked_array([x[:1], x[1:]]),
        np.array,
        tuple,
    ],
)
def test_columns_of_text(make):
    tree = gm.Tree.from_levels(make(COLUMNS["state"]), make(COLUMNS["county"]))
    assert tree == gm.Tree.from_levels(COLUMNS["state"], COLUMNS["county"])
    assert all(type(x) is str for x in tree.labels)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: pd.Series(x),
        lambda x: pd.Series(x, dtype="Int64"),
        lambda x: pd.Series(x, dtype="category"),
        lambda x: pl.Series(x, dtype=pl.Int16),
        lambda x: pa.array(x, pa.uint8()),
        lambda x: np.array(x, np.uint64),
        lambda x: np.array(x, np.int8),
    ],
)
def test_columns_of_whole_numbers(make):
    tree = gm.Tree.from_levels(make([2, 3, 2]), make([7, 7, 8]))
    assert tree.labels.tolist() == ["total", 2, 3, 7, 7, 8]
    assert all(type(x) is int for x in tree.labels[1:])
    assert tree.node((3, 7)) == 4


@pytest.mark.parametrize(
    "make",
    [
        lambda x: pd.Series(x),
        lambda x: pd.Series(x, dtype="Int64"),
        lambda x: pl.Series(x),
        lambda x: pa.array(x),
        list,
    ],
)
def test_missing_whole_numbers(make):
    big = 2**53 + 1
    with pytest.raises(ValueError, match="'level 1' must have no missing labels; row 1 has none"):
        gm.Tree.from_levels(["a", "b", "a"], make([7, None, 8]))
    tree = gm.Tree.from_levels(["a", "b", "a"], make([7, None, 8]), missing="stop")
    assert tree.labels.tolist() == ["total", "a", 7, "b", 8]
    assert all(type(x) is int for x in tree.labels[[2, 4]])
    if not isinstance(make([big]), (list, pd.Series)):
        tree = gm.Tree.from_levels(["a", "b"], make([big, None]), missing="stop")
        assert tree.node(big) == 2


def test_dates_in_every_kind():
    days = np.array(["2024-01-01", "2024-02-01"], "M8[us]")
    trees = [
        gm.Tree.from_levels(["a", "b"], x)
        for x in (days, pd.Series(days), pl.Series(days), pa.array(days))
    ]
    assert all(tree.labels.tolist() == trees[0].labels.tolist() for tree in trees)


def test_multi_index():
    index = pd.MultiIndex.from_arrays([COLUMNS["state"], COLUMNS["county"]], names=LEVELS)
    tree = gm.Tree.from_levels(index)
    assert tree == gm.Tree.from_levels(COLUMNS, levels=LEVELS)
    assert tree.level_names == ("state", "county")
    frame = pd.DataFrame({"n": COLUMNS["n"]}, index=index)
    assert gm.Tree.from_levels(frame, levels=LEVELS) == tree
    assert gm.Tree.from_levels(index.set_names([None, None])).level_names == ("level 0", "level 1")


@pytest.mark.parametrize("kind", KINDS)
def test_repeated_rows_are_refused_unless_they_are_records(kind):
    twice = {name: [*x, x[1]] for name, x in COLUMNS.items()}
    frame = MAKE[kind](twice)
    with pytest.raises(ValueError, match=r"row 3 repeats row 1: \('VT', 'Orange'\)"):
        gm.Tree.from_levels(frame, levels=LEVELS)
    tree, leaf = gm.Tree.from_records(frame, levels=LEVELS)
    assert leaf.tolist() == [0, 1, 2, 1]
    assert tree == gm.Tree.from_levels(COLUMNS, levels=LEVELS)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_labels_name_row_and_column(kind):
    frame = MAKE[kind]({"state": ["NY", None, "NY"], "county": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="'state' must have no missing labels; row 1"):
        gm.Tree.from_levels(frame, levels=LEVELS)
    with pytest.raises(ValueError, match="'county' must have no label below a missing one; row 1"):
        gm.Tree.from_levels(frame, levels=LEVELS, missing="stop")


def test_wrong_frames():
    frame = pd.DataFrame(COLUMNS)
    with pytest.raises(ValueError, match="'levels' must name columns of the frame, not 'town'"):
        gm.Tree.from_levels(frame, levels=["state", "town"])
    with pytest.raises(ValueError, match="'levels' must have distinct names; 'state'"):
        gm.Tree.from_levels(frame, levels=["state", "state"])
    with pytest.raises(ValueError, match="'missing' must be 'error' or 'stop'"):
        gm.Tree.from_levels(frame, levels=LEVELS, missing="drop")
    with pytest.raises(ValueError, match="'county' must have at least one label"):
        gm.Tree.from_levels(
            {"state": ["a", "b"], "county": [None, None]}, levels=LEVELS, missing="stop"
        )
    doubled = pd.concat([frame, frame[["state"]]], axis=1)
    with pytest.raises(ValueError, match="2 columns are named 'state'"):
        gm.Tree.from_levels(doubled, levels=LEVELS)
    shifted = frame.county.set_axis([2, 1, 0])
    with pytest.raises(ValueError, match="must have the same index"):
        gm.Tree.from_levels(frame.state, shifted)


def test_labels_are_kept_as_codes():
    n = 20_000
    frame = pd.DataFrame({"a": np.arange(n) // 100, "b": [f"name {k % 100}" for k in range(n)]})
    tree = gm.Tree.from_levels(frame.astype({"a": "category"}), levels=["a", "b"])
    assert not isinstance(tree._labels, np.ndarray)
    assert tree._labels.nbytes < 10 * n
    assert tree.path(tree.n - 1) == ("total", 199, "name 99")
    assert tree.labels[-1] == "name 99"
    assert tree.labels is tree.labels
    again = pickle.loads(pickle.dumps(tree))
    assert again == tree
    assert again.level_names == tree.level_names


@given(ragged_rows)
def test_other_numberings_keep_labels(rows):
    columns = [c for c in zip(*rows, strict=True) if any(x is not None for x in c)]
    try:
        tree, _ = gm.Tree.from_records(*columns, missing="stop")
    except ValueError:
        return
    canonical = tree.canonical()
    assert [canonical.path(r) for r in range(tree.n)] == [tree.path(i) for i in tree.order]
    if tree.height > 1:
        top = tree.k_order_subtree(1)
        assert [top.path(k) for k in range(top.n)] == [tree.path(i) for i in tree.internal]


def test_whole_numbers_too_large_for_integers_stay_floats_beside_missing_ones():
    rows = {"b": np.array([1.0, 2.0, 3.0]), "a": np.array([1e300, 2.0**60, np.nan])}
    tree = gm.Tree.from_levels(rows, missing="stop")
    assert tree.path(tree.n - 3) == ("total", 1, 1e300)
    assert tree.node(("total", 2, 2.0**60)) == tree.n - 2


def test_the_root_above_all_levels_is_called_total_everywhere():
    tree = gm.Tree.from_levels({"state": ["NY", "VT"]}, levels=["state"])
    assert tree.labels[0] == "total"
    plan = gm.plan(tree, epsilon=1)
    assert [line.name for line in plan.ledger.levels] == ["total", "state"]
    assert "  1 total " in str(plan)
    assert "  1 total " in str(plan.ledger)
    assert gm.Consistency(tree, {"total": 2.0}) is not None
    taken = gm.Tree.from_levels({"total": ["NY", "VT"]}, levels=["total"])
    assert [line.name for line in gm.plan(taken, epsilon=1).ledger.levels] == [None, "total"]
