"""Quartiles of ages from a private tree of counts.

Each person is counted in one year of age. A binary tree over the years gets exact discrete noise at
every node, and quantiles follow from the consistent estimate. If OpenDP is installed, its function
for quantiles computes them from the same noisy tree, too. Run it with

    python examples/quantiles.py --people 20000 --rho 1/200 --draws 200

The ages are made up, so the true quartiles may be printed beside the release.
"""

from __future__ import annotations

import argparse

import numpy as np

import gmtree as gm

EDGES = np.arange(129.0)
QUARTILES = [0.25, 0.5, 0.75]


def opendp_quantiles(noisy: np.ndarray) -> list[float] | None:
    """The quartiles that OpenDP computes from a noisy binary tree, or None without OpenDP."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    consistent = dp.t.make_consistent_b_ary_tree(branching_factor=2)
    quantiles = dp.t.make_quantiles_from_counts(EDGES.tolist(), alphas=QUARTILES, TA="f64")
    return quantiles(consistent(noisy.tolist()))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=20_000, help="number of people")
    parser.add_argument("--rho", default="1/200", help="privacy budget, such as 0.1 or 1/200")
    parser.add_argument("--draws", type=int, default=20, help="releases for the mean errors")
    args = parser.parse_args(argv)

    rng = np.random.default_rng(1)
    ages = np.minimum(rng.gamma(4, 11, args.people), 127.9)
    counts, _ = np.histogram(ages, EDGES)
    truth = np.quantile(ages, QUARTILES)

    # Numbered by level, as OpenDP expects; `gm.shapes.dyadic(EDGES)` is the same tree with labels.
    tree = gm.shapes.complete(2, 8)
    r = gm.release(tree, counts, rho=args.rho)
    found = r.quantile(QUARTILES, edges=EDGES)
    print(r.ledger)
    for q, true, value, low, high in zip(QUARTILES, truth, *found, strict=True):
        print(f"{q:.0%} are below {value:.1f} (95 %: {low:g} to {high:g}); in truth {true:.1f}")

    ours, theirs = [], []
    for _ in range(args.draws):
        r = gm.release(tree, counts, rho=args.rho)
        ours.append(np.abs(r.quantile(QUARTILES, edges=EDGES).value - truth))
        other = opendp_quantiles(r.noisy)
        if other is not None:
            theirs.append(np.abs(np.array(other) - truth))
    print(f"mean error over {args.draws} draws: {np.mean(ours):.4f} years")
    if theirs:
        print(f"OpenDP on the same noise: {np.mean(theirs):.4f} years")

    shares = gm.plan(tree, rho=args.rho, workload="quantiles").shares
    best = [
        gm.release(tree, counts, rho=args.rho, shares=shares).quantile(QUARTILES, edges=EDGES).value
        for _ in range(args.draws)
    ]
    print(f"with shares for quantiles: {np.mean(np.abs(np.array(best) - truth)):.4f} years")


if __name__ == "__main__":
    main()
