"""Private counts from Parquet to Parquet: drawn once, accounted for, consistent."""

from __future__ import annotations

import json

import dask
import numpy as np
import pytest
from partitioned import by_node, random_hierarchy, write_cut

import gmtree as gm
import gmtree.dask
from gmtree import privacy
from gmtree.dask import engine, noise
from gmtree.privacy.cumulants import measurement_cumulants


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def counted(rng, tmp_path, **options):
    """A hierarchy with counts, its files, and arguments of a release."""
    h = random_hierarchy(rng, **options)
    leaves = h.leaves.drop(columns=["y", "s"])
    leaves["n"] = rng.integers(0, 20, len(leaves))
    files = write_cut(leaves, tmp_path / "leaves", rng)
    rows = int(rng.integers(1, len(leaves) + 1))
    arguments = {
        "leaves": str(files),
        "levels": h.levels,
        "count": "n",
        "out": tmp_path / "public",
        "confidential": tmp_path / "secret",
        "partition_rows": rows,
    }
    return h, leaves["n"].to_numpy(), arguments


def left_over(tmp_path):
    return sorted(p.name for p in (tmp_path / "secret").iterdir())


@pytest.mark.parametrize("seed", range(8))
def test_without_noise_counts_come_back(seed, tmp_path):
    rng = np.random.default_rng(seed)
    h, counts, arguments = counted(rng, tmp_path)
    made = gmtree.dask.release(**arguments, epsilon=10**6, integer=True, nonnegative=True)
    for column in ("n", "n_noisy"):
        np.testing.assert_array_equal(by_node(made, h, column), h.tree.aggregate(counts))
    assert left_over(tmp_path) == ["run.json"]


@pytest.mark.parametrize(
    "budget", [{"epsilon": 1}, {"epsilon": 1, "delta": "1e-9"}, {"rho": "1/2"}]
)
@pytest.mark.parametrize("neighbors", ["add_remove", "change_one"])
@pytest.mark.parametrize("seed", range(3))
def test_values_and_account_are_those_of_memory(seed, neighbors, budget, tmp_path):
    rng = np.random.default_rng(30 + seed)
    h, _, arguments = counted(rng, tmp_path, height=3, single_root=seed == 2)
    shares = [1 + k for k in range(h.tree.height)]
    options = {**budget, "neighbors": neighbors, "level_shares": shares}
    made = gmtree.dask.release(**arguments, **options, nonnegative=True)
    known = privacy.allocate(h.tree, **options).ledger
    assert made.ledger == known
    noisy = by_node(made, h, "n_noisy")
    post = gm.Consistency(h.tree, {"node": measurement_cumulants(h.tree, known, None)[0]})
    for column, x in {
        "n_estimate": post.project(noisy),
        "n": post.project(noisy, nonnegative=True),
        "n_std_error": np.sqrt(post.node_variance()),
    }.items():
        assert abs(by_node(made, h, column) - x).max() <= 1e-12 * max(1, abs(x).max())


def test_unmeasured_levels_have_no_noisy_count(tmp_path):
    rng = np.random.default_rng(3)
    h, _, arguments = counted(rng, tmp_path, height=3)
    made = gmtree.dask.release(**arguments, epsilon=1, level_shares=[1, 0, 1, 1])
    assert made.table("level0")["n_noisy"].null_count == made.nodes("level0")
    assert made.ledger.levels[1].scale is None
    x = by_node(made, h, "n")
    assert gm.consistency_bias(h.tree, x) < 1e-9


class Account:
    """Remembers charges; refuses on demand."""

    def __init__(self, refuses=False):
        self.charged, self.refuses = [], refuses

    def charge(self, tree, allocation, what):
        if self.refuses:
            raise ValueError("Argument 'account' has nothing left.")
        self.charged.append((privacy.privacy_loss(tree, allocation.scales), what))


def test_an_account_is_charged_before_anything_is_drawn(tmp_path, monkeypatch):
    _, _, arguments = counted(np.random.default_rng(4), tmp_path, height=2)
    monkeypatch.setattr(noise, "draw", lambda *_: pytest.fail("noise was drawn"))
    with pytest.raises(ValueError, match="nothing left"):
        gmtree.dask.release(**arguments, epsilon=1, account=Account(refuses=True))
    assert left_over(tmp_path) == []
    monkeypatch.undo()
    account = Account()
    gmtree.dask.release(**arguments, epsilon=1, account=account)
    ((loss, _),) = account.charged
    assert loss == 1


def test_of_several_draws_the_first_counts_and_others_are_destroyed(tmp_path, monkeypatch):
    h, _, arguments = counted(np.random.default_rng(5), tmp_path, height=3, fanout=6)
    arguments["partition_rows"] = 5
    seen = []
    each = engine.Engine.each

    def twice(self, label, task, work):
        for k, result in each(self, label, task, work):
            yield k, result
            if task is noise.draw:
                seen.append((k, result, task(*work[k])))

    monkeypatch.setattr(engine.Engine, "each", twice)
    solve = gmtree.dask.release.__globals__["Run"].solve

    def check(self, manifest):
        record = json.loads((tmp_path / "secret" / "run.json").read_text())
        names = [p.name for p in (tmp_path / "secret").rglob("*.npz")]
        for k, first, second in seen:
            assert record["committed"][str(k)] == first
            assert not any(second in name for name in names)
        assert not any(name.startswith("partial") for name in names)
        return solve(self, manifest)

    monkeypatch.setattr(gmtree.dask.release.__globals__["Run"], "solve", check)
    made = gmtree.dask.release(**arguments, epsilon=1, integer=True)
    assert len(seen) > 2
    assert gm.consistency_bias(h.tree, by_node(made, h, "n")) == 0


@pytest.mark.parametrize("stop", ["draw", "draw_joint", "solve"])
def test_a_stopped_run_is_resumed_without_spending(stop, tmp_path, monkeypatch):
    h, _, arguments = counted(np.random.default_rng(6), tmp_path, height=3, fanout=6)
    arguments["partition_rows"] = 5
    account = Account()
    calls = []

    def fails(*args):
        calls.append(args)
        if stop != "draw" or len(calls) == 3:
            raise KeyboardInterrupt
        return draw(*args)

    draw = noise.draw
    where = gmtree.dask.release.__globals__["Run"] if stop == "solve" else noise
    monkeypatch.setattr(where, stop, fails)
    with pytest.raises(KeyboardInterrupt):
        gmtree.dask.release(**arguments, epsilon=1, account=account)
    monkeypatch.undo()
    before = json.loads((tmp_path / "secret" / "run.json").read_text())
    assert before["committed"]
    assert not (tmp_path / "public" / "manifest.json").exists()
    with pytest.raises(ValueError, match="counts as new spending"):
        gmtree.dask.release(**arguments, epsilon=1, account=account)
    with pytest.raises(ValueError, match="must continue the same release"):
        gmtree.dask.release(**arguments, epsilon=2, account=account, resume=True)
    made = gmtree.dask.release(**arguments, epsilon=1, account=account, resume=True)
    after = json.loads((tmp_path / "secret" / "run.json").read_text())
    assert before["committed"].items() <= after["committed"].items()
    assert len(account.charged) == 1
    assert left_over(tmp_path) == ["run.json"]
    again = gmtree.dask.release(**arguments, epsilon=1, account=account, resume=True)
    np.testing.assert_array_equal(by_node(again, h, "n"), by_node(made, h, "n"))


def test_wrong_counts_and_folders(tmp_path):
    _, _, arguments = counted(np.random.default_rng(7), tmp_path, height=2)
    with pytest.raises(ValueError, match="must not be inside of 'out'"):
        gmtree.dask.release(
            **{**arguments, "confidential": tmp_path / "public" / "secret"}, epsilon=1
        )
    with pytest.raises(ValueError, match="'level_shares' must not be 0 for the leaves"):
        gmtree.dask.release(**arguments, epsilon=1, level_shares=[1, 1, 0])
    with pytest.raises(TypeError, match="whole numbers"):
        gmtree.dask.release(
            leaves={"a": ["x", "y"], "n": [1.5, 2.0]},
            levels=["a"],
            count="n",
            epsilon=1,
            out=tmp_path / "p",
            confidential=tmp_path / "s",
        )
    with pytest.raises(ValueError, match="must hold a run to resume"):
        gmtree.dask.release(**arguments, epsilon=1, resume=True)
