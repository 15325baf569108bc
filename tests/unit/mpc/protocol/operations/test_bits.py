"""Bits of secret integers against Python's, and what their masked openings tell."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from programs import ROSTERS, opened, run_shared

from mpc.arithmetic.field import ResidueField
from mpc.errors import FieldTooSmallError, LocalFaultError, ShapeError
from mpc.protocol.operations import bits as module
from mpc.protocol.session import COORDINATOR

X = np.array([0, 1, -1, 2, -2, 63, -64, 100, -100, 17])


@pytest.mark.parametrize(("n_parties", "t"), ROSTERS)
def test_low_bits_bits_and_shifts_are_those_of_python(n_parties, t):
    async def body(c, x):
        return await c.low_bits(x, 5)

    async def shift(c, x):
        return await c.floor_shift(x, 3)

    async def decomposed(c, x):
        return await c.bits(x, 8)

    options = {"bound": 100, "n_parties": n_parties, "t": t}
    np.testing.assert_array_equal(opened(body, X, **options), X % 32)
    np.testing.assert_array_equal(opened(shift, X, **options), X >> 3)
    np.testing.assert_array_equal(opened(decomposed, X, **options), X[None] >> np.arange(8)[:, None] & 1)


@pytest.mark.parametrize("n_bits", [1, 2, 3, 5, 7, 8, 13])
def test_every_number_of_bits_is_right_at_the_borders(n_bits):
    values = np.array([v for k in range(1, 14) for v in (2**k - 1, 2**k, -(2**k))])

    async def body(c, x):
        low = await c.low_bits(x, n_bits)
        return low - c.from_bits(await c.bits(x, n_bits)) * 3

    np.testing.assert_array_equal(opened(body, values, bound=1 << 13), -2 * (values % (1 << n_bits)))


@pytest.mark.parametrize(("n_parties", "t"), ROSTERS)
def test_random_bits_are_bits_of_both_kinds_and_of_every_dealer(n_parties, t):
    async def body(c):
        return await c.random_bits((40, 50))

    drawn = opened(body, bound=1, n_parties=n_parties, t=t)
    assert set(np.unique(drawn)) == {0, 1}
    assert abs(drawn.mean() - 0.5) < 5 * 0.5 / 2000**0.5


@pytest.mark.parametrize("dealer", [1, 2, 3])
def test_each_of_t_plus_one_dealers_alone_makes_random_bits_random(monkeypatch, dealer):
    """All others deal zeros: the exclusive or is then the bits of one."""
    original = module.Bits.inputs

    async def deal(self, shapes, values=None, *, bound):
        mine = None if values is None else values if self.me == dealer else np.ones_like(values)
        return await original(self, shapes, mine, bound=bound)

    monkeypatch.setattr(module.Bits, "inputs", deal)

    async def body(c):
        return await c.random_bits((1000,))

    mean = opened(body, bound=1, n_parties=5, t=2).mean()
    assert abs(mean - 0.5) < 0.1


def test_a_product_along_an_axis_is_numpys():
    values = np.array([[1, 2, -3], [4, 5, 6], [-1, 1, 2], [2, 2, 2], [3, 1, -1]])

    async def body(c, x):
        return await c.prod(x)

    np.testing.assert_array_equal(opened(body, values, bound=6), values.prod(0))


def test_public_places_of_an_array_are_taken_as_by_numpy():
    async def body(c, x):
        return c.take(x, [3, 3, -1, 0])

    np.testing.assert_array_equal(opened(body, X, bound=100), X[[3, 3, -1, 0]])

    async def outside(c, x):
        return c.take(x, [10])

    with pytest.raises(ShapeError, match="outside the first axis"):
        opened(outside, X, bound=100)


def test_integers_for_which_the_field_has_no_room_beside_the_mask_are_refused_before_anything_is_sent():
    async def body(c, x):
        return await c.low_bits(x, 5)

    with pytest.raises(FieldTooSmallError, match="use more primes or tighter bounds"):
        opened(body, X, bound=1 << 24)
    np.testing.assert_array_equal(opened(body, X, bound=1 << 24, field=ResidueField(4)), X % 32)


def test_elements_without_a_bound_have_no_bits():
    async def body(c):
        return await c.low_bits(await c.random((3,)), 2)

    with pytest.raises(LocalFaultError, match="no size"):
        opened(body, bound=1)


@pytest.mark.parametrize("n_bits", [0, 63])
def test_a_number_of_bits_that_int64_does_not_hold_is_refused(n_bits):
    async def body(c, x):
        return await c.low_bits(x, n_bits)

    with pytest.raises(LocalFaultError, match="1 to 62 bits"):
        opened(body, X, bound=100)


# -- secrecy -----------------------------------------------------------------------------------------------------------


def distribution(hidden: int, n_bits: int, n_high_bits: int, known: int) -> dict[int, Fraction]:
    """The law of c, all randomness of one honest dealer; the coalition knows `known` of the rest."""
    law: dict[int, Fraction] = {}
    weight = Fraction(1, 1 << n_bits + n_high_bits)
    for r, high in itertools.product(range(1 << n_bits), range(1 << n_high_bits)):
        c = hidden + r + (high + known << n_bits)
        law[c] = law.get(c, Fraction(0)) + weight
    return law


@pytest.mark.parametrize("n_bits", [1, 2, 3, 4])
def test_the_distance_of_masked_openings_is_at_most_what_the_module_states(n_bits):
    """Exactly, over all randomness: of all values of at most B in size, with S / H as the module states it."""
    bound, n_high_bits = 5, 4
    offset = 1 << max(bound.bit_length(), n_bits)
    stated = Fraction(offset + bound + (1 << n_bits) - 1 >> n_bits, 1 << n_high_bits)
    laws = [distribution(x + offset, n_bits, n_high_bits, 3) for x in range(-bound, bound + 1)]
    for one, other in itertools.combinations(laws, 2):
        distance = sum(abs(one.get(c, 0) - other.get(c, 0)) for c in one.keys() | other.keys()) / 2
        assert distance <= stated
        for c in range(1 << n_bits):  # the low bits alone tell nothing
            low = [sum(p for value, p in law.items() if value % (1 << n_bits) == c) for law in (one, other)]
            assert low == [Fraction(1, 1 << n_bits)] * 2


@pytest.mark.parametrize(
    ("n_primes", "t", "bound", "n_bits"), list(itertools.product([3, 4, 6], [1, 2], [1, 900, 5000], [1, 10]))
)
def test_the_room_for_a_mask_never_lets_it_wrap_and_keeps_the_distance(n_primes, t, bound, n_bits):
    field = ResidueField(n_primes)
    offset = 1 << max(bound.bit_length(), n_bits)
    n_high_bits = module.high_bits(field, t, offset + bound, n_bits)
    largest = offset + bound + (1 << n_bits) - 1 + (t + 1) * ((1 << n_high_bits) - 1 << n_bits)
    assert largest < field.order
    shifts = offset + bound + (1 << n_bits) - 1 >> n_bits
    assert Fraction(shifts, 1 << n_high_bits) <= Fraction(1, 1 << 40) < Fraction(shifts, 1 << n_high_bits - 1)


@pytest.mark.parametrize(("n_primes", "largest_bits"), [(3, 20), (4, 41), (6, 83)])
def test_fields_have_room_for_comparisons_of_so_many_bits(n_primes, largest_bits):
    """What docs/circuits.md says of them."""

    def room(n_bits):
        bound = (1 << n_bits) - 1
        return module.high_bits(ResidueField(n_primes), 1, (1 << n_bits) + bound, n_bits)

    assert room(largest_bits) == 41
    with pytest.raises(FieldTooSmallError):
        room(largest_bits + 1)


def test_long_masks_are_drawn_in_pieces():
    """Integers of 60 bits of which one bit is cut off need a mask of more bits than a word has."""
    x = np.array([-(1 << 60), (1 << 60) - 1, 12345, -1])

    async def body(c, shared):
        return await c.floor_shift(shared, 1)

    got = opened(body, x, bound=1 << 60, field=ResidueField(6))
    np.testing.assert_array_equal(got.astype(np.int64), x >> 1)
    assert module.pieces_of(102) == [62, 40]


def test_what_parties_open_is_masked_by_bits_and_high_parts(monkeypatch):
    """In a small field with slack for two bits: c takes values all over its range, its low bits are uniform."""
    monkeypatch.setattr(module, "STATISTICAL_BITS", 2)
    field = ResidueField.over([101, 103])
    opened_values = []
    original = module.Bits._opened_words

    async def open_and_keep(self, x, receivers):
        words = await original(self, x, receivers)
        if self.me == 1 and words is not None:
            opened_values.append(field.decode(words) % field.order)
        return words

    monkeypatch.setattr(module.Bits, "_opened_words", open_and_keep)

    async def body(c, x):
        return await c.low_bits(x, 3)

    for value in (-7, 0, 7):
        opened_values.clear()
        x = np.full(4000, value)
        _, results = run_shared(body, x, bound=7, field=field, seed=str(value))
        np.testing.assert_array_equal(results[COORDINATOR], x % 8)
        (c,) = opened_values
        counts = np.bincount(c % 8, minlength=8)
        assert abs(counts - 500).max() < 5 * 500**0.5
        assert len(np.unique(c // 8)) > 12
