"""Write the fixtures in this folder: invented places and rides in the layouts of real files.

Run as ``python tests/data/make_fixtures.py``; the files are kept in the repository so that the
layouts can be looked at, and so that a change of this script shows in their history.
"""

from __future__ import annotations

import random
from pathlib import Path

HERE = Path(__file__).parent

# Start (counted from 1) and size of the fields that are filled in, as in the Geographic Header
# Record of the 2010 Census Summary File 1. A record has 500 characters.
FIELDS = {
    "FILEID": (1, 6),
    "STUSAB": (7, 2),
    "SUMLEV": (9, 3),
    "GEOCOMP": (12, 2),
    "CHARITER": (14, 3),
    "LOGRECNO": (19, 7),
    "REGION": (26, 1),
    "DIVISION": (27, 1),
    "STATE": (28, 2),
    "COUNTY": (30, 3),
    "COUSUB": (37, 5),
    "PLACE": (46, 5),
    "TRACT": (55, 6),
    "BLKGRP": (61, 1),
    "BLOCK": (62, 4),
    "AREALAND": (199, 14),
    "AREAWATR": (213, 14),
    "NAME": (227, 90),
    "FUNCSTAT": (317, 1),
    "POP100": (319, 9),
    "HU100": (328, 9),
    "INTPTLAT": (337, 11),
    "INTPTLON": (348, 12),
}
NUMBERS = ("AREALAND", "AREAWATR", "POP100", "HU100")
RECORD = 500

LEVELS = [
    ("040", "STATE"),
    ("050", "COUNTY"),
    ("060", "COUSUB"),
    ("070", "PLACE"),
    ("080", "TRACT"),
    ("091", "BLKGRP"),
    ("101", "BLOCK"),
]


def record(**values: object) -> str:
    text = [" "] * RECORD
    for name, value in values.items():
        start, size = FIELDS[name]
        field = f"{value:>{size}}" if name in NUMBERS else f"{value:<{size}}"
        assert len(field) == size, name
        text[start - 1 : start - 1 + size] = field
    return "".join(text)


def state(letters: str, code: str, rng: random.Random) -> list[str]:
    """Records of one state: places nested as in the file, then levels of another sequence."""
    places: list[tuple[dict[str, str], int]] = []

    def grow(codes: dict[str, str], depth: int) -> int:
        """Add the place with these codes and all places in it; return its number of people."""
        at = len(places)
        places.append((codes, 0))
        if depth == len(LEVELS):
            people = rng.choice([0, 0, rng.randrange(1, 40), rng.randrange(1, 2000)])
        else:
            field = LEVELS[depth][1]
            inner = sorted(rng.sample(range(1, 9), 2 if depth == 1 else rng.randrange(1, 3)))
            if field == "COUNTY":
                names = [f"{2 * k + 1:03d}" for k in inner]
            elif field == "COUSUB":
                names = [f"{k * 1203 % 90000:05d}" for k in inner]
            elif field == "PLACE":
                names = sorted({*(f"{k * 4567:05d}" for k in inner[1:]), "99999"})
            elif field == "TRACT":
                names = [f"{k:04d}{k % 3:02d}" for k in inner]
            elif field == "BLKGRP":
                names = [str(k) for k in inner]
            else:
                names = [f"{codes['BLKGRP']}{k:03d}" for k in range(rng.randrange(1, 4))]
            people = sum(grow({**codes, field: name}, depth + 1) for name in names)
        places[at] = (codes, people)
        return people

    grow({"STATE": code}, 1)
    found = []

    def add(sumlev: str, geocomp: str, codes: dict[str, str], people: int, name: str) -> None:
        found.append(
            record(
                FILEID="SF1ST",
                STUSAB=letters,
                SUMLEV=sumlev,
                GEOCOMP=geocomp,
                CHARITER="000",
                LOGRECNO=f"{len(found) + 1:07d}",
                REGION="9",
                DIVISION="9",
                **codes,
                AREALAND=rng.randrange(10**7),
                AREAWATR=rng.randrange(10**4),
                NAME=name,
                FUNCSTAT="S",
                POP100=people,
                HU100=people // 2,
                INTPTLAT="+40.0000000",
                INTPTLON="-073.0000000",
            )
        )

    for codes, people in places:
        sumlev, field = LEVELS[len(codes) - 1]
        code_text = next(reversed(codes.values()))
        name = {"BLOCK": "Block", "COUNTY": "Ca\xf1ada"}.get(field, field.title())
        add(sumlev, "00", codes, people, f"{name} {code_text}")
        if field == "STATE":
            add(sumlev, "01", codes, people // 2, f"{name} {code_text} -- Urban")
    # The blocks come in no other sequence; tracts and block groups do.
    for codes, people in places:
        if len(codes) == 2:
            add("140", "00", {**codes, "TRACT": "000101"}, people, "Census Tract 1.01")
            add("150", "00", {**codes, "TRACT": "000101", "BLKGRP": "1"}, people, "Block Group 1")
    return found


HEADER = (
    "medallion, hack_license, vendor_id, rate_code, store_and_fwd_flag, pickup_datetime, "
    "dropoff_datetime, passenger_count, trip_time_in_secs, trip_distance, pickup_longitude, "
    "pickup_latitude, dropoff_longitude, dropoff_latitude"
)


def rides(month: int, days: int, rng: random.Random) -> list[str]:
    lines = [HEADER]
    times = [(1, 0, 0, 0), (1, 0, 0, 0), (days, 23, 59, 59)] + [
        (rng.randint(1, days), rng.randrange(24), rng.randrange(60), rng.randrange(60))
        for _ in range(25)
    ]
    for day, hour, minute, second in times:
        vendor = rng.choice(["CMT", "CMT", "VTS"])
        pickup = f"2013-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}"
        where = ["-73.978165", "40.757977", "-73.989838", "40.751171"]
        lines.append(
            ",".join(
                [
                    f"{rng.getrandbits(128):032X}",
                    f"{rng.getrandbits(128):032X}",
                    vendor,
                    "1",
                    "" if vendor == "VTS" else "N",
                    pickup,
                    pickup,
                    str(rng.randint(1, 6)),
                    str(rng.randrange(60, 4000)),
                    f"{rng.random() * 10:.2f}",
                    *(where if rng.random() < 0.8 else ["0", "0", "", ""]),
                ]
            )
        )
    return lines


def write(path: Path, lines: list[str], end: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes("".join(line + end for line in lines).encode("latin-1"))


if __name__ == "__main__":
    rng = random.Random(2010)
    # Names in a different order than codes, and both kinds of line ends.
    write(HERE / "census" / "qageo2010.sf1", state("QA", "92", rng), "\n")
    write(HERE / "census" / "qbgeo2010.sf1", state("QB", "91", rng), "\r\n")
    write(HERE / "taxi" / "trip_data_1.csv", rides(1, 31, rng), "\r\n")
    write(HERE / "taxi" / "trip_data_2.csv", rides(2, 28, rng), "\n")
