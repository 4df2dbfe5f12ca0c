"""Docstrings become web pages with the command that CONTRIBUTING.md gives, and read well there."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from inspect import getdoc, isclass
from pathlib import Path

import pytest
from surface import MODULES, public_attributes, public_names

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
# Markup that pages show as it is written: tables and literal blocks of reStructuredText, and
# links whose first part is to be left out.
UNREADABLE = re.compile(r"^ *={4,} +={4,}|::$|`~", flags=re.MULTILINE)


def docstrings():
    for name in [*MODULES, "gmtree.consistency", "gmtree.frames", "gmtree.plot"]:
        module = import_module(name)
        yield name, getdoc(module)
        for public in public_names(module):
            value = getattr(module, public)
            yield f"{name}.{public}", getdoc(value)
            if isclass(value):
                for attribute in public_attributes(value):
                    yield f"{name}.{public}.{attribute}", getdoc(getattr(value, attribute, None))


def test_docstrings_hold_no_markup_that_pages_show_as_it_is():
    found = [name for name, text in docstrings() if text and UNREADABLE.search(text)]
    assert found == []


def test_the_documented_command_builds_the_pages(tmp_path):
    pytest.importorskip("pdoc", reason="pages need the extra 'docs'")
    (command,) = re.findall(r"^pdoc (.*)$", CONTRIBUTING.read_text(), flags=re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-m", "pdoc", *command.split()],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "gmtree.html").read_text()
    assert 'id="Tree.from_parents"' in page
    assert "consistency.html#Tracker" in page
    assert (tmp_path / "site" / "gmtree" / "gmc.html").exists()
