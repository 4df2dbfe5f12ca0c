"""Trees to and from networkx and scipy, and their results compared with ours."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster import hierarchy
from scipy.sparse import csgraph
from scipy.spatial.distance import squareform
from trees import named_shapes, trees

import gmtree as gm

nx = pytest.importorskip("networkx", reason="trees are compared with its graphs")

seeds = st.integers(0, 2**32 - 1)


# --------------------------------------------------------------------------- there and back


@given(trees())
def test_round_trip_keeps_numbers(tree):
    graph = tree.to_networkx()
    assert nx.is_arborescence(graph)
    back = gm.Tree.from_networkx(graph)
    np.testing.assert_array_equal(back.parent, tree.parent)
    assert back.labels.tolist() == list(range(tree.n))
    assert gm.Tree.from_networkx(back.to_networkx()) == back


def test_round_trip_keeps_labels():
    tree = gm.Tree.from_edges(["kitten", "lion", "cat"], ["cat", "feline", "feline"])
    graph = tree.to_networkx()
    assert sorted(graph.edges) == [("cat", "kitten"), ("feline", "cat"), ("feline", "lion")]
    assert graph.nodes["cat"] == {"label": "cat"}
    assert gm.Tree.from_networkx(graph) == tree


def test_repeated_labels_become_attributes():
    tree = gm.Tree.from_levels(["NY", "VT"], ["Orange", "Orange"])
    graph = tree.to_networkx()
    assert list(graph.nodes) == list(range(tree.n))
    assert [graph.nodes[i]["label"] for i in graph] == tree.labels.tolist()


def test_one_node_without_a_name():
    tree = gm.Tree.from_newick("((cat:1,lion:2)feline:3,dog:7);")
    graph = tree.to_networkx()
    assert list(graph.nodes(data="label")) == list(enumerate(tree.labels.tolist()))
    assert nx.dijkstra_path_length(graph.to_undirected(), 2, 4) == 11
    named = gm.Tree.from_newick("((cat:1,lion:2)feline:3,dog:7)mammal;").to_networkx()
    assert list(named) == ["mammal", "feline", "cat", "lion", "dog"]


@given(trees(), st.data())
def test_round_trip_keeps_lengths_and_any_labels(tree, data):
    """Also if labels are repeated or missing, or lengths are missing."""

    def drawn(some):
        return data.draw(st.lists(some, min_size=tree.n, max_size=tree.n))

    lengths = drawn(st.none() | st.floats(allow_nan=False))
    names = drawn(st.none() | st.sampled_from("ab") | st.text(max_size=3))
    made = gm.Tree.from_objects(
        tree.root, tree.children, label=names.__getitem__, length=lengths.__getitem__
    )
    back = gm.Tree.from_networkx(made.to_networkx())
    np.testing.assert_array_equal(back.parent, made.parent)
    if made.labels is None:
        assert back.labels.tolist() == list(range(tree.n))
    else:
        assert back == made
    expected = made.edge_length.copy()
    expected[made.root] = np.nan
    if np.isnan(expected).all():
        assert back.edge_length is None
    else:
        expected[made.root] = 0
        np.testing.assert_array_equal(back.edge_length, expected)


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_round_trip_keeps_times(unit):
    tree = gm.Tree.from_parents([-1, 0, 0], labels=np.array([0, 1, 2], f"M8[{unit}]"))
    back = gm.Tree.from_networkx(tree.to_networkx())
    assert [back.node(time) for time in tree.labels] == [0, 1, 2]


def test_without_networkx_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r"pip install 'gmtree\[graph\]'"):
        gm.shapes.star(3).to_networkx()


# --------------------------------------------------------------------------- networkx's answers


@given(trees(max_n=20))
def test_lowest_common_ancestors(tree):
    graph = tree.to_networkx()
    pairs = [(i, j) for i in range(tree.n) for j in range(tree.n)]
    theirs = dict(nx.tree_all_pairs_lowest_common_ancestor(graph, tree.root, pairs))
    for (i, j), ancestor in theirs.items():
        assert tree.lca(i, j) == ancestor
    for i in range(tree.n):
        above = nx.ancestors(graph, i) | {i}
        np.testing.assert_array_equal(
            tree.is_ancestor(np.arange(tree.n), i), [j in above for j in range(tree.n)]
        )


@given(trees(max_n=20), seeds)
def test_shortest_paths(tree, seed):
    edge = np.random.default_rng(seed).uniform(0.1, 3, tree.n)
    graph = tree.to_networkx().to_undirected()
    for a, b in graph.edges:
        graph[a][b]["length"] = edge[a if tree.parent[a] == b else b]
    nodes = np.arange(tree.n)
    steps, far = np.empty((tree.n, tree.n)), np.empty((tree.n, tree.n))
    for i, reached in nx.all_pairs_shortest_path_length(graph):
        steps[i] = [reached[j] for j in nodes]
    for i, reached in nx.all_pairs_dijkstra_path_length(graph, weight="length"):
        far[i] = [reached[j] for j in nodes]
    np.testing.assert_array_equal(tree.distance(nodes[:, None], nodes), steps)
    np.testing.assert_allclose(tree.distance(nodes[:, None], nodes, edge), far, atol=1e-12)


@given(trees(max_n=20))
def test_matrices(tree):
    graph = tree.to_networkx()
    nodes = range(tree.n)
    L = nx.laplacian_matrix(graph.to_undirected(), nodelist=nodes)
    np.testing.assert_array_equal(gm.laplacian(tree).toarray(), L.toarray())
    # Their edges go from parent to child, ours in a matrix from child to parent.
    A = nx.adjacency_matrix(graph, nodelist=nodes)
    np.testing.assert_array_equal(gm.adjacency(tree).toarray(), A.toarray().T)
    A = nx.adjacency_matrix(graph.to_undirected(), nodelist=nodes)
    np.testing.assert_array_equal(gm.adjacency(tree, directed=False).toarray(), A.toarray())
    assert gm.Tree.from_adjacency(A, tree.root) == tree
    assert gm.Tree.from_laplacian(L, tree.root) == tree


# --------------------------------------------------------------------------- scipy's answers


@pytest.mark.parametrize("shape", named_shapes(60))
def test_scipy_graph_algorithms(shape):
    tree = named_shapes(60)[shape]
    A = gm.adjacency(tree, directed=False)
    edge = np.random.default_rng(1).uniform(0.1, 3, tree.n)
    np.testing.assert_array_equal(gm.distance_matrix(tree), csgraph.shortest_path(A))
    np.testing.assert_allclose(
        gm.distance_matrix(tree, edge=edge),
        csgraph.shortest_path(gm.adjacency(tree, directed=False, edge=edge)),
    )
    np.testing.assert_array_equal(gm.laplacian(tree).toarray(), csgraph.laplacian(A).toarray())
    _, above = csgraph.breadth_first_order(A, tree.root)
    np.testing.assert_array_equal(np.where(above < 0, -1, above), tree.parent)


@given(st.integers(2, 20), seeds)
def test_cophenetic_distances_of_a_linkage(m, seed):
    points = np.random.default_rng(seed).normal(size=(m, 2))
    Z = hierarchy.linkage(points, "average")
    tree = gm.Tree.from_linkage(Z)
    merged_at = np.concatenate([np.zeros(m), Z[:, 2]])
    leaves = np.arange(m)
    ours = merged_at[tree.lca(leaves[:, None], leaves)]
    np.testing.assert_allclose(ours, squareform(hierarchy.cophenet(Z)))


def test_masked_lengths_are_refused():
    graph = nx.DiGraph()
    graph.add_edge("r", "a", weight=np.ma.masked)
    with pytest.raises(ValueError, match=r"holds numbers; the 'weight' .* from 'r' to 'a'"):
        gm.Tree.from_networkx(graph)
    assert gm.Tree.from_networkx(graph, length=None).n == 2
