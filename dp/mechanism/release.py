"""What every mechanism has in common: how its noise is drawn, and what it costs in each view.

A plan holds the releases of its job (`analyses.job.plan`), a ledger charges their events, and a party draws its noise
from the same objects: what is drawn is what is charged. The words are the same for all:

* `draw(entropy, ...)` returns one party's noise as integers. It is independent of all data. What else it is given
  (a length, a public norm) is known only while the job runs.
* `events(view)` returns what all draws of all parties cost together, for the neighbours of the view.
* `report(...)` describes the release as plain JSON data. Mechanisms have it that need to know nothing of the analysis
  besides; the plans of all others write it (`dp.cost.report`).

Noise that depends on what was released before, as that of a tree of counts, is drawn step by step: `draw` returns the
source of such noise (`StepwiseNoise`).
"""

from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.events.event import PrivacyEvent
from dp.cost.views import ADJACENCY, View
from dp.draw.noise import sample_discrete_gaussian
from entropy import Entropy

Integers = NDArray[np.int64]


class Release(Protocol):
    """A mechanism with fixed parameters. Two with equal parameters are equal."""

    @property
    def draw(self) -> Any:
        """Draw one party's noise: `draw(entropy, ...)`. What follows the entropy differs between mechanisms."""

    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what all draws of all parties cost together, for the neighbours of `dp.cost.views.ADJACENCY[view]`."""


class StepwiseNoise:
    """Discrete Gaussian noise for releases of which each decides about the next.

    Args:
        entropy: random source of the party; each step reads one key.
    """

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def added_to(self, values: Integers, variance: Fraction) -> Integers:
        """Return integers plus fresh noise of a variance, independent in each: what may be looked at."""
        noise = sample_discrete_gaussian(self._entropy, variance, values.size)
        return np.asarray(values + noise.reshape(values.shape), dtype=np.int64)


class StepwiseRelease:
    """What mechanisms have in common in which an owner alone adds discrete Gaussian noise, step by step."""

    def events(self, view: View) -> tuple[DiscreteGaussianDpEvent]:
        """Return what all releases together cost, for the neighbours of a view.

        The owner alone draws the noise, and it is the owner's rows that it hides: all of it counts in either view.
        """
        adjacency = ADJACENCY[view]
        return (DiscreteGaussianDpEvent(self.squares(replace=adjacency is Adjacency.REPLACE_ONE), adjacency),)

    def draw(self, entropy: Entropy) -> StepwiseNoise:
        """Return the source of the noise: each step adds more of it, as its variance depends on the steps before."""
        return StepwiseNoise(entropy)

    def squares(self, *, replace: bool) -> Fraction:
        """Return the bound of sum d_i^2 / s_i over all steps: d_i a neighbour's difference, s_i the variance."""
        raise NotImplementedError
