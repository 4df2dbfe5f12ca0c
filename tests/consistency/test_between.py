"""Optima with bounds on any nodes: compared with dense solvers, for all forms of bounds."""

from __future__ import annotations

import os
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import between as slow
from trees import named_shapes

import gmtree as gm
from gmtree import _sweep
from gmtree.consistency import between

SEEDS = st.integers(0, 2**32 - 1)
KINDS = ("positive", "exact", "unmeasured", "any")
PROBLEMS = int(os.environ.get("GMTREE_BOUNDED_PROBLEMS", "400"))


def refuse_problem(problem: slow.Problem) -> int:
    """The node that the error for infeasible bounds names."""
    with pytest.raises(gm.InputError) as error:
        problem.solve()
    assert "must leave room" in str(error.value)
    return error.value.node


def only_polylines():
    """Let Newton's method give up before its first step."""
    return mock.patch.object(between, "MOST_ROUNDS", 0)


def check_optimum(problem: slow.Problem) -> None:
    """Both methods find the optimum."""
    x = check_result(problem)
    with only_polylines():
        y = check_result(problem)
    scale = max(1.0, float(np.abs(problem.v[problem.measured]).max()))
    np.testing.assert_allclose(x, y, rtol=0, atol=1e-10 * scale)


def check_result(problem: slow.Problem) -> np.ndarray:
    """Check that x is consistent, within its bounds, and that no trade improves it."""
    x, info = problem.solve(return_info=True)
    tree, scale = problem.tree, max(1.0, float(np.abs(problem.v[problem.measured]).max()))
    assert np.all(x >= problem.lower)
    assert np.all(x <= problem.upper)
    np.testing.assert_array_equal(x[problem.s == 0], problem.v[problem.s == 0])
    gap = np.abs(gm.ConstraintMatrix(tree).T @ x).max(initial=0) if tree.n > 1 else 0
    assert gap <= 1e-12 * scale
    assert info.violation <= 1e-10 * scale
    assert slow.optimality_gap(problem, x) <= 1e-9 * scale
    return x


@given(SEEDS, st.sampled_from(KINDS))
def test_conditions_of_optimality(seed, kind):
    check_optimum(slow.random_problem(np.random.default_rng(seed), kind))


@pytest.mark.parametrize("kind", KINDS)
def test_interior_point_solver(kind):
    pytest.importorskip("clarabel")
    rng = np.random.default_rng(29)
    for _ in range(PROBLEMS // 4):
        problem = slow.random_problem(rng, kind)
        expected = slow.by_clarabel(problem)
        best = problem.objective(expected)
        with only_polylines():
            results = [problem.solve()]
        for x in (problem.solve(), *results):
            # The peer stops slightly outside the bounds or above the optimum.
            assert problem.objective(x) <= best + 1e-9 * max(1.0, best)
            assert abs(problem.objective(x) - best) <= 1e-7 * max(1.0, best)
            assert np.abs(x - expected)[problem.measured].max() <= 1e-4


@given(SEEDS, st.sampled_from(KINDS))
def test_infeasible_bounds_name_the_node(seed, kind):
    rng = np.random.default_rng(seed)
    problem = slow.random_problem(rng, kind)
    i = int(rng.integers(problem.tree.n))
    problem.lower[i] = problem.upper[i] = rng.normal(0, 20)
    expected = slow.infeasible_node(problem)
    assert (expected is None) == slow.is_feasible(problem)
    if expected is None:
        check_optimum(problem)
    else:
        assert refuse_problem(problem) == expected


def test_infeasible_bounds_name_the_node_in_any_numbering():
    # Parents have smaller numbers than their children, but node 2 is higher than node 1.
    post = gm.Consistency(gm.Tree.from_parents([-1, 0, 0, 1, 2, 4]))
    with pytest.raises(ValueError, match="node 2 must be between 5 and inf"):
        post.project(np.zeros(6), lower={"node": [-9, -9, 5, -9, -np.inf, -np.inf]},
                     upper={"node": [np.inf] * 5 + [1]})  # fmt: skip


@pytest.mark.parametrize("seed", [69, 139, 229, 253, 307])
def test_rounding_makes_no_sum_of_nonnegative_values_negative(seed):
    rng = np.random.default_rng(seed)
    tree = gm.shapes.chain(int(rng.integers(10, 40)))
    known = tree.aggregate(rng.integers(0, 100, tree.n_leaves) * (rng.random(tree.n_leaves) < 0.5))
    noisy = rng.normal(0, 1e5, tree.n)
    upper = {"node": np.where(rng.random(tree.n) < 0.5, known, np.inf)}
    assert (gm.Consistency(tree).project(noisy, nonnegative=True, upper=upper) >= 0).all()


def test_named_shapes():
    rng = np.random.default_rng(3)
    for tree in named_shapes(60).values():
        inside = tree.aggregate(rng.poisson(3, tree.n_leaves).astype(float))
        v = inside + rng.normal(0, 3, tree.n)
        room = rng.integers(0, 5, tree.n)
        check_optimum(slow.Problem(tree, v, np.ones(tree.n), inside - room, inside + room))


@pytest.mark.parametrize(("nodes", "least"), [(20_000, -np.inf), (20_000, 0), (200_000, 0)])
def test_bounds_of_a_census_need_no_polylines(nodes, least):
    tree, rng = gm.datasets.census2010(nodes=nodes).tree, np.random.default_rng(5)
    counts = tree.aggregate(rng.poisson(3, tree.n_leaves))
    lower, upper = np.full(tree.n, -np.inf), np.full(tree.n, np.inf)
    lower[tree.leaves], upper[tree.leaves] = least, (counts + rng.poisson(3, tree.n))[tree.leaves]
    states = tree.depth == 2
    lower[states], upper[states] = counts[states] - 5, counts[states] + 5
    v = counts + rng.laplace(0, 8, tree.n)
    post, bounds = gm.Consistency(tree), {"lower": {"node": lower}, "upper": {"node": upper}}
    with mock.patch.object(between, "by_polylines", side_effect=AssertionError):
        x, info = post.project(v, return_info=True, **bounds)
    assert info.violation <= 1e-9
    with only_polylines():
        np.testing.assert_allclose(x, post.project(v, **bounds), rtol=0, atol=1e-9)


def test_threads_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(_sweep, "SMALLEST_SHARED_LEVEL", 4)
    monkeypatch.setattr(_sweep, "BLOCKS", 4)
    monkeypatch.setattr(_sweep, "SMALLEST_BLOCK", 1)
    rng = np.random.default_rng(9)
    for shape in named_shapes(2000).values():
        tree = gm.Tree.from_parents(shape.parent)
        v = tree.aggregate(rng.poisson(3, tree.n_leaves)) + rng.normal(0, 3, tree.n)
        first, *others = (gm.Consistency(tree, threads=k).project(v, upper=4) for k in (1, 2, 3, 7))
        for x in others:
            assert x.tobytes() == first.tobytes()


def test_lower_bounds_of_leaves_by_both_methods():
    """Any upper bound requests the general method, which must find the same optimum."""
    rng = np.random.default_rng(4)
    for tree in named_shapes(200).values():
        v, s = rng.normal(0, 3, tree.n), rng.uniform(0.1, 10, tree.n)
        post = gm.Consistency(tree, {"node": s})
        x = post.project(v, nonnegative=True)
        y = post.project(v, nonnegative=True, upper=1e6)
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-11)
        mirrored = -post.project(-v, upper=0)
        np.testing.assert_allclose(x, mirrored, rtol=0, atol=1e-11)


# --------------------------------------------------------------------------- forms of bounds

LABELLED = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Kings", "Orange"])
NOISY = [9.0, 6, 4, 3, 2, 5]


@pytest.mark.parametrize(
    "upper",
    [
        {"node": [np.inf, 4, np.inf, np.inf, 1, np.inf]},
        {"NY": 4, ("NY", "Kings"): 1},
        pd.DataFrame({"state": ["NY", "NY"], "county": [None, "Kings"], "n": [4, 1]}),
    ],
)
def test_forms(upper):
    names = ["state", "county"]
    columns = ["NY", "NY", "VT"], ["Albany", "Kings", "Orange"]
    tree = LABELLED
    if isinstance(upper, pd.DataFrame):
        tree = gm.Tree.from_levels(
            pd.DataFrame(dict(zip(names, columns, strict=True))), levels=names
        )
    x = gm.Consistency(tree).project(NOISY, upper=upper)
    ny, kings = tree.node("NY"), tree.node(("NY", "Kings"))
    assert x[ny] <= 4
    assert x[kings] == 1


def test_bounds_of_leaves():
    tree = gm.shapes.star(4)
    v = [9.0, 3, 1.5, 4]
    x = gm.reconcile(tree, v, upper=[2, np.inf, np.inf])
    np.testing.assert_array_equal(x, gm.reconcile(tree, v, upper={"leaf": [2, np.inf, np.inf]}))
    np.testing.assert_allclose(x, [8.5, 2, 2, 4.5], rtol=1e-13)
    plain = gm.reconcile(tree, v)
    np.testing.assert_array_equal(gm.reconcile(tree, v, upper=np.inf), plain)
    np.testing.assert_array_equal(gm.reconcile(tree, v, upper={"node": [np.inf] * 4}), plain)


@given(SEEDS, st.sampled_from((True, "random")))
def test_whole_bounds_are_kept_by_whole_numbers(seed, how):
    rng = np.random.default_rng(seed)
    tree = gm.shapes.random_recursive(int(rng.integers(1, 60)), rng)
    inside = tree.aggregate(rng.poisson(3, tree.n_leaves))
    below, above = np.where(rng.random((2, tree.n)) < 0.3, np.inf, rng.integers(0, 3, (2, tree.n)))
    s = np.where(rng.random(tree.n) < 0.1, 0, 10.0 ** rng.uniform(-2, 2, tree.n))
    v = np.where(s == 0, inside, inside + rng.normal(0, 3, tree.n))
    bounds = {"lower": {"node": inside - below}, "upper": {"node": inside + above}}
    post = gm.Consistency(tree, {"node": s})
    x = post.project(v, integer=how, rng=None if how is True else 1, **bounds)
    assert np.all((inside - below <= x) & (x <= inside + above))
    np.testing.assert_array_equal(x[s == 0], inside[s == 0])
    assert gm.consistency_bias(tree, x) == 0


def test_undetermined_siblings_share_as_evenly_as_bounds_allow():
    s = [1, 1, np.inf, np.inf]
    tree = gm.shapes.star(4)
    np.testing.assert_allclose(
        gm.reconcile(tree, [10.0, 4, 0, 0], {"node": s}, upper=[9, 1, 9]), [10, 4, 1, 5]
    )


def test_columns_and_float32_and_out():
    rng = np.random.default_rng(7)
    tree = gm.shapes.grouped(60, rng=1)
    v = rng.normal(0, 3, (tree.n, 3)).astype(np.float32)
    post = gm.Consistency(tree)
    x = post.project(v, upper=0.5)
    assert x.dtype == np.float32
    out = np.empty_like(x)
    assert post.project(v, upper=0.5, out=out) is out
    np.testing.assert_array_equal(out, x)
    for k in range(3):
        column = post.project(v[:, k].astype(float), upper=0.5)
        np.testing.assert_allclose(x[:, k], column, atol=1e-5)


def test_large_numbers():
    rng = np.random.default_rng(8)
    for tree in named_shapes(100).values():
        v = rng.normal(0, 3, tree.n)
        x = gm.reconcile(tree, v, lower={"node": np.full(tree.n, -9.0 * tree.n)}, upper=1)
        unit = 2.0**400
        bounds = {"lower": {"node": np.full(tree.n, -9.0 * tree.n * unit)}, "upper": unit}
        np.testing.assert_array_equal(gm.reconcile(tree, v * unit, **bounds), x * unit)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"upper": [1, 2]}, r"one per leaf \(3\)"),
        ({"upper": {"node": [1, 2]}}, r"one per node \(6\)"),
        ({"upper": [1, np.nan, 2]}, r"'upper' must be above -infinity; node 4"),
        ({"upper": -np.inf}, "'upper' must be above -infinity, not -inf"),
        ({"lower": {"NY": 3}, "upper": {"NY": 2}}, "node 1.*NY.* has the bounds 3 and 2"),
        ({"upper": {"Utah": 2}}, "'upper' must be a label of this tree, not 'Utah'"),
        ({"lower": {"Orange": 2, ("VT", "Kings"): 2}}, r"'lower' must .* not \('VT', 'Kings'\)"),
        ({"lower": {"NY": 9}, "upper": 2}, "node 1.*NY.* between 9 and inf.* between -inf and 4"),
        ({"upper": "x"}, "'upper'"),
    ],
)
def test_wrong_bounds(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        gm.Consistency(LABELLED).project(NOISY, **options)


def test_labels_for_a_tree_without_labels():
    with pytest.raises(ValueError, match="'upper' must not have labels"):
        gm.reconcile(gm.shapes.star(3), [9.0, 3, 4], upper={1: 2.0})
