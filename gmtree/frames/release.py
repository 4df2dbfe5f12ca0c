"""Private counts from frames of counts or of records."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.tables.queries import Axes
from gmtree.frames.doubts import doubts_about_levels
from gmtree.frames.rows import tree_of_levels
from gmtree.labels.codes import Codes
from gmtree.labels.columns import encode, take_column
from gmtree.labels.distinct import by_sorted_label, column
from gmtree.labels.levels import from_levels, read_levels, refuse_missing
from gmtree.labels.libraries import kind_of, library
from gmtree.privacy.accounting.budget import Budget
from gmtree.privacy.accounting.workload import TableQuery, workload_of
from gmtree.privacy.publishing.measuring import forget_locals
from gmtree.privacy.publishing.people import (
    Bounds,
    bounds_of,
    distinct_texts,
    kept_records,
    leaf_keys,
    number_people,
    person_text,
)
from gmtree.privacy.publishing.publish import Options, ReleaseOptions, publish
from gmtree.privacy.publishing.release import Release
from gmtree.privacy.publishing.tables import TableRelease
from gmtree.tree import Tree
from gmtree.tree.locate import level_codes, locate

if TYPE_CHECKING:
    from typing_extensions import Unpack


class FrameOptions(ReleaseOptions, total=False):
    """The keywords of :func:`release_frame` besides the tables."""

    count: str | None
    person: str | None
    max_contributions: int | None
    max_leaves: int | None
    max_per_leaf: int | None
    tree: Any
    leaves_are_public: bool
    ignore_unknown: bool


@overload
def release_frame(
    frame: Any, levels: Sequence[str], *, axes: None = None, **options: Unpack[FrameOptions]
) -> Release: ...


@overload
def release_frame(
    frame: Any,
    levels: Sequence[str],
    *,
    axes: Mapping[str, Any],
    queries: Sequence[TableQuery],
    **options: Unpack[FrameOptions],
) -> TableRelease: ...


def release_frame(
    frame: Any,
    levels: Sequence[str],
    *,
    axes: Mapping[str, Any] | None = None,
    queries: Sequence[TableQuery] | None = None,
    count: str | None = None,
    person: str | None = None,
    max_contributions: int | None = None,
    max_leaves: int | None = None,
    max_per_leaf: int | None = None,
    tree: Any = None,
    leaves_are_public: bool = False,
    ignore_unknown: bool = False,
    **options: Unpack[ReleaseOptions],
) -> Release | TableRelease:
    """Publish the counts of a DataFrame with differential privacy.

    Parameters
    ----------
    frame : pandas or polars DataFrame, or pyarrow Table
        Records, one per row, or one row per leaf with a column of counts. The order of rows does
        not matter.
    levels : list of str
        Columns of labels, coarse to fine.
    axes : mapping from column to labels or length, optional
        Columns by which the records of each leaf are tabulated, with their public values, such as
        ``{"sex": ["f", "m"], "age": ["young", "old"]}``; a length n stands for the values 0 to
        n - 1. The result is then a :class:`TableRelease`.
    queries : sequence of tuples, optional
        With `axes`: the measured marginals, as in :func:`release_tables`.
    count : str, optional
        Column of counts, which must be whole numbers. Negative counts become 0, or are refused
        with ``neighbors="change_one"``. By default every row is one record.
    person : str, optional
        Column that identifies the person of each record. Records beyond the bounds below are
        left out, so that the bounds are enforced for everyone. See Notes.
    max_contributions : int, optional
        Largest number of counted records per person. Default: `max_leaves` times `max_per_leaf` if
        both are given, otherwise 1. Without `person`, the caller asserts that nobody has more.
    max_leaves : int, optional
        Largest number of leaves with counted records of one person. Needs `person`.
    max_per_leaf : int, optional
        Largest number of counted records per person in one leaf. For a budget in rho, this bound
        costs less than `max_contributions` alone.
    tree : DataFrame, Table or Tree
        All leaves that could have a count, chosen without looking at the data: a frame with a row
        for each leaf, or a tree with these levels. Leaves without a row in `frame` count 0.
    leaves_are_public : bool
        Use the leaves that occur in `frame` as the tree. Only do this if everyone may know
        which leaves have a row: the ledger lists it as outside the guarantee.
    ignore_unknown : bool
        Leave out rows whose leaf is not in `tree`, or whose cell is not in `axes`, instead of
        refusing them. Labels are compared exactly, including blanks and leading zeros. The number
        of rows left out is not reported, but the ledger states that rows may have been left out. A
        row with a missing label in `levels` is still refused, because it could be a total.
    **options
        Options of :func:`gmtree.release`, such as `epsilon`, `rho`, `account`, `nonnegative` and
        `integer`, and without `axes` the public bounds `lower` and `upper`. By default the values
        are fractions and may be negative.

    Returns
    -------
    Release, or with `axes` TableRelease
        Its ``to_frame()`` returns a frame of the same library as `frame`, and its ``ledger`` states
        the privacy loss.

    Warns
    -----
    DataWarning
        If the levels seem to be given from fine to coarse, or if a label of the tree, such as
        "All", looks like that of a sum. This happens before anything is drawn.

    Notes
    -----
    Error messages never show labels or counts of `frame`.

    *Identity of people.* Each label in the column `person` is turned into a text, by a rule that
    looks at this one label only. Labels with the same text are the same person: 7, 7.0, "7" and
    "7.0" are one person, and so are equal labels of a categorical column whatever their codes.
    Any other text stands for itself: "007" is not 7. Rows without a person are refused, and so is
    a column with both numbers and texts such as "007". Read ids with leading zeros as text, in
    pandas with ``dtype=str``. Otherwise pandas decides from all ids of the file whether they are
    numbers.

    *Counted records.* A fixed public rule reads the records of one person at a time. It sorts the
    person's leaves by a hash (BLAKE2b, splitmix64) of the person's text and the leaf's labels, and
    counts records leaf by leaf until a bound is reached. So neither other people nor the order
    of rows change which records of a person are counted, and no leaf is preferred. With `axes` a
    record is in one cell of one leaf. Cells of one leaf are sorted by such a hash as well.

    *Structural zeros*: records in cells that ``structural_zeros`` marks, as in
    :func:`release_tables`, are not counted, and do not count towards a person's bounds.

    *Values of axes* are compared by the same texts as people: 7, 7.0 and "7" are one value.

    *Errors.* The counts describe the counted records only, and the standard errors and intervals
    do not include the records left out. If many people have more records than the bounds allow,
    the counts are far below the number of rows, and even their ranking may differ.

    Examples
    --------
    >>> import pandas as pd, gmtree as gm
    >>> people = pd.DataFrame({"state": ["NY", "VT", "NY"], "county": ["Kings", "Orange", "Kings"]})
    >>> public = pd.DataFrame({
    ...     "state": ["NY", "NY", "VT"], "county": ["Kings", "Orange", "Orange"]
    ... })
    >>> r = gm.release_frame(people, ["state", "county"], tree=public, epsilon=1)
    >>> r.to_frame()[["state", "county"]].iloc[-1].tolist()
    ['VT', 'Orange']

    Tables by sex, with one record of each person:

    >>> people["sex"], people["id"] = ["f", "m", "m"], [7, 8, 7]
    >>> r = gm.release_frame(
    ...     people, ["state", "county"], tree=public, person="id", axes={"sex": ["f", "m"]},
    ...     queries=[(), ("sex",)], rho=1,
    ... )
    >>> r.to_frame(("sex",)).columns[5:9].tolist()
    ['value_f', 'estimate_f', 'estimate_low_f', 'estimate_high_f']
    """
    outer = sys.exc_info()[1]
    try:
        bounds = bounds_of(
            person is not None,
            max_contributions,
            max_leaves,
            max_per_leaf,
            options.get("neighbors"),
        )
        terms: dict[str, Any] = dict(options)
        others = {name: terms.pop(name) for name in Options.__annotations__ if name in terms}
        budget = Budget.of(
            **terms,
            max_contributions=bounds.records,
            max_per_leaf=max_per_leaf,
            person=person,
            ignore_unknown=ignore_unknown,
        )
        workload = workload_of(budget, axes, queries)
        is_change = budget.neighbors == "change_one"
        made: type[Any] = Release if axes is None else TableRelease
        # No variable keeps the true counts, since a traceback could show it.
        return publish(
            made,
            *_tree_and_counts(
                frame, levels, axes, count, person, tree, leaves_are_public, ignore_unknown,
                is_change, bounds, workload.zeros,
            ),
            budget,
            workload,
            **others,
        )  # fmt: skip
    except BaseException as error:
        forget_locals(error, outer)
        raise
    finally:
        # Drop the records, because some tools print the local variables of a traceback.
        del frame


def _tree_and_counts(
    frame: Any,
    levels: Sequence[str],
    axes: Mapping[str, Any] | None,
    count: str | None,
    person: str | None,
    tree: Any,
    leaves_are_public: bool,
    ignore_unknown: bool,
    is_change: bool,
    bounds: Bounds,
    zeros: tuple[int, ...],
) -> tuple[Tree, np.ndarray]:
    """The tree and the true counts of its leaves, with each person's records within `bounds`."""
    check.flag("leaves_are_public", leaves_are_public)
    if person is not None and count is not None:
        check.fail("person", "must be None if 'count' is given: a row must be one record.")
    if ignore_unknown and is_change:
        check.fail(
            "ignore_unknown",
            "must be False with neighbors='change_one': the number of records is then public, "
            "and would show how many were left out.",
        )
    kind = kind_of("frame", frame)
    # An error must not reveal that the frame is empty.
    coded, names, _ = read_levels((frame,), levels, may_be_empty=tree is not None)
    counts = None if count is None else _counts(frame, count)
    people = None
    if person is not None:
        people = number_people("person", encode("person", take_column("person", frame, person)))
    if tree is None:
        if not leaves_are_public:
            check.fail(
                "tree",
                "must list the leaves, in a DataFrame or a Tree: a list made from the records "
                "shows where somebody has a record. If everyone may know which leaves have a row, "
                "pass leaves_are_public=True.",
            )
        tree, leaf = _tree_of_rows(coded, names, kind)
    else:
        if leaves_are_public:
            check.fail("leaves_are_public", "must be False if 'tree' lists the leaves.")
        tree = tree_of_levels(tree, names, kind)
        leaf = _leaves_of_rows(tree, list(zip(names, coded, strict=True)), ignore_unknown)
    for doubt in doubts_about_levels(tree):
        warnings.warn(doubt, check.DataWarning, stacklevel=3)
    cells = _Cells.of(frame, names, axes, leaf.size, ignore_unknown)
    rows = _counted_rows(tree, leaf, cells, people, bounds, zeros)
    return tree, _by_cell(tree, leaf[rows], cells, rows, counts)


def _counted_rows(
    tree: Tree,
    leaf: np.ndarray,
    cells: _Cells,
    people: tuple[np.ndarray, np.ndarray] | None,
    bounds: Bounds,
    zeros: tuple[int, ...],
) -> np.ndarray:
    """The rows of known leaves and cells; with `people`, only each person's counted records.

    `people` are the number of the person of each row and a hash of each person. Cells in `zeros`
    cannot occur.
    """
    possible = (leaf >= 0) & (cells.number >= 0)
    if zeros:
        possible &= ~np.isin(cells.number, zeros)
    rows = np.flatnonzero(possible)
    if people is None:
        return rows
    whose, person_key = people
    assert tree.level_names is not None
    labels = [level_codes(tree, k) for k in range(len(tree.level_names))]
    key = leaf_keys([Codes(c.codes[tree.leaves], c.categories) for c in labels])
    in_leaf = (cells.number[rows], cells.key) if cells.shape else None
    return rows[kept_records(leaf[rows], key, whose[rows], person_key, bounds, in_leaf)]


def _by_cell(
    tree: Tree, leaf: np.ndarray, cells: _Cells, rows: np.ndarray, counts: np.ndarray | None
) -> np.ndarray:
    """Count the given rows, or add up their `counts`, by leaf and cell."""
    place = leaf * cells.key.size + cells.number[rows]
    seen = np.bincount(place, minlength=tree.n_leaves * cells.key.size)
    if counts is not None:
        if seen.max() > 1:
            what = "cell of a leaf" if cells.shape else "leaf"
            check.fail("frame", f"must have each {what} once if 'count' is given; some occur "
                       "twice.")  # fmt: skip
        seen = np.zeros(seen.size, counts.dtype)
        seen[place] = counts[rows]
    return seen.reshape(tree.n_leaves, *cells.shape)


def _leaves_of_rows(
    tree: Tree, columns: list[tuple[str, Codes]], ignore_unknown: bool
) -> np.ndarray:
    """The leaf of each row by its number in ``tree.leaves``; -1 if it is unknown."""
    node = locate(tree, "frame", columns, tell=False, ignore=ignore_unknown)
    leaf = np.full(node.size, -1)
    known = np.flatnonzero(node >= 0)
    above = known[tree.child_count[node[known]] > 0]
    if above.size:
        check.fail("frame", f"must have a leaf in each row; row {above[0]} stops above one.")
    leaf[known] = np.searchsorted(tree.leaves, node[known])
    return leaf


class _Cells(NamedTuple):
    """The shape of the tables, the cell of each row (-1 if unknown), and a hash of each cell."""

    shape: tuple[int, ...]
    number: np.ndarray
    key: np.ndarray

    @classmethod
    def of(
        cls, frame: Any, levels: Sequence[str], axes: Any, rows: int, ignore_unknown: bool
    ) -> _Cells:
        """Find the cell of each row: its entries and the values of `axes` are compared as texts.

        Without axes there is one cell.
        """
        number = np.zeros(rows, np.int64)
        if axes is None:
            return cls((), number, np.zeros(1, np.uint64))
        found = Axes(axes)
        labels = []
        for name, length in found.names.items():
            if name in levels:
                check.fail("axes", f"must be other columns than 'levels'; {name!r} is in both.")
            listed = [person_text("axes", x) for x in found.labels[name] or range(length)]
            if None in listed or len(set(listed)) < length:
                check.fail(
                    "axes", f"must have distinct values and no missing ones; see axis {name!r}."
                )
            code, texts, _ = distinct_texts(
                "axes", encode("axes", take_column("axes", frame, name))
            )
            place = {text: k for k, text in enumerate(listed)}
            own = np.array([place.get(text, -1) for text in texts], np.int64)[code]
            if not ignore_unknown and (own < 0).any():
                row = int(np.argmax(own < 0))
                check.fail(
                    "frame",
                    f"must have a listed value of {name!r} in each row; row {row} has a value "
                    "that 'axes' does not list. ignore_unknown=True leaves such rows out.",
                )
            number = np.where((number < 0) | (own < 0), -1, number * length + own)
            labels.append(np.array([text or "" for text in listed], object))
        grid = np.indices(found.shape).reshape(len(labels), -1)
        key = leaf_keys([Codes(k, own) for k, own in zip(grid, labels, strict=True)])
        return cls(found.shape, number, key)


def _counts(frame: Any, count: str) -> np.ndarray:
    given = take_column("count", frame, count)
    try:
        a = np.asarray(given.to_numpy() if library(given) else given)
    except Exception as error:  # errors of other libraries may show values
        if isinstance(error, MemoryError):
            raise
        a = np.empty(0, object)
    if a.dtype.kind not in "iu":
        check.fail_type(
            "count",
            "must name a column of whole numbers, none of them missing. Whole floats become "
            "integers with .astype(int).",
        )
    return a


def _tree_of_rows(coded: list[Codes], names: list[str], kind: str) -> tuple[Tree, np.ndarray]:
    """Return a tree of the leaves that occur, sorted by their labels, and the leaf of each row.

    The tree must reveal neither the order of the rows nor labels that no row has, because both
    could depend on who is in the data.
    """
    refuse_missing(coded, names)
    columns = [_sorted_labels(c) for c in coded]
    order = np.lexsort([c.codes for c in reversed(columns)])
    sorted_rows = tuple(Codes(c.codes[order], c.categories) for c in columns)
    made = from_levels(sorted_rows, names, "error", records=True)
    tree = Tree._from_level_tree(made)._with_frames_of(kind)
    leaf = np.empty(order.size, np.int64)
    leaf[order] = made.node - tree.n_internal
    return tree, leaf


def _sorted_labels(c: Codes) -> Codes:
    """Sort the labels of a column, so that codes are ranks, and drop labels that no row has."""
    if c.categories is None:
        return c
    used, codes = np.unique(c.codes, return_inverse=True)
    labels = c.categories[used]
    if labels.dtype == object and set(map(type, labels.tolist())) != {str}:
        # Labels that are not all text may not be sortable, so they are sorted by their `repr`. The
        # type of the new column depends only on labels that occur.
        order = np.array(sorted(range(used.size), key=lambda k: repr(labels[k])), np.int64)
        labels = column("levels", labels[order].tolist())
        codes = np.argsort(order)[codes]
    rank = by_sorted_label(labels, np.arange(used.size))
    return Codes(rank[codes], labels[np.argsort(rank)])
