"""`moiety job`: submit, watch, list, show and cancel jobs."""

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from analyses.job.job import Job, JobError
from cli.client import ClientConfig, connect
from cli.terminal.options import DEFAULT_CLIENT, Client, OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_json, print_text, say
from cli.terminal.result import summary_of
from service.files.text_file import TextFileError, read_text
from transport.calls.coordinator_client import CoordinatorClient, JobSummary, JobView

T = TypeVar("T")

job_app = typer.Typer(name="job", help="Submit jobs, watch them, read their results.", no_args_is_help=True)

JobId = Annotated[str, typer.Argument(help="Identifier of the job.")]


@job_app.command()
def submit(
    job_file: Annotated[Path, typer.Argument(metavar="JOB.toml", help="What to compute, over whose tables.")],
    client: Client = DEFAULT_CLIENT,
    watch: Annotated[bool, typer.Option(help="Stay until the job has ended and print its result.")] = True,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: submitting again with the same key gives the same job.")
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Submit a job and, unless told otherwise, watch it to its end."""
    with exit_codes():
        job = _read_job(job_file)
        config = ClientConfig.load(client)
        idempotency_key = uuid.uuid4().hex if key is None else key
        try:
            job_id = _call(config, lambda coordinator: coordinator.submit(job.canonical_json(), idempotency_key))
        except KeyboardInterrupt:
            fail("interrupted; the job may have been accepted: moiety job list", ExitCode.INTERRUPTED)
        if watch:
            _watch_to_end(config, job_id, output, first_line=f"submitted job {job_id}")
        elif output is Format.JSON:
            print_json({"job_id": job_id})
        else:
            print_text(job_id)


@job_app.command("plan")
def plan_job(
    job_file: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job to look at; nothing is submitted.")],
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show, before anything runs, how many parties may drop out or send corrupted shares. Contacts no service."""
    with exit_codes():
        from cli.survival import survival_of  # with kernels that no other of these commands needs

        survival = survival_of(_read_job(job_file))
        print_json(asdict(survival)) if output is Format.JSON else print_text(survival.as_text())


@job_app.command("watch")
def watch_job(job_id: JobId, client: Client, output: OutputFormat = Format.TEXT) -> None:
    """Follow a job to its end and print its result."""
    with exit_codes():
        _watch_to_end(ClientConfig.load(client), job_id, output)


@job_app.command("list")
def list_jobs(
    client: Client = DEFAULT_CLIENT,
    limit: Annotated[int, typer.Option(min=0, help="At most so many, newest first; 0: all.")] = 20,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List your jobs, newest first."""
    with exit_codes():
        jobs = _call(ClientConfig.load(client), lambda coordinator: coordinator.jobs(limit))
        if output is Format.JSON:
            print_json([{**_summary_as_dict(view), "title": view.title or None} for view in jobs])
            return
        for view in jobs:
            submitted = time.strftime("%Y-%m-%d %H:%M", time.localtime(view.submitted_at_s))
            asked = f"waits for the owners of {', '.join(view.waits_for_owners_of)}" if view.waits_for_owners_of else ""
            reason = f": {view.reason or asked}" if view.reason or asked else ""
            print_text(f"{view.job_id}  {submitted}  {view.state:9}  {view.title or view.analysis}{reason}")
        if not jobs:
            say("no jobs yet")


@job_app.command()
def show(
    job_id: JobId,
    client: Client = DEFAULT_CLIENT,
    plot: Annotated[Path | None, typer.Option(help="Also draw the result into this PNG file.")] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show one job: its state, its result and what it cost in privacy."""
    with exit_codes():
        view = _call(ClientConfig.load(client), lambda coordinator: coordinator.show(job_id))
        _print_view(view, output)
        if plot is not None:
            _plot(view, plot)


def _plot(view: JobView, path: Path) -> None:
    from cli.terminal.plot import PlotError, plot_pca

    if not view.result_json:
        fail(f"there is nothing to draw: the job is {view.state}", ExitCode.FAILED)
    try:
        plot_pca(json.loads(view.result_json), path)
    except PlotError as error:
        fail(str(error), ExitCode.FAILED)
    except OSError as error:
        fail(f"{path}: cannot be written: {error.strerror}", ExitCode.USAGE)
    say(f"plot: {path}")


@job_app.command()
def cancel(job_id: JobId, client: Client, output: OutputFormat = Format.TEXT) -> None:
    """Cancel a job that waits or runs."""
    with exit_codes():
        view = _call(ClientConfig.load(client), lambda coordinator: coordinator.cancel(job_id))
        _print_view(view, output)
        if view.state != "CANCELLED":
            fail(f"the job ended before it could be cancelled: it is {view.state}", ExitCode.FAILED)


def _read_job(path: Path) -> Job:
    from analyses.registry import analysis_of

    try:
        job = Job.from_toml(read_text(path))
        analysis_of(job).check_parameters(job)
    except TextFileError as error:
        raise JobError(str(error)) from error
    except JobError as error:
        raise JobError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from error
    return job


def _call(config: ClientConfig, use: Callable[[CoordinatorClient], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with connect(config) as coordinator:
            return await use(coordinator)

    return asyncio.run(connected())


def _watch_to_end(config: ClientConfig, job_id: str, output: Format, first_line: str = "") -> None:
    async def watch(coordinator: CoordinatorClient) -> JobView:
        from cli.terminal.progress import event_printer

        with event_printer() as printer:
            async for event in coordinator.watch(job_id):
                printer.show(event)
        return await coordinator.show(job_id)

    try:
        if first_line:
            say(first_line)
        view = _call(config, watch)
    except KeyboardInterrupt:
        fail(f"interrupted; the job goes on: moiety job watch {job_id}", ExitCode.INTERRUPTED)
    _print_view(view, output)
    if view.state != "DONE":
        raise typer.Exit(ExitCode.FAILED)


def _print_view(view: JobView, output: Format) -> None:
    if output is Format.JSON:
        print_json(_as_dict(view))
    else:
        print_text(summary_of(view))


def _as_dict(view: JobView) -> dict[str, Any]:
    """Return a job as one JSON object; what has not come yet is null."""
    return {
        **_summary_as_dict(view),
        "job": json.loads(view.job_json),
        "plan": json.loads(view.plan_json) if view.plan_json else None,
        "result": json.loads(view.result_json) if view.result_json else None,
    }


def _summary_as_dict(view: JobSummary) -> dict[str, Any]:
    return {
        "job_id": view.job_id,
        "analysis": view.analysis,
        "state": view.state,
        "reason": view.reason or None,
        "culprit": view.culprit or None,
        "stage": view.stage or None,
        "submitted_by": view.submitted_by,
        "submitted_at_s": view.submitted_at_s,
        "ended_at_s": view.ended_at_s or None,
        "waits_for_owners_of": list(view.waits_for_owners_of),
    }
