"""A cluster of two processes that loses a worker at every step."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import dask
import numpy as np
import pytest
from partitioned import by_node, contents, die_once, random_hierarchy, write_cut

import gmtree as gm
import gmtree.dask
from gmtree.dask import counting, drawing, engine, node_measurements, sorting, tasks
from gmtree.dask.confidential import Record

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")


@contextmanager
def two_workers():
    with (
        dask.config.set({"distributed.worker.daemon": False}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="1GB"
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield


def kill_workers(monkeypatch, folder, spared=()):
    """Kill the worker of the first task of each kind, right after that task, except those spared.

    Returns the kinds, each with a file that exists once a worker has died.
    """
    each = engine.Engine.each
    killed = {}

    def deadly(self, label, task, work):
        work = list(work)
        if work and task not in killed and task not in spared:
            flag = killed[task] = folder / f"killed-{task.__name__}"
            work = [(str(flag), task, *args) for args in work]
            task = die_once
        yield from each(self, label, task, work)

    monkeypatch.setattr(engine.Engine, "each", deadly)
    return killed


def test_workers_lost_while_sorting_change_nothing(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    h = random_hierarchy(rng, height=3, fanout=8)
    shuffled = h.leaves.iloc[rng.permutation(len(h.leaves))]
    arguments = {
        "leaves": str(write_cut(shuffled, tmp_path / "leaves", rng, pieces=4)),
        "levels": h.levels,
        "value": "y",
        "sort": True,
        "partition_rows": 1 + len(h.leaves) // 4,
    }
    with dask.config.set(scheduler="synchronous"):
        gmtree.dask.reconcile(**arguments, out=tmp_path / "calm")
    killed = kill_workers(monkeypatch, tmp_path, spared=(tasks.up, tasks.down))
    with two_workers():
        gmtree.dask.reconcile(**arguments, out=tmp_path / "stormy")
    assert set(killed) == {sorting.sample, sorting.split, sorting.merge}
    assert all(flag.exists() for flag in killed.values())
    assert contents(tmp_path / "stormy") == contents(tmp_path / "calm")


def test_lost_workers_change_nothing(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    h = random_hierarchy(rng, height=3, fanout=8)
    arguments = {
        "leaves": str(write_cut(h.leaves, tmp_path / "leaves", rng, pieces=4)),
        "levels": h.levels,
        "value": "y",
        "nodes": h.nodes,
        "variance": "s",
        "nonnegative": True,
        "integer": True,
        "partition_rows": 1 + len(h.leaves) // 4,
    }
    with dask.config.set(scheduler="synchronous"):
        gmtree.dask.reconcile(**arguments, out=tmp_path / "calm")
    counts = h.leaves.drop(columns=["y", "s"])
    counts["n"] = rng.integers(0, 20, len(counts))
    files = write_cut(counts, tmp_path / "counts", rng, pieces=4)

    killed = kill_workers(monkeypatch, tmp_path)
    with two_workers():
        gmtree.dask.reconcile(**arguments, out=tmp_path / "stormy")
    with two_workers():
        made = gmtree.dask.release(
            str(files),
            h.levels,
            "n",
            epsilon=1,
            integer=True,
            out=tmp_path / "public",
            confidential=tmp_path / "secret",
            partition_rows=1 + len(counts) // 4,
        )
    of_values = {node_measurements.scan, tasks.up, tasks.enter, tasks.down, tasks.finish}
    assert set(killed) == of_values | {drawing.survey, drawing.draw, drawing.draw_joint}
    assert all(flag.exists() for flag in killed.values())
    # The same bytes as without a loss, and nothing of the interrupted tasks is left.
    assert contents(tmp_path / "stormy") == contents(tmp_path / "calm")
    assert gm.consistency_bias(h.tree, by_node(made, h, "n")) == 0
    assert list(contents(tmp_path / "secret")) == [".lock", "run.json"]
    assert made.ledger.total == 1


def test_workers_lost_while_people_are_counted_change_nothing(tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    h = random_hierarchy(rng, height=2, fanout=8)
    leaves = h.leaves[h.levels]
    records = leaves.iloc[rng.integers(0, len(leaves), 200)].assign(id=rng.integers(0, 60, 200))
    others = (tasks.up, tasks.down, drawing.survey, drawing.draw, drawing.draw_joint)
    killed = kill_workers(monkeypatch, tmp_path, spared=others)
    with two_workers():
        made = gmtree.dask.release(
            str(write_cut(leaves, tmp_path / "leaves", rng, pieces=4)),
            h.levels,
            "n",
            records=str(write_cut(records, tmp_path / "records", rng, pieces=4)),
            person="id",
            max_contributions=2,
            epsilon=10**9,
            out=tmp_path / "public",
            confidential=tmp_path / "secret",
            partition_rows=1 + len(leaves) // 4,
        )
    own = {counting.split, counting.gather, counting.choose, counting.count_leaves}
    assert set(killed) == own
    assert all(flag.exists() for flag in killed.values())
    options = {"person": "id", "max_contributions": 2, "epsilon": 10**9}
    known = gm.release_frame(records, h.levels, tree=leaves, **options)
    np.testing.assert_array_equal(by_node(made, h, "n_noisy"), known.noisy)
    assert list(contents(tmp_path / "secret")) == [".lock", "run.json"]


def test_a_release_goes_on_after_the_scheduler_was_lost(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    counts = random_hierarchy(rng, height=3, fanout=6).leaves.drop(columns=["y", "s"])
    counts["n"] = rng.integers(0, 20, len(counts))
    files = write_cut(counts, tmp_path / "counts", rng, pieces=4)
    account = gm.privacy.Account(epsilon=1, path=tmp_path / "account.json")
    arguments = {
        "leaves": str(files),
        "levels": list(counts.columns[:3]),
        "count": "n",
        "epsilon": 1,
        "account": account,
        "out": tmp_path / "public",
        "confidential": tmp_path / "secret",
        "partition_rows": 1 + len(counts) // 4,
    }
    commit = Record.commit

    def commit_and_stop(self, partition, attempt):
        commit(self, partition, attempt)
        distributed.get_client().cluster.close()

    with two_workers(), monkeypatch.context() as patch:
        patch.setattr(Record, "commit", commit_and_stop)
        with pytest.raises(Exception):  # noqa: B017, PT011
            gmtree.dask.release(**arguments)
    before = Record.read(tmp_path / "secret").data["committed"]
    assert len(before) == 1
    assert not (tmp_path / "public").exists()
    with two_workers():
        made = gmtree.dask.release(**arguments, resume=True)
    after = Record.read(tmp_path / "secret").data["committed"]
    assert len(after) > 1
    assert before.items() <= after.items()
    assert len(account.entries) == 1
    assert made.ledger.total == 1


def slow(seconds):
    time.sleep(seconds)
    return seconds


def test_a_restart_of_the_cluster_is_a_clear_error():
    with two_workers():
        client = distributed.get_client()
        restart = threading.Timer(0.5, client.restart)
        restart.start()
        with pytest.raises(RuntimeError, match=r"cancelled the tasks of this run while reading"):
            engine.Engine().run("reading leaves", slow, [(30,), (30,)])
        restart.join()
