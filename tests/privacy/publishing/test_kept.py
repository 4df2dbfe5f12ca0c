"""The private estimate of the share of records that a bound per person keeps."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from gmtree import cli, privacy
from gmtree.privacy.noise import words as random_words
from gmtree.privacy.publishing import kept, measuring

PEOPLE = np.repeat(np.arange(3000), np.arange(3000) % 6 + 1)


def true_share(most: int) -> np.ndarray:
    own = np.minimum(np.bincount(PEOPLE), most)
    return np.array([np.minimum(own, k).sum() for k in range(1, most + 1)]) / own.sum()


@pytest.mark.parametrize("most", [2, 4, 6, 9])
def test_without_noise_the_shares_are_true(monkeypatch, most):
    monkeypatch.setattr(measuring, "_add_noise", lambda *args: None)
    for people in (PEOPLE, pd.Series(PEOPLE).astype(str), PEOPLE.astype(float)):
        found = privacy.kept_share(people, most=most, rho=1)
        np.testing.assert_allclose(found.share, true_share(most))


def test_the_standard_error_is_that_of_many_draws():
    found = [privacy.kept_share(PEOPLE, most=8, epsilon="1/5") for _ in range(300)]
    shares = np.array([x.share for x in found])
    stated = np.mean([x.std_error for x in found], axis=0)
    # Shares near 1 are cut off there.
    np.testing.assert_allclose(shares[:, :5].std(axis=0), stated[:5], rtol=0.25)
    assert (shares[:, 7] == 1).all()
    np.testing.assert_allclose(shares.mean(axis=0), true_share(8), atol=0.01)


def test_a_person_changes_one_class_by_one(monkeypatch):
    """The loss of adding or removing all records of a person is the budget."""
    monkeypatch.setattr(measuring, "_add_noise", lambda *args: None)
    seen = []
    publish = kept.publish

    def spy(*args, **options):
        seen.append(publish(*args, **options))
        return seen[-1]

    monkeypatch.setattr(kept, "publish", spy)
    terms = {"most": 4, "epsilon": "1/2", "person": "id"}
    for own in range(8):
        people = np.concatenate([PEOPLE[:20], np.full(own, 9999)])
        privacy.kept_share(people, **terms)
    first, scale = seen[0].noisy, seen[0].ledger.scales[1]
    assert seen[0].ledger.scales[0] is None
    for r in seen[1:]:
        change = abs(r.noisy - first)[r.tree.leaves]
        assert change.sum() / scale == r.ledger.total == Fraction(1, 2)
        assert r.ledger.person == "id"


def test_nobody_and_much_noise():
    found = privacy.kept_share(np.array([], int), most=3, epsilon="1/1000")
    assert found.share.shape == (3,)
    text = str(privacy.kept_share(PEOPLE, rho=1))
    assert "Estimated share of records kept with at most K per person (rho = 1 spent)" in text
    assert "Shares are relative to the first 20 records of each person." in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"most": 1}, "'most' must"),
        ({"rho": 1, "epsilon": 1}, "not both"),
        ({}, "must be given\\."),
        ({"people": ["a", None], "rho": 1}, "'people' must be known in each row"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_drawn(monkeypatch, options, words):
    monkeypatch.setattr(random_words, "SYSTEM", None)
    with pytest.raises(ValueError, match=words):
        privacy.kept_share(**{"people": PEOPLE, **options})


def test_a_dry_run_spends_the_budget_of_the_estimate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"id": PEOPLE, "town": PEOPLE % 2, "sex": "f"})
    frame.to_csv("people.csv", index=False)
    pd.DataFrame({"town": [0, 1]}).to_csv("leaves.csv", index=False)
    pd.DataFrame({"sex": ["f", "m"]}).to_csv("cells.csv", index=False)
    account = privacy.Account(epsilon=1, person="id", path="budget.json")
    words = ["release", "people.csv", "--levels", "town", "--tree", "leaves.csv", "--person", "id",
             "--epsilon", "1/2", "--account", "budget.json", "--dry-run"]  # fmt: skip
    for tables in ([], ["--axes", "sex", "--cells", "cells.csv"]):
        assert cli.main([*words, *tables, "--estimate-kept", "1/100"]) == 0
        out = capsys.readouterr().out
        assert "kept with at most K per person (epsilon = 1/100 spent)" in out
        assert "Nothing else was drawn or spent, and no file was written." in out
    account = privacy.Account(path="budget.json")
    assert account.spent == Fraction(2, 100)
    assert not account.unfinished()
    assert {x.name for x in tmp_path.glob("*.csv")} == {"people.csv", "leaves.csv", "cells.csv"}
    assert cli.main([*words[:-1], "-o", "out.csv", "--estimate-kept", "1/100"]) == 2
    assert "--estimate-kept needs --person and --dry-run" in capsys.readouterr().err
    for name in ("people.csv", "leaves.csv"):
        piped = ["-" if word == name else word for word in words]
        assert cli.main([*piped, "--estimate-kept", "1/100"]) == 2
        assert "No file may be '-' with --estimate-kept" in capsys.readouterr().err
    piped = [*words, "--axes", "sex", "--cells", "-", "--estimate-kept", "1/100"]
    assert cli.main(piped) == 2
    assert "No file may be '-' with --estimate-kept" in capsys.readouterr().err
