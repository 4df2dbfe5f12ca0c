"""Warnings about data that are accepted although they look wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.labels.levels import LevelLabels
from gmtree.tree import Tree
from gmtree.tree.locate import level_codes, node_in_error

# A value contradicts its children if it differs from their sum by this many standard deviations,
# and by this many times the usual difference in the frame. Noise hardly ever makes such a
# difference.
_MANY = 20
# The difference must also exceed this fraction of the larger of the value and its children's sum.
_PART = 0.1

# The usual difference is a median over at least this many families.
_FEWEST = 5

# Labels that tables use for rows of sums, compared without regard to case.
_SUMS = {"total", "totals", "grand total", "subtotal", "sum", "all", "overall"}


def doubts_about_levels(tree: Tree) -> list[str]:
    """Return warnings about the levels of a tree; the list is empty if they look right."""
    found = [_turned_round(tree), _subtotal_label(tree, subtotals(tree))]
    return [doubt for doubt in found if doubt]


def _turned_round(tree: Tree) -> str:
    """Return a warning if levels seem to be given from fine to coarse, otherwise "".

    A town is in one state and a state has many towns. So if states are listed below towns, a few
    state labels occur again and again.
    """
    names = tree.level_names or ()
    size = np.bincount(tree.depth, minlength=tree.height + 1)[tree.height - len(names) + 1 :]
    for k in range(len(names) - 1):
        if size[k + 1] >= 1.5 * size[k]:  # nearly always; then labels need not be counted
            continue
        below = level_codes(tree, k + 1).categories
        assert below is not None
        if below.size < size[k]:
            return (
                f"Levels go from coarse to fine. Is {names[k]!r} really coarser than "
                f"{names[k + 1]!r}? It has {size[k]:,} nodes, with few children each, which have "
                f"{below.size:,} different labels."
            )
    return ""


# --------------------------------------------------------------------------- subtotals


def subtotals(tree: Tree) -> np.ndarray:
    """Nodes that have siblings and whose label looks like that of a sum, such as 'All'."""
    labels = tree._labels
    assert isinstance(labels, LevelLabels)
    found = np.zeros(tree.n, bool)
    for level, categories in enumerate(labels.categories):
        if level == 0 or categories is None or categories.dtype.kind not in "OUT":
            continue
        called = [k for k, x in enumerate(categories.tolist()) if _is_called_like_a_sum(x)]
        if called:
            found |= (labels.level == level) & np.isin(labels.codes, called)
    found[tree.root] = False
    nodes = np.flatnonzero(found)
    return nodes[tree.child_count[tree.parent[nodes]] > 1]


def _is_called_like_a_sum(label: Any) -> bool:
    return isinstance(label, str) and label.strip().casefold() in _SUMS


def _subtotal_label(tree: Tree, nodes: np.ndarray) -> str:
    """Return a warning about the first of these nodes, or "" if `nodes` is empty."""
    if not nodes.size:
        return ""
    return (
        f"The label of {node_in_error(tree, int(nodes[0]))} looks like that of a sum. If its row "
        "holds the sum of its siblings, they count twice: leave that row out."
    )


def question_subtotals(tree: Tree, noisy: np.ndarray) -> str:
    """Return a warning about nodes whose label looks like that of a sum, otherwise "".

    The node is refused if its value also equals the sum of its siblings in every column of `noisy`
    in which these values are known.
    """
    nodes = subtotals(tree)
    if not nodes.size:
        return ""
    value = _with_sums(tree, noisy)
    for i in nodes.tolist():
        above = tree.parent[i]
        rest = value[tree.children(above)].sum(axis=0) - value[i]
        known = ~np.isnan(rest)
        own = value[i, known]
        if np.allclose(own, rest[known], rtol=1e-9, atol=0) and own.any():
            check.fail(
                "levels",
                f"must have no rows of subtotals; {node_in_error(tree, i)} has the sum of its "
                "siblings as its value, so that they would count twice. Leave that row out, or let "
                "it have missing labels in this level and all finer ones, as the row of a sum has.",
            )
    return _subtotal_label(tree, nodes)


def _with_sums(tree: Tree, noisy: np.ndarray) -> np.ndarray:
    """Replace missing values by the sum of the node's children, if the children have values."""
    value = noisy.copy()
    for depth in range(tree.height - 1, 0, -1):
        inner = (tree.depth == depth) & (tree.child_count > 0)
        for i in np.flatnonzero(inner & np.isnan(noisy).any(axis=1)).tolist():
            lost = np.isnan(value[i])
            value[i, lost] = value[tree.children(i)][:, lost].sum(axis=0)
    return value


# --------------------------------------------------------------------------- contradictions


def question_contradictions(
    tree: Tree, noisy: np.ndarray, variance: np.ndarray | None, is_given: bool, where: Any
) -> str:
    """Return a warning about values that grossly contradict the values of their children.

    A value contradicts its children in two cases. Either no value is negative, and the value is
    less than half of the value of one child. Or variances are given, and the value differs from
    the sum of its children by more than 20 standard deviations and by more than 10 %. In both cases
    the difference must also be more than 20 times as large as usual: the median over all families,
    in units of their standard deviations. If there are too few families for a median, the value
    must be less than a tenth of the child. Tables of noisy values therefore hardly ever cause a
    warning, but a row that is read as a sum because its label is missing nearly always does.

    Parameters
    ----------
    tree : Tree
    noisy : array of shape (n, k)
        Values of nodes, NaN if not measured.
    variance : array of shape (n, 1) or (n, k), optional
        Variances of these values, at least relative to each other; equal by default.
    is_given : bool
        Whether the caller passed variances.
    where : function
        Describes a column of `noisy` in messages, given its number.
    """
    order = np.argsort(tree.parent, kind="stable")[1:]
    if not order.size:
        return ""
    parent = tree.parent[order]
    start = np.flatnonzero(np.diff(parent, prepend=-1))
    node = parent[start]
    own, below = noisy[node], noisy[order]
    total = np.add.reduceat(below, start, axis=0)
    largest = np.fmax.reduceat(below, start, axis=0)
    s = np.ones((tree.n, 1)) if variance is None else np.where(np.isinf(variance), 0, variance)
    deviation = np.sqrt(s[node] + np.add.reduceat(s[order], start, axis=0))
    difference = np.abs(own - total)
    usual = _usual(difference, deviation)
    part = np.where(np.isnan(usual), 0.1, 0.5)
    noise = _MANY * deviation * np.fmax(usual, 1 if is_given else 0)
    with np.errstate(invalid="ignore"):
        small = (own < part * largest) & (largest - own > noise) & ~(noisy < 0).any(axis=0)
        far = is_given & (difference > noise)
        far &= difference > _PART * np.maximum(np.abs(own), np.abs(total))
    found = small | far
    if not found.any():
        return ""
    gap = np.where(small, largest - own, np.where(far, difference, -1))
    k, side = np.unravel_index(np.argmax(gap), gap.shape)
    i = int(node[k])
    children = tree.children(i)
    told = f"The value {_shown(own[k, side])} of {node_in_error(tree, i)}{where(int(side))} is "
    if small[k, side]:
        child = int(children[np.nanargmax(noisy[children, side])])
        told += f"far below {_shown(largest[k, side])}, the value of {node_in_error(tree, child)}."
    else:
        sigma = np.broadcast_to(deviation, difference.shape)[k, side]
        told += (
            f"{difference[k, side] / sigma:,.3g} standard deviations from "
            f"{_shown(total[k, side])}, the sum of its children."
        )
    if (more := np.count_nonzero(found) - 1) > 0:
        told += f" {more:,} more values contradict their children as grossly."
    return (
        f"{told} A row without a label is read as the sum of the rows below it: make sure that no "
        "label is missing by mistake, as 'NA' often is after reading a file."
    )


def _usual(difference: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Median absolute difference of a family in standard deviations, by column; NaN if too few."""
    with np.errstate(invalid="ignore", divide="ignore"):
        z = difference / deviation
    out = np.full(z.shape[1], np.nan)
    enough = np.flatnonzero(np.count_nonzero(~np.isnan(z), axis=0) >= _FEWEST)
    out[enough] = np.nanmedian(z[:, enough], axis=0)
    return out


def _shown(x: float) -> str:
    return f"{x:,.10g}"
