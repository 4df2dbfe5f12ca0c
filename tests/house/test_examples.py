"""Every example runs, quickly, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
# What makes an example small; none where it is small by itself.
ARGUMENTS = {
    "census_release.py": ["--nodes", "3000"],
    "distributed_release.py": ["--leaves", "20000", "--partitions", "4"],
    "file_system.py": [str(Path(__file__).parents[2] / "gmtree"), "--top", "3"],
}


def run(path: Path, *arguments: str) -> str:
    """What an example prints; warnings are errors, as in all tests."""
    command = [sys.executable, "-W", "error", str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example(path):
    assert run(path, *ARGUMENTS.get(path.name, [])).strip()


def test_arguments_belong_to_examples():
    assert set(ARGUMENTS) <= {path.name for path in EXAMPLES}


def test_file_system_counts_bytes(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "large").write_bytes(b"x" * 5_000_000)
    (tmp_path / "a" / "small").write_bytes(b"x" * 10)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "again").hardlink_to(tmp_path / "a" / "b" / "large")
    (tmp_path / "loop").symlink_to(tmp_path)
    example = next(path for path in EXAMPLES if path.name == "file_system.py")
    text = run(example, str(tmp_path), "--top", "2")
    first, second, _, summary = text.splitlines()[:4]
    assert first.endswith(str(tmp_path))
    assert second.endswith(str(tmp_path / "a"))
    # The hard link is counted once.
    assert float(first.split()[0]) < 5.3
    assert first.split()[1] == "MiB"
    assert summary.startswith("8 files and directories, 0 not readable, depth 4")


@pytest.mark.parametrize(
    "name", ["counts_frame.py", "phylogeny.py", "file_system.py", "private_tables.py"]
)
def test_examples_end_with_a_picture(name, tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    picture = tmp_path / "picture.png"
    example = next(path for path in EXAMPLES if path.name == name)
    run(example, *ARGUMENTS.get(name, []), "--picture", str(picture))
    assert picture.stat().st_size > 10_000


def test_private_tables_are_never_worse_than_independent_queries():
    example = next(path for path in EXAMPLES if path.name == "private_tables.py")
    text = run(example, "--nodes", "3000")
    assert "A second release of half the budget is refused" in text
    rows = [line.split() for line in text.splitlines() if line.endswith(tuple("0123456789"))]
    rows = [row[-5:] for row in rows if row[0] in ("United", "State", "County", "Block", "Census")]
    assert len(rows) > 10
    for noise, _, expected, _, gain in rows:
        assert float(expected) <= float(noise)
        assert float(gain) >= 1


def test_census_release_prints_what_it_promises():
    example = next(path for path in EXAMPLES if path.name == "census_release.py")
    text = run(example, "--nodes", "20000", "--epsilon", "1")
    lines = text.splitlines()
    rows = {line[:20].strip(): line[20:].split() for line in lines if line[20:21] == " "}
    nodes, expected, error, whole = (float(x.replace(",", "")) for x in rows["all"])
    assert nodes == 20000
    # Real noise: a mean over 20,000 nodes is off by a tenth in less than one run of 10^9.
    assert error == pytest.approx(expected, rel=0.1)
    assert whole < error
    assert "parent minus sum of children: 0\n" in text
    assert "Privacy ledger: pure differential privacy, epsilon = 1" in text
