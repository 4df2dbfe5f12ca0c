"""Private tables under one account, and what they gain over independent noisy queries.

Every area of a small census, from the nation down to blocks, has a table of people by sex and age.
For every area, the total and the tables by sex, by age, and by both are published with one privacy
budget. The simplest way is to publish each noisy table as it is. Here the same noisy tables, with
the same privacy loss, are combined into the best estimate of all cells. So each table also benefits
from the other tables of its area, from the areas inside it, and from the areas around it. The
example prints and draws both errors, the expected ones and those of this release. Run it with

    python examples/private_tables.py --nodes 20000 --picture private_tables.png

The people are made up, so that errors can be measured. The noise is exact, and an account is
charged.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import gmtree as gm
from gmtree import privacy

AXES = {"sex": 2, "age": 9}
QUERIES = [(), ("sex",), ("age",), ("sex", "age")]
# Relative shares of the budget at every level. Most of it goes to single cells.
SHARES = {(): 2, ("sex",): 1, ("age",): 3, ("sex", "age"): 6}
NAMES = {(): "total", ("sex",): "by sex", ("age",): "by age", ("sex", "age"): "one cell"}
LEVELS = gm.datasets.CENSUS_LEVELS


def people(tree: gm.Tree, seed: int) -> np.ndarray:
    """Tables of the blocks: few people in most of them, with an age pyramid."""
    rng = np.random.default_rng(seed)
    blocks = rng.negative_binomial(0.5, 0.02, tree.n_leaves)
    age = np.linspace(1.4, 0.2, AXES["age"])
    share = np.outer([0.49, 0.51], age).ravel()
    return rng.multinomial(blocks, share / share.sum()).reshape(-1, *AXES.values())


def by_level(tree: gm.Tree, squares: np.ndarray) -> np.ndarray:
    """Root mean square of the cells of all nodes of each level."""
    mean = squares.reshape(tree.n, -1).mean(axis=1)
    return np.sqrt(np.bincount(tree.depth, mean)[1:] / np.bincount(tree.depth)[1:])


def draw(path: Path, plan: privacy.Plan, happened: dict[tuple, np.ndarray], title: str) -> None:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("--picture needs matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.6), layout="constrained")
    for k, query in enumerate(QUERIES):
        lines = [line for line in plan.levels if line.query == query]
        noise = np.array([line.noise for line in lines])
        error = np.array([line.std_error for line in lines])
        left.plot(LEVELS, noise, "--", color=f"C{k}", alpha=0.6)
        left.plot(LEVELS, error, "-", color=f"C{k}", label=NAMES[query])
        left.plot(LEVELS, happened[query], "o", color=f"C{k}")
        right.plot(LEVELS, (noise / error) ** 2, "o-", color=f"C{k}", label=NAMES[query])
    left.plot([], [], "--", color="0.5", label="independent")
    left.plot([], [], "ok", label="as it happened")
    left.set(title=f"error, {title}", ylabel="root mean square error (people)", ylim=(0, None))
    right.set(title="budget that independent queries would need", ylabel="times as much rho",
              ylim=(1, None))  # fmt: skip
    for panel in (left, right):
        panel.tick_params(axis="x", rotation=35)
        panel.grid(alpha=0.3)
        panel.legend(ncols=2)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"\npicture: {path}")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2000, help="size of the tree")
    parser.add_argument("--epsilon", default="1", help="target, with delta = 1e-9")
    parser.add_argument("--seed", type=int, default=0, help="seed of the people, not of the noise")
    parser.add_argument("--picture", type=Path, help="draw the errors into this file")
    args = parser.parse_args(argv)

    tree = gm.datasets.census2010(nodes=args.nodes).tree
    counts = people(tree, args.seed)
    truth = tree.aggregate(counts.reshape(tree.n_leaves, -1)).reshape(tree.n, *AXES.values())
    print(f"{tree.n:,} areas with tables of {truth[0].size} cells, {counts.sum():,} people\n")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "budget.json"
        account = privacy.Account(epsilon=args.epsilon, delta="1e-9", path=path)
        r = gm.release_tables(
            tree, counts, axes=AXES, queries=QUERIES, shares=SHARES, rho=account.left * 3 / 4,
            account=account,
        )  # fmt: skip
        try:
            gm.release(tree, counts.sum(axis=(1, 2)), rho=account.budget / 2, account=account)
        except ValueError as error:
            print(f"A second release of half the budget is refused:\n  {error}\n")
        print(f"{account}\n")

    happened, independent = {}, {}
    for query in QUERIES:
        others = tuple(k for k, axis in enumerate(AXES, start=1) if axis not in query)
        true = truth.sum(axis=others)
        happened[query] = by_level(tree, (r.marginal(query) - true) ** 2)
        independent[query] = by_level(tree, (r.noisy[query] - true) ** 2)
    print("root mean square error        independent            combined               same with")
    print("                              expected  happened     expected  happened     times rho")
    for line in r.plan.levels:
        level = line.level - 1
        cells = f"{line.noise:9.2f} {independent[line.query][level]:9.2f}"
        cells += f"    {line.std_error:9.2f} {happened[line.query][level]:9.2f}"
        gain = (line.noise / line.std_error) ** 2
        print(f"{LEVELS[level]:<18} {NAMES[line.query]:<9}{cells}     {gain:9.2f}")
    gain = np.mean([(line.noise / line.std_error) ** 2 for line in r.plan.levels])
    print(
        f"\nOn average over levels and queries, independent queries need {gain:.2f} times the rho."
    )
    if args.picture:
        draw(args.picture, r.plan, happened, f"epsilon = {args.epsilon}, delta = 1e-9")


if __name__ == "__main__":
    main()
