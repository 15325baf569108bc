"""Measures estimates of a distribution from local responses: errors per method, times of the estimates, coverage.

python -m bench.analyses.distribution            20 runs per number; minutes
python -m bench.analyses.distribution --quick    3 runs, to see that it runs
python -m bench.analyses.distribution --json X   writes the numbers to the file X too

The values are n = 100,000 draws of Beta(5, 2) in d = 256 buckets, as in [SW20]; W1 and KS are against the values drawn,
in units of the range. Times are the least of several runs on this machine.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimates.binned import BINS, bins_of, estimate_binned
from analyses.distribution.estimates.frequencies import Floats, estimate_levels, haar_frequencies
from analyses.distribution.estimates.intervals import half_widths
from analyses.distribution.estimates.metrics import (
    kolmogorov_smirnov,
    mean_of,
    quantiles,
    range_query_error,
    variance_of,
    wasserstein,
)
from analyses.distribution.estimates.monotone import isotonic, norm_sub
from analyses.distribution.estimates.tree_estimate import least_squares, non_negative
from analyses.distribution.estimates.wave_estimate import choose_passes, estimate_em, estimate_ems
from analyses.distribution.estimates.wave_moments import moments, sign_mean
from analyses.distribution.estimates.wave_operator import WaveOperator
from bench.machine import describe_machine
from dp.local_mechanism.hashed_response import frequency_oracle
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave
from entropy import InsecureTestEntropy

Integers = NDArray[np.int64]

N_RESPONSES = 100_000
N_BUCKETS = 256
EPSILONS = (0.5, 1.0, 2.0)
TARGETS = {0.5: 0.0098, 1.0: 0.0050, 2.0: 0.0026}
"""Largest W1 of SW+EMS, on average over 20 runs."""

_LEVELS = np.array([0.25, 0.5, 0.75])


def beta_values(seed: int, n_buckets: int = N_BUCKETS) -> Integers:
    """Return the buckets of the values of one run."""
    drawn = np.random.default_rng(seed).beta(5, 2, N_RESPONSES)
    return np.minimum((drawn * n_buckets).astype(np.int64), n_buckets - 1)


def share(values: Integers, n_buckets: int = N_BUCKETS) -> Floats:
    """Return the distribution of the values."""
    found: Floats = np.bincount(values, minlength=n_buckets) / len(values)
    return found


def counts_of(wave: Wave, values: Integers, seed: int) -> Integers:
    """Return the counts of the responses."""
    return np.bincount(wave.respond(values, InsecureTestEntropy(f"wave {seed}")), minlength=wave.n_outputs)


def distributions(epsilon: float, seed: int) -> dict[str, Floats]:
    """Return what each method estimates from the responses of one run."""
    values, odds = beta_values(seed), Odds.of_epsilon(epsilon)
    operator = WaveOperator(Wave.square(N_BUCKETS, odds), N_BUCKETS)
    counts = counts_of(operator.wave, values, seed).astype(np.float64)
    choices = PublicChoices(f"run {seed}".encode(), map(str, range(len(values))))
    entropy = InsecureTestEntropy(f"others {seed}")
    found = {
        "SW+EMS": estimate_ems(operator, counts).probabilities,
        "SW+EMS, auto": estimate_ems(operator, counts, n_passes=choose_passes(operator, counts)).probabilities,
        "SW+EM": estimate_em(operator, counts).probabilities,
    }
    for n_bins in BINS:
        oracle = frequency_oracle(n_bins, odds)
        responses = oracle.respond(bins_of(values, N_BUCKETS, n_bins), choices, entropy)
        found[f"CFO {n_bins}"] = estimate_binned(oracle, responses, choices, N_BUCKETS)
        found[f"CFO {n_bins}, norm-sub"] = estimate_binned(oracle, responses, choices, N_BUCKETS, by_norm_sub=True)
    tree = HierarchicalResponse(N_BUCKETS, odds)
    levels = estimate_levels(tree, tree.respond(values, choices, entropy), choices)
    found["HH raw"] = levels[-1].frequencies
    found["HH, least squares"] = least_squares(levels, tree.branching)[-1]
    found["HH, isotonic"] = isotonic(found["HH, least squares"])
    found["HH, norm-sub"] = norm_sub(found["HH, least squares"])
    found["HH-ADMM"] = non_negative(levels, tree.branching)[0]
    haar = HaarResponse(N_BUCKETS, odds)
    found["HaarHRR raw"] = haar_frequencies(haar, haar.respond(values, choices, entropy), choices)
    found["HaarHRR, isotonic"] = isotonic(found["HaarHRR raw"])
    return found


def errors(epsilon: float, n_runs: int) -> dict[str, dict[str, float]]:
    """Return the mean errors of each method."""
    sums: dict[str, dict[str, float]] = {}
    for seed in range(n_runs):
        truth = share(beta_values(seed))
        for method, found in distributions(epsilon, seed).items():
            one = {
                "W1": wasserstein(found, truth),
                "KS": kolmogorov_smirnov(found, truth),
                "range .1": range_query_error(found, truth, 0.1),
                "range .4": range_query_error(found, truth, 0.4),
                "mean": abs(mean_of(found) - mean_of(truth)),
                "variance": abs(variance_of(found) - variance_of(truth)),
                "quantiles": float(np.abs(quantiles(isotonic(found), _LEVELS) - quantiles(truth, _LEVELS)).mean()),
            }
            kept = sums.setdefault(method, dict.fromkeys(one, 0.0))
            for name, value in one.items():
                kept[name] += value / n_runs
    return sums


def mean_errors(epsilon: float, n_runs: int) -> dict[str, float]:
    """Return the mean errors of the mean, by methods that estimate it in closed form."""
    odds, sums = Odds.of_epsilon(epsilon), {"SW": 0.0, "PM": 0.0, "SR": 0.0}
    waves = {"SW": Wave.square(N_BUCKETS, odds), "PM": Wave.piecewise(N_BUCKETS, odds)}
    signs = SignResponse(N_BUCKETS, odds)
    for seed in range(n_runs):
        values = beta_values(seed)
        truth = mean_of(share(values))
        for name, wave in waves.items():
            sums[name] += abs(moments(wave, counts_of(wave, values, seed)).mean - truth) / n_runs
        plus = int(signs.respond(values, InsecureTestEntropy(f"signs {seed}")).sum())
        sums["SR"] += abs(sign_mean(N_BUCKETS, odds, plus, len(values))[0] - truth) / n_runs
    return sums


def coverage(epsilon: float, n_runs: int, n_repetitions: int) -> dict[str, float]:
    """Return how often the intervals of mean and median hold those of the distribution that values are drawn from."""
    operator = WaveOperator(Wave.square(N_BUCKETS, Odds.of_epsilon(epsilon)), N_BUCKETS)
    truth = sum((share(beta_values(1000 + i)) for i in range(20)), np.zeros(N_BUCKETS)) / 20

    def statistics(p: Floats) -> Floats:
        return np.append(mean_of(p), quantiles(p, np.array([0.5])))

    hits = np.zeros(2)
    for seed in range(n_runs):
        counts = counts_of(operator.wave, beta_values(seed), seed).astype(np.float64)
        found = estimate_ems(operator, counts)
        half = half_widths(operator, found, N_RESPONSES, statistics, n_repetitions=n_repetitions)
        hits += np.abs(statistics(found.probabilities) - statistics(truth)) <= half
    return {"mean": hits[0] / n_runs, "median": hits[1] / n_runs}


def times(n_repetitions: int) -> dict[str, float]:
    """Return seconds, and the number of maps of a fixed point, for 1024 buckets at epsilon 1."""
    operator = WaveOperator(Wave.square(1024, Odds.of_epsilon(1.0)), 1024)
    counts = counts_of(operator.wave, beta_values(1, 1024), 1).astype(np.float64)
    found = estimate_ems(operator, counts)
    values = np.arange(1_000_000) % 1024
    return {
        "EMS, 1024 buckets": _least_time(lambda: estimate_ems(operator, counts), n_repetitions),
        "maps": float(found.n_maps),
        "200 bootstraps, 1024 buckets": _least_time(
            lambda: half_widths(operator, found, N_RESPONSES, lambda p: np.array([mean_of(p)])), 2
        ),
        "1e6 responses": _least_time(lambda: operator.wave.respond(values, InsecureTestEntropy("time")), 3),
    }


def _least_time(run: Callable[[], object], n_times: int) -> float:
    found = []
    for _ in range(n_times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def measure(quick: bool) -> dict[str, Any]:
    """Return all numbers."""
    n_runs = 3 if quick else 20
    found: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "machine": describe_machine(), "runs": n_runs}
    found["errors"] = {str(epsilon): errors(epsilon, n_runs) for epsilon in ((1.0,) if quick else EPSILONS)}
    found["errors of the mean"] = {"1.0": mean_errors(1.0, n_runs)}
    found["coverage"] = {"1.0": coverage(1.0, 5 if quick else 50, 50 if quick else 200)}
    found["seconds"] = times(5 if quick else 30)
    if not quick:
        found["targets"] = {
            str(epsilon): {"W1 of SW+EMS": found["errors"][str(epsilon)]["SW+EMS"]["W1"], "at most": most}
            for epsilon, most in TARGETS.items()
        }
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print JSON, and write it where asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    options = parser.parse_args(arguments)
    text = json.dumps(measure(options.quick), indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
