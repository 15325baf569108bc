"""Form `sgd` as a job: the public plan. What all owners declare, what each round releases, what all of it costs.

T rounds are masked sums in one session, as in the form `statistics`; all of them are paid for before the first one
begins. Ratings lie in 0 .. R once the public lower bound is taken off, R the distance of the bounds, rounded up.

The releases, and where their cost stands (`step_noise`):

* noise "once": the noise of each round's sum, drawn for each attempt; at most one attempt of a round is ever opened. In
  the vertical setting also that of an owner's own items, drawn once per round.
* noise "party": each member's own, drawn once per round for all T' steps, before its vector leaves. A second attempt
  sends the same vector again.
* the final steps of the vertical setting: drawn before any vector leaves, so that a gate sees that it was.

**Steps.** Gradients are divided by a public constant: 20 (R n + s), n the ratings of an item or a user that a step is
expected to sample, by what is declared, and s the deviation of the noise on each number. So a step of rate 1 moves by a
twentieth of the noise's deviation at most, and by a tenth of what curvature would allow at an item of usual size. With
noise "party" means of N members have less noise than each, and it is 20 (R n + s) / sqrt N.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from analyses.job.job import Job, JobError
from analyses.job.ratings import RatingsSchema
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.matrix_factorization.broadcast import ModelFormat
from analyses.matrix_factorization.descent.descent_plan import DescentParams, DescentPlan, largest_of, plan_descent
from analyses.matrix_factorization.descent.projection import gradient_bound
from analyses.matrix_factorization.descent.step_noise import OwnStepNoise, SumStepNoise
from analyses.matrix_factorization.jobs.factor_params import (
    UNITS,
    FactorJobParams,
    declared_ratings,
    members_of,
    n_items_of,
    n_users_of,
)
from analyses.matrix_factorization.jobs.series_plan import RoundSum, SeriesPlan
from analyses.matrix_factorization.plan import AUTO_RANK
from analyses.sums.round import ring_for
from analyses.sums.sessions.session_series import StagesBesideVectors, stages_before_vectors
from analyses.sums.sessions.session_sum import MESSAGES_FROM_VECTOR
from dp.cost.report import privacy_report
from dp.cost.views import PERSON, VIEWS, View
from dp.mechanism.bounded_sampling import BoundedPoisson
from mpc.errors import ProtocolError
from mpc.secagg.vector.encoding import VectorEncoding

STEPS, FINAL_STEPS, SAMPLING_RATE = 20, 5, 0.3
"""What a job has that does not say: rounds, final steps of the vertical setting, part of the units in a step."""

RATES = {"horizontal": 0.5, "vertical": 1.5}
"""And rates of steps: the best of .15, .5, 1.5 and 5 on MovieLens 100K at epsilon 8."""


class DescentJobPlan(SeriesPlan):
    """What all participants agree on before a descent.

    Attributes:
        most_participations: largest number of steps of a unit in all rounds, default filled in.
        most_final: largest number of final steps of a unit; 0 without any.
        mu: see `DescentPlan`.
    """

    most_participations: int
    most_final: int
    mu: int

    @property
    def centre(self) -> float:
        """The lower bound, which is taken off every rating."""
        return self.bounds[0]

    @cached_property
    def descent(self) -> DescentPlan:
        """The plan of the steps, which holds their noise."""
        params = descent_params(self.params, self.declared)
        rate = params.sampling_rate
        final = BoundedPoisson.with_rate(rate, params.final_steps, self.most_final) if self.most_final else None
        sampling = BoundedPoisson.with_rate(rate, params.n_joint_steps, self.most_participations)
        made = DescentPlan(params, members_of(self.job), sampling, final, self.mu, self.job.privacy.delta)
        of_users = sum(one.users * one.ratings_per_user for one in self.declared) / params.n_users
        if params.unit == "user":
            of_users = min(of_users, params.theta * (len(self.declared) if self.is_vertical else 1))
        return made.with_divisor(of_users)

    @property
    def n_sums(self) -> int:
        """T."""
        return self.descent.params.steps

    @property
    def n_rows(self) -> int:
        """How many embeddings are broadcast: of items, in the vertical setting of users."""
        params = self.descent.params
        return params.n_users if self.is_vertical else params.n_items

    @cached_property
    def sum_noises(self) -> tuple[SumStepNoise, ...]:
        """The noise of each masked sum; none with noise "party"."""
        if self.descent.params.noise == "party":
            return ()
        return tuple(SumStepNoise(self.descent, number) for number in range(self.n_sums))

    @cached_property
    def own_noises(self) -> tuple[OwnStepNoise, ...]:
        """The noise of each member's own, round by round; none in the horizontal setting with noise "once"."""
        if not self.descent.is_noised_alone:
            return ()
        return tuple(OwnStepNoise(self.descent, number) for number in range(self.n_sums))

    @property
    def final_noise(self) -> OwnStepNoise | None:
        """The noise of each owner's final steps, all at once."""
        return OwnStepNoise(self.descent, 0, "final") if self.most_final else None

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """All rounds and the final steps; see the head of this module."""
        attempts, members, n_sums = self.params.attempts, self.compute_members, self.n_sums
        before = [StagesBesideVectors(number, n_sums, attempts, self.stages_after) for number in range(n_sums)]
        # Items that are published at the end need the noise of the last step and of the final ones to have been drawn.
        hides = [*before[:-1], StagesBesideVectors(n_sums - 1, n_sums, attempts)]
        sums = [
            PlannedRelease(
                one,
                members,
                times=attempts,
                earlier=before[one.number],
                messages_per_draw=MESSAGES_FROM_VECTOR,
            )
            for one in self.sum_noises
        ]
        own = [PlannedRelease(one, members, earlier=hides[one.number]) for one in self.own_noises]
        final = []
        if self.final_noise is not None:
            final = [PlannedRelease(self.final_noise, members, earlier=stages_before_vectors(n_sums, attempts))]
        return (*own, *sums, *final)

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that is protected: a user of all parties together, where all hold ratings of it."""
        unit = self.descent.params.unit
        return PERSON if unit == "user" and self.is_vertical else UNITS[unit]

    def report_of_releases(self) -> dict[str, Any]:
        """Return what all steps cost together."""
        plan, job = self.descent, self.job
        p = plan.params
        moved = plan.own_noise.sensitivities
        adds_up = (
            f"; a user has ratings at each of {plan.n_releasing} parties, and what each of them releases adds up"
            if plan.n_releasing > 1
            else ""
        )
        return privacy_report(
            mechanism=f"matrix-factorization, form sgd, {p.setting}: {p.n_joint_steps + p.final_steps} projected "
            f'gradient steps on Poisson samples plus Skellam noise, "{p.noise}"{adds_up}',
            sensitivity="of a step in integer units, "
            + "; ".join(
                f"{moved[view].adjacency.value}: L2 {math.sqrt(moved[view].squared_l2):.6g}, L1 {moved[view].l1}"
                for view in VIEWS
            ),
            n_parties=self.n_parties,
            colluding=job.t,
            delta=job.privacy.delta,
            events={view: self.privacy_events(view) for view in VIEWS},
            noise={view: self._noise_in_words(view) for view in VIEWS},
            parameters={
                "setting": p.setting,
                "form": self.params.form,
                "noise": p.noise,
                "rank": p.rank,
                "rounds": p.steps,
                "local_steps": p.local_steps,
                "final_steps": p.final_steps,
                "theta": p.theta if p.unit == "user" else None,
                "sampling_rate": float(plan.sampling.rate),
                "most_participations": self.most_participations,
                "mu": plan.mu,
                "numbers": self.n_rows * p.rank,
                "bytes_per_round": self.bytes_per_round,
                "fewest_survivors": plan.members.fewest,
            },
            unit=self.privacy_unit,
        )

    def _noise_in_words(self, view: View) -> str:
        plan = self.descent
        mu = plan.mu if plan.is_noised_alone else plan.sum_noise.least_unknown_mu(view)
        return (
            f"unknown noise of standard deviation at least {math.sqrt(2 * mu) / plan.params.units:.4g} on each number "
            + ("of a step, and unknown samples" if view == "coordinator" else "of a step")
        )

    @property
    def bytes_per_round(self) -> int:
        """Length of a party's masked vector of one round."""
        encoding, _, ring = self.round_sum(0)
        return -(-encoding.n_elements * ring.bits // 8)

    # -- the series of masked sums -------------------------------------------------------------------------------------

    @property
    def broadcast(self) -> ModelFormat:
        """The format of embeddings: of items, in the vertical setting of users; they have no offsets."""
        params = self.descent.params
        return ModelFormat(self.n_rows, params.rank, params.factor_units, has_offsets=False)

    @property
    def released_lengths(self) -> tuple[int, ...]:
        """No sum is sent at the end: stage 3 needs none."""
        return (0,) * self.n_sums

    @cached_property
    def _round_sum(self) -> RoundSum:
        """The same for all rounds.

        No entry of the gradient of one rating is above sqrt(B), so no entry of a party's sum is above that times the
        users that it may have, or in the vertical setting its items. Embeddings have no entry above sqrt(R).
        """
        params, declared = self.descent.params, self.declared
        if params.noise == "party":
            most, noise = math.isqrt(params.largest * params.factor_units**2), None
        else:
            n = max(one.items if self.is_vertical else one.users for one in declared)
            most, noise = n * math.isqrt(gradient_bound(params.largest, params.units)), self.descent.sum_noise
        encoding = VectorEncoding(self.n_rows * params.rank, float(most))
        return encoding, noise, ring_for(self.n_parties, encoding, noise)

    def round_sum(self, number: int) -> RoundSum:
        """See `SeriesPlan`."""
        return self._round_sum


def descent_params(params: FactorJobParams, declared: Sequence[RatingsSchema]) -> DescentParams:
    """Return the parameters of the steps, defaults filled in: what a job states and what its members declare."""
    is_vertical = params.setting == "vertical"
    stated = {
        name: value
        for name in ("local_steps", "theta", "noise", "pre_train", "most_participations")
        if (value := getattr(params, name)) is not None
    }
    return DescentParams(
        setting=params.setting,
        n_users=n_users_of(params, declared),
        n_items=n_items_of(params, declared),
        unit=params.unit or ("rating" if is_vertical else "user"),
        rank=AUTO_RANK if params.rank == "auto" else params.rank,
        largest=largest_of(declared[0].lower, declared[0].upper),
        steps=params.steps or STEPS,
        final_steps=(FINAL_STEPS if is_vertical else 0) if params.final_steps is None else params.final_steps,
        learning_rate=params.learning_rate or RATES[params.setting],
        sampling_rate=SAMPLING_RATE if params.sampling_rate is None else params.sampling_rate,
        **stated,
    )


def plan_descent_job(job: Job, schemas: Sequence[BlockSchema]) -> DescentJobPlan:
    """Fix everything public: samples, noise, rings.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    params, declared = declared_ratings(job, schemas)
    target = job.privacy
    wanted = descent_params(params, declared)
    found = plan_descent(wanted, members_of(job), epsilon=target.epsilon, delta=target.delta, view=target.view)
    planned = DescentJobPlan(
        job=job,
        schemas=tuple(schemas),
        n_primes=0,
        params=params,
        most_participations=found.sampling.most_participations,
        most_final=found.final_sampling.most_participations if found.final_sampling else 0,
        mu=found.mu,
    )
    try:
        planned.round_sum(0)
    except ProtocolError as error:
        raise JobError(f"inputs: users, items: {error}") from error
    return planned
