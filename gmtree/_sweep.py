"""How a sweep over a tree is laid out in memory and shared between threads.

A `Layout` says in which order positions are visited and where that order may be cut; the
functions below run the kernels of `gmtree._kernels.sweeps` over it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._kernels import sweeps

# A shorter level is done by one thread: handing over a piece costs up to 50 microseconds, the
# time of about as many thousand nodes.
SMALLEST_SHARED_LEVEL = 1 << 18
# Starting a thread costs several times that, so a few such levels must come together.
SHARED_LEVELS_PER_SWEEP = 4
# From this mean number of children on, summing a family in a register beats adding each child
# to its parent in memory.
LARGE_FAMILY = 6
# A sweep is bound by memory, which a few cores already use up.
MOST_THREADS = 8


@dataclass(frozen=True)
class Layout:
    """The positions of a sweep: parents before children, the root at position 0.

    Attributes
    ----------
    parent : array of unsigned int
        Position of each position's parent; the root's entry is never read.
    order : array of unsigned int or None
        The caller's node at each position; None where position and node are the same.
    n_inner : int
        Positions from here on are leaves.
    segments : tuple of (start, stop, can_be_shared)
        Consecutive ranges that cover positions 1 to n. A shared range is one whole level,
        whose nodes do not depend on each other.
    """

    parent: np.ndarray
    order: np.ndarray | None
    n_inner: int
    segments: tuple[tuple[int, int, bool], ...]

    @property
    def n(self) -> int:
        return self.parent.size

    @cached_property
    def has_shared(self) -> bool:
        """Whether some range is long enough for several threads."""
        return any(shared for _, _, shared in self.segments)

    @cached_property
    def large_families(self) -> frozenset[int]:
        """Where those ranges of leaves begin that have large families on average."""
        leaves = (s for s in self.segments if s[0] >= self.n_inner)
        return frozenset(s[0] for s in leaves if mean_family(self, s) >= LARGE_FAMILY)

    def pieces(
        self, start: int, stop: int, threads: int, *, keep_families: bool = True
    ) -> list[tuple[int, int]]:
        """Cut a level into ranges of about equal length; `keep_families` cuts no family."""
        cuts = [start]
        for k in range(1, threads):
            cut = start + (stop - start) * k // threads
            if keep_families:
                # Parents ascend within a level, so the end of a family is found by bisection.
                family = self.parent[cut - 1]
                cut += int(np.searchsorted(self.parent[cut:stop], family, side="right"))
            if cuts[-1] < cut < stop:
                cuts.append(cut)
        return list(zip(cuts, [*cuts[1:], stop], strict=True))


def segment_levels(
    level_start: np.ndarray, n_inner: int, width: int = 1
) -> tuple[tuple[int, int, bool], ...]:
    """Merge runs of short levels; keep each long level, and the first leaf, as a boundary.

    `width` is how many numbers each node has, which make a level long with fewer nodes.
    """
    sizes = np.diff(level_start).astype(np.int64) * width
    long = np.flatnonzero(sizes >= SMALLEST_SHARED_LEVEL)
    if sizes[long].sum() < SHARED_LEVELS_PER_SWEEP * SMALLEST_SHARED_LEVEL:
        long = long[:0]
    bounds = {1, n_inner, int(level_start[-1])}
    bounds.update(level_start[long].tolist(), level_start[long + 1].tolist())
    starts = sorted(b for b in bounds if b >= 1)
    shared = set(level_start[long].tolist())
    return tuple((a, b, a in shared) for a, b in pairwise(starts))


def usable_threads(threads: int | None) -> int:
    """The number asked for, or the cores this process may use, up to where they help."""
    if threads is not None:
        return threads
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # this operating system does not have it
        cores = os.cpu_count() or 1
    return min(cores, MOST_THREADS)


Run = Callable[..., None]


def team(layout: Layout, threads: int | None) -> AbstractContextManager[Run]:
    """Give a function `run(kernel, args, segment)` that shares long levels between threads.

    A kernel that writes to parents gets whole families, so that no two threads write to one
    parent. Pass ``downward=True`` for a kernel that only reads parents: its ranges may be cut
    anywhere. The threads end with the sweep, since a forked process would lose those of a pool.
    """
    if not layout.has_shared:
        return _ALONE
    count = usable_threads(threads)
    return _ALONE if count == 1 else _together(layout, count)


def _run_alone(
    kernel: Callable[..., Any],
    args: tuple,
    segment: tuple[int, int, bool],
    downward: bool = False,
) -> None:
    kernel(*args, segment[0], segment[1])


# It has no state, so one serves all: on a small tree making another takes as long as the sweep.
_ALONE: AbstractContextManager[Run] = nullcontext(_run_alone)


@contextmanager
def _started(count: int) -> Iterator[ThreadPoolExecutor | None]:
    """A pool all of whose threads run already, or None where there is no memory for their stacks.

    A pool that cannot start a thread for a piece of work fails, and may do the piece nevertheless.
    """
    with ThreadPoolExecutor(count) as pool:
        yield pool if _can_start(pool, count) else None


def _can_start(pool: ThreadPoolExecutor, count: int) -> bool:
    """Start all threads of a new pool; False if that is not possible."""
    may_go_on = threading.Event()
    try:
        for _ in range(count):  # nobody is idle yet, so that each needs a thread of its own
            pool.submit(may_go_on.wait)
    except RuntimeError:
        return False
    finally:
        may_go_on.set()
    return True


def share(threads: int, work: Callable[..., Any], *arguments: Iterable[Any]) -> None:
    """Call `work` with each of the arguments, in several threads at the same time."""
    with _started(threads) as pool:
        for _ in map(work, *arguments) if pool is None else pool.map(work, *arguments):
            pass


@contextmanager
def _together(layout: Layout, count: int) -> Iterator[Run]:
    with _started(count - 1) as pool:
        if pool is None:
            yield _run_alone
            return

        def run(
            kernel: Callable[..., Any],
            args: tuple,
            segment: tuple[int, int, bool],
            downward: bool = False,
        ) -> None:
            start, stop, shared = segment
            if not shared:
                kernel(*args, start, stop)
                return
            first, *others = layout.pieces(start, stop, count, keep_families=not downward)
            waiting: list[Future] = [pool.submit(kernel, *args, *piece) for piece in others]
            kernel(*args, *first)
            for future in waiting:
                future.result()

        yield run


def propagate(
    layout: Layout,
    v: np.ndarray,
    out: np.ndarray,
    node: np.ndarray | None = None,
    edge: np.ndarray | None = None,
    threads: int | None = None,
) -> None:
    """Downward: z_i = (v_i + e_i z_parent) / w_i. `out` may be `v`."""
    root = _root(layout)
    out[root] = v[root] if node is None else v[root] / node[0]
    args = (layout.parent, layout.order, node, edge, readonly(v), out)
    _over_all(sweeps.propagate, args, layout, threads, downward=True)


def accumulate(
    layout: Layout,
    v: np.ndarray,
    out: np.ndarray,
    node: np.ndarray | None = None,
    edge: np.ndarray | None = None,
    threads: int | None = None,
) -> None:
    """Upward: z_i = (v_i + sum of e_c z_c) / w_i. `out` may be `v`."""
    if layout.n == 1:
        out[0] = v[0] if node is None else v[0] / node[0]
        return
    # Where leaves come last, they start the sums of their parents.
    leaves_last = layout.n_inner < layout.n
    total = None
    if layout.order is not None or out.dtype == np.float32:
        new = np.empty if leaves_last else np.zeros
        wide = np.float64 if out.dtype == np.float32 else out.dtype
        total = new((layout.n_inner, *out.shape[1:]), wide)
    elif out is not v and not leaves_last:
        np.copyto(out, v)
    args = (layout.parent, layout.order, node, edge, readonly(v), out, total)
    of_leaves = (*args, layout.n_inner)
    with team(layout, threads) as run:
        for segment in reversed(layout.segments):
            if segment[0] < layout.n_inner:
                run(sweeps.accumulate, args, segment)
            elif v.ndim == 1 and segment[0] in layout.large_families:
                run(sweeps.accumulate_leaf_families, of_leaves, segment)
            else:
                run(sweeps.accumulate_leaves, of_leaves, segment)
    root = _root(layout)
    if total is not None:
        out[root] = v[root] + total[0] if node is None else (v[root] + total[0]) / node[0]
    elif node is not None:
        out[root] /= node[0]


def mean_family(layout: Layout, segment: tuple[int, int, bool]) -> float:
    """Mean number of siblings in a range of leaves."""
    start, stop, _ = segment
    return (stop - start) / (int(layout.parent[stop - 1]) - int(layout.parent[start]) + 1)


def multiply(
    layout: Layout,
    v: np.ndarray,
    out: np.ndarray,
    node: np.ndarray | None = None,
    edge: np.ndarray | None = None,
    threads: int | None = None,
) -> None:
    """y_i = w_i v_i - e_i v_parent. `out` is not `v`."""
    root = _root(layout)
    out[root] = v[root] if node is None else v[root] * node[0]
    args = (layout.parent, layout.order, node, edge, readonly(v), out)
    _over_all(sweeps.multiply, args, layout, threads, downward=True)


def multiply_transposed(
    layout: Layout,
    v: np.ndarray,
    out: np.ndarray,
    node: np.ndarray | None = None,
    edge: np.ndarray | None = None,
    threads: int | None = None,
) -> None:
    """y_i = w_i v_i - sum of e_c v_c. `out` is not `v`."""
    if out.dtype == np.float32:
        wide = np.empty(out.shape)
        multiply_transposed(layout, v, wide, node, edge, threads)
        with np.errstate(over="ignore"):
            np.copyto(out, wide, casting="same_kind")
        return
    if node is None:
        np.copyto(out, v)
    else:
        weight = node if v.ndim == 1 else node[:, None]
        if layout.order is None:
            np.multiply(v, weight, out=out)
        else:
            out[layout.order] = v[layout.order] * weight
    args = (layout.parent, layout.order, edge, readonly(v), out)
    _over_all(sweeps.multiply_transposed, args, layout, threads)


Operation = Callable[[np.ndarray, np.ndarray], None]


def deliver(
    operation: Operation,
    argument: str,
    v: np.ndarray,
    out: np.ndarray | None,
    shape: tuple[int, ...],
    dtype: Any,
    *,
    growth: int,
    in_place: bool = False,
) -> np.ndarray:
    """Run a linear `operation(v, out)` into `out`, or into a new array where that is None.

    The operation meets a contiguous `out` that does not overlap `v`, or is `v` itself where it
    works in place. `growth` bounds how much larger than the largest entry a result can be.
    """
    if out is not None:
        memory = check.output("out", out, shape, dtype)
        direct = memory.flags.c_contiguous and (
            (in_place and out is v) or not np.may_share_memory(memory, v)
        )
        if not direct:
            memory[...] = deliver(operation, argument, v, None, shape, dtype, growth=growth)
            return out
    if dtype == np.int64 and v.size and _largest(v) * growth > check.INT64_MAX:
        result = _in_halves(operation, argument, v, shape)
        if out is None:
            return result
        np.copyto(memory, result)
        return out
    if out is None:
        out = memory = np.empty(shape, dtype)
    operation(v, memory)
    return out


def _largest(v: np.ndarray) -> int:
    return max(int(v.max()), -int(v.min()))


def _in_halves(
    operation: Operation, argument: str, v: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    """Exact integer result by its upper and lower 32 bits, each of which cannot overflow."""
    low, high = np.empty(shape, np.int64), np.empty(shape, np.int64)
    operation(v & 0xFFFFFFFF, low)
    operation(v >> 32, high)
    high += low >> 32
    bad = np.flatnonzero((abs(high * 2 + 1) > 2**32).reshape(shape[0], -1).any(axis=1))
    if bad.size:
        raise check.IntegerOverflowError(
            f"Argument '{argument}' must have sums that fit into 64-bit integers; "
            f"that at node {bad[0]} does not."
        )
    return (high << 32) | (low & 0xFFFFFFFF)


def readonly(array: np.ndarray) -> np.ndarray:
    """A read-only view, so that a kernel meets one kind of input and compiles once."""
    view = array.view()
    view.flags.writeable = False
    return view


def unsigned(index: np.ndarray) -> np.ndarray:
    """The same non-negative numbers as unsigned ones, which kernels index with."""
    return index.view(f"u{index.dtype.itemsize}")


def _over_all(
    kernel: Callable[..., Any],
    args: tuple,
    layout: Layout,
    threads: int | None,
    downward: bool = False,
) -> None:
    """One kernel over all positions but the root, parents first."""
    with team(layout, threads) as run:
        for segment in layout.segments:
            run(kernel, args, segment, downward)


def _root(layout: Layout) -> int:
    return 0 if layout.order is None else int(layout.order[0])
