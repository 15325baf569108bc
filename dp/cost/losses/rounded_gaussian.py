"""Skellam and discrete Gaussian noise of large variance on vectors, charged as rounded Gaussians with a proven slack.

**The rounded Gaussian.** x + round(N) = round(x + N) for integers x. So a release of integers plus rounded Gaussian
noise is post-processing of one with Gaussian noise, and costs at most that: with differences d_i of neighbours and
variances s_i, whatever the number of coordinates, the exact (epsilon, delta) of a Gaussian at distance
D = sqrt(sum d_i^2 / s_i) [BalleWang18],

    delta_G(epsilon)  =  Phi(D / 2 - epsilon / D) - e^epsilon Phi(-D / 2 - epsilon / D).

Adaptive releases of distances D_1, D_2, ... that are fixed beforehand cost what one of sqrt(D_1^2 + D_2^2 + ...) costs
[DongRothSu22].

**The exchange.** P is Sk(mu), z = 2 mu its variance, Q the rounded Gaussian of variance z, L = ln(P / Q). Coordinates
that no neighbour moves keep their noise, which is alike in both worlds. On the at most n others, over all releases, let

    the sum of L exceed h_P, or a coordinate lie beyond K, with probability t_P at most under P, and
    the sum of -L exceed h_Q, or a coordinate lie beyond K, with probability t_Q at most under Q.

Noise and what was released determine each other, so for each set S of what is seen in the worlds 0 and 1

    P_1(S)  <=  e^h_P Q_1(S) + t_P,    Q_1(S)  <=  e^e Q_0(S) + delta_G(e),    Q_0(S)  <=  e^h_Q P_0(S) + t_Q.

Hence at epsilon = e + h_P + h_Q

    delta(epsilon)  <=  e^h_P delta_G(e) + t_P + e^(epsilon - h_Q) t_Q.

Which coordinates move may depend on what was released before: what follows bounds each factor given the past.

**One coordinate.** With x = k / sqrt(z), and M(x) = max(U(x), W(x)),

    z L(k)  <=  U(x) = (25 + x^4) / 24,        -z L(k)  <=  W(x) = 7 x^2 / 12 + 1 / 50          (z >= 256).

Proof, with what `dp.cost.losses.skellam` has about P. G(k) >= k^2 / (2 z) - k^4 / (24 z^3), as
asinh(t) >= t - t^3 / 6; and P(0) sqrt(2 pi z) <= 1 + 1 / z. Sums of the lower bounds of ratios, with asinh(t) <= t, are
ln P(k) >= ln P(0) - k^2 / (2 z) - k (k + 1) / (2 z^2). From the integral of the Bessel function and
sin(t) <= t, P(0) = 1/pi times the integral over 0 .. pi of e^(-2 z sin(t / 2)^2)
>= erf(pi sqrt(z / 2)) / sqrt(2 pi z), and 1 - erf(y) <= e^(-y^2). The mass of Q is the density f at k times the mean of
e^(-(2 k u + u^2) / (2 z)) over |u| <= 1/2: at least e^(-1 / (24 z)) by Jensen's inequality, and at most
sinh(k / (2 z)) / (k / (2 z)) <= e^(k^2 / (24 z^2)). Differences, with |k| / (2 z) <= x^2 / 24 + 3 / (2 z), are the two
bounds.

**Tails.** P(|k| >= K) <= 2 e^-G(K) (Chernoff), and the same holds for Q. G(K) >= t for K^2 = 2 z t (1 + t / (2 z)) and
t <= z, by the bound of G above.

**The sum.** With r = P / Q, a = 1 + s and all sums over |k| <= K,

    sum P r^s  =  sum Q r^a  <=  1 + s Q(|k| > K) + sum Q (r^a - 1 - a (r - 1)).

The last bracket is at most a (a - 1) / 2 L^2 e^((a + 1) b) where L <= b: as a function of L it and its slope are 0 at
0, and its second derivative is at most a (a - 1) (1 + max(L, 0)) e^(a max(L, 0)). The mean of L^2 under Q is at most
V = E M(|N| + 1/32)^2 / z^2 <= 2 / z^2, N standard normal, as rounding moves x by at most 1 / (2 sqrt(z)) and M grows.
So by Chernoff's inequality, over n coordinates, with b = U(K / sqrt(z)) / z,

    h_P  =  min( n b,  n s_tail + n (s + 1) / 2 e^((s + 2) b) V + ln(1 / t) / s )      for any s > 0

has probability at most t of being exceeded. For h_Q exchange P and Q: b = W(K / sqrt(z)) / z, and the mean of L^2 under
P is at most e^(U(K / sqrt(z)) / z) times that under Q. Sums of coordinates of different z add up in the exponent.

**Discrete Gaussian noise.** The same bounds hold where P is the discrete Gaussian of parameter z, on some coordinates
or on all: P(k) = e^(-k^2 / (2 z)) / S, by Poisson summation sqrt(2 pi z) <= S <= sqrt(2 pi z) (1 + 3 e^(-2 pi^2 z)).
With the bounds of the mass of Q above, z L <= 1/24 <= U(x), and -z L <= x^2 / 24 + 3 z e^(-2 pi^2 z) <= W(x). It is
subgaussian, P(|k| >= K) <= 2 e^(-K^2 / (2 z)) [CKS20], which is at most 2 e^-t at the K above.

The slack falls with the variance, as sqrt(n) / z for many coordinates and 1 / z for few; it is nothing beside epsilon
where a lattice is fine. Where it is not, the Renyi curve is the smaller bound.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from dp.cost.accounting import round_up

LEAST_VARIANCE = 256
"""Below, nothing is proven."""

SECOND_MOMENT = 2.0
"""At least E M(|N| + 1/32)^2: see `tests/accounting/test_rounded_gaussian.py`."""

_FRACTION = 2.0**-12
"""Parts of delta for what is unlikely under P, and under Q."""

_SLACK = 2.0**-36
"""Relative error allowed for a value of Phi at arguments down to -38, and far more than there is for all else."""

_LOWEST = -37.0
_MOST_EXPONENT = 100.0
"""Maximum of a ratio: a larger one is no useful bound."""

_MOST_VARIANCE = Fraction(10**100)
"""More is taken for this much."""

_TRIES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5, 7.0)


def upper(x: float) -> float:
    """Return U(x), the bound of z ln(P / Q)."""
    return (25 + x**4) / 24


def lower(x: float) -> float:
    """Return W(x), the bound of -z ln(P / Q)."""
    return 7 * x**2 / 12 + 0.02


def gaussian_delta(epsilon: float, distance: float) -> float:
    """Return delta_G at epsilon >= 0, rounded up.

    Args:
        epsilon: epsilon of the guarantee.
        distance: distance of the means over the standard deviation; positive.
    """
    first = distance / 2 - epsilon / distance
    if first < _LOWEST:
        return 1e-290
    second = first - distance
    found = _phi(first) * (1 + _SLACK)
    if second > _LOWEST and epsilon < 700:
        found -= math.exp(epsilon) * _phi(second) * (1 - _SLACK)
    return min(1.0, max(found, 0.0) * (1 + _SLACK) + 1e-290)


def _phi(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


@dataclass(frozen=True)
class Exchanged:
    """Noise on the numbers of releases that neighbours move, to be taken for rounded Gaussian noise.

    Attributes:
        variances: with the number of coordinates that have it, or more, and move.
    """

    variances: tuple[tuple[float, int], ...]

    def slack(self, log_one: float, log_other: float) -> tuple[float, float] | None:
        """Return h_P and h_Q for probabilities t_P and t_Q; None where nothing is proven.

        Args:
            log_one: ln(1 / t_P).
            log_other: ln(1 / t_Q).
        """
        least, n_all = min(z for z, _ in self.variances), sum(n for _, n in self.variances)
        # Half of each probability for the sum, and half for what lies beyond K: 2 n e^-G(K).
        halves = [log + math.log(2) for log in (log_one, log_other)]
        tails = [half + math.log(2 * n_all) for half in halves]
        if least < LEAST_VARIANCE or max(tails) > least:
            return None
        found = []
        if upper(math.sqrt(4 * max(tails))) / least > _MOST_EXPONENT:
            return None
        for half, tail, bound in zip(halves, tails, (upper, lower), strict=True):
            most = [(z, n, math.sqrt(2 * tail * (1 + tail / (2 * z)))) for z, n in self.variances]
            parts = []
            for z, n, x in most:
                # The other mean of L^2 than that of Q is larger by the largest ratio.
                more = math.exp(upper(x) / z) if bound is lower else 1.0
                parts.append((n, bound(x) / z, SECOND_MOMENT / z**2 * more))
            found.append(_sum_bound(parts, half))
        return found[0], found[1]


def _sum_bound(parts: list[tuple[int, float, float]], log: float) -> float:
    """Return a value that the sum of L over all coordinates exceeds with probability e^-log at most.

    Args:
        parts: numbers of coordinates, with b and V of each.
        log: the probability that a coordinate lies beyond K is at most e^-log, too.
    """
    found = math.fsum(n * b for n, b, _ in parts)
    widest, second = max(b for _, b, _ in parts), math.fsum(n * v for n, _, v in parts)
    best = math.sqrt(2 * log / second)
    for s in sorted({min(best, wide / widest) for wide in _TRIES}):
        moment = math.fsum(n * (s + 1) / 2 * math.exp((s + 2) * b) * v for n, b, v in parts)
        found = min(found, math.exp(-log) + moment + log / s)
    return found * (1 + _SLACK)


@dataclass(frozen=True)
class RoundedGaussian:
    """Releases of integers with Skellam or discrete Gaussian noise, charged as Gaussian ones with the slack.

    Attributes:
        distance: D, of all releases together.
        exchanged: the noise on what neighbours move.
    """

    distance: float
    exchanged: Exchanged

    @classmethod
    def of(cls, releases: Iterable[tuple[Fraction, Fraction, int]]) -> Self | None:
        """Return the releases together; None where nothing moves.

        Args:
            releases: for each release: sum d_i^2 / mu_i with the noise's variances 2 mu_i, the smallest mu_i where a
                number moves, and how many move at most.
        """
        squares, numbers = Fraction(0), dict[Fraction, int]()
        for of_squares, mu, n_moved in releases:
            squares += of_squares
            numbers[mu] = numbers.get(mu, 0) + n_moved
        if squares == 0:
            return None
        variances = tuple((float(min(2 * mu, _MOST_VARIANCE)) * (1 - 2.0**-50), n) for mu, n in sorted(numbers.items()))
        return cls(math.sqrt(round_up(squares / 2)) * (1 + 2.0**-50), Exchanged(variances))

    def covers(self, epsilon: float, delta: float) -> bool:
        """Whether the releases are (epsilon, delta)-private by this bound."""
        return self._delta(epsilon, delta) <= delta

    def delta(self, epsilon: float) -> float:
        """Return a delta at `epsilon`; 1 where nothing better is proven."""
        return min(1.0, self._delta(epsilon, gaussian_delta(epsilon, self.distance)))

    def epsilon(self, delta: float, most: float) -> float:
        """Return an epsilon at `delta`, within 2^-40 of the least; inf if `most` is not enough."""
        if not self.covers(most, delta):
            return math.inf
        too_small, enough = 0.0, most
        while enough - too_small > enough * 2.0**-40:
            middle = (too_small + enough) / 2
            if self.covers(middle, delta):
                enough = middle
            else:
                too_small = middle
        return enough

    def _delta(self, epsilon: float, near: float) -> float:
        """Return the bound of delta for t_P = share * near and t_Q = share * near * e^-epsilon; any `near` is sound."""
        log = -math.log(_FRACTION * near)
        slack = self.exchanged.slack(log, log + epsilon)
        if slack is None or sum(slack) >= min(epsilon, _MOST_EXPONENT):
            return math.inf
        mine, other = slack
        rest = (epsilon - mine - other) * (1 - 2.0**-50)
        found = math.exp(mine) * gaussian_delta(rest, self.distance) + 2 * _FRACTION * near
        return found * (1 + _SLACK)
