"""The cost of randomized bits from a secret sample of slots, against the whole mechanism on tables of a few slots."""

from fractions import Fraction
from itertools import pairwise, permutations, product

import numpy as np
import pytest

from dp.cost.accounting import Adjacency, AdjacencyError
from dp.cost.events.event import renyi_curve
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.events.sampled_bits import SampledBitsDpEvent
from dp.cost.losses.sampled_bits import sampled_bits_rdp

ORDERS = np.array([2, 3, 8, 30])
NOBODY = None


def bits_of(unit, n_parties, n_codes):
    bits = np.zeros((n_parties, n_codes), dtype=int)
    if unit is not NOBODY:
        bits[np.arange(n_parties), unit] = 1
    return bits.reshape(-1)


def view(units, n_slots, n_sampled, n_parties, n_codes, truthful):
    """The probability of everything that can be reported, by enumeration of placements and reports."""
    contents = [*units, *[NOBODY] * (n_slots - len(units))]
    places = list(permutations(contents, n_sampled))
    size = n_parties * n_codes
    reports = np.array(list(product((0, 1), repeat=size)))

    def one_slot(unit):
        same = reports == bits_of(unit, n_parties, n_codes)
        return np.where(same, truthful, 1 - truthful).prod(axis=1)

    total = np.zeros((2**size,) * n_sampled)
    for place in places:
        parts = [one_slot(unit) for unit in place]
        total += parts[0] if n_sampled == 1 else np.multiply.outer(parts[0], parts[1])
    return total.reshape(-1) / len(places)


def divergences(p, q):
    return np.array([np.log(np.sum(p**a * q ** (1.0 - a))) / (a - 1) for a in ORDERS])


@pytest.mark.parametrize(
    ("n_slots", "n_sampled", "n_parties", "n_codes"),
    [(2, 1, 1, 2), (3, 1, 2, 2), (3, 2, 1, 2), (3, 2, 2, 2), (2, 2, 2, 2)],
)
@pytest.mark.parametrize("truthful", [Fraction(3, 5), Fraction(9, 10)], ids=str)
def test_no_table_and_no_unit_exceed_the_stated_cost(n_slots, n_sampled, n_parties, n_codes, truthful):
    units = list(product(range(n_codes), repeat=n_parties))
    stated = sampled_bits_rdp(truthful, n_parties, Fraction(n_sampled, n_slots), ORDERS)
    worst = np.zeros(len(ORDERS))
    p = float(truthful)
    for n_others in range(n_slots):
        for others in product(units[:3], repeat=n_others):
            without = view(others, n_slots, n_sampled, n_parties, n_codes, p)
            with_one = view((units[0], *others), n_slots, n_sampled, n_parties, n_codes, p)
            worst = np.maximum(worst, divergences(with_one, without))
            worst = np.maximum(worst, divergences(without, with_one))
    assert np.all(worst <= stated)
    assert np.all(worst >= 0.3 * stated), "a bound several times above what can happen"


def test_the_bound_is_attained_where_one_slot_of_two_is_sampled():
    # With one slot sampled, nothing else is seen, and the other slot's unit is the y of the bound.
    p, units = 0.7, [(0, 0), (1, 1)]
    with_one, without = (view(u, 2, 1, 2, 2, p) for u in ([units[0], units[1]], [units[1]]))
    stated = sampled_bits_rdp(Fraction(7, 10), 2, Fraction(1, 2), ORDERS)
    found = np.maximum(divergences(with_one, without), divergences(without, with_one))
    assert np.allclose(found, stated, rtol=1e-9)


def test_a_sample_of_all_slots_costs_what_the_bits_cost():
    truthful = Fraction(13, 20)
    one = renyi_curve(RandomizedResponseDpEvent(2, truthful, Adjacency.ADD_OR_REMOVE_ONE))
    assert np.allclose(renyi_curve(SampledBitsDpEvent(truthful, 4, Fraction(1))), 4 * one, rtol=1e-9)


def test_a_smaller_sample_costs_less_and_a_small_one_in_proportion():
    truthful = Fraction(11, 20)
    curves = [sampled_bits_rdp(truthful, 2, Fraction(1, n), ORDERS) for n in (1, 2, 10, 100)]
    assert all(np.all(a > b) for a, b in pairwise(curves))
    assert curves[3][0] < 3e-4 * curves[0][0]  # of order s^2


@pytest.mark.parametrize(
    ("truthful", "n_bits", "share"),
    [(Fraction(1, 2), 1, Fraction(1)), (Fraction(2, 3), 9, Fraction(1)), (Fraction(2, 3), 1, Fraction(0))],
)
def test_what_is_no_event_is_refused(truthful, n_bits, share):
    with pytest.raises(ValueError, match="invalid event"):
        sampled_bits_rdp(truthful, n_bits, share, ORDERS)


def test_amplification_is_not_claimed_for_replacing_a_unit():
    with pytest.raises(AdjacencyError):
        SampledBitsDpEvent(Fraction(2, 3), 1, Fraction(1, 2), Adjacency.REPLACE_ONE)
