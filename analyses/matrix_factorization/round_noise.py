"""The noise of each round as a release of its own: what is drawn says for which round, so that a gate can compare."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analyses.sums.noise import SumNoise
from dp.cost.events.event import PrivacyEvent
from dp.cost.views import View
from entropy import Entropy

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class RoundNoise:
    """The noise of one masked sum of the series: `SumNoise`, and of which round it is.

    Noise of the same parameters is drawn in several rounds. That a release names its round lets the gate of a party
    (`party.drawn`) see that each of them has noise of its own.

    Attributes:
        noise: the sum's noise.
        number: the round's number, from 0.
    """

    noise: SumNoise
    number: int

    def draw(self, entropy: Entropy, seeds: Sequence[bytes]) -> Integers:
        """Return what one member adds to its vector; see `SumNoise.draw`."""
        return self.noise.draw(entropy, seeds)

    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what the release costs in a view, with as few survivors as may be."""
        return self.noise.events(view)


@dataclass(frozen=True)
class OwnItemsNoise:
    """The noise that each owner of the vertical setting adds to the sums of its own items, in one sweep.

    What the owners release is about disjoint items, so one rating is in one of these releases: together they cost what
    one costs. An owner adds all of the noise itself (`plan`).

    Attributes:
        noise: on the sums of all items, of one member.
        sweep: from 0.
    """

    noise: SumNoise
    sweep: int

    def draw(self, entropy: Entropy, length: int) -> Integers:
        """Return the noise of one owner, shape (length,)."""
        return replace(self.noise, length=length).draw(entropy, [])

    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what the releases of all owners cost together in a view."""
        return self.noise.events(view)
