"""Bounds on records per person: identities in all types of labels, counted records, losses."""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import io
import os
import random
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmtree as gm
from gmtree import cli
from gmtree.cli import release as command
from gmtree.privacy.publishing import measuring
from gmtree.privacy.publishing.people import person_text

SAME = [
    [7, 7.0, "7", "7.0", Decimal("7.00"), np.int8(7), np.float32(7), np.uint64(7), b"7"],
    [0, 0.0, -0.0, "0", "0.0", "-0.0", Decimal("-0"), False],
    [0.5, "0.5", Decimal("0.50"), np.float16(0.5)],
    [-3, -3.0, "-3", "-3.0"],
    [2**70, str(2**70), Decimal(2**70)],
    [2**53 + 1, str(2**53 + 1), f"{2**53 + 1}.0"],
    ["ann", b"ann", np.str_("ann")],
    ["007"],
    [" 7"],
    ["7.50"],
    ["7.5", 7.5],
    [1, True, "1"],
    ["True"],
    ["nan"],
    [
        dt.date(2024, 5, 31),
        dt.datetime(2024, 5, 31),
        pd.Timestamp("2024-05-31"),
        np.datetime64("2024-05-31"),
        "2024-05-31",
    ],
    [
        dt.datetime(2024, 5, 31, 12, 30, 0, 500_000),
        pd.Timestamp("2024-05-31 14:30:00.5", tz="Europe/Berlin"),
        np.datetime64("2024-05-31T12:30:00.500000000"),
        "2024-05-31 12:30:00.5",
    ],
    [np.datetime64("2024-05-31T12", "h"), "2024-05-31 12:00:00"],
    [np.datetime64("2024-05"), "2024-05-01"],
    [uuid.UUID(int=7), str(uuid.UUID(int=7))],
]


def test_labels_that_are_one_person():
    texts = [{person_text("person", label) for label in group} for group in SAME]
    assert all(len(found) == 1 for found in texts)
    assert len(set.union(*texts)) == len(SAME)


def test_a_text_that_identifies_a_person_identifies_itself():
    for group in SAME:
        text = person_text("person", group[0])
        assert person_text("person", text) == text


def test_labels_that_identify_nobody():
    for label in (None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN"), "", b""):
        assert person_text("person", label) is None
    for label in (2.0**53, -1e300, float("inf")):
        with pytest.raises(ValueError, match="'person' must not hold floats of 2\\^53 or more"):
            person_text("person", label)
    for label in ([7], object(), 1j, dt.timedelta(1), ("a",), Decimal("Infinity")):
        with pytest.raises(TypeError, match="'person' must hold text, numbers, dates or UUIDs"):
            person_text("person", label)


# --------------------------------------------------------------------------- sources

LEVELS = ["state", "town"]
LEAVES = [("NY", "Kings"), ("NY", "Orange"), ("VT", "Windsor"), ("VT", "Essex")]
PUBLIC = pd.DataFrame(LEAVES, columns=LEVELS)
# Values of the axes, which are not in the order of their texts.
AXES = {"sex": ["m", "f"], "age": [65.0, 7.5]}
CELLS = list(product(range(2), range(2)))
# A leaf and a person; for tables also a cell.
Records = list[tuple]


def columns(records: Records) -> dict[str, list]:
    found = {name: [LEAVES[r[0]][k] for r in records] for k, name in enumerate(LEVELS)}
    if records and len(records[0]) > 2:
        for k, (name, labels) in enumerate(AXES.items()):
            found[name] = [labels[CELLS[r[2]][k]] for r in records]
    return found


def spelled(label: object, rng: random.Random) -> str:
    """A label as text, as some program may have written it."""
    if isinstance(label, int):
        return f"{label}.0" if rng.random() < 0.5 else str(label)
    return str(label)


def with_repeated_entries(labels: list[str], kind: pa.DataType, rng: random.Random) -> pa.Array:
    """A dictionary that holds each label twice, perhaps with a missing entry that no row has."""
    entries = list(dict.fromkeys(labels))
    hole = rng.choice([[], [None]])
    codes = [entries.index(x) + rng.choice([0, len(entries) + len(hole)]) for x in labels]
    dictionary = pa.array([*entries, *hole, *entries], kind)
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), dictionary)


def frame_of_pandas(records: Records, rng: random.Random) -> pd.DataFrame:
    labels = [record[1] for record in records]
    texts = [spelled(x, rng) for x in labels]
    ways = [
        lambda: labels,  # pandas infers the type
        lambda: pd.Series(labels, dtype=object),
        lambda: pd.Categorical(labels),
        lambda: pd.Categorical(texts, categories=[*dict.fromkeys(texts), "nobody"]),
        lambda: pd.array(texts, dtype="string"),
        lambda: pd.Series(texts, dtype=pd.ArrowDtype(pa.string())),
        lambda: pd.Series(pd.arrays.ArrowExtensionArray(
            pa.chunked_array([with_repeated_entries(texts, pa.string(), rng)]))),
        lambda: [x if rng.random() < 0.5 else spelled(x, rng) for x in labels],
        lambda: [float(x) if isinstance(x, int) and rng.random() < 0.5 else x for x in labels],
    ]  # fmt: skip
    if not any(isinstance(x, str) for x in labels):
        ways += [lambda: pd.array(labels, dtype="Float64"), lambda: np.array(labels, float)]
    return pd.DataFrame({**columns(records), "who": rng.choice(ways)()})


def frame_of_polars(records: Records, rng: random.Random) -> pl.DataFrame:
    labels = [record[1] for record in records]
    texts = [spelled(x, rng) for x in labels]
    ways = [
        lambda: pl.Series(texts),
        lambda: pl.Series(texts).cast(pl.Categorical),
        lambda: pl.Series(texts).cast(pl.Enum([*dict.fromkeys(texts), "nobody"])),
        lambda: pl.Series([x.encode() for x in texts]),
        lambda: pl.Series(labels, dtype=pl.Object),
    ]
    if not any(isinstance(x, str) for x in labels):
        ways += [
            lambda: pl.Series(labels, dtype=pl.Float64, strict=False),
            lambda: pl.Series([str(x) for x in labels]).cast(pl.Decimal(20, 3)),
        ]
    return pl.DataFrame({**columns(records), "who": rng.choice(ways)()})


def frame_of_pyarrow(records: Records, rng: random.Random) -> pa.Table:
    labels = [record[1] for record in records]
    texts = [spelled(x, rng) for x in labels]
    ways = [
        lambda: pa.array(texts),
        lambda: pa.array(texts, pa.large_string()),
        lambda: pa.array(texts).dictionary_encode(),
        lambda: with_repeated_entries(texts, pa.string(), rng),
        lambda: pa.chunked_array([with_repeated_entries(texts, pa.string(), rng),
                                  with_repeated_entries(texts[:0], pa.string(), rng)]),
    ]  # fmt: skip
    if not any(isinstance(x, str) for x in labels):
        floats = [float(x) for x in labels]
        ways += [
            lambda: pa.array(floats),
            lambda: with_repeated_entries(floats, pa.float64(), rng),
            lambda: pa.array([Decimal(str(x)) for x in labels], pa.decimal128(20, 3)),
        ]
    return pa.table({**columns(records), "who": rng.choice(ways)()})


FRAMES = {"pandas": frame_of_pandas, "polars": frame_of_polars, "pyarrow": frame_of_pyarrow}
FILES = (".csv", ".parquet")
SOURCES = (*FRAMES, *FILES)


def released(
    source: str, records: Records, rng: random.Random, folder: Path, *, public: bool = True,
    neighbors: str = "add_remove", queries: list | None = None,
    zeros: tuple[int, ...] = (), **options,
):  # fmt: skip
    """The release of these records, from a frame or a file; of tables if there are queries."""
    if source in FRAMES:
        frame = FRAMES[source](records, rng)
        leaves = {"tree": PUBLIC} if public else {"leaves_are_public": True}
        if queries is not None:
            options |= {"axes": AXES, "queries": queries}
        if zeros:
            options["structural_zeros"] = np.isin(np.arange(4), zeros).reshape(2, 2)
        return gm.release_frame(
            frame, LEVELS, person="who", neighbors=neighbors, **leaves, **options
        )
    path = folder / f"people{source}"
    if source == ".parquet":
        frame = frame_of_pyarrow(records, rng)
        try:
            pq.write_table(frame, path)
        except pa.ArrowNotImplementedError:  # a dictionary with a missing entry
            plain = frame["who"].cast(frame["who"].type.value_type)
            place = frame.schema.get_field_index("who")
            pq.write_table(frame.set_column(place, "who", plain.dictionary_encode()), path)
    else:
        with path.open("w", newline="") as stream:
            writer = csv.writer(stream)
            table = columns(records)
            writer.writerow([*table, "who"])
            who = [spelled(record[1], rng) for record in records]
            writer.writerows(zip(*table.values(), who, strict=True))
    words = ["release", str(path), "--levels", ",".join(LEVELS), "--person", "who", "-o", "-",
             "--neighbors", neighbors]  # fmt: skip
    if public:
        PUBLIC.to_csv(folder / "leaves.csv", index=False)
        words += ["--tree", str(folder / "leaves.csv")]
    else:
        words += ["--leaves-are-public"]
    if queries is not None:
        listed = [cell for k, cell in enumerate(product(*AXES.values())) if k not in zeros]
        pd.DataFrame(listed, columns=list(AXES)).to_csv(folder / "cells.csv", index=False)
        asked = ",".join(":".join(query) or "total" for query in queries)
        words += ["--axes", ",".join(AXES), "--cells", str(folder / "cells.csv")]
        words += ["--queries", asked]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args(words)
    command._check_options(args)
    return command._release(args)


@contextmanager
def no_noise() -> Iterator[Path]:
    """Publish counts as they are, so that tests can see which records count; a folder for files."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(measuring, "_add_noise", lambda *args: None)
        yield Path(folder)


def tables_of(r: gm.Release | gm.TableRelease) -> dict[tuple, np.ndarray]:
    """The noisy counts by query, one row per node; plain counts have the query ()."""
    if isinstance(r, gm.Release):
        return {(): r.noisy[:, None]}
    return {query: table.reshape(r.tree.n, -1) for query, table in r.noisy.items()}


def by_label(r: gm.Release | gm.TableRelease) -> dict[tuple, int]:
    """The counts of the leaves that are not 0, by leaf, query and cell."""
    found = Counter()
    for query, table in tables_of(r).items():
        for i in r.tree.leaves.tolist():
            for cell, count in enumerate(table[i].tolist()):
                if count:
                    found[r.tree.path(i)[-2:], query, cell] = count
    return found


# Scales are rounded up by less.
ROOM = 1 + Fraction(1, 1 << 50)
# A campaign of 500 random releases takes 100 of each source.
RELEASES = int(os.environ.get("GMTREE_RELEASES", "5"))
IDS = [7, 8, 10, 0.5, 2.25, "ann", "bob", "007b", "x y", -3]
BOUNDS = [
    {"max_contributions": 1},
    {"max_contributions": 2},
    {"max_leaves": 2, "max_per_leaf": 1},
    {"max_contributions": 2, "max_leaves": 1, "max_per_leaf": 2},
]


RECORD = (st.integers(0, 3), st.sampled_from(IDS))
QUERIES = [(), ("sex",), ("age", "sex")]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(*RECORD), min_size=1, max_size=25)
    | st.lists(st.tuples(*RECORD, st.integers(0, 3)), min_size=1, max_size=25),
    st.sampled_from(SOURCES),
    st.sampled_from(BOUNDS),
    st.booleans(),
    st.integers(0, 99),
)
def test_kept_records_depend_on_one_person_alone(records, source, bounds, public, seed):
    """The counts are the sum of each person's counts alone, from any source."""
    rng = random.Random(seed)
    queries = QUERIES if len(records[0]) > 2 else None
    options = {"public": public, "rho": 1, "queries": queries, **bounds}
    with no_noise() as folder:
        together = by_label(released(source, records, rng, folder, **options))
        alone: Counter = Counter()
        for label in {record[1] for record in records}:
            own = [record for record in records if record[1] == label]
            alone += by_label(released(rng.choice(SOURCES), own, rng, folder, **options))
    assert together == alone


def test_an_unusual_label_changes_only_its_own_counts():
    """0.5 makes pandas hold all labels as floats."""
    towns = [leaf for _ in range(1000) for leaf in LEAVES[:2]]
    frame = pd.DataFrame(towns, columns=LEVELS).assign(who=np.repeat(np.arange(1000), 2))
    more = pd.concat([frame, PUBLIC.iloc[3:].assign(who=0.5)], ignore_index=True)
    assert more["who"].dtype == float
    with no_noise():
        before, after = (
            gm.release_frame(x, LEVELS, tree=PUBLIC, person="who", epsilon=1).noisy
            for x in (frame, more)
        )
    assert (after - before).tolist() == [1, 0, 1, 0, 0, 0, 1]
    assert before[0] == 1000
    assert 400 < before[3] < 600


@pytest.mark.parametrize(
    "who",
    [
        pd.Series([7, "7", 7.0, "7.0"], dtype=object),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), pa.array(["ann"] * 4)),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1]), pa.array([7, 7])),
        pl.Series(["ann", "ann", "ann", "ann"], dtype=pl.Categorical),
    ],
)
def test_one_person_counts_once(who):
    records = columns([(0, None)] * 4)
    kind = {"pandas": pd.DataFrame, "pyarrow": pa.table, "polars": pl.DataFrame}
    frame = kind[type(who).__module__.partition(".")[0]]({**records, "who": who})
    with no_noise():
        r = gm.release_frame(frame, LEVELS, tree=PUBLIC, person="who", epsilon=1)
    assert r.noisy[0] == 1


@pytest.mark.parametrize(
    "who",
    [
        pd.Series([7, None]),
        pd.Series(["ann", ""]),
        pd.Series([7, pd.NA], dtype="Int64"),
        pd.Series(pd.Categorical(["ann", None])),
        pl.Series([7.0, float("nan")]),
        pl.Series(["ann", None], dtype=pl.Categorical),
        pa.array([7.0, float("nan")]),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["ann", None])),
        pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array(["ann"])),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([7, None])),
    ],
)
def test_records_of_nobody_are_refused(who, tmp_path, capsys):
    records = columns([(0, None)] * 2)
    kind = {"pandas": pd.DataFrame, "pyarrow": pa.table, "polars": pl.DataFrame}
    library = type(who).__module__.partition(".")[0]
    frame = kind[library]({**records, "who": who})
    with pytest.raises(ValueError, match="'person' must be known in each row; row 1 has none"):
        gm.release_frame(frame, LEVELS, tree=PUBLIC, person="who", epsilon=1)
    if library == "pandas":
        for name, write in (("a.csv", frame.to_csv), ("a.parquet", frame.to_parquet)):
            write(tmp_path / name, index=False)
            words = ["release", str(tmp_path / name), "--levels", "state,town", "--person", "who"]
            words += ["--leaves-are-public", "--epsilon", "1", "-o", str(tmp_path / "out.csv")]
            assert cli.main(words) == 2
            assert "column 'who': must identify a person; it is empty." in capsys.readouterr().err


@pytest.mark.parametrize("text", ["007", " 7", "7.50", "1e3", "+7", "0.00001", f"{2**53}.5"])
@pytest.mark.parametrize("number", [3, 0.5, np.int64(3), Decimal(3)])
def test_numbers_beside_texts_of_other_numbers_are_refused(text, number):
    """Programs that read a file in parts read one person as 7 in one part, as "007" in another."""
    frame = pd.DataFrame(
        {**columns([(0, None)] * 2), "who": pd.Series([number, text], dtype=object)}
    )
    with pytest.raises(
        ValueError, match="'person' must not hold both numbers and texts of numbers"
    ):
        gm.release_frame(frame, LEVELS, tree=PUBLIC, person="who", epsilon=1)
    with no_noise():
        frame["who"] = frame["who"].astype(str)
        assert gm.release_frame(frame, LEVELS, tree=PUBLIC, person="who", epsilon=1).noisy[0] == 2


def test_a_file_read_in_parts_does_not_double_people():
    people = "".join(f"NY,Kings,{k:04d}\n" for k in range(1000))
    text = f"state,town,who\n{people}{people}NY,Kings,guest\n"
    mixed = pd.concat(pd.read_csv(io.StringIO(text), chunksize=1500))
    assert {type(x) for x in mixed["who"]} == {int, str}
    good = {"levels": LEVELS, "tree": PUBLIC, "person": "who", "epsilon": 1}
    with pytest.raises(ValueError, match="Read this column as text"):
        gm.release_frame(mixed, **good)
    with no_noise():
        r = gm.release_frame(pd.read_csv(io.StringIO(text), dtype=str), **good)
    assert r.noisy[0] == 1001


def test_labels_that_no_row_has_are_not_read():
    who = pd.Categorical(["ann"], categories=["ann", 1e300, ("a", "tuple")])
    frame = pd.DataFrame({**columns([(0, None)]), "who": who})
    with no_noise():
        r = gm.release_frame(frame, LEVELS, tree=PUBLIC, person="who", epsilon=1)
    assert r.noisy[0] == 1


# --------------------------------------------------------------------------- loss


def loss_of(r: gm.Release | gm.TableRelease, other: gm.Release | gm.TableRelease) -> Fraction:
    """The loss between two data sets, count by count."""
    loss, second = Fraction(0), tables_of(other)
    scales = {(line.level, line.query or ()): line.scale for line in r.ledger.levels}
    for query, table in tables_of(r).items():
        change = table - second[query]
        for node, cell in np.argwhere(change).tolist():
            scale, d = scales[int(r.tree.depth[node]), query], int(change[node, cell])
            if scale is not None:
                one = 1 / scale if r.ledger.measure == "epsilon" else 1 / (2 * scale**2)
                loss += one * (abs(d) if r.ledger.measure == "epsilon" else d * d)
    return loss


def check_loss(source: str, rng: random.Random, folder: Path, *, tables: bool) -> None:
    """Compare the ledger with all records that one person can have; the others are fixed."""
    person, *others = rng.sample(IDS, 4)
    places = list(product(range(4), range(4))) if tables else [(leaf,) for leaf in range(4)]
    base = [(rng.choice(places), rng.choice(others)) for _ in range(rng.randrange(1, 6))]
    neighbors = rng.choice(["add_remove", "change_one"])
    bounds = rng.choice(BOUNDS[:2] if neighbors == "change_one" else BOUNDS)
    most = bounds.get("max_contributions", 2)
    options = {"neighbors": neighbors, rng.choice(["epsilon", "rho"]): "1/2", **bounds}
    if tables:
        queries = [(), ("sex",), ("age",), ("age", "sex")]
        options["queries"] = rng.sample(queries, rng.randrange(1, 4))
        # Half of the cells are enough for two records of one person, and one that cannot occur.
        places = [(leaf, cell) for leaf, cell in places if cell in (0, 3)]
        if neighbors == "add_remove" and rng.random() < 0.5:
            options["zeros"] = rng.choice([(1,), (2,), (1, 2)])
            places.append((3, options["zeros"][0]))
    made: dict[tuple[tuple[int, ...], ...], gm.Release | gm.TableRelease] = {}

    def of(own: tuple[tuple[int, ...], ...]) -> gm.Release | gm.TableRelease:
        if own not in made:
            records = [*base, *((place, person) for place in own)]
            rng.shuffle(records)
            rows = [(leaf, who, *cell) for (leaf, *cell), who in records]
            made[own] = released(source, rows, rng, folder, **options)
        return made[own]

    def choices(size: int) -> list[tuple[tuple[int, ...], ...]]:
        return list(combinations_with_replacement(places, size))

    if neighbors == "change_one":
        losses = [loss_of(of(a), of(b)) for a, b in combinations(choices(most), 2)]
    else:
        losses = [loss_of(of(()), of(a)) for size in range(1, most + 1) for a in choices(size)]
        # Records beyond the bound add no loss, but one of them may replace a counted one.
        for own in rng.sample(choices(most + 1), 4):
            losses.append(loss_of(of(()), of(own)))
            fewer = of(own[: rng.randrange(1, most + 1)])
            assert loss_of(of(own), fewer) <= 2 * fewer.ledger.total
    (total,) = {r.ledger.total for r in made.values()}
    assert max(losses) <= total <= max(losses) * ROOM


@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize("source", SOURCES)
def test_the_loss_by_enumeration_is_that_of_the_ledger(source, tables):
    rng = random.Random(f"{source} {tables}")
    with no_noise() as folder:
        for _ in range(RELEASES):
            check_loss(source, rng, folder, tables=tables)


# --------------------------------------------------------------------------- words

LEFT_OUT = (
    "Counts include at most 2 records per person. Stated errors and intervals do not include the "
    "records left out."
)


def test_ledgers_state_what_enforcement_means():
    frame = frame_of_pandas([(0, "ann"), (1, "bob")], random.Random(0))
    good = {"frame": frame, "levels": LEVELS, "tree": PUBLIC, "rho": 1, "max_contributions": 2}
    asserted = gm.release_frame(**good).ledger.assumptions
    assert asserted[:2] == (
        "Neighbouring data differ in the records of one person, added or removed.",
        "Each person contributes at most 2 records (asserted by the caller, not enforced).",
    )
    assert LEFT_OUT not in asserted
    r = gm.release_frame(**good, person="who", max_per_leaf=1)
    assert r.ledger.assumptions[:5] == (
        "Neighbouring data differ in all records of one person, added or removed.",
        "If a person has more records than are counted, one more record may replace a counted "
        "one. That can cost up to twice the total.",
        "Each person contributes at most 2 records, and at most 1 record in a leaf (enforced: "
        "further records were left out by a public rule that reads the records of one person at a "
        "time).",
        "Records with the same value in column 'who' belong to one person.",
        LEFT_OUT,
    )
    assert str(r.plan).endswith(LEFT_OUT)
    assert str(r.ledger).splitlines()[3] == (
        "The numbers count at most 2 records of each person. Further records are left out."
    )
    moved = gm.release_frame(**good, person="who", neighbors="change_one").ledger.assumptions
    assert moved[0] == (
        "Neighbouring data differ in all records of one person, moved to other leaves. The number "
        "of counted records is public."
    )
    assert LEFT_OUT in moved
    assert not any("twice" in text for text in moved)


def test_commands_state_that_records_were_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({**columns([(0, None), (1, None)]), "who": ["ann", "ann"]})
    frame.rename(columns={"town": "note"}).to_csv("people.csv", index=False)
    words = ["release", "people.csv", "--levels", "state,note", "--leaves-are-public"]
    words += ["--epsilon", "1", "-o", "out.csv", "--force"]
    assert cli.main([*words, "--person", "who", "--max-contributions", "2"]) == 0
    out = capsys.readouterr().out
    assert "at most 2 records per person (column 'who')" in out
    assert out.count(LEFT_OUT) == 2
    table = pd.read_csv("out.csv")
    assert set(table["note"]) == {LEFT_OUT}
    assert table["level_note"].tolist()[-2:] == ["Kings", "Orange"]
    assert cli.main([*words, "--max-contributions", "2"]) == 0
    assert "left out" not in capsys.readouterr().out
    assert pd.read_csv("out.csv")["note"].tolist()[-2:] == ["Kings", "Orange"]
