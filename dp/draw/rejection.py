"""Exact samples of log-concave distributions on the integers, many at a time.

The method is rejection from a piecewise constant envelope. Offsets from the mode are cut into bins of w integers, w a
power of two near a sixteenth of the standard deviation, out to about eight standard deviations; beyond, two tails are
cut into blocks whose envelope halves from one to the next. Bin b has an integer weight W_b with

    W_b / C  >=  mass(j) / mass(0)        for every offset j in the bin,

C an integer common to all bins. A random 64-bit word below the sum of the weights selects a bin (a word above it is
rejected, so there is no modulo bias), random bits select the offset inside it, and the offset is kept if a uniform V
satisfies

    V  <  (C / W_b) * mass(j) / mass(0).                                                                    (*)

Why the output distribution is exact although the arithmetic is double precision: V is known as an interval, from its
first 53 bits. Log-concavity encloses the logarithm of the right side of (*) between the chord of bin b and the
prolonged chords of its two neighbours. Both sides of the enclosure are linear in j; `_Envelope.slack` bounds their
rounding errors. Where the whole interval of V lies on one side of the enclosure, (*) is decided. In the remaining
cases, about one in a thousand, `_is_below` decides it with enclosures of arbitrary precision and as many further bits
of V as it takes.

A distribution joins by stating enclosures of its log mass (`LogConcaveDistribution`); it needs no floating-point
analysis.

Running time depends a little on the bits drawn. Callers draw all noise of a release in one batch, whose size is public,
and time-stamp no draw.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream

Floats = NDArray[np.float64]
Offsets = NDArray[np.int64]

MAX_SPREAD = 1 << 54
"""Largest standard deviation: offsets far in the tail still fit 64-bit integers."""

_REACH = 8  # standard deviations on each side that have bins of their own
_CANDIDATES = 1 << 15  # per round: the working arrays stay in the second-level cache
_GUIDE_BITS = 13  # of a word: of all but a few per cent they tell the bin, from a table in the same cache
_UNIFORM_BITS = 53
_LOG_DIGITS = 25  # of the enclosures behind the double-precision tables


class LogConcaveDistribution(Hashable, Protocol):
    """A log-concave distribution on the integers, unbounded above, relative to a mode. Its parameters are public."""

    @property
    def lowest(self) -> int | None:
        """Smallest offset from the mode that has mass, at most 0; None if there is none."""

    @property
    def spread(self) -> int:
        """About the standard deviation, 1 .. MAX_SPREAD. Matters to speed, never to the result."""

    def log_mass(self, offset: int, digits: int) -> tuple[Decimal, Decimal]:
        """Return proven lower and upper bounds of ln(mass(offset) / mass(0)), at most 10**-digits apart.

        Args:
            offset: from the mode; at least `lowest`.
            digits: positive.
        """


def precise_context(digits: int) -> Context:
    """Return a decimal context of that many digits in which nothing overflows.

    Its operations, the logarithm included, are correctly rounded: relative error at most 10**(1 - digits) / 2.
    """
    return Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)


@lru_cache(maxsize=512)
def precise_ln(x: Fraction, digits: int) -> Decimal:
    """Return ln x for x > 0, of that many digits. Remembered, so only for public numbers: parameters and modes."""
    with localcontext(precise_context(digits)):
        return (Decimal(x.numerator) / Decimal(x.denominator)).ln()


def sample_offsets(distribution: LogConcaveDistribution, size: int, stream: KeyStream) -> Offsets:
    """Draw independent samples, exactly distributed, as offsets from the mode.

    Args:
        distribution: its envelope is computed once and remembered.
        size: how many.
        stream: where the bits come from; about three words per sample.

    Returns:
        shape (size,).
    """
    envelope = _envelope(distribution)
    out = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        # Acceptance is about 0.96. The number of candidates depends on public numbers and earlier acceptances only.
        n_candidates = min(_CANDIDATES, size - filled + (size - filled) // 16 + 16)
        accepted = _round(envelope, n_candidates, stream)[: size - filled]
        out[filled : filled + len(accepted)] = accepted
        filled += len(accepted)
    return out


@dataclass(frozen=True, eq=False)
class _Envelope:
    """Tables of one distribution. Bins are 0 .. n - 1 from left to right; n is the left tail, n + 1 the right one.

    Attributes:
        width: w, integers per bin.
        first, last: the bins cover offsets first .. last - 1; both are multiples of w.
        scale: C.
        weights: W_b, then the weights of the left and of the right tail, 0 if there is none.
        cumulative: their running sums, uint64; the last is the total.
        tail_width: integers per block of a tail; block g has the share 2**-(g + 1) of its tail's weight.
        lower, slope: the chord of bin b: (*) has a logarithm of at least lower[b] + slope[b] * r at offset
            first + b * w + r, 0 <= r < w, up to slack.
        upper_left, slope_left, upper_right, slope_right: two lines of bin b in the same form: the logarithm is at most
            the smaller of them.
        surely_below: V below it means (*) for every offset of the bin.
        slack: relative error of the exponential of any of the lines: see `_slack`.
    """

    distribution: LogConcaveDistribution
    width: int
    first: int
    last: int
    scale: int
    weights: tuple[int, ...]
    cumulative: NDArray[np.uint64]
    tail_width: int
    lower: Floats
    slope: Floats
    upper_left: Floats
    slope_left: Floats
    upper_right: Floats
    slope_right: Floats
    surely_below: Floats
    slack: float

    @property
    def n_bins(self) -> int:
        return len(self.lower)

    def bins_of(self, words: NDArray[np.uint64]) -> Offsets:
        """Return the number of running sums that are at most a word, for each word: where it falls.

        A word's first bits tell it of nearly all words, as `guide` says; the others are looked for.
        """
        found = self.guide[(words >> np.uint64(64 - _GUIDE_BITS)).astype(np.intp)].astype(np.int64)
        unsure = np.flatnonzero(found < 0)
        found[unsure] = np.searchsorted(self.cumulative, words[unsure], side="right")
        return found

    @cached_property
    def guide(self) -> NDArray[np.int32]:
        """Where all words of these first bits fall, shape (2**_GUIDE_BITS,); -1 where not all fall alike."""
        least = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << np.uint64(64 - _GUIDE_BITS)
        most = least + np.uint64((1 << (64 - _GUIDE_BITS)) - 1)
        low, high = (np.searchsorted(self.cumulative, ends, side="right") for ends in (least, most))
        return np.where(low == high, low, -1).astype(np.int32)


@lru_cache(maxsize=32)
def _envelope(distribution: LogConcaveDistribution) -> _Envelope:
    spread = distribution.spread
    if not 1 <= spread <= MAX_SPREAD:
        raise ValueError(
            f"a spread of {spread} is outside 1..{MAX_SPREAD}, so offsets might not fit into 64-bit integers"
        )
    width = 1 << max(0, (spread // 16).bit_length() - 1)
    bins_per_side = -(-_REACH * spread // width)
    bins_left = bins_per_side if distribution.lowest is None else min(bins_per_side, -distribution.lowest // width)
    first, last = -bins_left * width, bins_per_side * width

    at_edges = np.array([_log_mass(distribution, edge) for edge in range(first, last + 1, width)])
    slack = _slack(at_edges)
    if slack > 0.5:
        raise ValueError("the mass falls too steeply for double-precision tables")
    # The mode is an edge, so mass is monotone inside each bin.
    at_top = np.maximum(at_edges[:-1], at_edges[1:]) if width > 1 else at_edges[:-1]
    tail_width = _tail_width(distribution, first, last, width)

    # A tail gets twice the mass of a bin as high as its near end, because its first block has half of its weight.
    has_left_tail = distribution.lowest is None or first > distribution.lowest
    near_left, near_right = _log_mass(distribution, first - 1) if has_left_tail else -math.inf, at_edges[-1]
    heights = np.exp(np.append(at_top, [near_left, near_right])) * (1 + slack)
    heights[-2:] *= 2 * tail_width // width
    scale = int(2.0**64 * (1 - 2.0**-30) / heights.sum())
    weights = [int(height * scale) + 1 for height in heights.tolist()]
    if not has_left_tail:
        weights[-2] = 0
    cumulative = list(accumulate(weights))
    assert cumulative[-1] < 1 << 64, "the scale leaves 2**-30 of the words for rounding up"

    # ln(W_b / C), which turns ln(mass / mass(0)) into the logarithm of (*).
    base = np.array([math.log(weight / scale) for weight in weights[:-2]])
    slope = np.diff(at_edges) / width
    upper_left, upper_right = at_edges[:-1].copy(), at_edges[1:].copy()
    slope_left, slope_right = np.roll(slope, 1), np.roll(slope, -1)
    # The outermost bins have no neighbour on one side: there the bin's top, a constant, is the bound.
    upper_left[0], slope_left[0] = at_top[0], 0.0
    upper_right[-1], slope_right[-1] = at_top[-1], 0.0
    lower = at_edges[:-1] - base
    least = np.minimum(lower, at_edges[1:] - base) if width > 1 else lower
    return _Envelope(
        distribution=distribution,
        width=width,
        first=first,
        last=last,
        scale=scale,
        weights=tuple(weights),
        cumulative=np.array(cumulative, dtype=np.uint64),
        tail_width=tail_width,
        lower=lower,
        slope=slope,
        upper_left=upper_left - base,
        slope_left=slope_left,
        upper_right=upper_right - slope_right * width - base,
        slope_right=slope_right,
        surely_below=np.exp(least) * (1 - slack) - 2.0**-50,
        slack=slack,
    )


def _slack(at_edges: Floats) -> float:
    """Bound the relative error of exp of a line of `_Envelope`, or of a height.

    Let M be the largest |ln(mass / mass(0))| at an edge. A line's value is a sum of at most four terms: values at
    edges, ln(W_b / C), and a slope times r <= w. Each term is at most 2 M + 45 in size (a weight is at least 1 and C is
    below 2**64) and passes at most five roundings of relative error 2**-53, so the value's error is below 4 * 5 * (2 M
    + 45) * 2**-53 < (M + 23) * 2**-47. Of ln(W_b / C) three of the five are its own: the quotient's, which moves the
    logarithm by 2**-53, and two for the error of log itself, 2**-52 of its value; a difference and the line's sum
    follow. Four times the bound covers e**x - 1 against x (x at most 1/8 here) and the error of exp itself, 2**-50.
    """
    return (float(np.abs(at_edges).max()) + 23.0) * 2.0**-45


def _log_mass(distribution: LogConcaveDistribution, offset: int) -> float:
    return float(distribution.log_mass(offset, _LOG_DIGITS)[0])


def _tail_width(distribution: LogConcaveDistribution, first: int, last: int, width: int) -> int:
    """Return a power of two, at least `width`, over which the mass at least halves at both ends of the bins.

    By log-concavity it then halves over every further such stretch, and so does the envelope of the tails.
    """

    def halves(near: int, far: int) -> bool:
        if distribution.lowest is not None and far < distribution.lowest:
            return True
        fall = distribution.log_mass(near, _LOG_DIGITS)[0] - distribution.log_mass(far, _LOG_DIGITS)[1]
        return fall > Decimal("0.6932")  # just above ln 2

    tail_width = width
    while not (halves(last, last + tail_width) and halves(first - 1, first - 1 - tail_width)):
        tail_width *= 2
    return tail_width


def _round(envelope: _Envelope, n_candidates: int, stream: KeyStream) -> Offsets:
    """Draw candidates, return those that are kept, in the order drawn."""
    n_bins, width = envelope.n_bins, envelope.width
    chosen = envelope.bins_of(stream.words(n_candidates))
    uniform = stream.words(n_candidates) >> np.uint64(64 - _UNIFORM_BITS)
    in_bin = np.minimum(chosen, n_bins - 1)
    offsets = in_bin * width
    offsets += envelope.first
    if width > 1:
        position = (stream.words(n_candidates) & np.uint64(width - 1)).astype(np.int64)
        offsets += position
    else:
        position = np.zeros(n_candidates, dtype=np.int64)

    v = uniform * 2.0**-_UNIFORM_BITS  # exact; V lies in [v, v + 2**-53)
    kept = (v < envelope.surely_below[in_bin]) & (chosen < n_bins)
    undecided = np.flatnonzero(~kept & (chosen < n_bins))
    r, b, v = position[undecided], in_bin[undecided], v[undecided]
    below = np.exp(envelope.lower[b] + envelope.slope[b] * r) * (1 - envelope.slack) - 2.0**-50
    log_above = np.minimum(
        envelope.upper_left[b] + envelope.slope_left[b] * r, envelope.upper_right[b] + envelope.slope_right[b] * r
    )
    above = np.exp(log_above) * (1 + envelope.slack) + 2.0**-50
    kept[undecided] = v < below
    for i in undecided[(v >= below) & (v < above)].tolist():
        factor = Fraction(envelope.scale, envelope.weights[chosen[i]])
        kept[i] = _is_below(envelope.distribution, int(offsets[i]), factor, int(uniform[i]), _UNIFORM_BITS, stream)
    for i in np.flatnonzero((chosen == n_bins) | (chosen == n_bins + 1)).tolist():
        offset = _tail_candidate(envelope, int(chosen[i]), stream)
        if offset is not None:
            offsets[i], kept[i] = offset, True
    return offsets[kept]


def _tail_candidate(envelope: _Envelope, tail: int, stream: KeyStream) -> int | None:
    """Draw one candidate of a tail; return its offset, or None if it is rejected."""
    block, word = 0, _word(stream)
    while word == 0:
        block, word = block + 64, _word(stream)
    block += (word & -word).bit_length() - 1  # trailing zeros: 0 with probability 1/2, 1 with 1/4, ...
    distance = block * envelope.tail_width + (_word(stream) & (envelope.tail_width - 1))
    offset = envelope.last + distance if tail == envelope.n_bins + 1 else envelope.first - 1 - distance
    if envelope.distribution.lowest is not None and offset < envelope.distribution.lowest:
        return None
    # Per integer the bins have weight W_b / w and this block has W_tail / 2**(block + 1) / tail_width.
    factor = Fraction(envelope.scale * envelope.tail_width << (block + 1), envelope.weights[tail] * envelope.width)
    return offset if _is_below(envelope.distribution, offset, factor, 0, 0, stream) else None


def _is_below(
    distribution: LogConcaveDistribution, offset: int, factor: Fraction, known: int, n_bits: int, stream: KeyStream
) -> bool:
    """Decide V < factor * mass(offset) / mass(0) for a uniform V of which the first bits are known.

    V lies in [known, known + 1) / 2**n_bits and is uniform there; further bits come from `stream`.

    Terminates with probability 1: each round narrows V by 2**-64 and the bound of the log mass by 10**-20.
    """
    digits = 20
    while True:
        least, most = distribution.log_mass(offset, digits)
        # ln(n / d) from a rounded quotient errs by less than 10**(1 - precision) * (1 + |ln(n / d)|).
        with localcontext(precise_context(digits + 10)) as context:
            denominator = Decimal(factor.numerator << n_bits)
            above = (Decimal((known + 1) * factor.denominator) / denominator).ln()
            if above + (1 + abs(above)).scaleb(1 - context.prec) < least:
                return True
            if known:
                under = (Decimal(known * factor.denominator) / denominator).ln()
                if under - (1 + abs(under)).scaleb(1 - context.prec) > most:
                    return False
        known, n_bits, digits = known << 64 | _word(stream), n_bits + 64, digits + 20


def _word(stream: KeyStream) -> int:
    return int.from_bytes(stream.read(8), "little")
