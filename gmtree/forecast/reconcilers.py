"""Reconcilers with the interface of hierarchicalforecast's reconcilers.

They take the place of its classes in ``HierarchicalReconciliation(reconcilers=[...])``. They can
also be called with arrays, without hierarchicalforecast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.intervals import (
    SAMPLES,
    Bootstrap,
    Conformal,
    Normal,
    check_levels,
    quantiles_of,
)
from gmtree.forecast.methods import Method
from gmtree.forecast.registry import OPTIMAL, Options, check_method, method_for
from gmtree.forecast.shrinkage import RIDGE
from gmtree.forecast.structure import Structure
from gmtree.forecast.summing import SummingMatrix, as_csr
from gmtree.forecast.topdown import HISTORICAL, PROPORTIONS
from gmtree.forecast.variances import Past, Residuals
from gmtree.labels.distinct import column

if TYPE_CHECKING:
    from typing_extensions import Self

INTERVALS = ("normality", "bootstrap", "conformal")


class _Reconciler:
    """The interface that hierarchicalforecast expects."""

    is_sparse_method = True  # so that hierarchicalforecast passes S as a sparse matrix
    is_strictly_hierarchical = False
    fitted = False
    _method = "bottom_up"
    sampler: Normal | Bootstrap | None = None
    y_hat: np.ndarray
    _options = Options()
    _init_params: Mapping[str, Any] = {}
    _read: tuple[Any, Any, Structure] | None = None
    _fitted: Method

    @property
    def insample(self) -> bool:
        """Whether the method needs past values."""
        return self._method in ("wls_var", "mint_shrink", *HISTORICAL)

    def fit(
        self,
        S: Any,
        y_hat: Any,
        y_insample: Any = None,
        y_hat_insample: Any = None,
        sigmah: Any = None,
        intervals_method: str | None = None,
        num_samples: int | None = None,
        seed: int | None = None,
        tags: Any = None,
    ) -> Self:
        """Reconcile base forecasts and prepare their intervals.

        Afterwards `y_hat` holds the base forecasts or, with ``nonnegative=True``, the reconciled
        ones.

        Parameters
        ----------
        S : sparse matrix or array of shape (series, leaves)
            The summing matrix.
        y_hat : array of shape (series, steps)
            Base forecasts; NaN for those that are missing.
        y_insample, y_hat_insample : arrays of shape (series, periods), optional
            Past values and fitted values.
        sigmah : array of shape (series, steps), optional
            Standard deviations of the base forecasts, for normal intervals.
        intervals_method : {"normality", "bootstrap", "conformal"}, optional
        num_samples : int, optional
            Number of paths of a bootstrap.
        seed : int, optional
        tags : dict of arrays of int, optional
            Rows of S by level.
        """
        if self._read is None or self._read[0] is not S or self._read[1] is not tags:
            # All models of one pipeline pass the same matrix.
            self._read = (S, tags, _structure(S, tags))
        structure = self._read[2]
        y = _matrix("y_hat", y_hat, structure)
        past = _past(structure, y_insample, y_hat_insample)
        if intervals_method is not None:
            check.one_of("intervals_method", intervals_method, INTERVALS)
        self._fitted = method_for(structure, self._method, self._options, past)
        self._mean = self._fitted.project(y)
        self.y_hat = self._mean if self._options.nonnegative else y
        self.sampler = None
        if intervals_method == "normality":
            if sigmah is None:
                check.fail("sigmah", "must be given for normal intervals.")
            sigma = _matrix("sigmah", sigmah, structure)
            _refuse_shape("sigmah", sigma, "y_hat", y)
            if (sigma < 0).any():
                k, step = (int(i) for i in np.argwhere(sigma < 0)[0])
                check.fail("sigmah", f"must not be negative; {structure.name(k)} has "
                           f"{sigma[k, step]} at step {step}.")  # fmt: skip
            sigma[np.isnan(y)] = np.nan
            self.sampler = Normal(self._fitted, y, self._mean, sigma, seed)
        elif intervals_method == "bootstrap":
            count = SAMPLES if num_samples is None else num_samples
            self.sampler = Bootstrap(self._fitted, y, self._mean, past.residuals, seed, count)
        elif intervals_method == "conformal":
            self.sampler = Conformal(self._fitted, y, self._mean, past.residuals, seed)
        if self.sampler is not None:
            self.sampler.y_hat = self.y_hat
        self.fitted = True
        return self

    def fit_predict(
        self,
        S: Any,
        y_hat: Any,
        y_insample: Any = None,
        y_hat_insample: Any = None,
        sigmah: Any = None,
        level: Any = None,
        intervals_method: str | None = None,
        num_samples: int | None = None,
        seed: int | None = None,
        tags: Any = None,
    ) -> dict[str, np.ndarray]:
        """Return coherent forecasts: ``"mean"`` and, with `level`, ``"quantiles"``.

        See :meth:`fit` for the parameters. Intervals are normal, and need `sigmah`, unless
        `intervals_method` is ``"bootstrap"`` or ``"conformal"``.
        """
        method = "normality" if intervals_method is None else intervals_method
        self.fit(
            S, y_hat, y_insample, y_hat_insample, sigmah,
            None if level is None else method, num_samples, seed, tags,
        )  # fmt: skip
        return self._answer(self._mean, level)

    __call__ = fit_predict

    def predict(self, S: Any, y_hat: Any, level: Any = None) -> dict[str, np.ndarray]:
        """Reconcile new base forecasts with the fitted weights and errors."""
        self._refuse_not_fitted()
        assert self._read is not None
        y = _matrix("y_hat", y_hat, self._read[2])
        if level is not None and self.sampler is not None:
            _refuse_shape("y_hat", y, "the fitted base forecasts", self._mean)
        return self._answer(self._fitted.project(y), level)

    def _answer(self, mean: np.ndarray, level: Any) -> dict[str, np.ndarray]:
        found = {"mean": mean}
        if level is None:
            return found
        if self.sampler is None:
            check.fail("level", "must be None unless intervals_method was given to fit.")
        q = quantiles_of(check_levels(level))
        if isinstance(self.sampler, Normal):
            found["sigmah"] = self.sampler.deviation
        found["quantiles"] = np.stack(self.sampler.quantiles(q, mean), axis=-1)
        return found

    def sample(self, num_samples: int) -> np.ndarray:
        """Return coherent sample paths of shape (series, steps, samples)."""
        self._refuse_not_fitted()
        if self.sampler is None:
            check.fail("intervals_method", "must be given to fit for sample paths.")
        return self.sampler.get_samples(check.count("num_samples", num_samples, least=1))

    def _refuse_not_fitted(self) -> None:
        if not self.fitted:
            raise ValueError("This reconciler is not fitted yet: call its method fit first.")


class BottomUp(_Reconciler):
    """Sums of the forecasts of the leaves; all other forecasts are ignored.

    Examples
    --------
    >>> import gmtree as gm
    >>> S = [[1, 1], [1, 0], [0, 1]]
    >>> gm.forecast.BottomUp().fit_predict(S, [[10.0], [4.0], [3.0]])["mean"].ravel()
    array([7., 4., 3.])
    """

    def _get_PW_matrices(self, S: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return matrices from which hierarchicalforecast's own samplers can be made."""
        structure = _structure(S, None)
        return np.eye(structure.n)[structure.leaf], np.eye(structure.n)


class MinTrace(_Reconciler):
    """The coherent forecasts closest to the base forecasts, weighted with variances.

    Parameters
    ----------
    method : {"ols", "wls_struct", "wls_var", "mint_shrink"}
        Weights: equal variances, numbers of leaves, variances of residuals, or a shrunk covariance
        of residuals. The last uses the correlations of all pairs of series, without a matrix of
        that size, and does not support missing forecasts.
    nonnegative : bool
        Require non-negative forecasts. On a tree the result is the exact optimum, on other
        structures it is within a certified distance of the optimum. Normal intervals are those of
        the optimum without the bound, cut off at zero. Names of columns then contain
        ``nonnegative-optimal``.
    mint_shr_ridge : float
        For ``"mint_shrink"``, the least variance of a series.
    num_threads : int, optional
        Threads that share a sweep; by default all available cores.
    clip_base : bool
        With `nonnegative`, set negative base forecasts to zero first, as hierarchicalforecast does.
        This solves a different problem and exists to reproduce hierarchicalforecast's numbers,
        under its column name ``nonnegative-True``. As in hierarchicalforecast, intervals and sample
        paths then have the errors of bottom-up forecasts.
    residual_variance : {"mean_square", "variance"}
        For ``"wls_var"``: either the sum of squared residuals divided by the number of all periods,
        plus 2e-8, as in hierarchicalforecast's `MinTrace`, or the variance of the existing
        residuals about their mean, as in its `MinTraceSparse`.

    Examples
    --------
    >>> import gmtree as gm
    >>> S = [[1, 1], [1, 0], [0, 1]]
    >>> y = [[10.0], [3.0], [-2.0]]
    >>> gm.forecast.MinTrace("ols").fit_predict(S, y)["mean"].ravel()
    array([7., 6., 1.])
    >>> exact = gm.forecast.MinTrace("ols", nonnegative=True).fit_predict(S, y)["mean"]
    >>> exact.ravel()
    array([7., 6., 1.])
    >>> theirs = gm.forecast.MinTrace("ols", nonnegative=True, clip_base=True)
    >>> theirs.fit_predict(S, y)["mean"].ravel().round(2)
    array([7.67, 5.33, 2.33])
    """

    def __init__(
        self,
        method: str,
        nonnegative: bool = False,
        mint_shr_ridge: float = RIDGE,
        num_threads: int | None = None,
        *,
        clip_base: bool = False,
        residual_variance: str = "mean_square",
    ) -> None:
        check_method(method)
        ridge = check.positive("mint_shr_ridge", mint_shr_ridge)
        self._options = Options(
            nonnegative=nonnegative,
            clip_base=clip_base,
            residual_variance=residual_variance,
            ridge=ridge,
            threads=check.threads("num_threads", num_threads),
        )
        self.method = self._method = method
        self.nonnegative = nonnegative
        self.num_threads = num_threads
        # The names of columns of results are made from these.
        self._init_params = {
            "method": method,
            "nonnegative": OPTIMAL if nonnegative and not clip_base else nonnegative,
        }
        if method == "mint_shrink":
            self._init_params["mint_shr_ridge"] = ridge
        if residual_variance != "mean_square":
            self._init_params["residual_variance"] = residual_variance


class MiddleOut(_Reconciler):
    """Forecasts of one level, divided among the series below it and summed for those above it.

    Parameters
    ----------
    middle_level : str
        Name of the level, a key of `tags`.
    top_down_method : {"forecast_proportions", "average_proportions", "proportion_averages"}
        See :class:`TopDown`.

    Examples
    --------
    >>> import gmtree as gm
    >>> S = [[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    >>> middle = gm.forecast.MiddleOut("state", "forecast_proportions")
    >>> y = [[20.0], [8.0], [1.0], [3.0], [9.0]]
    >>> middle.fit_predict(S, y, tags={"state": [1, 4]})["mean"].ravel()
    array([17.,  8.,  2.,  6.,  9.])
    """

    def __init__(self, middle_level: str, top_down_method: str) -> None:
        if not isinstance(middle_level, str):
            check.fail_type("middle_level", f"must be the name of a level, not {middle_level!r}.")
        check.one_of("top_down_method", top_down_method, PROPORTIONS)
        self.middle_level, self.top_down_method = middle_level, top_down_method
        self._method, self._options = top_down_method, Options(middle_level=middle_level)
        self._init_params = {"middle_level": middle_level, "top_down_method": top_down_method}


class TopDown(_Reconciler):
    """The forecast at the top, divided among the leaves.

    Parameters
    ----------
    method : {"forecast_proportions", "average_proportions", "proportion_averages"}
        With the first method, each series is divided in proportion to the forecasts of its
        children, which requires a tree. With the other two, each leaf gets the average of its past
        proportions, or the proportion of its past average. If no series is the sum of all, every
        series that is not part of another series is divided. The first method has no intervals.

    Examples
    --------
    >>> import gmtree as gm
    >>> S = [[1, 1], [1, 0], [0, 1]]
    >>> top_down = gm.forecast.TopDown("forecast_proportions")
    >>> top_down.fit_predict(S, [[10.0], [1.0], [3.0]])["mean"].ravel()
    array([10. ,  2.5,  7.5])
    """

    def __init__(self, method: str) -> None:
        check.one_of("method", method, PROPORTIONS)
        self.method = self._method = method
        self._init_params = {"method": method}


def _matrix(argument: str, x: Any, structure: Structure) -> np.ndarray:
    """Read an array with a row for each series; NaN is missing."""
    a, rows = np.array(check.reals(argument, x), np.float64), structure.n
    if a.ndim != 2 or a.shape[0] != rows or not a.shape[1]:
        check.fail(argument, f"must have one row per series ({rows}), not shape {a.shape}.")
    if np.isinf(a).any():
        k, step = (int(i) for i in np.argwhere(np.isinf(a))[0])
        check.fail(argument, f"must be finite; {structure.name(k)} is {a[k, step]}.")
    return a


def _past(structure: Structure, y_insample: Any, y_hat_insample: Any) -> Past:
    """Return the past values, and the residuals if there are fitted values."""
    if y_insample is None:
        return Past()
    past = _matrix("y_insample", y_insample, structure)
    if y_hat_insample is None:
        return Past(lambda: past)
    fitted = _matrix("y_hat_insample", y_hat_insample, structure)
    _refuse_shape("y_hat_insample", fitted, "y_insample", past)
    return Past(lambda: past, lambda: Residuals(past - fitted, structure.name))


def _refuse_shape(argument: str, x: np.ndarray, other: str, y: np.ndarray) -> None:
    if x.shape != y.shape:
        check.fail(argument, f"must have the shape {y.shape} of {other}, not {x.shape}.")


def _structure(S: Any, tags: Any) -> Structure:
    matrix = as_csr("S", S)
    levels = {str(name): np.asarray(rows, np.int64) for name, rows in (tags or {}).items()}
    labels = column("S", np.arange(matrix.shape[0]))
    return Structure._from_summing(SummingMatrix(matrix, labels, levels))
