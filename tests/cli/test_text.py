"""Tables as text."""

from __future__ import annotations

from fractions import Fraction

import pytest

import gmtree as gm
from gmtree._text import printable, short, table
from gmtree.cli import main


def test_columns_of_numbers_end_and_columns_of_words_begin_at_the_same_place():
    rows = [("tree", "nodes", "fast"), ("star", "3", "no"), ("chain", "12", "yes")]
    assert table(rows, right=[False, True, False], indent="", most_rows=None) == [
        "tree   nodes  fast",
        "star       3  no",
        "chain     12  yes",
    ]
    assert table(rows) == ["  tree   nodes  fast", "  star       3    no", "  chain     12   yes"]


def test_the_middle_of_a_long_table_is_left_out():
    rows = [(str(k), "x") for k in range(100)]
    shown = table(rows, indent="")
    assert len(shown) == 41
    assert shown[19].split() == ["19", "x"]
    assert shown[20].split() == ["...", "..."]
    assert shown[21].split() == ["80", "x"]
    assert len(table(rows, most_rows=None)) == 100


def test_fractions_are_written_out_while_they_are_short():
    assert short(Fraction(1, 3)) == "1/3"
    assert short(Fraction(1, 3) ** 20) == "2.86797e-10"
    assert short(None) == "-"


def test_floats_are_written_as_given_and_other_numbers_rounded_up():
    for x in (0.1, 0.3, 1e-5, 2.5e-7, 0.123456):
        assert float(short(Fraction(x), up=True)) == x
    assert short(Fraction(0.1), up=True) == short(Fraction(0.1)) == "0.1"
    assert short(3 * Fraction(0.1), up=True) == "0.300001"
    assert short(Fraction(0.1) + Fraction(1, 10**30), up=True) == "0.100001"
    assert short(Fraction(0.1234561), up=True) == "0.123457"
    assert short(Fraction(10) ** 400 + Fraction(1, 3), up=True) == "1.00001e+400"


HOSTILE = "a\x1b[2J\x07\x9b1m\u202eb"
HARMLESS = r"a\x1b[2J\x07\x9b1m\u202eb"


def test_control_characters_are_written_as_escapes():
    assert printable(f"{HOSTILE}\nZürich\té") == f"{HARMLESS}\nZürich" + r"\té"
    assert printable("a\nb", newlines=False) == r"a\nb"
    assert table([("x", "y"), ("\x1b", "1")], indent="")[1] == r"\x1b  1"
    tree = gm.Tree.from_levels([HOSTILE, "other"])
    assert tree.outline().splitlines()[1] == f"├── {HARMLESS}"


@pytest.mark.parametrize("command", ["columns", "missing", "newick", "ledger", "account"])
def test_what_comes_from_files_cannot_steer_the_terminal(tmp_path, capsys, command):
    table, tree = tmp_path / "table.csv", tmp_path / "tree.nwk"
    table.write_text(f"{HOSTILE},n\nx,1\n")
    tree.write_text(f"('{HOSTILE}',b);")
    budget = tmp_path / "budget.json"
    made = gm.release(
        gm.Tree.from_levels(["x", "y"], levels=[HOSTILE]),
        [1, 2],
        epsilon=1,
        disclosures=[HOSTILE],
        account=gm.privacy.Account(epsilon=1, path=budget),
    )
    made.save(tmp_path / "release.npz")
    arguments = {
        "columns": ["info", table],
        "missing": ["info", table, "--levels", f"n{HOSTILE}"],
        "newick": ["info", tree],
        "ledger": ["info", tmp_path / "release.npz"],
        "account": ["account", budget],
    }[command]
    main(list(map(str, arguments)))
    shown = "".join(capsys.readouterr())
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
    assert HARMLESS in shown or command == "account"
    assert "\x1b" not in str(made.ledger)
