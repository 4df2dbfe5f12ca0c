"""Queries of released values, and their errors: single nodes and ranges of leaves.

Like a slice, a range ``[a, b)`` consists of leaves a to b - 1, counted in the order of
:attr:`gmtree.Tree.leaves_left_to_right`. In this order the leaves of every subtree are consecutive.
Note that vectors with one entry per leaf are in another order, :attr:`gmtree.Tree.leaves`. The two
orders agree if leaves are numbered from left to right.

A range is answered from its *cover*, which consists of the highest nodes whose leaves all lie in
the range. No set of nodes with the same leaves is smaller: each of its nodes is at or below a node
of the cover, and each node of the cover needs at least one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import queries as kernels
from gmtree._memory import refuse_above_limit
from gmtree._sweep import unsigned
from gmtree.tree import Tree

Method = Literal["cover", "leaves"]

# Each thread answers at least this many ranges, since starting a thread takes as long.
_SMALLEST_SHARE = 4096


def random_ranges(m: int, q: int, rng: np.random.Generator | int | None = None) -> np.ndarray:
    """Distinct random ranges of leaves, all equally likely.

    Parameters
    ----------
    m : int
        Number of leaves.
    q : int
        Number of ranges, at most ``m * (m + 1) / 2``, which is the number of all ranges.
    rng : numpy Generator or seed, optional
        Source of randomness. By default results differ in every call.

    Returns
    -------
    array of int64 of shape (q, 2)
        Ranges ``[a, b)`` with ``0 <= a < b <= m``, in random order.

    Examples
    --------
    >>> import gmtree as gm
    >>> ranges = gm.queries.random_ranges(3, 6, rng=1)
    >>> sorted(ranges.tolist())
    [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    """
    m = check.count("m", m, least=1)
    q = check.count("q", q, least=0)
    if m > 2**31:  # The number of ranges must fit into 64 bits.
        check.fail("m", f"must be at most 2**31, not {m}.")
    existing = m * (m + 1) // 2
    if q > existing:
        check.fail("q", f"must be at most {existing}, the number of ranges of {m} leaves; got {q}.")
    refuse_above_limit(f"An array of {q} ranges", 16 * q, "Draw fewer ranges.")
    number = check.generator("rng", rng).choice(existing, q, replace=False)
    # Ranges are numbered: number t (t + 1) / 2 + a begins with leaf a and ends with leaf t >= a.
    # The square root may round to a neighbour of t, which the last two steps correct.
    t = ((np.sqrt(8 * number.astype(float) + 1) - 1) / 2).astype(np.int64)
    t -= t * (t + 1) // 2 > number
    t += (t + 1) * (t + 2) // 2 <= number
    return np.stack((number - t * (t + 1) // 2, t + 1), axis=1)


def range_sum(tree: Tree, values: Any, ranges: Any, *, method: Method = "cover") -> np.ndarray:
    """Sums over ranges of leaves.

    Parameters
    ----------
    tree : Tree
    values : array of shape (n,) or (n, k)
        Values of all nodes, which need not be consistent. Integers are summed exactly.
    ranges : array of int of shape (q, 2)
        Ranges ``[a, b)`` of ``tree.leaves_left_to_right``. An empty range has the sum 0.
    method : {'cover', 'leaves'}
        With 'cover', the default, the nodes of the cover are added, in time proportional to the
        height of the tree. If several nodes of a chain have the same leaves, the highest is in the
        cover. With 'leaves', leaves are added, by differences of prefix sums. For consistent values
        the results are equal.

    Returns
    -------
    array of shape (q,) or (q, k)

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.shapes.complete(2, 3)
    >>> values = [100, 10, 20, 1, 2, 3, 4]
    >>> gm.queries.range_sum(tree, values, [[0, 3], [0, 4], [1, 2]])
    array([ 13, 100,   2])
    >>> gm.queries.range_sum(tree, values, [[0, 3], [0, 4], [1, 2]], method="leaves")
    array([ 6, 10,  2])
    """
    check.instance("tree", tree, Tree)
    v = tree._values("values", values)
    check.finite("values", v)
    pairs = check.ranges("ranges", ranges, tree.n_leaves)
    check.one_of("method", method, ("cover", "leaves"))
    if method == "cover":
        return _answer("values", v, pairs, tree.n_leaves, _cover(tree, pairs))
    return _leaf_sums("values", v[tree.leaves_left_to_right], pairs)


def node_rmse(values: Any, truth: Any) -> float | np.ndarray:
    """Root mean square error of all nodes.

    Parameters
    ----------
    values : array of shape (n,) or (n, k)
        Released values, in k columns for k releases.
    truth : array of shape (n,) or (n, k)
        True values. A single column is compared with all releases.

    Returns
    -------
    float, or array of shape (k,)

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.queries.node_rmse([13.0, 5.0, 5.0], [10, 5, 5])
    1.7320508075688772
    """
    check.refuse_labels("values", values)
    released = check.array("values", values)
    if released.ndim == 0 or released.shape[0] == 0:
        check.fail("values", f"must have at least one row, not shape {released.shape}.")
    released = check.values("values", released, released.shape[0])
    return _rmse(released, check.values("truth", truth, released.shape[0]))


def range_rmse(
    tree: Tree, values: Any, truth: Any, ranges: Any, *, method: Method = "cover"
) -> float | np.ndarray:
    """Root mean square error of sums over ranges of leaves.

    Parameters
    ----------
    tree : Tree
    values : array of shape (n,) or (n, k)
        Released values of all nodes, in k columns for k releases.
    truth : array of shape (n_leaves,) or (n,), or such columns
        True counts of the leaves in the order of ``tree.leaves``, or true values of all nodes. A
        single column is compared with all releases.
    ranges : array of int of shape (q, 2)
        Ranges ``[a, b)`` of ``tree.leaves_left_to_right``, such as :func:`random_ranges` draws.
    method : {'cover', 'leaves'}
        How ranges are answered from the released values, as in :func:`range_sum`.

    Returns
    -------
    float, or array of shape (k,)

    Examples
    --------
    If every node is 1 too high, the error of a sum is the number of nodes that it adds up.

    >>> import gmtree as gm
    >>> tree = gm.shapes.complete(2, 3)
    >>> values = tree.aggregate([1, 2, 3, 4]) + 1
    >>> gm.queries.range_rmse(tree, values, [1, 2, 3, 4], [[0, 3], [0, 4]])
    1.5811388300841898
    >>> gm.queries.range_rmse(tree, values, [1, 2, 3, 4], [[0, 3], [0, 4]], method="leaves")
    3.5355339059327378
    """
    check.instance("tree", tree, Tree)
    pairs = check.ranges("ranges", ranges, tree.n_leaves)
    if not len(pairs):
        check.fail("ranges", "must not be empty.")
    answers = range_sum(tree, values, pairs, method=method)
    check.refuse_labels("truth", truth)
    true = check.array("truth", truth)
    if true.ndim and true.shape[0] == tree.n_leaves:
        by_leaf = check.values("truth", true, tree.n_leaves, per="leaf")
        counts = tree._leaves_to_left_to_right(by_leaf)
    elif true.ndim and true.shape[0] == tree.n:
        counts = check.values("truth", true, tree.n)[tree.leaves_left_to_right]
    else:
        check.fail(
            "truth",
            f"must have one row per leaf ({tree.n_leaves}) or per node ({tree.n}), "
            f"not shape {true.shape}.",
        )
    return _rmse(answers, _leaf_sums("truth", counts, pairs))


def cover_probability(tree: Tree) -> np.ndarray:
    """Probability that each node is in the cover of a random range.

    The range is drawn uniformly from all ranges, as by :func:`random_ranges`. The sum of the
    probabilities is the expected number of nodes in a cover. If the nodes have independent noise
    with variances ``s``, the expected squared error of a range is ``cover_probability(tree) @ s``.

    Examples
    --------
    A range over four leaves needs 1.3 nodes on average; noise of variance 2 at every node
    gives such sums a root mean square error of 1.61.

    >>> import numpy as np, gmtree as gm
    >>> p = gm.queries.cover_probability(gm.shapes.complete(2, 3))
    >>> round(float(p.sum()), 6)
    1.3
    >>> round(float(np.sqrt(p @ np.full(7, 2.0))), 2)
    1.61
    """
    check.instance("tree", tree, Tree)
    start, child, _ = tree._brief_child_lists
    m = tree.n_leaves
    width = tree.aggregate(np.ones(m, dtype=np.int64))
    # Number of leaves to the left of each node: left of its parent, and below earlier siblings.
    within = _family_prefix(start, child, width[:, None])[:, 0]
    first = np.zeros(tree.n, dtype=np.int64)
    members = slice(1, None) if child is None else child
    first[members] = within - width[members]
    _sweep.propagate(tree._natural_layout, first, first)
    # A range contains the leaves of a node if it begins at or before the first of these leaves and
    # ends at or after the last one.
    containing = (first + 1) * (m - first - width + 1)
    above = containing[tree.parent]
    above[tree.root] = 0
    return (containing - above) / (m * (m + 1) // 2)


# --------------------------------------------------------------------------- inside


def _family_prefix(start: np.ndarray, child: np.ndarray | None, v: np.ndarray) -> np.ndarray:
    """Sums of each child and its siblings further left, in the order of the child lists."""
    dtype = np.int64 if v.dtype == np.int64 else np.float64
    sums = np.empty((v.shape[0] - 1, v.shape[1]), dtype)
    kernels.family_prefix(start, child, _sweep.readonly(v), sums)
    return sums


Operation = Callable[[np.ndarray, np.ndarray], None]


def _cover(tree: Tree, ranges: np.ndarray) -> Operation:
    """The linear map from values of nodes to sums over the covers of ranges."""
    start, child, place = tree._brief_child_lists
    leaves = None if child is None else unsigned(tree.leaves_left_to_right)
    rank = None if tree._parents_first else unsigned(tree.rank)
    pairs = _sweep.readonly(ranges.view(np.uint64))
    widest = int(tree.child_count.max())
    # Few ranges are faster if siblings are added one by one, which needs no pass over all values.
    one_by_one = 2 * len(ranges) * widest * tree.height <= tree.n

    def answer(v: np.ndarray, out: np.ndarray) -> None:
        columns = v.reshape(tree.n, -1)
        prefix = None if one_by_one else _sweep.readonly(_family_prefix(start, child, columns))
        args = (
            unsigned(tree.parent),
            rank,
            start,
            child,
            place,
            leaves,
            np.uint64(tree.n_internal),
            np.uint64(tree.root),
            _sweep.readonly(columns),
            prefix,
            pairs,
            out.reshape(len(pairs), -1),
        )
        _sweep.in_shares(len(pairs), partial(kernels.cover_sums, *args), _SMALLEST_SHARE)

    return answer


def _leaf_sums(argument: str, x: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Sums over ranges of leaves, by differences of prefix sums."""

    def answer(x: np.ndarray, out: np.ndarray) -> None:
        upto = np.zeros((x.shape[0] + 1, *x.shape[1:]), dtype=out.dtype)
        np.cumsum(x, axis=0, out=upto[1:])
        np.subtract(upto[ranges[:, 1]], upto[ranges[:, 0]], out=out)

    return _answer(argument, x, ranges, x.shape[0], answer)


def _answer(
    argument: str, v: np.ndarray, ranges: np.ndarray, growth: int, operation: Operation
) -> np.ndarray:
    """Results of a linear operation, exact for integers and in double precision for floats."""
    shape = (len(ranges), *v.shape[1:])
    dtype = np.int64 if v.dtype == np.int64 else np.float64
    try:
        sums = _sweep.deliver(operation, argument, v, None, shape, dtype, growth=growth)
    except check.IntegerOverflowError:
        raise check.IntegerOverflowError(
            argument, "must have sums over ranges that fit into 64-bit integers."
        ) from None
    return sums.astype(v.dtype, copy=False)


def _rmse(values: np.ndarray, truth: np.ndarray) -> float | np.ndarray:
    if values.ndim > truth.ndim:
        truth = truth[:, None]
    if truth.ndim > values.ndim or truth.shape[1:] not in ((), (1,), values.shape[1:]):
        check.fail(
            "truth",
            f"must have one column, or as many as 'values' {values.shape}, not {truth.shape}.",
        )
    error = np.subtract(values, truth, dtype=np.float64)
    if error.ndim == 1:
        return float(np.sqrt(np.dot(error, error) / error.size))
    return np.sqrt(np.einsum("ij,ij->j", error, error) / error.shape[0])
