"""Reconcilers with the interface of hierarchicalforecast's own.

They take the place of its classes in ``HierarchicalReconciliation(reconcilers=[...])``, and can be
called with arrays where hierarchicalforecast is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.intervals import Bootstrap, Normal, normal_quantiles
from gmtree.forecast.rows import Rows
from gmtree.forecast.shrinkage import Shrunk, refuse_bounds
from gmtree.forecast.solver import Weights
from gmtree.forecast.structure import Structure
from gmtree.forecast.variances import check_levels, check_method, quantiles_of, weights_of
from gmtree.labels.distinct import column
from gmtree.readers.objects import ones

if TYPE_CHECKING:
    from typing_extensions import Self

SAMPLES = 200


class _Reconciler:
    """What both methods have in common, under the names that hierarchicalforecast asks for."""

    is_sparse_method = True  # so that it hands over S as a sparse matrix
    is_strictly_hierarchical = False
    insample = False
    fitted = False
    sampler: Any = None
    _read: tuple[Any, Any, Structure] | None = None
    _init_params: Mapping[str, Any] = {}

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
        intervals_method : {"normality", "bootstrap"}, optional
        num_samples : int, optional
            Paths of a bootstrap.
        seed : int, optional
        tags : dict of arrays of int, optional
            Rows of S by level.
        """
        if self._read is None or self._read[0] is not S or self._read[1] is not tags:
            # Several models come with one and the same matrix.
            self._read = (S, tags, _structure(S, tags))
        structure = self._read[2]
        y = _matrix("y_hat", y_hat, structure.n)
        residuals = None
        if y_insample is not None and y_hat_insample is not None:
            past = _matrix("y_insample", y_insample, structure.n)
            fitted = _matrix("y_hat_insample", y_hat_insample, structure.n)
            _refuse_shape("y_hat_insample", fitted, "y_insample", past)
            residuals = past - fitted
        if intervals_method not in (None, "normality", "bootstrap"):
            check.fail(
                "intervals_method",
                f"must be 'normality' or 'bootstrap', not {intervals_method!r}.",
            )
        self._structure = structure
        self._weigh(y, residuals)
        self._mean = self._project(self._given(y))
        self._sigma, self.sampler = None, None
        if intervals_method == "normality":
            if sigmah is None:
                check.fail("sigmah", "must be given for normal intervals.")
            sigma = _matrix("sigmah", sigmah, structure.n)
            _refuse_shape("sigmah", sigma, "y_hat", y)
            if (sigma < 0).any():
                k, step = (int(i) for i in np.argwhere(sigma < 0)[0])
                check.fail("sigmah", f"must not be negative; {structure.name(k)} has "
                           f"{sigma[k, step]} at step {step}.")  # fmt: skip
            self._sigma = np.sqrt(self._noise_variance(sigma**2))
            self.sampler = Normal(self._given(y), sigma, self._project, seed)
        elif intervals_method == "bootstrap":
            if residuals is None:
                check.fail("y_insample", "must be given, with y_hat_insample, for a bootstrap.")
            self._refuse_bootstrap()
            paths = SAMPLES if num_samples is None else num_samples
            self.sampler = Bootstrap(y, residuals, self._linear, paths, seed)
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
        """Coherent forecasts: ``"mean"`` and, with `level`, ``"quantiles"``; see :meth:`fit`.

        Intervals are normal, and need `sigmah`, unless `intervals_method` is ``"bootstrap"``.
        """
        method = "normality" if intervals_method is None else intervals_method
        self.fit(
            S, y_hat, y_insample, y_hat_insample, sigmah,
            None if level is None else method, num_samples, seed, tags,
        )  # fmt: skip
        return self._answer(level)

    __call__ = fit_predict

    def predict(self, S: Any, y_hat: Any, level: Any = None) -> dict[str, np.ndarray]:
        """Coherent forecasts for other base forecasts, with what was fitted."""
        self._refuse_not_fitted()
        y = _matrix("y_hat", y_hat, self._structure.n)
        self._mean = self._project(self._given(y))
        return self._answer(level)

    def _answer(self, level: Any) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {"mean": self._mean}
        if level is None:
            return found
        if self.sampler is None:
            check.fail("level", "must be None unless intervals_method was given to fit.")
        q = quantiles_of(check_levels(level))
        if self._sigma is not None:
            found["sigmah"] = self._sigma
            found["quantiles"] = self._bounded(normal_quantiles(self._mean, self._sigma, q))
        else:
            found["quantiles"] = self.sampler.quantiles(q)
        return found

    def sample(self, num_samples: int) -> np.ndarray:
        """Coherent sample paths of shape (series, steps, samples)."""
        self._refuse_not_fitted()
        if self.sampler is None:
            check.fail("intervals_method", "must be given to fit for sample paths.")
        return self.sampler.get_samples(check.count("num_samples", num_samples, least=1))

    def _refuse_not_fitted(self) -> None:
        if not self.fitted:
            raise ValueError("This reconciler is not fitted yet: call its method fit first.")

    # ------------------------------------------------------------------ what methods differ in

    def _weigh(self, y: np.ndarray, residuals: np.ndarray | None) -> None:
        raise AssertionError

    def _given(self, y: np.ndarray) -> np.ndarray:
        return y

    def _linear(self, y: np.ndarray) -> np.ndarray:
        raise AssertionError

    def _project(self, y: np.ndarray) -> np.ndarray:
        return self._linear(y)

    def _noise_variance(self, noise: np.ndarray) -> np.ndarray:
        raise AssertionError

    def _bounded(self, quantiles: np.ndarray) -> np.ndarray:
        return quantiles

    def _refuse_bootstrap(self) -> None:
        pass


class BottomUp(_Reconciler):
    """Sums of the forecasts of the leaves; all others are ignored.

    Examples
    --------
    >>> import gmtree as gm
    >>> S = [[1, 1], [1, 0], [0, 1]]
    >>> gm.forecast.BottomUp().fit_predict(S, [[10.0], [4.0], [3.0]])["mean"].ravel()
    array([7., 4., 3.])
    """

    def __init__(self) -> None:
        self._init_params = {}

    def _weigh(self, y: np.ndarray, residuals: np.ndarray | None) -> None:
        bottom_up_missing(self._structure, y)

    def _linear(self, y: np.ndarray) -> np.ndarray:
        return self._structure.aggregate(np.ascontiguousarray(y[self._structure.leaf]))

    def _noise_variance(self, noise: np.ndarray) -> np.ndarray:
        return self._linear(noise)


class MinTrace(_Reconciler):
    """The coherent forecasts closest to the base forecasts, weighted with variances.

    Parameters
    ----------
    method : {"ols", "wls_struct", "wls_var", "mint_shrink"}
        Variances that are equal, numbers of leaves, or those of residuals; or a shrunk covariance
        of residuals, with all pairs of series in it but no matrix of that size. The last takes
        neither `nonnegative` nor missing forecasts.
    nonnegative : bool
        Closest among forecasts that are nowhere negative: on a tree the exact optimum, on crossed
        trees to a certified distance. Normal intervals are those of the optimum without the bound,
        cut off at zero.
    clip_base : bool
        With `nonnegative`, set negative base forecasts to zero first, as hierarchicalforecast does.
        That solves another problem; it is here to reproduce its numbers. Intervals are then
        those of bottom-up forecasts, as there.
    num_threads : int, optional
        Threads that share a sweep; by default the cores at hand.
    residual_variance : {"mean_square", "variance"}
        For ``"wls_var"``: the sum of squared residuals divided by the number of all periods, plus
        2e-8, as hierarchicalforecast's `MinTrace` has it; or their variance about the mean of those
        observed, as its `MinTraceSparse` has it.

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
        clip_base: bool = False,
        num_threads: int | None = None,
        residual_variance: str = "mean_square",
    ) -> None:
        check_method(method)
        self.method = method
        self.nonnegative = check.flag("nonnegative", nonnegative)
        self.clip_base = check.flag("clip_base", clip_base)
        if clip_base and not nonnegative:
            check.fail("clip_base", "must be False without nonnegative=True.")
        self.num_threads = check.threads("num_threads", num_threads)
        check.one_of("residual_variance", residual_variance, ("mean_square", "variance"))
        self.residual_variance = residual_variance
        self.insample = method in ("wls_var", "mint_shrink")
        if method == "mint_shrink":
            refuse_bounds(nonnegative)
        self._init_params = {"method": method, "nonnegative": nonnegative}
        if clip_base:
            self._init_params["clip_base"] = True
        if residual_variance != "mean_square":
            self._init_params["residual_variance"] = residual_variance

    _weights: Any
    _complete: Any

    def _weigh(self, y: np.ndarray, residuals: np.ndarray | None) -> None:
        if self.method == "mint_shrink":
            if residuals is None:
                check.fail("Y_df", "must hold values and fitted values for method 'mint_shrink'.")
            complete = residuals[:, ~np.isnan(residuals).all(axis=0)]
            self._weights = self._complete = Shrunk(self._structure, complete, self.num_threads)
            return
        s = weights_of(self._structure, self.method, residuals, self.residual_variance)
        there = ~np.isnan(y)
        self._weights = Weights(self._structure, s, there, self.num_threads)
        # Residuals have no missing values, nor as many columns.
        self._complete = Weights(self._structure, s, None, self.num_threads)

    def _given(self, y: np.ndarray) -> np.ndarray:
        return np.maximum(y, 0) if self.clip_base else y

    def _linear(self, y: np.ndarray) -> np.ndarray:
        return (self._complete if not np.isnan(y).any() else self._weights).project(y)

    def _project(self, y: np.ndarray) -> np.ndarray:
        return self._weights.project(y, True) if self.nonnegative else self._weights.project(y)

    def _noise_variance(self, noise: np.ndarray) -> np.ndarray:
        if self.clip_base:
            leaf = self._structure.leaf
            return self._structure.aggregate(np.ascontiguousarray(noise[leaf]))
        return self._weights.noise_variance(noise)

    def _bounded(self, quantiles: np.ndarray) -> np.ndarray:
        cut = self.nonnegative and not self.clip_base
        return np.maximum(quantiles, 0) if cut else quantiles

    def _refuse_bootstrap(self) -> None:
        if self.nonnegative:
            check.fail("intervals_method", "must not be 'bootstrap' with nonnegative=True.")


def bottom_up_missing(structure: Structure, y: np.ndarray) -> None:
    """Refuse leaves without a forecast."""
    missing = np.isnan(y[structure.leaf]).any(axis=1)
    if missing.any():
        k = int(structure.leaf[int(np.argmax(missing))])
        check.fail("Y_hat_df", f"must have a forecast of each leaf for bottom-up sums; "
                   f"{structure.name(k)} has none.")  # fmt: skip


def _matrix(argument: str, x: Any, rows: int) -> np.ndarray:
    a = check.reals(argument, x)
    if a.ndim != 2 or a.shape[0] != rows or not a.shape[1]:
        check.fail(argument, f"must have one row per series ({rows}), not shape {a.shape}.")
    return np.array(a, np.float64)


def _refuse_shape(argument: str, x: np.ndarray, other: str, y: np.ndarray) -> None:
    if x.shape != y.shape:
        check.fail(argument, f"must have the shape {y.shape} of {other}, not {x.shape}.")


def _structure(S: Any, tags: Any) -> Structure:
    start, cols, shape = ones(S)
    levels = None
    if tags:
        levels = {str(name): np.asarray(rows, np.int64) for name, rows in tags.items()}
    labels = column("S", np.arange(shape[0]))
    return Structure._of_rows(Rows(start, cols, shape[1], labels, levels))
