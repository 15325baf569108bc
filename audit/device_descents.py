"""Audit targets of the form `sgd` over devices: the vectors of one device in a row, and the noise of the opened sums.

Vectors are those of a device (`device_vector`), from a key of its own for each run, so coins, the bound of
participations, trimming and gradients are the production ones. The noise is that of a round, drawn by every survivor,
excess removed. What is broadcast is fixed: embeddings of length 0, at which a user who was fitted to the first ones
moves most.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from analyses.job.job import PrivacyTarget
from analyses.job.ratings import digest_of_items
from analyses.matrix_factorization.descent.descent_plan import plan_descent
from analyses.matrix_factorization.devices.descent_rounds import DescentRounds, plan_descent_rounds
from analyses.matrix_factorization.devices.question import NAME, FactorQuestion
from analyses.matrix_factorization.devices.record import Coins, DeclaredRatings, UsedRatings, device_vector, no_ratings
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.plan import Members
from audit.additive import MaskedSumRelease
from audit.entry import SEEN_BY, Entry
from audit.less_noise import NoisyTarget, with_noise
from dp.audit.exact_audit import Part
from dp.audit.exact_law import Floats, Integers, Law, skellam
from dp.cost.views import VIEWS, View
from entropy import Entropy
from entropy.stream import KEY_BYTES
from mpc.secagg.config import Topology

_LOWER, _UPPER = 1.0, 5.0
_DECLARED = DeclaredRatings(1, _LOWER, _UPPER, most=1)
_SURVIVORS = 3


@dataclass(frozen=True)
class DeviceStepsTarget(NoisyTarget):
    """The opened sums of all rounds about one device, which has rated the one item or is without ratings.

    The coordinator does not know the coins: two rounds, of which the device is in one at most. For a coalition, which
    is taken to know them, one round with the device in it, whose rating is one or the other.

    Attributes:
        rounds: rounds of rank 1, about one item.
        view: whose.
    """

    rounds: DescentRounds
    view: View

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`: the sums of all rounds are one part, as the device is in one of them at most."""
        law, n = self._law(noise), self.rounds.n_rounds
        start, stop = self._window()
        away, there = (law.shifted(self._moved(world)).within(start, stop) for world in (0, 1))
        still = law.within(start, stop)
        rate, found = float(self.rounds.plan.sampling.rate), []
        for moved in (away, there):
            masses: Floats = _outer([still] * n) * (1 - rate) ** n
            for at in range(n):
                masses = masses + rate * (1 - rate) ** at * _outer([moved if i == at else still for i in range(n)])
            found.append(masses.ravel())
        return [Part(np.stack(found))]

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`."""
        n = self.rounds.n_rounds
        seen = np.zeros((n, n_runs), dtype=np.int64)
        for run in range(n_runs):
            key = entropy.read(KEY_BYTES)
            seen[:, run] = [self._vector(world, number, key) for number in range(n)]
        noise = replace(with_noise(self.rounds.noise(0), self.noise), length=n * n_runs)
        drawn = MaskedSumRelease(noise, self.view, _SURVIVORS, (0,) * noise.length).output(0, entropy)
        start, stop = self._window()
        clipped = np.clip(seen + drawn.reshape(n, n_runs), start, stop - 1) - start
        found: Integers = np.ravel_multi_index(tuple(clipped), (stop - start,) * n)[:, None]
        return found

    def _vector(self, world: int, number: int, key: bytes) -> int:
        """Return the number that the device sends in a round."""
        rating = _UPPER if world == 1 else (_LOWER if self.view == "coalition" else None)
        used = no_ratings("none") if rating is None else UsedRatings(np.zeros(1, dtype=np.int64), np.array([rating]))
        points = np.zeros((1, 1), dtype=np.int64)
        model = FactorModel(np.zeros(1, dtype=np.int64), points, self.rounds.broadcast.units)
        return int(device_vector(self.rounds, number, model, _DECLARED, used, Coins(key, number))[0])

    def _moved(self, world: int) -> int:
        """Return what the device adds to the sum that it is in."""
        if world == 0:
            return 0  # no rating, or one of the lower bound, which embeddings of length 0 predict
        params = self.rounds.plan.params
        return -math.isqrt(params.squared_sensitivity(both=False))

    def _law(self, noise: Fraction) -> Law:
        known = with_noise(self.rounds.noise(0), noise)
        return skellam(known.unknown_mu(_SURVIVORS, self.view))

    def _window(self) -> tuple[int, int]:
        law = self._law(Fraction(1))
        return law.start + self._moved(1), law.stop


def _outer(masses: Sequence[Floats]) -> Floats:
    found: Floats = masses[0]
    for one in masses[1:]:
        found = np.multiply.outer(found, one)
    return found


@lru_cache(maxsize=2)
def _rounds_of(view: View) -> DescentRounds:
    """Return the rounds of a question to four devices, with coarser units, so that exact laws have few masses."""
    of_coordinator = view == "coordinator"
    question = FactorQuestion(
        analysis=NAME,
        form="sgd",
        record="films",
        items=1,
        items_digest=digest_of_items(1),
        ratings_per_user=1,
        lower=_LOWER,
        upper=_UPPER,
        rank=1,
        theta=1,
        steps=2 if of_coordinator else 1,
        sampling_rate=0.5 if of_coordinator else 1.0,
        most_participations=1,
        privacy=PrivacyTarget(epsilon=4, delta=1e-3, view=view),
    )
    topology = Topology.complete(4, 1)
    members = Members(4, topology.n_corrupt, topology.fewest_survivors)
    rounds = plan_descent_rounds(question, topology, members)
    params, target = replace(rounds.plan.params, units=1), question.privacy
    plan = plan_descent(params, members, epsilon=target.epsilon, delta=target.delta, view=view)
    return replace(rounds, plan=plan)


_RUNS: dict[View, int | None] = {"coordinator": 2500, "coalition": None}
"""Two vectors of a device in a run take a few milliseconds; so many have a power above 0.999."""

DEVICE_DESCENTS: dict[str, Entry] = {
    f"devices-descent-{view}": Entry(
        f"steps of a descent over 3 of 4 devices, which throw coins of their own, excess removed, {SEEN_BY[view]}",
        ("matrix-factorization:devices, sgd",),
        lambda view=view: DeviceStepsTarget(_rounds_of(view), view),  # type: ignore[misc]
        _RUNS[view],
    )
    for view in VIEWS
}
