"""Tables as text."""

from __future__ import annotations

from fractions import Fraction

from gmtree._text import short, table


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
