"""Random files and options: the command line prints results or an error, never a traceback.

Five seconds of them as part of the tests; ``GMTREE_FUZZ_SECONDS`` sets another time.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
from pathlib import Path
from time import monotonic

import hypothesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from limited import at_most

import gmtree as gm
from gmtree import cli

SECONDS = float(os.environ.get("GMTREE_FUZZ_SECONDS", "5"))
# These commands are fast, but the first of each kind may have to compile kernels.
SECONDS_PER_COMMAND = 120

# --------------------------------------------------------------------------- files

WORDS = ["state", "county", "n", "NY", "VT", "Orange", "7", "-3", "1_000", "2.5", "9" * 30]
MARKS = [*",,,,", *"\n\n\n", "\r\n", "\r", '"', '""', " ", "\0", "\ufeff", "é", "x" * 140_000]

cells = st.sampled_from(["NY", "VT", "Orange", "Albany", "7", "0", "12", "", "-1", "x y", '"a,b"'])
good_rows = st.lists(st.tuples(cells, cells, st.integers(0, 50)), max_size=6)
tables = st.one_of(
    st.lists(st.sampled_from(WORDS + MARKS), max_size=25).map("".join).map(str.encode),
    st.binary(max_size=40),
    good_rows.map(
        lambda rows: "state,county,n\n" + "".join(f"{a},{b},{n}\n" for a, b, n in rows)
    ).map(str.encode),
)


def saved_release() -> bytes:
    stream = io.BytesIO()
    path = Path("made.npz")
    gm.release(gm.shapes.complete(2, 3), [5, 6, 7, 8], epsilon=1).save(path)
    stream.write(path.read_bytes())
    path.unlink()
    return stream.getvalue()


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    changed = bytearray(whole)
    for _ in range(draw(st.integers(0, 3))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed[: draw(st.integers(0, len(changed)))] if draw(st.booleans()) else changed)


# --------------------------------------------------------------------------- options

numbers = st.one_of(
    st.sampled_from(["1", "0.5", "1/3", "0", "-1", "nan", "inf", "1e-6", "1e9", "x", "", "1/0"]),
    st.text(max_size=4),
)
levels = st.one_of(
    st.sampled_from(["state,county", "state", "county,state", "state,state", ",", "n", "a,b"]),
    st.text(max_size=6),
)
files = st.sampled_from(
    [
        "table.csv",
        "table.csv.gz",
        "table.parquet",
        "made.npz",
        "none.csv",
        "folder.csv",
        "x.txt",
        "",
    ]
)
outputs = st.sampled_from(
    ["out.csv", "out.csv.gz", "out.npz", "out.parquet", "-", "none/out.csv", "table.csv", "out", ""]
)


def option(name: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    return st.one_of(st.just([]), values.map(lambda value: [f"{name}={value}"]))


def flag(name: str) -> st.SearchStrategy[list[str]]:
    return st.sampled_from([[], [name]])


def command(*parts: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    return st.tuples(*parts).map(lambda lists: [word for part in lists for word in part])


whole = st.sampled_from(["1", "2", "0", "-1", "x", "1.5", "99999999999999999999999"])
releases = command(
    st.just(["release"]),
    files.map(lambda name: [name]),
    option("--levels", levels),
    option("--count", st.sampled_from(["n", "state", "x", ""])),
    option("--epsilon", numbers),
    option("--rho", numbers),
    option("--delta", numbers),
    option("--shares", st.sampled_from(["equal", "nodes", "leaves", "1,2", "1,2,4", "0,0,0", "x"])),
    option("--neighbors", st.sampled_from(["add_remove", "change_one", "x"])),
    option("--max-contributions", whole),
    option("--max-count", whole),
    option("--invariants", levels),
    option("--tree", files),
    flag("--leaves-are-public"),
    flag("--ignore-unknown"),
    flag("--nonnegative"),
    flag("--integer"),
    option("--lower", numbers),
    option("--upper", numbers),
    flag("--dry-run"),
    option("--confidence", numbers),
    flag("--force"),
    outputs.map(lambda name: ["-o", name]),
)
likely_releases = command(
    st.just(["release", "table.csv", "--levels=state,county", "--leaves-are-public"]),
    numbers.map(lambda epsilon: [f"--epsilon={epsilon}"]),
    flag("--count=n"),
    outputs.map(lambda name: ["-o", name]),
)
infos = command(st.just(["info"]), files.map(lambda name: [name]), option("--levels", levels))
# Large trees take long, so trees are small here, or too large to be made at all.
sizes = st.sampled_from(["8", "40", "300", "7", "0", "-5", "x", "1e3", "99999999999999"])
demos = command(
    st.just(["demo"]),
    sizes.map(lambda size: [f"--nodes={size}"]),
    option("--epsilon", numbers),
    option("--picture", st.sampled_from(["none/x.png", "x.xyz"])),
)
commands = st.one_of(
    releases,
    releases,
    likely_releases,
    infos,
    demos,
    st.lists(
        st.one_of(st.sampled_from(["info", "release", "--version", "-h"]), st.text(max_size=5))
    ),
)
benches = command(
    st.just(["bench"]),
    st.sampled_from([[], ["table"], ["bars"], ["x"]]),
    option("--dataset", st.sampled_from(["SynData", "nyctaxi", "x"])),
    option("--nodes", numbers),
    option("--repeat", numbers),
    flag("--quick"),
    option("--out", files),
    option("--json", files),
)

# --------------------------------------------------------------------------- answers

# One line, preceded by the usage if the options cannot be parsed.
ERROR = re.compile(r"(usage: .*\n)?gmtree( \w+)?: error: [^\n]*\n", re.DOTALL)


def answer(argv: list[str]) -> None:
    """Run a command in this process, and check that it prints results or an error message."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with at_most(SECONDS_PER_COMMAND, f"gmtree {argv}"):
                status = cli.main(argv)
        except SystemExit as stopped:
            status = stopped.code
    assert status in (0, 2), (status, argv)
    if status == 2:
        assert ERROR.fullmatch(err.getvalue()), err.getvalue()


@settings(
    max_examples=20,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(argv=commands, content=tables, release=st.data())
def refuse_or_answer(argv, content, release):
    inputs = {
        "table.csv": content,
        "table.csv.gz": gzip.compress(content),
        "table.parquet": content,
        "made.npz": release.draw(damaged(WHOLE[0])),
    }
    for name, data in inputs.items():
        Path(name).write_bytes(data)
    answer(argv)
    may_change = {word.rpartition("=")[2] for word in argv[-2:]} if "--force" in argv else set()
    for name, data in inputs.items():
        assert name in may_change or Path(name).read_bytes() == data
    for path in Path().glob("out*"):
        path.unlink()


@settings(max_examples=100, deadline=None, database=None)
@given(benches)
def parse_or_refuse(argv):
    with contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            cli.parser().parse_args(argv)
        except SystemExit as stopped:
            status = stopped.code
        else:
            return
    assert status == 2
    assert ERROR.fullmatch(err.getvalue()), err.getvalue()


WHOLE: list[bytes] = []


def test_every_command_line_is_answered_or_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder.csv").mkdir()
    WHOLE[:] = [saved_release()]
    end, seed = monotonic() + SECONDS, int(os.environ.get("GMTREE_FUZZ_SEED", "0"))
    while seed == 0 or monotonic() < end:
        hypothesis.seed(seed)(refuse_or_answer)()
        seed += 1


def test_options_of_benchmarks_are_parsed_or_refused():
    parse_or_refuse()
