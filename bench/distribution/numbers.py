"""Measures what is asked of our estimates: the distance with automatic smoothing, and the seconds that they take."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from analyses.distribution.estimates.metrics import wasserstein
from analyses.distribution.estimates.wave_estimate import choose_passes, estimate_ems
from analyses.distribution.estimates.wave_operator import WaveOperator
from bench.distribution.methods import counts_of
from bench.distribution.samples import BETA, SAMPLES, TAXI, inputs_of, share
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.wave import Wave
from entropy import InsecureTestEntropy

SECONDS, MAPS, DISTANCE = "processor seconds", "maps", "median of W1"
ONE_MAP, RESPONSES = "EMS to its fixed point", "1e6 responses"
N_QUICK_RUNS = 2
N_AUTOMATIC_RUNS = 100
"""W1 of one run varies by a fifth about the median: that of 20 runs is not known to the precision of the target."""

N_TIMES = 9
OF_TIMES = 1024
"""Number of buckets of the estimates whose seconds are measured."""


@dataclass(frozen=True)
class Number:
    """One number.

    Attributes:
        kind: SECONDS, MAPS or DISTANCE.
        what: in words.
        value: seconds of one thread, or a distance in units of the range.
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
