"""Benefit and price of non-negative counts, on census-shaped data.

Many census blocks are empty. Their noisy counts are as often below zero as above, and the closest
consistent values still have blocks with minus three people. The closest consistent values that are
not negative have smaller errors at the blocks. But they are no longer unbiased, and neither are
their sums. The example prints the errors and the bias. Run it with

    python examples/nonnegative.py --nodes 100000 --picture nonnegative.png

The people are made up, so that errors can be measured. The noise is Laplace noise as for epsilon =
1, but drawn from a seed, so that it must not be used for a release.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

import gmtree as gm

LEVELS = gm.datasets.CENSUS_LEVELS
METHODS = ("noisy", "consistent", "non-negative", "whole numbers")
# Blocks by the number of people who live there.
SIZES = {"0": (0, 0), "1 to 9": (1, 9), "10 to 99": (10, 99), "100 and more": (100, np.inf)}


class Errors(NamedTuple):
    """Mean and root mean square error of each method (columns) in each group (rows)."""

    mean: np.ndarray
    rms: np.ndarray


def measure(difference: list[np.ndarray], groups: list[np.ndarray]) -> Errors:
    """Errors over all nodes of a group and all draws of the noise; NaN for groups without nodes."""
    mean, rms = (np.full((len(groups), len(difference)), np.nan) for _ in range(2))
    for i, group in enumerate(groups):
        for j, d in enumerate(difference):
            if group.size:
                mean[i, j] = d[group].mean()
                rms[i, j] = np.sqrt(np.mean(d[group] ** 2))
    return Errors(mean, rms)


def print_table(title: str, names: tuple[str, ...], groups: list[np.ndarray], cells: np.ndarray):
    print(f"\n{title:<26}{'nodes':>9}" + "".join(f"{name:>15}" for name in METHODS))
    for name, group, row in zip(names, groups, cells, strict=True):
        # Adding zero turns -0.00 into 0.00.
        text = "".join(f"{round(x, 2) + 0:>15.2f}" for x in row)
        print(f"{name:<26}{group.size:>9,}{text}")


def draw_picture(path: Path, by_level: Errors, by_size: Errors) -> None:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("--picture needs matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for j, name in enumerate(METHODS[:3]):
        left.plot(LEVELS, by_level.rms[:, j], marker="o", label=name)
    left.set(title="error by level", ylabel="root mean square error", ylim=(0, None))
    left.tick_params(axis="x", rotation=35)
    left.legend()
    place = np.arange(len(SIZES))
    for j in (1, 2):
        right.bar(place + 0.4 * j - 0.6, by_size.mean[:, j], 0.4, label=METHODS[j], color=f"C{j}")
    right.axhline(0, color="black", linewidth=0.8)
    right.set(title="bias of blocks", xlabel="people in the block", ylabel="mean error")
    right.set_xticks(place, SIZES)
    right.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"\npicture: {path}")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100_000, help="size of the tree")
    parser.add_argument("--draws", type=int, default=5, help="how often noise is drawn")
    parser.add_argument("--scale", type=float, default=8.0, help="scale of the Laplace noise")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise")
    parser.add_argument("--picture", type=Path, help="draw the errors into this file")
    args = parser.parse_args(argv)

    data = gm.datasets.census2010(nodes=args.nodes)
    tree, truth = data.tree, data.tree.aggregate(data.counts)[:, None]
    print(data)
    print(f"{np.mean(data.counts == 0):.0%} of all blocks are empty")

    rng = np.random.default_rng(args.seed)
    noisy = truth + rng.laplace(0, args.scale, (tree.n, args.draws))
    post = gm.Consistency(tree)
    start = perf_counter()
    values, info = post.project(noisy, nonnegative=True, return_info=True)
    seconds = perf_counter() - start
    print(
        f"non-negative optima of {args.draws} draws in {seconds:.2f} s (a first run compiles, too)"
        f"\n  at most {info.passes} passes, {info.at_bound:,} blocks at zero\n"
        "  conditions of optimality met to "
        f"{info.violation / abs(noisy).max():.0e} of the largest count"
    )
    whole = post.project(noisy, nonnegative=True, integer=True)
    plain = post.project(noisy)
    print(f"  blocks below zero: {np.mean(plain[tree.leaves] < 0):.1%} before, none after")

    difference = [x - truth for x in (noisy, plain, values, whole)]
    levels = [np.flatnonzero(tree.depth == k) for k in range(1, tree.height + 1)]
    by_level = measure(difference, [*levels, np.arange(tree.n)])
    title = "root mean square error of"
    print_table(title, (*LEVELS, "all"), [*levels, np.arange(tree.n)], by_level.rms)

    blocks = [
        tree.leaves[(data.counts >= low) & (data.counts <= high)] for low, high in SIZES.values()
    ]
    by_size = measure(difference, blocks)
    names = tuple(f"blocks with {size}" for size in SIZES)
    print_table("mean error (bias) of", names, blocks, by_size.mean)
    print_table("root mean square error of", names, blocks, by_size.rms)

    lower = 1 - by_level.rms[-1, 2] / by_level.rms[-1, 1]
    before, after = by_size.mean[0, 1:3]
    print(
        f"""
Over all nodes, the error of non-negative values is {lower:.0%} lower on these data, but small
counts are biased. The mean error of a block without people was {before:+.2f} and now is
{after:+.2f}, since values below zero were raised. Other blocks of the same group become smaller,
so that the counts of larger areas hardly change. Sums of small blocks for which the tree has no
node inherit the bias. To add up small counts of your own choice, or to average several releases,
use the values that may be negative."""
    )
    if args.picture:
        draw_picture(args.picture, Errors(by_level.mean[:-1], by_level.rms[:-1]), by_size)


if __name__ == "__main__":
    main()
