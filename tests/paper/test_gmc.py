"""The formulas of GMC against dense matrices and the fused sweeps."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from reference import consistency as exact
from reference.consistency import problems
from trees import named_shapes, trees

import gmtree as gm

FORMS = (gm.gmc.with_square_roots, gm.gmc.without_square_roots)
POSITIVE = ("equal", "scalar", "level", "node")
STAR = gm.shapes.star(3)


@given(problems(max_n=40, kinds=POSITIVE), st.sampled_from([(), (1,), (3,)]))
def test_all_forms_agree(problem, columns):
    v = problem.v.reshape(-1, *(1 for _ in columns)) * np.ones(columns)
    before = v.copy()
    x = gm.consistent(problem.tree, v, problem.given)
    scale = np.abs(v).max()
    for form in FORMS:
        found = form(problem.tree, v, problem.given)
        np.testing.assert_allclose(found, x, rtol=0, atol=1e-12 * scale)
    np.testing.assert_array_equal(v, before)
    if problem.tree.n > 1 and not columns:
        dense = exact.dense(problem.parent, v, problem.s)
        np.testing.assert_allclose(x, dense, rtol=0, atol=1e-11 * scale)


@given(problems(max_n=30, kinds=POSITIVE))
def test_construct_keeps_inner_products(problem):
    if problem.tree.n == 1:
        return
    G = gm.gmc.construct(problem.tree, problem.given)
    assert G.tree == problem.tree.subtree(1)
    M = reference.constraint(problem.parent)
    D = G.toarray()
    np.testing.assert_allclose(D.T @ D, M.T @ (problem.s[:, None] * M), atol=1e-11)
    theta = np.array(exact.theta(problem.parent, problem.s))
    inner = problem.s[reference.internal(problem.parent)]
    np.testing.assert_allclose(G.node, np.sqrt(inner + theta), rtol=1e-12)
    edge = np.delete(G.edge * G.node, G.tree.root)
    np.testing.assert_allclose(edge, np.delete(inner, G.tree.root), rtol=1e-12)


@given(trees(max_n=30))
def test_construct_by_the_published_weights(tree):
    """w_i = sqrt(1 + theta_i) and one over that for the edge to the parent."""
    if tree.n == 1:
        return
    theta = np.array(exact.theta(tree.parent, np.ones(tree.n)))
    edge = 1 / np.sqrt(1 + theta)
    expected = gm.GenerationMatrix(tree.subtree(1), node=np.sqrt(1 + theta), edge=edge)
    np.testing.assert_allclose(gm.gmc.construct(tree).toarray(), expected.toarray(), rtol=1e-12)


def test_construct_is_the_upper_half_of_the_lo_qr_decomposition():
    tree = gm.shapes.grouped(20, rng=1)
    _, L = gm.lo_qr(gm.ConstraintMatrix(tree))
    np.testing.assert_allclose(gm.gmc.construct(tree).toarray(), L, atol=1e-12)


@pytest.mark.large
@pytest.mark.parametrize("name", list(named_shapes(10)))
def test_large_trees(name):
    tree = named_shapes(10**5)[name]
    rng = np.random.default_rng(0)
    v, s = rng.normal(10, 3, tree.n), rng.uniform(0.5, 2, tree.n)
    for variance in (None, {"node": s}):
        x = gm.consistent(tree, v, variance)
        for form in FORMS:
            np.testing.assert_allclose(form(tree, v, variance), x, rtol=0, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_values(form):
    v = [10, 4, 3]
    np.testing.assert_allclose(form(STAR, v), [9, 5, 4])
    single = form(STAR, np.array(v, np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, [9, 5, 4], rtol=1e-6)
    one = np.array([3.5])
    found = form(gm.shapes.chain(1), one)
    assert found == [3.5]
    assert not np.shares_memory(found, one)


@pytest.mark.parametrize("form", FORMS)
def test_bad_input(form):
    with pytest.raises(ValueError, match="'noisy' must be finite; node 1 is nan"):
        form(STAR, [1, np.nan, 1])
    with pytest.raises(ValueError, match="'noisy' must have shape"):
        form(STAR, [1, 1])
    for bad in (0.0, np.inf):
        message = f"'variance' must be positive and finite for .* node 2 has {bad}"
        with pytest.raises(ValueError, match=message):
            form(STAR, [1, 1, 1], [1, 1, bad])
    with pytest.raises(TypeError, match="'tree' must be a Tree"):
        form("tree", [1, 1, 1])


def test_construct_needs_a_constraint():
    with pytest.raises(ValueError, match="'tree' must have an internal node"):
        gm.gmc.construct(gm.shapes.chain(1))
