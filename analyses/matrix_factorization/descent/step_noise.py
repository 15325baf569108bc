"""Form `sgd`: the noise of each round as a release of its own, so that a gate can compare; what it costs stands once.

A unit is in at most K of all T T' steps, and its coins are tossed for each, so the steps cost less together than each
by itself (`dp.mechanism.bounded_sampling`). So the cost of all rounds is stated by the noise of the first one, and that
of the others states none: a plan is charged once for all of them. In the vertical setting with noise "once" a step is
one release of the gradients of U and V, about one sample: the noise of the masked sum states what both cost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.descent.descent_plan import DescentPlan
from analyses.sums.noise import SumNoise
from dp.cost.events.event import PrivacyEvent
from dp.cost.views import View
from entropy import Entropy

Integers = NDArray[np.int64]

NoiseSource = Callable[[int], Integers]
"""How many numbers to so much fresh noise of a member's own, shape (numbers,)."""


@dataclass(frozen=True)
class SumStepNoise:
    """The noise of the masked sum of one round, with noise "once".

    Attributes:
        plan: the plan of all rounds.
        number: the round's number, from 0.
    """

    plan: DescentPlan
    number: int

    def draw(self, entropy: Entropy, seeds: Sequence[bytes]) -> Integers:
        """Return what one member adds to its vector; see `SumNoise.draw`."""
        return self.plan.sum_noise.draw(entropy, seeds)

    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what all rounds cost together, for round 0; nothing for the others."""
        return self.plan.joint_events(view) if self.number == 0 else ()


@dataclass(frozen=True)
class OwnStepNoise:
    """The noise that each member adds to its own gradients, in one round or in all final steps.

    Attributes:
        plan: the plan of all rounds.
        number: the round's number, from 0; 0 for the final steps.
        of: joint: the T' steps of a round. final: the final steps.
    """

    plan: DescentPlan
    number: int
    of: Literal["joint", "final"] = "joint"

    def draw(self, entropy: Entropy, length: int) -> Integers:
        """Return so many numbers of noise, for all steps, shape (length,)."""
        noise = self.plan.own_noise if self.of == "joint" else self.plan.final_noise
        return drawn_alone(noise, entropy, length)

    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what the final steps cost, or all rounds together, unless the noise of the sums states that."""
        if self.of == "final":
            return self.plan.final_events(view)
        is_stated_here = self.number == 0 and self.plan.params.noise == "party"
        return self.plan.joint_events(view) if is_stated_here else ()


def drawn_alone(noise: SumNoise, entropy: Entropy, length: int) -> Integers:
    """Return noise of one member alone, shape (length,)."""
    return replace(noise, length=length).draw(entropy, []) if length else np.zeros(0, dtype=np.int64)


def in_pieces(drawn: Integers) -> NoiseSource:
    """Return noise that has been drawn, piece by piece, none of it twice.

    Raises:
        ValueError: the source is asked for more than was drawn.
    """
    n_taken = 0

    def take(length: int) -> Integers:
        nonlocal n_taken
        if n_taken + length > len(drawn):
            raise ValueError("a step needs more noise than was drawn for its round")
        n_taken += length
        return drawn[n_taken - length : n_taken]

    return take
