"""Baselines: each learns something without noise, and less with much of it."""

import numpy as np
import pytest
from rating_tables import made_up

from analyses.matrix_factorization.ratings import Ratings
from bench.baselines import descent
from bench.baselines.factors import (
    central_non_private,
    dpals,
    local_non_private,
    objective_perturbation,
)

CENTRED, (USERS, ITEMS, VALUES) = made_up(300, 40, 25)
POSITIVE = Ratings(CENTRED.starts, CENTRED.columns, np.clip(CENTRED.deviations + 2.5, 0, 5), 40)


def error(fitted, shift=0.0) -> float:
    predicted = np.clip(fitted.predict(USERS, ITEMS), 0, 5) if shift else fitted.predict(USERS, ITEMS)
    return float(np.mean((predicted - np.clip(VALUES + shift, 0, 5) if shift else predicted - VALUES) ** 2))


def rng():
    return np.random.default_rng(1)


MEAN_ERROR = float(np.mean(VALUES**2))


def test_least_squares_without_noise_is_far_better_than_the_mean():
    assert error(central_non_private(CENTRED, 2, rng())) < 0.8 * MEAN_ERROR


def test_alone_a_party_learns_less():
    parts = list(CENTRED.split_rows(10))
    fitted = local_non_private(parts, 0, rng())
    alone = np.array(
        [fitted[i % 10].predict(np.array([i // 10]), np.array([j]))[0] for i, j in zip(USERS, ITEMS, strict=True)]
    )
    assert np.mean((alone - VALUES) ** 2) > error(central_non_private(CENTRED, 0, rng()))


def test_dpals_and_perturbed_objectives_get_worse_with_their_noise():
    assert error(dpals(CENTRED, 1, 1e-6, rng())) < 0.85 * MEAN_ERROR
    assert error(dpals(CENTRED, 1, 1e-6, rng())) < error(dpals(CENTRED, 1, 5.0, rng()))
    assert error(objective_perturbation(CENTRED, 1, 1e6, rng())) < error(objective_perturbation(CENTRED, 1, 0.3, rng()))


@pytest.mark.parametrize("method", ["gradient_clipping", "syn_sgd"])
def test_descent_gets_worse_with_its_noise(method):
    run = getattr(descent, method)
    options = {"n_steps": 150, "sampling_rate": 0.2}
    quiet, loud = (error(run(POSITIVE, 2, z, rng(), **options), shift=2.5) for z in (1e-9, 5.0))
    assert quiet < 1.2
    assert loud > quiet


def test_langevin_samples_get_better_with_epsilon():
    quiet, loud = (error(descent.dp_sgld(POSITIVE, 2, e, rng(), n_steps=200), 2.5) for e in (200.0, 0.1))
    assert quiet < loud


def test_reports_of_devices_get_better_with_epsilon():
    quiet, loud = (error(descent.gd_dr(POSITIVE, 2, e, rng()), 2.5) for e in (1000.0, 0.5))
    assert quiet < loud


def test_shuffling_amplifies_and_never_harms():
    assert descent.shuffled_epsilon(1.0, 100_000, 1e-6) < 0.1
    assert descent.shuffled_epsilon(1.0, 10, 1e-6) == 1.0
    local = descent.local_epsilon(1.0, 10_000, 1e-6, 5)
    assert 5 * descent.shuffled_epsilon(local, 10_000, 1e-6 / 5) == pytest.approx(1.0, rel=1e-3)
