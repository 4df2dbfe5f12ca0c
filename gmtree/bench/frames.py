"""Frames and Newick beside what pandas and scikit-bio need for the same data."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from gmtree._progress import Progress
from gmtree.bench.report import Check, Report
from gmtree.bench.settings import Settings
from gmtree.bench.timing import best_times, peak_bytes, time_of
from gmtree.shapes import random_recursive
from gmtree.tree import Tree

# Rows and levels of a census, nodes and dates of a forecast, tips of a phylogeny.
ROWS, LEVELS = 11_200_000, (1, 51, 3143, 73_057, 220_000, 3_700_000, 11_200_000)
TEXT_ROWS = 2_000_000
NODES, DATES = 100_000, 12
TIPS = 1_000_000


def run(settings: Settings) -> Report:
    """Measure all bars of frames for which pandas, and scikit-bio, are installed."""
    report = Report("frames", "Frames", settings.as_dict())
    times = settings.times(usual=3, quick=1)
    share = 1.0 if settings.size is None else min(1.0, settings.size / ROWS)
    steps = [
        (levels, "pandas"),
        (text_levels, "pandas"),
        (reconcile, "narwhals"),
        (newick, "skbio"),
    ]
    with Progress(len(steps), "frames") as progress:
        for step, package in steps:
            progress.advance(0, step.__name__.replace("_", " "))
            if find_spec("pandas") and find_spec(package):
                report.checks += step(share, times)
            else:
                report.notes.append(f"Not measured, since {package} is missing: {step.__doc__}")
            progress.advance(1)
    return report


def census_frame(rows: int) -> Any:
    """A frame of whole numbers that count within the level above, in the order of the tree."""
    import pandas as pd

    leaf, above = np.arange(rows), np.zeros(rows, np.int64)
    columns = {}
    for k, size in enumerate(LEVELS):
        node = leaf * max(1, size * rows // ROWS) // rows
        columns[f"level {k}"] = node - node[np.searchsorted(above, above)]
        above = node
    return pd.DataFrame(columns)


def levels(share: float, times: int) -> Iterator[Check]:
    """Columns of whole numbers and of categories."""
    plain = census_frame(max(1000, int(ROWS * share)))
    mixed = plain.sample(frac=1, random_state=0, ignore_index=True)
    full = share == 1
    for name, frame in (
        ("whole numbers", plain),
        ("whole numbers, shuffled", mixed),
        ("categories", plain.astype("category")),
        ("categories, shuffled", mixed.astype("category")),
    ):
        names = list(frame)

        def ours(frame: Any = frame, names: list[str] = names) -> None:
            Tree.from_levels(frame, levels=names)

        def theirs(frame: Any = frame, names: list[str] = names) -> None:
            frame.groupby(names, observed=True).size()

        a, b = best_times((ours, theirs), times)
        yield Check(f"{name}: from_levels / pandas' groupby.size", a / b, 6, applies=full)
        memory = peak_bytes(ours) / frame.memory_usage(index=False, deep=True).sum()
        yield Check(f"{name}: memory of from_levels / frame's", memory, 3, applies=full)


def text_levels(share: float, times: int) -> Iterator[Check]:
    """Columns of text."""
    import pandas as pd

    frame = census_frame(max(1000, int(TEXT_ROWS * share)))
    frame = frame.sample(frac=1, random_state=0, ignore_index=True).astype(str)
    names = list(frame)
    a, b = best_times(
        (
            lambda: Tree.from_levels(frame, levels=names),
            lambda: [pd.factorize(frame[name]) for name in names],
        ),
        times,
    )
    yield Check("text, shuffled: from_levels / pandas' factorize", a / b, 3, applies=share == 1)


def reconcile(share: float, times: int) -> Iterator[Check]:
    """A tidy frame of nodes and dates."""
    import pandas as pd

    from gmtree.frames import reconcile_frame

    side = max(4, round((NODES * share) ** 0.5))
    pairs = [(f"g{k}", f"s{j}") for k in range(side) for j in range(side)]
    rows = [(None, None), *((f"g{k}", None) for k in range(side)), *pairs]
    one = pd.DataFrame(rows, columns=["group", "shop"])
    frame = pd.concat([one.assign(date=k) for k in range(DATES)], ignore_index=True)
    frame["y"] = np.random.default_rng(0).normal(size=len(frame))
    frame = frame.sample(frac=1, random_state=0, ignore_index=True)
    a, b = best_times(
        (
            lambda: reconcile_frame(frame, ["group", "shop"], "y", by="date"),
            lambda: frame.pivot(index=["group", "shop"], columns="date", values="y"),
        ),
        times,
    )
    yield Check(f"{len(one):,} nodes, {DATES} dates: reconcile_frame / pandas' pivot", a / b, 3,
                applies=share == 1)  # fmt: skip


def newick(share: float, times: int) -> Iterator[Check]:
    """A phylogeny in Newick."""
    import skbio

    tips = max(1000, int(TIPS * share))
    # Half of the nodes of a random recursive tree are leaves.
    tree = random_recursive(2 * tips, rng=0)
    tree = Tree.from_parents(tree.parent, labels=[f"n{i}" for i in range(tree.n)])
    text = tree.to_newick(length=np.random.default_rng(0).exponential(size=tree.n).round(9))
    ours, theirs = [], []
    Tree.from_newick("(a:1,b:2);")
    a = min(time_of(lambda: ours.append(Tree.from_newick(text))) for _ in range(times))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stream = io.StringIO(text)
        b = time_of(lambda: theirs.append(skbio.TreeNode.read(stream, format="newick")))
    same = Tree.from_objects(theirs[0], length="length")
    ours_length, their_length = (np.asarray(tree.edge_length) for tree in (ours[0], same))
    equal = same == ours[0] and np.array_equal(ours_length, their_length)
    yield Check("Newick: same tree and lengths as scikit-bio's", float(equal), 1, at_least=True,
                about_results=True)  # fmt: skip
    yield Check("Newick: times faster than scikit-bio", b / a, 5, at_least=True, applies=share == 1)
