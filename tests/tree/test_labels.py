"""Looking labels up: equal names on a path, dates and times, very large numbers."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from trees import trees

import gmtree as gm
from gmtree.labels import distinct, levels
from gmtree.labels.codes import Codes


def test_a_node_with_the_label_of_the_root_is_found_by_its_path():
    tree = gm.Tree.from_levels(["total", "total", "b"], ["total", "x", "total"])
    for i in range(tree.n):
        assert tree.node(tree.path(i)) == i
    assert tree.node(("total",)) == tree.root
    assert tree.node(("total", "x")) == tree.node(("total", "total", "x"))
    with pytest.raises(ValueError, match="several nodes have the label 'total'"):
        tree.node("total")


def test_a_path_from_the_root_comes_before_one_from_below_it():
    tree = gm.Tree.from_levels(["total", "x"], ["x", "y"])
    assert tree.path(tree.node(("total", "x"))) == ("total", "x")
    assert tree.path(tree.node(("total", "total", "x"))) == ("total", "total", "x")


@pytest.mark.parametrize("path", [(), ("total", "z"), ("b", "b", "b"), ("z", "total")])
def test_a_path_that_does_not_exist_is_refused(path):
    tree = gm.Tree.from_levels(["total", "b"], ["total", "x"])
    with pytest.raises(ValueError, match="Argument 'label' must be a label of this tree"):
        tree.node(path)


@given(trees(max_n=12), st.data())
def test_a_path_finds_its_node_where_no_other_has_it(tree, data):
    labels = data.draw(st.lists(st.sampled_from([None, "a", "b"]), min_size=tree.n))
    tree = gm.Tree.from_objects(tree.root, tree.children, label=labels.__getitem__)
    assume(tree.labels is not None)
    paths = [tree.path(i) for i in range(tree.n)]
    for i, path in enumerate(paths):
        if paths.count(path) == 1:
            assert tree.node(path) == i
        else:
            with pytest.raises(ValueError, match="have the same path"):
                tree.node(path)


def test_siblings_of_one_label_are_told_apart_by_numbers_only():
    tree = gm.Tree.from_newick("(a:1,a:2);")
    message = "'label' must identify one node; nodes 1, 2 have the same path, .* Use the number"
    for path in (("a",), (None, "a")):
        with pytest.raises(ValueError, match=message):
            tree.node(path)
    # Below such siblings, a path may still lead to one node.
    tree = gm.Tree.from_newick("((x,y)a,(z)a);")
    assert tree.node(("a", "x")) == 2
    assert tree.node((None, "a", "z")) == 5


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_dates_are_found_however_they_are_written(unit):
    days = np.array(["2020-02-01", "2020-02-02", "2020-02-03"], f"M8[{unit}]")
    tree = gm.Tree.from_levels(days)
    for spelling in (days[1], days[1].astype("M8[D]"), days[1].astype("M8[ns]")):
        assert tree.node(spelling) == tree.node((spelling,)) == 2
    assert tree.node(dt.date(2020, 2, 2)) == tree.node(dt.datetime(2020, 2, 2)) == 2
    with pytest.raises(ValueError, match="must be a label of this tree"):
        tree.node(np.datetime64("2020-02-04"))


def test_timestamps_of_pandas_are_found():
    pandas = pytest.importorskip("pandas", reason="looks up pandas' timestamps")
    tree = gm.Tree.from_levels(np.array(["2020-02-01", "2020-02-02"], "M8[D]"))
    assert tree.node(pandas.Timestamp("2020-02-02")) == 2


def test_months_and_durations_are_found():
    tree = gm.Tree.from_levels(np.array(["2020-02", "2020-03"], "M8[M]"))
    assert tree.node(np.datetime64("2020-03", "M")) == tree.node(dt.date(2020, 3, 1)) == 2
    tree = gm.Tree.from_levels(np.array([1, 90], "m8[m]"))
    assert tree.node(np.timedelta64(5400, "s")) == tree.node(dt.timedelta(hours=1.5)) == 2


@pytest.mark.parametrize(
    "column",
    [
        np.array(["12020-02-01", "12020-02-02"], "M8[D]"),
        np.array(["2020-02-01T00:00:00.000000001", "2020-02-02"], "M8[ns]"),
        np.array([1, 2], "m8[Y]"),
        np.array([10**12, 2], "m8[D]"),
    ],
)
def test_times_that_python_cannot_write_stay_times(column):
    tree = gm.Tree.from_levels(column)
    assert [tree.node(x) for x in column] == [1, 2]
    assert not any(type(x) is int for x in tree.labels[1:])
    edges = gm.Tree.from_edges(column, ["up", "up"])
    assert {edges.node(x) for x in column} <= set(edges.children(edges.root).tolist())


def test_units_that_hold_different_ranges_are_not_mixed_up():
    # As nanoseconds the year 12020 would wrap around to 2004.
    far = np.array(["12020-02-01", "12020-02-02"], "M8[D]")
    near = np.array(["2020-02-01T00:00:00.000000001"] * 2, "M8[ns]")
    tree = gm.Tree.from_edges(far, near)
    assert tree.node(near[0]) == tree.root
    assert sorted(tree.node(x) for x in far) == sorted(tree.leaves)


def test_a_day_and_its_midnight_are_one_label_in_two_columns():
    child = np.array(["2020-02-01T00:00:00.000000001", "2020-02-02"], "M8[ns]")
    parent = np.array(["2020-02-02", "2020-02-03"], "M8[D]")
    assert gm.Tree.from_edges(child, parent).height == 3


def test_integers_beyond_the_signed_range_stay_distinct_labels():
    large = np.array([2**63, 2**63 + 1, 2**64 - 1], np.uint64)
    tree = gm.Tree.from_edges(large, np.array([7, 7, 7]))
    assert sorted(tree.labels.tolist()) == [7, 2**63, 2**63 + 1, 2**64 - 1]
    assert tree.labels[tree.root] == 7
    tree = gm.Tree.from_edges(large, [-1, -1, -1])
    assert tree.node(2**63) != tree.root == tree.node(-1)
    # In 64 bits 2**64 - 1 and -1 are the same pattern, and 2**63 and -2**63.
    tree = gm.Tree.from_edges([2**63, 2**64 - 1], [-(2**63), -(2**63)])
    assert tree.n == 3
    assert tree.node(2**63) != tree.node(-(2**63))


def test_levels_of_integers_beyond_the_signed_range():
    large = np.array([2**63, 1, 2**64 - 1], np.uint64)
    tree = gm.Tree.from_levels(large, large[::-1])
    assert tree.labels.tolist() == ["total", 2**63, 1, 2**64 - 1, 2**64 - 1, 1, 2**63]
    for row, (state, county) in enumerate(zip(large, large[::-1], strict=True)):
        assert tree.node((int(state), int(county))) == 4 + row


def test_units_of_several_days_are_found():
    weeks = np.array(["2020-01-02", "2020-01-09"], "M8[7D]")
    tree = gm.Tree.from_levels(weeks)
    assert tree.node(weeks[1]) == tree.node(weeks[1].astype("M8[D]")) == 2


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_sorted_codes_make_the_same_tree(dtype):
    rng = np.random.default_rng(0)
    rows = np.unique(rng.integers(-5, 9, (300, 3)), axis=0).astype(dtype)
    ordered = gm.Tree.from_levels(*rows.T)
    order = rng.permutation(len(rows))
    mixed = gm.Tree.from_levels(*rows[order].T)
    # The same paths, whatever the numbers of the nodes are.
    assert {ordered.path(i) for i in range(ordered.n)} == {mixed.path(i) for i in range(mixed.n)}
    assert [ordered.path(int(i))[1:] for i in ordered.leaves] == [tuple(r) for r in rows.tolist()]
    # Repeated rows are found on both ways.
    with pytest.raises(ValueError, match="row 1 repeats row 0"):
        gm.Tree.from_levels(*rows[[0, 0, 1]].T)
    _, leaf = gm.Tree.from_records(*rows[[0, 0, 1, 2, 2]].T)
    assert leaf.tolist() == [0, 0, 1, 2, 2]


# --------------------------------------------------------------------------- hashing and sorting

TEXTS = st.text(st.sampled_from("ab\0é€𝄞"), max_size=3) | st.text(max_size=40)
LABELS = TEXTS | st.none() | st.floats(-2, 2) | st.integers(-2, 2) | st.booleans()


def factorize_slowly(labels: list) -> tuple[list[int], list[int]]:
    """Codes in the order of first appearance, -1 where a label is missing; where each appears."""
    seen: list = []
    codes = []
    for label in labels:
        if label is not None and label == label and label not in seen:
            seen.append(label)
        codes.append(seen.index(label) if label in seen else -1)
    return codes, [codes.index(c) for c in range(len(seen))]


@given(st.lists(TEXTS) | st.lists(LABELS))
def test_numbering_of_labels(labels):
    a = np.empty(len(labels), dtype=object)
    a[:] = labels
    codes, first = distinct.factorize("child", a)
    assert (codes.tolist(), first.tolist()) == factorize_slowly(labels)


@given(st.lists(st.text(max_size=40)), st.sampled_from("<>"), st.sampled_from([1, 2, -1]))
def test_numbering_of_texts_of_numpy(labels, byte_order, step):
    a = np.array(labels, dtype=f"{byte_order}U40")[::step]
    codes, first = distinct.factorize("child", a)
    assert (codes.tolist(), first.tolist()) == factorize_slowly(a.tolist())
    rank = distinct.by_sorted_label(a, first)
    assert rank.tolist() == np.argsort(np.argsort(a[first])).tolist()


@given(st.lists(TEXTS, unique=True) | st.lists(st.binary(max_size=9), unique=True))
def test_sorting_of_labels(labels):
    a = np.empty(len(labels), dtype=object)
    a[:] = labels
    rank = distinct.by_sorted_label(a, np.arange(a.size))
    assert rank.tolist() == [sorted(labels).index(label) for label in labels]


def test_texts_without_characters():
    codes, first = distinct.factorize("child", np.array(["", ""]))
    assert (codes.tolist(), first.tolist()) == ([0, 0], [0])
    tree = gm.Tree.from_edges(["a", "b"], ["", "a"])
    assert tree.labels.tolist() == ["", "a", "b"]


# --------------------------------------------------------------------------- hashing

GOLDEN = 0x9E3779B97F4A7C15


def unshifted(h: int, k: int) -> int:
    """The number x with ``x ^ (x >> k) == h``."""
    x = h
    for _ in range(64 // k + 1):
        x = h ^ (x >> k)
    return x


def prepared(n: int) -> np.ndarray:
    """Whole numbers whose hashes end in thirty zeros if the factors of the hash are fixed."""
    inverse = pow(GOLDEN, -1, 2**64)
    found = []
    for k in range(n):
        h = unshifted(k << 30, 32) * inverse % 2**64
        h = unshifted(h, 29) * inverse % 2**64
        found.append(unshifted(h, 32))
    return np.array(found, np.uint64).view(np.int64)


def test_nobody_can_prepare_labels_that_collide():
    """Hashes depend on a key that is random in each process; 1 - 1/e of the slots are used."""
    keys = prepared(1000)
    assert len(np.unique(distinct._hash(keys) & np.uint64(1023))) > 550
    texts = np.array([f"{k:x}" for k in keys])
    codes, first = distinct.factorize("labels", texts)
    np.testing.assert_array_equal(codes, np.arange(1000))
    np.testing.assert_array_equal(first, np.arange(1000))


@pytest.mark.parametrize("key", [(1, 1), (3, 2**64 - 1)])
def test_the_key_changes_no_result(monkeypatch, key):
    labels = np.random.default_rng(0).integers(-3, 4, (200, 2)) * 2**60
    columns = [labels[:, 0], labels[:, 1].astype(str)]
    before, leaf = gm.Tree.from_records(*columns)
    for module in (distinct, levels):
        monkeypatch.setattr(module, "KEY", np.array(key, np.uint64))
    after, again = gm.Tree.from_records(*columns)
    np.testing.assert_array_equal(again, leaf)
    assert after == before


@given(st.lists(st.tuples(st.sampled_from([-2, 0, 10**12]), st.integers(-2, 2)), max_size=30))
def test_distinct_rows_are_numbered_in_order_of_appearance(rows):
    columns = np.array(rows, np.int64).reshape(-1, 2).T
    number, first = levels.number_rows([Codes(c, None) for c in columns], len(rows))
    distinct_rows = list(dict.fromkeys(rows))
    assert number.tolist() == [distinct_rows.index(row) for row in rows]
    assert first.tolist() == [rows.index(row) for row in distinct_rows]
