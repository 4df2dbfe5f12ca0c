"""``gmtree demo`` and ``gmtree info``."""

from __future__ import annotations

import io
import re

import pytest

import gmtree as gm
from gmtree import cli
from gmtree.cli import demo

TABLE = "state,county,n\nNY,Albany,3\nNY,Orange,4\nVT,Orange,5\n"


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


def test_demo_draws(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="draws a figure")
    path = tmp_path / "errors.png"
    assert cli.main(["demo", "--nodes", "1000", "--plot", str(path)]) == 0
    assert path.stat().st_size > 1000
    assert str(path) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("none/errors.png", "'--plot' must be in a folder that exists"),
        ("errors.xyz", "--plot must end in"),
        ("errors", "--plot must end in"),
    ],
)
def test_demo_refuses_a_figure_before_any_work(tmp_path, capsys, monkeypatch, name, text):
    pytest.importorskip("matplotlib", reason="draws a figure")
    monkeypatch.setattr(demo, "census2010", None)
    assert cli.main(["demo", "--plot", str(tmp_path / name)]) == 2
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
    assert "level 3: " in out
    assert "Privacy ledger" in out


def test_info_of_a_table(tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    assert cli.main(["info", str(path)]) == 0
    assert "  county\n" in capsys.readouterr().out
    assert cli.main(["info", str(path), "--levels", "state,county"]) == 0
    out = capsys.readouterr().out
    assert "Tree(n=6, internal=3, leaves=3, height=3)" in out
    assert "level 1 (root): 1 nodes, 2 to 2 children" in out
    assert "level 2 state: 2 nodes, 1 to 2 children" in out
    assert "level 3 county: 3 nodes\n" in out


def test_info_of_a_table_with_one_label_on_top(tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text("country,state\nUS,NY\nUS,VT\n")
    assert cli.main(["info", str(path), "--levels", "country,state"]) == 0
    assert "level 1 country: 1 nodes, 2 to 2 children" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nothing.csv", None, "there is no"),
        ("empty.csv", "state\n", "has no rows"),
        ("table.txt", "x\n", "must end in .npz, .csv, .csv.gz or .parquet"),
        ("broken.npz", "x\n", "must"),
        ("broken.parquet", "x\n", "is no Parquet file"),
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


def test_info_of_standard_input(capsys, monkeypatch):
    class Bytes:
        buffer = io.BytesIO(TABLE.encode())

    monkeypatch.setattr("sys.stdin", Bytes)
    assert cli.main(["info", "-", "--levels", "state, county"]) == 0
    assert "Tree(n=6, internal=3, leaves=3, height=3)" in capsys.readouterr().out
