"""Reports of benchmarks, printed line by line as results are measured, and saved to files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

from gmtree._progress import Progress
from gmtree.bench import figures, timing
from gmtree.bench.figures import Figure
from gmtree.bench.settings import Settings

Cell = str | int | float | None

# The text of empty cells.
NOTHING = "-"


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, the format of its numbers, and its least width on a terminal.

    A column without a `style` holds words.
    """

    name: str
    style: str = ""
    width: int = 9

    def text(self, cell: Cell) -> str:
        """The text of a cell."""
        if cell is None:
            return NOTHING
        return cell if isinstance(cell, str) else format(cell, self.style)

    def padded(self, text: str) -> str:
        """The text of a cell, padded to the width of the column, with numbers on the right."""
        width = max(self.width, len(self.name))
        return text.rjust(width) if self.style else text.ljust(width)


@dataclass
class Table:
    """Rows of cells under named columns; `say` prints each row as soon as it is added.

    Examples
    --------
    >>> from gmtree.bench.report import Column, Table
    >>> table = Table("Times", [Column("tree"), Column("ms", ".1f")], say=print)
    >>> table.add("binary", 12.34)
    <BLANKLINE>
    Times
    tree              ms
    binary          12.3
    >>> table.add("star", None)
    star               -
    """

    title: str
    columns: list[Column]
    rows: list[list[Cell]] = field(default_factory=list)
    say: Callable[[str], None] = lambda line: None

    def add(self, *cells: Cell) -> None:
        """Add a row."""
        if not self.rows:
            self.say(f"\n{self.title}\n{self._line([column.name for column in self.columns])}")
        self.rows.append(list(cells))
        self.say(self._line(self._texts(self.rows[-1])))

    def _line(self, texts: list[str]) -> str:
        padded = (column.padded(text) for column, text in zip(self.columns, texts, strict=True))
        return "  ".join(padded).rstrip()

    def _texts(self, row: list[Cell]) -> list[str]:
        return [column.text(cell) for column, cell in zip(self.columns, row, strict=True)]

    def numbers(self, name: str) -> list[float]:
        """The numbers in the non-empty cells of a column."""
        k = [column.name for column in self.columns].index(name)
        return [float(x) for row in self.rows if isinstance(x := row[k], (int, float))]

    def as_markdown(self) -> str:
        """The table as Markdown text."""
        head = [column.name for column in self.columns]
        rule = ["---:" if column.style else ":---" for column in self.columns]
        lines = [head, rule, *map(self._texts, self.rows)]
        return "\n".join([f"### {self.title}", "", *("| " + " | ".join(x) + " |" for x in lines)])

    def as_dict(self) -> dict[str, Any]:
        """The table as a dictionary for JSON."""
        names = [column.name for column in self.columns]
        return {
            "title": self.title,
            "rows": [dict(zip(names, row, strict=True)) for row in self.rows],
        }


@dataclass(frozen=True)
class Check:
    """A claim about a number, with the measured number.

    `about_results` is True if the claim is that results are correct. All other claims are about
    speed and memory at full size; `applies` is False on smaller trees. Without a `limit`, the
    number is only shown.
    """

    claim: str
    measured: float
    limit: float | None = None
    at_least: bool = False
    about_results: bool = False
    applies: bool = True

    @property
    def holds(self) -> bool:
        """Whether the number is within the limit."""
        if self.limit is None:
            return True
        within = self.measured >= self.limit if self.at_least else self.measured <= self.limit
        return bool(within)

    @property
    def verdict(self) -> str:
        """Whether the claim holds, in one word."""
        if not self.applies or self.limit is None:
            return NOTHING
        if self.holds:
            return "ok"
        if self.about_results:
            return "WRONG"
        return "under" if self.at_least else "over"

    @property
    def bound(self) -> str:
        """The limit in words."""
        if self.limit is None:
            return NOTHING
        return f"{'at least' if self.at_least else 'at most'} {self.limit:.4g}"

    def __str__(self) -> str:
        limit = "" if self.limit is None else f" ({self.bound}, {self.verdict})"
        return f"{self.claim}: {self.measured:.4g}{limit}"


class Report:
    """The tables, checks, figures and notes of one benchmark.

    Parameters
    ----------
    name, title : str
    settings : Settings
    progress : Progress, optional
        The progress bar above which lines are printed.
    stream : text stream, optional
        Stream to which lines are printed as soon as they are known. By default nothing is printed.
    """

    def __init__(
        self,
        name: str,
        title: str,
        settings: Settings,
        progress: Progress | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self.name, self.title, self.settings = name, title, settings
        self.tables: list[Table] = []
        self.checks: list[Check] = []
        self.figures: list[Figure] = []
        self.notes: list[str] = []
        self.seconds = 0.0
        self.is_full_size = settings.is_full_size
        self._progress, self._stream = progress or Progress(0, name), stream
        self._started = self._has_title = False

    # ------------------------------------------------------------------ while it is measured

    def say(self, text: str) -> None:
        """Print a line above the progress bar, preceded by the title if it is the first line."""
        if self._stream is not None:
            self._progress.say(text if self._has_title else f"{self.title}\n{text}", self._stream)
            self._has_title = True

    def expect(self, steps: int) -> None:
        """Set the number of steps that make a full progress bar."""
        self._progress.total = steps

    def step(self, label: str) -> None:
        """Begin the next step, and show its label beside the progress bar."""
        self._progress.advance(int(self._started), label)
        self._started = True

    def table(self, title: str, *columns: Column) -> Table:
        """Begin a new table, and return it; its rows are printed as they are added."""
        self.tables.append(Table(title, list(columns), say=self.say))
        return self.tables[-1]

    def add(self, checks: Iterable[Check]) -> None:
        """Add checks, and print each one as soon as it has been measured."""
        for check in checks:
            applies = check.about_results or self.is_full_size
            self.checks.append(replace(check, applies=applies))
            self.say(str(self.checks[-1]))

    def finish(self, seconds: float) -> None:
        """Print the end of the report."""
        self.seconds = seconds
        if not self.is_full_size and any(check.verdict == NOTHING for check in self.checks):
            self.notes.append("Limits of time and memory are not judged on trees of this size.")
        self.say("\n" + "\n\n".join([*self.notes, self.footer()]) + "\n")

    # ------------------------------------------------------------------ afterwards

    @property
    def is_right(self) -> bool:
        """Whether all checks of results hold. Checks of speed and memory do not count."""
        return all(check.holds for check in self.checks if check.about_results)

    def as_markdown(self) -> str:
        """The report as Markdown text that shows the figures in the same folder."""
        columns = [Column("check"), Column("measured", ".4g"), Column("limit"), Column("verdict")]
        rows: list[list[Cell]] = [[x.claim, x.measured, x.bound, x.verdict] for x in self.checks]
        tables = [*self.tables, *([Table("Checks", columns, rows)] if rows else [])]
        images = [f"![{figure.title}]({figure.name}.png)" for figure in self.figures]
        parts = [f"## {self.title}", *(table.as_markdown() for table in tables), *images]
        return "\n\n".join([*parts, *self.notes, self.footer()]) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """The report as a dictionary for JSON, with the machine and the versions of packages."""
        return {
            "benchmark": self.name,
            "title": self.title,
            "settings": asdict(self.settings),
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "seconds": round(self.seconds, 3),
            "peak_memory": timing.peak_memory(),
            "machine": timing.machine(),
            "versions": timing.versions(),
            "tables": [table.as_dict() for table in self.tables],
            "checks": [{**asdict(check), "holds": check.holds} for check in self.checks],
            "notes": self.notes,
        }

    def footer(self) -> str:
        """The machine and the versions of the packages, in two lines."""
        where = timing.machine()
        versions = [f"{name} {text}" for name, text in timing.versions().items() if text]
        return (
            f"{where['processor']}, {where['cores']} cores{_gigabytes(where['memory'], ' and')}; "
            f"{self.seconds:.0f} s{_gigabytes(timing.peak_memory(), ', at most')}\n"
            f"Python {where['python']}, {', '.join(versions)}"
        )

    def write(self, folder: Path) -> list[Path]:
        """Write JSON, Markdown and, if matplotlib is installed, figures; return their paths."""
        if self.figures and find_spec("matplotlib") is None:
            self.notes.append(
                "No figures were drawn: matplotlib is not installed (pip install 'gmtree[plot]')."
            )
            self.figures.clear()
        drawn = [path for figure in self.figures for path in figures.draw(figure, folder)]
        data, document = folder / f"{self.name}.json", folder / f"{self.name}.md"
        data.write_text(json.dumps(self.as_dict(), indent=2) + "\n")
        document.write_text(self.as_markdown())
        return [data, document, *drawn]


def _gigabytes(count: int | None, before: str) -> str:
    return "" if count is None else f"{before} {count / 2**30:.1f} GiB"
