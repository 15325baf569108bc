"""`moiety demo pattern-count`: what it prints."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from analyses.job.job import JobError
from analyses.pattern_count import protocol as pattern_count
from analyses.pattern_count.baseline import central_release, reported_counts
from demo.data_sets.kdd import CATEGORIES
from demo.job import DemoRun
from demo.text import epsilon_against, job_line, next_line, privacy_lines
from entropy import SystemEntropy

_WORDS: Mapping[str, Sequence[str]] = {
    "carrier.protocol": CATEGORIES["protocol_type"],
    "host.logged_in": ("not logged in", "logged in"),
    "monitor.is_attack": ("normal", "attack"),
}


@dataclass(frozen=True)
class PatternCountOutcome:
    """What the demo shows.

    Attributes:
        job_id: of the job.
        n_rows: of the joint table.
        method: that the job used.
        patterns: the category of each party, in words; all tables below are in this order.
        counts: what the coordinator got.
        standard_errors: what it was told of their errors.
        exact: needs somebody who holds everything.
        error: way of counting to the root mean square of its errors; None where a plan refuses it.
        privacy: the report.
        seconds: from submission to the result.
        bytes_sent: party to bytes.
    """

    job_id: str
    n_rows: int
    method: str
    patterns: Sequence[Sequence[str]]
    counts: Sequence[float]
    standard_errors: Sequence[float]
    exact: Sequence[int]
    error: Mapping[str, float | None]
    privacy: Mapping[str, Any]
    seconds: float
    bytes_sent: Mapping[str, int]


def compare(run: DemoRun) -> PatternCountOutcome:
    """Compare the result of `examples/pattern-count.toml` with what a holder of everything could do."""
    tables, result = run.data.in_memory({i.party: i.columns for i in run.job.inputs}), run.result
    plan = pattern_count.plan(run.job, [table.schema for table in tables])
    exact = pattern_count.reference(tables, plan)
    found = np.array(result["counts"])
    entropy = SystemEntropy()
    epsilon = result["privacy"]["views"]["coordinator"]["epsilon"]
    central = central_release(exact, l1=1, epsilon=epsilon, entropy=entropy)
    parameters = {**run.job.parameters, "method": "randomized-response"}
    parameters.pop("share", None)
    by_reports = run.job.model_copy(update={"parameters": parameters})
    categories = [column.categories(table)[0] for column, table in zip(plan.columns, tables, strict=True)]
    reported = None
    with suppress(JobError):  # refused where its noise would exceed the table
        reporting = pattern_count.plan(by_reports, [table.schema for table in tables])
        reported = reported_counts(categories, reporting.reports, entropy).counts

    def error_of(counts: Any) -> float:
        return float(np.sqrt(np.mean((counts - exact) ** 2)))

    return PatternCountOutcome(
        job_id=run.view.job_id,
        n_rows=run.n_rows,
        method=result["method"],
        patterns=list(product(*(_WORDS[column] for column in result["columns"]))),
        counts=found.reshape(-1).tolist(),
        standard_errors=np.array(result["standard_errors"]).reshape(-1).tolist(),
        exact=exact.reshape(-1).tolist(),
        error={
            "moiety": error_of(found),
            "central": error_of(central),
            "randomized_response": None if reported is None else error_of(reported),
        },
        privacy=result["privacy"],
        seconds=run.seconds,
        bytes_sent=run.bytes_sent,
    )


def text_of(outcome: PatternCountOutcome) -> str:
    """Return what a person reads."""
    lines = [
        f"  {', '.join(pattern):<32} {count:>12,.0f}   +- {error:<9,.1f} {exact:>9,}"
        for pattern, count, error, exact in zip(
            outcome.patterns, outcome.counts, outcome.standard_errors, outcome.exact, strict=True
        )
    ]
    table, errors, epsilon = "\n".join(lines), outcome.error, epsilon_against(outcome.privacy, "coordinator")
    by_reports = errors["randomized_response"]
    reported = "refused" if by_reports is None else f"{by_reports:,.1f}"
    return f"""
Pattern counts of {outcome.n_rows:,} rows, one column from each of three parties; method {outcome.method}

  {"pattern":<32} {"Moiety":>12}   {"noise":<12} {"exact":>9}
{table}

  error of a count (root mean square)
    Moiety                {errors["moiety"]:12,.1f}   nobody holds everything
    central DP            {errors["central"]:12,.1f}   somebody holds everything; epsilon {epsilon}
    randomized response   {reported:>12}   each party reports its own rows, most bits false

{privacy_lines(outcome.privacy)}

{job_line(outcome.seconds, outcome.bytes_sent)}
{next_line("pattern-count --method randomized-response", "each party reports its own rows: what does it cost?")}
"""
