"""The distribution behind the responses of a wave: expectation maximisation, plain (EM) and smoothed (EMS) [SW20].

EM maximises the likelihood; run to its end it fits the noise, so it stops where the log likelihood of all responses
rises by less than 1e-3 e^epsilon in one map. That is absolute, as in the authors' program; their text says "relative".

EMS smooths after each map. Its estimate is *defined* here as the fixed point: where one map changes the cumulative
distribution by less than 1e-7. It does not depend on a stopping rule or on the start.
"""

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimates import kernels
from analyses.distribution.estimates.wave_operator import Floats, WaveOperator
from dp.cost import binomial
from dp.local_mechanism.wave import Wave
from entropy import KeyStream

TOLERANCE = 1e-7
"""Largest change of the cumulative distribution under one map at the fixed point."""

MAX_MAPS = 20_000
"""After which an estimate is told not to have converged."""

PASSES = (1, 3, 10, 30)
"""Numbers of smoothing passes per map, from which `choose_passes` chooses one."""

MAX_MAPS_OF_A_PART = 2_000
"""Most maps of an estimate that only helps to choose a number of passes: with 16,384 buckets the sixteen of them would
take ten times as long as the one that is released, and what they predict settles long before their fixed points."""

_SECONDS_PER_OUTPUT = 1.6e-8
"""Seconds of a map for each output, as a busy machine of two cores takes them."""

_FOLDS = 4
_EM_GAIN = 1e-3


@dataclass(frozen=True)
class WaveEstimate:
    """What responses say of the distribution.

    Attributes:
        probabilities: shape (n,), not negative, with sum 1.
        empty_share: estimated part of the responses that came from empty slots; 0 where none answer.
        n_maps: how many maps were made.
        has_converged: whether the tolerance was met.
        n_passes: passes of smoothing per map.
    """

    probabilities: Floats = field(repr=False)
    empty_share: float
    n_maps: int
    has_converged: bool
    n_passes: int

    @property
    def entries(self) -> Floats:
        """All entries of x, that of the empty input among them, where its share is not 0."""
        if self.empty_share == 0:
            return self.probabilities
        return np.append(self.probabilities * (1 - self.empty_share), self.empty_share)


def estimate_ems(
    operator: WaveOperator,
    counts: Floats,
    *,
    n_passes: int = 1,
    start: Floats | None = None,
    max_maps: int | None = None,
) -> WaveEstimate:
    """Return the fixed point of smoothed expectation maximisation.

    Args:
        operator: the transition.
        counts: counts of the outputs, shape (m,), not all 0.
        n_passes: passes of smoothing per map, at least 1.
        start: shape (operator.n_entries,), positive; uniform by default.
        max_maps: after which it ends; by default MAX_MAPS.

    Raises:
        ValueError: no response was counted, or the counts do not fit the outputs.
    """
    counts = _checked(operator, counts)
    if n_passes < 1:
        raise ValueError("the fixed point is defined for at least one pass of smoothing")
    x = np.full(operator.n_entries, 1 / operator.n_entries) if start is None else np.maximum(start, 1e-300)
    limits = TOLERANCE, MAX_MAPS if max_maps is None else max_maps
    n_maps = kernels.fixed_point(x, counts, _work(operator, 5), *_transition(operator), n_passes, *limits)
    return _estimate(operator, x, abs(n_maps), n_maps > 0, n_passes)


def estimate_em(operator: WaveOperator, counts: Floats, tau: float | None = None) -> WaveEstimate:
    """Return the estimate of plain expectation maximisation at the stopping rule of [SW20].

    Args:
        operator: the transition.
        counts: counts of the outputs, shape (m,), not all 0.
        tau: a map that raises the log likelihood of all responses by less is the last one; by default 1e-3 e^epsilon.

    Raises:
        ValueError: see `estimate_ems`.
    """
    counts = _checked(operator, counts)
    least_gain = _EM_GAIN * operator.wave.odds.favoured / operator.wave.odds.other if tau is None else tau
    x = np.full(operator.n_entries, 1 / operator.n_entries)
    before = log_likelihood(operator, x, counts)
    work, transition = _work(operator, 2), _transition(operator)
    for n_maps in range(1, MAX_MAPS + 1):
        out = np.empty_like(x)
        kernels.map_once(out, x, counts, work, *transition, 0)
        x = out
        after = log_likelihood(operator, x, counts)
        if after - before < least_gain:
            return _estimate(operator, x, n_maps, True, 0)
        before = after
    return _estimate(operator, x, MAX_MAPS, False, 0)


def _work(operator: WaveOperator, n_arrays: int) -> Floats:
    wave = operator.wave
    return np.zeros((n_arrays, wave.n_inputs + 4 * wave.half_width + 2))


def _transition(operator: WaveOperator) -> tuple[int, int, int, int, float, float]:
    """Return what the kernels know of a transition."""
    wave = operator.wave
    return operator.n_buckets, operator.per_bucket, wave.half_width, operator.slope, operator.base, operator.excess


def log_likelihood(operator: WaveOperator, x: Floats, counts: Floats) -> float:
    """Return the sum over the responses of the logarithm of their probability under x."""
    return float(counts @ np.log(operator.densities(x)))


def goodness_of_fit(operator: WaveOperator, estimate: WaveEstimate, counts: Floats) -> float:
    """Return by how many standard deviations Pearson's statistic exceeds its mean under the estimate.

    The sum over the m outputs of (count - expected)^2 / expected has mean m - 1 and variance about 2 (m - 1) where the
    responses are what the estimate says. Responses that no mixture of honest ones explains, such as many equal ones,
    make it large; lies that imitate another distribution do not.

    Args:
        operator: the transition.
        estimate: estimate of the transition's inputs.
        counts: counts of the outputs, shape (m,).
    """
    expected = counts.sum() * operator.densities(estimate.entries)
    freedom = len(counts) - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom))


def choose_passes(operator: WaveOperator, counts: Floats) -> int:
    """Return the number of passes of `PASSES` whose estimates fit responses best that they were not made from.

    The responses are divided into four parts at random; each part is predicted by the estimate from the three others.
    Only counts are looked at, so this is post-processing. The division is drawn from a public key: two machines choose
    alike.

    Args:
        operator: the transition.
        counts: counts of the outputs, whole numbers, shape (m,).
    """
    counts = _checked(operator, counts)
    if counts.sum() < _FOLDS:
        return PASSES[-1]
    parts = _thinned(counts)
    scores = []
    for n_passes in PASSES:
        fits = [estimate_ems(operator, counts - part, n_passes=n_passes, max_maps=MAX_MAPS_OF_A_PART) for part in parts]
        scores.append(
            math.fsum(log_likelihood(operator, fit.entries, part) for fit, part in zip(fits, parts, strict=True))
        )
    return PASSES[int(np.argmax(scores))]


def most_seconds(wave: Wave, *, chooses_passes: bool) -> float:
    """Return about the processor time of an estimate that needs all maps, in seconds; most need a tenth of them.

    Args:
        wave: that is answered by.
        chooses_passes: whether `choose_passes` comes before it.
    """
    n_maps = MAX_MAPS + chooses_passes * len(PASSES) * _FOLDS * MAX_MAPS_OF_A_PART
    return n_maps * wave.n_outputs * _SECONDS_PER_OUTPUT


def uniform_stream(label: str) -> KeyStream:
    """Return a public stream, for post-processing that needs random numbers and must be the same everywhere."""
    return KeyStream(hashlib.sha256(b"moiety public randomness of estimates:" + label.encode()).digest())


def uniforms(stream: KeyStream, size: int) -> Floats:
    """Return numbers between 0 and 1, both excluded."""
    words = stream.words(size) >> np.uint64(12)
    found: Floats = (words.astype(np.float64) + 0.5) * 2.0**-52
    return found


def _thinned(counts: Floats) -> list[Floats]:
    """Divide the responses into parts, each response independently."""
    stream, left, parts = uniform_stream("thinning"), counts, []
    for n_left in range(_FOLDS, 1, -1):
        part = binomial.quantile(uniforms(stream, len(counts)), left, 1 / n_left)
        parts.append(part)
        left = left - part
    return [*parts, left]


def _checked(operator: WaveOperator, counts: NDArray[np.generic]) -> Floats:
    found = np.ascontiguousarray(counts, dtype=np.float64)
    if found.shape != (operator.wave.n_outputs,) or not np.all(found >= 0) or not 0 < found.sum() < math.inf:
        raise ValueError(f"counts of {operator.wave.n_outputs} outputs are not negative, and not all 0")
    return found


def _estimate(operator: WaveOperator, x: Floats, n_maps: int, has_converged: bool, n_passes: int) -> WaveEstimate:
    buckets = x[: operator.n_buckets]
    empty_share = float(x[-1]) if operator.wave.has_empty else 0.0
    return WaveEstimate(buckets / buckets.sum(), empty_share, n_maps, has_converged, n_passes)
