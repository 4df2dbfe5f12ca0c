"""Ancestors, siblings, descendants, and the tree below a node."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from trees import named_shapes, trees

import gmtree as gm


def climb(tree: gm.Tree, i: int) -> list[int]:
    """From the parent of i up to the root, one step at a time."""
    above = []
    while tree.parent[i] >= 0:
        i = int(tree.parent[i])
        above.append(i)
    return above


@given(trees(20))
def test_neighbours_of_every_node(tree):
    parent = tree.parent
    for i in range(tree.n):
        assert tree.ancestors(i).tolist() == climb(tree, i)
        below = [j for j in range(tree.n) if j == i or i in climb(tree, j)]
        assert tree.descendants(i).tolist() == below
        family = [] if parent[i] < 0 else reference.children(parent, parent[i])
        assert tree.siblings(i).tolist() == [j for j in family if j != i]
        for found in (tree.ancestors(i), tree.descendants(i), tree.siblings(i)):
            assert found.dtype == parent.dtype


@given(trees(20), st.data())
def test_the_tree_below_a_node_has_its_descendants_in_their_order(tree, data):
    labelled = gm.Tree.from_parents(tree.parent, labels=[f"node {k}" for k in range(tree.n)])
    i = data.draw(st.integers(0, tree.n - 1))
    sub, nodes = labelled.subtree(i), labelled.descendants(i)
    assert isinstance(sub, gm.Tree)
    assert sub.labels.tolist() == labelled.labels[nodes].tolist()
    assert nodes[sub.root] == i
    assert sub.height == tree.node_height[i]
    for k in range(sub.n):
        assert nodes[sub.children(k)].tolist() == labelled.children(nodes[k]).tolist()


@pytest.mark.parametrize("name", named_shapes(300))
def test_sums_below_a_node_are_those_of_the_whole_tree(name):
    tree = named_shapes(300)[name]
    values = tree.aggregate(np.arange(tree.n_leaves))
    for i in (tree.root, int(tree.leaves[0]), int(tree.internal[-1])):
        sub, nodes = tree.subtree(i), tree.descendants(i)
        np.testing.assert_array_equal(sub.aggregate(values[nodes][sub.leaves]), values[nodes])


def test_below_keeps_the_names_of_the_levels_that_are_left():
    columns = {"state": ["NY", "NY", "VT"], "county": ["a", "b", "a"], "town": ["x", "y", "x"]}
    tree = gm.Tree.from_levels(columns)
    assert tree.subtree(tree.root).level_names == ("state", "county", "town")
    assert tree.subtree(tree.node("NY")).level_names == ("state", "county", "town")
    assert tree.subtree(tree.node(("NY", "b"))).level_names == ("county", "town")
    assert tree.subtree(tree.leaves[0]).level_names == ("town",)


@pytest.mark.parametrize("method", ["ancestors", "siblings", "descendants", "subtree"])
def test_neighbours_need_one_node_of_the_tree(method):
    tree = gm.shapes.star(3)
    with pytest.raises(ValueError, match="Argument 'i' must hold node numbers from 0 to 2, not 3"):
        getattr(tree, method)(3)
    with pytest.raises(TypeError, match="Argument 'i' must be one node number"):
        getattr(tree, method)([0, 1])


def test_the_error_of_k_order_subtree_names_subtree():
    with pytest.raises(ValueError, match=r"tree\.subtree\(node\)"):
        gm.shapes.star(3).k_order_subtree(2)
