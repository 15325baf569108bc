"""Intervals of distributions: counts and responses drawn by their laws, then what the coordinator makes of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from analyses.distribution.estimates.estimate import counted, statistics
from analyses.distribution.estimates.metrics import mean_of
from analyses.distribution.estimates.wave_moments import moments
from analyses.distribution.estimates.wave_operator import WaveOperator
from analyses.distribution.inquiry import DistributionParams, Inquiry
from analyses.job.forecast import NORMAL_95
from analyses.sums.tree_counts import TreeCounts
from bench.coverage.record import Coverage
from bench.distribution.samples import BETA, LOANS, SAMPLES, TAXI, WAGES, Floats, inputs_of, share
from dp.draw.skellam import sample_skellam
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.wave import Wave
from entropy import InsecureTestEntropy

TABLES = (BETA, TAXI, WAGES, LOANS)
N_BUCKETS, N_ROWS = 80, 9000
MU = 150
"""Skellam parameter of the noise on each count: about that of epsilon 0.7."""

QUERIES = ((0.2, 0.4), (0.5, 0.55))


def masked(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of masked sums: mean, each quantile, ranges and buckets, about the rows that were counted."""
    asked = Inquiry(DistributionParams(range=(0, 1), buckets=N_BUCKETS, queries=QUERIES, method="masked"))
    for table in TABLES:
        inputs = _inputs(table)
        counts, truth = TreeCounts(N_BUCKETS, N_ROWS), statistics(asked, share(inputs, N_BUCKETS))
        exact, found = counts.counted(inputs), []
        for run in range(runs):
            noise = sample_skellam(InsecureTestEntropy(f"coverage {run}"), MU, counts.n_entries)
            found.append(_ends(counted(asked, counts, exact + noise, 2.0 * MU)))
        ends = np.array(found)
        held = (ends[..., 0] <= truth) & (truth <= ends[..., 1])
        levels = asked.params.quantiles
        names = [
            "mean",
            *(f"quantile {level:g}" for level in levels),
            *(f"share from {a:g} to {b:g}" for a, b in QUERIES),
        ]
        for at, name in enumerate(names):
            yield Coverage.of(f"distribution, masked: {name}", table, 0.7, runs, held[:, at])
        yield Coverage.of("distribution, masked: buckets", table, 0.7, runs, held[:, len(names) :])


def _ends(result: dict[str, Any]) -> Floats:
    known = result["intervals"]
    return np.array([known["mean"], *known["quantiles"], *known["queries"], *known["probabilities"]])


def closed_means(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of the mean in closed form by each kind of wave, about the distribution of the values."""
    for method in ("wave", "trapezoid", "triangle"):
        for table in TABLES[:3]:
            for epsilon in (0.5, 2.0):
                odds = Odds.of_epsilon(epsilon)
                wave = (
                    Wave.square(N_BUCKETS, odds, has_empty=True)
                    if method == "wave"
                    else Wave.of_shape(method, N_BUCKETS, odds, has_empty=True)
                )
                p = share(_inputs(table), N_BUCKETS)
                densities = WaveOperator(wave, N_BUCKETS).densities(np.append(0.9 * p, 0.1))
                rng = np.random.default_rng(len(table) + len(method))
                drawn = rng.multinomial(N_ROWS, densities / densities.sum(), size=runs)
                found = [moments(wave, each) for each in drawn]
                held = [abs(one.mean - mean_of(p)) <= NORMAL_95 * one.mean_error for one in found]
                yield Coverage.of(f"distribution, {method}: closed mean", table, epsilon, runs, np.array(held))


def _inputs(table: str) -> Any:
    return inputs_of(SAMPLES[table].draw(0)[:N_ROWS], N_BUCKETS)
