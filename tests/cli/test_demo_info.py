"""``gmtree demo`` and ``gmtree info``."""

from __future__ import annotations

import gzip
import io
import json
import re

import pytest

import gmtree as gm
from gmtree import cli
from gmtree._files import checksum
from gmtree.cli import demo

TABLE = "state,county,n\nNY,Albany,3\nNY,Orange,4\nVT,Orange,5\n"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """By default the picture is saved in the current folder."""
    monkeypatch.chdir(tmp_path)


def test_demo_shows_error_by_level(capsys):
    assert cli.main(["demo", "--nodes", "3000", "--epsilon", "1/2"]) == 0
    out = capsys.readouterr().out
    assert "epsilon = 1/2" in out
    rows = re.findall(r"^(Block|State) +[\d,]+((?: +[\d.]+){4})$", out, flags=re.MULTILINE)
    assert [name for name, _ in rows] == ["State", "Block"]
    noisy, consistent, expected, whole = map(float, rows[1][1].split())
    # Laplace noise of scale 16, averaged over nearly 3,000 blocks: within a tenth.
    assert noisy == pytest.approx(16 * 2**0.5, rel=0.1)
    assert consistent == pytest.approx(expected, rel=0.1)
    assert whole < consistent
    assert "What to try next:" in out
    assert max(map(len, out.splitlines())) <= 80


def test_demo_draws_and_says_where(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="draws a figure")
    path = tmp_path / "chosen.png"
    assert cli.main(["demo", "--nodes", "1000", "--picture", str(path)]) == 0
    assert path.stat().st_size > 10_000
    assert str(path) in capsys.readouterr().out
    assert cli.main(["demo", "--nodes", "1000"]) == 0
    assert (tmp_path / "gmtree-demo.png").stat().st_size > 10_000
    assert "small tree: gmtree-demo.png\n" in capsys.readouterr().out


def test_demo_draws_elsewhere_if_it_must(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="draws a figure")
    monkeypatch.setattr(demo.os, "access", lambda *_: False)
    monkeypatch.setattr(demo.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    assert demo._picture(None) == tmp_path / "temporary" / "gmtree-demo.png"


def test_demo_without_matplotlib(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert cli.main(["demo", "--nodes", "1000"]) == 0
    assert "pip install 'gmtree[plot]'" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_what_to_try_next_can_be_tried(tmp_path, capsys):
    (tmp_path / "people.csv").write_text("region,town,n\nN,a,3\nN,b,4\n")
    (tmp_path / "towns.csv").write_text("region,town\nN,a\nN,b\nS,c\n")
    (tmp_path / "measured.csv").write_text("region,town,x\n,,9\nN,,8\nN,a,4.5\nN,b,3.5\n")
    lines = demo.NEXT.replace("\\\n", " ").splitlines()
    commands = [line.split("(")[0].split() for line in lines if line.startswith("  gmtree")]
    release, consistent, _ = (arguments for _, *arguments in commands)
    assert cli.main(release) == 0
    assert "S,c," in (tmp_path / "published.csv").read_text()
    assert cli.main(consistent) == 0
    assert (tmp_path / "sums.csv").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("none/errors.png", "'--picture' must be in a folder that exists"),
        ("errors.xyz", "--picture must end in"),
        ("errors", "--picture must end in"),
    ],
)
def test_demo_refuses_a_picture_before_any_work(tmp_path, capsys, monkeypatch, name, text):
    pytest.importorskip("matplotlib", reason="draws a figure")
    monkeypatch.setattr(demo, "census2010", None)
    assert cli.main(["demo", "--picture", str(tmp_path / name)]) == 2
    assert text in capsys.readouterr().err


def test_demo_refuses_too_few_nodes(capsys):
    assert cli.main(["demo", "--nodes", "3"]) == 2
    assert "'nodes' must be at least 8" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_info_of_a_release(tmp_path, capsys, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    path = tmp_path / f"release{suffix}"
    gm.release(gm.shapes.complete(2, 3), [5, 6, 7, 8], epsilon=1).save(path)
    assert cli.main(["info", str(path)]) == 0
    out = capsys.readouterr().out
    assert "Release(Tree(n=7" in out
    assert "\n  3          4 " in out
    assert "Privacy ledger" in out


def test_info_of_a_table(tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    assert cli.main(["info", str(path)]) == 0
    assert "  county\n" in capsys.readouterr().out
    assert cli.main(["info", str(path), "--levels", "state,county"]) == 0
    out = capsys.readouterr().out
    assert "Tree(n=6, internal=3, leaves=3, height=3)" in out
    assert "level 1 total: 1 node, 2 children" in out
    assert "level 2 state: 2 nodes, 1 to 2 children" in out
    assert "level 3 county: 3 nodes\n" in out


def test_info_of_a_table_with_one_label_on_top(tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text("country,state\nUS,NY\nUS,VT\n")
    assert cli.main(["info", str(path), "--levels", "country,state"]) == 0
    assert "level 1 country: 1 node, 2 children" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nothing.csv", None, "there is no"),
        ("empty.csv", "state\n", "has no rows"),
        ("table.txt", "x\n", "must end in .npz, .csv, .csv.gz, .parquet, .ledger.json, .nwk, .nw,"),
        ("broken.npz", "x\n", "must"),
        ("broken.parquet", "x\n", "is not a Parquet file"),
    ],
)
def test_info_refuses(tmp_path, capsys, name, content, message):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    levels = ["--levels", "state"] if name == "empty.csv" else []
    assert cli.main(["info", str(path), *levels]) == 2
    assert message in capsys.readouterr().err


def test_info_of_a_ledger_without_its_origin(tmp_path, capsys):
    path = tmp_path / "r.ledger.json"
    gm.release(gm.shapes.star(3), [3, 4], epsilon=1).save_ledger(path)
    data = json.loads(path.read_text())
    for origin in ({}, {**data["provenance"], "versions": []}):
        data["provenance"] = origin
        data["checksum"] = checksum(data)
        path.write_text(json.dumps(data))
        assert cli.main(["info", str(path)]) == 2
        assert "must be the ledger of a release; its provenance" in capsys.readouterr().err
    data["ledger"] = {}
    data["provenance"] = None
    data["checksum"] = checksum(data)
    path.write_text(json.dumps(data))
    assert cli.main(["info", str(path)]) == 2
    assert capsys.readouterr().err.endswith("format 'gmtree privacy ledger 2'.\n")


def test_terminals_without_a_character_show_a_replacement(tmp_path, monkeypatch):
    path = tmp_path / "towns.nwk"
    path.write_text("('Malmö',(b,d)e)c;", encoding="utf-8")
    printed = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, "ascii"))
    assert cli.main(["info", str(path)]) == 0
    lines = printed.getvalue().decode().split("c\n", 1)[1].splitlines()
    assert lines == ["|-- Malm\\xf6", "`-- e", "    |-- b", "    `-- d"]


def test_info_of_standard_input(capsys, monkeypatch):
    class Bytes:
        buffer = io.BytesIO(TABLE.encode())

    monkeypatch.setattr("sys.stdin", Bytes)
    assert cli.main(["info", "-", "--levels", "state, county"]) == 0
    assert "Tree(n=6, internal=3, leaves=3, height=3)" in capsys.readouterr().out


def test_info_of_a_table_with_rows_of_sums(tmp_path, capsys):
    """The output of gmtree reconcile, in which labels of finer levels are empty."""
    table, out = tmp_path / "table.csv", tmp_path / "sums.csv"
    table.write_text(TABLE)
    levels = ["--levels", "state,county"]
    assert cli.main(["reconcile", str(table), *levels, "--value", "n", "-o", str(out)]) == 0
    capsys.readouterr()
    assert cli.main(["info", str(out), *levels]) == 0
    assert "Tree(n=6, internal=3, leaves=3, height=3)" in capsys.readouterr().out
    table.write_text("state,county\n,\nNY,\nNY,Albany\nVT,\n")
    assert cli.main(["info", str(table), *levels]) == 0
    assert "Tree(n=4, internal=2, leaves=2, height=3)" in capsys.readouterr().out
    table.write_text("state,county\n,Albany\nNY,Orange\n")
    assert cli.main(["info", str(table), *levels]) == 2
    assert "must have no label below a missing one" in capsys.readouterr().err


@pytest.mark.parametrize("ending", [".nw", ".newick", ".tre.gz", ".NWK.GZ"])
def test_info_of_newick_files(tmp_path, capsys, ending):
    path = tmp_path / f"cats{ending}"
    text = b"((cat:1,lion:2)feline:3,dog:7);"
    path.write_bytes(gzip.compress(text) if ending.lower().endswith(".gz") else text)
    assert cli.main(["info", str(path)]) == 0
    assert "feline" in capsys.readouterr().out
    path.write_bytes(gzip.compress(text)[:-9])
    assert cli.main(["info", str(path)]) == 2
    assert "gzip file, but is damaged" in capsys.readouterr().err
