"""Stage 1 of consistency: compute the weights of the two sweeps from the variances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import projection as kernels
from gmtree._kernels import variances
from gmtree.tree import Tree
from gmtree.tree.families import Families
from gmtree.tree.measurements import variance_by_level

# Within these limits, ratios of two variances, or of a value to a variance, neither overflow nor
# become 0.
VARIANCE_RANGE = (1e-100, 1e100)
# If all t are at least this large, the sweeps get 1 / (1 + t) only and compute t from it, which
# loses at most four bits.
SMALLEST_THAT_FOLLOWS = 0.1


def variance_by_node(tree: Tree, variance: Any) -> tuple[float, np.ndarray | None]:
    """(scale, None) if all variances are equal, else (1, variance of each node).

    Accepts the same forms as :class:`Consistency`. Variances given per node are returned unchanged,
    perhaps in the caller's own array, and are checked when they are used.
    """
    if variance is None:
        return 1.0, None
    per, numbers = _read_variance(tree, variance)
    a = check.reals("variance", tree._aligned("variance", numbers))
    sizes = {"node": tree.n, "level": tree.height}
    allowed = sizes if per == "any" else {per: sizes[per]}
    if a.shape not in ((), *((size,) for size in allowed.values())):
        forms = " or ".join(f"one per {name} ({size})" for name, size in allowed.items())
        check.fail("variance", f"must be one number, {forms}, not have shape {a.shape}.")
    a = np.ascontiguousarray(a, np.float64).reshape(a.shape)
    if per != "level" and a.shape == (tree.n,):
        if per == "any" and tree.height == tree.n:
            _refuse_ambiguous(tree, a)
        return 1.0, a
    check_variances(a, "level")
    if a.ndim == 0 and 0 < a < np.inf:
        return float(a), None
    return 1.0, np.full(tree.n, a) if a.ndim == 0 else a[tree.depth - 1]


def checked_variances(tree: Tree, variance: Any, what: str) -> np.ndarray:
    """The variance of each node in a new array; error messages also contain `what`."""
    try:
        scale, by_node = variance_by_node(tree, variance)
        if by_node is None:
            return np.full(tree.n, scale)
        check_variances(by_node, "node")
    except check.ArgumentError as error:
        raise check.reworded(error, note=f" ({what})") from None
    return by_node.copy()


def _read_variance(tree: Tree, variance: Any) -> tuple[str, Any]:
    """("node" or "level", numbers) if the caller specifies one of these; else ("any", numbers)."""
    if not isinstance(variance, Mapping):
        return "any", variance
    names = tree.level_names or ()
    if len(variance) == 1:
        [(per, numbers)] = variance.items()
        # A level may be called "node" or "level"; a single number then belongs to that level.
        if per in ("node", "level") and not (per in names and np.ndim(numbers) == 0):
            return per, numbers
    if names and variance:
        return "node", variance_by_level(tree, variance)
    check.fail(
        "variance",
        "must be {'node': [...]} or {'level': [...]} if it is a mapping; "
        f"its keys are {check.some(map(repr, variance)) or 'missing'}.",
    )


def _refuse_ambiguous(tree: Tree, a: np.ndarray) -> None:
    """On a chain, refuse numbers whose meaning differs per node and per level."""
    differs = np.flatnonzero(~((a == a[tree.depth - 1]) | np.isnan(a)))
    if differs.size:
        i = int(differs[0])
        check.fail(
            "variance",
            f"could be one number per node or one per level, since this tree has {tree.n} nodes "
            f"and {tree.n} levels, and ",
            check.Node(i),
            f" is on level {tree.depth[i]}; write {{'node': [...]}} or {{'level': [...]}}.",
        )


def check_variances(a: np.ndarray, per: str) -> None:
    """Refuse numbers that cannot be variances, and name the first node or level that has one."""
    smallest, largest = VARIANCE_RANGE
    bad = np.flatnonzero(~((a == 0) | (a == np.inf) | ((a >= smallest) & (a <= largest))))
    if not bad.size:
        return
    worst = a.flat[bad[0]]
    rule = "must not be negative or NaN"
    if worst > 0:
        rule = f"must be 0, inf or from {smallest} to {largest}"
    if not a.ndim:
        check.fail("variance", f"{rule}, not {worst}.")
    where = f"level {bad[0] + 1}" if per == "level" else check.Node(int(bad[0]))
    check.fail("variance", f"{rule}; ", where, f" has {worst}.")


def leaf_kernel(layout: _sweep.Layout, v: np.ndarray) -> Callable[..., None]:
    """The faster kernel that sums `v` over the leaves of each family."""
    large = v.ndim == 1 and layout.has_large_families
    return kernels.up_leaf_families if large else kernels.up_leaves


@dataclass(frozen=True, eq=False)
class Factor:
    """The weights that sweeps derive from the variances, by position.

    It never changes. Properties that few callers need are computed on first use and kept.
    Two threads may both compute one, with the same result.

    Attributes
    ----------
    t : array, per internal node
        Sum over the children of the variance of the estimate of a child from its own measurement
        and those below it; infinite if some child has no such measurement.
    s : array or None
        Variance of the measurement at each node. None if all are equal.
    q : array or None
        Weights by which siblings share a difference; None unless some nodes are known only together
        with their siblings.
    measured : array of bool or None
        Nodes (in the caller's numbering) with finite variance; None if all nodes have one.
    exact : array of int
        Positions of nodes that are known exactly both by themselves and by their children.
    some_exact : bool
        Whether any node is known exactly.
    scale : float
        Unit of all variances: the common variance if all are equal, else 1.
    """

    tree: Tree
    t: np.ndarray
    s: np.ndarray | None = None
    q: np.ndarray | None = None
    measured: np.ndarray | None = None
    exact: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    some_exact: bool = False
    scale: float = 1.0

    @classmethod
    def of(cls, tree: Tree, variance: Any, threads: int | None) -> Factor:
        """Stage 1 for variances in any form that users may pass."""
        scale, by_node = variance_by_node(tree, variance)
        if by_node is None:
            return cls._of_equal(tree, scale, threads)
        return cls._of_each(tree, by_node, threads)

    @classmethod
    def _of_equal(cls, tree: Tree, scale: float, threads: int | None) -> Factor:
        """The factor if all variances are equal. Then t is the theta of the paper."""
        layout = tree._layout
        t = np.zeros(tree.n_internal)
        with _sweep.team(layout, threads) as run:
            for segment in reversed(layout.segments):
                if segment[0] >= layout.n_inner:
                    run(kernels.count_leaves, (layout.parent, t), segment)
                else:
                    run(kernels.factor_inner, (layout.parent, None, t), segment)
        return cls(tree, _sweep.readonly(t), scale=scale)

    @classmethod
    def _of_each(cls, tree: Tree, variance: np.ndarray, threads: int | None) -> Factor:
        """The factor for one variance per node, in the caller's numbering."""
        layout = tree._layout
        s, t = np.empty(tree.n), np.empty(tree.n_internal)
        with _sweep.team(layout, threads) as run:
            some_missing, some_exact = _take(run, layout, variance, s)
            s = _sweep.readonly(s)
            for segment in reversed(layout.segments):
                if segment[0] >= layout.n_inner:
                    run(leaf_kernel(layout, s), (layout.parent, None, s, t), segment)
                else:
                    run(kernels.factor_inner, (layout.parent, s, t), segment)
        t = _sweep.readonly(t)
        q = measured = None
        exact = np.empty(0, np.int64)
        if some_missing:
            measured = np.isfinite(variance)
            if np.isinf(s[0]) and (tree.n == 1 or np.isinf(t[0])):
                _refuse_undetermined(tree, variance)
            if not np.isfinite(t).all():
                q = _split_evenly(tree, s, t)
        if some_exact:
            exact = np.flatnonzero((s[: tree.n_internal] == 0) & (t == 0))
        return cls(tree, t, s, q, measured, exact, some_exact)

    @property
    def has_undetermined(self) -> bool:
        """Whether some nodes are known only together with their siblings."""
        return self.q is not None

    @property
    def weights(self) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray]:
        """q, s and t, as kernels take them."""
        return self.q, self.s, self.t

    @cached_property
    def projecting(self) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray]:
        """s, t and 1 / (1 + t), as the sweeps of a projection take them.

        If all variances are equal, the sweeps use 1 / (1 + t), which saves a division that would
        take half of their time. They compute t from it, so t is None here. If t is much smaller
        than one at some node, as on long chains, this would lose digits. Then t is also returned.
        """
        if self.s is not None:
            return self.s, self.t, self.t
        inverse = 1.0 + self.t
        np.reciprocal(inverse, out=inverse)
        follows = self.t.min(initial=1.0) >= SMALLEST_THAT_FOLLOWS
        return None, None if follows else self.t, _sweep.readonly(inverse)

    @property
    def rank(self) -> np.ndarray | None:
        """Position of each node, unsigned; None if position and node are the same."""
        layout = self.tree._layout
        return None if layout.order is None else self.tree._sweep_rank.view(layout.parent.dtype)

    @property
    def variance(self) -> np.ndarray:
        """Variance of the measurement at each node, in the caller's numbering."""
        if self.s is None:
            return np.full(self.tree.n, self.scale)
        return self.tree._from_positions(self.s)

    def positive_variance(self) -> np.ndarray:
        """The variance of each node; refused if no Generation Matrix exists for these variances."""
        variance = self.variance
        bad = np.flatnonzero(~((variance > 0) & (variance < np.inf)))
        if bad.size:
            check.fail(
                "variance",
                "must be positive and finite for a Generation Matrix to exist; ",
                check.Node(int(bad[0])),
                f" has {variance[bad[0]]}.",
            )
        return variance

    @cached_property
    def families(self) -> Families:
        """The children of each internal node, for bounds and rounding."""
        return Families.of(self.tree)

    @cached_property
    def family_layout(self) -> _sweep.Layout:
        """The layout of sweeps over internal nodes that also process the leaves of each node."""
        tree = self.tree
        width = tree.n // tree.n_internal
        inner = [s for s in tree._segments(width) if s[0] < tree.n_internal]
        first, *others = inner or ((1, 1, False),)
        # The root joins the first range if one thread processes that range.
        root = ((0, 1, False), first) if first[2] else ((0, first[1], False),)
        return replace(tree._layout, segments=(*root, *others))

    @cached_property
    def largest_children(self) -> tuple[np.ndarray, np.ndarray]:
        """For each internal node: its child of largest q, and the total q of its other children."""
        n_inner = self.tree.n_internal
        parent = self.tree._layout.parent
        largest, rest = np.zeros(n_inner, parent.dtype), np.zeros(n_inner)
        variances.largest_children(parent, self.s, self.t, largest, rest)
        return largest, rest

    @cached_property
    def node_variance(self) -> np.ndarray:
        """Variance of each consistent value, by position."""
        variance = np.empty(self.tree.n)
        largest, rest = self.largest_children
        parent = self.tree._layout.parent
        variances.node_variances(parent, *self.weights, largest, rest, variance)
        return _sweep.readonly(variance)

    @cached_property
    def sibling_sums(self) -> np.ndarray:
        """Sums of q over stretches of the tree's lists of children."""
        child = self.tree._child_lists.child
        sums = np.zeros(2 * child.size)
        variances.sibling_sums(child, self.rank, self.s, self.t, sums)
        return sums


def _take(
    run: _sweep.Run, layout: _sweep.Layout, variance: np.ndarray, s: np.ndarray
) -> tuple[bool, bool]:
    """Reorder variances by position; returns whether any are infinite, and whether any are zero."""
    seen = np.zeros(3, bool)
    args = (layout.order, _sweep.readonly(variance), *VARIANCE_RANGE, s, seen)
    kernels.take_variances(*args, 0, 1)
    for segment in layout.segments:
        run(kernels.take_variances, args, segment, True)
    some_invalid, some_missing, some_exact = seen.tolist()
    if some_invalid:
        check_variances(variance, "node")
    return some_missing, some_exact


def _split_evenly(tree: Tree, s: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The q of each node, by position, if some children are undetermined."""
    parent = tree._layout.parent
    count, q = np.zeros(t.size), np.empty(tree.n)
    kernels.count_undetermined(parent, s, t, count)
    kernels.split_evenly(parent, s, t, count, q)
    return _sweep.readonly(q)


def _refuse_undetermined(tree: Tree, variance: np.ndarray) -> None:
    """Raise an error that names a leaf with no measurement on its path to the root."""
    if not np.isfinite(variance).any():
        check.fail("variance", "must be finite at some node; no node is measured.")
    unmeasured = np.isinf(variance).astype(np.int64)
    # Downward: the number of nodes without a measurement on the path from the root.
    _sweep.propagate(tree._layout, unmeasured, unmeasured)
    first = int(tree.leaves[np.flatnonzero((unmeasured == tree.depth)[tree.leaves])[0]])
    check.fail(
        "variance",
        "must be finite somewhere on the path from each leaf to the root; neither ",
        check.Node(first, "leaf"),
        " nor any node above it is measured, so its value could be anything.",
    )
