"""Counts on a tree, published with differential privacy.

:mod:`gmtree.privacy` says what that guarantees, to whom, and what not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree.consistency import Consistency
from gmtree.privacy import _intervals, noise
from gmtree.privacy._moments import measurement_cumulants
from gmtree.privacy._text import short
from gmtree.privacy.ledger import Allocation, Ledger, allocate
from gmtree.privacy.planning import Plan
from gmtree.tree import Tree

# Sums of counts, times the height, stay below this, and so does noise: rounding errors of the two
# sweeps, each some 2^-53 of a value per level, then stay below one quarter.
_LARGEST = 1 << 50
# Draws at a time: few enough to stay in the cache until they are added.
_DRAWS = 1 << 18
# Noise exceeds so many times its scale with a probability below exp(-64).
_REACH = 64


def release(
    tree: Tree,
    counts: Any,
    *,
    epsilon: Any = None,
    rho: Any = None,
    level_shares: Sequence[Any] | None = None,
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    invariants: Any = (),
    mechanism: str | None = None,
    nonnegative: bool = False,
    integer: bool = False,
    max_count: int | None = None,
    threads: int | None = None,
) -> Release:
    """Publish counts on a tree with differential privacy.

    Each measured node gets its count with exact discrete noise; the released values are the
    consistent ones with the least error. :mod:`gmtree.privacy` says what that guarantees and what
    not. :func:`plan` tells the error beforehand, :func:`optimal_shares` lowers it.

    Parameters
    ----------
    tree : Tree
        Public: chosen without looking at the data, with all leaves that could have a count.
    counts : array of int
        True count of each leaf, in the order of ``tree.leaves``.
    epsilon, rho, level_shares, neighbors, max_contributions, invariants, mechanism
        Budget and how it is divided: see :func:`gmtree.privacy.allocate`.
    nonnegative : bool
        Values with all leaves at least 0: smaller errors, but small counts come out larger on
        average.
    integer : bool
        Whole numbers, with exact sums.
    max_count : int, optional
        Public bound: larger counts are cut off (and negative ones raised to 0). By default, and
        at most, 2^50 divided by the height and by the number of leaves. Not with
        ``neighbors="change_one"``, where the total is public and is what must be at most 2^50
        divided by the height.
    threads : int, optional
        As in :class:`Consistency`.

    Returns
    -------
    Release

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
    >>> r = gm.release(tree, [304, 372, 29], epsilon=1, nonnegative=True, integer=True)
    >>> r
    Release(Tree(n=6, internal=3, leaves=3, height=3), epsilon=1, nonnegative, integer)
    >>> bool(r.values[0] == r.values[3:].sum()), r.std_error.round(2)
    (True, array([3.1 , 2.87, 2.62, 3.31, 3.31, 2.62]))
    """
    if not isinstance(tree, Tree):
        check.fail_type("tree", f"must be a Tree, not {type(tree).__name__}.")
    allocation = allocate(
        tree,
        epsilon=epsilon,
        rho=rho,
        level_shares=level_shares,
        neighbors=neighbors,
        max_contributions=max_contributions,
        invariants=invariants,
        mechanism=mechanism,
    )
    own = _whole_counts(tree, counts)
    most = _largest_count(tree, neighbors, max_count)
    if neighbors == "change_one":
        _check_total(tree, own)
    options = _options(tree, allocation.ledger, nonnegative, integer)
    # Refuses scales that leave a value undetermined: before anything is spent.
    post = _post(tree, allocation.ledger, allocation.exact, threads)
    noisy = _measure(tree, own, allocation, most)
    # Whoever shows the variables of this function when an error occurs must not show these.
    del own, counts
    made = Release(tree, noisy, allocation.ledger, allocation.exact, *options, threads)
    made.__dict__.update(_post=post)
    made.__dict__.update(values=made.values)
    return made


class Release:
    """What was published: noisy counts, consistent values, their errors, and the account.

    Made by :func:`release` and :meth:`load`. All arrays are by node, in the tree's numbering, and
    read-only.

    Attributes
    ----------
    tree : Tree
    noisy : array of int64
        Counts with noise; 0 at nodes that were not measured, the exact count at invariants.
    ledger : Ledger
        What was spent, on what, and what the guarantee does not cover.
    nonnegative, integer : bool
        How `values` were made.
    """

    def __init__(
        self,
        tree: Tree,
        noisy: np.ndarray,
        ledger: Ledger,
        exact: np.ndarray | None,
        nonnegative: bool,
        integer: bool,
        threads: int | None = None,
    ) -> None:
        noisy.flags.writeable = False
        self.tree, self.noisy, self.ledger = tree, noisy, ledger
        self.nonnegative, self.integer = nonnegative, integer
        self._exact, self._threads = exact, threads

    def __repr__(self) -> str:
        spent = f"{self.ledger.measure}={short(self.ledger.total)}"
        options = [name for name in ("nonnegative", "integer") if getattr(self, name)]
        return f"Release({', '.join([repr(self.tree), spent, *options])})"

    def __reduce__(self) -> tuple[Any, ...]:
        # What can be computed again is left out.
        options = (self.nonnegative, self.integer, self._threads)
        return Release, (self.tree, self.noisy, self.ledger, self._exact, *options)

    # ------------------------------------------------------------------ values

    @cached_property
    def values(self) -> np.ndarray:
        """Consistent values: each parent the sum of its children; int64 if `integer`."""
        x = self._post.project(self.noisy, nonnegative=self.nonnegative, integer=self.integer)
        x.flags.writeable = False
        return x

    @property
    def measured(self) -> np.ndarray:
        """Which nodes have a count in `noisy`, with noise or exactly."""
        measured = _measured(self.tree, self.ledger, self._exact)
        return np.ones(self.tree.n, bool) if measured is None else measured

    def reprocess(self, *, nonnegative: bool = False, integer: bool = False) -> Release:
        """The same noisy counts with other options for `values`. Costs no privacy.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.star(5), [3, 0, 2, 0], epsilon=1)
        >>> bool((r.reprocess(nonnegative=True).values >= 0).all())
        True
        """
        options = _options(self.tree, self.ledger, nonnegative, integer)
        other = Release(self.tree, self.noisy, self.ledger, self._exact, *options, self._threads)
        shared = ("_post", "_estimate", "std_error")
        other.__dict__.update({k: x for k, x in self.__dict__.items() if k in shared})
        return other

    # ------------------------------------------------------------------ errors

    @cached_property
    def std_error(self) -> np.ndarray:
        """Standard error of the best unbiased estimate of every node, exactly.

        That estimate is what `values` are without `nonnegative` and `integer`. Infinite where
        only the sum of several siblings is known.
        """
        error = self._post.node_variance()
        np.sqrt(error, out=error)
        error.flags.writeable = False
        return error

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of confidence intervals, one for every node.

        Each covers the true count with probability `level`, over the noise. They belong to the
        best unbiased estimate, whatever options `values` were made with; of a non-negative
        release, only the part that is not negative is returned.

        Notes
        -----
        The variance and the fourth cumulant of each value's error are exact; the quantile is that
        of the variance-gamma law which has both, exact for one Laplace noise and in the limit of
        many. Where a value hardly depends on more than one measurement of small scale, errors
        are whole numbers and the interval covers with more than `level`.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.star(3), [300, 400], epsilon=1)
        >>> low, high = r.interval(0.95)
        >>> ((high - low) / r.std_error).round(1)
        array([4.1, 4.1, 4.1])
        """
        level = _intervals.confidence("level", level)
        width = _intervals.node_half_widths(level, self._post, *self._cumulants)
        return self._bounded(self._estimate - width, np.add(self._estimate, width, out=width))

    def range_sum(self, ranges: Any) -> np.ndarray:
        """Sums of values over leaves ``start`` to ``stop - 1`` for each row of `ranges`.

        Leaves are counted in the order of ``tree.leaves``.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.complete(2, 3), [5, 8, 2, 0], epsilon=1, integer=True)
        >>> bool(r.range_sum([[0, 4]])[0] == r.values[0])
        True
        """
        from gmtree.queries import range_sum

        return range_sum(self.tree, self.values, ranges)

    def range_std_error(self, ranges: Any) -> np.ndarray:
        """Standard errors of the best unbiased estimates of sums over ranges of leaves."""
        return np.sqrt(self._post.leaf_sum_variance(self._ranges(ranges)))

    def range_interval(self, ranges: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of confidence intervals of sums over ranges; see `interval`."""
        from gmtree.queries import range_sum

        level, pairs = _intervals.confidence("level", level), self._ranges(ranges)
        centre = range_sum(self.tree, self._estimate, pairs)
        width = _intervals.range_half_widths(level, self._post, *self._cumulants, pairs)
        return self._bounded(centre - width, centre + width)

    def _ranges(self, ranges: Any) -> np.ndarray:
        from gmtree.queries import _ranges

        return _ranges("ranges", ranges, self.tree.n_leaves)

    def _bounded(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where values are not negative, neither are the ends."""
        if self.nonnegative:
            np.maximum(low, 0, out=low)
            np.maximum(high, 0, out=high)
        return low, high

    @property
    def plan(self) -> Plan:
        """Errors by level, as :func:`plan` tells them before."""
        return Plan.of(self.tree, self.ledger, self._post.node_variance())

    @cached_property
    def _post(self) -> Consistency:
        return _post(self.tree, self.ledger, self._exact, self._threads)

    @cached_property
    def _estimate(self) -> np.ndarray:
        """The best unbiased estimate."""
        if not (self.nonnegative or self.integer):
            return self.values
        return self._post.project(self.noisy)

    @property
    def _cumulants(self) -> tuple[Any, Any]:
        """Variances and fourth cumulants of the noise."""
        return measurement_cumulants(self.tree, self.ledger, self._exact)

    # ------------------------------------------------------------------ tables and files

    def to_frame(self, level: float = 0.95) -> Any:
        """A pandas frame with one row per node.

        Columns: ``node`` and ``parent`` (numbers; -1 above the root), ``depth``, the label of the
        node (``label``) or, for a tree made from named levels, of the node and all above it (one
        column each), ``value``, ``noisy`` (missing where not measured), ``std_error``, and the
        ends ``low`` and ``high`` of the intervals at confidence `level`.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.star(3), [300, 400], epsilon=1)
        >>> r.to_frame().columns.tolist()
        ['node', 'parent', 'depth', 'value', 'noisy', 'std_error', 'low', 'high']
        """
        from gmtree.privacy._table import to_frame

        return to_frame(self, level)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the release to a file, from which :meth:`load` makes it again.

        The file holds the noisy counts, the tree with its labels, the ledger and the options:
        what is public already. ``.npz`` needs nothing else; ``.parquet`` needs pyarrow, and has
        one row per node that other programs can read, values and standard errors included.
        """
        from gmtree.privacy import _storage

        _storage.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Release:
        """Read a release that :meth:`save` wrote.

        A file that is damaged, or of another kind, is a ValueError. Nothing in a file is ever
        run. The checksum tells accidents, not forgery.

        Examples
        --------
        >>> import gmtree as gm, tempfile, os
        >>> r = gm.release(gm.shapes.star(3), [300, 400], epsilon=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     r.save(os.path.join(folder, "release.npz"))
        ...     again = gm.Release.load(os.path.join(folder, "release.npz"))
        >>> bool((again.values == r.values).all()), again.ledger == r.ledger
        (True, True)
        """
        from gmtree.privacy import _storage

        return cls(*_storage.load(path))


# --------------------------------------------------------------------------- measuring


def _measure(tree: Tree, counts: np.ndarray, allocation: Allocation, most: int) -> np.ndarray:
    """Counts with noise, 0 where not measured."""
    noisy = np.zeros(tree.n, np.int64)
    try:
        _add_up(tree, counts, most, noisy)
        measured = _measured(tree, allocation.ledger, allocation.exact)
        if measured is not None:
            noisy[~measured] = 0
        _add_noise(tree, allocation, noisy)
    except BaseException:
        # Whoever shows the variables of this function when an error occurs must not show counts.
        noisy.fill(0)
        raise
    return noisy


def _add_up(tree: Tree, counts: np.ndarray, most: int, out: np.ndarray) -> None:
    """Counts of all nodes, those of the leaves cut off; `out` holds zeros on entry."""
    leaves = tree._leaf_index
    if isinstance(leaves, slice) and counts.dtype == np.int64:
        np.clip(counts, 0, most, out=out[leaves])
    else:
        out[leaves] = _cut_off(counts, most)
    _sweep.accumulate(tree._natural_layout, out, out)


def _add_noise(tree: Tree, allocation: Allocation, out: np.ndarray) -> None:
    """Independent noise at every node that is measured and not exact.

    Sums wrap around like the noise: the result is a function of the exact noisy counts.
    """
    scales, exact, ledger = allocation
    sample = getattr(noise, ledger.mechanism)
    distinct = {scale for scale in scales if scale is not None}
    if len(distinct) == 1 and exact is None and None not in scales:
        (scale,) = distinct
        for start in range(0, tree.n, _DRAWS):
            part = out[start : start + _DRAWS]
            part += sample(scale, part.size)
        return
    for scale in distinct:
        chosen = np.array([s == scale for s in scales])[tree.depth - 1]
        if exact is not None:
            chosen &= ~exact
        out[chosen] += sample(scale, int(np.count_nonzero(chosen)))


def _measured(tree: Tree, ledger: Ledger, exact: np.ndarray | None) -> np.ndarray | None:
    """Nodes with a noisy or an exact count; None if that is all."""
    by_level = np.array([scale is not None for scale in ledger.scales])
    if by_level.all():
        return None
    measured = by_level[tree.depth - 1]
    return measured if exact is None else measured | exact


def _cut_off(counts: np.ndarray, most: int) -> np.ndarray:
    """Counts from 0 to `most` as int64."""
    if counts.dtype == object or counts.dtype == np.uint64:
        # These may not fit into int64 before.
        counts = np.minimum(np.maximum(counts, 0), most)
    return np.clip(counts.astype(np.int64, copy=False), 0, most)


def _post(tree: Tree, ledger: Ledger, exact: np.ndarray | None, threads: int | None) -> Consistency:
    return Consistency(tree, measurement_cumulants(tree, ledger, exact)[0], threads)


# --------------------------------------------------------------------------- arguments


def _whole_counts(tree: Tree, counts: Any) -> np.ndarray:
    """Integers, one per leaf. No message tells a count."""
    # A list may hold whole numbers of any size, of which numpy would make floats.
    listed = isinstance(counts, (list, tuple))
    try:
        a = np.array(counts, dtype=object) if listed else np.asarray(counts)
    except (TypeError, ValueError):
        check.fail("counts", "must be an array of whole numbers.")
    if a.shape != (tree.n_leaves,):
        check.fail(
            "counts",
            f"must have shape ({tree.n_leaves},), one count per leaf in the order of tree.leaves, "
            f"not {a.shape}.",
        )
    if a.dtype == object:
        whole = all(isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in a)
        if not whole:
            check.fail_type("counts", "must hold whole numbers (integers) only.")
    elif a.dtype.kind not in "iu":
        check.fail_type("counts", f"must hold whole numbers (integers), not dtype {a.dtype}.")
    return a


def _largest_count(tree: Tree, neighbors: str, max_count: int | None) -> int:
    """The public bound of a leaf's count."""
    if neighbors == "change_one":
        if max_count is not None:
            check.fail(
                "max_count",
                "must be None with neighbors='change_one': where records move, a count that is "
                "cut off would change the counts above it.",
            )
        return largest_sum(tree)
    largest = max(1, largest_sum(tree) // tree.n_leaves)
    if max_count is None:
        return largest
    if check.count("max_count", max_count, least=1) > largest:
        check.fail(
            "max_count",
            f"must be at most {largest} on this tree (2^50 / height / leaves), not {max_count}.",
        )
    return int(max_count)


def largest_sum(tree: Tree) -> int:
    """The largest total with which all values are exact enough to be rounded."""
    return max(1, _LARGEST // tree.height)


def _check_total(tree: Tree, counts: np.ndarray) -> None:
    """Refuse a total out of bounds where it is public."""
    most = largest_sum(tree)
    if np.sum(_cut_off(counts, most), dtype=np.float64) > most:
        check.fail("counts", f"must add up to at most {most} on this tree (2^50 / height).")


def _options(tree: Tree, ledger: Ledger, nonnegative: Any, integer: Any) -> tuple[bool, bool]:
    for name, value in (("nonnegative", nonnegative), ("integer", integer)):
        if not isinstance(value, (bool, np.bool_)):
            check.fail_type(name, f"must be True or False, not {value!r}.")
    largest = max(scale for scale in ledger.scales if scale is not None)
    if integer and _REACH * largest * tree.n > largest_sum(tree):
        # Known beforehand, so that rounding never fails on account of what was drawn.
        check.fail("integer", f"must be False with noise as large as {float(largest):.3g}.")
    return bool(nonnegative), bool(integer)
