"""A small census: tables of people by sex and age at every level, and which marginals to measure.

Every area, from the nation down to blocks, has a table of people by sex and age. Its marginals are
measured with noise, and the total precision of one area is fixed: if more marginals are measured,
each of them is noisier. This example computes the standard errors for several choices of marginals,
exactly and without simulation. Then it draws noise once to compare, and rounds the result to whole
numbers of people. Run it with

    python examples/tables.py --nodes 5000 --picture tables.png

The people are made up, so that errors can be measured. The noise is drawn from a seed, so that it
must not be used for a release.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np

import gmtree as gm

# An age is a decade and a half of this decade. Two axes take the place of nested classes of ages.
AXES = {"sex": 2, "decade": 9, "half": 2}
TOTAL, SEX, DECADE = (), ("sex",), ("decade",)
AGE, WHOLE = ("decade", "half"), ("sex", "decade", "half")
CHOICES = {
    "whole table": [WHOLE],
    "and total": [TOTAL, WHOLE],
    "and sex": [TOTAL, SEX, WHOLE],
    "and decades": [TOTAL, SEX, DECADE, WHOLE],
}
ASKED = {"total": TOTAL, "by sex": SEX, "by decade": DECADE, "by age": AGE, "one cell": WHOLE}
LEVELS = gm.datasets.CENSUS_LEVELS
# Variance of each measurement when a single query is measured.
VARIANCE = 16.0


def people(tree: gm.Tree, rng: np.random.Generator) -> np.ndarray:
    """Tables of all nodes: few people in most blocks, with an age pyramid."""
    blocks = rng.negative_binomial(0.5, 0.02, tree.n_leaves)
    age = np.linspace(1.4, 0.2, 18)
    share = np.outer([0.49, 0.51], age / age.sum()).ravel()
    cells = rng.multinomial(blocks, share / share.sum())
    return tree.aggregate(cells).reshape(tree.n, *AXES.values())


def solver(tree: gm.Tree, queries: list[tuple[str, ...]]) -> gm.TableConsistency:
    """Tables with the precision of a node spread evenly over the queries."""
    return gm.TableConsistency(tree, AXES, {query: VARIANCE * len(queries) for query in queries})


def print_errors(tree: gm.Tree, errors: dict[str, dict[str, np.ndarray]]) -> None:
    for name, depth in (("tract", LEVELS.index("Census Tract") + 1), ("block", tree.height)):
        print(f"\nstandard error in a {name:<10}" + "".join(f"{asked:>12}" for asked in ASKED))
        for choice, by_query in errors.items():
            cells = "".join(
                f"{by_query[asked][tree.depth == depth].mean():12.2f}" for asked in ASKED
            )
            print(f"  {choice:<26}{cells}")


def draw_picture(path: Path, tree: gm.Tree, errors: dict[str, dict[str, np.ndarray]]) -> None:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("--picture needs matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    for panel, asked in zip(panels, ("total", "by decade", "one cell"), strict=True):
        for choice, by_query in errors.items():
            means = [by_query[asked][tree.depth == k].mean() for k in range(1, tree.height + 1)]
            panel.plot(LEVELS, means, marker="o", label=choice)
        panel.set(title=f"standard error: {asked}", ylim=(0, None))
        panel.tick_params(axis="x", rotation=35)
    panels[0].legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"\npicture: {path}")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2000, help="size of the tree")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise")
    parser.add_argument("--picture", type=Path, help="draw the errors into this file")
    args = parser.parse_args(argv)

    rng = np.random.default_rng(args.seed)
    tree = gm.datasets.census2010(nodes=args.nodes).tree
    truth = people(tree, rng)
    size, everyone = truth[0].size, truth[tree.root].sum()
    print(f"{tree.n:,} areas with tables of {size} cells, {everyone:,} people")

    errors = {
        choice: {
            asked: np.sqrt(solver(tree, queries).node_variance(query))
            for asked, query in ASKED.items()
        }
        for choice, queries in CHOICES.items()
    }
    print_errors(tree, errors)
    print(
        "\nSmaller errors of the total of a block cost larger errors of its cells. Ages by half"
        "\ndecade were not measured, but follow from the measurements, and have errors, too."
    )

    queries = CHOICES["and decades"]
    tables = solver(tree, queries)
    noise = np.sqrt(VARIANCE * len(queries))
    marginals = {query: tables.marginal(truth, query) for query in queries}
    noisy = {query: m + rng.normal(0, noise, m.shape) for query, m in marginals.items()}
    x = tables.project(noisy)
    start = perf_counter()
    bounded, info = tables.project(noisy, nonnegative=True, return_info=True)
    seconds = perf_counter() - start
    whole = tables.project(noisy, nonnegative=True, integer=True, start=info)
    print(f"\n{'root mean square error':<26}{'expected':>12}{'optimum':>12}{'no negatives':>14}"
          f"{'whole':>12}")  # fmt: skip
    for asked, query in ASKED.items():
        exact = tables.marginal(truth, query)
        expected = np.sqrt(np.mean(tables.node_variance(query)))
        found = [np.sqrt(np.mean((tables.marginal(a, query) - exact) ** 2))
                 for a in (x, bounded, whole)]  # fmt: skip
        print(f"  {asked:<24}{expected:>12.2f}{found[0]:>12.2f}{found[1]:>14.2f}{found[2]:>12.2f}")
    moved = tables.marginal(whole, TOTAL) - tables.marginal(bounded, TOTAL)
    print(
        f"\nno negatives: {info.iterations} iterations in {seconds:.2f} s (a first run compiles, "
        f"too), {info.at_bound / truth[tree.leaves].size:.0%} of the cells\n  of blocks are zero, "
        f"conditions of optimality are met to {info.violation:.0e} people\n"
        "whole numbers: each cell moves by less than 1 and sums up the tree are exact; totals\n"
        f"  of areas, sums of {size} cells, move by {np.sqrt(np.mean(moved**2)):.2f} as a rule and "
        f"by {abs(moved).max():.1f} at most"
    )
    if args.picture:
        draw_picture(args.picture, tree, errors)


if __name__ == "__main__":
    main()
