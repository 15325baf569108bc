"""The code of extended transfers: its dimension, its distance by the BCH bound, and its loops beside plain bits."""

import numpy as np
import pytest

from mpc.matching.okvs_kernels import add_chosen
from mpc.matching.transfer import code, kernels

RNG = np.random.default_rng(0)


def times(a: int, b: int) -> int:
    """A product in GF(2^9)."""
    product = 0
    for bit in range(9):
        product ^= (a << bit) * (b >> bit & 1)
    for bit in range(17, 8, -1):
        product ^= (0b1000010001 << (bit - 9)) * (product >> bit & 1)
    return product


def power(exponent: int) -> int:
    result = 1
    for _ in range(exponent):
        result = times(result, 2)
    return result


def test_the_generator_has_170_roots_in_a_row_and_leaves_76_dimensions():
    """So the distance is 171 or more (BCH bound), and 132 without 39 places."""
    polynomial = code.generator_polynomial()
    assert polynomial.bit_length() - 1 == 511 - code.DIMENSION
    assert power(511) == 1
    assert all(power(divisor) != 1 for divisor in (7, 73))  # so 2 is a primitive element
    for root in range(1, 171):
        value, alpha = 0, power(root)
        for bit in reversed(range(polynomial.bit_length())):
            value = times(value, alpha) ^ (polynomial >> bit & 1)
        assert value == 0, root
    assert code.DISTANCE == 171 - (511 - code.LENGTH)


def words(rows: np.ndarray) -> np.ndarray:
    return np.packbits(rows, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def bits(rows: np.ndarray) -> np.ndarray:
    return np.unpackbits(rows.astype("<u8").view(np.uint8), axis=1, bitorder="little")


def test_words_of_the_code_are_sums_of_the_generators_rows_and_differ_in_132_places():
    messages = code.masked(RNG.integers(0, 1 << 64, (300, 2), dtype=np.uint64))
    found = np.ones((300, 8), dtype=np.uint64)
    add_chosen(found, messages, code.table())
    found ^= np.uint64(1)
    rows = [np.frombuffer(row.to_bytes(64, "little"), np.uint8) for row in code.generator()]
    generator = np.unpackbits(np.array(rows), axis=1, bitorder="little")
    assert np.array_equal(bits(found), bits(messages)[:, : code.DIMENSION].astype(int) @ generator % 2)
    weights = bits(found).sum(axis=1)
    assert weights.min() >= code.DISTANCE
    assert not bits(found)[:, code.LENGTH :].any()
    assert np.bitwise_count(found[:-1] ^ found[1:]).sum(axis=1).min() >= code.DISTANCE


@pytest.mark.parametrize("n_words", [0, 1, 3])
def test_bits_are_transposed(n_words):
    columns = RNG.integers(0, 1 << 64, (128, n_words), dtype=np.uint64)
    rows = np.empty((64 * n_words, 2), dtype=np.uint64)
    kernels.transpose(rows, columns, np.empty(64, dtype=np.uint64))
    assert np.array_equal(bits(rows), bits(columns).T if n_words else np.empty((0, 128)))


def test_rows_are_added_to_the_sums_of_their_bytes():
    rows, choices = (
        RNG.integers(0, 1 << 64, (50, 3), dtype=np.uint64),
        RNG.integers(0, 1 << 64, (50, 1), dtype=np.uint64),
    )
    sums = np.zeros((256 * 8, 3), dtype=np.uint64)
    kernels.add_by_bytes(sums, rows, choices)
    expected = np.zeros_like(sums)
    for row, chosen in zip(rows, choices.astype("<u8").view(np.uint8), strict=True):
        for place, value in enumerate(chosen.tolist()):
            expected[256 * place + value] ^= row
    assert np.array_equal(sums, expected)
