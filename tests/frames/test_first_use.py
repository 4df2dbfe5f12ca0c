"""What a first table of one's own often has: text for numbers, '' for missing, an index."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from frames.kinds import KINDS, MAKE

import gmtree as gm

SHOPS = ["a", "b", None]


# --------------------------------------------------------------------------- real numbers

NO_NUMBERS = {
    "text": ["1_0", "2", "3"],
    "booleans": [True, False, True],
    "dates": [dt.date(2020, 1, k) for k in (1, 2, 3)],
    "times": [dt.datetime(2020, 1, k) for k in (1, 2, 3)],
    "durations": [dt.timedelta(k) for k in (1, 2, 3)],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", NO_NUMBERS)
def test_only_real_numbers_are_values_and_variances(kind, what):
    frame = MAKE[kind]({"shop": SHOPS, "y": [1.0, 2.0, 3.0], "z": NO_NUMBERS[what]})
    tree = gm.Tree.from_levels(["a", "b"], levels=["shop"])
    with pytest.raises(TypeError, match="Argument 'z' must hold real numbers"):
        gm.reconcile_frame(frame, ["shop"], "z")
    with pytest.raises(TypeError, match="Argument 'z' must hold real numbers"):
        gm.reconcile_frame(frame, ["shop"], "y", variance="z")
    with pytest.raises(TypeError, match="Argument 'z' must hold real numbers"):
        tree.values(frame, value="z")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "z",
    [
        np.array([1, 1j, 2]),
        pd.array([True, None, False], dtype="boolean"),
        pd.array(["1", "2", "3"], dtype="string"),
        pd.Categorical(["1", "2", "3"]),
        np.array([1.0, True, None], dtype=object),
        np.array([1.0, "2", None], dtype=object),
        np.array([1.0, 1j, None], dtype=object),
        np.array([10**400, 1, 2], dtype=object),
    ],
)
def test_columns_of_pandas_without_real_numbers_are_refused(z):
    with pytest.raises(TypeError, match="Argument 'z' must hold real numbers"):
        gm.reconcile_frame(pd.DataFrame({"shop": SHOPS, "z": z}), ["shop"], "z")


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"shop": SHOPS, "z": np.array([1, 2.0, None], dtype=object)}),
        pd.DataFrame({"shop": SHOPS, "z": np.array([1, Decimal(2), np.nan], dtype=object)}),
        pd.DataFrame({"shop": SHOPS, "z": pd.array([1, 2, None], dtype="Int64")}),
        pd.DataFrame({"shop": SHOPS, "z": np.array([1, 2, pd.NA], dtype=object)}),
        pd.DataFrame({"shop": SHOPS, "z": pd.Categorical([1, 2, None])}),
        pl.DataFrame({"shop": SHOPS, "z": [1, 2, None]}),
        pl.DataFrame({"shop": SHOPS, "z": [Decimal(1), Decimal(2), None]}),
        pa.table({"shop": SHOPS, "z": [1, 2, None]}),
        pa.table({"shop": SHOPS, "z": [Decimal(1), Decimal(2), None]}),
        pa.table({"shop": SHOPS, "z": pa.array([1.0, 2.0, None]).dictionary_encode()}),
    ],
)
def test_real_numbers_of_all_kinds_and_missing_ones_are_taken(frame):
    tree = gm.Tree.from_levels(["a", "b"], levels=["shop"])
    values = tree.values(frame, value="z").values
    np.testing.assert_array_equal(values, [np.nan, 1, 2])
    out = gm.reconcile_frame(frame, ["shop"], "z")
    assert list(np.asarray(out["z"], dtype=float)) == [1, 2, 3]
