"""Exact shares of discrete Laplace noise: differences of two Polya variables of any rational shape.

A Polya, or negative binomial, variable of shape k > 0 and ratio 0 < r < 1 has P(j) = (1 - r)^k r^j k (k + 1) ... (k + j
- 1) / j! and the generating function ((1 - r) / (1 - r z))^k. So shapes add up: independent shares of shapes k_1, ...,
k_n have a sum of shape k_1 + ... + k_n. The difference of two variables of shape 1, which are geometric, is discrete
Laplace noise, P(x) proportional to r^|x|. Hence parties can each draw a share of noise of which nobody knows the whole
[GoryczkaXiong17].
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp.draw.discrete import Geometric
from dp.draw.rejection import sample_offsets
from dp.draw.skellam import Poisson
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

Integers = NDArray[np.int64]

MAX_MEAN = 1 << 50
"""Largest mean of a geometric variable: sums of shapes up to MAX_SHAPE fit 64-bit integers with room to spare."""

MIN_MEAN = Fraction(1, 1 << 64)
"""Smallest mean. With so little noise nobody ever sees another value than 0."""

MAX_SHAPE = 64
"""Largest shape."""


def sample_laplace_share(entropy: Entropy, shape: Fraction, mean: Fraction, size: int) -> Integers:
    """Draw independent differences of two Polya variables.

    Mean 0, variance 2 * shape * mean * (1 + mean).

    The distribution is exact. With r = mean / (1 + mean), the logarithm of the generating function of a difference is

        sum over n >= 1 of  (shape r^n / n) (z^n + z^-n - 2),

    that of a compound Poisson variable: independently for each n, Poisson(2 shape r^n / n) jumps of size n, each up or
    down with probability 1/2. Such jumps are found by thinning. Let 2^m be a power of two, at least 1 + mean.

    * For each i < m a Poisson variable of rate 2 shape says how many candidates there are in 2^i .. 2^(i + 1) - 1, each
      uniform there, so that each n has the rate 2 shape / 2^i. Kept with probability (2^i / n) r^n, it has the right
      one.
    * Of n = 2^m + g, g geometric with ratio r, there are as many as a Poisson variable of rate 2 shape (1 + mean) / 2^m
      says: each n has the rate 2 shape r^(n - 2^m) / 2^m. It is kept with probability (2^m / n) r^(2^m).

    All rates are rational, and Poisson and geometric variables are exact (`dp.draw.rejection`). A coin of probability
    c / n compares a uniform integer below n with c. A coin of probability r^n is heads where a geometric variable of
    ratio r is at least n. Candidates of all entries are drawn at once, and each belongs to a uniform entry: a Poisson
    number of candidates, assigned independently, gives each entry an independent Poisson number.

    Args:
        entropy: gives the key of the stream that all bits come from: 32 bytes per call.
        shape: above 0, at most MAX_SHAPE.
        mean: mean of a geometric variable of the same ratio, MIN_MEAN .. MAX_MEAN.
        size: how many.

    Returns:
        shape (size,).

    Raises:
        ValueError: shape, mean or size is out of range, or shape or mean is no exact number.
    """
    if not (isinstance(shape, Fraction | int) and isinstance(mean, Fraction | int)):
        raise ValueError("the shape and the mean of a share must be exact numbers")
    if not 0 < shape <= MAX_SHAPE:
        raise ValueError(f"a shape of {float(shape):g} is outside 0..{MAX_SHAPE}")
    if not MIN_MEAN <= mean <= MAX_MEAN:
        raise ValueError(f"a mean of {float(mean):g} is outside 2^-64..2^50")
    if size < 0:
        raise ValueError(f"{size} samples cannot be drawn")
    total = np.zeros(size, dtype=np.int64)
    if size == 0:
        return total
    stream = KeyStream(entropy.read(KEY_BYTES))
    mean = Fraction(mean)
    lengths = Geometric(mean / (1 + mean))
    n_blocks = 0
    while 1 << n_blocks < 1 + mean:
        n_blocks += 1
    if n_blocks:
        n = _poisson(2 * shape * n_blocks * size, stream)
        start = np.int64(1) << _below(np.full(n, n_blocks), stream).astype(np.int64)
        jumps = start + (stream.words(n) & (start - 1).astype(np.uint64)).astype(np.int64)
        kept = (_below(jumps, stream) < start) & (sample_offsets(lengths, n, stream) >= jumps)
        _add(total, jumps[kept], stream)
    first = 1 << n_blocks
    n = _poisson(2 * shape * (1 + mean) / first * size, stream)
    jumps = first + sample_offsets(lengths, n, stream)
    kept = (_below(jumps, stream) < first) & (sample_offsets(lengths, n, stream) >= first)
    _add(total, jumps[kept], stream)
    return total


def _poisson(rate: Fraction, stream: KeyStream) -> int:
    counts = Poisson(Fraction(rate))
    return int(sample_offsets(counts, 1, stream)[0]) + counts.mode


def _below(bounds: Integers, stream: KeyStream) -> Integers:
    """Draw a uniform integer 0 .. bound - 1 for each bound: words below its largest multiple, reduced. Not biased."""
    out = np.zeros(len(bounds), dtype=np.int64)
    left = np.arange(len(bounds))
    while len(left):
        bound = bounds[left].astype(np.uint64)
        words = stream.words(len(left))
        # 2^64 mod bound, in 64-bit words: words below it are rejected, and a multiple of the bound is left.
        usable = words >= (np.uint64(0) - bound) % bound
        out[left[usable]] = (words[usable] % bound[usable]).astype(np.int64)
        left = left[~usable]
    return out


def _add(total: Integers, jumps: Integers, stream: KeyStream) -> None:
    """Add each jump to a uniform entry, up or down."""
    n = len(jumps)
    up = (stream.words(n) & np.uint64(1)).astype(np.int64)
    np.add.at(total, _below(np.full(n, len(total)), stream), jumps * (2 * up - 1))
