"""Layouts of sweeps: the order of positions, and the threads that share them.

A `Layout` is the order in which positions are visited, with the places at which threads may cut it.
The functions below run the kernels of `gmtree._kernels.sweeps` over it.
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
from gmtree._kernels._jit import sharing_arrays

# One thread processes shorter levels: handing over a piece costs up to 50 microseconds, in which
# about 50,000 nodes could be processed.
SMALLEST_SHARED_LEVEL = 1 << 18
# Starting a thread costs several times as much, so threads share a sweep only if its long levels
# have at least SHARED_LEVELS_PER_SWEEP * SMALLEST_SHARED_LEVEL nodes in total.
SHARED_LEVELS_PER_SWEEP = 4
# From this mean number of children on, summing a family in a register beats adding each child
# to its parent in memory.
LARGE_FAMILY = 6
# A subtree that threads share has at most 1 / 16 of the internal nodes, so that threads do not wait
# long for the last one, and at most `LARGEST_BLOCK` numbers, so that it stays in the cache of a
# processor. It has at least 1 / 16 of this size and at least `SMALLEST_BLOCK` numbers, since
# otherwise the overhead of calls would matter.
BLOCKS = 16
SMALLEST_BLOCK, LARGEST_BLOCK = 1 << 11, 1 << 16
# Trees with more levels than this count as not numbered level by level.
MOST_LEVELS = 1000
# A sweep is limited by memory bandwidth, which a few cores already exhaust.
MOST_THREADS = 8


# The start and the stop of a range; if it is a subtree with its leaves, also those of the leaves.
Range = tuple[int, ...]
# (start, stop, shared): positions of a sweep. Threads may cut them anywhere if `shared` is true. If
# it is a tuple of ranges, these are all positions of the segment. Each is a subtree without its
# root, so that threads may sweep several ranges at the same time.
Segment = tuple[int, int, bool | tuple[Range, ...]]


@dataclass(frozen=True)
class Layout:
    """The positions of a sweep: parents before children, the root at position 0.

    Attributes
    ----------
    parent : array of unsigned int
        Position of each position's parent; the root's entry is never read.
    order : array of unsigned int or None
        The caller's node at each position; None if position and node are the same.
    n_inner : int
        Positions from here on are leaves.
    segments : tuple of (start, stop, shared)
        They cover positions 1 to n, parents first. A segment whose `shared` is true is one whole
        level, whose nodes do not depend on each other.
    """

    parent: np.ndarray
    order: np.ndarray | None
    n_inner: int
    segments: tuple[Segment, ...]

    @property
    def n(self) -> int:
        """Number of positions."""
        return self.parent.size

    @cached_property
    def has_shared(self) -> bool:
        """Whether any segment is long enough for several threads."""
        return any(shared for _, _, shared in self.segments)

    @cached_property
    def joint_segments(self) -> tuple[Segment, ...]:
        """Segments in which the subtrees that threads share contain their leaves.

        Otherwise the leaves would be visited after all internal nodes, and each part of the
        caller's arrays would be read twice if nodes are numbered depth first.
        """
        if len(self.segments) < 2:
            return self.segments
        *above, (start, stop, subtrees), _ = self.segments
        if not isinstance(subtrees, tuple):
            return self.segments
        # The children of the root of a subtree, which is the node before it, belong to the subtree.
        roots = np.array(subtrees, self.parent.dtype) - self.parent.dtype.type(1)
        parent_of_leaf = self.parent[self.n_inner :]
        first = (self.n_inner + np.searchsorted(parent_of_leaf, roots[:, 0])).tolist()
        last = (self.n_inner + np.searchsorted(parent_of_leaf, roots[:, 1], "right")).tolist()
        joint = tuple((*s, a, b) for s, a, b in zip(subtrees, first, last, strict=True))
        gaps = zip((self.n_inner, *last), (*first, self.n), strict=True)
        return (*above, *((a, b, False) for a, b in gaps if a < b), (start, stop, joint))

    @cached_property
    def has_large_families(self) -> bool:
        """Whether leaves have many siblings on average."""
        parents = self.parent[self.n_inner :]
        return parents.size >= LARGE_FAMILY * (int(parents[-1]) - int(parents[0]) + 1)

    def portions(self, segment: Segment, threads: int, *, keep_families: bool = True) -> list:
        """A list of ranges for each thread, of about equal length.

        With `keep_families` no family is cut. Subtrees are never cut.
        """
        start, stop, shared = segment
        if isinstance(shared, tuple):
            after = np.cumsum([each[1] - each[0] for each in shared])
            wanted = after[-1] * np.arange(1, threads) // threads
            cuts = np.searchsorted(after, wanted, side="right")
            ends = [0, *cuts.tolist(), len(shared)]
            return [shared[a:b] for a, b in pairwise(ends)]
        cuts = [start]
        for k in range(1, threads):
            cut = start + (stop - start) * k // threads
            if keep_families:
                # Parents ascend within a level, so the end of a family is found by bisection.
                family = self.parent[cut - 1]
                cut += int(np.searchsorted(self.parent[cut:stop], family, side="right"))
            if cuts[-1] < cut < stop:
                cuts.append(cut)
        return [[(a, b)] for a, b in pairwise([*cuts, stop])]


def segment_levels(level_start: np.ndarray, n_inner: int, width: int = 1) -> tuple[Segment, ...]:
    """Segments of positions that are sorted by height: each long level, and runs of short levels.

    The leaves begin a new segment. `width` is the number of values per node; the more there are,
    the fewer nodes make a level long.
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


def segment_numbers(parent: np.ndarray, n_inner: int, width: int = 1) -> tuple[Segment, ...]:
    """Segments of internal nodes in any order with parents first, and of the leaves after them.

    Threads share levels if nodes are numbered level by level, and subtrees if nodes are numbered
    depth first. Otherwise they share only the leaves.
    """
    n = parent.size
    shares = n * width >= SHARED_LEVELS_PER_SWEEP * SMALLEST_SHARED_LEVEL
    inner: tuple[Segment, ...] = ()
    if shares and n_inner > BLOCKS:
        levels = _levels_of_depth(parent[:n_inner])
        if levels is not None:
            return segment_levels(np.append(levels, n), n_inner, width)
        inner = _segment_subtrees(parent[:n_inner], width)
    share_leaves = shares and (n - n_inner) * width >= SMALLEST_SHARED_LEVEL
    return (*(inner or ((1, n_inner, False),)), (n_inner, n, share_leaves))


def _levels_of_depth(parent: np.ndarray) -> np.ndarray | None:
    """Starts of the levels and the end of the last; None if they are too many or not ranges."""
    above = parent[1:]
    if np.any(above[1:] < above[:-1]):
        return None
    start = [0, 1]
    while start[-1] < parent.size:
        start.append(1 + int(np.searchsorted(above, start[-1])))
        if len(start) > MOST_LEVELS:
            return None
    return np.array(start)


def _segment_subtrees(parent: np.ndarray, width: int) -> tuple[Segment, ...]:
    """Cut a tree into subtrees of similar size, which threads share, and the nodes above them.

    Returns the segments above the subtrees, followed by a segment of all subtrees. The result is
    empty if subtrees are not ranges, or if such subtrees hold less than half of the nodes.
    """
    n, above = parent.size, parent[1:]
    size = np.ones(n, np.int64)
    accumulate(Layout(parent, None, n, ((1, n, False),)), size, size)
    stop = np.arange(n) + size
    if np.any(stop[1:] > stop[above]):
        return ()
    most = min(n // BLOCKS, LARGEST_BLOCK // width)
    large = size > most
    least = max(most // BLOCKS, SMALLEST_BLOCK // width)
    is_block = ~large[1:] & large[above] & (size[1:] >= least)
    root = 1 + np.flatnonzero(is_block)
    if 2 * size[root].sum() < n:
        return ()
    blocks = tuple(zip((root + 1).tolist(), stop[root].tolist(), strict=True))
    starts = (1, *(stop for _, stop in blocks))
    stops = (*(start for start, _ in blocks), n)
    rest = [(a, b, False) for a, b in zip(starts, stops, strict=True) if a < b]
    return (*rest, (blocks[0][0], blocks[-1][1], blocks))


def usable_threads(threads: int | None) -> int:
    """The given number of threads; by default one for each available core, up to `MOST_THREADS`."""
    if threads is not None:
        return threads
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # Not all operating systems report this.
        cores = os.cpu_count() or 1
    return min(cores, MOST_THREADS)


Kernel = Callable[..., Any]
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


def _run_alone(kernel: Kernel, args: tuple, segment: Segment, downward: bool = False) -> None:
    start, stop, shared = segment
    if isinstance(shared, tuple):
        _run_ranges(kernel, args, shared)
    else:
        kernel(*args, start, stop)


def _run_ranges(kernel: Kernel, args: tuple, ranges: Iterable[Range]) -> None:
    for each in ranges:
        kernel(*args, *each)


_run_share = sharing_arrays()(_run_ranges)

# It has no state, so one object serves all sweeps: on a small tree, making another takes as long as
# the sweep.
_ALONE: AbstractContextManager[Run] = nullcontext(_run_alone)


@contextmanager
def _started(count: int) -> Iterator[ThreadPoolExecutor | None]:
    """A pool whose threads are all running, or None if memory is short.

    If a pool cannot start a thread for a piece of work, it raises an error, but may still run the
    piece.
    """
    with ThreadPoolExecutor(count) as pool:
        yield pool if _can_start(pool, count) else None


def _can_start(pool: ThreadPoolExecutor, count: int) -> bool:
    """Start all threads of a new pool; False if that is not possible."""
    may_go_on = threading.Event()
    try:
        for _ in range(count):  # no thread is idle yet, so each call starts another
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


def in_shares(
    count: int, work: Callable[[int, int], None], smallest: int, threads: int | None = None
) -> None:
    """Run `work(begin, end)` over the ranges of 0 to count, shared between threads.

    Each thread gets at least `smallest` numbers.
    """
    shares = min(usable_threads(threads), 1 + count // smallest)
    cuts = [count * k // shares for k in range(shares + 1)]
    if shares == 1:
        work(0, count)
    else:
        share(shares, work, cuts[:-1], cuts[1:])


@contextmanager
def _together(layout: Layout, count: int) -> Iterator[Run]:
    with _started(count - 1) as pool:
        if pool is None:
            yield _run_alone
            return

        def run(kernel: Kernel, args: tuple, segment: Segment, downward: bool = False) -> None:
            if not segment[2]:
                _run_alone(kernel, args, segment)
                return
            first, *others = layout.portions(segment, count, keep_families=not downward)
            waiting: list[Future] = [pool.submit(_run_share, kernel, args, o) for o in others]
            _run_share(kernel, args, first)
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
    # If leaves come last, they initialise the sums of their parents.
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
            elif v.ndim == 1 and layout.has_large_families:
                run(sweeps.accumulate_leaf_families, of_leaves, segment)
            else:
                run(sweeps.accumulate_leaves, of_leaves, segment)
    root = _root(layout)
    if total is not None:
        out[root] = v[root] + total[0] if node is None else (v[root] + total[0]) / node[0]
    elif node is not None:
        out[root] /= node[0]


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
    """Run a linear `operation(v, out)` into `out`, or into a new array if that is None.

    The operation gets a contiguous `out` that does not overlap `v`, or `v` itself if it works in
    place. `growth` bounds the ratio of the largest result to the largest entry.
    """
    if out is not None:
        memory = check.output("out", out, shape, dtype)
        direct = memory.flags.c_contiguous and (
            (in_place and out is v) or not np.may_share_memory(memory, v)
        )
        if not direct:
            memory[...] = deliver(operation, argument, v, None, shape, dtype, growth=growth)
            return out
    if dtype == np.int64 and v.size and max(int(v.max()), -int(v.min())) * growth > check.INT64_MAX:
        result = _in_halves(operation, argument, v, shape)
        if out is None:
            return result
        np.copyto(memory, result)
        return out
    if out is None:
        out = memory = np.empty(shape, dtype)
    operation(v, memory)
    return out


def _in_halves(
    operation: Operation, argument: str, v: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    """Exact integer result, computed from the upper and the lower 32 bits without overflow."""
    low, high = np.empty(shape, np.int64), np.empty(shape, np.int64)
    operation(v & 0xFFFFFFFF, low)
    operation(v >> 32, high)
    high += low >> 32
    bad = np.flatnonzero((abs(high * 2 + 1) > 2**32).reshape(shape[0], -1).any(axis=1))
    if bad.size:
        raise check.IntegerOverflowError(
            argument,
            "must have sums that fit into 64-bit integers; that at ",
            check.Node(int(bad[0])),
            " does not.",
        )
    return (high << 32) | (low & 0xFFFFFFFF)


def readonly(array: np.ndarray) -> np.ndarray:
    """A read-only view, so that a kernel is compiled for one type of input only."""
    view = array.view()
    view.flags.writeable = False
    return view


def unsigned(index: np.ndarray) -> np.ndarray:
    """Non-negative numbers as unsigned ones, which kernels use as indices."""
    return index.view(f"u{index.dtype.itemsize}")


def _over_all(
    kernel: Kernel, args: tuple, layout: Layout, threads: int | None, downward: bool = False
) -> None:
    """Run one kernel over all positions except the root, parents first."""
    with team(layout, threads) as run:
        for segment in layout.segments:
            run(kernel, args, segment, downward)


def _root(layout: Layout) -> int:
    return 0 if layout.order is None else int(layout.order[0])
