"""`matrix-factorization` as a job: offsets and vectors of items, or of users, from ratings that parties keep [Chien21].

The rounds are masked sums in one session (`analyses.sums.sessions.session_series`). The public input of a round is the
model that the sums before it led to; all members of the round have received the same. After the last round each party
improves the model by its own exact ratings, for itself: what that comes to stands in its own report, and is never sent.

Where too few parties are left in a round after the first one, the last opened model is the result. All rounds are paid
for then, as they were committed together.

    line of the specification                               function
    a unit's certified integers; a party adds up its own    `member_vector`, `add_ratings`
    noise of which the intended amount stays, whoever       `SumNoise.draw`
    drops out
    the rounds, one after the other                         `contribute_to_series`, `conduct_series`
    noise in excess is removed                              `SumNoise.remove_surplus`
    sums become offsets and vectors                         `HorizontalRounds.improve`, `users_of`
    V returns on a lattice, to all alike                    `ModelFormat`, `receive_released`
    vertical, owner: own items from own noisy sums          `Owner.take_items`
    stage 3, never sent                                     `own_choice`, `Owner.own_choice`
    form sgd: steps, rounds, stage 3                        `DescentPart`, `DescentHost`
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.analysis import Analysis
from analyses.job.job import Job
from analyses.job.schema import BlockSchema, LocalReport, Table
from analyses.job.survival import Survival
from analyses.matrix_factorization.broadcast import (
    Released,
    publish_items,
    receive_items,
    receive_released,
    send_released,
)
from analyses.matrix_factorization.descent.descent_job_plan import DescentJobPlan, plan_descent_job
from analyses.matrix_factorization.descent.descent_parts import DescentHost, DescentPart
from analyses.matrix_factorization.horizontal import (
    FactorResult,
    HorizontalRounds,
    member_vector,
    offsets_of,
    own_choice,
)
from analyses.matrix_factorization.job_plan import FactorJobPlan
from analyses.matrix_factorization.job_plan import plan as plan_of_statistics
from analyses.matrix_factorization.jobs.answer import answer, as_data, of_features
from analyses.matrix_factorization.jobs.factor_params import FEWEST_PARTIES, FactorJobParams, params_of
from analyses.matrix_factorization.jobs.forecast import about_offsets, forecast, signal
from analyses.matrix_factorization.jobs.series_plan import SeriesPlan
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.own_ratings import OwnRatings, no_ratings, own_ratings
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.reference import reference
from analyses.matrix_factorization.serving.kept import kept_of_items, kept_of_users
from analyses.matrix_factorization.unit_vectors import n_rating_entries
from analyses.matrix_factorization.vertical import OpenedRows, Owner, VerticalPrior, first_users, users_of
from analyses.rows.own_values import zeros_if_raised
from analyses.sums.protocol import STAGES_PER_DEADLINE
from analyses.sums.protocol import survival as survival_of_a_sum
from analyses.sums.round import participation
from analyses.sums.sessions.session_series import conduct_series, contribute_to_series
from mpc.errors import PeerViolationError
from mpc.protocol.session import COORDINATOR, Session
from mpc.secagg.config import RoundConfig
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.series import Announcement

Integers = NDArray[np.int64]

NAME = "matrix-factorization"
PRIOR = Prior()
VERTICAL_PRIOR = VerticalPrior(PRIOR)
_FIRST_INPUT = b""

AnyPlan = FactorJobPlan | DescentJobPlan


def plan(job: Job, schemas: Sequence[BlockSchema]) -> AnyPlan:
    """Fix everything public, by the form that the job asks for.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    is_descent = params_of(job).form == "sgd"
    return plan_descent_job(job, schemas) if is_descent else plan_of_statistics(job, schemas)


# -- a party -------------------------------------------------------------------------------------------------------


def read_table(plan: SeriesPlan, table: Table) -> OwnRatings:
    """Return a party's ratings, mapped by the public rules."""
    assert table.ratings is not None
    assert table.schema.ratings is not None
    rows, n_items = table.ratings, table.schema.ratings.items
    n_users = table.schema.ratings.users if plan.is_vertical else None
    own = zeros_if_raised(
        table,
        lambda: own_ratings(rows, n_items=n_items, bounds=plan.bounds, centre=plan.centre, n_users=n_users),
        lambda: no_ratings(table.n_rows, n_items=n_items, n_users=n_users),
    )
    return replace(own, failures=table.failures)


async def party(session: Session, plan: AnyPlan, table: Table | None) -> LocalReport:
    """Run a party's part: all rounds, and stage 3 for itself.

    Returns:
        What was clipped and dropped, and what `moiety party recommend` reads. Private.

    Raises:
        ProtocolError: somebody is lost before the rounds, or violates the protocol.

    Privacy: at most t colluding parties and the coordinator learn the survivors' sum of each round, noise included,
    and what follows from these.
    Cost: 6 rounds over the coordinator per masked sum, of 2 numbers per item, then p; and the model back.
    """
    assert table is not None  # every member brings one: `plan` has checked it
    session.progress("ratings", 0, 1)
    own = await session.compute(read_table, plan, table)
    part = part_of(session, plan, own)
    await contribute_to_series(session, plan.series(session), part.contribute)

    async def publish(released: Released) -> None:
        how = plan.publishing(released.n_opened, released.survivors).get(session.me)
        if how is not None:
            assert not isinstance(part, HorizontalPart)
            await publish_items(session, how, released.n_opened, await session.compute(part.paid_items, released))

    then = publish if plan.params.publish_items else None
    released = await receive_released(session, plan.broadcast, plan.released_lengths, plan.n_parties, then)
    kept = await session.compute(part.improved_by_own, released)
    assert table.schema.ratings is not None
    return replace(own.report, kept=kept and kept | {"items_digest": table.schema.ratings.items_digest})


def part_of(session: Session, plan: AnyPlan, own: OwnRatings) -> "HorizontalPart | VerticalPart | DescentPart":
    """Return what a party does in the rounds of a plan, and after them."""
    if isinstance(plan, DescentJobPlan):
        return DescentPart(session, plan, own)
    return VerticalPart(session, plan, own) if plan.is_vertical else HorizontalPart(session, plan, own)


class HorizontalPart:
    """A party of the horizontal setting: it holds all ratings of its users.

    Args:
        session: its end of the job.
        plan: the job's plan.
        own: its ratings. Private.
    """

    def __init__(self, session: Session, plan: FactorJobPlan, own: OwnRatings) -> None:
        self._session, self._plan, self._own = session, plan, own

    async def contribute(self, announced: Announcement, seeds: Sequence[bytes]) -> tuple[Integers, Integers]:
        """Return the sum of my users' vectors, and my noise; see `mpc.secagg.series.ContributeTo`."""
        plan, number = self._plan, announced.number
        model = _model_before(plan, announced)
        values = await self._session.compute(
            zeros_if_raised,
            self._own,
            partial(member_vector, plan.factors, number, model, self._own.ratings, PRIOR),
            partial(_zeros, plan.encoding(number).n_elements),
        )
        return plan.within_range(number, values), await self._session.draw(plan.sum_noises[number], seeds)

    def improved_by_own(self, released: Released) -> dict[str, Any]:
        """Return stage 3: the best model of my own exact ratings, with or without the others' sums. Never sent."""
        return zeros_if_raised(self._own, lambda: self._improved(released), dict)

    def _improved(self, released: Released) -> dict[str, Any]:
        plan, factors = self._plan, self._plan.factors
        posterior = offsets_of(factors, plan.estimates, released.opened)
        result = FactorResult(released.model, posterior, released.n_opened - 1)
        is_included = self._session.me in released.survivors
        model, choice = own_choice(
            factors, result, self._own.ratings, PRIOR, plan.deviation_bounds, is_included=is_included
        )
        kept = kept_of_items(model, choice, bounds=plan.bounds, centre=plan.centre)
        return kept | of_features(plan, posterior)


class VerticalPart:
    """A party of the vertical setting: it holds all ratings of its items. Arguments as `HorizontalPart`."""

    def __init__(self, session: Session, plan: FactorJobPlan, own: OwnRatings) -> None:
        self._session, self._plan, self._own = session, plan, own
        self._owner = Owner(plan.factors, own.ratings, VERTICAL_PRIOR, session.entropy)
        self._sweep: int | None = None

    async def contribute(self, announced: Announcement, seeds: Sequence[bytes]) -> tuple[Integers, Integers]:
        """Return the sum of my ratings' vectors by user, and my noise; see `mpc.secagg.series.ContributeTo`.

        My items are released to myself once per sweep, with noise of my own, also where its sum takes more attempts.
        """
        plan, session, own, sweep = self._plan, self._session, self._own, announced.number
        users = _model_before(plan, announced) or plan.start or first_users(plan.factors)
        if self._sweep != sweep:
            zeros = partial(_zeros, n_rating_entries(own.ratings.n_columns, plan.rank))
            sums = await session.compute(zeros_if_raised, own, partial(self._owner.item_sums, users), zeros)
            noise = await session.draw(plan.item_noises[sweep], len(sums))
            take = partial(self._owner.take_items, sweep, sums + noise)
            await session.compute(zeros_if_raised, own, take, self._owner.take_none)
            self._sweep = sweep
        zeros = partial(_zeros, plan.encoding(sweep).n_elements)
        values = await session.compute(zeros_if_raised, own, self._owner.user_vector, zeros)
        return plan.within_range(sweep, values), await session.draw(plan.sum_noises[sweep], seeds)

    def paid_items(self, _released: Released) -> FactorModel:
        """Return the model of my items from the noisy sums of my last sweep: paid for, and my vector is made of it."""
        return self._owner.items

    def improved_by_own(self, released: Released) -> dict[str, Any]:
        """Return stage 3: the best fit to my exact ratings, with or without the others' sums. Never sent."""
        return zeros_if_raised(self._own, lambda: self._improved(released), dict)

    def _improved(self, released: Released) -> dict[str, Any]:
        plan, sweep = self._plan, released.n_opened - 1
        opened = OpenedRows.read(plan.factors, 2 * sweep + 1, released.opened)
        is_included = self._session.me in released.survivors and self._sweep == sweep
        choice = self._owner.own_choice(opened, plan.deviation_bounds, is_included=is_included)
        return choice.as_data() | kept_of_users(choice.fitted, bounds=plan.bounds, centre=plan.centre)


def _zeros(length: int) -> Integers:
    return np.zeros(length, dtype=np.int64)


def _model_before(plan: FactorJobPlan, announced: Announcement) -> FactorModel | None:
    """Return the model that a round starts from, checked; None for round 0, which starts from nothing.

    Raises:
        PeerViolationError: it is of another round, off the lattice, or longer than its public bound.
    """
    number, stage = announced.number, f"round {announced.number}"
    if number == 0:
        if announced.public_input != _FIRST_INPUT:
            raise PeerViolationError(COORDINATOR, stage, "broadcast offsets and vectors before there are any")
        return None
    model = plan.broadcast.read(announced.public_input, number, stage)
    if plan.is_vertical and plan.rank:
        longest = float(plan.factors.params.squared_length - 1)
        if (np.einsum("ij,ij->i", model.vectors, model.vectors) > longest).any():
            raise PeerViolationError(COORDINATOR, stage, "broadcast a vector that is longer than its public bound")
    return model


# -- the coordinator -----------------------------------------------------------------------------------------------


async def coordinator(session: Session, plan: AnyPlan) -> dict[str, Any]:
    """Run the coordinator's part: host the rounds, and say what they come to.

    Returns:
        JSON-able: the model, who was in each round, the privacy cost; of offsets `about_offsets`, a sentence on their
        noise.

    Raises:
        ProtocolError: the first sum cannot be opened, or a later one for another reason than too few survivors.
    """
    hosted = DescentHost(session, plan) if isinstance(plan, DescentJobPlan) else FactorHost(session, plan)
    stage_s = plan.job.deadline_s / STAGES_PER_DEADLINE
    await conduct_series(
        session,
        plan.series(session),
        stage_s=stage_s,
        first_input=_FIRST_INPUT,
        after_round=hosted.after_round,
        may_end_early=True,
    )
    released = hosted.released()
    await send_released(session, plan.broadcast, released, plan.n_parties, stage_s)
    more: dict[str, Any] = {}
    if isinstance(hosted, FactorHost) and isinstance(plan, FactorJobPlan):
        more = hosted.more() | {"about_offsets": about_offsets(plan)}
    if plan.params.publish_items:
        formats = plan.publishing(released.n_opened, released.survivors)
        items = await receive_items(session, formats, released.n_opened, stage_s)
        more |= {"items": {session.names[party]: as_data(model) for party, model in items.items()}}
    return answer(plan, released.model, hosted.rounds) | more


class FactorHost:
    """What the coordinator makes of the rounds."""

    def __init__(self, session: Session, plan: FactorJobPlan) -> None:
        self.rounds: list[dict[str, Any]] = []
        self._session, self._plan = session, plan
        self._horizontal = HorizontalRounds(plan.factors, plan.estimates)
        self._model: FactorModel | None = None
        self._opened: Integers | None = None
        self._survivors: tuple[int, ...] = ()

    async def after_round(self, config: RoundConfig, opened: OpenedSum) -> bytes | None:
        """Return the public input of the next round; see `mpc.secagg.series.AfterRound`."""
        plan, number = self._plan, config.round_id.number
        self.rounds.append(participation(opened, config))
        kept = await self._session.compute(plan.sum_noises[number].noise.remove_surplus, opened)
        integers = np.asarray(kept.integers(), dtype=np.int64)
        if plan.is_vertical or number == 0:
            self._opened, self._survivors = integers, opened.survivors
        if plan.is_vertical:
            rows = OpenedRows.read(plan.factors, 2 * number + 1, integers)
            self._model = await self._session.compute(users_of, plan.factors, rows, VERTICAL_PRIOR, plan.start)
        else:
            await self._session.compute(self._horizontal.improve, integers)
            self._model = self._horizontal.model
        if number + 1 == plan.n_sums:
            return None
        assert self._model is not None
        return plan.broadcast.write(number + 1, self._model)

    def released(self) -> Released:
        """Return what the rounds came to; at least one was opened."""
        model = self._model if self._plan.is_vertical else self._horizontal.result().model
        assert model is not None
        assert self._opened is not None
        return Released(len(self.rounds), model, self._opened, self._survivors)

    def more(self) -> dict[str, Any]:
        """Return what else the result holds: how features move offsets."""
        return {} if self._plan.is_vertical else of_features(self._plan, self._horizontal.result().released)


def survival(job: Job) -> Survival:
    """Return how many parties may drop out of each round, as of any masked sum."""
    return survival_of_a_sum(job, "each round's masked sum")


ANALYSIS = Analysis(
    names=(NAME,),
    parameters=FactorJobParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=survival,
    page="analyses/matrix-factorization.md",
    demo=NAME,
    own_forecast=forecast,
    signal=signal,
    reference=reference,
    synonyms={"n_components": "rank", "n_factors": "rank", "components": "rank"},
    fewest_parties=FEWEST_PARTIES,
    joins=False,
)
