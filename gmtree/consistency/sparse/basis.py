"""Choose the series from which all other series are computed: those with the smallest variances.

Values of all series follow from those of the bottom series, but also from any other *basis*: a set
of as many series, such that each bottom series is a combination of them. If a bottom series is
measured much less precisely than an aggregate that contains it, it is better to compute it from
that aggregate and the other bottom series. After all such exchanges, every series is a
combination of basic series whose variances are at most `MOST_RATIO` times its own. Then the
equations of `gmtree.consistency.sparse.solver` are well conditioned, however much variances differ,
and limits are exact. With variances of 0, a combination of basic series that are known exactly is
known exactly as well, so that a second exact value for it is redundant or a contradiction. If a
basic series has an infinite variance, that is, was not measured, nothing determines it.

The exchange is like adding an edge to a spanning tree of least weight: the aggregate replaces the
basic series with the largest variance among those that it is a combination of.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from scipy import sparse

# An aggregate replaces a bottom series whose variance is larger by more than this factor.
MOST_RATIO = 1e3
# Relative size below which an entry of a combination is rounding.
ROUNDING = 1e-11


@dataclass(frozen=True)
class Basis:
    """Basic series, and the bottom series as combinations of them.

    Attributes
    ----------
    series : array of int
        The basic series; aggregates are numbered first and bottom series after them.
    bottom : sparse array of shape (bottom series, basic series)
    """

    series: np.ndarray
    bottom: sparse.csr_array

    @classmethod
    def of(cls, A: sparse.csr_array, w_a: np.ndarray, w_b: np.ndarray) -> Basis:
        """Choose a basis for an aggregation matrix in compressed rows, given the variances."""
        found, (n_a, n_b) = _candidates(A, w_a, w_b), A.shape
        if not found.size:
            identity = (np.ones(n_b), np.arange(n_b), np.arange(n_b + 1))
            return cls(n_a + np.arange(n_b), sparse.csr_array(identity, shape=(n_b, n_b)))
        exchange = _Exchange(A, w_a, w_b)
        for a in found:
            exchange.insert(int(a))
        return exchange.basis()


def _candidates(A: sparse.csr_array, w_a: np.ndarray, w_b: np.ndarray) -> np.ndarray:
    """Aggregates that may enter the basis: small variances first, and few members first."""
    count = np.diff(A.indptr)
    largest = np.full(count.size, -np.inf)
    some = count > 0
    if some.any():
        largest[some] = np.maximum.reduceat(w_b[A.indices], A.indptr[:-1][some])
    found = np.flatnonzero(largest > MOST_RATIO * w_a)
    with np.errstate(divide="ignore"):
        order = np.floor(np.log(w_a[found]) / np.log(MOST_RATIO))
    return found[np.lexsort((count[found], order))]


class _Exchange:
    """Exchange basic series, one after the other.

    A column below ``n_b`` is a bottom series, and column ``n_b + k`` the k-th aggregate that
    entered the basis, in place of ``left[k]``. ``rows[k]`` is ``left[k]`` as a combination of the
    basis at that moment.
    """

    def __init__(self, A: sparse.csr_array, w_a: np.ndarray, w_b: np.ndarray) -> None:
        self._A, self._w_a, self._n_b = A, w_a, w_b.size
        most = w_b.size + min(A.shape)
        self._work = np.zeros(most)
        self._weight = np.concatenate([w_b, np.zeros(min(A.shape))])
        # When a column left the basis; bottom series in few aggregates leave first.
        self._when = np.full(most, -1)
        self._count = np.bincount(A.indices, minlength=most)
        self.entered: list[int] = []
        self.left: list[int] = []
        self.rows: list[tuple[np.ndarray, np.ndarray]] = []

    def insert(self, a: int) -> None:
        """Exchange an aggregate for the basic series of largest variance, if its own is smaller."""
        stretch = slice(self._A.indptr[a], self._A.indptr[a + 1])
        columns, values = self._reduced(self._A.indices[stretch], self._A.data[stretch])
        weight = self._weight[columns]
        if not columns.size or not weight.max() > MOST_RATIO * self._w_a[a]:
            return
        largest = np.flatnonzero(weight == weight.max())
        largest = largest[abs(values[largest]) >= 0.1 * abs(values[largest]).max()]
        chosen = largest[np.argmin(self._count[columns[largest]])]
        k, leaving = len(self.left), int(columns[chosen])
        pivot, values[chosen] = values[chosen], -1
        columns[chosen] = self._n_b + k
        self._weight[self._n_b + k] = self._w_a[a]
        self._when[leaving] = k
        self.entered.append(a)
        self.left.append(leaving)
        self.rows.append((columns, -values / pivot))

    def _reduced(
        self, columns: np.ndarray, values: np.ndarray, since: int = -1
    ) -> tuple[np.ndarray, np.ndarray]:
        """A combination of series in terms of the present basis."""
        work = self._work
        work[columns] = values
        touched, largest = [columns], float(abs(values).max(initial=0))
        pending = self._when[columns]
        heap = pending[pending > since].tolist()
        heapq.heapify(heap)
        last = -1
        while heap:
            k = heapq.heappop(heap)
            if k == last:
                continue
            last, leaving = k, self.left[k]
            factor, work[leaving] = work[leaving], 0
            if factor == 0:
                continue
            more, share = self.rows[k]
            share = factor * share
            work[more] += share
            touched.append(more)
            largest = max(largest, float(abs(share).max()))
            for later in self._when[more][self._when[more] > k].tolist():
                heapq.heappush(heap, later)
        found = np.unique(np.concatenate(touched))
        values = work[found]
        work[found] = 0
        keep = abs(values) > ROUNDING * largest
        return found[keep], values[keep]

    def basis(self) -> Basis:
        """Bottom series in terms of the last basis."""
        for k in range(len(self.rows) - 1, -1, -1):
            # Series that left later are already expressed in the last basis.
            self.rows[k] = self._reduced(*self.rows[k], since=k)
        n_a, n_b = self._A.shape
        stays = np.flatnonzero(self._when[:n_b] < 0)
        place = np.empty(n_b + len(self.rows), np.int64)
        place[stays] = np.arange(stays.size)
        place[n_b:] = stays.size + np.arange(len(self.rows))
        rows = [stays, *(np.full(r[0].size, i) for i, r in zip(self.left, self.rows, strict=True))]
        columns = [place[stays], *(place[r[0]] for r in self.rows)]
        data = [np.ones(stays.size), *(r[1] for r in self.rows)]
        entries = (np.concatenate(rows), np.concatenate(columns))
        bottom = sparse.csr_array((np.concatenate(data), entries), shape=(n_b, n_b))
        series = np.concatenate([n_a + stays, np.array(self.entered, np.int64)])
        return Basis(series, bottom)
