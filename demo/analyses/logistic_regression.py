"""`moiety demo logistic-regression`: what it prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.logistic_regression import protocol as logistic_regression
from analyses.logistic_regression.baseline import accuracy, dp_sgd_weights, exact_weights, local_noise_table
from demo.job import DemoRun
from demo.text import epsilon_against, job_line, next_line, privacy_lines

COMPARISON_SEED = 20260104
COMPARISON_ROWS = 20_000
"""Number of rows for the baseline with local noise, of which little can be learned even with all rows."""

CENTRAL_STEPS: Mapping[str, Any] = {
    "sampling_rate": 0.05,
    "iterations": 200,
    "optimiser": "adam",
    "learning_rate": 0.1,
}
"""Of DP-SGD, the baseline for somebody who holds everything."""

MAX_WEIGHTS_SHOWN = 6
"""Number of weights that are printed, by their effect over the range of the column; the JSON output has all."""


@dataclass(frozen=True)
class LogisticRegressionOutcome:
    """What the demo shows.

    Attributes:
        job_id: of the job.
        n_rows: of the joint table.
        label: `party.column`.
        weights: column to its weight, log odds per unit of the column.
        intercept: log odds where all columns are 0.
        effects: column to its weight times the width of its public bounds.
        accuracy: way of finding the weights to the share of the table's own rows with the right label.
        privacy: the report.
        seconds: from submission to the result.
        bytes_sent: party to bytes.
    """

    job_id: str
    n_rows: int
    label: str
    weights: Mapping[str, float]
    intercept: float
    effects: Mapping[str, float]
    accuracy: Mapping[str, float]
    privacy: Mapping[str, Any]
    seconds: float
    bytes_sent: Mapping[str, int]


def compare(run: DemoRun) -> LogisticRegressionOutcome:
    """Compare the result of `examples/logistic-regression.toml` with what a holder of everything could do."""
    wanted = {i.party: list(i.columns or run.data.tables[i.party].usual_bounds) for i in run.job.inputs}
    tables, result = run.data.in_memory(wanted), run.result
    plan = logistic_regression.plan(run.job, [table.schema for table in tables])
    x, y = logistic_regression.scaled_rows(tables, plan)
    budget = {"epsilon": result["privacy"]["views"]["coordinator"]["epsilon"], "delta": run.job.privacy.delta}
    rng = np.random.default_rng(COMPARISON_SEED)
    central = dp_sgd_weights(
        x,
        y,
        **budget,
        **CENTRAL_STEPS,
        rng=rng,
    )
    some = np.linspace(0, len(x) - 1, min(len(x), COMPARISON_ROWS)).astype(np.int64)
    noisy_x, noisy_y = local_noise_table(x[some], y[some], **budget, rng=rng)
    columns = [c for owner in plan.owners for c in plan.features_of(owner).columns]
    values = np.hstack([_features(plan, owner, table.values) for owner, table in zip(plan.owners, tables, strict=True)])
    weights = dict(zip(result["columns"], result["weights"], strict=True))
    widths = [c.upper - c.lower for c in columns]
    return LogisticRegressionOutcome(
        job_id=run.view.job_id,
        n_rows=run.n_rows,
        label=result["label"],
        weights=weights,
        intercept=result["intercept"],
        effects={name: weight * width for (name, weight), width in zip(weights.items(), widths, strict=True)},
        accuracy={
            "exact": accuracy(x @ exact_weights(x, y), y),
            "central": accuracy(x @ central, y),
            "moiety": accuracy(values @ np.array(result["weights"]) + result["intercept"], y),
            "local_noise": accuracy(x @ exact_weights(noisy_x, (noisy_y > 0.5).astype(np.float64)), y),
            "more_frequent_label": max(float(np.mean(y)), 1 - float(np.mean(y))),
        },
        privacy=result["privacy"],
        seconds=run.seconds,
        bytes_sent=run.bytes_sent,
    )


def _features(
    plan: logistic_regression.LogisticRegressionPlan, owner: int, values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return an owner's columns without the label, values clipped to their bounds."""
    names = [c.name for c in plan.schema_of(owner).columns]
    kept = plan.features_of(owner).columns
    return np.clip(values[:, [names.index(c.name) for c in kept]], [c.lower for c in kept], [c.upper for c in kept])


def text_of(outcome: LogisticRegressionOutcome) -> str:
    """Return what the demo prints."""
    found, epsilon = outcome.accuracy, epsilon_against(outcome.privacy, "coordinator")
    largest = sorted(outcome.effects.items(), key=lambda item: -abs(item[1]))[:MAX_WEIGHTS_SHOWN]
    effects = "\n".join(f"    {value:+10.2f}  {name}" for name, value in largest)
    return f"""
Private logistic regression: {outcome.label} from {len(outcome.weights)} columns, {outcome.n_rows:,} rows

  rows with the right label
    exact, no privacy        {found["exact"]:8.2%}   needs somebody who holds everything
    central DP-SGD           {found["central"]:8.2%}   likewise; epsilon {epsilon}
    Moiety                   {found["moiety"]:8.2%}   nobody holds everything; one noisy release
    local noise              {found["local_noise"]:8.2%}   each party noises its own rows; same epsilon
    always the same label    {found["more_frequent_label"]:8.2%}

  largest effects on the log odds, from a column's lower to its upper bound
{effects}

{privacy_lines(outcome.privacy)}

{job_line(outcome.seconds, outcome.bytes_sent)}
{next_line("logistic-regression --epsilon 0.2", "ten times more private: what does it cost?")}
"""
