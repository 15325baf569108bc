"""The same rounds without noise and without a network, where somebody holds all tables: for tests and comparisons."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import Table
from analyses.matrix_factorization.descent.descent_job_plan import DescentJobPlan
from analyses.matrix_factorization.descent.descent_parts import first_points, member_of
from analyses.matrix_factorization.descent.projected_descent import descend
from analyses.matrix_factorization.horizontal import HorizontalRounds, member_vector
from analyses.matrix_factorization.job_plan import FactorJobPlan
from analyses.matrix_factorization.jobs.series_plan import SeriesPlan
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.own_ratings import own_ratings
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.vertical import OpenedRows, Owner, VerticalPrior, first_users, users_of
from entropy import SystemEntropy

Integers = NDArray[np.int64]


def reference(tables: Sequence[Table], plan: FactorJobPlan | DescentJobPlan) -> FactorModel:
    """Return the model that exact sums lead to: of items, or of users in the vertical setting. No privacy.

    Estimates weigh the sums as noisy ones of the plan, so that the only difference from a job is the noise; and in the
    form sgd the coins, unless all units are sampled and none has more ratings than count.

    Args:
        tables: all parties' tables, in the order of the members.
        plan: the job's plan.
    """
    held = [ratings_in(plan, table) for table in tables]
    if isinstance(plan, DescentJobPlan):
        return _descent(plan, held)
    return _vertical(plan, held) if plan.is_vertical else _horizontal(plan, held)


def ratings_in(plan: SeriesPlan, table: Table) -> Ratings:
    """Return the ratings of a table, mapped by the public rules."""
    assert table.ratings is not None
    assert table.schema.ratings is not None
    declared = table.schema.ratings
    n_users = declared.users if plan.is_vertical else None
    return own_ratings(
        table.ratings, n_items=declared.items, bounds=plan.bounds, centre=plan.centre, n_users=n_users
    ).ratings


def _horizontal(plan: FactorJobPlan, held: Sequence[Ratings]) -> FactorModel:
    prior = Prior()
    rounds = HorizontalRounds(plan.factors, plan.estimates)
    for t in range(plan.n_sums):
        vectors = [member_vector(plan.factors, t, rounds.model, ratings, prior) for ratings in held]
        rounds.improve(np.sum(vectors, axis=0, dtype=np.int64))
    return rounds.result().model


def _vertical(plan: FactorJobPlan, held: Sequence[Ratings]) -> FactorModel:
    prior = VerticalPrior(Prior())
    owners = [Owner(plan.factors, ratings, prior, SystemEntropy()) for ratings in held]
    users = plan.start or first_users(plan.factors)
    for sweep in range(plan.rounds):
        for owner in owners:
            owner.take_items(sweep, owner.item_sums(users))
        total: Integers = np.sum([owner.user_vector() for owner in owners], axis=0, dtype=np.int64)
        users = users_of(plan.factors, OpenedRows.read(plan.factors, 2 * sweep + 1, total), prior, plan.start)
    return users


def _descent(plan: DescentJobPlan, held: Sequence[Ratings]) -> FactorModel:
    members = [member_of(plan, ratings, SystemEntropy()) for ratings in held]

    def exact(step: int, points: Integers) -> tuple[Integers, int]:
        parts = [member.contribution(points, no_noise) for member in members]
        return np.sum(parts, axis=0, dtype=np.int64), len(members)

    points = descend(plan.descent, first_points(plan), exact)
    return FactorModel(np.zeros(plan.n_rows, dtype=np.int64), points, plan.broadcast.units)


def no_noise(length: int) -> Integers:
    """Return zeros in place of a member's own noise."""
    return np.zeros(length, dtype=np.int64)
