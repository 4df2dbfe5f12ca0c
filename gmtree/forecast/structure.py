"""The structure of a hierarchy of series: a tree, or crossed trees."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.crossing import Crossing, cross
from gmtree.forecast.rows import Rows, read_rows
from gmtree.labels.columns import Codes, refuse_no_names
from gmtree.labels.locate import different_kinds
from gmtree.readers.objects import nest_rows
from gmtree.tree import Tree


class Structure:
    """Which series are sums of which others, read once and used for any number of forecasts.

    Parameters
    ----------
    S_df : optional
        The summing matrix as a frame (names of series in the column `id_col`, or in the index; one
        column per leaf), as hierarchicalforecast's `SMatrix`, or as a plain or sparse matrix, whose
        rows `tags` then name in order; a frame with columns of levels that `spec` names; a
        :class:`gmtree.Tree` whose labels are the names of the series; or a dict from each
        series to those it is a part of, as darts has it.
    tags : dict, optional
        For each level the names of its series. Alone, it is enough if names spell their path
        (``"Australia/Victoria"`` in ``tags["Country/State"]``).
    spec : list of lists of str, optional
        Columns of each level, as in hierarchicalforecast's `aggregate`. A list of names
        ``["state", "region"]`` stands for levels that nest.
    id_col : str
        Column of names.

    Attributes
    ----------
    labels : array
        Names of the series.
    tree : Tree or None
        The tree, if any two series are nested or have no leaf in common. Series k is node k; if no
        series is the sum of all, the last node is.
    trees : list of Tree
        One tree for each axis; several where series are crossed, as geography and purpose are.

    Examples
    --------
    >>> import gmtree as gm
    >>> places = {"state": ["N", "N", "S"], "town": ["a", "b", "a"], "kind": ["x", "y", "x"]}
    >>> gm.forecast.Structure(places, spec=["state", "town"]).labels.tolist()
    ['N', 'S', 'N/a', 'N/b', 'S/a']
    >>> gm.forecast.Structure({"a": "total", "b": "total"}).tree
    Tree(n=3, internal=1, leaves=2, height=2)
    """

    def __init__(
        self, S_df: Any = None, tags: Any = None, *, spec: Any = None, id_col: str = "unique_id"
    ) -> None:
        refuse_no_names(id_col=id_col)
        self._setup(read_rows(S_df, tags, spec, id_col))

    @classmethod
    def _of_rows(cls, rows: Rows) -> Structure:
        made = cls.__new__(cls)
        made._setup(rows)
        return made

    def _setup(self, rows: Rows) -> None:
        self._rows = rows
        self.labels = rows.labels
        size = np.diff(rows.start)
        if not size.all():
            check.fail("S_df", f"must have leaves for each series; {self.name(_first(size == 0))} "
                       "has none.")  # fmt: skip
        shape = (size.size, rows.n_leaves)
        parent, owner, bad = nest_rows(rows.start, rows.cols, shape)
        self.tree: Tree | None = None
        self.has_total = True
        self.leaf = self._leaves(owner, size)
        if bad < 0:
            roots = np.flatnonzero(parent < 0)
            if roots.size > 1:
                # The sum of all is no series: a node that is never measured.
                parent = np.append(parent, -1)
                parent[roots] = parent.size - 1
                self.has_total = False
            self.tree = Tree.from_parents(parent)
        else:
            # Fails if it would be too large, naming what breaks the tree.
            self._crossing = cross(rows, self.name)

    def _leaves(self, owner: np.ndarray, size: np.ndarray) -> np.ndarray:
        """The series of each leaf; of several, the one that is named like it, or the last."""
        rows = self._rows
        single = np.flatnonzero(size == 1)
        leaf = np.full(rows.n_leaves, -1, np.int64)
        leaf[rows.cols[rows.start[single]]] = single
        if rows.leaf_names is not None:
            names = rows.leaf_names.tolist()
            mine = rows.labels[single].tolist()
            if (leaf < 0).any() or rows.labels[leaf].tolist() != names:
                of_name = dict(zip(mine, single.tolist(), strict=True))
                for k, name in enumerate(names):
                    row = of_name.get(name, -1)
                    if row >= 0 and rows.cols[rows.start[row]] != k:
                        check.fail(
                            "S_df",
                            f"must name rows and columns alike; column {name!r} is not the leaf of "
                            "the series of that name.",
                        )
                    leaf[k] = row if row >= 0 else leaf[k]
        if (leaf < 0).any():
            k = _first(leaf < 0)
            what = k if rows.leaf_names is None else check.shown(rows.leaf_names[k])
            check.fail("S_df", f"must have a series for each leaf alone; column {what} has none.")
        return leaf

    def __repr__(self) -> str:
        how = "a tree" if self.tree is not None else f"{len(self.trees)} crossed trees"
        return f"Structure({self.n} series, {self.n_leaves} leaves, {how})"

    def name(self, k: int) -> str:
        """A series for an error message."""
        return f"series {check.shown(self.labels[k])}"

    # ------------------------------------------------------------------ numbers

    @property
    def n(self) -> int:
        """Number of series."""
        return self.labels.size

    @property
    def n_leaves(self) -> int:
        """Number of series that are no sums of others."""
        return self._rows.n_leaves

    @property
    def size(self) -> np.ndarray:
        """How many leaves each series is the sum of."""
        return np.diff(self._rows.start)

    @property
    def levels(self) -> dict[str, np.ndarray]:
        """Numbers of the series of each level, where levels have names."""
        return self._rows.levels or {}

    @property
    def tags(self) -> dict[str, np.ndarray]:
        """Names of the series of each level."""
        return {name: self.labels[k] for name, k in self.levels.items()}

    @cached_property
    def matrix(self) -> Any:
        """The summing matrix, sparse."""
        from scipy.sparse import csr_matrix

        rows = self._rows
        ones = np.ones(rows.cols.size)
        return csr_matrix((ones, rows.cols, rows.start), (self.n, self.n_leaves))

    def aggregate(self, leaves: np.ndarray) -> np.ndarray:
        """Values of all series from those of the leaves, in the order of `leaf`."""
        if self.tree is None or not np.array_equal(self.leaf, self.tree.leaves):
            return self.matrix @ leaves
        return self.tree.aggregate(leaves)[: self.n]

    # ------------------------------------------------------------------ axes

    @property
    def crossing(self) -> Crossing:
        """The same as crossed trees; one tree for a strict hierarchy."""
        if self.tree is not None:
            return Crossing([self.tree], np.arange(self.n), None)
        return self._crossing

    @property
    def trees(self) -> list[Tree]:
        """One tree for each axis."""
        return list(self.crossing.trees)

    # ------------------------------------------------------------------ labels

    @cached_property
    def _listed(self) -> list[Any]:
        return self.labels.tolist()

    @cached_property
    def _row_of(self) -> dict[Any, int]:
        return dict(zip(self._listed, range(self.n), strict=True))

    def find(self, argument: str, labels: Any) -> np.ndarray:
        """Numbers of series by their names."""
        found = []
        for label in labels:
            row = self._row_of.get(label, -1) if _hashable(label) else -1
            if row < 0:
                check.fail(argument, f"must name series of the structure, not {label!r}.")
            found.append(row)
        return np.array(found, np.int64)

    def locate(self, argument: str, codes: Codes) -> np.ndarray:
        """The series of each row of a column of names."""
        return self._locate(argument, codes)

    def _locate(
        self, argument: str, codes: Codes, column: str | None = None, what: str = "series"
    ) -> np.ndarray:
        """The same; errors name the `column` of the frame that `argument` is."""
        where = "" if column is None else f" in its column {column!r}"
        if (missing := codes.missing) is not None:
            first = _first(missing)
            check.fail(argument, f"must have no missing names{where}; row {first} has none.")
        if codes.categories is None:
            names, place = np.unique(codes.codes, return_inverse=True)
        else:
            names, place = codes.categories, codes.codes
        listed = names.tolist()
        if len(listed) == self.n and listed == self._listed:
            return np.asarray(place, np.int64)
        get = self._row_of.get
        row = np.fromiter((get(name, -1) for name in listed), np.int64, len(listed))
        found = row[place]
        if (row < 0).any() and (found < 0).any():
            k = _first(found < 0)
            hint = different_kinds([Codes(np.arange(self.n), self.labels)], [codes], "structure")
            check.fail(
                argument,
                f"must name {what} of the structure{where}; row {k} has {codes.label(k)!r}.{hint}",
            )
        return found


def structure_of(S_df: Any, tags: Any, spec: Any, id_col: str) -> Structure:
    """A structure as it is, or made from what describes it."""
    if isinstance(S_df, Structure):
        return S_df
    return Structure(S_df, tags, spec=spec, id_col=id_col)


def _first(mask: np.ndarray) -> int:
    return int(np.argmax(mask))


def _hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True
