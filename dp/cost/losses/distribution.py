"""Privacy loss distributions on a grid, composed by sums of non-negative numbers: they are bounds, never estimates.

For two distributions P and Q the loss of an outcome is L = ln(P / Q); who sees an outcome of P can tell it from Q up to

    delta(epsilon)  =  sum over outcomes of P max(0, 1 - e^(epsilon - L)),

the hockey-stick divergence. Losses of independent outcomes add up, and if for each release of a job (P_i, Q_i) has at
least the hockey-stick divergence of every pair of neighbours at every epsilon, then so has the product for all
releases together, adaptive ones included [ZhuDongWang22, theorem 10]. Where the plan of a job is fixed before it starts
this is the tightest way to account for it [KoskelaJH20].

Nothing here is an estimate. delta grows with every mass and with every loss, so both are rounded up; a loss between
two points of the grid is split between them as [DoroshenkoGKKM22] does ("connect the dots"): with weights a, b that
keep a + b and a e^-lower + b e^-upper. In terms of Q / P, of which max(0, 1 - e^epsilon Q / P) is a convex function,
that spreads a point to two with the same mean, so delta does not fall. All arrays hold numbers that are not negative
and only products and sums of such numbers are formed, whose *relative* error is at most the number of operations times
2^-53, in the tails too. (The convolutions of `dp_accounting` are Fourier transforms: their error is about 1e-16 of the
largest mass, nobody bounds it, and it may make a delta of 1e-15 too small. Tests compare with them.)
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import check_delta

Floats = NDArray[np.float64]

_UNDERFLOW = 2.0**-900
"""More than all products together that are too small for a normal float; counted as lost at each convolution."""

_SLACK = 2.0**-44
"""Relative error allowed for exp and expm1 and the few products about them: `tests/accounting/test_function_errors.py`
measures less than 2^-50 for the functions."""

_MAX_CELLS = 1 << 14
"""Largest number of grid cells of a distribution. If there are more, the lowest losses are rounded up, which is
sound."""


@dataclass(frozen=True)
class Losses:
    """The losses of one release, before they are put on a grid: outcomes with a mass under P and ln(P / Q).

    Attributes:
        masses: shape (n,), at least the probabilities under P.
        losses: shape (n,), at least the losses; finite.
        lost: at least the probability under P of all other outcomes: their loss counts as infinite.
    """

    masses: Floats = field(repr=False)
    losses: Floats = field(repr=False)
    lost: float = 0.0

    @property
    def variance(self) -> float:
        """Approximate standard deviation of the loss. It is used to choose grids; no guarantee depends on it."""
        mean = float(self.masses @ self.losses)
        return max(float(self.masses @ self.losses**2) - mean**2, 0.0)

    def reach(self, tail: float) -> float:
        """Return how far the losses spread that are left when `tail` is cut off on either side. Chooses grids."""
        order = np.argsort(self.losses)
        low, high = _within(self.losses[order], self.masses[order], tail)
        return float(high - low)


@dataclass(frozen=True)
class LossDistribution:
    """Masses at losses `first`, `first` + 1, ... times `step`, all at least as large as the true ones.

    Attributes:
        step: a power of two, so that all losses up to 2^53 steps are exact.
        first: number of the lowest loss.
        masses: shape (n,), not negative.
        lost: mass of infinite loss.
    """

    step: float
    first: int
    masses: Floats = field(repr=False)
    lost: float

    @classmethod
    def of(cls, losses: Losses, step: float, tail: float) -> "LossDistribution":
        """Put losses on a grid.

        With x the distance of a loss to the point below it, h the step: the weights are (e^(h - x) - 1) / (e^h - 1) and
        e^(h - x) (e^x - 1) / (e^h - 1).

        Args:
            losses: losses of one release.
            step: a power of two.
            tail: mass at the upper end that may be counted as lost, and at the lower end that may be given a higher
                loss, to keep the grid short.
        """
        at = np.floor(losses.losses / step)  # exact but for overflow: the step is a power of two
        above = losses.losses - at * step
        whole = math.expm1(step)
        upper = losses.masses * (np.exp(step - above) * np.expm1(above) / whole * (1 + _SLACK))
        lower = losses.masses * (np.expm1(step - above) / whole * (1 + _SLACK))
        order = np.argsort(at)
        place, upper, lower = at[order], upper[order], lower[order]
        first, last = _within(place, upper + lower, tail)
        first = max(first, last - _MAX_CELLS)
        lost = losses.lost + float((upper + lower)[place > last].sum()) * (1 + len(at) * 2.0**-52)
        kept = place <= last
        index = np.maximum(place[kept] - first, 0).astype(np.int64)
        n = int(last - first) + 2
        # What lies below the first point is given its loss, and the weight for the next one with it.
        masses = np.bincount(index, lower[kept], n) + np.bincount(index + 1, upper[kept], n)
        return cls(step, int(first), np.asarray(masses * (1 + (len(at) + 4) * 2.0**-52)), lost)

    def compose(self, other: "LossDistribution", tail: float) -> "LossDistribution":
        """Return the distribution of the sum of both losses.

        Args:
            other: on a grid of the same step.
            tail: see `of`.
        """
        if self.step != other.step:
            raise ValueError("losses on different grids cannot be added")
        n_terms = min(len(self.masses), len(other.masses))
        masses = np.convolve(self.masses, other.masses) * (1 + (n_terms + 4) * 2.0**-52)
        # An outcome is lost if it is lost in either factor: at most the sum of both lost masses, each times the other's
        # total mass.
        mine, theirs = (float(d.masses.sum()) * (1 + len(d.masses) * 2.0**-52) + d.lost for d in (self, other))
        lost = (self.lost * theirs + other.lost * mine) * (1 + 2.0**-50) + _UNDERFLOW
        return LossDistribution(self.step, self.first + other.first, masses, lost)._cut(tail)

    def times(self, n: int, tail: float) -> "LossDistribution":
        """Return the distribution of the sum of n independent such losses, n at least 1."""
        if n < 1:
            raise ValueError(f"a loss cannot be composed {n} times")
        if n == 1:
            return self
        # Mass that is cut off here is counted n / 2 times.
        twice = self.compose(self, 2 * tail / n).times(n // 2, tail)
        return twice.compose(self, tail) if n % 2 else twice

    def delta(self, epsilon: float) -> float:
        """Return delta at `epsilon`, rounded up."""
        if not math.isfinite(epsilon):
            return min(1.0, self.lost)
        gap = epsilon - self._losses()
        seen = gap < 0
        # Each difference is rounded once: as if the loss were a relative 2^-52 of itself larger.
        gap = gap[seen] - (abs(epsilon) + np.abs(gap[seen])) * 2.0**-51
        share = -np.expm1(gap) * (1 + _SLACK)
        found = float(self.masses[seen] @ share) * (1 + (len(share) + 4) * 2.0**-52) + self.lost
        return min(1.0, found * (1 + 2.0**-52))

    def epsilon(self, delta: float) -> float:
        """Return an epsilon whose delta is at most `delta`, within 2^-40 of the least; inf if there is none.

        Raises:
            CalibrationError: delta is out of range.
        """
        check_delta(delta)
        if self.delta(0.0) <= delta:
            return 0.0
        if self.delta(math.inf) > delta:
            return math.inf
        too_small, enough = 0.0, (self.first + len(self.masses)) * self.step
        while enough - too_small > enough * 2.0**-40:
            middle = (too_small + enough) / 2
            if self.delta(middle) <= delta:
                enough = middle
            else:
                too_small = middle
        return enough

    def _losses(self) -> Floats:
        found: Floats = (self.first + np.arange(len(self.masses), dtype=np.float64)) * self.step
        return found

    def _cut(self, tail: float) -> "LossDistribution":
        place = np.arange(len(self.masses), dtype=np.float64)
        low, high = (int(x) for x in _within(place, self.masses, tail))
        low = max(low, high - _MAX_CELLS)
        masses = self.masses[low : high + 1].copy()
        masses[0] += float(self.masses[:low].sum()) * (1 + low * 2.0**-52)
        masses[0] *= 1 + 2.0**-52
        above = self.masses[high + 1 :]
        lost = self.lost + float(above.sum()) * (1 + len(above) * 2.0**-52)
        return LossDistribution(self.step, self.first + low, masses, lost * (1 + 2.0**-52))


def _within(place: Floats, masses: Floats, tail: float) -> tuple[float, float]:
    """Return the lowest and the highest place to keep: beyond each lies at most `tail`.

    Args:
        place: ascending.
        masses: masses at the places.
        tail: mass to cut off on each side.
    """
    below, above = np.cumsum(masses), np.cumsum(masses[::-1])
    low = min(int(np.searchsorted(below, tail)), len(place) - 1)
    high = len(place) - 1 - min(int(np.searchsorted(above, tail)), len(place) - 1)
    return place[low], place[max(high, low)]
