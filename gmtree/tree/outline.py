"""The top levels of a tree as text and as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree._text import printable
from gmtree.tree.kinship import TreeKinship
from gmtree.tree.locate import level_names

_WIDEST_LABEL = 50


def lines(tree: TreeKinship, depth: int, children: int) -> list[tuple[str, int | None]]:
    """Lines of an outline with the node of each, or None if a line stands for several nodes."""
    found: list[tuple[str, int | None]] = []
    # (node, text before it, text before its children)
    waiting: list[tuple[int | str, str, str]] = [(tree.root, "", "")]
    while waiting:
        i, before, below = waiting.pop()
        if isinstance(i, str):
            found.append((before + i, None))
            continue
        found.append((before + _name(tree, i), i))
        inner = tree.children(i).tolist()
        level = len(below) // 4 + 2
        if inner and level > depth:
            count = int(tree.subtree_size[i]) - 1
            found.append((f"{below}└── ... {count:,} below", None))
            continue
        shown: list[int | str] = list(inner[:children])
        if len(inner) > children:
            shown.append(f"... {len(inner) - children:,} more")
        for k in range(len(shown) - 1, -1, -1):
            last = k == len(shown) - 1
            waiting.append(
                (
                    shown[k],
                    below + ("└── " if last else "├── "),
                    below + ("    " if last else "│   "),
                )
            )
    return found


def _name(tree: TreeKinship, i: int) -> str:
    label = i if tree._labels is None else tree._labels[i]
    text = f"({i})" if label is None else printable(str(label), newlines=False)
    return text if len(text) <= _WIDEST_LABEL else text[: _WIDEST_LABEL - 3] + "..."


def _number(x: Any) -> str:
    if isinstance(x, int):
        return f"{x:,}"
    return f"{x:,.0f}" if 1e6 <= abs(x) < 1e15 else f"{x:,.6g}"


def text(tree: TreeKinship, v: np.ndarray | None, depth: int, children: int) -> str:
    """An outline with one line per node, and the values in a separate column."""
    depth = check.count("depth", depth, least=1)
    children = check.count("children", children, least=1)
    found = lines(tree, depth, children)
    if v is None:
        return "\n".join(line for line, _ in found)
    numbers = ["" if i is None else _number(v[i].item()) for _, i in found]
    wide, tall = max(len(line) for line, _ in found), max(map(len, numbers))
    rows = zip(found, numbers, strict=True)
    return "\n".join(f"{line:<{wide}}  {x:>{tall}}".rstrip() for (line, _), x in rows)


def html(tree: TreeKinship, columns: Mapping[str, np.ndarray] | None = None) -> str:
    """The top of a tree as an HTML table for notebooks, with columns of numbers per node."""
    shape = f"{tree.n:,} nodes, {tree.n_leaves:,} leaves, {tree.height} levels"
    style = "text-align:left;white-space:pre;font-family:monospace;padding:0 1em 0 0"
    rule, number = "border-bottom:1px solid currentColor", "text-align:right;padding:0 0 0 1em"
    columns = columns or {}
    heads = "".join(f"<th style='{rule};{number}'>{escape(name)}</th>" for name in columns)
    rows = [f"<tr><th style='{style};{rule}'>node</th>{heads}</tr>"] if columns else []
    for line, i in lines(tree, 3, 5):
        cells = "".join(
            f"<td style='{number}'>{'' if i is None else escape(_number(x[i].item()))}</td>"
            for x in columns.values()
        )
        rows.append(f"<tr><td style='{style}'>{escape(line)}</td>{cells}</tr>")
    table = "".join(rows)
    return f"<div>{shape}</div><table style='background:transparent;color:inherit'>{table}</table>"


def level_title(tree: TreeKinship, depth: int) -> str:
    """The name of a level, or its number."""
    return level_names(tree)[depth - 1] or f"level {depth}"
