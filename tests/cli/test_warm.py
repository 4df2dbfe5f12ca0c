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

# Runs some code, then prints every variant of every kernel that it needs: those that would be
# compiled or loaded from disk. Nothing is compiled, because all calls are interpreted.
REPORT = """
import json
from gmtree._kernels import _jit

used = set()
choose = _jit._Tiers.__call__

def record(self, *args):
    types = tuple(map(self.compiled.typeof_pyval, args))
    used.add(f"{{self.compiled.py_func.__module__}}.{{self.compiled.__name__}}{{types}}")
    return choose(self, *args)

_jit._Tiers.__call__ = record
_jit._SMALL = _jit._BEFORE_COMPILING = _jit._BEFORE_LOADING = float("inf")
_jit._always_compile, _jit.always_compile = False, lambda: None
{code}
print(json.dumps(sorted(used)))
"""
WARM = "from gmtree.cli import main; assert main(['warm']) == 0"
README = """
import doctest
done = doctest.testfile("README.md", False, optionflags=doctest.NORMALIZE_WHITESPACE)
assert done.attempted > 10 and not done.failed
"""


def python(code: str) -> str:
    """The last line that some code prints in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_warm_compiles_all_that_the_readme_needs():
    ready, used = (set(json.loads(python(REPORT.format(code=code)))) for code in (WARM, README))
    assert len(used) > 30
    assert not used - ready
    # No file of kernels is left out.
    modules = {each.py_func.__module__ for each in warm.dispatchers()}
    assert modules <= {name.partition("(")[0].rpartition(".")[0] for name in ready}


def test_after_warm_another_process_compiles_nothing():
    stop = """
from gmtree.cli import warm
warm.STOPS = (warm.published,)
warm.run(None)
print(sum(sum(each.stats.cache_misses.values()) for each in warm.dispatchers()))
"""
    python(stop)
    assert python(stop) == "0"


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
    # Shared functions become part of kernels and have no files of their own.
    assert names == files - {"__init__", "_jit", "_shared"}
