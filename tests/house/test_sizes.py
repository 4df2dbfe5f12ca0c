"""Files and functions stay short enough to be read at once."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "gmtree"
LINES_OF_A_FILE = 500
# Without the docstring.
LINES_OF_A_FUNCTION = 60


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    docstring = ast.get_docstring(function, clean=False)
    first = function.body[0]
    without = first.end_lineno - first.lineno + 1 if docstring is not None else 0
    return function.end_lineno - function.lineno + 1 - without


def test_no_file_is_long():
    long = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if len(path.read_text().splitlines()) > LINES_OF_A_FILE
    }
    assert not long


def test_no_function_is_long():
    long = {
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and length(node) > LINES_OF_A_FUNCTION
    }
    assert not long
