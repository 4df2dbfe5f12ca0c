"""``gmtree warm``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmtree import cli
from gmtree.cli import warm

ROOT = Path(__file__).parents[2]

# Runs some code, then prints every variant of every kernel that was looked for on disk, and how
# many of them were not found there.
REPORT = """
import json, sys
{code}
from gmtree.cli.warm import dispatchers
found = list(dispatchers())
stats = {{f"{{d.py_func.__module__}}.{{d.__name__}}": d.stats for d in found}}
used = [name + str(key) for name, s in stats.items() for key in {{*s.cache_hits, *s.cache_misses}}]
print(json.dumps([used, sum(sum(s.cache_misses.values()) for s in stats.values())]))
"""
WARM = "from gmtree.cli import main; assert main(['warm']) == 0"
README = """
import doctest
done = doctest.testfile("README.md", False, optionflags=doctest.NORMALIZE_WHITESPACE)
assert done.attempted > 10 and not done.failed
"""


def variants(code: str) -> tuple[set[str], int]:
    """Variants of kernels that some code uses in a process of its own, and those compiled."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT.format(code=code)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    used, compiled = json.loads(done.stdout.splitlines()[-1])
    return set(used), compiled


def test_after_warm_the_readme_compiles_nothing():
    ready, _ = variants(WARM)
    used, compiled = variants(README)
    # Others may have compiled it before: the tour itself must have been there.
    assert not used - ready
    assert compiled == 0
    # And no file of kernels is left out altogether.
    modules = {each.py_func.__module__ for each in warm.dispatchers()}
    assert modules <= {name.partition("(")[0].rpartition(".")[0] for name in ready}


def test_warm_says_what_it_did(monkeypatch, capsys):
    monkeypatch.setattr(warm, "STOPS", (warm.published,))
    assert cli.main(["warm"]) == 0
    first, second, *folders = capsys.readouterr().out.splitlines()
    assert " functions are ready; " in first
    assert second.startswith("It took ")
    assert all(Path(folder.strip()).is_dir() for folder in folders)
    assert len(folders) == 1


@pytest.mark.parametrize("place", [None, "file/folder"])
def test_warm_refuses_to_compile_what_cannot_be_kept(monkeypatch, capsys, tmp_path, place):
    (tmp_path / "file").write_text("")

    class Stats:
        cache_path = place and str(tmp_path / place)

    class Dispatcher:
        stats = Stats

    monkeypatch.setattr(warm, "dispatchers", lambda: iter([Dispatcher]))
    monkeypatch.setattr(warm, "STOPS", (None,))
    assert cli.main(["warm"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("gmtree: error: machine code cannot be kept")
    assert "NUMBA_CACHE_DIR" in err


def test_all_kernels_are_known():
    names = {each.py_func.__module__.rpartition(".")[2] for each in warm.dispatchers()}
    files = {path.stem for path in (ROOT / "gmtree" / "_kernels").glob("*.py")}
    # Shared functions become part of others and are not kept by themselves.
    assert names == files - {"__init__", "_jit", "_shared"}
