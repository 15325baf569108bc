"""The transition of a wave as two products, M x and M' r, without its matrix."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from dp.local_mechanism.wave import Wave

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WaveOperator:
    """M[j, b] = P(output j | a value in bucket b), for values that are spread evenly over the inputs of a bucket.

    Attributes:
        wave: d inputs.
        n_buckets: n, which divides d. With n = d buckets are inputs; with fewer, values are randomized on the finer
            grid and columns of M are averages over d / n inputs.
    """

    wave: Wave
    n_buckets: int

    def __post_init__(self) -> None:
        if self.n_buckets < 2 or self.wave.n_inputs % self.n_buckets:
            raise ValueError(f"{self.n_buckets} buckets do not divide {self.wave.n_inputs} inputs")

    @property
    def is_plain_square(self) -> bool:
        """Whether the compiled loops of `analyses.distribution.estimates.kernels` know this transition."""
        return self.wave.is_square and self.n_buckets == self.wave.n_inputs

    @property
    def n_entries(self) -> int:
        """Number of entries of x: the buckets, and one more for the empty input if there is one."""
        return self.n_buckets + self.wave.has_empty

    @property
    def base(self) -> float:
        """B / T."""
        return self.wave.other / self.wave.total

    @cached_property
    def excess(self) -> Floats:
        """(a_z - B) / T."""
        return (np.array(self.wave.window, dtype=np.float64) - self.wave.other) / self.wave.total

    @cached_property
    def _transform_size(self) -> int:
        return int(scipy.fft.next_fast_len(self.wave.n_real_outputs, real=True))

    @cached_property
    def _excess_transform(self) -> NDArray[np.complex128]:
        found: NDArray[np.complex128] = scipy.fft.rfft(self.excess, self._transform_size)
        return found

    def densities(self, x: Floats) -> Floats:
        """Return M x, shape (m,).

        Args:
            x: shape (n_entries,), not negative.
        """
        wave, per_bucket = self.wave, self.wave.n_inputs // self.n_buckets
        inputs = np.repeat(x[: self.n_buckets] / per_bucket, per_bucket)
        found = np.full(wave.n_outputs, self.base * x.sum())
        if wave.is_square:
            k = len(wave.window)
            sums = np.concatenate([np.zeros(k), np.cumsum(inputs), np.full(k - 1, inputs.sum())])
            found[: wave.n_real_outputs] += self.excess[0] * (sums[k:] - sums[:-k])
        else:
            product = scipy.fft.rfft(inputs, self._transform_size) * self._excess_transform
            found[: wave.n_real_outputs] += scipy.fft.irfft(product, self._transform_size)[: wave.n_real_outputs]
        if wave.has_empty:
            found[wave.n_real_outputs :] += self.excess * x[-1]
        return found

    def transposed(self, ratios: Floats) -> Floats:
        """Return M' r, shape (n_entries,).

        Args:
            ratios: shape (m,), not negative.
        """
        wave, per_bucket = self.wave, self.wave.n_inputs // self.n_buckets
        real, k = ratios[: wave.n_real_outputs], len(wave.window)
        if wave.is_square:
            sums = np.concatenate([[0.0], np.cumsum(real)])
            inside = self.excess[0] * (sums[k:] - sums[:-k])
        else:
            product = scipy.fft.rfft(real, self._transform_size) * self._excess_transform.conj()
            inside = scipy.fft.irfft(product, self._transform_size)[: wave.n_inputs]
        found = inside.reshape(self.n_buckets, per_bucket).mean(axis=1)
        if wave.has_empty:
            found = np.append(found, self.excess @ ratios[wave.n_real_outputs :])
        whole: Floats = found + self.base * ratios.sum()
        return whole
