"""Base forecasts checked against each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from forecast.panels import KINDS, data, shuffled

import gmtree as gm


def spoiled(d, series, step=1):
    """Base forecasts of which one is ten times too large; the row of that forecast."""
    base = d.base.copy()
    row = base.index[(base.unique_id == series) & (base.ds == sorted(set(base.ds))[step])][0]
    base.loc[row, "m"] *= 10
    return base, row


def without(d, s, y, k):
    """Estimate a series, and its variance, from the forecasts of all others."""
    keep = np.isfinite(s) & (np.arange(y.size) != k)
    weighted = d.S[keep] / np.sqrt(s[keep])[:, None]
    if np.linalg.matrix_rank(weighted) < d.S.shape[1]:
        return np.nan, np.inf
    inverse = np.linalg.inv(weighted.T @ weighted)
    leaves = inverse @ weighted.T @ (y[keep] / np.sqrt(s[keep]))
    return d.S[k] @ leaves, d.S[k] @ inverse @ d.S[k]


@pytest.mark.parametrize("spec", ["strict", "grouped", "some levels only", "missing pairs"])
def test_leave_one_out_is_solving_without_the_forecast(spec):
    d = data(spec)
    base = d.base.assign(v=np.random.default_rng(2).uniform(1, 9, len(d.base)))
    base.loc[[4, 20], "m"] = np.nan
    found = gm.forecast.diagnose(shuffled(base), d.structure, variance="v")
    assert len(found) == len(base)
    y, s = d.wide("m", base), d.wide("v", base).copy()
    s[np.isnan(y)] = np.inf
    x = d.wide("reconciled", found)
    reconciled = gm.forecast.reconcile(base, d.structure, method="wls_var", variance="v")
    np.testing.assert_allclose(x, d.wide(reconciled.columns[-1], reconciled), rtol=1e-9)
    np.testing.assert_allclose(d.wide("residual", found), y - x, atol=1e-8)
    estimate, error = d.wide("leave_one_out", found), d.wide("leave_one_out_std_error", found)
    z, leverage = d.wide("standardized", found), d.wide("leverage", found)
    for step in range(y.shape[1]):
        for k in range(d.structure.n):
            m, v = without(d, s[:, step], y[:, step], k)
            assert estimate[k, step] == pytest.approx(m, rel=1e-8, abs=1e-8, nan_ok=True)
            assert error[k, step] == pytest.approx(np.sqrt(v), rel=1e-8)
            if np.isnan(y[k, step] + m):
                assert np.isnan(z[k, step])
                assert leverage[k, step] == pytest.approx(float(np.isnan(m)))
            else:
                expected = (y[k, step] - m) / np.sqrt(s[k, step] + v)
                assert z[k, step] == pytest.approx(expected, rel=1e-7)
                assert leverage[k, step] == pytest.approx(v / (s[k, step] + v), rel=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("spec", "series"), [("strict", "T/A"), ("grouped", "T/A/A1/z")])
def test_a_wrong_forecast_comes_first(kind, spec, series):
    d = data(spec)
    base, row = spoiled(d, series)
    past = KINDS[kind](d.past.assign(other=d.past.m))
    found = gm.forecast.diagnose(
        KINDS[kind](base.assign(other=d.base.m)), d.structure, Y_df=past, threads=1
    )
    found = pd.DataFrame(found.to_pydict()) if kind == "pyarrow" else found
    found = found.to_pandas() if kind == "polars" else found
    assert found.columns.tolist()[:5] == ["unique_id", "ds", "model", "measured", "reconciled"]
    assert found.model.value_counts().to_dict() == {"m": len(base), "other": len(base)}
    first = found.iloc[0]
    assert (first.unique_id, first.ds, first.model) == (series, base.ds[row], "m")
    assert first.measured == base.m[row]
    assert abs(first.leave_one_out - d.base.m[row]) < 4 * first.leave_one_out_std_error


def test_windows_periods_and_several_tops():
    d = data("grouped")
    base, _ = spoiled(d, "T/B")
    windows = pd.concat([d.base.assign(cutoff=1), base.assign(cutoff=2)])
    found = gm.forecast.diagnose(windows, d.structure, Y_df=d.past)
    first = found.iloc[0]
    assert (first.unique_id, first.cutoff) == ("T/B", 2)
    times = [("half-1", 10.0), ("half-2", 12.0), ("year-1", 99.0), ("quarter-1", 5.0),
             ("quarter-2", 5.0), ("quarter-3", 6.0), ("quarter-4", 6.0)]  # fmt: skip
    rows = pd.DataFrame(times, columns=["temporal_id", "m"]).assign(unique_id="a")
    spec = {"year": 4, "half": 2, "quarter": 1}
    found = gm.forecast.diagnose(rows, spec, temporal=True,
                                 variance=dict.fromkeys(rows.temporal_id, 1.0))  # fmt: skip
    assert found.temporal_id[0] == "year-1"
    part_of = {"a": "x", "b": "x", "c": "y", "d": "y", "a1": "a", "a2": "a"}
    tops = pd.DataFrame({"unique_id": [*"xyabcd", "a1", "a2"], "ds": 1,
                         "m": [8.0, 6, 2, 3, 1, 5, 2, 3]})  # fmt: skip
    found = gm.forecast.diagnose(tops, part_of, variance=dict.fromkeys(tops.unique_id, 1.0))
    assert found.unique_id[0] == "a"
    assert len(found) == len(tops)


def test_wrong_arguments():
    d = data("strict")
    with pytest.raises(
        ValueError, match="'Y_df' must hold past and fitted values, unless 'variance'"
    ):
        gm.forecast.diagnose(d.base, d.structure)
    with pytest.raises(ValueError, match="'variance' must give each series"):
        gm.forecast.diagnose(d.base, d.structure, variance={"T": 1.0})
    with pytest.raises(TypeError, match="'temporal' must be True or False"):
        gm.forecast.diagnose(d.base, d.structure, temporal={"year": 4})
