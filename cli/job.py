"""`moiety job`: submit, watch, list, show and cancel jobs."""

import asyncio
import json
import uuid
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from analyses.job.job import Job
from analyst.connection import ClientConfig, connect
from analyst.question import job_wanted
from cli.terminal.options import DEFAULT_CLIENT, Client, Of, OutputFormat, Within, wanted_of
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_result, say
from cli.terminal.plot import Plot, check_plot
from cli.terminal.plot import plot as plot_result
from cli.terminal.result import lines_of
from service.codes.printed_time import printed_time
from service.errors import ServiceError
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
    plot: Plot = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Run the job even where no answer could be seen in its noise.")
    ] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Submit a job and, unless told otherwise, watch it to its end."""
    with exit_codes():
        job = _asked(job_file, anyway=anyway)
        if plot is not None and not watch:
            fail("--plot draws the result, so it needs --watch; later: moiety job show JOB --plot FILE", ExitCode.USAGE)
        check_plot(plot)
        config = ClientConfig.load(client)
        idempotency_key = uuid.uuid4().hex if key is None else key
        try:
            job_id = _call(config, lambda coordinator: coordinator.submit(job.canonical_json(), idempotency_key))
        except KeyboardInterrupt:
            fail("interrupted; the job may have been accepted: moiety job list", ExitCode.INTERRUPTED)
        if watch:
            _watch_to_end(config, job_id, output, first_line=f"submitted job {job_id}", plot=plot)
        else:
            print_result(output, {"job_id": job_id}, job_id)


@job_app.command("plan")
def plan_job(
    job_file: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job to look at; nothing is submitted.")],
    client: Annotated[
        Path | None,
        typer.Option("--client", envvar="MOIETY_CLIENT", help="Your client.toml, for cost, forecast and network."),
    ] = None,
    time: Annotated[
        bool, typer.Option("--time", help="Measure this machine for a few seconds, and say the processor time, too.")
    ] = False,
    within: Within = None,
    of: Of = "",
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show, before anything runs, what a job would cost, how large its errors would be, and who may drop out.

    It says besides how many messages wait for one another, how many bytes the busiest party sends, and what that takes
    over distances, and for jobs that count second moments how much memory the services take. All of this follows from
    the tables that the parties list, so the coordinator is asked for these.
    Without a client.toml nobody is contacted, and only the table of dropouts is shown.
    """
    with exit_codes():
        from analyses.registry import survival_of  # with kernels that no other of these commands needs

        job, wanted = _asked(job_file), wanted_of(within, of)
        survival = survival_of(job)
        if client is None:
            print_result(output, asdict(survival), survival.as_text())
            say("for its cost, the forecast of its errors and what its network takes, name your client.toml: --client")
            return
        from analyst.catalogue import Catalogue
        from analyst.planning import plan_of

        tables = _call(ClientConfig.load(client), lambda coordinator: coordinator.tables())
        plan = plan_of(job, Catalogue.of(tables), measured=time, wanted=wanted)
        print_result(output, plan.to_dict(), repr(plan))


@job_app.command("watch")
def watch_job(job_id: JobId, client: Client, plot: Plot = None, output: OutputFormat = Format.TEXT) -> None:
    """Follow a job to its end and print its result."""
    with exit_codes():
        check_plot(plot)
        _watch_to_end(ClientConfig.load(client), job_id, output, plot=plot)


@job_app.command("list")
def list_jobs(
    client: Client = DEFAULT_CLIENT,
    limit: Annotated[int, typer.Option(min=0, help="At most so many, newest first; 0: all.")] = 20,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List your jobs, newest first."""
    with exit_codes():
        jobs = _call(ClientConfig.load(client), lambda coordinator: coordinator.jobs(limit))
        value = [{**_summary_as_dict(view), "title": view.title or None} for view in jobs]
        print_result(output, value, map(_line_of, jobs), nothing="no jobs yet")


def _line_of(view: JobSummary) -> str:
    submitted = printed_time(view.submitted_at_s, "%Y-%m-%d %H:%M")
    asked = f"waits for the owners of {', '.join(view.waits_for_owners_of)}" if view.waits_for_owners_of else ""
    reason = f": {view.reason or asked}" if view.reason or asked else ""
    return f"{view.job_id}  {submitted}  {view.state:9}  {view.title or view.analysis}{reason}"


@job_app.command()
def show(
    job_id: JobId,
    client: Client = DEFAULT_CLIENT,
    plot: Plot = None,
    items: Annotated[
        Path | None, typer.Option(help="File with the owners' public list of items, one a line, to name them.")
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show one job: its state, its result and what it cost in privacy."""
    with exit_codes():
        check_plot(plot)
        view = _call(ClientConfig.load(client), lambda coordinator: coordinator.show(job_id))
        view = view if items is None else _named(view, items)
        _print_view(view, output)
        if plot is not None:
            _plot(view, plot)


def _named(view: JobView, items: Path) -> JobView:
    from analyses.job.ratings import MAX_ITEMS
    from results.kinds.matrix_factorization import with_names
    from service.files.name_list import read_names

    if not view.result_json:
        fail(f"there is nothing to name: the job is {view.state}", ExitCode.FAILED)
    try:
        fields = with_names(json.loads(view.result_json), read_names(items, MAX_ITEMS))
    except ValueError as error:
        fail(f"--items: {error}", ExitCode.USAGE)
    return replace(view, result_json=json.dumps(fields))


def _asked(job_file: Path, *, anyway: bool = False) -> Job:
    """Return the job of a file, and say which parameters have other names here."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        job = job_wanted(job_file, anyway=anyway)
    for note in notes:
        say(f"note: {note.message}")
    return job


def _plot(view: JobView, path: Path) -> None:
    if not view.result_json:
        fail(f"there is nothing to draw: the job is {view.state}", ExitCode.FAILED)
    plot_result(json.loads(view.result_json), path, Job.from_json(view.job_json).title)


@job_app.command()
def cancel(job_id: JobId, client: Client, output: OutputFormat = Format.TEXT) -> None:
    """Cancel a job that waits or runs."""
    with exit_codes():
        view = _call(ClientConfig.load(client), lambda coordinator: coordinator.cancel(job_id))
        _print_view(view, output)
        if view.state != "CANCELLED":
            fail(f"the job ended before it could be cancelled: it is {view.state}", ExitCode.FAILED)


def _call(config: ClientConfig, use: Callable[[CoordinatorClient], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with connect(config) as coordinator:
            return await use(coordinator)

    return asyncio.run(connected())


def _watch_to_end(
    config: ClientConfig, job_id: str, output: Format, first_line: str = "", plot: Path | None = None
) -> None:
    has_begun = False

    async def watch(coordinator: CoordinatorClient) -> JobView:
        nonlocal has_begun
        from cli.terminal.progress import event_printer

        with event_printer() as printer:
            async for event in coordinator.watch(job_id):
                has_begun = True
                printer.show(event)
        return await coordinator.show(job_id)

    try:
        if first_line:
            say(first_line)
        view = _call(config, watch)
    except KeyboardInterrupt:
        fail(f"interrupted; the job goes on: moiety job watch {job_id}", ExitCode.INTERRUPTED)
    except ServiceError:
        if has_begun:
            say(f"the job goes on where its coordinator comes back: moiety job watch {job_id}")
        raise
    _print_view(view, output)
    if view.state != "DONE":
        raise typer.Exit(ExitCode.FAILED)
    if plot is not None:
        _plot(view, plot)


def _print_view(view: JobView, output: Format) -> None:
    print_result(output, _as_dict(view), lines_of(view))


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
        "code": view.code or None,
        "culprit": view.culprit or None,
        "stage": view.stage or None,
        "submitted_by": view.submitted_by,
        "submitted_at_s": view.submitted_at_s,
        "ended_at_s": view.ended_at_s or None,
        "waits_for_owners_of": list(view.waits_for_owners_of),
    }
