"""Exact samplers: integers only, from a keyed stream, many at a time. Skellam noise is in `dp.draw.skellam`.

Parameters are exact, an integer or a `Fraction`: a float or a text is refused, because a scale that was rounded on its
way here is not the scale that was accounted for. Each call reads one key of 32 bytes from its entropy and stretches it.

These functions return bare numbers. What protects data goes through `dp.mechanism.scalar`, where noise comes with its
cost.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp.draw.discrete import Binomial, DiscreteGaussian, DiscreteLaplace
from dp.draw.rejection import sample_offsets
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

Integers = NDArray[np.int64]

MAX_SCALE = 1 << 53
"""Largest scale of discrete Laplace noise, standard deviation of discrete Gaussian noise, and mean of a geometric
variable: samples fit 64-bit integers."""

MIN_SCALE = Fraction(1, 1 << 20)
"""Smallest parameters that are drawn. With noise far below this scale, a value other than 0 would never be observed."""

MAX_TRIALS = 1 << 62
"""Largest number of trials of a binomial variable."""

MAX_WEIGHT = (1 << 63) - 1
"""Largest sum of the weights of all categories."""

_MAX_TRIALS_ONE_BY_ONE = 32  # beyond, the envelope of `dp.draw.rejection` is quicker, and its geometric tail short


def sample_discrete_laplace(entropy: Entropy, scale: int | Fraction, size: int) -> Integers:
    """Draw independent integers k with probability proportional to exp(-|k| / scale).

    Mean 0, variance 2 r / (1 - r)^2 with r = exp(-1 / scale).

    Args:
        entropy: gives the key of the stream.
        scale: MIN_SCALE .. MAX_SCALE.
        size: how many.

    Returns:
        shape (size,).

    Raises:
        ValueError: scale or size is out of range, or scale is no exact number.
    """
    exact = _exact("scale", scale, MIN_SCALE, Fraction(MAX_SCALE))
    return sample_offsets(DiscreteLaplace(exact), _size(size), _stream(entropy))


def sample_discrete_gaussian(entropy: Entropy, variance: int | Fraction, size: int) -> Integers:
    """Draw independent integers k with probability proportional to exp(-k^2 / (2 variance)) [CKS20].

    Mean 0; the variance is at most `variance`, and equal to it to within 1e-7 from variance 1 on.

    Args:
        entropy: gives the key of the stream.
        variance: MIN_SCALE .. MAX_SCALE squared.
        size: how many.

    Returns:
        shape (size,).

    Raises:
        ValueError: variance or size is out of range, or variance is no exact number.
    """
    exact = _exact("variance", variance, MIN_SCALE, Fraction(MAX_SCALE**2))
    return sample_offsets(DiscreteGaussian(exact), _size(size), _stream(entropy))


def sample_bernoulli(entropy: Entropy, probability: int | Fraction, size: int) -> NDArray[np.bool_]:
    """Draw independent events of a rational probability.

    Args:
        entropy: gives the key of the stream.
        probability: 0 .. 1.
        size: how many.

    Returns:
        shape (size,).

    Raises:
        ValueError: probability or size is out of range, or probability is no exact number.
    """
    exact = _exact("probability", probability, Fraction(0), Fraction(1))
    return _bernoulli(exact, _size(size), _stream(entropy))


def sample_binomial(entropy: Entropy, n_trials: int, probability: int | Fraction, size: int) -> Integers:
    """Draw independent numbers of successes in `n_trials` trials of a rational probability.

    Args:
        entropy: gives the key of the stream.
        n_trials: 0 .. MAX_TRIALS.
        probability: 0 .. 1.
        size: how many.

    Returns:
        shape (size,).

    Raises:
        ValueError: an argument is out of range, or probability is no exact number.
    """
    exact = _exact("probability", probability, Fraction(0), Fraction(1))
    if not 0 <= n_trials <= MAX_TRIALS:
        raise ValueError(f"{n_trials} trials are outside 0..2^62")
    if exact > Fraction(1, 2):
        return n_trials - sample_binomial(entropy, n_trials, 1 - exact, size)
    stream, size = _stream(entropy), _size(size)
    if n_trials * exact == 0:
        return np.zeros(size, dtype=np.int64)
    if n_trials <= _MAX_TRIALS_ONE_BY_ONE:
        successes = np.zeros(size, dtype=np.int64)
        for _ in range(n_trials):
            successes += _bernoulli(exact, size, stream)
        return successes
    distribution = Binomial(n_trials, exact)
    out = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        # `Binomial` has mass beyond n_trials, so that it has no upper end: what falls there is drawn again.
        drawn = sample_offsets(distribution, size - filled, stream) + distribution.mode
        kept = drawn[drawn <= n_trials]
        out[filled : filled + len(kept)] = kept
        filled += len(kept)
    return out


def sample_categorical(entropy: Entropy, weights: Sequence[int], size: int) -> Integers:
    """Draw independent indices, index i with probability weights[i] / sum(weights).

    Args:
        entropy: gives the key of the stream.
        weights: non-negative integers with a sum of 1 .. MAX_WEIGHT.
        size: how many.

    Returns:
        shape (size,).

    Raises:
        ValueError: the weights are no integers, negative, all 0 or too large; or size is out of range.
    """
    if any(isinstance(weight, bool) or not isinstance(weight, int) or weight < 0 for weight in weights):
        raise ValueError("the weights of the categories must be non-negative integers")
    total = sum(weights)
    if not 1 <= total <= MAX_WEIGHT:
        raise ValueError(f"weights of categories must add up to 1..2^63 - 1, not to {total}")
    cumulative = np.cumsum(np.array(weights, dtype=np.uint64), dtype=np.uint64)
    return np.searchsorted(cumulative, _uniform(total, _size(size), _stream(entropy)), side="right").astype(np.int64)


def sample_uniform(entropy: Entropy, bound: int, size: int) -> Integers:
    """Draw independent uniform integers 0 .. bound - 1.

    Args:
        entropy: gives the key of the stream.
        bound: 1 .. MAX_WEIGHT.
        size: how many.

    Returns:
        shape (size,).

    Raises:
        ValueError: bound or size is out of range.
    """
    if not 1 <= bound <= MAX_WEIGHT:
        raise ValueError(f"uniform integers are drawn below 1..2^63 - 1, not below {bound}")
    return _uniform(bound, _size(size), _stream(entropy)).astype(np.int64)


def _uniform(bound: int, size: int, stream: KeyStream) -> NDArray[np.uint64]:
    """Draw uniform integers 0 .. bound - 1: words below the largest multiple of `bound`, reduced. Not biased."""
    usable = (1 << 64) // bound * bound
    out = np.empty(size, dtype=np.uint64)
    filled = 0
    while filled < size:
        words = stream.words(size - filled)
        kept = words if usable == 1 << 64 else words[words < np.uint64(usable)]
        out[filled : filled + len(kept)] = kept % np.uint64(bound)
        filled += len(kept)
    return out


def _bernoulli(probability: Fraction, size: int, stream: KeyStream) -> NDArray[np.bool_]:
    """Compare the binary digits of a uniform variable with those of the probability, 64 at a time."""
    scaled = probability * (1 << 64)
    threshold = math.floor(scaled)
    if threshold == 1 << 64:
        return np.ones(size, dtype=np.bool_)
    words = stream.words(size)
    out: NDArray[np.bool_] = words < np.uint64(threshold)
    for i in np.flatnonzero(words == np.uint64(threshold)).tolist():
        out[i] = _bernoulli(scaled - threshold, 1, stream)[0]
    return out


def _exact(name: str, value: int | Fraction, least: Fraction, most: Fraction) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise ValueError(f"a {name} must be an integer or a Fraction, not a {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"a {name} of {float(value):g} is outside {float(least):g}..{float(most):g}")
    return Fraction(value)


def _size(size: int) -> int:
    if size < 0:
        raise ValueError(f"{size} samples cannot be drawn")
    return size


def _stream(entropy: Entropy) -> KeyStream:
    return KeyStream(entropy.read(KEY_BYTES))
