"""Forecasts that are coherent in time, or in series and time, compared with dense algebra."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from forecast.panels import KINDS, data
from reference import forecasts as dense

import gmtree as gm
from gmtree.forecast import reconcile, reconcile_cross_temporal, temporal_structure

SPEC = {"year": 12, "quarter": 3, "month": 1}
MINT = "m/MinTrace_method-"


def periods_frame(series, seed=0, spec=SPEC, count=12):
    """A row for each series and period."""
    te = temporal_structure(spec, count)
    rng = np.random.default_rng(seed)
    rows = [(i, t) for i in series for t in te.labels]
    frame = pd.DataFrame(rows, columns=["unique_id", "temporal_id"])
    frame["ds"] = np.tile(np.arange(te.n), len(series))
    frame["m"] = rng.normal(50, 10, len(frame))
    return te, frame


def past_frame(series, seed=5, spec=SPEC, count=36):
    _, past = periods_frame(series, seed, spec, count)
    past["y"] = past.m + np.random.default_rng(seed).normal(0, 2, len(past)) * np.where(
        past.temporal_id.str.startswith("year"), 5, 1
    )
    return past


def mean_squares(past, series, names):
    """By series and frequency."""
    past = past.assign(f=past.temporal_id.str.rpartition("-")[0], r=(past.y - past.m) ** 2)
    return past.groupby(["unique_id", "f"]).r.mean().unstack().loc[list(series), list(names)]


def test_structure_of_periods():
    te = temporal_structure(SPEC, 12)
    assert te.tree is not None
    assert te.size.tolist() == [12] + [3] * 4 + [1] * 12
    assert list(te.levels) == ["year", "quarter", "month"]
    part = temporal_structure({"quarter": 3, "month": 1}, 4)
    assert part.size.tolist() == [3, 1, 1, 1, 1, 1]
    # Periods that do not nest are crossed.
    crossed = temporal_structure({"six": 6, "three": 3, "two": 2, "one": 1}, 6)
    assert crossed.tree is None
    for spec, message in [({}, "'spec'"), ({"a": 2}, "the shortest"), ({"a": 0}, "'spec"),
                          ({"a": 1, "b": 1}, "different")]:  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=message):
            temporal_structure(spec, 4)


def test_periods_of_single_series_have_their_values():
    utils = pytest.importorskip("hierarchicalforecast.utils")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = pytest.importorskip("hierarchicalforecast.core")
        methods = pytest.importorskip("hierarchicalforecast.methods")
    months = pd.DataFrame(
        {
            "unique_id": np.repeat(["a", "b"], 12),
            "ds": np.tile(pd.date_range("2024-01-01", periods=12, freq="MS"), 2),
        }
    )
    months["m"] = np.random.default_rng(0).normal(50, 10, 24)
    Y, S, tags = utils.aggregate_temporal(months, SPEC, target_cols=["m"])
    Y["m"] += np.random.default_rng(1).normal(0, 3, len(Y))
    for method in ("ols", "wls_struct"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = core.HierarchicalReconciliation([methods.MinTrace(method)]).reconcile(
                Y, tags=tags, S_df=S, temporal=True
            )
        ours = reconcile(Y.sample(frac=1, random_state=0), S, tags, method, temporal=True)
        keys = ["unique_id", "temporal_id"]
        both = theirs.merge(ours, on=keys)
        np.testing.assert_allclose(both[f"{MINT}{method}_x"], both[f"{MINT}{method}_y"], atol=1e-9)
        own = reconcile(Y, temporal_structure(SPEC, 12), method=method, temporal=True)
        both = theirs.merge(own, on=keys)
        np.testing.assert_allclose(both[f"{MINT}{method}_x"], both[f"{MINT}{method}_y"], atol=1e-9)


@pytest.mark.parametrize("count", [2, 15])
def test_time_alone_with_variances_by_frequency_of_each_series(count):
    series = [f"s{k}" for k in range(count)]
    te, frame = periods_frame(series)
    past = past_frame(series)
    frame["m-lo-90"], frame["m-hi-90"] = frame.m - 3, frame.m + 4
    found = reconcile(frame, te, method="wls_var", Y_df=past, temporal=True, level=[90])
    v = mean_squares(past, series, SPEC).to_numpy() + 2e-8
    S = te.matrix.toarray()
    of = np.repeat([0, 1, 2], [1, 4, 12])
    for k, name in enumerate(series):
        here = found[found.unique_id == name]
        expected = dense.coherent(S, here.m.to_numpy(), v[k][of])
        np.testing.assert_allclose(here[f"{MINT}wls_var"], expected, atol=1e-6)
        sigma2 = np.full(len(S), (7 / 2 / 1.6448536269514722) ** 2)
        width = here[f"{MINT}wls_var-hi-90"] - here[f"{MINT}wls_var"]
        deviation = np.sqrt(dense.variance(S, v[k][of], sigma2))
        np.testing.assert_allclose(width, 1.6448536269514722 * deviation, rtol=1e-5)


@pytest.mark.parametrize("spec", ["strict", "grouped"])
@pytest.mark.parametrize("method", ["ols", "struc", "wlsv", "bu"])
def test_cross_temporal(spec, method):
    d = data(spec)
    series = d.structure.labels
    te, frame = periods_frame(series, spec={"year": 4, "quarter": 1}, count=4)
    past = past_frame(series, spec={"year": 4, "quarter": 1}, count=24)
    found = reconcile_cross_temporal(
        frame.sample(frac=1, random_state=0), d.structure, temporal={"year": 4, "quarter": 1},
        method=method, Y_df=past,
    ).sort_index()  # fmt: skip
    S = np.kron(d.S, te.matrix.toarray())
    of = np.repeat([0, 1], [1, 4])
    v = mean_squares(past, series, ["year", "quarter"]).to_numpy() + 2e-8
    bottom = np.full(len(S), np.inf)
    bottom[S.sum(axis=1) == 1] = 1
    s = {"ols": np.ones(len(S)), "struc": S.sum(axis=1), "wlsv": v[:, of].ravel(), "bu": bottom}
    name = {"ols": "MinTrace_method-ols", "struc": "MinTrace_method-wls_struct",
            "wlsv": "MinTrace_method-wls_var", "bu": "BottomUp"}[method]  # fmt: skip
    expected = dense.coherent(S, frame.m.to_numpy(), s[method])
    np.testing.assert_allclose(found[f"m/{name}"], expected, atol=1e-6)


def test_cross_temporal_by_name_with_intervals_missing_values_and_bounds():
    d = data("strict")
    te, frame = periods_frame(d.structure.labels, spec={"year": 2, "half": 1}, count=2)
    frame["m-lo-80"], frame["m-hi-80"] = frame.m - 4, frame.m + 4
    v = {"year": 4.0, "half": 1.0}
    frame = frame.drop(index=[3, 8])
    found = reconcile_cross_temporal(
        frame, d.structure, temporal=te, method="wls_var", variance=v, level=[80]
    )
    assert len(found) == d.structure.n * te.n
    S = np.kron(d.S, te.matrix.toarray())
    s = np.tile([4.0, 1, 1], d.structure.n)
    s[[3, 8]] = np.inf
    _, whole = periods_frame(d.structure.labels, spec={"year": 2, "half": 1}, count=2)
    expected = dense.coherent(S, whole.m.to_numpy(), s)
    order = whole.reset_index().merge(found, on=["unique_id", "temporal_id"])
    x = order.sort_values("index")[f"{MINT}wls_var"]
    np.testing.assert_allclose(x, expected, atol=1e-7)
    low = reconcile_cross_temporal(
        frame.assign(m=frame.m - 48), d.structure, temporal=te, method="ols", nonnegative=True
    )
    assert low[f"{MINT}ols_nonnegative-optimal"].min() == 0


@pytest.mark.parametrize("spec", ["strict", "missing pairs"])
def test_frequencies_with_infinite_variance_are_ignored(spec):
    d = data(spec)
    _, frame = periods_frame(d.structure.labels, spec={"year": 2, "half": 1}, count=4)
    options = {"temporal": {"year": 2, "half": 1}, "method": "wls_var"}
    v = {"year": np.inf, "half": 1.0}
    found = reconcile_cross_temporal(frame, d.structure, variance=v, **options)
    halves = frame[frame.temporal_id.str.startswith("half")]
    expected = reconcile_cross_temporal(
        halves, d.structure, variance={"year": 1.0, "half": 1.0}, **options
    )
    both = found.merge(expected, on=["unique_id", "temporal_id"])
    assert len(both) == len(frame)
    np.testing.assert_allclose(both[f"{MINT}wls_var_x"], both[f"{MINT}wls_var_y"], rtol=1e-9)


def test_calendars_as_trees():
    tree = gm.shapes.calendar("2024-01-01", "2025-01-01")
    d = data("strict")
    rows = [(i, t) for i in d.structure.labels for t in tree.labels]
    frame = pd.DataFrame(rows, columns=["unique_id", "temporal_id"])
    frame["m"] = np.random.default_rng(0).normal(10, 3, len(frame))
    found = reconcile_cross_temporal(frame, d.structure, temporal=tree, method="struc")
    x = found[f"{MINT}wls_struct"].to_numpy().reshape(d.structure.n, tree.n)
    assert gm.consistency_bias(tree, x.T) < 1e-10
    np.testing.assert_allclose(d.S @ x[d.structure.leaf], x, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temporal": None}, "'temporal' must describe"),
        ({"temporal": {"week": 4, "day": 1}}, "must have periods named 'day-1'"),
        (
            {"variance": {"year": 1.0}, "method": "wlsv"},
            "'variance' must give each .* series 'T' in period 'half-1' has none",
        ),
        ({"variance": {"week": 1.0}, "method": "wlsv"}, "'variance' must name .* not 'week'"),
        ({"method": "shr"}, "'method' must be one of"),
        ({"method": "wlsv"}, "'Y_df' must hold values"),
        (
            {"variance": {"year": 1.0, "half": np.inf}, "method": "wlsv"},
            "series 'T' in period 'half-1' has no value, and none follows",
        ),
    ],
)
def test_wrong_arguments(options, message):
    d = data("strict")
    _, frame = periods_frame(d.structure.labels, spec={"year": 2, "half": 1}, count=2)
    with pytest.raises((TypeError, ValueError), match=message):
        reconcile_cross_temporal(
            frame, d.structure, **{"temporal": {"year": 2, "half": 1}, **options}
        )


@pytest.mark.parametrize("lost", ["quarter-3", "quarter-4"])
def test_periods_that_no_series_has_follow_from_the_others(lost):
    names = ["year-1", "quarter-1", "quarter-2", "quarter-3", "quarter-4"]
    frame = pd.DataFrame(
        [(i, t, k * y) for i, k in (("all", 2), ("a", 1), ("b", 1))
         for t, y in zip(names, (80.0, 20, 20, 20, 20), strict=True)],
        columns=["unique_id", "temporal_id", "m"],
    )  # fmt: skip
    found = reconcile_cross_temporal(
        frame[frame.temporal_id != lost], {"a": "all", "b": "all"},
        temporal={"year": 4, "quarter": 1}, method="ols",
    )  # fmt: skip
    assert len(found) == 15
    both = frame.merge(found, on=["unique_id", "temporal_id"])
    np.testing.assert_allclose(both[f"{MINT}ols"], both["m_x"])


def test_the_largest_number_of_any_frequency_decides_how_many_periods_there_are():
    _, frame = periods_frame(["all", "a", "b"], spec={"year": 4, "quarter": 1}, count=8)
    options = {"S_df": {"a": "all", "b": "all"}, "temporal": {"year": 4, "quarter": 1}}
    part = frame[~frame.temporal_id.isin(["quarter-2", "quarter-8"])]
    found = reconcile_cross_temporal(part, **options)
    nan = frame.assign(m=frame.m.where(frame.index.isin(part.index)))
    expected = reconcile_cross_temporal(nan, **options)
    both = found.merge(expected, on=["unique_id", "temporal_id"])
    assert len(both) == 30
    np.testing.assert_allclose(both[f"{MINT}wls_struct_x"], both[f"{MINT}wls_struct_y"])
    # The last two quarters of the second year are unknown, unless the structure ends before.
    short = frame[~frame.temporal_id.isin(["quarter-7", "quarter-8"])]
    message = "last one is 'quarter-8', but the last .* is 'quarter-6'. .*temporal_structure"
    for part in (short, short[short.temporal_id != "year-2"]):
        with pytest.raises(ValueError, match=message):
            reconcile_cross_temporal(part, **options)
    options["temporal"] = temporal_structure({"year": 4, "quarter": 1}, 6)
    assert len(reconcile_cross_temporal(short, **options)) == 24


def test_frequencies_in_place_of_their_structure():
    te, frame = periods_frame(["a", "b"])
    found = reconcile(frame, SPEC, temporal=True)
    pd.testing.assert_frame_equal(found, reconcile(frame, te, temporal=True))
    part = reconcile(frame[frame.temporal_id != "month-12"], SPEC, temporal=True)
    assert len(part) == len(frame)
    with pytest.raises(
        ValueError, match="'intervals_method' must not be 'bootstrap' with temporal"
    ):
        reconcile(frame, SPEC, temporal=True, Y_df=past_frame(["a", "b"]), level=[80],
                  intervals_method="bootstrap")  # fmt: skip
    with pytest.raises(ValueError, match="'variance' must be None unless a method is 'wls_var'"):
        reconcile_cross_temporal(frame, {"a": "b"}, temporal=SPEC, variance={"year": 1.0})
    wrong = frame.assign(temporal_id=["week-1", *frame.temporal_id[1:]])
    with pytest.raises(ValueError, match=r"'Y_hat_df' must name periods .* 'temporal_id'; row 0"):
        reconcile_cross_temporal(wrong, {"a": "b"}, temporal=SPEC)


@pytest.mark.parametrize("years", [1, 3])
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"year": 1, "quarter": 4, "month": 12},
         "must give the number of 'year' in each period.* the last .* is 'year-{0}'"),
        ({"year": 1, "quarter": 5, "month": 12}, "must have numbers .* divide .*'quarter' has 5"),
        ({"year": 12, "quarter": 4, "month": 1},
         "must give the number of 'month' in each .* one is 'month-{2}', .* 'month-{1}'"),
        ({"year": 4, "quarter": 3, "month": 1},
         "must have numbers .* divide the largest, 4 of 'year'; 'quarter' has 3"),
    ],
)  # fmt: skip
def test_wrong_dicts_of_frequencies_are_named(spec, message, years):
    _, frame = periods_frame(["all", "a", "b"], count=12 * years)
    message = message.format(years, 12 * years, 24 * ((years + 1) // 2))
    with pytest.raises(ValueError, match=f"Argument 'temporal' {message}"):
        reconcile_cross_temporal(frame, {"a": "all", "b": "all"}, temporal=spec)
    with pytest.raises(ValueError, match=f"Argument 'S_df' {message}"):
        reconcile(frame, spec, temporal=True)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_the_option_for_periods_is_named_if_it_was_left_out(kind):
    te, frame = periods_frame(["a", "b"])
    make = KINDS[kind]
    with pytest.raises(ValueError, match=r"'temporal' must be True if 'S_df' is a dict of freq"):
        reconcile(make(frame), SPEC)
    with pytest.raises(ValueError, match=r"'Y_hat_df' must name series of the structure"):
        reconcile(make(frame), te)
    # Series that are coherent in each period raise no warning, whatever the periods are called.
    _, frame = periods_frame(["all", "a", "b"])
    part_of = {"a": "all", "b": "all"}
    found = reconcile(make(frame), part_of, time_col="temporal_id")
    assert len(found) == len(frame)


@pytest.mark.parametrize("function", [reconcile, reconcile_cross_temporal])
def test_columns_that_are_missing_are_named_with_their_option(function):
    _, frame = periods_frame(["all", "a", "b"])
    past = past_frame(["all", "a", "b"])
    options = {"S_df": {"a": "all", "b": "all"}, "temporal": SPEC, "method": "wls_var"}
    if function is reconcile:
        options |= {"S_df": SPEC, "temporal": True}
    for name, option in [("unique_id", "id_col"), ("temporal_id", "id_time_col")]:
        message = f"must have a column '{name}' .pass {option} if"
        with pytest.raises(ValueError, match=f"'Y_hat_df' {message}"):
            function(frame.drop(columns=name), **options)
        with pytest.raises(ValueError, match=f"'Y_df' {message}"):
            function(frame, Y_df=past.drop(columns=name), **options)
    with pytest.raises(ValueError, match=r"'Y_df' must have a column 'y' .pass target_col if"):
        function(frame, Y_df=past.drop(columns="y"), **options)
