"""Numbers of passes of a bounded optimum in the worst cases, and the work they do."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from reference import bounded as slow
from reference.bounded import noisy_counts
from reference.consistency import per_node
from trees import named_shapes

import gmtree as gm
from gmtree.consistency import bounded


def spider(m: int, leaves: int = 1) -> gm.Tree:
    """A root with m children, each with so many leaves."""
    return gm.shapes.from_fanouts([[m], [leaves] * m])


def held_slowly(m: int, share: float, bits: float) -> np.ndarray:
    """Leaf values for which each round of the bounded optimum holds only a share of the rest.

    The gap to the mean grows by 1 / share from one block to the next: the smaller the share, the
    more rounds, but the sooner the numbers run out of range (`bits` of exponent).
    """
    sizes, left = [], m
    while left:
        sizes.append(min(left, max(1, round(share * left))))
        left -= sizes[-1]
    exponent = np.minimum(np.arange(len(sizes)) * np.log2(1 / share), bits)
    return -np.repeat(2.0**exponent, sizes[::-1])


def worst_cases(bits: float) -> dict[str, tuple[gm.Tree, np.ndarray, np.ndarray | None]]:
    """Trees, measurements and variances on which sets of held leaves grow slowly.

    Numbers span at most that many powers of two.
    """
    rng = np.random.default_rng(30)
    m, cases = 1000, {}
    factorials = np.cumprod(np.r_[1.0, np.arange(1, 150)])
    factorials = factorials[np.log2(factorials) <= bits]
    cases["star, factorials"] = (
        gm.shapes.star(factorials.size + 1),
        np.r_[1.0, -factorials],
        None,
    )
    for base in (1.1, 1.5, 2, 3, 10):
        v = -(base ** np.minimum(np.arange(m), bits / np.log2(base)))
        cases[f"star, powers of {base}"] = (gm.shapes.star(m + 1), np.r_[1.0, v], None)
        cases[f"star, powers of {base}, upwards"] = (gm.shapes.star(m + 1), np.r_[0, -1 / v], None)
        cases[f"spider, powers of {base}"] = (spider(m), np.r_[1.0, v, v], None)
    for share in (0.5, 0.3, 0.1, 0.05):
        v = held_slowly(m, share, bits)
        cases[f"star, {share}"] = (gm.shapes.star(m + 1), np.r_[1.0, v], None)
        cases[f"spider, {share}"] = (spider(m), np.r_[1.0, v, v], None)
        pairs = np.r_[1.0, 2 * v, np.repeat(v, 2) * rng.uniform(0.5, 1.5, 2 * m)]
        cases[f"spider of pairs, {share}"] = (spider(m, 2), pairs, None)
        # Inner nodes with huge variances make a deep tree equivalent to one large family.
        for name, tree in (
            ("caterpillar", gm.shapes.caterpillar(2 * m - 1)),
            ("binary", gm.shapes.complete(2, 11)),
        ):
            s = np.where(tree.child_count > 0, np.inf, 1.0)
            s[tree.root] = 1.0
            for order in ("down", "up", "mixed"):
                values = np.zeros(tree.n)
                leaf_values = held_slowly(tree.n_leaves, share, bits)
                if order == "up":
                    leaf_values = leaf_values[::-1]
                elif order == "mixed":
                    leaf_values = rng.permutation(leaf_values)
                values[tree.leaves] = leaf_values
                cases[f"{name}, {order}, {share}"] = (tree, values, s)
    # Variances that halve from leaf to leaf let each hand on nearly all that it lacks.
    rounds = int(bits / 2)
    exponent = np.arange(m) * rounds // m
    variance = 2.0**-exponent
    cases["star, variances"] = (
        gm.shapes.star(m + 1),
        np.r_[0, exponent * variance],
        np.r_[2.0**-rounds, variance],
    )
    tree = gm.shapes.caterpillar(2 * m - 1)
    for order in (1, -1):
        s, v = np.full(tree.n, np.inf), np.zeros(tree.n)
        s[tree.root] = 2.0**-rounds
        s[tree.leaves] = variance[::order]
        v[tree.leaves] = (exponent * variance)[::order]
        cases[f"caterpillar, variances, {order}"] = (tree, v, s)
    return cases


class CountingKernels(SimpleNamespace):
    """The kernels of the solver, with a count of the families entered."""

    def __init__(self) -> None:
        super().__init__(**vars(bounded.kernels))
        self.entered = 0
        scan = self.scan

        def counted(state, start: int, stop: int) -> None:
            scan(state, start, stop)
            self.entered += int(state.entered[start:stop].sum())

        self.scan = counted


def solve_and_count(monkeypatch, tree, v, s):
    """(values, info, families entered)."""
    counting = CountingKernels()
    with monkeypatch.context() as patch:
        patch.setattr(bounded, "kernels", counting)
        post = gm.Consistency(tree, per_node(s), threads=1)
        x, info = post.project(v, nonnegative=True, return_info=True)
    return x, info, counting.entered


@pytest.mark.parametrize("bits", [52, 500])
def test_worst_cases(monkeypatch, bits):
    """Few passes where all numbers matter, and never more work than paths to the held leaves.

    Within the 52 bits that one sum can tell apart, passes stay below 64. Beyond, there may be
    more of them, but then they touch little: each family entered is above a leaf held then.
    """
    for name, (tree, v, s) in worst_cases(bits).items():
        x, info, entered = solve_and_count(monkeypatch, tree, v, s)
        assert info.violation <= 1e-12 * abs(v).max(), name
        assert np.all(x >= 0), name
        held = x[tree.leaves] == 0
        assert entered <= np.sum(tree.depth[tree.leaves][held] - 1), name
        if bits == 52:
            assert info.passes <= 64, name
        if name.startswith("star"):
            # A star has one family, so few passes are needed.
            assert info.passes <= 5, name
            expected = slow.simplex_star(v, np.ones(tree.n) if s is None else s)
            assert abs(x - expected).max() <= 1e-13 * abs(v).max(), name


def test_passes_on_noisy_counts(monkeypatch):
    rng = np.random.default_rng(31)
    for name, tree in named_shapes(20_000).items():
        for zeros in (0.1, 0.5, 1.0):
            v = noisy_counts(tree, rng, zeros)
            for s in (None, 10 ** rng.uniform(-6, 6, tree.n)):
                _, info, entered = solve_and_count(monkeypatch, tree, v, s)
                assert info.passes <= 30, name
                if tree.height < 100:
                    # Few families are entered more than once or twice.
                    assert entered <= 4 * tree.n_internal, name
                assert info.violation <= 1e-12 * abs(v).max(), name
