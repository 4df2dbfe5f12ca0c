"""The function that makes every release, and the base class of releases of counts and tables.

Every public function that publishes builds a :class:`gmtree.privacy.accounting.budget.Budget` and
calls :func:`publish`. It divides the budget, refuses bad options, draws the noise while it charges
the account, and returns the release.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypedDict, TypeVar

import numpy as np

from gmtree import _validate as check
from gmtree._text import preformatted, short
from gmtree.consistency import Consistency
from gmtree.consistency.tables import TableConsistency
from gmtree.privacy.accounting.account import Account
from gmtree.privacy.accounting.allocation import Allocation, divide, largest_sum
from gmtree.privacy.accounting.budget import Budget, TermsOfNoise
from gmtree.privacy.accounting.ledger import Ledger
from gmtree.privacy.accounting.unfinished import READERS, discard
from gmtree.privacy.accounting.workload import PLAIN, Workload, workload_of
from gmtree.privacy.files import storage
from gmtree.privacy.files.provenance import Drawing, with_options, with_tree
from gmtree.privacy.publishing.measuring import forget_locals
from gmtree.privacy.publishing.public_bounds import as_arguments, check_bounds, read_bounds
from gmtree.tree import Tree

if TYPE_CHECKING:
    from typing_extensions import Self

    from gmtree.privacy.planning.plan import Plan

# Noise exceeds this multiple of its scale with a probability below exp(-64).
_REACH = 64

Solver = TypeVar("Solver", bound="Consistency | TableConsistency")
Made = TypeVar("Made", bound="Published[Any]")


class Options(TypedDict, total=False):
    """The keywords of a release besides the terms of its budget."""

    nonnegative: bool
    integer: bool
    lower: Any
    upper: Any
    account: Account | None
    threads: int | None


class ReleaseOptions(TermsOfNoise, Options, total=False):
    """The keywords of :func:`gmtree.release` besides the bounds on the records of a person."""


def publish(
    kind: type[Made],
    tree: Tree,
    counts: Any,
    budget: Budget,
    workload: Workload = PLAIN,
    *,
    nonnegative: bool = False,
    integer: bool = False,
    lower: Any = None,
    upper: Any = None,
    account: Account | None = None,
    threads: int | None = None,
) -> Made:
    """Divide the budget, charge it, draw the noise, and compute the values.

    The caller must drop its own variables that hold true counts, also if this function raises.
    """
    outer = sys.exc_info()[1]
    try:
        allocation = divide(tree, budget, workload)
        options = whole_options(tree, allocation.ledger, nonnegative, integer)
        bounds, allocation = read_bounds(tree, allocation, options[0], lower, upper)
        ledger, exact = allocation.ledger, allocation.exact
        # This refuses scales that leave a value undetermined, before anything is charged.
        solver = kind._solver(tree, ledger, exact, threads)
        kind._refuse(solver, options[1])
        draw = Drawing(kind._function, tree, allocation, account)
        made = _draw(kind, tree, counts, allocation, options, bounds, threads, solver, draw)
    except BaseException as error:
        forget_locals(error, outer)
        raise
    finally:
        # Drop the true counts, so that tracebacks that print local variables cannot leak them.
        del counts
    # The values are computed now, so that an error occurs in the call that spends the budget.
    made._compute()
    return made


def _draw(
    kind: type[Made],
    tree: Tree,
    counts: Any,
    allocation: Allocation,
    options: tuple[bool, bool],
    bounds: dict[str, np.ndarray],
    threads: int | None,
    solver: Any,
    draw: Drawing,
) -> Made:
    """Draw the noise, store a copy of the noisy counts, and charge the account at the end.

    The caller clears the local variables on errors, so that nobody sees an uncharged draw.
    """
    with draw:
        noisy = kind._measure(tree, counts, allocation, draw.begin)
        origin = draw.origin(nonnegative=options[0], integer=options[1])
        parts = (tree, noisy, allocation.ledger, allocation.exact, *options, threads)
        made = kind(*parts, solver=solver, origin=origin, bounds=bounds)
        if (copy := draw.copy()) is not None:
            storage.save_copy(made, *copy)
            made._copy = copy[0]
    return made


def publish_given(kind: type[Made], given: dict[str, Any]) -> Made:
    """:func:`publish` for the ``locals()`` of a public function: its arguments by name."""
    counts = given.pop("counts")
    try:
        tree, axes, queries = given.pop("tree"), given.pop("axes", None), given.pop("queries", None)
        options = {name: given.pop(name) for name in Options.__annotations__ if name in given}
        budget = Budget.of(**given)
        workload = workload_of(budget, axes, queries)
        return publish(kind, tree, counts, budget, workload, **options)
    finally:
        # Drop the true counts, so that tracebacks that print local variables cannot leak them.
        del counts


class Published(ABC, Generic[Solver]):
    """Base class of releases of counts and of tables.

    Attributes
    ----------
    tree : Tree
    ledger : Ledger
        The privacy loss of the release, line by line.
    nonnegative, integer : bool
        The options with which `values` are computed.
    bounds : dict
        Arrays by node of the public bounds 'lower' and 'upper' that `values` keep, if given.
    """

    # Set by subclasses: name of the public function, format of files, and functions that make the
    # solver and the noisy counts.
    _function: ClassVar[str]
    _form: ClassVar[str]
    _solver: ClassVar[Callable[..., Any]]
    _measure: ClassVar[Callable[..., Any]]
    # Cached results that do not depend on the options.
    _shared: ClassVar[tuple[str, ...]] = ("_post", "estimate")
    # The stored copy, which `save` removes.
    _copy: Path | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        READERS[cls._function] = cls._load_copy

    def __init__(
        self,
        tree: Tree,
        noisy: Any,
        ledger: Ledger,
        exact: np.ndarray | None,
        nonnegative: bool,
        integer: bool,
        threads: int | None = None,
        *,
        solver: Solver | None = None,
        origin: dict[str, Any] | None = None,
        bounds: dict[str, np.ndarray] | None = None,
    ) -> None:
        self.tree, self.noisy, self.ledger = tree, noisy, ledger
        self.nonnegative, self.integer = nonnegative, integer
        self._exact, self._threads, self._origin = exact, threads, origin
        self.bounds = bounds or {}
        for bound in self.bounds.values():
            bound.flags.writeable = False
        if solver is not None:
            self._post = solver

    # ------------------------------------------------------------------ defined by subclasses

    @staticmethod
    def _refuse(solver: Any, integer: bool) -> None:
        """Refuse options that this kind of release cannot keep."""

    @abstractmethod
    def _compute(self) -> None:
        """Compute everything that must not fail later."""

    @property
    @abstractmethod
    def plan(self) -> Plan:
        """Errors of `estimate` by level, as :func:`gmtree.plan` states them in advance."""

    # ------------------------------------------------------------------ values

    @cached_property
    def values(self) -> np.ndarray:
        """Consistent values: each parent is the sum of its children; int64 if `integer`."""
        if not (self.nonnegative or self.integer or self.bounds):
            return self.estimate
        x = self._project(self.noisy)
        x.flags.writeable = False
        return x

    def _project(self, noisy: Any) -> np.ndarray:
        """Consistent values with the options and bounds of the release."""
        options: Any = {"nonnegative": self.nonnegative, "integer": self.integer}
        return self._post.project(noisy, **options, **as_arguments(self.bounds))

    @cached_property
    def estimate(self) -> np.ndarray:
        """The best unbiased estimate of every count; standard errors and intervals refer to it.

        These are the consistent values without `nonnegative`, `integer` and bounds: some may be
        negative. The mean of ``values - estimate`` over many nodes shows the bias of `values`.
        """
        x = self._post.project(self.noisy)
        x.flags.writeable = False
        return x

    def reprocess(self, *, nonnegative: bool = False, integer: bool = False) -> Self:
        """Return a release with these noisy counts and other options for `values`.

        This costs no privacy. Public bounds remain.

        Parameters
        ----------
        nonnegative, integer : bool
            As in :func:`gmtree.release`. For tables with invariants, whole numbers are refused as
            in :func:`gmtree.release_tables`.

        Examples
        --------
        >>> import gmtree as gm
        >>> r = gm.release(gm.shapes.star(5), [3, 0, 2, 0], epsilon=1)
        >>> bool((r.reprocess(nonnegative=True).values >= 0).all())
        True
        """
        options = whole_options(self.tree, self.ledger, nonnegative, integer)
        self._refuse(self._post, options[1])
        check_bounds(self.tree, self.ledger, options[0], self.bounds)
        other = type(self)(
            self.tree, self.noisy, self.ledger, self._exact, *options, self._threads,
            origin=with_options(self._origin, nonnegative=options[0], integer=options[1]),
            bounds=self.bounds,
        )  # fmt: skip
        other.__dict__.update({k: x for k, x in self.__dict__.items() if k in self._shared})
        other._copy = self._copy
        return other

    def _bounded(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Raise negative ends of intervals to 0 if the values are not negative."""
        if self.nonnegative:
            np.maximum(low, 0, out=low)
            np.maximum(high, 0, out=high)
        return low, high

    @cached_property
    def _post(self) -> Solver:
        return self._solver(self.tree, self.ledger, self._exact, self._threads)

    # ------------------------------------------------------------------ text and files

    @cached_property
    def provenance(self) -> dict[str, Any] | None:
        """Origin of the release, for readers of its file.

        It has the function, the time, the versions of packages, the options, the fingerprint of the
        tree, and the entry of the account that was charged, if any. It is None if the release has
        no record of these.
        """
        return with_tree(self._origin, self.tree)

    def _describe(self, *parts: str) -> str:
        """The text of `repr`, with further parts after the tree."""
        spent = f"{self.ledger.measure}={short(self.ledger.total, up=True)}"
        options = [name for name in ("nonnegative", "integer") if getattr(self, name)]
        options += ["bounds"] if self.bounds else []
        return f"{type(self).__name__}({', '.join([repr(self.tree), *parts, spent, *options])})"

    def _repr_html_(self) -> str:
        return preformatted(f"{self!r}\n\n{self.plan}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Results that can be computed again are left out.
        options = (self.nonnegative, self.integer, self._threads)
        parts = (self.tree, self._picklable(), self.ledger, self._exact, *options)
        return _again, (type(self), parts, self._origin, self.bounds)

    def _picklable(self) -> Any:
        return self.noisy

    def save(self, path: str | PathLike[str]) -> None:
        """Write the release to a file that :meth:`load` can read.

        The file holds the noisy counts, the tree with its labels, the ledger, the options and
        the provenance, all of which are public already. ``.npz`` needs no further package.
        ``.parquet`` needs pyarrow. Other programs can read this file: it has one row per node, with
        values, estimates and their standard errors. For tables it has these columns for each cell
        of each query, such as ``value_f_old``.

        Once the file is on the disk, the copy beside the account is removed
        (:meth:`gmtree.privacy.Account.unfinished`).
        """
        storage.save(self, path)
        if self._copy is not None:
            discard(self._copy)

    def save_ledger(self, path: str | PathLike[str]) -> None:
        """Write ledger and provenance as JSON, to accompany a table that you write yourself.

        :func:`gmtree.privacy.load_ledger` reads it.
        """
        storage.save_ledger(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a release that :meth:`save` wrote.

        Raises ValueError if the file is damaged or of another kind, or if its ledger understates
        the loss of its noise on its tree. Code in a file is never run. The checksum detects
        corruption, not tampering.

        Examples
        --------
        >>> import gmtree as gm, tempfile, os
        >>> r = gm.release(gm.shapes.star(3), [300, 400], epsilon=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     r.save(os.path.join(folder, "release.npz"))
        ...     again = gm.Release.load(os.path.join(folder, "release.npz"))
        >>> bool((again.values == r.values).all()), again.ledger == r.ledger
        (True, True)
        """
        return cls._of(storage.load(path, cls._form))

    @classmethod
    def _load_copy(cls, path: Path, key: str) -> Self:
        made = cls._of(storage.load_copy(path, key))
        made._copy = path
        return made

    @classmethod
    def _of(cls, parts: storage.Parts) -> Self:
        tree, noisy, ledger, exact, nonnegative, integer, origin, bounds = parts
        options = whole_options(tree, ledger, nonnegative, integer)
        return cls(tree, noisy, ledger, exact, *options, origin=origin, bounds=bounds)


def _again(
    kind: type[Made], parts: tuple[Any, ...], origin: dict[str, Any] | None, bounds: Any
) -> Made:
    return kind(*parts, origin=origin, bounds=bounds)


def whole_options(tree: Tree, ledger: Ledger, nonnegative: Any, integer: Any) -> tuple[bool, bool]:
    """Return `nonnegative` and `integer` as bools; refuse `integer` if the noise is too large."""
    options = check.flag("nonnegative", nonnegative), check.flag("integer", integer)
    largest = max(scale for scale in ledger.scales if scale is not None)
    counts = tree.n * ledger._workload.table_cells
    if options[1] and _REACH * largest * counts > largest_sum(tree):
        # This depends on the scale only, so that rounding never fails because of the drawn noise.
        check.fail("integer", f"must be False with noise as large as {float(largest):.3g}.")
    return options
