"""The private release: what it computes, what it never shows, and how it is stored."""

from __future__ import annotations

import inspect
import pickle
import sys
import traceback
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import named_shapes, trees

import gmtree as gm
from gmtree import privacy
from gmtree.privacy import noise, testing
from gmtree.privacy.release import largest_sum

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
    monkeypatch.setattr(noise, "SYSTEM", testing.SeededWords(1))


@pytest.fixture
def noiseless(monkeypatch):
    monkeypatch.setattr(noise, "SYSTEM", NoWords())


# --------------------------------------------------------------------------- what is computed


@given(trees(30), SEEDS, st.booleans(), st.booleans())
def test_values_are_the_projection_of_the_noisy_counts(tree, seed, nonnegative, integer):
    counts = np.random.default_rng(seed).integers(0, 50, tree.n_leaves)
    r = gm.release(tree, counts, epsilon=1, nonnegative=nonnegative, integer=integer)
    variance, _ = privacy._moments.noise_moments("discrete_laplace", r.ledger.scales[0])
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
    options = {"rho": 1, "level_shares": [1, 4, 2], "invariants": [1, privacy.Level(1)]}
    r = gm.release(tree, np.arange(9), **options)
    by_level = [privacy._moments.noise_moments(r.ledger.mechanism, s)[0] if s else 0
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
    r = gm.release(tree, truth, rho=1, level_shares=[1, 4, 2], mechanism=mechanism)
    for level, scale in enumerate(r.ledger.scales[1:], start=2):
        nodes = tree.depth == level
        error = r.noisy[nodes] - 10**6
        variance, fourth = privacy._moments.noise_moments(mechanism, scale)
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
    r = gm.release(TREE, COUNTS, epsilon=1, level_shares=[1, 0, 1])
    np.testing.assert_array_equal(r.noisy[TREE.depth == 2], 0)
    np.testing.assert_array_equal(r.measured, TREE.depth != 2)
    np.testing.assert_allclose(r.values, TREE.aggregate(COUNTS))


def test_invariants_are_exact_and_named(seeded):
    options = {"epsilon": "1/100", "nonnegative": True, "integer": True}
    r = gm.release(TREE, COUNTS, invariants=["state", ("VT", "Essex")], **options)
    truth = TREE.aggregate(COUNTS)
    known = (TREE.depth == 2) | (np.arange(TREE.n) == TREE.node(("VT", "Essex")))
    np.testing.assert_array_equal(r.noisy[known], truth[known])
    np.testing.assert_array_equal(r.values[known], truth[known])
    assert np.all(r.std_error[known] == 0)
    # The total is known through the states.
    assert r.values[0] == truth[0]
    assert np.all(r.noisy[~known] != truth[~known])
    assert len(r.ledger.invariants) == 2


def test_one_draw_for_each_scale_and_none_after(monkeypatch):
    asked = []

    def count(scale, size):
        asked.append((scale, size))
        return np.zeros(size, np.int64)

    monkeypatch.setattr(noise, "discrete_laplace", count)
    r = gm.release(TREE, COUNTS, epsilon=1, level_shares=[1, 2, 1])
    assert sorted(asked) == [(2, 2), (4, 6)]
    monkeypatch.setattr(noise, "SYSTEM", Unavailable())
    again = r.reprocess(nonnegative=True, integer=True)
    assert again.noisy is r.noisy
    assert again.ledger is r.ledger
    assert again.values.dtype == np.int64
    again.interval(), again.range_interval([[0, 2]]), again.plan


def test_ranges(seeded):
    r = gm.release(TREE, COUNTS, epsilon=1)
    ranges = [[0, 5], [1, 3], [2, 2]]
    leaf = TREE.restrict(r.values)
    np.testing.assert_allclose(r.range_sum(ranges), [leaf.sum(), leaf[1:3].sum(), 0])
    expected = np.sqrt(r._post.leaf_sum_variance(np.array(ranges)))
    np.testing.assert_allclose(r.range_std_error(ranges), expected)
    low, high = r.range_interval(ranges)
    np.testing.assert_allclose((low + high) / 2, r.range_sum(ranges), atol=1e-9)
    with pytest.raises(ValueError, match="row 0 is"):
        r.range_interval([[3, 6]])


def test_plan_of_a_release_is_the_plan():
    options = {"epsilon": 1, "level_shares": [1, 2, 3]}
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


def test_counts_are_not_in_the_variables_of_a_failure(monkeypatch):
    def fail(*args, **options):
        raise MemoryError("no memory")

    monkeypatch.setattr(gm.Consistency, "project", fail)

    def attempt(counts):
        return gm.release(TREE, counts, epsilon="1/10")

    with pytest.raises(MemoryError) as failed:
        attempt(np.array(COUNTS))
    frames = [f for f, _ in traceback.walk_tb(failed.value.__traceback__)]
    ours = [f for f in frames if "gmtree" in f.f_globals.get("__name__", "")]
    assert ours
    for frame in ours:
        for secret in secrets():
            assert not any(shows(a, secret) for a in reached(dict(frame.f_locals)))


def test_counts_are_wiped_where_drawing_fails(monkeypatch):
    monkeypatch.setattr(noise, "SYSTEM", Unavailable())
    with pytest.raises(AssertionError, match="random words") as failed:
        gm.release(TREE, COUNTS, epsilon=1)
    frames = [f for f, _ in traceback.walk_tb(failed.value.__traceback__)]
    measuring = [f for f in frames if f.f_code.co_name in ("_measure", "_add_noise")]
    assert len(measuring) == 2
    for frame in measuring:
        arrays = [x for x in frame.f_locals.values() if isinstance(x, np.ndarray)]
        assert not any(shows(a, secrets()[1]) for a in arrays)


def test_there_is_no_seed():
    functions = [gm.release, gm.plan, gm.optimal_shares, privacy.allocate, gm.Release.load]
    functions += [privacy.discrete_laplace, privacy.discrete_gaussian]
    methods = [f for _, f in inspect.getmembers(gm.Release, inspect.isfunction)]
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
    """At the public bound rounding errors are still too small to stand in the way."""
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
    np.testing.assert_array_equal(TREE.restrict(r.noisy), [1, 2, 3, 4, 120])


def test_counts_are_cut_off_at_the_public_bound(noiseless):
    r = gm.release(TREE, [-5, 3, 10, 11, 2**80], epsilon=1, max_count=10)
    np.testing.assert_array_equal(TREE.restrict(r.noisy), [0, 3, 10, 10, 10])
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
        patch.setattr(noise, "SYSTEM", NoWords())
        a, b = (gm.release(tree, x, epsilon=1, max_count=most).noisy for x in (counts, other))
    changed = np.flatnonzero(a != b)
    assert np.all(abs(a - b)[changed] == 1)
    assert len(set(tree.depth[changed])) == changed.size


def test_moving_records_leaves_what_is_above_both(noiseless):
    """With a bound on each leaf this would not hold, so that there is none."""
    tree = gm.shapes.complete(2, 3)
    big = largest_sum(tree) - 10
    a = gm.release(tree, [big, 3, 0, 0], epsilon=1, neighbors="change_one").noisy
    b = gm.release(tree, [big + 1, 2, 0, 0], epsilon=1, neighbors="change_one").noisy
    np.testing.assert_array_equal(b - a, [0, 0, 0, 1, -1, 0, 0])
    with pytest.raises(ValueError, match="Argument 'counts' must add up to at most"):
        gm.release(tree, [big, 20, 0, 0], epsilon=1, neighbors="change_one")
    with pytest.raises(ValueError, match="Argument 'max_count' must be None"):
        gm.release(tree, [1, 2, 3, 4], epsilon=1, neighbors="change_one", max_count=5)


@pytest.mark.parametrize(
    ("counts", "error", "text"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0], TypeError, "whole numbers"),
        (np.ones(5), TypeError, "not dtype float64"),
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
        ({}, ValueError, "'epsilon' or argument 'rho' must be given, not neither"),
        ({"epsilon": 1, "rho": 1}, ValueError, "not both"),
        ({"epsilon": 1, "max_count": 2**50}, ValueError, "'max_count' must be at most"),
        ({"epsilon": 1, "max_count": 0}, ValueError, "'max_count' must be at least 1"),
        ({"epsilon": 1, "integer": "random"}, TypeError, "'integer' must be True or False"),
        ({"epsilon": 1, "nonnegative": 1}, TypeError, "'nonnegative' must be True or False"),
        ({"epsilon": "1e-14", "integer": True}, ValueError, "'integer' must be False with noise"),
        ({"epsilon": 1, "threads": 0}, ValueError, "'threads' must be at least 1"),
    ],
)
def test_options_refused_before_anything_is_spent(monkeypatch, options, error, text):
    monkeypatch.setattr(noise, "SYSTEM", Unavailable())
    with pytest.raises(error, match=text):
        gm.release(TREE, COUNTS, **options)


def test_tree_refused():
    with pytest.raises(TypeError, match="Argument 'tree' must be a Tree, not list"):
        gm.release([-1, 0], COUNTS, epsilon=1)


def test_undetermined_values_are_refused_before_anything_is_spent(monkeypatch):
    monkeypatch.setattr(noise, "SYSTEM", Unavailable())
    tree = gm.Tree.from_parents([-1, 0, 0, 1])
    with pytest.raises(ValueError, match="neither leaf 2 nor any node above it is measured"):
        gm.release(tree, [1, 2], epsilon=1, level_shares=[0, 0, 1])


# --------------------------------------------------------------------------- frames and files


def test_arrays_are_read_only(seeded):
    r = pickle.loads(pickle.dumps(gm.release(TREE, COUNTS, epsilon=1)))
    for a in (r.values, r.noisy, r.std_error):
        with pytest.raises(ValueError, match="read-only"):
            a[0] = 0


def test_frame(seeded):
    r = gm.release(TREE, COUNTS, epsilon=1, level_shares=[1, 0, 1], integer=True)
    frame = r.to_frame(0.9)
    assert frame.columns.tolist() == [
        "node", "parent", "depth", "state", "county", "value", "noisy", "std_error", "low", "high",
    ]  # fmt: skip
    assert frame["state"].fillna("-").tolist() == ["-", "NY", "VT", "NY", "NY", "NY", "VT", "VT"]
    assert frame["county"].fillna("-").tolist()[:4] == ["-", "-", "-", "Albany"]
    np.testing.assert_array_equal(frame["value"], r.values)
    assert frame["noisy"].isna().tolist() == (TREE.depth == 2).tolist()
    np.testing.assert_allclose(frame["high"], r.interval(0.9)[1])


def test_frames_of_other_trees():
    plain = gm.release(gm.shapes.star(3), [1, 2], epsilon=1).to_frame()
    assert "label" not in plain
    labelled = gm.Tree.from_edges(["kitten", "lion"], ["cat", "cat"])
    assert gm.release(labelled, [1, 2], epsilon=1).to_frame()["label"].tolist() == [
        "cat", "kitten", "lion",
    ]  # fmt: skip
    clash = gm.Tree.from_levels({"value": ["a", "b"], "x": ["c", "d"]}, levels=["value", "x"])
    assert "level_value" in gm.release(clash, [1, 2], epsilon=1).to_frame()


def test_what_is_missing_is_named(monkeypatch, tmp_path):
    r = gm.release(TREE, COUNTS, epsilon=1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="to_frame needs pandas"):
        r.to_frame()
    with pytest.raises(ImportError, match="Parquet files need pyarrow"):
        r.save(tmp_path / "r.parquet")
    assert not list(tmp_path.iterdir())


def labelled(labels: Any) -> gm.Tree:
    return gm.Tree.from_parents([-1, 0, 0, 1], labels=labels)


STORED = {
    "levels": TREE,
    "plain": gm.shapes.complete(3, 3),
    "shuffled": gm.Tree.from_parents([2, 2, 4, 4, -1]),
    "numbers": labelled([10, 20, 30, 40]),
    "text": labelled(np.array(["a", "b", "long one", "ü"])),
    "mixed": labelled([7, "b", 2.5, True]),
    "tuples": labelled([(1, "x"), (1, ("y", None)), (), "z"]),
    "zeros": labelled(np.array(["a", "a\0", "", "b"], dtype=object)),
    "large": labelled(np.array([2**80, 1, 2, 3], dtype=object)),
}


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@pytest.mark.parametrize("tree", STORED.values(), ids=STORED.keys())
def test_saved_and_loaded(seeded, tmp_path, tree, suffix):
    counts = np.arange(tree.n_leaves) * 10
    options = {"level_shares": [0, *range(1, tree.height)], "invariants": [tree.root]}
    for k, more in enumerate(({}, {**options, "nonnegative": True, "integer": True})):
        r = gm.release(tree, counts, rho="1/3", **more)
        path = tmp_path / f"{k}{suffix}"
        r.save(path)
        again = gm.Release.load(str(path))
        assert again.tree == tree
        assert again.tree.level_names == tree.level_names
        if tree.labels is not None:
            assert [*map(type, again.tree.labels)] == [*map(type, tree.labels)]
        assert again.ledger == r.ledger
        assert (again.nonnegative, again.integer) == (r.nonnegative, r.integer)
        for name in ("noisy", "values", "std_error", "measured"):
            np.testing.assert_array_equal(getattr(again, name), getattr(r, name))
            assert getattr(again, name).dtype == getattr(r, name).dtype
        np.testing.assert_array_equal(again.interval(), r.interval())


def test_a_parquet_file_is_a_table(seeded, tmp_path):
    import pandas as pd

    r = gm.release(TREE, COUNTS, epsilon=1, integer=True)
    r.save(tmp_path / "r.parquet")
    table = pd.read_parquet(tmp_path / "r.parquet")
    np.testing.assert_array_equal(table["value"], r.values)
    np.testing.assert_array_equal(table["std_error"], r.std_error)
    assert table["county"].tolist()[3] == "Albany"


def load_or_message(path) -> gm.Release | str:
    try:
        return gm.Release.load(path)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_damaged_files_are_refused(seeded, tmp_path, suffix):
    path = tmp_path / f"r{suffix}"
    gm.release(TREE, COUNTS, epsilon=1).save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    noisy = gm.Release.load(path).noisy
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        k = rng.integers(len(whole))
        damaged[k] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        found = load_or_message(path)
        if isinstance(found, str):
            assert "Argument 'path' must be a file written by Release.save" in found
            refused += 1
        else:
            # A bit that says nothing about the release, such as a date or an unused column.
            np.testing.assert_array_equal(found.noisy, noisy)
    assert refused > 50
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"written by Release\.save"):
            gm.Release.load(path)


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("something in a file was run",)


def test_foreign_files_are_refused(tmp_path):
    import pandas as pd

    path = tmp_path / "x.npz"
    for arrays in (
        {"parent": np.array([-1])},
        {"header": np.frombuffer(b"[]", np.uint8)},
        {"header": np.frombuffer(b'{"format": "other"}', np.uint8)},
        {"header": np.array([Bomb()], dtype=object)},
        {"header": np.frombuffer(b"{}", np.uint8), "parent": np.array([Bomb()], dtype=object)},
    ):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=r"written by Release\.save"):
            gm.Release.load(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match=r"written by Release\.save"):
        gm.Release.load(path)
    path = tmp_path / "x.parquet"
    pd.DataFrame({"noisy": [1], "parent": [-1]}).to_parquet(path)
    with pytest.raises(ValueError, match=r"written by Release\.save"):
        gm.Release.load(path)


def test_parts_that_do_not_fit_are_refused(tmp_path):
    from gmtree.privacy import _storage

    r = gm.release(TREE, COUNTS, epsilon=1)
    wrong = {
        "noisy": np.zeros(3, np.int64),
        "parent": np.array([-1, 0, 0, 0, 0, 0, 0, 0], np.int32),
        "exact": np.zeros(TREE.n, np.int64),
        "labels": np.array(["a"] * 9),
    }
    for name, array in wrong.items():
        arrays, header = _storage._pack(r)
        arrays[name] = array
        header["checksum"] = _storage._checksum(arrays, header)
        with (tmp_path / "x.npz").open("wb") as stream:
            _storage._write_npz(stream, arrays, header, r)
        with pytest.raises(ValueError, match="its parts do not fit together"):
            gm.Release.load(tmp_path / "x.npz")


def test_saving_replaces_only_when_complete(monkeypatch, tmp_path):
    path = tmp_path / "r.npz"
    r = gm.release(TREE, COUNTS, epsilon=1)
    r.save(path)
    before = path.read_bytes()

    def fail(*args, **arrays):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        gm.release(TREE, COUNTS, epsilon=1).save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["r.npz"]
    assert path.read_bytes() == before


def test_paths_and_labels_refused(tmp_path):
    r = gm.release(TREE, COUNTS, epsilon=1)
    for call in (r.save, gm.Release.load):
        with pytest.raises(ValueError, match=r"Argument 'path' must end in .npz or .parquet"):
            call(tmp_path / "release.txt")
    with pytest.raises(FileNotFoundError):
        gm.Release.load(tmp_path / "none.npz")
    for labels in ([object(), 1, 2, 3], np.array(["2020-01-01", "2020-01-02", "2020-01-03",
                                                  "2020-01-04"], "M8[D]")):  # fmt: skip
        odd = gm.release(labelled(labels), [1, 2], epsilon=1)
        with pytest.raises(TypeError, match="Argument 'labels' must be"):
            odd.save(tmp_path / "r.npz")
