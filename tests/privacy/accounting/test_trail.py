"""Trails of charges and tables in which every later edit is detected."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import gmtree as gm
from gmtree import cli
from gmtree._files import checksum
from gmtree._text import short
from gmtree.privacy import Account

TREE, COUNTS = gm.shapes.complete(2, 3), [3, 0, 2, 8]
PUBLIC = "a,b,n\nx,p,3\nx,q,0\ny,p,2\ny,q,8\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.json"


def charged(account, epsilon="1/10"):
    return gm.release(TREE, COUNTS, epsilon=epsilon, account=account)


def rewrite(path, change):
    """Edit an account and its checksum, like an attacker who knows the format."""
    data = json.loads(path.read_text())
    change(data)
    data["checksum"] = checksum(data)
    path.write_text(json.dumps(data))


def test_entries_form_a_chain(path):
    account = Account(epsilon=1, path=path, operator="jane", purpose="table 7")
    releases = [charged(account) for _ in range(3)]
    entries = account.entries
    assert len({x.hash for x in entries}) == 3
    assert [x.operator for x in entries] == ["jane"] * 3
    assert [x.purpose for x in entries] == ["table 7"] * 3
    # Two releases with the same terms have the same ledger, but not the same entry.
    assert entries[0].ledger == entries[1].ledger
    assert entries[0].release != entries[1].release
    before = ""
    for entry in entries:
        assert replace(entry, hash="").chained(before) != entry or before
        before = entry.hash
    assert account.verify(*releases) == Account(path=path).verify(*releases) == 3
    assert "release (table 7)" in str(account)
    assert "jane" in str(account)
    again = pickle.loads(pickle.dumps(account))
    assert (again.operator, again.purpose) == ("jane", "table 7")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["entries"][0].update(charged="1/10000", total="1/10000"),
        lambda d: d["entries"][1].update(operator="nobody"),
        lambda d: d["entries"][1].update(time="2020-01-01T00:00:00Z"),
        lambda d: d["entries"][2].update(hash="0" * 64),
        lambda d: d["entries"].reverse(),
        lambda d: d["entries"].insert(1, d["entries"][1]),
        lambda d: d.update(entries=[{**d["entries"][1], "number": 1}]),
        lambda d: d.update(budget="100"),
    ],
)
def test_a_changed_entry_is_noticed(path, change):
    account = Account(epsilon=1, path=path)
    for _ in range(3):
        charged(account)
    rewrite(path, change)
    with pytest.raises(ValueError, match="Argument 'path' must be the file of a privacy account"):
        Account(path=path)


def test_a_restored_backup_is_noticed_when_a_release_is_shown(path, tmp_path):
    account = Account(epsilon=1, path=path)
    first = charged(account)
    backup = tmp_path / "backup.json"
    shutil.copy(path, backup)
    second = charged(account)
    shutil.copy(backup, path)
    restored = Account(path=path)
    assert restored.verify(first) == 1
    text = r"the release, which was charged as entry 2. No entry of this account \(1 in total\)"
    with pytest.raises(ValueError, match=text):
        restored.verify(first, second)
    # Another release takes the place of the lost entry.
    charged(restored)
    with pytest.raises(ValueError, match=r"entry 2. No entry of this account \(2 in total\)"):
        restored.verify(second)
    with pytest.raises(ValueError, match="must know the release"):
        Account(epsilon=1).verify(first)
    with pytest.raises(ValueError, match="the release states no charge"):
        restored.verify(gm.release(TREE, COUNTS, epsilon=1))


def test_a_changed_ledger_is_noticed(path):
    account = Account(epsilon=1, path=path)
    r = charged(account)
    r.ledger = replace(r.ledger, max_contributions=7)
    with pytest.raises(ValueError, match="'ledger' must be the one that was charged as entry 1"):
        account.verify(r)


def test_all_kinds_of_releases_are_known(path):
    account = Account(rho=1, path=path)
    t = gm.release_tables(
        TREE, [[1, 2]] * 4, axes={"sex": 2}, queries=[()], rho="1/4", account=account
    )
    frame = gm.Tree.from_levels({"a": ["x", "y"], "b": ["p", "q"]}, levels=["a", "b"])
    r = gm.release(frame, [1, 2], rho="1/4", account=account, disclosures=["A table of 2020."])
    assert account.verify(t, r) == 2


def test_terms_of_the_trail():
    with pytest.raises(ValueError, match="'operator' must be printable text on one line"):
        Account(epsilon=1, operator="a\nb")
    with pytest.raises(ValueError, match="'purpose' must be printable text on one line"):
        Account(epsilon=1, purpose="\x1b[2J")


# --------------------------------------------------------------------------- command line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("public.csv").write_text(PUBLIC)
    assert cli.main(["account", "b.json", "--epsilon", "1"]) == 0
    return tmp_path


def run(*words):
    return cli.main(list(words))


def publish(out, *more):
    return run(
        "release", "public.csv", "--levels", "a,b", "--count", "n", "--tree", "public.csv",
        "--epsilon", "1/10", "-o", out, *more,
    )  # fmt: skip


def test_verify_commands(folder, capsys):
    for out in ("out.csv", "out.npz", "out.csv.gz"):
        assert publish(out, "--account", "b.json", "--purpose", "table 7") == 0
    capsys.readouterr()
    for k, out in enumerate(("out.csv", "out.npz", "out.csv.gz"), start=1):
        assert run("verify", out, "--account", "b.json") == 0
        assert f"entry {k} of {folder / 'b.json'} was charged for it" in capsys.readouterr().out
        assert run("verify", out) == 0
        assert "--account b.json compares it with its account" in capsys.readouterr().out
    assert run("account", "verify", "b.json", "out.csv", "out.npz") == 0
    assert "b.json: 3 entries, none changed or removed." in capsys.readouterr().out
    assert publish("free.csv") == 0
    assert run("verify", "free.csv") == 0
    assert "was not charged to an account" in capsys.readouterr().out
    assert run("account", "verify", "b.json", "out.csv", "free.csv") == 2
    assert "error: free.csv: Argument 'account' must be the one" in capsys.readouterr().err
    assert publish("x.csv", "--purpose", "none") == 2


def test_verify_a_release_whose_account_had_no_file(folder, capsys):
    account = Account(epsilon=1)
    gm.release(gm.shapes.star(3), [3, 4], epsilon=1, account=account).save("memory.NPZ")
    assert run("verify", "memory.NPZ") == 0
    assert "was charged to an account that was kept in memory only" in capsys.readouterr().out
    assert run("info", "memory.NPZ") == 0
    assert "entry 1 of the account in memory: epsilon 1" in capsys.readouterr().out


def test_info_shows_a_charge_in_few_digits(folder, capsys):
    assert run("account", "rho.json", "--epsilon", "3", "--delta", "1e-6") == 0
    assert publish("out.npz", "--account", "rho.json") == 0
    capsys.readouterr()
    assert run("info", "out.npz") == 0
    charged = Account(path="rho.json").entries[0].charged
    assert f"entry 1 of the account rho.json: rho {short(charged, up=True)}\n" in (
        capsys.readouterr().out
    )
    assert len(short(charged, up=True)) < 12


def test_verify_finds_what_was_changed(folder, capsys):
    assert publish("out.csv", "--account", "b.json") == 0
    assert publish("out.npz", "--account", "b.json") == 0
    text = Path("out.csv").read_bytes()
    shutil.copy("b.json", "now.json")
    capsys.readouterr()

    def fails(*words, text):
        assert run(*words) == 2
        assert text in capsys.readouterr().err

    Path("out.csv").write_bytes(text.replace(b"x", b"z", 1))
    fails("verify", "out.csv", text="it was changed since")
    Path("out.csv").write_bytes(text)
    beside = Path("out.csv.ledger.json")
    ledger = beside.read_text()
    beside.write_text(ledger.replace('"max_contributions": 1', '"max_contributions": 2'))
    fails("verify", "out.csv", text="must be the ledger of a release")
    data = json.loads(ledger)
    data["ledger"]["disclosures"] = ["None at all."]
    data["checksum"] = checksum(data)
    beside.write_text(json.dumps(data))
    assert run("verify", "out.csv") == 0
    fails("verify", "out.csv", "--account", "b.json", text="it was changed")
    beside.write_text(ledger)
    Path("out.npz").write_bytes(Path("out.npz").read_bytes()[:-40])
    fails("verify", "out.npz", text="must be a file written by Release.save")
    fails("verify", "missing.csv", text="does not exist")
    fails("verify", "public.csv", text="There is no ledger")
    assert run("account", "other.json", "--epsilon", "1") == 0
    capsys.readouterr()
    fails("account", "verify", "other.json", "out.csv", text="must know the release")
    fails("account", "b.json", "other.json", text="must follow 'verify'")
