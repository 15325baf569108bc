"""The rounds of the form `sgd` over devices: T masked sums of gradients, each about a sample that nobody knows.

Each device throws a coin of its own for each vector that it sends, and counts for itself in how many vectors it was. If
the coin shows tails, or it was in K of them already, it sends zeros, under the same masks and with the same noise. So
neither the coordinator nor any other device sees who was sampled, and the coordinator's view is amplified.

**What a vector costs.** All T rounds cost what a plan of K participations in T steps costs
(`dp.mechanism.bounded_sampling`), and a device that goes after n vectors has paid for what it has sent: each of its
first K vectors costs one step without any amplification, and each later one nothing. Let n vectors have left.

* A coalition, whatever it knows of the coins: the device was in at most min(n, K) of them, so at most so many releases
  can differ; that is what has been paid. (Not in a release means that both worlds give the same distribution of it.)
* The coordinator, who does not know the coins: for every outcome of them it is in at most min(n, K) releases, and
  Renyi divergences are quasi-convex, so the average costs no more: what has been paid in its view, where a release
  without amplification counts as well.

Charges are numbered as coins are, and a coin is counted after its charge is spent. So where a device was stopped, and
some coins belong to no vector, those of numbers below K are paid all the same, and what is paid is at least as much.

So a charge by the worst of both views (`JobCost`) covers both views after every vector, and K of them are what the
whole series costs a coalition: nothing is paid twice. No charge depends on a coin, or a budget would tell of it.

**Attempts.** A vector is a step, whichever round or attempt it is for: each has a coin of its own, and each attempt
whose vector has left may have been opened. After T vectors there are no coins left, and zeros are sent. So the cost in
the coordinator's view, too, is at most that of the plan, though rounds are tried again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.broadcast import ModelFormat
from analyses.matrix_factorization.descent.descent_job_plan import RATES, SAMPLING_RATE, STEPS
from analyses.matrix_factorization.descent.descent_parts import in_the_set
from analyses.matrix_factorization.descent.descent_plan import DescentParams, DescentPlan, largest_of, plan_descent
from analyses.matrix_factorization.descent.projected_descent import first_embeddings, moved
from analyses.matrix_factorization.descent.projection import gradient_bound
from analyses.matrix_factorization.devices.question import NAME, FactorQuestion
from analyses.matrix_factorization.devices.rounds import DeviceRounds
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.plan import AUTO_RANK, Members
from analyses.sums.noise import SumNoise
from dp.cost.events.event import PrivacyEvent
from dp.cost.job_cost import JobCost
from dp.cost.report import privacy_report
from dp.cost.views import VECTOR_UNIT, VIEWS, View
from mpc.secagg.config import Topology
from mpc.secagg.vector.encoding import VectorEncoding

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class DescentRounds(DeviceRounds):
    """See `DeviceRounds`.

    Attributes:
        plan: steps, samples and noise.
    """

    plan: DescentPlan

    @property
    def n_rounds(self) -> int:
        """How many masked sums there are: T."""
        return self.plan.params.steps

    @property
    def rank(self) -> int:
        """P."""
        return self.plan.params.rank

    @property
    def largest(self) -> int:
        """R."""
        return self.plan.params.largest

    @property
    def most_participations(self) -> int:
        """K, of a device in the vectors that it sends."""
        return self.plan.sampling.most_participations

    @property
    def broadcast(self) -> ModelFormat:
        """See `DeviceRounds`: embeddings have no offsets."""
        params = self.plan.params
        return ModelFormat(params.n_items, params.rank, params.factor_units, has_offsets=False)

    @cached_property
    def first_points(self) -> Integers:
        """The first embeddings of items, which everybody computes: shape (items, p), on the lattice."""
        return first_embeddings(self.plan, self.plan.params.n_items, "V")

    def begin(self) -> "DescentProgress":
        """See `DeviceRounds`."""
        return DescentProgress(self)

    def noise(self, number: int) -> SumNoise:
        """See `DeviceRounds`: the same in all rounds."""
        return self.plan.sum_noise

    def encoding(self, number: int) -> VectorEncoding:
        """See `DeviceRounds`.

        A user has one rating of an item, so no entry is above what a rating's gradient has: `projection`.
        """
        params = self.plan.params
        most = math.isqrt(gradient_bound(params.largest, params.units))
        return VectorEncoding(self.noise(number).length, float(most))

    def read(self, written: bytes, number: int, stage: str) -> FactorModel:
        """See `DeviceRounds`: sensitivities need all embeddings to be in the set."""
        model = super().read(written, number, stage)
        in_the_set(self.plan, model, stage)
        return model

    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """See `DeviceRounds`."""
        return self.plan.events(view)

    def charges(self, number: int, n_before: int) -> Mapping[int, JobCost]:
        """See `DeviceRounds`: one for each of the first K vectors; the head of this module has the proof."""
        n_to_come = self.n_rounds - number
        return dict.fromkeys(range(n_before, min(n_before + n_to_come, self.most_participations)), self._whole_step)

    def charge_of(self, number: int, n_before: int) -> int | None:
        """See `DeviceRounds`."""
        return n_before if n_before < self.most_participations else None

    @cached_property
    def _whole_step(self) -> JobCost:
        return self.cost(lambda view: (self.plan.whole_step(view),))

    def _privacy_report(self) -> dict[str, Any]:
        """See `DeviceRounds`."""
        plan, topology = self.plan, self.topology
        params, moved_by = plan.params, plan.sum_noise.sensitivities
        deviations = {view: math.sqrt(2 * plan.sum_noise.least_unknown_mu(view)) / params.units for view in VIEWS}
        samples = {"coordinator": ", and unknown samples", "coalition": ""}
        return privacy_report(
            mechanism=f"{NAME}, form sgd, local: {params.steps} projected gradient steps on Poisson samples, each a "
            "masked sum plus Skellam noise, components in excess removed",
            sensitivity="of a step in integer units, "
            + "; ".join(
                f"{moved_by[view].adjacency.value}: L2 {math.sqrt(moved_by[view].squared_l2):.6g}, "
                f"L1 {moved_by[view].l1}"
                for view in VIEWS
            ),
            n_parties=topology.n_members,
            colluding=topology.n_corrupt,
            delta=plan.delta,
            events={view: self.events(view) for view in VIEWS},
            noise={
                view: f"unknown noise of standard deviation at least {deviations[view]:.4g} on each number of a step"
                + samples[view]
                for view in VIEWS
            },
            parameters={
                "form": self.question.form,
                "rank": params.rank,
                "rounds": params.steps,
                "theta": params.theta,
                "sampling_rate": float(plan.sampling.rate),
                "most_participations": self.most_participations,
                "mu": plan.mu,
                "numbers": plan.sum_noise.length,
                "fewest_survivors": topology.fewest_survivors,
            },
            unit=VECTOR_UNIT,
        )


class DescentProgress:
    """See `rounds.Progress`: embeddings of items, each step projected."""

    def __init__(self, rounds: DescentRounds) -> None:
        self._plan, self._points = rounds.plan, rounds.first_points
        self._n_opened = 0

    @property
    def model(self) -> FactorModel | None:
        """See `Progress`."""
        return self.released() if self._n_opened else None

    def improve(self, opened: Integers) -> None:
        """See `Progress`."""
        self._points = moved(self._plan, self._points, opened.reshape(self._points.shape))
        self._n_opened += 1

    def released(self) -> FactorModel:
        """See `Progress`."""
        return FactorModel(np.zeros(len(self._points), dtype=np.int64), self._points, self._plan.params.factor_units)

    def regression(self) -> None:
        """See `Progress`: there are no offsets."""


def plan_descent_rounds(question: FactorQuestion, topology: Topology, members: Members) -> DescentRounds:
    """Fix samples and noise.

    Raises:
        JobError: names the field that cannot be met.
    """
    target = question.privacy
    stated = {
        name: value
        for name in ("theta", "noise", "most_participations")
        if (value := getattr(question, name)) is not None
    }
    params = DescentParams(
        setting="local",
        n_users=members.n_members,
        n_items=question.items,
        rank=AUTO_RANK if question.rank == "auto" else question.rank,
        largest=largest_of(*question.bounds),
        steps=question.steps or STEPS,
        learning_rate=question.learning_rate or RATES["horizontal"],
        sampling_rate=SAMPLING_RATE if question.sampling_rate is None else question.sampling_rate,
        **stated,
    )
    plan = plan_descent(params, members, epsilon=target.epsilon, delta=target.delta, view=target.view)
    return DescentRounds(question, topology, plan.with_divisor(min(question.ratings_per_user, params.theta)))
