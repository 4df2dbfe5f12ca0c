"""Consistent values from Parquet to Parquet are those computed in memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import dask
import numpy as np
import pandas as pd
import pytest
from partitioned import by_node, contents, random_hierarchy, write_cut

import gmtree as gm
import gmtree.dask
from gmtree.dask.pipeline import Run

# Dask calls pandas in a way that the newest pandas warns of.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def close(a, b):
    assert a.shape == b.shape
    worst = np.max(np.abs(a - b) / np.maximum(1, np.abs(b)))
    assert worst <= 1e-12, worst


def run(hierarchy, path, rng, **options):
    leaves = write_cut(hierarchy.leaves, path / "leaves", rng)
    made = gmtree.dask.reconcile(
        str(leaves),
        levels=hierarchy.levels,
        value="y",
        nodes=hierarchy.nodes,
        variance="s",
        out=path / "out",
        partition_rows=int(rng.integers(1, len(hierarchy.leaves) + 1)),
        **options,
    )
    assert sorted(p.name for p in path.iterdir()) == ["leaves", "out"]
    return made


@pytest.mark.parametrize("seed", range(15))
def test_plain_values_and_errors(seed, tmp_path):
    rng = np.random.default_rng(seed)
    h = random_hierarchy(rng, single_root=seed % 5 == 0)
    made = run(h, tmp_path, rng, std_error=True)
    post = gm.Consistency(h.tree, {"node": h.variance})
    close(by_node(made, h), post.project(h.noisy))
    close(by_node(made, h, "y_std_error"), np.sqrt(post.node_variance()))
    for k, name in enumerate(h.levels):
        labels = h.leaves[h.levels[: k + 1]].drop_duplicates().reset_index(drop=True)
        written = made[name].compute()[h.levels[: k + 1]].reset_index(drop=True)
        assert written.astype(object).equals(labels.astype(object))


@pytest.mark.parametrize("seed", range(15))
def test_nonnegative_values_have_the_same_zeros(seed, tmp_path):
    rng = np.random.default_rng(100 + seed)
    h = random_hierarchy(rng, fanout=6)
    x = by_node(run(h, tmp_path, rng, nonnegative=True), h)
    known = gm.Consistency(h.tree, {"node": h.variance}).project(h.noisy, nonnegative=True)
    close(x, known)
    leaves = h.tree.leaves
    np.testing.assert_array_equal(x[leaves] == 0, known[leaves] == 0)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_whole_numbers(seed, nonnegative, tmp_path):
    rng = np.random.default_rng(200 + seed)
    h = random_hierarchy(rng, fanout=6)
    k = by_node(run(h, tmp_path, rng, nonnegative=nonnegative, integer=True), h)
    post = gm.Consistency(h.tree, {"node": h.variance})
    assert k.dtype == np.int64
    assert gm.consistency_bias(h.tree, k) == 0
    x = post.project(h.noisy, nonnegative=nonnegative)
    assert np.all(k >= np.floor(x - 1e-9))
    assert np.all(k <= np.ceil(x + 1e-9))
    np.testing.assert_array_equal(k, post.project(h.noisy, nonnegative=nonnegative, integer=True))


# --------------------------------------------------------------------------- input


LEAVES = pd.DataFrame(
    {
        "state": ["NY", "NY", "TX", "VT", "VT"],
        "county": ["Albany", "Orange", "Orange", "Orange", "Windham"],
        "y": [3.0, 4.0, 2.0, 1.0, 5.0],
    }
)
LEVELS = ["state", "county"]


def one_row_each(frame, path):
    """A file whose row groups have one row: each can be a partition."""
    path.parent.mkdir(exist_ok=True)
    frame.to_parquet(path, index=False, row_group_size=1)
    return str(path)


def reconcile(leaves, tmp_path, **options):
    options = {"levels": LEVELS, "value": "y", "out": tmp_path / "out", **options}
    return gmtree.dask.reconcile(leaves, **options)


def test_sort_gives_what_sorted_rows_give(tmp_path):
    rng = np.random.default_rng(0)
    h = random_hierarchy(rng, height=3, fanout=6)
    mixed = h.leaves.sample(frac=1, random_state=1)
    made = [
        gmtree.dask.reconcile(
            write_cut(frame, tmp_path / f"leaves{k}", rng),
            h.levels,
            "y",
            nodes=h.nodes,
            variance="s",
            out=tmp_path / f"out{k}",
            partition_rows=7,
            sort=sort,
        )
        for k, (frame, sort) in enumerate([(h.leaves, False), (mixed, True)])
    ]
    close(by_node(made[1], h), by_node(made[0], h))


def test_frames_of_dask_and_categories(tmp_path):
    import dask.dataframe as dd

    known = reconcile(LEAVES, tmp_path, nodes={"total": 20.0})
    for k, frame in enumerate(
        [dd.from_pandas(LEAVES, npartitions=3), LEAVES.astype({"state": "category"})]
    ):
        made = reconcile(frame, tmp_path, nodes={"total": 20.0}, out=tmp_path / f"out{k}")
        assert list(made) == ["total", "state", "county"]
        for name in made:
            a, b = (x.table(name)["y"].to_numpy() for x in (made, known))
            np.testing.assert_allclose(a, b, rtol=1e-14)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 1, 3, 4, 2], r"must be sorted by its levels; rows 3 and 4 are .*sort=True"),
        ([1, 0, 2, 3, 4], "rows 0 and 1 are .'NY', 'Orange'. and .'NY', 'Albany'."),
        ([0, 1, 1, 2, 3], "must have one row per leaf; rows 1 and 2 are both"),
    ],
)
def test_rows_out_of_order_are_named(order, message, rows, tmp_path):
    path = one_row_each(LEAVES.iloc[order], tmp_path / "leaves.parquet")
    with pytest.raises(ValueError, match=message):
        reconcile(path, tmp_path, partition_rows=rows)


@pytest.mark.parametrize("rows", [1, 5])
def test_nodes_without_leaves_are_named(rows, tmp_path):
    path = one_row_each(LEAVES, tmp_path / "leaves.parquet")
    for state in ("AK", "OH", "WY"):
        states = pd.DataFrame({"state": ["NY", state], "y": [1.0, 2.0]})
        with pytest.raises(ValueError, match=rf"nodes\['state'\]' must name .*'{state}'"):
            reconcile(path, tmp_path, nodes={"state": states}, partition_rows=rows)
    twice = pd.DataFrame({"state": ["NY", "NY"], "y": [1.0, 2.0]})
    with pytest.raises(ValueError, match="must have one row per node"):
        reconcile(path, tmp_path, nodes={"state": twice}, partition_rows=rows)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("gone", [[0, 1], [1, 2]])
def test_undetermined_values_are_refused(rows, gone, tmp_path):
    frame = LEAVES.copy()
    frame.loc[gone, "y"] = np.nan
    path = one_row_each(frame, tmp_path / "leaves.parquet")
    states = pd.DataFrame({"state": ["NY"], "y": [9.0]})
    with pytest.raises(ValueError, match="'value' must determine every node"):
        reconcile(path, tmp_path, nodes={"state": states}, partition_rows=rows)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("options", [{"nonnegative": True}, {"nonnegative": True, "integer": True}])
def test_undetermined_values_are_refused_with_bounds_too(options, rows, tmp_path):
    leaves = pd.DataFrame({"a": list("vwxyz"), "y": [1.0, 2.0, np.nan, np.nan, 4.0]})
    path = one_row_each(leaves, tmp_path / "leaves.parquet")
    options = {**options, "levels": ["a"], "nodes": {"total": 10.0}, "partition_rows": rows}
    words = "must determine every node; (row 2 has|below the total some nodes have) no value"
    with pytest.raises(ValueError, match=words):
        reconcile(path, tmp_path, **options)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_one_missing_sibling_follows_from_the_others(rows, tmp_path):
    frame = LEAVES.copy()
    frame.loc[1, "y"] = np.nan
    path = one_row_each(frame, tmp_path / "leaves.parquet")
    states = pd.DataFrame({"state": ["NY"], "y": [9.0]})
    options = {"nodes": {"state": states}, "partition_rows": rows, "nonnegative": True}
    made = reconcile(path, tmp_path, **options)
    np.testing.assert_allclose(made.table("county")["y"].to_numpy(), [3, 6, 2, 1, 5])


@pytest.mark.parametrize("rows", [1, 5])
def test_exact_values_that_contradict_each_other_are_refused(rows, tmp_path):
    path = one_row_each(LEAVES, tmp_path / "leaves.parquet")
    states = pd.DataFrame({"state": ["NY"], "y": [9.0]})
    with pytest.raises(ValueError, match="must agree"):
        reconcile(path, tmp_path, nodes={"state": states}, variance=0, partition_rows=rows)


def test_large_partitions_are_found_beforehand(tmp_path, monkeypatch):
    from gmtree.dask.engine import Engine

    monkeypatch.setattr(Engine, "memory", lambda self: 100.0)
    with pytest.raises(
        ValueError, match="must have partitions that fit into a worker; partition 0"
    ):
        reconcile(LEAVES, tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("height", [2, 3, 5, 8])
def test_partitions_of_families_of_two_fit_into_a_worker(
    height, nonnegative, tmp_path, monkeypatch
):
    levels = [f"level{k}" for k in range(height)]
    row = np.arange(1 << 15)
    labels = {name: row >> (height - 1 - k) for k, name in enumerate(levels)}
    path = tmp_path / "leaves.parquet"
    pd.DataFrame({**labels, "y": row / 1}).to_parquet(path, index=False, row_group_size=500)
    monkeypatch.setattr("gmtree.dask.engine.Engine.memory", lambda self: 1e6)
    made = reconcile(str(path), tmp_path, levels=levels, nonnegative=nonnegative)
    assert 2 < len(made.files(levels[-1])) < 20
    assert made.table(levels[-1])["y"].to_pylist() == row.tolist()


def test_results_are_never_overwritten(tmp_path):
    made = reconcile(LEAVES, tmp_path)
    with pytest.raises(ValueError, match="must be a new or empty folder"):
        reconcile(LEAVES, tmp_path)
    assert repr(made).endswith("total: 1, state: 3, county: 5)")
    (tmp_path / "out" / "manifest.json").unlink()
    with pytest.raises(ValueError, match="must be a folder of finished results"):
        gmtree.dask.Result(tmp_path / "out")
    # A run that did not end left its mark, and another one may take its place.
    (tmp_path / "out" / ".unfinished").touch()
    reconcile(LEAVES, tmp_path)


def test_levels_may_have_any_name(tmp_path):
    names = ["..", ".", "manifest.json", ".unfinished", "a/b", "", "x"]
    leaves = pd.DataFrame({name: list("pqr") for name in names}).assign(y=[1.0, 2.0, 3.0])
    made = reconcile(leaves, tmp_path, levels=names, nodes={"total": 9.0})
    assert list(made) == ["total", *names]
    for name in names:
        np.testing.assert_allclose(made.table(name)["y"].to_numpy(), [1.75, 2.75, 3.75])
        assert made[name].compute()[name].tolist() == list("pqr")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert not [
        p for p in (tmp_path / "out").iterdir() if p.is_file() and p.name != "manifest.json"
    ]


@pytest.mark.parametrize("options", [{}, {"nonnegative": True, "integer": True}])
def test_a_full_disk_leaves_nothing_that_looks_like_a_result(options, tmp_path, monkeypatch):
    reconcile(LEAVES, tmp_path, out=tmp_path / "calm", **options)
    write, left, named = os.replace, [0], []

    def replace(*names):
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= 1
        write(*names)

    monkeypatch.setattr(os, "replace", replace)
    for room in range(100):
        left[0] = room
        try:
            reconcile(LEAVES, tmp_path, **options)
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017
            named.append(str(tmp_path) in str(error))
            with pytest.raises(ValueError, match="must be a folder of finished results"):
                gmtree.dask.Result(tmp_path / "out")
            assert {p.name for p in tmp_path.iterdir()} <= {"calm", "out"}
        else:
            break
    assert room > 5
    assert all(named[:-1])  # the last one is the manifest
    assert contents(tmp_path / "out") == contents(tmp_path / "calm")


def test_a_damaged_file_is_an_error(tmp_path):
    file = tmp_path / "leaves.parquet"
    LEAVES.to_parquet(file, compression=None, use_dictionary=False, write_page_checksum=True)
    data = bytearray(file.read_bytes())
    values = data.index(LEAVES["y"].to_numpy().tobytes()[:8])
    data[values] ^= 1
    file.write_bytes(data)
    with pytest.raises(OSError, match=r"leaves.parquet.* cannot be read: .*(?i:crc|checksum)"):
        reconcile(str(file), tmp_path)
    assert not (tmp_path / "out" / "manifest.json").exists()
    file.write_bytes(data[:-9])
    with pytest.raises(ValueError, match=r"'leaves' must be Parquet; .*cannot be read"):
        reconcile(str(file), tmp_path)


@pytest.mark.parametrize("name", ["part", "held1", "values"])
def test_a_damaged_file_between_tasks_is_named(name, tmp_path, monkeypatch):
    each = Run._each

    def damage(self, label, task, *more):
        for file in self.problem.scratch.glob(f"{name}-*.npz"):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        return each(self, label, task, *more)

    monkeypatch.setattr(Run, "_each", damage)
    below = LEAVES.assign(y=[-3.0, 4.0, 2.0, -1.0, 5.0])
    with pytest.raises(OSError, match=rf"{name}-0.npz' cannot be read: Bad"):
        reconcile(below, tmp_path, nonnegative=True, integer=True)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize("has_folders", [True, False])
def test_files_of_another_file_system(has_folders, tmp_path, monkeypatch):
    upath = pytest.importorskip("upath")
    memory = pytest.importorskip("fsspec.implementations.memory").MemoryFileSystem
    if not has_folders:  # like an object store, in which only files exist
        for name in ("mkdir", "makedirs"):
            monkeypatch.setattr(memory, name, lambda *_, **__: None)
    bucket = upath.UPath(f"memory://{tmp_path.name}")
    (bucket / "leaves").mkdir(parents=True)
    for k, rows in enumerate((slice(0, 2), slice(2, None))):
        LEAVES.iloc[rows].to_parquet(f"{bucket}/leaves/part-{k}.parquet")
    for k, options in enumerate(
        ({}, {"nonnegative": True}, {"integer": True}, {"sort": True, "partition_rows": 2})
    ):
        known = reconcile(LEAVES, tmp_path, out=tmp_path / str(k), **options)
        made = reconcile(f"{bucket}/leaves", tmp_path, out=f"{bucket}/out{k}", **options)
        again = gmtree.dask.Result(bucket / f"out{k}")
        for name in known:
            assert made.table(name).equals(known.table(name))
            assert again[name].compute()["y"].tolist() == known.table(name)["y"].to_pylist()
    # Nothing is left of the files between tasks.
    assert sorted(p.name for p in bucket.iterdir()) == ["leaves", *(f"out{k}" for k in range(4))]
    made = reconcile(LEAVES, tmp_path, out=(tmp_path / "a b").as_uri())
    assert made.path == tmp_path / "a b"


def test_urls_that_cannot_be_used(tmp_path):
    pytest.importorskip("upath")
    for url, message in (
        ("s3://key:word@b/x", "must not be a URL with a password"),
        ("nonsense://b/x", "must be a path, or a URL that fsspec can open"),
        (Path("s3://b/x"), "must be a str or a UPath"),
    ):
        for change in ({"out": url}, {"scratch": url}, {"nodes": {"state": url}}):
            with pytest.raises(ValueError, match=message) as caught:
                reconcile(LEAVES, tmp_path, **change)
            assert next(iter(change)) in str(caught.value)
            assert "word@" not in str(caught.value)
        with pytest.raises(ValueError, match=f"'leaves' {message}"):
            reconcile(url, tmp_path)
        with pytest.raises(ValueError, match=f"'path' {message}"):
            gmtree.dask.Result(url)
    # True counts stay on mounted file systems.
    url = "memory://x/y"
    for given in ({"confidential": url}, {"out": url}, {"leaves": url}):
        secret = {"leaves": LEAVES, "confidential": tmp_path / "c", "out": tmp_path / "o", **given}
        with pytest.raises(ValueError, match=f"'{next(iter(given))}' must be a path of a mounted"):
            gmtree.dask.release(levels=LEVELS, count="y", epsilon=1, **secret)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": "state"}, "'levels' must be a list"),
        ({"levels": ["state", "state"]}, "'levels' must differ"),
        ({"value": 3}, "'value' must be a str, not int"),
        ({"value": "z"}, "'leaves' must have the column 'z'"),
        ({"nodes": {"total": False}}, r"nodes\['total'\]' must be Parquet files or a DataFrame"),
        ({"variance": -1}, "'variance' must not be negative"),
        ({"variance": {"city": 1}}, "'variance' must be by level"),
        ({"variance": [1, 1, 1]}, "'variance' must be one number, the name of a column, or a dict"),
        ({"nodes": {"state": "nowhere"}}, "nowhere' is neither, or does not exist"),
        ({"nodes": {"city": LEAVES}}, "'nodes' must be by level"),
        ({"nodes": {"total": LEAVES}}, r"nodes\['total'\]' must have one row"),
        ({"partition_rows": 0}, "'partition_rows' must be"),
    ],
)
def test_wrong_arguments(options, message, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        reconcile(LEAVES, tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_missing_labels_and_text_for_values(tmp_path):
    with pytest.raises(ValueError, match="'county' must have no missing labels; row 2"):
        reconcile(LEAVES.assign(county=["a", "b", None, "c", "d"]), tmp_path)
    with pytest.raises(TypeError, match="must hold real numbers"):
        reconcile(LEAVES.assign(y="x"), tmp_path)
