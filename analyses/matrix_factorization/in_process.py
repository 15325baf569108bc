"""All members of the rounds in one process: with the exact noise of the plan, and with members that drop out."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.horizontal import TooFewSurvivorsError, member_vector
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.plan import FactorPlan
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.ratings import Ratings
from analyses.sums.noise import SumNoise
from dp.draw.skellam import sample_skellam
from entropy import Entropy
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.secret.surplus import SurplusSeeds, n_opened_by
from mpc.secagg.vector.group import RingGroup

Integers = NDArray[np.int64]

COORDINATOR = 0
_RING_BITS = 62


@dataclass
class LocalMembers:
    """Members with their ratings: a `horizontal.NoisySum`.

    Every member draws its base and its removable components, and the components in excess are drawn again from their
    seeds and taken away, as in a masked sum; only the masks are left out. With `together`, one variable of the
    distribution that is left is drawn instead: Skellam variables add up, so it is the same distribution.

    Attributes:
        plan: public.
        ratings: per member.
        prior: public constants.
        entropy: all members' entropy.
        absent: round to the members, counted from 0, that drop out of it.
        together: whether the noise is drawn at once, for simulations of many members.
        survivors: per opened round, how many survived.
    """

    plan: FactorPlan
    ratings: Sequence[Ratings] = field(repr=False)
    prior: Prior
    entropy: Entropy
    absent: Mapping[int, Collection[int]] = field(default_factory=dict)
    together: bool = False
    survivors: list[int] = field(default_factory=list)

    def __call__(self, t: int, model: FactorModel | None) -> Integers:
        """Return the opened sum of round t.

        Raises:
            TooFewSurvivorsError: fewer than the plan's fewest survive.
            PeerViolationError: the broadcast is not on the plan's lattice.
        """
        plan, noise = self.plan, self.plan.releases[t]
        if model is not None:
            model.check(plan.params.n_items, plan.rank, plan.params.factor_units, COORDINATOR, f"round {t}")
        present = [i for i in range(len(self.ratings)) if i not in self.absent.get(t, ())]
        if len(present) < noise.levels[0]:
            raise TooFewSurvivorsError(f"round {t}: {len(present)} members of {noise.levels[0]} survived")
        total = np.zeros(noise.length, dtype=np.int64)
        for i in present:
            total += member_vector(plan, t, model, self.ratings[i], self.prior)
        self.survivors.append(len(present))
        if self.together:
            return total + sample_skellam(self.entropy, noise.kept_mu(len(present)), noise.length)
        return with_noise(noise, total, present, self.entropy)


def with_noise(noise: SumNoise, total: Integers, present: Sequence[int], entropy: Entropy) -> Integers:
    """Return a sum with each survivor's noise, the components in excess taken away."""
    n_opened = n_opened_by(noise.levels, len(present))
    opened_seeds = {}
    for i in present:
        seeds = SurplusSeeds(entropy, len(noise.levels) - 1).seeds
        total = total + noise.draw(entropy, seeds)
        opened_seeds[i + 1] = seeds[:n_opened]
    group = RingGroup(_RING_BITS)
    opened = OpenedSum(group, group.encode(total), tuple(opened_seeds), {}, {}, (), opened_seeds if n_opened else {})
    return np.asarray(noise.remove_surplus(opened).integers(), dtype=np.int64)


def add_user_vectors(plan: FactorPlan, entropy: Entropy) -> Callable[[int, Sequence[Integers]], Integers]:
    """Return the masked sum of the vertical setting, a `vertical.NoisyUserSum`: every owner's vector and noise."""

    def noisy_sum(sweep: int, vectors: Sequence[Integers]) -> Integers:
        noise = plan.releases[2 * sweep + 1]
        if len(vectors) != noise.levels[-1]:
            raise TooFewSurvivorsError(f"sweep {sweep}: {len(vectors)} owners of {noise.levels[-1]} take part")
        total = np.asarray(np.sum(vectors, axis=0, dtype=np.int64))
        return with_noise(noise, total, range(len(vectors)), entropy)

    return noisy_sum
