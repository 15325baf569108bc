"""A mechanism of its own: discrete Laplace noise on one number. See docs/recipes.md.

python examples/mechanism.py     finds the least noise for an epsilon, draws it, and says what it costs
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp.cost.calibrate import Ladder, least_noise
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.views import ADJACENCY, View
from dp.draw.noise import MAX_SCALE, sample_discrete_laplace
from entropy import Entropy, SystemEntropy


@dataclass(frozen=True)
class NoisyNumber:
    """Releases one number of one owner plus discrete Laplace noise.

    Distribution: P(k) proportional to exp(-|k| / scale). A record that is added, removed or replaced moves the number
    by at most `largest`. The owner alone knows its noise, so all of it counts in both views.

    Attributes:
        largest: how far one record moves the number.
        scale: of the noise.
    """

    largest: int
    scale: int

    def events(self, view: View) -> tuple[DiscreteLaplaceDpEvent]:
        """Return what the release costs, for the neighbours of a view."""
        return (DiscreteLaplaceDpEvent(self.largest, Fraction(self.scale), ADJACENCY[view]),)

    def draw(self, entropy: Entropy) -> NDArray[np.int64]:
        """Draw the owner's noise, shape (1,)."""
        return sample_discrete_laplace(entropy, self.scale, 1)


def calibrated(largest: int, *, epsilon: float, delta: float, view: View) -> NoisyNumber:
    """Return the mechanism with the least noise that costs at most `epsilon` at `delta` in a view."""

    def spends(scale: int) -> float:
        return composed_epsilon(NoisyNumber(largest, scale).events(view), delta, near=epsilon).epsilon

    return NoisyNumber(largest, least_noise(spends, Ladder(MAX_SCALE), epsilon=epsilon, delta=delta))


if __name__ == "__main__":
    release = calibrated(100, epsilon=1.0, delta=1e-6, view="coalition")
    print(f"scale {release.scale}; the noise that was drawn now: {release.draw(SystemEntropy())[0]}")
