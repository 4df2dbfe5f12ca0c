"""Private counts from Parquet to Parquet: drawn once, accounted for, consistent."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading

import dask
import numpy as np
import pandas as pd
import pytest
from partitioned import by_node, random_hierarchy, write_cut

import gmtree as gm
import gmtree.dask
from gmtree import privacy
from gmtree.dask import confidential, drawing, engine
from gmtree.dask.pipeline import Run
from gmtree.privacy.publishing.cumulants import measurement_cumulants


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
    assert left_over(tmp_path) == [".lock", "run.json"]


@pytest.mark.parametrize(
    "budget", [{"epsilon": 1}, {"epsilon": 1, "delta": "1e-9"}, {"rho": "1/2"}]
)
@pytest.mark.parametrize("neighbors", ["add_remove", "change_one"])
@pytest.mark.parametrize("seed", range(3))
def test_values_and_account_are_those_of_memory(seed, neighbors, budget, tmp_path):
    rng = np.random.default_rng(30 + seed)
    h, _, arguments = counted(rng, tmp_path, height=3, single_root=seed == 2)
    shares = [1 + k for k in range(h.tree.height)]
    options = {**budget, "neighbors": neighbors, "shares": shares}
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
    made = gmtree.dask.release(**arguments, epsilon=1, shares=[1, 0, 1, 1])
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
    monkeypatch.setattr(drawing, "draw", lambda *_: pytest.fail("noise was drawn"))
    with pytest.raises(ValueError, match="nothing left"):
        gmtree.dask.release(**arguments, epsilon=1, account=Account(refuses=True))
    assert left_over(tmp_path) == [".lock"]
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
            if task is drawing.draw:
                seen.append((k, result, task(*work[k])))

    monkeypatch.setattr(engine.Engine, "each", twice)
    solve = Run.solve

    def check(self, manifest):
        record = json.loads((tmp_path / "secret" / "run.json").read_text())
        names = [p.name for p in (tmp_path / "secret").rglob("*.npz")]
        for k, first, second in seen:
            assert record["committed"][str(k)] == first
            assert not any(second in name for name in names)
        assert not any(name.startswith("partial") for name in names)
        return solve(self, manifest)

    monkeypatch.setattr(Run, "solve", check)
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

    draw = drawing.draw
    where = Run if stop == "solve" else drawing
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
    assert left_over(tmp_path) == [".lock", "run.json"]
    again = gmtree.dask.release(**arguments, epsilon=1, account=account, resume=True)
    np.testing.assert_array_equal(by_node(again, h, "n"), by_node(made, h, "n"))


def test_a_finished_run_is_only_returned_for_equal_arguments(tmp_path):
    _, _, arguments = counted(np.random.default_rng(6), tmp_path, height=2)
    gmtree.dask.release(**arguments, epsilon=1)
    for change in ({"epsilon": 2}, {"epsilon": 1, "integer": True}):
        with pytest.raises(ValueError, match="must continue the same release"):
            gmtree.dask.release(**arguments, **change, resume=True)
    with pytest.raises(ValueError, match="'out' must be the folder of the run to resume"):
        gmtree.dask.release(**{**arguments, "out": tmp_path / "other"}, epsilon=1, resume=True)


def test_an_interrupt_right_after_the_record_was_written_can_be_resumed(tmp_path, monkeypatch):
    _, counts, arguments = counted(np.random.default_rng(6), tmp_path, height=2)
    # A frame is copied into the confidential folder, and the copy is needed later.
    arguments["leaves"] = pd.read_parquet(arguments["leaves"])
    account, new = Account(), confidential.Record.new

    def interrupted(*args):
        new(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(confidential.Record, "new", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gmtree.dask.release(**arguments, epsilon=10**6, account=account)
    monkeypatch.undo()
    made = gmtree.dask.release(**arguments, epsilon=10**6, account=account, resume=True)
    assert made.table("total")["n_noisy"].to_pylist() == [counts.sum()]
    assert len(account.charged) == 1
    assert left_over(tmp_path) == [".lock", "run.json"]


def test_two_drivers_at_once_publish_one_draw(tmp_path, monkeypatch):
    _, _, arguments = counted(np.random.default_rng(5), tmp_path, height=3, fanout=6)
    arguments["partition_rows"] = 5
    account, both = Account(), threading.Barrier(2)
    enter, outcomes = confidential.lock, []

    def together(*args, **options):
        both.wait(20)
        return enter(*args, **options)

    monkeypatch.setattr(confidential, "lock", together)

    def drive(out, **options):
        with dask.config.set(scheduler="synchronous"):
            try:
                gmtree.dask.release(**{**arguments, "out": tmp_path / out}, epsilon=1,
                                    account=account, **options)  # fmt: skip
                outcomes.append("published")
            except ValueError as error:
                outcomes.append(str(error))

    def race(**options):
        outcomes.clear()
        drivers = [threading.Thread(target=drive, args=(out,), kwargs=options) for out in "ab"]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join()
        return sorted(outcomes)

    refused, published = race()
    assert published == "published"
    assert "must not be in use" in refused or "has a run" in refused, refused
    assert len(account.charged) == 1
    assert sum((tmp_path / out / "manifest.json").exists() for out in "ab") == 1


def test_two_drivers_that_resume_publish_one_draw(tmp_path, monkeypatch):
    """Also in another process, which sees nothing of the locks of this one."""
    _, _, arguments = counted(np.random.default_rng(5), tmp_path, height=2)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "solve", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            gmtree.dask.release(**arguments, epsilon=1)
    with confidential.hold(tmp_path / "secret", resume=True):
        with pytest.raises(ValueError, match="must not be in use; another release is running"):
            gmtree.dask.release(**arguments, epsilon=1, resume=True)
        code = (
            "import sys, pathlib\nfrom gmtree.dask import confidential\n"
            "with confidential.hold(pathlib.Path(sys.argv[1]), resume=True): pass"
        )
        command = [sys.executable, "-c", code, str(tmp_path / "secret")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "must not be in use" in done.stderr
    gmtree.dask.release(**arguments, epsilon=1, resume=True)


def test_a_driver_that_ignores_the_lock_is_noticed(tmp_path, monkeypatch):
    """Some network file systems keep locks on one machine only."""
    _, _, arguments = counted(np.random.default_rng(5), tmp_path, height=3, fanout=6)
    arguments["partition_rows"] = 5
    commit = confidential.Record.commit

    def another_run_commits_first(record, partition, attempt):
        monkeypatch.setattr(confidential.Record, "commit", commit)
        other = confidential.Record.read(record.folder)
        other.commit(partition, f"{partition.number}-other")
        commit(record, partition, attempt)

    monkeypatch.setattr(confidential.Record, "commit", another_run_commits_first)
    with pytest.raises(ValueError, match="must be used by one run at a time"):
        gmtree.dask.release(**arguments, epsilon=1)
    assert not (tmp_path / "public").exists()


def test_files_that_cannot_be_removed_are_an_error(tmp_path, monkeypatch):
    h, _, arguments = counted(np.random.default_rng(5), tmp_path, height=2)
    monkeypatch.setattr(confidential, "_PAUSES", (0, 0))
    remove, tried = shutil.rmtree, []

    def busy(path, **options):
        if "removed" in str(path):
            # The folder is renamed first, so that no task writes into it any more.
            assert not list((tmp_path / "secret").glob("attempts*"))
            tried.append(path)
            raise OSError(16, "Device or resource busy")
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", busy)
    with pytest.raises(OSError, match="may hold true counts and could not be removed"):
        gmtree.dask.release(**arguments, epsilon=1)
    assert len(tried) == 3
    monkeypatch.undo()
    made = gmtree.dask.release(**arguments, epsilon=1, resume=True)
    assert gm.consistency_bias(h.tree, by_node(made, h, "n")) < 1e-9
    assert left_over(tmp_path) == [".lock", "run.json"]


def test_the_confidential_folder_is_for_its_owner_only(tmp_path):
    _, _, arguments = counted(np.random.default_rng(5), tmp_path, height=2)
    secret = tmp_path / "secret"
    secret.mkdir()
    secret.chmod(0o750)
    with pytest.raises(ValueError, match=r"only its owner can enter .* has mode 750"):
        gmtree.dask.release(**arguments, epsilon=1)
    assert not list(secret.iterdir())
    secret.rmdir()
    gmtree.dask.release(**arguments, epsilon=1)
    assert secret.stat().st_mode & 0o777 == 0o700


def test_public_and_confidential_folders_are_apart(tmp_path):
    _, _, arguments = counted(np.random.default_rng(5), tmp_path, height=2)
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    account = Account()
    for out, secret, words in (
        ("public", "public/secret", "'confidential' must not be 'out' or inside 'out'"),
        ("public", "public", "'confidential' must not be 'out'"),
        ("secret/public", "secret", "'out' must not be inside 'confidential'"),
        ("link/public", "secret", "'out' must not be inside 'confidential'"),
    ):
        folders = {"out": tmp_path / out, "confidential": tmp_path / secret}
        with pytest.raises(ValueError, match=words):
            gmtree.dask.release(**{**arguments, **folders}, epsilon=1, account=account)
    # A folder of results with files is found before anything is spent, too.
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "notes.txt").touch()
    with pytest.raises(ValueError, match="'out' must be a new or empty folder"):
        gmtree.dask.release(**arguments, epsilon=1, account=account)
    assert not account.charged


def test_the_manifest_does_not_name_the_source(tmp_path):
    _, _, arguments = counted(np.random.default_rng(5), tmp_path, height=2)
    gmtree.dask.release(**arguments, epsilon=1)
    assert str(tmp_path) not in (tmp_path / "public" / "manifest.json").read_text()


def shown(error):
    """The local variables that a tool would print with an error of :func:`gmtree.dask.release`."""
    frames, names = [error.__traceback__], []
    while frames:
        tb = frames.pop()
        while tb is not None:
            if "/gmtree/" in tb.tb_frame.f_code.co_filename:
                names += [repr(x) for x in tb.tb_frame.f_locals.values()]
            tb = tb.tb_next
    return " ".join(names)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_tracebacks_show_no_counts(scheduler, tmp_path, monkeypatch):
    leaves = pd.DataFrame({"a": ["x", "y", "z"], "n": [777_001, 777_002, 777_003]})
    arguments = {"levels": ["a"], "count": "n", "epsilon": 1, "out": tmp_path / "public"}
    arguments["confidential"] = tmp_path / "secret"
    refuses = Account(refuses=True)
    with dask.config.set(scheduler=scheduler):
        with pytest.raises(ValueError, match="nothing left") as caught:
            gmtree.dask.release(leaves, **arguments, account=refuses)
        assert "777" not in shown(caught.value)
        with pytest.raises(TypeError, match="whole numbers") as caught:
            gmtree.dask.release(leaves.assign(n=leaves["n"] / 1), **arguments)
        assert "777" not in shown(caught.value)
        with pytest.raises(ValueError, match="must be sorted") as caught:
            gmtree.dask.release(leaves[::-1], **arguments)
        assert "777" not in shown(caught.value)


def test_wrong_counts_and_folders(tmp_path):
    _, _, arguments = counted(np.random.default_rng(7), tmp_path, height=2)
    with pytest.raises(ValueError, match="'shares' must not be 0 for the leaves"):
        gmtree.dask.release(**arguments, epsilon=1, shares=[1, 1, 0])
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
