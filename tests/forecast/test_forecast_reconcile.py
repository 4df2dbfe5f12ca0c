"""Frames of base forecasts into frames of coherent ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from forecast.panels import KINDS, data, shuffled
from reference import forecasts as dense

import gmtree as gm
from gmtree.forecast import reconcile

Z90 = 1.6448536269514722
METHODS = {"ols": "m/MinTrace_method-ols", "wls_struct": "m/MinTrace_method-wls_struct",
           "wls_var": "m/MinTrace_method-wls_var", "bottom_up": "m/BottomUp"}  # fmt: skip


def weights(d, method):
    residuals = d.wide("y", d.past) - d.wide("m", d.past)
    leaf = np.full(len(d.S), np.inf)
    leaf[d.structure.leaf] = 1
    return {"ols": np.ones(len(d.S)), "wls_struct": d.S.sum(axis=1), "bottom_up": leaf,
            "wls_var": (residuals**2).mean(axis=1) + 2e-8}[method]  # fmt: skip


@pytest.mark.parametrize("spec", ["strict", "grouped", "missing pairs"])
@pytest.mark.parametrize("method", METHODS)
def test_values_and_intervals(spec, method):
    d = data(spec)
    found = reconcile(shuffled(d.base), d.S_df, d.tags, method, shuffled(d.past), level=[95, 80])
    assert found.index.tolist() == shuffled(d.base).index.tolist()
    name, s = METHODS[method], weights(d, method)
    assert list(found)[len(d.base.columns) :] == [
        name, f"{name}-lo-95", f"{name}-lo-80", f"{name}-hi-80", f"{name}-hi-95"
    ]  # fmt: skip
    np.testing.assert_allclose(d.wide(name, found), dense.coherent(d.S, d.wide("m"), s), atol=1e-8)
    sigma = (d.wide("m-hi-90") - d.wide("m-lo-90")) / (2 * Z90)
    deviation = np.sqrt(dense.variance(d.S, s, sigma**2))
    width = d.wide(f"{name}-hi-80", found) - d.wide(f"{name}-lo-80", found)
    np.testing.assert_allclose(width, 2 * 1.2815515655446004 * deviation, rtol=1e-7)


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_frames_of_other_kinds(kind):
    d = data("grouped")
    make = KINDS[kind]
    options = {"method": ["ols", "wls_var"], "level": [90]}
    found = reconcile(make(d.base), d.structure, Y_df=make(d.past), **options)
    assert type(found) is type(make(d.base))
    expected = reconcile(d.base, d.structure, Y_df=d.past, **options)
    for name in expected.columns[5:]:
        np.testing.assert_array_equal(found[name].to_numpy(), expected[name].to_numpy())


def test_nothing_is_changed_and_unused_series_of_the_past_are_not_needed():
    d = data("strict")
    before = d.base.copy(), d.past.copy(), d.S_df.copy()
    reconcile(d.base, d.S_df, d.tags, "wls_var", d.past, nonnegative=True, level=[50])
    for a, b in zip(before, (d.base, d.past, d.S_df), strict=True):
        pd.testing.assert_frame_equal(a, b)


@pytest.mark.parametrize("spec", ["strict", "grouped"])
def test_missing_forecasts(spec):
    d = data(spec)
    base = d.base.copy()
    leaf = d.structure.leaf
    series, step = (
        np.array([0, 1, leaf[0], leaf[3], leaf[7], leaf[9]]),
        np.array([1, 0, 1, 2, 0, 0]),
    )
    lost = 3 * series + step
    base.loc[lost[:3], "m"] = np.nan
    base = base.drop(index=lost[3:])
    found = reconcile(base, d.structure, method="wls_struct", level=[90])
    assert len(found) == len(d.base)
    x, y = d.wide(METHODS["wls_struct"], found), d.wide("m", d.base)
    gone = d.wide("lost", d.base.assign(lost=np.isin(np.arange(len(d.base)), lost).astype(float)))
    sigma = (d.wide("m-hi-90") - d.wide("m-lo-90")) / (2 * Z90)
    for k in range(y.shape[1]):
        s = np.where(gone[:, k] == 1, np.inf, d.S.sum(axis=1))
        np.testing.assert_allclose(x[:, k], dense.coherent(d.S, y[:, k], s), atol=1e-8)
        width = d.wide(METHODS["wls_struct"] + "-hi-90", found)[:, k] - x[:, k]
        variance = dense.variance(d.S, s, sigma[:, k] ** 2)
        np.testing.assert_allclose(width, Z90 * np.sqrt(variance), rtol=1e-6)


def test_added_rows_keep_their_names_in_a_categorical_column():
    d = data("strict")
    lost = d.structure.labels[d.structure.leaf[0]]
    base = d.base[d.base.unique_id != lost].reset_index(drop=True)
    expected = reconcile(base, d.structure, method="ols")
    found = reconcile(base.astype({"unique_id": "category"}), d.structure, method="ols")
    assert isinstance(found.unique_id.dtype, pd.CategoricalDtype)
    assert found.unique_id.tolist() == expected.unique_id.tolist()
    assert (found.unique_id == lost).sum() == 3


@pytest.mark.parametrize("spec", ["strict", "grouped"])
def test_undetermined_series_are_refused_by_name(spec):
    d = data(spec)
    base = d.base.copy()
    pair = d.structure.labels[d.structure.leaf[:2]]
    base.loc[base.unique_id.isin(pair), "m"] = np.nan
    if spec == "strict":
        with pytest.raises(ValueError, match=r"determine every series; series 'T/A/A1/x' has no"):
            reconcile(base, d.structure, method="ols")
    else:
        reconcile(base, d.structure, method="ols")  # purposes tell them apart
    base["m"] = np.nan
    with pytest.raises(ValueError, match=r"'T/A/A1/x' has no value at ds .*2021"):
        reconcile(base, d.structure, method="ols")


@pytest.mark.parametrize("spec", ["strict", "grouped"])
def test_immutable_series_keep_their_forecasts(spec):
    d = data(spec)
    keep = ["T", "T/B"]
    found = reconcile(d.base, d.structure, method="wls_struct", immutable=keep)
    s = d.S.sum(axis=1)
    s[[d.structure.labels.tolist().index(name) for name in keep]] = 0
    x, y = d.wide(METHODS["wls_struct"], found), d.wide("m")
    np.testing.assert_allclose(x, dense.coherent(d.S, y, s), atol=1e-7)
    np.testing.assert_allclose(x[s == 0], y[s == 0], rtol=1e-10)
    with pytest.raises(ValueError, match=r"'immutable' must name series .* not 'Z'"):
        reconcile(d.base, d.structure, immutable=["Z"])
    if spec == "strict":
        with pytest.raises(ValueError, match=r"Argument 'Y_hat_df' must .*series 'T"):
            reconcile(d.base, d.structure, immutable=["T", "T/A", "T/B"])


def test_immutable_levels():
    d = data("strict")
    by_level = reconcile(d.base, d.structure, method="ols", immutable=["c/st"])
    by_name = reconcile(d.base, d.structure, method="ols", immutable=["T/A", "T/B"])
    pd.testing.assert_frame_equal(by_level, by_name)
    part_of, tags = {"a": "all", "b": "all"}, {"a": ["all"], "b": ["a", "b"]}
    S = gm.forecast.Structure(part_of).to_frame()
    base = pd.DataFrame({"unique_id": ["all", "a", "b"], "ds": 1, "m": [10.0, 3.0, -2.0]})
    with pytest.raises(ValueError, match="'immutable' must not name 'a', which is both"):
        reconcile(base, S, tags, immutable=["a"])


@pytest.mark.parametrize("spec", ["strict", "grouped"])
def test_variances_of_each_step(spec):
    d = data(spec)
    base = d.base.assign(v=np.random.default_rng(0).uniform(1, 5, len(d.base)))
    for variance in ("v", "intervals"):
        frame = shuffled(base if variance == "v" else d.base)
        found = reconcile(frame, d.structure, method="wls_var", variance=variance)
        sigma = (d.wide("m-hi-90") - d.wide("m-lo-90")) / (2 * Z90)
        s = d.wide("v", base) if variance == "v" else sigma**2
        for k in range(s.shape[1]):
            expected = dense.coherent(d.S, d.wide("m")[:, k], s[:, k])
            np.testing.assert_allclose(d.wide(METHODS["wls_var"], found)[:, k], expected, atol=1e-8)


def test_variances_by_name_and_by_level():
    d = data("strict")
    by_level = {"c": 9.0, "c/st": 4, "c/st/rg": 2, "c/st/rg/p": 1, "T/A": 3}
    found = reconcile(d.base, d.structure, method="wls_var", variance=by_level)
    s = np.concatenate([[9], [3, 4], [2] * 4, [1] * 12])
    np.testing.assert_allclose(
        d.wide(METHODS["wls_var"], found), dense.coherent(d.S, d.wide("m"), s), atol=1e-10
    )
    with pytest.raises(ValueError, match=r"'variance' must give each series .* 'T/A' has none"):
        reconcile(d.base, d.structure, method="wls_var", variance={"T": 1.0})


def test_series_that_variances_do_not_name_have_those_of_their_residuals():
    d = data("strict")
    new = d.past.unique_id == "T/A"
    past = d.past.assign(m=np.where(new, np.nan, d.past.m))
    options = {"method": "wls_var", "variance": {"T/A": 3.0}}
    found = reconcile(d.base, d.structure, Y_df=past, **options)
    s = weights(d, "wls_var")
    s[d.structure.labels == "T/A"] = 3
    np.testing.assert_allclose(
        d.wide(METHODS["wls_var"], found), dense.coherent(d.S, d.wide("m"), s), atol=1e-10
    )
    past["m"] = np.where(new | (past.unique_id == "T/B"), np.nan, past.m)
    with pytest.raises(ValueError, match=r"'Y_df' must have residuals .* series 'T/B' has 0"):
        reconcile(d.base, d.structure, Y_df=past, **options)


@pytest.mark.parametrize("spec", ["strict", "grouped", "missing pairs"])
def test_forecasts_with_infinite_variance_are_ignored(spec):
    d = data(spec)
    ignored = "c/st"
    v = dict.fromkeys(d.tags, 1.0) | {ignored: np.inf}
    frame = d.base.assign(v=np.where(d.base.unique_id.isin(d.tags[ignored]), np.inf, 1.0))
    missing = d.base.assign(m=d.base.m.where(np.isfinite(frame.v)))
    expected = reconcile(missing, d.structure, method="ols", level=[80])
    for base, variance in ((d.base, v), (frame, "v")):
        found = reconcile(base, d.structure, method="wls_var", variance=variance, level=[80])
        np.testing.assert_allclose(found.iloc[:, -3:], expected.iloc[:, -3:], rtol=1e-9)
    with pytest.raises(ValueError, match=r"'variance.'c'.' must be finite, not -inf"):
        reconcile(d.base, d.structure, method="wls_var", variance={**v, "c": -np.inf})


@pytest.mark.parametrize("nonnegative", [False, True])
def test_sample_paths_in_and_out(nonnegative):
    d = data("grouped")
    rng = np.random.default_rng(0)
    base = d.base.copy()
    for k in range(12):
        base[f"m-sample-{k}"] = base.m + rng.normal(0, 25, len(base))
    found = reconcile(base, d.structure, method="ols", nonnegative=nonnegative, level=[50],
                      intervals_method="samples")  # fmt: skip
    name = METHODS["ols"] + "_nonnegative-optimal" * nonnegative
    wide = np.stack([d.wide(f"{name}-sample-{k}", found) for k in range(12)])
    np.testing.assert_allclose(
        wide, np.einsum("ij,sjt->sit", d.S, wide[:, d.structure.leaf]), atol=1e-8
    )
    assert (wide.min() >= 0) == nonnegative
    np.testing.assert_allclose(d.wide(f"{name}-lo-50", found), np.quantile(wide, 0.25, axis=0))


def test_paths_that_are_drawn():
    d = data("strict")
    found = reconcile(d.base, d.structure, method="ols", num_samples=4, seed=3)
    again = reconcile(d.base, d.structure, method="ols", num_samples=4, seed=3)
    pd.testing.assert_frame_equal(found, again)
    x = d.wide(METHODS["ols"] + "-sample-3", found)
    np.testing.assert_allclose(d.S @ x[d.structure.leaf], x)
    found = reconcile(d.base, d.structure, method="bottom_up", Y_df=d.past, num_samples=2,
                      intervals_method="bootstrap")  # fmt: skip
    x = d.wide("m/BottomUp-sample-1", found)
    np.testing.assert_allclose(d.S @ x[d.structure.leaf], x)


def test_deviations_come_from_residuals_if_there_are_no_bounds():
    d = data("strict")
    base = d.base[["unique_id", "ds", "m"]]
    found = reconcile(base, d.structure, method="wls_var", Y_df=d.past, level=[90])
    s = weights(d, "wls_var")
    width = d.wide(METHODS["wls_var"] + "-hi-90", found) - d.wide(METHODS["wls_var"], found)
    expected = Z90 * np.sqrt(dense.variance(d.S, s, s))
    np.testing.assert_allclose(width, np.repeat(expected[:, None], 3, axis=1), rtol=1e-9)


def test_frames_as_sktime_has_them():
    d = data("strict")
    parts = d.base.unique_id.str.split("/", expand=True)
    index = pd.MultiIndex.from_arrays(
        [*(parts[k].fillna("__total") for k in range(1, 4)), d.base.ds],
        names=["st", "rg", "p", "ds"],
    )
    frame = d.base[["m"]].set_index(index)
    found = reconcile(shuffled(frame), method="wls_struct")
    expected = reconcile(d.base, d.structure, method="wls_struct")[METHODS["wls_struct"]]
    name = METHODS["wls_struct"]
    np.testing.assert_allclose(found.loc[frame.index, name], expected, atol=1e-10)
    # Totals of one level only are groups.
    d = data("grouped")
    rows = []
    for label in d.base.unique_id:
        names = label.split("/")[1:]
        row = {"st": "__total", "rg": "__total", "p": "__total"}
        for part in names:
            row["p" if part in "xyz" else "st" if len(part) == 1 else "rg"] = part
        rows.append(row)
    index = pd.MultiIndex.from_frame(pd.DataFrame(rows).assign(ds=d.base.ds.to_numpy()))
    found = reconcile(d.base[["m"]].set_index(index), method="wls_struct")
    expected = reconcile(d.base, d.structure, method="wls_struct")[name]
    np.testing.assert_allclose(found[name], expected, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda b: b.rename(columns={"ds": "month"}), {},
         "'Y_hat_df' must have a column 'ds' .pass time_col if .*; it has unique_id, month"),
        (lambda b: b.rename(columns={"unique_id": "shop"}), {},
         "'Y_hat_df' must have a column 'unique_id' .pass id_col if .*; it has shop"),
        (lambda b: b, {"temporal": True},
         "'Y_hat_df' must have a column 'temporal_id' .pass id_time_col if"),
        (lambda b: b[["unique_id", "ds"]], {}, "'Y_hat_df' must have a column of base forecasts"),
        (lambda b: pd.concat([b, b[3:4]]), {},
         r"rows 3 and 57 are both series 'T/A' at ds 20..-..-..\. "),
        (lambda b: b.assign(unique_id=["Q", *b.unique_id[1:]]), {}, "row 0 has 'Q'"),
        (lambda b: b.assign(m="x"), {}, "must have the base forecasts of .* in a column of"),
        (lambda b: b.assign(m=pd.Series(["x", *b.m[1:]], dtype=object)), {}, "'m' must hold real"),
        (lambda b: b.assign(unique_id=["Q", *b.unique_id[1:]]), {},
         "'Y_hat_df' must name series of the structure in its column 'unique_id'; row 0 has 'Q'"),
        (lambda b: b.assign(unique_id=[None, *b.unique_id[1:]]), {},
         "'Y_hat_df' must have no missing names in its column 'unique_id'; row 0"),
        (lambda b: b, {"method": "best"}, "'method' must be one of .*'bottom_up'"),
        (lambda b: b, {"variance": {"T": 1.0}}, "'variance' must be None unless a method is"),
        (lambda b: b, {"temporal": {"year": 4}}, "'temporal' must be True .* temporal_structure"),
        (lambda b: b, {"intervals_method": "bootstrap", "level": [80]},
         "'Y_df' must hold values and fitted values .* intervals_method='bootstrap'"),
        (lambda b: b.assign(m=[np.inf, *b.m[1:]]), {}, r"'m' must be finite; series 'T' at ds"),
        (lambda b: b, {"method": "best"}, "'method' must be one of"),
        (lambda b: b, {"method": []}, "'method' must be the name"),
        (lambda b: b, {"level": [101]}, "'level' must hold percentages"),
        (lambda b: b[["unique_id", "ds", "m"]], {"level": [80]}, "columns such as m-lo-90"),
        (lambda b: b, {"method": "wls_var"}, "'Y_df' must hold values"),
        (lambda b: b, {"intervals_method": "permbu"}, "'intervals_method' must be"),
        (lambda b: b, {"intervals_method": "samples", "level": [80]}, "must have sample paths"),
        (lambda b: b, {"clip_base": True}, "'clip_base' must be False"),
        (lambda b: b, {"variance": 3, "method": "wls_var"}, "'variance' must be a dict"),
        (lambda b: b.to_numpy(), {}, "'Y_hat_df' must be a pandas or"),
        (lambda b: b.assign(**{"m-lo-90": np.nan}), {"level": [80]}, "must have bounds for each"),
        (lambda b: b[:0], {}, "'Y_hat_df' must have rows"),
    ],
)  # fmt: skip
def test_wrong_arguments(change, options, message):
    d = data("strict")
    with pytest.raises((TypeError, ValueError), match=message):
        reconcile(change(d.base), d.structure, **{"method": "ols", **options})


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("side", ["m2-lo-90", "m2-hi-90", "m2-sample-0"])
def test_bounds_and_paths_need_numbers_beside_them(kind, side):
    d = data("strict")
    make = KINDS[kind]
    base = d.base.assign(m2=d.base.m, **{side: d.base.m})
    rule = f"'Y_hat_df' must have the base forecasts of '{side}' in a column of numbers; "
    with pytest.raises(ValueError, match=rule + r"column 'm2' holds none. .*\.astype\(float\)"):
        reconcile(make(base.assign(m2=base.m2.astype(str))), d.structure, method="ols")
    with pytest.raises(ValueError, match=rule + "there is no column 'm2'. Add it, or drop"):
        reconcile(make(base.drop(columns="m2")), d.structure, method="ols")
    assert "m2/BottomUp" in reconcile(base, d.structure, method="bottom_up")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_codes_as_texts_and_as_numbers(kind):
    make = KINDS[kind]
    numbers = pd.DataFrame({"unique_id": [100, 101, 102], "ds": 1, "m": [3.0, 1.0, 1.0]})
    texts = numbers.assign(unique_id=numbers.unique_id.astype(str))
    by_number, by_text = {101: 100, 102: 100}, {"101": "100", "102": "100"}
    for base, part_of, row, kinds in [
        (numbers, by_text, "100", "structure are texts, those of the column numbers"),
        (texts, by_number, "'100'", "structure are numbers, those of the column texts"),
    ]:
        with pytest.raises(ValueError, match=f"row 0 has {row}. The labels of the {kinds}"):
            reconcile(make(base), part_of, method="ols")
    assert reconcile(make(numbers), by_number, method="ols").shape == (3, 4)
    assert reconcile(make(texts), by_text, method="ols").shape == (3, 4)


def test_wrong_pasts():
    d = data("strict")
    for name, option in [("unique_id", "id_col"), ("ds", "time_col"), ("y", "target_col")]:
        message = f"'Y_df' must have a column '{name}' .pass {option} if"
        with pytest.raises(ValueError, match=message):
            reconcile(d.base, d.structure, method="wls_var", Y_df=d.past.drop(columns=name))
    other = d.past.assign(unique_id=["Q", *d.past.unique_id[1:]])
    with pytest.raises(ValueError, match=r"'Y_df' must name series .* column 'unique_id'; row 0"):
        reconcile(d.base, d.structure, method="wls_var", Y_df=other)
    past = d.past.assign(m=np.where(d.past.unique_id == "T/A", np.nan, d.past.m))
    with pytest.raises(ValueError, match=r"'Y_df' must have residuals .* series 'T/A' has 0"):
        reconcile(d.base, d.structure, method="wls_var", Y_df=past)
    with pytest.raises(ValueError, match=r"'Y_df' must have a column 'm' .*, because each"):
        reconcile(d.base, d.structure, method="wls_var", Y_df=d.past.drop(columns="m"))
    with pytest.raises(
        ValueError, match=r"at least 4 periods .*, not .; series 'T' has the fewest"
    ):
        reconcile(d.base, d.structure, method="ols", Y_df=d.past[d.past.ds < "2020-03"], level=[80],
                  intervals_method="bootstrap")  # fmt: skip


def test_several_models_in_one_call():
    d = data("strict")
    base = d.base.assign(other=d.base.m * 2)
    found = reconcile(base, d.structure, method=["ols", "bottom_up"])
    assert list(found)[-4:] == [
        "m/MinTrace_method-ols", "other/MinTrace_method-ols", "m/BottomUp", "other/BottomUp"
    ]  # fmt: skip
    np.testing.assert_allclose(found.iloc[:, -3], 2 * found.iloc[:, -4])
    assert gm.forecast.reconcile is reconcile


@pytest.mark.parametrize("order", [lambda b: b, shuffled])
def test_swapped_bounds_are_refused_by_column_and_row(order):
    d = data("strict")
    base = order(d.base)
    low, high = (base.columns.get_loc(f"m-{side}-90") for side in ("lo", "hi"))
    base.iloc[[5, 9], [low, high]] = base.iloc[[5, 9], [high, low]].to_numpy()
    where = f"it is in row 5 .series '{base.unique_id.iloc[5]}' at"
    message = f"'m-lo-90' must not be above 'm-hi-90'; {where}"
    for options in ({"level": [80]}, {"method": "wls_var", "variance": "intervals"}):
        with pytest.raises(ValueError, match=message):
            reconcile(base, d.structure, **options)


def test_sums_of_leaves_that_are_not_negative():
    d = data("strict")
    base = d.base.assign(m=d.base.m - 20)
    base["m-lo-90"], base["m-hi-90"] = base.m - 5, base.m + 5
    found = reconcile(base, d.structure, method=["ols", "bottom_up"], nonnegative=True, level=[90],
                      num_samples=2)  # fmt: skip
    leaves = np.maximum(d.wide("m", base)[d.structure.leaf], 0)
    assert (leaves == 0).any()
    np.testing.assert_allclose(d.wide("m/BottomUp_nonnegative-optimal", found), d.S @ leaves)
    assert found[[name for name in found if "BottomUp" in name]].to_numpy().min() == 0
    plain = reconcile(base, d.structure, method="bottom_up")
    assert plain["m/BottomUp"].min() < 0


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_columns_without_numbers_are_not_models(kind):
    d = data("strict")
    extra = {"cutoff": pd.Timestamp("2021-01-01"), "note": "x", "is_new": True, "empty": None}
    base = d.base.assign(**extra)
    if kind == "pandas":
        base = base.assign(z=1j, c=pd.Categorical(["u"] * len(base)), p=pd.Period("2021-01"),
                           s=pd.Series("x", base.index, dtype="string"),
                           o=pd.Series(True, base.index, dtype=object))  # fmt: skip
    make = KINDS[kind]
    found = reconcile(make(base), d.structure, method="ols")
    names = list(found.columns) if kind != "pyarrow" else found.column_names
    assert names == [*base.columns, "m/MinTrace_method-ols"]
    with pytest.raises(ValueError, match="must have the base forecasts of 'm-lo-90' in a column"):
        reconcile(make(base.drop(columns="m")), d.structure, method="ols")


def test_numbers_of_any_type_are_models():
    d = data("strict")
    base = d.base.assign(i=1, f=np.float32(1), n=pd.array([1.0] * len(d.base), "Float64"),
                         o=pd.Series(d.base.m, dtype=object))  # fmt: skip
    found = reconcile(base, d.structure, method="bottom_up")
    assert [name for name in found if "/" in name] == [f"{name}/BottomUp" for name in "mifno"]


@pytest.mark.parametrize(("name", "option"), [("ds", "time_col"), ("y", "target_cols")])
def test_sums_of_a_frame_without_a_column(name, option):
    d = data("strict")
    message = f"'df' must have a column '{name}' .pass {option} if"
    with pytest.raises(ValueError, match=message):
        gm.forecast.aggregate(d.bottom.drop(columns=name), d.spec)


@pytest.mark.parametrize("wrong", [True, "x", 1j, pd.Timestamp("2021-01-01")])
def test_only_numbers_are_summed_up(wrong):
    d = data("strict")
    with pytest.raises(TypeError, match="Argument 'v' must hold real numbers to be summed"):
        gm.forecast.aggregate(d.bottom.assign(v=wrong), d.spec, target_cols=["y", "v"])


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("numbered", [False, True])
def test_windows_of_a_cross_validation(kind, numbered):
    d = data("grouped", steps=4)
    times = d.base.ds.drop_duplicates().tolist()
    windows = []
    for cut in (0, 1):
        here = d.base[d.base.ds.isin(times[cut : cut + 3])].assign(cutoff=times[cut])
        here["m"] += 5 * cut * np.random.default_rng(0).normal(size=len(here))
        windows.append(here)
    both = shuffled(pd.concat(windows)).reset_index(drop=True).reset_index()
    if numbered:
        number = {t: k for k, t in enumerate(times)}
        both = both.assign(ds=both.ds.map(number), cutoff=both.cutoff.map(number))
        d = d._replace(past=d.past.assign(ds=d.past.ds.map(lambda t: (t - times[0]).days)))
        windows = [w.assign(ds=w.ds.map(number), cutoff=w.cutoff.map(number)) for w in windows]
    for options in ({"level": [80]}, {"level": [80], "intervals_method": "bootstrap"}):
        options |= {"method": "wls_var", "Y_df": d.past}
        found = reconcile(KINDS[kind](both), d.structure, **options)
        found = found.to_pandas() if kind != "pandas" else found
        assert [name for name in found if "/" in name and "-lo-" not in name] == [
            "m/MinTrace_method-wls_var", "m/MinTrace_method-wls_var-hi-80"
        ]  # fmt: skip
        for window in windows:
            alone = reconcile(window, d.structure, **options)
            here = alone.merge(found, on=["unique_id", "ds", "cutoff"], how="left")
            for name in ("", "-lo-80", "-hi-80"):
                name = METHODS["wls_var"] + name
                np.testing.assert_allclose(here[f"{name}_x"], here[f"{name}_y"], atol=1e-9)
    lost = both[(both.unique_id != "T/A") | (both["index"] % 2 == 0)]
    found = reconcile(KINDS[kind](lost), d.structure, method="ols")
    found = found.to_pandas() if kind != "pandas" else found
    assert len(found) == len(both)
    assert not found.duplicated(["unique_id", "ds", "cutoff"]).any()
    assert found[["ds", "cutoff", METHODS["ols"]]].notna().all(axis=None)
    with pytest.raises(ValueError, match=r"are both series .* need a column 'cutoff'"):
        reconcile(KINDS[kind](both.drop(columns="cutoff")), d.structure)
    pasts = pd.concat([d.past.assign(cutoff=cut) for cut in (0, 1)])
    with pytest.raises(ValueError, match=r"'Y_df' must have each .* windows .* share one past"):
        reconcile(KINDS[kind](both), d.structure, method="wls_var", Y_df=KINDS[kind](pasts))


def test_cutoffs_that_are_ends_of_series_are_not_windows():
    d = data("strict")
    base = d.base.assign(cutoff=np.where(d.base.unique_id == "T", 1, 2))
    found = reconcile(base, d.structure, method="ols")
    expected = reconcile(d.base, d.structure, method="ols")
    pd.testing.assert_frame_equal(found.drop(columns="cutoff"), expected)
    none = reconcile(base.assign(cutoff=np.nan), d.structure, method="ols")
    pd.testing.assert_frame_equal(none.drop(columns="cutoff"), expected)


def test_no_bootstrap_with_a_variance_for_each_step():
    d = data("strict")
    with pytest.raises(ValueError, match="must not be 'bootstrap' with a variance for each step"):
        reconcile(d.base, d.structure, method="wls_var", Y_df=d.past, variance="intervals",
                  intervals_method="bootstrap", level=[80])  # fmt: skip


@pytest.mark.parametrize(
    "dtype", ["int32", "uint8", "Int64", "datetime64[s]", "datetime64[ns, UTC]"]
)
def test_times_of_any_type(dtype):
    leaves = [f"leaf {k}" for k in range(4)]
    times = pd.Series([1, 2, 4]).astype("datetime64[ns]" if "ns" in dtype else "int64")
    times = times.dt.tz_localize("UTC") if "UTC" in dtype else times.astype(dtype)
    base = pd.DataFrame({
        "unique_id": np.repeat(["all", *leaves], 3),
        "ds": pd.concat([times] * 5, ignore_index=True),
        "m": np.arange(3.0 * 5),
    })  # fmt: skip
    part_of = dict.fromkeys(leaves, "all")
    name = "m/MinTrace_method-ols"
    found = reconcile(base, part_of, method="ols")
    shuffled = reconcile(base.sample(frac=1, random_state=0), part_of, method="ols")
    np.testing.assert_array_equal(found[name], shuffled[name].sort_index())
