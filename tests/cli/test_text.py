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


def test_floats_are_written_as_given_and_other_numbers_rounded_up():
    for x in (0.1, 0.3, 1e-5, 2.5e-7, 0.123456):
        assert float(short(Fraction(x), up=True)) == x
    assert short(Fraction(0.1), up=True) == short(Fraction(0.1)) == "0.1"
    assert short(3 * Fraction(0.1), up=True) == "0.300001"
    assert short(Fraction(0.1) + Fraction(1, 10**30), up=True) == "0.100001"
    assert short(Fraction(0.1234561), up=True) == "0.123457"
    assert short(Fraction(10) ** 400 + Fraction(1, 3), up=True) == "1.00001e+400"
