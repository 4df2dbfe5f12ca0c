"""The exact consistent optimum with bounds on both sides of any nodes.

Newton's method for the prices (`gmtree._kernels.between`) usually needs a handful of rounds. If it
settles, its bounds and prices meet the conditions of optimality, so its values are the optimum. It
may cycle instead. Then polylines (`gmtree._kernels.polylines`) determine which bounds hold with
equality, in a fixed number of steps. With these nodes held at their bounds, the optimum is a plain
projection.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree._kernels import between as kernels
from gmtree._kernels import polylines, reach
from gmtree.consistency import sweeps
from gmtree.consistency.bounded import LARGEST, LARGEST_EXPONENT
from gmtree.consistency.exact import Tolerance
from gmtree.consistency.factor import Factor
from gmtree.tree import Tree
from gmtree.tree.locate import node_in_error

# Newton's method rarely needs more than ten rounds. In the first `FREE_ROUNDS` of them, prices may
# change by any amount; later their steps are shortened if they swing back and forth.
FREE_ROUNDS, MOST_ROUNDS = 5, 16
# Count of numbers that fit into the processor's cache.
STRETCH = 1 << 15


class Problem(NamedTuple):
    """Measurements of one column and bounds, by node."""

    v: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None


def project_between(
    factor: Factor,
    threads: int | None,
    v: np.ndarray,
    lower: np.ndarray | None,
    upper: np.ndarray | None,
    out: np.ndarray,
) -> None:
    """Write the optimum within bounds per node into `out`, one column after the other."""
    n = factor.tree.n
    check.finite("noisy", v)
    if factor.exact.size:
        sweeps.sums_below(factor, threads, v)
    # Rounding must not make sums of non-negative numbers negative.
    nonnegative = lower is not None and bool((lower[factor.tree._leaf_index] >= 0).all())
    largest = max((_largest(a) for a in (v, lower, upper) if a is not None), default=0.0)
    shift = int(np.frexp(largest)[1]) - LARGEST_EXPONENT if largest > LARGEST else 0
    if shift:
        lower, upper = (None if a is None else np.ldexp(a, -shift) for a in (lower, upper))
    for column, result in zip(v.reshape(n, -1).T, out.reshape(n, -1).T, strict=True):
        noisy = np.ascontiguousarray(column, np.float64)
        problem = Problem(np.ldexp(noisy, -shift) if shift else noisy, lower, upper)
        tolerance = Tolerance.of(v.dtype).relative
        x = result if result.dtype == np.float64 and result.flags.c_contiguous else np.empty(n)
        if factor.some_exact:
            _refuse_infeasible(factor, problem, shift, tolerance)
        if not _settle_prices(factor, threads, problem, x):
            x[:] = by_polylines(factor, threads, problem, shift, tolerance)
        if nonnegative:
            np.maximum(x, 0, out=x)
        with np.errstate(over="ignore"):
            if shift:
                np.ldexp(x, shift, out=x)
            if x is not result:
                result[:] = x
        if not np.isfinite(result).all():
            sweeps.refuse_overflow(out)


def _largest(a: np.ndarray) -> float:
    """The largest finite absolute value."""
    largest = 0.0
    for k in range(0, len(a), STRETCH):
        sizes = abs(a[k : k + STRETCH])
        sizes[np.isinf(sizes)] = 0
        largest = max(largest, float(sizes.max(initial=0)))
    return largest


def _refuse_infeasible(factor: Factor, problem: Problem, shift: int, tolerance: float) -> None:
    """Refuse bounds and exactly known values that no consistent values can meet.

    Numbers are divided by ``2**shift``.
    """
    tree, (v, lower, upper) = factor.tree, problem
    least, most = np.empty((2, tree.n_internal))
    bad, *sums = reach.find_infeasible(
        tree._layout.order, *factor.families, _sweep.readonly(v), factor.s, lower, upper,
        tolerance, least, most,
    )  # fmt: skip
    if tree.n == 1 and factor.some_exact and np.clip(v, lower, upper)[0] != v[0]:
        bad = 0
    if bad < 0:
        return
    i = int(tree._sweep_order[bad])
    bounds = -np.inf if lower is None else lower[i], np.inf if upper is None else upper[i]
    own, between, below = (
        " and ".join(f"{np.ldexp(x, shift):.15g}" for x in numbers)
        for numbers in ((v[i],), bounds, sums)
    )
    is_exact = factor.s is not None and factor.s[bad] == 0
    rule = "must leave room for consistent values; "
    node = node_in_error(tree, i)
    if is_exact and not bounds[0] <= v[i] <= bounds[1]:
        check.fail("noisy", rule, node, f" is known exactly to be {own}, not between {between}.")
    known = f" is known exactly to be {own}" if is_exact else f" must be between {between}"
    argument = "lower" if upper is None else "upper"
    check.fail(
        argument, rule, node, f"{known}, but the sum of its children must be between {below}."
    )


def refuse_infeasible_bounds(
    tree: Tree, lower: np.ndarray | None, upper: np.ndarray | None
) -> None:
    """Refuse bounds by node that no consistent values can meet exactly, whatever is measured."""
    problem = Problem(np.zeros(tree.n), lower, upper)
    _refuse_infeasible(Factor.of(tree, None, None), problem, 0, tolerance=0.0)


def _settle_prices(factor: Factor, threads: int | None, problem: Problem, out: np.ndarray) -> bool:
    """Write the optimum into `out` if Newton's method finds it; returns whether it does.

    Values known exactly must be within their bounds. If no consistent values meet all bounds, the
    method does not settle.
    """
    tree, (v, lower, upper) = factor.tree, problem
    if tree.n == 1 or factor.has_undetermined:
        return False
    layout, m = factor.family_layout, tree.n_internal
    names = ("z", "q", "t", "b", "low", "high", "d", "step", "limit")
    state = kernels.State(
        parent=layout.parent,
        order=layout.order,
        **factor.families._asdict(),
        v=_sweep.readonly(v),
        s=factor.s,
        lower=lower,
        upper=upper,
        dirty=np.empty(m, np.uint8),
        **dict(zip(names, np.empty((len(names), m)), strict=True)),
    )
    with _sweep.team(layout, threads) as run:
        for segment in layout.segments:
            run(kernels.begin, (state,), segment, True)
        for k in range(MOST_ROUNDS):
            for segment in reversed(layout.segments):
                run(kernels.collect, (state,), segment, True)
            for segment in layout.segments:
                run(kernels.scan, (state, k >= FREE_ROUNDS), segment, True)
            if not state.dirty.any():
                break
        else:
            return False
        for segment in layout.segments:
            run(kernels.write, (state, out), segment, True)
    return True


def by_polylines(
    factor: Factor, threads: int | None, problem: Problem, shift: int, tolerance: float
) -> np.ndarray:
    """The projection in which nodes are held at those bounds that hold with equality."""
    _refuse_infeasible(factor, problem, shift, tolerance)
    tree, (v, lower, upper) = factor.tree, problem
    if tree.n == 1:
        return np.clip(v, lower, upper)
    status = tree._from_positions(_find_status(factor, problem))
    s, noisy = np.array(factor.variance), v.copy()
    free = s > 0
    for bound, which in ((lower, 0), (upper, 2)):
        if bound is not None:
            held = (status == which) & np.isfinite(bound) & free
            np.copyto(noisy, bound, where=held)
            s[held] = 0
    # Nodes held at their bounds count as known exactly. Rounding errors in sums of bounds must not
    # be refused as contradictions.
    held_factor = replace(Factor.of(tree, {"node": s}, threads), exact=factor.exact[:0])
    del s, free, status
    x = np.empty(tree.n)
    sweeps.project(held_factor, threads, noisy, x)
    if held_factor.has_undetermined:
        bounded = (tree._layout.order, *factor.families, lower, upper)
        numbers = np.zeros((3, tree.n_internal))
        reach.find_reach(bounded, held_factor.s, held_factor.t, x, *numbers)
        reach.share_evenly(bounded, held_factor.s, held_factor.t, *numbers, x)
    # Rounding may have moved values beyond their bounds.
    return np.clip(x, lower, upper, out=x)


def _find_status(factor: Factor, problem: Problem) -> np.ndarray:
    """For each position, 0 if the node is at its lower bound, 2 if at its upper bound, else 1."""
    tree, layout = factor.tree, factor.tree._layout
    v, lower, upper = problem
    some_missing = factor.measured is not None
    count, first = np.zeros((2, tree.n_internal), np.int64)
    reach.count_entries(layout.order, *factor.families, lower, upper, count)
    reach.place_entries(layout.order, *factor.families[1:], lower, count, first)
    entries, spare = (_entries(int(count[0]), layout.parent.dtype, some_missing) for _ in range(2))
    state = polylines.State(
        order=layout.order,
        **factor.families._asdict(),
        v=_sweep.readonly(v),
        s=factor.s,
        lower=lower,
        upper=upper,
        entries=entries,
        spare=spare,
        first=first,
        **dict(zip(("size", "x", "left", "right"), np.empty((4, tree.n_internal)), strict=True)),
        status=np.zeros(tree.n, np.uint8),
    )
    polylines.merge(state)
    return state.status


def _entries(size: int, dtype: np.dtype, with_heights: bool) -> polylines.Entries:
    height = np.empty(size) if with_heights else None
    return polylines.Entries(np.empty(size), np.empty(size), height, np.empty(size, dtype))
