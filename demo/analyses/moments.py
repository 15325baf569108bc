"""`moiety demo moments`: what it prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyses.pattern_count.baseline import central_release
from analyses.power_moments import protocol as moments
from demo.job import DemoRun
from demo.text import epsilon_against, job_line, next_line, privacy_lines
from entropy import SystemEntropy


@dataclass(frozen=True)
class MomentsOutcome:
    """What the demo shows.

    Attributes:
        job_id: of the job.
        n_rows: of the joint table.
        method: that the job used.
        columns: that are added up.
        order: p.
        moment: way of finding it to what it found.
        standard_error: what the coordinator was told of the error of `moiety`.
        clipped_values: party to how many of its values were clipped; known only to each party.
        privacy: the report.
        seconds: from submission to the result.
        bytes_sent: party to bytes.
    """

    job_id: str
    n_rows: int
    method: str
    columns: Sequence[str]
    order: int
    moment: Mapping[str, float]
    standard_error: float
    clipped_values: Mapping[str, int]
    privacy: Mapping[str, Any]
    seconds: float
    bytes_sent: Mapping[str, int]


def compare(run: DemoRun) -> MomentsOutcome:
    """Compare the result of `examples/moments.toml` with what a holder of everything could do."""
    tables, result = run.data.in_memory({i.party: i.columns for i in run.job.inputs}), run.result
    plan = moments.plan(run.job, [table.schema for table in tables])
    exact = moments.reference(tables, plan)
    central = central_release(
        np.array([exact]).astype(np.int64),
        l1=sum(plan.largest) ** plan.params.order,
        epsilon=result["privacy"]["views"]["coordinator"]["epsilon"],
        entropy=SystemEntropy(),
    )
    reports = {party: run.deployment.report(party, run.view.job_id) for party in run.data.tables}
    return MomentsOutcome(
        job_id=run.view.job_id,
        n_rows=run.n_rows,
        method=result["method"],
        columns=result["columns"],
        order=result["order"],
        moment={"exact": exact, "central": float(central[0]), "moiety": result["moment"]},
        standard_error=result["standard_error"],
        clipped_values={party: sum(report["clipped_values"].values()) for party, report in reports.items()},
        privacy=result["privacy"],
        seconds=run.seconds,
        bytes_sent=run.bytes_sent,
    )


def text_of(outcome: MomentsOutcome) -> str:
    """Return what a person reads."""
    found, epsilon = outcome.moment, epsilon_against(outcome.privacy, "coordinator")
    clipped = ", ".join(f"{party} {n:,}" for party, n in outcome.clipped_values.items())
    noise = f"+- {outcome.standard_error:,.0f}"

    def off(way: str) -> str:
        return f"{found[way] / found['exact'] - 1:+.3%}"

    return f"""
Moment of order {outcome.order} of {" + ".join(outcome.columns)} over {outcome.n_rows:,} rows; method {outcome.method}

  exact, no privacy   {found["exact"]:16,.0f}            needs somebody who holds everything
  central DP          {found["central"]:16,.0f}  {off("central"):>9} likewise; epsilon {epsilon}
  Moiety              {found["moiety"]:16,.0f}  {off("moiety"):>9} nobody holds everything; {noise}

{privacy_lines(outcome.privacy)}

  clipped   values above the largest that counts, each known to its owner alone: {clipped}
{job_line(outcome.seconds, outcome.bytes_sent)}
{next_line("moments --epsilon 0.1", "ten times more private: what does it cost?")}
"""
