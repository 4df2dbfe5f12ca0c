"""``gmtree release``."""

from __future__ import annotations

import csv
import gzip
import io
import re
import shlex
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gmtree as gm
from gmtree import cli
from gmtree.cli.table_files import ROWS_PER_STEP
from gmtree.privacy import LEAVES_FROM_RECORDS, testing
from gmtree.privacy.noise import words as random_words
from gmtree.privacy.noise.mechanism import Mechanism

TABLE = """\
state,county,people
NY,Albany,304
VT,Orange,29
NY,Orange,372
VT,Essex,0
VT,Orange,3
"""
HEAD = "state,county,people\n"
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

    monkeypatch.setattr(random_words, "SYSTEM", Zeros())


def release(
    *options: str, file: str = "people.csv", out: str = "out.csv", whole: bool = True
) -> int:
    given = ["--epsilon", "1"] if "--rho" not in options else []
    levels = [] if "--levels" in options else ["--levels", "state,county"]
    leaves = [] if "--tree" in options else ["--leaves-are-public"]
    given += ["--nonnegative", "--integer"] if whole else []
    return cli.main(["release", file, *levels, *given, *leaves, *options, "-o", out])


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
    assert "Errors and intervals belong to the column 'estimate'" in out
    assert not err
    first = rows(folder / "out.csv")[0]
    assert float(first["estimate_low"]) < float(first["estimate"]) < float(first["estimate_high"])
    assert float(first["estimate"]) == pytest.approx(708)
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
    out = capsys.readouterr().out
    assert "The list of leaves" not in out
    assert "  - nothing" in out
    found = values(folder / "out.csv")
    assert found["NY", "Bronx"] == 0
    # In the order of the public list.
    assert list(found)[-5:] == [
        ("VT", "Essex"), ("VT", "Orange"), ("NY", "Bronx"), ("NY", "Albany"), ("NY", "Orange"),
    ]  # fmt: skip
    with (folder / "people.csv").open("a") as stream:
        stream.write("MA,Suffolk,9\n")
    assert release("--count", "people", "--tree", "leaves.csv", out="b.csv") == 2
    assert "Line 7 of people.csv has a leaf that --tree does not list" in capsys.readouterr().err
    options = ("--count", "people", "--tree", "leaves.csv", "--ignore-unknown")
    assert release(*options, out="b.csv") == 0
    assert values(folder / "b.csv") == found


@pytest.mark.parametrize("options", [("--count", "people"), (), ("--person", "people")])
def test_a_table_without_rows_is_released_like_any_other(folder, options):
    """An error must not reveal that there are no records."""
    (folder / "people.csv").write_text(HEAD)
    assert release("--tree", "leaves.csv", *options) == 0
    assert len(rows(folder / "out.csv")) == 8


def test_options_reach_the_release(folder, capsys):
    options = ("--count", "people", "--neighbors", "change_one", "--max-contributions", "2")
    assert release(*options, "--shares", "1,2,1", out="out.npz") == 0
    made = gm.Release.load("out.npz")
    assert (made.nonnegative, made.integer) == (True, True)
    assert (made.ledger.neighbors, made.ledger.max_contributions) == ("change_one", 2)
    assert made.ledger.levels[1].share == 2 * made.ledger.levels[0].share
    assert made.tree.level_names == ("state", "county")

    options = ("--rho", "1/3", "--invariants", "state")
    assert release(*options, "--count", "people", "--delta", "1e-6", out="b.npz", whole=False) == 0
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
    shares = gm.privacy.optimal_shares(made.tree, epsilon=1, objective=objective)
    found = [float(line.share) for line in made.ledger.levels]
    np.testing.assert_allclose(found, np.array(shares) / sum(shares))


def test_parquet_in_and_out(folder, noiseless):
    pd = pytest.importorskip("pandas", reason="makes the table")
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
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
    monkeypatch.setattr(random_words, "SYSTEM", testing.SeededWords(2))
    k = ROWS_PER_STEP + 5
    lines = [f"a{i % 3},{i}" for i in range(k)]
    (folder / "people.csv").write_text("\n".join(["state,county", *lines]))
    assert release() == 0
    found = values(folder / "out.csv")
    assert len(found) == k + 4
    assert found["", ""] == sum(found[x] for x in found if x[1])


# --------------------------------------------------------------------------- what must be public


def test_without_a_public_list_of_leaves_nothing_is_released(folder, capsys):
    """The command of the contract explains what is missing."""
    options = ["--levels", "state,county", "--count", "people", "--epsilon", "1", "-o", "out.csv"]
    assert cli.main(["release", "people.csv", *options]) == 2
    err = capsys.readouterr().err
    assert "--tree FILE" in err
    assert "--leaves-are-public" in err
    assert not (folder / "out.csv").exists()


def test_leaves_taken_from_the_data_are_named_as_outside_the_guarantee(folder, capsys):
    assert release("--count", "people", out="out.npz") == 0
    assert f"  - {LEAVES_FROM_RECORDS}" in capsys.readouterr().out
    ledger = gm.Release.load("out.npz").ledger
    assert ledger.disclosures == (LEAVES_FROM_RECORDS,)
    assert "without looking at the data, except for the disclosures below." in str(ledger)


def test_rows_are_not_dropped_where_their_number_is_public(folder, capsys):
    """The total has almost no noise, so it would reveal how many rows were dropped."""
    (folder / "people.csv").write_text(TABLE + "MA,Suffolk,320102\n")
    options = ("--count", "people", "--tree", "leaves.csv", "--neighbors", "change_one")
    assert release(*options, "--ignore-unknown") == 2
    assert "--ignore-unknown must not be used with --neighbors change_one" in (
        capsys.readouterr().err
    )
    assert not (folder / "out.csv").exists()
    assert release("--ignore-unknown") == 2
    assert "--ignore-unknown needs --tree" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "out", "text"),
    [
        (("--rho", "1", "--delta", "0"), "out.csv", "'delta' must be above 0 and below 1"),
        (("--rho", "1", "--delta", "1"), "out.csv", "'delta' must be above 0 and below 1"),
        (("--rho", "1", "--delta", "x"), "out.csv", "'delta' must be a number"),
        (("--person", "who"), "out.csv", "--person must not be given with --count"),
        (("--max-leaves", "2"), "out.csv", "--max-leaves needs --person"),
        (("--account", "none.json"), "out.csv", "account none.json --epsilon 1' creates one"),
        ((), "none/out.csv", "'OUT' must be in a folder that exists"),
    ],
)
def test_options_are_checked_before_anything_is_drawn(
    folder, monkeypatch, capsys, options, out, text
):
    class Unavailable:
        def take(self, count, dtype):
            raise AssertionError("random words were asked for")

    monkeypatch.setattr(random_words, "SYSTEM", Unavailable())
    assert release("--count", "people", *options, out=out) == 2
    assert text in capsys.readouterr().err
    assert {p.name for p in folder.iterdir()} == {"people.csv", "leaves.csv"}


def test_the_epsilon_of_a_delta_is_printed_rounded_up(folder, capsys):
    assert (
        release("--count", "people", "--rho", "1/3", "--delta", "1e-6", out="b.npz", whole=False)
        == 0
    )
    (printed,) = re.findall(r"Implies epsilon = (\S+) with", capsys.readouterr().out)
    exact = gm.Release.load("b.npz").ledger.epsilon("1e-6")
    assert exact <= float(printed) < exact * (1 + 1e-5)


def test_counts_are_not_in_the_variables_of_a_failure(folder, monkeypatch):
    def fail(noise, scale, size):
        raise RuntimeError("no such error is expected, so that its traceback is shown")

    monkeypatch.setattr(Mechanism, "draw", fail)
    with pytest.raises(RuntimeError) as failed:
        release("--count", "people")
    frames = [f for f, _ in traceback.walk_tb(failed.value.__traceback__)]
    ours = [f for f in frames if f.f_globals.get("__name__", "").startswith("gmtree")]
    assert {"run", "_release", "publish", "measure"} <= {f.f_code.co_name for f in ours}
    for frame in ours:
        assert not any("304" in repr(x) for x in frame.f_locals.values())


def test_a_dry_run_tells_everything_and_spends_nothing(folder, monkeypatch, capsys):
    """The question also states what is counted and the levels, before a mistake costs anything."""
    monkeypatch.setattr(Mechanism, "draw", None)
    account = gm.privacy.Account(epsilon=2, path="budget.json")
    (folder / "out.csv").write_text("precious")
    options = ["--account", "budget.json", "--tree", "leaves.csv", "--dry-run"]
    assert release(*options) == 0
    out = capsys.readouterr().out
    assert "out.csv: 8 nodes, 5 leaves; each row is one record" in out
    assert "2 state" in out
    assert "Privacy ledger: pure differential privacy, epsilon = 1" in out
    assert out.endswith("Nothing was drawn, spent or written.\n")
    assert account.left == 2
    assert (folder / "out.csv").read_text() == "precious"
    assert release(*options, "--count", "people") == 0
    assert "column 'people' is added up by leaf\n" in capsys.readouterr().out
    assert release(*options, "--ignore-unknown") == 0
    out = capsys.readouterr().out
    assert "each row is one record, without records whose leaf is not listed\n" in out
    assert "  - Records whose leaf is not listed were left out, and their number is not" in out


def test_a_dry_run_is_refused_by_an_account_that_would_refuse_the_release(folder, capsys):
    account = gm.privacy.Account(epsilon="1/2", path="budget.json")
    options = ["--account", "budget.json", "--tree", "leaves.csv"]
    assert release(*options, "--dry-run") == 2
    refused = capsys.readouterr().err
    assert "must have 1 left in epsilon; it has 1/2 of 1/2." in refused
    assert release(*options) == 2
    assert capsys.readouterr().err == refused
    assert release(*options, "--rho", "1/8", "--dry-run") == 2
    assert "must be in rho for discrete Gaussian noise" in capsys.readouterr().err
    assert account.left == account.budget


def test_levels_that_seem_turned_round_are_questioned(folder, capsys):
    (folder / "towns.csv").write_text(
        "state,town\n" + "".join(f"{'NY' if k % 2 else 'VT'},{k}\n" for k in range(9))
    )
    options = ["--dry-run", "--leaves-are-public", "--epsilon", "1", "-o", "out.csv"]
    for levels, is_questioned in (("town,state", True), ("state,town", False)):
        assert cli.main(["release", "towns.csv", "--levels", levels, *options]) == 0
        assert (
            "Is 'town' really coarser than 'state'?" in capsys.readouterr().out
        ) == is_questioned


def test_only_a_dry_run_needs_no_output_file(folder, capsys):
    command = ["release", "people.csv", "--levels", "state,county", "--epsilon", "1",
               "--leaves-are-public"]  # fmt: skip
    assert cli.main([*command, "--dry-run"]) == 0
    assert "Nothing was drawn, spent or written." in capsys.readouterr().out
    assert cli.main(command) == 2
    assert "-o OUT is required unless --dry-run is given." in capsys.readouterr().err


def test_a_dry_run_finds_what_a_release_would_refuse(folder, capsys):
    (folder / "leaves.csv").write_text("state,county\nNY,Albany\n")
    assert release("--tree", "leaves.csv", "--dry-run") == 2
    assert "has a leaf that --tree does not list" in capsys.readouterr().err


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
    assert ("Nothing was written." in out) == (status == 1)


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
        ("", "people.csv must have one column 'state'; it has none. Its first line is empty"),
        ("state,people\nNY,1\n", "must have one column 'county'; it has none. The columns are"),
        ("state,state,county,people\nNY,NY,a,1\n", "it has 2. The columns are 'state', 'state'"),
        ("secret,Albany,304\nNY,Albany,3\n", "have one column 'state'; it has none. 'gmtree info"),
        (HEAD + "NY,,12\n", "Line 2 of people.csv, column 'county': must have a label"),
        (HEAD + "\nNY,,12\n", "Line 3 of people.csv, column 'county': must have a label"),
        (
            HEAD + "NY,Albany\n",
            "Line 2 of people.csv must have 3 columns, as line 1 has; column 3 is",
        ),
        (HEAD + "NY,secret,1,234\n", "as line 1 has; column 4 has no name in line 1."),
        (HEAD + 'NY,"secret,1\nNY,b,2\n', "Line 2 of people.csv, column 2: a quote must be closed"),
        (
            HEAD + 'NY,"secret,1\nNY,b",2\n',
            "Line 2 of people.csv, column 2: a quote must be closed",
        ),
        (HEAD + 'NY,"secret"b,1\n', "column 2: a quoted field must end with its quote."),
        (HEAD + 'NY,"a ""secret"", b""", c,1\n', "as line 1 has; column 4 has no name"),
        (
            HEAD + "NY,secret" + 200_000 * "x" + ",1\n",
            "Line 2 of people.csv, column 2: a field must",
        ),
        (HEAD + "NY,secret\rNY,b,2\n", "Line 2 of people.csv, column 2: lines must end with"),
        (HEAD + "NY,sec\0ret,2\n", "Line 2 of people.csv must be text; it has a NUL"),
        ('"state,county,people\nNY,secret,2\n', "Line 1 of people.csv, column 1: a quote must"),
    ],
)
def test_tables_refused(folder, capsys, table, text):
    (folder / "people.csv").write_text(table)
    assert release("--count", "people") == 2
    err = capsys.readouterr().err
    assert text in err
    assert "secret" not in err
    assert not (folder / "out.csv").exists()


def test_an_open_quote_in_the_last_column_swallows_no_rows(folder, capsys):
    """If the labels come last, all rows below would become part of a label and be published."""
    table = 'people,state,county\n3,NY,Albany\n5,NY,"Orange\n7,VT,secret\n9,VT,Essex\n'
    (folder / "people.csv").write_text(table)
    assert release("--count", "people") == 2
    err = capsys.readouterr().err
    assert "Line 3 of people.csv, column 3: a quote must be closed" in err
    assert "secret" not in err
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize(
    ("options", "out", "text"),
    [
        ((), "out.txt", "OUT must end in .csv, .csv.gz, .parquet or .npz"),
        (("--confidence", "95"), "out.csv", "'confidence' must be above 0 and below 1"),
        (("--shares", "1,2"), "out.csv", "'shares' must have one share per level (3)"),
        (("--shares", "most"), "out.csv", "--shares must be 'equal', 'nodes', 'leaves' or numbers"),
        (("--rho", "-1"), "out.csv", "'rho' must be above 0"),
        (("--invariants", "city"), "out.csv", "must name nodes or levels of the tree, not 'city'"),
        (("--max-count", "0"), "out.csv", "'max_count' must be at least 1"),
        (("--tree", "none.csv"), "out.csv", "none.csv"),
        (("--tree", "people.txt"), "out.csv", "FILE must end in .csv, .csv.gz or .parquet"),
    ],
)
def test_options_refused(folder, capsys, options, out, text):
    assert release("--count", "people", *options, out=out) == 2
    assert text in capsys.readouterr().err
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize(
    "count", ["secret", "1_000", "5.01", ".0", "1e3", "", " 5", "٣", "0x1", "--5", "9" * 5000]
)
def test_counts_are_whole_numbers_in_plain_digits(folder, capsys, count):
    (folder / "people.csv").write_text(f"{HEAD}NY,Albany,3\nNY,Orange,{count}\n")
    assert release("--count", "people") == 2
    err = capsys.readouterr().err
    assert err == (
        "gmtree: error: Line 3 of people.csv, column 'people': must be a whole number, "
        "such as 12 or 12.0.\n"
    )
    assert not (folder / "out.csv").exists()


def test_counts_may_have_a_sign_and_zeros_after_the_point(folder, noiseless):
    """A column of counts in pandas has floats if a count is missing somewhere."""
    (folder / "people.csv").write_text(f"{HEAD}NY,Albany,+30\nVT,Orange,007.0\n")
    assert release("--count", "people") == 0
    assert values(folder / "out.csv")["", ""] == 37


def test_bytes_that_are_no_text_are_not_shown(folder, capsys):
    (folder / "people.csv").write_bytes(HEAD.encode() + b"NY,secret\xe9,3\n")
    assert release("--count", "people") == 2
    expected = "gmtree: error: Line 2 of people.csv must be text in UTF-8.\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ("--levels", "state,state"),
            "--levels must name each column once; 'state' is there twice.",
        ),
        (("--levels", "state,,county"), "--levels must be names of columns"),
        (("--levels", "state,people"), "--count must not be one of --levels; 'people' is."),
    ],
)
def test_levels_are_different_columns(folder, capsys, options, text):
    assert release("--count", "people", *options) == 2
    assert text in capsys.readouterr().err
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (
            [["secret"], ["b"]],
            "Column 'county' of p.parquet must hold text, numbers or dates, not l",
        ),
        ([b"secret", b"b"], "Column 'county' of p.parquet must hold text, numbers or dates, not b"),
        ([{"a": 1}, {"a": 2}], "Column 'county' of p.parquet must hold text, numbers or dates"),
        (
            [1.0, float("nan")],
            "Row 2 of p.parquet, column 'county': must have a label; it is empty.",
        ),
        (["secret", None], "Row 2 of p.parquet, column 'county': must have a label; it is empty."),
    ],
)
def test_labels_refused_in_parquet(folder, capsys, labels, text):
    pa = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow")
    table = pa.table({"state": ["NY", "NY"], "county": pa.array(labels), "people": [1, 2]})
    parquet.write_table(table, "p.parquet")
    assert release("--count", "people", file="p.parquet") == 2
    err = capsys.readouterr().err
    assert text in err
    assert "secret" not in err


# --------------------------------------------------------------------------- streams


class Bytes:
    """Standard input or output that is not a terminal."""

    def __init__(self, content: bytes = b"") -> None:
        self.buffer = io.BytesIO(content)

    def isatty(self) -> bool:
        return False


def test_standard_input_and_output(folder, capsysbinary, monkeypatch, noiseless):
    assert release("--count", "people") == 0
    capsysbinary.readouterr()
    monkeypatch.setattr(sys, "stdin", Bytes(TABLE.encode()))
    assert release("--count", "people", file="-", out="-") == 0
    out, err = capsysbinary.readouterr()
    assert out == (folder / "out.csv").read_bytes()
    assert b"Privacy ledger" in err
    monkeypatch.setattr(sys, "stdin", Bytes(b"state,county,people\nNY,Albany\n"))
    assert release("--count", "people", file="-", out="-") == 2
    assert b"Line 2 of standard input must have 3 columns" in capsysbinary.readouterr().err


def test_standard_input_is_read_once(folder, capsys):
    assert release("--count", "people", "--tree", "-", file="-") == 2
    assert "FILE and --tree must not both be standard input" in capsys.readouterr().err


def test_compressed_tables_in_and_out(folder, capsys, noiseless):
    assert release("--count", "people") == 0
    (folder / "people.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    assert release("--count", "people", file="people.csv.gz", out="out.csv.gz") == 0
    packed = (folder / "out.csv.gz").read_bytes()
    assert gzip.decompress(packed) == (folder / "out.csv").read_bytes()
    for damaged in (b"no gzip", gzip.compress(TABLE.encode())[:-9]):
        (folder / "people.csv.gz").write_bytes(damaged)
        capsys.readouterr()
        assert release("--count", "people", "--force", file="people.csv.gz") == 2
        assert capsys.readouterr().err == (
            "gmtree: error: people.csv.gz must be an undamaged gzip file.\n"
        )


def test_output_that_cannot_be_written_is_found_before_anything_is_read(folder, capsys):
    (folder / "x.csv").mkdir()
    for out, text in (
        ("none/out.csv", "'OUT' must be in a folder that exists; there is no 'none'"),
        ("x.csv", "'OUT' must be a file; 'x.csv' is a folder"),
        ("people.csv/out.csv", "'OUT' must be in a folder that exists"),
    ):
        assert release("--count", "people", file="not there.csv", out=out) == 2
        assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("closed", "outputs"),
    [
        ("stdin", {"out.csv": 2, "new.csv": 0}),
        ("stdout", {"new.csv": 0, "-": 2}),
        ("stderr", {"out.csv": 2, "new.csv": 0}),
    ],
)
def test_closed_streams_leave_no_traceback(folder, closed, outputs):
    """Replacing an old file asks on standard input; the ledger goes to standard output."""
    (folder / "out.csv").write_text("precious")
    redirect = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-"}[closed]
    options = "release people.csv --levels state,county --leaves-are-public --epsilon 1 -o"
    run = f"{shlex.quote(sys.executable)} -m gmtree {options} %s {redirect}"
    for out, status in outputs.items():
        done = subprocess.run(
            ["sh", "-c", run % out], capture_output=True, text=True, check=False, cwd=folder
        )
        assert "Traceback" not in done.stderr
        assert done.returncode == status, done.stderr
    assert (folder / "out.csv").read_text() == "precious"
    assert len(rows(folder / "new.csv")) == 7


def test_closed_standard_input_is_named(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert release("--count", "people", file="-") == 2
    assert "FILE is standard input, which is closed" in capsys.readouterr().err


def test_a_reader_that_stops_early_is_no_error(folder):
    options = "release people.csv --levels state,county --leaves-are-public --epsilon 1 -o -"
    run = f"{shlex.quote(sys.executable)} -m gmtree {options} | true"
    done = subprocess.run(
        ["sh", "-c", run], capture_output=True, text=True, check=False, cwd=folder
    )
    assert "Traceback" not in done.stderr


def test_missing_files_and_options_are_named(folder, capsys):
    assert cli.main(["release", "people.csv", "--epsilon", "1", "--dry-run"]) == 2
    assert "error: --levels must be given, except with --resume." in capsys.readouterr().err
    assert release(file="no.csv") == 2
    assert "error: There is no file 'no.csv'." in capsys.readouterr().err


def test_a_full_disk_is_told_in_one_line(folder):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    run = f"{shlex.quote(sys.executable)} -m gmtree info people.csv > /dev/full"
    done = subprocess.run(
        ["sh", "-c", run], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 2
    assert done.stderr == "gmtree: error: [Errno 28] No space left on device\n"


def test_files_refused(folder, capsys):
    (folder / "empty.csv").write_text("state,county\n")
    assert release("--tree", "empty.csv") == 2
    assert "empty.csv has no rows" in capsys.readouterr().err


def test_a_broken_parquet_file_is_refused(folder, capsys):
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    (folder / "x.parquet").write_text("no table")
    assert release(file="x.parquet") == 2
    assert "x.parquet is not a Parquet file" in capsys.readouterr().err


def test_budget_is_needed_once(folder, capsys):
    command = ["release", "people.csv", "--levels", "state", "-o", "out.csv"]
    assert cli.main(command) == 2
    assert "--rho" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        cli.main([*command, "--epsilon", "1", "--rho", "1"])
    assert stopped.value.code == 2
    assert "--rho" in capsys.readouterr().err


def test_missing_pyarrow_is_named(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert release("--count", "people", out="out.parquet") == 2
    assert "A Parquet file needs pyarrow: pip install" in capsys.readouterr().err


REFUSED_EVERYWHERE = [
    {"max_contributions": 2, "max_per_leaf": 5},
    {"max_per_leaf": 2, "max_contributions": 2, "neighbors": "change_one"},
    {"max_contributions": 0},
    {"max_count": 0},
    {"neighbors": "change_one", "max_count": 7},
    {"invariants": ["nowhere"]},
    {"epsilon": "0"},
    {"delta": "1"},
    {"shares": ["0", "0", "0"]},
    {"shares": ["1"]},
]


@pytest.mark.parametrize("terms", REFUSED_EVERYWHERE, ids=str)
def test_every_door_refuses_the_same_terms(folder, capsys, terms):
    """The function, the function for frames and the command line build the same budget."""
    frame = pd.read_csv("people.csv").iloc[:4]
    tree = gm.Tree.from_levels(frame[["state", "county"]])
    terms = {"epsilon": "1", **terms}
    with pytest.raises(ValueError):  # noqa: PT011
        gm.release(tree, frame["people"].to_numpy(), **terms)
    with pytest.raises(ValueError):  # noqa: PT011
        gm.release_frame(
            frame, ["state", "county"], count="people", leaves_are_public=True, **terms
        )
    options = []
    for name, value in terms.items():
        text = ",".join(value) if isinstance(value, list) else str(value)
        options += [f"--{name.replace('_', '-')}", text]
    assert cli.main(["release", "people.csv", "--levels", "state,county", "--count", "people",
                     "--leaves-are-public", *options, "-o", "out.csv"]) != 0  # fmt: skip
    assert capsys.readouterr().err
    assert not (folder / "out.csv").exists()


def test_the_bootstrap_states_the_errors_of_the_values(folder, capsys):
    assert release("--count", "people", "--bootstrap", "20") == 0
    out = capsys.readouterr().out
    table = out[out.index("Approximate error of the values by level") :].splitlines()
    assert table[1].split() == ["level", "bias", "rmse"]
    assert len(table[2:]) == 3
    assert "belong to the column 'estimate'" in out
    for runs in ("0", "1000000"):
        assert release("--count", "people", "--bootstrap", runs, out="other.csv") != 0
        assert "--bootstrap must be from 1 to 100,000" in capsys.readouterr().err
    assert not (folder / "other.csv").exists()
