"""Forecast reconciliation compared with hierarchicalforecast."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gmtree.bench.report import Check, Column, Report, Table
from gmtree.bench.settings import Settings
from gmtree.bench.timing import best_time, best_times, time_of

GROUPS, LEAVES, STEPS = 50, 100_000, 12
# Seconds after which a call is not repeated.
PATIENCE = 0.5
SPEC = [["all"], ["all", "group"], ["all", "group", "shop"]]


def run(report: Report, settings: Settings) -> None:
    """Compare times for a large tree (with DataFrames) and for crossed groups (with arrays)."""
    if not (find_spec("pandas") and find_spec("hierarchicalforecast")):
        report.notes.append("Not measured, since pandas or hierarchicalforecast is missing.")
        return
    table = report.table(
        "Seconds for 12 steps",
        Column("what", width=43),
        Column("series", ",d"),
        Column("gmtree", ".4f"),
        Column("theirs", ",.4f"),
        Column("times faster", ",.1f"),
        Column("largest difference", ".0e"),
    )
    times = settings.times(usual=3, quick=1)
    leaves = LEAVES if settings.size is None else min(LEAVES, max(200, settings.size // 10))
    report.expect(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report.step("tree")
        report.add(shops(table, leaves, times))
        report.step("groups")
        report.add(grouped(table, times, settings.is_full_size))
    report.notes.append(
        "'theirs' is hierarchicalforecast. The first row is from DataFrame to DataFrame: "
        "`aggregate` with a sparse matrix, and\n`reconcile` with MinTraceSparse. All other rows "
        "are from arrays to arrays, for crossings of rows and columns with or\nwithout gaps. Their "
        "time is that of the faster one of MinTraceSparse, whose iteration stops early, and the "
        "dense\nMinTrace, which is left out above 1,000 series without intervals. Differences are "
        "those from the dense MinTrace."
    )


def bottom_frame(leaves: int) -> Any:
    """Bottom series of shops in groups, a row for each month."""
    import pandas as pd

    shop = np.arange(leaves)
    columns = {
        "all": np.full(leaves, "all"),
        "group": np.char.add("g", (shop % GROUPS).astype(str)),
        "shop": np.char.add("s", shop.astype(str)),
    }
    frame = pd.DataFrame({name: np.repeat(x, STEPS) for name, x in columns.items()})
    frame["ds"] = np.tile(_months(), leaves)
    frame["y"] = np.random.default_rng(0).poisson(20, len(frame)).astype(float)
    return frame


def _months() -> np.ndarray:
    return np.arange("2024-01", "2025-01", dtype="M8[M]").astype("M8[ns]")


def base_forecasts(structure: Any) -> Any:
    """A DataFrame of coherent counts of about five for each shop and month, with errors."""
    import pandas as pd

    rng = np.random.default_rng(1)
    truth = structure.aggregate(rng.poisson(5, (structure.n_leaves, STEPS)).astype(float))
    frame = pd.DataFrame({"unique_id": pd.Series(structure.labels).repeat(STEPS).to_numpy()})
    frame["ds"] = np.tile(_months(), structure.n)
    frame["model"] = (truth + rng.normal(0, 10, truth.shape)).ravel()
    return frame


def shops(table: Table, leaves: int, times: int) -> Iterator[Check]:
    """Sums and coherent forecasts of a tree of shops, from DataFrame to DataFrame."""
    from hierarchicalforecast.core import HierarchicalReconciliation
    from hierarchicalforecast.methods import MinTraceSparse
    from hierarchicalforecast.utils import aggregate as their_aggregate

    from gmtree.forecast import aggregate, reconcile

    bottom = bottom_frame(leaves)
    frame = base_forecasts(aggregate(bottom, SPEC)[1])
    found: dict[str, np.ndarray] = {}

    def ours() -> None:
        _, structure, _ = aggregate(bottom, SPEC)
        found["ours"] = reconcile(frame, structure, method="wls_struct").iloc[:, -1].to_numpy()

    def theirs() -> None:
        _, S, tags = their_aggregate(bottom, SPEC, sparse_s=True)
        pipeline = HierarchicalReconciliation([MinTraceSparse("wls_struct")])
        found["theirs"] = pipeline.reconcile(frame, tags=tags, S_df=S).iloc[:, -1].to_numpy()

    a, b = best_time(ours, times), time_of(theirs)
    off = float(abs(found["ours"] - found["theirs"]).max())
    table.add("aggregate and reconcile", len(frame) // STEPS, a, b, b / a, off)
    yield Check("forecast: times faster, DataFrame to DataFrame", b / a, 5, at_least=True)


def crossing(rows: int, columns: int, pairs: int) -> tuple[Any, dict[str, np.ndarray]]:
    """The summing matrix and the levels of a total, rows, columns, and some of their pairs."""
    chosen = np.random.default_rng(3).permutation(rows * columns)[:pairs]
    row, column = (np.unique(x, return_inverse=True)[1] for x in np.divmod(chosen, columns))
    levels, start, pair = {}, 0, np.arange(chosen.size)
    part = []
    for name, of_leaf in {"total": 0 * pair, "row": row, "column": column, "pair": pair}.items():
        count = int(of_leaf.max()) + 1
        levels[name] = np.arange(start, start + count)
        part.append(of_leaf + start)
        start += count
    ones = np.ones(4 * pair.size)
    return sparse.csr_matrix((ones, (np.concatenate(part), np.tile(pair, 4)))), levels


def panel(S: Any, steps: int, mean: float) -> dict[str, np.ndarray]:
    """Base forecasts of all series, their deviations, and past values with fitted values.

    With a mean of 5 for bottom series, every sixth forecast is negative.
    """
    rng, (n, leaves) = np.random.default_rng(4), S.shape
    scale = 3 * np.sqrt(np.asarray(S.sum(axis=1)))
    past = S @ rng.poisson(mean, (leaves, 2 * STEPS)).astype(float)
    error = rng.normal(size=past.shape) * scale * rng.choice([0.5, 1, 2], (n, 1))
    y_hat = S @ rng.poisson(mean, (leaves, steps)) + rng.normal(size=(n, steps)) * scale
    fitted, deviations = past + error, np.repeat(scale, steps, axis=1)
    return {"y_hat": y_hat, "y_insample": past, "y_hat_insample": fitted, "sigmah": deviations}


class Case(NamedTuple):
    """Methods to compare on a crossing of rows and columns.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows, of columns, and of pairs of a row and a column.
    limit : float
        Required speed-up over hierarchicalforecast's fastest solver.
    """

    shape: tuple[int, int, int]
    methods: Sequence[str]
    intervals: bool = False
    nonnegative: bool = False
    steps: int = STEPS
    limit: float = 1


METHODS = ("ols", "wls_struct", "wls_var", "mint_shrink")
# A crossing with one row is a tree. The last case has the shape of a data set of offices by
# materials.
CASES = [
    Case((1, 600, 600), METHODS),
    Case((104, 8, 832), METHODS),
    Case((104, 8, 600), METHODS),
    Case((104, 8, 600), METHODS[:3], nonnegative=True),
    Case((104, 8, 832), METHODS, intervals=True, limit=5),
    Case((110, 50, 5500), ("wls_var",), intervals=True, steps=1, limit=5),
    Case((28, 3213, 11449), METHODS[:3], limit=5),
]
# Largest number of series for which hierarchicalforecast's dense solver is measured, too.
MOST_DENSE = 1000
# Up to this number of series, calls are fast, so we time more of them.
SMALL = 2000


def grouped(table: Table, times: int, full: bool) -> Iterator[Check]:
    """Crossings of two levels, with or without gaps, compared with the faster of their solvers."""
    worst: dict[float, float] = {}
    off = 0.0
    for case in CASES:
        shape = case.shape if full else (1 if case.shape[0] == 1 else 7, 9, 9)
        S, tags = crossing(*shape)
        data = panel(S, case.steps, 5 if case.nonnegative else 20)
        for method in case.methods:
            a, b, difference = _compare(case, method, S, {**data, "tags": tags}, times)
            name = f"{shape[0]} x {shape[1]:,}" if shape[0] > 1 else "tree"
            name += " with gaps" * (shape[2] < shape[0] * shape[1])
            extra = " intervals" * case.intervals + " nonnegative" * case.nonnegative
            extra += ", one step" * (case.steps == 1)
            table.add(f"{name}, {method}{extra}", S.shape[0], a, b, b / a, difference)
            worst[case.limit] = min(worst.get(case.limit, np.inf), b / a)
            off = max(off, difference or 0.0)
    for limit, ratio in worst.items():
        claim = "forecast, groups: least times faster than their best solver"
        claim += ", large or with intervals" * (limit > 1)
        yield Check(claim, ratio, limit, at_least=True)
    yield Check("forecast, groups: difference from dense MinTrace", off, 1e-8, about_results=True)


def _compare(
    case: Case, method: str, S: Any, data: dict[str, Any], times: int
) -> tuple[float, float, float | None]:
    """Time of gmtree, best time of hierarchicalforecast, and difference from its dense solver.

    hierarchicalforecast's sparse solver has no `mint_shrink`, and its intervals take longer than
    those of the dense solver. With `nonnegative`, both solvers solve a different problem, and the
    dense solver takes minutes.
    """
    from hierarchicalforecast import methods as theirs

    from gmtree.forecast import MinTrace

    options = {"level": [80, 95], "intervals_method": "normality"} if case.intervals else {}

    def run(reconciler: Any, matrix: Any) -> Any:
        return reconciler.fit_predict(matrix, **data, **options)["mean"]

    if S.shape[0] <= SMALL:
        times *= 10  # the first calls on small structures run without compilation

    def ours() -> None:
        run(MinTrace(method, case.nonnegative), S)

    ours()  # compiles
    actions = []
    if not case.intervals and method != "mint_shrink":
        actions.append(lambda: run(theirs.MinTraceSparse(method, case.nonnegative), S))
    mean: list[np.ndarray] = []
    if (case.intervals or case.shape[2] <= MOST_DENSE) and not case.nonnegative:
        dense = S.toarray()
        actions.append(lambda: mean.append(run(theirs.MinTrace(method), dense)))
    # We time gmtree in turn with one of hierarchicalforecast's solvers at a time. A long call
    # empties the caches of the processor and so delays the next call, which would otherwise always
    # be the same one.
    pairs = [best_times([ours, each], times, PATIENCE) for each in actions]
    a, b = min(pairs, key=lambda pair: pair[1])
    off = float(abs(mean[0] - run(MinTrace(method), S)).max()) if mean else None
    return a, b, off
