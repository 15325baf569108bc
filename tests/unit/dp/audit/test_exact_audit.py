from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from dp.audit.audit import Claim
from dp.audit.audit import audit as audit_by_epsilon
from dp.audit.exact_audit import LESS, Part, audit_exactly, design_audit
from dp.audit.exact_law import skellam
from dp.cost.accounting import Adjacency
from dp.cost.composition import composed_epsilon
from dp.draw.noise import sample_bernoulli
from dp.draw.skellam import sample_skellam
from dp.mechanism.scalar import SkellamNoise
from entropy import InsecureTestEntropy


@dataclass(frozen=True)
class Count:
    """Counts of 0 or `moved` with Sk(mu); all of a batch come from one call."""

    mu: int = 50
    moved: int = 20
    noise: Fraction = Fraction(1)
    leak: Fraction = Fraction(0)

    def parts(self, noise):
        law, reach = skellam(self.mu * noise), skellam(self.mu).stop + self.moved
        return [Part(np.stack([law.shifted(world * self.moved).within(-reach, reach) for world in (0, 1)]))]

    def draw(self, world, n_runs, entropy):
        reach = skellam(self.mu).stop + self.moved
        values = sample_skellam(entropy, self.mu * self.noise, n_runs) + world * self.moved
        # A fault that leaves the noise of input 0 as it is: sometimes input 1 gives itself away.
        values = np.where(sample_bernoulli(entropy, self.leak * world, n_runs), reach - 1, values)
        return np.clip(values, -reach, reach - 1)[:, None] + reach

    def with_noise(self, noise):
        return replace(self, noise=noise)

    def statistics(self, world, n_runs, entropy):
        """For the audit by epsilon."""
        return {"count": self.draw(world, n_runs, entropy)[:, 0].astype(float)}

    @property
    def claim(self):
        mechanism = SkellamNoise(1, self.moved**2, self.moved, self.mu, Adjacency.ADD_OR_REMOVE_ONE)
        return Claim(composed_epsilon(mechanism.event, 1e-3).epsilon, 1e-3)


@pytest.mark.parametrize("noise", [LESS, LESS**2])
def test_what_withstood_an_audit_of_a_loose_epsilon_is_caught_by_exact_laws(noise):
    # The claim by Renyi orders leaves room for four fifths of the variance: that audit had no power.
    old = Count(200, 10, noise)
    found = audit_by_epsilon(old, InsecureTestEntropy(f"old {noise}"), n_runs=200_000)
    assert not found.is_beaten

    target = Count(200, 10)
    design = design_audit(target)
    assert audit_exactly(target.with_noise(noise), design, InsecureTestEntropy(f"new {noise}")).is_beaten
    assert not audit_exactly(target, design, InsecureTestEntropy("new sound")).is_beaten


def test_the_number_of_runs_is_the_least_of_its_ladder_with_the_power_asked_for():
    design = design_audit(Count())
    assert design.power >= 0.9999
    assert min(design.privacy.power, design.noise.power) >= 0.5
    fewer = design_audit(Count(), n_runs=design.n_runs * 4 // 5)
    assert fewer.power < 0.9999 or min(fewer.privacy.power, fewer.noise.power) < 0.5


def test_the_power_that_is_computed_is_the_power_that_is_observed():
    # 300 audits of few runs: how often each test catches four fifths of the noise, and the false alarms.
    design = design_audit(Count(), n_runs=600, false_alarm=0.1)
    entropy, less = InsecureTestEntropy("power"), Count(noise=LESS)
    found = [audit_exactly(less, design, entropy) for _ in range(300)]
    for power, caught in (
        (design.privacy.power, sum(one.breaks_privacy for one in found)),
        (design.noise.power, sum(one.lacks_noise for one in found)),
    ):
        assert 0.05 < power < 0.995
        assert abs(caught - 300 * power) < 4.5 * (300 * power * (1 - power)) ** 0.5 + 1
    alarms = sum(audit_exactly(Count(), design, entropy).is_beaten for _ in range(300))
    assert alarms <= 60  # 30 at most in the mean: more than 60 would have probability 1e-7


def test_a_leak_that_leaves_the_noise_as_it_is_breaks_privacy_only():
    target = Count(leak=Fraction(1, 3))
    found = audit_exactly(target, design_audit(Count(), n_runs=20_000), InsecureTestEntropy("leak"))
    assert found.breaks_privacy
    assert not found.lacks_noise


def test_more_noise_than_claimed_is_no_fault():
    design = design_audit(Count())
    found = audit_exactly(Count(noise=Fraction(2)), design, InsecureTestEntropy("more"))
    assert not found.is_beaten
    assert found.delta_at_least < design.privacy.delta - 0.1


def test_parts_alike_are_added_up_column_after_column():
    single = Count().parts(Fraction(1))[0]
    design = design_audit(Count(), n_runs=500)
    outputs = Count().draw(1, 500, InsecureTestEntropy("columns"))

    @dataclass(frozen=True)
    class Three(Count):
        def parts(self, noise):
            return [Part(single.masses, 2), Part(single.masses)]

    statistic = design_audit(Three(), n_runs=500).loss
    columns = np.hstack([outputs, np.roll(outputs, 1), np.roll(outputs, 2)])
    one = design.loss.of(outputs)
    assert np.array_equal(statistic.of(columns), one + np.roll(one, 1) + np.roll(one, 2))
    assert statistic.law(Three().parts(Fraction(1)), 1).masses.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("wrong", [{"n_runs": 0}, {"false_alarm": 0.0}, {"power": 1.0}])
def test_a_design_that_could_show_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match="at least one run"):
        design_audit(Count(), **wrong)


def test_inputs_that_nobody_could_tell_apart_are_refused():
    # Noise that does not change: nothing to catch.
    @dataclass(frozen=True)
    class Constant(Count):
        def parts(self, noise):
            return super().parts(Fraction(1))

    with pytest.raises(ValueError, match="could not detect"):
        design_audit(Constant())
