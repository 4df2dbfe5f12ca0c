"""What a release spends: budget, shares of the levels, scales of the noise, and their account.

Everything is a :class:`fractions.Fraction`. Where a number has to be rounded, the noise is made
larger and the loss is stated as before, so that the account never understates.

The loss of one measured count that a person changes by 1 is 1 / scale in epsilon (discrete
Laplace noise) and 1 / (2 sigma^2) in rho (discrete Gaussian noise; Laplace noise of that scale
loses no more). Losses of different counts add up. Which counts a person can change depends on
the tree: see :func:`allocate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree.privacy._conversion import zcdp_epsilon
from gmtree.privacy._rational import positive, rational, round_up, sqrt_up
from gmtree.privacy._text import short, table
from gmtree.privacy._worst_case import whole_numbers, worst_case
from gmtree.privacy.noise import LARGEST_SCALE, noise_scale
from gmtree.tree import Tree

MEASURES = ("epsilon", "rho")
NEIGHBORS = ("add_remove", "change_one")
MECHANISMS = ("discrete_laplace", "discrete_gaussian")
_FORMAT = "gmtree privacy ledger 1"


@dataclass(frozen=True)
class LevelAccount:
    """One line of a ledger.

    Attributes
    ----------
    level : int
        Depth in the tree, 1 at the root.
    name : str or None
        Name of the level, for a tree made from named levels.
    nodes : int
        Number of counts measured with noise.
    share : Fraction
        Share of the budget, 0 for a level that is not measured.
    scale : Fraction or None
        Scale of the Laplace noise or sigma of the Gaussian noise; None if not measured.
    loss : Fraction
        What one count of this level costs a person who changes it.
    """

    level: int
    name: str | None
    nodes: int
    share: Fraction
    scale: Fraction | None
    loss: Fraction


@dataclass(frozen=True)
class Ledger:
    """The account of one release: what was promised, and how it was spent.

    The promise: for any two sets of data that are neighbours in the sense of `neighbors`, and
    any set of outcomes, the noisy counts fall into that set with probabilities that differ by a
    factor of at most exp(total) (`measure` epsilon), or have Rényi divergences of each order
    alpha of at most alpha total (`measure` rho: zero-concentrated differential privacy). Whatever
    is computed from the noisy counts alone is covered too. `assumptions` says when this holds and
    `invariants` what it does not cover.

    Attributes
    ----------
    measure : {'epsilon', 'rho'}
    budget, total : Fraction
        What was allowed, and the loss of the person with the largest loss; never above `budget`.
    mechanism : {'discrete_laplace', 'discrete_gaussian'}
    neighbors : {'add_remove', 'change_one'}
    max_contributions : int
        Most records of one person.
    levels : tuple of LevelAccount
    invariants : tuple of str
        What was published exactly, each outside the guarantee.
    """

    measure: str
    budget: Fraction
    total: Fraction
    mechanism: str
    neighbors: str
    max_contributions: int
    levels: tuple[LevelAccount, ...]
    invariants: tuple[str, ...]

    @property
    def scales(self) -> tuple[Fraction | None, ...]:
        """Scale (or sigma) of the noise per level, the root's first; None if not measured."""
        return tuple(line.scale for line in self.levels)

    def epsilon(self, delta: Any = 0) -> float | Fraction:
        """The epsilon for which (epsilon, delta)-differential privacy holds.

        For an account in epsilon that is `total` whatever delta is; for one in rho, delta must
        be above 0 and the result is rounded up (see :func:`gmtree.privacy.zcdp_epsilon`).
        """
        if self.measure == "epsilon":
            return self.total
        if rational("delta", delta) <= 0:
            check.fail("delta", f"must be above 0 for an account in rho, not {delta}.")
        return zcdp_epsilon(self.total, delta)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee rests on."""
        most = self.max_contributions
        records = "one record" if most == 1 else f"at most {most} records"
        change = {
            "add_remove": f"Neighbouring data differ by {records} of one person, added or removed.",
            "change_one": f"Neighbouring data differ by {records} of one person, moved to another "
            "leaf. The number of records is public.",
        }[self.neighbors]
        return (
            change,
            "A record is counted at one leaf and at all nodes above it.",
            "The tree, its empty leaves included, was chosen without looking at the data.",
            "Nothing is published but functions of the noisy counts and what is listed as outside.",
            "The random words of this machine cannot be guessed.",
            "Nobody observes time, memory or other side effects of the computation.",
        )

    def to_dict(self) -> dict[str, Any]:
        """The account as text and whole numbers, fit for JSON; see :meth:`from_dict`."""
        return {
            "format": _FORMAT,
            "measure": self.measure,
            "budget": str(self.budget),
            "total": str(self.total),
            "mechanism": self.mechanism,
            "neighbors": self.neighbors,
            "max_contributions": self.max_contributions,
            "levels": [
                {
                    "level": line.level,
                    "name": line.name,
                    "nodes": line.nodes,
                    "share": str(line.share),
                    "scale": None if line.scale is None else str(line.scale),
                    "loss": str(line.loss),
                }
                for line in self.levels
            ],
            "invariants": list(self.invariants),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ledger:
        """The account that :meth:`to_dict` wrote; anything else is a ValueError."""
        if not isinstance(data, Mapping) or data.get("format") != _FORMAT:
            check.fail("data", f"must be a ledger in the format {_FORMAT!r}.")
        try:
            ledger = cls(
                measure=_one_of("measure", data["measure"], MEASURES),
                budget=_fraction(data["budget"]),
                total=_fraction(data["total"]),
                mechanism=_one_of("mechanism", data["mechanism"], MECHANISMS),
                neighbors=_one_of("neighbors", data["neighbors"], NEIGHBORS),
                max_contributions=check.count(
                    "max_contributions", data["max_contributions"], least=1
                ),
                levels=tuple(map(_read_line, data["levels"], range(1, len(data["levels"]) + 1))),
                invariants=tuple(map(str, data["invariants"])),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"Argument 'data' must be a whole ledger; {error!r}.") from None
        if ledger.total > ledger.budget:
            check.fail("data", "must not spend more than its budget.")
        times = _times(ledger.measure, ledger.max_contributions)
        for line in ledger.levels:
            if line.scale is not None and times * _loss(ledger.measure, line.scale) > line.loss:
                check.fail("data", f"must not understate a loss; that of level {line.level} is.")
        return ledger

    def __str__(self) -> str:
        return _describe(self)

    def __repr__(self) -> str:
        return (
            f"Ledger({self.measure}={short(self.total)}, mechanism={self.mechanism!r}, "
            f"neighbors={self.neighbors!r}, max_contributions={self.max_contributions}, "
            f"levels={len(self.levels)}, invariants={len(self.invariants)})"
        )


# --------------------------------------------------------------------------- allocation


class Allocation(NamedTuple):
    """Scales of the noise, what is published exactly, and the account.

    Attributes
    ----------
    scales : tuple of Fraction or None
        One per level, the root's first: scale or sigma of the noise of each node that is not
        exact; None where the level is not measured.
    exact : array of bool, or None
        Marks the invariants by node; None if there are none.
    ledger : Ledger
    """

    scales: tuple[Fraction | None, ...]
    exact: np.ndarray | None
    ledger: Ledger


@dataclass(frozen=True)
class Level:
    """All nodes of one depth, 1 at the root: for `invariants`.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree import privacy
    >>> tree = gm.shapes.complete(2, 3)
    >>> privacy.allocate(tree, epsilon=1, invariants=[privacy.Level(1)]).scales
    (None, Fraction(2, 1), Fraction(2, 1))
    """

    depth: int


def allocate(
    tree: Tree,
    *,
    epsilon: Any = None,
    rho: Any = None,
    level_shares: Sequence[Any] | None = None,
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    invariants: Any = (),
    mechanism: str | None = None,
) -> Allocation:
    r"""Divide a privacy budget among the levels of a tree of counts.

    Of the losses of all nodes whose counts differ between neighbours, the sum for the worst
    neighbours is computed on this very tree, and the noise is scaled so that it equals the
    budget. With equal shares and records added or removed, that is Laplace noise of scale
    ``height / epsilon`` everywhere.

    Parameters
    ----------
    tree : Tree
        Chosen without looking at the data.
    epsilon : int, Fraction, str or float
        Budget of pure differential privacy. A float is taken at its exact value.
    rho : int, Fraction, str or float
        Budget of zero-concentrated differential privacy; give this or `epsilon`, not both.
    level_shares : sequence of numbers, optional
        Relative shares of the levels, one per depth, the root's first; only their ratios matter.
        A level with share 0 is not measured. Default: all equal.
    neighbors : {'add_remove', 'change_one'}
        Whether one person's records are added or removed, which changes the counts on the path
        to their leaf, or move to another leaf, which changes both paths but not the nodes they
        share: the root costs nothing, its share is free, and the total is taken as public.
    max_contributions : int
        Most records of one person. Takes the loss k times in epsilon, k^2 times in rho.
    invariants : sequence, optional
        What is published exactly: node numbers, labels or paths of nodes, names of levels, or
        :class:`Level`. They get no noise, cost nothing here, and are outside the guarantee,
        which then speaks of the noisy counts only.
    mechanism : {'discrete_laplace', 'discrete_gaussian'}, optional
        Default: Laplace for `epsilon`, Gaussian for `rho`.

    Returns
    -------
    Allocation
        ``scales`` per level, the ``exact`` nodes, and the ``ledger``.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree import privacy
    >>> tree = gm.shapes.complete(2, 3)
    >>> scales, _, ledger = privacy.allocate(tree, epsilon=1, level_shares=[1, 1, 2])
    >>> print(*scales)
    4 4 2
    >>> ledger
    Ledger(epsilon=1, mechanism='discrete_laplace', neighbors='add_remove',
           max_contributions=1, levels=3, invariants=0)
    """
    measure, budget = _budget(epsilon, rho)
    mechanism = _mechanism(measure, mechanism)
    _one_of("neighbors", neighbors, NEIGHBORS)
    most = check.count("max_contributions", max_contributions, least=1)
    exact, named = find_invariants(tree, invariants)
    measured = _measured_nodes(tree, exact)
    # Ratios of whole numbers: what is spent is computed from them without any rounding.
    weights, _ = whole_numbers(_shares(level_shares, measured))
    worst = worst_case(tree, [Fraction(w) for w in weights], neighbors, exact)
    # Where no neighbours differ in what is measured, any noise will do; take that for a path.
    total_weight = sum(weights)
    whole = worst or Fraction(total_weight)
    lines = []
    for depth, (weight, name) in enumerate(zip(weights, _level_names(tree), strict=True), start=1):
        share = Fraction(weight, total_weight)
        loss = weight * budget / whole
        scale = None if weight == 0 else _scale(measure, loss / _times(measure, most))
        nodes = measured[depth - 1] if weight else 0
        lines.append(LevelAccount(depth, name, nodes, share, scale, loss))
    ledger = Ledger(
        measure=measure,
        budget=budget,
        total=worst * budget / whole,
        mechanism=mechanism,
        neighbors=neighbors,
        max_contributions=most,
        levels=tuple(lines),
        invariants=named,
    )
    return Allocation(ledger.scales, exact, ledger)


def privacy_loss(
    tree: Tree,
    scales: Sequence[Any],
    *,
    measure: str = "epsilon",
    neighbors: str = "add_remove",
    max_contributions: int = 1,
    invariants: Any = (),
) -> Fraction:
    """The loss of noise with given scales, for the worst neighbours.

    Never understated: exact where the losses have few digits, else too large by up to 2^-60 of it.

    Parameters
    ----------
    tree : Tree
    scales : sequence of numbers or None
        One per level, the root's first: scale of discrete Laplace noise, or sigma of discrete
        Gaussian noise (`measure` rho only); None for a level that is not measured.
    measure : {'epsilon', 'rho'}
    neighbors, max_contributions, invariants
        As in :func:`allocate`.

    Examples
    --------
    >>> import gmtree as gm
    >>> from gmtree import privacy
    >>> privacy.privacy_loss(gm.shapes.complete(2, 3), [3, 3, 3])
    Fraction(1, 1)
    >>> privacy.privacy_loss(gm.shapes.complete(2, 3), [3, 3, 3], neighbors="change_one")
    Fraction(4, 3)
    """
    _one_of("measure", measure, MEASURES)
    _one_of("neighbors", neighbors, NEIGHBORS)
    most = check.count("max_contributions", max_contributions, least=1)
    if len(scales) != tree.height:
        check.fail("scales", f"must have one entry per level ({tree.height}), not {len(scales)}.")
    exact, _ = find_invariants(tree, invariants)
    losses = [
        Fraction(0) if s is None else _loss(measure, noise_scale("scales", s)) for s in scales
    ]
    return _times(measure, most) * worst_case(tree, losses, neighbors, exact)


def _loss(measure: str, scale: Fraction) -> Fraction:
    """Loss of one count that changes by 1."""
    return 1 / scale if measure == "epsilon" else 1 / (2 * scale**2)


def _scale(measure: str, loss: Fraction) -> Fraction:
    """The smallest scale with few digits whose loss is at most `loss`."""
    scale = round_up(1 / loss) if measure == "epsilon" else sqrt_up(1 / (2 * loss))
    if scale > LARGEST_SCALE:
        check.fail(measure, "must be larger: a level would get noise of a scale above 2^56.")
    return scale


def _times(measure: str, contributions: int) -> int:
    """How much more a person loses who changes each count by `contributions`."""
    return contributions if measure == "epsilon" else contributions**2


# --------------------------------------------------------------------------- arguments


def _one_of(argument: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        names = " or ".join(repr(name) for name in known)
        check.fail(argument, f"must be {names}, not {value!r}.")
    return value


def _budget(epsilon: Any, rho: Any) -> tuple[str, Fraction]:
    if (epsilon is None) == (rho is None):
        given = "neither" if epsilon is None else "both"
        check.fail("epsilon", f"or argument 'rho' must be given, not {given}.")
    if rho is None:
        return "epsilon", positive("epsilon", epsilon)
    return "rho", positive("rho", rho)


def _mechanism(measure: str, mechanism: str | None) -> str:
    if mechanism is None:
        return "discrete_laplace" if measure == "epsilon" else "discrete_gaussian"
    _one_of("mechanism", mechanism, MECHANISMS)
    if (measure, mechanism) == ("epsilon", "discrete_gaussian"):
        check.fail(
            "mechanism",
            "must be 'discrete_laplace' for a budget in epsilon: Gaussian "
            "noise has no finite epsilon, give a budget in rho.",
        )
    return mechanism


def _shares(level_shares: Sequence[Any] | None, measured: list[int]) -> list[Fraction]:
    """Relative shares, 0 where no node is left to measure."""
    height = len(measured)
    if level_shares is None:
        given = [Fraction(1)] * height
    else:
        if isinstance(level_shares, (str, bytes)) or not hasattr(level_shares, "__iter__"):
            check.fail_type("level_shares", f"must be a sequence of numbers, not {level_shares!r}.")
        given = [rational("level_shares", x) for x in level_shares]
        if len(given) != height:
            check.fail(
                "level_shares", f"must have one share per level ({height}), not {len(given)}."
            )
        for depth, share in enumerate(given, start=1):
            if share < 0:
                check.fail("level_shares", f"must not be negative; level {depth} has {share}.")
    shares = [share if count else Fraction(0) for share, count in zip(given, measured, strict=True)]
    if not any(shares):
        check.fail("level_shares", "must leave a level to measure: all shares are 0 or exact.")
    return shares


def _level_names(tree: Tree) -> list[str | None]:
    """Names by depth; a root put above the first named level has none."""
    names = tree.level_names or ()
    return [None] * (tree.height - len(names)) + list(names)


def _measured_nodes(tree: Tree, exact: np.ndarray | None) -> list[int]:
    """Number of nodes per level that are not exact."""
    if exact is None and tree._has_even_depth():
        return np.diff(tree._level_start).tolist()
    depth = tree.depth if exact is None else tree.depth[~exact]
    return np.bincount(depth, minlength=tree.height + 1)[1:].tolist()


def find_invariants(tree: Tree, invariants: Any) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """The nodes to be published exactly, as a mask (None if none), and their names."""
    if isinstance(invariants, (str, bytes, Level)) or not hasattr(invariants, "__iter__"):
        check.fail_type("invariants", f"must be a sequence of nodes or levels, not {invariants!r}.")
    exact = np.zeros(tree.n, bool)
    named: list[str] = []
    names = _level_names(tree)
    for given in invariants:
        by_name = isinstance(given, str) and given in names
        item = Level(names.index(given) + 1) if by_name else given
        if isinstance(item, Level):
            if check.count("invariants", item.depth, least=1) > tree.height:
                check.fail("invariants", f"must name levels up to {tree.height}, not {item.depth}.")
            exact |= tree.depth == item.depth
            name = names[item.depth - 1]
            named.append(f"level {item.depth}" + ("" if name is None else f" ({name})"))
            continue
        if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            i = check.node_number("invariants", item, tree.n)
        else:
            try:
                i = tree.node(item)
            except ValueError:
                check.fail("invariants", f"must name nodes or levels of the tree, not {item!r}.")
        exact[i] = True
        named.append(f"node {i}" + ("" if tree.labels is None else f" {tree.path(i)!r}"))
    if not named:
        return None, ()
    exact.flags.writeable = False
    return exact, tuple(dict.fromkeys(named))


# --------------------------------------------------------------------------- text


def _fraction(text: Any) -> Fraction:
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is no fraction")
    value = rational("data", text)
    if value < 0:
        check.fail("data", f"must hold no negative amounts, not {text}.")
    return value


def _read_line(line: Mapping[str, Any], level: int) -> LevelAccount:
    if line["level"] != level:
        check.fail("data", f"must list the levels in order; level {level} is missing.")
    return LevelAccount(
        level=level,
        name=None if line["name"] is None else str(line["name"]),
        nodes=check.count("nodes", line["nodes"], least=0),
        share=_fraction(line["share"]),
        scale=None if line["scale"] is None else _fraction(line["scale"]),
        loss=_fraction(line["loss"]),
    )


_TITLES = {
    "epsilon": "pure differential privacy, epsilon",
    "rho": "zero-concentrated differential privacy, rho",
}
_NOISES = {
    "discrete_laplace": ("discrete Laplace", "scale"),
    "discrete_gaussian": ("discrete Gaussian", "sigma"),
}
_SUMS = {
    "add_remove": "worst path from the root to a leaf",
    "change_one": "worst two leaves, nodes above both aside",
}
_SHOWN = 10


def _describe(ledger: Ledger) -> str:
    noise, scale = _NOISES[ledger.mechanism]
    rows = [("level", "nodes", "share", scale, "loss")]
    rows += [
        (
            str(x.level) if x.name is None else f"{x.level} {x.name}",
            f"{x.nodes:,}",
            short(x.share),
            short(x.scale),
            short(x.loss),
        )
        for x in ledger.levels
    ]
    outside = [f"  - {name}: published exactly" for name in ledger.invariants[:_SHOWN]]
    if len(ledger.invariants) > _SHOWN:
        outside.append(f"  - and {len(ledger.invariants) - _SHOWN} more")
    return "\n".join(
        [
            f"Privacy ledger: {_TITLES[ledger.measure]} = {short(ledger.total)}",
            f"{noise} noise; budget {short(ledger.budget)}",
            "",
            *table(rows),
            f"  total ({_SUMS[ledger.neighbors]}): {short(ledger.total)}",
            "",
            "Assumes:",
            *(f"  - {text}" for text in ledger.assumptions),
            "Outside the guarantee:",
            *(outside or ["  - nothing"]),
        ]
    )
