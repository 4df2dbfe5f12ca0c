"""Check measurements against each other: residuals, leave-one-out estimates and chi-squared.

Let m be the estimate of a node from all other measurements of the tree, and L its variance.
Everything else follows from these two numbers. The node's own measurement v with variance s differs
from m by an error of variance s + L, and moves the estimate to ``x = v - (v - m) s / (s + L)``,
whose variance is ``P = s L / (s + L)``. The difference s - P, which would suffer from cancellation,
is never computed.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import gammaincc, ndtri

from gmtree import _text
from gmtree import _validate as check
from gmtree._kernels import diagnostics as kernels
from gmtree.consistency.factor import Factor
from gmtree.consistency.sweeps import sums_below
from gmtree.tree import Tree
from gmtree.tree.locate import path_names
from gmtree.tree.outline import level_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Columns of reports.
COLUMNS = ("measured", "reconciled", "residual", "standardized", "leave_one_out",
           "leave_one_out_std_error", "leverage")  # fmt: skip
# Columns of a terminal, and the longest names of levels in a table.
_WIDTH, _LONGEST_LEVEL = 80, 28


class LevelCheck(NamedTuple):
    """How well the measurements of one level agree with all other measurements."""

    name: str
    """Name or number of the level."""
    measured: int
    """Nodes with a measurement that is not exact."""
    chi2: float
    """Sum of squared residuals, each divided by the variance of its measurement."""
    dof: float
    """Expectation of `chi2` if all variances are right. It need not be a whole number."""
    factor: float
    """``chi2 / dof``, by which the variances of the level seem wrong; NaN if `dof` is 0.

    If they are right, and errors are normal, its standard deviation is at most ``sqrt(2 / dof)``.
    Wrong variances on one level also change the factors of the levels next to it.
    """


class Suspect(NamedTuple):
    """One node and its estimate from all other measurements."""

    node: int
    """Its number."""
    path: tuple[Any, ...]
    """Labels from the root down; numbers in a tree without labels."""
    measured: float
    """Its measurement."""
    leave_one_out: float
    """Its best estimate from all other measurements."""
    std_error: float
    """Standard error of that estimate."""
    standardized: float
    """Difference of the two divided by its standard deviation."""


class Diagnostics:
    """Measurements on a tree checked against each other, made by :meth:`Consistency.diagnose`.

    Arrays are read-only and have one entry per node, in the tree's numbering. Entries that are not
    known are NaN, as each array states.

    Attributes
    ----------
    tree : Tree
    leave_one_out_variance : array
        Variance of `leave_one_out`: infinite if no other measurement determines the node.
    leave_one_out : array
        Best estimate of each node from all other measurements, without its own; NaN if they
        do not determine it.
    chi2 : float
        Sum of squared residuals, each divided by the variance of its measurement.
    dof : int
        Degrees of freedom: the number of measurements minus the number needed to determine the
        values.

    Examples
    --------
    >>> import gmtree as gm
    >>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1, 2, 2])
    >>> d = gm.Consistency(tree).diagnose([40.0, 30.0, 20.0, 10.0, 11.0, 10.0, 10.0])
    >>> print(d)
    Chi-squared is 48 with 3 degrees of freedom; p = 2.13e-10.
      level    measured  chi2       dof  factor
      level 1         1     9  0.428571      21
      level 2         2    29   1.04762    27.7
      level 3         4    10   1.52381    6.56
    Largest standardised residuals. If variances are right and errors normal, all
    are below 2.7 in at least 95 of 100 such trees.
      node             measured  leave one out  std error  standardised
      1                      30        20.4545   0.953463          +6.9
      0                      40             47     1.1547          -4.6
      3 (or 1 like it)       10          15.25    1.27475          -3.2
      2                      20        16.1818   0.953463          +2.8
      5 (or 1 like it)       10          7.375    1.27475          +1.6
    """

    def __init__(
        self,
        factor: Factor,
        noisy: np.ndarray,
        found: tuple[np.ndarray, np.ndarray, np.ndarray],
        excess_kurtosis: Any,
    ) -> None:
        self.tree = factor.tree
        self._factor, self._noisy = factor, noisy
        self.leave_one_out, self.leave_one_out_variance, self._sums = found
        for array in (self._noisy, *found):
            array.flags.writeable = False
        self._kurtosis = _read_kurtosis(self.tree, excess_kurtosis)
        self.chi2 = float(self._sums[:, 3].sum())
        self.dof = round(float(self._sums[:, 1].sum()))

    # ------------------------------------------------------------------ by node

    @cached_property
    def _measured(self) -> np.ndarray:
        """Measurements, NaN if a node has none."""
        there = self._factor.measured
        return self._noisy if there is None else np.where(there, self._noisy, np.nan)

    @cached_property
    def _share(self) -> np.ndarray:
        """s / (s + L): the part of v - m that remains as residual; 0 for exactly known values."""
        s, other = self._factor.variance, self.leave_one_out_variance
        with np.errstate(invalid="ignore"):
            share = s / (s + other)
        share[np.isinf(s)] = 1
        share[s == 0] = 0
        return share

    @cached_property
    def residual(self) -> np.ndarray:
        """Measurement minus consistent value; NaN if a node was not measured."""
        with np.errstate(invalid="ignore"):
            r = (self._measured - self.leave_one_out) * self._share
        # If a measurement alone determines its node, the projection keeps it.
        r[np.isinf(self.leave_one_out_variance) & ~np.isnan(self._measured)] = 0
        return _frozen(r)

    @cached_property
    def reconciled(self) -> np.ndarray:
        """Consistent values, as `Consistency.project` returns them; NaN if not determined."""
        x = self._measured - self.residual
        return _frozen(np.where(np.isnan(x), self.leave_one_out, x))

    @cached_property
    def standardized(self) -> np.ndarray:
        """Residuals divided by their standard deviations.

        This equals the difference between the measurement and `leave_one_out`, divided by the
        standard deviation of this difference. For values that are known exactly it is defined in
        this second form. NaN if a node was not measured, or if its measurement alone determines
        it.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            deviation = np.sqrt(self._factor.variance + self.leave_one_out_variance)
            z = (self._measured - self.leave_one_out) / deviation
        z[deviation == 0] = np.nan  # the other measurements also determine this value exactly
        return _frozen(z)

    @cached_property
    def leave_one_out_std_error(self) -> np.ndarray:
        """Standard error of `leave_one_out`; infinite if that is NaN."""
        return _frozen(np.sqrt(self.leave_one_out_variance))

    @cached_property
    def leverage(self) -> np.ndarray:
        """Variance of the consistent value divided by that of the measurement, from 0 to 1.

        1 if nothing else determines the node or if its value is exactly known, 0 if it was not
        measured. The sum is the number of leaves if all variances are positive and each leaf is
        determined.
        """
        h = 1 - self._share
        h[np.isinf(self._factor.variance)] = 0
        return _frozen(h)

    # ------------------------------------------------------------------ summaries

    @cached_property
    def p_value(self) -> float:
        """Probability of a `chi2` at least as large if all variances are right; NaN if `dof` is 0.

        It is exact for independent normal errors. An `excess_kurtosis` changes the variance of
        `chi2`, which is computed exactly. The p-value is then that of a multiple of a chi-squared
        variable with this mean and variance.
        """
        if not self.dof:
            return np.nan
        if np.ndim(self._kurtosis):
            more = float(np.sum(self._kurtosis * np.square(self._share)))
        else:
            more = float(self._kurtosis * self._sums[:, 2].sum())
        unit = max(1 + more / (2 * self.dof), 1e-300)
        return float(gammaincc(self.dof / unit / 2, self.chi2 / unit / 2))

    @cached_property
    def by_level(self) -> tuple[LevelCheck, ...]:
        """A `LevelCheck` for each level, from the root down."""
        rows = []
        for depth, (measured, dof, _, chi2) in enumerate(self._sums.tolist(), start=1):
            factor = chi2 / dof if dof > 1e-9 * measured else np.nan
            rows.append(LevelCheck(level_title(self.tree, depth), int(measured), chi2, dof, factor))
        return tuple(rows)

    def worst(self, k: int = 10) -> tuple[Suspect, ...]:
        """The k nodes with the largest standardised residuals, the largest first.

        One wrong measurement also makes its neighbours suspicious, but less so. The leaves of one
        family are an exception: the measurements only show that their sum is wrong. So these leaves
        always have the same standardised residual, and any of them may be wrong.

        Examples
        --------
        >>> import gmtree as gm
        >>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1, 2, 2])
        >>> d = gm.Consistency(tree).diagnose([40.0, 30.0, 20.0, 10.0, 11.0, 10.0, 10.0])
        >>> [each.node for each in d.worst(2)]
        [1, 0]
        """
        return self._worst(check.count("k", k, least=0), np.arange(self.tree.n))

    def _worst(self, k: int, nodes: np.ndarray) -> tuple[Suspect, ...]:
        """The k most suspicious nodes among the given ones."""
        size = np.abs(self.standardized[nodes])
        nodes, size = nodes[~np.isnan(size)], size[~np.isnan(size)]
        if 0 < k < size.size:
            chosen = np.argpartition(-size, k - 1)[:k]
            nodes, size = nodes[chosen], size[chosen]
        columns = (self._noisy, self.leave_one_out, self.leave_one_out_std_error, self.standardized)
        return tuple(
            Suspect(i, self.tree.path(i), *(float(column[i]) for column in columns))
            for i in nodes[np.lexsort((nodes, -size))][:k].tolist()
        )

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return a DataFrame with one row per node, as `Tree.to_frame` does.

        It has these columns in addition to those of `Tree.to_frame`: ``measured``, ``reconciled``,
        ``residual``, ``standardized``, ``leave_one_out``, ``leave_one_out_std_error`` and
        ``leverage``.

        Examples
        --------
        >>> import gmtree as gm
        >>> d = gm.Consistency(gm.shapes.star(3)).diagnose([10.0, 4.0, 3.0])
        >>> d.to_frame().standardized.round(3).tolist()
        [1.732, -1.732, -1.732]
        """
        return self.tree.to_frame(backend=backend, **self._columns)

    @property
    def _columns(self) -> dict[str, np.ndarray]:
        """The columns of :meth:`to_frame` that are about measurements."""
        return {"measured": self._measured} | {name: getattr(self, name) for name in COLUMNS[1:]}

    def plot(self, ax: Any = None) -> Axes:
        """Draw the standardised residuals by level; returns matplotlib Axes."""
        from gmtree import plot

        return plot.residuals_by_level(self.tree, self.standardized, ax=ax)

    def __repr__(self) -> str:
        return (
            f"Diagnostics({self.tree!r}, chi2={self.chi2:.6g}, dof={self.dof}, "
            f"p_value={self.p_value:.3g})"
        )

    def __str__(self) -> str:
        head = f"Chi-squared is {self.chi2:,.6g} with {self.dof:,} degrees of freedom"
        lines = [f"{head}; p = {self.p_value:.3g}." if self.dof else f"{head}."]
        rows = [("level", "measured", "chi2", "dof", "factor")]
        for x in self.by_level:
            rows.append((x.name[:_LONGEST_LEVEL], f"{x.measured:,}", f"{x.chi2:,.6g}",
                         f"{x.dof:,.6g}", f"{x.factor:.3g}"))  # fmt: skip
        lines += _text.table(rows)
        # One leaf represents all measured leaves of its family.
        leaves = self.tree.leaves[~np.isnan(self.standardized[self.tree.leaves])]
        _, first, sizes = np.unique(self.tree.parent[leaves], return_index=True, return_counts=True)
        alike = dict(zip(leaves[first].tolist(), sizes.tolist(), strict=True))
        worst = self._worst(5, np.concatenate([self.tree.internal, leaves[first]]))
        if not worst:
            return "\n".join(lines)
        count = int(np.count_nonzero(~np.isnan(self.standardized)))
        usual = -float(ndtri((1 - 0.95 ** (1 / count)) / 2))
        lines += [
            "Largest standardised residuals. If variances are right and errors normal, all",
            f"are below {usual:.1f} in at least 95 of 100 such trees.",
        ]
        table = [("node", "measured", "leave one out", "std error", "standardised")]
        for each in worst:
            v, m, error = (f"{x:,.6g}" for x in each[2:5])
            name = self._name(each, alike.get(each.node, 1))
            table.append((name, v, m, error, f"{each.standardized:+.1f}"))
        _, *numbers = zip(*table, strict=True)
        room = _WIDTH - 2 - sum(2 + max(map(len, column)) for column in numbers)
        return "\n".join([*lines, *_text.table([(_short(x[0], room), *x[1:]) for x in table])])

    def _name(self, suspect: Suspect, alike: int) -> str:
        """Return the path of a node, or of one of several leaves of a family."""
        if self.tree.labels is None:
            return f"{suspect.node} (or {alike - 1:,} like it)" if alike > 1 else str(suspect.node)
        names = path_names(self.tree, suspect.node)
        path = names[1:] or names
        return " / ".join([*path[:-1], f"any of {alike:,}"] if alike > 1 else path)


def _short(text: str, room: int) -> str:
    """Return the end of a text, which is the most informative part of a path."""
    if len(text) <= room:
        return text
    end = text[3 - room :]
    rest = end.partition(" / ")[2]
    # Two whole labels are enough; otherwise a part of the first one remains.
    return f"... / {rest}" if " / " in rest else f"...{end}"


def diagnose(
    factor: Factor, threads: int | None, noisy: np.ndarray, excess_kurtosis: Any
) -> Diagnostics:
    """Diagnose the measurements `noisy`, of shape (n,), which are copied."""
    tree, layout = factor.tree, factor.tree._layout
    v = np.array(noisy, np.float64)
    b = sums_below(factor, threads, v)
    expected, variance = np.empty((2, tree.n))
    heard, spread = np.empty((2, tree.n_internal))
    sums, depth = np.zeros((tree.height, 4)), np.zeros(tree.n_internal, np.uint64)
    kernels.leave_one_out(
        layout.parent, layout.order, factor.s, factor.t, *factor.largest_children, factor.scale,
        v, b, heard, spread, depth, expected, variance, sums,
    )  # fmt: skip
    sums[:, 3] /= factor.scale
    return Diagnostics(factor, v, (expected, variance, sums), excess_kurtosis)


def worst_first(standardized: np.ndarray) -> np.ndarray:
    """Return indices by descending size of standardised residuals; NaN comes last."""
    return np.argsort(-np.abs(standardized), kind="stable")


def _read_kurtosis(tree: Tree, given: Any) -> float | np.ndarray:
    if np.isscalar(given):
        return check.real("excess_kurtosis", given)
    a = tree._values("excess_kurtosis", given, columns=False)
    check.finite("excess_kurtosis", a)
    return a


def _frozen(a: np.ndarray) -> np.ndarray:
    a.flags.writeable = False
    return a
