"""`gmtree reconcile` and `gmtree info` on Newick files."""

from __future__ import annotations

import csv
import re

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
    assert main(["reconcile", str(table), *columns, *options, "-o", str(out), "--force"]) == 0
    with out.open() as text:
        return {(row["day"], row["state"], row["county"]): row["y"] for row in csv.DictReader(text)}


def test_values_add_up(table, capsys):
    found = run(table, "--variance", "v")
    tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
    expected = gm.reconcile(tree, [100, 70, 20, 30, 45, 0], [1, 2, 2, 4, 4, float("inf")])
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
    assert main(["reconcile", str(table), *columns, "-o", str(out)]) == 0
    assert parquet.read_table(out).column_names == ["day", "state", "county", "y", "v"]
    again = out.with_name("again.csv")
    assert main(["reconcile", str(out), *columns, "-o", str(again)]) == 0
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
        (
            ("", ""),
            ["--variance", "w"],
            "noisy.csv must have one column 'w'; it has none. The columns are 'day', "
            "'state', 'county', 'y', 'v'",
        ),
        (("day,state,county,y", "a,b,c,d"), [], "'gmtree info .+noisy.csv' lists the columns"),
        (("30,4", "1_000,4"), [], "Line 5 of noisy.csv, column 'y': must be a number, such as"),
        (("30,4", "\u0663,4"), [], "Line 5 of noisy.csv, column 'y': must be a number, such as"),
        (("county,y,v", "county,y,y"), [], "noisy.csv must have one column 'y'; it has 2."),
        (("", ""), ["--variance", "y"], "'y' is"),
        (("", ""), ["-o", "out.txt"], "OUT must end in .csv, .csv.gz or .parquet"),
    ],
)
def test_wrong_tables(table, capsys, change, options, message):
    table.write_text(TABLE.replace(*change, 1))
    out = str(table.with_name("out.csv"))
    columns = ["--levels", "state,county", "--value", "y", "--by", "day", "-o", out]
    assert main(["reconcile", str(table), *columns, *options]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not table.with_name("out.csv").exists()


WIDE = """\
note,y,shop,id,extra
first,9007199254740993,a,007,"x,y"
,4.00,b,9007199254740993,
last,9007199254740997,,1e400,z
"""


def test_all_columns_stay_in_their_order_with_all_their_digits(table, capsys):
    table.write_text(WIDE)
    out = table.with_name("out.csv")
    command = ["reconcile", str(table), "--levels", "shop", "--value", "y", "-o", str(out)]
    assert main(command) == 0
    found = list(csv.reader(out.read_text().splitlines()))
    before = list(csv.reader(WIDE.splitlines()))
    assert found[0] == before[0]
    for k in (0, 2, 3, 4):
        assert [row[k] for row in found] == [row[k] for row in before]
    assert [row[1] for row in found[1:]] == ["9007199254740993", "4.00", "9007199254740997"]
    assert "Values changed by 0 at most; 0 rows were added." in capsys.readouterr().out
    table.write_text(WIDE.replace("93,a", "95,a"))
    assert main([*command, "--force"]) == 0
    # At this size, neighbouring floats differ by 2.
    changed = re.search(r"Values changed by (\S+) at most; 0 rows", capsys.readouterr().out)
    assert 0 < float(changed[1]) <= 2
    assert main([*command, "--integer", "--force"]) == 2
    assert "must be below 2**53 to be rounded exactly" in capsys.readouterr().err


def test_added_rows_have_empty_fields_in_other_columns(table):
    table.write_text("note,y,shop\np,1,a\nq,2,b\n")
    out = table.with_name("out.csv")
    command = ["reconcile", str(table), "--levels", "shop", "--value", "y", "-o", str(out)]
    assert main(command) == 0
    assert out.read_text().splitlines() == ["note,y,shop", "p,1,a", "q,2,b", ",3.0,"]


def test_columns_of_parquet_files_keep_their_types(table):
    arrow = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow")
    before = arrow.table(
        {
            "when": arrow.array([0, 1], arrow.timestamp("ms")),
            "shop": arrow.array(["a", "b"]).dictionary_encode(),
            "y": [1, 2],
            "id": arrow.array([2**53 + 1, None], arrow.int64()),
        }
    )
    path, out = table.with_name("in.parquet"), table.with_name("out.parquet")
    parquet.write_table(before, path)
    command = ["reconcile", str(path), "--levels", "shop", "--value", "y", "-o"]
    assert main([*command, str(out)]) == 0
    after = parquet.read_table(out)
    assert after.column_names == before.column_names
    for name in ("when", "shop", "id"):
        assert after[name].type == before[name].type
        assert after[name].to_pylist() == [*before[name].to_pylist(), None]
    assert after["y"].to_pylist() == [1, 2, 3]
    text = table.with_name("out.csv")
    assert main([*command, str(text)]) == 0
    assert text.read_text().splitlines()[1] == "1970-01-01 00:00:00,a,1.0,9007199254740993"
    assert main([*command[:2], "--levels", "store", "--value", "y", "-o", str(out), "--force"]) == 2


def test_data_that_look_wrong_are_questioned(table, capsys):
    table.write_text("country,people\n,2540905\nIS,364134\nCN,1402112000\n")
    out = str(table.with_name("out.csv"))
    command = ["reconcile", str(table), "--levels", "country", "--value", "people", "-o", out]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert "gmtree: warning: The value 2,540,905 of node 0, 'total' is far below" in shown.err
    assert "  0  total   people" in shown.out


def test_standard_streams_and_gzip(table, monkeypatch, capfdbinary):
    import gzip
    import io
    import sys

    packed = table.with_name("noisy.csv.gz")
    packed.write_bytes(gzip.compress(TABLE.encode()))
    columns = ["--levels", "state,county", "--value", "y", "--by", "day", "-o", "-"]
    assert main(["reconcile", str(packed), *columns]) == 0
    first = capfdbinary.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TABLE.encode())))
    assert main(["reconcile", "-", *columns]) == 0
    assert capfdbinary.readouterr().out == first
    assert first.startswith(b"day,state,county,y,v")


def test_files_are_not_replaced_without_being_asked(table, capsys):
    out = table.with_name("out.csv")
    out.write_text("mine")
    args = ["reconcile", str(table), "--levels", "state,county", "--value", "y", "-o", str(out)]
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
    command = ["reconcile", str(table), "--levels", levels, "--value", "y", "-o", str(out)]
    assert main(command) == 2
    assert not out.exists()


def test_messages_name_options_and_what_a_table_should_have(table, capsys):
    refused(table, "shop,y\na,1\nb,2\ntotal,3\n")
    message = capsys.readouterr().err
    assert "must not have 'total'" in message
    assert "leave the labels of all levels missing" in message
    refused(table, "shop,y\na,1\na,2\n,3\n")
    assert "name that column in --by." in capsys.readouterr().err
    refused(table, "shop,y\na,1\nb,inf\n,3\n")
    assert "'y' must be finite or missing; row 1, ('b'), is inf" in capsys.readouterr().err
    refused(table, "shop;y\na;1\nb;2\n")
    assert "Line 1 has semicolons and no comma" in capsys.readouterr().err
    refused(table, "shop\ty\na\t1\nb\t2\n")
    assert "Line 1 has tabs and no comma" in capsys.readouterr().err


def test_an_account_that_is_not_there(tmp_path, capsys):
    path = tmp_path / "budget.json"
    assert main(["account", str(path)]) == 2
    assert f"'gmtree account {path} --epsilon 1' creates one" in capsys.readouterr().err
    assert not path.exists()
    assert main(["account", str(path), "--epsilon", "1"]) == 0
    assert main(["account", str(path)]) == 0


def test_help_tells_what_becomes_of_negative_counts(capsys):
    with pytest.raises(SystemExit):
        main(["release", "--help"])
    assert "a negative sum counts as 0" in " ".join(capsys.readouterr().out.split())


def test_the_report_lists_the_most_suspicious_values_first(table, capsys):
    path = table.with_name("suspicious.csv")
    run(table, "--variance", "v", "--report", str(path))
    assert f"{path}: 9 rows, the most suspicious first" in capsys.readouterr().out
    with path.open() as text:
        rows = list(csv.DictReader(text))
    assert list(rows[0]) == [
        "day", "state", "county", "measured", "reconciled", "residual", "standardized",
        "leave_one_out", "leave_one_out_std_error", "leverage",
    ]  # fmt: skip
    tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
    d = gm.Consistency(tree, [1, 2, 2, 4, 4, float("inf")]).diagnose([100, 70, 20, 30, 45, 0])
    assert (rows[0]["day"], rows[0]["state"], rows[0]["county"]) == ("1", "NY", "")
    assert float(rows[0]["standardized"]) == d.standardized[1]
    assert float(rows[0]["leave_one_out"]) == d.leave_one_out[1]
    # The second day has leaves only, and a leaf of the first has no value.
    assert [row["standardized"] for row in rows[5:]] == [""] * 4
    assert [row["county"] for row in rows if row["measured"] == ""] == ["Orange"]


def test_the_report_of_parquet_files_and_on_standard_output(table, capsysbinary):
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    csv_report, again = table.with_name("one.csv"), table.with_name("two.csv")
    wide = table.with_name("wide.parquet")
    columns = ["--levels", "state,county", "--value", "y", "--by", "day", "--variance", "v"]
    assert main(["reconcile", str(table), *columns, "-o", str(wide), "--report", "-"]) == 0
    first = capsysbinary.readouterr().out.decode()
    assert first.startswith("day,state,county,measured,")
    run(table, "--variance", "v", "--report", str(csv_report))
    assert csv_report.read_bytes().decode() == first
    out = table.with_name("wide2.parquet")
    command = ["reconcile", str(wide), *columns[:-2], "-o", str(out), "--report", str(again)]
    assert main([*command, "--variance", "1"]) == 0
    assert len(again.read_text().splitlines()) == 13


def test_nothing_is_written_if_a_report_is_refused(table, capsys):
    out = table.with_name("out.csv")
    command = ["reconcile", str(table), "--levels", "state,county", "--value", "y", "--by", "day"]
    assert main([*command, "-o", str(out), "--report", str(out)]) == 2
    assert "REPORT and OUT must be different" in capsys.readouterr().err
    assert main([*command, "-o", str(out), "--report", "suspicious.txt"]) == 2
    assert "REPORT must end in .csv" in capsys.readouterr().err
    there = table.with_name("there.csv")
    there.write_text("mine")
    assert main([*command, "-o", str(out), "--report", str(there)]) == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert there.read_text() == "mine"
    assert not out.exists()
