"""Two hierarchies at once: the states of the United States by division and region, and months.

Each pair of a place (state, division, region, nation) and a period (month, quarter, year) has a
forecast of its own. These forecasts add up neither over places nor over time. The closest forecasts
that do are better at every level: accurate forecasts of large sums improve those of their parts, in
both directions. Run it with

    python examples/crossed.py --picture crossed.png

The places are the four regions and nine divisions of the Census Bureau. The numbers are made up
from a size for each state, a season and noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import gmtree as gm

DIVISIONS = {
    ("Northeast", "New England"): "CT ME MA NH RI VT",
    ("Northeast", "Middle Atlantic"): "NJ NY PA",
    ("Midwest", "East North Central"): "IL IN MI OH WI",
    ("Midwest", "West North Central"): "IA KS MN MO NE ND SD",
    ("South", "South Atlantic"): "DE DC FL GA MD NC SC VA WV",
    ("South", "East South Central"): "AL KY MS TN",
    ("South", "West South Central"): "AR LA OK TX",
    ("West", "Mountain"): "AZ CO ID MT NV NM UT WY",
    ("West", "Pacific"): "AK CA HI OR WA",
}
PLACES = ("nation", "region", "division", "state")
PERIODS = ("year", "quarter", "month")


def places() -> gm.Tree:
    rows = [(*key, state) for key, states in DIVISIONS.items() for state in states.split()]
    return gm.Tree.from_levels(*map(list, zip(*rows, strict=True)))


def sums(trees: list[gm.Tree], leaves: np.ndarray) -> np.ndarray:
    """Values of all pairs, which are sums of pairs of leaves, first over places, then over time."""
    return trees[1].aggregate(trees[0].aggregate(leaves).T).T


def forecasts(
    trees: list[gm.Tree], truth: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Independent forecasts of all pairs, and their variances.

    A sum of m pairs of leaves is forecast with an error that grows with its size more slowly than
    that of a sum of m independent forecasts.
    """
    leaves = [tree.aggregate(np.ones(tree.n_leaves)) for tree in trees]
    deviation = 0.05 * np.median(truth) * np.multiply.outer(*leaves) ** 0.35
    return truth + deviation * rng.standard_normal(truth.shape), deviation**2


def print_table(trees: list[gm.Tree], errors: dict[str, np.ndarray]) -> None:
    print(f"\n{'root mean square error':<26}" + "".join(f"{name:>16}" for name in errors))
    for a, place in enumerate(PLACES, start=1):
        for b, period in enumerate(PERIODS, start=1):
            pairs = np.ix_(trees[0].depth == a, trees[1].depth == b)
            cells = "".join(f"{np.sqrt(np.mean(e[pairs] ** 2)):>16.1f}" for e in errors.values())
            print(f"  {place + ', ' + period:<24}{cells}")


def draw_picture(path: Path, trees: list[gm.Tree], errors: dict[str, np.ndarray]) -> None:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("--picture needs matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for b, (panel, period) in enumerate(zip(panels, PERIODS, strict=True), start=1):
        for name, e in errors.items():
            places = range(1, len(PLACES) + 1)
            pairs = [np.ix_(trees[0].depth == a, trees[1].depth == b) for a in places]
            panel.plot(PLACES, [np.sqrt(np.mean(e[p] ** 2)) for p in pairs], marker="o", label=name)
        panel.set(title=f"error per {period}", ylim=(0, None))
    panels[0].legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"\npicture: {path}")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20, help="how often forecasts are drawn")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    parser.add_argument("--picture", type=Path, help="draw the errors into this file")
    args = parser.parse_args(argv)

    rng = np.random.default_rng(args.seed)
    trees = [places(), gm.shapes.calendar("2024-01-01", "2025-01-01")]
    print(f"{trees[0].n} places x {trees[1].n} periods = {trees[0].n * trees[1].n} forecasts of "
          f"{trees[0].n_leaves * trees[1].n_leaves} numbers")  # fmt: skip
    season = 1 + 0.3 * np.sin(2 * np.pi * (np.arange(12) - 3) / 12)
    truth = sums(trees, np.outer(rng.lognormal(5, 1, trees[0].n_leaves), season))

    raw, one_way, both, missing = [], [], [], []
    for _ in range(args.draws):
        noisy, variance = forecasts(trees, truth, rng)
        post = gm.CrossedConsistency(trees, variance)
        raw.append(noisy - truth)
        # Consistent over places within each period, but not over time.
        one_way.append(gm.Consistency(trees[0], variance[:, 0]).project(noisy) - truth)
        both.append(post.project(noisy) - truth)
        # Half of the states report quarters only: their months were not forecast.
        unknown = variance.copy()
        states, months = trees[0].leaves[::2], trees[1].leaves
        unknown[np.ix_(states, months)] = np.inf
        partly = gm.CrossedConsistency(trees, unknown)
        x, info = partly.project(noisy, return_info=True)
        missing.append(x - truth)
    errors = {
        "forecasts": np.array(raw),
        "places only": np.array(one_way),
        "both ways": np.array(both),
        "months missing": np.array(missing),
    }
    print_table(trees, {name: np.sqrt(np.mean(e**2, axis=0)) for name, e in errors.items()})
    print(
        f"\nThese variances are products of one number per place and one per period. So one "
        f"projection over\nplaces and one over time give the exact optimum. If months are missing, "
        f"they do not.\nThen {info.iterations} iterations of conjugate gradients reached a "
        f"residual of {info.residual:.0e}."
    )
    expected = np.sqrt(post.node_variance()[trees[0].root, trees[1].root])
    found = np.sqrt(np.mean(errors["both ways"][:, trees[0].root, trees[1].root] ** 2))
    print(f"The year of the nation: standard error {expected:.1f}, found {found:.1f} in "
          f"{args.draws} draws.")  # fmt: skip
    if args.picture:
        draw_picture(
            args.picture, trees, {k: np.sqrt(np.mean(e**2, axis=0)) for k, e in errors.items()}
        )


if __name__ == "__main__":
    main()
