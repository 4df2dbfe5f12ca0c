"""`Tree`: order, heights, leaves, sums over leaves, and that a tree never changes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from trees import (
    all_parents,
    check_against_reference,
    named_shapes,
    parents,
    renumber,
    small_numbers,
    trees,
)

import gmtree as gm
from gmtree.tree.order import positions

# --------------------------------------------------------------------------- structure


@given(parents())
def test_structure(parent):
    check_against_reference(gm.Tree.from_parents(parent), parent)


@pytest.mark.parametrize("n", range(1, 7))
def test_structure_of_all_small_trees(n):
    rng = np.random.default_rng(n)
    for parent in all_parents(n):
        check_against_reference(gm.Tree.from_parents(parent), parent)
        shuffled = renumber(parent, rng.permutation(n))
        check_against_reference(gm.Tree.from_parents(shuffled), shuffled)


@pytest.mark.parametrize("n", [1, 2, 3, 20])
def test_structure_of_named_shapes(n):
    for tree in named_shapes(n).values():
        check_against_reference(tree, tree.parent.tolist())


@given(parents())
def test_children_and_paths(parent):
    tree = gm.Tree.from_parents(parent)
    for i in range(tree.n):
        np.testing.assert_array_equal(tree.children(i), reference.children(parent, i))
        assert tree.path(i) == tuple(reference.ancestors(parent, i)[::-1])


@given(parents())
def test_canonical_numbering(parent):
    tree = gm.Tree.from_parents(parent)
    canonical = tree.canonical()
    assert canonical.is_canonical
    np.testing.assert_array_equal(canonical.order, np.arange(tree.n))
    assert canonical.root == 0
    np.testing.assert_array_equal(
        canonical.parent, renumber(parent, np.argsort(reference.canonical_order(parent)))
    )
    check_against_reference(canonical, canonical.parent.tolist())
    assert canonical.canonical() is canonical
    assert np.all(canonical.parent < np.arange(tree.n))


@given(parents())
def test_order_is_found_again(parent):
    """Numbering by position is canonical for every original numbering."""
    tree = gm.Tree.from_parents(parent)
    assert gm.Tree.from_parents(tree.canonical().parent) == tree.canonical()


@given(parents(), st.data())
def test_subtree(parent, data):
    tree = gm.Tree.from_parents(parent, labels=[f"node {i}" for i in range(len(parent))])
    k = data.draw(st.integers(0, tree.height - 1))
    kept, expected = reference.kth_subtree(parent, k)
    subtree = tree.k_order_subtree(k)
    check_against_reference(subtree, expected)
    assert subtree.labels.tolist() == [f"node {i}" for i in kept]
    if k == 1:
        np.testing.assert_array_equal(kept, tree.internal)


def test_subtree_refuses_to_be_empty():
    tree = gm.shapes.complete(2, 3)
    assert tree.k_order_subtree(0) is tree
    with pytest.raises(ValueError, match=r"Argument 'k' must be below the height 3"):
        tree.k_order_subtree(3)
    with pytest.raises(ValueError, match=r"Argument 'k' must be at least 0, not -1"):
        tree.k_order_subtree(-1)
    with pytest.raises(TypeError, match=r"Argument 'k' must be a whole number"):
        tree.k_order_subtree(1.0)


@given(trees(), st.data())
def test_positions(tree, data):
    v = data.draw(small_numbers((tree.n, 2)))
    assert tree.n_levels == tree.height == tree.depth.max()
    np.testing.assert_array_equal(tree._to_positions(v), v[tree._sweep_order])
    np.testing.assert_array_equal(tree._from_positions(tree._to_positions(v)), v)
    np.testing.assert_array_equal(tree._to_positions(tree._from_positions(v)), v)


@pytest.mark.parametrize("node", [-1, 5, 1.0, True, None, "a", [0], [[0, 1], [1]]])
def test_children_and_path_refuse_what_is_no_node(node):
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    for question in (tree.children, tree.path):
        with pytest.raises((ValueError, TypeError), match="Argument 'i'"):
            question(node)


# --------------------------------------------------------------------------- sums over leaves


@given(parents(), st.sampled_from([(), (1,), (3,)]), st.data())
def test_aggregate_and_leaf_values(parent, columns, data):
    tree = gm.Tree.from_parents(parent)
    x = data.draw(small_numbers((tree.n_leaves, *columns)))
    y = tree.aggregate(x)
    assert y.dtype == np.int64
    np.testing.assert_array_equal(y, reference.aggregate(parent, x))
    np.testing.assert_array_equal(tree.leaf_values(y), x)
    real = x / 8
    np.testing.assert_array_equal(tree.aggregate(real), reference.aggregate(parent, real))
    out = np.full(y.shape, -1)
    assert tree.aggregate(x, out=out) is out
    np.testing.assert_array_equal(out, y)


@given(parents(), st.data())
def test_aggregate_into_what_overlaps(parent, data):
    tree = gm.Tree.from_parents(parent)
    shared = data.draw(small_numbers((tree.n,))).astype(float)
    x = shared[: tree.n_leaves].copy()
    tree.aggregate(shared[: tree.n_leaves], out=shared)
    np.testing.assert_array_equal(shared, reference.aggregate(parent, x))


def test_aggregate_keeps_float32_and_takes_lists():
    tree = gm.shapes.complete(2, 3)
    assert tree.aggregate(np.ones(4, np.float32)).dtype == np.float32
    assert tree.aggregate([True, False, True, True]).tolist() == [3, 1, 2, 1, 0, 1, 1]


def test_aggregate_refuses_sums_beyond_64_bits():
    tree = gm.shapes.star(3)
    most = 2**63 - 1
    assert tree.aggregate([most - 5, 5])[0] == most
    assert tree.aggregate([-most, -1])[0] == -most - 1
    with pytest.raises(gm.IntegerOverflowError, match=r"Argument 'x' .* node 0"):
        tree.aggregate([most - 5, 6])
    out = np.zeros(3, np.int64)
    with pytest.raises(OverflowError):
        tree.aggregate([-most, -2], out=out)
    assert not out.any()


@pytest.mark.parametrize(
    ("x", "error"),
    [
        ([1, 2], ValueError),
        (np.ones((3, 1, 1)), ValueError),
        (5, ValueError),
        (["a", "b", "c"], TypeError),
        ([1j, 1, 1], TypeError),
        ([None, 1, 1], TypeError),
    ],
)
def test_aggregate_and_leaf_values_refuse(x, error):
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    with pytest.raises(error, match="Argument 'x'"):
        tree.aggregate(x)
    with pytest.raises((ValueError, TypeError), match="Argument 'v'"):
        tree.leaf_values(x)


def test_aggregate_checks_out():
    tree = gm.shapes.star(3)
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    for out in (np.zeros(2), np.zeros(3, np.float32), np.zeros((3, 1)), frozen):
        with pytest.raises(ValueError, match="Argument 'out'"):
            tree.aggregate([1.0, 2.0], out=out)
    with pytest.raises(TypeError, match="Argument 'out'"):
        tree.aggregate([1.0, 2.0], out=[0, 0, 0])


# --------------------------------------------------------------------------- one node


def test_one_node():
    tree = gm.Tree.from_parents([-1])
    check_against_reference(tree, [-1])
    assert repr(tree) == "Tree(n=1, internal=0, leaves=1, height=1)"
    assert tree.aggregate([7]).tolist() == [7]
    assert tree.leaf_values([7]).tolist() == [7]
    assert tree.path(0) == (0,)
    assert tree.children(0).size == 0
    assert tree.k_order_subtree(0) is tree
    assert pickle.loads(pickle.dumps(tree)) == tree


# --------------------------------------------------------------------------- identity


@given(parents(), parents(max_n=6))
def test_equality(parent, other):
    tree = gm.Tree.from_parents(parent)
    twin = gm.Tree.from_parents(parent.tolist())
    assert tree == twin
    assert hash(tree) == hash(twin)
    same = parent.tolist() == other.tolist()
    assert (tree == gm.Tree.from_parents(other)) == same


def test_labels_count_for_equality():
    plain = gm.Tree.from_parents([-1, 0])
    strings = gm.Tree.from_parents([-1, 0], labels=["a", "b"])
    assert strings == gm.Tree.from_parents([-1, 0], labels=["a", "b"])
    assert strings != gm.Tree.from_parents([-1, 0], labels=["a", "c"])
    assert strings != gm.Tree.from_parents([-1, 0], labels=[1, 2])
    assert strings != plain
    assert plain != strings
    assert plain != "Tree"
    assert len({plain, strings, gm.Tree.from_parents([-1, 0])}) == 2


@given(parents(), st.booleans())
def test_pickle_and_copy(parent, labelled):
    labels = [("x", i) for i in range(len(parent))] if labelled else None
    tree = gm.Tree.from_parents(parent, labels=labels)
    tree.depth, tree.leaves  # noqa: B018 - what was computed on the way must not disturb
    for twin in (pickle.loads(pickle.dumps(tree)), copy.copy(tree), copy.deepcopy(tree)):
        assert twin == tree
        check_against_reference(twin, parent)
        assert not twin.parent.flags.writeable


def test_pickle_keeps_level_names():
    tree = gm.Tree.from_levels({"state": [1, 2], "town": [3, 4]}, levels=["state", "town"])
    assert pickle.loads(pickle.dumps(tree)).level_names == ("state", "town")


def test_repr_tells_the_size():
    tree = gm.Tree.from_parents([1, -1, 1, 2])
    assert repr(tree) == "Tree(n=4, internal=2, leaves=2, height=3)"


# --------------------------------------------------------------------------- immutability


ARRAYS = (
    "parent",
    "order",
    "rank",
    "node_height",
    "depth",
    "subtree_size",
    "child_count",
    "leaves",
    "labels",
)


@pytest.mark.parametrize("parent", [[-1, 0, 0, 1, 1], [4, 4, 3, 4, -1], [-1, 0, 1, 0, 3]])
def test_arrays_are_read_only(parent):
    tree = gm.Tree.from_parents(parent, labels=list("abcde"))
    for t in (tree, tree.canonical(), tree.k_order_subtree(1), tree.canonical().k_order_subtree(1)):
        for name in ARRAYS:
            with pytest.raises(ValueError, match="read-only"):
                getattr(t, name)[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            t.children(t.root)[:] = 0


def test_no_attribute_can_be_set():
    tree = gm.Tree.from_parents([-1, 0])
    for name in ("n", "parent", "labels", "anything"):
        with pytest.raises(AttributeError):
            setattr(tree, name, 1)
    with pytest.raises(TypeError, match="from_parents"):
        gm.Tree()


@given(parents())
def test_the_tree_is_a_copy(parent):
    """If the caller changes the array afterwards, the tree does not change."""
    for dtype in (np.int32, np.int64):
        given_parent = parent.astype(dtype)
        labels = np.arange(len(parent)) + 100
        tree = gm.Tree.from_parents(given_parent, labels=labels)
        given_parent[:] = 0
        labels[:] = 0
        check_against_reference(tree, parent)
        np.testing.assert_array_equal(tree.labels, np.arange(tree.n) + 100)


@given(parents())
def test_derived_arrays_are_kept(parent):
    tree = gm.Tree.from_parents(parent)
    for name in ARRAYS[:-1]:
        assert getattr(tree, name) is getattr(tree, name)


# --------------------------------------------------------------------------- index types


def test_indices_are_int32_while_they_fit():
    from gmtree._validate import index_dtype

    assert index_dtype(1) == index_dtype(2**31 - 1) == np.int32
    assert index_dtype(2**31) == np.int64
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        assert gm.Tree.from_parents(np.array([-1, 0], dtype)).parent.dtype == np.int32


@given(parents(), st.booleans())
def test_order_with_64_bit_indices(parent, by_height):
    found = positions("parent", parent.astype(np.int64), None, by_height)
    narrow = positions("parent", parent.astype(np.int32), None, by_height)
    assert found.position_parent.dtype == found.level_start.dtype == np.int64
    assert (found.order is None) == (narrow.order is None)
    if found.order is not None:
        assert found.order.dtype == np.int64
        np.testing.assert_array_equal(found.order, narrow.order)
        if by_height:
            np.testing.assert_array_equal(found.order, reference.canonical_order(parent))
    np.testing.assert_array_equal(found.position_parent, narrow.position_parent)
    np.testing.assert_array_equal(found.level_start, narrow.level_start)


@given(parents(max_n=20))
def test_everything_with_64_bit_indices(parent):
    """A small tree with the index type of a tree beyond 2^31 nodes."""
    tree = gm.Tree._build("parent", parent.astype(np.int64))
    check_against_reference(tree, parent)
    x = np.arange(tree.n_leaves)
    np.testing.assert_array_equal(tree.aggregate(x), reference.aggregate(parent, x))
    G = gm.GenerationMatrix(tree)
    np.testing.assert_array_equal(G.solve(np.ones(tree.n)), reference.depths(parent))
    np.testing.assert_array_equal(G.T.solve(np.ones(tree.n)), reference.subtree_sizes(parent))


# --------------------------------------------------------------------------- memory


@pytest.mark.parametrize("n", [1000, 5000])
def test_a_tree_keeps_at_most_16_bytes_per_node(n):
    for name, tree in named_shapes(n).items():
        built = gm.Tree.from_parents(tree.parent)
        slack = 8  # the end of the last level
        assert built.nbytes <= 16 * n + slack, name
        if built.is_canonical:
            assert built.nbytes <= 8 * n + slack, name


def test_a_tree_for_another_library_keeps_its_order():
    # Internal nodes are in the order of their numbers, which is not that of their heights.
    columns = [["a", "b"], ["x", "y"], [None, "z"]]
    tree = gm.Tree.from_levels(*columns, missing="stop")
    same = gm.Tree.from_levels(*columns, missing="stop")._with_frames_of("polars")
    assert not tree._by_height
    assert same.node_height.tolist() == tree.node_height.tolist()
    assert same.order.tolist() == tree.order.tolist()
    assert same._segments() == tree._segments()
    assert same.to_frame().shape == tree.to_frame().shape
