"""Exact laws of integer noise, and of sums of independent variables with finitely many values: what audits compare to.

Probabilities are sums of positive terms in double precision: scipy's scaled Bessel function for Skellam noise, a normed
geometric or Gaussian series for the two others, and direct convolution (no Fourier transform, which would leave
absolute errors). `tests/unit/dp/audit/test_exact_law.py` compares them with mpmath at 40 digits; `SLACK` covers the
rest.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import ive

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SLACK = 1e-9
"""More than the error of any probability computed here; whoever tests a claim allows for it."""

_REACH = 9.5  # standard deviations on each side: what lies beyond has a probability below 1e-20, or 1e-13 for Laplace
_MIN_MASS = 1e-18  # ends of a convolution below it are cut off; fewer than 2^20 of them


@dataclass(frozen=True)
class Law:
    """The distribution of an integer variable.

    Attributes:
        start: the smallest value.
        masses: shape (values,), the probabilities of start, start + 1, ...; they add up to 1 but for `SLACK`.
    """

    start: int
    masses: Floats

    @property
    def stop(self) -> int:
        """One more than the largest value."""
        return self.start + len(self.masses)

    def __add__(self, other: "Law") -> "Law":
        """Return the law of the sum of two independent variables."""
        return _trimmed(self.start + other.start, np.convolve(self.masses, other.masses))

    def times(self, n: int) -> "Law":
        """Return the law of the sum of n independent copies, n >= 0."""
        total, power = Law(0, np.ones(1)), self
        while n:
            if n % 2:
                total = total + power
            n //= 2
            if n:
                power = power + power
        return total

    def scaled(self, factor: int) -> "Law":
        """Return the law of `factor` times the variable; the factor is not 0."""
        spread = np.zeros((len(self.masses) - 1) * abs(factor) + 1)
        spread[:: abs(factor)] = self.masses if factor > 0 else self.masses[::-1]
        return Law(factor * (self.start if factor > 0 else self.stop - 1), spread)

    def shifted(self, distance: int) -> "Law":
        """Return the law of the variable plus a constant."""
        return Law(self.start + distance, self.masses)

    def within(self, start: int, stop: int) -> Floats:
        """Return the masses of start .. stop - 1; what lies outside is added to the nearest of them."""
        at = np.clip(np.arange(self.start, self.stop), start, stop - 1) - start
        found: Floats = np.bincount(at, self.masses, minlength=stop - start).astype(np.float64)
        return found


def skellam(mu: int | Fraction) -> Law:
    """Return the law of Sk(mu), the difference of two Poisson(mu) variables: e^(-2 mu) I_k(2 mu)."""
    reach = math.ceil(_REACH * math.sqrt(2 * mu)) + 30
    k = np.arange(-reach, reach + 1)
    return Law(-reach, ive(np.abs(k), 2 * float(mu)))


def discrete_gaussian(variance: int | Fraction) -> Law:
    """Return the law with masses proportional to exp(-k^2 / (2 variance))."""
    reach = math.ceil(_REACH * math.sqrt(variance)) + 10
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-(k**2) / (2 * float(variance)))
    return Law(-reach, weights / weights.sum())


def discrete_laplace(scale: int | Fraction) -> Law:
    """Return the law with masses proportional to exp(-|k| / scale)."""
    reach = math.ceil(32 * float(scale)) + 10
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-np.abs(k) / float(scale))
    return Law(-reach, weights / weights.sum())


def laplace_shares(shape: int | Fraction, mean: int | Fraction) -> Law:
    """Return the law of the difference of two Polya variables of a shape and of ratio r = mean / (1 + mean).

    P(x) = sum over j of polya(j) polya(j + x), polya(j) = (1 - r)^k r^j k (k + 1) ... (k + j - 1) / j!.
    """
    k, s = float(shape), float(mean)
    n = math.ceil((32 + k * math.log(4)) / math.log1p(0.75 / s)) + 10
    j = np.arange(1, n)
    polya = np.exp(np.concatenate([[0.0], np.cumsum(np.log((j - 1 + k) / j * (s / (1 + s))))]) - k * math.log1p(s))
    return _trimmed(1 - n, np.convolve(polya, polya[::-1]))


def total(laws: Iterable[Law]) -> Law:
    """Return the law of the sum of independent variables."""
    found = Law(0, np.ones(1))
    for law in laws:
        found = found + law
    return found


def mixture(parts: Iterable[tuple[float, Law]]) -> Law:
    """Return the law of a variable that has each law with a probability."""
    chosen = list(parts)
    start, stop = min(law.start for _, law in chosen), max(law.stop for _, law in chosen)
    masses = np.zeros(stop - start)
    for probability, law in chosen:
        masses[law.start - start : law.stop - start] += probability * law.masses
    return Law(start, masses)


def pushed(masses: Floats, table: Integers) -> Law:
    """Return the law of table[X] where X has the masses."""
    start = int(table.min())
    return Law(start, np.bincount(table - start, masses).astype(np.float64))


def hockey_stick(likelier: Floats, other: Floats, epsilon: float) -> float:
    """Return sum (P - e^epsilon Q)+, the least delta with which P exceeds e^epsilon Q nowhere: exact, but for `SLACK`.

    Args:
        likelier: P, probabilities of some outcomes.
        other: Q, of the same ones.
        epsilon: at least 0.
    """
    return float(np.maximum(likelier - math.exp(epsilon) * other, 0.0).sum())


def _trimmed(start: int, masses: Floats) -> Law:
    seen = np.flatnonzero(masses > _MIN_MASS)
    if not len(seen):
        return Law(start, masses)
    return Law(start + int(seen[0]), masses[seen[0] : seen[-1] + 1])
