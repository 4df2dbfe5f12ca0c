"""Named shapes have the described form, numbered canonically."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import check_against_reference

import gmtree as gm
from gmtree import shapes


@given(st.integers(1, 4), st.integers(1, 4))
def test_complete(fanout, height):
    tree = shapes.complete(fanout, height)
    assert tree.n == sum(fanout**k for k in range(height))
    assert tree.height == height
    assert tree.n_leaves == fanout ** (height - 1)
    assert set(tree.child_count[tree.internal].tolist()) <= {fanout}
    assert tree.is_canonical
    check_against_reference(tree, tree.parent.tolist())


@given(st.integers(1, 30))
def test_chain_star_caterpillar(n):
    chain, star, caterpillar = shapes.chain(n), shapes.star(n), shapes.caterpillar(n)
    for tree in (chain, star, caterpillar):
        assert tree.n == n
        assert tree.is_canonical
        check_against_reference(tree, tree.parent.tolist())
    assert chain.height == n
    assert chain.n_leaves == 1
    assert star.height == min(n, 2)
    assert star.n_leaves == max(1, n - 1)
    # Every inner node of a caterpillar has a leaf among its at most two children.
    for i in caterpillar.internal:
        children = caterpillar.children(i)
        assert 1 <= children.size <= 2
        assert 0 in caterpillar.child_count[children]
    assert caterpillar.n_leaves == (n + 1) // 2


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_random_recursive(n, seed):
    tree = shapes.random_recursive(n, rng=seed)
    assert np.all(tree.parent < np.arange(n))
    check_against_reference(tree, tree.parent.tolist())
    assert shapes.random_recursive(n, rng=np.random.default_rng(seed)) == tree


def test_random_recursive_draws_evenly():
    """The parent of node 3 is each of 0, 1, 2 a third of the time."""
    draws = [shapes.random_recursive(4, rng=k).parent[3] for k in range(3000)]
    counts = np.bincount(draws, minlength=3)
    assert np.all(abs(counts - 1000) < 150)


@given(
    st.integers(1, 60),
    st.lists(st.integers(2, 6), min_size=1, max_size=3, unique=True),
    st.integers(0, 2**32 - 1),
)
def test_grouped(n_leaves, fanouts, seed):
    shares = np.arange(1, len(fanouts) + 1)
    tree = shapes.grouped(n_leaves, fanouts, shares, rng=seed)
    assert tree.n_leaves == n_leaves
    assert tree.is_canonical
    assert len(set(tree.depth[tree.leaves].tolist())) == 1
    assert tree == shapes.grouped(n_leaves, fanouts, shares, rng=seed)
    check_against_reference(tree, tree.parent.tolist())
    counts = tree.child_count[tree.internal]
    assert counts.size == 0 or counts.min() >= 2
    assert counts.size == 0 or counts.max() <= max(fanouts) + 1
    # Only at the end of a level may a group have another size: the last two, one level each.
    strange = [c for c in counts.tolist() if c not in fanouts]
    assert len(strange) <= 2 * (tree.height - 1)


def test_grouped_has_the_shares_asked_for():
    tree = shapes.grouped(30_000, rng=1)
    lowest = tree.internal[tree.node_height[tree.internal] == 2]
    counts = np.bincount(tree.child_count[lowest], minlength=6)[2:]
    np.testing.assert_allclose(counts / counts.sum(), [0.4, 0.3, 0.2, 0.1], atol=0.02)


def test_from_fanouts():
    tree = shapes.from_fanouts([[3], [1, 2, 1], [2, 1, 1, 3]])
    assert tree.parent.tolist() == [-1, 0, 0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 7, 7, 7]
    assert tree.is_canonical
    assert shapes.from_fanouts([]).n == 1


def test_one_node():
    one = gm.Tree.from_parents([-1])
    assert shapes.chain(1) == shapes.star(1) == shapes.caterpillar(1) == one
    assert shapes.complete(5, 1) == shapes.complete(2**40, 1) == one
    assert shapes.random_recursive(1) == shapes.grouped(1) == one


BY_SIZE = [shapes.chain, shapes.star, shapes.caterpillar, shapes.random_recursive]


@pytest.mark.parametrize("make", [*BY_SIZE, shapes.grouped])
@pytest.mark.parametrize("n", [0, -1, 1.0, True, None, "3", [3]])
def test_wrong_number_of_nodes(make, n):
    with pytest.raises((ValueError, TypeError), match=r"Argument '(n|n_leaves)' must be "):
        make(n)


@pytest.mark.parametrize("make", BY_SIZE)
def test_too_many_nodes(make):
    with pytest.raises(ValueError, match="Argument 'n' must give a tree that fits into memory"):
        make(2**41)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shapes.complete(0, 3), "'fanout' must be at least 1, not 0"),
        (lambda: shapes.complete(2, 0), "'height' must be at least 1, not 0"),
        (lambda: shapes.complete(2, 50), "'height' must give a tree that fits into memory"),
        (lambda: shapes.complete(10**6, 10**9), "'height' must give a tree that fits into memory"),
        (lambda: shapes.complete(1, 2**41), "'height' must give a tree that fits into memory"),
        (lambda: shapes.complete(2.0, 3), "'fanout' must be a whole number"),
        (lambda: shapes.grouped(9, [1, 2], [1, 1]), "'fanouts' must be at least 2, not 1"),
        (lambda: shapes.grouped(9, [], []), "'fanouts' must not be empty"),
        (lambda: shapes.grouped(9, [2.5], [1]), "'fanouts' must hold integers"),
        (lambda: shapes.grouped(9, [2], [1, 1]), "'shares' must have one entry per fan-out"),
        (lambda: shapes.grouped(9, [2], [0]), "'shares' must be non-negative and not all zero"),
        (lambda: shapes.grouped(9, [2, 3], [-1, 2]), "'shares' must be non-negative"),
        (lambda: shapes.grouped(9, [2], [np.nan]), "'shares' must be non-negative"),
        (lambda: shapes.grouped(9, [2], ["a"]), "'shares' must hold real numbers"),
        (lambda: shapes.grouped(9, [2], None), "'shares' must hold real numbers"),
        (lambda: shapes.from_fanouts([[2], [1]]), "'levels' must have 2 numbers at index 1, not 1"),
        (lambda: shapes.from_fanouts([[2], [1, 0]]), "'levels' must be at least 1; index 1 has 0"),
        (lambda: shapes.from_fanouts([[2.0]]), "'levels' must hold integers"),
    ],
)
def test_wrong_shapes(call, message):
    with pytest.raises((ValueError, TypeError), match=f"Argument {message}"):
        call()


# --------------------------------------------------------------------------- calendars


def test_calendar_periods_hold_their_days():
    tree = gm.shapes.calendar("2023-11-15", "2024-03-02", ("year", "quarter", "month", "day"))
    labels = list(tree.labels)
    days = tree.aggregate(np.ones(tree.n_leaves, int))
    assert tree.n_leaves == 108
    expected = {"total": 108, "2023": 47, "2024-Q1": 61, "2024-02": 29, "2023-11": 16}
    assert {label: int(days[labels.index(label)]) for label in expected} == expected
    assert tree.path(labels.index("2024-02-29")) == (
        "total", "2024", "2024-Q1", "2024-02", "2024-02-29",
    )  # fmt: skip


def test_calendar_weeks_are_those_of_iso_8601():
    from datetime import date, timedelta

    tree = gm.shapes.calendar("2019-12-20", "2027-01-10", ("week", "day"))
    for k, leaf in enumerate(tree.leaves):
        day = date(2019, 12, 20) + timedelta(days=k)
        year, week, _ = day.isocalendar()
        assert tree.path(leaf) == ("total", f"{year}-W{week:02d}", str(day))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("2024-01-01", "2025-01-01", ("month", "week")),
            "a week may belong to more than one month",
        ),
        (
            ("2024-01-01", "2025-01-01", ("year", "week", "day")),
            "a week may belong to more than one year",
        ),
        (("2024-01-01", "2025-01-01", ("month", "year")), "from coarse to fine"),
        (("2024-01-01", "2025-01-01", ("day", "day")), "from coarse to fine"),
        (("2024-01-01", "2025-01-01", ("decade",)), "not 'decade'"),
        (("2024-01-01", "2025-01-01", ()), "at least one period"),
        (("2024-01-01", "2024-01-01"), "'stop' must be after start"),
        (("soon", "2024-01-01"), "'start' must be a date"),
        (("2024-01-01", None), "'stop' must be a date"),
        (("2024-01-01", "300000-01-01"), "'stop' must be a date"),
        ((np.datetime64("NaT", "D"), "2024-01-01"), "'start' must be a date"),
        ((0, "2024-01-01"), "'start' must be a date"),
    ],
)
def test_bad_calendars(arguments, words):
    with pytest.raises(ValueError, match=words):
        gm.shapes.calendar(*arguments)
