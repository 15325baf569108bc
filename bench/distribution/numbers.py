"""Measures what is asked of our estimates: coverage of the intervals, and the seconds that the estimates take."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import beta

from analyses.distribution.estimates.intervals import half_widths
from analyses.distribution.estimates.metrics import mean_of, quantiles, wasserstein
from analyses.distribution.estimates.wave_estimate import choose_passes, estimate_ems
from analyses.distribution.estimates.wave_operator import WaveOperator
from bench.distribution.methods import counts_of, run_job
from bench.distribution.samples import BETA, QUICK_RESPONSES, SAMPLES, TAXI, Floats, inputs_of, share
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.wave import Wave
from entropy import InsecureTestEntropy

COVERAGE, SECONDS, MAPS, DISTANCE = "coverage", "processor seconds", "maps", "median of W1"
ONE_MAP, BOOTSTRAPS, RESPONSES = "EMS to its fixed point", "200 bootstraps", "1e6 responses"
N_RUNS, N_QUICK_RUNS = {BETA: 100, TAXI: 40}, 2
N_MASKED_RUNS = 40
N_AUTOMATIC_RUNS = 100
"""W1 of one run varies by a fifth about the median: that of 20 runs is not known to the precision of the target."""

N_TIMES = 9
OF_TIMES = 1024
"""Number of buckets of the estimates whose seconds are measured."""


@dataclass(frozen=True)
class Number:
    """One number.

    Attributes:
        kind: COVERAGE, SECONDS, MAPS or DISTANCE.
        what: in words.
        value: part of the runs, seconds of one thread, or a distance in units of the range.
        note: how it was measured.
    """

    kind: str
    what: str
    value: float
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Self:
        """Return what `as_json` made."""
        return cls(**kept)


def population(sample: str, n_buckets: int) -> Floats:
    """Return the distribution that the values of a sample are from; real values are the population of fresh draws."""
    if sample == BETA:
        found: Floats = np.diff(beta(5, 2).cdf(np.arange(n_buckets + 1) / n_buckets))
        return found
    return share(inputs_of(SAMPLES[sample].draw(0), n_buckets), n_buckets)


def mean_and_median(p: Floats) -> Floats:
    """Return both, in units of the range."""
    return np.append(mean_of(p), quantiles(p, np.array([0.5])))


def covered(sample: str, epsilon: float, n_runs: int, n_responses: int) -> Floats:
    """Return in which part of the runs the intervals of mean and of median held those of the population.

    Args:
        sample: name.
        epsilon: of a response.
        n_runs: how many, each with fresh values and responses.
        n_responses: of each run.
    """
    d = SAMPLES[sample].n_buckets
    operator, truth = WaveOperator(Wave.square(d, Odds.of_epsilon(epsilon)), d), population(sample, d)
    hits = np.zeros(2)
    for seed in range(n_runs):
        inputs = np.random.default_rng(seed).choice(d, n_responses, p=truth / truth.sum())
        found = estimate_ems(operator, counts_of(operator.wave, inputs, seed))
        half = half_widths(operator, found, n_responses, mean_and_median)
        hits += np.abs(mean_and_median(found.probabilities) - mean_and_median(truth)) <= half
    return hits / n_runs


def coverage(quick: bool) -> Iterator[Number]:
    """Yield the coverage of 95 % intervals: of waves over the population, of masked sums over the values themselves."""
    for sample, epsilon in ((BETA, 0.5), (BETA, 1.0), (BETA, 2.0), (TAXI, 1.0)):
        n_responses = QUICK_RESPONSES if quick else len(SAMPLES[sample].draw(0))
        n_runs = N_QUICK_RUNS if quick else N_RUNS[sample]
        hits = covered(sample, epsilon, n_runs, n_responses)
        for what, part in zip(("mean", "median"), hits.tolist(), strict=True):
            yield Number(COVERAGE, f"{what}, SW+EMS, {sample}, epsilon {epsilon:g}", part, f"{n_runs} runs")
        if quick:
            return
    for sample in (BETA, TAXI):
        for what, part in zip(("mean", "median"), _covered_by_masked(sample).tolist(), strict=True):
            yield Number(COVERAGE, f"{what}, masked, {sample}, epsilon 1", part, f"{N_MASKED_RUNS} runs")


def _covered_by_masked(sample: str) -> Floats:
    d, hits = SAMPLES[sample].n_buckets, np.zeros(2)
    for seed in range(N_MASKED_RUNS):
        values = SAMPLES[sample].draw(seed)
        result = run_job("masked", values, d, 1.0)
        at = [level for level, _ in result["quantiles"]].index(0.5)
        found = np.array([result["mean"], result["quantiles"][at][1]])
        half = np.array([result["half_widths"]["mean"], result["half_widths"]["quantiles"][at]])
        hits += np.abs(found - mean_and_median(share(inputs_of(values, d), d))) <= half
    return hits / N_MASKED_RUNS


def automatic_w1(n_runs: int) -> list[float]:
    """Return W1 of pick-up times at epsilon 1 with automatic smoothing, of so many runs."""
    d, found = SAMPLES[TAXI].n_buckets, []
    operator, inputs = WaveOperator(Wave.square(d, Odds.of_epsilon(1.0)), d), inputs_of(SAMPLES[TAXI].draw(0), d)
    for seed in range(n_runs):
        counts = counts_of(operator.wave, inputs, seed)
        estimate = estimate_ems(operator, counts, n_passes=choose_passes(operator, counts))
        found.append(wasserstein(estimate.probabilities, share(inputs, d)))
    return found


def automatic(quick: bool) -> Iterator[Number]:
    """Yield the distance of pick-up times with automatic smoothing, by more runs than the figures have."""
    found = automatic_w1(N_QUICK_RUNS if quick else N_AUTOMATIC_RUNS)
    what = f"{TAXI}, automatic smoothing, epsilon 1"
    yield Number(
        DISTANCE, what, float(np.median(found)), f"{len(found)} runs; {np.median(found[:20]):.5f} in the first 20"
    )


def speed(quick: bool) -> Iterator[Number]:
    """Yield the processor seconds of the estimates: medians of several measurements, in one thread."""
    wave = Wave.square(OF_TIMES, Odds.of_epsilon(1.0))
    operator, values = WaveOperator(wave, OF_TIMES), SAMPLES[BETA].values(1, quick)
    counts = counts_of(wave, inputs_of(values, OF_TIMES), 1)
    found, million = estimate_ems(operator, counts), np.arange(1_000_000) % OF_TIMES
    note = f"{OF_TIMES} buckets, epsilon 1"
    yield Number(MAPS, ONE_MAP, float(found.n_maps), note)
    ways: dict[str, Callable[[], object]] = {
        ONE_MAP: lambda: estimate_ems(operator, counts),
        BOOTSTRAPS: lambda: half_widths(operator, found, len(values), mean_and_median),
        RESPONSES: lambda: wave.respond(million, InsecureTestEntropy("time")),
    }
    for what, way in ways.items():
        yield Number(SECONDS, what, _median_s(way, 1 if quick else N_TIMES), note)


def _median_s(way: Callable[[], object], n_times: int) -> float:
    found = []
    for _ in range(n_times):
        start_s = time.process_time()
        way()
        found.append(time.process_time() - start_s)
    return float(np.median(found))
