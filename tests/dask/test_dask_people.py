"""Counts of people's records in many files equal the counts computed in memory."""

from __future__ import annotations

import json
import traceback

import dask
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmtree as gm
import gmtree.dask
from gmtree.dask import counting, drawing
from gmtree.dask.engine import Engine
from gmtree.dask.parquet import partitions, pieces, read
from gmtree.privacy.publishing.people import Bounds

LEVELS = ["state", "county", "town"]


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def random_records(rng, rows):
    """A sorted list of leaves, and records of people, some with very many."""
    paths = pd.DataFrame(
        {
            "state": rng.choice(["NY", "TX", "VT"], 60),
            "county": rng.integers(0, 6, 60),
            "town": rng.choice(["7", "7.0", "é", "x y", "z"], 60),
        }
    )
    leaves = paths.drop_duplicates().sort_values(LEVELS).reset_index(drop=True)
    records = leaves.iloc[rng.integers(0, len(leaves), rows)].reset_index(drop=True)
    number = np.where(rng.random(rows) < 0.2, 7, rng.integers(0, max(2, rows // 3), rows))
    return leaves, records.assign(number=number)


def people_of(rng, number):
    """The same people with labels of one type each time."""
    if rng.random() < 0.2:
        return pa.array([b"\xff%d" % x for x in number], pa.binary())
    kinds = [
        pa.int64(),
        pa.int16(),
        pa.float64(),
        pa.string(),
        pa.dictionary(pa.int8(), pa.string()),
    ]
    kind = kinds[rng.integers(len(kinds))]
    if pa.types.is_dictionary(kind):
        return pa.array([f"{x}.0" for x in number]).dictionary_encode()
    return pa.array([str(x) for x in number] if kind == pa.string() else number).cast(kind)


def write_records(rng, records, folder):
    """Files in any order, each with another type of labels; returns all labels as objects."""
    folder.mkdir()
    order = rng.permutation(len(records))
    files = np.array_split(order, int(rng.integers(1, 6)))
    labels = np.empty(len(records), object)
    for k, rows in enumerate(files):
        people = people_of(rng, records["number"].to_numpy()[rows])
        labels[rows] = people.to_pylist()
        some = records[LEVELS].iloc[rows]
        if rng.random() < 0.5:
            some = some.astype({"state": "category", "county": np.int32})
        table = pa.Table.from_pandas(some, preserve_index=False)
        pq.write_table(
            table.append_column("id", people),
            folder / f"part-{k}.parquet",
            row_group_size=int(rng.integers(1, max(2, rows.size))),
        )
    return labels


def write_leaves(rng, leaves, path):
    table = pa.Table.from_pandas(leaves, preserve_index=False)
    pq.write_table(table, path, row_group_size=int(rng.integers(1, len(leaves) + 1)))
    return path


def counted(rng, leaves, most, folder):
    """Counts of the leaves before noise is added, from files that `write_records` wrote."""
    rows = int(rng.integers(1, 2 * len(leaves)))
    engine, secret = Engine(), folder / "secret"
    secret.mkdir()
    path = write_leaves(rng, leaves, folder / "leaves.parquet")
    cuts = partitions(pieces("leaves", path, LEVELS), rows)
    made = counting.count_people(
        engine,
        folder / "records",
        cuts,
        tuple(LEVELS),
        "id",
        "n",
        Bounds(most, most, most),
        rows,
        secret,
    )
    assert [p.name for p in secret.iterdir()] == ["counted"]
    assert [(p.start, p.rows) for p in made] == [(p.start, p.rows) for p in cuts]
    table = read([piece for p in made for piece in p.pieces], [*LEVELS, "n"])
    assert table.select(LEVELS).to_pylist() == leaves.to_dict("records")
    return table["n"].to_numpy()


@pytest.mark.filterwarnings("ignore::gmtree.DataWarning")
@pytest.mark.parametrize("seed", range(25))
def test_the_counted_records_are_those_of_memory(seed, tmp_path):
    rng = np.random.default_rng(seed)
    leaves, records = random_records(rng, int(rng.integers(1, 200)) if seed else 0)
    frame = records[LEVELS].assign(id=write_records(rng, records, tmp_path / "records"))
    most = int(rng.integers(1, 5))
    known = gm.release_frame(
        frame, LEVELS, person="id", max_contributions=most, tree=leaves, epsilon=10**9
    )
    tree = known.tree
    by_leaf = tree.to_frame().iloc[tree.leaves][LEVELS].assign(n=known.noisy[tree.leaves])
    found = counted(rng, leaves, most, tmp_path)
    np.testing.assert_array_equal(found, leaves.merge(by_leaf, how="left", on=LEVELS)["n"])
    assert found.sum() <= len(records)


def arguments(tmp_path, rng, records=60):
    leaves, made = random_records(rng, records)
    write_records(rng, made, tmp_path / "records")
    table = pa.Table.from_pandas(leaves, preserve_index=False)
    pq.write_table(table, tmp_path / "leaves.parquet", row_group_size=5)
    return leaves, {
        "leaves": tmp_path / "leaves.parquet",
        "levels": LEVELS,
        "count": "n",
        "records": tmp_path / "records",
        "person": "id",
        "max_contributions": 2,
        "out": tmp_path / "public",
        "confidential": tmp_path / "secret",
        "partition_rows": 5,
    }


@pytest.mark.parametrize("neighbors", ["add_remove", "change_one"])
def test_the_ledger_has_the_words_of_memory(neighbors, tmp_path):
    rng = np.random.default_rng(1)
    leaves, given = arguments(tmp_path, rng)
    made = gmtree.dask.release(**given, epsilon=1, neighbors=neighbors, integer=True)
    frame = pd.DataFrame({name: leaves[name].iloc[:2] for name in LEVELS}).assign(id=[1, 2])
    known = gm.release_frame(
        frame, LEVELS, person="id", tree=leaves, epsilon=1, neighbors=neighbors, max_contributions=2
    )
    assert made.ledger == known.ledger
    assert made.ledger.enforced
    assert sorted(p.name for p in (tmp_path / "secret").iterdir()) == [".lock", "run.json"]


def test_a_stopped_run_is_resumed_without_counting_again(tmp_path, monkeypatch):
    _, given = arguments(tmp_path, np.random.default_rng(2))
    account = gm.privacy.Account(epsilon=1, person="id", path=tmp_path / "account.json")
    draw, calls = drawing.draw, []

    def fails(*work):
        calls.append(work)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return draw(*work)

    with monkeypatch.context() as patch:
        patch.setattr(drawing, "draw", fails)
        with pytest.raises(KeyboardInterrupt):
            gmtree.dask.release(**given, epsilon=1, account=account)
    monkeypatch.setattr(counting, "split", lambda *_: pytest.fail("records were read again"))
    record = json.loads((tmp_path / "secret" / "run.json").read_text())
    with pytest.raises(ValueError, match="must continue the same release; the request"):
        gmtree.dask.release(**{**given, "records": tmp_path}, epsilon=1, resume=True)
    made = gmtree.dask.release(**given, epsilon=1, account=account, resume=True)
    after = json.loads((tmp_path / "secret" / "run.json").read_text())
    assert record["committed"].items() <= after["committed"].items()
    assert len(account.entries) == 1
    assert made.ledger.person == "id"
    assert sorted(p.name for p in (tmp_path / "secret").iterdir()) == [".lock", "run.json"]


@pytest.mark.parametrize(
    ("column", "label", "words"),
    [
        ("id", None, "'person' must be known in each record"),
        ("state", None, "'records' must have a leaf in each row; 'state' is missing"),
        ("state", "XQ", "'records' must have a leaf of 'leaves' in each row"),
        ("town", "XQ", "'records' must have a leaf of 'leaves' in each row"),
    ],
)
def test_wrong_records_are_refused_without_their_labels(column, label, words, tmp_path):
    rng = np.random.default_rng(3)
    leaves, given = arguments(tmp_path, rng)
    wrong = leaves.iloc[:4].assign(id=["XQ1", "XQ2", "XQ3", "XQ4"])
    wrong.loc[2, column] = label
    wrong.to_parquet(tmp_path / "records" / "part-9.parquet", index=False)
    with pytest.raises(ValueError, match=words) as caught:
        gmtree.dask.release(**given, epsilon=1)
    assert "XQ" not in "".join(traceback.format_exception(caught.value))
    assert [p.name for p in (tmp_path / "secret").iterdir()] == [".lock"]


def test_numbers_in_one_file_and_texts_of_other_numbers_in_another_are_refused(tmp_path):
    leaves, given = arguments(tmp_path, np.random.default_rng(3))
    leaves.iloc[:2].assign(id=[7, 8]).to_parquet(tmp_path / "records" / "part-8.parquet")
    leaves.iloc[:2].assign(id=["007", "x"]).to_parquet(tmp_path / "records" / "part-9.parquet")
    with pytest.raises(ValueError, match="'person' must not hold both numbers and texts of num"):
        gmtree.dask.release(**given, epsilon=1)
    assert [p.name for p in (tmp_path / "secret").iterdir()] == [".lock"]


def test_records_and_person_come_together(tmp_path):
    _, given = arguments(tmp_path, np.random.default_rng(4))
    for name in ("person", "records"):
        with pytest.raises(ValueError, match="'person' must be given with 'records'"):
            gmtree.dask.release(**{**given, name: None}, epsilon=1)
    with pytest.raises(TypeError, match="'records' must be Parquet files, not DataFrame"):
        gmtree.dask.release(**{**given, "records": pd.DataFrame()}, epsilon=1)
