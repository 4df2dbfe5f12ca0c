"""Non-negative tables and crossed trees, compared with nnls, for very different variances."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
from reference.crossed import Crossed, random_crossed
from reference.tables import Problem, measured, random_problem
from scipy.optimize import nnls

import gmtree as gm
from gmtree.consistency.tables import nonnegative

# GMTREE_NONNEGATIVE_PROBLEMS=2000 compares many more problems.
PROBLEMS = int(os.environ.get("GMTREE_NONNEGATIVE_PROBLEMS", "60"))
TOLERANCE = 1e-6


def spread_problem(rng) -> Problem:
    """Tables whose variances are from 1e-3 to 1e3."""
    missing, whole = rng.choice([0, 0.2, 0.5]), bool(rng.random() < 0.5)
    problem = random_problem(rng, missing=missing, exact=0, most_unknowns=60, whole=whole)
    variance = {
        query: np.where(np.isfinite(s), 10 ** rng.uniform(-3, 3, s.size), np.inf)
        for query, s in problem.variance.items()
    }
    y = measured(rng, problem.tree, problem.axes, variance, low=-2)
    return problem._replace(variance=variance, y=y)


def project(problem: Problem, **options):
    variance = {query: {"node": s} for query, s in problem.variance.items()}
    tables = gm.TableConsistency(problem.tree, problem.axes, variance)
    return tables.project(problem.y, nonnegative=True, return_info=True, **options)


def assert_near_optimum(rows, y, s, x, info, tolerance=TOLERANCE):
    """x is at most as far from the optimum as stated, which is at most the tolerance."""
    used = np.isfinite(s)
    root = np.sqrt(s[used])
    best, _ = nnls(rows[used] / root[:, None], y[used] / root, maxiter=10**6)
    distance = np.linalg.norm(rows[used] @ (x - best) / root)
    assert x.min() >= 0
    # The result of nnls has a remaining error, too.
    assert distance <= info.distance + 1e-9
    assert info.distance <= tolerance


def test_random_tables_are_solved_to_the_default_tolerance():
    rng = np.random.default_rng(0)
    for _ in range(PROBLEMS // 2):
        problem = spread_problem(rng)
        x, info = project(problem)
        assert_near_optimum(*problem.system(), x[problem.tree.leaves].ravel(), info)


def test_random_crossed_trees_are_solved_to_the_default_tolerance():
    rng = np.random.default_rng(0)
    count = 0
    while count < PROBLEMS // 2:
        problem: Crossed = random_crossed(rng, span=3)
        s = np.where(problem.s == 0, 1.0, problem.s)
        problem = problem._replace(s=s, y=problem.y + rng.normal(0, 5, s.shape))
        if problem.unmeasured_leaf is not None:
            continue
        count += 1
        post = gm.CrossedConsistency(problem.trees, s, exists=problem.exists)
        x, info = post.project(problem.y, nonnegative=True, return_info=True)
        leaves = x[np.ix_(*(tree.leaves for tree in problem.trees))].ravel()
        y, s = problem.y.ravel(), s.ravel()
        assert_near_optimum(problem.sums, y, s, leaves, info)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-8])
def test_splitting_keeps_its_tolerance(tolerance, monkeypatch):
    monkeypatch.setattr(nonnegative, "SMALL", -1)
    rng = np.random.default_rng(1)
    for _ in range(10):
        problem = random_problem(rng, missing=0.2, exact=0, low=-2, most_unknowns=40)
        x, info = project(problem, tolerance=tolerance)
        leaves = x[problem.tree.leaves].ravel()
        assert_near_optimum(*problem.system(), leaves, info, tolerance)


def test_an_active_set_finishes_if_splitting_does_not(monkeypatch):
    monkeypatch.setattr(nonnegative, "SMALL", -1)
    problem = spread_problem(np.random.default_rng(80))
    with monkeypatch.context() as patched:
        patched.setattr(nonnegative, "MEDIUM", -1)
        with pytest.raises(gm.consistency.sparse.ConvergenceError, match="not found to 1e-06"):
            project(problem, iterations=200)
    monkeypatch.setattr(nonnegative, "MOST_SPLITTING", 200)
    x, info = project(problem)
    assert_near_optimum(*problem.system(), x[problem.tree.leaves].ravel(), info)
    # Held cells are a good start for a problem with the same measurements.
    assert project(problem, start=info)[1].iterations <= info.iterations


def test_exact_values_that_need_negative_cells_are_named():
    tables = gm.TableConsistency(
        gm.shapes.star(3), {"a": 2}, {(): {"node": [0.0, 1, 0]}, ("a",): {"node": [1.0, 1, 1]}}
    )
    y = {(): np.array([2.0, 1, 5]), ("a",): np.ones((3, 2))}
    with pytest.raises(ValueError, match=r"must allow cells .* query \(\) at node \d is missed by"):
        tables.project(y, nonnegative=True)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_overflow_is_refused(bounded, dtype):
    largest = float(np.finfo(dtype).max)
    variance = {("a",): {"node": [np.inf, 1.0, 1.0]}}
    tables = gm.TableConsistency(gm.shapes.star(3), {"a": 2}, variance)
    y = {("a",): np.full((3, 2), 0.9 * largest, dtype)}
    with pytest.raises(ValueError, match=r"consistent tables that float\d\d can hold; a cell of"):
        tables.project(y, nonnegative=bounded)


@pytest.mark.parametrize("variance", [1e100, 1e-100])
def test_an_error_names_the_variance_that_was_given(variance):
    with pytest.raises(ValueError, match=re.escape(f"node 0 has {variance}. (query ('a', 'b'))")):
        gm.TableConsistency(gm.shapes.star(3), {"a": 2, "b": 3}, {("a", "b"): variance})
