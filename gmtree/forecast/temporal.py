"""Coherent along time and across series at once.

Pairs of a series and a period are the nodes of crossed trees: those of the series, and that
of the periods. Weights that are products, as equal ones and numbers of leaves are, need one
projection along each; variances by series and frequency take conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.crossing import Crossing
from gmtree.forecast.frequency import (
    FrequencyPast,
    frequencies,
    is_spec,
    structure_of_periods,
)
from gmtree.forecast.panel import Axis, Panel, labels_as_in, require_columns
from gmtree.forecast.reconcile import Job, method_list, refuse_unused
from gmtree.forecast.structure import Structure, structure_of
from gmtree.forecast.variances import check_levels
from gmtree.frames.reconcile import Frame
from gmtree.labels.columns import encode, refuse_no_names, take_column
from gmtree.labels.table import kind_of

# What the R package FoReco calls them.
NAMES = {"struc": "wls_struct", "str": "wls_struct", "wlsv": "wls_var", "bu": "bottom_up"}


def reconcile_cross_temporal(
    Y_hat_df: Frame,
    S_df: Any = None,
    tags: Any = None,
    temporal: Any = None,
    method: str | Sequence[str] = "wls_struct",
    Y_df: Any = None,
    nonnegative: bool = False,
    level: Any = None,
    *,
    variance: Any = None,
    residual_variance: str = "mean_square",
    num_samples: int = 0,
    seed: int | None = 0,
    spec: Any = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
    id_time_col: str = "temporal_id",
    threads: int | None = None,
) -> Frame:
    """Make forecasts of several frequencies coherent across series and along time, at once.

    Parameters
    ----------
    Y_hat_df : frame
        A row for each series and period, of all frequencies, with the columns `id_col` and
        `id_time_col`, and one column per model.
    S_df, tags, spec
        The structure of the series; see :class:`Structure`.
    temporal : dict, Structure, Tree or summing matrix
        The structure of the periods: ``{"year": 12, "quarter": 3, "month": 1}`` with periods named
        ``month-1`` and so on, a tree such as :func:`gmtree.shapes.calendar` makes, or what
        :class:`Structure` takes. A dict stands for whole periods of the longest frequency, as many
        as `Y_hat_df` reaches into, also where it has no row for some of the shorter ones. For a
        last year that ends early, and where numbers do not divide the largest, give
        ``temporal_structure(spec, periods)``.
    method : str or list
        ``"ols"``, ``"wls_struct"``, ``"wls_var"`` or ``"bottom_up"``; or ``"ols"``, ``"struc"`` and
        ``"wlsv"``, as the R package FoReco calls them. ``"wls_var"`` has one variance for each
        series and frequency.
    Y_df : frame, optional
        Past values and fitted values of all frequencies. The frequency of a row is in a column
        ``frequency``, or before the last dash of its period (``quarter`` in ``quarter-17``).
    variance : dict or str, optional
        Variances for ``"wls_var"``: one for each frequency, or the name of a column.
    nonnegative, level, residual_variance, num_samples, seed
        See :func:`reconcile`. Residuals of each frequency are divided by their own number.
    id_col, time_col, target_col, id_time_col : str
        Names of columns.
    threads : int, optional

    Returns
    -------
    frame of the same kind
        As :func:`reconcile` returns it.

    Notes
    -----
    What is not offered: covariances between series or between frequencies (FoReco's ``shr``,
    ``acov``, ``sam`` and their relatives). They are full matrices over all pairs, for which there
    are no sweeps over trees. (Of one frequency, :func:`reconcile` has ``"mint_shrink"``.)

    Examples
    --------
    >>> import pandas as pd, gmtree as gm
    >>> base = pd.DataFrame(
    ...     [(i, t, y) for i, ys in (("all", (24, 10, 11)), ("a", (9, 5, 4)), ("b", (12, 6, 6)))
    ...      for t, y in zip(("year-1", "half-1", "half-2"), ys)],
    ...     columns=["unique_id", "temporal_id", "naive"])
    >>> found = gm.forecast.reconcile_cross_temporal(
    ...     base, {"a": "all", "b": "all"}, temporal={"year": 2, "half": 1}, method="ols")
    >>> found["naive/MinTrace_method-ols"].round(2).tolist()
    [22.33, 11.0, 11.33, 9.67, 5.0, 4.67, 12.67, 6.0, 6.67]
    """
    check.flag("nonnegative", nonnegative)
    refuse_no_names(
        id_col=id_col, time_col=time_col, target_col=target_col, id_time_col=id_time_col
    )
    methods = method_list(method, NAMES)
    refuse_unused(variance, methods)
    kind = kind_of("Y_hat_df", Y_hat_df)
    require_columns("Y_hat_df", Y_hat_df, id_col=id_col, id_time_col=id_time_col)
    series = structure_of(S_df, tags, spec, id_col)
    codes = encode(id_time_col, take_column("Y_hat_df", Y_hat_df, id_time_col))
    if is_spec(temporal):
        periods = structure_of_periods("temporal", temporal, id_time_col, codes)
    elif temporal is None:
        check.fail("temporal", "must tell the structure of the periods.")
    else:
        periods = structure_of(temporal, None, None, id_time_col)
    ids = encode(id_col, take_column("Y_hat_df", Y_hat_df, id_col))
    node = series._locate("Y_hat_df", ids, id_col)
    period = periods._locate("Y_hat_df", codes, id_time_col, "periods")
    pairs = _Pairs(series, periods)
    one = Axis("step", np.zeros(1, np.int64), np.zeros(1, np.int64))
    panel = _PairPanel.of(
        "Y_hat_df", Y_hat_df, kind, pairs, (node * periods.n + period, np.zeros_like(node)), one,
        (id_col, id_time_col),
    )  # fmt: skip
    past = None
    if Y_df is not None:
        kind_of("Y_df", Y_df)
        find = partial(series._locate, "Y_df", column=id_col)
        past = FrequencyPast(Y_df, find, series.n, periods, (id_col, id_time_col, target_col))
    job = Job(
        panel,
        past,
        levels=None if level is None else check_levels(level),
        nonnegative=nonnegative,
        clip_base=False,
        intervals_method="normality",
        num_samples=check.count("num_samples", num_samples, least=0),
        seed=seed,
        variance=_by_frequency(variance, series, periods),
        residual_variance=residual_variance,
        immutable=(),
        columns=(id_col, time_col, target_col, id_time_col),
        threads=check.threads("threads", threads),
    )
    return job.written(methods)


def _by_frequency(variance: Any, series: Structure, periods: Structure) -> Any:
    """One variance for each frequency as one for each pair."""
    if not isinstance(variance, Mapping):
        return variance
    names, of_period = frequencies(periods)
    missing = [name for name in names if name not in variance]
    if missing or len(variance) > len(names):
        check.fail("variance", f"must have one number for each frequency {names}.")
    by_name = np.array([check.real(f"variance[{name!r}]", variance[name]) for name in names])
    if not (by_name >= 0).all():
        check.fail("variance", f"must not be negative, not {variance}.")
    return np.tile(by_name[of_period], series.n)


class _Pairs(Structure):
    """The structure of pairs of a series and a period."""

    def __init__(self, series: Structure, periods: Structure) -> None:
        self.series, self.periods = series, periods
        self.tree, self.has_total = None, True
        leaf = series.leaf[:, None] * periods.n + periods.leaf
        self.leaf = leaf.ravel()

    def name(self, k: int) -> str:
        """A pair for an error message."""
        i, j = divmod(k, self.periods.n)
        period = check.shown(self.periods.labels[j])
        return f"{self.series.name(i)} in period {period}"

    @property
    def n(self) -> int:
        """Number of pairs."""
        return self.series.n * self.periods.n

    @property
    def n_leaves(self) -> int:
        """Number of pairs of leaves."""
        return self.series.n_leaves * self.periods.n_leaves

    @property
    def size(self) -> np.ndarray:
        """How many pairs of leaves each pair is the sum of."""
        return np.multiply.outer(self.series.size, self.periods.size).ravel()

    @property
    def levels(self) -> dict[str, np.ndarray]:
        """Pairs have no levels of their own."""
        return {}

    @cached_property
    def matrix(self) -> Any:
        """The summing matrix of the pairs, sparse."""
        from scipy.sparse import kron

        return kron(self.series.matrix, self.periods.matrix, "csr")

    @cached_property
    def crossing(self) -> Crossing:
        """The axes of both."""
        a, b = self.series.crossing, self.periods.crossing
        size = int(np.prod(b.shape))
        exists = None
        if a.exists is not None or b.exists is not None:
            both = [
                np.ones([tree.n_leaves for tree in c.trees], bool) if c.exists is None else c.exists
                for c in (a, b)
            ]
            exists = np.logical_and.outer(*both)
        cell = (a.cell[:, None] * size + b.cell).ravel()
        return Crossing([*a.trees, *b.trees], cell, exists)


class _PairPanel(Panel):
    """A frame whose rows are pairs; both names are labels of structures."""

    def _named_pairs(self, wrapped: Any, lost: np.ndarray) -> Iterator[tuple[str, Any]]:
        pairs = self.structure
        assert isinstance(pairs, _Pairs)
        node, period = np.divmod(lost, pairs.periods.n)
        id_col, id_time_col = self.columns
        yield id_col, labels_as_in(wrapped, id_col, pairs.series.labels, node, self.kind)
        yield (
            id_time_col,
            labels_as_in(wrapped, id_time_col, pairs.periods.labels, period, self.kind),
        )
