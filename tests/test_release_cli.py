"""``gmtree release``."""

from __future__ import annotations

import csv
import io
import re
import sys

import numpy as np
import pytest

import gmtree as gm
from gmtree import cli
from gmtree._rows import ROWS_PER_STEP
from gmtree.privacy import noise, testing

TABLE = """\
state,county,people
NY,Albany,304
VT,Orange,29
NY,Orange,372
VT,Essex,0
VT,Orange,3
"""
LEAVES = "county,state\nEssex,VT\nOrange,VT\nBronx,NY\nAlbany,NY\nOrange,NY\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(TABLE)
    (tmp_path / "leaves.csv").write_text(LEAVES)
    return tmp_path


@pytest.fixture
def noiseless(monkeypatch):
    class Zeros:
        def take(self, count, dtype):
            return np.zeros(count, dtype)

    monkeypatch.setattr(noise, "SYSTEM", Zeros())


def release(*options: str, file: str = "people.csv", out: str = "out.csv") -> int:
    given = ["--epsilon", "1"] if "--rho" not in options else []
    levels = [] if "--levels" in options else ["--levels", "state,county"]
    return cli.main(["release", file, *levels, *given, *options, "-o", out])


def rows(path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def values(path) -> dict[tuple[str, str], int]:
    return {(row["state"], row["county"]): int(row["value"]) for row in rows(path)}


def test_csv_to_csv(folder, capsys, noiseless):
    assert release("--count", "people") == 0
    assert values(folder / "out.csv") == {
        ("", ""): 708, ("NY", ""): 676, ("VT", ""): 32, ("NY", "Albany"): 304,
        ("NY", "Orange"): 372, ("VT", "Essex"): 0, ("VT", "Orange"): 32,
    }  # fmt: skip
    out, err = capsys.readouterr()
    assert "out.csv: 7 nodes, 4 leaves" in out
    assert "Expected error by level, epsilon = 1" in out
    assert "Privacy ledger: pure differential privacy, epsilon = 1" in out
    assert "give the full list of leaves with --tree" in err
    first = rows(folder / "out.csv")[0]
    assert float(first["low"]) < 708 < float(first["high"])
    assert first["noisy"] == "708"


def test_rows_count_one_each_without_a_count(folder, noiseless):
    release()
    assert values(folder / "out.csv")["VT", "Orange"] == 2


def test_order_of_rows_does_not_show(folder, noiseless):
    release("--count", "people")
    head, *lines = TABLE.splitlines()
    (folder / "people.csv").write_text("\n".join([head, *reversed(lines)]))
    release("--count", "people", out="other.csv")
    assert (folder / "out.csv").read_text() == (folder / "other.csv").read_text()


def test_public_tree(folder, capsys, noiseless):
    assert release("--count", "people", "--tree", "leaves.csv") == 0
    assert "Warning" not in capsys.readouterr().err
    found = values(folder / "out.csv")
    assert found["NY", "Bronx"] == 0
    # In the order of the public list.
    assert list(found)[-5:] == [
        ("VT", "Essex"), ("VT", "Orange"), ("NY", "Bronx"), ("NY", "Albany"), ("NY", "Orange"),
    ]  # fmt: skip
    with (folder / "people.csv").open("a") as stream:
        stream.write("MA,Suffolk,9\n")
    assert release("--count", "people", "--tree", "leaves.csv", out="b.csv") == 2
    assert "Row 6 of people.csv has a leaf that --tree does not list" in capsys.readouterr().err
    options = ("--count", "people", "--tree", "leaves.csv", "--ignore-unknown")
    assert release(*options, out="b.csv") == 0
    assert values(folder / "b.csv") == found


def test_options_reach_the_release(folder, capsys):
    options = ("--count", "people", "--neighbors", "change_one", "--max-contributions", "2")
    assert release(*options, "--shares", "1,2,1", out="out.npz") == 0
    made = gm.Release.load("out.npz")
    assert (made.nonnegative, made.integer) == (True, True)
    assert (made.ledger.neighbors, made.ledger.max_contributions) == ("change_one", 2)
    assert made.ledger.levels[1].share == 2 * made.ledger.levels[0].share
    assert made.tree.level_names == ("state", "county")

    options = ("--rho", "1/3", "--no-nonnegative", "--no-integer", "--invariants", "state")
    assert release(*options, "--count", "people", "--delta", "1e-6", out="b.npz") == 0
    made = gm.Release.load("b.npz")
    assert (made.nonnegative, made.integer) == (False, False)
    assert str(made.ledger.budget) == "1/3"
    assert made.ledger.invariants == ("level 2 (state)",)
    assert made.noisy[1] == 676
    assert re.search(r"Implies epsilon = \d\.\d+ with delta = 1e-6", capsys.readouterr().out)


def test_max_count(folder, noiseless):
    release("--count", "people", "--max-count", "100")
    assert values(folder / "out.csv")["", ""] == 232


@pytest.mark.parametrize("objective", ["nodes", "leaves"])
def test_shares_with_the_least_error(folder, objective):
    assert release("--count", "people", "--shares", objective, out="out.npz") == 0
    made = gm.Release.load("out.npz")
    shares = gm.optimal_shares(made.tree, epsilon=1, objective=objective)
    found = [float(line.share) for line in made.ledger.levels]
    np.testing.assert_allclose(found, np.array(shares) / sum(shares))


def test_parquet_in_and_out(folder, noiseless):
    import pandas as pd

    frame = pd.read_csv("people.csv")
    frame["code"] = [1, 2, 3, 4, 2]
    frame.to_parquet("people.parquet")
    options = ("--count", "people", "--levels", "state,code")
    assert release(*options, file="people.parquet", out="out.parquet") == 0
    table = pd.read_parquet("out.parquet")
    assert table["value"].tolist() == [708, 676, 32, 304, 372, 32, 0]
    assert table["code"].tolist()[-1] == "4"
    assert gm.Release.load("out.parquet").values.tolist() == table["value"].tolist()


def test_unmeasured_counts_are_missing(folder):
    release("--count", "people", "--shares", "1,0,1")
    assert [row["noisy"] == "" for row in rows(folder / "out.csv")] == [False, True, True] + [
        False
    ] * 4


def test_many_rows(folder, monkeypatch):
    monkeypatch.setattr(noise, "SYSTEM", testing.SeededWords(2))
    k = ROWS_PER_STEP + 5
    lines = [f"a{i % 3},{i}" for i in range(k)]
    (folder / "people.csv").write_text("\n".join(["state,county", *lines]))
    assert release() == 0
    found = values(folder / "out.csv")
    assert len(found) == k + 4
    assert found["", ""] == sum(found[x] for x in found if x[1])


# --------------------------------------------------------------------------- overwriting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("yes\n", 0), ("n\n", 1), ("\n", 1)])
def test_asks_before_overwriting(folder, monkeypatch, capsys, answer, status):
    (folder / "out.csv").write_text("precious")
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert release("--count", "people") == status
    out = capsys.readouterr().out
    assert "Replace it? [y/N]" in out
    assert ((folder / "out.csv").read_text() == "precious") == (status == 1)
    assert ("Nothing was released." in out) == (status == 1)


def test_never_overwrites_without_asking(folder, monkeypatch, capsys):
    (folder / "out.csv").write_text("precious")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert release("--count", "people") == 2
    assert "out.csv exists already; --force replaces it." in capsys.readouterr().err
    assert (folder / "out.csv").read_text() == "precious"
    assert release("--count", "people", "--force") == 0
    assert len(rows(folder / "out.csv")) == 7


# --------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("state,county,people\n", "people.csv has no rows"),
        ("", "Column 'state' of people.csv must be there once; it is not among"),
        ("state,people\nNY,1\n", "Column 'county' of people.csv must be there once"),
        ("state,state,county,people\nNY,NY,a,1\n", "it is twice"),
        ("state,county,people\nNY,Albany,secret\n", "Row 1 of people.csv has no whole number"),
        ("state,county,people\nNY,Albany,12.5\n", "Row 1 of people.csv has no whole number"),
        ("state,county,people\nNY,,12\n", "Row 1 of people.csv lacks the label of a level"),
        ("state,county,people\nNY,Albany\n", "Row 1 of people.csv has too few columns"),
    ],
)
def test_tables_refused(folder, capsys, table, text):
    (folder / "people.csv").write_text(table)
    assert release("--count", "people") == 2
    err = capsys.readouterr().err
    assert text in err
    assert "secret" not in err
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize(
    ("options", "out", "text"),
    [
        ((), "out.txt", "OUT must end in .csv, .parquet or .npz"),
        (("--confidence", "95"), "out.csv", "'confidence' must be above 0 and below 1"),
        (("--shares", "1,2"), "out.csv", "'level_shares' must have one share per level (3)"),
        (("--shares", "most"), "out.csv", "'level_shares' must be a number"),
        (("--rho", "-1"), "out.csv", "'rho' must be above 0"),
        (("--invariants", "city"), "out.csv", "must name nodes or levels of the tree, not 'city'"),
        (("--max-count", "0"), "out.csv", "'max_count' must be at least 1"),
        (("--tree", "none.csv"), "out.csv", "none.csv"),
        (("--tree", "people.txt"), "out.csv", "FILE must end in .csv or .parquet"),
    ],
)
def test_options_refused(folder, capsys, options, out, text):
    assert release("--count", "people", *options, out=out) == 2
    assert text in capsys.readouterr().err
    assert not (folder / "out.csv").exists()


def test_files_refused(folder, capsys):
    (folder / "x.parquet").write_text("no table")
    assert release(file="x.parquet") == 2
    assert "x.parquet is no Parquet file" in capsys.readouterr().err
    (folder / "empty.csv").write_text("state,county\n")
    assert release("--tree", "empty.csv") == 2
    assert "empty.csv has no rows" in capsys.readouterr().err


def test_budget_is_needed_once(folder, capsys):
    for budget in ([], ["--epsilon", "1", "--rho", "1"]):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["release", "people.csv", "--levels", "state", *budget, "-o", "out.csv"])
        assert stopped.value.code == 2
    assert "--rho" in capsys.readouterr().err


def test_missing_pyarrow_is_named(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert release("--count", "people", out="out.parquet") == 2
    assert "Parquet files need pyarrow" in capsys.readouterr().err
