"""No charged release is lost: there is one charge and one draw, whatever happens.

Two drills run a release and look at the disk. In one, the process could be killed at any line; in
the other, the disk becomes full at any write.
"""

from __future__ import annotations

import errno
import io
import os
import pickle
import stat
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import gmtree as gm
from gmtree import _files, cli
from gmtree.consistency import Consistency
from gmtree.privacy import Account

TREE = gm.shapes.star(4)
COUNTS = [304_111_777, 29_333_111, 372_555_999]
TABLES = [[x, x + 1_000_003] for x in COUNTS]
# Noise that is never 0, so that a true count in a file is one that should not be there.
BUDGET = "1/1000000000"
NAME, LARGE = "budget.json", 10**6

posix = pytest.mark.skipif(os.name != "posix", reason="needs the modes of files")


def of_counts(folder):
    account = Account(epsilon=1, path=folder / NAME)
    r = gm.release(TREE, COUNTS, epsilon=BUDGET, account=account, nonnegative=True)
    r.save(folder / "out.npz")


def of_tables(folder):
    account = Account(epsilon=1, path=folder / NAME)
    terms = {"axes": {"a": 2}, "queries": [(), ("a",)], "epsilon": BUDGET}
    r = gm.release_tables(TREE, TABLES, account=account, **terms)
    r.save(folder / "out.npz")


def command(folder, *options):
    """A release on the command line, whose data are in another folder."""
    data = folder.with_name("data.csv")
    if not data.exists():
        rows = [f"{name},{n}" for name, n in zip("abc", COUNTS, strict=True)]
        data.write_text("\n".join(["place,n", *rows]))
    Account(epsilon=1, path=folder / NAME)
    given = ["--levels", "place", "--count", "n", "--leaves-are-public", "--epsilon", BUDGET]
    return ["release", str(data), *given, "--account", str(folder / NAME), *options]


def to_npz(folder):
    if cli.main(command(folder, "-o", str(folder / "out.npz"))):
        raise OSError


def to_csv(folder):
    if cli.main(command(folder, "--integer", "-o", str(folder / "out.csv"))):
        raise OSError


RUNS = {"counts": of_counts, "tables": of_tables, "npz": to_npz, "csv": to_csv}
runs = pytest.mark.parametrize("run", RUNS.values(), ids=list(RUNS))


# --------------------------------------------------------------------------- what must hold


def contents(folder):
    """The files in a folder by name, and None for its folders."""
    found = {}
    for path in sorted(folder.rglob("*")):
        try:
            found[str(path.relative_to(folder))] = None if path.is_dir() else path.read_bytes()
        except FileNotFoundError:
            continue  # a temporary file of the release that is being traced
    return found


def flat(noisy):
    tables = noisy.values() if hasattr(noisy, "values") else [noisy]
    return [int(x) for table in tables for x in np.ravel(table)]


def published(folder):
    """The noisy counts in the file that was written, or None."""
    if (folder / "out.npz").exists():
        kind = gm.TableRelease if of_tables.used else gm.Release
        return flat(kind.load(folder / "out.npz").noisy)
    if (folder / "out.csv").exists():
        head, *rows = (folder / "out.csv").read_text().splitlines()
        column = head.split(",").index("noisy")
        return [int(row.split(",")[column]) for row in rows]
    return None


def shows(files, numbers):
    """Whether a file has one of these numbers, in binary form or as digits."""
    texts = [form for x in numbers for form in (np.int64(x).tobytes(), b"%d" % x) if abs(x) > LARGE]
    return any(text in data for data in files.values() if data for text in texts)


def check_disk(folder):
    """Check what a release left; return the number of charges and the draw, if it can be read."""
    files, true = contents(folder), {*COUNTS, sum(COUNTS), *np.ravel(TABLES)}
    assert not shows(files, {*true, *np.sum(TABLES, axis=0), np.sum(TABLES)})
    out = published(folder)
    if NAME not in files:
        assert out is None
        return 0, None
    account = Account(path=folder / NAME)
    charges, waiting = len(account.entries), account.unfinished()
    assert charges <= 1
    assert len(waiting) <= charges
    copies = [flat(item.load().noisy) for item in waiting]
    if charges == 0:
        assert out is None
        return 0, None
    draws = copies + ([] if out is None else [out])
    # The draw is not lost, and there is only one.
    assert draws
    assert all(draw == draws[0] for draw in draws)
    assert account.unfinished() == waiting
    return 1, draws[0]


def finish(folder, run):
    """Finish the interrupted release; return the draw."""
    charges, draw = check_disk(folder)
    if charges == 0:
        run(folder)
        charges, draw = check_disk(folder)
    elif waiting := Account(path=folder / NAME).unfinished():
        out = folder / ("out.npz" if run is not to_csv else "out.csv")
        if run in (of_counts, of_tables):
            waiting[0].load().save(out)
        else:
            given = ["--account", str(folder / NAME), "-o", str(out), "--force"]
            assert cli.main(["release", "--resume", *given]) == 0
        assert check_disk(folder) == (1, draw)
    assert published(folder) == draw
    assert Account(path=folder / NAME).unfinished() == []
    # An empty folder may be left, until the next charge.
    assert not [name for name, data in contents(folder).items() if "unfinished-" in name and data]
    return draw


@pytest.fixture
def tmp_path():
    # In memory if that is possible: these files need not reach a disk.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder).resolve()


@pytest.fixture(autouse=True)
def kind(request):
    of_tables.used = "tables" in request.node.name


# --------------------------------------------------------------------------- drills


@runs
def test_a_process_may_be_killed_at_any_line(run, tmp_path):
    """The disk is copied whenever a line of Python finds it changed."""
    folder, states = tmp_path / "run", []
    folder.mkdir()
    (tmp_path / "warm").mkdir()
    run(tmp_path / "warm")

    def trace(frame, event, argument):
        if "gmtree" not in frame.f_code.co_filename and frame.f_globals.get("__name__") != "shutil":
            return None
        if event == "line" and states[-1:] != [now := contents(folder)]:
            states.append(now)
        return trace

    sys.settrace(trace)
    try:
        run(folder)
    finally:
        sys.settrace(None)
    draw, charged = published(folder), []
    for k, files in enumerate(states):
        copy = tmp_path / f"{k}"
        copy.mkdir()
        for name, data in files.items():
            (copy / name).mkdir() if data is None else (copy / name).write_bytes(data)
        charges, found = check_disk(copy)
        charged.append(charges)
        if charges:
            assert found == draw
        else:
            # Other users cannot read the draw.
            assert not shows(files, draw)
        assert (finish(copy, run) == draw) == charges
        gm.release(TREE, COUNTS, epsilon="1/4", account=Account(path=copy / NAME))
        assert sum("unfinished" in name for name in contents(copy)) == 2
    assert charged == sorted(charged)
    assert charged.count(0) > 5
    assert charged.count(1) > 5


class Disk(io.BufferedWriter):
    """A file on a disk that becomes full."""

    def write(self, data):
        os.room()
        return super().write(data)


@runs
def test_the_disk_may_be_full_at_any_write(run, tmp_path, monkeypatch, capsys):
    left = [0]

    def room():
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def limited(function):
        def call(*arguments, **options):
            room()
            return function(*arguments, **options)

        return call

    def opened(path, mode, opener):
        return Disk(io.FileIO(opener(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w"))

    charged = []
    for k in range(1000):
        folder = tmp_path / f"{k}"
        folder.mkdir()
        command(folder)
        left[0] = k
        with monkeypatch.context() as full:
            full.setattr(os, "room", room, raising=False)
            for name in ("mkdir", "replace", "fsync"):
                full.setattr(os, name, limited(getattr(os, name)))
            full.setattr(_files, "open", opened, raising=False)
            try:
                run(folder)
            except OSError:
                charges, _ = check_disk(folder)
                charged.append(charges)
            else:
                break
        err = capsys.readouterr().err
        if run in (to_npz, to_csv):
            assert "No space left on device" in err
            assert ("gmtree release --resume 1 --account" in err) == charges
        finish(folder, run)
    assert check_disk(folder)[0] == 1
    assert charged == sorted(charged)
    assert charged.count(0) > 5
    assert charged.count(1) > 5


# --------------------------------------------------------------------------- stored copies


@posix
def test_only_the_owner_can_read_a_stored_copy(tmp_path):
    account = Account(epsilon=1, path=tmp_path / NAME)
    before = os.umask(0)
    try:
        gm.release(TREE, COUNTS, epsilon="1/4", account=account)
    finally:
        os.umask(before)
    (item,) = account.unfinished()
    assert stat.S_IMODE(item.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(item.path.parent.stat().st_mode) == 0o700
    assert item.path.parent.parent == tmp_path


def test_unfinished_releases_are_listed_loaded_and_finished(tmp_path):
    account = Account(epsilon=1, path=tmp_path / NAME, purpose="table 7")
    tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Orange", "Orange"])
    options = {"nonnegative": True, "integer": True}
    made = [gm.release(tree, COUNTS, epsilon="1/8", account=account, **options) for _ in range(4)]
    assert [x.entry.number for x in account.unfinished()] == [1, 2, 3, 4]
    assert account.unfinished()[0].entry.purpose == "table 7"
    assert str(account).count("is charged but not saved") == 4
    again = account.unfinished()[0].load()
    np.testing.assert_array_equal(again.values, made[0].values)
    assert again.tree.labels.tolist() == tree.labels.tolist()
    assert (again.provenance, again.ledger) == (made[0].provenance, made[0].ledger)
    # A release is finished once it is saved in any form.
    again.save(tmp_path / "1.npz")
    made[1].reprocess().save(tmp_path / "2.npz")
    account.finish(pickle.loads(pickle.dumps(made[2])))
    assert [x.entry.number for x in account.unfinished()] == [4]
    assert account.verify(*made) == 4
    with pytest.raises(ValueError, match="'account' must be the one that was charged"):
        account.finish(gm.release(tree, COUNTS, epsilon=1))
    with pytest.raises(ValueError, match="must know the release"):
        Account(epsilon=1, path=tmp_path / "other.json").finish(made[3])
    # A file that cannot be written leaves the copy.
    with pytest.raises(FileNotFoundError):
        made[3].save(tmp_path / "none" / "x.npz")
    assert len(account.unfinished()) == 1
    memory = Account(epsilon=1)
    memory.finish(gm.release(tree, COUNTS, epsilon=1, account=memory))
    assert memory.unfinished() == []


def test_a_failure_after_the_charge_loses_nothing(tmp_path, monkeypatch):
    account = Account(epsilon=1, path=tmp_path / NAME)
    with monkeypatch.context() as short:

        def fail(*arguments, **options):
            raise MemoryError

        short.setattr(Consistency, "project", fail)
        with pytest.raises(MemoryError):
            gm.release(TREE, COUNTS, epsilon="1/4", account=account)
    (item,) = account.unfinished()
    assert abs(item.load().values[0] - sum(COUNTS)) < 10_000


def test_a_traceback_does_not_show_an_uncharged_draw(tmp_path, monkeypatch):
    account = Account(epsilon=1, path=tmp_path / NAME)

    def fail(*arguments):
        raise OSError

    monkeypatch.setattr("gmtree.privacy.accounting.account.write", fail)
    with pytest.raises(OSError) as caught:  # noqa: PT011
        gm.release(TREE, COUNTS, epsilon=BUDGET, account=account)
    frame, held = caught.value.__traceback__, []
    while frame is not None:
        if "gmtree" in frame.tb_frame.f_code.co_filename:
            held += frame.tb_frame.f_locals.values()
        frame = frame.tb_next
    assert len(held) > 5
    assert not [x for x in held if isinstance(x, np.ndarray | gm.Release)]
    assert account.unfinished() == []
    assert account.spent == 0


def test_a_stored_copy_is_not_a_release_and_damage_is_noticed(tmp_path):
    account = Account(epsilon=1, path=tmp_path / NAME)
    gm.release(TREE, COUNTS, epsilon="1/4", account=account)
    (item,) = account.unfinished()
    copy = tmp_path / "x.npz"
    copy.write_bytes(item.path.read_bytes())
    with pytest.raises(ValueError, match="its format is 'gmtree stored copy 1'"):
        gm.Release.load(copy)
    data = bytearray(item.path.read_bytes())
    data[len(data) // 2] ^= 1
    item.path.write_bytes(data)
    with pytest.raises(ValueError, match="must be a file written by a release that is charged"):
        item.load()


# --------------------------------------------------------------------------- command line


def interrupted(folder, monkeypatch, out="out.csv"):
    """Run a release that ends before it writes its output."""
    with monkeypatch.context() as full:

        def fail(*arguments):
            raise KeyboardInterrupt

        full.setattr("gmtree.cli.release._write", fail)
        assert cli.main(command(folder, "-o", str(folder / out))) == cli.INTERRUPTED


def test_a_release_is_resumed(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "a folder"
    folder.mkdir()
    file, out = str(folder / NAME), str(folder / "out.csv")
    resume = ["release", "--resume", "--account", file, "-o", out]
    assert cli.main([*command(folder), "-o", out, "--dry-run"]) == 0
    assert cli.main(resume) == 2
    assert "has no release to resume" in capsys.readouterr().err
    interrupted(folder, monkeypatch)
    advice = capsys.readouterr().err
    assert "Entry 1 of " in advice
    assert f"--resume 1 --account '{file}' -o '{out}'" in advice
    # The user repeats the command, which must not charge again.
    assert cli.main([*command(folder), "-o", out]) == 2
    assert capsys.readouterr().err.count("without a further charge or draw") == 1
    assert cli.main(["account", file]) == 0
    shown = capsys.readouterr().out
    assert "entry 1 is charged but not saved" in shown
    assert "gmtree release --resume ENTRY" in shown
    for options in (["people.csv"], ["--epsilon", "1"], ["--dry-run"], ["--integer"]):
        assert cli.main([*resume, "--confidence", "0.9", *options]) == 2
        assert "--resume allows only --account, -o, --conf" in capsys.readouterr().err
    assert cli.main(["release", "--resume", "-o", out]) == 2
    assert "--resume needs --account FILE" in capsys.readouterr().err
    assert not Path(out).exists()
    assert cli.main(resume) == 0
    printed = capsys.readouterr().out
    assert "out.csv: 4 nodes, 3 leaves; entry 1 of " in printed
    assert "Privacy ledger" in printed
    assert cli.main(["verify", out, "--account", file]) == 0
    assert Account(path=file).unfinished() == []
    assert len(Account(path=file).entries) == 1


def test_one_of_several_releases_is_resumed(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    file, out = str(folder / NAME), str(folder / "out.csv")
    resume = ["--account", file, "-o", out]
    account = Account(epsilon=1, path=file)
    gm.release(TREE, COUNTS, epsilon="1/4", account=account)
    interrupted(folder, monkeypatch)
    assert cli.main(["release", "--resume", *resume]) == 2
    assert "write --resume ENTRY with one of 1 (2" in capsys.readouterr().err
    assert cli.main(["release", "--resume", "3", *resume]) == 2
    assert "choose from 1 (2" in capsys.readouterr().err
    assert cli.main(["release", "--resume", "2", *resume]) == 0
    assert ",place,value" in Path(out).read_text().splitlines()[0]
    assert [x.entry.number for x in account.unfinished()] == [1]
