import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from dp.audit.audit import Claim, audit, epsilon_shown
from dp.draw.noise import sample_bernoulli, sample_discrete_laplace
from entropy import InsecureTestEntropy


@dataclass(frozen=True)
class LaplaceTarget:
    """A count of 0 or 10 with discrete Laplace noise of a scale, and a claim about it."""

    claim: Claim
    scale: int

    def statistics(self, world, n_runs, entropy):
        return {"count": (sample_discrete_laplace(entropy, self.scale, n_runs) + 10 * world).astype(float)}


@dataclass(frozen=True)
class PublishedWithSmallProbability:
    """Nothing, but for a probability of `fraction` the input itself."""

    claim: Claim
    fraction: object

    def statistics(self, world, n_runs, entropy):
        return {
            "constant": np.zeros(n_runs),
            "leak": sample_bernoulli(entropy, self.fraction, n_runs) * (2.0 * world - 1),
        }


@pytest.mark.parametrize(("likely", "rare", "delta"), [(40, 9, 0.0), (30, 0, 0.01), (60, 25, 0.1)])
def test_the_bound_is_that_of_two_clopper_pearson_intervals(likely, rare, delta):
    n, false_alarm = 60, 0.02
    shown = float(epsilon_shown(np.array(likely), np.array(rare), n, delta, false_alarm))

    # The least p under which `likely` or more hits, and the largest under which `rare` or fewer, are not too unlikely.
    lower = brentq(lambda p: binom.sf(likely - 1, n, p) - false_alarm / 2, 1e-9, 1 - 1e-9, xtol=1e-14)
    upper = brentq(lambda p: binom.cdf(rare, n, p) - false_alarm / 2, 1e-9, 1 - 1e-9, xtol=1e-14)
    assert shown == pytest.approx(math.log((lower - delta) / upper), rel=1e-6)


def test_counts_within_delta_show_nothing():
    assert epsilon_shown(np.array(5), np.array(0), 1000, 0.01, 1e-6) == -math.inf
    assert epsilon_shown(np.array(0), np.array(1000), 1000, 0.0, 1e-6) == -math.inf


def test_a_true_claim_withstands_and_one_20_percent_too_low_is_beaten():
    for scale, is_beaten in ((10, False), (8, True)):
        found = audit(LaplaceTarget(Claim(1.0, 0.0), scale), InsecureTestEntropy(f"laplace {scale}"), n_runs=400_000)
        assert found.is_beaten is is_beaten
        assert found.epsilon_bound <= 10 / scale
        assert found.epsilon_bound > 0.9 * 10 / scale


def test_a_mechanism_that_publishes_more_often_than_delta_allows_is_beaten_and_one_within_delta_is_not():
    from fractions import Fraction

    for fraction, is_beaten in ((Fraction(1, 100), True), (Fraction(1, 1000), False)):
        target = PublishedWithSmallProbability(Claim(0.5, 0.002), fraction)
        found = audit(target, InsecureTestEntropy(f"leak {fraction}"), n_runs=100_000)
        assert found.is_beaten is is_beaten
        if is_beaten:
            assert found.statistic == "leak"


def test_a_true_claim_is_called_beaten_no_more_often_than_stated():
    # 200 audits at a stated rate of 10 %: more than 40 alarms would have probability 1e-5 even at 10 %.
    entropy = InsecureTestEntropy("false alarms")
    target = LaplaceTarget(Claim(1.0, 0.0), 10)
    alarms = sum(audit(target, entropy, n_runs=2000, false_alarm=0.1).is_beaten for _ in range(200))
    assert alarms <= 40


@pytest.mark.parametrize(("n_runs", "false_alarm"), [(3, 1e-6), (100, 0.0), (100, 1.0)])
def test_an_audit_that_could_show_nothing_is_refused(n_runs, false_alarm):
    with pytest.raises(ValueError, match="an audit needs"):
        audit(
            LaplaceTarget(Claim(1.0, 0.0), 10), InsecureTestEntropy("refused"), n_runs=n_runs, false_alarm=false_alarm
        )
