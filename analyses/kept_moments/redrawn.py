"""Moments like those that were released, drawn anew: with the release's noise, or of other rows of the population."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analyses.kept_moments.answer import CLEAR, AnswerError, Floats
from analyses.second_moments.centred import CentredMoments
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import SimulatedNoise, leading_components, noise_edge, without_noise

N_DRAWS = 100
"""Draws of each kind; a standard deviation of so many values is itself off by a fourteenth."""


@dataclass(frozen=True)
class Spread:
    """How a statistic of moments differs between draws.

    Attributes:
        noise: standard deviation over draws of the noise, in the statistic's shape.
        chance: standard deviation over other rows of the population.
        off: what the noise adds to it on average.
    """

    noise: Floats
    chance: Floats
    off: Floats


@dataclass(frozen=True)
class Likeness:
    """Second moments about the mean like those that were released, but without noise: where draws begin.

    Attributes:
        part: what was released.
    """

    part: ReleasedMoments

    @cached_property
    def scatter(self) -> Floats:
        """The moments, positive semidefinite, shape (columns, columns), scaled; see `without_noise`."""
        centre, deviation = self.part.centred, self.part.deviation
        values, vectors = leading_components(centre.matrix, len(centre.matrix))
        found = without_noise(values, noise_edge(len(values), deviation, centre.lift), deviation)
        return np.asarray((vectors.T * found) @ vectors, dtype=np.float64)

    def released(self, scatter: Floats, draw: Floats) -> CentredMoments:
        """Return what a release of a scatter tells: with a draw of the noise in the moments that it belongs to.

        Args:
            scatter: shape (columns, columns).
            draw: shape (columns + 1, columns + 1).
        """
        return self.part.centre(self._moments(scatter, draw))

    def noisy(self, scatter: Floats, draw: Floats) -> Floats:
        """Return the scatter that `released` tells, about the mean that it tells; of many at once by leading axes."""
        return self.part.scatters(self._moments(scatter, draw))

    def _moments(self, scatter: Floats, draw: Floats) -> Floats:
        mean = np.append(self.part.centred.mean, self.part.constant)
        moments: Floats = draw + self.part.n_rows * np.outer(mean, mean)
        moments[..., :-1, :-1] += scatter
        return moments

    def of_noise(self, n_draws: int = N_DRAWS) -> Iterator[Floats]:
        """Yield scatters of the same rows in other releases."""
        return (self.noisy(self.scatter, draw) for draw in self.part.noise(n_draws))

    def of_chance(self, n_draws: int = N_DRAWS) -> Iterator[Floats]:
        """Yield scatters of other rows of a normal population, by Bartlett's decomposition of Wishart matrices."""
        from scipy.special import gammaincinv

        simulated, n = SimulatedNoise(), len(self.scatter)
        degrees = max(self.part.n_rows - 1, n + 1.0)
        values, vectors = np.linalg.eigh(self.scatter)
        root = vectors * np.sqrt(np.maximum(values, 0.0) / degrees)
        for _ in range(n_draws):
            lower = np.tril(simulated.normal(n, n), -1)
            chi = 2 * gammaincinv((degrees - np.arange(n)) / 2, simulated.uniform(n))
            drawn = root @ (lower + np.diag(np.sqrt(chi)))
            yield drawn @ drawn.T

    def spread(self, statistic: Callable[[Floats], Floats], n_draws: int = N_DRAWS) -> Spread:
        """Return how a statistic of a scatter differs between draws."""
        noise = np.array([statistic(one) for one in self.of_noise(n_draws)])
        chance = np.array([statistic(one) for one in self.of_chance(n_draws)])
        off = noise.mean(axis=0) - statistic(self.scatter)
        return Spread(noise.std(axis=0, ddof=1), chance.std(axis=0, ddof=1), np.asarray(off))


def check_regular(scatter: Floats, noise_level: float, clear: float = CLEAR) -> None:
    """Refuse an inverse where some combination of columns does not vary beyond the noise.

    Args:
        scatter: second moments about the mean.
        noise_level: about the spectral norm of the noise.
        clear: noise levels that every combination must exceed.

    Raises:
        AnswerError: there is one.
    """
    if float(np.linalg.eigvalsh(scatter)[0]) <= clear * noise_level:
        what = "some combination of these columns does not vary beyond the noise"
        raise AnswerError(f"{what}: name fewer columns, of a category all values but one, or ask for a larger epsilon")
