"""Masked arrays, arrays of objects and other wrong values are refused."""

from __future__ import annotations

import numpy as np
import pytest
from limited import at_most

import gmtree as gm

TREE = gm.shapes.complete(2, 3)
MASKED = np.ma.masked_array(np.arange(1.0, 8.0), mask=[0, 0, 1, 0, 0, 1, 0])

TAKE_VALUES = {
    "aggregate": lambda x: TREE.aggregate(x[:4]),
    "leaf_values": TREE.leaf_values,
    "solve": gm.GenerationMatrix(TREE).solve,
    "T.solve": gm.GenerationMatrix(TREE).T.solve,
    "matmul": lambda x: gm.GenerationMatrix(TREE) @ x,
    "node weights": lambda x: gm.GenerationMatrix(TREE, node_weight=x),
    "edge weights": lambda x: gm.GenerationMatrix(TREE, edge_weight=x),
    "distance": lambda x: TREE.distance(3, 4, edge=x),
    "laplacian": lambda x: gm.laplacian(TREE, edge=x),
    "consistent": lambda x: gm.reconcile(TREE, x),
    "variance": lambda x: gm.Consistency(TREE, variance=x),
    "boosting": lambda x: gm.baselines.boosting(TREE, x),
    "gmc": lambda x: gm.gmc.with_square_roots(TREE, x),
    "range_sum": lambda x: gm.queries.range_sum(TREE, x, [[0, 2]]),
    "node_rmse": lambda x: gm.queries.node_rmse(np.ones(7), x),
}


@pytest.mark.parametrize("name", TAKE_VALUES)
def test_masked_entries_are_refused(name):
    with pytest.raises(ValueError, match=r"Argument '\w+' must have no masked entries; entry 2 is"):
        TAKE_VALUES[name](MASKED)


@pytest.mark.parametrize("name", TAKE_VALUES)
def test_a_masked_array_that_hides_nothing_is_an_array(name):
    shown = np.ma.masked_array(MASKED.data, mask=False)
    found, expected = TAKE_VALUES[name](shown), TAKE_VALUES[name](MASKED.data)
    if isinstance(expected, np.ndarray):
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, expected)


def test_masked_entries_inside_lists_are_refused():
    with pytest.raises(ValueError, match="Argument 'v' must have no masked entries"):
        TREE.leaf_values([1, 2, 3, np.ma.masked, 5, 6, 7])
    with pytest.raises(ValueError, match="entry 2 is masked"):
        TREE.leaf_values([MASKED, MASKED])


def test_masked_parents_and_labels_are_refused():
    with pytest.raises(ValueError, match="Argument 'parent' must have no masked entries; entry 1"):
        gm.Tree.from_parents(np.ma.masked_array([-1, 0, 0], mask=[0, 1, 0]))
    with pytest.raises(ValueError, match="Argument 'child' must have no masked entries; entry 1"):
        gm.Tree.from_edges(np.ma.masked_array([1, 2], mask=[0, 1]), [0, 0])


def test_an_object_that_is_no_number_is_named():
    with pytest.raises(TypeError, match="Argument 'v' must hold real numbers; entry 3 is None"):
        TREE.leaf_values([1, 2, 3, None, 5, 6, 7])
    with pytest.raises(TypeError, match="real numbers of at most 64 bits; entry 1 is 118059162071"):
        TREE.leaf_values([1, 2**70, 3, 4, 5, 6, 7])
    with pytest.raises(
        TypeError, match="Argument 'v' must hold real numbers, not dtype complex128"
    ):
        TREE.leaf_values(np.ones(7, complex))
    with pytest.raises(
        ValueError, match="Argument 'v' must be an array, or an object that numpy can"
    ):
        TREE.leaf_values([[1, 2], [3]])


TAKE_TREES = {
    "GenerationMatrix": gm.GenerationMatrix,
    "ConstraintMatrix": gm.ConstraintMatrix,
    "adjacency": gm.adjacency,
    "laplacian": gm.laplacian,
    "distance_matrix": gm.distance_matrix,
    "ancestral_matrix": gm.ancestral_matrix,
    "Consistency": gm.Consistency,
    "consistent": lambda tree: gm.reconcile(tree, [1.0]),
    "consistency_bias": lambda tree: gm.consistency_bias(tree, [1.0]),
    "release": lambda tree: gm.release(tree, [1], epsilon=1),
    "plan": lambda tree: gm.plan(tree, epsilon=1),
    "optimal_shares": lambda tree: gm.privacy.optimal_shares(tree, epsilon=1),
    "allocate": lambda tree: gm.privacy.allocate(tree, epsilon=1),
    "privacy_loss": lambda tree: gm.privacy.privacy_loss(tree, [1]),
    "range_sum": lambda tree: gm.queries.range_sum(tree, [1.0], [[0, 1]]),
    "range_rmse": lambda tree: gm.queries.range_rmse(tree, [1.0], [1.0], [[0, 1]]),
    "cover_probability": gm.queries.cover_probability,
    "construct": gm.gmc.construct,
    "with_square_roots": lambda tree: gm.gmc.with_square_roots(tree, [1.0]),
    "without_square_roots": lambda tree: gm.gmc.without_square_roots(tree, [1.0]),
    **{
        name: lambda tree, name=name: getattr(gm.baselines, name)(tree, [1.0])
        for name in gm.baselines.__all__
    },
}


@pytest.mark.parametrize("name", TAKE_TREES)
@pytest.mark.parametrize("wrong", [None, [-1, 0, 0]])
def test_what_is_no_tree_is_a_type_error(name, wrong):
    rule = f"^Argument 'tree' must be a Tree, not {type(wrong).__name__}"
    with pytest.raises(TypeError, match=rule):
        TAKE_TREES[name](wrong)


ENDLESS = {
    "a chain": lambda: gm.shapes.chain(2**40),
    "a star": lambda: gm.shapes.star(2**40),
    "a complete tree": lambda: gm.shapes.complete(2, 60),
    "levels without end": lambda: gm.shapes.complete(10**400, 10**400),
    "a random tree": lambda: gm.shapes.random_recursive(2**40),
    "a caterpillar": lambda: gm.shapes.caterpillar(2**40),
    "groups": lambda: gm.shapes.grouped(2**40),
    "a census": lambda: gm.datasets.census2010(nodes=99_999_999_999_999),
    "noise": lambda: gm.privacy.discrete_laplace(1, (2**20, 2**20)),
    "ranges": lambda: gm.queries.random_ranges(2**31, 2**40),
    "runs": lambda: gm.release(TREE, [1, 2, 3, 4], epsilon=1).bootstrap(runs=2**63),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_would_never_end_or_fit_is_refused_at_once(name):
    with at_most(30, name), pytest.raises(ValueError, match=r"Argument '\w+' must|would take"):
        ENDLESS[name]()


def test_names_of_columns_come_in_an_order():
    rows = {"state": ["a", "b"], "town": ["x", "y"]}
    assert gm.Tree.from_levels(rows, levels=("state", "town")).n == 5
    assert gm.Tree.from_levels(rows, levels=np.array(["state", "town"])).n == 5
    assert gm.Tree.from_levels(rows, levels=rows.keys()).n == 5
    for levels in ({"state", "town"}, "state", 3, np.array(3), np.ones((2, 2)), b"state"):
        with pytest.raises(TypeError, match="Argument 'levels' must be"):
            gm.Tree.from_levels(rows, levels=levels)


def test_objects_without_children_name_the_argument():
    for children in ("below", len, lambda x: 3):
        with pytest.raises(TypeError, match="Argument 'children' must return the children"):
            gm.Tree.from_objects(3, children)
    with pytest.raises(TypeError, match="Argument 'length' must return a number"):
        gm.Tree.from_objects([[], []], iter, length="size")
    with pytest.raises(TypeError, match="Argument 'label' must return a label"):
        gm.Tree.from_objects([[], []], iter, label=lambda x: x.name)
    with pytest.raises(ValueError, match=r"Argument 'root' must be a tree; node 1 .* twice"):
        gm.Tree.from_objects([array := np.ones(0), array], iter)
