"""Private tables: the ledger against all neighbours, errors against formulas, files, secrecy."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
import reference
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference import neighbours
from reference import tables as dense
from trees import all_parents, parents

import gmtree as gm
from gmtree import privacy
from gmtree._files import checksum
from gmtree.privacy import Ledger, Level, testing
from gmtree.privacy.accounting.allocation import divide
from gmtree.privacy.accounting.budget import Budget
from gmtree.privacy.accounting.workload import Workload, workload_of
from gmtree.privacy.files import storage
from gmtree.privacy.noise import words as random_words
from gmtree.privacy.noise.gaussian import GAUSSIAN
from gmtree.privacy.noise.laplace import LAPLACE
from gmtree.privacy.noise.mechanism import Mechanism
from gmtree.privacy.publishing import measuring

NEIGHBORS = ["add_remove", "change_one"]
# The largest effect of rounding a sigma up.
ROOM = 1 + Fraction(1, 1 << 50)
TREE = gm.Tree.from_levels(
    {"state": ["NY", "NY", "NY", "VT", "VT"], "county": ["A", "O", "K", "O", "E"]},
    levels=["state", "county"],
)
AXES = {"sex": 2, "age": 3}
QUERIES = [(), ("sex",), ("age", "sex")]
COUNTS = np.arange(30).reshape(5, 2, 3) * 1009 + 30011


@pytest.fixture
def seeded(monkeypatch):
    monkeypatch.setattr(random_words, "SYSTEM", testing.SeededWords(1))


def allocation(tree, axes, queries, shares=None, **terms):
    defaults = {"epsilon": None, "rho": None, "neighbors": "add_remove", "max_contributions": 1,
                "invariants": (), "mechanism": None}  # fmt: skip
    budget = Budget.of(shares=shares, **{**defaults, **terms})
    workload = Workload.of(axes, queries)
    return divide(tree, budget, workload.with_total() if budget.invariants else workload)


def same_loss(exact: Fraction, ledger: Ledger) -> None:
    if ledger.measure == "epsilon":
        assert exact == ledger.total
    else:
        assert exact <= ledger.total <= exact * ROOM


# --------------------------------------------------------------------------- all neighbours

SMALL = {
    "one axis": ({"a": 2}, [(), ("a",)]),
    "two axes": ({"a": 2, "b": 2}, [("a",), ("b",), ("a", "b")]),
    "total only": ({"a": 3}, [()]),
    "no variety": ({"a": 1, "b": 2}, [("a",), ("b",)]),
}


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize(("axes", "queries"), SMALL.values(), ids=SMALL.keys())
def test_the_ledger_is_the_loss_of_the_worst_neighbours(axes, queries, neighbors):
    """All trees of up to 4 nodes, both measures, one and two records."""
    for n, measure in product([1, 2, 3, 4], ["epsilon", "rho"]):
        for parent in all_parents(n):
            tree = gm.Tree.from_parents(parent)
            shares = {q: [k + 1 + d for d in range(tree.height)] for k, q in enumerate(queries)}
            most = 2 if n < 4 and len(axes) == 1 else 1
            _, _, ledger = allocation(
                tree, axes, queries, shares, neighbors=neighbors, max_contributions=most,
                **{measure: "1/2"},
            )  # fmt: skip
            same_loss(neighbours.exact_loss(tree, ledger, set()), ledger)


@settings(max_examples=60)
@given(parents(6), st.sampled_from(NEIGHBORS), st.sampled_from(["epsilon", "rho"]), st.data())
def test_unmeasured_queries_and_exact_totals_are_accounted_for(parent, neighbors, measure, data):
    tree = gm.Tree.from_parents(parent)
    axes, queries = data.draw(st.sampled_from(list(SMALL.values())))
    chosen = data.draw(st.sets(st.integers(0, tree.n - 1), max_size=3))
    share = st.integers(0, 3)
    shares = {q: data.draw(st.lists(share, min_size=tree.height, max_size=tree.height))
              for q in queries}  # fmt: skip
    terms = {measure: "3/2", "neighbors": neighbors, "invariants": sorted(chosen)}
    try:
        _, exact, ledger = allocation(tree, axes, queries, shares, **terms)
    except ValueError as error:
        if "must leave a level to measure" not in str(error):
            raise
        assume(False)
    known = set() if exact is None else set(np.flatnonzero(exact).tolist())
    same_loss(neighbours.exact_loss(tree, ledger, known), ledger)
    if exact is None:
        assert ledger.total_given_invariants is None
    else:
        given = neighbours.exact_loss_given(tree, ledger, known)
        stated = ledger.total_given_invariants
        assert given == stated if measure == "epsilon" else given <= stated <= given * ROOM


def test_a_record_that_changes_its_cell_only_stays_in_its_leaf():
    """On a chain only cells can change: totals lose nothing, and other queries lose twice."""
    tree = gm.shapes.chain(3)
    for queries, total in (([()], 0), ([("a",)], 1), ([(), ("a",)], 1)):
        terms = {"epsilon": 1, "neighbors": "change_one"}
        _, _, ledger = allocation(tree, {"a": 2}, queries, **terms)
        assert ledger.total == total == neighbours.exact_loss(tree, ledger, set())
    # A move between two leaves of one node loses more than a change of the cell in one leaf.
    _, _, ledger = allocation(gm.shapes.star(3), {"a": 2}, [("a",)], epsilon=1,
                              neighbors="change_one")  # fmt: skip
    assert [line.loss for line in ledger.levels] == [Fraction(1, 4), Fraction(1, 4)]
    assert "worst move from one cell to another, in the same leaf or another one" in str(ledger)


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("per_leaf", [1, 2])
def test_several_records_of_a_person_in_several_leaves(most, per_leaf):
    """In rho less than all in one leaf; never understated, and exact on even trees."""
    if per_leaf > most:
        return
    terms = {"rho": 1, "max_contributions": most, "max_per_leaf": per_leaf}
    for parent in ([-1, 0, 0, 0], [-1, 0, 0, 1, 1], [-1, 0, 0, 1, 1, 2, 2], [-1, 0, 1, 1]):
        tree = gm.Tree.from_parents(parent)
        _, _, ledger = allocation(tree, {"a": 2}, [(), ("a",)], **terms)
        exact = neighbours.exact_loss(tree, ledger, set(), per_leaf)
        assert exact <= ledger.total
        if tree.n in (4, 7) and tree.n_leaves > 2 and most <= per_leaf * tree.n_leaves:
            assert ledger.total <= exact * ROOM
        loose = allocation(tree, {"a": 2}, [(), ("a",)], rho=1, max_contributions=most).ledger
        for tight, wide in zip(ledger.scales, loose.scales, strict=True):
            assert tight <= wide
    with pytest.raises(ValueError, match="'max_per_leaf' must be None with neighbors='change_one'"):
        allocation(tree, {"a": 2}, [()], **terms, neighbors="change_one")
    with pytest.raises(ValueError, match="'max_per_leaf' must be at most 'max_contributions'"):
        privacy.allocate(tree, rho=1, max_contributions=2, max_per_leaf=3)


def test_plain_releases_with_few_records_per_leaf():
    tree = gm.shapes.complete(2, 3)
    ledger = privacy.allocate(tree, rho=1, max_contributions=4, max_per_leaf=1).ledger
    # 4 records in 4 leaves: 16 at the root, 4 + 4 below, 1 + 1 + 1 + 1 at the leaves.
    losses = [line.loss for line in ledger.levels]
    assert losses == [Fraction(16, 28), Fraction(8, 28), Fraction(4, 28)]
    assert ledger.total == 1
    # In epsilon nothing is gained.
    one, two = (privacy.allocate(tree, epsilon=1, max_contributions=4, max_per_leaf=x).ledger
                for x in (None, 1))  # fmt: skip
    assert one.scales == two.scales


# --------------------------------------------------------------------------- the ledger


def test_a_line_per_level_and_query():
    r = gm.release_tables(TREE, COUNTS, axes=AXES, queries=QUERIES, rho=1, invariants=["state"])
    lines = [(line.level, line.query) for line in r.ledger.levels]
    assert lines == list(product([1, 2, 3], QUERIES))
    counts = {(line.level, line.query): line.nodes for line in r.ledger.levels}
    # Totals of states are exact, and so is that of the nation; cells are not.
    assert [counts[d, ()] for d in (1, 2, 3)] == [0, 0, 5]
    assert [counts[d, ("age", "sex")] for d in (1, 2, 3)] == [6, 12, 30]
    assert r.ledger.invariants == ("level 2 (state)",)
    assert r.ledger.derived_invariants == ("level 1 (total)",)
    states = TREE.depth == 2
    truth = TREE.aggregate(COUNTS.reshape(5, 6)).sum(axis=1)
    np.testing.assert_array_equal(r.noisy[()][states], truth[states])
    np.testing.assert_allclose(r.marginal(())[states], truth[states])
    assert (r.std_error(())[states] == 0).all()
    again = Ledger.from_dict(json.loads(json.dumps(r.ledger.to_dict())))
    assert again == r.ledger
    text = str(r.ledger)
    assert "age x sex" in text
    assert "level 2 (state): published exactly" in text
    assert "A record is counted at one leaf, in one cell of its table, and at all" in text


def test_invariants_need_no_query_of_totals():
    r = gm.release_tables(TREE, COUNTS, axes=AXES, queries=[("sex", "age")], rho=1,
                          invariants=[Level(1)])  # fmt: skip
    assert r.queries == (("sex", "age"), ())
    # Totals that no query requests get no noise and no budget.
    assert [line.nodes for line in r.ledger.levels if line.query == ()] == [0, 0, 0]
    assert r.marginal(())[TREE.root] == pytest.approx(COUNTS.sum(), abs=1e-6)


def test_targets_choose_rho_on_the_safe_side():
    for epsilon, delta in ((1, 1e-9), ("1/10", 1e-6), (8, "1e-12"), (1e-6, 0.4), (50, 1e-3)):
        rho = privacy.zcdp_rho(epsilon, delta)
        assert privacy.zcdp_epsilon(rho, delta) <= Fraction(epsilon)
        assert privacy.zcdp_epsilon(rho * (1 + Fraction(1, 10**12)), delta) > Fraction(epsilon)
        ledger = gm.plan(TREE, epsilon=epsilon, delta=delta).ledger
        assert (ledger.measure, ledger.mechanism) == ("rho", "discrete_gaussian")
        # The law of the noise itself allows more than the conversion from rho.
        assert rho <= ledger.budget
        assert ledger.epsilon(delta) <= Fraction(epsilon)
        assert ledger.target == (Fraction(epsilon), Fraction(delta))
    r = gm.release_tables(TREE, COUNTS, axes=AXES, queries=QUERIES, epsilon=1, delta="1e-9")
    assert "chosen for epsilon = 1 with delta = 1e-9" in str(r.ledger)
    with pytest.raises(ValueError, match="'delta' must be None if 'rho' is given"):
        gm.release(TREE, [1] * 5, rho=1, delta=1e-9)
    data = r.ledger.to_dict()
    for wrong in (["1/2", "1/1000000000"], ["1", "0"], ["1"], "x", ["1", "2"]):
        with pytest.raises(ValueError, match="Argument '"):
            Ledger.from_dict({**data, "target": wrong})


@pytest.mark.parametrize("key", ["axes", "levels", "target", "max_per_leaf", "person", "total"])
@pytest.mark.parametrize("value", [None, "x", 7, [], [[]], {}, [["a", 0]], [["a", 2], ["a", 2]]])
def test_any_part_of_a_ledger_is_right_or_a_value_error(key, value):
    data = gm.plan(TREE, axes=AXES, queries=QUERIES, rho=1, max_contributions=2).ledger.to_dict()
    optional = ("target", "max_per_leaf", "person")
    if (value is None and key in optional) or (key, value) == ("person", "x"):
        assert Ledger.from_dict({**data, key: value}).total == 1
    else:
        with pytest.raises((ValueError, TypeError), match="Argument '"):
            Ledger.from_dict({**data, key: value})


# --------------------------------------------------------------------------- errors


@settings(max_examples=25)
@given(parents(12), st.sampled_from(["epsilon", "rho"]), st.data())
def test_values_and_errors_are_those_of_dense_least_squares(parent, measure, data):
    tree = gm.Tree.from_parents(parent)
    axes, queries = data.draw(st.sampled_from([*SMALL.values(), (AXES, QUERIES)]))
    counts = np.arange(tree.n_leaves * np.prod([*axes.values()])).reshape(-1, *axes.values())
    r = gm.release_tables(tree, counts, axes=axes, queries=queries, **{measure: "1/3"})
    variance = {q: np.full(tree.n, _variance(r, q)) for q in queries}
    S = dense.leaf_sums(tree)
    rows = np.vstack([np.kron(S, dense.cell_sums(axes, q)) for q in queries])
    y = np.concatenate([_ascending(r, q).ravel() for q in queries]).astype(float)
    s = np.concatenate([
        np.repeat(variance[q], dense.cell_sums(axes, q).shape[0]) for q in queries
    ])  # fmt: skip
    solution = dense.Dense(rows, y, s)
    whole = np.kron(S, np.eye(int(np.prod([*axes.values()]))))
    values = r.estimate.reshape(tree.n, -1).ravel()
    np.testing.assert_allclose(values, solution.of(whole).value, rtol=1e-9, atol=1e-6)
    for q in queries:
        wanted = np.kron(S, dense.cell_sums(axes, q))
        expected = solution.of(wanted).variance.reshape(tree.n, -1)
        np.testing.assert_allclose(r.std_error(q) ** 2, expected[:, 0], rtol=1e-8)
        # A consistent value never has a larger error than its measurement.
        assert (r.std_error(q) ** 2 <= variance[q] * (1 + 1e-12)).all()


def _variance(r, query):
    from gmtree.privacy.noise.registry import MECHANISMS

    return MECHANISMS[r.ledger.mechanism].moments(r.ledger.scales[0])[0]


def _ascending(r, query):
    places = [list(r.axes).index(axis) for axis in query]
    return r.noisy[query].transpose(0, *(1 + np.argsort(places)))


@pytest.mark.parametrize("terms", [{"rho": "1/8"}, {"epsilon": "3/2"}, {"rho": 8}])
def test_errors_and_intervals_in_simulation(monkeypatch, terms):
    monkeypatch.setattr(random_words, "SYSTEM", testing.SeededWords(7))
    tree = gm.shapes.complete(3, 3)
    counts = np.arange(54).reshape(9, 2, 3) * 10 + 500
    truth = tree.aggregate(counts.reshape(9, 6)).reshape(tree.n, 2, 3)
    runs, errors, noises, inside = 400, dict.fromkeys(QUERIES, 0), dict.fromkeys(QUERIES, 0), []
    for _ in range(runs):
        r = gm.release_tables(tree, counts, axes=AXES, queries=QUERIES, threads=1, **terms)
        for q in QUERIES:
            true = r._post.marginal(truth, q)
            errors[q] = errors[q] + (r.marginal(q) - true) ** 2 / runs
            noises[q] = noises[q] + (r.noisy[q] - true) ** 2 / runs
            low, high = r.interval(q, 0.9)
            inside.append(((low <= true) & (true <= high)).mean())
    levels = [np.flatnonzero(tree.depth == d) for d in (1, 2, 3)]
    for q, nodes in product(QUERIES, levels):
        found, expected = errors[q][nodes].mean(), (r.std_error(q)[nodes] ** 2).mean()
        assert found == pytest.approx(expected, rel=0.25)
        assert expected < noises[q][nodes].mean() * 1.1
    assert 0.9 <= np.mean(inside) <= 0.985


@pytest.mark.parametrize("rho", ["1/1000", "1/50", "1/10", 1, 3, 100, 10**6])
@pytest.mark.parametrize("tree", [gm.shapes.chain(1), gm.shapes.chain(3), gm.shapes.star(4)])
def test_intervals_for_any_noise(tree, rho):
    counts = np.full((tree.n_leaves, 2), 7)
    r = gm.release_tables(tree, counts, axes={"a": 2}, queries=[(), ("a",)], rho=rho)
    for level in (0.01, 0.5, 0.999):
        low, high = r.interval(("a",), level)
        assert np.isfinite(low).all()
        assert (high > low).all()


def test_plan_and_release_tell_the_same_errors(seeded):
    shares = {(): 1, ("sex",): [0, 1, 2], ("age", "sex"): "1/2"}
    plan = gm.plan(TREE, axes=AXES, queries=QUERIES, shares=shares, rho=2)
    r = gm.release_tables(TREE, COUNTS, axes=AXES, queries=QUERIES, shares=shares, rho=2)
    assert str(plan) == str(r.plan)
    assert r.ledger == plan.ledger
    assert (r.noisy["sex",][TREE.root] == 0).all()
    for line in plan.levels:
        assert line.noise is None or line.std_error <= line.noise


def weighted_error(tree, axes, queries, objective, shares, **terms) -> float:
    plan = gm.plan(tree, axes=axes, queries=queries, shares=shares, **terms)
    nodes = {line.level: line.nodes for line in plan.levels}
    return sum(
        objective[line.query] * line.std_error**2 * nodes[line.level] / tree.n
        for line in plan.levels
    )


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("terms", [{"rho": 1}, {"epsilon": 1}])
@pytest.mark.parametrize("invariants", [(), ("state",)])
def test_optimal_shares_are_better_than_others(terms, neighbors, invariants):
    objective = {(): 5, ("sex",): 1, ("age", "sex"): 2}
    options = {"neighbors": neighbors, "invariants": invariants, **terms}
    tables = {"axes": AXES, "queries": QUERIES}
    best = gm.privacy.optimal_shares(TREE, objective=objective, **tables, **options)
    assert list(best) == QUERIES
    least = weighted_error(TREE, AXES, QUERIES, objective, best, **options)
    rng = np.random.default_rng(0)
    others = [None]
    for spread in (0.1, 0.5, 1) * 5:
        others.append(
            {q: (np.array(s) + 1e-9) * np.exp(rng.normal(0, spread, 3)) for q, s in best.items()}
        )
    # Shares are rounded to four digits, which matters where the problem is not convex.
    room = 1e-6 if "rho" in terms else 1e-3
    for other in others:
        shares = None if other is None else {q: s.tolist() for q, s in other.items()}
        found = weighted_error(TREE, AXES, QUERIES, objective, shares, **options)
        assert least <= found * (1 + room)


@given(parents(15), st.sampled_from(NEIGHBORS), st.integers(0, 1000))
def test_the_worst_neighbours_of_the_solver_are_those_of_the_ledger(parent, neighbors, seed):
    from gmtree.privacy.accounting.invariants import closed_under_sums
    from gmtree.privacy.accounting.worst_case import worst_case
    from gmtree.privacy.planning import optimal
    from gmtree.privacy.planning.optimal_tables import TableProblem

    tree, rng = gm.Tree.from_parents(parent), np.random.default_rng(seed)
    exact = closed_under_sums(tree, rng.random(tree.n) < 0.2)
    cells = np.array([1, 4, 2])
    losses = rng.integers(0, 10, tree.height * 3)
    classes = optimal.Classes.of(tree, exact)
    problem = TableProblem(
        classes, np.zeros(classes.size), partial(GAUSSIAN.variances, "rho"), neighbors,
                           1.0, True, cells, [], np.array([False, True, False]))  # fmt: skip
    worst, count = problem.worst(losses.astype(float))
    assert worst == worst_case(tree, [Fraction(int(x)) for x in losses], neighbors, exact, cells)
    assert worst == count @ losses


def test_the_gradient_of_the_solver():
    from gmtree.consistency.tables.queries import Axes
    from gmtree.privacy.planning import optimal
    from gmtree.privacy.planning.optimal_tables import TableProblem, spaces_of

    classes = optimal.Classes.of(TREE, None)
    weights = [(q, np.full(classes.size, k + 1.0)) for k, q in enumerate(QUERIES)]
    problem = TableProblem(
        classes, np.zeros(classes.size), partial(LAPLACE.variances, "epsilon"),
        "add_remove", 1.0, False,
        np.array([1, 2, 6]), spaces_of(Axes(AXES), QUERIES, weights), np.arange(3) == 2,
    )  # fmt: skip
    losses = np.random.default_rng(1).uniform(0.1, 1, 9)
    value, gradient = problem.error(losses)
    for k in range(9):
        step = np.ones(9)
        step[k] = np.exp(1e-6)
        up, down = problem.error(losses * step)[0], problem.error(losses / step)[0]
        assert gradient[k] == pytest.approx((up - down) / 2e-6, rel=1e-5)
    # The error itself is that of the consistent tables.
    variance = {q: problem.variances(losses)[0].reshape(3, 3)[:, k] for k, q in enumerate(QUERIES)}
    tables = gm.TableConsistency(TREE, AXES, variance)
    expected = sum((k + 1) * tables.node_variance(q).sum() for k, q in enumerate(QUERIES))
    assert value == pytest.approx(expected)


# --------------------------------------------------------------------------- values and files


def test_whole_numbers_that_are_not_negative_add_up(seeded):
    counts = np.zeros((5, 2, 3), np.int64)
    counts[2, 1, 1] = 3
    r = gm.release_tables(TREE, counts, axes=AXES, queries=QUERIES, rho="1/10", nonnegative=True,
                          integer=True)  # fmt: skip
    assert r.values.dtype == np.int64
    assert (r.values >= 0).all()
    sums = TREE.aggregate(r.values[TREE.leaves].reshape(5, 6)).reshape(r.values.shape)
    np.testing.assert_array_equal(sums, r.values)
    low, high = r.interval(("sex",))
    assert (low >= 0).all()
    assert (low <= high).all()
    plain = r.reprocess()
    assert plain.values is r.estimate
    assert repr(r).endswith("rho=1/10, nonnegative, integer)")


def test_counts_are_cut_off_cell_by_cell(seeded):
    counts = COUNTS.copy()
    counts[0, 0, 0] = 10**15
    counts[1, 1, 1] = -5
    huge = {"rho": 10**9, "axes": AXES, "queries": QUERIES}
    r = gm.release_tables(TREE, counts, max_count=10**6, **huge)
    expected = np.clip(counts, 0, 10**6)
    np.testing.assert_array_equal(r.noisy["age", "sex"][TREE.leaves], expected.transpose(0, 2, 1))
    np.testing.assert_array_equal(r.noisy[()][TREE.leaves], expected.sum(axis=(1, 2)))
    listed = gm.release_tables(TREE, counts.tolist(), max_count=10**6, **huge)
    np.testing.assert_array_equal(listed.noisy[()], r.noisy[()])
    for wrong in (counts, np.full((5, 2, 3), 2**52)):
        with pytest.raises(ValueError, match="'counts' must"):
            gm.release_tables(TREE, wrong, neighbors="change_one", **huge)
    with pytest.raises(ValueError, match=r"must be at most \d+ on this tree .*/ cells"):
        gm.release_tables(TREE, counts, max_count=2**45, **huge)


WRONG = {
    "shape": ({"counts": np.ones((5, 3, 2), int)}, r"'counts' must have shape \(5, 2, 3\)"),
    "floats": ({"counts": COUNTS.astype(float)}, "'counts' must hold whole numbers"),
    "query": ({"queries": [("race",)]}, "'queries' must name axes of the table"),
    "twice": ({"queries": [("sex", "age"), ("age", "sex")]}, "'queries' must have each query once"),
    "none": ({"queries": []}, "'queries' must hold at least one query"),
    "text": ({"queries": "sex"}, "'queries' must be a sequence"),
    "axes": ({"axes": {1: 2, "age": 3}}, "'axes' must have text as names"),
    "shares": ({"shares": {(): 1}}, "'shares' must have every query"),
    "total": ({"shares": {("sex",): 1, ("sex", "age"): 1}}, r"every query; \(\) is missing"),
    "levels": ({"shares": {q: [1, 2] for q in QUERIES}}, r"one per level \(3\)"),
    "other": ({"shares": dict.fromkeys([*QUERIES, ("age",)], 1)}, "queries that are measured"),
    "negative": ({"shares": dict.fromkeys(QUERIES, -1)}, "'shares' must not be negative"),
    "nothing": ({"shares": dict.fromkeys(QUERIES, 0)}, "'shares' must leave a level"),
    "account": ({"account": 1}, "'account' must be an Account"),
    "integer": ({"integer": 1}, "'integer' must be True or False"),
}


@pytest.mark.parametrize(("change", "words"), WRONG.values(), ids=WRONG.keys())
def test_wrong_arguments_are_refused_before_anything_is_drawn(monkeypatch, change, words):
    monkeypatch.setattr(random_words, "SYSTEM", None)
    good = {"counts": COUNTS, "axes": AXES, "queries": QUERIES, "rho": 1}
    with pytest.raises((ValueError, TypeError), match=words):
        gm.release_tables(TREE, **{**good, **change})


def test_both_ends_of_intervals_are_cut_off_at_0():
    r = gm.release_tables(TREE, COUNTS, axes=AXES, queries=QUERIES, rho=1)
    noisy = {query: np.full_like(table, -9999) for query, table in r.noisy.items()}
    below = gm.TableRelease(r.tree, noisy, r.ledger, None, True, False)
    for query in QUERIES:
        low, high = below.interval(query)
        assert not low.any()
        assert not high.any()
        assert (below.reprocess().interval(query)[1] < 0).all()


def test_saved_and_loaded(seeded, tmp_path):
    r = gm.release_tables(TREE, COUNTS, axes=AXES, queries=QUERIES, rho=1, invariants=["state"],
                          nonnegative=True)  # fmt: skip
    files = [tmp_path / "r.npz", tmp_path / "r.parquet"]
    for path in files:
        r.save(path)
    for again in (*map(gm.TableRelease.load, files), pickle.loads(pickle.dumps(r))):
        assert again.ledger == r.ledger
        assert again.provenance == r.provenance
        assert again.queries == r.queries
        np.testing.assert_array_equal(again.values, r.values)
        np.testing.assert_array_equal(again.interval(("age",)), r.interval(("age",)))
        with pytest.raises(ValueError, match="read-only"):
            again.noisy[()][0] = 1
    assert r.provenance["function"] == "release_tables"
    plain = gm.release(TREE, [1] * 5, epsilon=1)
    for path in files:
        with pytest.raises(ValueError, match=r"its format is .*: TableRelease\.load reads it"):
            gm.Release.load(path)
        plain.save(path)
        with pytest.raises(ValueError, match=r"written by TableRelease\.save; its format is"):
            gm.TableRelease.load(path)
    frame = r.to_frame(("sex",))
    np.testing.assert_array_equal(frame["value_1"], r.marginal(("sex",))[:, 1])


def load_or_none(path) -> gm.TableRelease | None:
    try:
        return gm.TableRelease.load(path)
    except ValueError as error:
        if "Argument 'path' must be a file written by" in str(error):
            return None
        raise


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_damaged_or_false_files_are_refused(seeded, tmp_path, ending):
    r = gm.release_tables(TREE, COUNTS, axes=AXES, queries=QUERIES, rho=1)
    path = tmp_path / f"r.{ending}"
    write = storage._write_npz if ending == "npz" else storage._write_parquet
    r.save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        again = load_or_none(path)
        if again is not None:
            np.testing.assert_array_equal(again.noisy["sex",], r.noisy["sex",])

    def forged(change):
        arrays, header = storage._pack(r)
        change(arrays, header)
        header["checksum"] = checksum(header, arrays)
        with path.open("wb") as stream:
            write(stream, arrays, header, r)
        with pytest.raises(ValueError, match=r"do not fit together|cannot be read|is damaged"):
            gm.TableRelease.load(path)

    forged(lambda arrays, _: arrays.pop("noisy_1"))
    forged(lambda arrays, _: arrays.update(noisy_0=arrays["noisy_1"]))
    forged(lambda _, header: header["ledger"].update(total="1/2"))
    forged(lambda _, header: header["ledger"].update(axes=[["sex", 2], ["age", 4]]))
    forged(lambda _, header: header["provenance"].update(tree="0" * 64))
    forged(lambda _, header: header.update(provenance=[1]))


# --------------------------------------------------------------------------- what is never shown


def test_counts_are_nowhere_in_the_result(seeded, tmp_path):
    account = privacy.Account(rho=1, path=tmp_path / "budget.json")
    r = gm.release_tables(TREE, COUNTS, axes=AXES, queries=QUERIES, rho="1/1000", account=account)
    r.save(tmp_path / "r.npz")
    r.save_ledger(tmp_path / "r.json")
    truth = TREE.aggregate(COUNTS.reshape(5, 6)).reshape(8, 2, 3)
    secrets = [truth.ravel(), truth.sum(axis=2).ravel(), truth.sum(axis=(1, 2))]
    blobs = [pickle.dumps(r), *(p.read_bytes() for p in tmp_path.iterdir())]
    texts = [repr(r), str(r.ledger), str(r.plan), str(account), repr(account), str(r.provenance),
             *(p.read_text() for p in tmp_path.glob("*.json"))]  # fmt: skip
    arrays = [*r.noisy.values(), r.values, r.estimate, *r.interval(("sex",))]
    for secret in secrets:
        for k in range(secret.size - 1):
            pair = secret[k : k + 2]
            for a in arrays:
                flat = np.asarray(a, float).ravel()
                assert not np.any((flat[:-1] == pair[0]) & (flat[1:] == pair[1]))
            for dtype in (np.int64, np.int32, np.float64):
                assert not any(pair.astype(dtype).tobytes() in blob for blob in blobs)
        assert not any(str(x) in text for x in secret.tolist() for text in texts)


def test_counts_are_not_in_the_variables_of_a_failure(monkeypatch):
    import traceback

    def fail(*args, **options):
        raise MemoryError("no memory")

    monkeypatch.setattr(Mechanism, "draw", fail)
    with pytest.raises(MemoryError) as failed:
        gm.release_tables(TREE, COUNTS, axes=AXES, queries=QUERIES, rho=1)
    for frame, _ in traceback.walk_tb(failed.value.__traceback__):
        if frame.f_globals.get("__name__", "").startswith("gmtree"):
            assert not any(isinstance(x, np.ndarray) and x.size >= 30
                           for x in frame.f_locals.values())  # fmt: skip


def test_whole_cells_are_refused_with_invariants_before_anything_is_charged():
    account = privacy.Account(epsilon=2)
    terms = {"axes": AXES, "queries": QUERIES, "epsilon": 1, "invariants": ["state"]}
    words = "'integer' must be False with invariants"
    with pytest.raises(ValueError, match=words):
        gm.release_tables(TREE, COUNTS, integer=True, account=account, **terms)
    assert account.spent == 0
    r = gm.release_tables(TREE, COUNTS, account=account, **terms)
    with pytest.raises(ValueError, match=words):
        r.reprocess(integer=True)
    exact = TREE.depth == 2
    totals = TREE.aggregate(COUNTS.sum(axis=(1, 2)))
    np.testing.assert_allclose(r.marginal(())[exact], totals[exact], rtol=1e-12)


def test_frames_tell_values_from_the_estimates_that_intervals_belong_to():
    query = ("sex",)
    r = gm.release_tables(TREE, COUNTS // 9000, axes=AXES, queries=[query, ("age", "sex")],
                          rho="1/50", nonnegative=True, integer=True)  # fmt: skip
    frame, (low, high) = r.to_frame(query), r.interval(query)
    estimate = r.estimate.sum(axis=2)
    for k in range(2):
        np.testing.assert_array_equal(frame[f"value_{k}"], r.marginal(query)[:, k])
        np.testing.assert_allclose(frame[f"estimate_{k}"], estimate[:, k])
        np.testing.assert_array_equal(frame[f"estimate_low_{k}"], low[:, k])
        np.testing.assert_array_equal(frame[f"estimate_high_{k}"], high[:, k])
    np.testing.assert_array_equal(frame["estimate_std_error"], r.std_error(query))
    assert not {"low_0", "high_0", "std_error"} & set(frame.columns)


def test_labels_of_axes_are_saved_and_name_the_columns(tmp_path):
    r = gm.release_tables(
        gm.shapes.star(3), [[3, 2], [1, 4]], axes={"sex": ["f", "m"]}, queries=[("sex",)], rho=1
    )
    r.save(tmp_path / "r.npz")
    for each in (r, gm.TableRelease.load(tmp_path / "r.npz")):
        assert each.axes == {"sex": 2}
        assert list(each.to_frame(("sex",)))[3::4] == ["value_f", "value_m", "estimate_std_error"]
    assert privacy.Ledger.from_dict(r.ledger.to_dict()) == r.ledger


def test_a_parquet_file_has_a_column_for_each_label(seeded, tmp_path):
    axes = {"sex": ["f", "m"], "age": ["young", "old"]}
    r = gm.release_tables(TREE, COUNTS[..., :2], axes=axes, queries=[(), ("age", "sex")], rho=1)
    r.save(tmp_path / "r.parquet")
    table = pd.read_parquet(tmp_path / "r.parquet")
    assert list(table)[:8] == ["node", "parent", "depth", "state", "county", "value", "estimate",
                               "estimate_std_error"]  # fmt: skip
    by_cell = r.marginal(("age", "sex"))
    for cell in product(range(2), range(2)):
        name = f"{axes['age'][cell[0]]}_{axes['sex'][cell[1]]}"
        np.testing.assert_array_equal(table[f"value_{name}"], by_cell[(slice(None), *cell)])
    np.testing.assert_array_equal(table["estimate_std_error_age_sex"], r.std_error(("sex", "age")))


def test_cells_and_queries_that_would_have_one_name_keep_their_columns(tmp_path):
    """The labels a_b, c and a, b_c are joined to the same text; so are a label and a query."""
    axes = {"x": ["a_b", "a"], "y": ["c", "b_c"]}
    counts = np.arange(8).reshape(2, 2, 2)
    terms = {"axes": axes, "queries": [("x", "y")], "rho": 10**6}
    r = gm.release_tables(gm.shapes.star(3), counts, **terms)
    named = [name for name in r.to_frame(("x", "y")) if name.startswith("value")]
    assert named == ["value_0_0", "value_0_1", "value_1_0", "value_1_1"]
    r = gm.release_tables(gm.shapes.star(3), counts[:, 0], axes={"x": ["std_error_x", "z"]},
                          queries=[("x",), ()], rho=10**6)  # fmt: skip
    r.save(tmp_path / "r.parquet")
    table = pd.read_parquet(tmp_path / "r.parquet")
    np.testing.assert_array_equal(table["estimate_std_error_x"], r.estimate[:, 0])
    np.testing.assert_array_equal(table["estimate_std_error_x_2"], r.std_error(("x",)))


# --------------------------------------------------------------------------- structural zeros

ZEROS = np.array([[False, True, False], [False, True, True]])


def with_zeros(counts=COUNTS, **options):
    given = {"axes": AXES, "queries": QUERIES, "structural_zeros": ZEROS, "rho": 1}
    return gm.release_tables(TREE, counts, **{**given, **options})


def dense_optimum(r: gm.TableRelease) -> tuple[np.ndarray, dict]:
    """Best tables by generalised least squares over all possible cells, and their variances."""
    leaves, cells = TREE.leaves.tolist(), np.flatnonzero(~ZEROS)
    columns = [(leaf, cell) for leaf in leaves for cell in cells]
    rows, y, weight = [], [], []
    for line in r.ledger.levels:
        kept = [list(AXES).index(axis) for axis in line.query]
        for node in np.flatnonzero(TREE.depth == line.level):
            for place in np.ndindex(*(tuple(AXES.values())[a] for a in kept)):
                row = [
                    bool(TREE.is_ancestor(node, leaf) or node == leaf)
                    and all(np.unravel_index(cell, ZEROS.shape)[a] == k
                            for a, k in zip(kept, place, strict=True))
                    for leaf, cell in columns
                ]  # fmt: skip
                if any(row):
                    rows.append(row)
                    y.append(r.noisy[line.query][(node, *place)])
                    weight.append(1 / float(line.scale) ** 2)
    A, w = np.array(rows, float), np.array(weight)
    inverse = np.linalg.inv(A.T @ (w[:, None] * A))
    leaf = np.zeros((len(leaves), ZEROS.size))
    leaf[:, cells] = (inverse @ A.T @ (w * np.array(y))).reshape(len(leaves), -1)
    return TREE.aggregate(leaf).reshape(-1, *ZEROS.shape), inverse


def test_structural_zeros_are_zero_and_the_rest_is_the_optimum(seeded):
    r = with_zeros()
    np.testing.assert_array_equal(r.estimate[:, ZEROS], 0)
    best, inverse = dense_optimum(r)
    np.testing.assert_allclose(r.estimate, best, rtol=1e-9)
    for query in QUERIES:
        possible = r.ledger._workload.possible_cells(query)
        assert not r.noisy[query][:, ~possible].any()
        low, high = r.interval(query)
        assert not low[:, ~possible].any()
        assert not high[:, ~possible].any()
        assert (high - low)[:, possible].all()
    # Stated errors are never below those of the optimum.
    stated = r.std_error(("sex", "age"))[TREE.leaves]
    true = np.sqrt(np.diag(inverse)).reshape(5, -1)
    assert (stated[:, None] >= true * (1 - 1e-9)).all()
    assert (stated[:, None] > true * 1.001).any()


@settings(max_examples=40)
@given(parents(7), st.integers(0, 2**6 - 2), st.integers(1, 15), st.integers(0, 99))
def test_tables_with_structural_zeros_are_the_optimum_on_any_tree(parent, zeros, asked, seed):
    """Also if only some marginals are measured, which determine nothing but themselves."""
    tree, rng = gm.Tree.from_parents(parent), np.random.default_rng(seed)
    cells = [k for k in range(6) if not zeros >> k & 1]
    mask = ~np.isin(np.arange(6), cells).reshape(2, 3)
    names = [(), ("sex",), ("age",), ("sex", "age")]
    queries = [query for k, query in enumerate(names) if asked >> k & 1]
    counts = rng.integers(0, 30, (tree.n_leaves, 2, 3))
    r = gm.release_tables(tree, counts, axes=AXES, queries=queries, rho=1, structural_zeros=mask)
    below = np.array([reference.aggregate(parent, x) for x in np.eye(tree.n_leaves)]).T
    workload, one = r.ledger._workload, np.eye(6).reshape(6, 2, 3)
    sums = {q: np.kron(below, workload.marginal(one, q).reshape(6, -1)[cells].T) for q in queries}
    scale = {(line.query, line.level): float(line.scale) for line in r.ledger.levels}
    rows, y = [], []
    for query, A in sums.items():
        sigma = np.repeat([scale[query, d] for d in tree.depth.tolist()], len(A) // tree.n)
        rows.append(A / sigma[:, None])
        y.append(r.noisy[query].ravel() / sigma)
    best = np.linalg.lstsq(np.vstack(rows), np.concatenate(y))[0]
    for query, A in sums.items():
        np.testing.assert_allclose(r.marginal(query).ravel(), A @ best, atol=1e-8)
    assert not r.values[:, mask].any()


def test_counts_in_structural_zeros_change_nothing(seeded, monkeypatch):
    """Neither results nor errors depend on counts in structural zeros."""
    others = np.where(ZEROS, [[7, -3, 5], [0, 10**15, 1]], COUNTS)
    found = []
    for counts in (COUNTS, others, others.astype(object)):
        monkeypatch.setattr(random_words, "SYSTEM", testing.SeededWords(1))
        found.append(with_zeros(counts, invariants=[0]))
    for r in found[1:]:
        np.testing.assert_array_equal(r.values, found[0].values)
    total = np.where(ZEROS, 0, COUNTS).sum()
    assert found[0].marginal(())[TREE.root] == pytest.approx(total, rel=1e-12)


def test_structural_zeros_are_kept_by_options_and_files(seeded, tmp_path):
    small = np.random.default_rng(0).integers(0, 4, COUNTS.shape)
    r = with_zeros(small, rho="1/10", nonnegative=True, integer=True)
    assert r.values.dtype == np.int64
    assert (r.values >= 0).all()
    assert not r.values[:, ZEROS].any()
    np.testing.assert_array_equal(r.values[0], r.values[TREE.leaves].sum(axis=0))
    for name in ("r.npz", "r.parquet"):
        r.save(tmp_path / name)
        again = gm.TableRelease.load(tmp_path / name)
        np.testing.assert_array_equal(again.values, r.values)
        assert again.ledger == r.ledger
    noisy = [line.nodes for line in r.ledger.levels]
    assert noisy == [1, 2, 3, 2, 4, 6, 5, 10, 15]
    assert "everyone may know: 0_1, 1_1, 1_2." in str(r.ledger)
    data = r.ledger.to_dict()
    for wrong in ([6], [1, 1], [-1], list(range(6)), [4, 1], "no", [0.5]):
        with pytest.raises((ValueError, TypeError)):
            Ledger.from_dict({**data, "structural_zeros": wrong})


@settings(max_examples=60)
@given(parents(5), st.sampled_from(["epsilon", "rho"]), st.integers(1, 2), st.data())
def test_the_ledger_is_the_loss_of_the_possible_neighbours(parent, measure, most, data):
    tree, axes = gm.Tree.from_parents(parent), {"a": 2, "b": 2}
    names = [(), ("a",), ("b",), ("a", "b")]
    queries = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    cells = data.draw(st.sets(st.integers(0, 3), min_size=1, max_size=3))
    zeros = np.isin(np.arange(4), sorted(cells)).reshape(2, 2)
    terms = {measure: "1/2", "max_contributions": most, "structural_zeros": zeros}
    budget = Budget.of(**terms)
    ledger = divide(tree, budget, workload_of(budget, axes, queries)).ledger
    possible = [tuple(x) for x in np.argwhere(~zeros).tolist()]
    pairs = [
        group
        for _, group in neighbours.changes(tree, axes, "add_remove", most)
        if all(cell in possible for _, cell in group)
    ]
    same_loss(max(neighbours.loss_of(tree, ledger, (), group, set()) for group in pairs), ledger)


def test_records_in_structural_zeros_do_not_use_up_those_of_a_person(monkeypatch):
    monkeypatch.setattr(measuring, "_add_noise", lambda *args: None)
    rows = [(leaf, sex, who) for who in range(50) for leaf in range(2) for sex in "fmm"]
    people = pd.DataFrame(rows, columns=["leaf", "sex", "who"])
    terms = {"tree": pd.DataFrame({"leaf": [0, 1]}), "person": "who", "rho": 1}
    tables = {"axes": {"sex": ["f", "m"]}, "queries": [("sex",)], "max_contributions": 2}
    zeros = {"structural_zeros": [False, True]}
    r = gm.release_frame(people, ["leaf"], **terms, **tables, **zeros)
    assert r.values.tolist() == [[100, 0], [50, 0], [50, 0]]
    with pytest.raises(ValueError, match="None without tables"):
        gm.release_frame(people, ["leaf"], **terms, **zeros)


def test_wrong_structural_zeros_are_refused():
    for wrong, words in (
        (np.zeros((3, 2), bool), r"a mask \(True or False\) of shape \(2, 3\)"),
        (np.zeros((2, 3), int), "not an array of int64"),
        (np.ones((2, 3), bool), "must leave a cell"),
    ):
        with pytest.raises(ValueError, match=words):
            with_zeros(structural_zeros=wrong)
    with pytest.raises(ValueError, match="None with neighbors='change_one'"):
        with_zeros(neighbors="change_one")
    with pytest.raises(ValueError, match="None without tables"):
        gm.plan(TREE, rho=1, structural_zeros=ZEROS)
    assert gm.plan(TREE, rho=1, axes=AXES, queries=QUERIES, structural_zeros=ZEROS).levels


# --------------------------------------------------------------------------- bootstrap


@pytest.mark.parametrize("options", [{}, {"invariants": [0]}, {"structural_zeros": ZEROS}])
def test_the_bootstrap_finds_the_errors_of_the_estimate(seeded, options):
    counts = COUNTS if "structural_zeros" not in options else np.where(ZEROS, 0, COUNTS)
    r = gm.release_tables(TREE, counts, axes=AXES, queries=QUERIES, rho=1, **options)
    errors = r.bootstrap(400, rng=1)
    assert list(errors) == QUERIES
    for query, found in errors.items():
        assert found.bias.shape == found.rmse.shape == r.marginal(query).shape
        stated = r.std_error(query).reshape(-1, *(1,) * len(query))
        possible = r.ledger._workload.possible_cells(query)
        if "structural_zeros" in options:
            assert not found.rmse[:, ~possible].any()
            assert (found.rmse <= 1.2 * stated).all()
        else:
            np.testing.assert_allclose(found.rmse, np.broadcast_to(stated, found.rmse.shape),
                                       rtol=0.2, atol=1e-6)  # fmt: skip
        for level, rmse in enumerate(found.level_rmse, start=1):
            own = found.rmse[TREE.depth == level][:, possible]
            assert rmse == pytest.approx(np.sqrt(np.mean(own**2)))
    if "structural_zeros" in options:
        _, inverse = dense_optimum(r)
        cells = errors["age", "sex"].rmse.transpose(0, 2, 1)[TREE.leaves][:, ~ZEROS]
        np.testing.assert_allclose(cells.ravel(), np.sqrt(np.diag(inverse)), rtol=0.2)


def test_the_bootstrap_shows_the_bias_of_non_negative_cells(seeded):
    r = gm.release_tables(TREE, COUNTS * 0, axes=AXES, queries=QUERIES, rho="1/10",
                          nonnegative=True, integer=True)  # fmt: skip
    errors = r.bootstrap(20, rng=1)
    assert (errors["age", "sex"].level_bias[2:] > 0).all()
    again = r.bootstrap(20, rng=1)
    np.testing.assert_array_equal(errors[()].bias, again[()].bias)
    with pytest.raises(ValueError, match="'runs' must be at most"):
        r.bootstrap(10**6)
