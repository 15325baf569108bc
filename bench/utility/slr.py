"""How long one step of logistic regression takes over three services: Adult's columns, 300 records in a batch.

    python -m bench.utility.slr --runs 3 --format json

A step is: weights to the parties, their echo, the product of the batch, noise, the opening. Measured from the
coordinator's events: from a quarter of the steps to all of them.
"""

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from bench.datasets.labelled_tables import LabelledTables, adult
from bench.machine import describe_machine
from bench.utility.logistic_jobs import LEARNING, WEIGHT_NORM, run_over_services

BATCH = 300
STEPS = 400
ORDERS: dict[str, dict[str, Any]] = {
    "order 1": {"order": 1, "weight_norm": WEIGHT_NORM},
    "order 3": {"order": 3, "weight_norm": 3.0},
}


def step_seconds(data: LabelledTables, runs: int, steps: int = STEPS, **parameters: Any) -> list[float]:
    """Return the mean seconds of a step in each of some jobs."""
    rate = BATCH / data.training[0].n_rows
    job = {
        "epsilon": 8.0,
        "delta": 1e-6,
        "method": "gradient",
        "sampling_rate": rate,
        "iterations": steps,
        **LEARNING,
        **parameters,
    }
    found = []
    for _ in range(runs):
        events = asyncio.run(run_over_services(data, job)).events
        at = {percent: s for s, member, stage, percent in events if (member, stage) == ("coordinator", "iterations")}
        found.append((at[100] - at[25]) / (steps * 3 / 4))
    return found


def measure(runs: int = 3) -> dict[str, Any]:
    """Return what was measured as plain JSON data."""
    data = adult()
    times = {name: step_seconds(data, runs, **order) for name, order in ORDERS.items()}
    return {
        "bench": "slr",
        "what": f"one step about {BATCH} records of Adult, three services",
        "steps": STEPS,
        "milliseconds": {
            name: {"median": 1e3 * statistics.median(seconds), "least": 1e3 * min(seconds), "most": 1e3 * max(seconds)}
            for name, seconds in times.items()
        },
        "machine": describe_machine(),
    }


def as_text(report: dict[str, Any]) -> str:
    """Return the lines that people read."""
    lines = [f"{report['what']}, {report['steps']} steps per job"]
    for name, ms in report["milliseconds"].items():
        lines.append(f"{name}: median {ms['median']:.1f} ms, {ms['least']:.1f} to {ms['most']:.1f} ms")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    report = measure(options.runs)
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
