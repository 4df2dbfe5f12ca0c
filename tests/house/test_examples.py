"""Every example runs once, on small data, and draws its picture if it has one."""

from __future__ import annotations

import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(path.name for path in FOLDER.glob("*.py"))
# Packages that an example needs and the tests do not.
NEEDS = {
    "neural_reconciliation.py": ("torch",),
    "start_opendp.py": ("opendp",),
    "tourism.py": ("statsforecast", "pyhts"),
}
# Options that make an example small; none if it is small already.
ARGUMENTS = {
    "census_release.py": ["--nodes", "20000", "--epsilon", "1"],
    "distributed_release.py": ["--leaves", "20000", "--partitions", "4"],
    "file_system.py": [str(FOLDER.parent / "gmtree"), "--top", "3"],
    "neural_reconciliation.py": ["--epochs", "5", "--seeds", "1"],
    "nonnegative.py": ["--nodes", "20000"],
    "private_tables.py": ["--nodes", "3000"],
    "tourism.py": ["--model", "naive"],
}
# This example starts processes, which import its file.
IN_A_PROCESS_OF_ITS_OWN = ["distributed_release.py"]


def run(name: str, *arguments: str) -> None:
    """Run an example like a user; warnings are errors, as in all tests."""
    if name in IN_A_PROCESS_OF_ITS_OWN:
        command = [sys.executable, "-W", "error", str(FOLDER / name), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        print(done.stdout)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(FOLDER / name), *arguments])
        runpy.run_path(str(FOLDER / name), run_name="__main__")


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, tmp_path, capsys):
    if missing := [package for package in NEEDS.get(name, ()) if find_spec(package) is None]:
        pytest.skip(f"{missing} not installed")
    arguments = ARGUMENTS.get(name, [])
    picture = tmp_path / "picture.png"
    draws = '"--picture"' in (FOLDER / name).read_text() and find_spec("matplotlib") is not None
    if draws:
        arguments = [*arguments, "--picture", str(picture)]
    run(name, *arguments)
    text = capsys.readouterr().out
    assert text.strip()
    assert not draws or picture.stat().st_size > 10_000
    if name in CHECKS:
        CHECKS[name](text)


def test_starters_are_short_and_have_their_pictures():
    starters = sorted(FOLDER.glob("start_*.py"))
    assert len(starters) >= 5
    for path in starters:
        assert len(path.read_text().splitlines()) <= 25
        draws = '"--picture"' in path.read_text()
        assert (FOLDER / "figures" / f"{path.stem}.png").exists() == draws


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_use_public_names_and_one_flag_for_pictures(name):
    text = (FOLDER / name).read_text()
    assert "gmtree._" not in text
    assert "gm._" not in text
    assert "savefig" not in text or '"--picture"' in text


def private_tables(text: str) -> None:
    """Tables are never worse than independent queries."""
    assert "A second release of half the budget is refused" in text
    rows = [line.split() for line in text.splitlines() if line.endswith(tuple("0123456789"))]
    rows = [row[-5:] for row in rows if row[0] in ("United", "State", "County", "Block", "Census")]
    assert len(rows) > 10
    for noise, _, expected, _, gain in rows:
        assert float(expected) <= float(noise)
        assert float(gain) >= 1


def census_release(text: str) -> None:
    """The example prints the promised results."""
    rows = {
        line[:20].strip(): line[20:].split() for line in text.splitlines() if line[20:21] == " "
    }
    nodes, expected, error, whole = (float(x.replace(",", "")) for x in rows["all"])
    assert nodes == 20000
    # Real noise: a mean over 20,000 nodes is off by a tenth in less than one run of 10^9.
    assert error == pytest.approx(expected, rel=0.1)
    assert whole < error
    assert "parent minus sum of children: 0\n" in text
    assert "Privacy ledger: pure differential privacy, epsilon = 1" in text


def neural_reconciliation(text: str) -> None:
    """Forecasts add up after the layer, and only then."""
    missed = {line[:20].strip(): line.split()[-1] for line in text.splitlines() if "+-" in line}
    assert float(missed["networks"]) > 1
    assert float(missed["... reconciled"]) < 1e-6
    assert float(missed["networks and layer"]) < 1e-6


CHECKS = {
    "private_tables.py": private_tables,
    "census_release.py": census_release,
    "neural_reconciliation.py": neural_reconciliation,
}


def test_arguments_and_checks_belong_to_examples():
    assert {*ARGUMENTS, *CHECKS, *IN_A_PROCESS_OF_ITS_OWN} <= {*EXAMPLES}


def test_file_system_counts_bytes(tmp_path, capsys):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "large").write_bytes(b"x" * 5_000_000)
    (tmp_path / "a" / "small").write_bytes(b"x" * 10)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "again").hardlink_to(tmp_path / "a" / "b" / "large")
    (tmp_path / "loop").symlink_to(tmp_path)
    run("file_system.py", str(tmp_path), "--top", "2")
    first, second, _, summary = capsys.readouterr().out.splitlines()[:4]
    assert first.endswith(str(tmp_path))
    assert second.endswith(str(tmp_path / "a"))
    # The hard link is counted once.
    assert float(first.split()[0]) < 5.3
    assert first.split()[1] == "MiB"
    assert summary.startswith("8 files and directories, 0 not readable, depth 4")
