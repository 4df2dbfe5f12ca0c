"""Measurements that change one at a time."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import tracking as kernels
from gmtree.consistency import sweeps
from gmtree.consistency.factor import Factor


class Tracker:
    """The plain projection of measurements that change one at a time.

    :meth:`Consistency.track` makes it. Updating or reading a value takes time proportional to the
    depth of the node, times the logarithm of the number of siblings at each step. It does not
    support bounds or whole numbers, because a single change could then move any leaf to its bound,
    or away from it. For these use ``post.project(live.noisy, nonnegative=True)``.

    The state depends on the current measurements alone, not on earlier ones. After any sequence of
    updates, values differ from those of a new projection by rounding only, and an outlier leaves no
    trace once it is corrected. An update that fails changes nothing.

    A tracker belongs to one thread at a time. The `Consistency` it comes from is not affected.

    Examples
    --------
    >>> import gmtree as gm
    >>> live = gm.Consistency(gm.shapes.star(3)).track([10.0, 4.0, 3.0])
    >>> live.values()
    array([9., 5., 4.])
    >>> live.update(1, 1e18)
    >>> live.update([1, 0], [7.0, 13.0])
    >>> live.value(0), live.value([1, 2])
    (12.0, array([8., 4.]))
    """

    def __init__(self, factor: Factor, threads: int | None, v: np.ndarray) -> None:
        tree = factor.tree
        self._factor, self._threads = factor, threads
        # The type is kept, since it decides how far sums of exactly known values may be off.
        self._v = np.array(v, dtype=np.float32 if v.dtype == np.float32 else np.float64)
        check.finite("noisy", self._v)
        if factor.exact.size:
            sweeps.sums_below(factor, threads, self._v)
        layout, lists = tree._layout, tree._child_lists
        self._up = (factor.s, factor.t, lists.start, lists.place)
        self._sums = np.zeros(2 * lists.child.size)
        self._path = (layout.parent, layout.order, factor.rank)
        # Nodes and previous measurements of an update that is not complete.
        self._unfinished: tuple[np.ndarray, np.ndarray] | None = None
        self._fill("noisy")

    def __repr__(self) -> str:
        return f"Tracker({self._factor.tree!r})"

    @property
    def noisy(self) -> np.ndarray:
        """The current measurements, read-only; 0 for nodes that are not measured."""
        self._settle()
        return _sweep.readonly(self._v)

    def update(self, node: Any, value: Any) -> None:
        """Change the measurement of a node, or of several nodes at once.

        Parameters
        ----------
        node : int or array of int
            If a node occurs twice, its last value counts. A node that is not measured (variance
            inf) stays unmeasured.
        value : number or array
            One value for each node, or one for all nodes.

        Notes
        -----
        A value that is known exactly (variance 0) may contradict other exactly known values. If
        this is possible, changing it takes a sweep over the tree.
        """
        factor, tree = self._factor, self._factor.tree
        nodes = check.node_numbers("node", node, tree.n)
        values = check.array("value", value)
        if values.dtype.kind not in "iuf":
            check.fail_type("value", f"must hold real numbers, not {values.dtype}.")
        if values.shape not in ((), nodes.shape):
            check.fail(
                "value",
                f"must be one number or have the shape of 'node', {nodes.shape}, "
                f"not {values.shape}.",
            )
        nodes = nodes.ravel()
        with np.errstate(over="ignore"):
            values = np.broadcast_to(values.ravel(), nodes.shape).astype(self._v.dtype)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            check.fail(
                "value",
                f"must be finite as {self._v.dtype}; that of node {nodes[bad[0]]} is "
                f"{values[bad[0]]}.",
            )
        if factor.measured is not None:
            is_measured = factor.measured[nodes]
            nodes, values = nodes[is_measured], values[is_measured]
        self._settle()
        self._unfinished = nodes, self._v[nodes]
        try:
            self._v[nodes] = values
            s = factor.s
            if s is not None and factor.exact.size and np.any(s[tree._sweep_rank[nodes]] == 0):
                sweeps.sums_below(factor, self._threads, self._v)
            self._renew(nodes)
            self._unfinished = None
        finally:
            self._settle()

    @overload
    def value(self, node: check.Integer) -> float: ...

    @overload
    def value(self, node: Any) -> np.ndarray: ...

    def value(self, node: Any) -> float | np.ndarray:
        """The projected value of a node; an array of nodes gives an array."""
        nodes = check.node_numbers("node", node, self._factor.tree.n)
        self._settle()
        found, out = nodes.ravel().astype(np.uint64), np.empty(nodes.size)
        parent_order_rank, (s, t, *lists) = self._path, self._up
        q = self._factor.q
        kernels.values_at(*parent_order_rank, q, s, t, *lists, self._v, self._sums, found, out)
        bad = np.flatnonzero(~np.isfinite(out))
        if bad.size:
            check.fail(
                "node", f"must have a value that float64 can hold; node {found[bad[0]]} does not."
            )
        return out.reshape(nodes.shape) if nodes.ndim else float(out[0])

    def values(self) -> np.ndarray:
        """The projected values of all nodes, in two sweeps: ``post.project(live.noisy)``."""
        self._settle()
        x = np.empty(self._v.shape, self._v.dtype)
        sweeps.project(self._factor, self._threads, self._v, x)
        return x

    def _settle(self) -> None:
        """Undo an update that was not completed.

        An interrupt can also stop this method at any line. The next call then starts it again.
        """
        if self._unfinished is not None:
            nodes, before = self._unfinished
            self._v[nodes] = before
            self._renew(nodes)
            self._unfinished = None

    def _renew(self, nodes: np.ndarray) -> None:
        """Bring the sums up to date after the measurements of some nodes have changed."""
        tree = self._factor.tree
        if nodes.size * tree.height > tree.n:
            self._fill("value")
            return
        parent, order, rank = self._path
        args = (*self._up, self._v, self._sums, nodes.astype(np.uint64))
        if not kernels.renew_all(parent, order, rank, *args):
            _refuse_overflow("value")

    def _fill(self, argument: str) -> None:
        """Recompute all sums."""
        if not kernels.fill(self._path[1], *self._up, self._v, self._sums):
            _refuse_overflow(argument)


def _refuse_overflow(argument: str) -> None:
    check.fail(argument, "must have sums that floating point numbers can hold.")
