"""A cluster of two processes that loses a worker at every step."""

from __future__ import annotations

from contextlib import contextmanager

import dask
import numpy as np
import pytest
from partitioned import by_node, contents, die_once, random_hierarchy, write_cut

import gmtree as gm
import gmtree.dask
from gmtree.dask import engine, measured, noise, sorting, tasks

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
    """Of each kind of task but those spared, the first takes its worker with it when it has ended.

    Returns the kinds, each with a file that is there once a worker has died.
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
    of_values = {measured.scan, tasks.up, tasks.enter, tasks.down, tasks.finish}
    assert set(killed) == of_values | {noise.survey, noise.draw, noise.draw_joint}
    assert all(flag.exists() for flag in killed.values())
    # The same bytes as without a loss, and nothing of the interrupted tasks is left.
    assert contents(tmp_path / "stormy") == contents(tmp_path / "calm")
    assert gm.consistency_bias(h.tree, by_node(made, h, "n")) == 0
    assert list(contents(tmp_path / "secret")) == ["run.json"]
    assert made.ledger.total == 1
