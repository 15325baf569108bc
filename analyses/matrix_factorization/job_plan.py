"""The public plan of a matrix factorization as a job: what all owners declare, what each round releases, what it costs.

All rounds are releases of one job (`releases`), each drawn by its members before its masked vector leaves. The first
message to the coordinator commits the cost of all of them, so all are paid for before the first one begins, also those
that too few survivors leave unopened.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from analyses.job.job import Job, JobError
from analyses.job.ratings import RatingsSchema
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.matrix_factorization.broadcast import ModelFormat
from analyses.matrix_factorization.horizontal import Estimates
from analyses.matrix_factorization.jobs.factor_params import (
    UNITS,
    FactorJobParams,
    declared_ratings,
    members_of,
    n_items_of,
    n_users_of,
)
from analyses.matrix_factorization.jobs.series_plan import RoundSum, SeriesPlan
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.plan import FactorParams, FactorPlan, check_deviations, plan_factors, releases_of
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.round_noise import OwnItemsNoise, RoundNoise
from analyses.matrix_factorization.unit_vectors import VectorRule
from analyses.sums.round import ring_for
from analyses.sums.sessions.session_series import StagesBesideVectors
from analyses.sums.sessions.session_sum import MESSAGES_FROM_VECTOR
from dp.cost.report import privacy_report
from dp.cost.views import VIEWS
from mpc.errors import ProtocolError
from mpc.secagg.vector.encoding import VectorEncoding

RULE = VectorRule(mean_ridge=10.0)
"""The public constants of all jobs, for ratings about as far apart as 1 to 5."""


class FactorJobPlan(SeriesPlan):
    """What all participants agree on before a matrix factorization.

    Attributes:
        rank: p.
        rounds: T.
        mu: parameter of the first release; those of the others follow.
    """

    rank: int
    rounds: int
    mu: int

    @property
    def centre(self) -> float:
        """mu0."""
        return centre_of(self.params, self.declared)

    @cached_property
    def factors(self) -> FactorPlan:
        """The plan of the rounds, which holds their noise."""
        asked = _factor_params(self.params, self.declared)
        filled = replace(asked, rank=self.rank, n_rounds=self.rounds)
        members = members_of(self.job)
        return FactorPlan(filled, members, releases_of(filled, members, self.mu), self.job.privacy.delta)

    @property
    def start(self) -> FactorModel | None:
        """The earlier public model that the job starts from; None for none."""
        return None if self.params.start is None else self.params.start.model

    @cached_property
    def estimates(self) -> Estimates:
        """The public choices of what is made of the sums."""
        return Estimates.of(Prior(), self.params.features, self.start)

    @property
    def n_sums(self) -> int:
        """How many masked sums the series has: T + 1, or T in the vertical setting."""
        return self.rounds if self.is_vertical else self.rounds + 1

    @cached_property
    def sum_noises(self) -> tuple[RoundNoise, ...]:
        """The noise of each masked sum."""
        of_sums = self.factors.releases[1::2] if self.is_vertical else self.factors.releases
        return tuple(RoundNoise(noise, number) for number, noise in enumerate(of_sums))

    @cached_property
    def item_noises(self) -> tuple[OwnItemsNoise, ...]:
        """The noise of each owner's own items, in each sweep of the vertical setting."""
        of_items = self.factors.releases[::2] if self.is_vertical else ()
        return tuple(OwnItemsNoise(noise, sweep) for sweep, noise in enumerate(of_items))

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """All rounds, each with as few survivors as may be.

        The noise of a sum is drawn for each attempt. At most one attempt of each round is ever opened, because a member
        releases shares in one attempt of a round only. The noise of own items is drawn once per sweep.
        """
        attempts = self.params.attempts
        n_sums, after = self.n_sums, self.stages_after
        stages_of = [StagesBesideVectors(number, n_sums, attempts, after) for number in range(n_sums)]
        sums = tuple(
            PlannedRelease(
                one,
                self.compute_members,
                times=attempts,
                earlier=stages_of[one.number],
                messages_per_draw=MESSAGES_FROM_VECTOR,
            )
            for one in self.sum_noises
        )
        # Items that are published at the end are made of the last sweep's noisy sums, so of the noise of these.
        hides = [*stages_of[:-1], StagesBesideVectors(n_sums - 1, n_sums, attempts)]
        items = tuple(PlannedRelease(one, self.compute_members, earlier=hides[one.sweep]) for one in self.item_noises)
        return items + sums

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that is protected."""
        return UNITS[self.factors.params.unit]

    def report_of_releases(self) -> dict[str, Any]:
        """Return what all rounds cost together."""
        plan, job = self.factors, self.job
        deviations = {
            view: sorted({math.sqrt(2 * noise.least_unknown_mu(view)) / RULE.units for noise in plan.releases})
            for view in VIEWS
        }
        moved = plan.releases[-1].sensitivities
        return privacy_report(
            mechanism=f"matrix-factorization, {self.params.setting}: {len(plan.releases)} sums plus Skellam noise",
            sensitivity="of the last sum in integer units, "
            + "; ".join(
                f"{moved[view].adjacency.value}: L2 {math.sqrt(moved[view].squared_l2):.6g}, L1 {moved[view].l1}"
                for view in VIEWS
            ),
            n_parties=self.n_parties,
            colluding=job.t,
            delta=job.privacy.delta,
            events={view: self.privacy_events(view) for view in VIEWS},
            noise={
                view: f"unknown noise of standard deviation at least {least[0]:.4g} on each number"
                for view, least in deviations.items()
            },
            parameters={
                "setting": self.params.setting,
                "rank": self.rank,
                "rounds": self.rounds,
                "mu": [noise.mu for noise in plan.releases],
                "numbers": [noise.length for noise in plan.releases],
                "fewest_survivors": plan.members.fewest,
            },
            unit=self.privacy_unit,
        )

    # -- the series of masked sums -------------------------------------------------------------------------------------

    @property
    def broadcast(self) -> ModelFormat:
        """The format of the models: of items, or of users in the vertical setting."""
        params = self.factors.params
        return ModelFormat(params.n_users if self.is_vertical else params.n_items, self.rank, params.factor_units)

    @property
    def released_lengths(self) -> tuple[int, ...]:
        """Length of the sum that members receive at the end, by the number of opened rounds less 1."""
        first = None if self.is_vertical else self.sum_noises[0].noise.length
        return tuple(one.noise.length if first is None else first for one in self.sum_noises)

    def encoding(self, number: int) -> VectorEncoding:
        """Return how large a party's vector may be in a round, from what parties declare.

        No entry of the vector of one unit is above sqrt(B). So no entry of a party's sum is above that times the users
        that it may have, or in the vertical setting the pairs of a user and an item. A party that has more users than
        it declares clips its sums entry by entry, which moves no two sums further apart.
        """
        noise, declared = self.sum_noises[number].noise, self.declared
        largest = math.isqrt(noise.sensitivities["coordinator"].squared_l2)
        most = max(one.users * (one.items if self.is_vertical else 1) for one in declared)
        return VectorEncoding(noise.length, float(most * largest))

    @cached_property
    def _sums(self) -> tuple[RoundSum, ...]:
        n = self.n_parties
        made = [(self.encoding(one.number), one.noise) for one in self.sum_noises]
        return tuple((encoding, noise, ring_for(n, encoding, noise)) for encoding, noise in made)

    def check_start(self) -> None:
        """Refuse an earlier model that is none of what this job makes.

        Raises:
            JobError: there is one.
        """
        if self.params.start is None:
            return
        how, squared_length = self.broadcast, self.factors.params.squared_length
        self.params.start.check(
            of="users" if self.is_vertical else "items",
            items_digest=None if self.is_vertical else self.declared[0].items_digest,
            parties=self.job.compute_parties,
            shape=(how.n_rows, how.rank),
            units=how.units,
            centre=self.centre,
            bounds=self.bounds,
            longest=float(squared_length - 1) if self.is_vertical else None,
        )

    def check_rings(self) -> None:
        """Refuse sums that no ring holds.

        Raises:
            ProtocolError: there are such.
        """
        assert len(self._sums) == self.n_sums

    def round_sum(self, number: int) -> RoundSum:
        """See `SeriesPlan`."""
        return self._sums[number]


def plan(job: Job, schemas: Sequence[BlockSchema]) -> FactorJobPlan:
    """Fix everything public: rank, rounds, noise, rings.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    params, declared = declared_ratings(job, schemas)
    lower, upper = declared[0].lower, declared[0].upper
    if params.centre is not None and not lower <= params.centre <= upper:
        raise JobError(f"parameters.centre: must lie within the bounds of a rating, {lower:g} to {upper:g}")
    check_deviations(lower, upper, centre_of(params, declared))
    target = job.privacy
    try:
        found = plan_factors(
            _factor_params(params, declared),
            members_of(job),
            epsilon=target.epsilon,
            delta=target.delta,
            view=target.view,
        )
        planned = FactorJobPlan(
            job=job,
            schemas=tuple(schemas),
            n_primes=0,
            params=params,
            rank=found.rank,
            rounds=found.n_rounds,
            mu=found.releases[0].mu,
        )
        planned.check_rings()
        planned.check_start()
    except ProtocolError as error:
        raise JobError(f"inputs: users, items: {error}") from error
    return planned


def centre_of(params: FactorJobParams, declared: Sequence[RatingsSchema]) -> float:
    """Return mu0: as the job states it, else the middle of the bounds that the members declare."""
    return declared[0].middle if params.centre is None else params.centre


def _factor_params(params: FactorJobParams, declared: Sequence[RatingsSchema]) -> FactorParams:
    """Return the parameters of the rounds: what the members declare, put together."""
    is_vertical = params.setting == "vertical"
    n_users = n_users_of(params, declared)
    per_user = sum(one.users * one.ratings_per_user for one in declared) // n_users
    return FactorParams(
        setting=params.setting,
        n_users=n_users,
        n_items=n_items_of(params, declared),
        ratings_per_user=max(1, per_user),
        unit=params.unit or ("rating" if is_vertical else "user"),
        rank=params.rank,
        n_rounds=params.rounds,
        rule=RULE,
    )
