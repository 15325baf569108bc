"""The delta at an epsilon of the noise that jobs use: upper bounds from published lemmas, in interval arithmetic.

| noise | lemma |
| --- | --- |
| Skellam, vector | its Renyi divergence [Agarwal21], converted by [CKS20, proposition 12]; and, where the variance is 256 or more, as a rounded Gaussian with a slack (docs/decisions/029), the Gaussian's delta by [BalleWang18] |
| Skellam, one or two integers that move by a known number | mass by mass (`verify.masses`) |
| shares of discrete Laplace | mass by mass likewise; for several integers the shift by the 1-norm with a whole variable (docs/decisions/023) |

The smallest of the bounds that apply is taken. Sources are those of docs/references.md.
"""  # noqa: E501  # a table

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from verify.interval import Interval, normal_above
from verify.masses import MOST_POINTS, laplace_masses, shifts_delta, skellam_masses

_ONE = Decimal(1)
_ORDERS = sorted({*range(2, 257), *(int(1.05**n) for n in range(114, 340))})
_LEAST_VARIANCE = 256


@dataclass(frozen=True)
class Shifts:
    """Integers that a neighbour moves.

    Attributes:
        shift: bound of how far one moves.
        n_shifts: bound of how many move.
    """

    shift: int
    n_shifts: int


@dataclass(frozen=True)
class SkellamVector:
    """Integers plus independent Skellam noise, with d the differences of neighbours.

    Attributes:
        squares: bound of sum d_i^2 / mu_i.
        squares_second: bound of sum d_i^2 / mu_i^2.
        sizes: bound of sum |d_i| / mu_i.
        sizes_second: bound of sum |d_i| / mu_i^2.
        n_moved: bound of how many integers differ.
        least_mu: least parameter of the noise on one that differs.
        shifts: which integers move, where that is known; all then have `least_mu`.
    """

    squares: Fraction
    squares_second: Fraction
    sizes: Fraction
    sizes_second: Fraction
    n_moved: int
    least_mu: Fraction
    shifts: Shifts | None = None

    def delta(self, epsilon: Fraction) -> Decimal:
        """Return an upper bound of delta at epsilon > 0; 1 where nothing is known."""
        found = min(self._by_renyi(epsilon), self._by_gaussian(epsilon))
        if self.shifts is not None and (exact := self._by_masses(self.shifts, epsilon)) is not None:
            found = min(found, exact)
        return found

    def _by_masses(self, moved: Shifts, epsilon: Fraction) -> Decimal | None:
        n_points = moved.shift + math.isqrt(int(2 * self.least_mu * 200)) + 120
        if n_points > MOST_POINTS:
            return None
        masses = skellam_masses(self.least_mu, n_points)
        return None if masses is None else shifts_delta(masses, moved.shift, moved.n_shifts, epsilon)

    def _renyi(self, order: int) -> Fraction:
        """Return a d^2 / (4 mu) + min(((2 a - 1) d^2 + 6 |d|) / (16 mu^2), 3 |d| / (4 mu)), summed."""
        second = min(((2 * order - 1) * self.squares_second + 6 * self.sizes_second) / 16, 3 * self.sizes / 4)
        return order * self.squares / 4 + second

    def _by_renyi(self, epsilon: Fraction) -> Decimal:
        """Return exp((a - 1) (R - epsilon)) (1 - 1/a)^(a - 1) / a at the order that a search in floats finds best."""

        def exponent(order: int) -> float:
            lost = (order - 1) * (float(self._renyi(order)) - float(epsilon))
            return lost + (order - 1) * math.log1p(-1 / order) - math.log(order)

        a = min(_ORDERS, key=exponent)
        base = (Interval.of(Fraction(a - 1, a)).ln() * (a - 1) + (a - 1) * (self._renyi(a) - epsilon)).exp()
        found: Decimal = (base / a).high
        return min(_ONE, found)

    def _by_gaussian(self, epsilon: Fraction) -> Decimal:
        """Return e^h_P delta_G(epsilon - h_P - h_Q) + t_P + e^(epsilon - h_Q) t_Q for the best of some t_P.

        Each t_Q is t_P e^-epsilon, so the last two terms are at most 2 t_P.
        """
        best = _ONE
        for bits in (20, 30, 40, 50, 60):
            log = Interval.of(2).ln() * bits
            slack = self._slack(log, log + epsilon)
            if slack is not None:
                mine, other = slack
                rest = epsilon - mine - other
                if rest.low > 0:
                    found = mine.exp() * gaussian_delta(rest, self.squares / 2) + 2 * (-log).exp()
                    best = min(best, found.high)
        return best

    def _slack(self, log_one: Interval, log_other: Interval) -> tuple[Interval, Interval] | None:
        """Return h_P and h_Q for t_P = e^-log_one, t_Q = e^-log_other by decision 029; None where it does not apply."""
        z, n = Interval.of(2 * self.least_mu), self.n_moved
        found = []
        for log, is_other in ((log_one, False), (log_other, True)):
            half = log + Interval.of(2).ln()  # one half for the sum, one for what lies beyond K
            tail = half + Interval.of(2 * n).ln()
            if z.low < _LEAST_VARIANCE or tail.high > z.low:
                return None
            x2 = 2 * tail * (1 + tail / (2 * z))
            upper = (25 + x2 * x2) / 24 / z
            bound = (Fraction(7, 12) * x2 + Fraction(1, 50)) / z if is_other else upper
            if upper.high > 100:
                return None
            second = 2 / (z * z) * (upper.exp() if is_other else Interval.of(1))
            found.append(self._of_sum(bound, second, half))
        return found[0], found[1]

    def _of_sum(self, bound: Interval, second: Interval, log: Interval) -> Interval:
        """Return what the sum of n losses exceeds with probability e^-log at most (Chernoff, at the best s)."""
        n, best = self.n_moved, self.n_moved * bound
        widest = float(bound.high)
        middle = math.sqrt(2 * float(log.high) / (n * float(second.high)))
        for s in sorted({min(middle * factor, 8 / widest) for factor in (0.25, 0.5, 1.0, 2.0)}):
            at = Interval.of(s)
            moment = n * (at + 1) / 2 * ((at + 2) * bound).exp() * second
            best = best.least((-log).exp() + moment + log / at)
        return best


@dataclass(frozen=True)
class LaplaceVector:
    """Integers plus independent sums of shares of discrete Laplace noise.

    Attributes:
        l1: bound of the sum of the sizes of the differences.
        shape: total shape of the shares, at least 1.
        mean: mean of a geometric variable of their ratio.
        shifts: which integers move, where that is known.
    """

    l1: int
    shape: Fraction
    mean: Fraction
    shifts: Shifts | None = None

    def delta(self, epsilon: Fraction) -> Decimal:
        """Return an upper bound of delta at epsilon > 0; 1 where nothing is known."""
        per_unit = (1 + Interval.of(1 / self.mean)).ln()
        if (self.l1 * per_unit).high <= Interval.of(epsilon).low:
            return Decimal(0)
        ways = [(self.shape, self.shifts), (Fraction(1), self.shifts), (Fraction(1), Shifts(self.l1, 1))]
        found: list[Decimal] = [_ONE]
        for shape, moved in ways:
            if moved is None:
                continue
            n_points = 2 * moved.shift + int(100 * (1 + self.mean) + 40 * shape) + 64
            masses = laplace_masses(shape, self.mean, n_points) if n_points <= MOST_POINTS else None
            exact = None if masses is None else shifts_delta(masses, moved.shift, moved.n_shifts, epsilon)
            found += [] if exact is None else [exact]
        return min(found)


def gaussian_delta(epsilon: Interval, squared_distance: Fraction) -> Interval:
    """Return Phi(D / 2 - epsilon / D) - e^epsilon Phi(-D / 2 - epsilon / D), at least 0.

    Args:
        epsilon: positive.
        squared_distance: D^2, positive.
    """
    distance = Interval.of(squared_distance).sqrt()
    first = normal_above(epsilon / distance - distance / 2)
    found = first - epsilon.exp() * normal_above(epsilon / distance + distance / 2)
    return Interval(max(found.low, Decimal(0)), max(found.high, Decimal(0)))
