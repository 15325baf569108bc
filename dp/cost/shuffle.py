"""What local responses cost whom who sees only how often each output came up: a third view, never that of who collects.

n respondents answer by a mechanism of integer weights (`dp.local_mechanism.wave`): each output has at least the
weight B of T, so with probability gamma = m B / T a response is uniform over the m outputs, whatever the input: a
*privacy blanket* [BalleBGN19]. For two inputs x and y of one respondent, whatever the others' inputs are,

    delta(epsilon)  <=  E[(S)+] / (gamma n),        S the sum of n independent terms,

each 0 with probability 1 - gamma, and else m (mu_x(J) - e^epsilon mu_y(J)) at a uniform output J, with mu the law of a
response [BalleBGN19, lemmas 5.2 and 5.3]. (How many terms are not 0 is Binomial(n, gamma), and P(Bin(n - 1, gamma) = k)
/ (k + 1) = P(Bin(n, gamma) = k + 1) / (gamma n).)

**Whom it is about.** Somebody who sees the counts of all outputs and nothing else, where the coordinator is honest.
Never the coordinator itself, which sees names with responses. n leaves out who colludes with who sees the counts.

The expectation is bounded from above at every step:

* Terms lie on no common grid. Each value is split to the two grid points about it with weights that keep its mean: the
  new term is larger in convex order, so is the sum, and (s)+ is convex.
* The law of the sum is a power of a characteristic function. Its values are sums of a few exponentials, computed
  directly, each with an error below 2^-46; the power's error is that times n |phi|^(n-1), and is added. The transform
  back errs by less than 2^-46 times the logarithm of its length, in Euclidean norm [Higham02, theorem 24.2].
* The grid is cyclic. What lies below it wraps to larger values, which is sound. What lies above is bounded by
  exponential moments: E[s; s > h] <= (h + 1/t) e^(-t h) E[e^(t s)] for every t > 0, as s <= h + e^(t (s - h)) / t.
"""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import CalibrationError, check_delta

Floats = NDArray[np.float64]

_UNIT = 2.0**-46
_STEPS_PER_TERM = 64
"""Grid points within the largest size of a term."""

_REACH = 9
"""Standard deviations of the sum on each side of its mean that the grid covers, at least."""

_MAX_CELLS = 1 << 23


def shuffled_delta(weights: Sequence[Sequence[int]], other: int, n: int, epsilon: float) -> float:
    """Return a bound of delta for who sees the counts of n responses, rounded up.

    Args:
        weights: weights of the outputs for two inputs x and y, with one sum T. The bound is for both directions.
        other: B, the least weight that any input gives to any output.
        n: responses that the onlooker does not know, at least 1.
        epsilon: not negative.

    Raises:
        CalibrationError: n or epsilon is out of range, or the weights are no two rows of one table.
    """
    x, y = (list(map(int, row)) for row in weights)
    if n < 1 or not 0 <= epsilon < 700:
        raise CalibrationError(f"{n} responses at epsilon {epsilon:g} have no bound")
    if len(x) != len(y) or sum(x) != sum(y) or not 1 <= other <= min(*x, *y):
        raise CalibrationError("rows of a table have one sum, and no weight below the least one")
    found = _delta_one_way(x, y, other, n, epsilon)
    if Counter(zip(x, y, strict=True)) != Counter(zip(y, x, strict=True)):  # else both directions have the same terms
        found = max(found, _delta_one_way(y, x, other, n, epsilon))
    return min(1.0, found)


def shuffled_epsilon(weights: Sequence[Sequence[int]], other: int, n: int, delta: float) -> float:
    """Return an epsilon whose bound of delta is at most `delta`: at most that of one response, however many there are.

    Args:
        weights: see `shuffled_delta`.
        other: B.
        n: responses that the onlooker does not know, at least 1.
        delta: strictly between 0 and 1.

    Raises:
        CalibrationError: an argument is out of range.
    """
    check_delta(delta)
    x, y = weights
    local = max(abs(math.log(a / b)) for a, b in zip(x, y, strict=True)) * (1 + 2.0**-45)
    if shuffled_delta(weights, other, n, 0.0) <= delta:
        return 0.0
    too_small, enough = 0.0, local
    while enough - too_small > enough * 2.0**-8:
        middle = (too_small + enough) / 2
        if shuffled_delta(weights, other, n, middle) <= delta:
            enough = middle
        else:
            too_small = middle
    return enough


def farthest_rows(window: Sequence[int], other: int, n_inputs: int) -> tuple[list[int], list[int]]:
    """Return the rows of the first and the last input of a square wave: the two that cost most.

    Proof. Two windows of k outputs that share o of them have o outputs with A in both, m - 2 k + o with B in both, k -
    o with (A, B) and as many with (B, A). One output less in common turns two values m A (1 - e) / T and m B (1 - e) /
    T of a term, e = e^epsilon >= 1, into m (A - e B) / T and m (B - e A) / T, which have the same sum, and of which one
    is larger than both and the other smaller than both. That is larger in convex order, so the bound grows.

    Args:
        window: the weights A, all alike.
        other: B.
        n_inputs: d.
    """
    if min(window) != max(window):
        raise CalibrationError("which inputs cost most is proven for square waves")
    outside = [other] * (n_inputs - 1)
    return [*window, *outside], [*outside, *window]


def _delta_one_way(x: Sequence[int], y: Sequence[int], other: int, n: int, epsilon: float) -> float:
    m, total = len(x), sum(x)
    gamma = Fraction(m * other, total)
    if gamma == 1:
        return 0.0
    # m mu = a / (T / m); the terms differ by which pair of weights the uniform output has.
    pairs, numbers = np.unique(np.stack([x, y], axis=1), axis=0, return_counts=True)
    factor = math.exp(epsilon)
    terms = (pairs[:, 0] - factor * pairs[:, 1]) * (m / total)
    # The terms' rounding errors shift the sum by a relative 2^-50 of its parts: as if each were that much larger.
    terms = terms + np.abs(pairs @ [1.0, factor]) * (m / total) * 2.0**-49
    chances = numbers / m * float(gamma)
    expected = _positive_part(terms, chances, n)
    return expected / float(gamma) / n * (1 + 2.0**-40)


def _positive_part(terms: Floats, chances: Floats, n: int) -> float:
    """Return a bound of E[(S)+], S the sum of n terms with these chances, 0 otherwise."""
    step, masses_at = _grid(terms, chances, n)
    mean = n * sum(place * mass for place, mass in masses_at.items()) * step
    spread = math.sqrt(n * sum((place * step) ** 2 * mass for place, mass in masses_at.items()))
    largest = max(masses_at) * step
    reach = _REACH * spread + 4 * largest
    high = max(mean + reach, reach / 4)
    low = min(mean - reach, 0.0)
    size = 1 << max(6, math.ceil(math.log2((high - low) / step + 2)))
    if size > _MAX_CELLS:
        raise CalibrationError("too many responses for the grid of this bound; state it for fewer of them")
    first = math.floor(low / step)
    log_phi = _log_characteristic(masses_at, size)
    power = np.exp(n * log_phi)
    # S is stored at its number of steps modulo the size.
    masses = np.fft.irfft(power, size)
    values = (first + (np.arange(size) - first) % size) * step
    positive = np.maximum(values, 0.0)
    found = float(positive @ np.maximum(masses, 0.0))
    # Error of the powers: at most _UNIT n |phi|^(n-1) each, so their mean in every mass; of the transform: in norm.
    of_powers = _UNIT * n * float(np.mean(np.exp((n - 1) * log_phi.real)))
    of_transform = _UNIT * math.log2(size) * float(np.linalg.norm(masses))
    found += of_powers * float(positive.sum()) + of_transform * float(np.linalg.norm(positive))
    return found + _beyond(masses_at, step, n, (first + size - 1) * step)


def _grid(terms: Floats, chances: Floats, n: int) -> tuple[float, dict[int, float]]:
    """Return a step and the masses at its multiples, split so that means are kept; 0 holds the rest."""
    step = float(np.abs(terms).max()) / _STEPS_PER_TERM
    masses: dict[int, float] = {}
    for term, chance in zip(terms.tolist(), chances.tolist(), strict=True):
        below = math.floor(term / step)
        part = term / step - below
        masses[below] = masses.get(below, 0.0) + chance * (1 - part)
        masses[below + 1] = masses.get(below + 1, 0.0) + chance * part
    masses[0] = masses.get(0, 0.0) + max(0.0, 1 - float(chances.sum()))
    return step, masses


def _log_characteristic(masses: dict[int, float], size: int) -> NDArray[np.complex128]:
    """Return ln phi at the frequencies f / size, f = 0 .. size / 2."""
    frequencies = np.arange(size // 2 + 1)
    found = np.zeros(len(frequencies), dtype=np.complex128)
    for place, mass in masses.items():
        found += mass * np.exp(-2j * np.pi * ((frequencies * place) % size) / size)
    tiny = np.abs(found) < 1e-300
    return np.asarray(np.log(np.where(tiny, 1e-300, found)), dtype=np.complex128)


def _beyond(masses: dict[int, float], step: float, n: int, high: float) -> float:
    """Return a bound of E[S; S > high], over a few exponents."""
    places = np.array(list(masses)) * step
    chances = np.array(list(masses.values()))
    least = math.inf
    for t in np.geomspace(1e-6, 50, 160) / max(1e-300, float(places.max())):
        exponents = t * places
        top = float(exponents.max())
        log_moment = top + math.log(float(chances @ np.exp(exponents - top)))
        least = min(least, math.log(high + 1 / t) - t * high + n * log_moment)
    return math.exp(min(least, 700.0)) * (1 + 2.0**-30)
