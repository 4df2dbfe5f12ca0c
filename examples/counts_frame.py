"""A frame of counts with errors, made consistent, and published with differential privacy.

Three surveys of employment do not agree. The first has counted industries in states, the second
states, and the third the whole country, each with its own error. One call makes them agree, in
whatever order the rows come. Another call publishes true counts privately. Run it with

    python examples/counts_frame.py --picture released.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import gmtree as gm

LEVELS = ["region", "state", "industry"]
STATES = {
    "North": ["Alba", "Brumal", "Corrie"],
    "South": ["Delta", "Esker"],
    "West": ["Fjord", "Glade", "Haugh", "Inlet"],
}
INDUSTRIES = ["farming", "crafts", "trade", "care"]


def truth(rng: np.random.Generator) -> pd.DataFrame:
    """People employed, one row per state and industry."""
    rows = [
        (region, state, industry, int(rng.gamma(1.5, 800)))
        for region, states in STATES.items()
        for state in states
        for industry in INDUSTRIES
    ]
    return pd.DataFrame(rows, columns=[*LEVELS, "people"])


def surveys(true: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The results of three surveys in one frame, in random order, with a variance in each row."""
    parts = []
    for columns, error in ((LEVELS, 200.0), (LEVELS[:2], 150.0), ([], 300.0)):
        if columns:
            found = true.groupby(columns, as_index=False).people.sum()
        else:
            found = pd.DataFrame({"people": [true.people.sum()]})
        found["people"] = found.people + rng.normal(0, error, len(found))
        parts.append(found.assign(variance=error**2))
    return pd.concat(parts, ignore_index=True).sample(frac=1, random_state=1)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="seed of the surveys")
    parser.add_argument("--epsilon", default="0.1", help="privacy budget, such as 0.1 or 1/3")
    parser.add_argument("--picture", type=Path, help="draw the release into this file")
    args = parser.parse_args(argv)
    rng = np.random.default_rng(args.seed)

    true = truth(rng)
    noisy = surveys(true, rng)
    better = gm.reconcile_frame(noisy, LEVELS, "people", variance="variance", nonnegative=True)

    # `better` has the rows of `noisy`, with values that add up. Rows of regions, which no survey
    # had counted, were added at its end.
    tree = gm.Tree.from_levels(true, levels=LEVELS)
    table = tree.to_frame(
        true=tree.aggregate(true.people),
        surveyed=tree.align(noisy[[*LEVELS, "people"]]).values.round(),
        consistent=tree.align(better[[*LEVELS, "people"]]).values.round(),
    )
    top = table[table.depth <= 3].drop(columns=["node", "parent", "depth", "industry"])
    print(top.to_string(index=False, na_rep=""))
    measured = table.surveyed.notna()
    for name in ("surveyed", "consistent"):
        error = np.sqrt(np.mean((table[name] - table.true)[measured] ** 2))
        print(f"Root mean square error, {name}: {error:.0f} people")

    # Everyone knows which industries each state has. The counts are private.
    released = gm.release_frame(
        true,
        LEVELS,
        count="people",
        tree=tree,
        epsilon=args.epsilon,
        nonnegative=True,
        integer=True,
    )
    print(f"\n{released.plan}")
    if args.picture is not None:
        released.plot(unit="people").figure.savefig(args.picture, dpi=150)
        print(f"\n{args.picture}: noisy counts and consistent values")


if __name__ == "__main__":
    main()
