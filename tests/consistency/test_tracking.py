"""Measurements that change one at a time give the same results as a new projection."""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.consistency import per_node, problems, random_problem
from trees import named_shapes

import gmtree as gm
from gmtree.consistency import tracking

SEEDS = st.integers(0, 2**32 - 1)
STAR = gm.shapes.star(3)


def current(live: gm.consistency.Tracker) -> np.ndarray:
    return live.value(np.arange(live.noisy.size))


def assert_as_projected(live: gm.consistency.Tracker, post: gm.Consistency, v: np.ndarray) -> None:
    """Within 1e-12 of the largest measurement, whatever happened before."""
    expected = post.project(v)
    scale = 1e-12 * np.abs(v).max(initial=1e-300)
    np.testing.assert_allclose(current(live), expected, rtol=0, atol=scale)
    np.testing.assert_array_equal(live.values(), expected)


@given(problems(max_n=30), SEEDS)
def test_updates_equal_a_full_projection(problem, seed):
    rng = np.random.default_rng(seed)
    post, v = problem.solver, np.where(np.isinf(problem.s), 0, problem.v)
    live = post.track(problem.v)
    assert_as_projected(live, post, v)
    for i in rng.integers(0, problem.tree.n, 6).tolist():
        if problem.s[i] > 0:
            value = rng.uniform(-100, 100)
            v[i] = value if np.isfinite(problem.s[i]) else 0
            live.update(i, value)
            assert_as_projected(live, post, v)


@given(problems(max_n=30, kinds=("equal", "node", "wide", "mixed")), SEEDS)
def test_what_is_kept_depends_on_the_measurements_alone(problem, seed):
    """Outliers of any size, at any node and in any order, leave no rounding errors behind."""
    rng = np.random.default_rng(seed)
    post = problem.solver
    live, new = post.track(problem.v), post.track(problem.v)
    free = np.flatnonzero((problem.s > 0) & np.isfinite(problem.s))
    if free.size == 0:
        return
    changed = rng.choice(free, 8)
    for i in changed.tolist():
        live.update(i, rng.choice([-1, 1]) * 10 ** rng.uniform(-300, 300))
    for i in rng.permutation(changed).tolist():
        live.update(i, problem.v[i])
    np.testing.assert_array_equal(current(live), current(new))


def test_an_outlier_leaves_nothing_behind():
    live = gm.Consistency(STAR).track([10.0, 4.0, 3.0])
    live.update(1, 1e18)
    live.update(1, 4.0)
    assert live.value(0) == 9
    np.testing.assert_array_equal(current(live), [9, 5, 4])


@pytest.mark.parametrize("weighted", [False, True])
def test_adversarial_updates_on_named_shapes(weighted):
    """Up and down by thirty powers of ten, near each other and far apart."""
    rng = np.random.default_rng(1)
    for name, tree in named_shapes(700).items():
        s = rng.uniform(0.1, 10, tree.n) if weighted else None
        post, v = gm.Consistency(tree, per_node(s)), rng.standard_normal(tree.n)
        live = post.track(v)
        for k in range(60):
            i = int(tree.leaves[k % min(3, tree.n_leaves)]) if k % 2 else int(rng.integers(tree.n))
            v[i] = rng.choice([-1, 1]) * 10.0 ** rng.integers(-15, 16)
            live.update(i, v[i])
        v[:] = rng.standard_normal(tree.n)
        for i in rng.permutation(tree.n).tolist():
            live.update(i, v[i])
        expected = post.project(v)
        np.testing.assert_allclose(current(live), expected, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.large
def test_adversarial_updates_in_a_star_of_a_million():
    rng = np.random.default_rng(2)
    tree = gm.shapes.star(10**6)
    post, v = gm.Consistency(tree), rng.standard_normal(tree.n)
    live = post.track(v)
    for _ in range(3):
        for i in rng.integers(0, tree.n, 500).tolist():
            live.update(i, rng.choice([-1, 1]) * 10.0 ** rng.integers(-15, 30))
        changed = np.flatnonzero(live.noisy != v)
        for i in changed.tolist():
            live.update(i, v[i])
    expected = post.project(v)
    np.testing.assert_allclose(current(live), expected, rtol=0, atol=1e-12)


@given(problems(max_n=30), SEEDS, st.integers(0, 40))
def test_several_nodes_at_once_are_as_one_by_one(problem, seed, m):
    rng = np.random.default_rng(seed)
    free = np.flatnonzero(problem.s > 0)
    if free.size == 0:
        return
    nodes, values = rng.choice(free, m), rng.uniform(-100, 100, m)
    together, single = problem.solver.track(problem.v), problem.solver.track(problem.v)
    together.update(nodes, values)
    for i, value in zip(nodes.tolist(), values.tolist(), strict=True):
        single.update(i, value)
    np.testing.assert_array_equal(current(together), current(single))
    np.testing.assert_array_equal(together.noisy, single.noisy)


class Interrupt(BaseException):
    """An interrupt that is not an Exception, like one from the keyboard."""


def interrupted_at(line: int, call, *args) -> bool:
    """Raise an interrupt at this line of the tracker that `call` runs; whether there was one."""
    ran = 0

    def trace(frame, event, _):
        nonlocal ran
        if frame.f_code.co_filename != tracking.__file__:
            return None
        if event == "line":
            ran += 1
            if ran == line:
                raise Interrupt
        return trace

    sys.settrace(trace)
    try:
        call(*args)
    except Interrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.parametrize("nodes", [2, [1, 2, 0]])
def test_an_interrupt_at_any_line_leaves_no_contradiction(nodes):
    """An interrupt during an update, and another one while the first is undone."""
    post = gm.Consistency(gm.shapes.star(9), {"node": [0.0] + [1.0] * 8})
    before, after = np.arange(9.0), np.arange(9.0)
    after[nodes] = 100
    undone = 0
    for line in range(1, 100):
        live = post.track(before)
        if not interrupted_at(line, live.update, nodes, 100.0):
            break
        interrupted_at(line % 7, live.value, 0)
        np.testing.assert_allclose(current(live), live.values(), rtol=1e-14)
        undone += np.array_equal(live.noisy, before)
        assert np.array_equal(live.noisy, before) or np.array_equal(live.noisy, after)
    assert 20 < undone < line < 99
    np.testing.assert_array_equal(live.noisy, after)


def test_forms_of_questions():
    live = gm.Consistency(gm.shapes.complete(2, 3)).track(np.arange(7.0))
    assert isinstance(live.value(1), float)
    assert live.value([[0, 1], [2, 3]]).shape == (2, 2)
    assert live.value([]).shape == (0,)
    live.update([], [])
    np.testing.assert_array_equal(live.noisy, np.arange(7))
    live.update([[0, 1], [2, 3]], 5)
    np.testing.assert_array_equal(live.noisy, [5, 5, 5, 5, 4, 5, 6])
    live.update(np.uint8(6), np.float32(0.5))
    assert live.noisy[6] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        live.noisy[0] = 1


def test_neither_side_sees_the_other():
    v = np.array([10.0, 4.0, 3.0])
    post = gm.Consistency(STAR)
    live, other = post.track(v), post.track(v)
    live.update(1, 7.0)
    np.testing.assert_array_equal(v, [10, 4, 3])
    np.testing.assert_array_equal(current(other), [9, 5, 4])
    v[:] = 0
    np.testing.assert_array_equal(current(live), [10, 7, 3])
    np.testing.assert_array_equal(post.project([10, 4, 3], out=v), [9, 5, 4])
    np.testing.assert_array_equal(current(live), [10, 7, 3])


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies(how):
    live = gm.Consistency(STAR, [1, 2, 3]).track([10.0, 4.0, 3.0])
    np.testing.assert_array_equal(current(how(live)), current(live))


# --------------------------------------------------------------------------- exact, unmeasured


def test_update_of_an_exact_value():
    live = gm.Consistency(STAR, [0, 1, 1]).track([10.0, 4.0, 3.0])
    live.update(0, 12.0)
    np.testing.assert_allclose(current(live), [12, 6.5, 5.5])


@pytest.mark.parametrize("nodes", [0, [1, 0], [2, 2, 0]])
def test_a_contradiction_changes_nothing(nodes):
    live = gm.Consistency(STAR, 0).track([7.0, 4.0, 3.0])
    with pytest.raises(ValueError, match=r"'noisy' must agree .* node 0 is 9.0 but its children"):
        live.update(nodes, 9.0)
    np.testing.assert_array_equal(live.noisy, [7, 4, 3])
    np.testing.assert_array_equal(current(live), [7, 4, 3])
    live.update([0, 1, 2], [9, 4, 5])
    np.testing.assert_array_equal(current(live), [9, 4, 5])


def test_contradictions_in_another_numbering():
    tree = gm.Tree.from_parents([1, 2, -1])
    live = gm.Consistency(tree, {"node": [1, 0, 0]}).track([3.0, 5, 5])
    for i in (1, 2):
        with pytest.raises(ValueError, match=r"node 2 is .* but its children add up to"):
            live.update(i, 6.0)
    live.update(0, 4.0)
    live.update([1, 2], 6.0)
    np.testing.assert_array_equal(current(live), [6, 6, 6])


def test_updating_a_node_that_is_not_measured_changes_nothing():
    live = gm.Consistency(STAR, [1, 1, np.inf]).track([10, 4, np.nan])
    live.update([2, 1], [1e9, 5])
    np.testing.assert_allclose(current(live), [10, 5, 5])


def test_float32_stays_and_known_sums_may_be_rounded_to_it():
    v = np.array([0.3, 0.1, 0.2], np.float32)
    live = gm.Consistency(STAR, 0).track(v)
    assert live.values().dtype == np.float32
    live.update(0, 0.3)
    np.testing.assert_array_equal(live.noisy, v)
    with pytest.raises(ValueError, match="'value' must be finite as float32; that of node 1 is"):
        live.update(1, 1e39)
    np.testing.assert_array_equal(current(live), v)


def test_single_node():
    live = gm.Consistency(gm.shapes.chain(1)).track([3])
    assert live.value(0) == 3
    live.update(0, 5.5)
    assert live.value(0) == 5.5
    np.testing.assert_array_equal(live.values(), [5.5])


# --------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("node", "value", "error", "message"),
    [
        (3, 1.0, ValueError, "'node' must hold node numbers from 0 to 2, not 3"),
        ([0, -1], 1.0, ValueError, "'node' must hold node numbers from 0 to 2, not -1"),
        (0.5, 1.0, TypeError, "'node' must hold node numbers"),
        (0, np.nan, ValueError, "'value' must be finite as float64; that of node 0 is nan"),
        ([1, 2], [1, np.inf], ValueError, "that of node 2 is inf"),
        (0, "one", TypeError, "'value' must hold real numbers"),
        (0, True, TypeError, "'value' must hold real numbers"),
        (0, None, TypeError, "'value' must hold real numbers"),
        ([0, 1], [1, 2, 3], ValueError, r"'value' must be one number or have the shape of 'node'"),
        (0, [1, 2], ValueError, r"shape of 'node', \(\), not \(2,\)"),
        ([1, 2], 1.5e308, ValueError, "'value' must have sums that floating point numbers can"),
        ([2, 1, 2], [0, 1.5e308, 1.5e308], ValueError, "'value' must have sums"),
    ],
)
@pytest.mark.parametrize("n", [3, 3000])
def test_an_update_that_fails_changes_nothing(node, value, error, message, n):
    """In a family that is computed completely, and in one of which only a path is."""
    live = gm.Consistency(gm.shapes.star(n)).track(np.arange(n, dtype=float))
    before = live.noisy.copy(), current(live)
    if n > 3:
        message = message.replace("0 to 2", f"0 to {n - 1}").replace("not 3", f"not {n}")
        node = n if node == 3 else node
    with pytest.raises(error, match=message):
        live.update(node, value)
    np.testing.assert_array_equal(live.noisy, before[0])
    np.testing.assert_array_equal(current(live), before[1])


def test_bad_measurements_and_questions():
    post = gm.Consistency(STAR)
    with pytest.raises(ValueError, match=r"'noisy' must have shape \(3,\), one value per node"):
        post.track(np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"'noisy' must be finite; node 1 is nan; .* variance inf"):
        post.track([1, np.nan, 1])
    with pytest.raises(ValueError, match="'noisy' must have sums that floating point"):
        post.track([0, 1.5e308, 1.5e308])
    with pytest.raises(ValueError, match=r"node 0 is 8.0 but its children add up to 7.0"):
        gm.Consistency(STAR, 0).track([8.0, 4, 3])
    live = post.track([1, 1, 1])
    with pytest.raises(ValueError, match="'node' must hold node numbers from 0 to 2, not -1"):
        live.value(-1)


def test_values_too_large_to_hold_are_refused_when_asked_for():
    live = gm.Consistency(STAR).track([0.8e308, 1.7e308, -1.7e308])
    assert np.isfinite(live.value(2))
    with pytest.raises(ValueError, match=r"'node' must have a value .*; node 1 does not"):
        live.value([2, 1])


def test_update_of_a_large_tree_is_a_full_projection():
    rng = np.random.default_rng(0)
    tree = gm.shapes.grouped(20_000, rng=1)
    problem = random_problem(tree, "node", rng)
    post, v = problem.solver, problem.v.copy()
    live = post.track(v)
    for i in rng.integers(0, tree.n, 500).tolist():
        v[i] = rng.uniform(-100, 100)
        live.update(i, v[i])
    assert_as_projected(live, post, v)
