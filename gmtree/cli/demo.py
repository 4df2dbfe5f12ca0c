"""`gmtree demo`: a complete private release of made-up data, in well under a minute.

The command releases the counts of a census-shaped hierarchy with differential privacy, makes them
consistent, and turns them into non-negative whole numbers. A table compares the actual error of
each level with the standard error, which is known without the true counts. If matplotlib is
installed, a picture shows these steps on a small tree.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._progress import Progress
from gmtree._text import table
from gmtree.cli import files
from gmtree.datasets import CENSUS_LEVELS, census2010
from gmtree.tree import Tree

PICTURE = Path("gmtree-demo.png")

# A tree that fits into a picture: towns by region, and how many people live there.
_REGIONS = ["North", "North", "North", "East", "East", "South", "South", "South", "South"]
_TOWNS = ["Ash", "Bay", "Elm", "Fir", "Ivy", "Oak", "Pine", "Rue", "Yew"]
_PEOPLE = [41, 17, 62, 88, 23, 9, 35, 54, 12]

NEXT = """\
What to try next:
  gmtree release people.csv --tree towns.csv --levels region,town --count n \\
      --epsilon 1 -o published.csv            (counts; a public list of places)
  gmtree reconcile measured.csv --levels region,town --value x -o sums.csv
  gmtree release --help
  python -c "import gmtree; help(gmtree)"      (a map of the library)
  python -c "import gmtree; help(gmtree.gmc)"  (from the paper to the code)"""


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "demo",
        help="release a census-shaped hierarchy privately and show the error by level",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--nodes", type=int, default=200_000, help="number of nodes (default: %(default)s)"
    )
    parser.add_argument("--epsilon", default="1", help="privacy budget (default: %(default)s)")
    parser.add_argument(
        "--picture",
        type=Path,
        metavar="PATH",
        help=f"where to save the picture (default: {PICTURE}, if matplotlib is installed)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from gmtree.privacy.publishing.release import release

    nodes = check.count("nodes", args.nodes, least=8)
    picture = _picture(args.picture)
    with Progress(5, "building a hierarchy (the first run compiles)") as steps:
        data = census2010(nodes=nodes)
        tree = data.tree
        steps.advance(label="adding noise, making it consistent")
        result = release(tree, data.counts, epsilon=args.epsilon)
        steps.advance(label="non-negative whole numbers")
        whole = result.reprocess(nonnegative=True, integer=True)
        steps.advance(label="measuring the error")
        truth = tree.aggregate(data.counts)
        errors = {
            "noisy": result.noisy - truth,
            "consistent": result.values - truth,
            "expected": result.std_error,
            "non-negative whole": whole.values - truth,
        }
        columns = {name: _rmse_by_level(tree, error) for name, error in errors.items()}
        steps.advance(label="drawing a picture")
        if picture is not None:
            _draw(picture, args.epsilon)
        steps.advance()

    print(f"{data.counts.sum():,} people in {tree.n_leaves:,} blocks, {tree.height} levels")
    print(f"({data.description}), released with epsilon = {args.epsilon}.\n")
    print("Root mean square error by level:\n")
    print(_table(tree, columns))
    print(
        "\nParents equal the sums of their children in all columns but 'noisy'."
        "\n'expected' is the exact standard error of 'consistent', known without the truth."
        "\nNon-negative values are not unbiased: small counts come out larger on average,"
        "\nand so do sums of many of them."
    )
    if picture is None:
        print("\nFor a picture of the same job on a small tree: pip install 'gmtree[plot]'")
    else:
        print(f"\nA picture of the same job on a small tree: {picture}")
    print(f"\n{NEXT}")
    return 0


def _rmse_by_level(tree: Tree, error: np.ndarray) -> np.ndarray:
    """Root mean square of `error` for each depth, the root's first."""
    level = tree.depth - 1
    sums = np.bincount(level, weights=np.square(error, dtype=np.float64))
    return np.sqrt(sums / np.bincount(level))


def _table(tree: Tree, columns: dict[str, np.ndarray]) -> str:
    sizes = np.bincount(tree.depth)[1:]
    rows = [("level", "nodes", *columns)]
    for k, (name, size) in enumerate(zip(CENSUS_LEVELS, sizes, strict=True)):
        rows.append((name, f"{size:,}", *(f"{column[k]:.2f}" for column in columns.values())))
    return "\n".join(table(rows, indent=""))


def _picture(asked: Path | None) -> Path | None:
    """Where to save the picture; refuse early, before any work, if it could not be drawn."""
    if asked is None and find_spec("matplotlib") is None:
        return None
    if asked is None:
        folder = "" if os.access(".", os.W_OK) else tempfile.gettempdir()
        return Path(folder, PICTURE)
    files.check_output("--picture", asked)
    backend = check.optional("matplotlib.backends.backend_agg", "plot", "drawing a picture")
    formats = backend.FigureCanvasAgg.get_supported_filetypes()
    if asked.suffix.lower().lstrip(".") not in formats:
        allowed = ", ".join(sorted(formats))
        raise ValueError(f"--picture must end in {allowed}, not {asked.name!r}.")
    return asked


def _draw(path: Path, epsilon: str) -> None:
    """Draw noisy and consistent values of a small tree, and their distances from the truth."""
    from matplotlib.figure import Figure

    from gmtree import plot
    from gmtree.privacy.publishing.release import release

    tree = Tree.from_levels({"region": _REGIONS, "town": _TOWNS})
    truth = tree.aggregate(_PEOPLE)
    result = release(tree, _PEOPLE, epsilon=epsilon)
    figure = Figure(figsize=(10.6, 6.0), layout="constrained")
    axes = figure.subplot_mosaic(
        [["noisy", "consistent"], ["error", "error"]], height_ratios=[3, 2]
    )
    plot.sums(tree, result.noisy, ax=axes["noisy"])
    axes["noisy"].set_title("private, but noisy: the parts do not add up")
    plot.sums(tree, result.values, result.std_error, ax=axes["consistent"])
    axes["consistent"].set_title("gmtree: they do, with less error and exact error bars")
    _draw_errors(axes["error"], result, truth)
    figure.savefig(path, dpi=120)


def _draw_errors(ax: Any, result: Any, truth: np.ndarray) -> None:
    """Draw the errors of the noisy and the consistent values by node, with standard errors."""
    tree = result.tree
    noise = float(result.plan.levels[0].noise)
    series = {
        "noisy": ("#b5301f", -0.13, result.noisy, np.full(tree.n, noise)),
        "consistent": ("#2f6ca8", 0.13, result.values, result.std_error),
    }
    place = np.arange(tree.n)
    ax.axhline(0, color="0.3", lw=0.8)
    for name, (colour, shift, values, error) in series.items():
        rms = np.sqrt(np.mean(np.square(error)))
        ax.errorbar(
            place + shift, values - truth, error, fmt="o", ms=5, color=colour, elinewidth=1.6,
            capsize=3, label=f"{name}: standard error {rms:.1f} on average",
        )  # fmt: skip
    names = ["total", *(str(tree.path(i)[-1]) for i in range(tree.n) if i != tree.root)]
    ax.set_xticks(place, names)
    ax.set_ylabel("value minus truth")
    ax.margins(x=0.02, y=0.12)
    ax.grid(axis="y", alpha=0.3)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
