"""`gmtree consistent` and `gmtree info` on Newick files."""

from __future__ import annotations

import csv

import pytest

import gmtree as gm
from gmtree.cli import main

TABLE = """\
day,state,county,y,v
1,,,100,1
1,NY,,70,2
1,VT,,20,2
1,NY,Albany,30,4
1,NY,Orange,45,4
1,VT,Orange,,
2,NY,Albany,1,1
2,NY,Orange,2,1
2,VT,Orange,3,1
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "noisy.csv"
    path.write_text(TABLE)
    return path


def run(table, *options):
    out = table.with_name("out.csv")
    columns = ["--levels", "state,county", "--value", "y", "--by", "day"]
    assert main(["consistent", str(table), *columns, *options, "-o", str(out), "--force"]) == 0
    with out.open() as text:
        return {(row["day"], row["state"], row["county"]): row["y"] for row in csv.DictReader(text)}


def test_values_add_up(table, capsys):
    found = run(table, "--variance", "v")
    tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
    expected = gm.consistent(tree, [100, 70, 20, 30, 45, 0], [1, 2, 2, 4, 4, float("inf")])
    paths = [("", ""), ("NY", ""), ("VT", ""), ("NY", "Albany"), ("NY", "Orange"), ("VT", "Orange")]
    for path, x in zip(paths, expected, strict=True):
        assert float(found[("1", *path)]) == pytest.approx(x)
    # Sums of the second day, which has leaves only.
    assert [float(found[("2", *path)]) for path in paths] == [6, 3, 3, 1, 2, 3]
    assert "3 rows were added" in capsys.readouterr().out


def test_whole_numbers(table):
    found = run(table, "--nonnegative", "--integer", "--variance", "2.5")
    assert int(found["1", "", ""]) == int(found["1", "NY", ""]) + int(found["1", "VT", ""])


def test_shuffled_tables_give_the_same(table):
    before = run(table, "--variance", "v")
    head, *lines = TABLE.splitlines()
    table.write_text("\n".join([head, *lines[::-1]]) + "\n")
    after = run(table, "--variance", "v")
    assert {k: float(x) for k, x in after.items()} == pytest.approx(
        {k: float(x) for k, x in before.items()}
    )


def test_parquet_in_and_out(table):
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow")
    out = table.with_name("out.parquet")
    columns = ["--levels", "state,county", "--value", "y", "--by", "day"]
    assert main(["consistent", str(table), *columns, "-o", str(out)]) == 0
    assert parquet.read_table(out).column_names == ["day", "state", "county", "y"]
    again = out.with_name("again.csv")
    assert main(["consistent", str(out), *columns, "-o", str(again)]) == 0
    assert len(again.read_text().splitlines()) == 13


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            ("1,NY,Albany,30,4", "1,NY,Albany,many,4"),
            [],
            "Line 5 of noisy.csv, column 'y': must be a number",
        ),
        (("1,NY,Albany", "1,NY,Orange"), [], r"are both \('NY', 'Orange'\)"),
        (("1,NY,Albany", "1,,Albany"), [], "no label below a missing one; row 3"),
        (("", ""), ["--variance", "w"], "Column 'w' of noisy.csv must be there once"),
        (("", ""), ["--variance", "y"], "'y' has two"),
        (("", ""), ["-o", "out.txt"], "OUT must end in .csv, .csv.gz or .parquet"),
    ],
)
def test_wrong_tables(table, capsys, change, options, message):
    table.write_text(TABLE.replace(*change, 1))
    out = str(table.with_name("out.csv"))
    columns = ["--levels", "state,county", "--value", "y", "--by", "day", "-o", out]
    assert main(["consistent", str(table), *columns, *options]) == 2
    import re

    assert re.search(message, capsys.readouterr().err)
    assert not table.with_name("out.csv").exists()


def test_standard_streams_and_gzip(table, monkeypatch, capfdbinary):
    import gzip
    import io
    import sys

    packed = table.with_name("noisy.csv.gz")
    packed.write_bytes(gzip.compress(TABLE.encode()))
    columns = ["--levels", "state,county", "--value", "y", "--by", "day", "-o", "-"]
    assert main(["consistent", str(packed), *columns]) == 0
    first = capfdbinary.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TABLE.encode())))
    assert main(["consistent", "-", *columns]) == 0
    assert capfdbinary.readouterr().out == first
    assert first.startswith(b"day,state,county,y")


def test_files_are_not_replaced_without_being_asked(table, capsys):
    out = table.with_name("out.csv")
    out.write_text("mine")
    args = ["consistent", str(table), "--levels", "state,county", "--value", "y", "-o", str(out)]
    assert main(args) == 2
    assert out.read_text() == "mine"


def test_info_on_newick(tmp_path, capsys):
    path = tmp_path / "cats.nwk"
    path.write_text("((cat:1,lion:2)feline:3,dog:7);")
    assert main(["info", str(path)]) == 0
    text = capsys.readouterr().out
    assert "4 of 5 nodes have a name" in text
    assert "4 branches have a length, 13 in all" in text
    assert "├── feline" in text


def refused(table, text, levels="shop"):
    table.write_text(text)
    out = table.with_name("out.csv")
    command = ["consistent", str(table), "--levels", levels, "--value", "y", "-o", str(out)]
    assert main(command) == 2
    assert not out.exists()


def test_messages_name_options_and_what_a_table_should_have(table, capsys):
    refused(table, "shop,y\na,1\nb,2\ntotal,3\n")
    message = capsys.readouterr().err
    assert "must not have the label 'total'" in message
    assert "missing labels in all levels" in message
    refused(table, "shop,y\na,1\na,2\n,3\n")
    assert "Name what tells them apart in --by." in capsys.readouterr().err
    refused(table, "shop,y\na,1\nb,inf\n,3\n")
    assert "'y' must be finite or missing; row 1, ('b'), is inf" in capsys.readouterr().err
    refused(table, "shop;y\na;1\nb;2\n")
    assert "Line 1 has semicolons and no comma" in capsys.readouterr().err
    refused(table, "shop\ty\na\t1\nb\t2\n")
    assert "Line 1 has tabs and no comma" in capsys.readouterr().err


def test_an_account_that_is_not_there(tmp_path, capsys):
    path = tmp_path / "budget.json"
    assert main(["account", str(path)]) == 2
    assert f"'gmtree account {path} --epsilon 1' makes one" in capsys.readouterr().err
    assert not path.exists()
    assert main(["account", str(path), "--epsilon", "1"]) == 0
    assert main(["account", str(path)]) == 0


def test_help_tells_what_becomes_of_negative_counts(capsys):
    with pytest.raises(SystemExit):
        main(["release", "--help"])
    assert "negative sums become 0" in " ".join(capsys.readouterr().out.split())
