"""The formulas of GMC against dense matrices and the fused sweeps."""

from __future__ import annotations

import re

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
    x = gm.reconcile(problem.tree, v, problem.given)
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
    assert G.tree == problem.tree.k_order_subtree(1)
    M = reference.constraint(problem.parent)
    D = G.toarray()
    np.testing.assert_allclose(D.T @ D, M.T @ (problem.s[:, None] * M), atol=1e-11)
    theta = np.array(exact.theta(problem.parent, problem.s))
    inner = problem.s[reference.internal(problem.parent)]
    np.testing.assert_allclose(G.node_weight, np.sqrt(inner + theta), rtol=1e-12)
    edge = np.delete(G.edge_weight * G.node_weight, G.tree.root)
    np.testing.assert_allclose(edge, np.delete(inner, G.tree.root), rtol=1e-12)


@given(trees(max_n=30))
def test_construct_by_the_published_weights(tree):
    """w_i = sqrt(1 + theta_i) and one over that for the edge to the parent."""
    if tree.n == 1:
        return
    theta = np.array(exact.theta(tree.parent, np.ones(tree.n)))
    edge = 1 / np.sqrt(1 + theta)
    expected = gm.GenerationMatrix(tree.k_order_subtree(1), np.sqrt(1 + theta), edge)
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
        x = gm.reconcile(tree, v, variance)
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


# --------------------------------------------------------------------------- the whole algorithm


@given(trees(max_n=30), st.integers(0, 2**32), st.sampled_from([0.5, 1, 3]))
def test_release_is_noise_and_projection(tree, seed, epsilon):
    x = np.random.default_rng(seed).integers(0, 50, tree.n_leaves)
    before = x.copy()
    found = gm.gmc.release(tree, x, epsilon, rng=seed)
    noise = gm.privacy.testing.continuous_laplace(tree.height / epsilon, tree.n, seed)
    expected = gm.reconcile(tree, tree.aggregate(x) + noise)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * tree.n)
    np.testing.assert_array_equal(x, before)


def test_release_has_the_published_error():
    """The squared errors add up to 2 m h^2 / epsilon^2 on average, for 7 leaves and height 4."""
    tree, runs = gm.Tree.from_parents([-1, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4]), 3000
    rng = np.random.default_rng(5)
    x = np.arange(tree.n_leaves)
    errors = [gm.gmc.release(tree, x, 2, rng=rng) - tree.aggregate(x) for _ in range(runs)]
    total = np.mean(np.sum(np.square(errors), axis=1))
    # The error of one run is about as large as its mean, that of 3,000 runs a fiftieth of it.
    assert total == pytest.approx(2 * tree.n_leaves * (tree.height / 2) ** 2, rel=0.1)


def test_release_without_a_seed_differs_each_time():
    first, second = (gm.gmc.release(STAR, [1, 2], 1) for _ in range(2))
    assert np.all(first != second)


@pytest.mark.parametrize(
    ("x", "epsilon", "error", "message"),
    [
        ([1, 2, 3], 1, ValueError, r"'x' must have shape \(2,\)"),
        ([[1], [2]], 1, ValueError, r"'x' must have shape \(2,\), one value per leaf"),
        ([1, np.nan], 1, ValueError, "'x' must be finite; leaf 1 is nan"),
        ([1, 2], 0, ValueError, "'epsilon' must be positive"),
        ([1, 2], -1, ValueError, "'epsilon' must be positive"),
        ([1, 2], 5e-324, ValueError, "'epsilon' must be positive and large enough"),
        ([1, 2], np.inf, ValueError, "'epsilon' must be finite"),
        ([1, 2], "1", TypeError, "'epsilon' must be a real number"),
        ([1, 2], None, TypeError, "'epsilon' must be a real number"),
    ],
)
def test_release_refuses(x, epsilon, error, message):
    with pytest.raises(error, match=message):
        gm.gmc.release(STAR, x, epsilon)


def test_release_needs_a_tree():
    with pytest.raises(TypeError, match="'tree' must be a Tree"):
        gm.gmc.release("tree", [1, 2], 1)


# --------------------------------------------------------------------------- paper and code


def names_in_the_table() -> list[str]:
    """The right half of the table "the paper says / gmtree says"."""
    _, table = gm.gmc.__doc__.split("gmtree says\n", 1)
    rows = table.split("\n\n")[0].splitlines()[1:]
    return [row[45:].strip() for row in rows]


def test_every_name_beside_the_paper_exists():
    right = " ".join(names_in_the_table())
    names = re.findall(r"\b(gm|tree|G|post)((?:\.[A-Za-z_]\w*)+)", right)
    assert len(names) > 40
    tree = gm.shapes.complete(2, 3)
    known = {"gm": gm, "tree": tree, "G": gm.GenerationMatrix(tree), "post": gm.Consistency(tree)}
    for start, rest in names:
        value = known[start]
        for attribute in rest.split(".")[1:]:
            value = getattr(value, attribute)


def test_every_call_beside_the_paper_works_in_any_numbering():
    right = " ".join(names_in_the_table())
    calls = re.findall(r"(?:gm|tree|G|post)(?:\.\w+)+\((?:[^()]|\([^()]*\))*\)", right)
    tree = gm.Tree.from_parents([2, 2, 4, 4, -1, 3])
    n, m = tree.n, tree.n_leaves
    known = {
        "gm": gm, "np": np, "tree": tree, "parent": tree.parent, "index": tree.leaves, "n": n,
        "n_1": tree.n_internal, "G": gm.GenerationMatrix(tree), "other": gm.GenerationMatrix(tree),
        "post": gm.Consistency(tree), "i": 0, "j": 2, "k": 1, "v": np.ones(n), "x": np.ones(m, int),
        "values": np.ones(n), "w_node": np.ones(n), "w_edge": np.ones(n), "M": np.eye(3), "S": [1],
        "epsilon": 1,
    }  # fmt: skip
    assert len(calls) > 30
    for call in calls:
        # A matrix of weights that are all one has no eigenvectors.
        if "eigenvector" not in call:
            assert eval(call.replace("=...", "=1"), known) is not None
    parents = next(call for call in calls if "tree.parent[tree.leaves]" in call)
    M = gm.ConstraintMatrix(tree).toarray()
    np.testing.assert_array_equal(eval(parents, known).toarray(), -M[tree.leaves])


def test_the_table_fits_into_a_terminal_of_100_columns():
    assert max(map(len, gm.gmc.__doc__.splitlines())) <= 96
