"""Find a wrong electricity meter by comparing each meter with all others.

A town has a meter at the transformer station, one on each feeder, one in each building and one in
each flat. The loads are made up, but the errors are those of usual accuracy classes: 0.2 percent of
the reading at the station and on feeders, 0.5 percent in buildings and 1 percent in flats. One
building has a meter that shows 5 percent too little, because it was installed with the wrong
transformer ratio.

The building differs from the sum of its flats. From these meters alone it is not clear whether the
building or a flat is wrong, but the meter of the feeder decides it: a standardised residual
compares each meter with its best estimate from all other meters. The variances of errors are
computed from consistent values instead of readings, so that a wrong reading hardly changes its own
variance.
"""

from __future__ import annotations

import argparse

import numpy as np

import gmtree as gm

FEEDERS, BUILDINGS, FLATS = 12, 5, 15
ERROR = np.array([0.002, 0.002, 0.005, 0.01])  # by level: station, feeder, building, flat
WRONG = 0.95


def town(seed: int) -> tuple[gm.Tree, np.ndarray, tuple[str, ...]]:
    """The tree of meters, their readings in kWh per month, and the path of the wrong meter."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"feeder {f}", f"building {f}{chr(97 + b)}", f"flat {k}")
        for f in range(1, FEEDERS + 1)
        for b in range(BUILDINGS)
        for k in range(1, FLATS + 1)
    ]
    tree = gm.Tree.from_levels(*zip(*rows, strict=True), levels=["feeder", "building", "flat"])
    used = tree.aggregate(rng.lognormal(5.3, 0.5, tree.n_leaves))
    readings = used * (1 + ERROR[tree.depth - 1] * rng.normal(size=tree.n))
    wrong = tree.node(("feeder 4", "building 4c"))
    readings[wrong] *= WRONG
    return tree, readings, tree.path(wrong)


def diagnosed(tree: gm.Tree, readings: np.ndarray) -> gm.consistency.Diagnostics:
    """Compare all meters, with errors in proportion to what the meters should show."""
    expected = readings
    for _ in range(2):
        variance = {"node": np.square(ERROR[tree.depth - 1] * expected)}
        post = gm.Consistency(tree, variance)
        expected = post.project(readings)
    return post.diagnose(readings)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", metavar="FILE", help="where to draw the residuals")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    tree, readings, wrong = town(args.seed)
    d = diagnosed(tree, readings)
    print(d)
    worst = d.worst(1)[0]
    print(f"\nThe wrong meter is {' / '.join(wrong[1:])}.")
    print(
        f"Found:             {' / '.join(worst.path[1:])}, which shows {worst.measured:,.0f} kWh;"
    )
    print(f"all other meters say {worst.leave_one_out:,.0f} kWh, +-{worst.std_error:,.0f}.")
    assert worst.path == wrong
    if args.picture:
        ax = d.plot()
        ax.annotate(
            worst.path[-1], (tree.depth[worst.node] - 1, worst.standardized), xytext=(12, 4),
            textcoords="offset points",
        )  # fmt: skip
        ax.figure.savefig(args.picture, dpi=120)
        print(f"Picture: {args.picture}")


if __name__ == "__main__":
    main()
