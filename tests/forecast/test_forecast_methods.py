"""Our reconcilers in hierarchicalforecast's pipeline, beside its own, and alone."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from forecast.panels import data
from reference import forecasts as dense
from scipy.optimize import nnls

from gmtree.forecast import BottomUp, MinTrace

METHODS = ["ols", "wls_struct", "wls_var"]
BOTH = [*METHODS, "mint_shrink"]


@pytest.fixture(scope="module")
def theirs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = pytest.importorskip("hierarchicalforecast.core")
        methods = pytest.importorskip("hierarchicalforecast.methods")
    return core.HierarchicalReconciliation, methods


def run(theirs, reconcilers, d, **options):
    pipeline = theirs[0](reconcilers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pipeline.reconcile(d.base.copy(), tags=d.tags, S_df=d.S_df, Y_df=d.past, **options)


def results(frame):
    return frame[[name for name in frame if "/" in name]]


@pytest.mark.parametrize("spec", ["strict", "grouped", "some levels only", "missing pairs"])
@pytest.mark.parametrize("method", BOTH)
def test_mint_equals_their_dense_one_with_normal_intervals(theirs, spec, method):
    d = data(spec)
    a = run(theirs, [theirs[1].MinTrace(method)], d, level=[80, 95])
    b = run(theirs, [MinTrace(method)], d, level=[80, 95])
    assert list(a.columns) == list(b.columns)
    np.testing.assert_allclose(results(a), results(b), atol=1e-8)


@pytest.mark.parametrize("spec", ["strict", "grouped"])
def test_bootstrapped_intervals_are_the_same(theirs, spec):
    d = data(spec)
    options = {"level": [80, 95], "intervals_method": "bootstrap", "seed": 4}
    a = run(theirs, [theirs[1].MinTrace("wls_var"), theirs[1].BottomUp()], d, **options)
    b = run(theirs, [MinTrace("wls_var"), BottomUp()], d, **options)
    assert list(a.columns) == list(b.columns)
    np.testing.assert_allclose(results(a), results(b), atol=1e-8)


def test_both_kinds_of_reconcilers_side_by_side(theirs):
    d = data("strict")
    found = run(theirs, [theirs[1].TopDown("forecast_proportions"), MinTrace("ols"), BottomUp()], d)
    assert list(results(found)) == [
        "m/TopDown_method-forecast_proportions",
        "m/MinTrace_method-ols",
        "m/BottomUp",
    ]


def test_residual_variances_of_their_sparse_method(theirs):
    d = data("strict")
    a = run(theirs, [theirs[1].MinTraceSparse("wls_var")], d)
    b = run(theirs, [MinTrace("wls_var", residual_variance="variance")], d)
    # The iteration of the other package stops early.
    np.testing.assert_allclose(results(a), results(b), rtol=1e-3)
    s = np.var(d.wide("y", d.past) - d.wide("m", d.past), axis=1, ddof=1)
    expected = dense.coherent(d.S, d.wide("m"), s)
    np.testing.assert_allclose(results(b).to_numpy().reshape(expected.shape), expected, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_clipping_first_reproduces_their_values_and_bounds(theirs, method):
    d = data("strict")
    d.base["m"] -= 19
    d.base["m-lo-90"], d.base["m-hi-90"] = d.base.m - 5, d.base.m + 5
    a = run(theirs, [theirs[1].MinTrace(method, nonnegative=True)], d, level=[90])
    b = run(theirs, [MinTrace(method, nonnegative=True, clip_base=True)], d, level=[90])
    assert (d.base.m < 0).any()
    # The other package rounds to single precision.
    np.testing.assert_allclose(results(a), results(b), atol=2e-4)


@pytest.mark.parametrize("method", METHODS)
def test_nonnegative_is_the_optimum(method):
    d = data("strict")
    y = d.wide("m") - 20 * d.S.sum(axis=1)[:, None]
    past, fitted = d.wide("y", d.past), d.wide("m", d.past)
    x = MinTrace(method, nonnegative=True).fit_predict(d.S, y, past, fitted)["mean"]
    s = {"ols": np.ones(len(y)), "wls_struct": d.S.sum(axis=1),
         "wls_var": ((past - fitted) ** 2).mean(axis=1) + 2e-8}[method]  # fmt: skip
    for k in range(y.shape[1]):
        np.testing.assert_allclose(x[:, k], dense.nonnegative(d.S, y[:, k], s), atol=1e-9)
    assert (x == 0).any()


@pytest.mark.parametrize("periods", [6, 40])
@pytest.mark.parametrize("spec", ["strict", "grouped", "missing pairs"])
def test_nonnegative_is_the_optimum_for_shrunk_covariances(spec, periods):
    d = data(spec, periods=periods)
    y = d.wide("m") - 20 * d.S.sum(axis=1)[:, None]
    # Residuals that share a shock, so that correlations matter.
    rng = np.random.default_rng(0)
    past = rng.normal(size=(len(y), periods)) + rng.normal(size=periods) * d.S.sum(axis=1)[:, None]
    mint = MinTrace("mint_shrink", nonnegative=True).fit(d.S, y, past, 0 * past)
    W = np.cov(past)
    W = np.where(np.eye(len(W), dtype=bool), W, (1 - mint._fitted.intensity) * W)
    whiten = np.linalg.inv(np.linalg.cholesky(W))
    expected = [d.S @ nnls(whiten @ d.S, whiten @ column)[0] for column in y.T]
    np.testing.assert_allclose(mint.y_hat, np.transpose(expected), atol=1e-8)
    assert mint.y_hat.min() == 0
    clipped = MinTrace("mint_shrink", nonnegative=True, clip_base=True)
    clipped.fit(d.S, y, past, 0 * past)
    expected = [d.S @ nnls(whiten @ d.S, whiten @ column)[0] for column in np.maximum(y, 0).T]
    np.testing.assert_allclose(clipped.y_hat, np.transpose(expected), atol=1e-8)


def test_nonnegative_on_groups():
    d = data("grouped")
    y = d.wide("m") - 20 * d.S.sum(axis=1)[:, None]
    x = MinTrace("wls_struct", nonnegative=True).fit_predict(d.S, y)["mean"]
    assert x.min() == 0
    for k in range(y.shape[1]):
        expected = dense.nonnegative(d.S, y[:, k], d.S.sum(axis=1))
        np.testing.assert_allclose(x[:, k], expected, atol=1e-5)


def test_bounds_of_nonnegative_forecasts_are_not_negative():
    d = data("strict")
    y = d.wide("m") - 20 * d.S.sum(axis=1)[:, None]
    sigma = np.full(y.shape, 3.0)
    plain = MinTrace("ols").fit_predict(
        d.S, y, sigmah=sigma, level=[80], intervals_method="normality"
    )
    bounded = MinTrace("ols", nonnegative=True).fit_predict(
        d.S, y, sigmah=sigma, level=[80], intervals_method="normality"
    )
    assert bounded["quantiles"].min() == 0
    np.testing.assert_array_equal(plain["sigmah"], bounded["sigmah"])


@pytest.mark.parametrize("spec", ["strict", "grouped"])
@pytest.mark.parametrize("reconciler", [MinTrace("ols"), MinTrace("wls_struct"), BottomUp()])
def test_samples_are_coherent_and_vary_as_they_should(spec, reconciler):
    d = data(spec)
    sigma = np.random.default_rng(0).uniform(1, 3, d.wide("m").shape)
    reconciler.fit(d.S, d.wide("m"), sigmah=sigma, intervals_method="normality", seed=1)
    x = reconciler.sample(500)
    assert x.shape == (*sigma.shape, 500)
    leaf = d.structure.leaf
    np.testing.assert_allclose(np.einsum("ij,jts->its", d.S, x[leaf]), x, atol=1e-9)
    deviation = reconciler.fit_predict(
        d.S, d.wide("m"), sigmah=sigma, level=[90], intervals_method="normality"
    )["sigmah"]
    np.testing.assert_allclose(x.std(axis=2), deviation, rtol=0.2)


@pytest.mark.parametrize("periods", [4, 12, 60])
@pytest.mark.parametrize("spec", ["strict", "grouped"])
def test_shrunk_covariances_of_few_and_many_periods(spec, periods):
    d = data(spec, periods=periods)
    past, fitted = d.wide("y", d.past), d.wide("m", d.past)
    residuals = past - fitted
    standard = residuals - residuals.mean(axis=1, keepdims=True)
    standard /= residuals.std(axis=1, keepdims=True)
    # A loop over all pairs of series.
    pairs = np.einsum("it,jt->ijt", standard, standard)
    r = pairs.mean(axis=2)
    other = ~np.eye(len(r), dtype=bool)
    spread = pairs.var(axis=2, ddof=1) / periods
    shrink = min(1, spread[other].sum() / (r[other] ** 2).sum())
    C = np.cov(residuals)
    W = np.where(other, (1 - shrink) * C, C)
    inverse = np.linalg.inv(W)
    expected = d.S @ np.linalg.solve(d.S.T @ inverse @ d.S, d.S.T @ inverse @ d.wide("m"))
    x = MinTrace("mint_shrink").fit_predict(d.S, d.wide("m"), past, fitted)["mean"]
    np.testing.assert_allclose(x, expected, atol=1e-6)


@pytest.mark.parametrize(("spec", "count"), [("strict", 3000), ("grouped", 500)])
def test_samples_of_shrunk_covariances_have_its_correlations(spec, count):
    d = data(spec, steps=1)
    rng = np.random.default_rng(0)
    # One shock that all series share.
    past = 20 + rng.normal(0, 1, (len(d.S), 40)) + rng.normal(0, 3, 40) * d.S.sum(axis=1)[:, None]
    sigma = rng.uniform(1, 3, (len(d.S), 1))
    mint = MinTrace("mint_shrink").fit(
        d.S, d.wide("m"), past, 20 + 0 * past, sigma, intervals_method="normality", seed=1
    )
    x = mint.sample(count)[:, 0]
    np.testing.assert_allclose(x.std(axis=1), mint.sampler.deviation[:, 0], rtol=4 / count**0.5)
    np.testing.assert_allclose(d.S @ x[d.structure.leaf], x, atol=1e-8)
    alone = MinTrace("ols").fit(d.S, d.wide("m"), sigmah=sigma, intervals_method="normality")
    assert mint.sampler.deviation[0] > 1.5 * alone.sampler.deviation[0]


@pytest.mark.parametrize("method", ["BottomUp", *BOTH])
@pytest.mark.parametrize("spec", ["strict", "missing pairs"])
def test_covariances_of_samples_are_those_of_the_method(spec, method):
    d = data(spec, steps=1)
    rng = np.random.default_rng(0)
    past = rng.normal(size=(len(d.S), 40)) + rng.normal(size=40) * d.S.sum(axis=1)[:, None]
    sigma = rng.uniform(1, 3, (len(d.S), 1))
    made = BottomUp() if method == "BottomUp" else MinTrace(method)
    made.fit(d.S, d.wide("m"), past, 0 * past, sigma, intervals_method="normality", seed=1)
    P = made._fitted.project(np.eye(len(d.S)))
    R = np.eye(len(d.S))
    if method == "mint_shrink":
        R = R + (1 - R) * (1 - made._fitted.intensity) * np.corrcoef(past)
    expected = P @ (R * sigma * sigma.T) @ P.T
    found = np.cov(made.sample(20_000)[:, 0])
    # In units of deviations, because covariances may be zero.
    scale = np.sqrt(np.diag(expected))
    assert abs((found - expected) / np.outer(scale, scale)).max() < 0.05
    np.testing.assert_allclose(made.sampler.deviation[:, 0], scale, rtol=1e-9)


def test_matrices_for_their_own_samplers(theirs):
    d = data("strict")
    P, W = BottomUp()._get_PW_matrices(d.S)
    a, b = theirs[1].BottomUp()._get_PW_matrices(d.S)
    np.testing.assert_array_equal(P, a)
    np.testing.assert_array_equal(W, b)


def test_samples_of_clipped_forecasts_have_the_errors_of_their_intervals():
    d = data("strict")
    y, sigma = d.wide("m") - 20, np.full((len(d.S), 3), 4.0)
    clipped = MinTrace("ols", nonnegative=True, clip_base=True)
    clipped.fit(d.S, y, sigmah=sigma, intervals_method="normality", seed=0)
    x = clipped.sample(5000)
    expected = np.repeat(4 * np.sqrt(d.S.sum(axis=1))[:, None], 3, axis=1)
    np.testing.assert_allclose(x.std(axis=2), expected, rtol=0.1)
    np.testing.assert_allclose(x.mean(axis=2), clipped.y_hat, atol=0.8)


@pytest.mark.parametrize("ridge", [2e-8, 5.0, 40.0])
def test_least_variances_of_shrunk_covariances_are_theirs(theirs, ridge):
    d = data("grouped")
    a = run(theirs, [theirs[1].MinTrace("mint_shrink", False, ridge)], d, level=[90])
    b = run(theirs, [MinTrace("mint_shrink", False, ridge)], d, level=[90])
    assert list(a.columns) == list(b.columns)
    np.testing.assert_allclose(results(a), results(b), atol=1e-8)
    assert MinTrace("ols", False, ridge, 2).num_threads == 2
    with pytest.raises(ValueError, match="'mint_shr_ridge' must be positive"):
        MinTrace("mint_shrink", mint_shr_ridge=0.0)


def test_periods_without_some_residuals_are_left_out_of_shrunk_covariances():
    d = data("strict")
    y, past, fitted = d.wide("m"), d.wide("y", d.past), d.wide("m", d.past)
    lost = past.copy()
    lost[3, :5] = np.nan
    a = MinTrace("mint_shrink").fit_predict(d.S, y, lost, fitted)["mean"]
    b = MinTrace("mint_shrink").fit_predict(d.S, y, past[:, 5:], fitted[:, 5:])["mean"]
    np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("reconciler", ["BottomUp", "MinTrace"])
def test_conformal_intervals_are_theirs(theirs, reconciler):
    d = data("grouped")
    options = {"level": [80, 95], "intervals_method": "conformal", "seed": 4, "num_samples": 3}
    method = () if reconciler == "BottomUp" else ("wls_var",)
    a = run(theirs, [getattr(theirs[1], reconciler)(*method)], d, **options)
    b = run(theirs, [{"BottomUp": BottomUp, "MinTrace": MinTrace}[reconciler](*method)], d,
            **options)  # fmt: skip
    assert list(a.columns) == list(b.columns)
    np.testing.assert_allclose(results(a), results(b), atol=1e-8)


def test_samplers_hold_the_nonnegative_forecasts():
    d = data("strict")
    y = d.wide("m") - 20
    found = MinTrace("ols", True).fit(d.S, y, sigmah=np.ones(y.shape), intervals_method="normality")
    np.testing.assert_array_equal(found.sampler.y_hat, found.y_hat)
    assert found.y_hat.min() >= 0


@pytest.mark.parametrize("how", ["normality", "bootstrap", "conformal"])
@pytest.mark.parametrize("make", [BottomUp, *(lambda m=m: MinTrace(m) for m in BOTH)])
@pytest.mark.parametrize("spec", ["strict", "some levels only"])
def test_fitted_reconcilers_predict_and_survive_pickle(make, how, spec):
    d = data(spec)
    y, past, fitted = d.wide("m"), d.wide("y", d.past), d.wide("m", d.past)
    options = {"sigmah": np.ones(y.shape), "intervals_method": how, "seed": 3}
    one = make().fit(d.S, y, past, fitted, **options)
    np.testing.assert_array_equal(one.y_hat, y)
    np.testing.assert_array_equal(one.sampler.y_hat, y)
    expected = make().fit_predict(d.S, 2 * y, past, fitted, level=[80], **options)
    for reconciler in (one, pickle.loads(pickle.dumps(one))):
        found = reconciler.predict(d.S, 2 * y, level=[80])
        for key, x in expected.items():
            np.testing.assert_allclose(found[key], x, rtol=1e-12)
        np.testing.assert_array_equal(reconciler.sample(3), one.sample(3))
    with pytest.raises(ValueError, match=r"'y_hat' must have the shape .* of the fitted base"):
        one.predict(d.S, y[:, :1], level=[80])
    lost = np.where(np.arange(y.size).reshape(y.shape) == 0, np.nan, y)
    if getattr(one, "method", None) != "mint_shrink":
        mean = make().fit_predict(d.S, lost, past, fitted)["mean"]
        np.testing.assert_allclose(one.predict(d.S, lost)["mean"], mean)


def test_optimum_and_clipped_values_have_names_of_their_own(theirs):
    d = data("strict")
    found = run(theirs, [theirs[1].MinTrace("ols", True), MinTrace("ols", True)], d)
    assert list(results(found)) == [
        "m/MinTrace_method-ols_nonnegative-True", "m/MinTrace_method-ols_nonnegative-optimal"
    ]  # fmt: skip
    clipped = run(theirs, [MinTrace("ols", True, clip_base=True)], d)
    assert list(results(clipped)) == ["m/MinTrace_method-ols_nonnegative-True"]


def test_samples_in_their_pipeline(theirs):
    d = data("grouped")
    found = run(theirs, [MinTrace("ols")], d, level=[80], num_samples=3)
    total = d.structure.size.argmax()
    samples = [name for name in found if "-sample-" in name]
    assert len(samples) == 3
    wide = d.wide(samples[0], found)
    np.testing.assert_allclose(wide[total], wide[d.structure.leaf].sum(axis=0))


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("method", BOTH)
def test_their_own_test_data_are_recovered(method, nonnegative):
    # Four proportional series in two groups; fitted values are those of the period before.
    S = np.vstack([np.ones(4), [1, 1, 0, 0], [0, 0, 1, 1], np.eye(4)])
    past = np.outer([1, 2, 3, 4], [10.0, 5, 4, 2, 1])
    fitted = np.roll(past, 1, axis=1)
    fitted[:, 0] = np.nan
    y = S @ np.outer([1, 2, 3, 4], [1.0, 1])
    x = MinTrace(method, nonnegative=nonnegative)(S, y, S @ past, S @ fitted)["mean"]
    np.testing.assert_allclose(x, y)
    np.testing.assert_allclose(BottomUp()(S, y)["mean"], y)


def test_predict_uses_what_was_fitted():
    d = data("strict")
    past, fitted = d.wide("y", d.past), d.wide("m", d.past)
    one = MinTrace("wls_var").fit(d.S, d.wide("m"), past, fitted)
    again = one.predict(d.S, d.wide("m") + 1)["mean"]
    both = MinTrace("wls_var").fit_predict(d.S, d.wide("m") + 1, past, fitted)["mean"]
    np.testing.assert_array_equal(again, both)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MinTrace("mint_cov"), "'method' must be one of .* not offered"),
        (lambda: MinTrace("best"), "'method' must be one of"),
        (lambda: MinTrace("ols", clip_base=True), "'clip_base' must be False"),
        (lambda: MinTrace("ols").sample(3), "not fitted"),
        (
            lambda: MinTrace("ols").fit([[1, 1], [1, 0], [0, 1]], [[1.0], [2.0]]),
            "'y_hat' must have",
        ),
        (lambda: MinTrace("wls_var").fit([[1, 1], [1, 0], [0, 1]], np.ones((3, 1))), "'Y_df' must"),
        (
            lambda: MinTrace("ols").fit(
                [[1, 1], [1, 0], [0, 1]], np.ones((3, 1)), intervals_method="permbu"
            ),
            "'intervals_method' must be 'normality' or 'bootstrap' or 'conformal'",
        ),
        (
            lambda: BottomUp().fit([[1, 1], [1, 0], [0, 1]], [[1.0], [2.0], [np.nan]]),
            "series 2 has",
        ),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_wrong_residuals_of_shrunk_covariances():
    S = [[1, 1], [1, 0], [0, 1]]
    y, past = np.ones((3, 1)), np.random.default_rng(0).normal(size=(3, 6))
    for change, message in [
        (past[:, :2], "at least 3 periods"),
        (np.where(np.arange(18).reshape(3, 6) % 6 < 4, np.nan, past), "at least 3 periods"),
    ]:
        with pytest.raises(ValueError, match=message):
            MinTrace("mint_shrink").fit(S, y, change, np.zeros(change.shape))
    with pytest.raises(ValueError, match="no missing forecasts"):
        MinTrace("mint_shrink").fit(S, [[1.0], [2.0], [np.nan]], past, 0 * past)


def test_missing_forecasts_follow_from_the_others():
    S = [[1, 1], [1, 0], [0, 1]]
    x = MinTrace("ols").fit_predict(S, [[10.0, 10], [4, 4], [np.nan, 3]])["mean"]
    np.testing.assert_allclose(x, [[10, 9], [4, 5], [6, 4]])


@pytest.mark.parametrize("make", [lambda: MinTrace("ols"), BottomUp])
def test_intervals_are_never_left_out_in_silence(make):
    S, y = [[1, 1], [1, 0], [0, 1]], np.ones((3, 2))
    with pytest.raises(ValueError, match="'sigmah' must be given for normal intervals"):
        make().fit_predict(S, y, level=[80])
    found = make().fit_predict(S, y, sigmah=y, level=[80])
    assert found["quantiles"].shape == (3, 2, 2)
    with pytest.raises(ValueError, match="'level' must be None unless intervals_method was"):
        make().fit(S, y).predict(S, y, level=[80])
    with pytest.raises(ValueError, match="'sigmah' must not be negative; series 0 has -1"):
        make().fit_predict(S, y, sigmah=-y, level=[80])


def test_values_and_fitted_values_of_different_periods():
    S, y = [[1, 1], [1, 0], [0, 1]], np.ones((3, 1))
    with pytest.raises(ValueError, match=r"'y_hat_insample' must have the shape \(3, 6\) of y_ins"):
        MinTrace("wls_var").fit_predict(S, y, np.ones((3, 6)), np.ones((3, 5)))
