"""Coherent forecasts of domestic tourism in Australia, from the models of statsforecast.

The data are monthly tourism flows of 20 years to 76 regions in 7 states; they come with the package
`pyhts` (``pip install pyhts statsforecast pandas``). Regions are parts of zones, zones are parts of
states, and the states add up to the country.

Each of the series is forecast by itself for the last year. The example then makes the forecasts
coherent in several ways, and compares the errors by level.
"""

from __future__ import annotations

import argparse
from importlib.metadata import files

import numpy as np
import pandas as pd
from statsforecast import StatsForecast
from statsforecast.models import AutoETS, SeasonalNaive

import gmtree as gm

LEVELS = ["country", "state", "zone", "region"]
SPEC = [LEVELS[: k + 1] for k in range(len(LEVELS))]
SEASON = 12
METHODS = [
    "bottom_up",
    "average_proportions",
    "ols",
    "wls_struct",
    "wls_var",
    "mint_shrink",
]


def regions() -> pd.DataFrame:
    """One row for each region and month, with a column for each level, `ds` and `y`."""
    file = next(f for f in files("pyhts") or [] if f.name == "Tourism.csv")
    wide = pd.read_csv(file.locate(), index_col=0)
    wide = wide.rename(columns={"region": "zone", "city": "region"}).assign(country="Australia")
    long = wide.melt(LEVELS, var_name="month", value_name="y")
    long["ds"] = pd.to_datetime(np.datetime64("1998-01") + long.month.to_numpy(int))
    return long.drop(columns="month")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["ets", "naive"], default="ets")
    args = parser.parse_args(argv)

    Y, structure, tags = gm.forecast.aggregate(regions(), SPEC)
    print(structure)
    cut = Y.ds.max() - pd.DateOffset(months=SEASON)
    past, truth = Y[Y.ds <= cut], Y[Y.ds > cut]

    model = AutoETS(SEASON, alias="m") if args.model == "ets" else SeasonalNaive(SEASON, alias="m")
    forecaster = StatsForecast([model], freq="MS", n_jobs=1)
    base = forecaster.forecast(df=past, h=SEASON, level=[90], fitted=True)
    fitted = forecaster.forecast_fitted_values()[["unique_id", "ds", "y", "m"]]
    found = gm.forecast.reconcile(base, structure, method=METHODS, Y_df=fitted, level=[90])

    both = found.merge(truth, on=["unique_id", "ds"])
    level_of = {name: level for level, names in tags.items() for name in names}
    level = both.unique_id.map(level_of).map(lambda x: x.rsplit("/", 1)[-1])
    means = [name for name in both if name.startswith("m") and "-lo-" not in name
             and "-hi-" not in name]  # fmt: skip
    print("\nRoot mean squared errors of the last year, by level:\n")
    print(f"{'':40}" + "".join(f"{name:>10}" for name in LEVELS))
    for name in means:
        error = np.sqrt(((both[name] - both.y) ** 2).groupby(level).mean())
        print(f"{name:40}" + "".join(f"{error[x]:10.0f}" for x in LEVELS))

    name = "m/MinTrace_method-mint_shrink"
    inside = (both[f"{name}-lo-90"] <= both.y) & (both.y <= both[f"{name}-hi-90"])
    print(f"\n90 % intervals of mint_shrink hold {100 * inside.mean():.0f} % of the true values.")


if __name__ == "__main__":
    main()
