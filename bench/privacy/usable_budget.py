"""How much of a budget jobs can use when they are admitted by a filter, against the best order chosen afterwards.

    python -m bench.privacy.usable_budget

For each analysis a typical job is planned at several parts of a budget's epsilon, and counted how many such jobs, as a
real number, either rule admits: the filter of `dp.cost.renyi_filter`, which holds whatever decides about the next job,
and the rule that held only for jobs fixed beforehand. A mixture is a count with Skellam noise followed by as large a
sum with Laplace noise as is admitted. Prints a table for docs/decisions/012-adaptive-jobs.md.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.registry import ANALYSES
from dp.cost.accounting import Floats, epsilon_of_rdp
from dp.cost.renyi_filter import RenyiFilter

PARTIES = ("a", "b", "c")
ROWS = (1000, 100_000)
BUDGETS = ((1.0, 1e-6), (4.0, 1e-6), (8.0, 1e-6))
PARTS = (1.0, 0.5, 0.1)

COUNT: Mapping[str, Any] = {"analysis": "pattern-count", "method": "mpc"}
SUM: Mapping[str, Any] = {"analysis": "moments", "method": "laplace", "order": 1}
JOBS: Mapping[str, Mapping[str, Any]] = {
    "PCA, low-rank, least squares: Gram matrix": {"analysis": "pca", "components": 2},
    "least squares, sketch": {"analysis": "least-squares", "label": "a.x0", "method": "sketch"},
    "logistic regression, 50 steps": {
        "analysis": "logistic-regression", "label": "a.x0", "method": "gradient",
        "iterations": 50, "sampling_rate": 0.05, "weight_norm": 2.0,
    },
    "clustering, counted under shares": {"analysis": "clustering", "k": 3, "k_local": 4},
    "pattern count, moments: shares": COUNT,
    "pattern count, randomized response": {"analysis": "pattern-count", "method": "randomized-response"},
    "moments, Laplace": SUM,
    "sums, means, histograms": {"analysis": "secure-sum", "units": 256},
}  # fmt: skip


def curve_of(what: Mapping[str, Any], epsilon: float, delta: float) -> tuple[Floats, int]:
    """Return what a job is charged, and of how many releases."""
    parameters = {"max_rows": ROWS[1], **what}
    job = Job.model_validate(
        {
            "analysis": parameters.pop("analysis"),
            "inputs": [{"party": p, "table": "people"} for p in PARTIES],
            "privacy": {"epsilon": epsilon, "delta": delta},
            "parameters": parameters,
        }
    )
    columns = (ColumnSchema(name="x0", lower=0.0, upper=1.0),)
    schemas = [BlockSchema(party=p, columns=columns, has_ids=True, rows=ROWS) for p in PARTIES]
    cost = ANALYSES[job.analysis].plan(job, schemas).cost()
    return cost.curve, cost.n_events


def is_within(curve: Floats, n_events: int, epsilon: float, delta: float) -> bool:
    """Whether some order, whichever, keeps the budget."""
    return epsilon_of_rdp(curve, n_events, delta).epsilon <= epsilon


def most_jobs(curve: Floats, n_events: int, epsilon: float, delta: float) -> tuple[float, float]:
    """Return how many jobs of this cost the filter admits, and how many the best order."""
    by_filter = 1 / RenyiFilter.of_budget(epsilon, delta).used(curve, n_events)
    low, high = 0.0, 2 * by_filter + 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if is_within(middle * curve, n_events, epsilon, delta) else (low, middle)
    return by_filter, low


def mixture(part: float, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the epsilon of the largest sum that follows a count of so much of epsilon: filter, best order."""
    spent, n_spent = curve_of(COUNT, part * epsilon, delta)
    admits, found = RenyiFilter.of_budget(epsilon, delta), []
    for rule in ("filter", "best"):
        low, high = epsilon / 100, epsilon
        for _ in range(12):
            middle = (low + high) / 2
            curve, n_events = curve_of(SUM, middle, delta)
            both, n_both = spent + curve, n_spent + n_events
            fits = admits.covers(both, n_both) if rule == "filter" else is_within(both, n_both, epsilon, delta)
            low, high = (middle, high) if fits else (low, middle)
        found.append(low)
    return found[0], found[1]


def lines() -> list[str]:
    """Return the table, in Markdown."""
    heads = [f"({epsilon:g}, {delta:g}), jobs of {part:g} epsilon" for epsilon, delta in BUDGETS for part in PARTS]
    out = ["| job | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name, what in JOBS.items():
        cells = [_cell(what, part, epsilon, delta) for epsilon, delta in BUDGETS for part in PARTS]
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    out += ["", "| a count of so much, then a sum with Laplace noise | " + " | ".join(map(str, BUDGETS)) + " |"]
    out.append("|---" * (len(BUDGETS) + 1) + "|")
    for part in (0.1, 0.3, 0.5, 0.7):
        pairs = [mixture(part, *budget) for budget in BUDGETS]
        out.append(f"| {part:g} epsilon | " + " | ".join(f"{a:.3g} of {b:.3g}" for a, b in pairs) + " |")
    return out


def _cell(what: Mapping[str, Any], part: float, epsilon: float, delta: float) -> str:
    try:
        by_filter, best = most_jobs(*curve_of(what, part * epsilon, delta), epsilon, delta)
    except ValueError:  # so little epsilon gives this job no answer
        return "-"
    return f"{by_filter:.3g} of {best:.3g} ({100 * by_filter / best:.1f} %)"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    np.seterr(all="ignore")
    sys.stdout.write("\n".join(lines()) + "\n")


if __name__ == "__main__":
    main()
