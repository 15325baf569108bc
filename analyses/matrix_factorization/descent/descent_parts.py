"""Form `sgd` as a job: a party's part of the rounds, and the coordinator's. What both do together: `protocol`.

line of the paper (figure 3)                            function
(s1) public random start, the same at all               `first_points`
(c1) horizontal: users fitted to it                     `member_of`
(c2) a step on a sample, or T' noisy ones               `DescentPart.contribute`
(s2) sums of gradients, or means of embeddings          `DescentHost.after_round`
(c3) final steps, or fine-tuning to own exact ratings   `DescentPart.improved_by_own`
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.broadcast import RELEASED_STAGE, Released
from analyses.matrix_factorization.descent.descent_job_plan import DescentJobPlan
from analyses.matrix_factorization.descent.descent_plan import DescentPlan
from analyses.matrix_factorization.descent.horizontal_descent import HorizontalMember, fine_tuned
from analyses.matrix_factorization.descent.projected_descent import first_embeddings, mean_of, moved
from analyses.matrix_factorization.descent.step_noise import in_pieces
from analyses.matrix_factorization.descent.vertical_descent import VerticalMember
from analyses.matrix_factorization.model import FactorModel, Fitted
from analyses.matrix_factorization.own_ratings import OwnRatings
from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.serving.kept import kept_of_descent, kept_of_users
from analyses.rows.own_values import zeros_if_raised, zeros_instead
from analyses.sums.round import participation
from entropy import Entropy
from mpc.errors import PeerViolationError
from mpc.protocol.session import COORDINATOR, Session
from mpc.secagg.config import RoundConfig
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.series import Announcement

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

OWN_SWEEPS = 3
"""How often stage 3 of the horizontal setting refits items to a party's own ratings."""

_OWN_ITEMS = "own items"


def first_points(plan: DescentJobPlan) -> Integers:
    """Return the first shared embeddings: of items, in the vertical setting of users."""
    return first_embeddings(plan.descent, plan.n_rows, "U" if plan.is_vertical else "V")


def member_of(plan: DescentJobPlan, ratings: Ratings, entropy: Entropy) -> HorizontalMember | VerticalMember:
    """Return a party with its ratings, users fitted and coins ready: stage 1. Private.

    Args:
        plan: the job's plan.
        ratings: values from 0 to R, by user.
        entropy: the source of trimming and coins.
    """
    if plan.is_vertical:
        items = first_embeddings(plan.descent, ratings.n_columns, _OWN_ITEMS)
        return VerticalMember(plan.descent, ratings, items, entropy)
    return HorizontalMember(plan.descent, ratings, first_points(plan), entropy)


class DescentPart:
    """A party of either setting.

    Args:
        session: its end of the job.
        plan: the job's plan.
        own: its ratings. Private.
    """

    def __init__(self, session: Session, plan: DescentJobPlan, own: OwnRatings) -> None:
        self._session, self._plan, self._own = session, plan, own
        self._member: HorizontalMember | VerticalMember | None = None
        self._final: Integers | None = None
        self._items: Integers | None = None
        self._number: int | None = None
        self._values: Integers | None = None

    async def contribute(self, announced: Announcement, seeds: Sequence[bytes]) -> tuple[Integers, Integers | None]:
        """Return my step or steps, and my part of the sum's noise; see `mpc.secagg.series.ContributeTo`.

        A round that takes more attempts has one step all the same: coins are thrown once for it, own noise is drawn
        once, and the same vector is sent again. Of all attempts one is opened at most.
        """
        plan, session, number = self._plan, self._session, announced.number
        points = points_before(plan, announced)
        if self._number != number:
            self._values = await self._step(number, points)
            self._number = number
        assert self._values is not None
        noise = await session.draw(plan.sum_noises[number], seeds) if plan.sum_noises else None
        return self._values, noise

    async def _step(self, number: int, points: Integers) -> Integers:
        plan, session = self._plan, self._session
        if self._member is None:
            make = partial(member_of, plan, entropy=session.entropy)
            none = self._own.ratings.select(np.zeros(self._own.ratings.n_ratings, dtype=bool))
            self._member = await session.compute(zeros_instead, self._own, make, self._own.ratings, none)
            if plan.final_noise is not None:
                assert isinstance(self._member, VerticalMember)
                self._final = await session.draw(plan.final_noise, self._member.n_final_numbers)
        drawn = np.zeros(0, dtype=np.int64)
        if plan.own_noises:
            drawn = await session.draw(plan.own_noises[number], self._member.n_own_numbers)
        step = partial(self._member.contribution, points, in_pieces(drawn))
        values = await session.compute(zeros_if_raised, self._own, step, partial(np.zeros_like, points))
        return plan.within_range(number, values.ravel())

    def paid_items(self, released: Released) -> FactorModel:
        """Return the model of my items after the final noisy steps: every step of theirs is paid for.

        Raises:
            PeerViolationError: what was released is no iterate.
        """
        points, plan = in_the_set(self._plan.descent, released.model, RELEASED_STAGE), self._plan
        if self._items is None:
            first = first_embeddings(plan.descent, self._own.ratings.n_columns, _OWN_ITEMS)
            self._items = zeros_if_raised(self._own, lambda: self._finished(points, first), lambda: first)
        return FactorModel(np.zeros(len(self._items), dtype=np.int64), self._items, plan.broadcast.units)

    def _finished(self, points: Integers, first: Integers) -> Integers:
        if not isinstance(self._member, VerticalMember):
            return first
        if self._final is not None:
            self._member.finish(points, in_pieces(self._final))
        return self._member.items

    def improved_by_own(self, released: Released) -> dict[str, Any]:
        """Return stage 3: my final noisy steps, or my own model, which my exact ratings have improved. Never sent.

        In the vertical setting it is paid for: I may publish it. In the horizontal one it is for me alone.

        Raises:
            PeerViolationError: what was released is no iterate.
        """
        points = in_the_set(self._plan.descent, released.model, RELEASED_STAGE)
        items = self.paid_items(released) if self._plan.is_vertical else None
        return zeros_if_raised(self._own, lambda: self._improved(points, items, released), dict)

    def _improved(self, points: Integers, items_q: FactorModel | None, released: Released) -> dict[str, Any]:
        plan, ratings = self._plan, self._own.ratings
        if items_q is None:
            largest = plan.descent.params.largest
            _, items = fine_tuned(plan.descent, ratings, points, OWN_SWEEPS)
            return kept_of_descent(items, largest=largest, bounds=plan.bounds, centre=plan.centre)
        items, users = _without_offsets(items_q.vectors), _without_offsets(released.model.vectors)
        return kept_of_users(Fitted(users, items), bounds=plan.bounds, centre=plan.centre)


def points_before(plan: DescentJobPlan, announced: Announcement) -> Integers:
    """Return the embeddings that a round starts from, checked: sensitivities need all of them to be in the set.

    Raises:
        PeerViolationError: they are of another round, off the lattice, negative or too long.
    """
    number, stage = announced.number, f"round {announced.number}"
    if number == 0:
        if announced.public_input:
            raise PeerViolationError(COORDINATOR, stage, "broadcast embeddings before there are any")
        return first_points(plan)
    return in_the_set(plan.descent, plan.broadcast.read(announced.public_input, number, stage), stage)


def in_the_set(plan: DescentPlan, model: FactorModel, stage: str) -> Integers:
    """Return the embeddings that the coordinator sent, if they can be iterates.

    Raises:
        PeerViolationError: one is negative or too long. Shows none.
    """
    points, params = model.vectors_q, plan.params
    longest = params.largest * params.factor_units**2
    if (points < 0).any() or (np.einsum("ij,ij->i", points, points) > longest).any():
        raise PeerViolationError(COORDINATOR, stage, "broadcast an embedding that is negative or too long")
    return points


class DescentHost:
    """What the coordinator makes of the rounds.

    Attributes:
        rounds: who was in each, JSON-able.
    """

    def __init__(self, session: Session, plan: DescentJobPlan) -> None:
        self.rounds: list[dict[str, Any]] = []
        self._session, self._plan = session, plan
        self._points = first_points(plan)
        self._survivors: tuple[int, ...] = ()

    async def after_round(self, config: RoundConfig, opened: OpenedSum) -> bytes | None:
        """Return the public input of the next round; see `mpc.secagg.series.AfterRound`."""
        number = config.round_id.number
        self.rounds.append(participation(opened, config))
        self._survivors = opened.survivors
        self._points = await self._session.compute(self._moved, opened)
        return None if number + 1 == self._plan.n_sums else self._plan.broadcast.write(number + 1, self._model)

    def _moved(self, opened: OpenedSum) -> Integers:
        plan, shape = self._plan.descent, self._points.shape
        if plan.params.noise == "party":
            total = np.asarray(opened.integers(), dtype=np.int64).reshape(shape)
            return mean_of(plan, total, len(opened.survivors))
        total = np.asarray(plan.sum_noise.remove_surplus(opened).integers(), dtype=np.int64)
        return moved(plan, self._points, total.reshape(shape))

    @property
    def _model(self) -> FactorModel:
        return FactorModel(np.zeros(self._plan.n_rows, dtype=np.int64), self._points, self._plan.broadcast.units)

    def released(self) -> Released:
        """Return what the rounds came to; at least one was opened."""
        return Released(len(self.rounds), self._model, np.zeros(0, dtype=np.int64), self._survivors)


def _without_offsets(vectors: Floats) -> Floats:
    return np.column_stack([np.zeros(len(vectors)), vectors])
