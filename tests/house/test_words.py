"""Wording that makes people read a sentence twice is counted, and the count may only fall."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gmtree"

# Each pattern with the number of docstrings, comments and messages that may contain it. Lower a
# number when you have removed some; never raise one. `python tests/house/test_words.py NAME`
# lists the texts that a pattern finds, and without NAME it prints the counts.
LIMITS = {
    "where for if": 2,
    "what as a noun": 4,
    "tells": 0,
    "is no": 0,
    "the same": 0,
    "frame of": 0,
    "dangling": 1,
    "archaic": 0,
}
PATTERNS = {
    # "where a level is missing" should be "if a level is missing".
    "where for if": r"\bwhere (?:an?|no|none|there|it|they|that|all|one|each|neither|nothing)\b",
    "what as a noun": r"(?:^|[.:;] )What |\b(?:of|by|from|with|in|for|than|as|to|and|is|at) what\b",
    "tells": r"\b(?:tells?|told|telling)\b",
    # "is no leaf" should be "is not a leaf"; "there is no leaf" and "is None" are fine.
    "is no": r"(?<!there )\b(?-i:is|are|was|were) (?-i:no|none)\b(?! longer| more)",
    "the same": r"^The same\b",
    "frame of": r"\bframes? of (?:pandas|polars|pyarrow)\b",
    "dangling": r"\b(?:others|none of them|of both|so many|of that)\b(?= *(?:[.,;:)]|$))",
    "archaic": r"\b(?:anew|whoever|whatever it|hence|thereby|lest)\b",
}


class Text(NamedTuple):
    """One docstring, comment or message, and the place where it stands."""

    place: str
    kind: str
    words: str


def texts(path: Path) -> Iterator[Text]:
    """Yield all docstrings, blocks of comments and messages of a file."""
    source = path.read_text()
    name = str(path.relative_to(ROOT))
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            words = ast.get_docstring(node)
            if words:
                yield Text(f"{name}:{node.body[0].lineno}", "docstring", words)
        elif isinstance(node, ast.JoinedStr):
            parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
            yield Text(f"{name}:{node.lineno}", "message", " ".join(map(str, parts)))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            # A message has several words, unlike keys, formats and names.
            and node.value.count(" ") > 2
            and "\n\n" not in node.value
        ):
            yield Text(f"{name}:{node.lineno}", "message", node.value)
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != last + 1:
                yield Text(f"{name}:{last}", "comment", " ".join(block))
                block = []
            block.append(token.string.lstrip("# "))
            last = token.start[0]
    if block:
        yield Text(f"{name}:{last}", "comment", " ".join(block))


def prose(words: str) -> str:
    """The text without its examples and code, in one line."""
    lines = [line for line in words.splitlines() if not re.match(r"\s*(?:>>>|\.\.\. )", line)]
    return " ".join(re.sub(r"`+[^`]*`+", "x", " ".join(lines)).split())


def found(pattern: str) -> list[Text]:
    """The texts of the package in which a pattern occurs, each place once."""
    expression = re.compile(pattern, re.IGNORECASE if "The same" not in pattern else 0)
    places = {
        text.place: text
        for path in sorted(PACKAGE.rglob("*.py"))
        for text in texts(path)
        if expression.search(prose(text.words))
    }
    return list(places.values())


@pytest.mark.parametrize("name", list(PATTERNS))
def test_wording_that_is_read_twice_does_not_grow_back(name):
    places = found(PATTERNS[name])
    assert len(places) <= LIMITS[name], [text.place for text in places]


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        for text in found(PATTERNS[chosen]):
            print(f"{text.place}: {prose(text.words)[:300]}")
    if not sys.argv[1:]:
        for each, pattern in PATTERNS.items():
            print(f"{each:16} {len(found(pattern)):5}")
