"""Forecasts of employment in the United States that add up, by sector.

The data are the monthly numbers of employees, in thousands, of the Bureau of Labor Statistics from
2006 to 2015. They come with the package `vega_datasets` (``pip install vega_datasets pandas``). The
sectors form a tree: all employees work for the government or in private firms, these produce goods
or provide services, and so on down to 15 sectors that are not divided further. One more series of
the Bureau, "service providing", is the sum of government and private services. With this series the
structure is not a tree, and gmtree solves with a sparse factor.

Each series is forecast by itself, as the value of the year before times the smoothed growth since
then. The speed of smoothing is the one with the smallest past errors of the series. These forecasts
do not add up. The example makes them coherent in several ways, and compares the errors in the last
year, which was not used for the forecasts.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from vega_datasets import data

import gmtree as gm

# The sector that each sector is a part of.
PART_OF = {
    "private": "nonfarm",
    "government": "nonfarm",
    "goods_producing": "private",
    "private_service_providing": "private",
    "mining_and_logging": "goods_producing",
    "construction": "goods_producing",
    "manufacturing": "goods_producing",
    "durable_goods": "manufacturing",
    "nondurable_goods": "manufacturing",
    "trade_transportation_utilties": "private_service_providing",
    "wholesale_trade": "trade_transportation_utilties",
    "retail_trade": "trade_transportation_utilties",
    "transportation_and_warehousing": "trade_transportation_utilties",
    "utilities": "trade_transportation_utilties",
    "information": "private_service_providing",
    "financial_activities": "private_service_providing",
    "professional_and_business_services": "private_service_providing",
    "education_and_health_services": "private_service_providing",
    "leisure_and_hospitality": "private_service_providing",
    "other_services": "private_service_providing",
}
ACROSS = {
    "government": ["nonfarm", "service_providing"],
    "private_service_providing": ["private", "service_providing"],
}
SEASON, SPEEDS = 12, (0.1, 0.3, 0.6, 1.0)
METHODS = {
    "base forecasts": "naive",
    "bottom up": "naive/BottomUp",
    "ols": "naive/MinTrace_method-ols",
    "wls_struct": "naive/MinTrace_method-wls_struct",
    "wls_var": "naive/MinTrace_method-wls_var",
}


def employees() -> pd.DataFrame:
    """One row per series and month: `unique_id`, `ds`, `y`."""
    wide = data.us_employment()
    wide["ds"] = pd.to_datetime(wide["month"])
    names = sorted({*PART_OF, *PART_OF.values(), "service_providing"})
    return wide.melt("ds", names, "unique_id", "y")


def smoothed(growth: np.ndarray, speed: float) -> np.ndarray:
    """Exponential smoothing of each row."""
    out = growth.copy()
    for t in range(1, out.shape[1]):
        out[:, t] = out[:, t - 1] + speed * (growth[:, t] - out[:, t - 1])
    return out


def forecasts(y: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts of the next steps, and forecasts one month ahead for all months after two years.

    Each row is smoothed with the speed that had the smallest errors one month ahead.
    """
    growth = y[:, SEASON:] / y[:, :-SEASON]
    best, fitted, last = np.full(len(y), np.inf), np.empty_like(y), np.empty(len(y))
    for speed in SPEEDS:
        level = smoothed(growth, speed)
        # The forecast of a month: the year before, times the growth known one month before.
        ahead = y[:, 1:-SEASON] * level[:, :-1]
        error = np.square(ahead - y[:, SEASON + 1 :])[:, SEASON:].sum(axis=1)
        better = error < best
        best[better] = error[better]
        fitted[better, SEASON + 1 :] = ahead[better]
        last[better] = level[better, -1]
    return y[:, -SEASON:][:, :steps] * last[:, None], fitted


def split(long: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Base forecasts of the last year; past values with forecasts one month ahead; the truth."""
    wide = long.pivot(index="unique_id", columns="ds", values="y")
    y, months = wide.to_numpy(), wide.columns
    ahead, fitted = forecasts(y[:, :-SEASON], SEASON)

    def tidy(values: np.ndarray, when: pd.Index, name: str) -> pd.DataFrame:
        frame = pd.DataFrame(values, wide.index, when).reset_index()
        frame = frame.melt("unique_id", var_name="ds", value_name=name)
        return frame.assign(ds=pd.to_datetime(frame.ds))

    past = slice(2 * SEASON, y.shape[1] - SEASON)
    known = tidy(y[:, past], months[past], "y")
    known["naive"] = tidy(fitted[:, past], months[past], "naive")["naive"]
    future = months[-SEASON:]
    return tidy(ahead, future, "naive"), known, tidy(y[:, -SEASON:], future, "y")


def show_errors(found: pd.DataFrame, truth: pd.DataFrame, structure: gm.forecast.Structure) -> None:
    """Root mean squared errors by depth in the tree, in thousands."""
    both = found.merge(truth, on=["unique_id", "ds"])
    assert structure.tree is not None
    depth = dict(zip(structure.labels, structure.tree.depth, strict=True))
    level = both.unique_id.map(depth)
    print(
        f"{'':16}" + "".join(f"{f'depth {d}':>10}" for d in sorted(level.unique())) + "   coherent"
    )
    for name, column in METHODS.items():
        error = (both[column] - both.y) ** 2
        by_level = np.sqrt(error.groupby(level).mean())
        wide = found.pivot(index="unique_id", columns="ds", values=column)
        wide = wide.loc[list(structure.labels)].to_numpy()
        off = abs(structure.matrix @ wide[structure.leaf] - wide).max()
        print(f"{name:16}" + "".join(f"{x:10.1f}" for x in by_level)
              + ("        yes" if off < 1e-6 else f"   {off:5.0f} off"))  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--level", type=float, default=90, help="percentage of intervals")
    args = parser.parse_args(argv)

    long = employees()
    base, past, truth = split(long)

    print("1. A tree of sectors\n")
    structure = gm.forecast.Structure(PART_OF)
    assert structure.tree is not None
    print(f"{structure}: {structure.n - structure.n_leaves} of them are sums of other series.")
    inside = base[base.unique_id.isin(structure.labels)]
    known = past[past.unique_id.isin(structure.labels)]
    found = gm.forecast.reconcile(
        inside, structure, method=["bottom_up", "ols", "wls_struct", "wls_var"], Y_df=known
    )
    print("Errors of the forecasts of 2015, in thousands of employees:\n")
    show_errors(found, truth, structure)

    print("\n2. Intervals, which are exact even if weights are not the true variances\n")
    with_bounds = gm.forecast.reconcile(
        inside, structure, method=["ols", "wls_var"], Y_df=known, level=[args.level]
    )
    june = with_bounds[(with_bounds.ds == "2015-06-01") & (with_bounds.unique_id == "nonfarm")]
    level = f"{args.level}"
    for method in ("ols", "wls_var"):
        name = f"naive/MinTrace_method-{method}"
        low, high = (june[f"{name}-{side}-{level}"].item() for side in ("lo", "hi"))
        print(f"all employees in June, {method:8} {low:10.0f} to {high:10.0f}")
    print(f"counted later                  {truth_of(truth, 'nonfarm', '2015-06-01'):10.0f}")

    print("\n3. The forecast of government must not change, and that of utilities is missing\n")
    partly = inside.copy()
    partly.loc[partly.unique_id == "utilities", "naive"] = np.nan
    kept = gm.forecast.reconcile(
        partly, structure, method="wls_var", Y_df=known, immutable=["government"]
    )
    for name in ("government", "utilities"):
        row = kept[(kept.unique_id == name) & (kept.ds == "2015-06-01")].iloc[0]
        print(
            f"{name:12} {row['naive']:10.1f} becomes {row['naive/MinTrace_method-wls_var']:10.1f}"
        )

    print("\n4. A series that overlaps with parts of the tree\n")
    crossed = gm.forecast.Structure({**PART_OF, **ACROSS})
    print(crossed)
    found = gm.forecast.reconcile(base, crossed, method="wls_struct", Y_df=past)
    wide = found.pivot(index="unique_id", columns="ds", values="naive/MinTrace_method-wls_struct")
    parts = wide.loc["government"] + wide.loc["private_service_providing"]
    off = abs(wide.loc["service_providing"] - parts).max()
    print(f"service providing minus its parts: {off:.0e}")

    print("\n5. Sectors and periods (months, quarters, a year) together\n")
    quarters = gm.forecast.temporal_structure({"year": 12, "quarter": 3, "month": 1}, SEASON)
    months = inside.sort_values("ds").pivot(index="unique_id", columns="ds", values="naive")
    # The number of a quarter is the sum of its months. The forecast of the year differs from it.
    by_period = pd.DataFrame(
        months.to_numpy() @ quarters.matrix.toarray().T, months.index, quarters.labels
    )
    by_period["year-1"] *= 1.002
    pairs = by_period.reset_index().melt("unique_id", var_name="temporal_id", value_name="naive")
    both = gm.forecast.reconcile_cross_temporal(
        pairs, structure, temporal=quarters, method=["ols", "struc"]
    )
    x = both.pivot(
        index="unique_id", columns="temporal_id", values="naive/MinTrace_method-wls_struct"
    )
    first = x.loc["nonfarm", [f"month-{k}" for k in (1, 2, 3)]].sum()
    print(f"{len(both)} forecasts; the first quarter minus its months: "
          f"{abs(x.loc['nonfarm', 'quarter-1'] - first):.0e}")  # fmt: skip


def truth_of(truth: pd.DataFrame, name: str, when: str) -> float:
    return truth[(truth.unique_id == name) & (truth.ds == when)].y.item()


if __name__ == "__main__":
    main()
