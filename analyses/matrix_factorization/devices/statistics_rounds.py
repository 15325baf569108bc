"""The rounds of the form `statistics` over devices: offsets first, then vectors of items, of least squares."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.broadcast import ModelFormat
from analyses.matrix_factorization.devices.question import NAME, FactorQuestion
from analyses.matrix_factorization.devices.rounds import DeviceRounds
from analyses.matrix_factorization.horizontal import Estimates, HorizontalRounds
from analyses.matrix_factorization.job_plan import RULE
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.plan import FactorParams, FactorPlan, Members, check_deviations, plan_factors
from analyses.matrix_factorization.posterior import Prior, Regression
from analyses.sums.noise import SumNoise
from dp.cost.events.event import PrivacyEvent
from dp.cost.job_cost import JobCost
from dp.cost.report import privacy_report
from dp.cost.views import VECTOR_UNIT, VIEWS, View
from mpc.secagg.config import Topology
from mpc.secagg.vector.encoding import VectorEncoding

Integers = NDArray[np.int64]

PRIOR = Prior()


@dataclass(frozen=True)
class StatisticsRounds(DeviceRounds):
    """See `DeviceRounds`. Each round is a release of its own, paid by itself.

    Attributes:
        plan: rank, rounds and noise.
    """

    plan: FactorPlan

    @property
    def n_rounds(self) -> int:
        """How many masked sums there are: T + 1."""
        return self.plan.n_rounds + 1

    @property
    def rank(self) -> int:
        """P."""
        return self.plan.rank

    @property
    def broadcast(self) -> ModelFormat:
        """See `DeviceRounds`."""
        return ModelFormat(self.question.items, self.plan.rank, self.plan.params.factor_units)

    def begin(self) -> "StatisticsProgress":
        """See `DeviceRounds`."""
        return StatisticsProgress(HorizontalRounds(self.plan, self.estimates))

    @property
    def estimates(self) -> Estimates:
        """The public choices of what is made of the sums."""
        start = self.question.start
        return Estimates.of(PRIOR, self.question.features, None if start is None else start.model)

    @property
    def n_features(self) -> int:
        """See `DeviceRounds`."""
        return 0 if self.question.features is None else len(self.question.features[0])

    def noise(self, number: int) -> SumNoise:
        """See `DeviceRounds`."""
        return self.plan.releases[number]

    def encoding(self, number: int) -> VectorEncoding:
        """See `DeviceRounds`.

        A member's vector z of integers has |z|^2 <= B by `unit_vectors`, so no entry is above sqrt(B).
        """
        noise = self.noise(number)
        return VectorEncoding(noise.length, float(math.isqrt(noise.sensitivities["coordinator"].squared_l2)))

    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """See `DeviceRounds`."""
        return tuple(chain.from_iterable(noise.events(view) for noise in self.plan.releases))

    def charges(self, number: int, n_before: int) -> Mapping[int, JobCost]:
        """See `DeviceRounds`: one for each round."""
        return {other: self.cost(self.noise(other).events) for other in range(number, self.n_rounds)}

    def charge_of(self, number: int, n_before: int) -> int:
        """See `DeviceRounds`."""
        return number

    def _privacy_report(self) -> dict[str, Any]:
        """See `DeviceRounds`."""
        plan, topology = self.plan, self.topology
        last = plan.releases[-1].sensitivities
        least = {
            view: min(math.sqrt(2 * noise.least_unknown_mu(view)) / RULE.units for noise in plan.releases)
            for view in VIEWS
        }
        return privacy_report(
            mechanism=f"{NAME}, local: {self.n_rounds} masked sums plus Skellam noise, components in excess removed",
            sensitivity="of the last sum in integer units, "
            + "; ".join(
                f"{last[view].adjacency.value}: L2 {math.sqrt(last[view].squared_l2):.6g}, L1 {last[view].l1}"
                for view in VIEWS
            ),
            n_parties=topology.n_members,
            colluding=topology.n_corrupt,
            delta=plan.delta,
            events={view: self.events(view) for view in VIEWS},
            noise={
                view: f"unknown noise of standard deviation at least {least[view]:.4g} on each number" for view in VIEWS
            },
            parameters={
                "rank": plan.rank,
                "rounds": plan.n_rounds,
                "mu": [noise.mu for noise in plan.releases],
                "numbers": [noise.length for noise in plan.releases],
                "fewest_survivors": topology.fewest_survivors,
            },
            unit=VECTOR_UNIT,
        )


class StatisticsProgress:
    """See `rounds.Progress`."""

    def __init__(self, rounds: HorizontalRounds) -> None:
        self._rounds = rounds

    @property
    def model(self) -> FactorModel | None:
        """See `Progress`."""
        return self._rounds.model

    def improve(self, opened: Integers) -> None:
        """See `Progress`."""
        self._rounds.improve(opened)

    def released(self) -> FactorModel:
        """See `Progress`."""
        return self._rounds.result().model

    def regression(self) -> Regression:
        """See `Progress`."""
        return self._rounds.result().released.regression


def plan_statistics(question: FactorQuestion, topology: Topology, members: Members) -> StatisticsRounds:
    """Fix rank, rounds and noise.

    Raises:
        JobError: names the field that cannot be met.
    """
    check_deviations(*question.bounds, question.middle)
    target = question.privacy
    params = FactorParams(
        setting="local",
        n_users=members.n_members,
        n_items=question.items,
        ratings_per_user=question.ratings_per_user,
        rank=question.rank,
        n_rounds=question.rounds,
        rule=RULE,
    )
    plan = plan_factors(params, members, epsilon=target.epsilon, delta=target.delta, view=target.view)
    rounds = StatisticsRounds(question, topology, plan)
    if question.start is not None:
        question.start.check(
            of="items",
            items_digest=question.items_digest,
            parties=(),
            shape=(question.items, plan.rank),
            units=plan.params.factor_units,
            centre=question.middle,
            bounds=question.bounds,
        )
    return rounds
