"""Centres of weighted points that are already public: k-median, k-means, higher powers. They need no privacy."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

Floats = NDArray[np.float64]

MAX_POWER = 4
"""Largest power of distances: with higher ones the few furthest rows decide alone."""

RESTARTS = 10
MAX_ITERATIONS = 100
_STOP = 1e-9  # relative gain in cost below which a run ends
_SMOOTH = 1e-3  # of the points' extent: distances below it count as about this much while a median is sought


@dataclass(frozen=True)
class Clusters:
    """What was found.

    Attributes:
        centres: shape (k, m). Fewer distinct ones than k where fewer distinct points have weight.
        weights: shape (k,), of the points nearest to each; 0 for an empty cluster.
        cost: sum of weight times distance to the power p.
    """

    centres: Floats
    weights: Floats
    cost: float


class Choices:
    """Random choices that are irrelevant to privacy (starting centres, cuts of a tree). Reproducible from its entropy.

    Args:
        entropy: gives the key of the stream.
    """

    def __init__(self, entropy: Entropy) -> None:
        self._stream = KeyStream(entropy.read(KEY_BYTES))

    @classmethod
    def of_key(cls, key: bytes) -> "Choices":
        """Return choices that follow from a public key of 32 bytes."""
        found = cls.__new__(cls)
        found._stream = KeyStream(key)
        return found

    def random(self, shape: int | tuple[int, ...]) -> Floats:
        """Return numbers uniform in [0, 1), multiples of 2^-53."""
        words = self._stream.words(int(np.prod(shape)))
        numbers: Floats = (words >> np.uint64(11)).astype(np.float64).reshape(shape) * 2.0**-53
        return numbers


def cluster(points: Floats, weights: Floats, k: int, p: int, choices: Choices, restarts: int = RESTARTS) -> Clusters:
    """Return k centres of small cost: the best of several runs of Lloyd's iterations from k-means++ starts.

    Args:
        points: shape (n, m), n at least 1.
        weights: shape (n,), not negative, not all 0.
        k: at least 1.
        p: 1 to `MAX_POWER`: minimises the weighted sum of distances (1, k-median), of their squares (2, k-means) or of
            higher powers, for which far points count more.
        choices: choices of the starting centres.
        restarts: how many runs.

    Raises:
        ValueError: no point has weight.
    """
    used = weights > 0
    if not used.any():
        raise ValueError("at least one point must have a positive weight")
    points, weights = points[used], weights[used]
    best: Clusters | None = None
    for _ in range(restarts):
        found = _lloyd(points, weights, _starts(points, weights, k, p, choices), p)
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None, "there is at least one run"
    return best


def nearest(points: Floats, centres: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return for each point the number of the nearest centre (the first of equals) and its squared distance."""
    squared = squared_distances(points, centres)
    at = squared.argmin(axis=1)
    return at.astype(np.int64), squared[np.arange(len(points)), at]


def squared_distances(points: Floats, centres: Floats) -> Floats:
    """Return the squared distances, shape (n, k), never negative."""
    cross = points @ centres.T
    cross *= -2
    cross += np.einsum("ij,ij->i", points, points)[:, None]
    cross += np.einsum("ij,ij->i", centres, centres)
    found: Floats = np.maximum(cross, 0.0, out=cross)
    return found


def powers_of(squared: Floats, p: int) -> Floats:
    """Return distances to the power p, from their squares."""
    return squared if p == 2 else np.asarray(squared ** (p / 2), dtype=np.float64)


def loss(points: Floats, centres: Floats, p: int = 2) -> float:
    """Return the mean over the points of the distance to the nearest centre, to the power p."""
    _, squared = nearest(points, centres)
    return float(np.mean(powers_of(squared, p)))


def _starts(points: Floats, weights: Floats, k: int, p: int, choices: Choices) -> Floats:
    """Draw starting centres one by one, each with probability proportional to its share of the cost so far [ArtVas07].

    Of a few candidates the one that leaves the least cost is kept. Once all cost is gone, the last centre is repeated.
    """
    n_candidates = 2 + int(math.log(k))
    chosen = [points[_draw(weights, 1, choices)[0]]]
    costs = _costs(points, chosen[0][None], p)[:, 0]
    while len(chosen) < k:
        mass = weights * costs
        if not mass.sum() > 0:
            chosen.append(chosen[-1])
            continue
        candidates = points[_draw(mass, n_candidates, choices)]
        left = np.minimum(costs[:, None], _costs(points, candidates, p))
        at = int((weights @ left).argmin())
        chosen.append(candidates[at])
        costs = left[:, at]
    return np.array(chosen)


def _draw(mass: Floats, size: int, choices: Choices) -> NDArray[np.int64]:
    cumulative = np.cumsum(mass)
    at = np.searchsorted(cumulative, choices.random(size) * cumulative[-1], side="right")
    drawn: NDArray[np.int64] = np.minimum(at, len(mass) - 1)
    return drawn


def _costs(points: Floats, centres: Floats, p: int) -> Floats:
    return powers_of(squared_distances(points, centres), p)


def _lloyd(points: Floats, weights: Floats, centres: Floats, p: int) -> Clusters:
    """Iterate assignment and update until the cost stays.

    For medians the update is one step of Weiszfeld's iteration on sqrt(d^2 + s^2), which does not raise the sum of
    these smoothed distances and is not stuck in a centre that lies on a point. For p above 2 the same weighted mean,
    of weights times d^(p - 2), overshoots; the step is 1 / (p - 1) of the way to it, which is Newton's where points lie
    on a line. A run ends with its best centres.
    """
    k, last, kept = len(centres), math.inf, centres
    smooth = (_SMOOTH * max(float(np.ptp(points, axis=0).max()), 1e-150)) ** 2 if p == 1 else 0.0
    for _ in range(MAX_ITERATIONS):
        at, squared = nearest(points, centres)
        distances = powers_of(squared + smooth, p)
        cost = float(weights @ distances)
        if cost <= last:
            kept = centres
        if not cost < last * (1 - _STOP):
            break
        last = cost
        pull = weights / distances if p == 1 else weights * powers_of(squared, p - 2)
        pulls = np.bincount(at, pull, minlength=k)
        sums = np.stack([np.bincount(at, pull * column, minlength=k) for column in points.T], axis=1)
        filled = (pulls > 0)[:, None]
        means = np.where(filled, sums / np.where(filled, pulls[:, None], 1.0), centres)
        centres = means if p <= 2 else centres + (means - centres) / (p - 1)
    at, squared = nearest(points, kept)
    cost = float(weights @ powers_of(squared, p))
    return Clusters(kept, np.bincount(at, weights, minlength=k).astype(np.float64), cost)
