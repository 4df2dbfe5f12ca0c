"""Functions of jax: values and derivatives equal dense algebra, under jit, vmap and grad."""

from __future__ import annotations

import numpy as np
import pytest
from reference.consistency import leaf_sums

import gmtree as gm

jax = pytest.importorskip("jax", reason="jax is not installed")
jnp = jax.numpy

TREE = gm.shapes.random_recursive(9, 4)


@pytest.fixture(autouse=True)
def _double_precision():
    jax.config.update("jax_enable_x64", True)


def dense(tree, v, s):
    A = jnp.array(np.array(leaf_sums(tree.parent), float))
    AW = A.T / s
    return (A @ jnp.linalg.solve(AW @ A, AW @ v.T)).T


@jax.jit
def by_constraints(C, v, s, g):
    """Values and gradients by dense algebra, compiled once for all trees of one size.

    Row i of C is node i minus its children, and zero for leaves.
    """
    leaf = jnp.diag((C == 0).all(axis=1).astype(float))

    def function(v, s):
        return v - (jnp.linalg.solve((C * s) @ C.T + leaf, C @ v.T).T @ C) * s

    x, pull = jax.vjp(function, v, s)
    return [x, *pull(g)]


def test_values_and_jacobians_equal_dense_algebra_on_300_trees():
    """With unit vectors as gradients of copies of v, rows of the jacobian come back."""
    rng, n = np.random.default_rng(1), 12
    for k in range(300):
        make = (gm.shapes.random_recursive, gm.shapes.star, gm.shapes.caterpillar)[k % 3]
        tree = make(n, *([rng] if k % 3 == 0 else []))
        C = np.eye(n) * (tree.child_count > 0)
        child = np.flatnonzero(tree.parent >= 0)
        C[tree.parent[child], child] = -1
        v, s = jnp.tile(jnp.array(rng.normal(size=n)), (n, 1)), 10 ** rng.uniform(-1, 1, n)
        g = jnp.eye(n) if k % 2 else jnp.array(rng.normal(size=(n, n)))

        def found(v, s, g, by_level, tree=tree):
            def function(v, s):
                return gm.jax.reconcile(tree, v, s, dim=1, by_level=by_level)

            x, pull = jax.vjp(function, v, s)
            return [x, *pull(g)]

        sweeps = found(v, jnp.array(s), g, by_level=False)
        for a, b in zip(by_constraints(C, v, s, g), sweeps, strict=True):
            np.testing.assert_allclose(b, a, rtol=0, atol=1e-9 * max(1, np.abs(a).max()))
        if k in (0, 1, 2, 3):  # jax compiles the levels of each tree
            levels = jax.jit(found, static_argnums=3)(v, jnp.array(s), g, True)
            for a, b in zip(sweeps, levels, strict=True):
                np.testing.assert_allclose(b, a, rtol=0, atol=1e-12 * max(1, np.abs(a).max()))


def test_second_derivatives():
    rng = np.random.default_rng(2)
    v, s = jnp.array(rng.normal(size=TREE.n)), jnp.array(rng.uniform(0.5, 2, TREE.n))

    def loss(function):
        return lambda v, s: jnp.sum(jnp.sin(function(v, s)))

    def hessian(function):
        both = jax.grad(loss(function), argnums=(0, 1))
        return jax.grad(lambda v, s: sum(jnp.sum(jnp.cos(x)) for x in both(v, s)), (0, 1))(v, s)

    expected = hessian(lambda v, s: dense(TREE, v[None], s)[0])
    for a, b in zip(expected, hessian(lambda v, s: gm.jax.reconcile(TREE, v, s)), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-8)


@pytest.mark.parametrize("by_level", [False, True])
def test_jit_vmap_and_grad(by_level):
    rng = np.random.default_rng(3)
    v, s = jnp.array(rng.normal(size=(4, TREE.n))), jnp.array(rng.uniform(0.5, 2, (4, TREE.n)))

    def one(row, s):
        return gm.jax.reconcile(TREE, row, s, by_level=by_level)

    expected = np.stack([dense(TREE, row[None], each)[0] for row, each in zip(v, s, strict=True)])
    np.testing.assert_allclose(jax.jit(jax.vmap(one))(v, s), expected, atol=1e-10)
    shared = jax.jit(jax.vmap(one, in_axes=(0, None)))(v, s[0])
    np.testing.assert_allclose(shared, dense(TREE, v, s[0]), atol=1e-10)
    first = jax.jit(jax.vmap(jax.grad(lambda row, s: one(row, s)[0], argnums=(0, 1))))(v, s)
    for k in range(4):
        of_v, of_s = jax.grad(lambda row, s: dense(TREE, row[None], s)[0, 0], (0, 1))(v[k], s[k])
        np.testing.assert_allclose(first[0][k], of_v, atol=1e-9)
        np.testing.assert_allclose(first[1][k], of_s, atol=1e-9)


def test_solves_and_optimum_without_negative_values_equal_those_of_torch_and_numpy():
    rng = np.random.default_rng(4)
    v, node, edge = rng.normal(size=(9, 4)), rng.uniform(1, 2, 9), rng.uniform(1, 2, 9)
    G, post = gm.GenerationMatrix(TREE, node, edge), gm.Consistency(TREE)
    gradients = []
    for by_level in (False, True):
        args = (TREE, jnp.array(v), jnp.array(node), jnp.array(edge))
        np.testing.assert_allclose(
            gm.jax.propagate(*args, by_level=by_level), G.solve(v), atol=1e-12
        )
        np.testing.assert_allclose(
            gm.jax.accumulate(*args, by_level=by_level), G.T.solve(v), atol=1e-12
        )

        def weigh(v, node, edge, by_level=by_level):
            x = gm.jax.reconcile(post, v, nonnegative=True, by_level=by_level)
            z = gm.jax.accumulate(TREE, x, node, edge, by_level=by_level)
            return jnp.sum(jnp.sin(gm.jax.propagate(TREE, z, node, edge, by_level=by_level)))

        gradients.append(jax.jit(jax.grad(weigh, argnums=(0, 1, 2)))(*args[1:]))
        x = gm.jax.reconcile(post, args[1], nonnegative=True, by_level=by_level)
        np.testing.assert_allclose(x, post.project(v, nonnegative=True), atol=1e-12)
    for a, b in zip(*gradients, strict=True):
        np.testing.assert_allclose(b, a, atol=1e-9)
    numeric = (weigh(*(jnp.array(x) for x in (v, node + 1e-6, edge)))
               - weigh(*(jnp.array(x) for x in (v, node - 1e-6, edge)))) / 2e-6  # fmt: skip
    assert numeric == pytest.approx(float(gradients[0][1].sum()), rel=1e-5)


def test_second_derivatives_without_negative_values():
    """The derivatives are those of the projection with the same leaves held at zero."""
    rng = np.random.default_rng(5)
    v, s = jnp.array(rng.normal(size=(9, 2))), jnp.array(rng.uniform(1, 2, 9))

    def slope(v, s):
        def loss(v, s):
            return jnp.sum(jnp.sin(gm.jax.reconcile(TREE, v, s, nonnegative=True)))

        return sum(jnp.sum(jnp.cos(x)) for x in jax.grad(loss, (0, 1))(v, s))

    assert (gm.jax.reconcile(TREE, v, s, nonnegative=True) == 0).any()
    direction, small = jnp.array(rng.normal(size=9)), 1e-6
    numeric = (slope(v, s + small * direction) - slope(v, s - small * direction)) / (2 * small)
    assert jax.grad(slope, 1)(v, s) @ direction == pytest.approx(float(numeric), rel=1e-5)


def test_types_axes_and_bad_arguments():
    x = gm.jax.reconcile(TREE, jnp.ones((2, 9, 3), jnp.float32), {"node": np.ones(9)})
    assert (x.shape, x.dtype) == ((2, 9, 3), jnp.float32)
    crossed = jnp.array(np.random.default_rng(6).normal(size=(4, 9)))
    star = gm.shapes.star(4)
    x = gm.jax.reconcile(TREE, gm.jax.reconcile(star, crossed, dim=0), dim=1)
    np.testing.assert_allclose(x, gm.CrossedConsistency([star, TREE]).project(crossed), atol=1e-10)
    for call, words in (
        (lambda: gm.jax.reconcile(TREE, jnp.ones(8)), "9 nodes"),
        (lambda: gm.jax.reconcile(gm.Consistency(TREE), jnp.ones(9), 1.0), "variance"),
        (lambda: gm.jax.propagate(TREE, jnp.ones(9), jnp.ones(3)), "node_weight"),
        (lambda: gm.jax.accumulate([0], jnp.ones(9)), "tree"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            call()
