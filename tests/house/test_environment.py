"""Other environments: no compilation, bounds checks, no directory that can be written."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numba
import numpy as np
import pytest
from processes import run, run_tests

import gmtree
from gmtree._kernels import _jit

TESTS = Path(__file__).parents[1]
QUICK = ("tree/test_tree.py", "matrix/test_matrix.py", "tree/test_inputs.py")
PACKAGE = Path(gmtree.__file__).parent


# --------------------------------------------------------------------------- numba's settings


def test_without_compilation():
    check = "from gmtree._kernels import sweeps; print(type(sweeps.propagate).__name__)"
    assert run("-c", check, NUMBA_DISABLE_JIT="1") == "function\n"
    run_tests(*(str(TESTS / name) for name in QUICK), NUMBA_DISABLE_JIT="1")


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
        str(TESTS / "tree" / "test_tree.py"),
        str(TESTS / "matrix" / "test_matrix.py"),
        # Other types run the same loops, and each would be compiled again.
        "-kstructure or small_trees or one_node",
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
    """A copy of the package in a folder in which nobody can write, not even root."""
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


WARN = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    from gmtree._kernels import bounded, projection, rounding
for warning in seen:
    print(warning.category.__name__, warning.message)
"""


def test_one_warning_says_how_to_keep_machine_code(frozen_install, tmp_path):
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file" / "directory")
    options = {"cwd": tmp_path, "PYTHONPATH": str(frozen_install), "XDG_CACHE_HOME": nowhere}
    (line,) = run("-c", WARN, HOME=nowhere, **options).splitlines()
    assert line.startswith("CacheWarning")
    assert "NUMBA_CACHE_DIR" in line
    assert run("-c", WARN, NUMBA_CACHE_DIR=str(tmp_path / "cache"), **options) == ""


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
    """Numba alone would check only the file that contains the kernel."""
    shutil.copytree(PACKAGE, tmp_path / "gmtree", ignore=shutil.ignore_patterns("__pycache__"))
    use = (
        "import gmtree as gm; post = gm.Consistency(gm.shapes.chain(2), [2.0, 2.0]);"
        "print(post.node_variance().tolist())"
    )
    options = {"cwd": tmp_path, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": None}
    assert run("-c", use, **options) == "[1.0, 1.0]\n"
    shared = tmp_path / "gmtree" / "_kernels" / "_shared.py"
    old, new = "return t * inverse, carry, t * carry", "return 0.5, 0.5, 10.0 * t"
    assert old in shared.read_text()
    shared.write_text(shared.read_text().replace(old, new))
    assert run("-c", use, **options) == "[20.0, 20.0]\n"


KERNEL = """
import numpy as np
from gmtree._kernels._jit import kernel

@kernel
def first(x, out):
    out[0] = x[0]
"""


def test_machine_code_for_other_types_is_not_loaded(tmp_path, monkeypatch):
    """If a process is killed while it compiles, the file of numba may have code for other types."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    path = tmp_path / "made.py"
    path.write_text(KERNEL)

    def call(number):
        spec = importlib.util.spec_from_file_location("made", path)
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        out = np.zeros(1)
        made.first(np.array([number]), out)
        return out[0], made.first

    assert (call(7)[0], call(1.5)[0]) == (7, 1.5)
    whole, fraction = sorted(tmp_path.rglob("*.nbc"))
    fraction.write_bytes(whole.read_bytes())
    value, first = call(1.5)
    assert value == 1.5
    assert not first.stats.cache_hits
    assert call(1.5)[1].stats.cache_hits


class Dispatcher:
    """A compiled function of a numba version that stores machine code differently."""

    def __init__(self, function, options):
        self.function, self.options = function, options

    def __call__(self, *args):
        return self.function(*args)


class Cache:
    """A cache without the attributes from which changes of files are seen."""

    _cache_file = object()


@pytest.mark.parametrize("cache", [None, object(), Cache()])
def test_a_numba_whose_cache_we_do_not_know_keeps_no_machine_code(monkeypatch, cache):
    def njit(**options):
        def compile_it(function):
            made = Dispatcher(function, options)
            if cache is not None:
                made._cache = cache
            return made

        return compile_it

    monkeypatch.setattr(_jit, "_njit", njit)
    for decorator in (_jit.kernel, _jit.inlined):
        compiled = decorator(lambda x: x + 1)
        assert compiled(1) == 2
        assert "cache" not in compiled.options
        assert compiled.options["nogil"]


# --------------------------------------------------------------------------- imports


def loaded_after(code: str) -> set[str]:
    return set(run("-c", f"{code}\nimport sys\nprint(*sys.modules)").split())


def test_import_is_light():
    # Numba looks for scipy, which loads its outermost package.
    added = loaded_after("import gmtree") - loaded_after("import numba")
    heavy = {"scipy", "pandas", "networkx", "matplotlib", "higra", "hypothesis", "pytest"}
    assert "gmtree" in added
    assert not {name for name in added if name.partition(".")[0] in heavy}


def test_the_command_line_loads_little_before_it_can_be_interrupted():
    """`main` catches an interrupt; what is loaded before it is called is over in no time."""
    loaded = loaded_after("from gmtree.cli import main")
    assert "gmtree.cli" in loaded
    assert not {"numpy", "numba", "scipy"} & loaded


def test_import_gives_no_warnings():
    assert run("-W", "error", "-c", "import gmtree") == ""
