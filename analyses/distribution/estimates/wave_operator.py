"""The transition of a wave as two products, M x and M' r, without its matrix."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dp.local_mechanism.wave import Wave

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WaveOperator:
    """M[j, b] = P(output j | a value in bucket b), for values that are spread evenly over the inputs of a bucket.

    The weights of a slope are taken before they are rounded down to integers: a part of at most 1 / B, 1e-6, of a
    probability, where responses tell it to no better than 1e-4.

    Attributes:
        wave: d inputs, of a shape of `Wave.of_shape`.
        n_buckets: n, which divides d. With n = d buckets are inputs; with fewer, values are randomized on the finer
            grid and columns of M are averages over d / n inputs.

    Raises:
        ValueError: the buckets do not divide the inputs, or the window is of another shape.
    """

    wave: Wave
    n_buckets: int

    def __post_init__(self) -> None:
        if self.n_buckets < 2 or self.wave.n_inputs % self.n_buckets:
            raise ValueError(f"{self.n_buckets} buckets do not divide {self.wave.n_inputs} inputs")
        rise, slope = self.wave.odds.favoured - self.wave.other, self.slope
        if self.wave.window != tuple(self.wave.other + rise * height // slope for height in self._heights.tolist()):
            raise ValueError("the window of this wave is none that `Wave.of_shape` makes")

    @cached_property
    def slope(self) -> int:
        """Steps by which the window climbs to its flat top: 1 for a square wave, w + 1 for a triangle."""
        n_flat = self.wave.window.count(self.wave.odds.favoured)
        return self.wave.half_width + 1 - (n_flat - 1) // 2

    @cached_property
    def _heights(self) -> NDArray[np.int64]:
        """The window in steps: what lies above B, in units of (A - B) / slope, shape (k,)."""
        w = self.wave.half_width
        found: NDArray[np.int64] = np.minimum(self.slope, w + 1 - np.abs(np.arange(2 * w + 1) - w))
        return found

    @property
    def per_bucket(self) -> int:
        """Number of inputs in a bucket."""
        return self.wave.n_inputs // self.n_buckets

    @property
    def n_entries(self) -> int:
        """Number of entries of x: the buckets, and one more for the empty input if there is one."""
        return self.n_buckets + self.wave.has_empty

    @cached_property
    def _unit(self) -> float:
        """1 / T, for weights that are not rounded down; T then differs by less than one in B."""
        wave, heights = self.wave, int(self._heights.sum())
        raised = (wave.odds.favoured - wave.other) * heights / self.slope
        return 1 / (wave.n_outputs * wave.other + raised)

    @property
    def base(self) -> float:
        """B / T."""
        return self.wave.other * self._unit

    @property
    def excess(self) -> float:
        """What one step of the window adds: (A - B) / (slope T)."""
        return (self.wave.odds.favoured - self.wave.other) / self.slope * self._unit

    @property
    def _boxes(self) -> tuple[int, int]:
        """Lengths of two boxes whose convolution is the window in steps."""
        return self.slope, len(self.wave.window) + 1 - self.slope

    def densities(self, x: Floats) -> Floats:
        """Return M x, shape (m,).

        Args:
            x: shape (n_entries,), not negative.
        """
        wave = self.wave
        raised = np.repeat(x[: self.n_buckets] / self.per_bucket, self.per_bucket)
        for length in self._boxes:
            around = np.zeros(length - 1)
            raised = _sums(np.concatenate([around, raised, around]), length)
        found = np.full(wave.n_outputs, self.base * x.sum())
        found[: wave.n_real_outputs] += self.excess * raised
        if wave.has_empty:
            found[wave.n_real_outputs :] += self.excess * self._heights * x[-1]
        return found

    def transposed(self, ratios: Floats) -> Floats:
        """Return M' r, shape (n_entries,).

        Args:
            ratios: shape (m,), not negative.
        """
        inside = ratios[: self.wave.n_real_outputs]
        for length in self._boxes:
            inside = _sums(inside, length)
        found = inside.reshape(self.n_buckets, self.per_bucket).mean(axis=1)
        if self.wave.has_empty:
            found = np.append(found, self._heights @ ratios[self.wave.n_real_outputs :])
        whole: Floats = self.excess * found + self.base * ratios.sum()
        return whole


def _sums(values: Floats, length: int) -> Floats:
    """Return the sums over each `length` neighbours, shape (values - length + 1,)."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    found: Floats = sums[length:] - sums[:-length]
    return found
