"""Trees of a given shape, numbered canonically: for tests, benchmarks and first steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gmtree import _validate as check
from gmtree.tree import Tree


def complete(fanout: int, height: int) -> Tree:
    """The complete tree in which every inner node has `fanout` children.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.shapes.complete(2, 24)
    Tree(n=16777215, internal=8388607, leaves=8388608, height=24)
    """
    fanout = check.count("fanout", fanout, least=1)
    height = check.count("height", height, least=1)
    # Enough levels to see that there are too many nodes, without a number of many digits.
    n = height if fanout == 1 else (fanout ** min(height, 64) - 1) // (fanout - 1)
    dtype = _dtype("height", n)
    parent = np.arange(-1, n - 1, dtype=dtype)
    parent //= min(fanout, n)
    return Tree._build("height", parent)


def chain(n: int) -> Tree:
    """A path: each node but the last has one child.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.shapes.chain(4).parent
    array([-1,  0,  1,  2], dtype=int32)
    """
    n = check.count("n", n, least=1)
    return Tree._build("n", np.arange(-1, n - 1, dtype=_dtype("n", n)))


def star(n: int) -> Tree:
    """A root with n - 1 leaves.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.shapes.star(4).parent
    array([-1,  0,  0,  0], dtype=int32)
    """
    n = check.count("n", n, least=1)
    parent = np.zeros(n, dtype=_dtype("n", n))
    parent[0] = -1
    return Tree._build("n", parent)


def caterpillar(n: int) -> Tree:
    """A chain with one leaf hung on each of its nodes: as deep as a tree with n/2 leaves can be.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.shapes.caterpillar(7).parent
    array([-1,  0,  1,  0,  1,  2,  2], dtype=int32)
    """
    n = check.count("n", n, least=1)
    spine = (n + 1) // 2
    parent = np.empty(n, dtype=_dtype("n", n))
    parent[:spine] = np.arange(-1, spine - 1)
    parent[spine:] = np.arange(n - spine)
    return Tree._build("n", parent).canonical()


def random_recursive(n: int, rng: np.random.Generator | int | None = None) -> Tree:
    """A random recursive tree: node i hangs on a node drawn evenly from 0 to i - 1.

    Numbered in that order, which has parents first but is not canonical.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.shapes.random_recursive(1000, rng=1).n
    1000
    """
    n = check.count("n", n, least=1)
    dtype = _dtype("n", n)
    parent = (np.random.default_rng(rng).random(n) * np.arange(n)).astype(dtype)
    parent[0] = -1
    return Tree._build("n", parent)


def grouped(
    n_leaves: int,
    fanouts: Sequence[int] = (2, 3, 4, 5),
    shares: Sequence[float] = (0.4, 0.3, 0.2, 0.1),
    rng: np.random.Generator | int | None = None,
) -> Tree:
    """Group consecutive nodes from the leaves up, in groups of random size.

    Each inner node takes the next ``fanouts[k]`` nodes of the level below with probability
    ``shares[k]``; the last group of a level takes what is left. All leaves lie equally deep.

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.shapes.grouped(1000, rng=1)
    >>> tree.n_leaves
    1000
    >>> int(tree.child_count[tree.internal].min())
    2
    """
    n_leaves = check.count("n_leaves", n_leaves, least=1)
    sizes = check.integer_vector("fanouts", fanouts)
    if sizes.min() < 2:
        check.fail("fanouts", f"must be at least 2, not {sizes.min()}.")
    share = check.array("shares", shares)
    if share.dtype.kind not in "iuf":
        check.fail_type("shares", f"must hold real numbers, not dtype {share.dtype}.")
    if share.shape != sizes.shape:
        check.fail("shares", f"must have one entry per fan-out ({sizes.size}), not {share.shape}.")
    if not np.all(share >= 0) or not 0 < share.sum() < np.inf:
        check.fail("shares", f"must be non-negative and not all zero, not {list(shares)}.")
    rng = np.random.default_rng(rng)
    levels = []
    count = n_leaves
    while count > 1:
        groups = _group_sizes(count, sizes, share / share.sum(), rng)
        levels.append(groups)
        count = groups.size
    return from_fanouts(levels[::-1])


def from_fanouts(levels: Sequence[np.ndarray]) -> Tree:
    """The tree whose k-th level has nodes with these numbers of children, left to right.

    Every count must be at least one, and each level must have as many nodes as the level
    above has children; all leaves then lie equally deep.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.shapes.from_fanouts([[2], [1, 3]]).parent
    array([-1,  0,  0,  1,  2,  2,  2], dtype=int32)
    """
    counts = [check.integer_vector("levels", level) for level in levels]
    expected = 1
    for depth, level in enumerate(counts):
        if level.size != expected:
            check.fail("levels", f"must have {expected} nodes at level {depth}, not {level.size}.")
        if level.min() < 1:
            check.fail("levels", f"must be at least 1; level {depth} has {level.min()}.")
        expected = int(level.sum())
    fanout = np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)
    n = 1 + int(fanout.sum())
    parent = np.empty(n, dtype=_dtype("levels", n))
    parent[0] = -1
    parent[1:] = np.repeat(np.arange(fanout.size, dtype=parent.dtype), fanout)
    return Tree._build("levels", parent)


def _group_sizes(
    count: int, sizes: np.ndarray, share: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Random group sizes that add up to `count`, none of them 1."""
    groups = rng.choice(sizes, size=count // int(sizes.min()) + 1, p=share)
    ends = np.cumsum(groups)
    last = int(np.searchsorted(ends, count))
    groups = groups[: last + 1].copy()
    groups[last] -= ends[last] - count
    if groups[last] == 1 and last > 0:
        # A lone node joins the group before it, which splits where it is large enough.
        if groups[last - 1] >= 3:
            groups[last - 1] -= 1
            groups[last] = 2
        else:
            groups = groups[:last]
            groups[-1] += 1
    return groups


def _dtype(argument: str, n: int) -> np.dtype:
    if n > 2**40:
        check.fail(argument, "must give a tree of at most 2**40 nodes.")
    return check.index_dtype(n)
