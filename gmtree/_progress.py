"""A progress bar on standard error, drawn only if that is a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TextIO, TypeVar

from gmtree._text import printable

T = TypeVar("T")

# Drawing the bar at this interval shows progress at a negligible cost.
_SECONDS_BETWEEN_DRAWINGS = 0.1
_WIDEST_BAR = 30


class Progress:
    """A progress bar on standard error that disappears when the work is done.

    Parameters
    ----------
    total : float
        Amount of work, in any unit.
    label : str
        The current work in words; :meth:`advance` may change it.
    stream : text stream, optional
        Where to draw instead of standard error. Nothing is drawn unless it is a terminal.

    Examples
    --------
    >>> from gmtree._progress import Progress
    >>> with Progress(100, "reading") as progress:
    ...     for _ in range(10):
    ...         progress.advance(10)
    """

    def __init__(self, total: float, label: str, *, stream: TextIO | None = None) -> None:
        self.total, self.label = total, label
        self.done = 0.0
        self._stream = sys.stderr if stream is None else stream
        # In a program without a console, standard error is None.
        self._visible = self._stream is not None and self._stream.isatty()
        self._started = self._drawn = time.monotonic()

    def __enter__(self) -> Progress:
        # The first piece of work may take long, so the bar is drawn before it begins.
        self._draw(self._started)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clear()

    def _clear(self) -> None:
        if self._visible:
            self._stream.write("\r\033[K")
            self._stream.flush()

    def say(self, text: str, file: TextIO | None = None) -> None:
        """Print a line above the bar, to `file` if given, even if no bar is shown."""
        self._clear()
        print(text, file=file or self._stream, flush=True)
        self._draw(time.monotonic())

    def advance(self, amount: float = 1, label: str | None = None) -> None:
        """Add to the amount of work done, and optionally change the label."""
        self.done += amount
        if label is not None:
            self.label = label
        now = time.monotonic()
        if now - self._drawn >= _SECONDS_BETWEEN_DRAWINGS:
            self._draw(now)

    def _draw(self, now: float) -> None:
        if self._visible:
            self._drawn = now
            self._stream.write(f"\r\033[K{self.line(now - self._started)}")
            self._stream.flush()

    def line(self, elapsed: float) -> str:
        """The bar as text, cut to the width of the terminal."""
        share = min(1.0, self.done / self.total) if self.total > 0 else 1.0
        left = f", {_duration(elapsed / share - elapsed)} left" if share > 0 else ""
        tail = f" {share:4.0%} in {_duration(elapsed)}{left}"
        columns = shutil.get_terminal_size().columns - 1
        bar = min(_WIDEST_BAR, columns - len(self.label) - len(tail) - 3)
        if bar > 0:
            filled = round(share * bar)
            tail = f" [{'#' * filled}{'.' * (bar - filled)}]{tail}"
        return printable(f"{self.label}{tail}", newlines=False)[:columns]


def track(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """Yield the given items, with a bar that shows how many have been processed.

    Examples
    --------
    >>> from gmtree._progress import track
    >>> [x * x for x in track([1, 2, 3], "squaring")]
    [1, 4, 9]
    """
    if total is None:
        items = list(items)
        total = len(items)
    with Progress(total, label) as progress:
        for item in items:
            yield item
            progress.advance()


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole // 60 % 60:02d} h"
