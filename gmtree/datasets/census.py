"""The data set Census2010: people by census block, in eight levels of geography."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from gmtree import _validate as check
from gmtree import shapes
from gmtree._memory import refuse_large_tree
from gmtree.datasets import files
from gmtree.datasets.dataset import Dataset, RandomSource, share_out
from gmtree.tree import Tree
from gmtree.tree.order import Positions

LEVELS = (
    "United States",
    "State",
    "County",
    "County Subdivision",
    "Place/Remainder",
    "Census Tract",
    "Block Group",
    "Block",
)

PEOPLE = 312_471_327

# Number of nodes on each level of the look-alike. The 2010 tallies of the Census Bureau, including
# Puerto Rico, give 52 states, 3,143 + 78 counties, 35,703 + 902 county subdivisions and 11,078,297
# + 77,189 blocks. There are no tallies of the parts of places, tracts and block groups. So these
# three numbers are plausible guesses, chosen to give 646,676 internal nodes.
LEVEL_SIZES = (1, 52, 3_221, 36_605, 62_851, 171_000, 372_946, 11_155_486)

# Number of upper levels (nation, states, counties) whose fan-outs depend on the size of the tree.
UPPER_FANOUTS = 3

EMPTY_BLOCKS = 0.4
# Standard deviations of the logarithms of log-normal weights, by which siblings differ.
FANOUT_SPREAD = 1.0
DENSITY_SPREAD = 0.7
BLOCK_SPREAD = 1.1


def census2010(
    path: files.Paths | None = None,
    *,
    nodes: int | None = None,
    labels: bool = False,
    rng: RandomSource = 2010,
) -> Dataset:
    """The counts of people by census block, in eight levels from the United States to the block.

    Parameters
    ----------
    path : path or list of paths, optional
        Geographic headers of the 2010 Census Summary File 1 (``nygeo2010.sf1``), archives as the
        Census Bureau publishes them (``ny2010.sf1.zip``), or folders with such files. Blocks are
        the records of summary level 101, with the counts POP100. The tree has the blocks of the
        states in these files, ordered by code. By default a look-alike is generated.
    nodes : int, optional
        Number of nodes of the look-alike, by default 11,802,162 as in the paper. The tree always
        has eight levels, so it has at least eight nodes.
    labels : bool
        Whether to label the nodes of the real tree with their codes, so that Albany County is
        ``tree.node(("36", "001"))``. The codes of the whole country take 280 MB. False by default.
    rng : numpy Generator or seed, optional
        Source of randomness for the look-alike, which by default is the same in every call.

    Notes
    -----
    The look-alike is made level by level. Every node gets one child, and the other nodes of the
    next level are divided in proportion to log-normal weights. Of the blocks, 40 % are empty. Each
    of the other blocks gets one person. The remaining people are divided in proportion to the
    product of two log-normal weights, one of the block and one of its block group. At full size
    there are 646,676 internal nodes, 11,155,486 blocks and 312,471,327 people. At other sizes the
    numbers of states, counties and county subdivisions change, but the average numbers of nodes
    below a county subdivision and of people per block do not.

    Examples
    --------
    >>> import gmtree as gm
    >>> data = gm.datasets.census2010(nodes=10_000)
    >>> data.tree.n, data.tree.height, data.description
    (10000, 8, 'look-alike, not census data')
    """
    if path is None:
        if labels:
            check.fail(
                "labels", "must be False without 'path', because the look-alike has no codes."
            )
        sizes = LEVEL_SIZES if nodes is None else _scaled_sizes(nodes)
        tree, counts = _look_alike(sizes, check.generator("rng", rng))
        return Dataset(tree, counts, "census2010", False, "look-alike, not census data", "people")
    if nodes is not None:
        check.fail(
            "nodes", "must be None with 'path', because the files determine the number of nodes."
        )
    sources = files.find(path, _is_header, "geographic headers such as nygeo2010.sf1")
    upper, lower, people = _sorted_blocks(*_read_blocks(sources))
    starts = _first_rows(upper, lower)
    tree = _tree_of_starts(starts)
    if labels:
        tree = _labelled(tree, upper, lower, starts)
    noun = "file" if len(sources) == 1 else "files"
    description = f"2010 Census Summary File 1, {len(sources)} {noun}"
    return Dataset(tree, people, "census2010", True, description, "people")


# --------------------------------------------------------------------------- real files

# Start (counted from 1) and width of fields, from "Geographic Header Record" in chapter 2 of the
# 2010 Census Summary File 1 Technical Documentation. Records are text with one byte per character.
SUMMARY_LEVEL = (9, 3)  # SUMLEV
COMPONENT = (12, 2)  # GEOCOMP
UPPER = ((28, 2), (30, 3), (37, 5), (46, 5))  # STATE, COUNTY, COUSUB, PLACE
LOWER = ((55, 6), (61, 1), (62, 4))  # TRACT, BLKGRP, BLOCK
POPULATION = (319, 9)  # POP100

BLOCK_LEVEL = b"101" + b"00"  # Geographic component "00" is the complete block.

# The codes of a block form two whole numbers of 15 and 11 digits. For each level, integer division
# of these numbers gives the code of the node that contains the block.
UPPER_DIVISORS = (10**13, 10**10, 10**5, 1)
LOWER_DIVISORS = (10**5, 10**4, 1)


def _offsets(*fields: tuple[int, int]) -> np.ndarray:
    return np.concatenate([np.arange(start - 1, start - 1 + size) for start, size in fields])


def _is_header(name: str) -> bool:
    return name.lower().endswith("geo2010.sf1")


def _read_blocks(sources: list[files.Source]) -> tuple[np.ndarray, ...]:
    """Codes (upper and lower part) and populations of all blocks, in the order of the files."""
    parts = [_parse(source, lines) for source, lines in files.read_lines(sources)]
    upper, lower, people = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not upper.size:
        check.fail(
            "path",
            "must hold records of summary level 101; "
            f"none found in {check.some(str(source) for source in sources)}.",
        )
    return upper, lower, people


def _parse(source: files.Source, lines: files.Lines) -> tuple[np.ndarray, ...]:
    length = lines.stop - lines.start
    kind = _offsets(SUMMARY_LEVEL, COMPONENT)
    rows = np.flatnonzero(length > kind[-1])
    is_block = lines.columns(rows, kind) == np.frombuffer(BLOCK_LEVEL, dtype=np.uint8)
    rows = rows[is_block.all(axis=1)]
    count = _offsets(POPULATION)
    whole = length[rows] > count[-1]
    if whole.all():
        upper, good = files.to_numbers(lines.columns(rows, _offsets(*UPPER)))
        lower, good_too = files.to_numbers(lines.columns(rows, _offsets(*LOWER)))
        people, counted = files.to_padded_numbers(lines.columns(rows, count))
        whole = good & good_too & counted
        if whole.all():
            return upper, lower, people
    bad = lines.first + rows[np.argmin(whole)]
    check.fail(
        "path",
        "must hold complete records with codes of digits and a number of people; "
        f"line {bad} of {source} does not.",
    )


def _sorted_blocks(
    upper: np.ndarray, lower: np.ndarray, people: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Blocks sorted by code; within each file they already are in this order."""
    step, inner = np.diff(upper), np.diff(lower)
    if np.any((step < 0) | ((step == 0) & (inner < 0))):
        order = np.lexsort((lower, upper))
        upper, lower, people = upper[order], lower[order], people[order]
    twice = np.flatnonzero((np.diff(upper) == 0) & (np.diff(lower) == 0))
    if twice.size:
        k = int(twice[0])
        check.fail(
            "path",
            f"must hold each block once; block {upper[k]:015d} {lower[k]:011d} occurs twice. "
            "Was one file given under two names?",
        )
    return upper, lower, people


def _codes(upper: np.ndarray, lower: np.ndarray) -> Iterator[np.ndarray]:
    """For each level below the root, the code of the node that contains each block."""
    for divisor in UPPER_DIVISORS:
        yield upper // divisor
    for divisor in LOWER_DIVISORS:
        yield lower // divisor


def _first_rows(upper: np.ndarray, lower: np.ndarray) -> list[np.ndarray]:
    """For each level below the root, the row of the first block of each node."""
    starts = []
    new = np.zeros(upper.size, dtype=bool)
    new[0] = True
    for code in _codes(upper, lower):
        new[1:] |= code[1:] != code[:-1]
        starts.append(np.flatnonzero(new))
    return starts


def _tree_of_starts(starts: list[np.ndarray]) -> Tree:
    fanouts = [np.array([starts[0].size])]
    for above, below in pairwise(starts):
        first_child = np.searchsorted(below, above)
        fanouts.append(np.diff(first_child, append=below.size))
    return shapes.from_fanouts(fanouts)


def _labelled(tree: Tree, upper: np.ndarray, lower: np.ndarray, starts: list[np.ndarray]) -> Tree:
    widths = [size for _, size in (*UPPER, *LOWER)]
    widest = max(widths)
    text = np.zeros((tree.n, widest), dtype=np.uint32)
    text[0, :2] = [ord(letter) for letter in "US"]
    row = 1
    for code, rows, width in zip(_codes(upper, lower), starts, widths, strict=True):
        power = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
        text[row : row + rows.size, :width] = code[rows, None] // power % 10 + ord("0")
        row += rows.size
    labels = text.view(f"U{widest}")[:, 0]
    found = Positions.canonical(tree._parent, tree._level_start)
    return Tree._assemble(tree._parent, found, labels, level_names=LEVELS)


# --------------------------------------------------------------------------- look-alike


def _scaled_sizes(nodes: int) -> tuple[int, ...]:
    """Sizes of the levels of a tree with a given number of nodes.

    The fan-outs of the full tree are raised to a power. First this changes the upper levels only.
    The fan-outs of the lower levels shrink only when those of the upper levels have reached one, at
    about 300 nodes.
    """
    nodes = check.count("nodes", nodes, least=len(LEVEL_SIZES))
    refuse_large_tree("nodes", nodes)
    if nodes == sum(LEVEL_SIZES):
        return LEVEL_SIZES
    sizes = np.array(LEVEL_SIZES, dtype=float)
    fanout = sizes[1:] / sizes[:-1]

    def scaled(t: float) -> np.ndarray:
        power = np.full(fanout.size, min(1 + t, 1.0))
        power[:UPPER_FANOUTS] = max(t, 0.0)
        return np.cumprod([1, *fanout**power])

    low, high = -1.0, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if scaled(middle).sum() <= nodes else (low, middle)
    inner = [int(size) for size in scaled(low)[:-1]]
    return (*inner, nodes - sum(inner))


def _look_alike(sizes: tuple[int, ...], rng: np.random.Generator) -> tuple[Tree, np.ndarray]:
    fanouts = []
    for above, below in pairwise(sizes):
        weights = rng.lognormal(sigma=FANOUT_SPREAD, size=above)
        fanouts.append(1 + share_out(below - above, weights))
    tree = shapes.from_fanouts(fanouts)

    blocks, groups = sizes[-1], sizes[-2]
    occupied = rng.random(blocks) >= EMPTY_BLOCKS
    occupied[0] |= not occupied.any()
    weights = rng.lognormal(sigma=BLOCK_SPREAD, size=blocks)
    weights *= np.repeat(rng.lognormal(sigma=DENSITY_SPREAD, size=groups), fanouts[-1])
    weights *= occupied
    people = PEOPLE * blocks // LEVEL_SIZES[-1]
    counts = share_out(people - int(np.count_nonzero(occupied)), weights)
    counts += occupied
    return tree, counts
