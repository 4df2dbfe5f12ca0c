"""Public bounds on the values of a release."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import trees

import gmtree as gm
from gmtree import cli
from gmtree.privacy import testing
from gmtree.privacy.accounting.allocation import largest_sum
from gmtree.privacy.accounting.ledger import Ledger
from gmtree.privacy.noise import words as random_words

TREE = gm.Tree.from_levels(
    {"state": ["NY", "NY", "VT"], "county": ["Albany", "Kings", "Orange"]},
    levels=["state", "county"],
)
COUNTS = [30471, 250459, 2898]
BOUNDS = {"lower": {"NY": 280_000}, "upper": {"NY": 280_005, ("VT", "Orange"): 2000}}
SENTENCE = (
    "Values respect public bounds on 2 nodes (stated by the caller as public knowledge; they cost "
    "no privacy)."
)
SEEDS = st.integers(0, 2**32 - 1)


class Unavailable:
    def take(self, count, dtype):
        raise AssertionError("random words were asked for")


def released(seed=1, tree=TREE, counts=COUNTS, **options):
    """A release whose noise depends on the seed only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_words, "SYSTEM", testing.SeededWords(seed))
        return gm.release(tree, counts, **{"epsilon": 1, **options})


def random_bounds(rng, tree):
    """Whole bounds of some nodes, which some whole values meet, and a form for each side."""
    most = 10.0 ** rng.integers(1, 12)
    inside = tree.aggregate(np.floor(rng.random(tree.n_leaves) * most / tree.n))
    room = np.floor(rng.random((2, tree.n)) * rng.choice([0, 1, 2, most]))
    room[rng.random(room.shape) < rng.random()] = np.inf
    bounds = {"lower": inside - room[0], "upper": inside + room[1]}
    forms = {
        "node": lambda a: {"node": a},
        "leaf": lambda a: {"leaf": a[tree.leaves]},
        "leaves": lambda a: a[tree.leaves],
        "number": lambda a: float(min(a.min(), 0) if a is bounds["lower"] else a.max()),
        "none": lambda a: None,
    }
    return {name: forms[rng.choice([*forms])](a) for name, a in bounds.items()}


@given(trees(30), SEEDS, st.booleans(), st.booleans())
def test_values_are_the_optimum_within_bounds_and_nothing_else_changes(
    tree, seed, nonnegative, integer
):
    rng = np.random.default_rng(seed)
    counts, bounds = rng.integers(0, 50, tree.n_leaves), random_bounds(rng, tree)
    options = {"nonnegative": nonnegative, "integer": integer}
    r = released(seed, tree, counts, **options, **bounds)
    plain = released(seed, tree, counts, **options)
    expected = r._post.project(r.noisy, nonnegative=nonnegative, **bounds)
    # Each whole value is the floor or the ceiling of the optimum.
    near = {"atol": 1 + 1e-9} if integer else {"rtol": 1e-12, "atol": 1e-9}
    np.testing.assert_allclose(r.values, expected, **near)
    assert r.values.dtype == plain.values.dtype
    for name, sign in (("lower", 1), ("upper", -1)):
        assert (sign * (r.values - r.bounds.get(name, -sign * np.inf)) >= 0).all()
    assert gm.consistency_bias(tree, r.values) <= (0 if integer else 1e-10 * abs(r.values).max())
    for name in ("noisy", "estimate", "std_error"):
        np.testing.assert_array_equal(getattr(r, name), getattr(plain, name))
    np.testing.assert_array_equal(r.interval(), plain.interval())
    np.testing.assert_array_equal(r.diagnose().standardized, plain.diagnose().standardized)
    assert r.ledger.total == plain.ledger.total
    again = r.reprocess(integer=True)
    assert again.ledger == r.ledger
    expected = r._post.project(r.noisy, **bounds)
    np.testing.assert_allclose(again.values, expected, atol=1 + 1e-9)


@given(trees(20), SEEDS, st.booleans())
def test_bounds_that_are_not_refused_never_make_a_release_fail(tree, seed, nonnegative):
    """Neither large bounds nor bounds without any room between them."""
    rng, most = np.random.default_rng(seed), largest_sum(tree)
    sizes = rng.choice([0, 1, 3, 0.3, most // tree.n, most], tree.n)
    lower = np.where(rng.random(tree.n) < 0.3, sizes * rng.choice([-1, 1], tree.n), -np.inf)
    upper = np.where(rng.random(tree.n) < 0.3, rng.permutation(sizes), np.inf)
    account = gm.privacy.Account(epsilon=1)
    options = {"nonnegative": nonnegative, "integer": True, "account": account}
    bounds = {"lower": {"node": lower}, "upper": {"node": upper}}
    counts = rng.integers(0, 10**6, tree.n_leaves)
    try:
        r = released(seed, tree, counts, **options, **bounds)
    except ValueError:
        assert account.spent == 0
    else:
        assert (r.values >= np.floor(lower)).all()
        assert (r.values <= np.ceil(upper)).all()
        assert gm.consistency_bias(tree, r.values) == 0


def test_the_ledger_names_bounds_as_public():
    ledger = released(**BOUNDS).ledger
    assert f"  - {SENTENCE}\n" in str(ledger)
    assert SENTENCE in json.dumps(ledger.to_dict())
    assert Ledger.from_dict(json.loads(json.dumps(ledger.to_dict()))) == ledger
    one = released(upper={"NY": 1, "VT": np.inf}).ledger
    assert "public bounds on 1 node (stated" in str(one)
    for nothing in ({}, {"lower": -np.inf, "upper": np.inf}, {"lower": {}}):
        r = released(**nothing)
        assert r.ledger.public_knowledge == ()
        assert r.bounds == {}


def check_copy(again, r):
    assert repr(again) == repr(r)
    assert again.ledger == r.ledger
    np.testing.assert_array_equal(again.values, r.values)
    assert again.bounds.keys() == r.bounds.keys()
    for name, bound in again.bounds.items():
        np.testing.assert_array_equal(bound, r.bounds[name])
        assert not bound.flags.writeable
    np.testing.assert_array_equal(again.reprocess().values, r.reprocess().values)


@pytest.mark.parametrize("bounds", [BOUNDS, {"lower": -3}, {"upper": [7, 8, 9]}])
@pytest.mark.parametrize("integer", [True, False])
def test_files_and_pickles_keep_bounds(tmp_path, bounds, integer):
    r = released(integer=integer, **bounds)
    assert "bounds" in repr(r)
    for suffix in (".npz", ".parquet"):
        r.save(tmp_path / f"r{suffix}")
        check_copy(gm.Release.load(tmp_path / f"r{suffix}"), r)
    check_copy(pickle.loads(pickle.dumps(r)), r)


def test_levels_may_have_the_names_of_the_columns_of_bounds(tmp_path):
    tree = gm.Tree.from_levels({"lower_bound": ["a", "a", "b"], "upper_bound": ["x", "y", "x"]})
    for bounds in ({}, {"upper": 4}):
        r = released(tree=tree, **bounds)
        r.save(tmp_path / "r.parquet")
        check_copy(gm.Release.load(tmp_path / "r.parquet"), r)


def test_stored_copies_keep_bounds(tmp_path):
    account = gm.privacy.Account(epsilon=1, path=tmp_path / "budget.json")
    r = released(account=account, **BOUNDS)
    [item] = account.unfinished()
    check_copy(item.load(), r)


def test_files_whose_bounds_contradict_the_rest_are_refused(tmp_path):
    path = tmp_path / "r.npz"
    r = released(**BOUNDS)
    for change in (
        {"bounds": {}},
        {"bounds": {"lower": np.full(TREE.n, np.nan)}},
        {"bounds": {"lower": np.zeros(TREE.n), "upper": np.full(TREE.n, -1.0)}},
        {"bounds": {"upper": np.zeros(2)}},
        {"ledger": released(invariants=["NY"]).ledger},
    ):
        wrong = pickle.loads(pickle.dumps(r))
        wrong.__dict__.update(change)
        wrong.save(path)
        with pytest.raises(ValueError, match="by Release\\.save; its parts"):
            gm.Release.load(path)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lower": {"NY": 9}, "upper": 4}, "'total / NY' must be between 9 and inf"),
        ({"lower": 2, "upper": {"total": 5}}, "'total' must be between -inf and 5"),
        ({"lower": 4, "upper": 3}, "'lower' must not be above 'upper'"),
        ({"upper": {"NY": -1}, "nonnegative": True}, "'total / NY' must be between -inf and -1"),
        ({"upper": -1, "nonnegative": True}, "'lower' must not be above 'upper'"),
        ({"lower": np.nan}, "'lower' must be below infinity, not nan"),
        ({"upper": [1, 2]}, "'upper' must be one number, one per leaf"),
        ({"lower": {"Texas": 1}}, "Texas"),
        ({"lower": 2e14}, "'lower' must be infinite or at most 375,299,968,947,541 in size"),
        ({"upper": 1e300}, "'upper' must be infinite or at most"),
        ({"upper": 9, "invariants": ["NY"]}, "'upper' must be None with invariants"),
        # A third of 10 is not enough, although the difference is far below the rounding of counts.
        ({"upper": 3.33333333333, "lower": {"total": 10}}, "'total' must be between 10 and inf"),
    ],
)
def test_bounds_refused_before_anything_is_spent(monkeypatch, options, text):
    monkeypatch.setattr(random_words, "SYSTEM", Unavailable())
    account = gm.privacy.Account(epsilon=1)
    with pytest.raises(ValueError, match=text) as refused:
        gm.release(TREE, COUNTS, epsilon="1/10", account=account, **options)
    assert account.spent == 0
    assert account.entries == ()
    trace = refused.value.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals["__name__"].startswith("gmtree"):
            assert not any(x is COUNTS for x in trace.tb_frame.f_locals.values())
            assert "30471" not in repr(trace.tb_frame.f_locals)
        trace = trace.tb_next


def test_reprocessing_refuses_options_that_bounds_exclude():
    r = released(upper={"NY": -5})
    assert r.values[1] <= -5
    with pytest.raises(ValueError, match="must be between -inf and -5"):
        r.reprocess(nonnegative=True)


def test_bootstrap_keeps_bounds():
    r = released(lower=COUNTS, upper=COUNTS)
    np.testing.assert_array_equal(r.values, TREE.aggregate(COUNTS))
    np.testing.assert_array_equal(r.bootstrap(5, rng=1).rmse, 0)
    # The bootstrap treats the values as the truth, and New York is at its upper bound of 280,005.
    assert -5 <= released(**BOUNDS).bootstrap(20, rng=1).bias[1] < 0


def test_frames_take_bounds_but_tables_do_not():
    frame = pd.DataFrame({"state": ["NY", "VT", "NY"], "sex": ["f", "m", "f"]})
    public = pd.DataFrame({"state": ["NY", "VT", "CA"]})
    given = {"levels": ["state"], "tree": public, "upper": {"NY": 0}}
    r = gm.release_frame(frame, **given, epsilon="1/10")
    assert r.values[r.tree.node("NY")] <= 0
    assert SENTENCE.replace("2 nodes", "1 node") in r.ledger.assumptions
    with pytest.raises(ValueError, match="'upper' must be None for tables"):
        gm.release_frame(frame, **given, axes={"sex": ["f", "m"]}, queries=[()], rho=1)


def test_the_command_line_takes_bounds(tmp_path, capsys):
    (tmp_path / "in.csv").write_text("place,n\na,5\nb,7\nc,9\n")
    out = tmp_path / "out.npz"
    command = ["release", str(tmp_path / "in.csv"), "--levels", "place", "--count", "n",
               "--leaves-are-public", "--epsilon", "1/100", "--lower", "0", "-o", str(out),
               "--integer"]  # fmt: skip
    said = "public bounds on 3 nodes"
    assert cli.main([*command, "--upper", "8", "--dry-run"]) == 0
    assert said in capsys.readouterr().out
    assert cli.main([*command, "--upper", "-1", "--dry-run"]) == 2
    assert "'lower' must not be above 'upper'" in capsys.readouterr().err
    assert not out.exists()
    assert cli.main([*command, "--upper", "8"]) == 0
    printed = capsys.readouterr().out
    assert said in printed
    assert "'value', which keeps the public bounds, has different errors" in printed
    values = gm.Release.load(out).values[1:]
    assert values.min() >= 0
    assert values.max() <= 8
    file = tmp_path / "budget.json"
    gm.privacy.Account(epsilon=1, path=file)
    resume = ["release", "--resume", "--account", str(file), "-o", str(out), "--lower", "0"]
    assert cli.main(resume) == 2
    assert "not --lower" in capsys.readouterr().err
