"""Every way to estimate a distribution, a mean or a variance, at one epsilon: from the values of a run to estimates.

Local responses are drawn by the mechanisms of `dp.local_mechanism`, of which each is epsilon-private for neighbours
that replace one value by another. The masked sum is the job itself, run by three parties and a coordinator in this
process; its epsilon holds at delta 1e-6 against the coordinator and one party together, for the same neighbours.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from analyses.distribution import protocol as distribution
from analyses.distribution.estimates.frequencies import estimate, estimate_levels, haar_frequencies
from analyses.distribution.estimates.tree_estimate import least_squares
from analyses.distribution.estimates.wave_estimate import choose_passes, estimate_em, estimate_ems
from analyses.distribution.estimates.wave_moments import moments, sign_mean
from analyses.distribution.estimates.wave_operator import WaveOperator
from analyses.distribution.estimates.ways import made_distribution
from analyses.distribution.methods import METHODS, Way
from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from bench.distribution.samples import Floats, Integers
from bench.utility.moment_runs import DELTA, run_in_process
from dp.local_mechanism.hashed_response import frequency_oracle
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave
from entropy import InsecureTestEntropy

EMS, EM, AUTO, WITH_EMPTY = "SW+EMS", "SW+EM", "SW+EMS, auto", "SW+EMS, empty slots"
ADMM, HH, HAAR, MASKED = "HH-ADMM", "HH", "HaarHRR", "masked"
BINS = (16, 32, 64)
"""Numbers of bins that [SW20] compares with."""

CFO = tuple(f"CFO {n_bins}" for n_bins in BINS)
ISOTONIC = ", isotonic"
WAYS: dict[Way, str] = {"norm-sub": "", "isotonic": ISOTONIC}
"""How bins are made a distribution, as [SW20] does and as we do by default, to what is added to their name."""
SR, PM, CLOSED = "SR", "PM", "SW, closed form"

N_PARTIES = 3


def counts_of(wave: Wave, inputs: Integers, seed: int) -> Floats:
    """Return the counts of the responses of a run."""
    responses = wave.respond(inputs, InsecureTestEntropy(f"wave {seed}"))
    return np.bincount(responses, minlength=wave.n_outputs).astype(np.float64)


@lru_cache(maxsize=1)
def _choices(seed: int, n: int) -> PublicChoices:
    return PublicChoices(f"run {seed}".encode(), map(str, range(n)))


def from_waves(inputs: Integers, n_buckets: int, odds: Odds, seed: int) -> dict[str, Floats]:
    """Return what is estimated from square waves: one set of responses, and one of a wave with empty slots."""
    operator = WaveOperator(Wave.square(n_buckets, odds), n_buckets)
    counts = counts_of(operator.wave, inputs, seed)
    beside = WaveOperator(Wave.square(n_buckets, odds, has_empty=True), n_buckets)
    return {
        EMS: estimate_ems(operator, counts).probabilities,
        AUTO: estimate_ems(operator, counts, n_passes=choose_passes(operator, counts)).probabilities,
        WITH_EMPTY: estimate_ems(beside, counts_of(beside.wave, inputs, seed)).probabilities,
        EM: estimate_em(operator, counts).probabilities,
    }


def from_categories(inputs: Integers, n_buckets: int, odds: Odds, seed: int) -> dict[str, Floats]:
    """Return what is estimated by frequency oracles: bins and trees. `HH` and `HaarHRR` may be negative."""
    choices, entropy, found = _choices(seed, len(inputs)), InsecureTestEntropy(f"others {seed}"), {}
    for n_bins in BINS:
        oracle = frequency_oracle(n_bins, odds)
        n_repeated = n_buckets // n_bins
        shares = estimate(oracle, oracle.respond(inputs // n_repeated, choices, entropy), choices).frequencies
        for way, suffix in WAYS.items():
            found[f"CFO {n_bins}{suffix}"] = np.repeat(made_distribution(way, shares)[0] / n_repeated, n_repeated)
    tree = HierarchicalResponse(n_buckets, odds)
    levels = estimate_levels(tree, tree.respond(inputs, choices, entropy), choices)
    found[HH] = least_squares(levels, tree.branching)[-1]
    found[f"{HH}{ISOTONIC}"], found[f"{HH}, norm-sub"], found[ADMM] = (
        made_distribution(way, found[HH], levels, tree.branching)[0] for way in METHODS["tree"].ways
    )
    haar = HaarResponse(n_buckets, odds)
    found[HAAR] = haar_frequencies(haar, haar.respond(inputs, choices, entropy), choices)
    found[f"{HAAR}{ISOTONIC}"], _ = made_distribution("isotonic", found[HAAR])
    return found


def masked_result(values: Floats, n_buckets: int, epsilon: float) -> dict[str, Any]:
    """Return the result of the job with method `masked` over parties that hold about equally many of the values."""
    return run_job("masked", values, n_buckets, epsilon)


def run_job(method: str, values: Floats, n_buckets: int, epsilon: float) -> dict[str, Any]:
    """Return the result of the job, all members in this process.

    Args:
        method: of `analyses.distribution.plan.DistributionParams`.
        values: in [0, 1).
        n_buckets: d.
        epsilon: of the job, in its default view.
    """
    column = ColumnSchema(name="value", lower=0, upper=1)
    tables = [
        Table(BlockSchema(party=f"party-{number}", columns=(column,), rows=(len(part), len(part))), part[:, None])
        for number, part in enumerate(np.array_split(values, N_PARTIES), start=1)
    ]
    job = Job.model_validate(
        {
            "analysis": "distribution",
            "inputs": [{"party": table.schema.party, "table": "table"} for table in tables],
            "privacy": {"epsilon": epsilon, "delta": DELTA},
            "parameters": {"method": method, "buckets": n_buckets},
        }
    )
    return run_in_process(distribution.plan(job, [table.schema for table in tables]), tables).result


def means(inputs: Integers, n_buckets: int, odds: Odds, seed: int) -> dict[str, float]:
    """Return the means that mechanisms for means say, in units of the range."""
    found = {way: _mean(way, inputs, n_buckets, odds, f"mean {seed}") for way in (SR, PM)}
    wave = Wave.square(n_buckets, odds)
    return {**found, CLOSED: moments(wave, counts_of(wave, inputs, seed)).mean}


def variances(inputs: Integers, n_buckets: int, odds: Odds, seed: int) -> dict[str, float]:
    """Return the variances that mechanisms for means say, as [SW20, section 3.6.3] lets them.

    Half of the respondents give the mean. The others learn it and answer about the squared difference from it, which
    lies between 0 and the square of the mean's distance to the farther end of the range.
    """
    is_first = np.random.default_rng(seed).permutation(len(inputs)) < len(inputs) // 2
    found = {}
    for way in (SR, PM):
        mean = float(np.clip(_mean(way, inputs[is_first], n_buckets, odds, f"first half {seed}"), 0, 1))
        most = max(mean, 1 - mean) ** 2
        squares = ((inputs[~is_first] + 0.5) / n_buckets - mean) ** 2 / most
        second = np.minimum((squares * n_buckets).astype(np.int64), n_buckets - 1)
        found[way] = most * _mean(way, second, n_buckets, odds, f"second half {seed}")
    wave = Wave.square(n_buckets, odds)
    return {**found, CLOSED: moments(wave, counts_of(wave, inputs, seed)).variance}


def _mean(way: str, inputs: Integers, n_buckets: int, odds: Odds, label: str) -> float:
    entropy = InsecureTestEntropy(f"{way}, {label}")
    if way == SR:
        signs = SignResponse(n_buckets, odds)
        return sign_mean(signs, np.bincount(signs.respond(inputs, entropy), minlength=signs.n_outputs)).mean
    wave = Wave.piecewise(n_buckets, odds)
    return moments(wave, np.bincount(wave.respond(inputs, entropy), minlength=wave.n_outputs)).mean
