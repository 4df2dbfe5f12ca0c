"""Structures from all supported descriptions, with and without a tree."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from forecast.panels import KINDS, data, shuffled
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
def test_all_descriptions_of_a_structure_are_equivalent(spec):
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


FRAMES = {
    "pandas": lambda frame: frame,
    "nullable": lambda frame: frame.convert_dtypes(),
    "objects": lambda frame: frame.astype({"y": object}),
    "polars": pl.from_pandas,
    "128 bits": lambda frame: pl.from_pandas(frame).with_columns(pl.col("y").cast(pl.Int128)),
    "pyarrow": lambda frame: pl.from_pandas(frame).to_arrow(),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_sums_of_integers_are_exact(kind):
    spec = [["all"], ["all", "s"]]
    frame = pd.DataFrame({"all": "t", "s": list("abc"), "ds": [1, 1, 2], "y": [2**53, 1, 7]})
    Y = gm.forecast.aggregate(FRAMES[kind](frame), spec)[0]
    assert Y["y"].to_numpy().dtype == np.int64
    assert Y["y"].to_numpy().tolist() == [2**53 + 1, 7, 2**53, 1, 7]
    frame.y = -(2**62)
    Y = gm.forecast.aggregate(FRAMES[kind](frame), spec)[0]
    assert Y["y"].to_numpy().tolist() == [-(2**63), *[-(2**62)] * 4]
    frame.y = 2**62
    for error in (ValueError, OverflowError):
        with pytest.raises(error, match=r"'y' must have sums that fit .* series 't' at ds 1 does"):
            gm.forecast.aggregate(FRAMES[kind](frame), spec)


@pytest.mark.parametrize("dtype", [np.uint64, object])
def test_integers_of_more_than_63_bits_are_refused(dtype):
    frame = pd.DataFrame({"s": ["a", "b"], "ds": 1, "y": np.array([1, 2**63], dtype)})
    with pytest.raises(OverflowError, match="'y' must fit into 64-bit signed integers"):
        gm.forecast.aggregate(frame, [["s"]])


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_summaries_of_other_columns_are_theirs(kind):
    utils = pytest.importorskip("hierarchicalforecast.utils")
    d = data("grouped")
    rng = np.random.default_rng(0)
    bottom = d.bottom.assign(price=rng.uniform(1, 2, len(d.bottom)), open=rng.integers(0, 9, 276))
    how = {"price": ["mean", "max", "std"], "open": "sum", "y": ["median", "count"]}
    expected = utils.aggregate(bottom, d.spec, exog_vars=how)[0]
    found = gm.forecast.aggregate(KINDS[kind](bottom), d.spec, how)[0]
    names = list(found.columns) if kind != "pyarrow" else found.column_names
    assert names == list(expected)
    for name in names[3:]:
        np.testing.assert_allclose(found[name].to_numpy(), expected[name])
    with pytest.raises(ValueError, match=r"exog_vars\['price'\]' must be .*'median'.*, not 'best'"):
        gm.forecast.aggregate(bottom, d.spec, {"price": "best"})
    with pytest.raises(ValueError, match=r"'df' must have a column 'cost' .pass exog_vars"):
        gm.forecast.aggregate(bottom, d.spec, {"cost": "mean"})


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_structures_for_their_pipeline(kind):
    core = pytest.importorskip("hierarchicalforecast.core")
    methods = pytest.importorskip("hierarchicalforecast.methods")
    d = data("grouped")
    base = KINDS[kind](d.base[["unique_id", "ds", "m"]])
    for reconciler in (methods.MinTrace("ols"), methods.MinTraceSparse("ols")):
        pipeline = core.HierarchicalReconciliation([reconciler])
        found = pipeline.reconcile(base, tags=d.tags, S_df=d.structure.to_frame(backend=kind))
        expected = gm.forecast.reconcile(base, d.structure, method="ols")
        np.testing.assert_allclose(found[:, -1] if kind == "polars" else found.iloc[:, -1],
                                   expected["m/MinTrace_method-ols"], rtol=1e-6)  # fmt: skip


def test_leaves_come_last_in_frames():
    structure = Structure({"b": "all", "a": "all"})
    mixed = structure.to_frame().iloc[[2, 0, 1]]
    assert Structure(mixed).to_frame(backend="pyarrow")["unique_id"].to_pylist()[0] == "all"
    assert np.array_equal(Structure(mixed).to_frame().iloc[1:, 1:], np.eye(2))


def test_parents_as_darts_has_them():
    hierarchy = {"a x": ["a", "x"], "a y": ["a", "y"], "b x": ["b", "x"], "b y": ["b", "y"],
                 "a": ["total"], "b": ["total"], "x": ["total"], "y": ["total"]}  # fmt: skip
    structure = Structure(hierarchy)
    assert structure.tree is None
    assert structure.matrix.toarray().sum() == 4 * 4
    tree = Structure({"a": "total", "b": ["total"]})
    assert tree.tree == gm.Tree.from_parents([-1, 0, 0])
    assert Structure({"a": "all", "b": "all", "all": None}).labels.tolist() == ["all", "a", "b"]
    for wrong, rule in (
        ({}, "at least one series"),
        ({"a": "b", "b": "a"}, "part of itself"),
        ({"a": "b", "b": "a", "c": "a"}, "part of itself"),
        ({"a": "a", "b": "all"}, "'a' is, indirectly"),
        ({"a": "all", "b": ""}, "one has no name"),
        ({"a": "all", "b": np.nan}, "one has no name"),
        ({"all": ["a", "b"]}, "from 'all' to its parts"),
    ):
        with pytest.raises(ValueError, match=rule):
            Structure(wrong)
    base = pd.DataFrame({"unique_id": ["all", "a", "b"], "ds": 1, "m": [10.0, 3.0, -2.0]})
    with pytest.raises(
        ValueError, match="'al' is one of 2 series that are not part of another one"
    ):
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


def test_missing_leaves_follow_from_a_sum_and_a_difference():
    S = Structure(np.array([[1.0, 1], [1, -1], [1, 0], [0, 1]]), {"all": list("sdab")})
    y = np.array([[10.0], [2], [np.nan], [np.nan]])
    np.testing.assert_allclose(Weights(S, None).project(y)[:, 0], [10, 2, 6, 4], rtol=1e-14)


def test_no_series_is_the_sum_of_all():
    d = data("strict")
    some = Structure(d.bottom, spec=d.spec[1:])
    assert some.tree is not None
    assert some.tree.n == some.n + 1
    y = np.random.default_rng(0).normal(10, 3, (some.n, 2))
    S = some.matrix.toarray()
    np.testing.assert_allclose(
        Weights(some, None).project(y), dense.coherent(S, y, np.ones(some.n)), atol=1e-12
    )


def test_three_ways_to_cut():
    rows = [(a, b, c) for a in "ab" for b in "xyz" for c in "12"]
    frame = dict(zip(("i", "j", "k"), map(list, zip(*rows, strict=True)), strict=True))
    structure = Structure(frame, spec=[["i"], ["j"], ["k"], ["i", "j"], ["i", "j", "k"]])
    assert "groups" in repr(structure)
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


@pytest.mark.parametrize("method", ["ols", "wls_struct", "wls_var", "mint_shrink"])
def test_any_summing_matrix(method):
    rng = np.random.default_rng(0)
    leaves = 20
    sums = np.where(rng.random((15, leaves)) < 0.5, rng.uniform(0.5, 2, (15, leaves)), 0)
    S = np.vstack([sums, np.eye(leaves)])
    structure = Structure(pd.DataFrame(S, index=[f"s{k}" for k in range(len(S))]))
    base = pd.DataFrame({"unique_id": structure.labels, "ds": 1, "m": rng.normal(9, 2, len(S))})
    past = pd.DataFrame(
        [(i, t, y, 0.0) for i in structure.labels for t, y in enumerate(rng.normal(0, 2, 60))],
        columns=["unique_id", "ds", "y", "m"],
    )
    sigma = rng.uniform(1, 2, len(S))
    base["m-lo-90"], base["m-hi-90"] = base.m - 1.645 * sigma, base.m + 1.645 * sigma
    found = gm.forecast.reconcile(base, structure, method=method, Y_df=past, level=[90])
    r = past.y.to_numpy().reshape(len(S), -1)
    x = found[f"m/MinTrace_method-{method}"].to_numpy()
    np.testing.assert_allclose(S @ x[15:], x, atol=1e-9)
    if method == "mint_shrink":
        return
    s = {"ols": np.ones(len(S)), "wls_struct": S.sum(axis=1),
         "wls_var": (r**2).mean(axis=1) + 2e-8}[method]  # fmt: skip
    np.testing.assert_allclose(x, dense.coherent(S, base.m.to_numpy(), s), atol=1e-9)
    width = found[f"m/MinTrace_method-{method}-hi-90"] - x
    expected = np.sqrt(dense.variance(S, s, sigma**2))
    np.testing.assert_allclose(width, 1.645 * expected, rtol=1e-3)


def random_summing_matrix(kind, rng):
    """Return the summing matrix of a random tree, of two crossed levels with gaps, or any."""
    if kind == "tree":
        tree = gm.shapes.random_recursive(int(rng.integers(3, 25)), rng)
        return tree.aggregate(np.eye(tree.n_leaves))
    if kind == "crossing":
        pairs = rng.random(rng.integers(2, 6, 2)) < 0.7
        pairs[0, 0] = True
        i, j = np.nonzero(pairs)
        sums = [np.ones(i.size), *(i == k for k in set(i)), *(j == k for k in set(j))]
    else:
        shape = rng.integers(1, 12, 2)
        sums = rng.normal(size=shape) * (rng.random(shape) < 0.5)
        sums[~sums.any(axis=1), 0] = 1
    return np.vstack([*np.atleast_2d(sums), np.eye(len(sums[0]))]).astype(float)


@pytest.mark.parametrize("kind", ["tree", "crossing", "any"])
def test_means_and_variances_are_those_of_dense_algebra(kind):
    rng = np.random.default_rng(0)
    for _ in range(100):
        S = random_summing_matrix(kind, rng)
        names = [f"s{k}" for k in range(len(S))]
        structure = Structure(S, {"all": names})
        s, y = np.exp(rng.normal(0, 2, len(S))), rng.normal(0, 10, (len(S), 2))
        noise = rng.exponential(size=(len(S), 1))
        P = S @ np.linalg.solve(S.T @ (S / s[:, None]), S.T / s)
        weights = Weights(structure, s)
        np.testing.assert_allclose(weights.project(y), P @ y, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(weights.noise_variance(noise), P**2 @ noise, rtol=1e-9)


def test_weights_of_any_sign_count_by_size():
    found = gm.forecast.MinTrace("wls_struct").fit_predict(
        [[1, -2], [1, 0], [0, 1]], [[3.0], [2.0], [1.0]]
    )["mean"]
    S = np.array([[1.0, -2], [1, 0], [0, 1]])
    expected = dense.coherent(S, np.array([[3.0], [2], [1]]), np.array([3.0, 1, 1]))
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    ("S", "tags", "message"),
    [
        (None, None, "'S_df' must be given"),
        (np.eye(2), None, "'tags' must name the rows"),
        (np.eye(2), {"a": ["x"]}, "'tags' must name each row"),
        (3, None, "'S_df' must be a frame"),
        (pd.DataFrame({"unique_id": ["a", "a"], "a": [1, 0], "b": [0, 1]}), None, "repeats the "),
        (pd.DataFrame({"unique_id": ["a", "b"], "a": [1, 0], "b": [0, 2]}), None, "leaf alone"),
        (pd.DataFrame({"unique_id": ["t", "a"], "a": [1, 1], "b": [1, 0]}), None, "column 'b'"),
        (pd.DataFrame({"unique_id": ["a", "b"], "b": [1, 0], "a": [0, 1]}), None, "columns alike"),
        (pd.DataFrame({"unique_id": ["a", "b"], "a": [1, 0], "b": [0, 0]}), None, "series 'b' has"),
        (pd.DataFrame({"unique_id": ["a"], "a": [1]}), {"x": ["q"]}, "series of S_df, not 'q'"),
        (None, {"c": ["T"], "c/st": ["T/A", "B"]}, "spell the path"),
        (None, {"c": ["U"], "c/st": ["T/A"]}, "'U' has no leaf"),
        ({"c": ["T"], "c/st": np.array(["T/A", "T/B"])}, None, "from 'c/st' .*Pass .* as 'tags'"),
        ({"all": ["a", "b"], "b": ["c", "d"]}, None, "from each series to those that it is a part"),
        (pd.DataFrame({"st": ["A", "B"], "rg": ["x", "y"]}), None, "must hold real .* in 'spec'"),
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
