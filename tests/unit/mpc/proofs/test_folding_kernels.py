import numpy as np
import pytest

from mpc.arithmetic.field import ResidueField
from mpc.proofs.folding_kernels import COLUMNS_AT_ONCE, ROWS_ADDED_UP, ROWS_AT_ONCE, combined_rows


@pytest.mark.parametrize(
    ("n_primes", "n_rows", "n_columns"),
    [(1, 1, 3), (2, 6, COLUMNS_AT_ONCE + 1), (3, 24, 40), (3, 2 * ROWS_ADDED_UP + 5, 2)],
)
def test_rows_are_combined_and_the_first_sums_scaled(n_primes, n_rows, n_columns):
    """Residues and factors as large as they can be among others: no sum leaves what float64 holds exactly."""
    field, rng = ResidueField(n_primes), np.random.default_rng(n_rows)
    residues = [rng.integers(0, p, (n_rows, n_columns)) for p in field.primes]
    factors = np.array([rng.integers(-(p // 2), p // 2 + 1, (3, n_rows)) for p in field.primes], dtype=np.float64)
    scales = np.array([rng.integers(-(p // 2), p // 2 + 1, (2, n_columns)) for p in field.primes], dtype=np.float64)
    for part, p in zip(residues, field.primes, strict=True):
        part[:, 0] = p // 2
    factors[:, 0] = [[p // 2] for p in field.primes]
    out = np.full((n_primes, 3, n_columns + 2), np.nan)
    memory, primes = np.empty((ROWS_AT_ONCE, COLUMNS_AT_ONCE)), np.array(field.primes, dtype=np.float64)
    combined_rows(out, 1, memory, field.pack(residues)[0], factors, scales, primes)
    assert np.isnan(out[:, :, [0, -1]]).all()
    for i, p in enumerate(field.primes):
        expected = factors[i].astype(np.int64).astype(object) @ residues[i].astype(object)
        expected[:2] *= scales[i].astype(np.int64).astype(object)
        assert np.abs(out[i, :, 1:-1]).max() <= p / 2 + 1
        np.testing.assert_array_equal(out[i, :, 1:-1].astype(np.int64) % p, (expected % p).astype(np.int64))
