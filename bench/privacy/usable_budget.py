"""How much of a budget jobs can use when they are admitted by filters, against the best bound chosen afterwards.

    python -m bench.privacy.usable_budget

For each analysis a typical job is planned at several parts of a budget's epsilon, and counted how many such jobs, as a
real number, either rule admits: the filters of a period (`ledger.spending.Cover`), which hold whatever decides
about the next job, and what holds only for jobs fixed beforehand: the best Renyi order, or one Gaussian for all. A
mixture is a PCA with Skellam noise followed by as large a sum with Laplace noise as is admitted. Prints a table for
docs/decisions/012-adaptive-jobs.md.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.registry import ANALYSES
from dp.cost.accounting import epsilon_of_rdp
from dp.cost.gaussian_filter import GaussianCost, gaussian_epsilon
from ledger.spending import Spending, cover_of, spending_of_one

PARTIES = ("a", "b", "c")
ROWS = (1000, 100_000)
BUDGETS = ((1.0, 1e-6), (4.0, 1e-6), (8.0, 1e-6))
PARTS = (1.0, 0.5, 0.1)

PCA: Mapping[str, Any] = {"analysis": "pca", "components": 2}
COUNT: Mapping[str, Any] = {"analysis": "pattern-count", "method": "mpc"}
SUM: Mapping[str, Any] = {"analysis": "moments", "method": "laplace", "order": 1}
JOBS: Mapping[str, Mapping[str, Any]] = {
    "PCA, low-rank, least squares: Gram matrix": PCA,
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


def spending_of(what: Mapping[str, Any], epsilon: float, delta: float) -> Spending:
    """Return what a job is charged."""
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
    return replace(spending_of_one(ANALYSES[job.analysis].plan(job, schemas).cost()), only=None)


def is_within(spending: Spending, epsilon: float, delta: float, times: float = 1.0) -> bool:
    """Whether some bound, whichever, keeps the budget."""
    g = spending.gaussian
    gaussian = GaussianCost(times * g.squares, times * g.above, times * g.below)
    return (
        min(
            epsilon_of_rdp(times * spending.curve, spending.n_events, delta).epsilon,
            gaussian_epsilon(gaussian, 1, delta),
        )
        <= epsilon
    )


def most_jobs(spending: Spending, epsilon: float, delta: float) -> tuple[float, float]:
    """Return how many jobs of this cost the filters admit, and how many the best bound."""
    by_filter = 1 / cover_of(spending, epsilon, delta).used
    low, high = 0.0, 2 * by_filter + 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if is_within(spending, epsilon, delta, middle) else (low, middle)
    return by_filter, low


def mixture(part: float, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the epsilon of the largest sum that follows a PCA of so much of epsilon: filters, best bound."""
    spent, found = spending_of(PCA, part * epsilon, delta), []
    for rule in ("filter", "best"):
        low, high = epsilon / 100, epsilon
        for _ in range(12):
            middle = (low + high) / 2
            both = spent + spending_of(SUM, middle, delta)
            fits = cover_of(both, epsilon, delta).is_covered if rule == "filter" else is_within(both, epsilon, delta)
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
    out += ["", "| a PCA of so much, then a sum with Laplace noise | " + " | ".join(map(str, BUDGETS)) + " |"]
    out.append("|---" * (len(BUDGETS) + 1) + "|")
    for part in (0.1, 0.3, 0.5, 0.7):
        pairs = [mixture(part, *budget) for budget in BUDGETS]
        out.append(f"| {part:g} epsilon | " + " | ".join(f"{a:.3g} of {b:.3g}" for a, b in pairs) + " |")
    return out


def _cell(what: Mapping[str, Any], part: float, epsilon: float, delta: float) -> str:
    try:
        by_filter, best = most_jobs(spending_of(what, part * epsilon, delta), epsilon, delta)
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
