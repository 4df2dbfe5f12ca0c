from __future__ import annotations

import io

import pytest

from gmtree import _progress
from gmtree._progress import Progress, track


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def every_step(monkeypatch):
    monkeypatch.setattr(_progress, "_SECONDS_BETWEEN_DRAWINGS", 0)
    monkeypatch.setenv("COLUMNS", "80")


def test_nothing_is_written_elsewhere(every_step, capsys):
    stream = io.StringIO()
    with Progress(10, "work", stream=stream) as progress:
        progress.advance(5)
    assert stream.getvalue() == ""
    assert list(track(range(3), "work")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_a_program_without_a_console(every_step, monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    assert list(track(range(3), "work")) == [0, 1, 2]


def test_a_terminal_sees_the_bar_and_is_left_clean(every_step):
    stream = Terminal()
    with Progress(4, "work", stream=stream) as progress:
        progress.advance(1)
        progress.advance(1, "more work")
        text = stream.getvalue()
    assert "work [########......................]  25%" in text
    assert "more work [###############...............]  50%" in text
    assert stream.getvalue().endswith("\r\033[K")
    assert "\n" not in stream.getvalue()


def test_the_bar_is_there_before_the_first_step():
    stream = Terminal()
    with Progress(4, "a long first step", stream=stream):
        assert "a long first step [" in stream.getvalue()


def test_the_bar_is_taken_away_after_an_error(every_step):
    stream = Terminal()

    def fail() -> None:
        with Progress(4, "work", stream=stream) as progress:
            progress.advance()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert stream.getvalue().endswith("\r\033[K")


def test_seldom_drawn():
    stream = Terminal()
    with Progress(10_000, "work", stream=stream) as progress:
        for _ in range(10_000):
            progress.advance()
        drawn = stream.getvalue().count("\r")
    assert drawn < 1000


def test_time_left(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    progress = Progress(100, "work", stream=io.StringIO())
    assert "left" not in progress.line(3)
    progress.advance(25)
    assert progress.line(3).endswith("25% in 3 s, 9 s left")
    assert progress.line(60).endswith("25% in 1:00 min, 3:00 min left")
    assert progress.line(4000).endswith("in 1:06 h, 3:20 h left")
    progress.advance(200)
    assert "100%" in progress.line(3)
    assert "100%" in Progress(0, "nothing", stream=io.StringIO()).line(0)


@pytest.mark.parametrize("columns", [5, 20, 40, 60, 120])
def test_never_wider_than_the_terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    progress = Progress(100, "reading a file of a long name", stream=io.StringIO())
    progress.advance(30)
    assert len(progress.line(12)) < columns


def test_track_of_a_generator(every_step, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    assert sum(track((k for k in range(4)), "adding", total=4)) == 6
    assert "adding" in stream.getvalue()
    assert " 50%" in stream.getvalue()


def test_lines_stand_above_the_bar_and_are_also_printed_to_files(every_step):
    for stream in (Terminal(), io.StringIO()):
        with Progress(2, "work", stream=stream) as progress:
            progress.say("half done")
        lines = stream.getvalue().replace("\r\033[K", "|").split("\n")
        assert lines[0].endswith("|half done" if stream.isatty() else "half done")
        assert lines[1].startswith("|work") if stream.isatty() else lines[1] == ""
