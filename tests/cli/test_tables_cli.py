"""``gmtree release --axes``: tables at the leaves."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gmtree as gm
from gmtree import cli
from gmtree.privacy.noise import words as random_words

TOWNS = [("NY", "Albany"), ("NY", "Orange"), ("VT", "Orange")]
CELLS = list(itertools.product("fm", ["7", "18", "65"]))


@pytest.fixture
def records(tmp_path, monkeypatch) -> pd.DataFrame:
    """Files of records, leaves and cells in the current folder; the records as a frame."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(1)
    rows = [(f"p{rng.randrange(60)}", *rng.choice(TOWNS), *rng.choice(CELLS)) for _ in range(200)]
    frame = pd.DataFrame(rows, columns=["id", "state", "town", "sex", "age"])
    frame.to_csv("people.csv", index=False)
    pd.DataFrame(TOWNS, columns=["state", "town"]).to_csv("leaves.csv", index=False)
    pd.DataFrame(CELLS, columns=["sex", "age"]).to_csv("cells.csv", index=False)
    return frame


@pytest.fixture
def noiseless(monkeypatch):
    class Zeros:
        def take(self, count, dtype):
            return np.zeros(count, dtype)

    monkeypatch.setattr(random_words, "SYSTEM", Zeros())


def release(*options: str, file: str = "people.csv", out: str = "out.npz") -> int:
    given = [] if {"--rho", "--epsilon"} & set(options) else ["--rho", "1"]
    tables = [] if "--axes" in options else ["--axes", "sex,age", "--cells", "cells.csv"]
    leaves = [] if "--leaves-are-public" in options else ["--tree", "leaves.csv"]
    words = ["--levels", "state,town", *given, *tables, *leaves, *options, "-o", out, "--force"]
    return cli.main(["release", file, *words])


def test_the_cells_of_each_leaf_are_counted(records, noiseless, capsys):
    assert release("--queries", "total,age,age:sex") == 0
    made = gm.TableRelease.load("out.npz")
    assert made.queries == ((), ("age",), ("age", "sex"))
    assert dict(made.ledger.axes) == {"sex": ("f", "m"), "age": ("7", "18", "65")}
    for leaf, town in zip(made.tree.leaves, TOWNS, strict=True):
        own = records[(records.state == town[0]) & (records.town == town[1])]
        expected = [sum((own.sex == s) & (own.age == a)) for s, a in CELLS]
        assert made.noisy["age", "sex"][leaf].T.ravel().tolist() == expected
    assert made.noisy[()][made.tree.root] == 200
    assert "each row is one record, in tables by sex,age" in capsys.readouterr().out


@pytest.mark.parametrize("options", [(), ("--leaves-are-public",), ("--person", "id")])
def test_the_order_of_rows_does_not_show(records, noiseless, options):
    release(*options, "--max-contributions", "2", out="a.csv")
    records.sample(frac=1, random_state=3).to_csv("people.csv", index=False)
    release(*options, "--max-contributions", "2", out="b.csv")
    first, second = (Path(name).read_text() for name in ("a.csv", "b.csv"))
    assert first == second


def test_files_have_a_column_for_each_label(records, capsys):
    for out in ("out.csv", "out.parquet"):
        assert release("--nonnegative", out=out) == 0
        assert cli.main(["verify", out]) == 0
    assert cli.main(["info", "out.parquet"]) == 0
    assert "TableRelease(" in capsys.readouterr().out
    header = Path("out.csv").read_text().partition("\n")[0].split(",")
    assert header[:7] == ["node", "parent", "depth", "state", "town", "value", "estimate"]
    assert {f"estimate_low_{s}_{a}" for s, a in CELLS} < set(header)
    table, made = pd.read_parquet("out.parquet"), gm.TableRelease.load("out.parquet")
    np.testing.assert_array_equal(table["value_m_65"], made.values[:, 1, 2])
    assert made.nonnegative


def test_counts_by_leaf_and_cell(records, noiseless):
    keys = ["state", "town", "sex", "age"]
    records.groupby(keys).size().reset_index(name="n").to_csv("counts.csv", index=False)
    release(out="a.npz")
    release("--count", "n", file="counts.csv", out="b.npz")
    first, second = (gm.TableRelease.load(name) for name in ("a.npz", "b.npz"))
    np.testing.assert_array_equal(first.values, second.values)


def test_whole_numbers_are_matched_whatever_their_type(records, noiseless):
    release(out="a.npz")
    records.assign(age=records.age.astype(float)).to_parquet("people.parquet")
    release(file="people.parquet", out="b.npz")
    first, second = (gm.TableRelease.load(name) for name in ("a.npz", "b.npz"))
    np.testing.assert_array_equal(first.values, second.values)


def test_shares(records):
    release("--shares", "1,2,1")
    assert [x.share.denominator for x in gm.TableRelease.load("out.npz").ledger.levels] == [
        8, 8, 4, 4, 8, 8,
    ]  # fmt: skip
    assert release("--shares", "leaves") == 0


def test_a_dry_run_states_the_errors_of_each_query(records, capsys):
    assert release("--dry-run") == 0
    assert "2 state  sex x age      2    1/6" in capsys.readouterr().out


def test_unknown_cells_are_refused_or_left_out(records, noiseless, capsys):
    release(out="a.npz")
    with Path("people.csv").open("a") as stream:
        stream.write("p1,NY,Albany,x,7\n")
    assert release(out="b.npz") == 2
    err = capsys.readouterr().err
    assert "Line 202 of people.csv has a value of --axes that --cells does not list" in err
    assert release("--ignore-unknown", out="b.npz") == 0
    first, second = (gm.TableRelease.load(name) for name in ("a.npz", "b.npz"))
    np.testing.assert_array_equal(first.values, second.values)
    out = capsys.readouterr().out
    assert ", without records whose leaf or cell is not listed\n" in out
    assert " Records whose leaf or cell is not listed are not counted." in str(second.ledger)
    assert (first.ledger.ignore_unknown, second.ledger.ignore_unknown) == (False, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--axes", "sex,age"), "Give the public list of cells with --cells FILE"),
        (("--axes", "sex,town"), "'town' is one of these"),
        (("--axes", "sex,sex"), "--axes must name each column once"),
        (("--axes", "sex,", "--cells", "cells.csv"), "--axes must be names of columns"),
        (("--queries", "total,race"), "not 'race'; the axes are sex, age"),
        (("--queries", "sex:age,age:sex"), "'age:sex' does"),
        (("--queries", "sex:sex"), "'sex:sex' does"),
        (("--invariants", "total", "--integer"), "'integer' must be False with invariants"),
    ],
)
def test_wrong_options_are_refused(records, capsys, options, words):
    assert release(*options) == 2
    assert words in capsys.readouterr().err


def test_options_of_tables_need_axes(records, capsys):
    words = ["--levels", "state,town", "--rho", "1", "--tree", "leaves.csv", "-o", "o.npz"]
    for option in (["--cells", "cells.csv"], ["--queries", "total"]):
        assert cli.main(["release", "people.csv", *words, *option]) == 2
        assert f"{option[0]} needs --axes" in capsys.readouterr().err


@pytest.mark.parametrize("options", [(), ("--person", "id", "--max-contributions", "2")])
def test_combinations_that_are_not_listed_are_zero(records, noiseless, options, capsys):
    kept = records[(records.sex == "f") | (records.age != "65")]
    assert len(kept) < len(records)
    pd.DataFrame(CELLS[:-1], columns=["sex", "age"]).to_csv("cells.csv", index=False)
    release(*options, out="a.npz")
    assert "Some cells cannot occur" in capsys.readouterr().out
    kept.to_csv("people.csv", index=False)
    release(*options, out="b.npz")
    first, second = (gm.TableRelease.load(name) for name in ("a.npz", "b.npz"))
    np.testing.assert_array_equal(first.values, second.values)
    assert not first.values[:, 1, 2].any()
    assert first.noisy[()][0] == first.values[0].sum()
    assert release(*options, "--neighbors", "change_one") == 2
    assert "--cells must list all combinations" in capsys.readouterr().err


def test_the_bootstrap_is_printed_for_each_query(records, capsys):
    assert release("--bootstrap", "3", "--nonnegative") == 0
    out = capsys.readouterr().out
    assert "Query total. Approximate error of the values by level" in out
    assert "Query sex x age. Approximate error of the values by level" in out
