"""Audit targets of matrix factorization: all releases of a job together, of which one unit moves every one.

Each release is drawn as in a job, by `SumNoise.draw` of every survivor, excess removed, and by `OwnItemsNoise.draw`.
How far the unit moves it is computed by the code of a round, from what is broadcast before: a fixed public model. So
the target is what an attacker sees who knows all other units.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from analyses.matrix_factorization.horizontal import member_vector
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.plan import FactorParams, FactorPlan, Members, plan_factors
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.round_noise import OwnItemsNoise
from analyses.matrix_factorization.unit_vectors import VectorRule, add_ratings
from analyses.sums.noise import SumNoise
from audit.additive import AdditiveTarget, MaskedSumRelease, Release
from audit.less_noise import NoisyRelease
from dp.audit.exact_law import Integers, Law, skellam
from dp.cost.views import View
from entropy import Entropy

_MEMBERS = Members(n_members=4, n_corrupt=1, fewest=3)
_RULE = VectorRule(units=16)
"""Coarser than that of jobs, so that exact laws have few masses."""
_N_ITEMS, _N_USERS = 3, 50


@dataclass(frozen=True)
class OwnItemsRelease(NoisyRelease):
    """What an owner of the vertical setting releases to itself, and what later sums depend on.

    Attributes:
        mechanism: mechanism of the owner.
        difference: see `Release`.
    """

    mechanism: OwnItemsNoise
    difference: tuple[int, ...]

    def laws(self) -> Sequence[Law]:
        """See `Release`: whoever is not the owner knows nothing of its noise."""
        return [skellam(Fraction(self.mechanism.noise.mu))] * len(self.difference)

    def output(self, world: int, entropy: Entropy) -> Integers:
        """See `Release`."""
        noise = self.mechanism.draw(entropy, len(self.difference))
        found: Integers = noise + world * np.array(self.difference, dtype=np.int64)
        return found


@dataclass(frozen=True)
class SeriesRelease:
    """Several releases about one unit, one after the other."""

    releases: tuple[Release, ...]

    @property
    def difference(self) -> tuple[int, ...]:
        """See `Release`."""
        return tuple(moved for one in self.releases for moved in one.difference)

    def laws(self) -> Sequence[Law]:
        """See `Release`."""
        return [law for one in self.releases for law in one.laws()]

    def output(self, world: int, entropy: Entropy) -> Integers:
        """See `Release`."""
        return np.concatenate([one.output(world, entropy) for one in self.releases])

    def with_noise(self, noise: Fraction) -> "SeriesRelease":
        """See `Release`."""
        return SeriesRelease(tuple(one.with_noise(noise) for one in self.releases))


def horizontal(view: View) -> AdditiveTarget:
    """Return the target of round 0 and of one later round, about a user who rates all items far from the middle."""
    plan = _plan(view, "horizontal")
    model = FactorModel.nearest(np.zeros(_N_ITEMS), np.full((_N_ITEMS, plan.rank), 0.5), plan.params.factor_units)
    user, other = _one_row([2.0] * _N_ITEMS), _one_row([-2.0, 2.0, -2.0])
    rounds = []
    for t, noise in enumerate(plan.releases):
        moved = member_vector(plan, t, model if t else None, user, Prior())
        if view == "coalition":
            moved = moved - member_vector(plan, t, model if t else None, other, Prior())
        rounds.append(_masked(noise, view, moved))
    return AdditiveTarget(SeriesRelease(tuple(rounds)))


def vertical(view: View) -> AdditiveTarget:
    """Return the target of one sweep, about one rating: its owner's items, and the masked sum by user."""
    plan = _plan(view, "vertical")
    of_items, of_users = plan.releases
    moved = _rating_vector(plan, 2.0)
    if view == "coalition":
        moved = moved - _rating_vector(plan, -2.0)
    items = OwnItemsRelease(OwnItemsNoise(of_items, 0), tuple(moved.tolist()))
    return AdditiveTarget(SeriesRelease((items, _masked(of_users, view, moved))))


def _plan(view: View, setting: str) -> FactorPlan:
    """Return a plan of one factor and one later round, or sweep."""
    is_vertical = setting == "vertical"
    params = FactorParams(
        setting="vertical" if is_vertical else "horizontal",
        unit="rating" if is_vertical else "user",
        n_users=1 if is_vertical else _N_USERS,
        n_items=1 if is_vertical else _N_ITEMS,
        ratings_per_user=_N_ITEMS,
        rank=1,
        n_rounds=1,
        rule=_RULE,
    )
    return plan_factors(params, _MEMBERS, epsilon=3.0, delta=1e-3, view=view)


def _one_row(deviations: Sequence[float]) -> Ratings:
    """Return the ratings of one user, who rates all items."""
    n = len(deviations)
    return Ratings.of(np.zeros(n, dtype=np.int64), np.arange(n), np.array(deviations), 1, n)


def _rating_vector(plan: FactorPlan, deviation: float) -> Integers:
    """Return the vector of one rating about a fixed public vector, of an item or of a user: both sums have it alike."""
    about = np.full((1, plan.rank), 0.99)
    return add_ratings(_RULE, _one_row([deviation]), np.zeros(1), about, plan.params.squared_length)


def _masked(noise: SumNoise, view: View, moved: Integers) -> MaskedSumRelease:
    return MaskedSumRelease(noise, view, _MEMBERS.fewest, tuple(int(x) for x in moved))
