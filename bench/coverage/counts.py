"""Intervals of counts and sums: draws of the noise of a release by the functions that members call."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from analyses.job.forecast import NORMAL_95
from analyses.job.schema import Table
from analyses.joint_sums import protocol as joint_sums
from analyses.joint_sums.estimate import estimates
from analyses.joint_sums.plan import COUNT, MEAN
from analyses.pattern_count import protocol as pattern_count
from analyses.pattern_count.persons import described
from analyses.pattern_count.reports import PatternReports, PatternTally
from analyses.power_moments import protocol as moments
from bench.analyses.rivals import tables
from bench.analyses.rivals.numbers import noise_of
from bench.coverage.record import Coverage
from bench.utility.moment_runs import plan_of
from dp.draw.skellam import sample_skellam
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.sign_response import SignResponse
from entropy import InsecureTestEntropy, SystemEntropy

EPSILONS = (0.5, 2.0, 8.0)
N_COLUMNS = 16
N_PERSONS = 3000


def additive(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of numbers whose only error is noise that is added to them: it is the same for all tables.

    Means are of a table whose mean is at a quarter of the range, with noise on the sum and on the number of rows.
    """
    patterns = tables.patterns()["Adult, 64 patterns"]
    spread = tables.spread_counts()["Lending Club, accounts"]
    for epsilon in EPSILONS:
        plan = plan_of(pattern_count, "pattern-count", patterns, {"max_rows": 40_000}, epsilon)
        deviation = plan.noise.standard_deviation("coordinator")
        held = np.abs(noise_of(plan.noise, plan.n_parties, runs)) <= NORMAL_95 * deviation
        yield Coverage.of("pattern counts: count", "Adult", epsilon, runs, np.asarray(held))
        for order in (1, 2):
            plan = plan_of(moments, "moments", spread, {"max_rows": 20_000, "order": order}, epsilon)
            deviation = plan.shared_noise.standard_deviation("coordinator")
            held = np.abs(noise_of(plan.shared_noise, plan.n_parties, runs)) <= NORMAL_95 * deviation
            yield Coverage.of(f"moments: order {order}", "Lending Club", epsilon, runs, np.asarray(held))
    for mu in (4, 100, 2500):
        drawn = sample_skellam(InsecureTestEntropy(f"sums {mu}"), mu, runs * N_COLUMNS).reshape(runs, N_COLUMNS)
        held = np.abs(drawn) <= NORMAL_95 * np.sqrt(2 * mu)
        what = "sums, histograms: number with Skellam noise"
        yield Coverage.of(what, f"parameter {mu}", 1.0, runs, held)
        rows, centre = 1000.0, 0.25
        weight = rows + drawn[:, :1]
        mean = (rows * centre + drawn[:, 1:]) / weight
        half = NORMAL_95 * np.sqrt(2 * mu) / weight * np.hypot(1, mean)
        yield Coverage.of("means: mean of 1,000 rows", f"parameter {mu}", 1.0, runs, np.abs(mean - centre) <= half)


def joint(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of counts, sums and means over joined rows: two whole tables, a few rows of a third."""
    for name, most in (("California housing", 1 << 20), ("CPS earnings", 1 << 20), ("breast tumours", 60)):
        parties, _ = tables.rows()[name]
        n_rows = min(most, parties[0].n_rows)
        some = [Table(t.schema.model_copy(update={"rows": (1, n_rows)}), t.values[:n_rows]) for t in parties]
        for epsilon in EPSILONS:
            yield from _joint(f"{name}, {n_rows:,} rows", some, epsilon, runs)


def _joint(table: str, parties: list[Table], epsilon: float, runs: int) -> Iterator[Coverage]:
    count: Any = plan_of(joint_sums, COUNT, parties, {}, epsilon)
    plan: Any = plan_of(joint_sums, MEAN, parties, {}, epsilon)
    truth = joint_sums.reference(parties, plan)
    noise = noise_of(count.noise, plan.n_parties, runs)
    counted = [estimates(np.array([truth["n_rows"] + one]), count).n_rows_interval for one in noise]
    held = [_holds(ends, truth["n_rows"]) for ends in counted]
    yield Coverage.of("joint-count: number of rows", table, epsilon, runs, np.array(held))
    whole = slice(0, truth["n_rows"])
    units = [plan.own_rows(o, t, None)(whole).sum(axis=0) for o, t in zip(plan.owners, parties, strict=True)]
    quiet = np.array([plan.constant * truth["n_rows"], *np.concatenate(units)])
    sums, means, known = [], [], []
    for drawn in noise_of(plan.noise, plan.n_parties, runs * len(quiet)).reshape(runs, -1):
        found = estimates(quiet + drawn, plan)
        sums.append(np.abs(found.sums - truth["sum"]) <= NORMAL_95 * found.sum_errors)
        ends = found.mean_intervals or [None] * len(found.sums)
        known.append([one is not None for one in ends])
        means.append([one is not None and _holds(one, mean) for one, mean in zip(ends, truth["mean"], strict=True)])
    yield Coverage.of("joint-mean: sum of a column", table, epsilon, runs, np.array(sums))
    yield Coverage.of("joint-mean: mean of a column", table, epsilon, runs, np.array(means), np.array(known))


def _holds(ends: tuple[float, float], value: float) -> bool:
    return ends[0] <= value <= ends[1]


def persons(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of what devices of the same persons say, three records of each, one in ten without a value.

    Counts of patterns are about the persons themselves, means and covariances about the law that they are drawn from.
    """
    for epsilon in (0.5, 2.0):
        for n_inputs in (2, 32):
            found = list(_told_of_persons(SignResponse(n_inputs, Odds.of_epsilon(epsilon), has_empty=True), runs))
            for what in dict.fromkeys(name for name, *_ in found):
                rows = np.array([row[1:] for row in found if row[0] == what], dtype=np.float64)  # None is no number
                held, known = np.abs(rows[:, 0] - rows[:, 2]) <= NORMAL_95 * rows[:, 1], ~np.isnan(rows[:, 0])
                text = f"pattern counts of devices: {what}"
                yield Coverage.of(text, f"made-up, {N_PERSONS:,} persons", epsilon, runs, held, known)


def _told_of_persons(mechanism: SignResponse, runs: int) -> Iterator[tuple[str, float | None, float | None, float]]:
    """Yield what a number is, the number, its standard error, and the truth."""
    d, names = mechanism.n_inputs, ["a", "b", "c"]
    shape, rng, grid = (4,) * len(names), np.random.default_rng(d), (np.arange(d) + 0.5) / d
    first = rng.random(d) ** 2 + 0.1
    law = np.outer(first, rng.random(d)) + np.diag(first) * d / 2
    law /= law.sum()
    means = {"a": law.sum(axis=1) @ grid, "b": law.sum(axis=0) @ grid}
    for run in range(runs):
        pairs = rng.choice(d**2, N_PERSONS, p=law.reshape(-1))
        values = np.stack([*np.divmod(pairs, d), pairs % d], axis=1)
        values[rng.random(values.shape) < 0.1] = d
        kinds = 1 + mechanism.respond(values.reshape(-1), InsecureTestEntropy(f"persons {run}")).reshape(-1, 3)
        kinds[rng.random(kinds.shape) < 0.05] = 0  # no response
        cells = np.bincount(np.ravel_multi_index(tuple(kinds.T), shape), minlength=4 ** len(names)).reshape(shape)
        told = described([mechanism] * len(names), cells, names, [(0.0, 1.0)] * len(names), len(names))
        for row in told.get("patterns", ()):
            at = [names.index(name) for name in row["records"]]
            exact = np.sum(np.all((values[:, at] == row["values"]) & (kinds[:, at] > 0), axis=1))
            yield f"pattern of {len(at)}", row["count"], row["standard_error"], float(exact)
        for row in told.get("means", ())[:2]:
            yield "mean", row["mean"], row["standard_error"], float(means[row["record"]])
        for row in told.get("covariances", ())[:1]:
            truth = float(grid @ law @ grid - means["a"] * means["b"])
            yield "covariance", row["covariance"], row["standard_error"], truth


def reports(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of pattern counts by reports, over all patterns of a table."""
    for name, parties in tables.patterns().items():
        n_rows = min(2000, parties[0].n_rows)
        few = [type(t)(t.schema.model_copy(update={"rows": (1, n_rows)}), t.values[:n_rows]) for t in parties]
        parameters = {"method": "randomized-response", "max_rows": n_rows}
        plan: Any = plan_of(pattern_count, "pattern-count", few, parameters, 16.0)
        found: PatternReports = plan.reports
        categories = [(t.values[:, 0] - t.schema.columns[0].lower).astype(np.int64) for t in few]
        truth = np.zeros(found.n_categories)
        np.add.at(truth, tuple(categories), 1)
        held, entropy = [], SystemEntropy()
        for _ in range(runs):
            tally = PatternTally(found)
            for block in found.blocks():
                here = [
                    np.append(c, np.full(max(0, found.n_slots - len(c)), -1))[block.start : block.stop]
                    for c in categories
                ]
                flips = [found.draw(entropy, party, len(block)) for party in range(len(few))]
                tally.add(block, [found.packed(p, c, f) for p, (c, f) in enumerate(zip(here, flips, strict=True))])
            estimate = tally.estimate()
            held.append(np.abs(estimate.counts - truth) <= NORMAL_95 * estimate.standard_errors)
        yield Coverage.of("pattern counts by reports: count", name, 16.0, runs, np.array(held))
