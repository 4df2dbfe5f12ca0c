"""The structure of a hierarchy of series: a tree, or any other summing matrix."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gmtree import _validate as check
from gmtree.forecast.summing import SummingMatrix, read_summing
from gmtree.labels.codes import Codes
from gmtree.labels.columns import check_names
from gmtree.labels.distinct import is_hashable
from gmtree.labels.libraries import LIBRARIES, adapter
from gmtree.readers.objects import nest_rows
from gmtree.tree import Tree
from gmtree.tree.locate import different_kinds


class Structure:
    """Which series are sums of which, read once and used for any number of forecasts.

    Parameters
    ----------
    S_df : optional
        One of these descriptions:

        - the summing matrix as a frame, with names of series in the column `id_col` or in the
          index, and one column per leaf
        - hierarchicalforecast's `SMatrix`
        - a dense or sparse summing matrix; `tags` then lists the names of its rows in order
        - a frame with the columns of levels that `spec` names
        - a :class:`gmtree.Tree` whose labels are the names of the series
        - a dict from each series to the series that it is a part of, as in darts
    tags : dict, optional
        Names of the series of each level. This is enough without `S_df` if names spell their path
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
        The tree, if any two series are nested or have no leaf in common. Series k is node k. If no
        series is the sum of all, the tree has a further node, the last one, for that sum.
    matrix : scipy.sparse.csr_array of shape (series, leaves)
        The summing matrix. Its entries may be any numbers.
    leaf : array of int
        For each leaf, the number of the series that is this leaf alone.

    Examples
    --------
    >>> import gmtree as gm
    >>> places = {"state": ["N", "N", "S"], "town": ["a", "b", "a"], "kind": ["x", "y", "x"]}
    >>> gm.forecast.Structure(places, spec=["state", "town"]).labels.tolist()
    ['N', 'S', 'N/a', 'N/b', 'S/a']
    >>> gm.forecast.Structure({"a": "total", "b": "total"}).tree
    Tree(n=3, internal=1, leaves=2, height=2)
    """

    tree: Tree | None = None
    _axes: tuple[Structure, Structure] | None = None  # series and periods, if there are pairs

    def __init__(
        self, S_df: Any = None, tags: Any = None, *, spec: Any = None, id_col: str = "unique_id"
    ) -> None:
        check_names(id_col=id_col)
        self._setup(read_summing(S_df, tags, spec, id_col))

    @classmethod
    def _from_summing(cls, found: SummingMatrix) -> Structure:
        made = cls.__new__(cls)
        made._setup(found)
        return made

    def _setup(self, found: SummingMatrix) -> None:
        self.matrix, self.labels = found.matrix, found.labels
        self.levels = found.levels or {}
        size = np.diff(self.matrix.indptr)
        if not size.all():
            check.fail("S_df", f"must have leaves for each series; {self.name(_first(size == 0))} "
                       "has none.")  # fmt: skip
        self.leaf = self._leaves(size, found.leaf_names)
        if (self.matrix.data != 1).any():
            return
        start, cols = (x.astype(np.int64) for x in (self.matrix.indptr, self.matrix.indices))
        parent, _, bad = nest_rows(start, cols, self.matrix.shape)
        if bad < 0:
            roots = np.flatnonzero(parent < 0)
            if roots.size > 1:
                # No series is the sum of all, so the tree gets a root that is never measured.
                parent = np.append(parent, -1)
                parent[roots] = parent.size - 1
            self.tree = Tree.from_parents(parent)

    def _leaves(self, size: np.ndarray, leaf_names: np.ndarray | None) -> np.ndarray:
        """For each leaf, return the series that consists of this leaf alone.

        If there are several such series, it is the one with the name of the leaf, or else the last
        one.
        """
        start, cols = self.matrix.indptr, self.matrix.indices
        single = np.flatnonzero(size == 1)
        single = single[self.matrix.data[start[single]] == 1]
        leaf = np.full(self.n_leaves, -1, np.int64)
        leaf[cols[start[single]]] = single
        names = None if leaf_names is None else leaf_names.tolist()
        if names is not None and ((leaf < 0).any() or self.labels[leaf].tolist() != names):
            of_name = dict(zip(self.labels[single].tolist(), single.tolist(), strict=True))
            for k, name in enumerate(names):
                row = of_name.get(name, -1)
                if row >= 0 and cols[start[row]] != k:
                    check.fail(
                        "S_df",
                        f"must name rows and columns alike; the row {name!r} has its 1 in another "
                        "column.",
                    )
                leaf[k] = row if row >= 0 else leaf[k]
        if (leaf < 0).any():
            k = _first(leaf < 0)
            shown = k if leaf_names is None else check.shown(leaf_names[k])
            check.fail("S_df", "must have a row for each leaf alone, with a single 1; column "
                       f"{shown} has none.")  # fmt: skip
        return leaf

    def __repr__(self) -> str:
        how = "groups" if self.tree is None else "a tree"
        return f"Structure({self.n} series, {self.n_leaves} leaves, {how})"

    def name(self, k: int) -> str:
        """Name a series in an error message."""
        return f"series {check.shown(self.labels[k])}"

    # ------------------------------------------------------------------ numbers

    @property
    def n(self) -> int:
        """Number of series."""
        return self.labels.size

    @property
    def n_leaves(self) -> int:
        """Number of series that are not sums of other series."""
        return self.matrix.shape[1]

    @property
    def size(self) -> np.ndarray:
        """Number of leaves that each series is the sum of, or the sum of their absolute weights."""
        # Each row has entries.
        return np.add.reduceat(abs(self.matrix.data), self.matrix.indptr[:-1])

    @property
    def tags(self) -> dict[str, np.ndarray]:
        """Names of the series of each level."""
        return {name: self.labels[k] for name, k in self.levels.items()}

    @property
    def _sums_first(self) -> np.ndarray:
        """Numbers of the series, those of the leaves last."""
        return np.concatenate([np.delete(np.arange(self.n), self.leaf), self.leaf])

    def aggregate(self, leaves: np.ndarray) -> np.ndarray:
        """Return the values of all series, given those of the leaves in the order of `leaf`."""
        if self.tree is None or not np.array_equal(self.leaf, self.tree.leaves):
            return self.matrix @ leaves
        return self.tree.aggregate(leaves)[: self.n]

    def to_frame(self, id_col: str = "unique_id", backend: str = "pandas") -> Any:
        """Return the summing matrix as a DataFrame, as hierarchicalforecast expects it.

        Parameters
        ----------
        id_col : str
            Column with the names of the series. There is one more column for each leaf.
        backend : {"pandas", "polars", "pyarrow"}
            Library of the result. The columns of a pandas DataFrame are sparse.

        Examples
        --------
        >>> import gmtree as gm
        >>> gm.forecast.Structure({"a": "total", "b": "total"}).to_frame()
          unique_id    a    b
        0     total  1.0  1.0
        1         a  1.0  0.0
        2         b  0.0  1.0
        """
        check.one_of("backend", backend, LIBRARIES)
        rows = self._sums_first
        labels = adapter(backend).label_column(Codes(rows, self.labels))
        matrix, names = self.matrix[rows], [str(x) for x in self.labels[self.leaf].tolist()]
        if backend == "pandas":
            package = check.optional("pandas", "frames", "A pandas DataFrame")
            made = package.DataFrame.sparse.from_spmatrix(matrix, columns=names)
            made.insert(0, id_col, labels)
            return made
        columns = dict(zip(names, matrix.toarray().T, strict=True))
        return adapter(backend).frame({id_col: labels, **columns})

    # ------------------------------------------------------------------ labels

    @cached_property
    def _listed(self) -> list[Any]:
        return self.labels.tolist()

    @cached_property
    def _row_of(self) -> dict[Any, int]:
        return dict(zip(self._listed, range(self.n), strict=True))

    def _find(self, argument: str, names: Any) -> np.ndarray:
        """Return the numbers of series by their names, or by the names of their levels."""
        found = []
        for name in names:
            known = is_hashable(name)
            row = self._row_of.get(name, -1) if known else -1
            level = self.levels.get(name) if known else None
            if row < 0 and level is None:
                hint = "; its levels are " + check.some(map(repr, self.levels))
                check.fail(argument, "must name series or levels of the structure, not "
                           f"{check.shown(name)}{hint if self.levels else ''}.")  # fmt: skip
            if row >= 0 and level is not None and level.tolist() != [row]:
                check.fail(argument, f"must not name {name!r}, which is both a series and a level "
                           "with other series.")  # fmt: skip
            found.append(np.array([row]) if level is None else level)
        return np.concatenate(found)

    def _locate(
        self, argument: str, codes: Codes, column: str | None = None, what: str = "series"
    ) -> np.ndarray:
        """Return the series of each row; errors name the `column` of the frame `argument`."""
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
    """Return `S_df` if it is a structure, or make one from its description."""
    if isinstance(S_df, Structure):
        return S_df
    return Structure(S_df, tags, spec=spec, id_col=id_col)


def _first(mask: np.ndarray) -> int:
    return int(np.argmax(mask))
