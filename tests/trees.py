"""Trees for tests: hypothesis strategies, all small trees, named shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import reference
from hypothesis import strategies as st

import gmtree as gm
from gmtree.bench.trees import depth_first


@st.composite
def parents(draw: st.DrawFn, max_n: int = 40) -> np.ndarray:
    """The parent array of a random tree in a random numbering.

    Each node hangs on an earlier one, drawn from a window behind it: a window of one makes a
    chain, a wide one a bushy tree. Then the nodes are shuffled, or not.
    """
    n = draw(st.integers(1, max_n))
    window = draw(st.integers(1, n))
    steps = draw(st.lists(st.integers(0, window - 1), min_size=n - 1, max_size=n - 1))
    parent = np.array([-1] + [max(0, i - 1 - s) for i, s in enumerate(steps, start=1)])
    if draw(st.booleans()):
        parent = renumber(parent, np.array(draw(st.permutations(range(n)))))
    return parent


def trees(max_n: int = 40) -> st.SearchStrategy[gm.Tree]:
    return parents(max_n).map(gm.Tree.from_parents)


def renumber(parent: np.ndarray, number: np.ndarray) -> np.ndarray:
    """The parents of the tree in which node i gets the number ``number[i]``."""
    out = np.empty_like(parent)
    out[number] = np.where(parent < 0, -1, number[parent])
    return out


def all_parents(n: int) -> Iterator[np.ndarray]:
    """Every tree on n nodes numbered with parents first: (n - 1)! parent arrays."""
    for rest in product(*(range(i) for i in range(1, n))):
        yield np.array((-1, *rest))


def named_shapes(n: int, rng: int = 0) -> dict[str, gm.Tree]:
    """Trees of about n nodes with extreme shapes, in canonical and other numberings."""
    height = max(1, int(np.log2(n + 1)))
    random = gm.shapes.random_recursive(n, rng)
    grouped = gm.shapes.grouped(max(1, 2 * n // 3), rng=rng)
    number = np.random.default_rng(rng).permutation(n)
    return {
        "chain": gm.shapes.chain(n),
        "star": gm.shapes.star(n),
        "caterpillar": gm.shapes.caterpillar(n),
        "binary": gm.shapes.complete(2, height),
        "grouped": grouped,
        "random": random,
        "random, canonical": random.canonical(),
        "random, shuffled": gm.Tree.from_parents(renumber(random.parent, number)),
        "chain, shuffled": gm.Tree.from_parents(renumber(gm.shapes.chain(n).parent, number)),
        "grouped, depth first": gm.Tree.from_parents(depth_first(grouped)),
    }


@functools.cache
def large_shapes() -> dict[str, gm.Tree]:
    """Trees so large that threads share families and levels."""
    return named_shapes(300_000)


def small_numbers(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    """Integers between -100 and 100 from one drawn seed, so that large arrays are cheap."""
    return st.integers(0, 2**32 - 1).map(
        lambda seed: np.random.default_rng(seed).integers(-100, 101, shape)
    )


def weights(
    low: float, high: float
) -> st.SearchStrategy[Callable[[int], np.ndarray | float | None]]:
    """Functions from n to weights: none, one for all, or one per node, of either sign."""

    def several(seed: int) -> Callable[[int], np.ndarray]:
        def draw(n: int) -> np.ndarray:
            rng = np.random.default_rng(seed)
            return rng.uniform(low, high, n) * rng.choice([-1, 1], n)

        return draw

    return st.one_of(
        st.just(lambda n: None),
        st.sampled_from([low, -high]).map(lambda w: lambda n: w),
        st.integers(0, 2**32 - 1).map(several),
    )


# Edge weights are at most as large as node weights, so that nothing grows along a path.
node_weights = weights(1, 2)
edge_weights = weights(0.5, 1)


def check_against_reference(tree: gm.Tree, parent: np.ndarray) -> None:
    """Compare every property of a tree that is a number or an array with the reference."""
    n = len(parent)
    order = reference.canonical_order(parent)
    leaves = reference.leaves(parent)
    assert len(tree) == tree.n == n
    assert tree.root == order[0]
    assert tree.height == max(reference.heights(parent))
    assert tree.n_leaves == len(leaves)
    assert tree.n_internal == n - len(leaves)
    assert tree.is_canonical == (order == list(range(n)))
    expected = {
        "parent": parent,
        "order": order,
        "rank": np.argsort(order),
        "node_height": reference.heights(parent),
        "depth": reference.depths(parent),
        "subtree_size": reference.subtree_sizes(parent),
        "child_count": [len(reference.children(parent, i)) for i in range(n)],
        "leaves": leaves,
        "leaves_left_to_right": reference.leaves_left_to_right(parent),
        "internal": reference.internal(parent),
    }
    for name, values in expected.items():
        found = getattr(tree, name)
        np.testing.assert_array_equal(found, values, err_msg=name)
        assert found.dtype == tree.parent.dtype, name
