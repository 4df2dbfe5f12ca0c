"""Imports point one way: each module imports only from its own layer and from those below it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "gmtree"
CONTRIBUTING = PACKAGE.parent / "CONTRIBUTING.md"

# From the ground up; a name with a slash is a folder. CONTRIBUTING.md shows the same list.
LAYERS = [
    ["_kernels/"],
    ["_version", "_validate", "_files", "_memory", "_text", "_progress"],
    ["_sweep"],
    ["labels/"],
    ["readers/"],
    ["tree/", "shapes"],
    ["matrix/", "convert", "qr", "queries", "plot/"],
    ["consistency/"],
    ["baselines", "datasets/"],
    ["privacy/"],
    ["gmc"],
    ["_layers", "torch", "jax"],
    ["frames/"],
    ["forecast/"],
    ["dask/"],
    ["bench/"],
    ["cli/", "guide/", "__init__", "__main__"],
]
LEVEL = {name.rstrip("/"): k for k, layer in enumerate(LAYERS) for name in layer}


def module_of(path: Path) -> str:
    """gmtree/frames/release.py -> frames.release; the package itself is __init__."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(
        parts if parts == ("__init__",) else parts[:-1] if parts[-1] == "__init__" else parts
    )


FILES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported_by(module: str, text: str) -> Iterator[str]:
    """Modules of gmtree that a module imports anywhere: at its top, in functions, for types."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import in line {node.lineno}"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "gmtree":
                yield resolve(name.split(".")[1:])


def resolve(parts: list[str]) -> str:
    """The module that a dotted name belongs to, which may end with what is taken from it."""
    while parts and ".".join(parts) not in FILES:
        parts = parts[:-1]
    return ".".join(parts) or "__init__"


def graph() -> dict[str, set[str]]:
    return {
        module: set(imported_by(module, path.read_text())) - {module}
        for module, path in FILES.items()
    }


def upward(imports: dict[str, set[str]]) -> list[str]:
    """Imports from a higher layer, as 'module -> imported'."""
    return [
        f"{module} -> {other}"
        for module, others in imports.items()
        for other in sorted(others)
        if LEVEL[other.split(".")[0]] > LEVEL[module.split(".")[0]]
    ]


def test_every_module_has_a_layer_and_every_layer_has_its_modules():
    assert {module.split(".")[0] for module in FILES} == set(LEVEL)
    folders = {module.split(".")[0] for module in FILES if FILES[module].parent != PACKAGE}
    assert folders == {name[:-1] for layer in LAYERS for name in layer if name.endswith("/")}


def test_no_module_imports_from_a_higher_layer():
    assert upward(graph()) == []


def test_no_modules_import_each_other_in_a_circle():
    imports = graph()
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_kernels_import_nothing_but_numpy_and_numba():
    allowed = {"gmtree", "numpy", "numba", *sys.stdlib_module_names}
    for module, path in FILES.items():
        if module.split(".")[0] != "_kernels":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= allowed, module
            elif isinstance(node, ast.ImportFrom):
                assert node.module.split(".")[0] in allowed, module


def test_an_import_inside_a_function_is_seen():
    text = "def late():\n    from gmtree.frames.release import x\n    import gmtree.cli.files\n"
    assert set(imported_by("tree", text)) == {"frames.release", "cli.files"}
    assert upward({"tree": {"privacy.release", "_sweep"}}) == ["tree -> privacy.release"]


def test_contributing_shows_the_same_layers():
    section = CONTRIBUTING.read_text().split("## Where things are")[1].split("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ")]
    shown = [
        [name.removesuffix(".py") for name in re.findall(r"`([^`]+)`", cells[2])]
        for cells in rows[1:]
    ]
    assert shown == LAYERS
