"""Runs the demo of any analysis: its example on a federation on this machine, then what only a demo can compare."""

import asyncio
import importlib
import json
import tempfile
import tomllib
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import reduce
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from analyses.job.job import Job
from analyst.connection import ClientConfig, connect
from cli.terminal.output import ExitCode, fail, say
from cli.terminal.progress import event_printer
from demo.catalogue import Demo
from demo.data_sets import ages, kdd, ratings
from demo.data_sets.ages import AgeParties, write_age_parties
from demo.data_sets.kdd import KddParties, write_kdd_parties
from demo.data_sets.ratings import RatingParties, write_lecturer_parties, write_student_parties
from demo.local_deployment import LocalDeployment
from transport.calls.coordinator_client import JobView

Parties = KddParties | AgeParties | RatingParties
"""What the parties of a demo hold."""

DATA_SETS: Mapping[str, tuple[str, Callable[..., Parties]]] = {
    kdd.TABLE_NAME: (kdd.DESCRIPTION, write_kdd_parties),
    ages.TABLE_NAME: (ages.DESCRIPTION, write_age_parties),
    ratings.BY_STUDENT: (ratings.DESCRIPTIONS[ratings.BY_STUDENT], write_student_parties),
    ratings.BY_LECTURER: (ratings.DESCRIPTIONS[ratings.BY_LECTURER], write_lecturer_parties),
}
"""Name of the table that an example asks for to what it is about, and what writes it."""


@dataclass(frozen=True)
class DemoRun:
    """A job that is done.

    Attributes:
        job: what was asked for.
        view: what the coordinator says of it.
        result: of the job, as the analysis returns it.
        deployment: still running, until the demo ends.
        data: what the parties hold, and what nobody holds: for comparison only.
        seconds: from submission to the result.
        bytes_sent: party to the bytes that it sent.
    """

    job: Job
    view: JobView
    result: dict[str, Any] = field(repr=False)
    deployment: LocalDeployment
    data: Parties
    seconds: float
    bytes_sent: Mapping[str, int]

    @property
    def n_rows(self) -> int:
        """Rows of the joint table. Only a demo may say it."""
        return len(self.data.pooled)


def run_demo(
    stack: ExitStack, demo: Demo, keep: Path | None, rows: int | None, given: Mapping[str, Any]
) -> tuple[Any, str]:
    """Run a demo; says on the terminal what it does.

    Args:
        stack: on leaving it, all processes end and the working folder is removed.
        demo: which.
        keep: new folder that is kept instead.
        rows: rows to use; all where absent.
        given: the demo's own options to their values.

    Returns:
        What it shows, a dataclass that JSON can hold, and the same as text.
    """
    module = importlib.import_module(demo.module)
    changes = {option.field: given[option.name] for option in demo.options if option.field}
    others = {option.name: given[option.name] for option in demo.options if not option.field}
    run = run_example(stack, keep, rows, demo.name, changes)
    say("4/4  comparing with what somebody who held all columns could do (only a demo can)")
    outcome = module.compare(run, **others)
    return outcome, module.text_of(outcome)


def run_example(
    stack: ExitStack, keep: Path | None, rows: int | None, name: str, changes: Mapping[str, Any] | None = None
) -> DemoRun:
    """Start the federation of the demo and run `examples/NAME.toml` on it; says on the terminal what it does.

    Ends the program with its exit code where the job fails.

    Args:
        stack: on leaving it, all processes end and the working folder is removed.
        keep: new folder that is kept instead.
        rows: rows to use; all where absent.
        name: of the example.
        changes: field to value, for instance {"privacy.epsilon": 0.5, "parameters.k": 3}; None leaves it as it is.
    """
    job = example_job(name, changes)
    folder = working_folder(stack, keep)
    table = job.inputs[0].table
    say(f"1/4  writing the tables of three parties ({DATA_SETS[table][0]})")
    data = write_tables(folder, rows, table)
    say(f"2/4  starting {len(data.tables)} parties and a coordinator on loopback, mutual TLS")
    services = folder / "services"
    services.mkdir()
    tables = {party: [table] for party, table in data.tables.items()}
    deployment = stack.enter_context(LocalDeployment(services, tables, federation="demo"))
    return run_on(deployment, job, data)


def run_on(deployment: LocalDeployment, job: Job, data: Parties) -> DemoRun:
    """Run a job on services that are started; ends the program with its exit code where the job fails.

    Args:
        deployment: of the parties that the job names.
        job: what is asked for.
        data: what the parties hold.
    """
    view = asyncio.run(_submit_and_watch(deployment, job))
    if view.state != "DONE":
        fail(f"job {view.job_id} {view.state}: {view.reason}", ExitCode.FAILED, code=view.code)
    reports = {party: deployment.report(party, view.job_id) for party in data.tables}
    return DemoRun(
        job=job,
        view=view,
        result=json.loads(view.result_json),
        deployment=deployment,
        data=data,
        seconds=view.ended_at_s - view.submitted_at_s,
        bytes_sent={p: sum(s["sent_bytes"] for s in r["traffic"].values()) for p, r in reports.items()},
    )


def example_job(name: str, changes: Mapping[str, Any] | None = None) -> Job:
    """Return an example, checked like any job that comes from a file.

    Raises:
        JobError: a change makes it invalid.
    """
    given = tomllib.loads(package_files("cli").joinpath("data", "examples", f"{name}.toml").read_text())
    for path, value in (changes or {}).items():
        *sections, last = path.split(".")
        if value is not None:
            reduce(lambda section, key: section.setdefault(key, {}), sections, given)[last] = value
    return Job.from_json(json.dumps(given))


def working_folder(stack: ExitStack, keep: Path | None) -> Path:
    """Return a folder for everything that a demo writes, removed at its end unless it is one to keep."""
    if keep is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moiety-demo-")))
    try:
        keep.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        fail(f"--keep needs a new folder, {keep} exists", ExitCode.USAGE)
    return keep.resolve()


def write_tables(folder: Path, rows: int | None, table: str = kdd.TABLE_NAME) -> Parties:
    """Write the parties' tables to a folder; ends the program where there are not so many rows."""
    try:
        return DATA_SETS[table][1](folder, rows=rows)
    except ValueError as error:
        fail(error, ExitCode.USAGE)


async def _submit_and_watch(deployment: LocalDeployment, job: Job) -> JobView:
    async with connect(ClientConfig.load(deployment.client_config)) as coordinator:
        job_id = await coordinator.submit(job.canonical_json(), uuid.uuid4().hex)
        say(f"3/4  job {job_id}: shares, products and noise among the parties")
        with event_printer() as printer:
            async for event in coordinator.watch(job_id):
                printer.show(event)
        return await coordinator.show(job_id)
