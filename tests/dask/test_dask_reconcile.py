"""Consistent values from Parquet to Parquet are those computed in memory."""

from __future__ import annotations

import dask
import numpy as np
import pandas as pd
import pytest
from partitioned import by_node, random_hierarchy, write_cut

import gmtree as gm
import gmtree.dask


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


@pytest.mark.parametrize("seed", range(25))
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


@pytest.mark.parametrize("seed", range(25))
def test_nonnegative_values_have_the_same_zeros(seed, tmp_path):
    rng = np.random.default_rng(100 + seed)
    h = random_hierarchy(rng, fanout=6)
    x = by_node(run(h, tmp_path, rng, nonnegative=True), h)
    known = gm.Consistency(h.tree, {"node": h.variance}).project(h.noisy, nonnegative=True)
    close(x, known)
    leaves = h.tree.leaves
    np.testing.assert_array_equal(x[leaves] == 0, known[leaves] == 0)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("seed", range(12))
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
