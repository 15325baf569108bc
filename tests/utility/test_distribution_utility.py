"""The errors that the estimates of a distribution must not exceed, on the data of the figures; keys are fixed."""

import numpy as np
import pytest

from analyses.distribution.estimates.metrics import wasserstein
from analyses.distribution.estimates.wave_estimate import estimate_ems
from analyses.distribution.estimates.wave_operator import WaveOperator
from bench.distribution.methods import counts_of, run_job
from bench.distribution.numbers import N_AUTOMATIC_RUNS, automatic_w1
from bench.distribution.samples import BETA, SAMPLES, inputs_of, share
from bench.distribution.targets import LEAST_RATIO, MOST_W1, MOST_W1_OF_TAXI
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.wave import Wave

N_RUNS = 20


def median_w1(sample, epsilon):
    """The median of W1 over the runs of the bench, by EMS with one pass."""
    d = SAMPLES[sample].n_buckets
    operator, found = WaveOperator(Wave.square(d, Odds.of_epsilon(epsilon)), d), []
    for seed in range(N_RUNS):
        inputs = inputs_of(SAMPLES[sample].draw(seed), d)
        counts = counts_of(operator.wave, inputs, seed)
        estimate = estimate_ems(operator, counts)
        found.append(wasserstein(estimate.probabilities, share(inputs, d)))
    return float(np.median(found))


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "most"), MOST_W1.items())
def test_smoothed_estimates_of_beta_err_no_more_than_asked(epsilon, most):
    assert median_w1(BETA, epsilon) <= most


@pytest.mark.slow
def test_automatic_smoothing_of_pickup_times_errs_no_more_than_asked():
    assert np.median(automatic_w1(N_AUTOMATIC_RUNS)) <= MOST_W1_OF_TAXI


@pytest.mark.slow
def test_a_masked_sum_errs_twenty_times_less_at_the_same_epsilon():
    d, of_runs = SAMPLES[BETA].n_buckets, []
    for seed in range(3):
        values = SAMPLES[BETA].draw(seed)
        found = np.array(run_job("masked", values, d, 1.0)["probabilities"])
        of_runs.append(wasserstein(found, share(inputs_of(values, d), d)))
    assert LEAST_RATIO * float(np.median(of_runs)) <= median_w1(BETA, 1.0)
