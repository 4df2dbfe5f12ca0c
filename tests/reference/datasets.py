"""Slow, obvious readers of the files behind the data sets, one line at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path


def blocks(paths: Iterable[Path]) -> list[tuple[tuple[str, ...], int]]:
    """Codes from state to block, and people, by ascending code."""
    found = []
    for path in paths:
        for line in path.read_bytes().decode("latin-1").splitlines():
            if line[8:11] == "101" and line[11:13] == "00":
                codes = (
                    line[27:29],  # STATE
                    line[29:32],  # COUNTY
                    line[36:41],  # COUSUB
                    line[45:50],  # PLACE
                    line[54:60],  # TRACT
                    line[60:61],  # BLKGRP
                    line[61:65],  # BLOCK
                )
                found.append((codes, int(line[318:327])))
    return sorted(found)


def pickups(paths: Iterable[Path]) -> Counter[int]:
    """Rides of CMT by second of the year."""
    found: Counter[int] = Counter()
    for path in paths:
        header, *lines = path.read_text().splitlines()
        names = [name.strip() for name in header.split(",")]
        for line in lines:
            ride = dict(zip(names, line.split(","), strict=True))
            if ride["vendor_id"] == "CMT":
                when = datetime.strptime(ride["pickup_datetime"], "%Y-%m-%d %H:%M:%S")
                found[int((when - datetime(2013, 1, 1)).total_seconds())] += 1
    return found
