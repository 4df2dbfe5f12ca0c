"""Other ways to run: without compilation, with bounds checks, with nowhere to write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gmtree

HERE = Path(__file__).parent
PACKAGE = Path(gmtree.__file__).parent


def run(*command: str, cwd: Path | None = None, **changes: str | None) -> str:
    """Run Python with some environment variables set, or unset where None; give its output."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    for name, value in changes.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    done = subprocess.run(
        [sys.executable, *command],
        env=env,
        cwd=cwd or HERE.parent,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    return done.stdout


def run_tests(*options: str, **changes: str) -> None:
    """Run some of the property tests again, with few examples."""
    quick = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=small")
    assert "passed" in run(*quick, *options, **changes)


# --------------------------------------------------------------------------- numba's settings


def test_without_compilation():
    check = "from gmtree._kernels import sweeps; print(type(sweeps.propagate).__name__)"
    assert run("-c", check, NUMBA_DISABLE_JIT="1") == "function\n"
    run_tests(
        # Hashing multiplies modulo 2^64, which plain numpy remarks upon.
        "-Wignore:overflow encountered in scalar multiply:RuntimeWarning",
        *(str(HERE / name) for name in ("test_tree.py", "test_matrix.py", "test_inputs.py")),
        NUMBA_DISABLE_JIT="1",
    )


OUT_OF_BOUNDS = """
import numpy as np
from gmtree._kernels._jit import kernel

@kernel
def read(a, i):
    return a[i]

try:
    read(np.zeros(3), np.uint64(3))
except IndexError:
    print("caught")
"""


def test_with_bounds_checks(tmp_path):
    settings = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    assert run("-c", OUT_OF_BOUNDS, **settings) == "caught\n"
    run_tests(
        str(HERE / "test_tree.py"),
        str(HERE / "test_matrix.py"),
        # Other types run the same loops; each would be compiled anew.
        "-kstructure or aggregate_and_restrict or dense_one or small_trees or one_node",
        **settings,
    )


# --------------------------------------------------------------------------- places to write

USE = """
import gmtree as gm, numpy as np
from gmtree._kernels import sweeps

tree = gm.Tree.from_parents([2, 2, -1, 0])
G = gm.GenerationMatrix(tree)
print(G.T.solve(np.ones(4)).tolist(), G.solve(np.ones(4)).tolist())
print(gm.__file__)
print(type(sweeps.propagate._cache).__name__)
print(sum(sweeps.propagate.stats.cache_hits.values()))
"""


@pytest.fixture
def frozen_install(tmp_path) -> Path:
    """A copy of the package beside which nothing can be written, not even by root."""
    site = tmp_path / "site"
    shutil.copytree(PACKAGE, site / "gmtree", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "gmtree" / "_kernels" / "__pycache__").write_text("a file where a directory would be")
    return site


@pytest.mark.parametrize("home", ["unwritable", "unset"])
def test_nowhere_to_write(frozen_install, tmp_path, home):
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file" / "directory")
    result, place, cache, _ = run(
        "-c",
        USE,
        cwd=tmp_path,
        PYTHONPATH=str(frozen_install),
        PYTHONDONTWRITEBYTECODE="1",
        HOME=nowhere if home == "unwritable" else None,
        XDG_CACHE_HOME=nowhere,
        NUMBA_CACHE_DIR=nowhere if home == "unwritable" else None,
    ).splitlines()
    assert result == "[2.0, 1.0, 4.0, 1.0] [2.0, 2.0, 1.0, 3.0]"
    assert Path(place).is_relative_to(frozen_install)
    assert cache == "NullCache"


def test_a_cache_directory_helps(frozen_install, tmp_path):
    hits = []
    for _ in range(2):
        *_, cache, count = run(
            "-c",
            USE,
            cwd=tmp_path,
            PYTHONPATH=str(frozen_install),
            NUMBA_CACHE_DIR=str(tmp_path / "cache"),
        ).splitlines()
        assert cache == "FunctionCache"
        hits.append(int(count))
    assert hits == [0, 1]
    assert list((tmp_path / "cache").rglob("*.nbi"))


def test_machine_code_is_renewed_with_shared_functions(tmp_path):
    """Numba alone would look only at the file in which a kernel stands."""
    shutil.copytree(PACKAGE, tmp_path / "gmtree", ignore=shutil.ignore_patterns("__pycache__"))
    use = (
        "import gmtree as gm; post = gm.Consistency(gm.shapes.chain(2), [2.0, 2.0]);"
        "print(post.node_variance().tolist())"
    )
    options = {"cwd": tmp_path, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": None}
    assert run("-c", use, **options) == "[1.0, 1.0]\n"
    shared = tmp_path / "gmtree" / "_kernels" / "_shared.py"
    old, new = "return t[r] * inverse, carry, t[r] * carry", "return 0.5, 0.5, 10.0 * t[r]"
    assert old in shared.read_text()
    shared.write_text(shared.read_text().replace(old, new))
    assert run("-c", use, **options) == "[20.0, 20.0]\n"


# --------------------------------------------------------------------------- imports


def loaded_after(code: str) -> set[str]:
    return set(run("-c", f"{code}\nimport sys\nprint(*sys.modules)").split())


def test_import_is_light():
    # Numba looks for scipy, which loads its outermost package.
    added = loaded_after("import gmtree") - loaded_after("import numba")
    heavy = {"scipy", "pandas", "networkx", "matplotlib", "higra", "hypothesis", "pytest"}
    assert "gmtree" in added
    assert not {name for name in added if name.partition(".")[0] in heavy}


def test_import_gives_no_warnings():
    assert run("-W", "error", "-c", "import gmtree") == ""
