"""Runs the demo of any analysis: its example on a federation on this machine, then what only a demo can compare."""

import asyncio
import itertools
import json
import tempfile
import tomllib
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property, reduce
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from analyses.job.job import Job
from analyses.job.plan import Plan
from analyses.job.schema import Table
from analyses.registry import analysis_of
from analyst.client import result_of
from analyst.connection import ClientConfig, connect
from cli.terminal.output import ExitCode, fail, say
from cli.terminal.progress import event_printer
from demo.catalogue import Demo
from demo.comparison import Found, Score, picture_of, scores_of
from demo.data_sets import ages, kdd, ratings
from demo.data_sets.ages import AgeParties, write_age_parties
from demo.data_sets.customers import Customers
from demo.data_sets.kdd import KddParties, write_kdd_parties
from demo.data_sets.ratings import RatingParties, write_lecturer_parties, write_student_parties
from demo.local_deployment import LocalDeployment
from results.drawing.chart import PictureError
from results.drawing.file import write
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
        deployment: still running, until the demo ends.
        data: what the parties hold, and what nobody holds: for comparison only.
    """

    job: Job
    view: JobView
    deployment: LocalDeployment
    data: Parties | Customers

    @cached_property
    def result(self) -> dict[str, Any]:
        """The result, as the analysis returns it."""
        found: dict[str, Any] = json.loads(self.view.result_json)
        return found

    @cached_property
    def reports(self) -> dict[str, Mapping[str, Any]]:
        """Party to what it alone is told; only a demo reads it of all parties."""
        return {party: self.deployment.report(party, self.view.job_id) for party in self.data.tables}

    @property
    def seconds(self) -> float:
        """Seconds from submission to the result."""
        return self.view.ended_at_s - self.view.submitted_at_s

    @property
    def bytes_sent(self) -> dict[str, int]:
        """Party to the bytes that it sent."""
        return {p: sum(s["sent_bytes"] for s in report["traffic"].values()) for p, report in self.reports.items()}


@dataclass(frozen=True)
class Outcome:
    """What a demo shows.

    Attributes:
        job_id: identifier of the job.
        title: title of the job.
        n_rows: rows of all tables together.
        lines: the result as text.
        scores: the private answer beside the one without privacy.
        privacy: the report of the job.
        seconds: from submission to the result.
        bytes_sent: party to the bytes that it sent.
        clipped: party to its rows and values that were outside their public bounds; known only to each party.
        files: the picture, where there is one, and all numbers.
    """

    job_id: str
    title: str
    n_rows: int
    lines: list[str]
    scores: list[Score]
    privacy: Mapping[str, Any]
    seconds: float
    bytes_sent: Mapping[str, int]
    clipped: Mapping[str, int]
    files: Mapping[str, str]


def run_demo(
    stack: ExitStack, demo: Demo, keep: Path | None, rows: int | None, out: Path, given: Mapping[str, Any]
) -> Outcome:
    """Run a demo; says on the terminal what it does.

    Ends the program with its exit code where the job fails.

    Args:
        stack: on leaving it, all processes end and the working folder is removed.
        demo: which.
        keep: new folder for everything that is written, which is kept.
        rows: rows to use; all where absent.
        out: folder for the picture and the numbers.
        given: the demo's options to their values.
    """
    job = example_job(*demo.example(given))
    folder = working_folder(stack, keep)
    table = job.inputs[0].table
    say(f"1/4  writing the tables of three parties ({DATA_SETS[table][0]})")
    data = write_tables(folder, rows, table)
    tables, plan = planned(job, data)
    unit = plan.privacy_report()["unit"]  # a method may protect another unit than the table's budget is of
    policy = {"policy.limits": {"withstand_coalition": plan.withstands}}  # and some withstand no colluding party
    say(f"2/4  starting {len(data.tables)} parties and a coordinator on loopback, mutual TLS")
    services = folder / "services"
    services.mkdir()
    held = {party: [replace(table, unit=unit)] for party, table in data.tables.items()}
    allowing = LocalDeployment(services, held, federation="demo", policy=dict.fromkeys(held, policy))
    run = run_on(stack.enter_context(allowing), job, data)
    say("4/4  comparing with what somebody who held all tables would find (only a demo can)")
    found = Found(run.result, run.reports, data, tables, plan)
    clipped = {p: int(r["clipped_rows"]) + sum(r["clipped_values"].values()) for p, r in run.reports.items()}
    out.mkdir(parents=True, exist_ok=True)
    files = free_files(out, demo.name)
    try:
        write(picture_of(found.plan, found), files["plot"])
    except PictureError as error:
        say(f"     no plot: {error}")
        del files["plot"]
    outcome = Outcome(
        job_id=run.view.job_id,
        title=job.title,
        n_rows=len(data.pooled),
        lines=result_of(run.view).lines,
        scores=scores_of(found),
        privacy=run.result["privacy"],
        seconds=run.seconds,
        bytes_sent=run.bytes_sent,
        clipped=clipped,
        files={name: str(path) for name, path in files.items()},
    )
    files["numbers"].write_text(json.dumps({"demo": asdict(outcome), "result": run.result}, indent=2) + "\n")
    return outcome


def planned(job: Job, data: Parties) -> tuple[list[Table], Plan]:
    """Return all tables of a job in one place, as the analysis gets them, and its plan.

    Raises:
        JobError: the job is invalid for these tables.
    """
    wanted = {one.party: list(one.columns or data.tables[one.party].usual_bounds) for one in job.inputs}
    tables = data.in_memory(wanted)
    return tables, analysis_of(job).plan(job, [table.schema for table in tables])


def free_files(out: Path, name: str) -> dict[str, Path]:
    """Return where a demo's numbers and picture go: beside those of earlier runs, which stay."""
    for number in itertools.count(1):
        stem = name if number == 1 else f"{name}-{number}"
        files = {"numbers": out / f"{stem}.json", "plot": out / f"{stem}.png"}
        if not any(path.exists() for path in files.values()):
            break
    return files


def run_on(deployment: LocalDeployment, job: Job, data: Parties | Customers) -> DemoRun:
    """Run a job on services that are started; ends the program with its exit code where the job fails.

    Args:
        deployment: deployment of the parties that the job names.
        job: what is asked for.
        data: what the parties hold.
    """
    view = asyncio.run(_submit_and_watch(deployment, job))
    if view.state != "DONE":
        fail(f"job {view.job_id} {view.state}: {view.reason}", ExitCode.FAILED, code=view.code)
    return DemoRun(job, view, deployment, data)


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
