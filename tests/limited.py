"""A time limit for single calls, so that a call that never ends fails with its name."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


class TooLong(BaseException):
    """A call took too long. Nothing catches it on the way, and hypothesis does not repeat it."""


@contextmanager
def at_most(seconds: float, what: str) -> Iterator[None]:
    """Stop a block that takes longer than this, if the operating system has alarms."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> NoReturn:
        raise TooLong(f"{what} took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
