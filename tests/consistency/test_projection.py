"""Optimal consistent values: against exact arithmetic, in every form of input and variance."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from reference import consistency as exact
from reference.consistency import Problem, inconsistency, per_node, problems, random_problem
from trees import all_parents, large_shapes, named_shapes, renumber, trees

import gmtree as gm
from gmtree import _sweep
from gmtree.bench.trees import depth_first
from gmtree.consistency import sweeps

EPS = np.finfo(float).eps
SEEDS = st.integers(0, 2**32 - 1)
STAR = gm.shapes.star(3)


def pull(tree: gm.Tree, x: np.ndarray, v: np.ndarray, s: np.ndarray | float = 1.0) -> float:
    """Largest force on a leaf: the sum of (v - x) / s on its path to the root, 0 at the optimum."""
    return float(np.abs(gm.GenerationMatrix(tree).solve((v - x) / s)[tree.leaves]).max())


def undetermined(problem: Problem) -> np.ndarray:
    """Nodes that are known only through sums with other nodes."""
    C = exact.covariance(problem.parent, problem.s)
    return np.array([C[i][i] > exact.HUGE / 10**20 for i in range(problem.tree.n)])


# --------------------------------------------------------------------------- against exact values


@given(problems())
def test_the_exact_optimum(problem):
    """For all variances, errors are at most the rounding error of the largest measurement."""
    x = problem.solver.project(problem.v)
    expected = exact.project(problem.parent, problem.v, problem.s)
    n = problem.tree.n
    error = np.array([float(abs(Fraction(x[i]) - expected[i])) for i in range(n)])
    error[undetermined(problem)] = 0
    assert error.max() <= 2 * n * EPS * np.abs(problem.v).max()


@given(problems(max_n=40))
def test_consistent_and_unbiased(problem):
    post, v, tree = problem.solver, problem.v, problem.tree
    x = post.project(v)
    assert inconsistency(tree, x) <= 1e-12 * max(1, np.abs(x).max()) * tree.height
    np.testing.assert_allclose(post.project(x), x, rtol=0, atol=1e-12 * np.abs(v).max())


@given(problems(max_n=40, kinds=("equal", "level", "node")))
def test_nothing_pulls_at_the_optimum(problem):
    x = problem.solver.project(problem.v)
    assert pull(problem.tree, x, problem.v, problem.s) <= 1e-11 * np.abs(problem.v).max()


def test_dense_formula_on_500_weighted_trees():
    rng = np.random.default_rng(1)
    for _ in range(500):
        n = int(rng.integers(2, 60))
        parent = gm.shapes.random_recursive(n, rng).parent
        if rng.random() < 0.5:
            parent = renumber(parent, rng.permutation(n))
        problem = random_problem(gm.Tree.from_parents(parent), "node", rng)
        expected = exact.dense(parent, problem.v, problem.s)
        x = gm.reconcile(problem.tree, problem.v, problem.given)
        assert np.abs(x - expected).max() <= 1e-10 * np.abs(expected).max()


@pytest.mark.parametrize("n", range(2, 7))
def test_all_small_trees(n):
    rng = np.random.default_rng(n)
    for ordered in all_parents(n):
        parent = renumber(ordered, rng.permutation(n))
        v, s = rng.standard_normal(n), rng.uniform(0.1, 10, n)
        tree = gm.Tree.from_parents(parent)
        for variance, by_node in ((None, np.ones(n)), (per_node(s), s)):
            expected = exact.dense(parent, v, by_node)
            found = gm.reconcile(tree, v, variance)
            np.testing.assert_allclose(found, expected, atol=1e-13)


def test_named_shapes():
    rng = np.random.default_rng(0)
    for tree in named_shapes(60).values():
        v, s = rng.standard_normal(tree.n), rng.uniform(0.1, 10, tree.n)
        for variance, by_node in ((None, np.ones(tree.n)), (per_node(s), s)):
            expected = exact.dense(tree.parent, v, by_node)
            found = gm.reconcile(tree, v, variance)
            np.testing.assert_allclose(found, expected, atol=1e-12)


def test_chain_is_the_weighted_mean():
    rng = np.random.default_rng(0)
    tree = gm.Tree.from_parents(renumber(gm.shapes.chain(50).parent, rng.permutation(50)))
    v, s = rng.standard_normal(50), 10 ** rng.uniform(-3, 3, 50)
    np.testing.assert_allclose(gm.reconcile(tree, v), v.mean(), rtol=1e-13)
    x = gm.reconcile(tree, v, per_node(s))
    np.testing.assert_allclose(x, np.average(v, weights=1 / s), rtol=1e-13)


def test_single_node():
    tree = gm.shapes.chain(1)
    assert gm.reconcile(tree, [3.5]) == [3.5]
    assert gm.reconcile(tree, [3.5], 0) == [3.5]
    assert gm.reconcile(tree, [3.5], [2.0]) == [3.5]
    with pytest.raises(ValueError, match="no node is measured"):
        gm.Consistency(tree, np.inf)


# --------------------------------------------------------------------------- forms of values


@given(problems(max_n=30), st.integers(0, 4), SEEDS)
def test_columns(problem, k, seed):
    factors = np.random.default_rng(seed).uniform(-2, 2, k)
    post = problem.solver
    x = post.project(problem.v[:, None] * factors)
    assert x.shape == (problem.tree.n, k)
    scale = np.abs(problem.v).max()
    for j, factor in enumerate(factors):
        single = post.project(problem.v * factor)
        np.testing.assert_allclose(x[:, j], single, rtol=0, atol=1e-12 * scale)


@given(problems(max_n=30, kinds=("equal", "node")))
def test_float32_stays_float32(problem):
    v = problem.v.astype(np.float32)
    x = problem.solver.project(v)
    assert x.dtype == np.float32
    expected = problem.solver.project(v.astype(float))
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-6 * np.abs(v).max())


def test_integers_become_floats():
    for dtype in (np.int64, np.int8, np.uint16, bool):
        v = np.array([1, 0, 0], dtype)
        x = gm.reconcile(STAR, v)
        assert x.dtype == np.float64
        np.testing.assert_array_equal(x, gm.reconcile(STAR, v.astype(float)))
    assert gm.reconcile(STAR, [10, 4, 3]).tolist() == [9, 5, 4]


@given(problems(max_n=30), st.integers(0, 2**62))
def test_whole_numbers_are_read_as_they_are(problem, largest):
    """These arrays are not copied, so every kernel must accept them."""
    tree, post = problem.tree, problem.solver
    if problem.s.min() > 0:
        v = np.random.default_rng(0).integers(-largest, largest, (tree.n, 2), endpoint=True)
    else:
        v = np.zeros((tree.n, 2), np.int64)
    options = [{}, {"nonnegative": True}] if largest < 2**40 else [{}]
    for option in options:
        for w in (v, np.ascontiguousarray(v[:, 0])):
            found, info = post.project(w, return_info=True, **option)
            expected, expected_info = post.project(w.astype(float), return_info=True, **option)
            assert found.dtype == np.float64
            assert found.tobytes() == expected.tobytes()
            assert info == expected_info
    live = post.track(v[:, 0])
    assert live.value(tree.root) == pytest.approx(post.project(v)[tree.root, 0])


def layouts(v: np.ndarray) -> dict[str, np.ndarray]:
    """The same numbers in other places and orders of memory."""
    frozen = v.copy()
    frozen.flags.writeable = False
    strided = np.empty((2 * v.shape[0], *v.shape[1:]), v.dtype)[::2]
    strided[:] = v
    return {
        "read-only": frozen,
        "big-endian": v.astype(v.dtype.newbyteorder(">")),
        "strided": strided,
        "reversed": v[::-1].copy()[::-1],
        "Fortran": np.array(v, order="F"),
    }


@pytest.mark.parametrize("columns", [(), (3,)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("variance", [None, "node"])
def test_layouts_of_memory(columns, dtype, variance):
    rng = np.random.default_rng(0)
    tree = gm.shapes.random_recursive(50, rng)
    post = gm.Consistency(tree, rng.uniform(1, 2, 50) if variance else None)
    v = rng.standard_normal((50, *columns)).astype(dtype)
    expected = post.project(v)
    for name, noisy in layouts(v).items():
        found = post.project(noisy)
        assert found.dtype == dtype, name
        np.testing.assert_array_equal(found, expected, err_msg=name)
        np.testing.assert_array_equal(noisy, v, err_msg=name)
    for name, out in layouts(np.zeros_like(v)).items():
        if name not in ("read-only", "big-endian"):
            assert post.project(v, out=out) is out
            np.testing.assert_array_equal(out, expected, err_msg=name)
    for name, both in layouts(v).items():
        if name not in ("read-only", "big-endian"):
            assert post.project(both, out=both) is both
            np.testing.assert_array_equal(both, expected, err_msg=name)
    shifted = np.concatenate([v, v[:1]])
    assert post.project(shifted[:-1], out=shifted[1:]).base is shifted
    np.testing.assert_array_equal(shifted[1:], expected)


def test_result_is_new_memory():
    post = gm.Consistency(STAR)
    v = np.array([7.0, 4.0, 3.0])
    first = post.project(v)
    second = post.project(v * 2)
    assert not np.shares_memory(first, v)
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, v)


def test_bad_out():
    post = gm.Consistency(STAR)
    v = np.ones(3)
    with pytest.raises(ValueError, match=r"'out' must have shape .3,. and dtype float64"):
        post.project(v, out=np.empty(4))
    with pytest.raises(ValueError, match=r"and dtype float64, not .3,. and float32"):
        post.project(v, out=np.empty(3, np.float32))
    with pytest.raises(TypeError, match="'out' must be a numpy array, not list"):
        post.project(v, out=[0, 0, 0])
    frozen = np.empty(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="'out' must be writable"):
        post.project(v, out=frozen)


@pytest.mark.parametrize("noisy", [np.ones(4), np.ones((1, 3)), np.ones((3, 1, 1)), 1.0])
def test_bad_shape(noisy):
    with pytest.raises(ValueError, match=r"'noisy' must have shape \(3,\) or \(3, k\)"):
        gm.reconcile(STAR, noisy)


def test_bad_values():
    with pytest.raises(TypeError, match="'noisy' must hold real numbers"):
        gm.reconcile(STAR, np.ones(3, complex))


# --------------------------------------------------------------------------- threads, copies


def share_short_levels(patch):
    """Share even short levels between threads, so that tests can use small trees."""
    patch.setattr(_sweep, "SMALLEST_SHARED_LEVEL", 4)
    patch.setattr(_sweep, "BLOCKS", 4)
    patch.setattr(_sweep, "SMALLEST_BLOCK", 1)


@pytest.fixture
def short_shared_levels(monkeypatch):
    share_short_levels(monkeypatch)


@pytest.mark.usefixtures("short_shared_levels")
@pytest.mark.parametrize("variance", [None, "node", "mixed"])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_threads_do_not_change_a_bit(variance, columns):
    rng = np.random.default_rng(0)
    for name, shape in named_shapes(400).items():
        tree = gm.Tree.from_parents(shape.parent)
        problem = random_problem(tree, variance or "equal", rng)
        v = problem.v if not columns else np.stack([problem.v, problem.v[:] * 2], axis=1)
        results = []
        for threads in (1, 2, 3, 7):
            post = gm.Consistency(tree, problem.given, threads=threads)
            results.append((post.project(v), post.theta, post.node_variance()))
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("variance", [None, "node", "mixed"])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_sweeping_subtrees_with_their_leaves_does_not_change_a_bit(variance, columns):
    rng = np.random.default_rng(0)
    for shape in named_shapes(400).values():
        parent = depth_first(shape)
        problem = random_problem(gm.Tree.from_parents(parent), variance or "equal", rng)
        v = problem.v if not columns else np.stack([problem.v, problem.v * 2], axis=1)
        expected = problem.solver.project(v)
        with pytest.MonkeyPatch.context() as patch:
            share_short_levels(patch)
            layout = gm.Tree.from_parents(parent)._layout
        problem.tree._cache["_layout"] = layout
        found = gm.Consistency(problem.tree, problem.given).project(v)
        np.testing.assert_array_equal(found, expected)
    assert layout.joint_segments is not layout.segments


@pytest.mark.usefixtures("short_shared_levels")
def test_shared_levels_were_shared():
    tree = gm.Tree.from_parents(gm.shapes.grouped(500, rng=1).parent)
    segment = tree._layout.segments[-1]
    assert segment[2]
    assert len(tree._layout.portions(segment, 3)) == 3


@pytest.mark.parametrize("variance", [None, "node"])
def test_one_solver_in_many_threads(variance):
    rng = np.random.default_rng(0)
    tree = gm.shapes.grouped(3000, rng=1)
    post = gm.Consistency(tree, rng.uniform(1, 2, tree.n) if variance else None)
    inputs = [rng.standard_normal((tree.n, 2) if i % 3 == 0 else tree.n) for i in range(60)]
    expected = [post.project(v) for v in inputs]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(post.project, inputs * 3))
    for a, b in zip(found, expected * 3, strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_changes_after_construction():
    """No method changes the object or the arrays that it holds."""
    problem = random_problem(gm.shapes.grouped(30, rng=1), "node", np.random.default_rng(0))
    post = problem.solver
    everything(post)  # results of the first use are cached now
    before, arrays = dict(vars(post)), pickle.dumps(post)
    v = problem.v.copy()
    for options in ({}, {"nonnegative": True}, {"integer": True}, {"return_info": True}):
        post.project(v, **options)
    post.track(v).update(3, 1.0)
    assert dict(vars(post)) == before
    assert pickle.dumps(post) == arrays
    everything(post)
    assert pickle.dumps(post) == arrays


def test_no_array_of_the_callers_is_kept():
    v, post = np.array([7.0, 4, 3]), gm.Consistency(STAR)
    for use in (post.project, post.track):
        count = sys.getrefcount(v)
        use(v)
        assert sys.getrefcount(v) == count


def test_work_space_goes_with_its_solver():
    tree = gm.shapes.star(10**5)
    post = gm.Consistency(tree)
    post.project(np.ones(tree.n))
    kept = weakref.ref(sweeps._workspace._free[post._factor])
    del post
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("kind", ["equal", "mixed"])
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies(kind, how):
    problem = random_problem(gm.shapes.grouped(30, rng=1), kind, np.random.default_rng(0))
    post = problem.solver
    expected, variance = post.project(problem.v), post.node_variance()
    other = how(post)
    assert other.tree == post.tree
    np.testing.assert_array_equal(other.project(problem.v), expected)
    np.testing.assert_array_equal(other.node_variance(), variance)


def test_trees_with_64_bit_numbers(monkeypatch):
    """Trees of more than 2^31 nodes have such indices, for which each kernel is compiled again."""
    cases = (
        ([2, 2, -1, 2, 0, 0], [1, np.inf, 3, np.inf, np.inf, 6], everything),
        ([-1, 0, 0, 1, 1, 2], None, lambda post: [post.project(np.arange(6.0))]),
    )
    for parent, variance, ask in cases:
        expected = ask(gm.Consistency(gm.Tree.from_parents(parent), variance))
        with monkeypatch.context() as patch:
            patch.setattr(gm._validate, "index_dtype", lambda n: np.dtype(np.int64))
            tree = gm.Tree.from_parents(parent)
            assert tree.parent.dtype == np.int64
            found = ask(gm.Consistency(tree, variance))
        for new, old in zip(found, expected, strict=True):
            np.testing.assert_array_equal(new, old)


def everything(post: gm.Consistency) -> list:
    """Calls of all methods of a solver."""
    v = np.arange(float(post.tree.n))
    results = [
        post.project(v),
        post.project(v, nonnegative=True),
        post.project(v, integer=True),
        post.node_variance(),
        post.covariance(0, np.arange(post.tree.n)),
        post.range_variance([[0, 2]]),
        post.leaf_sum_variance(np.ones(post.tree.n_leaves, bool)),
    ]
    live = post.track(v)
    live.update(1, 3.0)
    return [*results, live.value([1, 3]), live.values()]


def test_repr():
    assert "equal variances" in repr(gm.Consistency(STAR, 3.0))
    assert "(1 known exactly, 1 not measured)" in repr(gm.Consistency(STAR, [0, 1, np.inf]))


# --------------------------------------------------------------------------- bias


@given(trees(), SEEDS)
def test_consistency_bias(tree, seed):
    v = np.random.default_rng(seed).standard_normal(tree.n)
    M = reference.constraint(tree.parent)
    expected = np.sqrt(np.mean((M.T @ v) ** 2)) if tree.n > 1 else 0
    assert gm.consistency_bias(tree, v) == pytest.approx(expected)
    assert gm.consistency_bias(tree, gm.reconcile(tree, v)) <= 1e-12


# --------------------------------------------------------------------------- large


LARGE_SHAPES = list(named_shapes(10))


@pytest.mark.large
@pytest.mark.parametrize("name", LARGE_SHAPES)
def test_large_trees(name):
    tree = large_shapes()[name]
    rng = np.random.default_rng(0)
    noise = rng.laplace(0, 8, tree.n)
    counts = tree.aggregate(rng.poisson(10, tree.n_leaves).astype(float))
    sizes = np.where(rng.random(tree.n_leaves) < 0.5, 1e9, 1.0)
    beside = tree.aggregate(sizes * rng.random(tree.n_leaves))
    s = rng.uniform(0.5, 2, tree.n)
    for v in (noise, counts + noise, beside + noise):
        for variance in (None, s):
            x = gm.reconcile(tree, v, per_node(variance))
            most = np.abs(v).max()
            assert inconsistency(tree, x) <= 1e-12 * most * tree.height
            assert pull(tree, x, v, 1.0 if variance is None else s) <= 1e-12 * most * tree.height
            if "chain" in name:
                mean = np.average(v, weights=None if variance is None else 1 / s)
                np.testing.assert_allclose(x, mean, rtol=0, atol=1e-10 * most)


@pytest.mark.large
@pytest.mark.parametrize("name", LARGE_SHAPES)
@pytest.mark.parametrize("variance", [None, "node", "unmeasured"])
def test_memory_of_a_projection(name, variance):
    tree = large_shapes()[name]
    s = None if variance is None else np.full(tree.n, 2.0)
    if variance == "unmeasured":
        s[tree.leaves[0]] = np.inf
    post = gm.Consistency(tree, per_node(s))
    v, out = np.ones(tree.n), np.empty(tree.n)
    tracemalloc.start()
    try:
        post.project(v, out=out)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 24 * tree.n
