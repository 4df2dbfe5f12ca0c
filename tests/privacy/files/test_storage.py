"""Releases as tables and files: their contents, and errors for damaged or false files."""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import sys
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmtree as gm
from gmtree import privacy
from gmtree._files import checksum
from gmtree.privacy import testing
from gmtree.privacy.files import storage
from gmtree.privacy.noise import words as random_words

TREE = gm.Tree.from_levels(
    {
        "state": ["NY", "NY", "NY", "VT", "VT"],
        "county": ["Albany", "Orange", "Kings", "Orange", "Essex"],
    },
    levels=["state", "county"],
)
COUNTS = [30471, 37207, 250459, 2898, 653]


@pytest.fixture
def seeded(monkeypatch):
    monkeypatch.setattr(random_words, "SYSTEM", testing.SeededWords(1))


# --------------------------------------------------------------------------- frames


def test_arrays_are_read_only(seeded):
    r = pickle.loads(pickle.dumps(gm.release(TREE, COUNTS, epsilon=1)))
    for a in (r.values, r.noisy, r.std_error, r.estimate, r.reprocess(integer=True).estimate):
        with pytest.raises(ValueError, match="read-only"):
            a[0] = 0


def test_frame(seeded):
    r = gm.release(TREE, COUNTS, epsilon=1, shares=[1, 0, 1], integer=True)
    frame = r.to_frame(0.9)
    assert frame.columns.tolist() == [
        "node", "parent", "depth", "state", "county", "value", "noisy",
        "estimate", "estimate_std_error", "estimate_low", "estimate_high",
    ]  # fmt: skip
    assert frame["state"].fillna("-").tolist() == ["-", "NY", "VT", "NY", "NY", "NY", "VT", "VT"]
    assert frame["county"].fillna("-").tolist()[:4] == ["-", "-", "-", "Albany"]
    np.testing.assert_array_equal(frame["value"], r.values)
    assert frame["noisy"].isna().tolist() == (TREE.depth == 2).tolist()
    np.testing.assert_array_equal(frame["estimate"], r.estimate)
    np.testing.assert_allclose(frame["estimate_low"], r.interval(0.9)[0])
    np.testing.assert_allclose(frame["estimate_high"], r.interval(0.9)[1])


def test_frames_of_other_trees():
    plain = gm.release(gm.shapes.star(3), [1, 2], epsilon=1).to_frame()
    assert "label" not in plain
    labelled = gm.Tree.from_edges(["kitten", "lion"], ["cat", "cat"])
    assert gm.release(labelled, [1, 2], epsilon=1).to_frame()["label"].tolist() == [
        "cat", "kitten", "lion",
    ]  # fmt: skip
    clash = gm.Tree.from_levels({"value": ["a", "b"], "x": ["c", "d"]}, levels=["value", "x"])
    assert "level_value" in gm.release(clash, [1, 2], epsilon=1).to_frame()


def test_what_is_missing_is_named(monkeypatch, tmp_path):
    r = gm.release(TREE, COUNTS, epsilon=1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="needs pandas: pip install"):
        r.to_frame()
    with pytest.raises(ImportError, match="A Parquet file needs pyarrow"):
        r.save(tmp_path / "r.parquet")
    assert not list(tmp_path.iterdir())


def labelled(labels: Any) -> gm.Tree:
    return gm.Tree.from_parents([-1, 0, 0, 1], labels=labels)


STORED = {
    "levels": TREE,
    "plain": gm.shapes.complete(3, 3),
    "shuffled": gm.Tree.from_parents([2, 2, 4, 4, -1]),
    "numbers": labelled([10, 20, 30, 40]),
    "text": labelled(np.array(["a", "b", "long one", "ü"])),
    "mixed": labelled([7, "b", 2.5, True]),
    "tuples": labelled([(1, "x"), (1, ("y", None)), (), "z"]),
    "dates": labelled([dt.date(2024, 5, 31), dt.datetime(2024, 5, 31, 12, 30), "x", 7]),
    "columns of dates": gm.Tree.from_levels(
        np.array(["2024-05", "2024-05", "2024-06"], "M8[M]"),
        np.array(["2024-05-01T10", "2024-05-02T11", "2024-06-01T00"], "M8[ns]"),
    ),
    "Newick": gm.Tree.from_newick("((a,'b c'),d)root;"),
    "zeros": labelled(np.array(["a", "a\0", "", "b"], dtype=object)),
    "large": labelled(np.array([2**80, 1, 2, 3], dtype=object)),
    "just too large": labelled(np.array([2**63, 1, 2, 3], dtype=object)),
    "smallest": labelled(np.array([-(2**63), 2**63 - 1, 2, 3], dtype=object)),
}


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@pytest.mark.parametrize("tree", STORED.values(), ids=STORED.keys())
def test_saved_and_loaded(seeded, tmp_path, tree, suffix):
    counts = np.arange(tree.n_leaves) * 10
    options = {"shares": [0, *range(1, tree.height)], "invariants": [tree.root]}
    for k, more in enumerate(({}, {**options, "nonnegative": True, "integer": True})):
        r = gm.release(tree, counts, rho="1/3", **more)
        path = tmp_path / f"{k}{suffix}"
        r.save(path)
        again = gm.Release.load(str(path))
        assert again.tree == tree
        assert again.tree.level_names == tree.level_names
        if tree.labels is not None:
            assert [*map(type, again.tree.labels)] == [*map(type, tree.labels)]
        assert again.ledger == r.ledger
        assert (again.nonnegative, again.integer) == (r.nonnegative, r.integer)
        for name in ("noisy", "values", "std_error", "measured"):
            np.testing.assert_array_equal(getattr(again, name), getattr(r, name))
            assert getattr(again, name).dtype == getattr(r, name).dtype
        np.testing.assert_array_equal(again.interval(), r.interval())


def test_a_parquet_file_is_a_table(seeded, tmp_path):
    r = gm.release(TREE, COUNTS, epsilon=1, integer=True)
    r.save(tmp_path / "r.parquet")
    table = pd.read_parquet(tmp_path / "r.parquet")
    np.testing.assert_array_equal(table["value"], r.values)
    np.testing.assert_array_equal(table["estimate"], r.estimate)
    np.testing.assert_array_equal(table["estimate_std_error"], r.std_error)
    assert table["county"].tolist()[3] == "Albany"


def test_nodes_that_were_not_measured_are_missing_in_a_parquet_file(seeded, tmp_path):
    r = gm.release(TREE, COUNTS, epsilon=1, shares=[1, 0, 1])
    r.save(tmp_path / "r.parquet")
    noisy = pd.read_parquet(tmp_path / "r.parquet")["noisy"]
    assert noisy.isna().tolist() == (~r.measured).tolist() == (TREE.depth == 2).tolist()
    np.testing.assert_array_equal(noisy[r.measured], r.noisy[r.measured])
    np.testing.assert_array_equal(gm.Release.load(tmp_path / "r.parquet").noisy, r.noisy)


def load_or_message(path) -> gm.Release | str:
    try:
        return gm.Release.load(path)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_damaged_files_are_refused(seeded, tmp_path, suffix):
    path = tmp_path / f"r{suffix}"
    gm.release(TREE, COUNTS, epsilon=1).save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    noisy = gm.Release.load(path).noisy
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        k = rng.integers(len(whole))
        damaged[k] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        found = load_or_message(path)
        if isinstance(found, str):
            assert "Argument 'path' must be a file written by Release.save" in found
            refused += 1
        else:
            # A bit without meaning for the release, such as one in a date or an unused column.
            np.testing.assert_array_equal(found.noisy, noisy)
    assert refused > 50
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"written by Release\.save"):
            gm.Release.load(path)


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("something in a file was run",)


def test_short_memory_is_not_taken_for_damage(monkeypatch, tmp_path):
    path = tmp_path / "release.npz"
    gm.release(gm.shapes.star(3), [3, 4], epsilon=1).save(path)

    def fail(*_):
        raise MemoryError("Unable to allocate 705. KiB")

    monkeypatch.setattr(storage, "_unpack", fail)
    with pytest.raises(ValueError, match="memory is too short to read it"):
        gm.Release.load(path)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    for arrays in (
        {"parent": np.array([-1])},
        {"header": np.frombuffer(b"[]", np.uint8)},
        {"header": np.frombuffer(b'{"format": "other"}', np.uint8)},
        {"header": np.array([Bomb()], dtype=object)},
        {"header": np.frombuffer(b"{}", np.uint8), "parent": np.array([Bomb()], dtype=object)},
    ):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=r"written by Release\.save"):
            gm.Release.load(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match=r"written by Release\.save"):
        gm.Release.load(path)
    path = tmp_path / "x.parquet"
    pd.DataFrame({"noisy": [1], "parent": [-1]}).to_parquet(path)
    with pytest.raises(ValueError, match=r"written by Release\.save"):
        gm.Release.load(path)


def test_files_that_unpack_to_more_than_they_hold_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    r = gm.release(TREE, COUNTS, epsilon=1)
    arrays, header = storage._pack(r)
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez_compressed(tmp_path / "x.npz", header=text, **arrays, more=np.zeros(10**6))
    tracemalloc.start()
    for load in (gm.Release.load, gm.TableRelease.load, storage.load):
        with pytest.raises(ValueError, match="unpacks to more than the file holds"):
            load(tmp_path / "x.npz")
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
    zeros = pa.table({"parent": np.zeros(10**6, np.int32), "noisy": np.zeros(10**6, np.int64)})
    pa.parquet.write_table(
        zeros.replace_schema_metadata({"gmtree": json.dumps(header)}), tmp_path / "x.parquet"
    )
    with pytest.raises(ValueError, match="it has more rows than bytes"):
        gm.Release.load(tmp_path / "x.parquet")


def test_the_width_of_text_is_not_read_from_a_file(tmp_path):
    tree = labelled(np.array(["a", "b", "c", "d"], "U1000"))
    r = gm.release(tree, [1, 2], epsilon=1)
    for suffix in (".npz", ".parquet"):
        path = tmp_path / f"r{suffix}"
        r.save(path)
        assert path.stat().st_size < 10**4
        assert gm.Release.load(path).tree == tree
    write_forged(
        tmp_path / "x.parquet",
        r,
        lambda _, header: put(header, ("labels", "dtype"), "<U100000000"),
    )
    assert gm.Release.load(tmp_path / "x.parquet").tree.labels.dtype == "U1"


def test_losses_of_many_digits_are_refused():
    """Thousands of them would take minutes to add."""
    data = gm.release(gm.shapes.star(3), [3, 4], epsilon=1).ledger.to_dict()
    data["levels"][1]["loss"] = f"1{'0' * 890}/1{'0' * 889}1"
    with pytest.raises(ValueError, match=r"a denominator above 2\^256; level 2 has one"):
        privacy.Ledger.from_dict(data)


@pytest.mark.parametrize("measure", ["epsilon", "rho"])
def test_losses_of_extreme_noise_have_few_digits(measure):
    for amount in (2.0**-40, "1/999999999989", 1e300):
        for shares in ([1, 1], ["1/4093", 1]):
            options = {"shares": shares, measure: amount}
            ledger = gm.release(gm.shapes.star(3), [3, 4], **options).ledger
            assert privacy.Ledger.from_dict(ledger.to_dict()) == ledger


def write_forged(path, r: gm.Release, change) -> None:
    """A file with other contents and a matching checksum; `change(arrays, header)`."""
    arrays, header = storage._pack(r)
    header = json.loads(json.dumps(header))
    change(arrays, header)
    header["checksum"] = checksum(header, arrays)
    write = storage._write_npz if path.suffix == ".npz" else storage._write_parquet
    with path.open("wb") as stream:
        write(stream, arrays, header, r)


def put(target: Any, keys, value: Any) -> None:
    for key in keys[:-1]:
        target = target[key]
    target[keys[-1]] = value


def test_parts_that_do_not_fit_are_refused(tmp_path):
    r = gm.release(TREE, COUNTS, epsilon=1)
    wrong = {
        "noisy": np.zeros(3, np.int64),
        "parent": np.array([-1, 0, 0, 0, 0, 0, 0, 0], np.int32),
        "exact": np.zeros(TREE.n, np.int64),
        "labels": np.array(["a"] * 9),
    }
    for name, array in wrong.items():
        write_forged(tmp_path / "x.npz", r, lambda arrays, _: arrays.update({name: array}))  # noqa: B023
        with pytest.raises(ValueError, match="its parts do not fit together"):
            gm.Release.load(tmp_path / "x.npz")


# What a ledger or a file must not say, though its checksum fits: (path in the header, value).
FALSE = {
    "a loss of nothing": (("ledger", "total"), "0"),
    "a smaller loss": (("ledger", "total"), "1/4"),
    "a smaller loss given invariants": (("ledger", "total_given_invariants"), "1/4"),
    "no loss given invariants": (("ledger", "total_given_invariants"), None),
    "a smaller loss of a level": (("ledger", "levels", 2, "loss"), "1/100"),
    "less noise": (("ledger", "levels", 2, "scale"), "1/100"),
    "noise of no scale": (("ledger", "levels", 2, "scale"), "0"),
    "more contributions": (("ledger", "max_contributions"), 3),
    "other neighbours": (("ledger", "neighbors"), "change_one"),
    "other nodes": (("ledger", "levels", 2, "nodes"), 2),
    "a level not measured": (("ledger", "levels", 2, "scale"), None),
    "another level": (("ledger", "levels", 2, "name"), "town"),
    "no invariants": (("ledger", "invariants"), []),
    "a larger bound": (("ledger", "max_count"), 2**50),
    "no bound": (("ledger", "max_count"), None),
    "an option that is text": (("integer",), "no"),
    "other names of levels": (("level_names",), ["county", "state"]),
    "names that are none": (("level_names",), [1, 2]),
    "too many names": (("level_names",), ["a", "b", "c", "d"]),
    "another kind of labels": (("labels",), {"kind": "json", "dtype": "<U6"}),
}


@pytest.mark.parametrize(("where", "value"), FALSE.values(), ids=FALSE.keys())
@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_ledgers_are_checked_against_tree_and_scales(tmp_path, suffix, where, value):
    path = tmp_path / f"x{suffix}"
    r = gm.release(TREE, COUNTS, epsilon=1, shares=[2, 1, 1], invariants=["state"])
    write_forged(path, r, lambda arrays, header: None)
    assert gm.Release.load(path).ledger == r.ledger
    write_forged(path, r, lambda arrays, header: put(header, where, value))
    with pytest.raises(
        ValueError, match=r"^Argument 'path' must be a file written by Release\.sav"
    ):
        gm.Release.load(path)


def test_a_bound_by_leaf_is_refused_where_records_move(tmp_path):
    """It would lower the stated loss in rho, though all records may move to one leaf."""
    options = {"rho": 1, "neighbors": "change_one", "max_contributions": 3}
    r = gm.release(TREE, COUNTS, **options)
    write_forged(
        tmp_path / "x.npz", r, lambda arrays, header: put(header, ("ledger", "max_per_leaf"), 1)
    )
    with pytest.raises(
        ValueError, match="must not have 'max_per_leaf' with neighbors='change_one'"
    ):
        gm.Release.load(tmp_path / "x.npz")


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_a_loaded_tree_was_made_from_records_as_before(tmp_path, suffix):
    tree, leaf = gm.Tree.from_records(["NY", "VT", "NY"], ["Albany", "Orange", "Albany"])
    path = tmp_path / f"x{suffix}"
    gm.release(tree, np.bincount(leaf), epsilon=1).save(path)
    again = gm.Release.load(path).tree
    for made in (again, again.canonical(), again.subtree(1), pickle.loads(pickle.dumps(again))):
        ledger = privacy.allocate(made, epsilon=1).ledger
        assert ledger.disclosures == (privacy.LEAVES_FROM_RECORDS,)


def test_labels_that_no_file_can_hold_are_refused_before_anything_is_spent():
    account = privacy.Account(epsilon=1)
    for label in (b"secret", dt.timedelta(1), np.datetime64(1, "ps"), pd.Interval(0, 1)):
        for tree in (labelled([label, 1, 2, 3]), gm.Tree.from_levels([label, 2, 3], [4, 5, 6])):
            with pytest.raises(TypeError, match="'tree' must have labels that a file can") as found:
                gm.release(tree, np.ones(tree.n_leaves, int), epsilon=1, account=account)
            assert "secret" not in str(found.value)
    assert account.left == 1


def test_noise_at_counts_that_follow_from_exact_ones_is_refused(tmp_path):
    """A total with noise above exact states: the ledger would call a known count protected."""
    r = gm.release(TREE, COUNTS, epsilon=1, invariants=["state"])

    def change(arrays, header):
        arrays["exact"] = np.where(np.arange(TREE.n) == 0, False, arrays["exact"])
        ledger = header["ledger"]
        ledger.update(budget="9", total="9", total_given_invariants="9", derived_invariants=[])
        ledger["levels"][0].update(nodes=1, share="1/2", scale="1", loss="1")

    write_forged(tmp_path / "x.npz", r, change)
    with pytest.raises(ValueError, match="some counts follow from exact ones"):
        gm.Release.load(tmp_path / "x.npz")


def test_a_larger_loss_may_be_stated(tmp_path):
    r = gm.release(TREE, COUNTS, epsilon=1, shares=[2, 1, 0])
    path = tmp_path / "x.npz"
    write_forged(path, r, lambda arrays, header: put(header, ("ledger", "budget"), "2"))
    assert gm.Release.load(path).ledger.budget == 2


@pytest.mark.parametrize("budget", [0.1, "1/3", 3.7e-5])
@pytest.mark.parametrize("measure", ["epsilon", "rho"])
def test_ledgers_of_any_budget_stand_the_check(tmp_path, measure, budget):
    """Losses with many digits are compared without rounding."""
    for tree in (gm.shapes.random_recursive(40, 1), gm.shapes.caterpillar(60)):
        shares = np.random.default_rng(1).random(tree.height)
        for neighbors in ("add_remove", "change_one"):
            for invariants in ([], [0], [0, 1]):
                r = gm.release(
                    tree, np.ones(tree.n_leaves, int), shares=shares, neighbors=neighbors,
                    invariants=invariants, **{measure: budget},
                )  # fmt: skip
                r.save(tmp_path / "x.npz")
                assert gm.Release.load(tmp_path / "x.npz").ledger == r.ledger


SHORT = st.text(max_size=5)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | SHORT
    | st.sampled_from(["1/3", "-1", "1/0", "nan", "1e99999999", "add_remove"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SHORT, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def places(x: Any, path: tuple = ()) -> list[tuple]:
    """All places in a nest of lists and dictionaries."""
    inner = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    found = [place for key, value in inner for place in places(value, (*path, key))]
    return [path, *found] if path else found


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_value_in_the_header_loads_or_is_a_value_error(suffix, data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"fuzz{suffix}"
    tree = STORED[data.draw(st.sampled_from(["levels", "tuples", "numbers"]))]
    counts = np.arange(tree.n_leaves)
    r = gm.release(tree, counts, rho=1, shares=[1] * tree.height, invariants=[tree.root])
    _, header = storage._pack(r)
    where = data.draw(st.sampled_from(places(json.loads(json.dumps(header)))))
    value = data.draw(ANYTHING)
    write_forged(path, r, lambda arrays, header: put(header, where, value))
    found = load_or_message(path)
    if isinstance(found, str):
        assert found.startswith("Argument 'path' must be a file written by Release.save")
    else:
        assert found.ledger.total >= r.ledger.total or found.ledger.measure != "rho"


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"invariants": ["state"]}, {"lower", "upper"}),
        ({"lower": {"node": np.arange(-9, 0)[: TREE.n]}, "upper": {"node": np.arange(TREE.n)}},
         {"exact"}),
    ],
)  # fmt: skip
def test_every_array_is_in_the_checksum(tmp_path, options, missing):
    """Exchanged labels, counts or bounds, or a changed mark of exactness in a Parquet file."""
    r = gm.release(TREE, COUNTS, epsilon=1, **options)
    path = tmp_path / "x.parquet"
    arrays, header = storage._pack(r)
    header["checksum"] = checksum(header, arrays)
    assert set(arrays) == set(storage._COLUMNS) - missing
    for name, array in arrays.items():
        other = array.copy()
        other[[3, 6]] = other[[6, 3]] if name != "exact" else ~other[[3, 6]]
        assert np.any(other != array)
        with path.open("wb") as stream:
            storage._write_parquet(stream, {**arrays, name: other}, header, r)
        with pytest.raises(ValueError, match="its checksum is wrong"):
            gm.Release.load(path)


def test_saving_replaces_only_when_complete(monkeypatch, tmp_path):
    path = tmp_path / "r.npz"
    r = gm.release(TREE, COUNTS, epsilon=1)
    r.save(path)
    before = path.read_bytes()

    def fail(*args, **arrays):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        gm.release(TREE, COUNTS, epsilon=1).save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["r.npz"]
    assert path.read_bytes() == before


def test_files_are_on_the_disk_before_they_replace_others(monkeypatch, tmp_path):
    steps = []

    def record(name: str, do):
        monkeypatch.setattr(os, name, lambda *args: (steps.append(name), do(*args)))

    record("fsync", os.fsync)
    record("replace", os.replace)
    r = gm.release(TREE, COUNTS, epsilon=1)
    r.save(tmp_path / "r.npz")
    r.save_ledger(tmp_path / "r.json")
    folder = ["fsync"] if os.name == "posix" else []
    assert steps == 2 * ["fsync", "replace", *folder]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.json", "r.npz"]


def test_paths_refused(tmp_path):
    r = gm.release(TREE, COUNTS, epsilon=1)
    for call in (r.save, gm.Release.load):
        with pytest.raises(ValueError, match=r"Argument 'path' must end in .npz or .parquet"):
            call(tmp_path / "release.txt")
    with pytest.raises(FileNotFoundError):
        gm.Release.load(tmp_path / "none.npz")
