"""Axes of tables, queries that keep some of them, and the spaces of contrasts they measure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check

Query = tuple[Hashable, ...]


class Space(NamedTuple):
    """A space of contrasts: its axes, and where its columns start and stop."""

    axes: frozenset[int]
    start: int
    stop: int

    @property
    def columns(self) -> slice:
        """The columns of the space, as an index."""
        return slice(self.start, self.stop)


class Measured(NamedTuple):
    """A query: its axes in ascending order, and the sums and contrasts that it measures.

    Attributes
    ----------
    name : tuple
        As the user wrote it.
    axes : tuple of int
    lengths : array of int
    blocks : array of int
        The spaces it measures.
    source : array of int
        The entries of its table, in the order of the columns of these spaces.
    factor : array
        Its precision in each of these spaces, if its cells have precision 1.
    """

    name: Query
    axes: tuple[int, ...]
    lengths: np.ndarray
    blocks: np.ndarray
    source: np.ndarray
    factor: np.ndarray


class Axes:
    """The axes of a table, and its entries as sums and contrasts.

    Attributes
    ----------
    names : dict from name to length
    labels : dict from name to tuple of labels, or None if only the length was given
    shape : tuple of int
    spaces : list of Space
    columns : array of int
        The entries of the table, one space after the other.
    """

    def __init__(self, axes: Mapping[Any, Any]) -> None:
        self.names, self.labels = _lengths_and_labels(axes)
        self.shape = tuple(self.names.values())
        columns, self.spaces = _by_space(self.shape)
        self.columns = columns.astype(np.uint32)

    def by_query(
        self, argument: str, given: Mapping[Any, Any]
    ) -> Iterator[tuple[tuple[int, ...], Query, Any]]:
        """Entries of a mapping by their axes in ascending order; repeated queries are refused."""
        if not isinstance(given, Mapping):
            check.fail_type(
                argument, f"must be a mapping from queries, not {type(given).__name__}."
            )
        seen: dict[tuple[int, ...], Any] = {}
        for name, value in given.items():
            kept = self.ascending(argument, name)
            if kept in seen:
                both = f"{seen[kept]!r} and {name!r}"
                check.fail(argument, f"must have each query once; {both} have the same axes.")
            seen[kept] = name
            yield kept, name, value

    def ascending(self, argument: str, query: Any) -> tuple[int, ...]:
        """Numbers of the axes of a query, ascending; names that are not axes are refused."""
        return tuple(sorted(self.in_order(argument, query)))

    def in_order(self, argument: str, query: Any) -> tuple[int, ...]:
        """Numbers of the axes of a query, in the order in which it names them."""
        if not isinstance(query, tuple):
            check.fail_type(argument, f"must have tuples of axes as queries, not {query!r}.")
        names = list(self.names)
        for name in query:
            if name not in self.names:
                check.fail(
                    argument, f"must name axes of the table ({check.some(names)}); query {query!r} "
                    f"has {name!r}.",
                )  # fmt: skip
        if len(set(query)) < len(query):
            check.fail(argument, f"must name each axis once; query {query!r} does not.")
        return tuple(names.index(name) for name in query)

    def measured(self, name: Query, kept: tuple[int, ...]) -> Measured:
        """Find the entries of sums and contrasts that belong to the table of a query."""
        lengths = [self.shape[a] for a in kept]
        source, inside = _by_space(tuple(lengths))
        number = {space.axes: k for k, space in enumerate(self.spaces)}
        own = [frozenset(kept[a] for a in space.axes) for space in inside]
        factor = [1 / np.prod([self.shape[a] for a in kept if a not in axes]) for axes in own]
        return Measured(
            tuple(name), kept, np.array(lengths, np.int64),
            np.array([number[axes] for axes in own]), source.astype(np.uint32), np.array(factor),
        )  # fmt: skip

    def cells(self, query: Query) -> list[str]:
        """Names of the cells of a query, in their order: labels, or else numbers, joined by _.

        Numbers are also used if two cells would have the same name.
        """
        numbers = [range(self.names[name]) for name in query]
        along = [self.labels[name] or range(self.names[name]) for name in query]
        found = ["_".join(map(str, cell)) for cell in product(*along)]
        if len(set(found)) < len(found):
            return ["_".join(map(str, cell)) for cell in product(*numbers)]
        return found

    def summed(self, x: np.ndarray, kept: tuple[int, ...]) -> np.ndarray:
        """Sum rows of cells to rows of the cells of a query, whose axes are in ascending order."""
        dropped = tuple(1 + a for a in range(len(self.shape)) if a not in kept)
        return x.reshape(len(x), *self.shape).sum(axis=dropped).reshape(len(x), -1)

    def sums(self, kept: tuple[int, ...]) -> Any:
        """Sparse 0-1 matrix that sums the cells of the table to the cells of a query."""
        from scipy import sparse

        index = np.arange(int(np.prod([self.shape[a] for a in kept])))
        lengths = [n if a in kept else 1 for a, n in enumerate(self.shape)]
        row = np.broadcast_to(index.reshape(lengths), self.shape).ravel()
        entries = (np.ones(row.size), (row, np.arange(row.size)))
        return sparse.csr_array(entries, shape=(index.size, row.size))


def contrast(weight: np.ndarray, in_space: list[bool]) -> np.ndarray:
    """Convert weights of cells to weights of contrasts along some axes and sums over the rest."""
    for a, inside in enumerate(in_space):
        mean = weight.mean(axis=a, keepdims=True)
        weight = weight - mean if inside else mean
    return weight


def one_cell(shape: Sequence[int]) -> np.ndarray:
    """Weights of a sum that consists of a single cell."""
    weight = np.zeros(shape)
    weight.flat[0] = 1
    return weight


def _lengths_and_labels(
    axes: Mapping[Any, Any],
) -> tuple[dict[Hashable, int], dict[Hashable, tuple[Any, ...] | None]]:
    if not isinstance(axes, Mapping):
        check.fail_type("axes", f"must be a mapping from names to lengths or labels, not {axes!r}.")
    lengths: dict[Hashable, int] = {}
    labels: dict[Hashable, tuple[Any, ...] | None] = {}
    for name, values in axes.items():
        length, labels[name] = values, None
        if isinstance(values, Iterable) and not isinstance(values, str):
            length, labels[name] = len(own := tuple(values)), own
            if len(set(map(str, own))) < length:
                check.fail("axes", f"must have each label once; {name!r} has {list(own)!r}.")
        if not check.is_whole(length):
            check.fail_type(
                "axes", f"must have lengths or lists of labels; {name!r} has {length!r}."
            )
        if length < 1:
            check.fail("axes", f"must have at least one value each; {name!r} has {length}.")
        lengths[name] = int(length)
    return lengths, labels


def _by_space(lengths: tuple[int, ...]) -> tuple[np.ndarray, list[Space]]:
    """Return the permutation that sorts the entries of a table by space, and the spaces."""
    key = np.zeros(lengths, np.int64)
    for a, index in enumerate(np.indices(lengths)):
        key |= (index > 0).astype(np.int64) << a
    order = np.argsort(key, axis=None, kind="stable")
    keys, start = np.unique(key.ravel()[order], return_index=True)
    stops = [*start[1:], order.size]
    return order, [
        Space(frozenset(a for a in range(len(lengths)) if int(k) >> a & 1), int(i), int(j))
        for k, i, j in zip(keys, start, stops, strict=True)
    ]
