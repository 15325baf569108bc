"""Processor seconds of each answer of one release: in Python, and by the command; no service runs.

    python -m bench.jobs.answers [--rows 20000] [--columns 46] [--question NAME ...] [--runs 3]

Prints JSON. `first` is the first answer of a process that has loaded the release, with what it imports only then;
`again` the median of further ones; `command` all of `moiety answer FILE QUESTION`, user and system, median of the runs.
`load` is what `import moiety` and `moiety.load(FILE)` take. Threads of BLAS are one.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analyses.job.schema import Table
from analyses.kept_moments import protocol as kept_moments
from bench.coverage.answers import made_up_table, released
from bench.coverage.models import tables_of
from bench.machine import describe_machine
from bench.utility.moment_runs import plan_of
from results.generic.result import FILE_VERSION

EPSILON = 100.0
"""So large that each question has an answer."""
THREE = ["bank.claims", "clinic.age", "shop.visits"]
RATES = {"label": "bank.claims", "columns": ["clinic.age", "clinic.risk"]}
QUESTIONS: Mapping[str, dict[str, Any]] = {
    "means": {},
    "covariance": {"columns": THREE},
    "correlation": {"columns": THREE},
    "partial-correlation": {"columns": THREE},
    "inflation": {"columns": THREE},
    "regress": {"label": "bank.claims", "columns": [*THREE[1:], "clinic.risk"]},
    "ridge": {"label": "bank.claims", "columns": THREE[1:]},
    "logistic": {"label": "clinic.ill", "columns": [*THREE[1:], "clinic.risk"]},
    "poisson": RATES,
    "negative-binomial": RATES,
    "gamma": RATES,
    "multinomial": {"label": "shop.grade", "columns": ["clinic.age", "clinic.risk"]},
    "ordinal": {"label": "shop.grade", "columns": ["clinic.age", "clinic.risk"]},
    "anova": {"value": "bank.claims", "columns": ["clinic.risk", "bank.owns"]},
    "contrasts": {"value": "bank.claims", "by": "clinic.risk", "columns": ["clinic.age"]},
    "stepwise": {"label": "bank.claims", "columns": ["clinic.age", "clinic.risk", "bank.owns"]},
    "discriminant": {"by": "clinic.risk", "columns": THREE},
    "components": {"columns": THREE},
    "factors": {"columns": THREE},
    "canonical-correlation": {"columns": ["bank.claims", "bank.owns"], "others": ["clinic.age", "clinic.risk"]},
    "crosstab": {"down": "clinic.risk", "across": "bank.owns"},
    "odds-ratios": {"down": "clinic.risk", "across": "bank.owns"},
    "group-means": {"value": "bank.claims", "by": "clinic.risk"},
    "synthetic": {"columns": ["clinic.risk", "bank.owns", "clinic.age"], "rows": 1000},
}

_ASKED = """
import json, sys, time
begun = time.process_time()
import moiety
release = moiety.load(sys.argv[1])
seconds = {"load": time.process_time() - begun}
asked, given = sys.argv[2], json.loads(sys.argv[3])
for at in range(4):
    begun = time.process_time()
    release.answer(asked, **given).to_dict()
    seconds[str(at)] = time.process_time() - begun
print(json.dumps(seconds))
"""


def write_release(path: Path, n_rows: int, n_columns: int) -> None:
    """Write a release of made-up rows as `moiety job show --format json` prints it."""
    tables = widened(tables_of(n_rows, 1), n_columns)
    release = released(tables, EPSILON, np.random.default_rng(1))
    plan = plan_of(kept_moments, "second-moments", tables, {"max_rows": n_rows}, EPSILON)
    result = {"analysis": "second-moments", "columns": list(release.names), "matrix": release.matrix.tolist()}
    job, agreed = (json.loads(one.canonical_json()) for one in (plan.job, plan))
    fields = {"version": FILE_VERSION, "state": "DONE", "job": job, "plan": agreed}
    path.write_text(json.dumps({**fields, "result": {**result, "privacy": plan.privacy_report()}}))


def widened(tables: Sequence[Table], n_columns: int) -> list[Table]:
    """Return tables with further numbers of the first owner, so that there are so many columns."""
    more = n_columns - sum(len(table.schema.columns) for table in tables)
    if more <= 0:
        return list(tables)
    first, *others = tables
    values = np.random.default_rng(2).normal(size=(first.n_rows, more))
    further = made_up_table("bank", {f"x{at}": (-4, 4, values[:, at]) for at in range(more)})
    schema = first.schema.model_copy(update={"columns": (*first.schema.columns, *further.schema.columns)})
    return [Table(schema, np.hstack([first.values, further.values])), *others]


def seconds_of(path: Path, question: str, runs: int) -> dict[str, float]:
    """Return the processor seconds of an answer, each from processes of their own."""
    given = json.dumps(QUESTIONS[question])
    asked = [json.loads(_child(["-c", _ASKED, str(path), question, given])[0]) for _ in range(runs)]
    options = [f"--{name}={value}" for name, value in _options(QUESTIONS[question])]
    command = ["-m", "cli.entry", "answer", str(path), question, *options]
    return {
        "load": statistics.median(one["load"] for one in asked),
        "first": statistics.median(one["0"] for one in asked),
        "again": statistics.median(one[at] for one in asked for at in "123"),
        "command": statistics.median(_child(command)[1] for _ in range(runs)),
    }


def _options(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, ",".join(value) if isinstance(value, list) else str(value)) for name, value in given.items()]


def _child(arguments: Sequence[str]) -> tuple[str, float]:
    """Return what a program printed, and its processor seconds.

    Raises:
        RuntimeError: it failed; with its last words.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, *arguments], check=False, capture_output=True, text=True, env={**os.environ, **one_thread}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{arguments[:4]} failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=46)
    parser.add_argument("--question", action="append", choices=QUESTIONS)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        path = Path(folder) / "release.json"
        write_release(path, options.rows, options.columns)
        found = {name: seconds_of(path, name, options.runs) for name in options.question or QUESTIONS}
    print(json.dumps({"bench": "answers", "processor_s": found, "machine": describe_machine()}, indent=1))


if __name__ == "__main__":
    main()
