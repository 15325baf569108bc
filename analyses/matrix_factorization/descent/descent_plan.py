"""Form `sgd`: what is fixed before the first step, and what all steps cost. Public.

Every step is about a Poisson sample of the protected *units*: each throws a coin of its own (`BoundedPoisson`), the
owner or the device throws it, and tells nobody. So the coordinator, who does not know the coins, has the amplified
cost; a coalition of owners knows its own coins, and amplification for replaced units is not proven here, so its cost is
that of the steps in which a unit takes part at most.

Sampling rows while accounting for single ratings, as [SGDMF22] does, is refused: another rating of the same row makes
the two outputs differ by a mixture of which both parts move, and the cost falls with the rate, not with its square. So
are samples of fixed size.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from analyses.job.job import JobError
from analyses.matrix_factorization.descent.projection import squared_sensitivity
from analyses.matrix_factorization.plan import MIN_MEMBERS, Members, Setting, Unit
from analyses.matrix_factorization.unit_vectors import sensitivity
from dp.cost.accounting import CalibrationError, EpsilonBound, SkellamDpEvent
from dp.cost.calibrate import least_noise
from dp.cost.composition import composed_epsilon
from dp.cost.events import PrivacyEvent
from dp.cost.views import VIEWS, View, views_to_calibrate
from dp.mechanism.bounded_sampling import BoundedPoisson
from dp.mechanism.skellam_parameters import SKELLAM_LADDER

Noise = Literal["once", "party"]

MAX_STEPS = 100_000
MAX_LARGEST = 1000


@dataclass(frozen=True)
class DescentParams:
    """The public parameters of the form `sgd`.

    Attributes:
        setting: horizontal, vertical or local.
        n_users: declared.
        n_items: in the public list.
        unit: "user" in the horizontal and the local setting, "rating" in the vertical one.
        rank: p.
        largest: R; ratings lie in 0 .. R, and squared norms of embeddings are at most R.
        theta: most ratings of a user that are used, chosen by its owner's coins.
        steps: T, rounds.
        local_steps: T', steps between two rounds; 1 with noise "once".
        final_steps: vertical: steps at the end that move items alone.
        sampling_rate: of each unit, in each step.
        most_participations: of a unit, over all steps; None for what 1 % of the units would exceed.
        sampled: what coins are thrown for; refused unless it is the protected unit.
        noise: once: on the masked sum of each step; party: each member noises its own steps, and averages are summed.
        learning_rate: of a step.
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
    learning_rate: float = 0.5
    divisor: float = 1.0
    units: int = 256
    factor_units: int = 1 << 12


@dataclass(frozen=True)
class DescentPlan:
    """A plan with the noise of its steps.

    Attributes:
        params: public.
        members: of the sums.
        sampling: which unit takes part when.
        mu: Skellam parameter of the noise of one step; with noise "party", of each member's.
        delta: for which costs are stated.
    """

    params: DescentParams
    members: Members
    sampling: BoundedPoisson
    mu: int
    delta: float

    @property
    def both(self) -> bool:
        """Whether gradients of U are released too: in the vertical setting, but for the final steps."""
        return self.params.setting == "vertical"

    def unknown_mu(self, view: View) -> Fraction:
        """Return the part of a step's noise that is unknown in a view.

        A party that noises its own steps is unknown as a whole to whoever it is not part of. In a sum each of the
        fewest survivors has a part.
        """
        if self.params.noise == "party" or self.both or view == "coordinator":
            # In the vertical setting V's noise is the owner's alone; U's is drawn so that the honest part alone is mu.
            return Fraction(self.mu)
        return Fraction(self.mu * (self.members.fewest - self.members.n_corrupt), self.members.fewest)

    def event(self, view: View) -> PrivacyEvent:
        """Return what all steps together cost in a view."""
        p = self.params
        bound = squared_sensitivity(p.largest, p.units, unit=p.unit, theta=p.theta, both=self.both)
        n_ratings = p.theta if p.unit == "user" else 1
        moved = sensitivity(bound, (2 if self.both else 1) * n_ratings * p.rank, view, p.unit)
        release = SkellamDpEvent.of_vector(moved.squared_l2, moved.l1, self.unknown_mu(view), moved.adjacency)
        if view == "coordinator":
            return self.sampling.sampled_event(release)
        return self.sampling.participation_event(release)

    def epsilon(self, view: View, *, near: float | None = None) -> EpsilonBound:
        """Return what all steps together cost in a view, as an epsilon."""
        return composed_epsilon(self.event(view), self.delta, near=near)

    @property
    def multiplier(self) -> float:
        """Return z: the deviation of the noise over Delta_2, in the coordinator's view."""
        p = self.params
        bound = squared_sensitivity(p.largest, p.units, unit=p.unit, theta=p.theta, both=self.both)
        return math.sqrt(2 * self.unknown_mu("coordinator") / bound)

    def report(self) -> dict[str, float]:
        """Return both epsilons."""
        return {view: self.epsilon(view).epsilon for view in VIEWS}


def plan_descent(params: DescentParams, members: Members, *, epsilon: float, delta: float, view: View) -> DescentPlan:
    """Fix the sampling and the least noise, or refuse before anything costs.

    Raises:
        JobError: what cannot be met, by the name of its field.
    """
    _check(params, members, delta)
    n_steps = params.steps * params.local_steps + params.final_steps
    try:
        sampling = BoundedPoisson.with_rate(params.sampling_rate, n_steps, params.most_participations)
    except ValueError as error:
        raise JobError(f"parameters.sampling_rate, parameters.most_participations: {error}") from error
    planned = DescentPlan(params, members, sampling, 1, delta)

    def spends(mu: int) -> float:
        made = replace(planned, mu=mu)
        return max(made.epsilon(v, near=epsilon).epsilon for v in views_to_calibrate(view))

    try:
        return replace(planned, mu=least_noise(spends, SKELLAM_LADDER, epsilon=epsilon, delta=delta))
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error


def _check(params: DescentParams, members: Members, delta: float) -> None:
    if members.n_members < MIN_MEMBERS:
        raise JobError(f"parties: at least {MIN_MEMBERS} must take part, so that a masked sum hides what one holds")
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
    if (params.unit == "rating") != (params.setting == "vertical"):
        raise JobError(
            "parameters.unit: the horizontal and the local setting protect a user, as embeddings of users are fitted "
            "to all of their ratings; the vertical setting protects a rating"
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
    if params.final_steps and params.setting != "vertical":
        raise JobError("parameters.final_steps: only the vertical setting has steps that move items alone")
    n_steps = params.steps * params.local_steps + params.final_steps
    if min(params.steps, params.local_steps, params.rank, params.theta) < 1 or not 1 <= n_steps <= MAX_STEPS:
        raise JobError(
            f"parameters.steps: steps, local_steps, rank and theta are at least 1, and steps {MAX_STEPS} at most"
        )
    if not 1 <= params.largest <= MAX_LARGEST or not params.divisor > 0 or not params.learning_rate > 0:
        raise JobError(f"parameters.largest: lies in 1..{MAX_LARGEST}; divisor and learning_rate are positive")
