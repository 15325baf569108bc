"""The nearest counts that are possible, beside an optimiser's."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dp.mechanism.valid_counts import valid_counts


def test_valid_counts_are_the_nearest_ones_of_their_sum():
    rng = np.random.default_rng(0)
    raw = rng.normal(1, 3, 7)
    total = 5.0
    found = valid_counts(raw, total)
    best = minimize(
        lambda w: ((w - raw) ** 2).sum(),
        np.full(7, total / 7),
        bounds=[(0, None)] * 7,
        constraints={"type": "eq", "fun": lambda w: w.sum() - total},
        tol=1e-12,
    )
    np.testing.assert_allclose(found, best.x, atol=1e-4)
    assert found.sum() == pytest.approx(total)


def test_counts_that_are_valid_stay():
    counts = np.array([[3.0, 0.0], [1.0, 2.0]])
    np.testing.assert_allclose(valid_counts(counts), counts)


def test_the_noise_of_empty_cells_does_not_add_up():
    rng = np.random.default_rng(1)
    true = np.zeros(4096)
    true[:8] = 2500
    raw = true + rng.normal(0, 20, 4096)
    error, clipped_error = (np.abs(w - true).sum() for w in (valid_counts(raw), np.maximum(raw, 0)))
    assert error < clipped_error / 10


@pytest.mark.parametrize("total", [0.0, -3.0])
def test_without_rows_all_counts_are_zero(total):
    assert not valid_counts(np.array([1.0, -4.0]), total).any()


def test_the_sum_of_negative_counts_is_no_sum():
    assert not valid_counts(np.array([1.0, -4.0])).any()
