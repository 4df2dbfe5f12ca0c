"""The benchmarks for asv run against packages of other commits: they use public names only."""

from __future__ import annotations

import ast
import importlib
import sys
from itertools import product
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "asv_benchmarks"
FILES = sorted((FOLDER / "benchmarks").glob("*.py"))
ALLOWED = {"__future__", "collections.abc", "typing", "os", "unittest.mock"}
ALLOWED |= {"numpy", "pandas", "gmtree", "common"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_but_public_names_is_used(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= ALLOWED
        elif isinstance(node, ast.ImportFrom):
            assert node.module in ALLOWED
        elif isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_"), f"line {node.lineno}: {node.attr}"


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.setenv("GMTREE_BENCH_NODES", "300")
    monkeypatch.syspath_prepend(str(FOLDER))
    yield [importlib.import_module(f"benchmarks.{path.stem}") for path in FILES]
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        del sys.modules[name]


def test_every_benchmark_runs(benchmarks, monkeypatch):
    ran = 0
    for module in benchmarks:
        if hasattr(module, "PAIRS"):
            monkeypatch.setattr(module, "PAIRS", 100)
        for case in vars(module).values():
            if not isinstance(case, type) or case.__module__ != module.__name__:
                continue
            methods = [
                name
                for name in dir(case)
                if name.startswith(("time_", "timeraw_", "peakmem_", "track_"))
            ]
            if not methods:
                continue
            choices = list(product(*getattr(case, "params", ())))
            for params in (choices[0], choices[-1]):
                benchmark = case()
                getattr(benchmark, "setup", lambda *_: None)(*params)
                for name in methods:
                    getattr(benchmark, name)(*params)
                    ran += 1
    assert ran > 40


def test_trees_are_those_of_our_own_benchmarks(benchmarks):
    from gmtree.bench import trees

    common = sys.modules["benchmarks.common"]
    for shape in common.MAKE:
        tree = common.make(shape, 300)
        assert tree == trees.make(shape, 300)
        for name in ("shuffled", "depth_first"):
            ours, theirs = getattr(common, name)(tree), getattr(trees, name)(tree)
            assert ours.tolist() == theirs.tolist()
