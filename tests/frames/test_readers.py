"""Newick text, linked objects, clusterings and summing matrices, with the real packages."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pandas as pd
import pytest
from frames.kinds import KINDS, MAKE
from hypothesis import given
from hypothesis import strategies as st
from reference.frames import nest, newick
from scipy import sparse
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform
from trees import all_parents, trees

import gmtree as gm

# --------------------------------------------------------------------------- Newick

name = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=6)
length = st.one_of(
    st.none(),
    st.floats(0, 1e9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(0, 99),
)


@given(trees(max_n=25), st.data())
def test_newick_written_and_read_again(tree, data):
    names = data.draw(st.lists(name, min_size=tree.n, max_size=tree.n, unique=True))
    lengths = data.draw(st.lists(length, min_size=tree.n, max_size=tree.n))
    x = np.array([np.nan if a is None else a for a in lengths], np.float64)
    x[tree.root] = 0
    named = gm.Tree.from_parents(tree.parent, labels=names)
    text = named.to_newick(length=x)
    again = gm.Tree.from_newick(text)
    paths = {named.path(i): i for i in range(named.n)}
    to = [paths[again.path(i)] for i in range(again.n)]
    assert sorted(to) == list(range(tree.n))
    given_lengths = np.isfinite(x).copy()
    given_lengths[tree.root] = False
    if given_lengths.any():
        assert np.array_equal(again.edge_length, x[to], equal_nan=True)
    else:
        assert again.edge_length is None
    assert again.to_newick() == text or tree.n == 1
    assert newick(text) == [
        [int(again.parent[i]), again.labels[i], x[to[i]] if given_lengths[to[i]] else None]
        for i in range(again.n)
    ]


@pytest.mark.parametrize(
    "written",
    ["1", "0.1", "-2.5e-3", "1E22", "1e23", "123456789012345", "1234567890123456789", ".5", "5.",
     "1e-22", "1e-320", "0.30000000000000004", "+7", "1e400"],
)  # fmt: skip
def test_lengths_are_those_that_python_reads(written):
    tree = gm.Tree.from_newick(f"(a:{written},b:1);")
    assert tree.edge_length[1] == float(written)


def test_newick_with_everything():
    text = """[a comment [within] it] (
        'it''s a ; ( name' : 1.5 [here too],
        under_score:2,
        :3,
        (,)inner
    )root:9; [end]"""
    tree = gm.Tree.from_newick(text)
    assert tree.labels.tolist() == [
        "root", "it's a ; ( name", "under_score", None, "inner", None, None,
    ]  # fmt: skip
    assert np.array_equal(tree.edge_length, [9, 1.5, 2, 3, np.nan, np.nan, np.nan], equal_nan=True)
    assert tree.node("inner") == 4
    assert gm.Tree.from_newick(text, convert_underscores=True).labels[2] == "under score"
    with pytest.raises(ValueError, match="'edge' must hold finite"):
        tree.distance(1, 5, tree.edge_length)
    for ask in (lambda: tree.distance(1, 5), lambda: gm.distance_matrix(tree)):
        with pytest.raises(ValueError, match="node 4 of this tree has no length"):
            ask()
    assert tree.distance(1, 5, edge="count") == 3


def test_newick_sources(tmp_path):
    text = "(ä:1,b:2);"
    path = tmp_path / "tree.nwk"
    path.write_text(text, encoding="utf-8-sig")
    expected = gm.Tree.from_newick(text)
    for source in (text.encode(), path, str(path), io.StringIO(text), io.BytesIO(text.encode())):
        assert gm.Tree.from_newick(source) == expected
    again = pickle.loads(pickle.dumps(expected))
    assert again == expected
    assert again.edge_length.tolist() == [0, 1, 2]
    assert gm.Tree.from_newick(";").n == 1
    assert gm.Tree.from_newick("a;").labels.tolist() == ["a"]
    assert gm.Tree.from_newick("(,);").labels is None


def test_newick_comments_may_be_anywhere_and_may_nest():
    tree = gm.Tree.from_newick("[a [b] c](x[d [e] f]:[g [h] i]2,y);[j [k] l] ")
    assert tree == gm.Tree.from_newick("(x:2,y);")


def test_a_name_that_begins_with_a_byte_order_mark_is_kept():
    for names in (["\ufeffa"], ["\ufeff"], ["\ufeffroot", "\ufefftip"]):
        tree = gm.Tree.from_parents([-1, 0][: len(names)], labels=names)
        text = tree.to_newick()
        for written in (text, text.encode(), text.encode("utf-8-sig")):
            assert gm.Tree.from_newick(written).labels.tolist() == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("((a,b);", "every '\\(' must be closed"),
        ("(a,b));", "must follow a '\\(' that is still open; see byte 5"),
        ("a,b;", "must follow a '\\(' that is still open"),
        ("(a,b)", "must end with ';'"),
        ("(a,[b);", "every comment '\\[' must be closed; see byte 3"),
        ("(a:[1,b);", "every comment '\\[' must be closed; see byte 3"),
        ("(a,b);[c [d]", "every comment '\\[' must be closed; see byte 6"),
        ("(a,'b);", "every quote must be closed; see byte 3"),
        ("(a b,c);", "at most one name"),
        ("(a,b)c(d,e);", "at most one name"),
        ("(a:1 x,b);", "at most one name"),
        ("(a:1:2,b);", "at most one length"),
        ("(a:,b);", "a number after ':'"),
        ("(a:x,b);", "the length of node 1 is 'x'"),
        ("(a:1_0,b);", "the length of node 1 is '1_0'"),
        ("(a,b);(c,d);", "one tree, with nothing after its ';'; see byte 6"),
        ("no such file", "there is no file 'no such file'"),
        (b"(\xff,b);", "be encoded as UTF-8"),
    ],
)
def test_wrong_newick(text, message):
    with pytest.raises(ValueError, match=f"Argument 'text' must .*{message}"):
        gm.Tree.from_newick(text)
    with pytest.raises(TypeError, match="'text' must be text or the path"):
        gm.Tree.from_newick(5)


def test_newick_of_a_chain_needs_no_recursion():
    tree = gm.shapes.chain(100_000)
    text = tree.to_newick()
    assert gm.Tree.from_newick(text) == tree
    assert text.startswith("(((")


def test_newick_as_scikit_bio_reads_it():
    skbio = pytest.importorskip("skbio", reason="scikit-bio compares readers of Newick")
    rng = np.random.default_rng(0)
    tree = gm.shapes.random_recursive(3000, rng=1)
    tree = gm.Tree.from_parents(tree.parent, labels=[f"node {i}" for i in range(tree.n)])
    text = tree.to_newick(length=rng.exponential(size=tree.n))
    theirs = skbio.TreeNode.read(io.StringIO(text), format="newick")
    ours = gm.Tree.from_newick(text)
    assert gm.Tree.from_objects(theirs) == ours
    by_objects = gm.Tree.from_objects(theirs, length="length")
    by_objects_lengths, lengths = by_objects.edge_length.copy(), ours.edge_length.copy()
    assert np.array_equal(by_objects_lengths, lengths)
    i, j = 17, 2500
    patristic = theirs.find(f"node {i}").distance(theirs.find(f"node {j}"))
    found = ours.distance(ours.node(f"node {i}"), ours.node(f"node {j}"))
    assert found == pytest.approx(patristic)


# --------------------------------------------------------------------------- objects


def test_anytree():
    anytree = pytest.importorskip("anytree", reason="reads the objects of anytree")
    root = anytree.Node("root")
    a, b = anytree.Node("a", parent=root), anytree.Node("b", parent=root)
    anytree.Node("c", parent=a)
    tree = gm.Tree.from_objects(root)
    assert [node.name for node in anytree.PreOrderIter(root)] == tree.labels.tolist()
    assert tree.path(tree.node("c")) == ("root", "a", "c")
    assert tree.children(0).size == 2
    assert b.is_leaf


def test_ete():
    ete3 = pytest.importorskip("ete3", reason="reads the objects of ete3")
    theirs = ete3.Tree("((cat:1,lion:2)feline:3,dog:7);", format=1)
    tree = gm.Tree.from_objects(theirs, length="dist")
    assert tree.labels.tolist() == ["", "feline", "cat", "lion", "dog"]
    assert tree.edge_length.tolist() == [0, 3, 1, 2, 7]
    cat, dog = tree.node("cat"), tree.node("dog")
    assert tree.distance(cat, dog) == theirs.get_distance("cat", "dog")


def test_treelib():
    treelib = pytest.importorskip("treelib", reason="reads the objects of treelib")
    t = treelib.Tree()
    t.create_node("Root", "r")
    t.create_node("A", "a", parent="r")
    t.create_node("B", "b", parent="r")
    t.create_node("C", "c", parent="a")
    tree = gm.Tree.from_objects(t[t.root], lambda x: t.children(x.identifier), label="tag")
    assert tree.path(tree.node("C")) == ("Root", "A", "C")
    assert tree.n == t.size()


def test_tskit_parents_are_read_as_they_are():
    tskit = pytest.importorskip("tskit", reason="its parent arrays are ours")
    theirs = tskit.Tree.generate_balanced(5)
    # The last entry is tskit's virtual root above the root.
    tree = gm.Tree.from_parents(theirs.parent_array[:-1])
    assert tree.leaves.tolist() == list(theirs.leaves())
    assert all(tree.lca(i, j) == theirs.mrca(i, j) for i in range(5) for j in range(5))


class Thing:
    def __init__(self, *below):
        self.below = list(below)

    def children(self):
        return self.below


def test_objects_with_methods_and_without_names():
    tree = gm.Tree.from_objects(Thing(Thing(), Thing(Thing())))
    assert tree.parent.tolist() == [-1, 0, 0, 2]
    assert tree.labels is None
    shared = Thing()
    with pytest.raises(ValueError, match=r"'root' must be a tree; node 1 .* is reached twice"):
        gm.Tree.from_objects(Thing(shared, Thing(shared)))
    loop = Thing()
    loop.below.append(loop)
    with pytest.raises(ValueError, match="reached twice"):
        gm.Tree.from_objects(loop)
    with pytest.raises(TypeError, match="'children' must return the children"):
        gm.Tree.from_objects(Thing(), children="kids")
    with pytest.raises(TypeError, match="'label' must be the name of an attribute"):
        gm.Tree.from_objects(Thing(), label=5)
    with pytest.raises(TypeError, match="'length' must return a number"):
        gm.Tree.from_objects(Thing(), length=lambda x: "far")


def test_deep_objects_need_no_recursion():
    x = Thing()
    for _ in range(20_000):
        x = Thing(x)
    assert gm.Tree.from_objects(x).height == 20_001
    while x.below:  # or Python takes them apart by recursion
        x = x.below.pop()


# --------------------------------------------------------------------------- clusterings


@given(st.integers(2, 30), st.integers(0, 2**32 - 1))
def test_distances_in_a_linkage_are_cophenetic(m, seed):
    points = np.random.default_rng(seed).normal(size=(m, 2))
    Z = linkage(points, "average")
    tree = gm.Tree.from_linkage(Z)
    i, j = np.triu_indices(m, 1)
    found = tree.distance(i, j)
    assert found == pytest.approx(squareform(cophenet(Z))[i, j])
    children = gm.Tree.from_linkage(Z[:, :2].astype(np.int64))
    assert children == tree
    assert children.edge_length is None
    given_heights = gm.Tree.from_linkage(Z[:, :2], heights=Z[:, 2])
    assert np.array_equal(given_heights.edge_length, tree.edge_length)


def test_scikit_learn():
    cluster = pytest.importorskip("sklearn.cluster", reason="reads its children_")
    points = np.random.default_rng(0).normal(size=(60, 3))
    model = cluster.AgglomerativeClustering(
        distance_threshold=0, n_clusters=None, linkage="average"
    )
    model.fit(points)
    tree = gm.Tree.from_linkage(model.children_, heights=model.distances_)
    i, j = np.triu_indices(60, 1)
    assert tree.distance(i, j) == pytest.approx(cophenet(linkage(points, "average")))


def test_wrong_heights():
    with pytest.raises(ValueError, match=r"'heights' must have shape \(1,\)"):
        gm.Tree.from_linkage([[0, 1]], heights=[1, 2])
    with pytest.raises(ValueError, match="'heights' must be finite; cluster 2"):
        gm.Tree.from_linkage([[0, 1]], heights=[np.nan])


# --------------------------------------------------------------------------- summing matrices


def summing_matrix(tree):
    leaves = tree.leaves
    return np.array([[tree.is_ancestor(i, j) for j in leaves] for i in range(tree.n)], int)


@pytest.mark.parametrize("parent", [p for n in range(1, 6) for p in all_parents(n)], ids=str)
def test_all_small_summing_matrices(parent):
    tree = gm.Tree.from_parents(parent)
    S = summing_matrix(tree)
    found = gm.Tree.from_summing_matrix(S)
    assert found.parent.tolist() == nest([set(np.flatnonzero(row)) for row in S])
    assert np.array_equal(summing_matrix(found), S)


@given(trees(max_n=20), st.randoms())
def test_summing_matrix_in_any_order_of_rows_and_columns(tree, random):
    S = summing_matrix(tree)
    rows, cols = list(range(tree.n)), list(range(tree.n_leaves))
    random.shuffle(rows)
    random.shuffle(cols)
    mixed = S[rows][:, cols]
    for kind in (np.array, sparse.csr_matrix, sparse.coo_array, np.asfortranarray):
        found = gm.Tree.from_summing_matrix(kind(mixed.astype(float)))
        assert found.parent.tolist() == nest([set(np.flatnonzero(row)) for row in mixed])


@pytest.mark.parametrize("kind", KINDS)
def test_summing_matrix_in_a_frame(kind):
    S = {
        "unique_id": ["total", "a", "b", "a/x", "a/y"],
        "a/y": [1, 1, 0, 0, 1],
        "b": [1, 0, 1, 0, 0],
        "a/x": [1, 1, 0, 1, 0],
    }
    tree = gm.Tree.from_summing_matrix(MAKE[kind](S))
    assert tree.path(tree.node("a/x")) == ("total", "a", "a/x")
    if kind == "pandas":
        assert gm.Tree.from_summing_matrix(pd.DataFrame(S).set_index("unique_id")) == tree
    swapped = {{"b": "a/x", "a/x": "b"}.get(name, name): x for name, x in S.items()}
    with pytest.raises(ValueError, match="row 2 is named 'b', and its column 'a/x'"):
        gm.Tree.from_summing_matrix(MAKE[kind](swapped))
    unlabelled = {name: x for name, x in S.items() if name != "unique_id"}
    assert np.array_equal(gm.Tree.from_summing_matrix(MAKE[kind](unlabelled)).parent, tree.parent)


@pytest.mark.parametrize(
    ("S", "error", "message"),
    [
        ([[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], ValueError,
         "row 2 shares only some of its leaves with row 1"),
        ([[1, 1], [1, 0]], ValueError, "column 1 has none"),
        ([[1, 0], [0, 1]], ValueError, "must have one root; nodes 0 and 1"),
        ([[1, 1], [0, 0], [1, 0], [0, 1]], ValueError, "a 1 in every row; row 1 has none"),
        ([[1, 2], [1, 0], [0, 1]], ValueError, "only 0 and 1; row 0 has 2 in column 1"),
        ([1, 1], ValueError, "must be a matrix"),
        ([["a", "b"]], TypeError, "must hold 0 and 1"),
    ],
)  # fmt: skip
def test_wrong_summing_matrices(S, error, message):
    with pytest.raises(error, match=f"Argument 'S' must .*{message.removeprefix('must ')}"):
        gm.Tree.from_summing_matrix(S)
