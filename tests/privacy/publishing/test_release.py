"""Private releases: their values, their secrecy, and their files."""

from __future__ import annotations

import inspect
import pickle
import traceback
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from trees import named_shapes, trees

import gmtree as gm
from gmtree import privacy
from gmtree.privacy import testing
from gmtree.privacy.accounting.allocation import largest_sum
from gmtree.privacy.noise import words as random_words
from gmtree.privacy.noise.mechanism import Mechanism
from gmtree.privacy.noise.registry import MECHANISMS
from gmtree.privacy.publishing import measuring

TREE = gm.Tree.from_levels(
    {
        "state": ["NY", "NY", "NY", "VT", "VT"],
        "county": ["Albany", "Orange", "Kings", "Orange", "Essex"],
    },
    levels=["state", "county"],
)
COUNTS = [30471, 37207, 250459, 2898, 653]
SEEDS = st.integers(0, 2**32 - 1)


class NoWords:
    """No noise at all: the words that give 0 in every draw."""

    def take(self, count, dtype):
        return np.zeros(count, dtype)


class Unavailable:
    def take(self, count, dtype):
        raise AssertionError("random words were asked for")


@pytest.fixture
def seeded(monkeypatch):
    monkeypatch.setattr(random_words, "SYSTEM", testing.SeededWords(1))


@pytest.fixture
def noiseless(monkeypatch):
    monkeypatch.setattr(random_words, "SYSTEM", NoWords())


# --------------------------------------------------------------------------- what is computed


@given(trees(30), SEEDS, st.booleans(), st.booleans())
def test_values_are_the_projection_of_the_noisy_counts(tree, seed, nonnegative, integer):
    counts = np.random.default_rng(seed).integers(0, 50, tree.n_leaves)
    r = gm.release(tree, counts, epsilon=1, nonnegative=nonnegative, integer=integer)
    variance, _ = MECHANISMS["discrete_laplace"].moments(r.ledger.scales[0])
    post = gm.Consistency(tree, variance)
    expected = post.project(r.noisy, nonnegative=nonnegative, integer=integer)
    np.testing.assert_array_equal(r.values, expected)
    assert r.values.dtype == (np.int64 if integer else np.float64)
    np.testing.assert_allclose(r.std_error**2, post.node_variance(), rtol=1e-14)
    assert gm.consistency_bias(tree, r.values) == pytest.approx(0, abs=1e-10)
    if nonnegative:
        assert np.all(r.values >= 0)


def test_variances_are_those_of_each_level():
    tree = gm.shapes.complete(3, 3)
    options = {"rho": 1, "shares": [1, 4, 2], "invariants": [1, privacy.Level(1)]}
    r = gm.release(tree, np.arange(9), **options)
    by_level = [MECHANISMS[r.ledger.mechanism].moments(s)[0] if s else 0
                for s in r.ledger.scales]  # fmt: skip
    variance = np.array(by_level)[tree.depth - 1]
    variance[[0, 1]] = 0
    post = gm.Consistency(tree, variance)
    np.testing.assert_allclose(r.std_error, np.sqrt(post.node_variance()))
    np.testing.assert_allclose(r.values, post.project(r.noisy))


@pytest.mark.parametrize("mechanism", ["discrete_laplace", "discrete_gaussian"])
def test_noise_has_the_scale_of_its_level(seeded, mechanism):
    tree = gm.shapes.from_fanouts([[3000], [1] * 3000])
    truth = np.full(3000, 10**6)
    r = gm.release(tree, truth, rho=1, shares=[1, 4, 2], mechanism=mechanism)
    for level, scale in enumerate(r.ledger.scales[1:], start=2):
        nodes = tree.depth == level
        error = r.noisy[nodes] - 10**6
        variance, fourth = MECHANISMS[mechanism].moments(scale)
        # Six standard deviations of a mean of squares; the draws are seeded.
        spread = 6 * np.sqrt((fourth + 2 * variance**2) / 3000)
        assert np.mean(error.astype(float) ** 2) == pytest.approx(variance, abs=spread)
        assert abs(error.mean()) < 6 * np.sqrt(variance / 3000)


def test_noise_is_independent_across_nodes_and_releases():
    tree, zeros = gm.shapes.star(2001), np.zeros(2000, int)
    a, b = (gm.release(tree, zeros, epsilon=1).noisy[1:].astype(float) for _ in range(2))
    # Real randomness: each of these fails once in 10^8 runs (5.7 standard deviations).
    for x, y in ((a, b), (a[1:], a[:-1]), (a[:1000], a[1000:])):
        assert abs(np.corrcoef(x, y)[0, 1]) < 5.73 / np.sqrt(x.size)


@pytest.mark.parametrize("tree", named_shapes(60).values(), ids=named_shapes(60).keys())
def test_without_noise_the_truth_comes_out(noiseless, tree):
    counts = np.arange(tree.n_leaves) % 7
    for options in ({}, {"nonnegative": True, "integer": True}):
        r = gm.release(tree, counts, epsilon=1, **options)
        np.testing.assert_array_equal(r.noisy, tree.aggregate(counts))
        np.testing.assert_allclose(r.values, tree.aggregate(counts), atol=1e-9)


def test_unmeasured_nodes_show_nothing(noiseless):
    r = gm.release(TREE, COUNTS, epsilon=1, shares=[1, 0, 1])
    np.testing.assert_array_equal(r.noisy[TREE.depth == 2], 0)
    np.testing.assert_array_equal(r.measured, TREE.depth != 2)
    np.testing.assert_allclose(r.values, TREE.aggregate(COUNTS))


def test_invariants_are_exact_and_named(seeded):
    options = {"epsilon": "1/100", "nonnegative": True, "integer": True}
    r = gm.release(TREE, COUNTS, invariants=["state", ("NY", "Kings")], **options)
    truth = TREE.aggregate(COUNTS)
    # The total is known through the states.
    known = (TREE.depth <= 2) | (np.arange(TREE.n) == TREE.node(("NY", "Kings")))
    np.testing.assert_array_equal(r.noisy[known], truth[known])
    np.testing.assert_array_equal(r.values[known], truth[known])
    assert np.all(r.std_error[known] == 0)
    assert np.all(r.noisy[~known] != truth[~known])
    assert len(r.ledger.invariants) == 2
    assert r.ledger.derived_invariants == ("level 1 (total)",)


def test_invariants_are_never_cut_off(seeded):
    """Exact counts are the true ones. Only counts with noise are cut off, and values add up."""
    counts = [9000, 4, 5, 2, 1]
    truth = TREE.aggregate(counts)
    options = {"max_count": 10, "nonnegative": True, "integer": True}
    r = gm.release(TREE, counts, epsilon=100, invariants=["state"], **options)
    np.testing.assert_array_equal(r.noisy[:3], truth[:3])
    np.testing.assert_array_equal(r.values[:3], truth[:3])
    assert gm.consistency_bias(TREE, r.values) == 0
    assert r.noisy[TREE.node(("NY", "Albany"))] == 10
    assert r.ledger.max_count == 10
    # Only public facts may cause an error, here an exact count that is too large.
    huge = [2**70, 4, 5, 2, 1]
    gm.release(TREE, huge, epsilon=1, invariants=["VT"], **options)
    with pytest.raises(
        ValueError, match=r"must have exact counts of at most .*; that of node 0 is"
    ):
        gm.release(TREE, huge, epsilon=1, invariants=["state"], **options)
    # One leaf is too large, or a sum of many leaves does not fit into 64 bits.
    for counts in ([2**70, 0], np.full(2**14, 2**62)):
        star = gm.shapes.star(len(counts) + 1)
        with pytest.raises(ValueError, match="that of node 0 is larger"):
            gm.release(star, counts, epsilon=1, invariants=[0])


def test_one_draw_for_each_scale_and_none_after(monkeypatch):
    asked = []

    def count(noise, scale, size):
        asked.append((scale, size))
        return np.zeros(size, np.int64)

    monkeypatch.setattr(Mechanism, "draw", count)
    r = gm.release(TREE, COUNTS, epsilon=1, shares=[1, 2, 1])
    assert sorted(asked) == [(2, 2), (4, 6)]
    monkeypatch.setattr(random_words, "SYSTEM", Unavailable())
    again = r.reprocess(nonnegative=True, integer=True)
    assert again.noisy is r.noisy
    assert again.ledger is r.ledger
    assert again.values.dtype == np.int64
    again.interval(), again.range_interval([[0, 2]]), again.plan


def test_ranges(seeded):
    r = gm.release(TREE, COUNTS, epsilon=1)
    ranges = [[0, 5], [1, 3], [2, 2]]
    leaf = TREE.leaf_values(r.values)
    np.testing.assert_allclose(r.range_sum(ranges), [leaf.sum(), leaf[1:3].sum(), 0])
    expected = np.sqrt(r._post.range_variance(np.array(ranges)))
    np.testing.assert_allclose(r.range_std_error(ranges), expected)
    low, high = r.range_interval(ranges)
    np.testing.assert_allclose((low + high) / 2, r.range_sum(ranges), atol=1e-9)
    with pytest.raises(ValueError, match="row 0 is"):
        r.range_interval([[3, 6]])


def test_plan_of_a_release_is_the_plan():
    options = {"epsilon": 1, "shares": [1, 2, 3]}
    assert gm.release(TREE, COUNTS, **options).plan == gm.plan(TREE, **options)


def test_threads_do_not_matter(seeded):
    r = gm.release(TREE, COUNTS, epsilon=1, threads=2)
    other = privacy.Release(r.tree, r.noisy, r.ledger, None, False, False, 1)
    np.testing.assert_array_equal(r.values, other.values)


# --------------------------------------------------------------------------- what is never shown


def secrets() -> list[np.ndarray]:
    truth = TREE.aggregate(COUNTS)
    return [np.array(COUNTS), truth, truth[TREE.depth == 2], truth[1:]]


def walk(x: Any, seen: set[int]):
    """Everything that can be reached from an object."""
    if id(x) in seen:
        return
    seen.add(id(x))
    yield x
    if isinstance(x, dict):
        inner = [*x.keys(), *x.values()]
    elif isinstance(x, (list, tuple, set, frozenset)):
        inner = list(x)
    elif isinstance(x, np.ndarray):
        inner = [x.base] + (x.tolist() if x.dtype == object else [])
    else:
        slots = [n for c in type(x).__mro__ for n in getattr(c, "__slots__", ())]
        inner = [*getattr(x, "__dict__", {}).values()]
        inner += [getattr(x, n) for n in slots if hasattr(x, n) and n != "__weakref__"]
    for y in inner:
        yield from walk(y, seen)


def shows(a: np.ndarray, secret: np.ndarray) -> bool:
    """Whether two neighbouring entries of a secret stand in an array."""
    if a.dtype.kind not in "iuf" or a.size < 2:
        return False
    flat = a.astype(float).ravel()
    return any(np.any((flat[:-1] == x) & (flat[1:] == y)) for x, y in pairwise(secret))


def reached(x: Any) -> list[np.ndarray]:
    return [y for y in walk(x, set()) if isinstance(y, np.ndarray)]


@pytest.mark.parametrize("options", [{}, {"nonnegative": True, "integer": True}])
def test_counts_are_nowhere_in_the_result(seeded, options, tmp_path):
    r = gm.release(TREE, COUNTS, epsilon="1/10", **options)
    r.interval(), r.std_error, r.plan, r.range_interval([[0, 2]]), r.reprocess(integer=True)
    r.save(tmp_path / "r.npz")
    r.save(tmp_path / "r.parquet")
    blobs = [pickle.dumps(r), *(p.read_bytes() for p in tmp_path.iterdir())]
    texts = [repr(r), str(r), repr(r.ledger), str(r.ledger), r.to_frame().to_string()]
    arrays = reached(r)
    assert any(a is r.noisy for a in arrays)
    for secret in secrets():
        assert not any(shows(a, secret) for a in arrays)
        for dtype in (np.int64, np.int32, np.float64):
            pairs = [secret[k : k + 2].astype(dtype).tobytes() for k in range(secret.size - 1)]
            assert not any(pair in blob for pair in pairs for blob in blobs)
        assert not any(str(x) in text for x in secret.tolist() for text in texts)


def test_the_search_would_find_them():
    r = gm.release(TREE, COUNTS, epsilon=1)
    r.__dict__["hidden"] = [(TREE.aggregate(COUNTS),)]
    assert any(shows(a, secret) for a in reached(r) for secret in secrets())


def our_frames(error: BaseException) -> list:
    """Frames of this package in all tracebacks that an error leads to."""
    found, waiting = [], [error]
    while waiting:
        x = waiting.pop()
        if x is not None:
            found += [f for f, _ in traceback.walk_tb(x.__traceback__)]
            waiting += [x.__cause__, x.__context__]
    return [f for f in found if f.f_globals.get("__name__", "").startswith("gmtree")]


def fail(*args, **options):
    raise MemoryError("no memory")


FAILURES = {
    "projecting": (gm.Consistency, "project"),
    "drawing": (Mechanism, "draw"),
    "taking words": (random_words, "SYSTEM"),
    "adding up": (measuring._sweep, "accumulate"),
    "cutting off": (measuring, "cut_off"),
    "reading": (measuring, "_whole_numbers"),
}


@pytest.mark.parametrize("given", [COUNTS, np.array(COUNTS)], ids=["list", "array"])
@pytest.mark.parametrize(("where", "name"), FAILURES.values(), ids=FAILURES.keys())
def test_counts_are_not_in_the_variables_of_a_failure(monkeypatch, where, name, given):
    hidden = secrets()
    monkeypatch.setattr(where, name, Unavailable() if name == "SYSTEM" else fail)
    # In a tree whose leaves are not the last nodes, arrays are cut off apart.
    tree = gm.Tree.from_parents([1, -1, 1, 1, 1, 1]) if name == "cut_off" else TREE
    with pytest.raises((MemoryError, AssertionError)) as failed:
        gm.release(tree, given, epsilon="1/10")
    frames = our_frames(failed.value)
    assert "release" in [f.f_code.co_name for f in frames]
    for frame in frames:
        reachable = list(walk(dict(frame.f_locals), set()))
        assert not any(x is given for x in reachable)
        arrays = [x for x in reachable if isinstance(x, np.ndarray)]
        assert not any(shows(a, secret) for a in arrays for secret in hidden)


FRAME = TREE.to_frame().iloc[TREE.leaves][["state", "county"]].assign(n=COUNTS)
PUBLIC = FRAME[["state", "county"]]
# Errors of an ordinary call of release_frame after it has read the frame.
REFUSALS = {
    "the account": {"account": privacy.Account(epsilon="1/100")},
    "an option": {"integer": "yes"},
    "a label": {"tree": PUBLIC.iloc[1:]},
    "the levels": {"tree": PUBLIC[["county", "state"]], "levels": ["county", "state"]},
    "the person": {"count": None, "person": "nobody"},
    "the count": {"count": "state"},
}


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("change", REFUSALS.values(), ids=REFUSALS.keys())
@pytest.mark.filterwarnings("error")
def test_records_are_not_in_the_variables_of_a_refusal(kind, change):
    frame = FRAME
    if kind != "pandas":
        frame = pl.from_pandas(FRAME)
        frame = frame.to_arrow() if kind == "pyarrow" else frame
    good = {"levels": ["state", "county"], "count": "n", "tree": PUBLIC, "epsilon": "1/10"}
    options = {**good, **change}
    with pytest.raises((TypeError, ValueError, UserWarning)) as failed:
        gm.release_frame(frame, **options)
    frames = our_frames(failed.value)
    assert "release_frame" in [f.f_code.co_name for f in frames]
    public: set[int] = set()
    list(walk(options, public))  # old pandas keeps the columns of the public frame
    for f in frames:
        reachable = list(walk(dict(f.f_locals), set(public)))
        assert not any(x is frame for x in reachable)
        assert not any(type(x).__name__ in ("Series", "ChunkedArray") for x in reachable)
        arrays = [x for x in reachable if isinstance(x, np.ndarray)]
        assert not any(shows(a, secret) for a in arrays for secret in secrets())


def test_records_are_not_in_the_variables_of_a_failure_to_draw(monkeypatch):
    monkeypatch.setattr(Mechanism, "draw", fail)
    records = PUBLIC.iloc[np.repeat(np.arange(5), [7, 11, 13, 17, 19])].reset_index(drop=True)
    with pytest.raises(MemoryError) as failed:
        gm.release_frame(records, ["state", "county"], tree=PUBLIC, epsilon=1)
    for f in our_frames(failed.value):
        reachable = list(walk(dict(f.f_locals), set()))
        assert not any(x is records for x in reachable)
        arrays = [x for x in reachable if isinstance(x, np.ndarray)]
        assert not any(shows(a, np.array([7, 11, 13, 17, 19])) for a in arrays)


def test_messages_show_no_label_of_the_data():
    counts = FRAME.set_index(["state", "county"])["n"]
    with pytest.raises(ValueError, match="must have a row for every leaf; at least one") as found:
        gm.release(TREE, counts.drop(("NY", "Kings")), epsilon=1)
    assert "Kings" not in str(found.value)
    unhashable = pd.Series(COUNTS, pd.Index([["Kings"], *"abcd"], name="county"))
    with pytest.raises(TypeError, match="row 0 holds a list") as found:
        gm.release(TREE, unhashable, epsilon=1)
    assert "Kings" not in str(found.value)


def not_utf8() -> pa.Array:
    offsets = pa.array([0, 7, 7], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xffSecret")])


@pytest.mark.parametrize("used", ["level", "person", "count"])
@pytest.mark.parametrize(
    "column",
    [
        pd.Series([["Secret"], "a"], dtype=object),
        pd.Series([{"Secret": 1}, "a"], dtype=object),
        pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([not_utf8()]))),
        pl.Series([["Secret"], ["a"]]),
        pl.Series([{"x": "Secret"}, {"x": "a"}]),
        pa.array([["Secret"], ["a"]]),
        not_utf8(),
        not_utf8().dictionary_encode(),
    ],
)
def test_columns_that_cannot_be_read_are_refused_without_showing_them(column, used):
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
    frame = make[type(column).__module__.partition(".")[0]]({"x": column, "town": ["a", "b"]})
    level = "x" if used == "level" else "town"
    options = {} if used == "level" else {used: "x"}
    with pytest.raises((TypeError, ValueError)) as found:
        gm.release_frame(
            frame, [level], tree=pd.DataFrame({level: ["a", "b"]}), epsilon=1, **options
        )
    waiting = [found.value]
    while waiting:
        error = waiting.pop()
        assert str(found.value).startswith("Argument ")
        assert "Secret" not in f"{error} {error.args} {getattr(error, 'object', '')}"
        waiting += [x for x in (error.__cause__, error.__context__) if x is not None]


@pytest.mark.parametrize("labels", [["b", "a", "b"], [2, 1, 2], ["b", 7, "b"], [(1, "b"), (1, 2)]])
def test_pickles_hold_neither_unused_categories_nor_the_order_of_rows(labels):
    """The leaves that occur are public, but nothing else about the labels."""
    column = np.empty(len(labels), object)
    column[:] = labels
    frames = [
        pd.DataFrame({"x": pd.Categorical(order, categories=[*dict.fromkeys(order), *more])})
        for order, more in ((column, ["unused"]), (column[::-1], []))
    ]
    first, second = (
        pickle.dumps(gm.release_frame(f, ["x"], leaves_are_public=True, epsilon=1).tree)
        for f in frames
    )
    assert first == second
    assert b"unused" not in first


def test_variables_of_an_error_that_was_handled_before_are_kept():
    def users_own():
        precious = 7
        raise KeyError(precious)

    try:
        users_own()
    except KeyError as before:
        with pytest.raises(TypeError):
            gm.release(TREE, [1.5] * 5, epsilon=1)
        frames = [f for f, _ in traceback.walk_tb(before.__traceback__)]
        assert frames[-1].f_locals["precious"] == 7


@pytest.mark.parametrize("counts", [[1.5, *COUNTS[1:]], COUNTS[1:], [*COUNTS[:-1], None]])
def test_counts_that_are_refused_are_not_in_the_variables_either(counts):
    with pytest.raises((TypeError, ValueError)) as failed:
        gm.release(TREE, counts, epsilon=1)
    for frame in our_frames(failed.value):
        reachable = list(walk(dict(frame.f_locals), set()))
        assert not any(type(x) is int and x in COUNTS for x in reachable)


def test_there_is_no_seed():
    functions = [gm.release, gm.plan, gm.privacy.optimal_shares, privacy.allocate, gm.Release.load]
    functions += [privacy.discrete_laplace, privacy.discrete_gaussian]
    # The bootstrap may have a seed, since it adds its noise to published counts.
    methods = [f for name, f in inspect.getmembers(gm.Release, inspect.isfunction)
               if name != "bootstrap"]  # fmt: skip
    for function in [*functions, *methods]:
        for name in inspect.signature(function).parameters:
            assert not any(word in name.lower() for word in ("seed", "rng", "random", "state"))


# --------------------------------------------------------------------------- bounds


HUGE = st.sampled_from([-(2**70), -1, 0, 1, 2**31, 2**52, 2**63 - 1, 2**63, 2**64, 10**30])


@settings(max_examples=30)
@given(trees(12), st.lists(HUGE, min_size=12, max_size=12), st.integers(1, 10**6))
def test_no_count_makes_it_fail(tree, values, most):
    most = min(most, largest_sum(tree) // tree.n_leaves)
    for options in ({}, {"max_count": most}):
        r = gm.release(
            tree, values[: tree.n_leaves], epsilon=1, integer=True, nonnegative=True, **options
        )
        assert np.all(r.values >= 0)


SHAPES = named_shapes(300)


@pytest.mark.parametrize("tree", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("nonnegative", [False, True])
def test_the_largest_counts_can_be_rounded(seeded, tree, nonnegative):
    """Up to the public bound, rounding errors are too small to matter."""
    most = largest_sum(tree) // tree.n_leaves
    rng = np.random.default_rng(1)
    options = {"epsilon": 300, "integer": True, "nonnegative": nonnegative}
    for counts in (np.full(tree.n_leaves, most), rng.integers(0, most, tree.n_leaves)):
        r = gm.release(tree, counts, **options)
        assert gm.consistency_bias(tree, r.values) == 0
        assert abs(r.values - r.reprocess(nonnegative=nonnegative).values).max() < 1.25


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64])
def test_counts_of_any_integer_type(noiseless, dtype):
    r = gm.release(TREE, np.array([1, 2, 3, 4, 120], dtype), epsilon=1)
    np.testing.assert_array_equal(TREE.leaf_values(r.noisy), [1, 2, 3, 4, 120])


def test_counts_are_cut_off_at_the_public_bound(noiseless):
    r = gm.release(TREE, [-5, 3, 10, 11, 2**80], epsilon=1, max_count=10)
    np.testing.assert_array_equal(TREE.leaf_values(r.noisy), [0, 3, 10, 10, 10])
    star = gm.shapes.star(3)
    r = gm.release(star, np.array([2**64 - 1, 7], np.uint64), epsilon=1)
    np.testing.assert_array_equal(r.noisy[1:], [2**50 // 2 // 2, 7])


@given(trees(12), SEEDS, st.sampled_from([None, 1, 3]))
def test_one_record_changes_counts_on_one_path_by_one(tree, seed, most):
    """What the ledger takes for granted, at and beyond the bound as well."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, tree.n_leaves)
    other = counts.copy()
    other[rng.integers(tree.n_leaves)] += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_words, "SYSTEM", NoWords())
        a, b = (gm.release(tree, x, epsilon=1, max_count=most).noisy for x in (counts, other))
    changed = np.flatnonzero(a != b)
    assert np.all(abs(a - b)[changed] == 1)
    assert len(set(tree.depth[changed])) == changed.size


def test_moving_records_leaves_what_is_above_both(noiseless):
    """A bound on each leaf is refused, since it would change the counts above both leaves."""
    tree = gm.shapes.complete(2, 3)
    big = largest_sum(tree) - 10
    a = gm.release(tree, [big, 3, 0, 0], epsilon=1, neighbors="change_one").noisy
    b = gm.release(tree, [big + 1, 2, 0, 0], epsilon=1, neighbors="change_one").noisy
    np.testing.assert_array_equal(b - a, [0, 0, 0, 1, -1, 0, 0])
    with pytest.raises(ValueError, match="Argument 'counts' must add up to at most"):
        gm.release(tree, [big, 20, 0, 0], epsilon=1, neighbors="change_one")
    with pytest.raises(ValueError, match="Argument 'max_count' must be None"):
        gm.release(tree, [1, 2, 3, 4], epsilon=1, neighbors="change_one", max_count=5)


@pytest.mark.parametrize("counts", [[5, -1], [2**60, 0], [-(2**70), 2**70], [2**50, 2**50]])
def test_where_records_move_impossible_counts_are_refused_not_changed(monkeypatch, counts):
    monkeypatch.setattr(random_words, "SYSTEM", Unavailable())
    with pytest.raises(ValueError, match=r"Argument 'counts' must (not be negative|add up)"):
        gm.release(gm.shapes.star(3), counts, epsilon=1, neighbors="change_one")


@pytest.mark.parametrize(
    ("counts", "error", "text"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0], TypeError, "whole numbers"),
        (np.ones(5), TypeError, "not dtype float64"),
        (np.ma.array([1, 2, 3, 4, 5], mask=[0, 0, 1, 0, 0]), TypeError, "masked array"),
        ([True] * 5, TypeError, "whole numbers"),
        (np.ones(5, bool), TypeError, "not dtype bool"),
        (["1"] * 5, TypeError, "whole numbers"),
        ([1, 2, 3, 4, None], TypeError, "whole numbers"),
        ([1, 2, 3], ValueError, r"have shape \(5,\).*not \(3,\)"),
        ([[1], [2], [3], [4], [5]], ValueError, "one count per leaf"),
        (7, ValueError, "one count per leaf"),
    ],
)
def test_counts_refused_without_telling_them(counts, error, text):
    with pytest.raises(error, match=f"Argument 'counts' must .*{text}"):
        gm.release(TREE, counts, epsilon=1)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({}, ValueError, "'epsilon' or argument 'rho' must be given\\."),
        ({"epsilon": 1, "rho": 1}, ValueError, "not both"),
        ({"epsilon": 1, "max_count": 2**50}, ValueError, "'max_count' must be at most"),
        ({"epsilon": 1, "max_count": 0}, ValueError, "'max_count' must be at least 1"),
        ({"epsilon": 1, "integer": "random"}, TypeError, "'integer' must be True or False"),
        ({"epsilon": 1, "nonnegative": 1}, TypeError, "'nonnegative' must be True or False"),
        ({"epsilon": "1e-14", "integer": True}, ValueError, "'integer' must be False with noise"),
        # 64 times the scale of 2 10^12 is below the bound of sums, but not for 8 nodes together.
        ({"epsilon": "1.5e-12", "integer": True}, ValueError, "'integer' must be False with noise"),
        ({"epsilon": 1, "threads": 0}, ValueError, "'threads' must be at least 1"),
    ],
)
def test_options_refused_before_anything_is_spent(monkeypatch, options, error, text):
    monkeypatch.setattr(random_words, "SYSTEM", Unavailable())
    with pytest.raises(error, match=text):
        gm.release(TREE, COUNTS, **options)


def test_tree_refused():
    with pytest.raises(TypeError, match="Argument 'tree' must be a Tree, not list"):
        gm.release([-1, 0], COUNTS, epsilon=1)


def test_undetermined_values_are_refused_before_anything_is_spent(monkeypatch):
    monkeypatch.setattr(random_words, "SYSTEM", Unavailable())
    tree = gm.Tree.from_parents([-1, 0, 0, 1])
    with pytest.raises(ValueError, match="neither leaf 2 nor any node above it is measured"):
        gm.release(tree, [1, 2], epsilon=1, shares=[0, 0, 1])


# --------------------------------------------------------------------------- estimate and bootstrap


def test_the_estimate_is_what_errors_belong_to(seeded):
    r = gm.release(TREE, [3, 0, 0, 1, 0], epsilon=1, nonnegative=True, integer=True)
    np.testing.assert_array_equal(r.estimate, r._post.project(r.noisy))
    np.testing.assert_array_equal(r.reprocess().values, r.estimate)
    plain = r.reprocess()
    assert plain.estimate is plain.values
    low, high = plain.interval()
    np.testing.assert_allclose((low + high) / 2, r.estimate)


SPARSE = gm.shapes.complete(10, 4)


def test_values_that_are_not_negative_lie_outside_the_intervals_of_the_estimate(monkeypatch):
    """On sparse data the sum of non-negative values is far too large."""
    monkeypatch.setattr(random_words, "SYSTEM", testing.SeededWords(5))
    counts = np.zeros(SPARSE.n_leaves, int)
    counts[::100] = 3
    outside, errors, bias = 0, [], []
    for _ in range(20):
        r = gm.release(SPARSE, counts, epsilon=1, nonnegative=True)
        low, high = r.reprocess().interval()
        outside += not low[0] <= r.values[0] <= high[0]
        errors.append(r.values[0] - 30)
        bias.append(r.values[0] - r.estimate[0])
    assert outside > 10
    # The difference from the estimate shows the bias.
    assert np.mean(bias) == pytest.approx(np.mean(errors), abs=4)
    assert np.sqrt(np.mean(np.square(errors))) > 2 * r.std_error[0]


def test_docstrings_promise_no_more_than_holds():
    """About values that are not negative, about the bound on counts, and about random words."""
    words = {f: " ".join(f.__doc__.split()) for f in (privacy, gm.release, gm.plan)}
    assert "smaller errors" not in words[gm.release]
    assert "an error several times as large as without this" in words[gm.release]
    assert "can be smaller or larger" in words[gm.plan]
    assert "far above" not in words[privacy]
    assert "which is low on deep trees" in words[privacy]
    assert "OpenSSL's generator" in words[privacy]


def test_bootstrap_of_plain_values_finds_their_standard_errors(seeded):
    r = gm.release(gm.shapes.complete(4, 3), np.arange(16) * 50, epsilon=1, invariants=[1])
    found = r.bootstrap(runs=2000, rng=3)
    # A root mean square of 2000 errors is off by less than 10 %, a mean by less than 0.15.
    np.testing.assert_allclose(found.rmse, r.std_error, rtol=0.1, atol=1e-9)
    assert np.all(abs(found.bias) < 0.15 * r.std_error + 1e-9)
    np.testing.assert_allclose(found.level_rmse, r.plan.std_error, rtol=0.1)
    assert found.rmse[1] == found.bias[1] == 0


@pytest.mark.parametrize("mechanism", ["discrete_laplace", "discrete_gaussian"])
def test_bootstrap_estimates_the_errors_of_values_that_are_not_negative(monkeypatch, mechanism):
    monkeypatch.setattr(random_words, "SYSTEM", testing.SeededWords(5))
    rng = np.random.default_rng(1)
    counts = rng.poisson(rng.gamma(0.3, 20, SPARSE.n_leaves))
    options = {"rho": "1/2", "mechanism": mechanism, "nonnegative": True, "integer": True}
    runs = [gm.release(SPARSE, counts, **options) for _ in range(30)]
    errors = np.array([r.values - SPARSE.aggregate(counts) for r in runs], float)
    depth = SPARSE.depth
    mean_square = (errors**2).mean(axis=0)
    truth = np.sqrt([mean_square[depth == d].mean() for d in range(1, 5)])
    bias = [errors[:, depth == d].mean() for d in range(1, 5)]
    found = runs[0].bootstrap(runs=50, rng=1)
    # Approximate: within a third, where standard errors of the estimate are off by far more.
    np.testing.assert_allclose(found.level_rmse, truth, rtol=1 / 3)
    assert np.all(np.sign(found.level_bias) == np.sign(bias))
    assert np.array_equal(found.bias, runs[0].bootstrap(runs=50, rng=1).bias)
    assert "Approximate error of the values by level" in str(found)


def test_bootstrap_refuses_no_runs():
    r = gm.release(TREE, COUNTS, epsilon=1)
    with pytest.raises(ValueError, match="Argument 'runs' must be at least 1"):
        r.bootstrap(runs=0)


def test_variables_of_the_error_behind_an_error_are_forgotten_too():
    class Counts:
        def __array__(self, dtype=None, copy=None):
            secret = [123_457]
            raise ValueError(f"no array of {len(secret)}")

    with pytest.raises(ValueError, match="'counts' must be an array") as caught:
        gm.release(gm.shapes.star(3), Counts(), epsilon=1)
    behind, names = caught.value.__context__.__traceback__, set()
    while behind is not None:
        names |= set(behind.tb_frame.f_locals)
        behind = behind.tb_next
    assert "secret" not in names


@pytest.mark.parametrize("mechanism", ["discrete_laplace", "discrete_gaussian"])
def test_diagnosis_of_noisy_counts_has_uniform_p_values(mechanism):
    """Noise is not normal, so that its kurtosis counts; seeds are not used, so the bar is low."""
    tree = gm.shapes.complete(4, 5)
    invariant = {"invariants": [tree.root]}
    drawn = [
        gm.release(tree, np.arange(tree.n_leaves), rho=1, mechanism=mechanism, **invariant)
        for _ in range(200)
    ]
    found = [r.diagnose() for r in drawn]
    p = np.array([d.p_value for d in found])
    assert stats.kstest(p, "uniform").pvalue > 1e-6
    assert found[0].dof == tree.n_internal
    np.testing.assert_allclose(found[0].residual, drawn[0].noisy - drawn[0].estimate, atol=1e-9)
