"""Shares of a budget with the least expected error, for trees of counts and of tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.tables.queries import Axes
from gmtree.privacy.accounting.allocation import divide
from gmtree.privacy.accounting.budget import Budget, Terms
from gmtree.privacy.accounting.workload import PLAIN, TableQuery, Workload, workload_of
from gmtree.privacy.noise.mechanism import loss_factor
from gmtree.privacy.planning.optimal import Classes, Problem
from gmtree.privacy.planning.optimal_tables import TableProblem, spaces_of
from gmtree.privacy.planning.ranges import level_weights, refined
from gmtree.tree import Tree

if TYPE_CHECKING:
    from typing_extensions import Unpack

# With more levels than this, shares are too small to distinguish.
_MOST_LEVELS = 100


@overload
def optimal_shares(
    tree: Tree,
    *,
    axes: None = ...,
    queries: None = ...,
    objective: Any = ...,
    **terms: Unpack[Terms],
) -> tuple[float, ...]: ...


@overload
def optimal_shares(
    tree: Tree,
    *,
    axes: Mapping[str, Any],
    queries: Sequence[TableQuery],
    objective: Any = ...,
    **terms: Unpack[Terms],
) -> dict[TableQuery, tuple[float, ...]]: ...


def optimal_shares(
    tree: Tree,
    *,
    axes: Mapping[str, Any] | None = None,
    queries: Sequence[TableQuery] | None = None,
    objective: Any = "nodes",
    **terms: Unpack[Terms],
) -> tuple[float, ...] | dict[TableQuery, tuple[float, ...]]:
    """Shares with the least expected squared error, for :func:`release` and :func:`plan`.

    The error of the consistent values is computed exactly for this particular tree. No data are
    used, so choosing shares costs no privacy.

    Parameters
    ----------
    tree : Tree
        With at most 100 levels.
    axes, queries : optional
        As in :func:`release_tables`: shares of levels and queries of tables.
    objective : {'nodes', 'leaves', 'ranges', 'quantiles'}, sequence of numbers, or mapping
        The error to minimise. It is the mean squared error of all nodes, of the leaves, of sums
        over random ranges of leaves from left to right, or of quantiles of ordered leaves with
        about equal counts. A sequence has one weight per level, the root's first, for a weighted
        sum of the mean squared errors of the levels.
        For tables it may be a mapping from queries. Its values are objectives of these kinds, or
        numbers. A number is the weight of the mean squared error of the query's cells at all nodes.
        These queries need not be measured, but each must be part of a measured query. Without a
        mapping, all measured queries have equal weights.
    **terms
        The budget and its terms, as in :func:`gmtree.release`. Without `epsilon` and `rho`, the
        result is the limit for a small `epsilon`, which does not depend on the budget.

    Returns
    -------
    tuple of float, or dict from query to tuple of float
        Shares of the levels, the root's first, to four digits. A level with share 0 is better not
        measured, because its part of the budget lowers the error more at other levels.
        For tables, these shares for each query, as :func:`release_tables` takes them.

    Notes
    -----
    For Gaussian noise the problem is convex, and the result is its minimum. For Laplace noise it is
    not convex. Levels are then left out or added one by one, as long as that lowers the error. For
    tables, the smallest shares are set to 0 one by one, as long as that lowers the error.

    If records move (``neighbors="change_one"``), measuring the root costs nothing, so its share is
    large.

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.shapes.complete(10, 4)
    >>> shares = gm.privacy.optimal_shares(tree, epsilon=1, objective="nodes")
    >>> [round(share, 2) for share in shares]
    [0.0, 0.15, 0.0, 0.85]
    >>> gm.plan(tree, epsilon=1).std_error.round(1)
    array([5.4, 5.1, 5.1, 5.4])
    >>> gm.plan(tree, epsilon=1, shares=shares).std_error.round(1)
    array([25.3,  8. ,  4.9,  1.6])
    >>> weights = {(): [1, 1, 1, 1], ("sex",): "leaves"}
    >>> tables = {"axes": {"sex": 2}, "queries": [(), ("sex",)], "rho": 1}
    >>> shares = gm.privacy.optimal_shares(tree, objective=weights, **tables)
    >>> {query: [round(x, 2) for x in by_level] for query, by_level in shares.items()}
    {(): [0.21, 0.21, 0.21, 0.14], ('sex',): [0.0, 0.0, 0.0, 0.23]}
    """
    check.instance("tree", tree, Tree)
    if tree.height > _MOST_LEVELS:
        check.fail("tree", f"must have at most {_MOST_LEVELS} levels, not {tree.height}.")
    is_limit = terms.get("epsilon") is None and terms.get("rho") is None
    if is_limit:
        terms["epsilon"] = 1
    if terms.get("shares") is not None:
        check.fail("shares", "must not be given: they are the result.")
    budget = Budget.of(**terms)
    workload = workload_of(budget, axes, queries)
    classes = Classes.of(tree, divide(tree, budget, workload).exact)
    problem: dict[str, Any] = {
        "classes": classes,
        "variances": partial(budget.mechanism.variances, budget.measure, limit=is_limit),
        "neighbors": budget.neighbors,
        "budget": float(budget.amount / loss_factor(budget.measure, budget.max_contributions)),
        "convex": budget.mechanism.is_convex,
        "cells": np.array(workload.cells),
    }
    if workload is PLAIN:
        is_of_ranges = isinstance(objective, str) and objective in ("ranges", "quantiles")
        weight = _class_weights(tree, classes, level_weights(tree) if is_of_ranges else objective)
        guess = _as_shares(Problem(weight=weight, **problem).best_losses())
        return refined(tree, budget, objective, guess) if is_of_ranges else guess
    names = [query or () for query in workload.queries]
    sets = [set(query) for query in names]
    weights = _query_weights(tree, classes, workload, objective)
    tables = TableProblem(
        weight=np.zeros(classes.size),
        spaces=spaces_of(Axes(dict(workload.axes or ())), names, weights),
        widest=np.array([not any(own < other for other in sets) for own in sets]),
        **problem,
    )
    shares = np.array(_as_shares(tables.best_losses())).reshape(tree.height, len(names))
    return {query: tuple(shares[:, k].tolist()) for k, query in enumerate(names)}


def _as_shares(losses: np.ndarray) -> tuple[float, ...]:
    return tuple(float(f"{x:.3e}") for x in losses / losses.sum())


def _query_weights(
    tree: Tree, classes: Classes, workload: Workload, objective: Any
) -> list[tuple[TableQuery, np.ndarray]]:
    """Weights of the squared error of a cell, by class, for each query in the objective."""
    if not isinstance(objective, Mapping):
        every = _class_weights(tree, classes, objective)
        return [(query or (), every) for query in workload.queries]
    measured = [set(query or ()) for query in workload.queries]
    found = []
    for query, value in objective.items():
        if not isinstance(query, tuple) or not any(set(query) <= own for own in measured):
            check.fail(
                "objective", f"must have queries that are parts of measured queries, not {query!r}."
            )
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if not (math.isfinite(value) and value >= 0):
                check.fail("objective", f"must have finite weights, none negative; {query!r} has "
                           f"{value}.")  # fmt: skip
            found.append((query, value * _class_weights(tree, classes, "nodes")))
        else:
            found.append((query, _class_weights(tree, classes, value)))
    if not any(weight.any() for _, weight in found):
        check.fail("objective", "must have a weight above 0.")
    return found


def _class_weights(tree: Tree, classes: Classes, objective: Any) -> np.ndarray:
    """Weights of the squared error of a node, by class, up to a common factor."""
    if isinstance(objective, str):
        if objective not in ("nodes", "leaves"):
            check.fail(
                "objective",
                f"must be 'nodes', 'leaves', 'ranges', 'quantiles' or weights, not {objective!r}.",
            )
        some = classes.leaf if objective == "leaves" else np.ones(classes.size)
        return some / (tree.n_leaves if objective == "leaves" else tree.n)
    check.refuse_labels("objective", objective)
    a = check.reals("objective", objective)
    if a.shape != (tree.height,):
        check.fail(
            "objective", f"must have one weight per level ({tree.height}), not shape {a.shape}."
        )
    if not np.all(np.isfinite(a) & (a >= 0)) or not a.any():
        check.fail("objective", "must have finite weights, none negative and not all 0.")
    by_level = a / np.bincount(tree.depth, minlength=tree.height + 1)[1:]
    return by_level[classes.level]
