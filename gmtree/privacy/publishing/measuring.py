"""Turn true counts into noisy counts. True counts are not used after this step.

No behaviour of this module that can be observed may depend on private counts: no error, warning or
message does. True counts must not survive it either, neither in the result nor in the local
variables that a traceback keeps.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from gmtree import _sweep
from gmtree import _validate as check
from gmtree.privacy.accounting.allocation import Allocation, largest_sum
from gmtree.privacy.accounting.ledger import Ledger
from gmtree.privacy.accounting.workload import TableQuery
from gmtree.privacy.noise.registry import MECHANISMS
from gmtree.tree import Tree

# Number of draws per batch, small enough for them to stay in the cache until they are added.
_DRAWS = 1 << 18


def measure(
    tree: Tree, counts: Any, allocation: Allocation, charge: Callable[[], None]
) -> np.ndarray:
    """Noisy counts of all nodes; 0 at nodes that are not measured, exact counts at invariants.

    Noise is added to sums of cut-off leaf counts. Exact counts are sums of leaf counts that were
    not cut off, so that an invariant is never published as exact after it was changed. Values are
    then made consistent with the exact counts. That costs no privacy: one record changes the
    cut-off count of one leaf by at most one, and exact counts are outside the guarantee.

    The order is fixed: first all checks of `counts`, then `charge`, which may refuse the release,
    and then the noise is drawn.
    """
    ledger, exact = allocation.ledger, allocation.exact
    by_leaf = _whole_numbers(tree, counts)
    if ledger.max_count is None:
        check_public_total(by_leaf, largest_sum(tree))
    noisy = _sums(tree, by_leaf, ledger.max_count or largest_sum(tree))
    if exact is not None:
        noisy[exact] = _exact_sums(tree, by_leaf, exact)
    measured = measured_nodes(tree, ledger, exact)
    if measured is not None:
        noisy[~measured] = 0
    charge()
    _add_noise(tree, allocation.scales, exact, ledger.mechanism, noisy)
    return noisy


def measure_tables(
    tree: Tree, counts: Any, allocation: Allocation, charge: Callable[[], None]
) -> dict[TableQuery, np.ndarray]:
    """Noisy tables of all nodes for each query, from the cut-off cells of the leaves.

    One record changes one cell of one leaf by at most one, and so one cell of each query. Records
    in cells that cannot occur are not counted: their number is neither published nor reported, so
    that leaving them out reveals nothing. The counts of such cells are 0 before and after noise.
    """
    ledger, exact = allocation.ledger, allocation.exact
    workload = ledger._workload
    by_leaf = _whole_numbers(tree, counts, workload.shape)
    if workload.possible is not None:
        by_leaf = np.where(workload.possible, by_leaf, 0)
    if ledger.max_count is None:
        check_public_total(by_leaf, largest_sum(tree))
    totals = None if exact is None else _exact_sums(tree, _leaf_totals(tree, by_leaf), exact)
    cut = cut_off(by_leaf, ledger.max_count or largest_sum(tree))
    found: dict[TableQuery, np.ndarray] = {}
    scales: dict[TableQuery, tuple[Fraction | None, ...]] = {}
    for k, name in enumerate(workload.queries):
        query, cells = name or (), workload.cells[k]
        scales[query] = ledger.scales[k :: len(workload.queries)]
        table = np.zeros((tree.n, cells), np.int64)
        table[tree._leaf_index] = workload.marginal(cut, query).reshape(tree.n_leaves, cells)
        _sweep.accumulate(tree._natural_layout, table, table)
        unmeasured = np.array([scale is None for scale in scales[query]])
        if unmeasured.any():
            table[unmeasured[tree.depth - 1]] = 0
        if cells == 1 and exact is not None and totals is not None:
            table[exact, 0] = totals
        found[query] = table
    charge()
    for k, (query, table) in enumerate(found.items()):
        known = exact if workload.cells[k] == 1 else None
        _add_noise(tree, scales[query], known, ledger.mechanism, table)
        if workload.possible is not None:
            table[:, ~workload.possible_cells(query).ravel()] = 0
        found[query] = table.reshape(tree.n, *workload.query_shape(query))
    return found


def forget_locals(error: BaseException, outer: BaseException | None) -> None:
    """Clear the local variables of all finished functions that an error's traceback shows.

    Otherwise, tools that print the variables of a traceback could print true counts. The caller has
    to delete its own variables, because it has not returned yet. `outer` is the error that was
    being handled when the caller was called, if any. Its traceback belongs to other code and is not
    changed.
    """
    seen: set[int] = {id(outer)}
    waiting: list[BaseException | None] = [error]
    while waiting:
        x = waiting.pop()
        if x is not None and id(x) not in seen:
            seen.add(id(x))
            traceback.clear_frames(x.__traceback__)
            waiting += [x.__cause__, x.__context__]


def measured_nodes(tree: Tree, ledger: Ledger, exact: np.ndarray | None) -> np.ndarray | None:
    """Mask of the nodes with a noisy or an exact count; None if all nodes have one."""
    by_level = np.array([scale is not None for scale in ledger.scales])
    if by_level.all():
        return None
    measured = by_level[tree.depth - 1]
    return measured if exact is None else measured | exact


# --------------------------------------------------------------------------- sums and noise


def _sums(tree: Tree, by_leaf: np.ndarray, most: int) -> np.ndarray:
    """Counts of all nodes, after the leaf counts were cut off at 0 and at `most`."""
    out = np.zeros(tree.n, np.int64)
    leaves = tree._leaf_index
    if isinstance(leaves, slice) and by_leaf.dtype == np.int64:
        np.clip(by_leaf, 0, most, out=out[leaves])
    else:
        out[leaves] = cut_off(by_leaf, most)
    _sweep.accumulate(tree._natural_layout, out, out)
    return out


def cut_off(by_leaf: np.ndarray, most: int) -> np.ndarray:
    """Counts from 0 to `most` as int64."""
    if by_leaf.dtype == object or by_leaf.dtype == np.uint64:
        # The counts may not fit into int64 before they are cut off.
        by_leaf = np.minimum(np.maximum(by_leaf, 0), most)
    return np.clip(by_leaf.astype(np.int64, copy=False), 0, most)


def _leaf_totals(tree: Tree, by_leaf: np.ndarray) -> np.ndarray:
    """Totals of the tables of leaves. If a cell or a total is above the bound, so is the result."""
    most = largest_sum(tree)
    axes = tuple(range(1, by_leaf.ndim))
    # Floats are exact below the bound; above it, sums of integers might not fit into 64 bits.
    totals = cut_off(by_leaf, most + 1).sum(axis=axes, dtype=np.float64)
    return np.minimum(totals, most + 1).astype(np.int64)


def _exact_sums(tree: Tree, by_leaf: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Counts of the exact nodes, from leaf counts that are not cut off (except below 0).

    An error about too large counts depends only on exact counts, which are public.
    """
    most = largest_sum(tree)
    # A leaf above the bound stays above it; sums of such leaves may overflow as integers, but not
    # as floats, and all sums within the bound are exact in both.
    sums = _sums(tree, by_leaf, most + 1)
    sizes = np.zeros(tree.n)
    sizes[tree._leaf_index] = sums[tree._leaf_index]
    _sweep.accumulate(tree._natural_layout, sizes, sizes)
    large = np.flatnonzero(exact & (sizes > most))
    if large.size:
        check.fail(
            "counts",
            f"must have exact counts of at most {most} on this tree (2^50 / height); "
            f"that of node {large[0]} is larger.",
        )
    return sums[exact]


def _add_noise(
    tree: Tree,
    scales: Sequence[Fraction | None],
    exact: np.ndarray | None,
    mechanism: str,
    out: np.ndarray,
) -> None:
    """Add independent noise, with the scale of its level, to every count that is not exact.

    Sums wrap around like the noise: the result is a function of the exact noisy counts.
    """
    distinct = {scale for scale in scales if scale is not None}
    if len(distinct) == 1 and exact is None and None not in scales:
        add_noise_of(distinct.pop(), mechanism, out.reshape(-1))
        return
    sample = MECHANISMS[mechanism].draw
    rows = max(1, _DRAWS // math.prod(out.shape[1:]))
    for scale in distinct:
        chosen = np.array([s == scale for s in scales])[tree.depth - 1]
        if exact is not None:
            chosen &= ~exact
        nodes = np.flatnonzero(chosen)
        for start in range(0, nodes.size, rows):
            part = nodes[start : start + rows]
            out[part] += sample(scale, part.size if out.ndim == 1 else (part.size, out.shape[1]))


def add_noise_of(scale: Fraction, mechanism: str, out: np.ndarray) -> None:
    """Add independent noise of one scale to every entry of a vector."""
    sample = MECHANISMS[mechanism].draw
    for start in range(0, out.size, _DRAWS):
        part = out[start : start + _DRAWS]
        part += sample(scale, part.size)


# --------------------------------------------------------------------------- arguments


def _whole_numbers(tree: Tree, counts: Any, shape: tuple[int, ...] = ()) -> np.ndarray:
    """Check that counts are integers, one number or table per leaf. No message shows a count."""
    # A list may hold integers of any size; numpy would convert large ones to floats.
    if not shape:
        counts = tree._aligned("counts", counts, "leaf", tell=False)
    elif hasattr(counts, "iloc"):
        check.refuse_labels("counts", counts)
    listed = isinstance(counts, (list, tuple))
    if isinstance(counts, np.ma.MaskedArray):
        check.fail_type("counts", "must not be a masked array: hidden counts would be counted.")
    try:
        a = np.array(counts, dtype=object) if listed else np.asarray(counts)
    except (TypeError, ValueError):
        check.fail("counts", "must be an array of whole numbers.")
    if a.shape != (tree.n_leaves, *shape):
        check.fail(
            "counts",
            f"must have shape {(tree.n_leaves, *shape)}, one {'table' if shape else 'count'} per "
            f"leaf in the order of tree.leaves, not {a.shape}.",
        )
    if a.dtype == object:
        whole = all(isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in a.flat)
        if not whole:
            check.fail_type("counts", "must hold whole numbers (integers) only.")
    elif a.dtype.kind not in "iu":
        check.fail_type("counts", f"must hold whole numbers (integers), not dtype {a.dtype}.")
    return a


def check_public_total(by_leaf: np.ndarray, most: int) -> None:
    """If the total is public, refuse negative counts and a total above `most`.

    If records move, cutting off or raising a count would change the counts above it.
    """
    if np.any(by_leaf < 0):
        check.fail("counts", "must not be negative.")
    refuse_public_total(float(np.sum(cut_off(by_leaf, most + 1), dtype=np.float64)), most)


def refuse_public_total(total: float, most: int) -> None:
    """Refuse a total that is public and too large."""
    if total > most:
        check.fail("counts", f"must add up to at most {most} on this tree (2^50 / height).")
