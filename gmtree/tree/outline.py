"""The top of a tree as text and as HTML."""

from __future__ import annotations

from typing import Any

from gmtree import _validate as check
from gmtree._text import preformatted

_WIDEST_LABEL = 50


def lines(tree: Any, depth: int, children: int) -> list[tuple[str, int | None]]:
    """Lines of an outline with their nodes; None where several are left out."""
    found: list[tuple[str, int | None]] = []
    # (node, what stands before it, what stands before its children)
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


def _name(tree: Any, i: int) -> str:
    label = i if tree._labels is None else tree._labels[i]
    text = f"({i})" if label is None else str(label)
    return text if len(text) <= _WIDEST_LABEL else text[: _WIDEST_LABEL - 3] + "..."


def _number(x: Any) -> str:
    return f"{x:,}" if isinstance(x, int) else f"{x:,.6g}"


def text(tree: Any, values: Any, depth: int, children: int) -> str:
    """One line per node, with values in a column of their own."""
    depth = check.count("depth", depth, least=1)
    children = check.count("children", children, least=1)
    found = lines(tree, depth, children)
    if values is None:
        return "\n".join(line for line, _ in found)
    v = check.values("values", tree._aligned("values", values), tree.n)
    if v.ndim != 1:
        check.fail("values", f"must have shape ({tree.n},), not {v.shape}.")
    numbers = ["" if i is None else _number(v[i].item()) for _, i in found]
    wide, tall = max(len(line) for line, _ in found), max(map(len, numbers))
    rows = zip(found, numbers, strict=True)
    return "\n".join(f"{line:<{wide}}  {x:>{tall}}".rstrip() for (line, _), x in rows)


def html(tree: Any) -> str:
    """What notebooks show of a tree."""
    shape = f"{tree.n:,} nodes, {tree.n_leaves:,} leaves, height {tree.height}"
    return f"<div><b>Tree</b>: {shape}</div>{preformatted(text(tree, None, 3, 5))}"


def level_title(tree: Any, depth: int) -> str:
    """The name of a level, or its number."""
    names = tree.level_names
    if names is None:
        return f"level {depth}"
    k = depth - 1 - (tree.height - len(names))
    return "root" if k < 0 else names[k]
