"""Types for users: `typed_user.py` passes mypy's strictest settings and pyright."""

from __future__ import annotations

import inspect
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from surface import MODULES, public_names

import gmtree as gm

ROOT = Path(gm.__file__).parents[1]
SCRIPT = Path(__file__).with_name("typed_user.py")
# Results whose type depends on the shape or the library of the arguments, which no overload sees.
ANY_IS_ALL_THERE_IS = {
    "Diagnostics.to_frame",
    "Release.to_frame",
    "Structure.to_frame",
    "TableConsistency.to_frame",
    "TableRelease.to_frame",
    "Tree.to_frame",
    "Unfinished.load",  # a Release or a TableRelease, whose files import that of accounts
}


def check(*command: str, cwd: Path) -> None:
    """Run a checker as a user would who has gmtree installed, and nothing of our settings."""
    environment = {**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_runs(capsys):
    pytest.importorskip("typing_extensions", reason="the script says its types with it")
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert capsys.readouterr().out


@pytest.fixture(scope="module")
def mypy(tmp_path_factory) -> list[str]:
    """The command; its cache is kept from one test to the next."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    cache = tmp_path_factory.mktemp("mypy")
    # Errors inside the package are those of `mypy` in its own settings.
    options = ["--strict", "--follow-imports=silent", "--cache-dir", str(cache)]
    return [sys.executable, "-m", "mypy", *options]


def test_mypy(tmp_path, mypy):
    script = shutil.copy(SCRIPT, tmp_path)
    check(*mypy, str(script), cwd=tmp_path)


def test_pyright(tmp_path):
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which(
        "pyright"
    )
    if pyright is None:
        pytest.skip("pyright is not installed")
    version = subprocess.run([pyright, "--version"], capture_output=True, text=True, check=False)
    if version.returncode:
        pytest.skip("pyright is installed, but could not fetch the part of it that needs node")
    script = shutil.copy(SCRIPT, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{ROOT.as_posix()}"]}}')
    check(pyright, "--pythonpath", sys.executable, str(script), cwd=tmp_path)


def test_the_checkers_would_notice(tmp_path, mypy):
    script = tmp_path / "wrong.py"
    script.write_text("import gmtree as gm\nx: str = gm.shapes.star(3).lca(1, 2)\n")
    with pytest.raises(AssertionError, match="Incompatible types in assignment"):
        check(*mypy, str(script), cwd=tmp_path)


def test_no_public_function_returns_any_without_need():
    found = set()
    for name in MODULES:
        module = sys.modules.get(name) or __import__(name, fromlist=["_"])
        for public in public_names(module):
            value = getattr(module, public)
            members = [(public, value)]
            if inspect.isclass(value):
                members = [
                    (f"{public}.{attribute}", member)
                    for attribute in vars(value) | {k: 0 for b in value.__mro__ for k in vars(b)}
                    if not attribute.startswith("_")
                    and callable(member := getattr(value, attribute, None))
                ]
            for label, member in members:
                function = getattr(member, "__func__", member)
                if not inspect.isfunction(function) or "gmtree" not in function.__module__:
                    continue
                if function.__annotations__.get("return") == "Any":
                    found.add(label)
    assert found == ANY_IS_ALL_THERE_IS
