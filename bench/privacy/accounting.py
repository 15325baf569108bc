"""What jobs of each analysis cost by each way of accounting, and how long it takes to plan them.

    python -m bench.privacy.accounting [--format json]

For the same plan, so for the same noise: `before` is the epsilon by Renyi curves that know norms alone, `renyi` that
by the curves in use, which ledgers compose, and `stated` what reports state: the smaller of `renyi` and the epsilon of
the composed loss distribution. Plans are calibrated to epsilon 1, or 8 where parties report by
themselves, in the view that is named, which is the one that the row is about.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.registry import analysis_of
from bench.machine import describe_machine
from dp.cost.accounting import epsilon_of_rdp
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_gaussian import DiscreteGaussianShiftsDpEvent
from dp.cost.events.event import PrivacyEvent, renyi_curve
from dp.cost.events.sampling import BoundedSampledDpEvent, PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamShiftsDpEvent
from dp.cost.views import VIEWS, View

PARTIES = ("a", "b", "c")
DELTA = 1e-6


@dataclass(frozen=True)
class Case:
    """A job to plan.

    Attributes:
        name: of the row.
        analysis: as in a job.
        bounds: of the columns of each party, one pair per column.
        parameters: of the analysis.
        epsilon: to calibrate to.
    """

    name: str
    analysis: str
    bounds: tuple[tuple[float, float], ...]
    parameters: dict[str, Any] = field(default_factory=dict)
    epsilon: float = 1.0

    def job(self, view: View) -> tuple[Job, list[BlockSchema]]:
        """Return the job and the schemas of its parties."""
        job = Job.model_validate(
            {
                "analysis": self.analysis,
                "inputs": [{"party": party, "table": "rows"} for party in PARTIES],
                "colluding": 1,
                "privacy": {"epsilon": self.epsilon, "delta": DELTA, "view": view},
                "parameters": {"max_rows": 100_000, **self.parameters},
            }
        )
        columns = tuple(ColumnSchema(name=f"x{i}", lower=low, upper=high) for i, (low, high) in enumerate(self.bounds))
        horizontal = self.analysis.startswith("secure-")
        schemas = [
            BlockSchema(party=party, columns=columns, has_ids=not horizontal, rows=(1000, 100_000)) for party in PARTIES
        ]
        return job, schemas


COUNT, CATEGORY, REAL = ((0.0, 20.0),), ((0.0, 4.0),), ((-1.0, 1.0), (-1.0, 1.0))
CASES = [
    Case("secure-sum, one column", "secure-sum", ((0.0, 1.0),), {"units": 1 << 16}),
    Case("secure-sum, two columns", "secure-sum", REAL, {"units": 1 << 16}),
    Case("secure-histogram", "secure-histogram", ((0.0, 1.0),), {"edges": [0, 0.25, 0.5, 1]}),
    Case("moments, mpc, order 1", "moments", COUNT, {"method": "mpc", "order": 1}),
    Case("moments, mpc, order 2", "moments", COUNT, {"method": "mpc", "order": 2}),
    Case("moments, laplace", "moments", COUNT, {"method": "laplace", "order": 1}),
    Case("moments, sketch", "moments", COUNT, {"method": "sketch", "order": 2}),
    Case("moments, threshold", "moments", COUNT, {"method": "threshold", "threshold": 20, "order": 2}),
    Case("pattern-count, mpc", "pattern-count", CATEGORY, {"method": "mpc"}),
    Case("pattern-count, reports", "pattern-count", CATEGORY, {"method": "randomized-response"}, 8.0),
    Case("pattern-count, subsampled", "pattern-count", CATEGORY, {"method": "subsampled", "share": 0.2}, 8.0),
    *(
        Case(
            f"clustering, {counting}",
            "clustering",
            REAL,
            {
                "k": 4,
                "counting": counting,
                "counting_options": {"accept_no_protection_against_parties": True} if counting == "fm-sketch" else {},
            },
            8.0,
        )
        for counting in ("mpc", "fm-sketch", "independent", "ldp", "pattern")
    ),
    Case("pca", "pca", REAL, {"components": 2}),
    Case("least-squares", "least-squares", REAL, {"label": "a.x0"}),
    Case("low-rank", "low-rank", REAL, {"rank": 2}),
    Case(
        "logistic-regression by gradients",
        "logistic-regression",
        ((0.0, 1.0), (-1.0, 1.0)),
        {"label": "a.x0", "method": "gradient", "iterations": 20, "sampling_rate": 0.05, "weight_norm": 2.0},
    ),
]


def known_norms(event: PrivacyEvent) -> PrivacyEvent | None:
    """Return the event of which norms alone are known; None for one that had no such form."""
    match event:
        case SkellamShiftsDpEvent() | DiscreteGaussianShiftsDpEvent():
            return event.sums
        case BoundedSampledDpEvent():
            return None
    return event


def renyi(events: Sequence[PrivacyEvent]) -> float:
    """Return the epsilon by Renyi curves alone."""
    curve = np.sum([n * renyi_curve(event) for event, n in Counter(events).items()], axis=0)
    return epsilon_of_rdp(curve, len(events), DELTA).epsilon


def before(events: Sequence[PrivacyEvent]) -> float:
    """Return the epsilon by the curves that know norms alone, and steps about samples one by one."""
    found: list[PrivacyEvent] = []
    for event in events:
        if isinstance(event, BoundedSampledDpEvent):
            found += [PoissonSampledDpEvent(event.step.release, event.step.rate)] * event.n_steps
        else:
            found.append(known_norms(event) or event)
    return renyi(found)


def measure(cases: Sequence[Case] = tuple(CASES)) -> dict[str, Any]:
    """Return all numbers as JSON data."""
    rows = []
    for case in cases:
        for calibrated in VIEWS:
            job, schemas = case.job(calibrated)
            started_s = time.process_time()
            try:
                plan = analysis_of(job).plan(job, schemas)
            except JobError:
                continue  # such a job is refused: it has no guarantee in this view, or noise would drown all there is
            planned_s = time.process_time() - started_s
            events = plan.privacy_events(calibrated)
            rows.append(
                {
                    "case": case.name,
                    "view": calibrated,
                    "before": before(events),
                    "renyi": renyi(events),
                    "stated": composed_epsilon(events, DELTA).epsilon,
                    "plan_s": planned_s,
                }
            )
    return {"machine": describe_machine(), "delta": DELTA, "rows": rows}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    report = measure()
    if options.format == "json":
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
        return
    sys.stdout.write(
        "| job | view | before | Renyi | stated | saved | planned in, s |\n|---|---|---|---|---|---|---|\n"
    )
    for row in report["rows"]:
        saved = 1 - row["stated"] / row["before"]
        sys.stdout.write(
            f"| {row['case']} | {row['view']} | {row['before']:.3f} | {row['renyi']:.3f} | {row['stated']:.3f} "
            f"| {saved:.1%} | {row['plan_s']:.2f} |\n"
        )


if __name__ == "__main__":
    main()
