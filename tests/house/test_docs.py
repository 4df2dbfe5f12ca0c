"""Docstrings become web pages with the command that CONTRIBUTING.md gives, and read well there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from inspect import getdoc, isclass
from pathlib import Path
from urllib.parse import unquote

import pytest
from surface import LAYERS, MODULES, public_attributes, public_names

from gmtree import guide

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
# Markup that pages show as it is written: tables and literal blocks of reStructuredText, and
# links whose first part is to be left out.
UNREADABLE = re.compile(r"^ *={4,} +={4,}|::$|`~", flags=re.MULTILINE)


def docstrings():
    for name in [*MODULES, "gmtree.consistency", "gmtree.frames", "gmtree.plot"]:
        module = import_module(name)
        yield name, getdoc(module)
        for public in public_names(module):
            if name == "gmtree" and public in LAYERS and find_spec(public) is None:
                continue
            value = getattr(module, public)
            yield f"{name}.{public}", getdoc(value)
            if isclass(value):
                for attribute in public_attributes(value):
                    yield f"{name}.{public}.{attribute}", getdoc(getattr(value, attribute, None))


def test_docstrings_hold_no_markup_that_pages_show_as_it_is():
    found = [name for name, text in docstrings() if text and UNREADABLE.search(text)]
    assert found == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages, written by the documented command; a warning is an error."""
    for name in ("pdoc", "latex2mathml"):
        pytest.importorskip(name, reason="pages need the extra 'docs'")
    (command,) = re.findall(
        r"^python -m gmtree.guide (.*)$", CONTRIBUTING.read_text(), re.MULTILINE
    )
    folder = tmp_path_factory.mktemp("pages")
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-m", "gmtree.guide", command],
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(CONTRIBUTING.parent), *sys.path])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return folder / command


class Links(HTMLParser):
    """The links, pictures and anchors of a page."""

    def __init__(self):
        super().__init__()
        self.links, self.anchors = [], set()

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[k] for k in ("id", "name") if given.get(k)}
        self.links += [given[k] for k in ("href", "src") if given.get(k)]


def test_the_documented_command_builds_the_pages(site):
    page = (site / "gmtree.html").read_text()
    assert 'id="Tree.from_parents"' in page
    assert '<a href="gmtree.html#Tree">Tree</a>' in page
    landing = (site / "index.html").read_text()
    assert 'src="examples/figures/demo.png"' in landing
    assert landing.index("guide/start.html") < landing.index("#Tree")
    theory = (site / "gmtree" / "guide" / "theory.html").read_text().partition("</main>")[0]
    assert theory.count("<math") > 30
    assert "$" not in theory.partition("<main")[2]


def test_all_links_inside_the_pages_lead_somewhere(site):
    pages = {}
    for path in site.rglob("*.html"):
        pages[path] = Links()
        pages[path].feed(path.read_text())
    assert len(pages) > 25
    broken = []
    for path, page in pages.items():
        for link in page.links:
            address, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            target = (path.parent / address).resolve() if address else path
            if not target.exists() or (anchor and anchor not in pages[target].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_every_page_of_the_guide_is_short_and_listed():
    assert sorted(guide.PAGES) == sorted(guide.__all__)
    for page in guide.PAGES:
        text = getdoc(getattr(guide, page))
        assert ">>> " in text
        assert len(text.split()) < 1100, page
