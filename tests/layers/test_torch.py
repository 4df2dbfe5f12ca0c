"""Layers of torch: values, gradients and second gradients equal dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from reference.consistency import leaf_sums, problems, random_problem

import gmtree as gm
from gmtree import _layers
from gmtree.bench.comparisons import COMPARISONS, LAYER

torch = pytest.importorskip("torch", reason="torch is not installed")

TREE = gm.shapes.random_recursive(9, 4)


def tensor(rng: np.random.Generator, *shape: int, low: float = -2.0) -> torch.Tensor:
    return torch.tensor(rng.uniform(low, 2, shape), requires_grad=True)


def dense(tree: gm.Tree, v: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    """The closest consistent values of each row, by the normal equations."""
    A = torch.tensor(np.array(leaf_sums(tree.parent), float))
    AW = A.T / s
    return (A @ torch.linalg.solve(AW @ A, AW @ v.T)).T


def gradients(x: torch.Tensor, g: torch.Tensor, *of: torch.Tensor) -> list[np.ndarray]:
    return [x.detach().numpy(), *(a.numpy() for a in torch.autograd.grad((x * g).sum(), of))]


def solved(tree: gm.Tree, v: torch.Tensor, w: torch.Tensor, e: torch.Tensor, up: bool):
    """The solve with the Generation Matrix, whose columns are those of the identity."""
    child = torch.tensor(np.flatnonzero(tree.parent >= 0))
    parent = torch.tensor(tree.parent.astype(np.int64))[child]
    G = torch.diag(w) - torch.zeros(tree.n, tree.n).double().index_put((child, parent), e[child])
    return torch.linalg.solve(G.T if up else G, v)


def test_values_and_jacobians_equal_dense_algebra_on_300_trees():
    """Also for other axes, for variances by level, and for weights of solves."""
    rng = np.random.default_rng(1)
    for k in range(300):
        make = (gm.shapes.random_recursive, gm.shapes.star, gm.shapes.caterpillar)[k % 3]
        tree = make(int(rng.integers(1, 16)), *([rng] if k % 3 == 0 else []))
        s = torch.tensor(10 ** rng.uniform(-1, 1, tree.n), requires_grad=True)
        # The gradient of copy i for the unit vector e_i is row i of the jacobian.
        v = tensor(rng, tree.n).detach().repeat(tree.n, 1).requires_grad_()
        unit, noise = torch.eye(tree.n).double(), tensor(rng, tree.n, tree.n).detach()
        expected = gradients(dense(tree, v, s), unit, v)
        expected += gradients(dense(tree, v, s), noise, s)[1:]
        found = []
        for by_level in (False, True):
            x = gm.torch.reconcile(tree, v, s, dim=1, by_level=by_level)
            y = gm.torch.reconcile(tree, v.T, s, dim=0, by_level=by_level)
            found.append(gradients(x, unit, v) + gradients(y, noise.T, s)[1:])
        w, e = tensor(rng, tree.n, low=1.0), tensor(rng, tree.n)
        for name, up in (("propagate", False), ("accumulate", True)):
            a = v.T if k % 2 else v.T[:, 0]
            g = noise if k % 2 else noise[:, 0]
            expected += gradients(solved(tree, a, w, e, up), g, w, e, v)
            for by_level, of in zip((False, True), found, strict=True):
                z = getattr(gm.torch, name)(tree, a, w, e, by_level=by_level, dim=0)
                of += gradients(z, g, w, e, v)
        for a, b, c in zip(expected, *found, strict=True):
            scale = max(1, np.abs(a).max())
            np.testing.assert_allclose(b, a, rtol=0, atol=1e-9 * scale)
            np.testing.assert_allclose(c, b, rtol=0, atol=1e-12 * scale)


@given(problems(max_n=20, kinds=("equal", "scalar", "level", "node", "mixed")))
def test_exact_and_unmeasured_nodes(problem):
    """The transpose of the projection, with some variances 0 or infinite."""
    tree, post = problem.tree, problem.solver
    if post._factor.exact.size:
        return  # unit vectors contradict exact values
    P = post.project(np.eye(tree.n))
    v = torch.tensor(np.random.default_rng(1).normal(size=(2, tree.n)), requires_grad=True)
    for by_level in (False, True):
        x = gm.torch.reconcile(post, v, by_level=by_level)
        x_numbers, found = gradients(x, torch.ones_like(v) + v.detach(), v)
        np.testing.assert_allclose(x_numbers, v.detach().numpy() @ P.T, atol=1e-9)
        np.testing.assert_allclose(found, (1 + v.detach().numpy()) @ P, atol=1e-9)


@pytest.mark.parametrize("by_level", [False, True])
def test_gradcheck(by_level):
    rng = np.random.default_rng(2)
    v, s = tensor(rng, 2, TREE.n), tensor(rng, TREE.n, low=0.5)
    w, e = tensor(rng, TREE.n, low=1.0), tensor(rng, TREE.n)

    def layer(name, **options):
        function = getattr(gm.torch, name)
        return lambda *args: function(TREE, *args, by_level=by_level, **options)

    exact = {"eps": 1e-6, "atol": 1e-6, "rtol": 1e-6}
    for function, args in (
        (layer("reconcile"), (v,)),
        (layer("reconcile"), (v, s)),
        (layer("propagate"), (v, w, e)),
        (layer("accumulate"), (v, w, e)),
    ):
        assert torch.autograd.gradcheck(function, args, **exact)
        assert torch.autograd.gradgradcheck(function, args, **exact)
    nonnegative = layer("reconcile", nonnegative=True)
    assert (nonnegative(v, s) == 0).any()
    assert torch.autograd.gradcheck(nonnegative, (v, s), **exact)
    assert torch.autograd.gradgradcheck(nonnegative, (v, s), **exact)


@given(problems(max_n=20, kinds=("equal", "node", "mixed")))
def test_without_negative_values_the_levels_equal_the_sweeps(problem):
    try:
        expected = problem.solver.project(problem.v, nonnegative=True)
    except ValueError:  # exact values that contradict each other or the bound
        return
    results = []
    for by_level in (False, True):
        v = torch.tensor(np.where(np.isinf(problem.s), 0, problem.v), requires_grad=True)
        x = gm.torch.reconcile(problem.solver, v, nonnegative=True, by_level=by_level)
        results.append(gradients(x, torch.arange(problem.tree.n).to(v), v))
    scale = 1e-9 * np.abs(problem.v).max()
    np.testing.assert_allclose(results[0][0], expected, rtol=0, atol=scale)
    np.testing.assert_allclose(results[1][0], expected, rtol=0, atol=scale)
    np.testing.assert_allclose(results[1][1], results[0][1], rtol=0, atol=1e-7 * problem.tree.n)


def test_solves_equal_those_of_the_matrix():
    rng = np.random.default_rng(3)
    node, edge = rng.uniform(1, 2, TREE.n), rng.uniform(1, 2, TREE.n)
    G, v = gm.GenerationMatrix(TREE, node, edge), rng.normal(size=(TREE.n, 4))
    weights = torch.tensor(node), torch.tensor(edge)
    for by_level in (False, True):
        down = gm.torch.propagate(TREE, torch.tensor(v), *weights, by_level=by_level)
        up = gm.torch.accumulate(TREE, torch.tensor(v), *weights, by_level=by_level)
        np.testing.assert_allclose(down.numpy(), G.solve(v), atol=1e-12)
        np.testing.assert_allclose(up.numpy(), G.T.solve(v), atol=1e-12)


@pytest.mark.parametrize("shape", [(9,), (5, 9), (2, 5, 9), (9, 3), (2, 9, 3)])
def test_axes_types_and_memory(shape):
    rng = np.random.default_rng(5)
    v = torch.tensor(rng.normal(size=shape), dtype=torch.float32)
    axis = -1 if shape[-1] == 9 else -2
    for by_level in (False, True):
        x = gm.torch.Reconcile(TREE, by_level=by_level)(v)
        assert x.dtype == torch.float32
        assert x.shape == shape
        rows = torch.movedim(x, axis, 0).reshape(9, -1).double().numpy()
        expected = torch.movedim(v, axis, 0).reshape(9, -1).double().numpy()
        for name, learn in (("Reconcile", "node"), ("Propagate", True), ("Accumulate", True)):
            u = v.clone().requires_grad_()
            module = getattr(gm.torch, name)(TREE, learn=learn, by_level=by_level)
            y = module(u)
            y.sum().backward()
            assert y.dtype == u.grad.dtype == torch.float32
            assert all(p.grad.dtype == p.dtype for p in module.parameters())
        np.testing.assert_allclose(rows, gm.Consistency(TREE).project(expected), atol=1e-5)
    square = torch.tensor(rng.normal(size=(9, 9)))
    by_rows, by_columns = (gm.torch.reconcile(TREE, square, dim=dim) for dim in (1, 0))
    np.testing.assert_array_equal(by_rows, gm.torch.reconcile(TREE, square))
    np.testing.assert_allclose(by_columns, gm.Consistency(TREE).project(square.numpy()))


def test_tensors_are_not_copied(monkeypatch):
    """Sweeps use the memory of tensors whose first axis is the nodes, without copies."""
    seen = []
    for kind in (_layers.Projection, _layers.Solve):

        def spy(self, v, *weights, run=kind.__call__):
            out = run(self, v, *weights)
            seen.append([a.__array_interface__["data"][0] for a in (v, out)])
            return out

        monkeypatch.setattr(kind, "__call__", spy)
    for dtype in (torch.float32, torch.float64):
        v, g = torch.ones(9, 3, dtype=dtype, requires_grad=True), torch.ones(9, 3, dtype=dtype)
        for function in (gm.torch.reconcile, gm.torch.propagate, gm.torch.accumulate):
            x = function(TREE, v)
            assert seen.pop() == [v.data_ptr(), x.data_ptr()]
            (gradient,) = torch.autograd.grad(x, v, g)
            assert seen.pop() == [g.data_ptr(), gradient.data_ptr()]


@pytest.mark.parametrize("peer", [c for c in COMPARISONS if c.task == LAYER], ids=lambda c: c.peer)
def test_peers_compute_the_same(peer):
    """The peers that `gmtree bench peers` measures agree with gmtree."""
    assert peer.prepare(gm.shapes.complete(3, 4)).difference() < peer.tolerance


def test_learned_variances_and_weights():
    """Variances of the data generating process are found from errors alone."""
    torch.manual_seed(1)
    rng = np.random.default_rng(6)
    tree = gm.shapes.complete(3, 3)
    truth = tree.aggregate(rng.uniform(10, 20, (tree.n_leaves, 200))).T
    deviation = np.array([5.0, 1.0, 0.3])[tree.depth - 1]
    noisy = torch.tensor(truth + deviation * rng.normal(size=truth.shape))
    layer = gm.torch.Reconcile(tree, learn="level")
    assert layer.log_variance.shape == (3,)
    step = torch.optim.Adam(layer.parameters(), lr=0.1)
    losses = []
    for _ in range(60):
        step.zero_grad()
        loss = ((layer(noisy) - torch.tensor(truth)) ** 2).mean()
        loss.backward()
        step.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    first, second, third = layer.log_variance.tolist()
    assert first > second > third
    assert gm.torch.Reconcile(tree, learn="node").log_variance.shape == (tree.n,)
    weighted = gm.torch.Propagate(TREE, learn=True)
    weighted(torch.ones(9)).sum().backward()
    assert {name for name, _ in weighted.named_parameters()} == {"node_weight", "edge_weight"}
    assert weighted.edge_weight.grad[TREE.root] == 0
    assert not list(gm.torch.Accumulate(TREE).parameters())


def test_crossed_trees():
    a, b = gm.shapes.complete(2, 3), gm.shapes.star(4)
    rng = np.random.default_rng(7)
    noisy = rng.normal(size=(a.n, b.n))
    variances = [rng.uniform(1, 2, a.n), rng.uniform(1, 2, b.n)]
    expected = gm.CrossedConsistency([a, b], variances).project(noisy)
    layer = gm.torch.Reconcile([a, b], variances)
    np.testing.assert_allclose(layer(torch.tensor(noisy)), expected, atol=1e-10)
    both = layer(torch.tensor(np.stack([noisy, 2 * noisy])))
    np.testing.assert_allclose(both[1], 2 * expected, atol=1e-10)
    learned = gm.torch.Reconcile([a, b], learn="level")
    assert [p.shape[0] for p in learned.parameters()] == [3, 2]


def test_bad_arguments_are_refused():
    v = torch.ones(9)
    for call, words in (
        (lambda: gm.torch.reconcile(TREE, torch.ones(8)), "9 nodes"),
        (lambda: gm.torch.reconcile(TREE, np.ones(9)), "tensor"),
        (lambda: gm.torch.reconcile(TREE, v, torch.ones(8)), "variance"),
        (lambda: gm.torch.reconcile(TREE, v, -torch.ones(9)), "variance"),
        (lambda: gm.torch.reconcile(gm.Consistency(TREE), v, 1.0), "variance"),
        (lambda: gm.torch.reconcile(TREE, v * torch.nan), "finite"),
        (lambda: gm.torch.reconcile(TREE, v, dim=1), "9 nodes"),
        (lambda: gm.torch.propagate(TREE, v, torch.ones(3)), "node_weight"),
        (lambda: gm.torch.accumulate(TREE, v, None, 2.0), "edge_weight"),
        (lambda: gm.torch.Reconcile(TREE, learn="leaf"), "learn"),
        (lambda: gm.torch.Reconcile(TREE, {"node": np.zeros(9)}, learn="node"), "variance"),
        (lambda: gm.torch.Reconcile([TREE, TREE], nonnegative=True), "nonnegative"),
        (lambda: gm.torch.Propagate([1, 2]), "tree"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            call()


def test_a_state_can_be_saved_and_loaded(tmp_path):
    layer = gm.torch.Reconcile(
        TREE, random_problem(TREE, "node", np.random.default_rng(8)).s, learn="node"
    )
    torch.save(layer.state_dict(), tmp_path / "state.pt")
    other = gm.torch.Reconcile(TREE, learn="node")
    other.load_state_dict(torch.load(tmp_path / "state.pt"))
    torch.testing.assert_close(other(torch.ones(9)), layer(torch.ones(9)))
