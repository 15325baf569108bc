"""The test for zeros under shares: right for every value modulo small primes, and for chosen ones modulo large ones."""

import itertools

import numpy as np
import pytest

from mpc.arithmetic.field import ResidueField
from mpc.local.simulation import run_program_locally
from mpc.matching import zero_test
from mpc.matching.zero_test import all_zero, of_residues


def bits_of(values: np.ndarray, field: ResidueField, *, n_parties: int = 3, t: int = 1) -> list[int]:
    """The opened bits of rows of integers."""

    async def program(c, mine):
        shared = await c.input(1, values.shape, mine, bound=field.half_order)
        bits = await all_zero(c, shared)
        assert (bits.degree, bits.bound) == (t, 1)
        return await c.open(bits)

    return run_program_locally(program, {1: values}, n_parties=n_parties, t=t, field=field).values.tolist()


@pytest.mark.parametrize("primes", [(5,), (7,), (11,)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_value_modulo_a_small_prime(primes, k):
    field = ResidueField.over(primes)
    values = np.array(list(itertools.product(range(-(primes[0] // 2), primes[0] // 2 + 1), repeat=k)))
    assert bits_of(values, field) == [int(not row.any()) for row in values]


@pytest.mark.parametrize("n_primes", [1, 3, 6])
@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (4, 1), (5, 2)])
def test_values_of_all_sizes(n_primes, n_parties, t):
    field = ResidueField(n_primes)
    largest = min(field.half_order, (1 << 62))
    rng = np.random.default_rng(0)
    values = rng.integers(-largest, largest, (20, 7))
    values %= np.where(np.arange(20) % 2, 2, largest)[:, None]
    values[[3, 8, 12]] = 0
    values[4], values[5] = 0, 0
    values[4, 6], values[5, 0] = 1, -1
    expected = [int(all(v % field.primes[0] == 0 for v in row)) for row in values.tolist()]
    assert expected[3] == expected[8] == 1
    assert expected[4] == expected[5] == 0
    assert bits_of(values, field, n_parties=n_parties, t=t) == expected


def test_rows_are_tested_piece_by_piece(monkeypatch):
    monkeypatch.setattr(zero_test, "BITS_AT_ONCE", 4)
    values = np.array([[i % 3, 0] for i in range(11)])
    assert bits_of(values, ResidueField(2)) == [int(i % 3 == 0) for i in range(11)]


def test_residues_make_one_number():
    field = ResidueField(6)
    number = of_residues(field, [1, 0, 5, 0, 1, 2])
    assert [number % p for p in field.primes] == [1, 0, 5, 0, 1, 2]
    assert abs(number) <= field.half_order
