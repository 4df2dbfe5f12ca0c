"""Structures from everything that people have, and what is neither a tree nor crossed trees."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from forecast.panels import GROUPED, SPARSE, data, shuffled
from hypothesis import given
from hypothesis import strategies as st
from reference import forecasts as dense
from scipy import sparse

import gmtree as gm
from gmtree.forecast import Structure
from gmtree.forecast.solver import Weights


def reconciled(d, *structure, **options):
    found = gm.forecast.reconcile(shuffled(d.base), *structure, method="wls_struct", **options)
    return found.sort_index()["m/MinTrace_method-wls_struct"].to_numpy()


@pytest.mark.parametrize("spec", ["strict", "grouped", "missing pairs"])
def test_all_ways_to_tell_a_structure_give_the_same(spec):
    d = data(spec)
    expected = dense.coherent(d.S, d.wide("m"), d.S.sum(axis=1))
    first = reconciled(d, d.structure)
    wide = d.wide("x", d.base.assign(x=first))
    np.testing.assert_allclose(wide, expected, atol=1e-9)
    ways = {
        "frame": (d.S_df,),
        "frame and tags": (d.S_df, d.tags),
        "frame of polars": (pl.from_pandas(d.S_df), d.tags),
        "index": (d.S_df.set_index("unique_id"),),
        "shuffled": (d.S_df.sample(frac=1, random_state=1),),
        "matrix": (d.S, d.tags),
        "sparse matrix": (sparse.csr_matrix(d.S), d.tags),
        "sparse columns": (d.S_df.set_index("unique_id").astype(pd.SparseDtype(float, 0)),),
        "spelled": (None, d.tags),
    }
    for name, way in ways.items():
        np.testing.assert_allclose(reconciled(d, *way), first, atol=1e-9, err_msg=name)
    for kind in (d.bottom, pl.from_pandas(d.bottom)):
        np.testing.assert_allclose(reconciled(d, kind, spec=d.spec), first, atol=1e-9)


def test_their_own_sparse_matrix():
    utils = pytest.importorskip("hierarchicalforecast.utils")
    d = data("grouped")
    Y, S, tags = utils.aggregate(d.bottom, d.spec, sparse_s=True)
    assert reconciled(d, S, tags) == pytest.approx(reconciled(d, d.structure), abs=1e-9)
    ours = gm.forecast.aggregate(d.bottom, d.spec)
    pd.testing.assert_frame_equal(Y, ours[0], check_dtype=False)
    assert list(tags) == list(ours[2])
    for name in tags:
        assert tags[name].tolist() == ours[2][name].tolist()


def test_aggregate_for_all_kinds_of_frames():
    d = data("grouped")
    for frame in (pl.from_pandas(d.bottom), pl.from_pandas(d.bottom).to_arrow()):
        Y, structure, _ = gm.forecast.aggregate(frame, d.spec)
        assert type(Y) is type(frame)
        assert Y["y"].to_numpy() == pytest.approx(
            gm.forecast.aggregate(d.bottom, d.spec)[0].y.to_numpy()
        )
        assert structure.labels.tolist() == d.structure.labels.tolist()


def test_parents_as_darts_has_them():
    hierarchy = {"a x": ["a", "x"], "a y": ["a", "y"], "b x": ["b", "x"], "b y": ["b", "y"],
                 "a": ["total"], "b": ["total"], "x": ["total"], "y": ["total"]}  # fmt: skip
    structure = Structure(hierarchy)
    assert [tree.n for tree in structure.trees] == [3, 3]
    assert structure.matrix.toarray().sum() == 4 * 4
    tree = Structure({"a": "total", "b": ["total"]})
    assert tree.tree == gm.Tree.from_parents([-1, 0, 0])
    assert Structure({"a": "all", "b": "all", "all": None}).labels.tolist() == ["all", "a", "b"]
    for wrong, rule in (
        ({}, "at least one series"),
        ({"a": "b", "b": "a"}, "ring"),
        ({"a": "b", "b": "a", "c": "a"}, "ring"),
        ({"a": "a", "b": "all"}, "'a' is in a ring"),
        ({"a": "all", "b": ""}, "one has no name"),
        ({"a": "all", "b": np.nan}, "one has no name"),
        ({"all": ["a", "b"]}, "not to its parts"),
    ):
        with pytest.raises(ValueError, match=rule):
            Structure(wrong)
    base = pd.DataFrame({"unique_id": ["all", "a", "b"], "ds": 1, "m": [10.0, 3.0, -2.0]})
    with pytest.raises(ValueError, match="'al' is part of nothing, as others are"):
        gm.forecast.reconcile(base, {"a": "all", "b": "al"})
    numbered = base.assign(unique_id=[0, 1, 2]).iloc[[2, 0, 1]]
    for part_of in ({1: 0, 2: 0}, {1: [0], 2: np.array([0]), 0: None}):
        found = gm.forecast.reconcile(numbered, part_of, method="ols")
        assert found["m/MinTrace_method-ols"].tolist() == pytest.approx([1.0, 7.0, 6.0])
    with pytest.raises(ValueError, match="such as 90, not fractions"):
        gm.forecast.reconcile(base, {"a": "all", "b": "all"}, level=[0.9])


def test_trees_and_calendars():
    year = Structure(gm.shapes.calendar("2024-01-01", "2025-01-01"))
    assert (year.n, year.n_leaves) == (17, 12)
    assert year.tags["depth 2"].tolist() == [f"2024-Q{k}" for k in range(1, 5)]
    with pytest.raises(ValueError, match="tree with labels"):
        Structure(gm.shapes.star(3))


def test_names_need_not_spell_the_path():
    S = pd.DataFrame({"unique_id": ["all", "left", "l1", "l2", "r"], "l1": [1, 1, 1, 0, 0],
                      "l2": [1, 1, 0, 1, 0], "r": [1, 0, 0, 0, 1]})  # fmt: skip
    assert Structure(S).tree == gm.Tree.from_parents([-1, 0, 1, 1, 0])


def test_single_children_and_duplicate_series():
    # "a" has one child; "copy" is "b" again; in the grouped one, "north too" is "north" again.
    S = pd.DataFrame({"unique_id": ["all", "a", "a1", "b", "copy", "c"], "a1": [1, 1, 1, 0, 0, 0],
                      "b": [1, 0, 0, 1, 1, 0], "c": [1, 0, 0, 0, 0, 1]})  # fmt: skip
    structure = Structure(S)
    y = np.array([[10.0], [3], [4], [2], [3], [1]])
    s = np.array([1.0, 2, 1, 1, 3, 2])
    x = Weights(structure, s).project(y)
    matrix = S.drop(columns="unique_id").to_numpy(float)
    np.testing.assert_allclose(x, dense.coherent(matrix, y, s), atol=1e-12)
    d = data("grouped")
    twice = np.vstack([d.S, d.S[[1, 5]]])
    labels = [*d.structure.labels, "north too", "again"]
    grouped = Structure(pd.DataFrame(twice, index=labels, columns=d.S_df.columns[1:]))
    assert grouped.tree is None
    rng = np.random.default_rng(0)
    y, s = rng.normal(10, 3, (len(twice), 2)), rng.uniform(1, 3, len(twice))
    weights = Weights(grouped, s)
    np.testing.assert_allclose(weights.project(y), dense.coherent(twice, y, s), atol=1e-8)
    noise = rng.uniform(1, 3, y.shape)
    np.testing.assert_allclose(
        weights.noise_variance(noise), dense.variance(twice, s, noise), rtol=1e-8
    )


def test_no_series_is_the_sum_of_all():
    d = data("strict")
    some = Structure(d.bottom, spec=d.spec[1:])
    assert not some.has_total
    assert some.tree is not None
    y = np.random.default_rng(0).normal(10, 3, (some.n, 2))
    S = some.matrix.toarray()
    np.testing.assert_allclose(
        Weights(some, None).project(y), dense.coherent(S, y, np.ones(some.n)), atol=1e-12
    )


@pytest.mark.parametrize(("spec", "sizes"), [(GROUPED, [4, 7]), (SPARSE, [4, 15])])
def test_groups_are_crossed_trees(spec, sizes):
    structure = Structure(data("strict").bottom, spec=spec)
    assert sorted(tree.n for tree in structure.trees) == sizes or len(structure.trees) == 2
    assert "2 crossed trees" in repr(structure)


def test_three_ways_to_cut():
    rows = [(a, b, c) for a in "ab" for b in "xyz" for c in "12"]
    frame = dict(zip(("i", "j", "k"), map(list, zip(*rows, strict=True)), strict=True))
    structure = Structure(frame, spec=[["i"], ["j"], ["k"], ["i", "j"], ["i", "j", "k"]])
    assert sorted(tree.n for tree in structure.trees) == [3, 3, 4]
    S = structure.matrix.toarray()
    y = np.random.default_rng(0).normal(10, 3, (structure.n, 2))
    s = structure.size.astype(float)
    np.testing.assert_allclose(Weights(structure, s).project(y), dense.coherent(S, y, s), atol=1e-8)


@given(st.integers(0, 2**32 - 1))
def test_any_levels_are_crossed_trees_of_some_kind(seed):
    rng = np.random.default_rng(seed)
    leaves = int(rng.integers(2, 9))
    cuts = [rng.integers(0, rng.integers(1, 4), leaves) for _ in range(rng.integers(1, 4))]
    S = [np.ones(leaves)] + [(cut == c).astype(float) for cut in cuts for c in np.unique(cut)]
    S = np.vstack([*S, np.eye(leaves)])
    order = rng.permutation(len(S))
    structure = Structure(pd.DataFrame(S[order], index=[f"s{k}" for k in order]))
    y, s = rng.normal(0, 10, (len(S), 1)), rng.uniform(0.5, 2, len(S))
    expected = dense.coherent(S, y, s)[order]
    np.testing.assert_allclose(Weights(structure, s[order]).project(y[order]), expected, atol=1e-7)


def test_what_is_too_entangled_is_refused_by_name():
    rng = np.random.default_rng(0)
    leaves = 60
    overlapping = rng.random((40, leaves)) < 0.5
    S = np.vstack([np.ones(leaves), overlapping, np.eye(leaves)])
    frame = pd.DataFrame(S, index=[f"s{k}" for k in range(len(S))])
    with pytest.raises(ValueError, match=r"series 's\d+' and series 's\d+' share only some"):
        Structure(frame)


@pytest.mark.parametrize(
    ("S", "tags", "message"),
    [
        (None, None, "'S_df' must be given"),
        (np.eye(2), None, "'tags' must name the rows"),
        (np.eye(2), {"a": ["x"]}, "'tags' must name each row"),
        (3, None, "'S_df' must be a frame"),
        (pd.DataFrame({"unique_id": ["a", "a"], "a": [1, 0], "b": [0, 1]}), None, "repeats 'a'"),
        (pd.DataFrame({"unique_id": ["a", "b"], "a": [1, 0], "b": [0, 2]}), None, "only 0 and 1"),
        (pd.DataFrame({"unique_id": ["t", "a"], "a": [1, 1], "b": [1, 0]}), None, "column 'b'"),
        (pd.DataFrame({"unique_id": ["a", "b"], "b": [1, 0], "a": [0, 1]}), None, "columns alike"),
        (pd.DataFrame({"unique_id": ["a", "b"], "a": [1, 0], "b": [0, 0]}), None, "series 'b' has"),
        (pd.DataFrame({"unique_id": ["a"], "a": [1]}), {"x": ["q"]}, "series of S_df, not 'q'"),
        (None, {"c": ["T"], "c/st": ["T/A", "B"]}, "spell the path"),
        (None, {"c": ["U"], "c/st": ["T/A"]}, "'U' has no leaf"),
    ],
)  # fmt: skip
def test_wrong_structures(S, tags, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Structure(S, tags)


def test_wrong_specifications():
    frame = {"a": ["x", "y"], "b": ["1", None]}
    for spec, message in [("a", "'spec'"), ([], "'spec'"), ([["a"], ["c"]], "'spec'"),
                          ([["a"], ["b"]], "all columns"), (["a", "b"], "row 1 has none"),
                          ([["a"], ["a"]], "once")]:  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=message):
            Structure(frame, spec=spec)
