"""Counts, histograms and moments beside OpenDP's, for which somebody holds all records: root mean square errors.

Both add or remove one record, at the same epsilon and delta, in the view of the coordinator. A histogram's records are
rows (`unit = "row"`), as they are in a table that one participant holds. Ours are whole jobs, all members in this
process. A moment is one number, whose error one job in twenty hardly tells: there both are 2,000 draws of the noise by
the functions that jobs call, on the exact sum, besides twenty whole jobs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.pattern_count import protocol as pattern_count
from analyses.power_moments import protocol as moments
from analyses.sums import protocol as sums
from bench.analyses.rivals import opendp, tables
from bench.analyses.table import Row
from bench.utility.moment_runs import DELTA, plan_of, run_in_process
from entropy import SystemEntropy

EPSILONS = (0.5, 1.0, 4.0)
RUNS = 20
RIVAL_RUNS = 200
"""Of counts, which cost the rival next to nothing: the error that ours is divided by hardly depends on chance."""

DRAWS = 2000
PARTIES = 5
"""That hold the rows of a histogram."""

COUNTS, HISTOGRAMS, MOMENTS = (f"beside rivals, {what}" for what in ("pattern counts", "histograms", "moments"))
METRIC = "root mean square error, less is better"
RELATIVE = "root mean square error as a share of the exact value, less is better"
JOBS = "twenty whole jobs"
STATED = "as ours states"
"""The standard error in the result, of the noise's exact law: no run decides it."""

ADJACENCY = "add or remove one record, coordinator's view, delta 1e-6"

Floats = NDArray[np.float64]


def _rms(differences: Any) -> float:
    return float(np.sqrt(np.mean(np.square(np.asarray(differences, dtype=np.float64)))))


def _epsilons(quick: bool) -> tuple[float, ...]:
    return EPSILONS[1:2] if quick else EPSILONS


def counts(quick: bool) -> Iterator[Row]:
    """Yield pattern counts."""
    runs, theirs = (1, 5) if quick else (RUNS, RIVAL_RUNS)
    questions, ours, others = [], [], []
    for name, parties in tables.patterns().items():
        for epsilon in _epsilons(quick):
            n_rows = parties[0].n_rows
            plan = plan_of(pattern_count, "pattern-count", parties, {"max_rows": 2 * n_rows}, epsilon)
            exact = pattern_count.reference(parties, plan)
            found = [run_in_process(plan, parties).result for _ in range(runs)]
            ours.append(_rms([np.array(one["counts"]) - exact for one in found]))
            others.append({STATED: float(np.mean(found[0]["standard_errors"]))})
            lowest = [t.schema.columns[0].lower for t in parties]
            codes = [(t.values[:, 0] - low).astype(np.int64) for t, low in zip(parties, lowest, strict=True)]
            values = np.ravel_multi_index(codes, plan.shape).astype(np.int64)
            questions.append(opendp.Question(name, "counts", exact.size, epsilon, DELTA, theirs, values))
    note = f"three parties; {runs} runs, {theirs} of the rival; {ADJACENCY}"
    yield from _compared(COUNTS, METRIC, questions, ours, note, others)


def histograms(quick: bool) -> Iterator[Row]:
    """Yield histograms."""
    runs, theirs = (1, 5) if quick else (RUNS, RIVAL_RUNS)
    questions, ours, others = [], [], []
    for column in tables.binned():
        n_bins = len(column.edges) - 1
        exact = np.histogram(column.values, column.edges)[0]
        parties = column.of_parties(PARTIES)
        for epsilon in _epsilons(quick):
            parameters = {"edges": list(column.edges), "max_rows": len(column.values), "unit": "row"}
            plan = plan_of(sums, "secure-histogram", parties, parameters, epsilon)
            found = [run_in_process(plan, parties).result for _ in range(runs)]
            ours.append(_rms([np.array(one["counts"]) - exact for one in found]))
            others.append({STATED: float(np.mean(found[0]["standard_errors"]))})
            codes = np.minimum(np.searchsorted(column.edges, column.values, side="right") - 1, n_bins - 1)
            assert (np.bincount(codes, minlength=n_bins) == exact).all()
            questions.append(opendp.Question(column.name, "counts", n_bins, epsilon, DELTA, theirs, codes))
    note = f"{PARTIES} parties, none drops out; {runs} runs, {theirs} of the rival; {ADJACENCY}"
    yield from _compared(HISTOGRAMS, METRIC, questions, ours, note, others)


def powers(quick: bool) -> Iterator[Row]:
    """Yield moments of order 1 to 3."""
    draws, questions, ours, others, sizes = 50 if quick else DRAWS, [], [], [], []
    for name, parties in tables.spread_counts().items():
        for order in (2,) if quick else (1, 2, 3):
            for epsilon in _epsilons(quick):
                parameters = {"order": order, "max_rows": 2 * parties[0].n_rows}
                plan = plan_of(moments, "moments", parties, parameters, epsilon)
                exact = moments.reference(parties, plan)
                found = [run_in_process(plan, parties).result for _ in range(1 if quick else RUNS)]
                of_jobs = _rms(np.array([one["moment"] for one in found]) - exact) / exact
                others.append({STATED: found[0]["standard_error"] / exact, JOBS: of_jobs})
                ours.append(_rms(noise_of(plan.shared_noise, plan.n_parties, draws)) / exact)
                sizes.append(exact)
                size = sum(plan.largest) ** order
                values = np.sum([t.values[:, 0] for t in parties], axis=0).astype(np.int64) ** order
                asked = opendp.Question(f"{name}, order {order}", "sum", size, epsilon, DELTA, draws, values)
                questions.append(asked)
    note = f"three parties; {draws} draws; {ADJACENCY}"
    yield from _compared(MOMENTS, RELATIVE, questions, ours, note, others, sizes)


def noise_of(mechanism: Any, n_parties: int, draws: int) -> NDArray[np.int64]:
    """Return so many draws of the noise of all parties, as they draw it: each entry is independent of the others."""
    longer, entropy = replace(mechanism, length=draws), SystemEntropy()
    total: NDArray[np.int64] = np.sum([longer.draw(entropy) for _ in range(n_parties)], axis=0)
    return total


def _compared(
    analysis: str,
    metric: str,
    questions: Sequence[opendp.Question],
    ours: Sequence[float],
    note: str,
    others: Sequence[dict[str, float]],
    sizes: Sequence[float] | None = None,
) -> Iterator[Row]:
    """Yield one row per question; the better mechanism of the rival stands for central privacy."""
    for index, (asked, theirs) in enumerate(zip(questions, opendp.released(questions), strict=True)):
        exact = np.bincount(asked.values, minlength=asked.size) if asked.kind == "counts" else asked.values.sum()
        scale = 1.0 if sizes is None else sizes[index]
        errors = {name: _rms(found - exact) / scale for name, found in theirs.items()}
        yield Row(
            analysis=analysis,
            dataset=f"{asked.name} ({len(asked.values):,} rows)",
            epsilon=asked.epsilon,
            metric=metric,
            mpc=ours[index],
            central=min(errors.values()),
            non_private=0.0,
            others=others[index] | errors,
            note=f"ours is {ours[index] / min(errors.values()):.2f} times the better one; {note}",
        )
