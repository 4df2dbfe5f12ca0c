"""Bounds on both sides of coherent forecasts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from forecast.panels import KINDS, data, shuffled

import gmtree as gm
from gmtree.forecast import reconcile

METHODS = ["ols", "wls_struct", "wls_var"]
TREE = {"a": "all", "b": "all"}


def column(method, end="_bounded"):
    return f"m/MinTrace_method-{method}{end}"


def expected(d, method, **options):
    """The bounded projection on the tree of the structure, whose nodes are the series."""
    residuals = d.wide("y", d.past) - d.wide("m", d.past)
    s = {"ols": np.ones(d.structure.n), "wls_struct": d.S.sum(axis=1),
         "wls_var": (residuals**2).mean(axis=1) + 2e-8}[method]  # fmt: skip
    return gm.Consistency(d.structure.tree, {"node": s}).project(d.wide("m"), **options)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("nonnegative", [False, True])
def test_values_are_those_of_the_bounded_projection(method, nonnegative):
    d = data("strict")
    free = expected(d, method)
    labels = d.structure.labels
    level = list(d.tags)[1]
    own = dict(zip(labels[3:6], free[3:6].mean(axis=1) - 1, strict=True))
    upper = np.full(len(labels), np.inf)
    upper[d.structure.levels[level]] = free[1].max() - 5
    upper[3:6] = np.minimum(upper[3:6], list(own.values()))
    lower = np.full(len(labels), -np.inf)
    lower[d.structure.leaf[2]] = free[d.structure.leaf[2]].max() + 1
    found = reconcile(
        shuffled(d.base), d.S_df, d.tags, method, d.past, nonnegative,
        lower=pd.Series({labels[d.structure.leaf[2]]: lower[d.structure.leaf[2]]}),
        upper={level: free[1].max() - 5, **own},
    )  # fmt: skip
    name = column(method, "_nonnegative-optimal" * nonnegative + "_bounded")
    assert list(found)[-1] == name
    x = d.wide(name, found)
    wanted = expected(
        d, method, nonnegative=nonnegative, lower={"node": lower}, upper={"node": upper}
    )
    np.testing.assert_allclose(x, wanted, rtol=1e-12, atol=1e-9)
    assert (x >= lower[:, None]).all()
    assert (x <= upper[:, None]).all()
    assert not np.allclose(x, free)


def test_one_number_bounds_all_series_including_the_total():
    d = data("strict")
    top = float(expected(d, "ols")[0].min()) - 10
    found = reconcile(d.base, d.structure, method="ols", upper=top)
    x = d.wide(column("ols"), found)
    assert x.max() == top
    np.testing.assert_allclose(x, expected(d, "ols", upper={"node": np.full(len(d.S), top)}))


@pytest.mark.parametrize("steps", [3, 12])
def test_missing_forecasts_and_variances_by_step(steps):
    # With many patterns of missing forecasts, one tree solves all steps.
    d = data("strict", steps=steps)
    base = d.base.assign(v=np.random.default_rng(0).uniform(1, 5, len(d.base)))
    y, s = d.wide("m").copy(), d.wide("v", base).copy()
    lost = [(1 + step % 4, step) for step in range(steps)]
    for series, step in lost:
        base.loc[series * steps + step, "m"] = np.nan
        s[series, step], y[series, step] = np.inf, 0
    assert np.isnan(d.wide("m", base)[tuple(np.transpose(lost))]).all()
    leaf = d.structure.leaf[0]
    upper = {d.structure.labels[0]: y[0].min(), d.structure.labels[leaf]: y[leaf].min()}
    found = reconcile(base, d.structure, method="wls_var", variance="v", upper=upper)
    bound = {"node": np.full(len(d.S), np.inf)}
    bound["node"][[0, leaf]] = list(upper.values())
    for step in range(steps):
        post = gm.Consistency(d.structure.tree, {"node": s[:, step]})
        np.testing.assert_allclose(
            d.wide(column("wls_var"), found)[:, step], post.project(y[:, step], upper=bound),
            rtol=1e-12, atol=1e-9,
        )  # fmt: skip


def test_a_structure_without_a_total():
    base = pd.DataFrame(
        {"unique_id": ["A", "B", "a", "b", "c"], "ds": 1, "m": [9.0, 5.0, 3.0, 4.0, 5.0]}
    )
    above = {"a": "A", "b": "A", "c": "B"}
    found = reconcile(base, above, method="ols", lower={"a": 5}, upper={"A": 8, "c": 4.0})
    np.testing.assert_allclose(found[column("ols")], [8, 4, 5, 3, 4])


@pytest.mark.parametrize("how", ["normality", "bootstrap", "conformal"])
def test_intervals_and_drawn_paths_are_those_without_bounds(how):
    d = data("strict")
    options = {"method": "ols", "Y_df": d.past, "level": [80], "num_samples": 2}
    free = reconcile(d.base, d.structure, intervals_method=how, **options)
    bound = reconcile(d.base, d.structure, intervals_method=how, upper=1.0, **options)
    assert bound[column("ols")].max() == 1
    for end in ("-lo-80", "-hi-80", "-sample-0", "-sample-1"):
        np.testing.assert_array_equal(bound[column("ols") + end], free[column("ols", "") + end])


def test_given_paths_keep_the_bounds():
    d = data("strict")
    rng = np.random.default_rng(0)
    paths = {f"m-sample-{k}": d.base.m + rng.normal(0, 25, len(d.base)) for k in range(5)}
    found = reconcile(d.base.assign(**paths), d.structure, method="ols", upper=20.0, level=[50],
                      intervals_method="samples")  # fmt: skip
    wide = np.stack([d.wide(f"{column('ols')}-sample-{k}", found) for k in range(5)])
    assert wide.max() == 20
    np.testing.assert_allclose(
        d.wide(f"{column('ols')}-hi-50", found), np.quantile(wide, 0.75, axis=0)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_periods_and_frames_of_all_kinds(kind):
    base = pd.DataFrame({"unique_id": "x", "temporal_id": ["year-1", "half-1", "half-2"],
                         "m": [10.0, 4.0, 3.0]})  # fmt: skip
    found = reconcile(KINDS[kind](base), {"year": 2, "half": 1}, method="ols", temporal=True,
                      upper={"half": 4})  # fmt: skip
    np.testing.assert_allclose(found[column("ols")].to_numpy(), [8, 4, 4])


@pytest.mark.parametrize(
    ("options", "argument", "message"),
    [
        ({"upper": 5, "method": "bottom_up"}, "upper", "must be None for 'bottom_up'"),
        ({"lower": 0, "method": "mint_shrink"}, "lower", "must be None for 'mint_shrink'"),
        ({"upper": 5, "method": "forecast_proportions"}, "upper", "'forecast_proportions'"),
        ({"upper": 5, "nonnegative": True, "clip_base": True}, "clip_base", "'lower' or 'upper'"),
        ({"upper": {"x": 5}}, "upper", "must name series or levels of the structure, not 'x'."),
        ({"upper": [5, 5, 5]}, "upper", "one number, or a dict or Series"),
        ({"upper": {"a": "5"}}, r"upper['a']", "must hold real numbers"),
        ({"upper": {"a": np.nan}}, "upper", "must be above -infinity; series 'a' has nan"),
        ({"lower": np.inf}, "lower", "must be below infinity"),
        ({"lower": {"a": 2}, "upper": {"a": 1}}, "lower", "'a' has the bounds 2 and 1"),
        ({"lower": {"a": 3, "b": 3}, "upper": {"all": 5}}, "upper", "'all' must be between"),
        ({"upper": {"a": 3}, "immutable": ["a"]}, "Y_hat_df", "'a' is known exactly to be 4"),
    ],
)
def test_wrong_bounds(options, argument, message):
    base = pd.DataFrame({"unique_id": ["all", "a", "b"], "ds": 1, "m": [10.0, 4.0, 3.0]})
    with pytest.raises((gm.InputError, gm.InputTypeError)) as caught:
        reconcile(base, TREE, **{"method": "ols", **options})
    assert caught.value.argument == argument
    assert message in str(caught.value)


def test_groups_take_no_bounds():
    d = data("grouped")
    with pytest.raises(gm.InputError, match="must be None unless the structure is a tree"):
        reconcile(d.base, d.structure, method="ols", upper=5)


def test_an_infeasible_step_of_many_names_its_series():
    d = data("strict", steps=12)
    base = d.base.assign(v=np.random.default_rng(0).uniform(1, 5, len(d.base)))
    leaf, labels = d.structure.leaf[0], d.structure.labels
    base.loc[base.unique_id == labels[leaf], "v"] = 0
    top = float(np.sort(d.wide("m")[leaf, 3:])[0])
    base.loc[(base.unique_id == labels[leaf]) & (base.ds <= base.ds.min()), "m"] = top - 1
    with pytest.raises(gm.InputError, match=f"'{labels[leaf]}' is known exactly"):
        reconcile(base, d.structure, method="wls_var", variance="v", upper={labels[leaf]: top})
