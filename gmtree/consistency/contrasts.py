"""Axes of tables, queries that keep some of them, and the spaces of contrasts they measure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check

Query = tuple[Hashable, ...]


class Space(NamedTuple):
    """The contrasts along some axes: which, and their columns."""

    axes: frozenset[int]
    start: int
    stop: int


class Measured(NamedTuple):
    """A query: its axes in ascending order, and how its table lies in sums and contrasts.

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
        Its precision in each of these spaces, where its cells have precision 1.
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
    shape : tuple of int
    spaces : list of Space
    columns : array of int
        The entries of the table, one space after the other.
    """

    def __init__(self, axes: Mapping[Any, int]) -> None:
        self.names = _lengths(axes)
        self.shape = tuple(self.names.values())
        columns, self.spaces = _by_space(self.shape)
        self.columns = columns.astype(np.uint32)

    def by_query(
        self, argument: str, given: Mapping[Any, Any]
    ) -> Iterator[tuple[tuple[int, ...], Query, Any]]:
        """Each entry of a mapping with its axes in ascending order; no query twice."""
        if not isinstance(given, Mapping):
            check.fail_type(
                argument, f"must be a mapping from queries, not {type(given).__name__}."
            )
        seen: dict[tuple[int, ...], Any] = {}
        for name, value in given.items():
            kept = self.ascending(argument, name)
            if kept in seen:
                check.fail(argument, f"must have each query once; {seen[kept]!r} is {name!r}.")
            seen[kept] = name
            yield kept, name, value

    def ascending(self, argument: str, query: Any) -> tuple[int, ...]:
        """The axes of a query, ascending."""
        return tuple(sorted(self.in_order(argument, query)))

    def in_order(self, argument: str, query: Any) -> tuple[int, ...]:
        """The axes of a query, in the order in which it names them."""
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
        """How the table of a query lies in sums and contrasts."""
        lengths = [self.shape[a] for a in kept]
        source, inside = _by_space(tuple(lengths))
        number = {space.axes: k for k, space in enumerate(self.spaces)}
        own = [frozenset(kept[a] for a in space.axes) for space in inside]
        factor = [1 / np.prod([self.shape[a] for a in kept if a not in axes]) for axes in own]
        return Measured(
            tuple(name), kept, np.array(lengths, np.int64),
            np.array([number[axes] for axes in own]), source.astype(np.uint32), np.array(factor),
        )  # fmt: skip


def contrast(weight: np.ndarray, in_space: list[bool]) -> np.ndarray:
    """Weights of cells as weights of contrasts along some axes and of sums over the others."""
    for a, inside in enumerate(in_space):
        mean = weight.mean(axis=a, keepdims=True)
        weight = weight - mean if inside else mean
    return weight


def one_cell(shape: Sequence[int]) -> np.ndarray:
    """Weights of the sum that is one cell."""
    weight = np.zeros(shape)
    weight.flat[0] = 1
    return weight


def _lengths(axes: Mapping[Any, int]) -> dict[Hashable, int]:
    if not isinstance(axes, Mapping):
        check.fail_type("axes", f"must be a mapping from names to lengths, not {axes!r}.")
    found = {}
    for name, length in axes.items():
        if isinstance(length, (bool, np.bool_)) or not isinstance(length, (int, np.integer)):
            check.fail_type("axes", f"must have whole numbers as lengths; {name!r} has {length!r}.")
        if length < 1:
            check.fail("axes", f"must have at least one value each; {name!r} has {length}.")
        found[name] = int(length)
    return found


def _by_space(lengths: tuple[int, ...]) -> tuple[np.ndarray, list[Space]]:
    """Entries of a table of sums and contrasts, one space after the other, and the spaces."""
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
