"""Comparisons of secret integers against Python's."""

import numpy as np
import pytest
from programs import ROSTERS, opened

from mpc.arithmetic.field import ResidueField
from mpc.errors import FieldTooSmallError, LocalFaultError, ShapeError
from mpc.protocol.operations import bits
from mpc.protocol.operations.comparisons import Comparisons, zero_among
from mpc.protocol.shared import concatenate, stack

B = 9
ORDER = ResidueField(6).order
X, Y = (axis.reshape(-1) for axis in np.meshgrid(np.arange(-B, B + 1), np.arange(-B, B + 1)))


def compared(name):
    async def body(c, x, y):
        return await getattr(c, name)(x, y)

    return body


CASES = {
    "less": np.less,
    "less_equal": np.less_equal,
    "equal": np.equal,
    "minimum": np.minimum,
    "maximum": np.maximum,
}


@pytest.mark.parametrize(("n_parties", "t"), ROSTERS)
@pytest.mark.parametrize("name", CASES)
def test_all_pairs_of_small_integers_compare_as_in_numpy(name, n_parties, t):
    got = opened(compared(name), X, Y, bound=B, n_parties=n_parties, t=t)
    np.testing.assert_array_equal(got, CASES[name](X, Y))


@pytest.mark.parametrize("name", CASES)
def test_public_integers_are_compared_with(name):
    async def body(c, x):
        return stack([await getattr(c, name)(x, 3), await getattr(c, name)(x, np.arange(19))])

    x = np.arange(-B, B + 1)
    expected = [CASES[name](x, 3), CASES[name](x, np.arange(19))]
    np.testing.assert_array_equal(opened(body, x, bound=B), expected)


def test_zero_is_found_among_all():
    async def body(c, x):
        return await c.is_zero(x)

    np.testing.assert_array_equal(opened(body, X, bound=B), X == 0)


def test_a_coefficient_of_the_polynomial_for_each_number_of_bits():
    for n_bits in (1, 2, 20, 62):
        values = [sum(c * d**k for k, c in enumerate(zero_among(n_bits, ORDER))) % ORDER for d in range(n_bits + 1)]
        assert values == [1] + [0] * n_bits


def test_what_is_opened_for_equality_is_uniform_to_each_dealer_of_the_mask(monkeypatch):
    """Its last bits, minus what the dealer knows of the mask: in a small field, with slack for two bits."""
    monkeypatch.setattr(bits, "STATISTICAL_BITS", 2)
    known, seen = {}, []
    take_inputs, take_opened = Comparisons.inputs, Comparisons._opened_modulo

    async def inputs(self, shapes, values=None, *, bound):
        if len(shapes) == 2 and self.me in shapes and self.me not in known and bound > 7:
            low = values[4000:] if self.me == 1 else bits_to_integers(values[4000:].reshape(3, 4000))
            known[self.me] = low
        return await take_inputs(self, shapes, values, bound=bound)

    async def opened_modulo(self, hidden, n_bits):
        low = await take_opened(self, hidden, n_bits)
        if self.me == 3:
            seen.append(low)
        return low

    monkeypatch.setattr(Comparisons, "inputs", inputs)
    monkeypatch.setattr(Comparisons, "_opened_modulo", opened_modulo)

    async def body(c, x):
        return await c.is_zero(x)

    for value in (-7, 0, 5):
        known.clear(), seen.clear()
        got = opened(body, np.full(4000, value), bound=7, field=ResidueField.over([101, 103]))
        np.testing.assert_array_equal(got, value == 0)
        for view in (seen[0], seen[0] - known[1], seen[0] - known[2]):
            assert abs(np.bincount(view % 8, minlength=8) - 500).max() < 5 * 500**0.5


def bits_to_integers(places):
    return sum(bit << j for j, bit in enumerate(places))


def test_products_that_were_not_reduced_are_compared():
    async def body(c, x, y):
        return concatenate([await c.less(x * y, x), await c.is_zero(x * y)])

    np.testing.assert_array_equal(opened(body, X, Y, bound=B), np.concatenate([X * Y < X, X * Y == 0]))


def test_integers_at_the_end_of_what_the_field_holds_compare_rightly():
    """20 bits and no sign in a field of 63 bits, with the bound of the difference given."""
    top = (1 << 20) - 1
    x, y = np.array([0, top, 0, top, 5, 6]), np.array([top, 0, 0, top, 6, 5])

    async def body(c, a, b):
        return await c.less(a, b, bound=top)

    np.testing.assert_array_equal(opened(body, x, y, bound=top), x < y)
    with pytest.raises(FieldTooSmallError):
        opened(compared("less"), x, y, bound=top)
    np.testing.assert_array_equal(opened(compared("less"), x, y, bound=top, field=ResidueField(4)), x < y)


def test_nothing_is_compared_without_a_bound():
    async def body(c, x):
        return await c.less(x, await c.random(x.shape))

    with pytest.raises(LocalFaultError, match="no size"):
        opened(body, X, bound=B)


@pytest.mark.parametrize(
    "x", [[5], [1, 2], [2, 1], [3, 3, 1], [1, 7, 7, 7, 2], list(range(-9, 0)), [[1, 5], [4, 5], [2, 6]]]
)
def test_the_first_largest_element_is_found(x):
    async def body(c, shared):
        place, value = await c.argmax(shared)
        return stack([place, value])

    x = np.array(x)
    np.testing.assert_array_equal(opened(body, x, bound=B), [x.argmax(0), x.max(0)])


def test_nothing_is_the_largest_of_nothing():
    async def body(c, x):
        return (await c.argmax(x[:0]))[0]

    with pytest.raises(ShapeError, match="largest"):
        opened(body, X, bound=B)
