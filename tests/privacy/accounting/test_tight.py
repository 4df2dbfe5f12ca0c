"""Epsilon and delta from the distribution of the noise: never below the truth, and close."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.losses import exact_delta
from scipy import stats
from trees import trees

import gmtree as gm
from gmtree import privacy
from gmtree.privacy import Account, allocate, gaussian_epsilon, gaussian_rho, zcdp_epsilon
from gmtree.privacy.accounting.gaussian import loss_of_gaussian, loss_of_laplace
from gmtree.privacy.accounting.path_losses import path_epsilon

DELTAS = [1e-3, 1e-6, 1e-9, 1e-10]
sigmas = st.fractions(Fraction(1, 4), 6, max_denominator=8)


@settings(max_examples=60, deadline=None)
@given(st.lists(sigmas, min_size=1, max_size=3), st.sampled_from(DELTAS))
def test_a_path_is_never_understated_and_hardly_overstated(path, delta):
    counts = tuple((sigma, path.count(sigma)) for sigma in sorted(set(path)))
    epsilon = path_epsilon(counts, Fraction(delta))
    listed = [(float(sigma), 1) for sigma in path]
    assert exact_delta(listed, epsilon) <= delta * (1 + 1e-12)
    if epsilon:
        # With several sigmas, outcomes are moved to a grid.
        almost = epsilon * (1 - (1e-6 if len(counts) == 1 else 2e-3)) - 1e-9
        assert exact_delta(listed, almost) > delta


@pytest.mark.parametrize("sigma", [0.05, 0.2, 0.5, 1, 1.7, 3, 8, 20, 63.9, 64, 150])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_gaussian_noise_reveals_at_least_as_much(sigma, shift):
    m = shift * math.sqrt(2 * loss_of_gaussian(Fraction(sigma)))
    for epsilon in np.concatenate([np.linspace(0, m * m / 2 + 6 * m, 60), [0.1, 1, 10]]):
        wider = stats.norm.sf(epsilon / m - m / 2)
        wider -= np.exp(min(700, epsilon + stats.norm.logsf(epsilon / m + m / 2)))
        assert exact_delta([(sigma, shift)], epsilon) <= wider + 1e-13
    assert shift / sigma < m < shift / sigma * (1 + 1 / sigma**2)


@pytest.mark.parametrize("scale", [0.1, 0.5, 2, 30, 999, 1000, 10**7])
def test_laplace_noise_as_gaussian_noise(scale):
    m = math.sqrt(2 * loss_of_laplace(Fraction(scale)))
    # The total variation distance between neighbours.
    assert math.tanh(1 / scale / 2) <= 2 * stats.norm.cdf(m / 2) - 1 + 1e-15
    assert m <= 1.2534 / scale


@given(st.floats(1e-6, 1e3), st.sampled_from([1e-100, *DELTAS]))
def test_gaussian_epsilon_is_that_of_continuous_noise(rho, delta):
    epsilon, m = gaussian_epsilon(rho, delta), math.sqrt(2 * rho)

    def exact(x):
        # Mills ratios, since both terms are nearly equal.
        z = x / m - m / 2
        density = stats.norm.logpdf(z)
        a, b = (stats.norm.logsf(y) - stats.norm.logpdf(y) for y in (z, z + m))
        return math.exp(density + a) * -math.expm1(b - a)

    assert epsilon <= zcdp_epsilon(rho, delta)
    assert exact(epsilon) <= delta * (1 + 1e-6)
    if epsilon:
        assert exact(epsilon * (1 - 1e-6) - 1e-11) >= delta * (1 - 1e-6)


def test_limits_of_gaussian_epsilon():
    assert gaussian_epsilon(1, "1e-201") == gaussian_epsilon(10**6, 1e-9) == math.inf
    assert gaussian_epsilon(1e-12, 0.5) == 0
    for epsilon, delta in [(1, "1e-300"), ("1e-30", "1e-13")]:
        with pytest.raises(ValueError, match="'epsilon' and argument 'delta' must be larger"):
            gaussian_rho(epsilon, delta)
    # If the distribution of the noise gives no bound, the general bound is used.
    ledger = allocate(gm.shapes.star(3), rho=1).ledger
    assert ledger.epsilon("1e-300") == zcdp_epsilon(1, "1e-300")
    tiny = allocate(gm.shapes.star(3), rho=10**4).ledger
    assert 0 < tiny.epsilon(1e-9) <= zcdp_epsilon(10**4, 1e-9)
    assert loss_of_gaussian(Fraction(1, 31)) is None
    assert allocate(gm.shapes.star(3), rho="1e-30").ledger.epsilon(1e-9) < 1e-12


def test_bound_against_dp_accounting():
    """Google's accountant rounds each loss up to a multiple of 1e-4; then it is 1e-4 too high."""
    pld = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution", reason="needs dp-accounting"
    )
    interval, worst, points = 1e-4, [math.inf, -math.inf], 0
    for sigma in np.geomspace(0.3, 100, 50):
        theirs = [
            pld.from_discrete_gaussian_mechanism(
                float(sigma), value_discretization_interval=interval, pessimistic_estimate=up
            )
            for up in (True, False)
        ]
        for delta in DELTAS:
            ours = path_epsilon(((Fraction(float(sigma)), 1),), Fraction(delta))
            high, low = (law.get_epsilon_for_delta(delta) for law in theirs)
            assert ours >= low * (1 - 1e-9)
            assert ours >= high - interval
            assert ours <= high * 1.005
            worst = [min(worst[0], ours / high), max(worst[1], ours / high)]
            points += 1
    assert points == 200
    print(f"ours / dp-accounting on {points} points: {worst[0]:.5f} to {worst[1]:.5f}")


@pytest.mark.parametrize("neighbors", ["add_remove", "change_one"])
@pytest.mark.parametrize("height", [2, 3, 5])
def test_ledgers_against_dp_accounting(height, neighbors):
    pld = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution", reason="needs dp-accounting"
    )
    for rho in np.geomspace(0.01, 10, 9):
        tree, shares = gm.shapes.complete(3, height), range(1, height + 1)
        ledger = allocate(tree, rho=rho, neighbors=neighbors, shares=shares).ledger
        interval = ledger.epsilon(1e-6) * 1e-5
        # A record that moves changes two counts of each level below the root.
        scales = ledger.scales if neighbors == "add_remove" else 2 * ledger.scales[1:]
        high, low = (
            functools.reduce(
                lambda a, b: a.compose(b),
                [
                    pld.from_discrete_gaussian_mechanism(
                        float(sigma),
                        value_discretization_interval=interval,
                        pessimistic_estimate=up,
                    )
                    for sigma in scales
                ],
            )
            for up in (True, False)
        )
        for delta in DELTAS:
            ours = ledger.epsilon(delta)
            assert low.get_epsilon_for_delta(delta) <= ours * (1 + 1e-9)
            assert ours <= high.get_epsilon_for_delta(delta) * 1.005


# --------------------------------------------------------------------------- ledgers


@settings(max_examples=30, deadline=None)
@given(trees(6), st.integers(1, 3), st.sampled_from(["add_remove", "change_one"]), st.data())
def test_epsilon_of_a_ledger_covers_all_neighbours(tree, most, neighbors, data):
    rho = data.draw(st.sampled_from(["1/10", "1", "5"]))
    invariants = data.draw(st.sampled_from([(), (tree.root,)] if tree.n_leaves > 1 else [()]))
    allocation = allocate(
        tree, rho=rho, neighbors=neighbors, max_contributions=most, invariants=invariants
    )
    ledger, exact = allocation.ledger, allocation.exact
    leaves = data.draw(st.lists(st.integers(0, tree.n_leaves - 1), min_size=1, max_size=most))
    change = np.bincount(leaves, minlength=tree.n_leaves)
    if neighbors == "change_one":
        others = data.draw(
            st.lists(st.integers(0, tree.n_leaves - 1), min_size=len(leaves), max_size=len(leaves))
        )
        change = change - np.bincount(others, minlength=tree.n_leaves)
    by_node = np.abs(tree.aggregate(change))
    if exact is not None:
        by_node[exact] = 0
    counts = [
        (float(allocation.scales[tree.depth[i] - 1]), int(by_node[i]))
        for i in np.flatnonzero(by_node)
    ]
    # The number of outcomes that can be listed is limited.
    counts = sorted(counts)[:2]
    for delta in (1e-3, 1e-9):
        assert exact_delta(counts, ledger.epsilon(delta)) <= delta * (1 + 1e-9)


def test_ledgers_state_epsilon_for_the_usual_deltas():
    ledger = allocate(gm.shapes.complete(2, 3), rho="1/10").ledger
    (line,) = [x for x in str(ledger).splitlines() if x.startswith("  implied epsilon:")]
    assert line == (
        "  implied epsilon: 1.99625 (delta 1e-06), 2.58252 (delta 1e-09), 2.75364 (delta 1e-10)"
    )
    assert "implied epsilon:" not in str(allocate(gm.shapes.star(3), epsilon=1).ledger)


def test_ledgers_of_tables_state_the_loss_by_level():
    r = gm.release_tables(
        gm.shapes.star(3), [[1, 2]] * 2, axes={"a": 2}, queries=[(), ("a",)], rho="1/2",
        shares={(): [1, 1], ("a",): [1, 5]},
    )  # fmt: skip
    text = str(r.ledger)
    assert "  level  share  loss\n  1        1/4   1/8\n  2        3/4   3/8\n" in text


@pytest.mark.parametrize("epsilon", ["1/10", "1", "8"])
@pytest.mark.parametrize("neighbors", ["add_remove", "change_one"])
@pytest.mark.parametrize("most", [1, 3])
def test_a_target_takes_less_noise_than_the_conversion(epsilon, neighbors, most):
    tree, delta = gm.shapes.complete(3, 4), Fraction(1, 10**9)
    terms = {"neighbors": neighbors, "max_contributions": most}
    ledger = allocate(tree, epsilon=epsilon, delta=delta, **terms).ledger
    spent = ledger.epsilon(delta)
    assert Fraction(epsilon) * Fraction("0.994") <= spent <= Fraction(epsilon)
    old = allocate(tree, rho=privacy.zcdp_rho(epsilon, delta), **terms).ledger
    saved = [float(1 - a / b) for a, b in zip(ledger.scales, old.scales, strict=True)]
    assert 0.02 <= min(saved) <= max(saved) <= 0.11
    assert privacy.Ledger.from_dict(ledger.to_dict()) == ledger


def test_a_target_with_laplace_noise_uses_the_conversion():
    ledger = allocate(gm.shapes.star(3), epsilon=1, delta=1e-9, mechanism="discrete_laplace").ledger
    assert ledger.budget == privacy.zcdp_rho(1, 1e-9)
    assert ledger.epsilon(1e-9) == zcdp_epsilon(ledger.total, 1e-9)


def test_a_ledger_must_meet_its_target():
    data = allocate(gm.shapes.star(3), epsilon=1, delta=1e-9).ledger.to_dict()
    data["target"] = ["99/100", data["target"][1]]
    with pytest.raises(ValueError, match="must not claim a target that its noise does not meet"):
        privacy.Ledger.from_dict(data)


# --------------------------------------------------------------------------- accounts


def test_an_account_adds_the_losses_of_gaussian_noise():
    tree, counts = gm.shapes.star(4), [3, 0, 2]
    account = Account(epsilon=1, delta="1e-9")
    assert account.budget == gaussian_rho(1, "1e-9") > privacy.zcdp_rho(1, "1e-9")
    r = gm.release(tree, counts, epsilon="1/2", delta="1e-9", account=account)
    assert r.ledger.total < account.spent < r.ledger.total * Fraction("1.01")
    assert account.epsilon("1e-9") == pytest.approx(0.5, rel=1e-3)
    assert "  spent 0.00438852 (epsilon = 0.499997 with delta = 1e-9), left 0.01" in str(account)
    s = gm.release(tree, counts, epsilon="1/10", account=account)
    charged = account.entries[-1].charged
    expected = 2 * math.pi / 4 / float(s.ledger.scales[0]) ** 2
    assert float(charged) == pytest.approx(expected, rel=1e-3)
    gm.release(tree, counts, rho=account.left * Fraction("0.999"), account=account)
    assert 0.999 < account.epsilon("1e-9") <= 1


def test_one_release_may_take_a_whole_account():
    tree, counts = gm.shapes.star(4), [3, 0, 2]
    for epsilon in (1, 10):
        account = Account(epsilon=epsilon, delta=1e-9)
        gm.release(tree, counts, epsilon=epsilon, delta=1e-9, account=account)
        assert account.left < account.budget / 100
        with pytest.raises(ValueError, match="'account' must have"):
            gm.release(tree, counts, epsilon="1/2", delta=1e-9, account=account)
    account = Account(epsilon=10, delta=1e-9)
    gm.release(tree, counts, rho="1/1000", account=account)
    with pytest.raises(ValueError, match="'account' must have"):
        gm.release(tree, counts, epsilon=10, delta=1e-9, account=account)


@pytest.mark.parametrize("epsilon", [1, 3, 10, 20])
def test_a_whole_account_is_not_understated_at_other_deltas(epsilon):
    """The charge of a whole budget bounds the loss at the target, but not as a Gaussian loss."""
    tree, account = gm.shapes.star(1), Account(epsilon=epsilon, delta="1e-9")
    allocation = allocate(tree, epsilon=epsilon, delta="1e-9")
    account.charge(tree, allocation)
    assert account.left == 0
    amount = str(account).splitlines()[-1].split()[1]
    assert f"a budget of rho = {amount}, chosen" in str(account)
    for delta in (1e-2, 1e-3, 1e-6, 1e-8, 1e-9, 1e-10, 1e-12):
        spent = account.epsilon(delta)
        assert exact_delta([(allocation.scales[0], 1)], spent) <= delta
        assert spent <= (epsilon if delta >= 1e-9 else zcdp_epsilon(account.budget, delta))


def test_noise_without_a_gaussian_loss_is_refused():
    with pytest.raises(
        ValueError, match="must be in rho, without a delta, for noise of a scale below 1/30"
    ):
        Account(epsilon=1, delta=1e-9).check(
            gm.shapes.star(3), allocate(gm.shapes.star(3), rho=10**4)
        )
