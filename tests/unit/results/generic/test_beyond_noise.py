"""Of counts that nobody is in, one is listed in one of twenty tables at most, whatever noise they have."""

import numpy as np
import pytest

from analyses.job.forecast import deviations_of_all
from dp.mechanism.shared_laplace import MEAN_UNIT
from results.generic.beyond_noise import counts_beyond_noise, least_count

TABLES, CELLS = 3000, 36


def noise_of(kind, variance):
    """Return draws of noise, and the report of a release that has such noise from three parties, one colluding."""
    rng, shape = np.random.default_rng(4), (TABLES, CELLS)
    if kind == "skellam":
        return rng.poisson(variance / 2, shape) - rng.poisson(variance / 2, shape), {"party_mu": 1}
    of_all, mean = 1.5, (np.sqrt(1 + 2 * variance / 1.5) - 1) / 2
    drawn = [rng.negative_binomial(of_all, 1 / (1 + mean), shape) for _ in range(2)]
    return drawn[0] - drawn[1], {"mean_units": int(mean / MEAN_UNIT)}


@pytest.mark.parametrize(
    ("kind", "variance"), [("skellam", 0.03), ("skellam", 1.5), ("laplace", 1.5), ("laplace", 1e4)]
)
def test_an_empty_table_lists_no_count_in_19_of_20_cases(kind, variance):
    drawn, parameters = noise_of(kind, variance)
    error = np.sqrt(variance)
    assert np.mean((drawn > deviations_of_all(CELLS) * error).any(axis=1)) > 0.1
    limits = np.full(CELLS, error)
    listed = [
        counts_beyond_noise(t, limits, {"parameters": parameters}, method="mpc").any() for t in drawn.astype(float)
    ]
    assert np.mean(listed) <= 0.05


def test_counts_of_normal_noise_and_exact_ones_are_held_to_what_normal_numbers_need():
    assert least_count(10, 1000.0) == deviations_of_all(10) * 1000.0
    counts, errors = np.array([[3.0, 0.0], [-5.0, 1.0]]), np.zeros((2, 2))
    assert counts_beyond_noise(counts, errors, {}, method="mpc").tolist() == [[True, False], [False, True]]


def test_smaller_units_of_long_tails_need_as_many_deviations():
    below, above = (least_count(36, error, mean) for error, mean in ((9.99, 5.28), (999.0, 576.3)))
    assert above / 999.0 == pytest.approx(below / 9.99, rel=0.06)
