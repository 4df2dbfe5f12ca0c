"""The public surface, written out in `namespace.txt` so that a change of it shows in review.

After an intended change, write the file again::

    PYTHONPATH=tests python tests/house/test_namespace.py
"""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from surface import MISSING, MODULES, public_attributes, public_names

import gmtree as gm
from gmtree import cli

WRITTEN = Path(__file__).with_name("namespace.txt")


class Text(str):
    """An annotation that every version of Python shows as it is written, without quotes."""

    def __repr__(self) -> str:
        return str(self)


def signature(function: Any) -> str:
    """Parameters and result as they are written."""
    found = inspect.signature(function)
    parameters = [
        p.replace(annotation=Text(p.annotation)) if isinstance(p.annotation, str) else p
        for p in found.parameters.values()
    ]
    result = found.return_annotation
    result = Text(result) if isinstance(result, str) else result
    return str(found.replace(parameters=parameters, return_annotation=result))


def describe(name: str, value: Any) -> Iterator[str]:
    """One line for a function; for a class, one more for each public attribute."""
    if inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        yield f"class {name}({bases})"
        yield from describe_class(name, value)
    elif inspect.ismodule(value):
        yield f"module {name}"
    elif callable(value):
        yield f"{name}{signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def describe_class(name: str, kind: type) -> Iterator[str]:
    constructor = kind.__init__
    if inspect.isfunction(constructor) and constructor.__module__.startswith("gmtree"):
        yield f"    {name}.__init__{signature(constructor)}"
    for attribute in public_attributes(kind):
        value = inspect.getattr_static(kind, attribute, None)
        if isinstance(value, (classmethod, staticmethod)):
            yield f"    {name}.{attribute}{signature(getattr(kind, attribute))}"
        elif inspect.isfunction(value):
            yield f"    {name}.{attribute}{signature(value)}"
        else:
            yield f"    {name}.{attribute}"


def surface() -> str:
    """All public names with their signatures; a name that two modules offer is described once."""
    lines: list[str] = []
    described: dict[int, str] = {}
    for name in MODULES:
        module = import_module(name)
        lines += ["", f"# {name}"] if lines else [f"# {name}"]
        absent = [each.rpartition(".")[2] for each in MISSING if name == "gmtree"]
        for public in sorted([*public_names(module), *absent]):
            if public in absent:
                lines.append(f"module {public}")
                continue
            value = getattr(module, public)
            if id(value) in described:
                lines.append(f"{public} as in {described[id(value)]}")
            else:
                described[id(value)] = name
                lines += describe(public, value)
    return "\n".join(lines) + "\n"


def sections(text: str) -> dict[str, str]:
    """The lines of each module, by its name."""
    return {part.partition("\n")[0]: part.rstrip("\n") for part in text.split("# ") if part}


def test_the_public_surface_is_the_one_that_is_written_down():
    written = sections(WRITTEN.read_text())
    written = {name: lines for name, lines in written.items() if name not in MISSING}
    assert sections(surface()) == written, (
        "the public surface has changed; see the top of this file"
    )


def test_dir_shows_names_for_users_only():
    assert dir(gm) == sorted(gm.__all__)
    assert not {"annotations", "import_module", "TYPE_CHECKING", "Any"} & set(dir(gm))
    for name in dir(gm):
        assert getattr(gm, name) is not None


def test_help_is_a_map_of_every_public_name():
    """One line for each name, and no line for a name that is not there."""
    listed = re.findall(r"^    (\w+)  +\S.*$", gm.__doc__, flags=re.MULTILINE)
    absent = [each.rpartition(".")[2] for each in MISSING]
    assert sorted(listed) == sorted([*gm.__all__, *absent])
    # Also without the packages of optional modules.
    assert "GenerationMatrix" in pydoc.render_doc(gm)
    assert max(map(len, gm.__doc__.splitlines())) <= 97


def test_help_names_every_command():
    commands = set(re.findall(r"``gmtree (\w+)``", gm.__doc__))
    choices = cli.parser()._subparsers._group_actions[0].choices
    assert commands == set(choices)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    for name in ("Trees", "import_module", "TYPE_CHECKING"):
        assert not hasattr(gm, name)


def test_type_checkers_are_told_of_the_same_names():
    tree = ast.parse(Path(gm.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = set()
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            # "x as x" tells a type checker that others may import x from here.
            assert alias.asname == alias.name
            module = statement.module.removeprefix("gmtree").removeprefix(".")
            told.add((module or alias.name, alias.name))
    assert told == {(module, name) for name, module in gm._MODULE_OF.items()}


def test_importing_the_package_loads_neither_numba_nor_scipy():
    code = "import sys, gmtree; print({'numba', 'scipy', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


if __name__ == "__main__":
    kept = {name: lines for name, lines in sections(WRITTEN.read_text()).items() if name in MISSING}
    WRITTEN.write_text(
        "\n\n".join(f"# {x}" for x in {**sections(surface()), **kept}.values()) + "\n"
    )
