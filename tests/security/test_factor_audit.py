"""Audits with power of the steps of the form `sgd`: all of the noise withstands, four fifths of it are caught."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from analyses.matrix_factorization.descent.descent_plan import DescentParams, DescentPlan, plan_descent
from analyses.matrix_factorization.descent.horizontal_descent import HorizontalMember
from analyses.matrix_factorization.descent.in_process_steps import LocalSteps
from analyses.matrix_factorization.descent.vertical_descent import VerticalMember
from analyses.matrix_factorization.plan import Members
from analyses.matrix_factorization.ratings import Ratings
from dp.audit.exact_audit import LESS, Part, audit_exactly, design_audit
from dp.audit.exact_law import mixture, skellam
from entropy import InsecureTestEntropy

pytestmark = pytest.mark.slow

RATE = Fraction(1, 2)
MEMBERS = Members(3, 0, 2)
R, LATTICE = 4, 1 << 10


@dataclass(frozen=True)
class OneStep:
    """The opened sum of one step about one user and one item of rank 1, whose unit is absent or there.

    Members, coins and noise are the production ones, and one of three members drops out. A run is one user with one
    item in a step about many, as each has coins and noise of its own.
    """

    plan: DescentPlan
    noise: Fraction = Fraction(1)

    @property
    def moved(self) -> int:
        """The unit's integer gradient: at the corner of the set, where the bound is attained."""
        return round(self.plan.params.squared_sensitivity(both=False) ** 0.5)

    def parts(self, noise):
        known = self.plan.sum_noise
        law = skellam(known.kept_mu(MEMBERS.fewest) * noise)
        with_unit = mixture([(float(1 - RATE), law), (float(RATE), law.shifted(self.moved))])
        reach = skellam(known.mu).stop + self.moved
        return [Part(np.stack([one.within(-reach, reach) for one in (law, with_unit)]))]

    def draw(self, world, n_runs, entropy):
        params = replace(self.plan.params, n_users=n_runs, n_items=n_runs)
        plan = replace(self.plan, params=params, mu=round(self.plan.mu * self.noise))
        pairs = np.arange(n_runs * world)
        one = Ratings.of(pairs, pairs, 0.0 * pairs, n_runs, n_runs)  # each user rates an item of its own with 0
        none = Ratings.of(pairs[:0], pairs[:0], 0.0 * pairs[:0], n_runs, n_runs)
        corner = np.full((n_runs, 1), 2 * LATTICE)
        kind = VerticalMember if params.both else FittedElsewhere
        members = [kind(plan, ratings, corner, entropy) for ratings in (one, none, none)]
        opened, _ = LocalSteps(plan, members, entropy, absent={0: (2,)})(0, corner)
        reach = skellam(self.plan.sum_noise.mu).stop + self.moved
        return np.clip(opened, -reach, reach - 1) + reach

    def with_noise(self, noise):
        return replace(self, noise=noise)


class FittedElsewhere(HorizontalMember):
    """A member whose user has the longest embedding there is, as if fitted to other items."""

    def __init__(self, plan, ratings, items, entropy):
        super().__init__(plan, ratings, items, entropy)
        self._users = np.full((ratings.n_rows, 1), R**0.5)


def plan_of(setting, unit):
    params = DescentParams(
        setting,
        1,
        1,
        unit,
        rank=1,
        largest=R,
        theta=1,
        steps=1,
        sampling_rate=float(RATE),
        units=2,
        factor_units=LATTICE,
    )
    return plan_descent(params, MEMBERS, epsilon=4.0, delta=1e-3, view="coordinator")


@pytest.mark.parametrize(("setting", "unit"), [("horizontal", "user"), ("vertical", "rating")])
def test_a_step_keeps_its_claim_and_a_fifth_less_noise_is_caught(setting, unit):
    target = OneStep(plan_of(setting, unit))
    design = design_audit(target)
    assert not audit_exactly(target, design, InsecureTestEntropy("all")).is_beaten
    assert audit_exactly(target.with_noise(LESS), design, InsecureTestEntropy("less")).is_beaten
