"""Intervals of distributions: counts and responses drawn by their laws, then what the coordinator makes of them."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from analyses.distribution.estimates.estimate import counted, estimated, statistics
from analyses.distribution.estimates.metrics import mean_of, variance_of
from analyses.distribution.estimates.tally import tally_of
from analyses.distribution.estimates.wave_moments import moments, sign_mean
from analyses.distribution.estimates.wave_operator import WaveOperator
from analyses.distribution.inquiry import DistributionParams, Inquiry
from analyses.distribution.methods import Answered
from analyses.job.forecast import NORMAL_95
from analyses.sums.tree_counts import TreeCounts
from bench.coverage.record import Coverage
from bench.distribution.samples import BETA, LOANS, SAMPLES, TAXI, WAGES, Floats, inputs_of, share
from dp.draw.skellam import sample_skellam
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave
from entropy import InsecureTestEntropy

TABLES = (BETA, TAXI, WAGES, LOANS)
N_BUCKETS, N_ROWS = 80, 9000
MU = 150
"""Skellam parameter of the noise on each count: about that of epsilon 0.7."""

CLOSED: tuple[Answered, ...] = ("wave", "trapezoid", "triangle", "piecewise", "sign")
OF_FREQUENCIES: dict[Answered, int] = {"tree": 80, "haar": 80, "bins": 20, "hadamard": 20}
"""Method to the number of buckets; of `bins` and `hadamard` each is a bin."""

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
        n_quantiles = len(asked.params.quantiles)
        names = {f"quantile {level:g}": slice(at, at + 1) for at, level in enumerate(asked.params.quantiles, start=1)}
        names |= {f"share from {a:g} to {b:g}": slice(at, at + 1) for at, (a, b) in enumerate(QUERIES, 1 + n_quantiles)}
        yield from _of_numbers("distribution, masked", table, 0.7, np.array(found), truth, names)


def _of_numbers(
    what: str, table: str, epsilon: float, ends: Floats, truth: Floats, names: Mapping[str, slice]
) -> Iterator[Coverage]:
    """Yield the coverage of the mean, of what has names, and of the buckets, which are all others."""
    held, stated, runs = (ends[..., 0] <= truth) & (truth <= ends[..., 1]), ~np.isnan(ends[..., 0]), len(ends)
    places = {"mean": slice(0, 1), **names, "buckets": slice(max(place.stop for place in names.values()), None)}
    for name, place in places.items():
        yield Coverage.of(f"{what}: {name}", table, epsilon, runs, held[:, place], stated[:, place])


def _ends(result: dict[str, Any]) -> Floats:
    known = result["intervals"]
    if known is None:
        n_buckets = len(result["edges"]) - 1
        return np.full((1 + len(result["quantiles"]) + len(result["queries"]) + n_buckets, 2), np.nan)
    return np.array([known["mean"], *known["quantiles"], *known["queries"], *known["probabilities"]])


def responses(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of frequencies from responses: about the distribution that the rows are drawn from.

    One response in ten is of a slot that holds nobody.
    """
    for method, n_buckets in OF_FREQUENCIES.items():
        for table in (BETA, WAGES):
            for epsilon in (0.5, 2.0):
                params = DistributionParams(
                    range=(0, 1), buckets=n_buckets, bins=n_buckets, queries=QUERIES, method=method
                )
                asked = Inquiry(params, Odds.of_epsilon(epsilon).favoured)
                p = share(_inputs(table, n_buckets), n_buckets)
                truth, rng, found = statistics(asked, p), np.random.default_rng(len(table) + len(method)), []
                for run in range(runs):
                    rows = rng.choice(n_buckets + 1, N_ROWS, p=np.append(0.9 * p, 0.1))
                    choices = PublicChoices(f"{table} {run}".encode(), map(str, range(N_ROWS)))
                    tally = tally_of(asked.response)
                    tally.add(asked.response.respond(rows, choices, InsecureTestEntropy(f"{run}")), choices)
                    found.append(_ends(estimated(asked, tally)))
                n = 1 + len(params.quantiles)
                names = {"quantiles": slice(1, n), "ranges": slice(n, n + len(QUERIES))}
                yield from _of_numbers(f"distribution, {method}", table, epsilon, np.array(found), truth, names)


PAIR_CELLS = (5, 4)
PAIR_RECTANGLES = ((0.0, 0.4, 0.25, 1.0), (0.2, 0.4, 0.25, 0.5), (0.0, 1.0, 0.5, 1.0))
"""Of two numbers: rectangles of whole cells, whose intervals are to hold in 95 % of results."""


def pairs(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of shares of two numbers: about the distribution that the rows are drawn from.

    The second number depends on the first. One response in ten is of a slot that holds nobody.
    """
    for table in (BETA, WAGES):
        first = SAMPLES[table].draw(0)
        second = np.clip(first + np.random.default_rng(2).normal(0, 0.2, len(first)), 0, 1)
        people = np.column_stack([first, second])
        for epsilon in (0.4, 1.0, 4.0):
            params = DistributionParams(
                range=(0, 1), second=(0, 1), cells=PAIR_CELLS, method="grid", rectangles=PAIR_RECTANGLES
            )
            asked = Inquiry(params, Odds.of_epsilon(epsilon).favoured)
            cells = share(asked.inputs_of(people)[0], params.n_inputs)
            shares = [params.pairs.covered(one).evenly @ cells for one in PAIR_RECTANGLES]
            each = cells.reshape(PAIR_CELLS)
            truth = np.concatenate([cells, each.sum(axis=1), each.sum(axis=0), shares])
            rng, found = np.random.default_rng(len(table)), []
            for run in range(runs):
                rows = rng.choice(params.n_inputs + 1, N_ROWS, p=np.append(0.9 * cells, 0.1))
                choices = PublicChoices(f"{table} {run}".encode(), map(str, range(N_ROWS)))
                tally = tally_of(asked.response)
                tally.add(asked.response.respond(rows, choices, InsecureTestEntropy(f"{run}")), choices)
                grid = estimated(asked, tally)["grid"]
                numbers = [*grid["cells"], *grid["margins"], [one[5:] for one in grid["rectangles"]]]
                found.append([one[1:] for of_part in numbers for one in of_part])
            ends = np.array(found, dtype=np.float64)
            held, stated = (ends[..., 0] <= truth) & (truth <= ends[..., 1]), ~np.isnan(ends[..., 0])
            n = len(cells)
            names = {"cells": slice(0, n), "margins": slice(n, n + sum(PAIR_CELLS)), "rectangles": slice(-3, None)}
            for name, place in names.items():
                yield Coverage.of(f"distribution, grid: {name}", table, epsilon, runs, held[:, place], stated[:, place])


def closed_means(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of what needs no smoothing: means, and variances by waves, of the values' distribution."""
    for method in CLOSED:
        for table in TABLES[:3]:
            for epsilon in (0.5, 2.0):
                params = DistributionParams(range=(0, 1), buckets=N_BUCKETS, method=method)
                mechanism, p = (
                    Inquiry(params, Odds.of_epsilon(epsilon).favoured).response,
                    share(_inputs(table), N_BUCKETS),
                )
                slots, rng = np.append(0.9 * p, 0.1), np.random.default_rng(len(table) + len(method))
                if isinstance(mechanism, SignResponse):
                    law = slots @ mechanism.weights_of(np.arange(N_BUCKETS + 1)) / mechanism.total
                    found = [sign_mean(mechanism, each) for each in rng.multinomial(N_ROWS, law, size=runs)]
                else:
                    assert isinstance(mechanism, Wave)
                    law = WaveOperator(mechanism, N_BUCKETS).densities(slots)
                    found = [moments(mechanism, each) for each in rng.multinomial(N_ROWS, law / law.sum(), size=runs)]
                off = {"mean": [abs(one.mean - mean_of(p)) / one.mean_error for one in found]}
                if isinstance(mechanism, Wave):
                    off["variance"] = [abs(one.variance - variance_of(p)) / one.variance_error for one in found]
                for name, errors in off.items():
                    held = np.array(errors) <= NORMAL_95
                    yield Coverage.of(f"distribution, {method}: closed {name}", table, epsilon, runs, held)


def _inputs(table: str, n_buckets: int = N_BUCKETS) -> Any:
    return inputs_of(SAMPLES[table].draw(0)[:N_ROWS], n_buckets)
