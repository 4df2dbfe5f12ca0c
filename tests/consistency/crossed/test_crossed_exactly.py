"""Crossed trees compared with exact fractions, for variances of any size and missing pairs."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest
from reference.crossed import Crossed, random_crossed

import gmtree as gm

# GMTREE_CROSSED_PROBLEMS=12000 compares many more problems.
PROBLEMS = int(os.environ.get("GMTREE_CROSSED_PROBLEMS", "120"))
STAR = gm.shapes.star(3)


def check(problem: Crossed) -> str:
    """Compare with the exact optimum, or with the reason why there is none; return the outcome."""
    trees, s, y, exists = problem
    if problem.unmeasured_leaf is not None:
        with pytest.raises(ValueError, match="could be anything"):
            gm.CrossedConsistency(trees, s, exists=exists)
        return "unmeasured"
    post = gm.CrossedConsistency(trees, s, exists=exists)
    expected = problem.optimum()
    if expected is None:
        with pytest.raises(ValueError, match="must agree if values are known exactly"):
            post.project(y)
        return "contradiction"
    scale = abs(y[np.isfinite(s)]).max(initial=0)
    np.testing.assert_allclose(post.project(y), expected.value, rtol=0, atol=1e-8 * scale)
    variance = post.node_variance()
    np.testing.assert_allclose(variance, expected.variance, rtol=1e-8, atol=0)
    place = tuple(int(k) for k in np.unravel_index(s.size // 2, s.shape))
    assert post.variance_at(*place) == pytest.approx(variance[place], rel=1e-12)
    return "optimum"


@pytest.mark.parametrize("span", [2, 6, 40])
def test_random_problems_equal_exact_fractions_or_are_refused_for_a_reason(span):
    rng = np.random.default_rng(span)
    seen = Counter(check(random_crossed(rng, span=span)) for _ in range(PROBLEMS // 3))
    print(f"variances from 1e-{span} to 1e{span}: {dict(seen)}")
    assert seen["optimum"] > PROBLEMS // 5


def test_exact_values_that_are_rounded_sums_do_not_contradict_each_other():
    rng = np.random.default_rng(1)
    for _ in range(60):
        problem = random_crossed(rng)
        exact = (problem.s == 0) | (rng.random(problem.s.shape) < 0.5)
        x = rng.normal(0, 1e3, problem.exists.shape)
        y = (problem.sums @ x.ravel()).reshape(problem.s.shape)
        s = np.where(exact, 0, np.where(np.isinf(problem.s), 1, problem.s))
        y += np.where(exact, 0, rng.normal(0, 1e3, y.shape))
        found = gm.CrossedConsistency(problem.trees, s, exists=problem.exists).project(y)
        np.testing.assert_allclose(found[exact], y[exact], atol=1e-9)


def test_very_different_variances_with_missing_pairs():
    s = [[1e-4, np.inf, np.inf], [1e4, 1e4, 1e-4], [1e4, 1, 1e4]]
    y = [[16.75, 10.5, 8.75], [12, 3.75, 7.25], [6.5, 6, 0.5]]
    x = gm.CrossedConsistency([STAR, STAR], np.array(s)).project(y)
    np.testing.assert_allclose(x[0], [16.75, 9.625, 7.125], atol=1e-4)
    np.testing.assert_allclose(x[0], x[1] + x[2], rtol=1e-14)
    np.testing.assert_allclose(x[:, 0], x[:, 1] + x[:, 2], rtol=1e-14)


@pytest.mark.parametrize("scale", [1e155, 1e-170, 1e300])
def test_very_large_and_very_small_values(scale):
    rng = np.random.default_rng(0)
    s, y = rng.uniform(1, 2, (3, 3)), rng.normal(5, 1, (3, 3))
    post = gm.CrossedConsistency([STAR, STAR], s)
    for options in ({}, {"nonnegative": True}):
        tolerance = {"tolerance": 1e300} if options else {}
        x = post.project(y * scale, **options, **tolerance)
        np.testing.assert_allclose(x / scale, post.project(y, **options), rtol=1e-12)


def test_variances_of_pairs_that_were_never_measured():
    post = gm.CrossedConsistency([STAR], np.array([np.inf, 1, 4]))
    np.testing.assert_allclose(post.node_variance(), [5, 1, 4])
    np.testing.assert_allclose([post.variance_at(i) for i in range(3)], [5, 1, 4])
    post = gm.CrossedConsistency([STAR], np.array([0.0, 1, 4]))
    np.testing.assert_allclose([post.variance_at(i) for i in range(3)], [0, 0.8, 0.8])
    post = gm.CrossedConsistency([STAR], np.array([1.0, np.inf, np.inf]))
    np.testing.assert_allclose([post.variance_at(i) for i in range(3)], [1, np.inf, np.inf])


def test_variances_at_a_ratio_of_1e12():
    post = gm.CrossedConsistency([STAR], np.array([1e-6, 1e6, np.inf]))
    np.testing.assert_allclose(post.node_variance(), [1e-6, 1e6, 1e6 + 1e-6], rtol=1e-12)


@pytest.mark.parametrize("how", ["products", "any", "nonnegative"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_overflow_is_refused(how, dtype):
    largest = float(np.finfo(dtype).max)
    s = None if how == "products" else np.array([[1.0, 2, 3], [1, 1, 1], [1, 1, 1]])
    y = np.full((3, 3), 0.9 * largest, dtype)
    post = gm.CrossedConsistency([STAR, STAR], s)
    with pytest.raises(ValueError, match=r"consistent values that float\d\d can hold"):
        post.project(y, nonnegative=how == "nonnegative", tolerance=largest)


def test_products_of_extreme_variances_name_no_number_that_nobody_gave():
    a = np.array([1e-100, 1e-50, 1.0])
    post = gm.CrossedConsistency([STAR, STAR], np.multiply.outer(a, 1 / a))
    assert "products" in repr(post)
    assert np.isfinite(post.project(np.ones((3, 3)))).all()
