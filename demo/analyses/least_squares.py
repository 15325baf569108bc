"""`moiety demo least-squares`: what it prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import Table
from analyses.least_squares import protocol as least_squares
from analyses.pca.baseline import central_moment
from demo.job import DemoRun
from demo.text import epsilon_against, job_line, next_line, privacy_lines

COMPARISON_RUNS = 10
COMPARISON_SEED = 20260103
MAX_COEFFICIENTS_SHOWN = 6
"""Number of coefficients that are printed, by their effect over the range of the feature; the JSON output has all."""


@dataclass(frozen=True)
class LeastSquaresOutcome:
    """What the demo shows.

    Attributes:
        job_id: of the job.
        n_rows: of the joint table.
        label: `party.column`.
        method: `mpc` or `sketch`.
        coefficients: feature to its coefficient, in the units of the columns; None where there is no answer.
        effects: feature to its coefficient times the width of its public bounds.
        note: what the result says about itself.
        r_squared: way of finding the line to the share of the label's variation that it explains; None where there is
            no line.
        privacy: the report.
        seconds: from submission to the result.
        bytes_sent: party to bytes.
    """

    job_id: str
    n_rows: int
    label: str
    method: str
    coefficients: Mapping[str, float] | None
    effects: Mapping[str, float]
    note: str
    r_squared: Mapping[str, float | None]
    privacy: Mapping[str, Any]
    seconds: float
    bytes_sent: Mapping[str, int]


def compare(run: DemoRun) -> LeastSquaresOutcome:
    """Compare the result of `examples/least-squares.toml` with what somebody who held everything could do."""
    wanted = {i.party: list(i.columns or run.data.tables[i.party].usual_bounds) for i in run.job.inputs}
    tables, result = run.data.in_memory(wanted), run.result
    plan = least_squares.plan(run.job, [table.schema for table in tables])
    budget = {"epsilon": result["privacy"]["views"]["coordinator"]["epsilon"], "delta": run.job.privacy.delta}
    found = None
    if result["coefficients"] is not None:
        found = least_squares.Line(np.array(result["coefficients"]), result["intercept"])
    lines = {"exact": least_squares.reference(tables, plan), "moiety": found}
    explained = {name: _explained(tables, plan, line) for name, line in lines.items()}
    central = [_explained(tables, plan, line) for line in _central_lines(tables, plan, budget)]
    answered = [share for share in central if share is not None]
    widths = {f"{s.party}.{c.name}": c.upper - c.lower for s in plan.schemas for c in s.columns}
    coefficients = None if found is None else dict(zip(result["features"], result["coefficients"], strict=True))
    return LeastSquaresOutcome(
        job_id=run.view.job_id,
        n_rows=run.n_rows,
        label=result["label"],
        method=result["method"],
        coefficients=coefficients,
        effects={name: value * widths[name] for name, value in (coefficients or {}).items()},
        note=result["note"],
        r_squared={
            "exact": explained["exact"],
            "central": float(np.mean(answered)) if answered else None,
            "moiety": explained["moiety"],
        },
        privacy=result["privacy"],
        seconds=run.seconds,
        bytes_sent=run.bytes_sent,
    )


def _central_lines(
    tables: Sequence[Table], plan: least_squares.LeastSquaresPlan, budget: Mapping[str, float]
) -> list[least_squares.Line | None]:
    rng, longest = np.random.default_rng(COMPARISON_SEED), plan.total_squared_norm * plan.unit**2
    moments = least_squares.scaled_moments(tables, plan) / longest
    noisy = [central_moment(moments, **budget, rng=rng) for _ in range(COMPARISON_RUNS)]
    solutions = [least_squares.solve_moments(m * longest, level * longest, plan) for m, level in noisy]
    return [least_squares.in_units_of_columns(solution, plan) for solution in solutions]


def _explained(
    tables: Sequence[Table], plan: least_squares.LeastSquaresPlan, line: least_squares.Line | None
) -> float | None:
    """Return the share of the label's variation that a line explains, values clipped to their bounds."""
    if line is None:
        return None
    joint: NDArray[np.float64] = np.hstack([np.clip(t.values, *_bounds(t)) for t in tables])
    is_label = np.array(plan.column_names) == plan.params.label
    label = joint[:, is_label][:, 0]
    return float(1 - np.mean((label - line.predict(joint[:, ~is_label])) ** 2) / np.var(label))


def _bounds(table: Table) -> tuple[list[float], list[float]]:
    return [c.lower for c in table.schema.columns], [c.upper for c in table.schema.columns]


def text_of(outcome: LeastSquaresOutcome) -> str:
    """Return what the demo prints."""
    epsilon = epsilon_against(outcome.privacy, "coordinator")
    shares = {n: "no answer" if s is None else f"{s:9.4f}" for n, s in outcome.r_squared.items()}
    largest = sorted(outcome.effects.items(), key=lambda item: -abs(item[1]))[:MAX_COEFFICIENTS_SHOWN]
    effects = "\n".join(f"    {value:+10.1f}  {name}" for name, value in largest) or "    none"
    note = f"\n  note      {outcome.note}" if outcome.note else ""
    return f"""
Private least squares: {outcome.label} from {len(outcome.effects)} features, {outcome.n_rows:,} rows

  share of the variation explained (R^2)
    exact, no privacy        {shares["exact"]}   needs somebody who holds everything
    central DP               {shares["central"]}   likewise; epsilon {epsilon}
    Moiety, {outcome.method:6}           {shares["moiety"]}   nobody holds everything

  largest effects, from a feature's lower to its upper bound
{effects}

{privacy_lines(outcome.privacy)}

{job_line(outcome.seconds, outcome.bytes_sent)}{note}
{next_line("least-squares --epsilon 0.1", "ten times more private: what does it cost?")}
"""
