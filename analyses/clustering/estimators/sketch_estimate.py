"""Estimates from cardinality sketches: the sizes of clusters, and of intersections of clusters of two parties.

Sketches are levels of `dp.mechanism.cardinality`: per sketch the largest of N geometric variables, 1 .. 33, at least a
floor. With F(r) = 1 - 2^-r, F(33) = 1, a level is at most r with probability F(r)^N.

Two ways. `complement_cardinality` takes the harmonic mean of [VertClust23] with its constant put right. Maximum
likelihood is more exact, and looks at two clusters together: users that they have in common make their levels equal,
which says far more of a small intersection than the difference of two large unions does.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dp.mechanism.cardinality import HIGHEST, Levels

Floats = NDArray[np.float64]

_LEVELS = np.arange(HIGHEST + 1)
_LOG_F = np.concatenate([[-np.inf], np.log1p(-(0.5 ** np.arange(1.0, HIGHEST))), [0.0]])
_BIAS = 2 * np.log(2.0)
"""c = (1 + gamma) ln(1 + gamma) / gamma at gamma = 1: 2^level has a harmonic mean of c N for large N."""

_MOST = 2.0**31
_MAX_AT_ONCE = 1 << 20
_MIN_MASS = 1e-300
_GOLDEN_STEPS = 60
_GOLDEN = (np.sqrt(5.0) - 1) / 2


def complement_cardinality(levels: Sequence[Levels]) -> Floats:
    """Return N for every choice of one cluster per party: of the union of all other clusters [VertClust23, alg. 4].

    The largest level of several clusters is that of their union.

    Args:
        levels: levels of each of S parties under the same keys, shape (M, k).

    Returns:
        shape (k,) * S.
    """
    n_sketches, k = levels[0].shape
    others = []
    for of_party in levels:
        in_order = np.sort(of_party, axis=1)
        largest, second = in_order[:, -1:], in_order[:, -2:-1] if k > 1 else np.zeros_like(in_order)
        # Without the cluster of the largest level, the second largest level remains; it is the same if two clusters
        # have it.
        others.append(np.where(of_party == largest, second, largest))
    weights = np.exp2(-_LEVELS.astype(np.float64))
    total = np.zeros((k,) * len(levels))
    step = max(1, _MAX_AT_ONCE // total.size)
    for start in range(0, n_sketches, step):
        blocks = [o[start : start + step] for o in others]
        union = blocks[0]
        for block in blocks[1:]:
            union = np.maximum(union[..., None], block.reshape((len(block),) + (1,) * (union.ndim - 1) + (k,)))
        total += weights[union].sum(axis=0)
    found: Floats = n_sketches / total / _BIAS
    return found


def likely_cardinality(levels: Levels, floor: int) -> Floats:
    """Return the N that make levels most likely.

    Args:
        levels: shape (M, ...).
        floor: published floor.

    Returns:
        shape (...).
    """
    flat = levels.reshape(len(levels), -1)
    counts = np.stack([np.bincount(column, minlength=HIGHEST + 1) for column in flat.T]).astype(np.float64)

    def log_likelihood(log_n: Floats) -> Floats:
        masses = np.maximum(_rise(np.exp(log_n), floor), _MIN_MASS)
        found: Floats = np.sum(counts * np.log(masses), axis=1)
        return found

    zeros = np.zeros(flat.shape[1])
    return np.exp(_maximum(log_likelihood, zeros, zeros + np.log(_MOST))).reshape(levels.shape[1:])


def likely_meeting(first: Levels, second: Levels, sizes: tuple[Floats, Floats], floor: int) -> Floats:
    """Return how many users and phantoms each two clusters of two parties most likely have in common.

    With T in common, A and B in all, the pair of levels of a sketch is one of three kinds; each kind's probability as a
    function of T needs the larger level only:

        first below second = s:   F(s - 1)^A (F(s)^(B - T) - F(s - 1)^(B - T))
        second below first = s:   the same with A and B exchanged
        both m:                   (F(m)^T - F(m - 1)^T) F(m)^(A + B - 2 T)
                                  + F(m - 1)^T (F(m)^(A - T) - F(m - 1)^(A - T)) (F(m)^(B - T) - F(m - 1)^(B - T))

    Args:
        first: levels of one party, shape (M, k).
        second: levels of the other, under the same keys.
        sizes: A and B of every cluster, phantoms included, shape (k,) each.
        floor: published floor.

    Returns:
        shape (k, k); never negative.
    """
    k = first.shape[1]
    counts = np.zeros((k * k, 3, HIGHEST + 1))
    for i in range(k):
        a, b = first[:, i, None], second
        kinds = np.where(a < b, 0, np.where(a > b, 1, 2)) * (HIGHEST + 1) + np.maximum(a, b)
        for j in range(k):
            found = np.bincount(kinds[:, j], minlength=3 * (HIGHEST + 1))
            counts[i * k + j] = found.reshape(3, HIGHEST + 1)
    size_a, size_b = np.repeat(sizes[0], k), np.tile(sizes[1], k)

    def log_likelihood(common: Floats) -> Floats:
        masses = np.maximum(meeting_masses(common, size_a, size_b, floor), _MIN_MASS)
        found: Floats = np.sum(counts * np.log(masses), axis=(1, 2))
        return found

    return _maximum(log_likelihood, np.zeros(k * k), np.minimum(size_a, size_b)).reshape(k, k)


def meeting_masses(common: Floats, size_a: Floats, size_b: Floats, floor: int) -> Floats:
    """Return the probabilities of the three kinds of `likely_meeting` at every larger level.

    Args:
        common: T, shape (n,); at most A and B.
        size_a: A, shape (n,).
        size_b: B, shape (n,).
        floor: published floor.

    Returns:
        shape (n, 3, HIGHEST + 1).
    """
    only_a, only_b = size_a - common, size_b - common
    rise_a, rise_b, rise_both = (_rise(n, floor) for n in (only_a, only_b, common))
    under_a, under_b, under_both = (_under(n, floor) for n in (size_a, size_b, common))
    at_only = np.exp((only_a + only_b)[:, None] * _finite_log(floor))
    equal = rise_both * at_only + under_both * rise_a * rise_b
    return np.stack([under_a * rise_b, under_b * rise_a, equal], axis=1)


def deviation_of_meeting(n_sketches: int, common: float, size_a: float, size_b: float, floor: int) -> float:
    """Return the standard deviation of `likely_meeting` by the Fisher information, for known sizes."""
    step = 1e-3 * max(common, 1.0)
    at = np.array([max(common - step, 0.0), common + step])
    masses = meeting_masses(at, np.full(2, size_a), np.full(2, size_b), floor)
    slope = (masses[1] - masses[0]) / (at[1] - at[0])
    seen = masses.mean(axis=0)
    kept = seen > _MIN_MASS
    return float(1 / np.sqrt(n_sketches * np.sum(slope[kept] ** 2 / seen[kept])))


def _finite_log(floor: int) -> Floats:
    """Return ln F per level; 0 below the floor, where no level is."""
    out = _LOG_F.copy()
    out[:floor] = 0.0
    return out


def _under(n: Floats, floor: int) -> Floats:
    """Return F(r - 1)^n per level r, shape (n, HIGHEST + 1); 0 at the floor, below which nothing is published."""
    log_under = np.concatenate([[0.0], _finite_log(floor)[:-1]])
    out: Floats = np.exp(n[:, None] * log_under)
    out[:, : floor + 1] = 0.0
    return out


def _rise(n: Floats, floor: int) -> Floats:
    """Return F(r)^n - F(r - 1)^n per level r without cancellation; all of F(r)^n at the floor, 0 below it."""
    log_at = _finite_log(floor)
    log_under = np.concatenate([[0.0], log_at[:-1]])
    out: Floats = -np.exp(n[:, None] * log_at) * np.expm1(n[:, None] * np.minimum(log_under - log_at, 0.0))
    out[:, :floor] = 0.0
    out[:, floor] = np.exp(n * log_at[floor])
    return out


def _maximum(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Return where functions of one variable each, of a single peak, are largest: golden section, all at once."""
    low, high = low.copy(), high.copy()
    inner_low, inner_high = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_low, at_high = function(inner_low), function(inner_high)
    for _ in range(_GOLDEN_STEPS):
        right = at_low < at_high
        low, high = np.where(right, inner_low, low), np.where(right, high, inner_high)
        new = np.where(right, low + _GOLDEN * (high - low), high - _GOLDEN * (high - low))
        at_new = function(new)
        inner_low, inner_high = np.where(right, inner_high, new), np.where(right, new, inner_low)
        at_low, at_high = np.where(right, at_high, at_new), np.where(right, at_new, at_low)
    return (low + high) / 2
