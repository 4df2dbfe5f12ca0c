"""Limits of memory: results that would not fit are refused before they are computed."""

from __future__ import annotations

import os

# Memory to assume if the operating system does not report it.
_USUAL_MEMORY = 8 << 30


def of_machine() -> int | None:
    """Bytes of memory of this machine; None if the operating system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def limit() -> int:
    """Largest number of bytes that one result may take: half of the machine's memory."""
    return (of_machine() or _USUAL_MEMORY) // 2


def refuse_large_tree(argument: str, n: int) -> None:
    """Refuse to make a tree that would not fit into memory.

    A tree stores three numbers per node, each of 4 bytes if node numbers fit, and else of 8 bytes.
    """
    what = f"Argument '{argument}' must give a tree that fits into memory; this one"
    refuse_above_limit(what, n * (12 if n < 1 << 31 else 24))


def refuse_above_limit(what: str, nbytes: int, instead: str = "") -> None:
    """Refuse a result that would not fit, with its size and an alternative in the error message."""
    most = limit()
    if nbytes > most:
        gigabytes = f"{nbytes / 1e9:,.1f}" if nbytes < 1 << 64 else "too many"
        raise ValueError(
            f"{what} would take {gigabytes} GB, more than half of this machine's memory, "
            f"which is {most / 1e9:,.1f} GB. {instead}".strip()
        )
