"""Ledgers: losses compared with all neighbours of small trees, and conversions."""

from __future__ import annotations

import json
import math
import pickle
import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import special
from trees import all_parents, parents, trees

import gmtree as gm
from gmtree import privacy
from gmtree.privacy import Ledger, Level, allocate, privacy_loss, zcdp_delta, zcdp_epsilon
from gmtree.privacy.accounting.invariants import closed_under_sums
from gmtree.privacy.accounting.worst_case import whole_numbers

NEIGHBORS = ["add_remove", "change_one"]
# The largest effect of rounding.
ROOM = 1 + Fraction(1, 1 << 50)
fractions = st.fractions(min_value=Fraction(1, 100), max_value=10, max_denominator=100)


# --------------------------------------------------------------------------- all neighbours


def differences(tree: gm.Tree, neighbors: str, contributions: int) -> Iterator[list[int]]:
    """How the counts of all nodes can differ between neighbours."""
    leaves = range(tree.n_leaves)
    one_record = (
        [(i,) for i in leaves] if neighbors == "add_remove" else list(product(leaves, repeat=2))
    )
    for chosen in combinations_with_replacement(one_record, contributions):
        x = np.zeros(tree.n_leaves, np.int64)
        for change in chosen:
            x[change[0]] += 1
            if len(change) == 2:
                x[change[1]] -= 1
        yield tree.aggregate(x).tolist()


def exact_loss(
    tree: gm.Tree, scales, measure: str, neighbors: str, contributions: int, exact=()
) -> Fraction:
    """The largest loss over all neighbours, node by node."""
    worst = Fraction(0)
    for difference in differences(tree, neighbors, contributions):
        loss = Fraction(0)
        for i, d in enumerate(difference):
            scale = scales[tree.depth[i] - 1]
            if scale is not None and i not in exact:
                loss += abs(d) / scale if measure == "epsilon" else d * d / (2 * scale**2)
        worst = max(worst, loss)
    return worst


def largest_log_ratio(
    tree: gm.Tree, scales, before: list[int], after: list[int], reach: int
) -> Fraction:
    """Largest log P(y | before) - log P(y | after) of Laplace noise over all outputs y of a box."""
    return max(
        sum(
            (abs(y - b) - abs(y - a)) / scales[tree.depth[i] - 1]
            for i, (y, a, b) in enumerate(zip(outcome, before, after, strict=True))
        )
        for outcome in product(range(-1, reach + 1), repeat=tree.n)
    )


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("parent", [[-1, 0], [-1, 0, 0], [-1, 0, 0, 1], [-1, 0, 1, 1]])
def test_no_output_betrays_more_than_the_total(parent, neighbors):
    """All inputs, neighbours and outputs are enumerated; some of them reach the total."""
    tree = gm.Tree.from_parents(parent)
    shares = [1, 2, 3][: tree.height]
    scales, _, ledger = allocate(
        tree, epsilon="7/10", shares=shares, neighbors=neighbors, max_contributions=1
    )
    worst = Fraction(0)
    m = tree.n_leaves
    inputs = list(product(range(2), repeat=m))
    for x, z in product(inputs, repeat=2):
        d = np.subtract(x, z)
        moved = d.sum() == 0 and np.abs(d).sum() == 2
        if np.abs(d).sum() == 1 if neighbors == "add_remove" else moved:
            before, after = (tree.aggregate(c).tolist() for c in (x, z))
            worst = max(worst, largest_log_ratio(tree, scales, before, after, m + 1))
    assert worst == ledger.total
    assert ledger.total == (Fraction(7, 10) if m > 1 or neighbors == "add_remove" else 0)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("contributions", [1, 2])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_all_small_trees_are_accounted_exactly(n, contributions, neighbors):
    for parent in all_parents(n):
        tree = gm.Tree.from_parents(parent)
        shares = [Fraction(k + 1, 3) for k in range(tree.height)]
        for budget in ({"epsilon": "1/2"}, {"rho": "1/2"}):
            scales, _, ledger = allocate(
                tree,
                shares=shares,
                neighbors=neighbors,
                max_contributions=contributions,
                **budget,
            )
            options = (ledger.measure, neighbors, contributions)
            exact = exact_loss(tree, scales, *options)
            stated = privacy_loss(
                tree,
                scales,
                measure=ledger.measure,
                neighbors=neighbors,
                max_contributions=contributions,
            )
            if ledger.measure == "epsilon":
                assert exact == stated == ledger.total
            else:
                # A sigma that is not a fraction is rounded up, and has many digits.
                assert exact <= ledger.total <= exact * ROOM
                assert exact <= stated <= exact * ROOM
            assert ledger.total == (ledger.budget if exact else 0)


def fit_into_units(losses) -> bool:
    """Whether the losses are multiples of one unit and at most 2^61 of it in sum."""
    unit = Fraction(
        math.gcd(*(x.numerator for x in losses)), math.lcm(*(x.denominator for x in losses))
    )
    return not any(losses) or sum(losses) / unit <= 2**61


def check_unmeasured_levels_and_invariants(tree, scales, measure, neighbors, chosen) -> bool:
    """What `privacy_loss` promises; whether it had to round."""
    exact = set(np.flatnonzero(follows_from(tree, chosen)).tolist())
    losses = [
        Fraction(0) if s is None else 1 / s if measure == "epsilon" else 1 / (2 * s * s)
        for s in scales
    ]
    stated = privacy_loss(
        tree, scales, measure=measure, neighbors=neighbors, invariants=sorted(chosen)
    )
    truth = exact_loss(tree, scales, measure, neighbors, 1, exact)
    if fit_into_units(losses) or (neighbors == "add_remove" and not chosen):
        assert stated == truth
        return False
    assert truth <= stated <= truth + tree.height * sum(losses) / 2**59
    return True


@given(parents(12), st.sampled_from(NEIGHBORS), st.data())
def test_unmeasured_levels_and_invariants_are_accounted_exactly(parent, neighbors, data):
    """Losses are exact, or rounded up as documented if numbers have too many digits."""
    tree = gm.Tree.from_parents(parent)
    scales = [data.draw(st.none() | fractions) for _ in range(tree.height)]
    chosen = data.draw(st.sets(st.integers(0, tree.n - 1), max_size=4))
    for measure in ("epsilon", "rho"):
        check_unmeasured_levels_and_invariants(tree, scales, measure, neighbors, chosen)


def test_losses_with_many_digits_are_rounded_up_and_not_far():
    """A loss of 0.006 is rounded if another level, whose counts cannot change, loses 5000."""
    tree = gm.Tree.from_parents([-1, 0, 1, 2, 3, 4, 5, 6, 6])
    scales = [None] * 3 + [Fraction(x, 100) for x in (1, 17, 37, 47)] + [Fraction(563, 61)]
    assert check_unmeasured_levels_and_invariants(tree, scales, "rho", "change_one", set())


# --------------------------------------------------------------------------- invariants


def follows_from(tree: gm.Tree, chosen) -> np.ndarray:
    """Nodes whose counts are linear functions of those of the chosen nodes, by ranks."""
    leaves = tree.leaves.tolist()
    counts = np.array(
        [[tree.is_ancestor(i, leaf) for leaf in leaves] for i in range(tree.n)], float
    )
    known = counts[sorted(chosen)]
    rank = np.linalg.matrix_rank(known) if len(known) else 0
    return np.array([np.linalg.matrix_rank(np.vstack([known, row])) == rank for row in counts])


@given(parents(12), st.data())
def test_exact_are_all_counts_that_follow_from_exact_ones(parent, data):
    tree = gm.Tree.from_parents(parent)
    chosen = data.draw(st.sets(st.integers(0, tree.n - 1), max_size=8))
    mask = np.isin(np.arange(tree.n), list(chosen))
    np.testing.assert_array_equal(closed_under_sums(tree, mask), follows_from(tree, chosen))


def test_what_follows_from_invariants_is_free_and_named_as_derived():
    """Exact states make the total exact; the total and one of two children make the other."""
    two = gm.Tree.from_parents([-1, 0, 0, 1, 1, 2, 2])
    for invariants in ([1, 2], [0, 1], [Level(2)]):
        scales, exact, ledger = allocate(two, epsilon=1, invariants=invariants)
        assert np.flatnonzero(exact).tolist() == [0, 1, 2]
        assert scales == (None, None, 1)
        assert ledger.total == 1
    assert allocate(two, epsilon=1, invariants=[1, 2]).ledger.derived_invariants == ("level 1",)
    assert allocate(two, epsilon=1, invariants=[1, 0]).ledger.derived_invariants == ("level 2",)
    three = gm.Tree.from_parents([-1, 0, 0, 1, 1, 2, 2, 2])
    ledger = allocate(three, epsilon=1, invariants=[1, 2, 5, 6]).ledger
    assert ledger.derived_invariants == ("level 1", "node 7")
    assert "node 7: follows from exact counts" in str(ledger)
    # Many only children: the message states their number instead of listing them.
    many = gm.shapes.from_fanouts([[20], [1] * 19 + [2]])
    ledger = allocate(many, epsilon=1, invariants=[Level(2)]).ledger
    assert ledger.derived_invariants == ("level 1", "19 nodes of level 3")


def changes_of_one_person(
    tree: gm.Tree, neighbors: str, contributions: int
) -> Iterator[np.ndarray]:
    """Differences of all counts if the records of one person change in any way.

    Where records move their number stays the same; else it is anything up to `contributions`.
    """
    leaves = range(tree.n_leaves)
    sizes = range(contributions + 1) if neighbors == "add_remove" else [contributions]
    before, after = (
        [x for k in sizes for x in combinations_with_replacement(leaves, k)] for _ in range(2)
    )
    for old, new in product(before, after):
        x = np.zeros(tree.n_leaves, np.int64)
        np.subtract.at(x, list(old), 1)
        np.add.at(x, list(new), 1)
        yield tree.aggregate(x)


def exact_loss_given(tree: gm.Tree, ledger: Ledger, exact: np.ndarray) -> Fraction:
    """The largest loss of one person's changes that leave all exact counts as they are."""
    k, worst = ledger.max_contributions, Fraction(0)
    for d in changes_of_one_person(tree, ledger.neighbors, k):
        if not d[exact].any():
            part = abs(d) if ledger.measure == "epsilon" else d * d
            times = k if ledger.measure == "epsilon" else k * k
            own = zip(part.tolist(), (tree.depth - 1).tolist(), strict=True)
            worst = max(worst, sum(x * ledger.levels[level].loss / times for x, level in own))
    return worst


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("contributions", [1, 2])
@pytest.mark.parametrize("n", [3, 4, 5])
def test_the_loss_given_the_invariants_is_that_of_all_changes_that_keep_them(
    n, contributions, neighbors
):
    """All trees, all sets of invariants, all changes of one person's records."""
    seen = 0
    for k, parent in enumerate(all_parents(n)):
        tree = gm.Tree.from_parents(parent)
        shares = [Fraction(d + 1, 3) for d in range(tree.height)]
        budget = {("epsilon", "rho")[k % 2]: "1/2"}
        for chosen in product([False, True], repeat=n):
            if not any(chosen) or closed_under_sums(tree, np.array(chosen)).all():
                continue
            _, exact, ledger = allocate(
                tree,
                shares=shares,
                neighbors=neighbors,
                max_contributions=contributions,
                invariants=np.flatnonzero(chosen).tolist(),
                **budget,
            )
            assert ledger.total_given_invariants == exact_loss_given(tree, ledger, exact)
            seen += 1
    assert seen


def test_moving_a_record_below_an_exact_total_costs_twice():
    ledger = allocate(gm.shapes.star(3), epsilon=1, invariants=[0]).ledger
    assert (ledger.total, ledger.total_given_invariants) == (1, 2)
    assert "total if the exact counts are known (records may also move): 2" in str(ledger)
    moved = allocate(gm.shapes.star(3), epsilon=1, invariants=[0], neighbors="change_one").ledger
    assert (moved.total, moved.total_given_invariants) == (1, 1)
    assert allocate(gm.shapes.star(3), epsilon=1).ledger.total_given_invariants is None


@given(trees(30), st.sampled_from(NEIGHBORS), st.sampled_from(["epsilon", "rho"]), st.data())
def test_scales_never_spend_more_than_the_ledger_says(tree, neighbors, measure, data):
    weight = st.just(0.0) | st.floats(1e-9, 1)
    shares = data.draw(st.lists(weight, min_size=tree.height, max_size=tree.height))
    if not any(shares):
        shares[-1] = 0.3
    budget = data.draw(st.floats(1e-3, 100))
    most = data.draw(st.integers(1, 5))
    _, _, ledger = allocate(
        tree,
        **{measure: budget},
        shares=shares,
        neighbors=neighbors,
        max_contributions=most,
    )
    spent = privacy_loss(
        tree, ledger.scales, measure=measure, neighbors=neighbors, max_contributions=most
    )
    assert ledger.total in (0, ledger.budget)
    assert ledger.budget == Fraction(budget)
    assert ledger.total <= spent * ROOM
    assert spent <= ledger.total * ROOM
    # At each level the noise suffices for the stated loss, so the total is right, too.
    times = most if measure == "epsilon" else most**2
    for line, share in zip(ledger.levels, shares, strict=True):
        assert (line.scale is None) == (share == 0) == (line.nodes == 0)
        if line.scale is not None:
            one = 1 / line.scale if measure == "epsilon" else 1 / (2 * line.scale**2)
            assert times * one <= line.loss


@given(st.lists(st.fractions(min_value=0, max_value=10), min_size=1, max_size=20))
def test_whole_numbers_are_never_below(x):
    if any(x):
        whole, unit = whole_numbers(x)
        assert 2 * sum(whole) < 2**63
        for w, f in zip(whole, x, strict=True):
            assert f <= w * unit <= f + unit
            assert (w == 0) == (f == 0)
    common = [Fraction(k, 8) for k in range(5)]
    assert whole_numbers(common) == ([0, 1, 2, 3, 4], Fraction(1, 8))
    # The largest unit: a budget with many digits is a factor of all losses and does not count.
    many = Fraction(0.1) / 3
    assert whole_numbers([2 * many, 6 * many]) == ([1, 3], 2 * many)
    assert whole_numbers([Fraction(0)] * 2) == ([0, 0], 1)


# --------------------------------------------------------------------------- the usual cases


@pytest.mark.parametrize("height", [1, 2, 5])
def test_equal_shares_give_the_height_over_epsilon(height):
    tree = gm.shapes.complete(2, height)
    scales, exact, ledger = allocate(tree, epsilon=Fraction(1, 4))
    assert scales == (Fraction(4 * height),) * height
    assert exact is None
    assert [line.loss for line in ledger.levels] == [Fraction(1, 4 * height)] * height
    assert [line.nodes for line in ledger.levels] == [2**k for k in range(height)]


def test_leaves_at_different_depths():
    """The shallow leaf loses less, and the deepest leaf the whole budget."""
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 3])
    assert allocate(tree, epsilon=1).scales == (4, 4, 4, 4)
    # Moving between the two leaves changes levels 2, 3, 4 on one side and 2 on the other.
    assert allocate(tree, epsilon=1, neighbors="change_one").scales == (4, 4, 4, 4)
    tree = gm.shapes.complete(3, 3)
    assert allocate(tree, epsilon=1, neighbors="change_one").scales == (4, 4, 4)


def test_contributions_count_once_in_epsilon_and_squared_in_rho():
    tree = gm.shapes.complete(2, 4)
    assert allocate(tree, epsilon=2, max_contributions=3).scales == (6,) * 4
    assert allocate(tree, rho=2, max_contributions=3).scales == (3,) * 4


def test_the_root_is_free_when_records_move():
    tree = gm.shapes.complete(2, 3)
    for share in (1, 10**6):
        _, _, ledger = allocate(tree, epsilon=1, neighbors="change_one", shares=[share, 1, 1])
        assert ledger.scales == (Fraction(4, share), 4, 4)
        assert ledger.total == 1
    chain = allocate(gm.shapes.chain(3), epsilon=1, neighbors="change_one")
    assert chain.ledger.total == 0
    assert chain.scales == (3, 3, 3)


def test_laplace_noise_under_rho():
    tree = gm.shapes.complete(2, 2)
    _, _, ledger = allocate(tree, rho=1, mechanism="discrete_laplace")
    assert ledger.mechanism == "discrete_laplace"
    # Each count loses 1/scale in epsilon, and half the square of this in rho.
    assert ledger.scales == (1, 1)


def test_invariants_get_no_noise_and_are_named():
    columns = (["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
    tree = gm.Tree.from_levels(*columns, levels=["state", "county"])
    scales, exact, ledger = allocate(tree, epsilon=1, invariants=["state"])
    assert scales == (None, None, 1)
    # The total is the sum of the states, and Vermont has one county only.
    assert exact.tolist() == [True, True, True, False, False, True]
    assert ledger.invariants == ("level 2 (state)",)
    assert ledger.derived_invariants == ("level 1 (total)", "node 5 (total, VT, Orange)")
    assert ledger.levels[1].share == ledger.levels[1].loss == 0
    scales, exact, ledger = allocate(
        tree, epsilon=1, invariants=[tree.root, ("VT", "Orange"), Level(2), Level(2)]
    )
    assert scales == (None, None, 1)
    assert np.flatnonzero(exact).tolist() == [0, 1, 2, 5]
    assert ledger.invariants == (
        "node 0 (total)",
        "node 5 (total, VT, Orange)",
        "level 2 (state)",
    )
    assert ledger.derived_invariants == ()
    for name in ledger.invariants:
        assert f"{name}: published exactly" in str(ledger)


@pytest.mark.parametrize(
    ("text", "item", "why"),
    [
        ("((Nord,x)a,(Nord,y)b);", "Nord", "several nodes have the label 'Nord'"),
        ("((Nord,Nord)a,(y)b);", ("a", "Nord"), "nodes 2, 3 have the same path"),
        ("((Nord,x)a,(y)b);", "Sud", "must be a label of this tree"),
    ],
)
def test_invariants_that_name_no_node_or_several(text, item, why):
    tree = gm.Tree.from_newick(text)
    with pytest.raises(ValueError, match=f"'invariants' must name nodes or levels .*{why}"):
        allocate(tree, epsilon=1, invariants=[item])


def test_invariants_that_name_no_level_list_the_levels():
    tree = gm.Tree.from_levels(["NY", "VT"], ["Kings", "Orange"], levels=["state", "county"])
    with pytest.raises(
        ValueError, match=r"not 'city'[.] The levels are total, state, county[.] The"
    ):
        allocate(tree, epsilon=1, invariants=["city"])


def test_an_option_that_does_not_exist_is_named():
    with pytest.raises(TypeError, match="Argument 'confidence' must not be given"):
        gm.plan(gm.shapes.star(3), epsilon=1, confidence=0.9)


def test_nodes_without_noise_free_budget_for_the_others():
    """The budget is divided by the largest number of noisy nodes on a path."""
    tree = gm.Tree.from_parents([-1, 0, 0, 0, 1, 1, 2, 2, 3, 3])
    assert allocate(tree, epsilon=1, invariants=[1, 2]).scales == (3, 3, 3)
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    assert allocate(tree, epsilon=1, invariants=[1]).scales == (2, 2, 2)


# --------------------------------------------------------------------------- (epsilon, delta)

RHOS = st.floats(1e-6, 50)


@given(RHOS, st.floats(1e-15, 0.5))
def test_conversion_is_the_smallest_over_all_orders(rho, delta):
    found = zcdp_epsilon(rho, delta)
    b = np.logspace(-8, 10, 20001)
    grid = (b + 1) * rho - np.log((b + 1) * delta) / b + np.log(b) - np.log1p(b)
    best = max(0.0, float(grid.min()))
    # Terms of the order of 1 cancel, and the grid misses the smallest sum by up to 1e-6.
    assert best * (1 - 1e-5) - 1e-6 <= found <= best + 1e-12
    # The older bound is larger.
    assert found <= rho + 2 * math.sqrt(-rho * math.log(delta))


@given(RHOS, st.floats(1e-3, 50))
def test_delta_and_epsilon_are_inverse(rho, epsilon):
    assume(epsilon > rho / 2)
    delta = zcdp_delta(rho, epsilon)
    if 1e-250 < delta < 0.9:
        assert epsilon <= zcdp_epsilon(rho, delta) * (1 + 1e-9) + 1e-9
        assert zcdp_epsilon(rho, delta) <= epsilon * (1 + 1e-9) + 1e-9


@given(st.floats(1e-3, 5), st.floats(0.01, 10))
def test_delta_covers_the_gaussian_mechanism(rho, epsilon):
    """The exact delta of continuous Gaussian noise with that rho is below."""
    mu = math.sqrt(2 * rho)
    exact = special.ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * special.ndtr(
        -mu / 2 - epsilon / mu
    )
    assert exact <= zcdp_delta(rho, epsilon) <= 1


def test_conversion_at_the_edges():
    assert zcdp_epsilon(0, 1e-9) == zcdp_delta(0, 0) == 0
    assert zcdp_delta(3, 0) == pytest.approx(1, abs=0.05)
    assert 0 < zcdp_delta("1e-9", 10) < 1e-300
    assert 0 < zcdp_epsilon("1e-30", "1e-300") < 1e-12
    for delta in (0, 1, 2, -0.5, "1e-2000"):
        with pytest.raises(ValueError, match="'delta' must be"):
            zcdp_epsilon(1, delta)
        with pytest.raises(ValueError, match="'delta' must be"):
            zcdp_epsilon(0, delta)
    with pytest.raises(ValueError, match="'epsilon' must be larger for a delta below 1"):
        zcdp_delta(30, 1)
    # Beyond the range of exponentials, and of floating-point numbers.
    with pytest.raises(ValueError, match="Argument 'epsilon' must be larger for a delta below 1"):
        zcdp_delta(2**63, 1)
    assert 0 < zcdp_delta(1, 2**63) < 1e-300
    assert zcdp_epsilon(2**63, 1e-6) > 2**63
    for call in (zcdp_delta, zcdp_epsilon):
        with pytest.raises(ValueError, match=r"Argument 'rho' must be below 2\*\*1000"):
            call(10**400, Fraction(1, 2))
    with pytest.raises(ValueError, match=r"Argument 'epsilon' must be below 2\*\*1000"):
        zcdp_delta(1, 10**400)
    with pytest.raises(ValueError, match="'rho' must not be negative"):
        zcdp_delta(-1, 1)


def test_ledger_converts():
    tree = gm.shapes.complete(2, 3)
    assert allocate(tree, epsilon=1).ledger.epsilon() == 1
    ledger = allocate(tree, rho="1/10").ledger
    assert 0.9 < ledger.epsilon(1e-6) / zcdp_epsilon("1/10", 1e-6) < 0.95
    with pytest.raises(ValueError, match="'delta' must be given for a ledger in rho"):
        ledger.epsilon()
    for delta in (0, 1, -1, 1.5):
        for account in (ledger, allocate(tree, epsilon=1).ledger):
            with pytest.raises(ValueError, match="'delta' must be above 0 and below 1"):
                account.epsilon(delta)
    assert allocate(tree, epsilon=1).ledger.epsilon(1e-9) == 1


# --------------------------------------------------------------------------- forms


def sample_ledgers() -> list[Ledger]:
    tree = gm.Tree.from_levels(["a", "a", "b"], ["x", "y", "x"], levels=["one", "two"])
    return [
        allocate(tree, epsilon=0.1, shares=[0, 0.3, 0.7]).ledger,
        allocate(tree, rho=0.3, invariants=[0], neighbors="change_one").ledger,
        allocate(gm.shapes.chain(100), epsilon=1, max_contributions=7).ledger,
    ]


def test_ledgers_survive_json():
    for ledger in sample_ledgers():
        again = Ledger.from_dict(json.loads(json.dumps(ledger.to_dict())))
        assert again == ledger
        assert str(again) == str(ledger)


def test_damaged_ledgers_are_refused():
    good = json.dumps(sample_ledgers()[1].to_dict())
    damages = [
        lambda d: d.pop("total"),
        lambda d: d.update(format="other"),
        lambda d: d.update(measure="delta"),
        lambda d: d.update(total="1/0"),
        lambda d: d.update(total="9"),
        lambda d: d.update(budget=0.3),
        lambda d: d.update(budget="-1"),
        lambda d: d.update(max_contributions=0),
        lambda d: d.update(max_contributions="1"),
        lambda d: d.update(levels=None),
        lambda d: d.update(levels=[1]),
        lambda d: d["levels"].pop(0),
        lambda d: d["levels"][1].update(scale="1/100"),
        lambda d: d["levels"][1].update(nodes=-1),
        lambda d: d["levels"][2].pop("loss"),
        lambda d: d["levels"][2].update(scale="0"),
        lambda d: d["levels"][2].update(scale="1e999999999"),
        lambda d: d["levels"][2].update(name=7),
        lambda d: d.update(levels="abc"),
        lambda d: d.update(levels={"level": 1}),
        lambda d: d.update(invariants="node 0"),
        lambda d: d.update(invariants=[]),
        lambda d: d.update(disclosures=[None]),
        lambda d: d.update(total_given_invariants=None),
        lambda d: d.update(max_count=3),
        lambda d: d.update(neighbors="add_remove"),
        lambda d: d.update(measure="epsilon"),
    ]
    for damage in damages:
        data = json.loads(good)
        damage(data)
        with pytest.raises(ValueError, match=r"^Argument '"):
            Ledger.from_dict(data)
    with pytest.raises(ValueError, match="'data' must be a ledger"):
        Ledger.from_dict([])


@pytest.mark.parametrize("measure", ["epsilon", "rho"])
@pytest.mark.parametrize("digits", [28, 50, 80, 900, 5000])
def test_a_ledger_that_could_not_be_read_again_is_refused_before(digits, measure):
    budget = {measure: Fraction(10**digits // 3, 10**digits)}
    if digits <= 50:
        ledger = allocate(gm.shapes.complete(3, 4), **budget, shares=[0.1, 0.2, 0.3, 0.4]).ledger
        assert Ledger.from_dict(ledger.to_dict()) == ledger
    else:
        with pytest.raises(ValueError, match=f"'{measure}' must have fewer digits"):
            allocate(gm.shapes.complete(3, 4), **budget)


def test_the_loss_of_several_records_is_not_understated():
    """A ledger for one record that claims three records states a third of the loss."""
    tree = gm.shapes.complete(2, 3)
    for budget in ({"epsilon": 1}, {"rho": 1}):
        data = allocate(tree, **budget).ledger.to_dict()
        with pytest.raises(
            ValueError, match="must not understate a loss; that of level 1 is too small"
        ):
            Ledger.from_dict({**data, "max_contributions": 3})


def test_a_total_below_what_levels_lose_is_refused():
    tree = gm.shapes.complete(2, 3)
    for invariants, least in (([], 1), ([0], "1/2")):
        data = allocate(tree, epsilon=1, invariants=invariants).ledger.to_dict()
        assert Ledger.from_dict({**data, "total": str(least)}).total == Fraction(least)
        for total in ("0", "499/1000"):
            with pytest.raises(ValueError, match="must not understate the total"):
                Ledger.from_dict({**data, "total": total})


def test_losses_are_printed_rounded_up():
    tree = gm.shapes.complete(2, 3)
    small = Fraction(1, 10**30)
    for budget in (Fraction(1000001, 3000000), Fraction(0.1) + small, Fraction(2, 3) + small):
        ledger = allocate(tree, epsilon=budget).ledger
        (total,) = re.findall(r"differential privacy, epsilon = (\S+)", str(ledger))
        assert budget <= Fraction(total) < budget * (1 + Fraction(1, 10**5))
        (total,) = re.findall(r"Ledger\(epsilon=(\S+),", repr(ledger))
        assert budget <= Fraction(total)
        (total,) = re.findall(r"epsilon = (\S+)", str(gm.plan(tree, epsilon=budget)))
        assert budget <= Fraction(total)
        (total,) = re.findall(r"epsilon=(\S+)\)", repr(gm.release(tree, [1] * 4, epsilon=budget)))
        assert budget <= Fraction(total)
        losses = [line.split()[-1] for line in str(ledger).splitlines()[8:11]]
        assert all(Fraction(x) >= y.loss for x, y in zip(losses, ledger.levels, strict=True))


def test_a_float_is_printed_as_it_was_given():
    """The text 0.1 is below the float 0.1, by 5.6e-18; read as a float it is the exact total."""
    ledger = allocate(gm.shapes.complete(2, 3), epsilon=0.1).ledger
    (total,) = re.findall(r"differential privacy, epsilon = (\S+)", str(ledger))
    assert total == "0.1"
    assert Fraction(float(total)) == ledger.total


def test_what_else_is_published_is_stated():
    tree = gm.shapes.complete(2, 3)
    assert allocate(tree, epsilon=1, max_count=7).ledger.max_count == 7
    default = allocate(tree, epsilon=1).ledger
    assert default.max_count == 2**50 // 3 // 4
    assert f"Counts of leaves are cut off at 0 and at {default.max_count:,}" in str(default)
    assert allocate(tree, epsilon=1, neighbors="change_one").ledger.max_count is None
    deep = allocate(gm.shapes.caterpillar(10**5), epsilon=1).ledger
    assert "Counts of leaves are cut off at 0 and at 450,350;" in str(deep)
    ledger = allocate(tree, epsilon=1, disclosures=[privacy.LEAVES_FROM_RECORDS]).ledger
    assert (
        f"Disclosures, which the guarantee does not cover:\n  - {privacy.LEAVES_FROM_RECORDS}"
        in str(ledger)
    )
    assert "looking at the data, except for the disclosures below." in str(ledger)
    assert "looking at the data." in str(default)


def test_trees_made_from_records_say_so_in_the_ledger():
    columns = ["NY", "VT", "NY"], ["Albany", "Orange", "Albany"]
    tree, leaf = gm.Tree.from_records(*columns)
    for made in (tree, tree.canonical(), tree.subtree(1), pickle.loads(pickle.dumps(tree))):
        counts = np.ones(made.n_leaves, int)
        assert gm.release(made, counts, epsilon=1).ledger.disclosures == (
            privacy.LEAVES_FROM_RECORDS,
        )
    ledger = allocate(
        tree, epsilon=1, disclosures=["The weather.", privacy.LEAVES_FROM_RECORDS]
    ).ledger
    assert ledger.disclosures == ("The weather.", privacy.LEAVES_FROM_RECORDS)
    public = gm.Tree.from_levels(*(column[:2] for column in columns))
    assert allocate(public, epsilon=1).ledger.disclosures == ()
    assert public == tree
    assert leaf.tolist() == [0, 1, 0]


def test_ledger_as_text():
    pure, concentrated, long = map(str, sample_ledgers())
    assert "pure differential privacy, epsilon = 0.1" in pure
    assert "2 one" in pure
    assert "moved to other leaves" in concentrated
    assert "worst move from one leaf to another" in concentrated
    assert "at most 7 records" in long
    assert "  - nothing" in long
    assert len(long.splitlines()) < 64
    assert repr(sample_ledgers()[2]).startswith("Ledger(epsilon=1, mechanism='discrete_laplace'")


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "'epsilon' or argument 'rho' must be given\\."),
        ({"epsilon": 1, "rho": 1}, ValueError, "must be given, not both"),
        ({"epsilon": 0}, ValueError, "'epsilon' must be above 0, not 0"),
        ({"rho": float("inf")}, ValueError, "'rho' must be finite"),
        ({"epsilon": 1e-30}, ValueError, "'epsilon' must be larger"),
        ({"rho": "1e-60"}, ValueError, "'rho' must be larger"),
        ({"epsilon": 1, "neighbors": "all"}, ValueError, "'neighbors' must be 'add_remove' or"),
        ({"epsilon": 1, "mechanism": "laplace"}, ValueError, "'mechanism' must be 'discrete_lap"),
        (
            {"epsilon": 1, "mechanism": "discrete_gaussian"},
            ValueError,
            "'mechanism' must be 'discrete_laplace' for a budget in epsilon",
        ),
        ({"epsilon": 1, "max_contributions": 0}, ValueError, "'max_contributions' must be at"),
        ({"epsilon": 1, "shares": [1, 2]}, ValueError, r"one share per level \(3\), not 2"),
        ({"epsilon": 1, "shares": [1, -2, 1]}, ValueError, "level 2 has -2"),
        ({"epsilon": 1, "shares": [0, 0, 0]}, ValueError, "must leave a level to measure"),
        ({"epsilon": 1, "shares": [1, None, 1]}, TypeError, "'shares' must be an"),
        ({"epsilon": 1, "shares": 3}, TypeError, "'shares' must be a sequence"),
        ({"epsilon": 1, "invariants": range(7)}, ValueError, "must leave a level to measure"),
        ({"epsilon": 1, "invariants": [7]}, ValueError, "'invariants' must hold node numbers"),
        ({"epsilon": 1, "invariants": [Level(4)]}, ValueError, "'invariants' must name levels up"),
        ({"epsilon": 1, "invariants": "state"}, TypeError, "'invariants' must be a sequence"),
        ({"epsilon": 1, "invariants": 0}, TypeError, "'invariants' must be a sequence"),
        ({"epsilon": 1, "invariants": [Level(3)]}, ValueError, "must leave a level to measure"),
        ({"epsilon": 1, "invariants": [[0]]}, ValueError, "'invariants' must name nodes"),
        ({"epsilon": 1, "neighbors": None}, ValueError, "'neighbors' must be 'add_remove' or"),
        ({"epsilon": 1, "max_count": 2**50}, ValueError, "'max_count' must be at most"),
        ({"epsilon": 1, "disclosures": "leaves"}, TypeError, "'disclosures' must be a sequence"),
        ({"epsilon": 1, "disclosures": [3]}, TypeError, "'disclosures' must hold sentences"),
        ({"epsilon": "1e999999999"}, ValueError, "'epsilon' must be between 1e-1000 and"),
    ],
)
def test_bad_requests_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        allocate(gm.shapes.complete(2, 3), **options)


def test_bad_scales_are_refused():
    tree = gm.shapes.complete(2, 3)
    with pytest.raises(ValueError, match=r"one entry per level \(3\), not 1"):
        privacy_loss(tree, [1])
    with pytest.raises(ValueError, match="'scales' must be above 0"):
        privacy_loss(tree, [1, 0, 1])
    with pytest.raises(ValueError, match="'measure' must be 'epsilon' or 'rho'"):
        privacy_loss(tree, [1, 1, 1], measure="delta")
    with pytest.raises(TypeError, match="'invariants' must be a sequence"):
        privacy_loss(tree, [1, 1, 1], invariants=0)
    with pytest.raises(TypeError, match="'tree' must be a Tree"):
        allocate(None, epsilon=1)


def test_what_the_package_offers():
    for name in privacy.__all__:
        assert getattr(privacy, name) is not None


@given(st.sampled_from(["epsilon", "rho"]), st.floats(0.01, 8), st.integers(1, 3))
def test_the_head_of_a_ledger_bounds_every_guess(measure, loss, most):
    """The stated chance is at least that of the best test of two data sets, by enumeration."""
    tree = gm.shapes.star(2)
    ledger = allocate(tree, **{measure: loss}, max_contributions=most, shares=[0, 1]).ledger
    head = str(ledger).splitlines()[1]
    stated = float(re.search(r"chance is at most ([0-9.]+) %", head)[1]) / 100
    x = np.arange(-4000, 4001)
    scale = float(ledger.scales[1])
    power = np.abs(x) / scale if measure == "epsilon" else x**2 / (2 * scale**2)
    p = np.exp(-power)
    p /= p.sum()
    best = np.maximum(p[most:], p[:-most]).sum() / 2
    assert 0.5 <= best <= stated + 1e-9 <= 1 + 1e-9
    if most == 1 if measure == "epsilon" else scale > 3:
        assert stated <= best + 0.005


def test_chances_and_targets_are_rounded_up():
    tiny = allocate(gm.shapes.star(3), epsilon="1e-15").ledger
    assert "chance is at most 50.01 %" in str(tiny)
    assert "chance is at most 100 %" in str(allocate(gm.shapes.star(3), epsilon=100).ledger)
    target = {"epsilon": "0.12345649", "delta": "1.0000004e-9"}
    text = str(allocate(gm.shapes.star(3), **target).ledger)
    assert text.count("epsilon = 0.123457 with delta = 1.00001e-9") == 2
    assert "epsilon = 0.123457 with delta = 1.00001e-9" in str(privacy.Account(**target))


def test_the_head_of_a_ledger_in_words():
    text = str(allocate(gm.shapes.star(3), epsilon=1).ledger).splitlines()
    assert text[1:4] == [
        "Suppose that a reader knows all other records and guesses whether one person's record "
        "is in the data. Without this release, the guess is right with a chance of 50 %. With it, "
        "the chance is at most 73.11 %.",
        "The release spends epsilon = 1 of a budget of 1. The losses of further releases about the "
        "same people add to this loss.",
        "The numbers count every record of every person.",
    ]
    moved = str(
        allocate(gm.shapes.star(3), rho=1, neighbors="change_one", max_contributions=3).ledger
    )
    assert "in which of two places one person's records (at most 3) are" in moved
    one = str(allocate(gm.shapes.star(3), rho=1, neighbors="change_one").ledger)
    assert "in which of two places one person's record is" in one


def test_the_head_of_a_ledger_states_which_records_are_not_counted():
    tree, terms = gm.shapes.star(3), {"epsilon": 1, "max_count": 1000}
    (counted,) = str(allocate(tree, **terms).ledger).splitlines()[3:4]
    assert counted == (
        "The numbers count every record of every person. Leaves with more than 1,000 records count "
        "as if they had 1,000."
    )
    r = gm.release_tables(
        tree, [[1, 2]] * 2, axes={"a": 2}, queries=[("a",)], structural_zeros=[True, False], **terms
    )
    assert str(r.ledger).splitlines()[3] == (
        "The numbers count every record of every person. Records in cells that cannot occur are "
        "not counted. Cells of leaves with more than 1,000 records count as if they had 1,000."
    )
