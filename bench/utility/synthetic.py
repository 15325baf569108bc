"""Synthetic tables from one release beside AIM run centrally at the same epsilon, and the release over services.

    python -m bench.utility.synthetic
    python -m bench.utility.synthetic --aim --only adult --epsilons 1
    python -m bench.utility.synthetic --services

Error: mean over all pairs of columns of the total variation between the synthetic table and the true one, both of as
many rows. Epsilon holds against the coordinator, whose neighbours are those of central privacy, at delta 1e-6.
`--aim` takes minutes of a processor for some tables.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.kept_moments import protocol as kept_moments
from analyses.kept_moments.questions import ask
from analyses.kept_moments.synthetic.question import SyntheticAnswer
from analyses.second_moments.released import ReleasedMoments
from bench.baselines.aim import JointTable, aim, counts_of
from bench.datasets.bundled import is_available, read
from bench.jobs.federation import running_federation
from bench.machine import describe_machine
from bench.utility.moment_runs import DELTA, plan_of
from demo.local_deployment import LocalTable

Codes = NDArray[np.int64]

PARTIES = ("bank", "clinic", "shop")
BINS = {
    "adult": {"age": range(0, 101, 10), "hours_per_week": range(0, 101, 10)},
    "acs": {"age": range(0, 101, 10), "hrs_work": range(0, 101, 10), "income": (0, 1, 10_000, 20_000, 40_000, 70_000)},
    "credit": {
        "annual_income": (0, 30_000, 45_000, 60_000, 80_000, 100_000, 150_000),
        "debt_to_income": (0, 5, 10, 15, 20, 30),
        "loan_amount": (0, 5000, 10_000, 15_000, 20_000, 30_000),
        "interest_rate": (0, 7, 9, 11, 13, 16, 20),
    },
}
"""Lower ends of bins of numbers, chosen without a look at how they are distributed."""
TABLES = {
    "adult": ("adult_train", ("workclass", "marital_status", "relationship", "sex", "income", "education")),
    "acs": (
        "acs_small/acs12",
        ("employment", "race", "gender", "citizen", "lang", "married", "edu", "disability", "birth_qrtr"),
    ),
    "credit": (
        "lending_club",
        ("homeownership", "verified_income", "loan_purpose", "application_type", "grade", "term", "loan_status"),
    ),
}


def codes_of(name: str) -> Codes:
    """Return the values of a table as numbers from 0, shape (rows, columns); gaps are a value."""
    file, categories = TABLES[name]
    table = read(file)
    found = [table[one].cast(pl.String).fill_null("?").rank("dense").to_numpy() - 1 for one in categories]
    for one, ends in BINS[name].items():
        values = table[one].cast(pl.Float64, strict=False)
        bins = np.searchsorted(np.array(ends), values.fill_null(0.0).to_numpy(), side="right") - 1
        found.append(np.where(values.is_null().to_numpy(), len(ends), bins))
    return np.column_stack([np.unique(one, return_inverse=True)[1] for one in found]).astype(np.int64)


def dealt(codes: Codes) -> list[Table]:
    """Return the indicators of some columns at each of three owners."""
    tables = []
    for party, places in zip(PARTIES, np.array_split(np.arange(codes.shape[1]), 3), strict=True):
        values = [(codes[:, at] == code).astype(np.float64) for at in places for code in range(codes[:, at].max() + 1)]
        columns = tuple(
            ColumnSchema(name=f"c{at}=v{code}", lower=0, upper=1, group=f"c{at}")
            for at in places
            for code in range(codes[:, at].max() + 1)
        )
        tables.append(
            Table(BlockSchema(party=party, columns=columns, rows=(1, 2 * len(codes))), np.column_stack(values))
        )
    return tables


def table_of(answer: SyntheticAnswer) -> Codes:
    """Return the rows of an answer as `codes_of`."""
    columns = sorted(answer.drawn, key=lambda column: int(column.source.name.partition(".c")[2]))
    return np.column_stack([column.states for column in columns])


def error(codes: Codes, other: Codes) -> float:
    """Return the mean total variation of all pairs of columns."""
    found = []
    for i, j in combinations(range(codes.shape[1]), 2):
        size = 1 + max(int(one[:, [i, j]].max()) for one in (codes, other))
        counts = [np.bincount(one[:, i] * size + one[:, j], minlength=size**2) / len(one) for one in (codes, other)]
        found.append(np.abs(counts[0] - counts[1]).sum() / 2)
    return float(np.mean(found))


def ours(codes: Codes, epsilon: float, seed: int) -> dict[str, float]:
    """Return the error of one release, and what it took to answer."""
    tables, rng = dealt(codes), np.random.default_rng(seed)
    plan = plan_of(kept_moments, "second-moments", tables, {}, epsilon)
    exact = kept_moments.reference(tables, plan)
    draw = rng.normal(size=exact.shape)
    deviation = ReleasedMoments.of(exact, plan).deviation
    release = ReleasedMoments.of(exact + deviation * (draw + draw.T) / np.sqrt(2), plan)
    started_s = time.process_time()
    answer = ask(release, "synthetic", rows=len(codes), seed=seed)
    assert isinstance(answer, SyntheticAnswer)
    spent_s = time.process_time() - started_s
    return {"error": error(codes, table_of(answer)), "misfit": answer.about["misfit"], "processor_s": spent_s}


def by_aim(codes: Codes, epsilon: float, seed: int) -> dict[str, float]:
    """Return the error of AIM, run centrally at its own settings: of its rows, and of its model, which no rows beat."""
    started_s = time.process_time()
    rows, moments, n_rounds = aim(codes, epsilon, DELTA, seed)
    joint = JointTable([int(one) + 1 for one in codes.max(axis=0)])
    true = counts_of(codes, joint) / len(codes)
    pairs = [joint.places(pair) for pair in combinations(range(codes.shape[1]), 2)]
    off = [float(np.abs(moments[at] - true[at]).sum()) / 2 for at in pairs]
    spent_s = time.process_time() - started_s
    of_rows = error(codes, rows)
    return {"error": of_rows, "model_error": float(np.mean(off)), "rounds": n_rounds, "processor_s": spent_s}


def services(rows: int = 100_000, columns: int = 15, categories: int = 10) -> dict[str, Any]:
    """Release the pairs of columns with categories over three services, and draw rows of what was released."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, categories, rows)
    keeps = rng.random((rows, columns)) < 0.5
    codes = np.where(keeps, hidden[:, None], rng.integers(0, categories, (rows, columns)))
    labels = [f"v{code}" for code in range(categories)]

    async def run(folder: Path) -> dict[str, Any]:
        tables, inputs = {}, []
        for party, places in zip(PARTIES, np.array_split(np.arange(columns), 3), strict=True):
            path = folder / f"{party}.parquet"
            pl.DataFrame({f"c{at}": [labels[code] for code in codes[:, at]] for at in places}).write_parquet(path)
            kinds = "\n".join(f'c{at} = {{ kind = "category", values = {labels} }}' for at in places)
            sections = f"[tables.columns]\n{kinds}\n"
            tables[party] = [LocalTable("rows", path, {}, (rows // 2, rows * 2), sections=sections)]
            inputs.append({"party": party, "table": "rows"})
        asked = {
            "analysis": "second-moments", "inputs": inputs, "order": "trusted", "deadline_s": 120.0,
            "privacy": {"epsilon": 1.0, "delta": 1e-7}, "parameters": {"max_rows": rows * 2},
        }  # fmt: skip
        async with running_federation(tables) as federation:
            done = await federation.run(Job.model_validate(asked))
            again = await federation.run(Job.model_validate(asked))
            peak = federation.peak_resident_bytes()
        return {"first_job_s": done.seconds, "job_s": again.seconds, "peak_MiB": max(peak.values()) / 2**20}

    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        return asyncio.run(run(Path(folder)))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 4.0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--aim", action="store_true", help="beside AIM (`bench.baselines.aim`)")
    parser.add_argument("--services", action="store_true", help="the job over services instead")
    options = parser.parse_args(arguments)
    if options.services:
        print(json.dumps({"machine": describe_machine(), **services()}, indent=1))
        return
    found: dict[str, Any] = {"machine": describe_machine(), "delta": DELTA}
    for name in options.only:
        if name == "acs" and not is_available(TABLES[name][0]):
            sys.stderr.write("acs is not bundled: set MOIETY_DATA\n")
            continue
        codes = codes_of(name)
        of_table: Mapping[str, Any] = {"rows": len(codes), "values": [int(v) + 1 for v in codes.max(0)]}
        for epsilon in options.epsilons:
            row: dict[str, Any] = {}
            for who in (ours, by_aim) if options.aim else (ours,):
                runs = [who(codes, epsilon, seed) for seed in range(options.runs)]
                row[who.__name__] = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            if options.aim:
                row["times_the_error_of_aim"] = row["ours"]["error"] / row["by_aim"]["error"]
            of_table = {**of_table, f"epsilon {epsilon:g}": row}
            sys.stderr.write(f"{name} {epsilon:g} {json.dumps(row)}\n")
        found[name] = of_table
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
