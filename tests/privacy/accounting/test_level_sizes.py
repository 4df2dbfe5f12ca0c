"""Budgets from the sizes of levels, and counts measured in stretches, as on the whole tree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gmtree as gm
from gmtree import privacy
from gmtree.dask.partition_tree import PartitionTree
from gmtree.privacy.noise.mechanism import Mechanism
from gmtree.privacy.publishing.stretches import measure_joint, measure_stretch


def even_tree(rng):
    """A tree with all leaves on its last level."""
    sizes, parents = [1], [np.array([-1])]
    for _ in range(int(rng.integers(1, 5))):
        children = rng.integers(1, 4, sizes[-1])
        if rng.random() < 0.3:
            children[:] = 1
        parents.append(np.repeat(np.arange(sizes[-1]), children) + sum(sizes[:-1]))
        sizes.append(int(children.sum()))
    return gm.Tree.from_parents(np.concatenate(parents)), sizes


@given(
    st.integers(0, 10**6),
    st.sampled_from(["add_remove", "change_one"]),
    st.sampled_from(
        [
            {"epsilon": 1},
            {"epsilon": 1, "delta": "1e-9"},
            {"rho": "1/3"},
            {"rho": 1, "mechanism": "discrete_laplace"},
        ]
    ),
)
def test_the_ledger_is_that_of_the_tree(seed, neighbors, budget):
    rng = np.random.default_rng(seed)
    tree, sizes = even_tree(rng)
    shares = rng.integers(0, 4, len(sizes)).tolist()
    shares[-1] += 1
    options = {
        **budget,
        "neighbors": neighbors,
        "shares": shares,
        "max_contributions": int(rng.integers(1, 4)),
    }
    known = privacy.allocate(tree, **options)
    found = privacy.allocate_levels(sizes, **options)
    assert found.scales == known.scales
    assert found.ledger == known.ledger
    named = privacy.allocate_levels(sizes, names=[str(k) for k in range(len(sizes))], **options)
    lines = [replace(line, name=None) for line in named.ledger.levels]
    assert tuple(lines) == known.ledger.levels


def test_wrong_sizes():
    for sizes, rule in (
        ([2, 3], "must begin with 1, for the root"),
        ([1, 3, 2], "must not fall.*; level 3 does"),
        ([1, 3, 3, 5, 4], "must not fall.*; level 5 does"),
        ([], "root"),
    ):
        with pytest.raises(ValueError, match=rule):
            privacy.allocate_levels(sizes, epsilon=1)
    with pytest.raises(ValueError, match="'max_count' must be at most"):
        privacy.allocate_levels([1, 10**6], epsilon=1, max_count=2**40)
    # Two paths do not represent the tree if a person can be in three leaves.
    for name, value in (("invariants", [0]), ("max_per_leaf", 1)):
        with pytest.raises(ValueError, match=f"'{name}' must not be given"):
            privacy.allocate_levels([1, 3], rho=1, max_contributions=3, **{name: value})
    with pytest.raises(ValueError, match="'names' must have one name per level"):
        privacy.allocate_levels([1, 3], epsilon=1, names=["a"])


def test_stretches_add_up_and_each_count_gets_noise_once(monkeypatch):

    drawn = []

    def count_draws(noise, scale, size):
        drawn.append((scale, size))
        return np.full(size, 1000)

    monkeypatch.setattr(Mechanism, "draw", count_draws)
    begin = [np.array([0]), np.array([0, 2, 3]), np.array([0, 2, 4, 5])]
    counts = np.array([5, -3, 7, 1, 0, 2, 90], np.int32)
    noisy, partial = measure_stretch(counts, begin, [1, 2, None, 3], "discrete_laplace", 50, 10**9)
    # Leaves are cut off at 0 and 50; all others are first or last, or in between.
    assert noisy[3].tolist() == [1005, 1000, 1007, 1001, 1000, 1002, 1050]
    assert [x.tolist() for x in noisy[:3]] == [[0], [0, 1000, 0], [0, 0, 0, 0]]
    assert partial.tolist() == [[65, 0], [13, 52], [5, 52]]
    joint = measure_joint(np.array([65, 13]), np.array([0, 1]), [1, 2, None, 3], "discrete_laplace")
    assert joint.tolist() == [1065, 1013]
    assert drawn == [(3, 7), (2, 1), (1, 1), (2, 1)]


def test_public_totals_and_wrong_counts():
    begin = [np.array([0])]
    for counts, rule in (([5, 6], "must add up to at most 10"), ([-1, 2], "must not be negative")):
        with pytest.raises(ValueError, match=rule):
            measure_stretch(np.array(counts), begin, [1, 1], "discrete_laplace", None, 10)
    with pytest.raises(TypeError, match="whole numbers"):
        measure_stretch(np.array([1.0]), begin, [1, 1], "discrete_laplace", 5, 10)


@given(st.integers(0, 10**6))
def test_the_tree_of_a_partition_has_the_children_that_are_here(seed):
    rng = np.random.default_rng(seed)
    tree, sizes = even_tree(rng)
    starts = np.cumsum([0, *sizes])
    counts = [
        np.bincount(tree.parent[starts[d + 1] : starts[d + 2]] - starts[d])
        for d in range(len(sizes) - 1)
    ]
    part = PartitionTree([np.cumsum(c) - c for c in counts], sizes[-1])
    assert part.tree.is_canonical
    assert part.tree.n == part.n == tree.n + part.extra_leaves.size
    # Without the extra leaves for other partitions it is the tree itself.
    kept = np.setdiff1d(np.arange(part.n), part.extra_leaves)
    number = np.full(part.n, -1)
    number[kept] = np.arange(kept.size)
    parent = part.tree.parent[kept]
    np.testing.assert_array_equal(np.where(parent < 0, -1, number[parent]), tree.parent)
    # Every node is a path node or in one group, below its own path node.
    seen = np.zeros(part.n, int)
    for g in part.groups:
        seen[g.start : g.stop] += 1
        assert np.all(part.tree.parent[g.start : g.stop] == part.boundary[g.level, g.side])
    for level in range(part.height):
        for side in part.sides(level):
            seen[part.boundary[level, side]] += 1
            leaf = part.elsewhere[level, side]
            assert part.tree.parent[leaf] == part.boundary[level, side]
    assert seen.max() == 1
