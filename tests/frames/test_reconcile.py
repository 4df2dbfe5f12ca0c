"""Frames made consistent, and released."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from frames.kinds import KINDS, MAKE, by_path, kind_of, listed, names, shuffled
from frames.test_alignment import COUNTS, LEAVES, LEVELS, NODES, NOISY, TREE, by_leaf, by_node
from hypothesis import given, settings
from hypothesis import strategies as st

import gmtree as gm

# Random values contradict each other.
pytestmark = pytest.mark.filterwarnings("ignore::gmtree.DataWarning")

PATHS = list(zip(*NODES.values(), strict=True))
seeds = st.integers(0, 2**32 - 1)
OPTIONS = [{}, {"nonnegative": True}, {"integer": True}, {"nonnegative": True, "integer": True}]


def expected(values, variance=None, **options):
    return dict(zip(PATHS, gm.reconcile(TREE, values, variance, **options).tolist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", OPTIONS)
@given(seed=seeds)
@settings(max_examples=10)
def test_rows_in_any_order_give_the_same_numbers(kind, options, seed):
    values = np.random.default_rng(seed).normal(3, 5, 6)
    frame = MAKE[kind](by_node(seed, values.tolist()))
    out = gm.reconcile_frame(frame, LEVELS, "x", **options)
    assert kind_of(out) == kind
    assert names(out) == names(frame)
    assert listed(out, "state") == listed(frame, "state")
    assert by_path(out, LEVELS, "x") == pytest.approx(expected(values, **options))


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=10)
def test_groups_and_columns_are_right_hand_sides(kind, seed):
    rng = np.random.default_rng(seed)
    days, products = ["mon", "tue", "wed"], [1, 2]
    rows = [(d, p, *path) for d in days for p in products for path in PATHS]
    columns = dict(
        zip(("day", "product", *LEVELS), map(list, zip(*rows, strict=True)), strict=True)
    )
    columns |= {name: rng.normal(10, 3, len(rows)).tolist() for name in ("x", "y")}
    columns["v"] = rng.choice([1.0, 2.0, 4.0], len(rows)).tolist()
    frame = MAKE[kind](shuffled(columns, seed))
    for variance in (None, "v", {"county": 3.0, "total": 0.0}):
        out = gm.reconcile_frame(
            frame, LEVELS, ["x", "y"], by=["day", "product"], variance=variance
        )
        found = {name: by_path(out, ["day", "product", *LEVELS], name) for name in ("x", "y", "v")}
        start = {name: by_path(frame, ["day", "product", *LEVELS], name) for name in ("x", "y")}
        for d in days:
            for p in products:
                s = None
                if variance == "v":
                    s = [found["v"][(d, p, *path)] for path in PATHS]
                elif variance is not None:
                    s = [0, 1, 1, 3, 3, 3]
                for name in ("x", "y"):
                    noisy = [start[name][(d, p, *path)] for path in PATHS]
                    for path, x in expected(noisy, s).items():
                        assert found[name][(d, p, *path)] == pytest.approx(x)


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_without_rows_are_added(kind):
    frame = MAKE[kind]({**by_leaf(5), "note": ["p", "q", "r"]})
    out = gm.reconcile_frame(frame, LEVELS, "x")
    assert by_path(out, LEVELS, "x") == dict(zip(PATHS, [12, 7, 5, 3, 4, 5], strict=True))
    assert listed(out, "note") == ["p", "q", "r", None, None, None]
    assert listed(out, "state")[:3] == listed(frame, "state")
    whole = gm.reconcile_frame(frame, LEVELS, "x", integer=True)
    assert all(isinstance(x, int) for x in listed(whole, "x"))


@pytest.mark.parametrize("kind", KINDS)
def test_added_rows_know_their_group_and_the_types_of_labels(kind):
    columns = {"day": ["mon", "tue"], "state": [1, 1], "county": [7, 7], "x": [3.0, 4.0]}
    more = {"day": ["mon", "tue"], "state": [2, 2], "county": [7, 7], "x": [1.0, 2.0]}
    frame = MAKE[kind]({name: columns[name] + more[name] for name in columns})
    out = gm.reconcile_frame(frame, LEVELS, "x", by="day")
    found = by_path(out, ["day", *LEVELS], "x")
    assert found["tue", None, None] == 6
    assert found["mon", 1, None] == 3
    assert len(found) == 10


def test_kinds_of_columns_survive():
    frame = pd.DataFrame(by_leaf()).astype({"state": "category"})
    out = gm.reconcile_frame(frame, LEVELS, "x")
    assert out.state.dtype == frame.state.dtype
    frame = pl.DataFrame(by_leaf()).with_columns(pl.col("state").cast(pl.Categorical))
    out = gm.reconcile_frame(frame, LEVELS, "x")
    assert out["state"].dtype == pl.Categorical
    assert out["state"].to_list()[3:] == [None, "NY", "VT"]
    indexed = pd.DataFrame(by_node(4)).set_index(LEVELS)
    out = gm.reconcile_frame(indexed, LEVELS, "x")
    assert by_path(out, LEVELS, "x") == pytest.approx(expected(NOISY))
    labelled = pd.DataFrame(by_node(4), index=list("fedcba"))
    assert gm.reconcile_frame(labelled, LEVELS, "x").index.tolist() == list("fedcba")


def two_values(places, make):
    """The rows of a total and of a place, or of its region if the place is missing."""
    return make({"region": [None, "N"], "place": places, "x": [10.0, 6.0]})


OWN_AND_WIDER = {
    "pandas categorical": (
        two_values(pd.Categorical([None, "a"]), pd.DataFrame),
        ["a", "b"],
        pd.CategoricalDtype(["a", "b"]),
    ),
    "pandas categorical of whole numbers": (
        two_values(pd.Categorical([None, 3], ordered=True), pd.DataFrame),
        [3, 1],
        pd.CategoricalDtype([3, 1], ordered=True),
    ),
    "pandas seconds": (
        two_values(np.array(["NaT", "2020-01-01"], "M8[s]"), pd.DataFrame),
        np.array(["2020-01-01", "2020-01-01T00:00:00.5"], "M8[us]"),
        np.dtype("M8[us]"),
    ),
    "pandas without labels": (two_values([np.nan, np.nan], pd.DataFrame), ["a", "b"], None),
    "polars enum": (
        two_values(pl.Series([None, "a"], dtype=pl.Enum(["a"])), pl.DataFrame),
        ["a", "b"],
        pl.Enum(["a", "b"]),
    ),
    "polars eight bits": (
        two_values(pl.Series([None, 1], dtype=pl.Int8), pl.DataFrame),
        [1, 300],
        pl.Int64,
    ),
    "polars milliseconds": (
        two_values(pl.Series([None, 0], dtype=pl.Datetime("ms")), pl.DataFrame),
        np.array([0, 1], "M8[us]"),
        pl.Datetime("us"),
    ),
    "polars without labels": (two_values([None, None], pl.DataFrame), ["a", "b"], pl.String),
    "pyarrow eight bits": (
        two_values(pa.array([None, 1], pa.int8()), pa.table),
        [1, 300],
        pa.int64(),
    ),
    "pyarrow eight bits that suffice": (
        two_values(pa.array([None, 1], pa.int8()), pa.table),
        [1, 3],
        pa.int8(),
    ),
    "pyarrow dictionary": (
        two_values(pa.array([None, "a"]).dictionary_encode(), pa.table),
        ["a", "b"],
        pa.dictionary(pa.int32(), pa.string()),
    ),
    "pyarrow dictionaries by chunk": (
        two_values(
            pa.chunked_array(
                [
                    pa.DictionaryArray.from_arrays(pa.array([None], pa.int32()), ["b"]),
                    pa.DictionaryArray.from_arrays(pa.array([1], pa.int32()), ["b", "a"]),
                ]
            ),
            pa.table,
        ),
        ["a", "b"],
        pa.dictionary(pa.int32(), pa.string()),
    ),
    "pyarrow without labels": (two_values(pa.nulls(2), pa.table), ["a", "b"], pa.string()),
}


@pytest.mark.parametrize("case", OWN_AND_WIDER)
def test_added_rows_keep_their_labels_in_columns_of_any_type(case):
    frame, places, dtype = OWN_AND_WIDER[case]
    tree = gm.Tree.from_levels(["N", "S"], places, levels=["region", "place"])
    out = gm.reconcile_frame(frame, ["region", "place"], "x", tree=tree)
    found = by_path(out, ["region", "place"], "x")
    first, second = tree.labels[3:].tolist()
    values = [10, 6, 4, 6, 4]
    paths = [(None, None), ("N", None), ("S", None), ("N", first), ("S", second)]
    assert found == dict(zip(paths, values, strict=True))
    if dtype is not None:
        assert (out["place"].type if kind_of(out) == "pyarrow" else out["place"].dtype) == dtype


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_of_the_kind_of_the_frame_whatever_lists_the_leaves(kind):
    frame = MAKE[kind](by_leaf(None, COUNTS))
    for other in KINDS:
        leaves = MAKE[other](LEAVES)
        tree = gm.Tree.from_levels(leaves)
        for given_tree in (leaves, tree):
            assert kind_of(gm.reconcile_frame(frame, LEVELS, "x", tree=given_tree)) == kind
            released = gm.release_frame(frame, LEVELS, count="x", tree=given_tree, epsilon=1)
            assert kind_of(released.to_frame()) == kind
            assert released.tree == tree
        assert kind_of(tree.to_frame()) == other


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_follow_from_the_others(kind):
    values = [13.0, 6.0, None, 2.5, 4.5, None]
    frame = MAKE[kind](by_node(2, values))
    s = [1, 1, np.inf, 1, 1, np.inf]
    noisy = [0 if x is None else x for x in values]
    out = gm.reconcile_frame(frame, LEVELS, "x")
    assert by_path(out, LEVELS, "x") == pytest.approx(expected(noisy, s))
    loose = MAKE[kind](by_node(None, [13.0, 6.0, 5.5, None, None, 5.0]))
    with pytest.raises(ValueError, match="node 3, 'total / NY / Albany' has no value, and none"):
        gm.reconcile_frame(loose, LEVELS, "x")


YEARS = {
    "year": [2024] * 4 + [2025] * 3,
    "town": [None, "North", "East", "West", None, "North", "West"],
    "x": [45.0, 15.0, 16.0, 12.0, 46.0, 33.0, 11.0],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_leaf_without_a_row_in_a_group_may_be_unmeasured_or_not_there(kind):
    """A town that another year has is either missing in this one or does not exist there."""
    make = MAKE[kind]
    with pytest.raises(ValueError, match=r"node 2, 'total / East' has none in the group year 2025"):
        gm.reconcile_frame(make(YEARS), ["town"], "x", by="year")
    not_there = {name: column[4:] for name, column in YEARS.items()}
    alone = gm.reconcile_frame(make(not_there), ["town"], "x", by="year")
    assert by_path(alone, ["town"], "x") == pytest.approx(
        {(None,): 46 - 2 / 3, ("North",): 33 + 2 / 3, ("West",): 11 + 2 / 3}
    )
    more = {"year": 2025, "town": "East", "x": None}
    unmeasured = {name: [*column, more[name]] for name, column in YEARS.items()}
    towns = make({"town": ["North", "East", "West"]})
    for frame, tree in ((unmeasured, None), (YEARS, towns)):
        out = gm.reconcile_frame(make(frame), ["town"], "x", by="year", tree=tree)
        assert by_path(out, ["year", "town"], "x")[2025, "East"] == pytest.approx(2)


def test_values_that_do_not_follow_are_told_with_their_group():
    frame = pd.DataFrame(YEARS | {"x": [45.0, 15.0, 16.0, 12.0, 46.0, None, 11.0]})
    with pytest.raises(
        ValueError, match="'total / North' has no value in the group year 2025, and"
    ):
        gm.reconcile_frame(frame, ["town"], "x", by="year", tree=frame[["town"]].iloc[1:4])


def test_exact_values_that_contradict_each_other_are_told_in_words_of_the_frame():
    frame = pd.DataFrame({"town": [None, "North", "West"], "x": [9.0, 4.0, 6.0]})
    message = "'value' must agree .*; node 0, 'total' is 9.0 but its children add up to 10.0"
    with pytest.raises(ValueError, match=message):
        gm.reconcile_frame(frame, ["town"], "x", variance=0)


def test_faults_in_the_list_of_leaves_are_told_of_it():
    frame = pd.DataFrame(by_leaf())
    leaves = frame[LEVELS]
    for fault in (leaves.assign(county=[None, "a", "b"]), pd.concat([leaves, leaves])):
        with pytest.raises(ValueError, match=r"'tree' must have one row for each leaf[.] .*row"):
            gm.reconcile_frame(frame, LEVELS, "x", tree=fault)
        with pytest.raises(ValueError, match=r"'tree' must have one row for each leaf[.] .*row"):
            gm.release_frame(frame[LEVELS], LEVELS, tree=fault, epsilon=1)


@pytest.mark.parametrize("kind", KINDS)
def test_misaligned_frames_are_refused(kind):
    make = MAKE[kind]
    twice = {name: [*x, x[3]] for name, x in by_node().items()}
    with pytest.raises(ValueError, match=r"rows 3 and 6 are both \('NY', 'Albany'\)"):
        gm.reconcile_frame(make(twice), LEVELS, "x")
    gap = by_node() | {"state": [None, "NY", "VT", None, "NY", "VT"]}
    with pytest.raises(ValueError, match="'county' must have no label below a missing one; row 3"):
        gm.reconcile_frame(make(gap), LEVELS, "x")
    foreign = by_node() | {"county": [None, None, None, "Alibi", "Orange", "Orange"]}
    for tree in (make(LEAVES), TREE):
        with pytest.raises(ValueError, match=r"row 3 has unknown labels: \('NY', 'Alibi'\)"):
            gm.reconcile_frame(make(foreign), LEVELS, "x", tree=tree)
        out = gm.reconcile_frame(make(by_node(1)), LEVELS, "x", tree=tree)
        assert by_path(out, LEVELS, "x") == pytest.approx(expected(NOISY))
    without = {name: x[:3] + x[4:] for name, x in by_node().items()}
    out = gm.reconcile_frame(make(without), LEVELS, "x", tree=make(LEAVES))
    assert by_path(out, LEVELS, "x") == pytest.approx(expected(NOISY, [1, 1, 1, np.inf, 1, 1]))
    with pytest.raises(ValueError, match="'day' must have no missing entries; row 1"):
        gm.reconcile_frame(make(by_node() | {"day": [1, None, 1, 1, 1, 1]}), LEVELS, "x", by="day")


def test_wrong_arguments_of_reconcile_frame():
    frame = pd.DataFrame(by_node())
    with pytest.raises(TypeError, match="'frame' must be a pandas or polars DataFrame"):
        gm.reconcile_frame(by_node(), LEVELS, "x")
    with pytest.raises(TypeError, match=r"call \.collect"):
        gm.reconcile_frame(pl.DataFrame(by_node()).lazy(), LEVELS, "x")
    with pytest.raises(ValueError, match="'value' must name columns of the frame, not 'z'"):
        gm.reconcile_frame(frame, LEVELS, "z")
    with pytest.raises(ValueError, match=r"must differ from .*; column 'state' is used twice"):
        gm.reconcile_frame(frame, LEVELS, "state")
    with pytest.raises(ValueError, match="'tree' must have the levels"):
        gm.reconcile_frame(frame, LEVELS, "x", tree=gm.shapes.star(3))
    with pytest.raises(ValueError, match=r"must have levels .*'total', 'state', .* not 'town'"):
        gm.reconcile_frame(frame, LEVELS, "x", variance={"town": 1.0})
    with pytest.raises(ValueError, match="must name at least one column"):
        gm.reconcile_frame(frame, LEVELS, [])
    bad = frame.assign(v=[1, 1, 1, -1, 1, 1])
    with pytest.raises(
        ValueError, match="'variance' must not be negative or missing; the variance of node 3"
    ):
        gm.reconcile_frame(bad, LEVELS, "x", variance="v")


# --------------------------------------------------------------------------- release_frame

MANY = [10**6, 2 * 10**6, 3 * 10**6]


def leaf_values(r):
    return dict(
        zip((r.tree.path(i)[1:] for i in r.tree.leaves), r.values[r.tree.leaves], strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=5)
def test_released_counts_belong_to_their_labels(kind, seed):
    true = dict(zip(zip(*LEAVES.values(), strict=True), MANY, strict=True))
    frame = MAKE[kind](by_leaf(seed, MANY))
    for tree in ({"tree": MAKE[kind](LEAVES)}, {"tree": TREE}, {"leaves_are_public": True}):
        r = gm.release_frame(frame, LEVELS, count="x", epsilon=10, **tree)
        assert leaf_values(r) == pytest.approx(true, abs=1000)
    assert kind_of(r.to_frame()) == kind


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_counted(kind):
    rows = [("NY", "Orange")] * 700 + [("VT", "Orange")] * 300
    columns = dict(zip(LEVELS, map(list, zip(*rows, strict=True)), strict=True))
    frame = MAKE[kind](shuffled(columns, 0))
    r = gm.release_frame(frame, LEVELS, tree=MAKE[kind](LEAVES), epsilon=10)
    found = leaf_values(r)
    assert found == pytest.approx(
        {("NY", "Albany"): 0, ("NY", "Orange"): 700, ("VT", "Orange"): 300}, abs=30
    )


@given(seed=seeds)
def test_the_order_of_rows_does_not_show_in_a_public_tree(seed):
    r = gm.release_frame(
        pd.DataFrame(by_leaf(seed)), LEVELS, leaves_are_public=True, epsilon=1, count="x"
    )
    assert r.tree == gm.Tree.from_levels(LEAVES, levels=LEVELS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [{}, {"count": "n"}, {"person": "who"}, {"ignore_unknown": True}], ids=str
)
def test_that_nobody_has_a_record_is_not_seen_from_an_error(kind, options):
    """A data set with one record and one without records are neighbours."""
    leaves = pd.DataFrame({"state": ["NY", "VT"], "county": ["a", "b"]})
    frame = MAKE[kind]({"state": ["NY"], "county": ["a"], "n": [1], "who": ["x"]})
    nobody = frame.iloc[:0] if kind == "pandas" else frame.slice(0, 0)
    r = gm.release_frame(nobody, LEVELS, tree=leaves, epsilon=1, **options)
    assert r.tree.n_leaves == 2


@pytest.mark.parametrize("kind", KINDS)
def test_release_frame_refuses_misaligned_rows_without_telling_labels(kind):
    make, public = MAKE[kind], MAKE[kind](LEAVES)
    with pytest.raises(ValueError, match="'tree' must list the leaves"):
        gm.release_frame(make(by_leaf()), LEVELS, count="x", epsilon=1)
    secret = by_leaf() | {"county": ["Albany", "Secret", "Orange"]}
    with pytest.raises(
        ValueError, match="must have labels of the tree; row 1 has unknown labels"
    ) as caught:
        gm.release_frame(make(secret), LEVELS, count="x", tree=public, epsilon=1)
    assert "Secret" not in str(caught.value)
    r = gm.release_frame(
        make(secret), LEVELS, count="x", tree=public, epsilon=10, ignore_unknown=True
    )
    assert leaf_values(r)["NY", "Orange"] == pytest.approx(0, abs=20)
    twice = {name: [*x, x[0]] for name, x in by_leaf().items()}
    stops = by_leaf() | {"county": ["Albany", "Orange", None]}
    with pytest.raises(ValueError, match="must have each leaf once if 'count' is given"):
        gm.release_frame(make(twice), LEVELS, count="x", tree=public, epsilon=1)
    with pytest.raises(ValueError, match="row 2 stops above one"):
        gm.release_frame(make(stops), LEVELS, count="x", tree=public, epsilon=1)
    stops = by_leaf() | {"county": ["Albany", "Secret", None]}
    with pytest.raises(ValueError, match="row 2 stops above one"):
        gm.release_frame(
            make(stops), LEVELS, count="x", tree=public, epsilon=1, ignore_unknown=True
        )
    with pytest.raises(TypeError, match="'count' must name a column of whole numbers"):
        gm.release_frame(
            make(by_leaf(None, [1.5, 2, 3])), LEVELS, count="x", tree=public, epsilon=1
        )
    with pytest.raises(ValueError, match="'leaves_are_public' must be False"):
        gm.release_frame(
            make(by_leaf()), LEVELS, count="x", tree=public, epsilon=1, leaves_are_public=True
        )
    with pytest.raises(ValueError, match="'county' must have no missing labels"):
        gm.release_frame(make(stops), LEVELS, count="x", epsilon=1, leaves_are_public=True)


def test_frames_need_their_own_library_only(monkeypatch):
    import sys

    for name in ("narwhals", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    gm.reconcile_frame(pd.DataFrame(by_leaf(None, COUNTS)), LEVELS, "x")
    with pytest.raises(ImportError, match=r"needs polars: pip install 'gmtree\[frames\]'"):
        TREE.to_frame(backend="polars")


def test_leaves_taken_from_the_rows_are_named_outside_the_guarantee():
    frame = pd.DataFrame(by_leaf())
    made = gm.release_frame(frame, LEVELS, count="x", epsilon=1, leaves_are_public=True)
    assert made.ledger.disclosures == (gm.privacy.LEAVES_FROM_RECORDS,)
    more = {"disclosures": ["The weather."], "leaves_are_public": True}
    made = gm.release_frame(frame, LEVELS, count="x", epsilon=1, **more)
    assert made.ledger.disclosures == ("The weather.", gm.privacy.LEAVES_FROM_RECORDS)
    public = pd.DataFrame(LEAVES)
    made = gm.release_frame(frame, LEVELS, count="x", epsilon=1, tree=public)
    assert made.ledger.disclosures == ()


def test_each_column_of_labels_is_encoded_once(monkeypatch):
    from gmtree.labels.libraries import adapter

    library, seen = adapter("pandas"), []
    encode = library.encode
    monkeypatch.setattr(library, "encode", lambda name, x: seen.append(name) or encode(name, x))
    frame = pd.DataFrame({"shop": ["a", "b", None], "day": 1, "y": [1.0, 2.0, 4.0]})
    _, info = gm.reconcile_frame(frame, ["shop"], "y", by="day", return_info=True)
    assert info.changes[0].group == (1,)
    assert sorted(seen) == ["day", "shop"]


def test_variances_are_not_taken_by_position():
    frame = pd.DataFrame({"shop": ["a", "b", None], "sales": [5.0, 3.0, 11.0]})
    for wrong in (frame.sales, [1, 2, 3]):
        with pytest.raises(TypeError, match=r"'variance' must be .* the name of a column"):
            gm.reconcile_frame(frame, ["shop"], "sales", variance=wrong)
