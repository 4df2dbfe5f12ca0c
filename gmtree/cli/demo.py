"""`gmtree demo`: the main job from nothing, in well under a minute.

A census-shaped hierarchy is released with differential privacy, made consistent, and turned into
non-negative whole numbers; the table shows the error by level beside the standard errors that
were known before looking at the truth.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._progress import Progress
from gmtree._text import table
from gmtree.cli import files
from gmtree.datasets import CENSUS_LEVELS, census2010


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "demo",
        help="release a census-shaped hierarchy privately and show the error by level",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=200_000, help="size (default: %(default)s)")
    parser.add_argument("--epsilon", default="1", help="privacy budget (default: %(default)s)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the errors (matplotlib)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from gmtree.privacy.release import release

    nodes = check.count("nodes", args.nodes, least=8)
    if args.plot is not None:
        _check_plot(args.plot)
    steps = Progress(4, "building a hierarchy")
    with steps:
        data = census2010(nodes=nodes)
        tree = data.tree
        steps.advance(label="adding noise, making it consistent (the first run compiles)")
        result = release(tree, data.counts, epsilon=args.epsilon)
        steps.advance(label="non-negative whole numbers")
        whole = result.reprocess(nonnegative=True, integer=True)
        steps.advance(label="measuring the error")
        truth = tree.aggregate(data.counts)
        columns = {
            "noisy": result.noisy,
            "consistent": result.values,
            "non-negative whole": whole.values,
        }
        errors = {name: _rmse_by_level(tree, v - truth) for name, v in columns.items()}
        expected = _rmse_by_level(tree, result.std_error)
        steps.advance()

    print(f"{data.counts.sum():,} people in {tree.n_leaves:,} blocks, {tree.height} levels")
    print(f"({data.description}), released with epsilon = {args.epsilon}.\n")
    print("Root mean square error by level:\n")
    print(_table(tree, errors, expected))
    print(
        "\n'expected' is the exact standard error of 'consistent', known without the truth."
        "\nNon-negative values are not unbiased: small counts come out larger on average, and so do"
        "\nsums of many of them. Parents equal the sums of their children in both.\n"
    )
    print(result.ledger)
    if args.plot is not None:
        _plot(errors, expected, args.plot)
        print(f"\nFigure written to {args.plot}.")
    return 0


def _rmse_by_level(tree: Any, error: np.ndarray) -> np.ndarray:
    """Root mean square of `error` for each depth, the root's first."""
    level = tree.depth - 1
    sums = np.bincount(level, weights=np.square(error, dtype=np.float64))
    return np.sqrt(sums / np.bincount(level))


def _table(tree: Any, errors: dict[str, np.ndarray], expected: np.ndarray) -> str:
    columns = {"noisy": errors["noisy"], "consistent": errors["consistent"], "expected": expected}
    columns["non-negative whole"] = errors["non-negative whole"]
    sizes = np.bincount(tree.depth)[1:]
    rows = [("level", "nodes", *columns)]
    for k, (name, size) in enumerate(zip(CENSUS_LEVELS, sizes, strict=True)):
        rows.append((name, f"{size:,}", *(f"{column[k]:.2f}" for column in columns.values())))
    return "\n".join(table(rows, indent=""))


def _matplotlib() -> Any:
    return check.optional("matplotlib.pyplot", "plot", "drawing a figure")


def _check_plot(path: Path) -> None:
    """Refuse what could not be drawn, before any work is done for it."""
    files.check_output("--plot", path)
    formats = _matplotlib().gcf().canvas.get_supported_filetypes()
    _matplotlib().close()
    if path.suffix.lower().lstrip(".") not in formats:
        raise ValueError(f"--plot must end in {', '.join(sorted(formats))}, not {path.name!r}.")


def _plot(errors: dict[str, np.ndarray], expected: np.ndarray, path: Path) -> None:
    plt = _matplotlib()
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, values in errors.items():
        axes.plot(CENSUS_LEVELS, values, marker="o", label=name)
    axes.plot(CENSUS_LEVELS, expected, "k--", label="consistent, expected")
    axes.set_ylabel("root mean square error")
    axes.set_ylim(bottom=0)
    axes.tick_params(axis="x", rotation=30)
    axes.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)
