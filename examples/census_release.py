"""A census-shaped release with differential privacy: plan, release, errors, ledger.

People are counted at each of eight levels, from the country down to the block, and each count gets
exact discrete noise of its own. Afterwards states no longer add up to the country. The closest
consistent values do, and at every level they are closer to the truth. Unless negative values are
ruled out, their errors are known before any noise is drawn. The budget is divided among the levels
so that the sum of their mean squared errors is as small as possible. Run it with

    python examples/census_release.py --nodes 200000 --epsilon 1

The people are made up, so the truth may be printed beside the release.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np

import gmtree as gm

LEVELS = gm.datasets.CENSUS_LEVELS


def root_mean(squares: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Square root of the mean over each level, and over all nodes."""
    return np.sqrt([*np.bincount(level, squares) / np.bincount(level), squares.mean()])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=200_000, help="size of the tree")
    parser.add_argument("--epsilon", default="1", help="privacy budget, such as 0.1 or 1/3")
    args = parser.parse_args(argv)

    data = gm.datasets.census2010(nodes=args.nodes)
    tree, level = data.tree, data.tree.depth - 1
    print(data)

    # Neither the shares nor the plans depend on the counts.
    shares = gm.privacy.optimal_shares(tree, epsilon=args.epsilon, objective=np.ones(tree.height))
    equal = gm.plan(tree, epsilon=args.epsilon)
    plan = gm.plan(tree, epsilon=args.epsilon, shares=shares)

    start = perf_counter()
    made = gm.release(tree, data.counts, epsilon=args.epsilon, shares=shares)
    seconds = perf_counter() - start
    print(
        f"released with epsilon = {args.epsilon} in {seconds:.3f} s (a first run compiles, too)\n"
    )
    whole = made.reprocess(nonnegative=True, integer=True)

    truth = tree.aggregate(data.counts)
    error = root_mean((made.values - truth) ** 2, level)
    whole_error = root_mean((whole.values - truth).astype(float) ** 2, level)
    overall = root_mean(made.std_error**2, level)[-1]
    nodes = [*np.bincount(level), tree.n]
    expected = [*(f"{x.std_error:.2f}" for x in equal.levels), ""]
    planned = [*plan.std_error, overall]
    print(f"{'':<20}{'':>9}{'expected error':>24}{'error of this release':>27}")
    print(f"{'level':<20}{'nodes':>9}{'equal shares':>14}{'ours':>10}{'ours':>14}{'whole':>13}")
    for name, n, *cells in zip(
        (*LEVELS, "all"), nodes, expected, planned, error, whole_error, strict=True
    ):
        text = "".join(f"{x:>{w}.2f}" for x, w in zip(cells[1:], (10, 14, 13), strict=True))
        print(f"{name:<20}{n:>9,}{cells[0]:>14}{text}")
    print("whole: the same release as non-negative whole numbers; their errors depend on the true")
    print("counts, so that users, who do not know these, estimate them with a bootstrap\n")
    print(whole.bootstrap(runs=5))
    print()

    low, high = made.interval(0.95)
    covered = np.mean((low <= truth) & (truth <= high))
    print(f"95 % intervals that hold the true count: {covered:.2%}")
    print(f"parent minus sum of children: {gm.consistency_bias(tree, whole.values):g}\n")
    print(made.ledger)


if __name__ == "__main__":
    main()
