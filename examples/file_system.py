"""The space used by each directory, like `du`: one upward sweep over flat arrays, and a picture.

Every file and directory is a node with its own size, and the total of a directory is the sum over
everything below it. This is ``G.T.solve(sizes)`` with the structure matrix G of the tree, exact in
whole bytes. Run it with

    python examples/file_system.py /usr/lib --top 15 --picture usage.png
"""

from __future__ import annotations

import argparse
import os
import sysconfig
from pathlib import Path
from time import perf_counter

import numpy as np

import gmtree as gm

# Nodes that a picture has room for.
SHOWN = 60


def walk(top: Path) -> tuple[list[str], list[int], list[int], int]:
    """Paths, parents and sizes of everything below `top`, and the number of unreadable entries.

    Links are not followed, and a file with several names counts once, as in `du`.
    """
    paths, parents, sizes = [str(top)], [-1], [top.lstat().st_size]
    seen, unreadable = set(), 0
    # Directories to be read.
    waiting = [0]
    while waiting:
        directory = waiting.pop()
        try:
            entries = sorted(os.scandir(paths[directory]), key=lambda entry: entry.name)
        except OSError:
            unreadable += 1
            continue
        below = []
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                unreadable += 1
                continue
            is_directory = entry.is_dir(follow_symlinks=False)
            if is_directory:
                below.append(len(paths))
            size = status.st_size
            if status.st_nlink > 1 and not is_directory:
                file = (status.st_dev, status.st_ino)
                size = 0 if file in seen else size
                seen.add(file)
            paths.append(entry.path)
            parents.append(directory)
            sizes.append(size)
        waiting += reversed(below)
    return paths, parents, sizes, unreadable


def naive_totals(parents: list[int], sizes: list[int]) -> list[int]:
    """Each size added to all directories above it, one by one."""
    totals = [0] * len(parents)
    for i, size in enumerate(sizes):
        while i >= 0:
            totals[i] += size
            i = parents[i]
    return totals


def readable(size: int) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"


def largest_part(tree: gm.Tree, paths: list[str], totals: np.ndarray) -> tuple[gm.Tree, np.ndarray]:
    """The tree of the largest files and directories, and the size of each in MiB.

    The rest of each directory becomes a leaf of its own, so that sizes add up.
    """
    chosen = np.argsort(-totals, kind="stable")[:SHOWN].tolist()
    below: dict[int, list[int]] = {i: [] for i in chosen}
    names = {i: Path(paths[i]).name or paths[i] for i in chosen}
    held = {i: int(totals[i]) for i in chosen}
    for i in sorted(chosen):
        if (above := int(tree.parent[i])) >= 0:
            below[above].append(i)
    for i in chosen:
        rest = held[i] - sum(held[j] for j in below[i])
        if below[i] and rest > 0:
            other = -1 - i
            below[i].append(other)
            below[other], names[other], held[other] = [], "(others)", rest
    small = gm.Tree.from_objects(
        tree.root, below.__getitem__, label=names.__getitem__, length=held.__getitem__
    )
    return small, small.edge_length / 2**20


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = sysconfig.get_path("stdlib")
    parser.add_argument("directory", nargs="?", type=Path, default=Path(default))
    parser.add_argument("--top", type=int, default=10, help="how many directories to show")
    parser.add_argument("--picture", type=Path, help="draw the largest parts into this file")
    args = parser.parse_args(argv)
    if not args.directory.is_dir():
        parser.error(f"{args.directory} is not a directory")

    paths, parents, sizes, unreadable = walk(args.directory)
    tree = gm.Tree.from_parents(parents)
    G = gm.GenerationMatrix(tree)
    own = np.array(sizes)
    totals = G.T.solve(own)
    start = perf_counter()
    totals = G.T.solve(own)
    seconds = perf_counter() - start

    directories = tree.internal
    largest = directories[np.argsort(-totals[directories], kind="stable")][: args.top]
    for i in largest:
        print(f"{readable(int(totals[i])):>10}  {paths[i]}")
    print(f"\n{tree.n:,} files and directories, {unreadable} not readable, depth {tree.height}")

    start = perf_counter()
    expected = naive_totals(parents, sizes)
    naive_seconds = perf_counter() - start
    assert totals.tolist() == expected
    print(f"Rolled up in {seconds * 1e3:.2f} ms; adding one by one gives the same totals", end="")
    print(f" in {naive_seconds * 1e3:.0f} ms.")

    small, mebibytes = largest_part(tree, paths, totals)
    print()
    small.show(mebibytes.round(2), depth=3, children=4)
    if args.picture is not None:
        ax = gm.plot.icicle(small, mebibytes, unit="MiB")
        ax.set_title(f"The largest parts of {args.directory}")
        ax.figure.savefig(args.picture, dpi=150)
        print(f"\n{args.picture}: the {small.n} largest files and directories")


if __name__ == "__main__":
    main()
