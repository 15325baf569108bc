"""Form `sgd`: what is fixed before the first step, and what all steps cost. Public.

**Coins.** Every step is about a Poisson sample of the protected *units*: each throws a coin of its own
(`BoundedPoisson`), the owner or the device throws it, and tells nobody. So the coordinator, who does not know the
coins, has the amplified cost; a coalition of owners knows its own coins, and amplification for replaced units is not
proven here, so its cost is that of the steps in which a unit takes part at most.

Sampling rows while accounting for single ratings, as [SGDMF22] does, is refused: another rating of the same row makes
the two outputs differ by a mixture of which both parts move, and the cost falls with the rate, not with its square. So
are samples of fixed size.

**Noise, and who does not know it.** A step is one release of integers, of the gradient of V, or of (U, V) in the
vertical setting, about one sample. Each number has noise of a parameter of at least `mu` that is unknown in the view:

* horizontal and local, `once`: `SumNoise` of mu on the masked sum; what a coalition does not know is the part of the
  others, at worst with the fewest survivors;
* `party`: a member adds all of the noise to its own gradients, so to whoever it is no part of, all of it is unknown,
  and a coalition that it is part of already holds the unit's owner, against whom nothing protects;
* vertical, `once`: the owner adds mu to V alone, as with `party`; the masked sum of U has so much noise that the
  others' part is still mu with the fewest survivors: mu times fewest / (fewest - t).

So one step is at most a Skellam release of the *joint* vector with parameter mu, and that is what is sampled: the
gradients of U and of V are about one sample, so they must not be accounted for as two samples.

**Final steps** (vertical) move V alone, which a unit moves by half as much squared for a rating, and by 1 / (theta + 1)
of it for a user. Their noise is `final_mu`, smaller by that factor, rounded up. They have coins and a bound of
participations of their own, and their cost is added.

**A user in the vertical setting** has ratings at every owner. Its owners throw coins apart from each other, and with
noise "party" release apart from each other, each about at most theta of its ratings: N releases per step, each
sampled, so the whole cost is N times that of one owner as curves. With noise "once" the user's gradients of U would add
up before the noise, by sizes that depend on N coins at once; that is refused.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from analyses.job.job import JobError
from analyses.matrix_factorization.descent.projection import squared_sensitivity
from analyses.matrix_factorization.plan import Members, Setting, Unit, check_members
from analyses.matrix_factorization.unit_vectors import sensitivity
from analyses.sums.noise import SumNoise, survivor_levels
from dp.cost.accounting import CalibrationError, EpsilonBound
from dp.cost.calibrate import least_noise
from dp.cost.composition import composed_epsilon
from dp.cost.events.event import PrivacyEvent
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent
from dp.cost.views import VIEWS, View, views_to_calibrate
from dp.draw.skellam import MAX_MU
from dp.mechanism.bounded_sampling import BoundedPoisson
from dp.mechanism.skellam_parameters import SKELLAM_LADDER

Noise = Literal["once", "party"]

MAX_STEPS = 100_000
MAX_LARGEST = 1000

MAX_ROUNDS_OF_STEPS = 1000
"""Most rounds of a job or of a question to devices. Costs are exact for any number; each round is a masked sum."""

_STEP_PART = 20
"""A step of rate 1 moves by such a part of the noise's deviation at most."""


@dataclass(frozen=True)
class DescentParams:
    """The public parameters of the form `sgd`.

    Attributes:
        setting: horizontal, vertical or local.
        n_users: declared.
        n_items: in the public list; in the vertical setting those of all owners.
        unit: "user" in the horizontal and the local setting, "rating" in the vertical one, where "user" is offered
            with noise "party": every owner then adds to its cost.
        rank: p.
        largest: R; ratings lie in 0 .. R, and squared norms of embeddings are at most R.
        theta: most ratings of a user at one owner that are used, chosen by its coins; for the unit "user".
        steps: T, rounds.
        local_steps: T', steps between two rounds; 1 with noise "once".
        final_steps: vertical: steps at the end that move items alone.
        sampling_rate: probability that a unit takes part in a step.
        most_participations: largest number of steps of a unit, of all T T'; None for what 1 % of units would exceed.
        sampled: what coins are thrown for; refused unless it is the protected unit.
        noise: once: on the masked sum of each step; party: each member noises its own steps, and averages are summed.
        pre_train: horizontal and local: users are fitted before the first step, and then stay; else each step moves
            the sampled users, too, which costs nothing, as they never leave.
        learning_rate: a step's learning rate.
        divisor: public constant that gradients are divided by; never a number of ratings or of users in a sample.
        units: integers per 1 of a gradient.
        factor_units: lattice points per 1 of an embedding.
    """

    setting: Setting
    n_users: int
    n_items: int
    unit: Unit = "user"
    rank: int = 8
    largest: int = 5
    theta: int = 10
    steps: int = 100
    local_steps: int = 1
    final_steps: int = 0
    sampling_rate: float = 0.01
    most_participations: int | None = None
    sampled: Literal["user", "rating", "row", "fixed"] | None = None
    noise: Noise = "once"
    pre_train: bool = True
    learning_rate: float = 0.5
    divisor: float = 1.0
    units: int = 256
    factor_units: int = 1 << 12

    @property
    def both(self) -> bool:
        """Whether gradients of U are released too: in the vertical setting, but for the final steps."""
        return self.setting == "vertical"

    @property
    def n_joint_steps(self) -> int:
        """T T', without the final steps."""
        return self.steps * self.local_steps

    def squared_sensitivity(self, *, both: bool) -> int:
        """Return Delta_2^2 of one step at one owner, in integer units, for a unit that is added or removed."""
        return squared_sensitivity(self.largest, self.units, unit=self.unit, theta=self.theta, both=both)

    def n_nonzeros(self, *, both: bool) -> int:
        """Return L: how many numbers of a step one unit can move. A user has theta rows of V, and one of U."""
        n_items = self.theta if self.unit == "user" else 1
        return (n_items + int(both)) * self.rank


@dataclass(frozen=True)
class DescentPlan:
    """A plan with the noise of its steps.

    Attributes:
        params: public.
        members: the members of the sums.
        sampling: which unit takes part in which of the T T' steps.
        final_sampling: and in which of the final steps; None without any.
        mu: Skellam parameter that is unknown in the coordinator's view, at least, on each number of one of the T T'
            steps.
        delta: for which costs are stated.
    """

    params: DescentParams
    members: Members
    sampling: BoundedPoisson
    final_sampling: BoundedPoisson | None
    mu: int
    delta: float

    @property
    def final_mu(self) -> int:
        """Return mu of a final step: as much smaller as one unit moves less."""
        alone, joint = (self.params.squared_sensitivity(both=both) for both in (False, True))
        return -(-self.mu * alone // joint)

    @cached_property
    def sum_noise(self) -> SumNoise:
        """The noise of a masked sum with noise "once": of V, in the vertical setting of U."""
        p, members = self.params, self.members
        mu = self.mu
        if p.both:
            mu = -(-self.mu * members.fewest // (members.fewest - members.n_corrupt))
        return self._noise(mu, members, (p.n_users if p.both else p.n_items) * p.rank, both=p.both)

    @cached_property
    def own_noise(self) -> SumNoise:
        """The noise of a member alone, per number: with noise "party", and on V in the vertical setting."""
        return self._noise(self.mu, Members(1, 0, 1), 1, both=self.params.both)

    @cached_property
    def final_noise(self) -> SumNoise:
        """The noise of an owner alone, per number, in a final step."""
        return self._noise(self.final_mu, Members(1, 0, 1), 1, both=False)

    def _noise(self, mu: int, members: Members, length: int, *, both: bool) -> SumNoise:
        p = self.params
        bound, n_nonzeros = p.squared_sensitivity(both=both), p.n_nonzeros(both=both)
        return SumNoise(
            mu=mu,
            length=length,
            levels=survivor_levels(members.fewest, members.n_members, members.largest_excess),
            n_corrupt=members.n_corrupt,
            sensitivities={view: sensitivity(bound, n_nonzeros, view, p.unit) for view in VIEWS},
        )

    @property
    def is_noised_alone(self) -> bool:
        """Whether every number of a step has a member's own noise, or as much that a coalition does not know."""
        return self.params.noise == "party" or self.params.both

    @property
    def n_releasing(self) -> int:
        """Return how many members release something about one unit: one, but all owners of a user's ratings."""
        return self.members.n_members if self.params.both and self.params.unit == "user" else 1

    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what all steps together cost in a view; the proof is at the head of this module."""
        return self.joint_events(view) + self.final_events(view)

    def joint_events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what the T T' steps of all rounds cost together, of all who release something about one unit."""
        return self._sampled(self.sampling, self._step_noise, view, both=self.params.both)

    @property
    def _step_noise(self) -> SumNoise:
        return self.own_noise if self.is_noised_alone else self.sum_noise

    def whole_step(self, view: View) -> SkellamDpEvent | SkellamShiftsDpEvent:
        """Return what one of the T T' steps costs a unit that is in it, for who knows that: nothing is amplified.

        So much for each of the first K steps that a unit throws a coin for, and nothing for later ones, covers any
        number of them in both views: the unit is in at most K, whatever its coins show.
        """
        return self._release(self._step_noise, view, both=self.params.both)

    def final_events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what the final steps of all owners cost together; nothing where there are none."""
        if self.final_sampling is None:
            return ()
        return self._sampled(self.final_sampling, self.final_noise, view, both=False)

    def _sampled(self, sampling: BoundedPoisson, step: SumNoise, view: View, *, both: bool) -> tuple[PrivacyEvent, ...]:
        release = self._release(step, view, both=both)
        steps = sampling.sampled_event(release) if view == "coordinator" else sampling.participation_event(release)
        return (steps,) * self.n_releasing

    def _release(self, step: SumNoise, view: View, *, both: bool) -> SkellamDpEvent | SkellamShiftsDpEvent:
        # Of all numbers of a step only these can differ: those that a unit moves, and those of the one in its place.
        n_moved = 2 * self.params.n_nonzeros(both=both)
        (release,) = replace(step, length=n_moved).events(view)
        assert isinstance(release, SkellamDpEvent | SkellamShiftsDpEvent)  # no other noise is drawn in a step
        return release

    def with_divisor(self, of_users: float) -> "DescentPlan":
        """Return the same with the public constant that gradients are divided by: see `descent_job_plan`.

        Args:
            of_users: ratings of a user that count, as is declared.
        """
        p = self.params
        n_sampled = p.sampling_rate * of_users * max(1.0, p.n_users / p.n_items)
        deviation = math.sqrt(2 * self.mu) / p.units
        averaged = math.sqrt(self.members.n_members) if p.noise == "party" else 1.0
        return replace(self, params=replace(p, divisor=_STEP_PART * (p.largest * n_sampled + deviation) / averaged))

    def epsilon(self, view: View, *, near: float | None = None) -> EpsilonBound:
        """Return what all steps together cost in a view, as an epsilon."""
        return composed_epsilon(self.events(view), self.delta, near=near)

    @property
    def multiplier(self) -> float:
        """Return z: the deviation of the noise over Delta_2, in the coordinator's view."""
        return math.sqrt(2 * self.mu / self.params.squared_sensitivity(both=self.params.both))

    def report(self) -> dict[str, Any]:
        """Return the cost of all steps, as plain JSON data."""
        p = self.params
        found: dict[str, Any] = {
            "unit": p.unit,
            "setting": p.setting,
            "noise": p.noise,
            "rounds": p.steps,
            "steps": p.n_joint_steps + p.final_steps,
            "mu": self.mu,
            "sampling_rate": float(self.sampling.rate),
            "most_participations": self.sampling.most_participations,
            "delta": self.delta,
            "epsilon": {view: self.epsilon(view).epsilon for view in VIEWS},
        }
        if p.both and p.unit == "user":
            found["warning"] = (
                f"a user has ratings at each of {self.members.n_members} owners, and what each of them releases about "
                "it adds up"
            )
        return found


def largest_of(lower: float, upper: float) -> int:
    """Return R of ratings between public bounds: their distance, rounded up.

    Raises:
        JobError: it is larger than the form supports.
    """
    if not upper - lower <= MAX_LARGEST:
        raise JobError(
            f"the bounds of a rating: the form sgd supports a range of at most {MAX_LARGEST}, and {lower:g} to "
            f"{upper:g} is wider: declare ratings in a larger unit"
        )
    return math.ceil(upper - lower)


def plan_descent(params: DescentParams, members: Members, *, epsilon: float, delta: float, view: View) -> DescentPlan:
    """Fix the sampling and the least noise, or refuse before anything costs.

    Raises:
        JobError: what cannot be met, by the name of its field.
    """
    _check(params, members, delta)
    return calibrated(params, members, epsilon=epsilon, delta=delta, view=view)


def calibrated(params: DescentParams, members: Members, *, epsilon: float, delta: float, view: View) -> DescentPlan:
    """Return the plan of the least noise for parameters that have been checked; arguments as `plan_descent`.

    Raises:
        JobError: epsilon or the rate is out of range.
    """
    rate = params.sampling_rate
    try:
        sampling = BoundedPoisson.with_rate(rate, params.n_joint_steps, params.most_participations)
        final = BoundedPoisson.with_rate(rate, params.final_steps) if params.final_steps else None
    except ValueError as error:
        raise JobError(f"parameters.sampling_rate, parameters.most_participations: {error}") from error
    planned = DescentPlan(params, members, sampling, final, 1, delta)

    def spends(mu: int) -> float:
        made = replace(planned, mu=mu)
        return max(made.epsilon(v, near=epsilon).epsilon for v in views_to_calibrate(view))

    try:
        found = replace(planned, mu=least_noise(spends, SKELLAM_LADDER, epsilon=epsilon, delta=delta))
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    if max(found.sum_noise.mu, found.mu) > MAX_MU:
        raise JobError("privacy: a step needs more noise than the sampler can draw; use a larger epsilon")
    return found


def _check(params: DescentParams, members: Members, delta: float) -> None:
    check_members(params.setting, members)
    if not 0 <= members.n_corrupt < members.fewest <= members.n_members:
        raise JobError(
            "colluding: must be smaller than the smallest number of survivors, which must not exceed the number of "
            "members"
        )
    if not 0 < delta * params.n_users < 1:
        raise JobError(
            f"privacy.delta: must be positive and smaller than 1 / {params.n_users}, because there are "
            f"{params.n_users} users"
        )
    if params.unit == "rating" and not params.both:
        raise JobError(
            "parameters.unit: the horizontal and the local setting protect a user, as embeddings of users are fitted "
            "to all of their ratings; the vertical setting protects a rating"
        )
    if params.unit == "user" and params.both and params.noise == "once":
        raise JobError(
            "parameters.unit: in the vertical setting a user has ratings at every owner, whose gradients of its "
            'embedding would add up before the noise; take the unit "rating", or noise "party"'
        )
    if params.sampled not in (None, params.unit):
        raise JobError(
            f'parameters.sampled: "{params.sampled}" gives no amplification for a protected {params.unit}; each '
            f"{params.unit} throws a coin of its own"
        )
    if params.noise == "once" and params.local_steps != 1:
        raise JobError('parameters.local_steps: noise "once" is added to the sum of each step, so there is one step')
    if params.setting == "local" and params.noise == "party":
        raise JobError(
            'parameters.noise: a device holds one user, so its own noise would hide its contribution; use "once"'
        )
    if params.both and not params.pre_train:
        raise JobError("parameters.pre_train: the vertical setting moves users and items in each step, in every case")
    if params.final_steps and params.setting != "vertical":
        raise JobError("parameters.final_steps: only the vertical setting has steps that move items alone")
    n_steps = params.n_joint_steps + params.final_steps
    if min(params.steps, params.local_steps, params.rank, params.theta) < 1 or not 1 <= n_steps <= MAX_STEPS:
        raise JobError(
            f"parameters.steps: steps, local_steps, rank and theta are at least 1, and steps {MAX_STEPS} at most"
        )
    if not 1 <= params.largest <= MAX_LARGEST or not params.divisor > 0 or not params.learning_rate > 0:
        raise JobError(f"parameters.largest: lies in 1..{MAX_LARGEST}; divisor and learning_rate are positive")
