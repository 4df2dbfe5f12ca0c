"""Accounts never exceed their budgets, also if releases are refused or killed; files and people."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import trees

import gmtree as gm
from gmtree import cli, privacy
from gmtree._files import checksum
from gmtree.privacy import Account
from gmtree.privacy.accounting import account as accounts
from gmtree.privacy.accounting import account_file
from gmtree.privacy.noise import words as random_words
from gmtree.privacy.noise.mechanism import Mechanism
from gmtree.privacy.publishing.people import Bounds, kept_records

TREE = gm.shapes.complete(2, 3)
COUNTS = [3, 0, 2, 5]


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "budget.json"


@pytest.fixture
def no_words(monkeypatch):
    """Fail the test if noise is drawn."""
    monkeypatch.setattr(random_words, "SYSTEM", None)


# --------------------------------------------------------------------------- composition


def test_releases_draw_from_an_account(path):
    account = Account(epsilon=1, path=path)
    r = gm.release(TREE, COUNTS, epsilon="1/2", account=account)
    t = gm.release_tables(
        TREE, [[1, 2]] * 4, axes={"sex": 2}, queries=[()], epsilon="1/4", account=account
    )
    assert (account.spent, account.left) == (Fraction(3, 4), Fraction(1, 4))
    assert account.epsilon() == Fraction(3, 4)
    first, second = account.entries
    assert (first.what, second.what) == ("release", "release_tables")
    assert first.tree == second.tree == r.provenance["tree"] == t.provenance["tree"]
    assert r.provenance["account"] == {
        "file": "budget.json", "entry": 1, "charged": "1/2", "measure": "epsilon",
        "hash": first.hash,
    }  # fmt: skip
    assert t.provenance["account"]["entry"] == 2
    text = str(Account(path=path))
    assert "spent 3/4, left 1/4" in text
    assert first.tree[:12] in text
    assert first.time in text


def test_what_exceeds_the_budget_is_refused_before_anything_is_drawn(path, no_words):
    account = Account(epsilon=1, path=path)
    with pytest.raises(ValueError, match="'account' must have 2 left in epsilon; it has 1 of 1"):
        gm.release(TREE, COUNTS, epsilon=2, account=account)
    frame = pd.DataFrame({"a": list("xxyz")})
    with pytest.raises(ValueError, match="'account' must have 2 left"):
        gm.release_frame(frame, ["a"], tree=frame.drop_duplicates(), epsilon=2, account=account)
    # Wrong counts are found before the account is charged.
    for wrong in ([1.5] * 4, [1] * 3):
        with pytest.raises((TypeError, ValueError), match="'counts'"):
            gm.release(TREE, wrong, epsilon=1, account=account)
    with pytest.raises(TypeError, match="'account' must be an Account"):
        gm.release(TREE, COUNTS, epsilon=1, account="budget.json")
    assert account.entries == ()


def test_an_account_protects_one_privacy_unit(path):
    """Losses per record and losses per person with three records must not be added."""
    account = Account(epsilon=4, max_contributions=3, path=path)
    gm.release(TREE, COUNTS, epsilon=1, max_contributions=3, account=account)
    with pytest.raises(ValueError, match=r"With max_contributions=3"):
        gm.release(TREE, COUNTS, epsilon=1, account=account)
    with pytest.raises(ValueError, match="must protect the same privacy unit, 3 records"):
        gm.release(TREE, COUNTS, epsilon=1, max_contributions=3, account=Account(epsilon=1))
    assert (account.spent, account.entries[0].max_contributions) == (1, 3)
    assert "It protects 3 records of a person, added or removed.\n" in str(account)
    with pytest.raises(ValueError, match=r"same terms; it has .* and protects 3 records"):
        Account(epsilon=4, path=path)
    records = PUBLIC.assign(who=range(len(PUBLIC)))
    people = Account(epsilon=1, person="who")
    made = gm.release_frame(
        records, LEVELS, tree=PUBLIC, epsilon="1/2", person="who", account=people
    )
    assert (people.entries[0].person, made.ledger.person) == ("who", "who")
    for terms in ({}, {"max_contributions": 3}):
        with pytest.raises(ValueError, match="all records of a person"):
            gm.release(TREE, COUNTS, epsilon="1/2", account=people, **terms)
    for wrong in ({"person": 3}, {"person": "a\nb"}, {"person": "who", "max_contributions": 2}):
        with pytest.raises((TypeError, ValueError)):
            Account(epsilon=1, **wrong)


def test_a_release_is_refused_before_and_charged_after_its_noise_is_drawn(path, monkeypatch):
    account = Account(rho=1, path=path)
    seen = []

    def fail(*args):
        seen.append(Account(path=path).spent)
        raise MemoryError

    monkeypatch.setattr(Mechanism, "draw", fail)
    with pytest.raises(MemoryError):
        gm.release(TREE, COUNTS, rho="1/2", account=account)
    assert seen == [0]
    assert account.left == 1
    assert not account.unfinished()
    with pytest.raises(ValueError, match="must have 2 left in rho"):
        gm.release(TREE, COUNTS, rho=2, account=account)
    assert len(seen) == 1


def test_floats_are_taken_at_their_exact_value():
    account = Account(epsilon=1)
    for _ in range(9):
        gm.release(TREE, COUNTS, epsilon=0.1, account=account)
    with pytest.raises(ValueError, match=r"left in epsilon.* A float is taken at its exact value"):
        gm.release(TREE, COUNTS, epsilon=0.1, account=account)
    with pytest.raises(ValueError, match=r"left in epsilon; it has \S+ of 1[.]$"):
        gm.release(TREE, COUNTS, epsilon=0.7, account=account)  # more than rounding explains
    account = Account(epsilon=1)
    for _ in range(10):
        gm.release(TREE, COUNTS, epsilon="0.1", account=account)
    assert account.left == 0


def test_what_an_account_would_refuse_can_be_asked():
    account = Account(epsilon=1)
    account.check(TREE, privacy.allocate(TREE, epsilon=1))
    assert account.left == 1
    with pytest.raises(ValueError, match="must have 2 left in epsilon; it has 1 of 1"):
        account.check(TREE, privacy.allocate(TREE, epsilon=2))
    with pytest.raises(ValueError, match="must be for neighbors='change_one'"):
        account.check(TREE, privacy.allocate(TREE, epsilon=1, neighbors="change_one"))
    assert not account.entries


def test_a_pure_release_that_an_account_for_delta_refuses_is_told_what_to_do():
    account = Account(epsilon=1, delta=1e-6)
    (left,) = re.findall("left ([0-9.]+)", str(account))
    (budget,) = re.findall("rho = ([0-9.]+)", str(account))
    assert left == budget
    with pytest.raises(
        ValueError, match="An epsilon of 1 without delta costs that much in rho; with delta it"
    ):
        gm.release(TREE, COUNTS, epsilon=1, account=account)
    gm.release(TREE, COUNTS, epsilon=1, delta=1e-6, account=account)


def test_a_file_is_not_an_account_but_the_message_opens_it():
    with pytest.raises(TypeError, match=r"gmtree[.]privacy[.]Account\(path='budget.json'\)"):
        gm.release(TREE, COUNTS, epsilon=1, account="budget.json")


def test_pure_releases_in_an_account_in_rho():
    """Each of three levels has scale 3, so the loss in rho is three times 1/18, not 1/2."""
    account = Account(rho=1)
    gm.release(TREE, COUNTS, epsilon=1, account=account)
    assert account.spent == Fraction(3, 18)
    # With one count the loss in rho is epsilon^2 / 2, and never more than epsilon.
    account = Account(rho=100)
    one = gm.shapes.chain(1)
    for epsilon, cost in (("1/2", Fraction(1, 8)), (10, 10)):
        before = account.spent
        gm.release(one, [5], epsilon=epsilon, account=account)
        assert account.spent - before == cost
    # Laplace noise with a budget in rho has an epsilon, Gaussian noise has none.
    pure = Account(epsilon=3)
    gm.release(TREE, COUNTS, rho="1/2", mechanism="discrete_laplace", account=pure)
    scale = gm.plan(TREE, rho="1/2", mechanism="discrete_laplace").ledger.scales[0]
    assert 0 <= pure.spent - 3 / scale < Fraction(1, 2**50)
    with pytest.raises(ValueError, match="'account' must be in rho for discrete Gaussian noise"):
        gm.release(TREE, COUNTS, rho="1/100", account=pure)


def test_accounts_with_a_target(path):
    account = Account(epsilon=1, delta="1e-9", path=path)
    assert account.budget == privacy.gaussian_rho(1, "1e-9")
    gm.release(TREE, COUNTS, epsilon="1/2", delta="1e-9", account=account)
    assert account.epsilon("1e-9") <= 0.501
    gm.release(TREE, COUNTS, rho=account.left * Fraction("0.99"), account=account)
    assert account.epsilon("1e-9") <= 1
    again = Account(path=path)
    assert again.target == (1, Fraction(1, 10**9))
    assert "chosen for epsilon = 1 with delta = 1e-9" in str(again)
    with pytest.raises(ValueError, match="'delta' must be given"):
        account.epsilon()


def test_an_account_may_have_a_budget_with_other_last_digits(path, monkeypatch):
    """Other versions of scipy may choose another rho for a target, which must not matter."""
    old = Account(epsilon=1, delta="1e-9", path=path)
    other = privacy.gaussian_rho(1, "1e-9") * (1 - Fraction(1, 2**50))
    monkeypatch.setattr("gmtree.privacy.accounting.account_file.gaussian_rho", lambda *_: other)
    assert Account(epsilon=1, delta="1e-9", path=path).budget == old.budget != other
    with pytest.raises(ValueError, match="must have the same terms"):
        Account(epsilon=1, delta="1e-8", path=path)


def test_neighbours_of_an_account_are_fixed():
    account = Account(epsilon=1, neighbors="change_one")
    with pytest.raises(ValueError, match="must be for neighbors='add_remove'"):
        gm.release(TREE, COUNTS, epsilon=1, account=account)
    gm.release(TREE, COUNTS, epsilon=1, neighbors="change_one", account=account)
    assert account.left == 0


amounts = st.fractions(min_value=Fraction(1, 1000), max_value=2, max_denominator=1000)


@settings(max_examples=40, deadline=None)
@given(trees(8), st.sampled_from(["epsilon", "rho"]), st.data())
def test_random_sequences_of_releases_never_exceed_the_budget(tree, measure, data):
    account = Account(**{measure: data.draw(amounts)})
    counts, tables = [1] * tree.n_leaves, [[1, 2]] * tree.n_leaves
    spent = Fraction(0)
    for _ in range(data.draw(st.integers(1, 6))):
        kind = data.draw(st.sampled_from(["epsilon", "rho", "tables", "target"]))
        amount = data.draw(amounts) / 3
        terms = {"rho": amount} if kind == "rho" else {"epsilon": amount}
        if kind == "target":
            terms["delta"] = 1e-6
        try:
            if kind == "tables":
                queries = {"axes": {"a": 2}, "queries": [(), ("a",)]}
                r = gm.release_tables(tree, tables, account=account, **queries, **terms)
            else:
                r = gm.release(tree, counts, account=account, **terms)
        except ValueError as error:
            if "Argument 'account' must" not in str(error):
                raise
            continue
        same = r.ledger.measure == measure
        total = r.ledger.total if same else account.entries[-1].charged
        # The loss, computed again from the scales of the noise.
        one = [
            Fraction(0) if s is None else 1 / s if measure == "epsilon" else 1 / (2 * s * s)
            for s in r.ledger.scales
        ]
        if kind != "tables":
            assert sum(one) <= total * (1 + Fraction(1, 2**50))
        spent += total
        assert account.entries[-1].charged >= total
    assert spent <= account.spent <= account.budget


# --------------------------------------------------------------------------- several at once


RACE = """
import os, sys
import gmtree as gm
from gmtree.privacy import Account

path = sys.argv[1]
Account(epsilon=1, path=path)
gm.release(gm.shapes.star(3), [1, 2], epsilon="1/8", account=Account(epsilon=1))
children = []
for _ in range(12):
    number = os.fork()
    if number == 0:
        try:
            gm.release(gm.shapes.star(3), [1, 2], epsilon="1/8", account=Account(path=path))
        except ValueError:
            os._exit(1)
        os._exit(0)
    children.append(number)
done = [os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) for number in children]
print(done.count(0), done.count(1), Account(path=path).left)
"""


def python(code: str, *arguments: str) -> list[str]:
    """The words that some code prints in a new process."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@needs_fork
def test_processes_wait_for_each_other(path):
    assert python(RACE, str(path)) == ["8", "4", "0"]


def test_threads_wait_for_each_other(path):
    for account in (Account(epsilon=1, path=path), Account(epsilon=1)):
        refused = []

        def run(account=account, refused=refused):
            try:
                gm.release(TREE, COUNTS, epsilon="1/8", account=account)
            except ValueError:
                refused.append(1)

        threads = [threading.Thread(target=run) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 4
        assert account.left == 0
        assert [entry.number for entry in account.entries] == list(range(1, 9))


FORK = """
import os, signal, sys, threading
import gmtree as gm
from gmtree.privacy import Account
from gmtree.privacy.accounting import account as accounts
from gmtree.privacy.accounting import account_file

tree = gm.shapes.star(3)
allocation = gm.privacy.allocate(tree, epsilon="1/8")


def in_child(account):
    number = os.fork()
    if number:
        return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    signal.alarm(20)  # a child that waits forever is killed
    try:
        account.charge(tree, allocation)
    except ValueError as error:
        os._exit(1 if "must be used in the process that created it" in str(error) else 2)
    os._exit(0)


def during_a_charge(account):
    # A thread of this process has the lock while the child is forked, and gives it up later.
    forked, charging, now = threading.Event(), threading.Event(), accounts.now

    def wait():
        if not forked.is_set():
            charging.set()
            forked.wait(20)
        return now()

    accounts.now = wait
    thread = threading.Thread(target=account.charge, args=(tree, allocation))
    thread.start()
    charging.wait(20)
    threading.Timer(0.2, forked.set).start()
    if account.path is not None:
        # The child must not wait for the event, of which it has a copy.
        os.register_at_fork(after_in_child=lambda: setattr(accounts, "now", now))
    status = in_child(account)
    thread.join()
    accounts.now = now
    return status


memory, file = Account(epsilon=1), Account(epsilon=1, path=sys.argv[1])
print(*(in_child(memory) for _ in range(3)), memory.left)
print(in_child(file), file.left)
print(during_a_charge(memory), memory.left)
print(during_a_charge(file), file.left)
"""


@needs_fork
def test_forked_processes(path):
    """Forked children refuse accounts in memory, and neither keep nor wait for their parent's lock.

    The codes are those of the children: 0 for a charge, 1 for a refusal.
    """
    words = ["1", "1", "1", "1", "0", "7/8", "1", "7/8", "0", "5/8"]
    assert python(FORK, str(path)) == words


def test_readers_beside_a_charge_do_not_miss_entries(path, monkeypatch):
    account = Account(epsilon=1, path=path)
    read, allocation = accounts.read, privacy.allocate(TREE, epsilon="1/8")

    def charged_meanwhile(file):
        state = read(file)
        monkeypatch.setattr(accounts, "read", read)
        account.charge(TREE, allocation)
        return state

    monkeypatch.setattr(accounts, "read", charged_meanwhile)
    # The reader sees the file as it was before the charge, which is not an error.
    assert account.spent == 0
    assert account.spent == Fraction(1, 8)
    # The account remembers the new entry nevertheless.
    monkeypatch.setattr(accounts, "read", lambda file: replace(read(file), entries=()))
    with pytest.raises(ValueError, match="lost or changed entries"):
        account.left  # noqa: B018


# --------------------------------------------------------------------------- killed anywhere

# In one process, so that the package is loaded once: each child runs a release and ends itself,
# without any clean-up, at the k-th line that it meets in the files below, while it opens the
# account or while it charges it.
KILL = """
import os, sys
from pathlib import Path
import gmtree as gm
from gmtree import _files
from gmtree.privacy import Account
from gmtree.privacy.accounting import account, account_file, unfinished
from gmtree.privacy.files import provenance
from gmtree.privacy.publishing import measuring, publish
import gmtree.privacy.noise.inversion, ssl, fcntl

folder = Path(sys.argv[1])
tree = gm.shapes.star(3)
MODULES = (_files, account, account_file, measuring, provenance, publish, unfinished)
FILES = {m.__file__ for m in MODULES}
gm.release(tree, [1, 2], epsilon="1/4", account=Account(epsilon=1))

def child(budget, out, k):
    seen, phase = set(), "opening"
    def trace(frame, event, argument):
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            seen.add((phase, frame.f_code.co_filename, frame.f_lineno))
            if len(seen) == k:
                os._exit(9)
        return trace
    sys.settrace(trace)
    acc = Account(epsilon=1, path=budget)
    phase = "charging"
    try:
        r = gm.release(tree, [1, 2], epsilon="1/4", account=acc)
    except ValueError:
        os._exit(3)
    phase = "saving"
    r.save(out)
    os._exit(0)

def spawn(budget, out, k):
    number = os.fork()
    if number == 0:
        child(budget, out, k)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])

k, killed_before, killed_after = 0, 0, 0
while True:
    k += 2  # test_unfinished.py looks at the disk after every line
    budget, out = folder / f"{k}.json", folder / f"{k}.npz"
    status = spawn(budget, out, k)
    acc = Account(epsilon=1, path=budget)
    entries, stored = len(acc.entries), len(acc.unfinished())
    assert entries in (0, 1)
    assert out.exists() <= entries, "published without a charge"
    assert stored <= entries <= stored + out.exists(), "charged and lost"
    if status == 0:
        break
    assert status == 9
    killed_before += entries == 0
    killed_after += entries == 1
    # What is left behind does not stop others, and the budget holds.
    if k % 40 == 0:
        more = [spawn(budget, folder / "x.npz", 10**9) for _ in range(5)]
        assert more.count(0) == 4 - entries and more.count(3) == 1 + entries
        assert Account(path=budget).left == 0
print(k, killed_before, killed_after)
"""


@needs_fork
def test_a_process_may_end_at_any_line():
    # In memory if that is possible, since the thousand files need not reach a disk.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        lines, before, after = map(int, python(KILL, folder))
    assert lines > 150
    assert before > 50
    assert after > 10


# --------------------------------------------------------------------------- files


def test_an_account_is_continued(path):
    account = Account(rho="1/3", path=path)
    gm.release(TREE, COUNTS, rho="1/9", account=account)
    same = Account(rho=Fraction(1, 3), path=path)
    assert same.entries == account.entries == pickle.loads(pickle.dumps(account)).entries
    for terms in ({"rho": 1}, {"epsilon": "1/3"}, {"rho": "1/3", "neighbors": "change_one"}):
        with pytest.raises(ValueError, match="'path' must have the same terms; it has a budget of"):
            Account(path=path, **terms)
    assert repr(account) == f"Account(rho=1/3, spent=1/9, path={str(path)!r})"


def test_wrong_terms(path):
    for terms, words in (
        ({}, "'epsilon' or argument 'rho' must be given"),
        ({"epsilon": 1, "rho": 1}, "not both"),
        ({"rho": 1, "delta": 1e-9}, "'delta' must be None if 'rho' is given"),
        ({"epsilon": 0}, "'epsilon' must be above 0"),
        ({"epsilon": 1, "neighbors": "x"}, "'neighbors' must be"),
        ({"epsilon": 1, "path": path.parent}, "'path' must be a file"),
        ({"epsilon": 1, "path": path / "x" / "y"}, "'path' must be in a folder"),
        ({"path": path}, "'budget.json' cannot be read"),
        ({"epsilon": "1e-1000", "path": path}, "amounts that|amounts such as"),
    ):
        with pytest.raises(ValueError, match=words):
            Account(**terms)
    assert not path.exists()
    with pytest.raises(TypeError, match="would double its budget"):
        pickle.dumps(Account(epsilon=1))


def test_links_lead_to_one_account(path, tmp_path):
    account = Account(epsilon=1, path=path)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    gm.release(TREE, COUNTS, epsilon="1/2", account=Account(path=link))
    assert link.is_symlink()
    assert account.left == Fraction(1, 2)
    (tmp_path / "hard.json").hardlink_to(path)
    with pytest.raises(ValueError, match="several names"):
        gm.release(TREE, COUNTS, epsilon="1/4", account=account)


def test_entries_cannot_vanish_under_a_running_program(path):
    account = Account(epsilon=1, path=path)
    before = path.read_bytes()
    gm.release(TREE, COUNTS, epsilon="1/2", account=account)
    path.write_bytes(before)
    with pytest.raises(ValueError, match="lost or changed entries"):
        gm.release(TREE, COUNTS, epsilon="1/2", account=account)
    path.unlink()
    with pytest.raises(ValueError, match="cannot be read"):
        gm.release(TREE, COUNTS, epsilon="1/2", account=account)


def stored(path: Path) -> dict:
    account = Account(epsilon=1, delta=1e-6, path=path)
    gm.release(TREE, COUNTS, rho=account.left / 2, account=account)
    return json.loads(path.read_text())


def refused(path: Path, data: object) -> None:
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    with pytest.raises(ValueError, match="Argument 'path' must be the file of a privacy account"):
        Account(path=path)


def test_malformed_files_are_refused(path):
    data = stored(path)
    text = path.read_text()
    for wrong in (
        "",
        "{",
        "[]",
        "null",
        "1e999",
        "[" * 100_000,
        text[:-20],
        text.replace("1", "2"),
    ):
        refused(path, wrong)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is not JSON"):
        Account(path=path)
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(text.encode())
        damaged[rng.integers(len(damaged))] ^= 1 << int(rng.integers(7))
        path.write_bytes(bytes(damaged))
        try:
            same = Account(path=path)
        except ValueError:
            continue
        # Only irrelevant characters, such as a space, may differ.
        assert len(same.entries) == 1
    assert set(data) == {
        "format",
        "measure",
        "budget",
        "target",
        "neighbors",
        "max_contributions",
        "person",
        "entries",
        "checksum",
    }


VALUES = [
    None,
    "x",
    "",
    -1,
    0,
    1.5,
    True,
    [],
    {},
    "1/0",
    "1e9",
    "-1/2",
    "9" * 2000,
    [1],
    ["1", "x"],
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_any_part_of_a_file_is_right_or_a_value_error(path, value):
    data = stored(path)
    for where in ("account", "entry"):
        for key in data if where == "account" else data["entries"][0]:
            other = json.loads(json.dumps(data))
            (other if where == "account" else other["entries"][0])[key] = value
            if other == data or key == "checksum":
                continue
            if where == "account" and (key, value) in [("entries", []), ("target", None)]:
                continue
            is_text = key in ("what", "version", "time", "tree")
            if where == "entry" and is_text and isinstance(value, str):
                continue
            if where == "entry" and key in ("invariants", "disclosures", "nodes") and value == 0:
                continue
            other["checksum"] = checksum(other)
            refused(path, other)


def test_a_file_that_overspends_is_refused(path):
    data = stored(path)
    for change in (
        {"budget": str(Fraction(data["budget"]) / 3)},
        {"budget": str(Fraction(data["budget"]) * 2)},
        {"entries": data["entries"] * 2},
        {"entries": [{**data["entries"][0], "charged": "0"}]},
        {"entries": [{**data["entries"][0], "more": 1}]},
        {"measure": "epsilon"},
    ):
        other = {**data, **change}
        other["checksum"] = checksum(other)
        refused(path, other)


def test_hostile_files_are_refused_soon(path):
    data = stored(path)
    nested: list = []
    for _ in range(990):
        nested = [nested]
    entry = data["entries"][0]
    # Distinct denominators of 900 digits: their sum would have millions.
    long = [f"1/{10**900 + k}" for k in range(3000)]
    losses = [{**entry, "number": k, "charged": x} for k, x in enumerate(long, start=1)]
    for change in (
        {"target": nested},
        {"more": nested},
        {"entries": [{**entry, "what": nested}]},
        {"entries": [{**entry, "what": "\x1b[2J"}]},
        {"entries": losses},
    ):
        other = {**data, **change}
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(10_000)
        try:
            other["checksum"] = checksum(other)
            text = json.dumps(other)
        finally:
            sys.setrecursionlimit(limit)
        refused(path, text)


def test_many_charges_with_different_denominators_can_be_shown(path):
    stored(path)
    state = account_file.read(path)
    entries, before = [], replace(state, entries=()).hash
    for k, x in enumerate(range(2**63, 2**63 + 400), start=1):
        one = replace(state.entries[0], number=k, total=Fraction(0), charged=Fraction(1, x))
        entries.append(one.chained(before))
        before = entries[-1].hash
    account_file.write(path, replace(state, entries=tuple(entries)))
    assert "spent 4.33681e-17" in str(Account(path=path))


# --------------------------------------------------------------------------- provenance


def test_saved_releases_tell_where_they_come_from(tmp_path, path):
    account = Account(epsilon=1, path=path)
    r = gm.release(TREE, COUNTS, epsilon="1/2", integer=True, account=account)
    for name in ("r.npz", "r.parquet"):
        r.save(tmp_path / name)
        again = gm.Release.load(tmp_path / name)
        assert again.provenance == r.provenance == pickle.loads(pickle.dumps(r)).provenance
    origin = r.provenance
    assert origin["versions"]["gmtree"] == gm.__version__
    assert origin["options"] == {"nonnegative": False, "integer": True}
    assert origin["time"].endswith("Z")
    assert r.reprocess().provenance["options"]["integer"] is False
    other = gm.release(gm.shapes.star(3), [1, 2], epsilon=1)
    assert other.provenance["account"] is None
    assert other.provenance["tree"] != origin["tree"]
    assert other.to_frame() is not None


def test_ledgers_beside_tables(tmp_path):
    r = gm.release(TREE, COUNTS, epsilon="1/2")
    path = tmp_path / "t.csv.ledger.json"
    r.save_ledger(path)
    assert privacy.load_ledger(path) == r.ledger
    text = path.read_text()
    for wrong in ("", "[]", text[:-9], text.replace("1/2", "1/4"), "[" * 100_000):
        path.write_text(wrong)
        with pytest.raises(ValueError, match="must be the ledger of a release"):
            privacy.load_ledger(path)


def test_fingerprints_tell_trees_apart():
    from gmtree.privacy.files.packing import fingerprint

    dates = pd.date_range("2020-01-01", periods=3)
    found = [
        fingerprint(tree)
        for tree in (
            gm.shapes.star(3),
            gm.shapes.chain(3),
            gm.Tree.from_parents([-1, 0, 0], labels=["a", "b", "c"]),
            gm.Tree.from_parents([-1, 0, 0], labels=["a", "c", "b"]),
            gm.Tree.from_parents([-1, 0, 0], labels=dates.to_pydatetime()),
            gm.Tree.from_levels({"x": ["b", "c"]}, levels=["x"]),
            gm.Tree.from_levels({"y": ["b", "c"]}, levels=["y"]),
        )
    ]
    assert len(set(found)) == len(found)


# --------------------------------------------------------------------------- people


def kept_slowly(leaf, leaf_key, whose, key, bounds: Bounds) -> list[tuple[int, int]]:
    """Pairs (person, leaf) of the records that are kept, one person at a time."""
    from gmtree.privacy.files.packing import splitmix

    out = []
    for person in sorted(set(whose)):
        own = [place for place, other in zip(leaf, whose, strict=True) if other == person]

        def rank(place, person=person):
            inner = splitmix(leaf_key[place : place + 1])
            return int(splitmix(key[person : person + 1] ^ inner)[0]), place

        left = bounds.records
        for place in sorted(set(own), key=rank)[: bounds.leaves]:
            here = min(own.count(place), bounds.per_leaf, left)
            out += [(person, place)] * here
            left -= here
    return sorted(out)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40),
       st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3)),
       st.integers(0, 1000))  # fmt: skip
def test_records_that_stay(rows, bounds, seed):
    leaf, whose = (np.array(x) for x in zip(*rows, strict=True))
    whose = np.unique(whose, return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    key = rng.integers(0, 2**63, whose.max() + 1).astype(np.uint64)
    leaf_key = rng.integers(0, 2**63, 5).astype(np.uint64)
    limits = Bounds(*bounds)
    stay = kept_records(leaf, leaf_key, whose, key, limits)
    found = sorted(zip(whose[stay].tolist(), leaf[stay].tolist(), strict=True))
    assert found == kept_slowly(leaf.tolist(), leaf_key, whose.tolist(), key, limits)
    # Neither other people nor the order of rows change which records of a person are kept.
    some = rng.permutation(np.flatnonzero(whose == 0))
    alone = kept_records(leaf[some], leaf_key, whose[some], key, limits)
    assert sorted(leaf[some][alone].tolist()) == [place for who, place in found if who == 0]


LEVELS = ["state", "town"]
PUBLIC = pd.DataFrame([(a, b) for a in "ab" for b in "xyz"], columns=LEVELS)


def people(seed: int, rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = PUBLIC.iloc[rng.integers(0, 6, rows)].reset_index(drop=True)
    return frame.assign(who=rng.choice([f"person {k}" for k in range(15)], rows))


def released(frame: pd.DataFrame, **options) -> np.ndarray:
    """Counts of the leaves after the rule was applied, with almost no noise."""
    r = gm.release_frame(frame, LEVELS, tree=PUBLIC, rho=10**8, person="who", **options)
    assert r.ledger.enforced
    return r.values[r.tree.leaves].round()


@pytest.mark.parametrize("options", [
    {"max_contributions": 3}, {"max_leaves": 2, "max_per_leaf": 2},
    {"max_contributions": 3, "max_leaves": 2, "max_per_leaf": 2},
])  # fmt: skip
def test_one_person_more_changes_as_much_as_the_ledger_says(options):
    for seed in range(5):
        frame = people(seed)
        full = released(frame, **options)
        np.testing.assert_array_equal(
            full, released(frame.sample(frac=1, random_state=1), **options)
        )
        for who in frame["who"].unique()[:4]:
            change = full - released(frame[frame["who"] != who], **options)
            assert (change >= 0).all()
            assert change.sum() <= min(options.get("max_contributions", 99), 4)
            assert np.count_nonzero(change) <= options.get("max_leaves", 99)
            assert change.max() <= options.get("max_per_leaf", 99)


def test_the_ledger_tells_enforced_from_promised():
    frame = people(0)
    enforced = gm.release_frame(frame, LEVELS, tree=PUBLIC, epsilon=1, person="who",
                                max_contributions=2)  # fmt: skip
    promised = gm.release_frame(frame, LEVELS, tree=PUBLIC, epsilon=1, max_contributions=2)
    assert enforced.ledger.scales == promised.ledger.scales
    assert "(enforced: further records were left out" in str(enforced.ledger)
    assert "at most 2 records (asserted by the caller, not enforced)." in str(promised.ledger)
    spread = gm.release_frame(frame, LEVELS, tree=PUBLIC, rho=1, person="who", max_leaves=4,
                              max_per_leaf=1)  # fmt: skip
    together = gm.release_frame(frame, LEVELS, tree=PUBLIC, rho=1, person="who",
                                max_contributions=4)  # fmt: skip
    assert spread.ledger.max_contributions == 4
    assert all(a < b for a, b in zip(spread.ledger.scales, together.ledger.scales, strict=True))


def test_wrong_rules_about_people():
    frame = people(0).assign(n=1)
    good = {"frame": frame, "levels": LEVELS, "tree": PUBLIC, "epsilon": 1}
    missing = frame.assign(who=frame["who"].where(frame.index != 7))
    for change, words in (
        ({"person": "nobody"}, "'person' must name columns of the frame"),
        ({"person": "who", "count": "n"}, "'person' must be None if 'count' is given"),
        ({"person": "who", "max_leaves": 2}, "'max_leaves' must come with 'max_per_leaf' or"),
        ({"person": "who", "max_contributions": 0}, "'max_contributions' must be at least 1"),
        ({"max_leaves": 2, "max_per_leaf": 1}, "'max_leaves' must be None without 'person'"),
        ({"person": "who", "max_leaves": 2, "max_per_leaf": 1, "neighbors": "change_one"},
         "'max_leaves' must be None with neighbors='change_one'"),
        ({"person": "who", "frame": missing}, "'person' must be known in each row; row 7"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            gm.release_frame(**{**good, **change})


# --------------------------------------------------------------------------- command line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people(0).to_csv("people.csv", index=False)
    PUBLIC.to_csv("leaves.csv", index=False)
    return tmp_path


def run(*words: str) -> int:
    return cli.main(list(words))


RELEASE = ("release", "people.csv", "--levels", "state,town", "--tree", "leaves.csv")


def test_commands_charge_an_account(folder, capsys):
    assert run("account", "b.json", "--epsilon", "1") == 0
    assert run(*RELEASE, "--epsilon", "0.6", "--account", "b.json", "-o", "out.csv") == 0
    ledger = privacy.load_ledger("out.csv.ledger.json")
    assert ledger.total == Fraction(6, 10)
    data = json.loads(Path("out.csv.ledger.json").read_text())
    assert data["table"]["file"] == "out.csv"
    assert data["provenance"]["account"]["entry"] == 1
    capsys.readouterr()
    assert run(*RELEASE, "--epsilon", "0.6", "--account", "b.json", "-o", "no.csv") == 2
    assert "'account' must have 3/5 left in epsilon; it has 2/5 of 1" in capsys.readouterr().err
    assert not Path("no.csv").exists()
    assert run("account", "b.json") == 0
    assert "spent 3/5, left 2/5" in capsys.readouterr().out
    assert run("info", "out.csv.ledger.json") == 0
    assert "entry 1 of the account b.json: epsilon 3/5" in capsys.readouterr().out
    for words in (("account", "people.csv"), ("account", "none.json"),
                  ("account", "b.json", "--delta", "0.1"), ("account", "b.json", "--rho", "2"),
                  (*RELEASE, "--epsilon", "1", "--account", "none.json", "-o", "x.csv"),
                  ("info", "b.json")):  # fmt: skip
        assert run(*words) == 2
        assert capsys.readouterr().err.startswith("gmtree: error: ")
    assert not Path("none.json").exists()


def test_commands_enforce_bounds_on_people(folder, capsys):
    options = ("--person", "who", "--max-contributions", "2", "--epsilon", "100000")
    assert run(*RELEASE, *options, "-o", "out.npz") == 0
    made = gm.Release.load("out.npz")
    assert made.ledger.enforced
    same = gm.release_frame(people(0), LEVELS, tree=PUBLIC, person="who", max_contributions=2,
                            epsilon=10**5)  # fmt: skip
    np.testing.assert_array_equal(made.values, same.values.round())
    assert run(*RELEASE, "--person", "state", "--epsilon", "1", "-o", "x.csv") == 2
    assert "--person must not be one of --levels" in capsys.readouterr().err


def test_commands_take_targets(folder, capsys):
    assert run(*RELEASE, "--epsilon", "1", "--delta", "1e-9", "-o", "out.npz") == 0
    assert "chosen for epsilon = 1 with delta = 1e-9" in capsys.readouterr().out
    assert 0.999 <= gm.Release.load("out.npz").ledger.epsilon("1e-9") <= 1


def test_info_about_tables(folder, capsys):
    r = gm.release_tables(TREE, [[1, 2]] * 4, axes={"sex": 2}, queries=[("sex",)], rho=1)
    r.save("t.npz")
    assert run("info", "t.npz") == 0
    out = capsys.readouterr().out
    assert "Expected error by level and query, rho = 1" in out
    assert "by release_tables of gmtree" in out


def test_floats_are_written_as_given_and_refusals_tell_how_to_write_decimals():
    tree, account = gm.shapes.star(3), gm.privacy.Account(epsilon="0.3")
    r = gm.release(tree, [1, 2], epsilon=0.1, account=account)
    assert repr(r).endswith("epsilon=0.1)")
    gm.release(tree, [1, 2], epsilon=0.1, account=account)
    with pytest.raises(ValueError, match=r'have 0\.1 left .* exact value.* write "0\.1" as text'):
        gm.release(tree, [1, 2], epsilon=0.1, account=account)
    exact = gm.privacy.Account(epsilon="0.3")
    for _ in range(3):
        gm.release(tree, [1, 2], epsilon="0.1", account=exact)
    assert exact.left == 0
    with pytest.raises(ValueError, match=r"it has 0 of 3/10\.$"):
        gm.release(tree, [1, 2], epsilon="0.1", account=exact)
