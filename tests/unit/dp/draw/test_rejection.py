import dataclasses
import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dp.draw.rejection import MAX_SPREAD, _envelope, _is_below, _round, _tail_candidate, precise_context, sample_offsets
from dp.draw.skellam import Poisson
from entropy import KeyStream

RATES = [Fraction(1, 10**30), Fraction(1, 1000), Fraction(5, 2), Fraction(30), Fraction(999), Fraction(10**6 + 1, 3)]
LARGE_RATES = [Fraction(2**51), Fraction(2**71 + 1, 2), Fraction(2**100)]


def stream(number: int = 0) -> KeyStream:
    return KeyStream(bytes(32), number)


@dataclass(frozen=True)
class TwoSidedGeometric:
    """mass(j) proportional to 2^-|j|: log masses are known exactly. `claimed_spread` may lie."""

    claimed_spread: int = 2
    lowest: int | None = None

    @property
    def spread(self) -> int:
        return self.claimed_spread

    def log_mass(self, offset: int, digits: int) -> tuple[Decimal, Decimal]:
        with localcontext(precise_context(digits + len(str(offset)) + 5)):
            value = -abs(offset) * Decimal(2).ln()
            radius = Decimal(1).scaleb(-digits - 1)
            return value - radius, value + radius


@dataclass(frozen=True)
class MisjudgedPoisson(Poisson):
    """Poisson with a wrong spread, so that its tails carry much of the mass, or none."""

    claimed_spread: int = 1

    @property
    def spread(self) -> int:
        return self.claimed_spread


def chi_square_p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    """Pool cells that expect fewer than 10, return the p-value."""
    rare = expected < 10
    o, e = np.append(observed[~rare], observed[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    keep = e > 0
    return float(chi2.sf(((o - e)[keep] ** 2 / e[keep]).sum(), keep.sum() - 1))


@pytest.mark.parametrize("rate", RATES + LARGE_RATES, ids=float)
def test_the_envelope_is_above_the_mass_at_every_offset_tried(rate):
    distribution = Poisson(rate)
    envelope = _envelope(distribution)
    positions = {0, envelope.width // 3, envelope.width - 1}
    for b in range(0, envelope.n_bins, 7):
        for position in positions:
            most = distribution.log_mass(envelope.first + b * envelope.width + position, 30)[1]
            assert Decimal(envelope.weights[b]) / envelope.scale > most.exp()


@pytest.mark.parametrize("rate", RATES + LARGE_RATES, ids=float)
def test_the_envelope_of_the_tails_is_above_the_mass_and_halves_from_block_to_block(rate):
    distribution = Poisson(rate)
    envelope = _envelope(distribution)
    left, right = envelope.weights[-2:]
    for block in range(6):
        share = Fraction(1, 2 ** (block + 1) * envelope.tail_width)
        near = envelope.last + block * envelope.tail_width
        height = Fraction(right) * share * envelope.width / envelope.scale
        assert math.log(height) >= distribution.log_mass(near, 30)[1]
        near = envelope.first - 1 - block * envelope.tail_width
        if near >= distribution.lowest:
            height = Fraction(left) * share * envelope.width / envelope.scale
            assert math.log(height) >= distribution.log_mass(near, 30)[1]


def test_there_is_no_left_tail_where_the_support_ends_inside_the_bins():
    assert _envelope(Poisson(Fraction(5, 2))).weights[-2] == 0
    assert _envelope(Poisson(Fraction(999))).weights[-2] > 0


@pytest.mark.parametrize("rate", RATES + LARGE_RATES, ids=float)
def test_the_lines_of_a_bin_enclose_the_exact_acceptance_within_the_slack(rate):
    distribution = Poisson(rate)
    envelope = _envelope(distribution)
    for b in range(0, envelope.n_bins, 11):
        for position in {0, min(1, envelope.width - 1), envelope.width // 2, envelope.width - 1}:
            offset = envelope.first + b * envelope.width + position
            exact = float(distribution.log_mass(offset, 40)[0])
            exact += math.log(Fraction(envelope.scale, envelope.weights[b]))
            low = envelope.lower[b] + envelope.slope[b] * position
            high = min(
                envelope.upper_left[b] + envelope.slope_left[b] * position,
                envelope.upper_right[b] + envelope.slope_right[b] * position,
            )
            assert low <= exact + envelope.slack
            assert exact <= high + envelope.slack
            assert envelope.surely_below[b] <= math.exp(exact)


@pytest.mark.parametrize("rate", [Fraction(999), Fraction(2**71)], ids=float)
def test_deciding_every_candidate_with_exact_arithmetic_changes_no_sample(rate):
    envelope = _envelope(Poisson(rate))
    never_decides = dataclasses.replace(
        envelope,
        surely_below=np.full(envelope.n_bins, -1.0),
        lower=np.full(envelope.n_bins, -1e3),
        upper_left=np.full(envelope.n_bins, 1e2),
        upper_right=np.full(envelope.n_bins, 1e2),
        slope=np.zeros(envelope.n_bins),
        slope_left=np.zeros(envelope.n_bins),
        slope_right=np.zeros(envelope.n_bins),
    )
    fast = _round(envelope, 3000, stream())
    assert len(fast) < 3000
    assert np.array_equal(fast, _round(never_decides, 3000, stream()))


@pytest.mark.parametrize("claimed_spread", [1, 60])
def test_a_wrong_spread_costs_time_and_not_exactness(claimed_spread):
    # rate 100: the claimed spread 1 leaves 40 % of the mass to the tails, 60 leaves no tail at all.
    distribution = MisjudgedPoisson(Fraction(100), claimed_spread)
    n_samples = 6000
    drawn = sample_offsets(distribution, n_samples, stream()) + 100
    values = np.arange(250)
    log_factorials = np.array([math.lgamma(k + 1) for k in values])
    expected = n_samples * np.exp(values * math.log(100) - 100 - log_factorials)
    # False alarm: 1e-6 per case, over keys.
    assert chi_square_p_value(np.bincount(drawn, minlength=250), expected) > 1e-6


def test_a_tail_gives_the_values_down_to_the_end_of_the_support_in_proportion_to_their_mass():
    # With a claimed spread of 1 the bins of rate 10 start at offset -8; the tail has 1 and 0, masses 10 to 1.
    distribution = MisjudgedPoisson(Fraction(10), 1)
    envelope = _envelope(distribution)
    source, n_candidates = stream(3), 3000
    drawn = [_tail_candidate(envelope, envelope.n_bins, source) for _ in range(n_candidates)]
    assert set(drawn) == {-9, -10, None}
    for offset in (-9, -10):
        mass = math.exp(float(distribution.log_mass(offset, 30)[0]))
        expected = n_candidates * mass * envelope.scale / (envelope.weights[-2] * envelope.width)
        assert abs(drawn.count(offset) - expected) < 6 * math.sqrt(expected)


def test_a_distribution_with_two_tails_is_sampled_exactly():
    n_samples = 20000
    drawn = sample_offsets(TwoSidedGeometric(), n_samples, stream(1))
    values = np.arange(-30, 31)
    expected = n_samples * 2.0 ** -np.abs(values) / 3
    assert np.abs(drawn).max() <= 30
    assert chi_square_p_value(np.bincount(drawn + 30, minlength=61), expected) > 1e-6
    assert chi_square_p_value(np.bincount(drawn + 31, minlength=62)[:61], expected) < 1e-12


@pytest.mark.parametrize(
    ("known", "is_below"),
    [(2**50 - 1, True), (2**50 - 2, True), (2**50, False), (2**50 + 1, False), (0, True), (2**53 - 1, False)],
)
def test_a_uniform_whose_known_bits_touch_the_threshold_is_decided_with_further_bits(known, is_below):
    # mass(3) / mass(0) = 1/8 = 2^50 / 2^53
    assert _is_below(TwoSidedGeometric(), 3, Fraction(1), known, 53, stream()) is is_below


def test_an_unknown_uniform_is_below_the_threshold_as_often_as_it_says():
    source = stream(2)
    hits = sum(_is_below(TwoSidedGeometric(), 1, Fraction(1, 3), 0, 0, source) for _ in range(3000))
    # mean 500, standard deviation 20.4; six of them
    assert abs(hits - 500) < 123


def test_equal_streams_give_equal_samples_and_different_streams_different_ones():
    distribution = Poisson(Fraction(10**6))
    assert np.array_equal(sample_offsets(distribution, 100, stream()), sample_offsets(distribution, 100, stream()))
    assert not np.array_equal(sample_offsets(distribution, 100, stream()), sample_offsets(distribution, 100, stream(1)))


def test_exactly_as_many_samples_come_as_were_asked_for():
    for size in (0, 1, 17, 40000):
        assert sample_offsets(Poisson(Fraction(4)), size, stream()).shape == (size,)


@pytest.mark.parametrize("spread", [0, MAX_SPREAD + 1])
def test_a_spread_that_could_leave_64_bits_is_refused(spread):
    with pytest.raises(ValueError, match="64-bit"):
        sample_offsets(TwoSidedGeometric(spread), 1, stream())


def test_a_mass_too_steep_for_double_precision_is_refused():
    with pytest.raises(ValueError, match="too steeply"):
        sample_offsets(TwoSidedGeometric(2**45), 1, stream())


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(40), Fraction(10**12)])
def test_words_fall_where_a_search_among_the_running_sums_finds_them(rate):
    envelope = _envelope(Poisson(rate))
    ends = envelope.cumulative
    prefixes = np.arange(1 << 13, dtype=np.uint64) << np.uint64(51)
    words = [KeyStream(bytes(32)).words(20_000), ends - np.uint64(1), ends, prefixes, prefixes[1:] - np.uint64(1)]
    for some in words:
        np.testing.assert_array_equal(envelope.bins_of(some), np.searchsorted(ends, some, side="right"))
