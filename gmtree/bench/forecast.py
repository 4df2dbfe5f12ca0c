"""Forecast reconciliation, frame to frame, beside hierarchicalforecast."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from time import process_time
from typing import Any

import numpy as np

from gmtree._progress import Progress
from gmtree.bench.report import Check, Column, Report, Table
from gmtree.bench.settings import Settings
from gmtree.bench.timing import best_time, time_of

GROUPS, LEAVES, LARGE, STEPS = 50, 100_000, 1_000_000, 12
# Series of their non-negative solver, whose time is then taken to grow with the number of series.
QP_LEAVES = 40_000
PLACES, KINDS = 300, 50
SPEC = [["all"], ["all", "group"], ["all", "group", "shop"]]

# Run in a process of its own, whose memory is then that of the frame and of the reconciliation.
MEMORY = """
import resource, sys
from gmtree.bench.forecast import forecasts, structure_of
from gmtree.forecast import reconcile
leaves = int(sys.argv[1])
structure = structure_of(leaves)
frame = forecasts(structure)
found = reconcile(frame, structure, method="wls_struct", level=[80, 95])
assert len(found) == len(frame)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def run(settings: Settings) -> Report:
    """Measure all bars of forecasts."""
    report = Report("forecast", "Forecast reconciliation", settings.as_dict())
    if not (find_spec("pandas") and find_spec("hierarchicalforecast")):
        report.notes.append("Not measured, since pandas or hierarchicalforecast is missing.")
        return report
    full = settings.size is None
    share = 1.0 if settings.size is None else min(1.0, settings.size / LARGE)
    table = Table(
        "Seconds, frame to frame, 12 steps",
        [Column("what"), Column("series", ",d"), Column("gmtree", ".3f"), Column("theirs", ",.2f"),
         Column("times faster", ",.0f"), Column("largest difference", ".0e")],
    )  # fmt: skip
    times = settings.times(usual=3, quick=1)
    steps: list[Callable[..., Iterator[Check]]] = [strict, memory, nonnegative, grouped]
    with Progress(len(steps), "forecast") as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in steps:
            progress.advance(0, step.__name__)
            report.checks += list(step(table, share, times, full))
            progress.advance(1)
    report.tables.append(table)
    report.notes.append(
        "Theirs is hierarchicalforecast: `aggregate` with a sparse matrix and `reconcile` with "
        "MinTraceSparse for the\ntree, whose iteration stops early (see the difference); "
        "MinTraceSparse(nonnegative=True), arrays to arrays,\nmeasured at 40,000 series and one "
        "step and taken in proportion, both in seconds of one processor; and the dense\nMinTrace "
        "for groups."
    )
    return report


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


def structure_of(leaves: int) -> Any:
    """The structure of the same shops, without their values."""
    from gmtree.forecast import Structure

    shop = np.arange(leaves)
    frame = {
        "all": np.full(leaves, "all"),
        "group": np.char.add("g", (shop % GROUPS).astype(str)),
        "shop": np.char.add("s", shop.astype(str)),
    }
    return Structure(frame, spec=SPEC)


def base_forecasts(structure: Any, steps: int) -> np.ndarray:
    """Counts of about five for each shop and month, and their sums, each with an error of its own.

    Nearly a third of the forecasts of shops are negative.
    """
    rng = np.random.default_rng(1)
    truth = rng.poisson(5, (structure.n_leaves, steps)).astype(float)
    return structure.aggregate(truth) + rng.normal(0, 10, (structure.n, steps))


def forecasts(structure: Any) -> Any:
    """A frame of base forecasts with bounds."""
    import pandas as pd

    frame = pd.DataFrame({"unique_id": pd.Series(structure.labels).repeat(STEPS).to_numpy()})
    frame["ds"] = np.tile(_months(), structure.n)
    frame["model"] = base_forecasts(structure, STEPS).ravel()
    frame["model-lo-90"] = frame["model"] - 8
    frame["model-hi-90"] = frame["model"] + 8
    return frame


def _processor_time(action: Callable[[], object]) -> float:
    """Seconds that the processor works for an action, whatever else the machine does."""
    start = process_time()
    action()
    return process_time() - start


def _theirs(reconciler: Any, frame: Any, S: Any, tags: Any) -> np.ndarray:
    """What their pipeline makes of the forecasts."""
    from hierarchicalforecast.core import HierarchicalReconciliation

    plain = frame[["unique_id", "ds", "model"]]
    found = HierarchicalReconciliation([reconciler]).reconcile(plain, tags=tags, S_df=S)
    return found.iloc[:, -1].to_numpy()


def strict(table: Table, share: float, times: int, full: bool) -> Iterator[Check]:
    """Sums and coherent forecasts of a tree."""
    from hierarchicalforecast.methods import MinTraceSparse
    from hierarchicalforecast.utils import aggregate as their_aggregate

    from gmtree.forecast import aggregate, reconcile

    bottom = bottom_frame(max(200, int(LEAVES * share)))
    frame = forecasts(structure_of(bottom.shop.nunique()))
    found: dict[str, np.ndarray] = {}

    def ours() -> None:
        _, structure, _ = aggregate(bottom, SPEC)
        plain = frame[["unique_id", "ds", "model"]]
        found["ours"] = reconcile(plain, structure, method="wls_struct").iloc[:, -1].to_numpy()

    def theirs() -> None:
        _, S, tags = their_aggregate(bottom, SPEC, sparse_s=True)
        found["theirs"] = _theirs(MinTraceSparse("wls_struct"), frame, S, tags)

    a, b = best_time(ours, times), time_of(theirs)
    off = float(abs(found["ours"] - found["theirs"]).max())
    table.rows.append(["aggregate and reconcile", len(frame) // STEPS, a, b, b / a, off])
    yield Check("forecast: times faster, frame to frame", b / a, 5, at_least=True, applies=full)


def memory(table: Table, share: float, times: int, full: bool) -> Iterator[Check]:
    """Normal intervals of a million series."""
    leaves = max(200, int(LARGE * share))
    command = [sys.executable, "-c", MEMORY, str(leaves)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    yield Check("forecast: GB in all, a million series with intervals", int(done.stdout) / 1e9, 3)


def nonnegative(table: Table, share: float, times: int, full: bool) -> Iterator[Check]:
    """Forecasts that are not negative."""
    from hierarchicalforecast.methods import MinTraceSparse

    from gmtree.forecast import MinTrace as OurMinTrace

    def data(leaves: int, steps: int) -> tuple[Any, np.ndarray]:
        structure = structure_of(leaves)
        return structure, base_forecasts(structure, steps)

    structure, y = data(max(200, int(LARGE * share)), STEPS)
    S, n = structure.matrix, structure.n
    ours = OurMinTrace("wls_struct", nonnegative=True, num_threads=1)
    ours.fit(S, y[:, :1])  # reads the structure, which several models share
    a = min(_processor_time(lambda: ours.fit_predict(S, y)) for _ in range(times))
    structure, y = data(max(100, int(QP_LEAVES * share)), 1)
    solver = MinTraceSparse("wls_struct", nonnegative=True)
    one = _processor_time(lambda: solver.fit_predict(structure.matrix, y))
    b = one * STEPS * n / structure.n
    table.rows.append(["nonnegative=True, one processor (see below)", n, a, b, b / a, None])
    yield Check("forecast: times faster without negative values", b / a, 100, at_least=True,
                applies=full)  # fmt: skip


def grouped(table: Table, share: float, times: int, full: bool) -> Iterator[Check]:
    """Places by kinds."""
    from hierarchicalforecast.methods import MinTrace

    from gmtree.forecast import MinTrace as OurMinTrace
    from gmtree.forecast import Structure

    places, kinds = (PLACES, KINDS) if full else (12, 5)
    place, kind = (x.ravel() for x in np.indices((places, kinds)))
    frame = {
        "all": np.full(place.size, "all"),
        "state": np.char.add("s", (place // 10).astype(str)),
        "place": np.char.add("p", place.astype(str)),
        "kind": np.char.add("k", kind.astype(str)),
    }
    spec = [["all"], ["all", "state"], ["all", "kind"], ["all", "state", "place"],
            ["all", "state", "kind"], ["all", "state", "place", "kind"]]  # fmt: skip
    structure = Structure(frame, spec=spec)
    y = np.random.default_rng(2).normal(20, 5, (structure.n, STEPS))
    tags, S = structure.levels, structure.matrix
    found: dict[str, np.ndarray] = {}

    def ours() -> None:
        found["ours"] = OurMinTrace("wls_struct").fit_predict(S, y, tags=tags)["mean"]

    def theirs() -> None:
        found["theirs"] = MinTrace("wls_struct").fit_predict(S.toarray(), y, tags=tags)["mean"]

    a, b = best_time(ours, times), time_of(theirs)
    off = float(abs(found["ours"] - found["theirs"]).max())
    table.rows.append([f"groups, {places} x {kinds}", structure.n, a, b, b / a, off])
    yield Check("forecast, groups: times faster than dense MinTrace", b / a, 20, at_least=True,
                applies=full)  # fmt: skip
    yield Check("forecast, groups: difference from it", off, 1e-9, about_results=True)
