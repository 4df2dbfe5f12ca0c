"""A census-shaped release: what consistency does to the error of every level.

People are counted at every level of a hierarchy of eight, from the country down to the block, and
each count gets noise of its own. Afterwards states no longer add up to the country. The
consistent values closest to the noisy ones do, and they are closer to the truth at every level;
by how much is known exactly, without the truth. Run it with

    python examples/census_release.py --nodes 200000 --scale 8

The noise here is numpy's: fine to see what post-processing does, but no protection of anyone.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np

import gmtree as gm

LEVELS = (
    "United States",
    "State",
    "County",
    "County Subdivision",
    "Place/Remainder",
    "Census Tract",
    "Block Group",
    "Block",
)


def root_mean(squares: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Square root of the mean over each level."""
    return np.sqrt(np.bincount(level, squares) / np.bincount(level))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=200_000, help="size of the tree")
    parser.add_argument("--scale", type=float, default=8.0, help="scale of the Laplace noise")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)

    data = gm.datasets.census2010(nodes=args.nodes)
    tree, truth = data.tree, data.tree.aggregate(data.counts)
    print(data)

    rng = np.random.default_rng(args.seed)
    noisy = truth + rng.laplace(0, args.scale, tree.n)

    start = perf_counter()
    # A Laplace variable of scale b has variance 2 b^2.
    post = gm.Consistency(tree, variance=2 * args.scale**2)
    released = post.project(noisy)
    seconds = perf_counter() - start
    print(f"Laplace noise of scale {args.scale:g}, made consistent in {seconds:.3f} s")
    print("(a first run compiles, too)\n")

    level = tree.depth - 1
    before = root_mean((noisy - truth) ** 2, level)
    after = root_mean((released - truth) ** 2, level)
    exact = root_mean(post.node_variance(), level)
    print(f"{'root mean square error':>45}  {'standard error':>17}")
    print(f"{'level':<20}{'nodes':>9}{'noisy':>8}{'released':>9}{'released, exact':>18}")
    for name, nodes, *errors in zip(LEVELS, np.bincount(level), before, after, exact, strict=True):
        print(f"{name:<20}{nodes:>9,}{errors[0]:>8.2f}{errors[1]:>9.2f}{errors[2]:>18.2f}")
    print(f"{'all':<20}{tree.n:>9,}", end="")
    everything = [(noisy - truth) ** 2, (released - truth) ** 2, post.node_variance()]
    print(
        "".join(f"{np.sqrt(x.mean()):>{w}.2f}" for x, w in zip(everything, (8, 9, 18), strict=True))
    )

    print("\nParent minus sum of children, root mean square:")
    print(f"    noisy    {gm.consistency_bias(tree, noisy):.2f}")
    print(f"    released {gm.consistency_bias(tree, released):.1e}")


if __name__ == "__main__":
    main()
