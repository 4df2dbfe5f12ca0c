"""Hierarchies, groups and base forecasts to test with."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl

import gmtree as gm
from gmtree.labels.columns import encode

STRICT = [["c"], ["c", "st"], ["c", "st", "rg"], ["c", "st", "rg", "p"]]
GROUPED = [["c"], ["c", "st"], ["c", "st", "rg"], ["c", "p"], ["c", "st", "p"],
           ["c", "st", "rg", "p"]]  # fmt: skip
SPARSE = [["c"], ["c", "st"], ["c", "p"], ["c", "st", "rg", "p"]]
SPECS = {"strict": STRICT, "grouped": GROUPED, "some levels only": SPARSE}


# pandas DataFrames, and the same data in each other library.
KINDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pl.from_pandas(frame).to_arrow(),
}


class Data(NamedTuple):
    """Base forecasts, past values and the structure."""

    bottom: pd.DataFrame
    past: pd.DataFrame
    base: pd.DataFrame
    structure: gm.forecast.Structure
    tags: dict[str, np.ndarray]
    S_df: pd.DataFrame
    spec: list[list[str]]

    @property
    def S(self) -> np.ndarray:
        return self.structure.matrix.toarray()

    def wide(self, name: str, frame: pd.DataFrame | None = None) -> np.ndarray:
        """A column by series, in the order of the structure, and time."""
        frame = self.base if frame is None else frame
        found = frame.pivot(index="unique_id", columns="ds", values=name)
        return found.loc[list(self.structure.labels)].to_numpy()


def data(spec: Any = "strict", seed: int = 0, periods: int = 20, steps: int = 3) -> Data:
    """Twelve leaves, or fewer where some combinations do not exist."""
    rng = np.random.default_rng(seed)
    leaves = list(product("AB", "12", "xyz"))
    if spec == "missing pairs":
        leaves.remove(("A", "2", "y"))
        leaves.remove(("B", "1", "x"))
        leaves.remove(("B", "2", "x"))
    spec = SPECS.get(spec, GROUPED)
    times = pd.date_range("2020-01-01", periods=periods + steps, freq="MS")
    rows = [("T", a, a + b, c, t) for a, b, c in leaves for t in times]
    bottom = pd.DataFrame(rows, columns=["c", "st", "rg", "p", "ds"])
    bottom["y"] = rng.poisson(20, len(bottom)).astype(float)
    Y, structure, tags = gm.forecast.aggregate(bottom, spec)
    scale = structure.size[structure._locate("unique_id", encode("i", Y.unique_id))]
    Y["m"] = Y.y + rng.normal(0, 3, len(Y)) * np.sqrt(scale) * rng.choice([0.5, 1, 2], len(Y))
    cut = times[periods]
    past = Y[Y.ds < cut].reset_index(drop=True)
    base = Y[Y.ds >= cut].drop(columns="y").reset_index(drop=True)
    width = rng.uniform(2, 9, len(base))
    base["m-lo-90"], base["m-hi-90"] = base.m - width, base.m + width
    S = structure.matrix.toarray()
    S_df = pd.DataFrame(S, columns=structure.labels[structure.leaf])
    S_df.insert(0, "unique_id", structure.labels)
    return Data(bottom, past, base, structure, tags, S_df, spec)


def shuffled(frame: pd.DataFrame, seed: int = 3) -> pd.DataFrame:
    return frame.sample(frac=1, random_state=seed)
