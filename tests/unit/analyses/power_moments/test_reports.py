"""Unbiasedness and cost of the reports, by enumeration of all of them."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from analyses.power_moments.reports import MomentReports, _noise_moments
from dp.cost.accounting import Adjacency
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.event import renyi_curve
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.mechanism.bits import RandomizedBits
from entropy import InsecureTestEntropy

BITS = RandomizedBits(Fraction(1, 5))


def reports(order=2, largest=(2, 1), bits=BITS, threshold=6):
    return MomentReports(order, threshold, largest, bits)


def mean_over_all_bits(of, values, power=1):
    """The mean of an estimate for one slot, or of a power of it, over all bits that its parties can report."""
    truth = [np.arange(1, n + 1) == min(value, n) for n, value in zip(of.largest, values, strict=True)]
    flat = np.concatenate(truth)
    found = 0.0
    for bits in product((False, True), repeat=len(flat)):
        same = np.array(bits) == flat
        mass = math.prod(float(of.bits.truthful) if s else 1 - float(of.bits.truthful) for s in same)
        parts = np.split(np.array(bits), np.cumsum(of.largest)[:-1])
        found += mass * of.small_powers(1, [np.packbits(part) for part in parts])[0] ** power
    return found


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("values", [(0, 0), (2, 0), (1, 1), (2, 1)])
def test_the_power_of_a_small_sum_is_estimated_without_bias(order, values):
    assert mean_over_all_bits(reports(order), values) == pytest.approx(sum(values) ** order, abs=1e-9)


def test_a_value_above_what_bits_can_tell_counts_as_the_largest_that_they_can():
    assert mean_over_all_bits(reports(2), (9, 1)) == pytest.approx(3**2, abs=1e-9)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_the_power_of_a_large_sum_is_estimated_without_bias(order):
    of = reports(order)
    r = math.exp(-1 / float(of.scale))
    one = (1 - r) / (1 + r) * r ** np.abs(np.arange(-400, 401))
    both = np.convolve(one, one)
    noise = np.arange(-800, 801)
    for x in (0, 4, 30):
        assert np.sum(both * of.large_powers(x + noise)) == pytest.approx(x**order, rel=1e-9, abs=1e-6)
    assert _noise_moments(of.scale, 2, 2)[2] == pytest.approx(np.sum(both * noise**2))


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_no_large_slot_is_closer_than_the_least_deviation(order):
    of = reports(order, (1000, 1000), RandomizedBits(Fraction(1, 100)))  # so many values that small slots are worse
    noise = np.arange(-2000, 2001)
    r = math.exp(-1 / float(of.scale))
    one = (1 - r) / (1 + r) * r ** np.abs(noise)
    variance = np.sum(np.convolve(one, one) * of.large_powers(np.arange(-4000, 4001)) ** 2)
    assert 0.99 * of.least_deviation(1) <= math.sqrt(variance) < 10 * of.least_deviation(1)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_no_small_slot_is_closer_than_the_least_deviation(order):
    of, entropy = reports(order, (3, 2), RandomizedBits(Fraction(1, 5))), InsecureTestEntropy("least")
    nothing = np.zeros(40_000, dtype=np.int64)
    powers = of.small_powers(
        len(nothing), [of.packed(party, nothing, of.draw(entropy, len(nothing), party)) for party in (0, 1)]
    )
    alone = (float(1 / (16 * of.bits.bias**2)) - 0.25) * sum(c ** (2 * order) for c in (1, 2, 3, 1, 2))
    assert of.least_deviation(1) ** 2 <= alone * (1 + 1e-9)
    assert alone < 1.05 * powers.var()


def test_estimates_of_many_slots_are_those_of_each():
    of, entropy = reports(3, (3, 2)), InsecureTestEntropy("many")
    values = np.random.default_rng(1).integers(0, 4, (2, 40_000))
    packed = [of.packed(party, values[party], of.draw(entropy, len(values[party]), party)) for party in (0, 1)]
    together = of.small_powers(40_000, packed)
    assert [len(p) for p in packed] == [of.report_bytes(party, 40_000) for party in (0, 1)]
    singly = np.empty(50)
    for i in range(50):
        bits = [np.unpackbits(p)[i * n : (i + 1) * n] for p, n in zip(packed, of.largest, strict=True)]
        singly[i] = of.small_powers(1, [np.packbits(b) for b in bits])[0]
    assert np.allclose(together[:50], singly)
    late = 33_333
    bits = [np.unpackbits(p)[late * n : (late + 1) * n] for p, n in zip(packed, of.largest, strict=True)]
    assert together[late] == pytest.approx(of.small_powers(1, [np.packbits(b) for b in bits])[0])
    expected = (np.minimum(values[0], 3) + np.minimum(values[1], 2)) ** 3
    assert abs(together.sum() - expected.sum()) < 4 * np.sqrt(40_000 * together.var())


@pytest.mark.parametrize("bias", [Fraction(1, 50), Fraction(1, 5), Fraction(9, 20)])
def test_no_event_costs_more_in_the_second_release_than_the_stated_curve(bias):
    of = reports(bits=RandomizedBits(bias))
    first, second = of.events("coordinator")
    assert first == DiscreteLaplaceDpEvent(1, of.scale, Adjacency.ADD_OR_REMOVE_ONE)
    orders = np.array([2, 3, 10, 100])
    stated = renyi_curve(second, orders)
    two_bits = 2 * renyi_curve(RandomizedResponseDpEvent(2, of.bits.truthful), orders)
    again = renyi_curve(first, orders)
    assert np.all(two_bits <= stated)
    assert np.all(again <= stated)
    assert 1 / of.scale <= 2 * math.log(of.odds)


def test_a_replaced_event_costs_twice_an_added_one():
    one = reports().events("coordinator")
    two = reports().events("coalition")
    total = [sum(renyi_curve(event) for event in events) for events in (one, two)]
    assert np.allclose(2 * total[0], total[1])


def test_slots_are_large_from_half_of_the_threshold_on():
    assert reports(threshold=7).is_large(np.array([3, 4, -5])).tolist() == [False, True, False]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_variance_of_an_empty_slot_is_that_over_all_bits_and_no_other_slots_is_smaller(order):
    of = reports(order)

    def variance(values):
        second = mean_over_all_bits(of, values, power=2)
        return second - sum(values) ** (2 * order)

    assert of.variance_of_empty == pytest.approx(variance((0, 0)))
    assert all(variance(values) > of.variance_of_empty * (1 - 1e-9) for values in [(2, 0), (1, 1), (2, 1)])


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_the_variance_of_a_large_slot_is_that_over_all_noise(order):
    of = reports(order, bits=RandomizedBits(Fraction(2, 5)))
    noise = np.arange(-200, 201)
    r = math.exp(-1 / float(of.scale))
    both = np.convolve((1 - r) / (1 + r) * r ** np.abs(noise), (1 - r) / (1 + r) * r ** np.abs(noise))
    for x in (0, 3, 40):
        second = np.sum(both * (of.large_powers(x + np.arange(-400, 401)) - float(x) ** order) ** 2)
        assert of.large_variances(np.array([x]))[0] == pytest.approx(second, rel=1e-6)
    assert of.large_variances(np.array([-7]))[0] == of.large_variances(np.array([0]))[0]
