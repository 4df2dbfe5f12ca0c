"""Top-down and middle-out forecasts, beside hierarchicalforecast."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from forecast.panels import data

import gmtree as gm
from gmtree.forecast import MiddleOut, TopDown
from gmtree.forecast.topdown import PROPORTIONS


@pytest.fixture(scope="module")
def theirs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = pytest.importorskip("hierarchicalforecast.core")
        methods = pytest.importorskip("hierarchicalforecast.methods")
    return core.HierarchicalReconciliation, methods


@pytest.mark.parametrize("level", [None, "c/st", "c/st/rg"])
@pytest.mark.parametrize("how", PROPORTIONS)
def test_values_are_theirs(theirs, how, level):
    d = data("strict")
    make = (theirs[1].TopDown, TopDown) if level is None else (theirs[1].MiddleOut, MiddleOut)
    given = (how,) if level is None else (level, how)
    a, b = (
        theirs[0]([one(*given)]).reconcile(d.base, tags=d.tags, S_df=d.S_df, Y_df=d.past)
        for one in make
    )
    assert list(a.columns) == list(b.columns)
    np.testing.assert_allclose(a.iloc[:, -1], b.iloc[:, -1], rtol=1e-12)
    c = gm.forecast.reconcile(d.base, d.structure, method=how, Y_df=d.past, middle_level=level)
    assert c.columns[-1] == a.columns[-1]
    np.testing.assert_allclose(c.iloc[:, -1], b.iloc[:, -1], rtol=1e-12)


@pytest.mark.parametrize("how", PROPORTIONS[1:])
def test_intervals_and_paths_of_historical_proportions(theirs, how):
    d = data("strict")
    found = gm.forecast.reconcile(
        d.base, d.structure, method=how, Y_df=d.past, level=[90], num_samples=4000
    )
    title = f"m/TopDown_method-{how}"
    sigma = (d.base["m-hi-90"] - d.base["m-lo-90"]).to_numpy() / 2 / 1.6448536269514722
    wide = pd.Series(sigma).to_numpy().reshape(d.structure.n, -1)[0]
    mean = d.wide(title, found)
    parts = mean[:, 0] / mean[0, 0]
    width = (d.wide(f"{title}-hi-90", found) - mean) / 1.6448536269514722
    np.testing.assert_allclose(width, parts[:, None] * wide, rtol=1e-10)
    # Rearranging 4,000 columns one by one would take minutes.
    samples = found.filter(like="-sample-").to_numpy()
    row = d.wide("row", found[["unique_id", "ds"]].assign(row=np.arange(len(found))))
    paths = samples.T[:, row]
    assert len(paths) == 4000
    np.testing.assert_allclose(paths.std(axis=0), width, rtol=0.06)


def test_several_tops_and_families_that_add_up_to_nothing():
    part_of = {"a": "x", "b": "x", "c": "y", "d": "y"}
    base = pd.DataFrame({"unique_id": list("xyabcd"), "ds": 1, "m": [8.0, 6, 1, 3, 1, -1]})
    found = gm.forecast.reconcile(base, part_of, method="forecast_proportions")
    assert found.iloc[:, -1].tolist() == [8, 6, 2, 6, 3, 3]


def test_groups_are_divided_from_a_level_that_has_each_leaf_once():
    d = data("grouped")
    found = gm.forecast.reconcile(
        d.base, d.structure, method="average_proportions", Y_df=d.past, middle_level="c/p"
    )
    wide, base = d.wide(found.columns[-1], found), d.wide("m")
    k = d.structure._find("middle_level", ["c/p"])
    np.testing.assert_allclose(wide[k], base[k])
    np.testing.assert_allclose(d.S @ wide[d.structure.leaf], wide)


@pytest.mark.parametrize(
    ("spec", "change", "message"),
    [
        ("grouped", {}, "'S_df' must be a tree"),
        ("grouped", {"middle_level": "c/p"}, "'S_df' must be a tree for the method"),
        (
            "strict",
            {"middle_level": "st"},
            "must name .*, not 'st'; its levels are 'c', 'c/st', 'c/s",
        ),
        ("strict", {"middle_level": "T/A"}, "'middle_level' must have each leaf in one"),
        ("strict", {"level": [90]}, "for 'forecast_proportions'; 'average_proportions' and"),
        ("strict", {"nonnegative": True}, "'nonnegative' must be False for"),
        ("strict", {"method": "average_proportions", "Y_df": None}, "'Y_df' must hold past values"),
        (
            "strict",
            {"level": [90], "intervals_method": "bootstrap"},
            "must not be 'bootstrap' with proportions of forecasts",
        ),
    ],
)
def test_wrong_arguments(spec, change, message):
    d = data(spec)
    options = {"method": "forecast_proportions", "Y_df": d.past, **change}
    with pytest.raises(ValueError, match=message):
        gm.forecast.reconcile(d.base, d.structure, **options)


def test_missing_values():
    d = data("strict")
    base = d.base.copy()
    base.loc[0, "m"] = np.nan
    with pytest.raises(ValueError, match="'Y_hat_df' must have a forecast of each series that"):
        gm.forecast.reconcile(base, d.structure, method="forecast_proportions")
    past = d.past.assign(y=0.0)
    with pytest.raises(ValueError, match=r"'Y_df' must have past values of each leaf"):
        gm.forecast.reconcile(d.base, d.structure, method="proportion_averages", Y_df=past)
    with pytest.raises(ValueError, match="'top_down_method' must be"):
        MiddleOut("c/st", "best")
