"""Benchmarks that the command ``gmtree bench`` runs; `BENCHMARKS` lists them."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TextIO

from gmtree.bench.settings import DATASETS, Settings

if TYPE_CHECKING:
    from gmtree.bench.report import Report

# For each benchmark, the module with its function `run`, and the title of its report.
BENCHMARKS = {
    "table": ("paper_table", "Error and consistency of each algorithm, as in the paper"),
    "scale": ("scale", "Running time against size"),
    "stages": ("stages", "Construction against post-processing"),
    "peers": ("peers", "Speed compared with scipy, Higra, OpenDP, CHOLMOD and plain numpy"),
    "dask": ("dask", "Data larger than one machine: from Parquet to Parquet on Dask"),
    "forecast": ("forecast", "Forecast reconciliation compared with hierarchicalforecast"),
    "bars": ("bars", "Ratios of speed and memory, with the limits that the project sets itself"),
}
STDOUT = "-"

_LIST = "\n".join(f"  {name:8} {title}" for name, (_, title) in BENCHMARKS.items())
EPILOG = f"""\
benchmarks:
{_LIST}
  (none)   all benchmarks

examples:
  gmtree bench --quick                          everything, small, in a minute or two
  gmtree bench table --out results              the paper's table; JSON, Markdown, figures
  gmtree bench scale --dataset census2010       one data set
  gmtree bench peers --nodes 1000000            trees of about a million nodes
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``gmtree bench`` to the command line."""
    parser = subparsers.add_parser(
        "bench",
        help="run the paper's experiments and measure speed on this machine",
        description="Run the paper's experiments and measure speed on this machine.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "benchmark", nargs="?", choices=BENCHMARKS, metavar="BENCHMARK", help="see below"
    )
    parser.add_argument(
        "--dataset",
        action="append",
        type=str.lower,
        choices=DATASETS,
        help="use only this data set; may be given several times",
    )
    parser.add_argument(
        "--nodes",
        type=_number,
        help="approximate number of nodes; by default the sizes of the paper",
    )
    parser.add_argument(
        "--repeat", type=_number, help="number of runs, for an average or for the best time"
    )
    parser.add_argument("--quick", action="store_true", help="use small trees and few runs")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write JSON, a Markdown report and figures to this folder",
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="write JSON to this file, or to standard output instead of tables",
    )
    parser.add_argument(
        "--census-files",
        metavar="PATH",
        help="read the real data: geographic headers of the 2010 Census Summary File 1",
    )
    parser.add_argument(
        "--taxi-files", metavar="PATH", help="read the real data: trip records of 2013"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the requested benchmarks, and return the exit status: 1 if any result was wrong."""
    import json

    from gmtree import _validate as check

    data = {"census2010": args.census_files, "nyctaxi": args.taxi_files}
    settings = Settings(
        datasets=tuple(args.dataset or DATASETS),
        nodes=args.nodes,
        repeat=args.repeat,
        quick=args.quick,
        files={name: path for name, path in data.items() if path is not None},
    )
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
    if args.json not in (None, STDOUT):
        check.new_file("--json", Path(args.json))
    # Flush the output, so that each result is shown as soon as it is known.
    stream = sys.stderr if args.json == STDOUT else sys.stdout
    reports = []
    for name in [args.benchmark] if args.benchmark else BENCHMARKS:
        report = measure(name, settings, stream)
        reports.append(report)
        if args.out is not None:
            written = report.write(args.out)
            print(f"wrote {', '.join(str(path) for path in written)}", file=sys.stderr)
    if args.json is not None:
        found = [report.as_dict() for report in reports]
        text = json.dumps(found[0] if args.benchmark else found, indent=2)
        if args.json == STDOUT:
            print(text)
        else:
            Path(args.json).write_text(text + "\n")
    return 0 if all(report.is_right for report in reports) else 1


def measure(name: str, settings: Settings, stream: TextIO | None = None) -> Report:
    """Run one benchmark, and return its report; results go to `stream` as soon as they are known.

    Examples
    --------
    >>> from gmtree import bench
    >>> from gmtree.bench.settings import Settings
    >>> report = bench.measure("stages", Settings(datasets=("syndata",), nodes=1000))
    >>> report.tables[0].rows[0][:3]
    ['SynData', 'level by level', 1023]
    """
    from gmtree._kernels._jit import always_compile
    from gmtree._progress import Progress
    from gmtree.bench.report import Report

    always_compile()
    module, title = BENCHMARKS[name]
    start = perf_counter()
    with Progress(1, name) as progress:
        report = Report(name, title, settings, progress, stream)
        import_module(f"gmtree.bench.{module}").run(report, settings)
        report.finish(perf_counter() - start)
    return report


def _number(text: str) -> int:
    """An integer of at least 1, read from text such as 1e6 or 1_000_000."""
    try:
        value = float(text)
    except ValueError:
        value = 0.5
    if value < 1 or not value.is_integer():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(value)
