"""Typical first tables of users: numbers as text, '' for missing labels, an index."""

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
        tree.align(frame, value="z")


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
    values = tree.align(frame, value="z").values
    np.testing.assert_array_equal(values, [np.nan, 1, 2])
    out = gm.reconcile_frame(frame, ["shop"], "z")
    assert list(np.asarray(out["z"], dtype=float)) == [1, 2, 3]


# --------------------------------------------------------------------------- labels


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_text_is_no_label(kind):
    nodes = {"state": ["", "a", "a", "a"], "town": ["", "", "x", "y"], "y": [10.0, 9.5, 4.0, 5.5]}
    frame = MAKE[kind](nodes)
    with pytest.raises(ValueError, match=r"'state' must have no empty texts; row 0 .* None"):
        gm.reconcile_frame(frame, ["state", "town"], "y")
    tree = gm.Tree.from_levels(["a", "a"], ["x", "y"], levels=["state", "town"])
    with pytest.raises(ValueError, match=r"'state' must have no empty texts; .* None"):
        tree.align(frame)
    with pytest.raises(ValueError, match=r"'town' must have no empty texts; row 1"):
        gm.reconcile_frame(
            MAKE[kind](nodes | {"state": ["a"] * 4, "town": list("x") + [""] * 3}),
            ["state", "town"],
            "y",
        )


def test_a_category_that_no_row_has_may_be_empty():
    shop = pd.Categorical(SHOPS, categories=["", "a", "b", "total"])
    out = gm.reconcile_frame(pd.DataFrame({"shop": shop, "y": [1.0, 2.0, 3.0]}), ["shop"], "y")
    assert out["y"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_the_label_total_does_not_stand_for_the_root(kind):
    frame = MAKE[kind]({"shop": ["a", "b", "total"], "y": [1.0, 2.0, 3.0]})
    with pytest.raises(
        ValueError, match=r"'shop' must not have 'total' as one of several .* row 2 .* miss"
    ):
        gm.reconcile_frame(frame, ["shop"], "y")
    # A single label in the first level is the root.
    named = MAKE[kind]({"all": ["total"] * 3, "shop": SHOPS, "y": [1.0, 2.0, 6.0]})
    assert list(np.asarray(gm.reconcile_frame(named, ["all", "shop"], "y")["y"])) == [2, 3, 5]


def test_columns_of_edges_must_belong_together():
    child, parent = pd.Series(["a", "b", "r"]), pd.Series(["r", "r", None])
    assert gm.Tree.from_edges(child, parent).n == 3
    with pytest.raises(ValueError, match="'parent' must have the same index as 'child'"):
        gm.Tree.from_edges(child, parent.set_axis([2, 1, 0]))


def test_an_infinite_value_is_named_by_its_column_and_label():
    frame = pd.DataFrame({"shop": SHOPS, "y": [1.0, np.inf, 3.0], "z": [1.0, 2.0, -np.inf]})
    with pytest.raises(ValueError, match=r"'y' must be finite or missing; row 1, \('b'\), is inf"):
        gm.reconcile_frame(frame, ["shop"], "y")
    with pytest.raises(ValueError, match=r"'z' must be finite .* row 2, the total, is -inf"):
        gm.reconcile_frame(frame, ["shop"], "z")


# --------------------------------------------------------------------------- index


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (pd.RangeIndex(2), [0, 1, 2]),
        (pd.RangeIndex(10, 14, 2), [10, 12, 13]),
        (pd.Index([7, 3], name="id"), [7, 3, 8]),
        (pd.Index([3, 3]), [3, 3, 4]),
        (pd.Index(["p", "q"]), [0, 1, 2]),
        (pd.MultiIndex.from_tuples([(1, 2), (3, 4)]), [0, 1, 2]),
        (pd.Index([0, 2**63 - 1]), [0, 1, 2]),
    ],
)
def test_old_rows_keep_an_index_of_whole_numbers(index, expected):
    frame = pd.DataFrame({"shop": ["a", "b"], "y": [1.0, 2.0]}, index=index)
    out = gm.reconcile_frame(frame, ["shop"], "y")
    assert out.index.tolist() == expected
    assert out["y"].tolist() == [1, 2, 3]
    if out.index[0] == index[0]:
        assert out.index.name == index.name


def test_consistent_values_can_be_put_beside_the_old_ones():
    frame = pd.DataFrame({"shop": ["b", "a"], "y": [2.0, 1.0]}, index=[1, 0])
    frame["new"] = gm.reconcile_frame(frame, ["shop"], "y")["y"]
    assert frame["new"].tolist() == [2, 1]


TREE = gm.Tree.from_levels(["NY", "NY", "VT"], ["A", "B", "C"], levels=["state", "county"])


@pytest.mark.parametrize("name", [None, "shop"])
def test_the_label_of_the_root_stands_for_it_in_an_index(name):
    tree = gm.Tree.from_levels(["a", "b"], levels=["shop"])
    index = pd.Index(["b", "total", "a"], name=name)
    assert tree.align(pd.Series([2.0, 3.5, 1.0], index)).values.tolist() == [3.5, 1, 2]
    assert gm.reconcile(tree, pd.Series([2.0, 6.0, 1.0], index)).tolist() == [5, 2, 3]
    top = TREE.align(pd.Series([2.0, 3.0, 5.0], ["VT", "NY", "total"])).values
    np.testing.assert_array_equal(top, [5, 3, 2, np.nan, np.nan, np.nan])
    with pytest.raises(ValueError, match="must have each label once; rows 0 and 1"):
        tree.align(pd.Series([1.0, 2.0], pd.Index([None, "total"], name=name)))
    # A node below the root may have its label.
    twice = gm.Tree.from_levels(["a", "total"], levels=["shop"])
    np.testing.assert_array_equal(
        twice.align(pd.Series([1.0, 2.0], pd.Index(["total", "a"], name=name))).values,
        [np.nan, 2, 1],
    )


def test_a_plain_index_in_a_tree_of_several_levels_must_name_its_level():
    nodes = pd.Series(np.arange(6.0), ["total", "NY", "VT", "A", "B", "C"])
    message = r"must have a MultiIndex with the levels 'state', 'county',.* row 3"
    with pytest.raises(ValueError, match=message):
        TREE.align(nodes)
    with pytest.raises(ValueError, match=message):
        gm.reconcile(TREE, nodes)
    leaves = nodes[["C", "B", "A"]].rename_axis("county")
    assert TREE.aggregate(leaves).tolist() == [12, 7, 5, 3, 4, 5]
    with pytest.raises(ValueError, match=r"row 0 has unknown labels: \('CA'"):
        TREE.align(pd.Series([1.0], ["CA"]))


@pytest.mark.parametrize("turned", [False, True])
def test_numbers_where_the_tree_has_texts_are_named(turned):
    """35 and '35' are different labels; the message says which side has which."""
    codes = pd.DataFrame({"state": [35, 36], "county": [1, 2]})
    texts = codes.astype(str)
    tree = gm.Tree.from_levels(codes if turned else texts, levels=["state", "county"])
    found = (texts if turned else codes).assign(n=[1, 2])
    kinds = ("numbers", "texts") if turned else ("texts", "numbers")
    message = "labels of the tree are {}, those of the column {}[.]".format(*kinds)
    with pytest.raises(ValueError, match=message):
        gm.release_frame(found, ["state", "county"], count="n", tree=tree, epsilon=1)
    with pytest.raises(ValueError, match=message):
        gm.release_frame(
            found, ["state", "county"], count="n", tree=tree, epsilon=1, ignore_unknown=True
        )
    with pytest.raises(ValueError, match=message):
        gm.reconcile_frame(found, levels=["state", "county"], value="n", tree=tree)


def test_levels_from_fine_to_coarse_are_told():
    frame = pd.DataFrame({"state": ["NY", "NY"], "county": [None, "A"], "n": [1.0, 2.0]})
    by_county = gm.Tree.from_levels({"county": ["A"], "state": ["NY"]}, levels=["county", "state"])
    message = "no label below a missing one; row 0 has.*Levels go from coarse to fine"
    with pytest.raises(ValueError, match=message):
        gm.reconcile_frame(frame, levels=["county", "state"], value="n")
    with pytest.raises(ValueError, match=message):
        gm.reconcile_frame(frame, levels=["county", "state"], value="n", tree=by_county)


def test_dates_in_messages_are_text():
    days = np.array(["2024-01-01", "2024-01-01"], "datetime64[D]")
    with pytest.raises(ValueError, match=r"node 1 repeats the label 2024-01-01[.]"):
        gm.Tree.from_parents([-1, 0], labels=days).node(days[0])


def test_a_negative_variance_of_a_level_is_named():
    frame = pd.DataFrame({"state": [None, "NY"], "n": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"variance\['state'\]' must not be negative"):
        gm.reconcile_frame(frame, levels=["state"], value="n", variance={"state": -2})


def test_a_release_of_levels_from_fine_to_coarse_warns():
    towns = pd.DataFrame(
        {"town": [*"abcdefg"], "state": ["NY", "VT", "NY", "VT", "NY", "VT", "NY"]}
    )
    with pytest.warns(UserWarning, match="Is 'town' really coarser than 'state'"):
        gm.release_frame(towns, ["town", "state"], tree=towns, epsilon=1)
    assert gm.release_frame(towns, ["state", "town"], tree=towns, epsilon=1).tree.n == 10
