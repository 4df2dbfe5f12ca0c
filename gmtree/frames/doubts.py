"""Warnings about data that are accepted although they look wrong."""

from __future__ import annotations

from collections.abc import Callable, Set
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

# The sum of noisy siblings differs from their measured sum by less than this part, as a rule.
_NEARLY = 0.03

_REMEDY = (
    "Leave that row out, or let it have missing labels in this level and all finer ones, as the "
    "row of a sum has."
)


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
    nodes = np.flatnonzero(marked_labels(tree, lambda label, _: _is_called_like_a_sum(label)))
    return nodes[tree.child_count[tree.parent[nodes]] > 1]


def marked_labels(tree: Tree, test: Callable[[Any, Set[Any]], bool]) -> np.ndarray:
    """Mark nodes below the root whose label passes a test, given all labels one level above."""
    labels = tree._labels
    assert isinstance(labels, LevelLabels)
    found = np.zeros(tree.n, bool)
    above: set[Any] = set()
    for level, categories in enumerate(labels.categories):
        known = [] if categories is None or categories.dtype.kind not in "OUT" else [*categories]
        chosen = [k for k, x in enumerate(known) if level and test(x, above)]
        if chosen:
            found |= (labels.level == level) & np.isin(labels.codes, chosen)
        above = set(known)
    found[tree.root] = False
    return found


def _is_called_like_a_sum(label: Any) -> bool:
    return isinstance(label, str) and label.strip().casefold() in _SUMS


def _subtotal_label(tree: Tree, nodes: np.ndarray, remedy: str = "Leave that row out.") -> str:
    """Return a warning about the first of these nodes, or "" if `nodes` is empty."""
    if not nodes.size:
        return ""
    return (
        f"The label of {node_in_error(tree, int(nodes[0]))} looks like that of a sum. If its row "
        f"holds the sum of its siblings, they count twice. {remedy}"
    )


def question_subtotals(tree: Tree, noisy: np.ndarray) -> str:
    """Return a warning about nodes that look like sums of their siblings, otherwise "".

    A node with the label of a sum is refused if its value also equals the sum of its siblings in
    every column of `noisy` in which these values are known.
    """
    nodes = subtotals(tree)
    # Rows of sums often repeat the label of the parent, or lack children that their siblings have.
    suspects = _repeats_its_parent(tree)
    inner = np.bincount(tree.parent[tree.internal] + 1, minlength=tree.n + 1)[1:]
    suspects[tree.leaves] |= inner[tree.parent[tree.leaves]] > 0
    suspects[nodes] = True
    equal = sums_of_siblings(tree, noisy, suspects, 1e-9)
    equal = equal[np.isin(equal, nodes)]
    if equal.size:
        check.fail(
            "levels",
            f"must have no rows of subtotals; {node_in_error(tree, int(equal[0]))} has the sum of "
            f"its siblings as its value, so that they would count twice. {_REMEDY}",
        )
    if nodes.size:
        return _subtotal_label(tree, nodes, _REMEDY)
    return question_sums(tree, noisy, suspects, _REMEDY)


def question_sums(tree: Tree, noisy: np.ndarray, suspects: np.ndarray, remedy: str) -> str:
    """Return a warning about a node among `suspects` whose value is nearly its siblings' sum."""
    nodes = sums_of_siblings(tree, noisy, suspects, _NEARLY)
    nodes = nodes[tree.child_count[tree.parent[nodes]] > 2]
    if not nodes.size:
        return ""
    return (
        f"The value of {node_in_error(tree, int(nodes[0]))} is about as large as all its siblings "
        f"together. If it is their sum, they count twice. {remedy}"
    )


def _repeats_its_parent(tree: Tree) -> np.ndarray:
    """Mark nodes that have the label of their parent."""
    found = marked_labels(tree, lambda label, above: label in above)
    nodes = np.flatnonzero(found)
    own, above = (tree._labels[x].tolist() for x in (nodes, tree.parent[nodes]))
    found[nodes] = [x == y for x, y in zip(own, above, strict=True)]
    return found


def sums_of_siblings(
    tree: Tree, noisy: np.ndarray, suspects: np.ndarray, tolerance: float
) -> np.ndarray:
    """Nodes among `suspects` whose values are the sums of their siblings, if these are known."""
    nodes = np.flatnonzero(suspects)
    if not nodes.size:
        return nodes
    value, total = noisy.copy(), np.zeros_like(noisy)
    for depth in range(tree.height, 1, -1):
        below = np.flatnonzero(tree.depth == depth)
        np.add.at(total, tree.parent[below], value[below])
        above = tree.parent[below]
        value[above] = np.where(np.isnan(value[above]), total[above], value[above])
    own = value[nodes]
    rest = total[tree.parent[nodes]] - own
    agree = np.isclose(own, rest, rtol=tolerance, atol=0) | np.isnan(rest)
    return nodes[agree.all(axis=1) & (~np.isnan(rest) & (own != 0)).any(axis=1)]


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
