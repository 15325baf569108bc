"""All members of the form `sgd` in one process: with the exact noise of the plan, and with members that drop out."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.descent.descent_plan import DescentPlan
from analyses.matrix_factorization.descent.step_noise import NoiseSource, drawn_alone
from analyses.matrix_factorization.horizontal import TooFewSurvivorsError
from analyses.matrix_factorization.in_process import with_noise
from dp.draw.skellam import sample_skellam
from entropy import Entropy

Integers = NDArray[np.int64]


class DescendingMember(Protocol):
    """A member of either setting."""

    def contribution(self, points: Integers, noise: NoiseSource) -> Integers:
        """Return what a masked sum adds up in a round, with noise of the member's own where the plan has such."""


@dataclass
class LocalSteps:
    """Members with their ratings: a `projected_descent.OpenedStep`.

    With noise "once" every survivor draws its base and its removable components, and what is in excess is taken away,
    as in a masked sum; only the masks are left out. With `together`, one variable of the distribution that is left is
    drawn instead, for simulations of many members. With noise "party" members add noise of their own themselves.

    Attributes:
        plan: public.
        members: the plan's number of members; with `together` one may stand for all, and then leaves out the absent.
        entropy: the source of all noise.
        absent: round to the members, counted from 0, that drop out of it.
        together: whether the noise is drawn at once.
        survivors: per opened round, how many survived.
    """

    plan: DescentPlan
    members: Sequence[DescendingMember] = field(repr=False)
    entropy: Entropy
    absent: Mapping[int, Collection[int]] = field(default_factory=dict)
    together: bool = False
    survivors: list[int] = field(default_factory=list)

    def __call__(self, step: int, points: Integers) -> tuple[Integers, int]:
        """Return the opened sum of round `step`, and how many survived.

        Raises:
            TooFewSurvivorsError: fewer than the plan's fewest survive.
        """
        plan = self.plan
        absent = self.absent.get(step, ())
        stands_for_all = len(self.members) == 1 < plan.members.n_members
        present = [i for i in range(len(self.members)) if stands_for_all or i not in absent]
        n_survivors = plan.members.n_members - len(absent)
        if n_survivors < plan.members.fewest:
            raise TooFewSurvivorsError(f"step {step}: {n_survivors} members of {plan.members.fewest} survived")
        total = np.zeros(points.shape, dtype=np.int64)
        for i in present:
            total += self.members[i].contribution(points, self.own_noise)
        self.survivors.append(n_survivors)
        if plan.params.noise == "party":
            return total, len(present)
        noise = plan.sum_noise
        if self.together:
            drawn = sample_skellam(self.entropy, noise.kept_mu(n_survivors), noise.length)
            return total + drawn.reshape(total.shape), n_survivors
        return with_noise(noise, total.ravel(), present, self.entropy).reshape(total.shape), n_survivors

    def own_noise(self, length: int) -> Integers:
        """Return noise of one member's own: a `NoiseSource` for the steps of rounds."""
        return drawn_alone(self.plan.own_noise, self.entropy, length)

    def final_noise(self, length: int) -> Integers:
        """Return noise of one owner's own: a `NoiseSource` for the final steps."""
        return drawn_alone(self.plan.final_noise, self.entropy, length)
