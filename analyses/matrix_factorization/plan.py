"""What all members fix before a matrix factorization: setting, rank, rounds, noise and its cost. Public.

Costs. Each round is one release with Skellam noise, about the same protected units, and each may depend on all before
it. Renyi divergences of adaptive releases add up; the sum of the curves is converted once. There is no sampling, so
nothing is amplified. One number is searched for: the parameter of the first release. The others follow from it, so
that each release has a fixed part of rho = Delta_2^2 / (4 mu):

* horizontal and local, T = 0: round 0 has everything. T >= 1: round 0 has a quarter of it, and each later round the
  T-th part of the rest: mu_t = mu_0 (B_t / B_0) (1/4) / ((3/4) / T).
* vertical: each sweep has an item release and a user release; `item_part` of a sweep's rho is for the item release.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from typing import Any, Literal

from analyses.job.job import JobError
from analyses.matrix_factorization.unit_vectors import (
    MAX_DEVIATION,
    VectorRule,
    n_factor_entries,
    n_offset_entries,
    n_rating_entries,
    sensitivity,
)
from analyses.sums.noise import SumNoise, survivor_levels
from dp.cost.accounting import CalibrationError, EpsilonBound
from dp.cost.calibrate import least_noise
from dp.cost.composition import composed_epsilon
from dp.cost.views import VIEWS, View, views_to_calibrate
from dp.draw.skellam import MAX_MU
from dp.mechanism.skellam_parameters import SKELLAM_LADDER

Setting = Literal["horizontal", "vertical", "local"]
Unit = Literal["user", "rating"]

MIN_MEMBERS = 3
FIRST_PART = Fraction(1, 4)
"""Fraction of rho that round 0 uses if there are later rounds."""

AUTO_RANK, AUTO_ROUNDS = 4, 5
"""Rank and rounds that `rank = "auto"` takes where factors pay."""
MIN_AUTO_SIGNAL, MIN_AUTO_RATINGS = 14.0, 40

MAX_RANK, MAX_ROUNDS = 64, 100


@dataclass(frozen=True)
class Members:
    """Who takes part in the masked sums.

    Attributes:
        n_members: N.
        n_corrupt: t: members that may collude with the coordinator.
        fewest: survivors with whom a round still counts.
        largest_excess: largest excess of the noise that stays, relative to the intended one; with 0 it is exact for
            every number of survivors. A large roster saves shares by allowing some (`SumNoise`).
    """

    n_members: int
    n_corrupt: int
    fewest: int
    largest_excess: Fraction = Fraction(0)


@dataclass(frozen=True)
class FactorParams:
    """The public parameters of a factorization.

    Attributes:
        setting: horizontal: parties hold users; vertical: parties hold items of the same users; local: a user each.
        unit: what is protected; a user in the horizontal and the local setting, a rating in the vertical one.
        n_users: declared; the noisy second moment is divided by it.
        n_items: in the public list.
        ratings_per_user: k, declared.
        rank: p, or "auto".
        n_rounds: T, rounds after round 0, or sweeps in the vertical setting; None for what `rank` goes with.
        rule: constants of the vectors.
        squared_length: F^2, vertical: the largest 1 + |v|^2 of an item's and of a user's vector.
        item_part: vertical: of a sweep's rho, for the item release.
        factor_units: lattice points per 1 of what is broadcast.
    """

    setting: Setting
    n_users: int
    n_items: int
    ratings_per_user: int
    unit: Unit = "user"
    rank: int | Literal["auto"] = "auto"
    n_rounds: int | None = None
    rule: VectorRule = field(default_factory=VectorRule)
    squared_length: Fraction = Fraction(2)
    item_part: Fraction = Fraction(1, 3)
    factor_units: int = 1 << 12


@dataclass(frozen=True)
class FactorPlan:
    """A plan that holds its releases.

    Attributes:
        params: `rank` and `n_rounds` filled in.
        members: the members of the masked sums.
        releases: horizontal and local: round 0, 1 .. T. Vertical: item and user release of sweep 1, of sweep 2, ...
        delta: for which the cost is stated.
    """

    params: FactorParams
    members: Members
    releases: tuple[SumNoise, ...]
    delta: float

    @property
    def rank(self) -> int:
        """p; 0 for offsets only."""
        assert isinstance(self.params.rank, int)
        return self.params.rank

    @property
    def n_rounds(self) -> int:
        """T."""
        assert self.params.n_rounds is not None
        return self.params.n_rounds

    def deviation(self, at: int) -> float:
        """Return the standard deviation of the noise on a number of release `at`, in units of 1."""
        return math.sqrt(2 * self.releases[at].mu) / self.params.rule.units

    def epsilon(self, view: View) -> EpsilonBound:
        """Return what all releases together cost in a view, with the fewest survivors in each."""
        return composed_epsilon(chain.from_iterable(release.events(view) for release in self.releases), self.delta)

    def report(self) -> dict[str, Any]:
        """Return the cost of all rounds, as plain JSON data."""
        p, t = self.rank, self.n_rounds
        return {
            "unit": self.params.unit,
            "setting": self.params.setting,
            "rank": p,
            "rounds": t,
            "mu": [release.mu for release in self.releases],
            "numbers_per_round": [release.length for release in self.releases],
            "delta": self.delta,
            "epsilon": {view: self.epsilon(view).epsilon for view in VIEWS},
        }


def plan_factors(params: FactorParams, members: Members, *, epsilon: float, delta: float, view: View) -> FactorPlan:
    """Fix rank, rounds and noise, or refuse before anything costs.

    Args:
        params: public parameters.
        members: the members of the sums.
        epsilon: largest cost of all rounds together in `view`.
        delta: delta of the cost, below 1 / n_users.
        view: who looks; "coalition" meets both.

    Raises:
        JobError: what cannot be met, by the name of its field.
    """
    check(params, members, delta)
    try:
        rank = params.rank
        if rank == "auto":
            rank = AUTO_RANK if factors_pay(params, epsilon=epsilon, delta=delta, members=members) else 0
        n_rounds = params.n_rounds
        if n_rounds is None:
            n_rounds = (1 if params.setting == "vertical" else 0) if rank == 0 else AUTO_ROUNDS
        if params.setting != "vertical" and (rank == 0) != (n_rounds == 0):
            raise JobError("parameters.n_rounds: rounds after round 0 are for factors: rank 0 has none, and others do")
        if params.setting == "vertical" and n_rounds == 0:
            raise JobError("parameters.n_rounds: the vertical setting has at least one sweep")
        chosen = FactorParams(**{**vars(params), "rank": rank, "n_rounds": n_rounds})
        mu = _least_mu(lambda mu: releases_of(chosen, members, mu), epsilon=epsilon, delta=delta, view=view)
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    releases = releases_of(chosen, members, mu)
    if max(release.mu for release in releases) > MAX_MU:
        raise JobError("privacy: a round needs more noise than the sampler can draw; use a larger epsilon")
    return FactorPlan(chosen, members, releases, delta)


def check_members(setting: Setting, members: Members) -> None:
    """Refuse too few members. Two parties are enough where noise is counted as if the other one told its own.

    Raises:
        JobError: there are too few.
    """
    are_counted_apart = setting != "local" and (members.n_members, members.n_corrupt) == (2, 1)
    if members.n_members < MIN_MEMBERS and not are_counted_apart:
        raise JobError(
            f"parties: a masked sum of {members.n_members} members would show one of them what the others hold; "
            f"at least {MIN_MEMBERS} must take part"
        )


def check(params: FactorParams, members: Members, delta: float) -> None:
    """Refuse what no plan can be made for.

    Raises:
        JobError: names the field, in a whole sentence.
    """
    check_members(params.setting, members)
    if not 0 <= members.n_corrupt < members.fewest <= members.n_members:
        raise JobError(
            "colluding: must be smaller than the smallest number of survivors, which must not exceed the number of "
            "members"
        )
    if params.n_users < 1 or params.n_items < 1 or params.ratings_per_user < 1:
        raise JobError("inputs: users, items and ratings_per_user must be declared, and each must be at least 1")
    if not 0 < delta * params.n_users < 1:
        raise JobError(
            f"privacy.delta: must be positive and below 1 / {params.n_users}, one over the declared number of users; "
            "publishing one user's ratings would otherwise count as private"
        )
    if params.setting != "vertical" and params.unit == "rating":
        raise JobError(
            f'parameters.unit: "rating" is not offered in the {params.setting} setting: a user\'s vector is fitted to '
            'all of its ratings, so one rating moves the whole contribution of its user; take "user"'
        )
    if params.setting == "vertical" and params.unit == "user":
        raise JobError(
            'parameters.unit: "user" is not offered in the vertical setting: one user has ratings at every party, and '
            'their norms add; take "rating"'
        )
    if params.rank != "auto" and not 0 <= params.rank <= MAX_RANK:
        raise JobError(f"parameters.rank: must lie in 0..{MAX_RANK}")
    if params.n_rounds is not None and not 0 <= params.n_rounds <= MAX_ROUNDS:
        raise JobError(f"parameters.n_rounds: must lie in 0..{MAX_ROUNDS}")
    if params.squared_length < 1:
        raise JobError("parameters.squared_length: must be at least 1, because every vector begins with 1")
    if not 0 < params.item_part < 1:
        raise JobError("parameters.item_part: must lie strictly between 0 and 1, because both releases need noise")


def check_deviations(lower: float, upper: float, centre: float) -> None:
    """Refuse bounds within which a rating could lie too far from the centre, from these public numbers alone.

    Raises:
        JobError: says how far it may lie.
    """
    furthest = max(upper - centre, centre - lower)
    if not furthest <= MAX_DEVIATION:
        raise JobError(
            f"centre, and the bounds of a rating: within {lower:g} to {upper:g} a rating may lie {furthest:g} from the "
            f"centre {centre:g}; at most {MAX_DEVIATION:g} is supported: declare ratings in a larger unit"
        )


def check_same_rows(user_lists: Sequence[Sequence[str]]) -> None:
    """Refuse parties of the vertical setting that do not hold the same users in the same order.

    Raises:
        JobError: does not say how they differ.
    """
    if any(list(users) != list(user_lists[0]) for users in user_lists[1:]):
        raise JobError(
            "inputs: the parties hold different users, or in a different order; all must bring the same rows"
        )


def factors_pay(params: FactorParams, *, epsilon: float, delta: float, members: Members) -> bool:
    """Say whether factors are expected to gain more than their rounds cost: `rank = "auto"`.

    The rule is public: n sqrt(k) / m is how much weight an item has, sqrt(2 rho) = Delta_2 / sigma what one unit of it
    is worth against the noise of a single release with the whole budget in the coordinator's view. Factors pay where
    the product is above 14 and a user has 40 ratings or more.
    """
    if params.setting == "vertical" or params.ratings_per_user < MIN_AUTO_RATINGS:
        return False
    single = FactorParams(**{**vars(params), "rank": 0, "n_rounds": 0})
    mu = _least_mu(lambda mu: releases_of(single, members, mu), epsilon=epsilon, delta=delta, view="coordinator")
    signal = math.sqrt(params.rule.offset_bound / (2 * mu))
    return params.n_users * math.sqrt(params.ratings_per_user) / params.n_items * signal > MIN_AUTO_SIGNAL


def _least_mu(releases: Callable[[int], tuple[SumNoise, ...]], *, epsilon: float, delta: float, view: View) -> int:
    views = views_to_calibrate(view)

    def spends(mu: int) -> float:
        made = releases(mu)
        costs = (chain.from_iterable(r.events(v) for r in made) for v in views)
        return max(composed_epsilon(events, delta, near=epsilon).epsilon for events in costs)

    return least_noise(spends, SKELLAM_LADDER, epsilon=epsilon, delta=delta)


def releases_of(params: FactorParams, members: Members, mu: int) -> tuple[SumNoise, ...]:
    """Return all releases, given the parameter of the first; `rank` and `n_rounds` are filled in."""
    if params.setting == "vertical":
        return _vertical_releases(params, members, mu)
    m, p, n_rounds, rule = params.n_items, params.rank, params.n_rounds, params.rule
    assert isinstance(p, int)
    assert n_rounds is not None
    first = _release(params, members, mu, n_offset_entries(m), rule.offset_bound, 2 * m)
    if n_rounds == 0:
        return (first,)
    ratio = FIRST_PART / (1 - FIRST_PART) * n_rounds * Fraction(rule.factor_bound, rule.offset_bound)
    length = n_factor_entries(m, p)
    later = _release(params, members, math.ceil(mu * ratio), length, rule.factor_bound, length)
    return (first, *[later] * n_rounds)


def _vertical_releases(params: FactorParams, members: Members, mu: int) -> tuple[SumNoise, ...]:
    """Return the item and the user release of each sweep.

    An owner alone adds the noise of its item release, whole: what it depends on is its own ratings and public values.
    In a coalition that the owner is no member of all of that noise is unknown, and in one that it is a member of there
    is nothing of its own to hide. So no part is taken off for the corrupt. The releases of several owners are about
    disjoint items: together they are one release, with one rating in one of them.
    """
    p, n_rounds, rule = params.rank, params.n_rounds, params.rule
    assert isinstance(p, int)
    assert n_rounds is not None
    squared_length = params.squared_length if p else Fraction(1)
    bound, moved = rule.rating_bound(squared_length), n_rating_entries(1, p)
    alone = Members(1, 0, 1)
    items = _release(params, alone, mu, n_rating_entries(params.n_items, p), bound, moved)
    user_mu = math.ceil(mu * params.item_part / (1 - params.item_part))
    users = _release(params, members, user_mu, n_rating_entries(params.n_users, p), bound, moved)
    return (items, users) * n_rounds


def _release(
    params: FactorParams, members: Members, mu: int, length: int, squared_bound: int, n_nonzeros: int
) -> SumNoise:
    return SumNoise(
        mu=max(1, mu),
        length=length,
        levels=survivor_levels(members.fewest, members.n_members, members.largest_excess),
        n_corrupt=members.n_corrupt,
        sensitivities={view: sensitivity(squared_bound, n_nonzeros, view, params.unit) for view in VIEWS},
    )
