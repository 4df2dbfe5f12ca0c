"""Benchmarks that anyone can run: ``gmtree bench``; `BENCHMARKS` lists them."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmtree.bench.report import Report
    from gmtree.bench.settings import Settings

# By name, the module whose function `run` measures, and what that does.
BENCHMARKS = {
    "table": (
        "gmtree.bench.paper_table",
        "error and consistency of each algorithm on the three data sets, as in the paper",
    ),
    "scale": ("gmtree.bench.scale", "running time against size"),
    "stages": ("gmtree.bench.stages", "construction against post-processing"),
    "peers": (
        "gmtree.bench.peers",
        "beside scipy, Higra, OpenDP, hierarchicalforecast, CHOLMOD and plain numpy",
    ),
    "tables": (
        "gmtree.bench.tables",
        "tables on a tree and crossed trees, in copies of them and beside sparse solvers",
    ),
    "dask": ("gmtree.bench.dask", "past one machine: from Parquet to Parquet on Dask"),
    "frames": ("gmtree.bench.frames", "frames and Newick beside pandas and scikit-bio"),
    "forecast": ("gmtree.bench.forecast", "forecast reconciliation beside hierarchicalforecast"),
    "bars": ("gmtree.bench.bars", "the limits that gmtree sets itself: measured, limit, verdict"),
}
DATASETS = ("census2010", "nyctaxi", "syndata")
STDOUT = "-"

_LIST = "\n".join(f"  {name:8} {what}" for name, (_, what) in BENCHMARKS.items())
EPILOG = f"""\
benchmarks:
{_LIST}
  (none)   all of them

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
        help="only this data set; may be given several times",
    )
    parser.add_argument(
        "--nodes", type=_number, help="size of trees, about; by default those of the paper"
    )
    parser.add_argument(
        "--repeat", type=_number, help="runs to average over, or to take the best time of"
    )
    parser.add_argument("--quick", action="store_true", help="small trees, few runs")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write JSON, a Markdown report and figures there"
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="write JSON to a file, or to standard output instead of tables",
    )
    parser.add_argument(
        "--census-files", metavar="PATH", help="real data: 2010 Census Summary File 1 headers"
    )
    parser.add_argument("--taxi-files", metavar="PATH", help="real data: 2013 trip records")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run what the command line asks for; the exit status is 1 if any result was wrong."""
    import json

    from gmtree import _validate as check
    from gmtree.bench.settings import Settings

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
    reports = []
    for name in [args.benchmark] if args.benchmark else BENCHMARKS:
        report = measure(name, settings)
        reports.append(report)
        if args.out is not None:
            written = report.write(args.out)
            print(f"wrote {', '.join(str(path) for path in written)}", file=sys.stderr)
        if args.json != STDOUT:
            print(report.as_text(), flush=True)
    if args.json is not None:
        found = [report.as_dict() for report in reports]
        text = json.dumps(found[0] if args.benchmark else found, indent=2)
        if args.json == STDOUT:
            print(text)
        else:
            Path(args.json).write_text(text + "\n")
    return 0 if all(report.is_right for report in reports) else 1


def measure(name: str, settings: Settings) -> Report:
    """Run one benchmark.

    Examples
    --------
    >>> from gmtree import bench
    >>> from gmtree.bench.settings import Settings
    >>> report = bench.measure("stages", Settings(datasets=("syndata",), nodes=1000))
    >>> report.tables[0].rows[0][:3]
    ['SynData', 'level by level', 1023]
    """
    start = perf_counter()
    report: Report = import_module(BENCHMARKS[name][0]).run(settings)
    report.seconds = perf_counter() - start
    return report


def _number(text: str) -> int:
    """A whole number of at least 1; 1e6 and 1_000_000 will do."""
    try:
        value = float(text)
    except ValueError:
        value = 0.5
    if value < 1 or not value.is_integer():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(value)
