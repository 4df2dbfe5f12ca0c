"""Level shares with the least expected error.

The error is computed exactly, for any variances of the levels, on classes of equivalent nodes: see
:mod:`gmtree._kernels.planning`. A solver minimises it in the logarithms of the levels' losses,
subject to the condition that the loss between any neighbours is at most the budget. These losses
are sums over paths of the tree, which are too many to list. So we begin with one path. Whenever
another path (or pair of paths) is the worst one for a solution, we add it to the conditions and
solve again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gmtree._kernels import planning as kernels
from gmtree.privacy.files.packing import splitmix
from gmtree.tree import Tree

# Variances of levels as a function of their losses, with d log(variance) / d log(loss).
Variances = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

# Bounds of a level's loss, relative to the budget. If records move, the root costs nothing, so only
# the upper bound limits its share.
_LARGEST_LOSS = 64.0
_SMALLEST_LOSS = 1e-4
# A solution may violate a condition that was not in the list by this fraction. It is scaled down to
# meet the condition.
_SLACK = 1e-6
_MOST_ROUNDS = 20
# Adding or dropping a level must lower the error by at least this fraction.
_GAIN = 1e-9


@dataclass
class Classes:
    """Classes of equivalent nodes, children first; see :mod:`gmtree._kernels.planning`.

    `level` is depth - 1, and `leaf` marks the classes of leaves.
    """

    first: np.ndarray
    child: np.ndarray
    times: np.ndarray
    level: np.ndarray
    exact: np.ndarray
    height: int

    @classmethod
    def of(cls, tree: Tree, exact: np.ndarray | None) -> Classes:
        """Group nodes that have the same depth, exactness and classes of children.

        Classes of children are compared by a 64-bit hash. The probability that any two different
        ones are taken for equal is about n^2 / 2^64.
        """
        n_inner, (order, parent) = tree.n_internal, tree._canonical
        kind = 2 * (tree.depth[order].astype(np.int64) - 1)
        if exact is not None:
            kind += exact[order]
        code = splitmix(np.arange(2 * tree.height, dtype=np.uint64))
        key = np.zeros(n_inner, np.uint64)
        for start, stop in _levels_upward(tree):
            if start < n_inner:
                key[start:stop] = splitmix(key[start:stop] ^ code[kind[start:stop]])
                value = splitmix(key[start:stop])
            else:
                value = code[kind[start:stop]]
            if start > 0:
                np.add.at(key, parent[start:stop], value)
        _, where, inner_class = np.unique(key, return_index=True, return_inverse=True)
        leaf_kind, leaf_class = np.unique(kind[n_inner:], return_inverse=True)
        kinds = np.concatenate([leaf_kind, kind[where]])
        # Deepest first: children come before their parents.
        order = np.argsort(-(kinds >> 1), kind="stable")
        number = np.empty(order.size, np.int64)
        number[order] = np.arange(order.size)
        chosen = np.zeros(n_inner, bool)
        chosen[where] = True
        below = 1 + np.flatnonzero(chosen[parent[1:]])
        owner = number[leaf_kind.size + inner_class[parent[below]]]
        owned = np.empty(below.size, np.int64)
        is_leaf = below >= n_inner
        owned[is_leaf] = number[leaf_class[below[is_leaf] - n_inner]]
        owned[~is_leaf] = number[leaf_kind.size + inner_class[below[~is_leaf]]]
        edges, times = np.unique(owner * order.size + owned, return_counts=True)
        first = np.searchsorted(edges, np.arange(order.size + 1) * order.size)
        return cls(
            first=first,
            child=edges % order.size,
            times=times.astype(np.float64),
            level=kinds[order] >> 1,
            exact=(kinds[order] & 1).astype(bool),
            height=tree.height,
        )

    @property
    def size(self) -> int:
        """Number of classes."""
        return self.level.size

    @cached_property
    def leaf(self) -> np.ndarray:
        """Mask of the classes of leaves."""
        return self.first[1:] == self.first[:-1]

    @property
    def _structure(self) -> tuple[np.ndarray, ...]:
        return self.first, self.child, self.times, self.level, self.exact

    def error(self, weight: np.ndarray, variance: np.ndarray) -> tuple[float, np.ndarray]:
        """Sum of weighted variances over all nodes, and its derivatives by level."""
        q, t, r, alpha, beta = np.empty((5, self.size))
        value = kernels.expected_error(*self._structure, weight, variance, q, t, r, alpha, beta)
        gradient = np.zeros(self.height)
        adjoint = np.zeros((3, self.size))
        kernels.error_gradient(*self._structure, variance, q, t, r, beta, *adjoint, gradient)
        return value, gradient


def _levels_upward(tree: Tree) -> Sequence[tuple[int, int]]:
    """Ranges of positions with the same height, leaves first."""
    start = tree._level_start
    return list(zip(start[-2::-1].tolist(), start[:0:-1].tolist(), strict=True))


# --------------------------------------------------------------------------- minimising


@dataclass
class Problem:
    """Find the losses of levels with the least weighted error, given `budget` on the worst path.

    The error is a convex function of the precisions of the levels. If losses are proportional to
    precisions, as for Gaussian noise, it is therefore convex in the losses (`convex`).

    Losses are listed by level and, for tables, by query within each level. `cells` are the sizes of
    the queries' tables, or a single 1 if nodes have no tables.
    """

    classes: Classes
    weight: np.ndarray
    variances: Variances
    neighbors: str
    budget: float
    convex: bool
    cells: np.ndarray

    def best_losses(self) -> np.ndarray:
        """The best losses by level; 0 for levels that are better not measured."""
        usable = self.usable
        return (self._convex_minimum(usable) if self.convex else self._best_minimum(usable))[1]

    @property
    def usable(self) -> np.ndarray:
        """Mask of levels and queries that get noise: all but totals that are exact on a level."""
        classes = self.classes
        noisy = np.bincount(classes.level[~classes.exact], minlength=classes.height) > 0
        return (noisy[:, None] | (self.cells > 1)[None, :]).ravel()

    def worst(self, losses: np.ndarray) -> tuple[float, np.ndarray]:
        """The largest loss between any neighbours, and how often each of `losses` occurs in it."""
        classes, height = self.classes, self.classes.height
        by_query = losses.reshape(height, self.cells.size)
        several = self.cells > 1
        beside = by_query[:, several].sum(axis=1)
        # Nodes with an exact total count as separate levels.
        level = classes.level + height * classes.exact
        loss = np.concatenate([by_query.sum(axis=1), beside])
        reach = np.empty(classes.size)
        best, second = np.empty((2, classes.size), np.int64)
        kernels.longest_paths(
            classes.first, classes.child, classes.times, level, np.zeros(classes.size, bool), loss,
            reach, best, second,
        )  # fmt: skip
        count, shared = np.zeros(2 * height), np.zeros(height)
        if self.neighbors == "add_remove":
            value, starts = float(reach[-1]), [classes.size - 1]
        else:
            value, starts, last = self._worst_move(reach, best, second, np.cumsum(2 * beside))
            shared[: last + 1] = 2
        for i in starts:
            while i >= 0:
                count[level[i]] += 1
                i = best[i]
        table = count[:height, None] + np.outer(count[height:] + shared, several)
        return value, table.ravel()

    def _worst_move(
        self, reach: np.ndarray, best: np.ndarray, second: np.ndarray, above: np.ndarray
    ) -> tuple[float, list[int], int]:
        """The loss of the worst move, the tops of its two paths, and the level of their fork."""
        classes = self.classes
        leaves = np.flatnonzero(classes.leaf)
        stay = leaves[np.argmax(above[classes.level[leaves]])]
        found: tuple[float, list[int], int] = (
            float(above[classes.level[stay]]), [], int(classes.level[stay])
        )  # fmt: skip
        forks = np.flatnonzero(second >= 0)
        if forks.size:
            both = reach[best[forks]] + reach[second[forks]] + above[classes.level[forks]]
            fork = forks[np.argmax(both)]
            if both.max() > found[0]:
                starts = [int(best[fork]), int(second[fork])]
                found = float(both.max()), starts, int(classes.level[fork])
        return found

    def _convex_minimum(self, usable: np.ndarray) -> tuple[float, np.ndarray]:
        """The minimum of a convex problem, in which levels with a negligible share are left out."""
        best = self._minimise(usable)
        idle = (best[1] < 2 * _SMALLEST_LOSS * self.budget) & ~self.needed
        rest = usable & ~idle
        return min(best, self._minimise(rest), key=lambda x: x[0]) if rest.any() else best

    def _best_minimum(self, usable: np.ndarray) -> tuple[float, np.ndarray]:
        """The best local minimum that a search finds.

        Splitting a budget in epsilon between two measurements of nearly the same counts is worse
        than either measurement alone. So each choice of levels to leave out can have a local
        minimum. We search by leaving out or adding one level at a time.
        """
        starts = [usable, self.needed] if self.needed.any() else [usable]
        solutions = [self._improve(measured, usable) for measured in starts]
        return min(solutions, key=lambda x: x[0])

    @cached_property
    def needed(self) -> np.ndarray:
        """Levels that have leaves; some nodes could be undetermined if these were not measured."""
        classes = self.classes
        leaves = classes.level[classes.leaf & ~classes.exact]
        return np.bincount(leaves, minlength=classes.height) > 0

    def _improve(self, measured: np.ndarray, usable: np.ndarray) -> tuple[float, np.ndarray]:
        """Add or drop one measured level at a time, as long as that lowers the error."""
        best = self._minimise(measured)
        flips = np.flatnonzero(usable).tolist()
        while flips:
            others = [(d, flipped(measured, d)) for d in flips]
            tried = [(self._minimise(other), d) for d, other in others if other.any()]
            found, flip = min(tried, key=lambda x: x[0][0], default=(best, -1))
            if not found[0] < best[0] * (1 - _GAIN):
                break
            best, measured = found, flipped(measured, flip)
            flips.remove(flip)
        return best

    def error(self, losses: np.ndarray) -> tuple[float, np.ndarray]:
        """The weighted error, and its derivatives by the logarithms of the losses."""
        variance, slope = self.variances(losses)
        value, gradient = self.classes.error(self.weight, variance)
        with np.errstate(invalid="ignore"):
            steps = np.where(losses > 0, gradient * variance * slope, 0.0)
        return value, steps

    def _minimise(self, measured: np.ndarray) -> tuple[float, np.ndarray]:
        """The least error if only these levels are measured, and the losses of all levels."""
        from scipy.optimize import minimize

        levels = np.flatnonzero(measured)
        # Levels that are needed but not chosen get the smallest possible loss.
        losses = np.where(self.needed, _SMALLEST_LOSS * self.budget, 0.0)
        least = losses.copy()
        losses[levels] = self.budget / levels.size
        worst, path = self.worst(losses)
        paths = [path]
        if worst > 0:
            losses *= self.budget / worst
        if self.error(losses)[0] == 0:
            return 0.0, losses
        bounds = [np.log(self.budget * np.array([_SMALLEST_LOSS, _LARGEST_LOSS]))] * levels.size

        def spread(y: np.ndarray) -> np.ndarray:
            out = least.copy()
            out[levels] = np.exp(y)
            return out

        def objective(y: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.error(spread(y))
            return np.log(value), gradient[levels] / value

        for _ in range(_MOST_ROUNDS):
            known = np.array([p[levels] for p in paths if p[levels].any()])
            limits = [_limits(known, self.budget)] if known.size else []
            found = minimize(
                objective,
                np.log(losses[levels]),
                jac=True,
                method="SLSQP",
                bounds=bounds,
                constraints=limits,
                options={"ftol": 1e-7, "maxiter": 200},
            )
            losses = spread(found.x)
            worst, path = self.worst(losses)
            if worst <= self.budget * (1 + _SLACK):
                break
            paths.append(path)
        if worst > 0:
            losses *= self.budget / worst
        return self.error(losses)[0], losses


def _limits(paths: np.ndarray, budget: float) -> dict[str, object]:
    """Conditions for the solver: each path loses at most the budget, in logarithms."""

    def room(y: np.ndarray) -> np.ndarray:
        return np.log(budget) - np.log(paths @ np.exp(y))

    def slope(y: np.ndarray) -> np.ndarray:
        loss = paths * np.exp(y)
        return -loss / loss.sum(axis=1, keepdims=True)

    return {"type": "ineq", "fun": room, "jac": slope}


def flipped(mask: np.ndarray, level: int) -> np.ndarray:
    """The mask with one entry changed."""
    other = mask.copy()
    other[level] = not mask[level]
    return other
