from dataclasses import replace

import numpy as np
import pytest

from dp.cost.accounting import CalibrationError
from dp.cost.report import describe
from dp.mechanism.bounded_sampling import BoundedPoisson
from dp.mechanism.sampled import SampledSkellam
from dp.mechanism.vector import SharedSkellam, VectorSensitivity
from entropy import InsecureTestEntropy

SENSITIVITIES = {"coordinator": VectorSensitivity(10**8, 10**5), "coalition": VectorSensitivity(2 * 10**8, 2 * 10**5)}


def calibrated(**changes):
    given = {
        "length": 5,
        "sensitivities": SENSITIVITIES,
        "sampling": BoundedPoisson.with_rate(0.05, 100, 12),
        "n_parties": 3,
        "colluding": 1,
        "epsilon": 2.0,
        "delta": 1e-5,
        "view": "coordinator",
    }
    return SampledSkellam.calibrate(**{**given, **changes})


@pytest.mark.parametrize("view", ["coordinator", "coalition"])
def test_the_least_noise_meets_the_target_in_the_view_that_was_asked_for(view):
    mechanism = calibrated(view=view)
    assert mechanism.epsilon(view, 1e-5).epsilon <= 2.0
    less = replace(mechanism, step=replace(mechanism.step, party_mu=int(mechanism.step.party_mu * 0.999)))
    assert less.epsilon(view, 1e-5).epsilon > 2.0


def test_the_coordinator_who_does_not_know_the_samples_pays_less_than_a_coalition_that_does():
    mechanism = calibrated()
    assert mechanism.epsilon("coalition", 1e-5).epsilon > 4 * mechanism.epsilon("coordinator", 1e-5).epsilon
    (event,) = mechanism.events("coordinator")
    assert (event.step.rate, event.n_steps, event.most_participations) == (mechanism.sampling.rate, 100, 12)


def test_a_coalition_pays_for_the_participations_of_the_busiest_record_and_not_for_the_steps():
    mechanism = calibrated()
    (event,) = mechanism.events("coalition")
    once = mechanism.step.events("coalition")[0]
    assert event.squares == 12 * once.squares
    longer = replace(mechanism, sampling=BoundedPoisson.with_rate(0.05, 10_000, 12))
    assert longer.events("coalition") == mechanism.events("coalition")
    assert longer.epsilon("coordinator", 1e-5).epsilon > mechanism.epsilon("coordinator", 1e-5).epsilon


def test_sampling_everybody_is_one_release_after_the_other():
    mechanism = calibrated(sampling=BoundedPoisson.with_rate(1.0, 4))
    plain = SharedSkellam(5, SENSITIVITIES, 3, 1, mechanism.step.party_mu, n_releases=4)
    for view in ("coordinator", "coalition"):
        assert mechanism.epsilon(view, 1e-5).epsilon == pytest.approx(plain.epsilon(view, 1e-5).epsilon, rel=1e-6)


def test_noise_has_the_variance_of_its_parameter_and_stays_below_its_bound():
    mechanism = calibrated(length=4000)
    noise = mechanism.draw(InsecureTestEntropy("sampled"))
    assert np.var(noise) == pytest.approx(2 * mechanism.step.party_mu, rel=0.1)
    assert np.abs(noise).max() < mechanism.noise_tail_bound(-40)
    assert mechanism.noise_tail_bound(-40) > mechanism.step.noise_tail_bound(-40)


def test_the_report_says_what_a_step_is_and_how_often_a_record_takes_part():
    report = calibrated().report("gradient", 1e-5)
    text = "\n".join(describe(report))
    assert "in each of 100 steps about a Poisson sample of rate 0.05" in text
    assert "a record takes part in at most 12 steps" in text
    assert report["views"]["coordinator"]["epsilon"] <= 2.0 < report["views"]["coalition"]["epsilon"]
    assert report["parameters"]["most_participations"] == 12


def test_an_epsilon_that_no_noise_can_give_is_refused():
    with pytest.raises(CalibrationError):
        calibrated(epsilon=1e-30)
