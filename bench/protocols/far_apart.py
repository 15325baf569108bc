"""Flights, bytes and predicted seconds of each vertical analysis and of sums, for parties that are far apart.

    python -m bench.protocols.far_apart [--rows 2000] [--only NAME] [--repeats 3] [--format text|json]
    python -m bench.protocols.far_apart --stated

Three parties bring a table each, and all compute. A flight is one message, one-way, that the next one waits for
(`bench.protocols.flights`). Flights of an iterative analysis are counted for two numbers of steps, bytes for two
numbers of rows, and both are linear. The prediction is

    flights x round-trip time / 2  +  bytes of the busiest party / bandwidth  +  processor seconds per member

without what services add: the calls of the coordinator before and after the protocol, sockets and TLS.
`python -m bench.jobs.far_apart` measures whole jobs of services, and `moiety job plan` states flights, bytes and
seconds of any job (`analyses.job.distance`). `--stated` prints what it states of these jobs, with as many rows as they
declare, and runs nothing: the table of docs/how-to/plan-for-distance.md.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from analyses.job.distance import BANDWIDTHS_MBIT, ROUND_TRIPS_MS, Distance, distance_of
from analyses.job.job import Job, MatchingKind
from analyses.job.matching import MatchingSchema
from analyses.job.row_ids import digests_of_ids
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.registry import ANALYSES, analysis_of
from bench.datasets.order import trusted_order
from bench.machine import describe_machine
from bench.protocols.flights import Counted, count

PARTIES = ("one", "two", "three")
LEAST_ROWS, MAX_ROWS = 100, 10_000
"""What tables declare."""

BOUNDS = {
    **{f"x{i}": (-1.0, 1.0) for i in range(10)},
    "code": (0.0, 3.0),
    "label": (0.0, 1.0),
}
NUMBERS = tuple(name for name in BOUNDS if name.startswith("x"))


@dataclass(frozen=True)
class Case:
    """A job to be counted.

    Attributes:
        name: as the table shows it.
        analysis: in the registry.
        parameters: of the job.
        columns: of every party.
        last_columns: of the last party, where it brings others.
        steps: name of the parameter that flights grow with, and two values of it.
        epsilon: of the job.
        matching: how rows are matched, if they are.
    """

    name: str
    analysis: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = NUMBERS
    last_columns: tuple[str, ...] | None = None
    steps: tuple[str, int, int] | None = None
    epsilon: float = 4.0
    matching: MatchingKind | None = None


LABEL = {"label": "three.label"}
WITH_LABEL = (*NUMBERS[:9], "label")
GRADIENT = {**LABEL, "method": "gradient", "sampling_rate": 0.1, "weight_norm": 4.0}
SUM = {"units": 1000}
DISTRIBUTION = {"range": [-1.0, 1.0], "buckets": 64}
CASES = (
    Case("principal components", "pca", {"components": 2}),
    Case("low rank", "low-rank", {"rank": 2}),
    Case("low rank, sketch", "low-rank", {"rank": 2, "method": "sketch", "sketch_rows": 64}),
    Case("least squares", "least-squares", LABEL, last_columns=WITH_LABEL),
    Case("logistic regression, moments", "logistic-regression", LABEL, last_columns=WITH_LABEL),
    Case(
        "logistic regression, gradient",
        "logistic-regression",
        GRADIENT,
        last_columns=WITH_LABEL,
        steps=("iterations", 2, 5),
    ),
    Case("clustering", "clustering", {"k": 3, "k_local": 3}, columns=NUMBERS[:2]),
    Case("clustering, reports", "clustering", {"k": 3, "k_local": 3, "counting": "ldp"}, columns=NUMBERS[:2]),
    Case("pattern count", "pattern-count", columns=("code",)),
    Case("pattern count, reports", "pattern-count", {"method": "randomized-response"}, columns=("code",)),
    Case("moments", "moments", columns=("code",)),
    Case("moments, sketch", "moments", {"method": "sketch", "sketch_rows": 64}, columns=("code",)),
    Case("principal components, rows matched", "pca", {"components": 2}, matching="revealed"),
    Case("principal components, rows matched in secret", "pca", {"components": 2}, matching="secret"),
    Case("distribution, responses", "distribution", DISTRIBUTION, columns=("x0",), epsilon=0.1),
    Case("distribution, masked", "distribution", {**DISTRIBUTION, "method": "masked"}, columns=("x0",)),
    Case("sum", "secure-sum", SUM),
    Case("mean", "secure-mean", SUM),
)


def tables_of(case: Case, n_rows: int) -> dict[str, Table]:
    """Return a table of each party: whole numbers within the bounds for codes and labels."""
    rng = np.random.default_rng(1)
    tables = {}
    for party in PARTIES:
        names = case.last_columns if case.last_columns and party == PARTIES[-1] else case.columns
        columns = tuple(ColumnSchema(name=n, lower=BOUNDS[n][0], upper=BOUNDS[n][1]) for n in names)
        values = [
            rng.uniform(*BOUNDS[n], n_rows) if n in NUMBERS else rng.integers(0, int(BOUNDS[n][1]) + 1, n_rows)
            for n in names
        ]
        how = MatchingSchema(recipe=(("trim",),), reveal=True) if case.matching else None
        schema = BlockSchema(party=party, columns=columns, rows=(LEAST_ROWS, MAX_ROWS), matching=how)
        ids = digests_of_ids([list(map(str, range(n_rows)))]) if case.matching else None
        tables[party] = Table(schema, np.column_stack(values).astype(np.float64), ids=ids)
    return tables


def job_of(case: Case, tables: Mapping[str, Table], **parameters: Any) -> Job:
    """Return the job of a case, with the larger number of steps unless said otherwise."""
    steps = {case.steps[0]: case.steps[2]} if case.steps else {}
    schemas = () if case.matching or not ANALYSES[case.analysis].joins else [t.schema for t in tables.values()]
    return Job.model_validate(
        {
            "analysis": case.analysis,
            "inputs": [
                {"party": p, "table": "rows", "columns": [c.name for c in t.schema.columns]} for p, t in tables.items()
            ],
            "deadline_s": 80_000.0,
            "anyway": True,
            "privacy": {"epsilon": case.epsilon, "delta": 1e-6},
            "parameters": {**steps, **case.parameters, **parameters},
            **({"matching": {"kind": case.matching}} if case.matching else {}),
            **trusted_order(schemas),
        }
    )


def traffic(case: Case, n_rows: int, **parameters: Any) -> Counted:
    """Run a case once and count."""
    tables = tables_of(case, n_rows)
    return count(job_of(case, tables, **parameters), tables)


def predicted_s(flights: float, sent_bytes: float, processor_s: float, *, round_trip_ms: float, mbit: float) -> float:
    """Return the seconds of a job whose messages take half of a round trip and whose busiest party fills its line."""
    return flights * round_trip_ms / 2000 + 8 * sent_bytes / (mbit * 1e6) + processor_s


def measure(case: Case, n_rows: int, repeats: int) -> dict[str, Any]:
    """Return flights, bytes and predictions of a case; those of an iterative one are for the larger number of steps."""
    low, high = ({case.steps[0]: n} for n in case.steps[1:]) if case.steps else ({}, {})
    runs = [traffic(case, n_rows, **high) for _ in range(repeats)]
    fewer = traffic(case, n_rows // 2, **high)
    flights, sent = runs[-1].flights, runs[-1].party_bytes
    if fewer.flights != flights:
        raise RuntimeError(f"{case.name}: {fewer.flights} flights became {flights} with more rows")
    n_columns = sum(len(table.schema.columns) for table in tables_of(case, LEAST_ROWS).values())
    report: dict[str, Any] = {"name": case.name, "rows": n_rows, "columns": n_columns}
    if case.steps:
        n_steps = case.steps[2] - case.steps[1]
        few = traffic(case, n_rows, **low)
        per_step = (flights - few.flights) / n_steps
        report |= {"steps": case.steps[2], "flights_per_step": per_step}
        report |= {"bytes_per_step": (sent - few.party_bytes) / n_steps}
    per_row = (sent - fewer.party_bytes) / (n_rows - n_rows // 2)
    own_s = median(run.processor_s for run in runs[1:] or runs) / runs[-1].n_members
    report |= {
        "flights": flights,
        "bytes": sent,
        "bytes_per_row": round(per_row, 2),
        "bytes_at_least": round(sent - per_row * n_rows),
        "processor_s": round(own_s, 4),
        "predicted_s": {
            f"{round_trip} ms, {mbit} Mbit/s": round(
                predicted_s(flights, sent, own_s, round_trip_ms=round_trip, mbit=mbit), 3
            )
            for round_trip in ROUND_TRIPS_MS
            for mbit in BANDWIDTHS_MBIT
        },
    }
    return report


def as_table(reports: Sequence[Mapping[str, Any]]) -> str:
    """Return the reports as a table of Markdown."""
    networks = list(reports[0]["predicted_s"])
    head = ["analysis", "columns", "flights", "bytes per party", "of these per row", "processor s", *networks]
    lines = ["| " + " | ".join(head) + " |", "| --- " + "| ---: " * (len(head) - 1) + "|"]
    for report in reports:
        flights = f"{report['flights']}"
        if "steps" in report:
            fixed = report["flights"] - report["flights_per_step"] * report["steps"]
            flights += f" ({report['steps']} steps: {fixed:g} + {report['flights_per_step']:g} each)"
        cells = [report["name"], str(report["columns"]), flights, f"{report['bytes']:,}"]
        cells += [f"{report['bytes_per_row']:,.1f}", f"{report['processor_s']:.3f}"]
        cells += [f"{seconds:.2f}" for seconds in report["predicted_s"].values()]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def stated(case: Case) -> Distance:
    """Return what the plan of a case states."""
    tables = tables_of(case, LEAST_ROWS)
    job = job_of(case, tables)
    found = distance_of(analysis_of(job).plan(job, [table.schema for table in tables.values()]))
    assert found is not None, f"{case.name} does not say what it sends"
    return found


def stated_table() -> str:
    """Return the statements about all cases as a table of Markdown."""
    head = ["analysis", "columns", "flights", "bytes per party", *(f"{ms} ms" for ms in ROUND_TRIPS_MS)]
    lines = ["| " + " | ".join(head) + " |", "| --- " + "| ---: " * (len(head) - 1) + "|"]
    for case in CASES:
        distance = stated(case)
        n_columns = sum(len(table.schema.columns) for table in tables_of(case, LEAST_ROWS).values())
        steps = f" ({case.steps[2]} steps)" if case.steps else ""
        cells = [case.name + steps, str(n_columns), str(distance.flights), f"{distance.party_bytes:,}"]
        seconds = [[f"{distance.seconds(ms, mbit):.2f}" for mbit in BANDWIDTHS_MBIT] for ms in ROUND_TRIPS_MS]
        cells += [" / ".join(at_one) for at_one in seconds]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--only", action="append", choices=[case.name for case in CASES])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--stated", action="store_true")
    options = parser.parse_args(arguments)
    if options.stated:
        sys.stdout.write(stated_table())
        return
    if not 2 * LEAST_ROWS <= options.rows <= MAX_ROWS or options.repeats < 1:
        parser.error(f"--rows must be from {2 * LEAST_ROWS} to {MAX_ROWS}, and --repeats positive")
    cases = [case for case in CASES if not options.only or case.name in options.only]
    reports = [measure(case, options.rows, options.repeats) for case in cases]
    if options.format == "json":
        whole = {"round_trips_ms": ROUND_TRIPS_MS, "bandwidths_mbit": BANDWIDTHS_MBIT, "analyses": reports}
        sys.stdout.write(json.dumps({**whole, "machine": describe_machine()}, indent=1) + "\n")
    else:
        sys.stdout.write(as_table(reports))


if __name__ == "__main__":
    main()
