"""Constructors: arguments that they accept, errors for all others, and labels."""

from __future__ import annotations

import copy
import datetime
from fractions import Fraction
from importlib import import_module
from itertools import product
from pkgutil import iter_modules

import numpy as np
import pytest
import reference
import scipy.cluster.hierarchy
from hypothesis import assume, given
from hypothesis import strategies as st
from trees import parents

import gmtree as gm
from gmtree.labels import distinct

nx = pytest.importorskip("networkx", reason="graphs are among the inputs")
pd = pytest.importorskip("pandas", reason="frames are among the inputs")

# --------------------------------------------------------------------------- from parents


@pytest.mark.parametrize(
    ("parent", "error", "message"),
    [
        ([], ValueError, "must not be empty"),
        ([0], ValueError, r"must have a root \(.* node 0 is its own parent"),
        ([1, 0], ValueError, r"must have a root \(a node with parent -1\)"),
        ([-1, 0, 2, 0], ValueError, "must have no cycle; node 2 is its own parent"),
        ([-1, 0, 4, 2, 3], ValueError, "must have no cycle; node 2 .* 2 -> 4 -> 3 -> 2"),
        ([1, 2, 1, 0, -1], ValueError, "must have no cycle; node 1 .* 1 -> 2 -> 1"),
        ([-1, 0, -1, -1], ValueError, r"one root; nodes 0 and 2 .* \(3 nodes in all\)"),
        ([-1, -1], ValueError, "one root; nodes 0 and 1 have no parent"),
        ([-1, 0, 3], ValueError, "node numbers below 3; node 2 has parent 3"),
        ([-1, -2, 7], ValueError, "node numbers below 3; node 1 has parent -2"),
        (np.array([2**63, 0], np.uint64), ValueError, "node 0 has parent 9223372036854775808"),
        ([-1.0, 0.0], TypeError, "must hold integers .* float64"),
        ([False, True], TypeError, "must hold integers .* bool"),
        (["-1", "0"], TypeError, "must hold integers"),
        ([None, 0], TypeError, "must hold integers"),
        ([-1, 2**70], TypeError, "must hold integers"),
        ([[-1, 0]], ValueError, r"one-dimensional, not have shape \(1, 2\)"),
        ([[-1], [0, 1]], ValueError, "must be an array"),
        (-1, ValueError, "one-dimensional"),
        (None, ValueError, "one-dimensional"),
        ("parent", ValueError, "one-dimensional"),
        ({-1: 0}, ValueError, "one-dimensional"),
    ],
)
def test_parents_that_are_no_tree(parent, error, message):
    before = copy.deepcopy(parent)
    with pytest.raises(error, match=f"Argument 'parent' must .*{message.removeprefix('must ')}"):
        gm.Tree.from_parents(parent)
    np.testing.assert_array_equal(np.array(parent, object), np.array(before, object))


def test_a_long_cycle_is_cut_short():
    cycle = np.roll(np.arange(1, 101), 1)
    with pytest.raises(ValueError, match=r"1 -> 100 -> 99 .* -> \.\.\. \(100 nodes\)"):
        gm.Tree.from_parents([-1, *cycle])


def on_a_cycle(parent: list[int], i: int) -> bool:
    node = parent[i]
    for _ in parent:
        if node in (i, -1):
            break
        node = parent[node]
    return node == i


def check_parents_in_range(parent: list[int]) -> None:
    """Parents make a tree if and only if there is one root and no node is its own ancestor."""
    cyclic = [i for i in range(len(parent)) if on_a_cycle(parent, i)]
    roots = [i for i, p in enumerate(parent) if p == -1]
    if len(roots) == 1 and not cyclic:
        tree = gm.Tree.from_parents(parent)
        assert tree.order.tolist() == reference.canonical_order(parent)
        return
    with pytest.raises(ValueError, match="Argument 'parent' must") as caught:
        gm.Tree.from_parents(parent)
    if len(roots) > 1:
        assert f"nodes {roots[0]} and {roots[1]} have no parent" in str(caught.value)
    elif roots:
        assert f"node {cyclic[0]} is its own" in str(caught.value)


@pytest.mark.parametrize("n", range(1, 6))
def test_all_parents_in_range(n):
    for parent in product(range(-1, n), repeat=n):
        check_parents_in_range(list(parent))


@given(
    st.integers(6, 12).flatmap(lambda n: st.lists(st.integers(-1, n - 1), min_size=n, max_size=n))
)
def test_any_parents_in_range(parent):
    check_parents_in_range(parent)


FORMS = {
    "int8": lambda p: p.astype(np.int8),
    "int16": lambda p: p.astype(np.int16),
    "int32": lambda p: p.astype(np.int32),
    "big-endian": lambda p: p.astype(">i8"),
    "strided": lambda p: np.repeat(p, 3)[::3],
    "backwards": lambda p: p[::-1].copy()[::-1],
    "column of a matrix": lambda p: np.stack([p, p], axis=1)[:, 0],
    "read-only": lambda p: np.frombuffer(p.tobytes(), p.dtype),
    "unaligned": lambda p: np.frombuffer(b"x" + p.tobytes(), p.dtype, p.size, 1),
    "list": lambda p: p.tolist(),
    "tuple": lambda p: tuple(p.tolist()),
    "series": lambda p: pd.Series(p, index=range(len(p))),
}


@pytest.mark.parametrize("form", FORMS)
@given(parent=parents(max_n=12))
def test_forms_of_parents(form, parent):
    given_parent = FORMS[form](parent)
    tree = gm.Tree.from_parents(given_parent)
    np.testing.assert_array_equal(tree.parent, parent)
    np.testing.assert_array_equal(tree.order, reference.canonical_order(parent))
    np.testing.assert_array_equal(np.asarray(given_parent), parent)
    assert tree.parent.dtype == np.int32
    assert tree.parent.dtype.isnative
    assert tree.parent.flags.c_contiguous


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (["a", "b"], ValueError, r"have one label per node \(3\), not 2"),
        (["a", "b", "a"], ValueError, "be distinct; node 2 repeats the label 'a'"),
        ([7, 7, 7], ValueError, "be distinct; node 1 repeats the label 7"),
        (["a", None, None], ValueError, "no missing labels; node 1 has none"),
        ([1.5, float("nan"), 2], ValueError, "no missing labels; node 1 has none"),
        (["a", "b", float("nan")], ValueError, "no missing labels; node 2 has none"),
        (np.array(["2020", "NaT", "NaT"], "M8[D]"), ValueError, "no missing labels; node 1"),
        ([["a"], ["b"], ["c"]], TypeError, "hashable labels; row 0 holds a list"),
        (np.zeros((3, 1)), ValueError, r"one-dimensional, not have shape \(3, 1\)"),
        (5, ValueError, "one-dimensional"),
        ("abc", ValueError, "one-dimensional"),
    ],
)
def test_wrong_labels(labels, error, message):
    with pytest.raises(error, match=f"Argument 'labels' must .*{message}"):
        gm.Tree.from_parents([-1, 0, 0], labels=labels)


# --------------------------------------------------------------------------- labels

DAY = datetime.datetime(2020, 1, 2)
LABELS = {
    "strings": ["x", "", "z"],
    "bytes": [b"x", b"\xff", b"z"],
    "integers": [5, -7, 0],
    "beyond 64 bits": [2**70, 1, -(2**80)],
    "across 63 bits": [2**63 + 1, -1, 2**63],
    "floats": [0.5, -1.0, float("inf")],
    "mixed": ["1", 1, 2.5],
    "bytes and strings": [b"x", "x", "y"],
    "tuples": [("a", 1), ("a", 2), ("b", 1)],
    "ragged tuples": [(), ("a",), ("a", "b")],
    "fractions": [Fraction(1, 2), Fraction(1, 3), Fraction(0)],
    "dates": [datetime.date(2020, 1, d) for d in (3, 1, 2)],
    "complex": [1j, 2, 0],
    "booleans": [True, False],
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_lead_back_to_nodes(kind):
    labels = LABELS[kind]
    n = len(labels)
    tree = gm.Tree.from_parents([-1, *[0] * (n - 1)], labels=labels)
    edges = gm.Tree.from_edges(labels[1:], [labels[0]] * (n - 1))
    graph = nx.DiGraph([(labels[0], label) for label in labels[1:]])
    levels = gm.Tree.from_levels(labels)
    for t in (tree, edges, gm.Tree.from_networkx(graph), levels):
        for label in labels:
            assert t.path(t.node(label))[-1] == label
    assert edges.labels[edges.root] == labels[0]
    assert tree.path(1) == (labels[0], labels[1])


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_times_as_labels(unit):
    times = np.array(["2020-01-02", "2021-03-04"], f"M8[{unit}]")
    tree = gm.Tree.from_edges(times[:1], times[1:])
    wanted = DAY.date() if unit == "D" else DAY
    assert tree.node(wanted) == 0
    assert tree.path(0)[-1] == wanted
    frame = pd.DataFrame({"day": pd.Series(times).astype(f"M8[{unit if unit != 'D' else 's'}]")})
    tree = gm.Tree.from_levels(frame)
    assert tree.path(1) == ("total", DAY)
    assert tree.node(pd.Timestamp(DAY)) == 1
    lengths = np.array([3000, 1000], f"m8[{unit}]")
    tree = gm.Tree.from_parents([-1, 0], labels=lengths)
    assert tree.node(lengths[1].astype("m8[us]").item()) == 1


def test_times_too_fine_for_python_stay_apart():
    times = np.array([0, 1, 2], "M8[ns]")
    tree = gm.Tree.from_edges(times[1:], times[[0, 0]])
    assert {tree.node(x) for x in times} == {0, 1, 2}


def test_node_refuses():
    plain = gm.Tree.from_parents([-1, 0])
    with pytest.raises(ValueError, match=r"Argument 'label' .* has no labels"):
        plain.node("a")
    tree = gm.Tree.from_parents([-1, 0], labels=["a", "b"])
    for label in ("c", 0, ("a", "c"), ("c",), (), ("b", "a"), None, float("nan")):
        with pytest.raises(ValueError, match="Argument 'label' must be a label of this tree"):
            tree.node(label)
    for label in (["a"], {"a"}, ("a", ["b"])):
        with pytest.raises(TypeError, match="Argument 'label' must be hashable"):
            tree.node(label)


@pytest.mark.parametrize("name", [x for x in dir(gm.Tree) if x.startswith("from_")])
def test_help_names_every_constructor(name):
    assert f":meth:`{name}`" in gm.Tree.__doc__


PAGES = [page for page in iter_modules(gm.guide.__path__) if page.name != "__main__"]


def test_the_map_leads_to_what_is_no_public_name_of_its_own():
    names = ["from_networkx", "to_newick", "Tree.align", "bootstrap", "plan ("]
    pages = [gm, gm.privacy, *(import_module(f"gmtree.guide.{p.name}") for p in PAGES)]
    map_and_guide = "".join(page.__doc__ for page in pages)
    for name in [*names, "temporal", "crossed"]:
        assert name in map_and_guide


def test_labels_are_copied():
    labels = np.array(["a", "b"], object)
    tree = gm.Tree.from_parents([-1, 0], labels=labels)
    labels[0] = "z"
    assert tree.labels.tolist() == ["a", "b"]
    assert tree.node("a") == 0


# --------------------------------------------------------------------------- from edges


@given(
    parents(max_n=15), st.randoms(use_true_random=False), st.sampled_from(["int", "str", "tuple"])
)
def test_edges_in_any_order(parent, random, kind):
    name = {"int": lambda i: i, "str": lambda i: f"{i:03}", "tuple": lambda i: (i // 4, i % 4)}[
        kind
    ]
    rows = [(name(i), name(p)) for i, p in enumerate(parent) if p >= 0]
    random.shuffle(rows)
    assume(rows)
    child, above = [c for c, _ in rows], [p for _, p in rows]
    tree = gm.Tree.from_edges(child, above)
    # Numbers follow the sorted labels, so nodes keep their numbers.
    assert tree.labels.tolist() == [name(i) for i in range(len(parent))]
    np.testing.assert_array_equal(tree.parent, parent)
    assert [tree.node(name(i)) for i in range(tree.n)] == list(range(tree.n))
    with_root = gm.Tree.from_edges([name(reference.root(parent)), *child], [None, *above])
    np.testing.assert_array_equal(with_root.parent, parent)
    for i in range(tree.n):
        path = tuple(name(a) for a in reference.ancestors(parent, i)[::-1])
        assert tree.path(i) == path
        if kind != "tuple":
            assert tree.node(path) == i


def test_labels_that_cannot_be_sorted_are_numbered_as_they_appear():
    tree = gm.Tree.from_edges(["b", 3], [3, "a"])
    assert tree.labels.tolist() == ["b", 3, "a"]
    assert tree.parent.tolist() == [1, 2, -1]


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA, pd.NaT])
def test_a_missing_parent_marks_the_root(missing):
    assert gm.Tree.from_edges(["a", "b"], [missing, "a"]).parent.tolist() == [-1, 0]
    assert gm.Tree.from_edges([1, 2], [missing, 1]).parent.tolist() == [-1, 0]
    assert gm.Tree.from_edges(["only"], [missing]).n == 1
    with pytest.raises(ValueError, match="Argument 'child' must have no missing labels; row 1"):
        gm.Tree.from_edges(["a", missing], ["b", "b"])


def test_edges_from_a_frame():
    frame = pd.DataFrame({"child": [2, 3, 1], "parent": [1, 1, None]}, index=[7, 8, 9])
    tree = gm.Tree.from_edges(frame["child"], frame["parent"])
    assert tree.labels.tolist() == [1, 2, 3]
    assert tree.parent.tolist() == [-1, 0, 0]
    text = frame.astype({"child": "string"}).child
    parent = pd.Series(["1", "1", None], index=text.index)
    tree = gm.Tree.from_edges(text, parent)
    assert tree.labels.tolist() == ["1", "2", "3"]
    category = gm.Tree.from_edges(text.astype("category"), parent)
    assert category == tree


def test_labels_do_not_merge_on_the_way_to_a_common_type():
    near = 2**53
    tree = gm.Tree.from_edges([near + 1, near], [0.5, 0.5])
    assert tree.n == 3
    tree = gm.Tree.from_edges(np.array([2**63, 2**63 + 1], np.uint64), np.array([-1, -1]))
    assert tree.labels.tolist() == [-1, 2**63, 2**63 + 1]
    assert gm.Tree.from_edges([1, 2], ["1", "1"]).n == 3
    assert gm.Tree.from_edges([0.0], [-1.0]).node(-0.0) == 1
    with pytest.raises(ValueError, match=r"'child' must have each node once.*in rows 0 and 1"):
        gm.Tree.from_edges([0.0, -0.0], [1.0, 1.0])


@pytest.mark.parametrize(
    ("child", "parent", "error", "message"),
    [
        (["a", "b", "a"], ["r", "r", "b"], ValueError, "'child' .* 'a' is in rows 0 and 2"),
        (["a", "b"], ["r"], ValueError, r"'parent' must be as long as 'child' \(2\), not 1"),
        ([], [], ValueError, "'child' must not be empty"),
        (["a", "b"], ["x", "y"], ValueError, r"'parent' .* nodes 2 \('x'\) and 3 \('y'\)"),
        (["a", "b"], ["b", "a"], ValueError, "'parent' must have a root"),
        (["a"], ["a"], ValueError, r"'parent' must have a root.* node 0 \('a'\) is its own parent"),
        (
            ["a", "b", "c"],
            ["b", "a", "r"],
            ValueError,
            r"'parent' .* node 0 \('a'\).*: 0 -> 1 -> 0",
        ),
        (["a", None], ["r", "r"], ValueError, "'child' must have no missing labels; row 1"),
        ([["a"]], ["r"], TypeError, "'child' must hold hashable labels; row 0 holds a list"),
        (["a"], [{"r": 1}], TypeError, r"'parent' must hold hashable labels; row 0"),
        (np.zeros((2, 2)), [1, 2], ValueError, "'child' must be one-dimensional"),
        ("ab", "cd", ValueError, "'child' must be one-dimensional"),
        (None, None, ValueError, "'child' must be one-dimensional"),
    ],
)
def test_edges_that_are_no_tree(child, parent, error, message):
    with pytest.raises(error, match=f"Argument {message}"):
        gm.Tree.from_edges(child, parent)


# --------------------------------------------------------------------------- from levels


@st.composite
def level_tables(draw) -> list[tuple]:
    """Distinct rows of labels, one per leaf."""
    depth = draw(st.integers(1, 4))
    row = st.tuples(*[st.integers(0, 2)] * depth)
    return draw(st.lists(row, min_size=1, max_size=12, unique=True))


@given(level_tables())
def test_levels(rows):
    columns = list(zip(*rows, strict=True))
    tree = gm.Tree.from_levels(*columns)
    paths = [("total", *row) for row in rows]
    if len(set(columns[0])) == 1:
        paths = list(rows)
    prefixes = {p[:k] for p in paths for k in range(1, len(p) + 1)}
    assert tree.n == len(prefixes)
    assert {tree.path(i) for i in range(tree.n)} == prefixes
    for j, path in enumerate(paths):
        leaf = tree.n - len(rows) + j
        assert tree.path(leaf) == path
        assert tree.node(path) == leaf
        assert tree.node(rows[j]) == leaf
    assert tree.n_leaves == len(rows)
    assert np.all(tree.depth[tree.leaves] == len(paths[0]))
    # Inner nodes level by level, in order of appearance.
    inner = list(dict.fromkeys(p[:k] for k in range(1, len(paths[0])) for p in paths))
    assert [tree.path(i) for i in range(len(inner))] == inner
    text = gm.Tree.from_levels(*[[str(x) for x in c] for c in columns])
    np.testing.assert_array_equal(text.parent, tree.parent)


def test_levels_from_frames():
    columns = {"state": ["NY", "NY", "VT"], "county": ["Albany", "Orange", "Orange"]}
    frame = pd.DataFrame({"people": [1, 2, 3], **columns}, index=[5, 3, 5])
    expected = gm.Tree.from_levels(*columns.values())
    assert expected.level_names == ("level 0", "level 1")
    for tree in (
        gm.Tree.from_levels(frame, levels=["state", "county"]),
        gm.Tree.from_levels(frame, levels=("state", "county")),
        gm.Tree.from_levels(frame[["state", "county"]]),
        gm.Tree.from_levels(columns, levels=["state", "county"]),
        gm.Tree.from_levels(columns),
        gm.Tree.from_levels(frame.astype("category"), levels=["state", "county"]),
        gm.Tree.from_levels(frame.astype("string"), levels=["state", "county"]),
        gm.Tree.from_levels(*columns.values(), levels=["state", "county"]),
    ):
        assert tree == expected
        assert tree.level_names == ("state", "county")
    assert frame.columns.tolist() == ["people", "state", "county"]


def test_a_label_of_several_nodes_needs_a_path():
    tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
    assert tree.node("Albany") == 3
    with pytest.raises(ValueError, match=r"several nodes have the label 'Orange'\. Pass a path"):
        tree.node("Orange")
    assert tree.node(("VT", "Orange")) == tree.node(("total", "VT", "Orange")) == 5
    assert tree.node("total") == tree.node(("total",)) == 0
    named = gm.Tree.from_levels(["total", "b"], ["total", "total"])
    assert named.node(("total", "total")) == 1
    assert named.path(named.node(("total", "total", "total"))) == ("total",) * 3


def test_one_row():
    assert gm.Tree.from_levels(["a"]).n == 1
    tree = gm.Tree.from_levels(["a"], ["b"], ["c"])
    assert tree.path(2) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("columns", "levels", "error", "message"),
    [
        ((["a", "b"], ["c", None]), None, ValueError, "'level 1' .* row 1 has none. With missing="),
        ((["a", "b"], ["c", float("nan")]), ["x", "y"], ValueError, "'y' .* row 1 has none"),
        ((["a", "b"], ["c"]), None, ValueError, r"'level 1' .* rows as 'level 0' \(2\), not 1"),
        ((["a", "a"], ["c", "c"]), None, ValueError, "'levels' .* row 1 repeats row 0: .'a', 'c'."),
        ((["a", "a"],), None, ValueError, "'levels' .* row 1 repeats row 0"),
        ((["a", "b", "a"],), None, ValueError, "'levels' .* row 2 repeats row 0: .'a'."),
        ((), None, ValueError, "'levels' must give at least one level"),
        (([],), None, ValueError, "'level 0' must not be empty"),
        ((["a"], ["b"]), ["x"], ValueError, r"'levels' must have one name per column \(2\), not 1"),
        (({"x": ["a"]},), ["y"], ValueError, "'levels' must name columns of the frame, not 'y'"),
        (({"x": ["a"]},), [["x"]], TypeError, "'levels' must be the name of a column"),
        (({"x": ["a"]},), [], ValueError, "'levels' must give at least one level"),
        (({},), None, ValueError, "'levels' must give at least one level"),
        (({"x": ["a"]},), "x", TypeError, "'levels' must be a list of column names, not 'x'"),
        (({"x": ["a"]},), 5, TypeError, "'levels' must be a list of column names, not 5"),
        ((np.zeros((2, 2)),), None, ValueError, "'level 0' must be one-dimensional"),
        (("abc",), None, ValueError, "'level 0' must be one-dimensional"),
        (([["a"], ["b"]],), None, TypeError, "'level 0' must hold hashable labels; row 0"),
        ((None,), None, ValueError, "'level 0' must be one-dimensional"),
    ],
)
def test_wrong_levels(columns, levels, error, message):
    with pytest.raises(error, match=f"Argument {message}"):
        gm.Tree.from_levels(*columns, levels=levels)


def test_missing_labels_in_frames():
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["z", None]})
    for f in (frame, frame.astype("string"), frame.astype("category")):
        with pytest.raises(ValueError, match=r"Argument 'b' .* row 1 has none"):
            gm.Tree.from_levels(f)
    with pytest.raises(ValueError, match=r"Argument 'levels' must name columns .* 'c'"):
        gm.Tree.from_levels(frame, levels=["a", "c"])


# --------------------------------------------------------------------------- from linkage


@pytest.mark.parametrize("method", ["single", "average", "ward"])
@pytest.mark.parametrize("m", [2, 3, 40])
def test_linkage(method, m):
    points = np.random.default_rng(m).standard_normal((m, 2))
    Z = scipy.cluster.hierarchy.linkage(points, method)
    before = Z.copy()
    tree = gm.Tree.from_linkage(Z)
    np.testing.assert_array_equal(Z, before)
    assert tree.n == 2 * m - 1
    assert tree.root == 2 * m - 2
    sizes = tree.aggregate(np.ones(m, int))
    np.testing.assert_array_equal(sizes[m:], Z[:, 3])
    for k in range(m - 1):
        assert tree.children(m + k).tolist() == sorted(Z[k, :2].astype(int).tolist())
    assert gm.Tree.from_linkage(Z.tolist()) == tree


@pytest.mark.parametrize(
    ("Z", "error", "message"),
    [
        ([[0, 2, 1, 2]], ValueError, "row 0 joins 0 and 2, but .* are 0 to 1"),
        ([[0, -1, 1, 2]], ValueError, "row 0 joins 0 and -1"),
        ([[0, 0.5, 1, 2]], ValueError, "row 0 joins 0 and 0.5"),
        ([[0, np.nan, 1, 2]], ValueError, "row 0 joins 0 and nan"),
        ([[np.inf, 1, 1, 2]], ValueError, "row 0 joins inf and 1"),
        ([[0, 0, 1, 2]], ValueError, "row 0 joins 0 again"),
        ([[0, 1, 1, 2], [1, 2, 1, 2]], ValueError, "row 1 joins 1 again"),
        ([[0, 1, 1]], ValueError, r"shape .*, not \(1, 3\)"),
        (np.zeros((0, 4)), ValueError, r"shape .*, not \(0, 4\)"),
        ([0, 1, 1, 2], ValueError, r"shape .*, not \(4,\)"),
        ([["0", "1", "1", "2"]], TypeError, "must hold real numbers"),
        ([[0, 1j, 1, 2]], TypeError, "must hold real numbers"),
        ([[0, None, 1, 2]], TypeError, "must hold real numbers"),
        ([[0, 1, 1, 2], [0]], ValueError, "must be an array"),
        (None, TypeError, "must hold real numbers"),
    ],
)
def test_wrong_linkage(Z, error, message):
    with pytest.raises(error, match=f"Argument 'Z' must .*{message.removeprefix('must ')}"):
        gm.Tree.from_linkage(Z)


# --------------------------------------------------------------------------- from networkx


@given(parents(max_n=15), st.booleans())
def test_networkx(parent, multi):
    graph = nx.MultiDiGraph() if multi else nx.DiGraph()
    graph.add_nodes_from(f"n{i}" for i in range(len(parent)))
    graph.add_edges_from((f"n{p}", f"n{i}") for i, p in enumerate(parent) if p >= 0)
    tree = gm.Tree.from_networkx(graph)
    np.testing.assert_array_equal(tree.parent, parent)
    assert tree.labels.tolist() == list(graph.nodes)


def test_networkx_that_is_no_tree():
    refuse = [
        (nx.DiGraph([(0, 1), (2, 1)]), ValueError, "node 1 has two parents"),
        (nx.DiGraph([(0, 1), (1, 0)]), ValueError, "must have a root"),
        (nx.DiGraph([("r", "s"), ("a", "b"), ("b", "a")]), ValueError, r"node 2 \('a'\)"),
        (nx.DiGraph([(0, 1), (2, 3)]), ValueError, "must have one root"),
        (nx.DiGraph(), ValueError, "must not be empty"),
        (nx.MultiDiGraph([(0, 1), (0, 1)]), ValueError, "node 1 has two parents"),
        (nx.Graph([(0, 1)]), TypeError, "must be directed"),
        ({0: [1]}, TypeError, "must be a networkx DiGraph, not dict"),
        (None, TypeError, "must be a networkx DiGraph, not NoneType"),
    ]
    for graph, error, message in refuse:
        with pytest.raises(error, match=f"Argument 'graph' must .*{message.removeprefix('must ')}"):
            gm.Tree.from_networkx(graph)
    graph = nx.DiGraph()
    graph.add_node("alone")
    assert gm.Tree.from_networkx(graph).n == 1


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph])
def test_networkx_with_attributes(kind):
    graph = kind([("r", "a", {"weight": 2, "km": 5.5}), ("r", "b", {"km": "7"})])
    graph.nodes["a"].update(label="A", name="Anna")
    tree = gm.Tree.from_networkx(graph)
    assert tree.labels.tolist() == ["r", "A", "b"]
    np.testing.assert_array_equal(tree.edge_length, [0, 2, np.nan])
    tree = gm.Tree.from_networkx(graph, label="name", length="km")
    assert tree.labels.tolist() == ["r", "Anna", "b"]
    assert tree.edge_length.tolist() == [0, 5.5, 7]
    tree = gm.Tree.from_networkx(graph, label=None, length=None)
    assert tree.labels.tolist() == ["r", "a", "b"]
    assert tree.edge_length is None


def test_networkx_with_wrong_attributes():
    graph = nx.DiGraph([(0, 1, {"weight": "heavy"})])
    with pytest.raises(
        ValueError, match=r"'length' must .* holds numbers; the 'weight' .* is 'heavy'"
    ):
        gm.Tree.from_networkx(graph)
    assert gm.Tree.from_networkx(graph, length=None).edge_length is None
    for wrong in ("label", "length"):
        with pytest.raises(TypeError, match=f"'{wrong}' must be the name of an attribute, or None"):
            gm.Tree.from_networkx(graph, **{wrong: 3})
    graph.nodes[1]["label"] = []
    with pytest.raises(TypeError, match="'label' must hold hashable labels; row 1"):
        gm.Tree.from_networkx(graph, length=None)


# --------------------------------------------------------------------------- numbering of labels


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-4, 4), min_size=1, max_size=60),
)
def test_factorize_integers(keys):
    codes, first = distinct.factorize("x", np.array(keys, np.int64))
    expected_codes, expected_first = reference.factorize(keys)
    assert codes.tolist() == expected_codes
    assert first.tolist() == expected_first


@given(
    st.lists(st.sampled_from([None, "a", "b", "cc", 1, 2.5, ("t",), float("nan")]), min_size=1),
    st.booleans(),
)
def test_factorize_objects_with_gaps(labels, as_times):
    present = [k for k, x in enumerate(labels) if x is not None and x == x]
    column = np.empty(len(labels), object)
    column[:] = labels
    expected_codes, expected_first = reference.factorize([labels[k] for k in present])
    codes, first = distinct.factorize("x", column)
    assert codes[present].tolist() == expected_codes
    assert np.count_nonzero(codes < 0) == len(labels) - len(present)
    assert first.tolist() == [present[k] for k in expected_first]
    numbers = np.full(len(labels), np.nan)
    numbers[present] = expected_codes
    if as_times:
        numbers = np.where(np.isnan(numbers), np.datetime64("NaT", "s"), numbers.astype("M8[s]"))
    codes, first = distinct.factorize("x", numbers)
    assert codes[present].tolist() == expected_codes
    assert first.tolist() == [present[k] for k in expected_first]


ALIKE = {
    "multiples of a power of two": (np.arange(3000, dtype=np.int64) % 1500) << 50,
    "whole numbers as floats": (np.arange(3000.0) % 1500).view(np.int64),
    "days in nanoseconds": (np.arange(3000) % 1500) * (86_400 * 10**9),
}


@pytest.mark.parametrize("kind", ALIKE)
def test_factorize_keys_that_are_alike(kind):
    keys = ALIKE[kind]
    codes, first = distinct.factorize("x", keys)
    np.testing.assert_array_equal(codes, np.arange(3000) % 1500)
    np.testing.assert_array_equal(first, np.arange(1500))


@pytest.mark.parametrize("kind", ALIKE)
def test_keys_that_are_alike_are_spread(kind):
    """Hashed keys fall into about as many slots as random ones would: 1 - 1/e of them."""
    slots = np.unique(distinct._hash(ALIKE[kind][:1500]) % 1500)
    assert len(slots) > 0.55 * 1500


# --------------------------------------------------------------------------- anything at all

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 8),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text("abc\N{BULLET}", max_size=3),
    st.binary(max_size=2),
    st.dates(),
    st.sampled_from([pd.NA, pd.NaT, np.int8(3), np.float64(2), np.datetime64("2020", "ns")]),
    st.tuples(st.integers(0, 2), st.text("ab", max_size=1)),
    st.sampled_from([object, len, Fraction(1, 3)]),
)
SMALL = st.one_of(
    st.lists(st.integers(-2, 6), max_size=6),
    st.lists(st.sampled_from("abcd"), max_size=5),
)
ARRAYS = st.tuples(
    st.lists(st.integers(-1, 5), min_size=1, max_size=6),
    st.sampled_from(
        ["i1", "u1", "u8", ">i8", "f4", ">f8", "f2", "c16", "?", "U2", "S2", "O", "M8[D]", "m8[ns]"]
    ),
    st.sampled_from([(-1,), (1, -1), (-1, 1)]),
).map(lambda a: np.array(a[0]).astype(a[1]).reshape(a[2]))
ANYTHING = st.one_of(
    SCALARS,
    SMALL,
    ARRAYS,
    st.lists(SCALARS, max_size=5),
    st.lists(st.lists(SCALARS, max_size=3), max_size=3),
    st.dictionaries(st.text("ab", max_size=1), st.lists(SCALARS, max_size=3), max_size=2),
    SMALL.map(pd.Series),
    SMALL.map(lambda x: pd.DataFrame({"a": x, "b": x[::-1]})),
    st.builds(nx.DiGraph, st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=5)),
)


def snapshot(x: object) -> str:
    """A description of an input, from which tests see that it was not changed."""
    if isinstance(x, np.ndarray):
        return f"{x.dtype} {x.shape} {x.tolist()!r}"
    if isinstance(x, nx.DiGraph):
        return f"{list(x.nodes)} {list(x.edges)}"
    if isinstance(x, (pd.Series, pd.DataFrame)):
        return f"{x.to_dict()!r}"
    return repr(x)


def tree_or_named_error(constructor, *args, **options) -> None:
    """A valid tree, or a ValueError or TypeError that begins with an argument's name."""
    before = [snapshot(x) for x in (*args, *options.values())]
    try:
        tree = constructor(*args, **options)
    except (ValueError, TypeError) as error:
        assert str(error).startswith("Argument '"), error  # noqa: PT017 - any message will do
    else:
        np.testing.assert_array_equal(tree.order, reference.canonical_order(tree.parent.tolist()))
        assert tree.labels is None or tree.labels.shape == (tree.n,)
        for i in range(tree.n):
            assert len(tree.path(i)) == tree.depth[i]
    assert [snapshot(x) for x in (*args, *options.values())] == before


@given(ANYTHING, st.none() | ANYTHING)
def test_from_parents_with_anything(parent, labels):
    tree_or_named_error(gm.Tree.from_parents, parent)
    tree_or_named_error(gm.Tree.from_parents, [-1, 0, 0, 1], labels=labels)


@given(ANYTHING, ANYTHING)
def test_from_edges_with_anything(child, parent):
    tree_or_named_error(gm.Tree.from_edges, child, parent)


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(SCALARS, min_size=n, max_size=n), min_size=2, max_size=2)
    )
)
def test_from_edges_with_any_labels(columns):
    tree_or_named_error(gm.Tree.from_edges, *columns)
    tree_or_named_error(gm.Tree.from_levels, *columns)


@given(st.lists(ANYTHING, max_size=3), st.none() | ANYTHING)
def test_from_levels_with_anything(columns, levels):
    tree_or_named_error(gm.Tree.from_levels, *columns, levels=levels)


@given(ANYTHING | st.lists(st.tuples(*[st.integers(-1, 6) | st.floats()] * 4), max_size=4))
def test_from_linkage_with_anything(Z):
    tree_or_named_error(gm.Tree.from_linkage, Z)


@given(ANYTHING)
def test_from_networkx_with_anything(graph):
    tree_or_named_error(gm.Tree.from_networkx, graph)
