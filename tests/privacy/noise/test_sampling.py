"""The exact samplers: certified tables, the refinement of ties, and statistics of many draws."""

from __future__ import annotations

import inspect
import os
import ssl
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import sampling as reference

from gmtree import privacy
from gmtree.privacy import testing
from gmtree.privacy.accounting.rational import round_up, sqrt_up
from gmtree.privacy.noise import cumulative, gaussian, inversion, laplace
from gmtree.privacy.noise.mechanism import LARGEST_SCALE

# Without compilation a draw takes a thousand times longer.
MANY = 5000 if numba.config.DISABLE_JIT else 10**6
# A right sampler fails a test of this kind once in a million; the seeds are fixed besides.
FALSE_ALARM = 1e-6

LAWS = ["laplace", "gaussian"]
SCALES = [Fraction(1, 3), *map(Fraction, (1, 10, 100, 1000, 10**6))]
fractions = st.fractions(min_value=Fraction(1, 12), max_value=20, max_denominator=1000)


def magnitude_law(law: str, scale: Fraction) -> cumulative.Law:
    if law == "laplace":
        return laplace.LaplaceMagnitude(scale)
    return gaussian.HalfGaussian(1 / (2 * scale**2), folded=True)


def seeded(law: str, scale, size, seed) -> np.ndarray:
    return getattr(testing, f"seeded_discrete_{law}")(scale, size, seed)


# --------------------------------------------------------------------------- enclosures


@given(st.fractions(min_value=0, max_value=300), st.integers(1, 200))
def test_exponentials_are_enclosed(x, bits):
    lo, hi = cumulative.exp_bounds(x, bits)
    with localcontext(reference.DIGITS):
        exact = (-reference.decimal(x)).exp() * (1 << bits)
        margin = exact * Decimal("1e-98")
        assert lo - margin <= exact <= hi + margin
    assert 0 <= hi - lo <= 2


@pytest.mark.parametrize("x", [Fraction(10) ** 30, Fraction(1, 10**30), Fraction(0)])
def test_exponentials_of_extreme_numbers(x):
    lo, hi = cumulative.exp_bounds(x, 64)
    assert lo <= hi <= lo + 2
    assert (lo == 1 << 64) == (x == 0)


@given(st.sampled_from(LAWS), fractions, st.sampled_from([1, 7, 15, 31, 63, 95]))
def test_floors_are_those_of_decimal_arithmetic(law, scale, bits):
    found = cumulative.floors(magnitude_law(law, scale), bits)
    assert found == reference.floors(reference.magnitudes(law, scale), bits)


class Loose:
    """A distribution with enclosures of a given width, which more digits make narrower."""

    def __init__(self, law, width: int):
        self.law, self.width = law, width

    def cumulative(self, p):
        for lo, hi in self.law.cumulative(p):
            yield max(0, lo - self.width), hi + self.width


def test_wide_enclosures_are_computed_again_with_more_digits():
    law = magnitude_law("laplace", Fraction(5))
    assert cumulative.floors(Loose(law, 1 << 62), 31) == cumulative.floors(law, 31)


@pytest.mark.parametrize("scale", [Fraction(1, 10**9), Fraction(1, 10**300)])
@pytest.mark.parametrize("law", LAWS)
def test_tiny_scales_leave_one_entry(law, scale):
    assert cumulative.floors(magnitude_law(law, scale), 31) == [2**31 - 1]
    assert not seeded(law, scale, 1000, 1).any()


# --------------------------------------------------------------------------- tables, in rationals


def probabilities(law: cumulative.Law, bits: int) -> tuple[list[Fraction], list[Fraction]]:
    """Lower and upper bounds of P(k) from floors of so many bits, for P(k) above 2^-bits/2."""
    floors = [0, *cumulative.floors(law, bits)]
    steps = [b - a for a, b in pairwise(floors)]
    steps = [s for s in steps if s > 1 << bits // 2]
    unit = Fraction(1, 1 << bits)
    return [(s - 1) * unit for s in steps], [(s + 1) * unit for s in steps]


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(10), Fraction(100)])
def test_laplace_probabilities_fall_by_exactly_the_promised_factor(scale):
    """P(x) <= exp(1 / scale) P(x + 1), up to the last of 2^-100 of enclosures of 400 bits."""
    bits, room = 400, 1 + Fraction(1, 1 << 100)
    lower, upper = probabilities(laplace.LaplaceMagnitude(scale), bits)
    lo, hi = cumulative.exp_bounds(1 / scale, bits)
    one = 1 << bits
    # Magnitude 0 has one sign, all others two.
    lower, upper = [2 * lower[0], *lower[1:]], [2 * upper[0], *upper[1:]]
    assert len(lower) > 40 * scale
    for k in range(len(lower) - 1):
        assert upper[k] * lo <= one * lower[k + 1] * room
        assert lower[k] * hi * room >= one * upper[k + 1]


@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(1), Fraction(10), Fraction(100)])
def test_gaussian_probabilities_have_the_promised_ratios(sigma):
    """P(x + 1) / P(x) = exp(-(2 x + 1) / (2 sigma^2))."""
    bits, room = 400, 1 + Fraction(1, 1 << 100)
    lower, upper = probabilities(magnitude_law("gaussian", sigma), bits)
    lower, upper = [2 * lower[0], *lower[1:]], [2 * upper[0], *upper[1:]]
    assert len(lower) > 5 * sigma
    for k in range(len(lower) - 1):
        lo, hi = cumulative.exp_bounds((2 * k + 1) / (2 * sigma**2), bits)
        one = 1 << bits
        assert upper[k] * lo <= one * lower[k + 1] * room
        assert lower[k] * hi * room >= one * upper[k + 1]


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(10), Fraction(100)])
@pytest.mark.parametrize("law", LAWS)
def test_tables_have_the_right_variance(law, scale):
    bits, close = 400, Fraction(1, 1 << 100)
    lower, upper = probabilities(magnitude_law(law, scale), bits)
    low = sum(k * k * p for k, p in enumerate(lower))
    high = sum(k * k * p for k, p in enumerate(upper))
    assert high - low < close
    if law == "laplace":
        lo, hi = (Fraction(b, 1 << bits) for b in cumulative.exp_bounds(1 / scale, bits))
        assert 2 * lo / (1 - lo) ** 2 <= high + close
        assert 2 * hi / (1 - hi) ** 2 >= low - close
    else:
        assert low <= scale**2
        # For sigma of 1 and more the difference to sigma^2 is below 2^-16 of it.
        assert scale < 1 or high >= scale**2 * (1 - Fraction(1, 1 << 16))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", SCALES[:-1])
def test_table_entries_are_floors_of_finer_ones(law, scale):
    table = inversion.Table(magnitude_law(law, scale), np.uint32)
    finer = cumulative.floors(table.law, 63)
    assert table.floors[:-1].tolist() == [c >> 32 for c in finer[: table.floors.size - 1]]
    assert table.floors[-1] == 2**31 - 1


@settings(max_examples=20)
@given(fractions, st.integers(1, 3), st.integers(1, 2))
def test_digits_and_leading_part_multiply_to_the_whole(scale, bits, digits):
    sampler = laplace.with_digits(scale, bits, digits, np.uint32)
    with localcontext(reference.DIGITS):
        whole = reference.magnitudes("laplace", scale)

        def steps(law: cumulative.Law) -> list[Decimal]:
            floors = cumulative.floors(law, 200)
            sums = [Decimal(0), *(Decimal(c) / (1 << 200) for c in floors), Decimal(1)]
            return [b - a for a, b in pairwise(sums)]

        parts = [steps(sampler.leading.law), *(steps(t.law) for t in sampler.digits)]
        radix = 1 << bits
        for k, p in list(enumerate(whole))[1 : 3 * radix**digits]:
            leading, rest = divmod(k - 1, radix**digits)
            if leading + 1 >= len(parts[0]):
                break
            found = parts[0][leading + 1]
            for j in range(digits):
                digit = rest // radix ** (digits - 1 - j) % radix
                found *= parts[1 + j][digit] if digit < len(parts[1 + j]) else Decimal(0)
            assert abs(found - p) < Decimal("1e-55")


# --------------------------------------------------------------------------- short words


def decided_after(sampler: inversion.Inversion, words: int) -> dict[int | None, Fraction]:
    """Probability of each outcome that so many words decide; None for what they leave open."""
    bits = 8 * np.dtype(sampler.dtype).itemsize
    found: dict[int | None, Fraction] = {}
    prefixes: list[tuple[int, ...]] = [()]
    for length in range(1, words + 1):
        still_open = []
        for prefix, word in product(prefixes, range(1 << bits)):
            given_words = [*prefix, word]
            source = reference.GivenWords(given_words[1:])
            try:
                x: int | None = sampler.settle(
                    given_words[:1], lambda source=source: int(source.take(1, np.uint8)[0])
                )
                found[x] = found.get(x, Fraction(0)) + Fraction(1, 1 << bits * length)
            except reference.ExhaustedError:
                still_open.append((*prefix, word))
        prefixes = still_open
    found[None] = Fraction(len(prefixes), 1 << bits * words)
    return found


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_all_words_of_8_bits_give_the_exact_distribution(law, scale):
    """Decided draws never exceed P(x), by enumeration; the undecided rest is small and known."""
    sampler = inversion.MagnitudeTable(magnitude_law(law, scale), [], np.uint8)
    found = decided_after(sampler, 2)
    left = found.pop(None)
    assert sum(found.values()) + left == 1
    # Each entry of the table of 15 bits has one cell of 2^-15.
    assert left <= Fraction(len(cumulative.floors(sampler.leading.law, 15)), 1 << 15)
    p = [Fraction(x) for x in reference.magnitudes(law, scale)]
    for x in range(-len(p) + 1, len(p)):
        exact = p[abs(x)] / (2 if x else 1)
        # Zero comes with both signs; each cell left open touches at most two outcomes.
        assert found.get(x, 0) <= exact <= found.get(x, 0) + left
    assert set(found) <= set(range(-len(p) + 1, len(p)))


@pytest.mark.parametrize("law", LAWS)
def test_kernel_and_refinement_agree_on_every_word(law):
    sampler = inversion.MagnitudeTable(magnitude_law(law, Fraction(3)), [], np.uint16)
    words = np.arange(1 << 16, dtype=np.uint16)
    compare_with_refinement(sampler, words)


def test_kernel_and_refinement_agree_on_every_pair_of_words():
    words = np.array(list(product(range(256), repeat=2)), np.uint8).reshape(-1)
    compare_with_refinement(laplace.with_digits(Fraction(9), 2, 1, np.uint8), words)
    compare_with_refinement(gaussian.GaussianCells(Fraction(9), 2, np.uint8), words)


def compare_with_refinement(sampler: inversion.Inversion, words: np.ndarray) -> None:
    n = words.size // sampler.width
    out, undecided = np.empty(n, np.int64), np.empty(n, np.uint32)
    count = sampler.look_up(words, out, undecided)
    is_open = set(undecided[:count].tolist())
    assert 0 < len(is_open) == count < n / 2
    for i, own in enumerate(words.reshape(n, sampler.width).tolist()):
        try:
            x = sampler.settle(own, lambda: reference.GivenWords([]).take(1, np.uint8))
        except reference.ExhaustedError:
            assert i in is_open
        else:
            assert x == out[i] or i in is_open


@pytest.mark.parametrize(("sigma", "cell_bits"), [(9, 2), (100, 1), (4, 3), (5000, 2)])
def test_cells_keep_at_first_sight_only_what_is_kept_for_certain(sigma, cell_bits):
    """The chance to refuse a draw is never below the exact one, 1 - exp(-gamma) < gamma."""
    sampler = gaussian.GaussianCells(Fraction(sigma), cell_bits, np.uint16)
    m, most = 1 << cell_bits, 1 << sampler.chance_bits
    rate = Fraction(1, 2 * sigma**2)
    for k, chance in enumerate(sampler.chance.tolist()):
        for r in range(m):
            gamma = rate * r * (2 * m * k + r)
            assert chance >= most or Fraction(r * chance, m * most) >= gamma
            # No draw with a positive chance to be refused is kept for all values of its other bits.
            assert r == 0 or chance > 0


SHORT = {
    "laplace, one word": ("laplace", 2, lambda t: laplace.sampler(Fraction(2), t)),
    "gaussian, one word": ("gaussian", 3, lambda t: gaussian.sampler(Fraction(3), t)),
    "laplace, two words": (
        "laplace",
        20,
        lambda t: laplace.with_digits(Fraction(20), 3, 1, t),
    ),
    "laplace, three words": (
        "laplace",
        40,
        lambda t: laplace.with_digits(Fraction(40), 2, 2, t),
    ),
    "laplace, large digits": (
        "laplace",
        0.75,
        lambda t: laplace.with_digits(Fraction(3, 4), 4, 1, t),
    ),
    "gaussian, cells": ("gaussian", 12, lambda t: gaussian.GaussianCells(Fraction(12), 1, t)),
    "gaussian, wide cells": (
        "gaussian",
        4,
        lambda t: gaussian.GaussianCells(Fraction(4), 3, t),
    ),
}


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("name", SHORT)
def test_draws_from_short_words_fit(name, dtype):
    """Many draws are undecided here, and are completed one by one."""
    law, scale, make = SHORT[name]
    out = np.empty(min(MANY, 30_000), np.int64)
    make(dtype).fill(out, testing.SeededWords(5))
    assert reference.chi_square(law, scale, out) > FALSE_ALARM


def test_tail_beyond_the_table_is_drawn():
    """All bits one, and the word after: a magnitude no table of 7 bits holds."""
    sampler = inversion.MagnitudeTable(laplace.LaplaceMagnitude(Fraction(1)), [], np.uint8)
    for words, least in (([254, 255, 0], 9), ([255, 255, 255, 128], 15)):
        out = np.empty(1, np.int64)
        sampler.fill(out, reference.GivenWords(words))
        assert abs(out[0]) > least
        assert (out[0] < 0) == (words[0] & 1)


@pytest.mark.parametrize("sign", [0, 1])
def test_draws_beyond_64_bits_wrap_around(sign):
    """Words of ones without end, or nearly: a magnitude above 2^63 at the largest scale."""
    sampler = laplace.sampler(Fraction(LARGEST_SCALE))
    ones = [2**32 - 1] * sampler.width
    exact = sampler.settle([2**32 - 2 + sign, *ones[1:]], iter([2**32 - 1] * 6 + [0] * 20).__next__)
    assert 2**63 < abs(exact) < 2**64
    out = np.empty(1, np.int64)
    words = [2**32 - 2 + sign, *ones[1:], *[2**32 - 1] * 6, *[0] * 20]
    sampler.fill(out, reference.GivenWords(words))
    assert int(out[0]) == inversion.wrap(exact)
    assert (exact < 0) == bool(sign)


# --------------------------------------------------------------------------- many draws


@pytest.mark.large
@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("law", LAWS)
def test_ten_million_draws_fit(law, scale):
    draws = seeded(law, scale, 10**7, seed=11)
    assert reference.chi_square(law, float(scale), draws) > FALSE_ALARM


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("law", LAWS)
def test_tables_agree_with_rejection(law, scale):
    by_table = seeded(law, scale, MANY, seed=12)
    draw = getattr(reference.Rejection(testing.SeededWords(13)), law)
    by_rejection = np.array([draw(scale) for _ in range(4000)])
    assert reference.chi_square(law, float(scale), by_rejection) > FALSE_ALARM
    assert reference.chi_square_of_two(law, float(scale), by_table, by_rejection) > FALSE_ALARM


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [10**9, 2**56, Fraction(2**55, 3602879701896397), "123456.789"])
def test_unusual_scales_fit(law, scale):
    draws = seeded(law, scale, MANY // 10, seed=14)
    assert reference.chi_square(law, float(Fraction(scale)), draws) > FALSE_ALARM


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [1, 10**6])
def test_neighbouring_draws_are_independent(law, scale):
    x = seeded(law, scale, MANY, seed=16)
    a, b = np.sign(x[0::2]) + 1, np.sign(x[1::2]) + 1
    table = np.bincount(3 * a + b, minlength=9).reshape(3, 3)
    expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
    used = expected > 5
    statistic = ((table - expected)[used] ** 2 / expected[used]).sum()
    assert statistic < 35  # once in a million for 4 degrees of freedom
    assert abs(np.corrcoef(np.abs(x[:-1]), np.abs(x[1:]))[0, 1]) < 5 / MANY**0.5


# --------------------------------------------------------------------------- the public functions


def test_random_words_come_from_the_secure_source_only(monkeypatch):
    asked = []
    original = ssl.RAND_bytes
    monkeypatch.setattr(ssl, "RAND_bytes", lambda n: asked.append(n) or original(n))
    x = privacy.discrete_laplace(8, min(MANY, 200_000))
    assert sum(asked) >= 4 * x.size
    assert max(asked) <= 1 << 20
    for function in (privacy.discrete_laplace, privacy.discrete_gaussian):
        assert list(inspect.signature(function).parameters)[1:] == ["size"]


def test_without_openssl_the_operating_system_is_asked(monkeypatch):
    asked = []
    original = os.urandom
    monkeypatch.setitem(sys.modules, "ssl", None)
    monkeypatch.setattr(os, "urandom", lambda n: asked.append(n) or original(n))
    privacy.discrete_gaussian(8, 1000)
    assert sum(asked) >= 4000


@pytest.mark.parametrize("size", [0, 1, 7, (), (3, 0), (2, 3), np.int64(4)])
def test_shape_and_type(size):
    for function in (privacy.discrete_laplace, privacy.discrete_gaussian):
        x = function(2, size)
        assert x.shape == np.empty(size).shape
        assert x.dtype == np.int64


@pytest.mark.parametrize("law", LAWS)
def test_numbers_of_every_kind_are_taken_at_their_exact_value(law):
    expected = seeded(law, Fraction(1, 2), 100, 1)
    for scale in (0.5, "1/2", "0.5", Decimal("0.5"), np.float32(0.5)):
        np.testing.assert_array_equal(seeded(law, scale, 100, 1), expected)
    np.testing.assert_array_equal(seeded(law, np.int8(3), 100, 1), seeded(law, 3, 100, 1))
    assert laplace.sampler(Fraction(0.1)) is not laplace.sampler(Fraction(1, 10))


@pytest.mark.parametrize(
    ("scale", "error", "message"),
    [
        (0, ValueError, "'scale' must be above 0"),
        (-1.5, ValueError, "'scale' must be above 0"),
        (float("nan"), ValueError, "'scale' must be finite"),
        (Decimal("inf"), ValueError, "'scale' must be finite"),
        ("one", ValueError, "'scale' must be a number such as"),
        ("1/0", ValueError, "'scale' must be a number such as"),
        (2**56 + 1, ValueError, "'scale' must be at most"),
        (True, TypeError, "'scale' must be a number"),
        (None, TypeError, "'scale' must be an int"),
    ],
)
def test_bad_scales_are_refused(scale, error, message):
    with pytest.raises(error, match=message):
        privacy.discrete_laplace(scale, 3)


@pytest.mark.parametrize(
    ("size", "error"),
    [(-1, ValueError), ((2**60, 0), ValueError), (1.5, TypeError), ("x", TypeError)],
)
def test_bad_sizes_are_refused(size, error):
    with pytest.raises(error, match="'size' must"):
        privacy.discrete_gaussian(1, size)


def test_seeded_noise_repeats():
    for law in LAWS:
        a, b = (seeded(law, 8, (3, 5), 1) for _ in range(2))
        np.testing.assert_array_equal(a, b)
        assert np.any(a != seeded(law, 8, (3, 5), 2))
    a = testing.continuous_laplace([1.0, 100.0], (1000, 2), 1)
    np.testing.assert_array_equal(a, testing.continuous_laplace([1.0, 100.0], (1000, 2), 1))
    assert 50 < a[:, 1].std() / a[:, 0].std() < 200


def test_large_draws_wrap_around():
    assert inversion.wrap(2**63) == -(2**63)
    assert inversion.wrap(-(2**63) - 1) == 2**63 - 1
    assert LARGEST_SCALE * 128 == 2**63


# --------------------------------------------------------------------------- rounding


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30))
def test_rounding_goes_up_and_not_far(x):
    for found, square in ((round_up(x), x * x), (sqrt_up(x), x)):
        assert square <= found**2 <= square * (1 + Fraction(1, 1 << 60))
        assert found.denominator.bit_length() <= 220
    assert sqrt_up(x * x) >= x


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_short_fractions_and_their_squares_stay_exact(a, b):
    x = Fraction(a, b)
    assert round_up(x) == sqrt_up(x * x) == x
