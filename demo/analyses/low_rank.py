"""`moiety demo low-rank`: what it prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyses.low_rank import protocol as low_rank
from analyses.pca.baseline import central_components
from analyses.rows.row_plan import clipped_rows
from demo.job import DemoRun
from demo.text import epsilon_against, job_line, next_line, privacy_lines

COMPARISON_RUNS = 10
COMPARISON_SEED = 20260102

METHODS = {
    "mpc": "counted under shares: what does it gain?",
    "sketch": "the form of the paper: what does it cost?",
}


@dataclass(frozen=True)
class LowRankOutcome:
    """What the demo shows.

    Attributes:
        job_id: of the job.
        n_rows, n_columns: of the joint table.
        rank: k.
        method: `mpc` or `sketch`.
        residual: way of finding the subspace to ||X - X V V^T|| / ||X||.
        privacy: the report.
        seconds: from submission to the result.
        bytes_sent: party to bytes.
    """

    job_id: str
    n_rows: int
    n_columns: int
    rank: int
    method: str
    residual: Mapping[str, float]
    privacy: Mapping[str, Any]
    seconds: float
    bytes_sent: Mapping[str, int]


def compare(run: DemoRun) -> LowRankOutcome:
    """Compare the result of `examples/low-rank.toml` with what somebody who held all columns could do."""
    tables = run.data.in_memory()
    plan = low_rank.plan(run.job, [table.schema for table in tables])
    joint = clipped_rows(tables, plan)
    unit_rows = joint / plan.row_norm
    k, rng = plan.params.rank, np.random.default_rng(COMPARISON_SEED)
    budget = {"epsilon": run.result["privacy"]["views"]["coordinator"]["epsilon"], "delta": run.job.privacy.delta}
    moment = unit_rows.T @ unit_rows
    central = [central_components(moment, k, **budget, rng=rng) for _ in range(COMPARISON_RUNS)]
    return LowRankOutcome(
        job_id=run.view.job_id,
        n_rows=run.n_rows,
        n_columns=joint.shape[1],
        rank=k,
        method=plan.params.method,
        residual={
            "exact": low_rank.residual(joint, low_rank.reference(tables, plan)),
            "central": float(np.mean([low_rank.residual(joint, found) for found in central])),
            "moiety": low_rank.residual(joint, np.array(run.result["components"])),
        },
        privacy=run.result["privacy"],
        seconds=run.seconds,
        bytes_sent=run.bytes_sent,
    )


def text_of(outcome: LowRankOutcome) -> str:
    """Return what the demo prints."""
    lost, epsilon = outcome.residual, epsilon_against(outcome.privacy, "coordinator")
    other = "sketch" if outcome.method == "mpc" else "mpc"
    return f"""
Private approximation of {outcome.n_rows:,} rows x {outcome.n_columns} columns in {outcome.rank} dimensions

  lost, as a share of the norm of the table
    exact, no privacy        {lost["exact"]:7.2%}   needs somebody who holds everything
    central DP               {lost["central"]:7.2%}   likewise; epsilon {epsilon}
    Moiety, {outcome.method:6}           {lost["moiety"]:7.2%}   nobody holds everything

{privacy_lines(outcome.privacy)}

{job_line(outcome.seconds, outcome.bytes_sent)}
{next_line(f"low-rank --method {other}", METHODS[other])}
"""
