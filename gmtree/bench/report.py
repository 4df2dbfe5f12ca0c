"""What a benchmark found: shown in a terminal, and written as JSON, Markdown and figures."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gmtree._text import table
from gmtree.bench import figures, timing
from gmtree.bench.figures import Figure

Cell = str | int | float | bool | None

# Shown in cells that have no value.
NOTHING = "-"


@dataclass(frozen=True)
class Column:
    """Name of a column, and how its numbers are written."""

    name: str
    style: str = ""

    def text(self, cell: Cell) -> str:
        """A cell as text, in the style of its column."""
        if cell is None:
            return NOTHING
        if isinstance(cell, bool):
            return "yes" if cell else "no"
        if isinstance(cell, str):
            return cell
        return format(cell, self.style)


@dataclass
class Table:
    """Rows of cells under named columns; the first column names the row."""

    title: str
    columns: list[Column]
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def text_rows(self) -> list[list[str]]:
        """The cells as text."""
        return [
            [column.text(cell) for column, cell in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    def as_text(self) -> str:
        """The table for a terminal.

        Examples
        --------
        >>> from gmtree.bench.report import Column, Table
        >>> table = Table("Times", [Column("tree"), Column("ms", ".1f")])
        >>> table.rows += [["binary", 12.34], ["star", None]]
        >>> print(table.as_text())
        Times
        tree      ms
        binary  12.3
        star       -
        """
        head = [column.name for column in self.columns]
        numeric = [self._is_numeric(k) for k in range(len(head))]
        lines = table([head, *self.text_rows()], right=numeric, indent="", most_rows=None)
        return "\n".join([self.title, *lines, *self.notes])

    def as_markdown(self) -> str:
        """The table for a document."""
        rule = ["---:" if self._is_numeric(k) else ":---" for k in range(len(self.columns))]
        lines = [[column.name for column in self.columns], rule, *self.text_rows()]
        body = ["| " + " | ".join(row) + " |" for row in lines]
        return "\n".join([f"### {self.title}", "", *body, *(f"\n{note}" for note in self.notes)])

    def as_dict(self) -> dict[str, Any]:
        """The table for a program."""
        names = [column.name for column in self.columns]
        rows = [dict(zip(names, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": self.notes}

    def _is_numeric(self, k: int) -> bool:
        return bool(self.columns[k].style)


@dataclass(frozen=True)
class Check:
    """A claim about a number, and what was measured.

    `about_results` is True if the claim is that results are right. Other claims are about speed,
    which depends on the machine and on what else that is doing. `applies` is False if the tree
    measured on is too small for the claim to be about it. Without a `limit` there is no claim, only
    a figure.
    """

    claim: str
    measured: float
    limit: float | None
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

    def cells(self) -> list[Cell]:
        """A row of the table of checks."""
        relation = "at least" if self.at_least else "at most"
        limit = NOTHING if self.limit is None else f"{relation} {self.limit:.4g}"
        return [self.claim, self.measured, limit, self.verdict]

    def __str__(self) -> str:
        limit = "" if self.limit is None else f" ({self.cells()[2]}, {self.verdict})"
        return f"{self.claim}: {self.measured:.4g}{limit}"


CHECK_COLUMNS = [Column("check"), Column("measured", ".4g"), Column("limit"), Column("verdict")]


@dataclass
class Report:
    """All that one benchmark found."""

    name: str
    title: str
    settings: dict[str, Any]
    tables: list[Table] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether all answers were right, whatever the time they took."""
        return all(check.holds for check in self.checks if check.about_results)

    def all_tables(self) -> list[Table]:
        """The tables, that of the checks last."""
        if not self.checks:
            return self.tables
        rows = [check.cells() for check in self.checks]
        return [*self.tables, Table("Checks", CHECK_COLUMNS, rows)]

    def as_text(self) -> str:
        """The report for a terminal."""
        parts = [self.title, *(table.as_text() for table in self.all_tables()), *self.notes]
        return "\n\n".join([*parts, self.footer()]) + "\n"

    def as_markdown(self) -> str:
        """The report as a document that shows the figures beside it."""
        images = [f"![{figure.title}]({figure.name}.png)" for figure in self.figures]
        parts = [f"## {self.title}", *(table.as_markdown() for table in self.all_tables())]
        return "\n\n".join([*parts, *images, *self.notes, self.footer()]) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """The report for a program, with the machine and the versions of what was measured."""
        return {
            "benchmark": self.name,
            "title": self.title,
            "settings": self.settings,
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "seconds": round(self.seconds, 3),
            "peak_memory": timing.peak_memory(),
            "machine": timing.machine(),
            "versions": timing.versions(),
            "tables": [table.as_dict() for table in self.tables],
            "checks": [
                {
                    "claim": check.claim,
                    "measured": check.measured,
                    "limit": check.limit,
                    "relation": ">=" if check.at_least else "<=",
                    "holds": check.holds,
                    "about_results": check.about_results,
                    "applies": check.applies,
                }
                for check in self.checks
            ],
            "notes": self.notes,
        }

    def as_json(self) -> str:
        """`as_dict` as text."""
        return json.dumps(self.as_dict(), indent=2)

    def footer(self) -> str:
        """Machine and versions in two lines."""
        where = timing.machine()
        known = {name: text for name, text in timing.versions().items() if text is not None}
        peak = timing.peak_memory()
        return (
            f"{where['processor']}, {where['cores']} cores{_gigabytes(where['memory'], ' and')}; "
            f"{self.seconds:.0f} s{_gigabytes(peak, ', at most')}\n"
            f"Python {where['python']}, {', '.join(f'{name} {known[name]}' for name in known)}"
        )

    def write(self, folder: Path) -> list[Path]:
        """Write JSON, Markdown and, if matplotlib is installed, figures; return the files."""
        folder.mkdir(parents=True, exist_ok=True)
        drawn = self._draw(folder)
        data, document = folder / f"{self.name}.json", folder / f"{self.name}.md"
        data.write_text(self.as_json() + "\n")
        document.write_text(self.as_markdown())
        return [data, document, *drawn]

    def _draw(self, folder: Path) -> list[Path]:
        if self.figures and find_spec("matplotlib") is None:
            self.notes.append(
                "No figures were drawn: matplotlib is not installed (pip install 'gmtree[plot]')."
            )
            self.figures.clear()
        return [path for figure in self.figures for path in figures.draw(figure, folder)]


def _gigabytes(count: int | None, before: str) -> str:
    return "" if count is None else f"{before} {count / 2**30:.1f} GiB"
