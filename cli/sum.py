"""`moiety sum`: put a question to the members of a coordinator's masked sums."""

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.terminal.options import DEFAULT_CLIENT, Client, OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_json, print_text, say
from cli.terminal.plot import Plot, check_plot
from cli.terminal.plot import plot as draw

if TYPE_CHECKING:
    from analyses.device_forecast import AnyQuestion
    from analyses.device_questions import DeviceQuestion
    from analyst.connection import ClientConfig
    from transport.sum_codec import StageReport

Members = Annotated[
    int | None, typer.Option(min=1, help="For --plan: how many members answer, where the question does not say.")
]


def ask(
    question: Annotated[
        Path | None, typer.Argument(help="TOML file: analysis, record, largest, ...; see examples/sum.toml.")
    ] = None,
    client: Client = DEFAULT_CLIENT,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show the errors to expect and the cost for a member; asks nobody.")
    ] = False,
    members: Members = None,
    batch: Annotated[
        str, typer.Option(metavar="BATCH", help="Wait for the end of a batch that you have asked for: its identifier.")
    ] = "",
    plot: Plot = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Ask for a secure-sum, secure-mean, secure-histogram or matrix-factorization over many members, and hide each.

    With channel = "parties" in the file devices answer whenever they are online, until the batch is closed; it goes on
    without you.
    """
    with exit_codes():
        if (question is None) == (batch == ""):
            fail("either the file of a question or the --batch of an earlier one is needed", ExitCode.USAGE)
        if plan and batch:
            fail("--plan is for a question; a --batch was asked for already", ExitCode.USAGE)
        if members is not None and not plan:
            fail("--members says how many answer where a question is planned, so it needs --plan", ExitCode.USAGE)
        check_plot(plot)
        from analyses.device_questions import question_from_toml
        from analyses.job.job import JobError
        from analyses.sums.batch.question import BatchQuestion
        from analyst.connection import ClientConfig
        from service.files.text_file import TextFileError, read_text

        if question is None:
            batch_id = _batch_id(batch)
            show_answer(asyncio.run(run_batch(ClientConfig.load(client), batch_id=batch_id)), output, plot)
            return
        try:
            text = read_text(question)
        except TextFileError as error:
            fail(error, ExitCode.USAGE)
        try:
            params = question_from_toml(text)
        except JobError as error:
            hint = "; this is a job: `moiety job submit`" if "[[inputs]]" in text else ""
            fail(
                "\n".join(f"{question}: {line}" for line in str(error).splitlines()) + hint,
                ExitCode.USAGE,
                code=error.code,
            )
        if plan:
            show_plan(params, members, output)
            return
        config = ClientConfig.load(client)
        if isinstance(params, BatchQuestion):
            show_answer(asyncio.run(run_batch(config, params.canonical_json())), output, plot)
        else:
            show_answer(asyncio.run(run_sum(config, params)), output, plot)


def show_answer(answer: dict[str, Any], output: Format, plot: Path | None) -> None:
    """Print an answer, and draw it where that is wanted."""
    if output is Format.JSON:
        print_json(answer)
    else:
        print_text(text_of(answer))
    if plot is not None:
        draw(answer, plot)


def _batch_id(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        fail(f"{text!r} is no identifier of a batch: 32 hexadecimal digits", ExitCode.USAGE)


def show_plan(question: "AnyQuestion", members: int | None, output: Format) -> None:
    """Print the errors that are expected of an answer and what it would cost a member; nobody is asked."""
    from analyses.device_forecast import plan_of
    from analyses.job.job import JobError
    from dp.cost.report import describe

    try:
        found = plan_of(question, members)
    except JobError as error:
        fail(error, ExitCode.USAGE, code=error.code)
    if output is Format.JSON:
        print_json(found.as_dict())
        return
    forecast = [f"  {line}" for line in found.forecast.lines()]
    print_text("\n".join([f"forecast for {found.members} members", *forecast, *describe(found.privacy, "members")]))


async def run_sum(
    config: "ClientConfig", params: "DeviceQuestion", on_stage: "Callable[[StageReport], None] | None" = None
) -> dict[str, Any]:
    """Send a question, print how each stage went, and return the answer; a failure ends the command with its reason.

    Args:
        config: of the analyst.
        params: the question.
        on_stage: called for each stage that is over.

    Raises:
        ServiceError: the coordinator cannot be reached, or refuses.
    """
    from analyst.connection import open_coordinator
    from service.errors import RemoteFailureError
    from transport.aggregation_client import watch_sum
    from transport.sum_codec import StageReport, SumFailure, SumRetry

    async with open_coordinator(config) as (name, channel):
        async for happening in watch_sum(name, channel, params.canonical_json()):
            if isinstance(happening, StageReport):
                say(line_of(happening))
                if on_stage is not None:
                    on_stage(happening)
            elif isinstance(happening, SumRetry):
                say(f"  another attempt, with fresh keys: {happening.reason}")
            elif isinstance(happening, SumFailure):
                fail(f"the sum could not be opened: {happening.reason}", ExitCode.FAILED)
            else:
                answer: dict[str, Any] = json.loads(happening.result_json)
                return answer
    raise RemoteFailureError(f"{config.coordinator.name} ended the call without an answer")


async def run_batch(config: "ClientConfig", question_json: str = "", batch_id: bytes = b"") -> dict[str, Any]:
    """Ask for a batch or follow one, say how many have answered, and return the answer; a failure ends the command.

    Args:
        config: of the analyst.
        question_json: a question to ask; or
        batch_id: that of an earlier one.

    Raises:
        ServiceError: the coordinator cannot be reached, or refuses.
    """
    from analyst.connection import open_coordinator
    from service.errors import RemoteFailureError
    from transport.batch_client import ask_batch
    from transport.refusal import in_words
    from transport.survey import SurveyCounted, SurveyFailure, SurveyOpened, SurveyRefused

    async with open_coordinator(config) as (name, channel):
        async for happening in ask_batch(name, channel, question_json, batch_id):
            if isinstance(happening, SurveyOpened):
                say(f"batch {happening.question_id.hex()}")
            elif isinstance(happening, SurveyCounted):
                say(f"  {happening.n_responses} answers")
            elif isinstance(happening, SurveyRefused):
                say(f"  {in_words(happening.refusals)}")
            elif isinstance(happening, SurveyFailure):
                fail(f"the sum could not be opened: {happening.reason}", ExitCode.FAILED)
            else:
                answer: dict[str, Any] = json.loads(happening.result_json)
                return answer
    raise RemoteFailureError(f"{config.coordinator.name} ended the call without an answer")


def line_of(report: "StageReport") -> str:
    """Return one line on how a stage went."""
    from transport.refusal import in_words

    missing = f"; no answer from {', '.join(report.missing)}" if report.missing else ""
    missing += f"; {in_words(report.refused)}" if report.refused else ""
    width = 26 if ", round " in report.stage else 16
    return f"  {report.stage:<{width}} {report.seconds:6.2f} s  {report.n_answers} answered{missing}"


def text_of(answer: dict[str, Any]) -> str:
    """Return an answer for people, with what it costs whom."""
    from dp.cost.report import describe

    if "offsets" in answer:
        from analyses.matrix_factorization.devices.text import lines as lines_of

        return "\n".join(lines_of(answer))
    key = next(key for key in ("sum", "mean", "counts") if key in answer)
    value = answer[key]
    in_batch = "channel" in answer
    who = f"{answer['devices']} devices" if in_batch else f"{len(answer['survivors'])} members"
    heading = f"{key} of {answer['record']} over {who}:"
    lines = [f"{heading} {_no_mean(answer)}"] if value is None else _entry_lines(heading, value, answer)
    if value is not None and any(answer["standard_errors"]):
        lines.append("+- holds the noise in 19 of 20 cases (1.96 standard errors)")
    if in_batch:
        return "\n".join([*lines, *_left_out(answer), *describe(answer["privacy"], "members")])
    if answer["vanished"]:
        lines.append("not in it: " + ", ".join(f"{name} ({stage})" for name, stage in answer["vanished"].items()))
    if answer["silent_after"]:
        told = ", ".join(f"{name} ({stage})" for name, stage in answer["silent_after"].items())
        lines.append(f"in it, although they dropped out later: {told}")
    return "\n".join([*lines, *describe(answer["privacy"], "members")])


def _left_out(answer: dict[str, Any]) -> list[str]:
    """Say which devices are not in the sum of a batch although they have answered."""
    from analyses.job.text import MAX_LINES

    names = answer["left_out"]
    if not names:
        return []
    more = f" and {len(names) - MAX_LINES} more" if len(names) > MAX_LINES else ""
    return [f"not in it, because not every party could open their answers: {', '.join(names[:MAX_LINES])}{more}"]


def _entry_lines(heading: str, values: "list[float]", answer: dict[str, Any]) -> list[str]:
    """Return one entry beside the heading, or each of several in a line below it, with its bin or its number."""
    from analyses.job.text import MAX_LINES

    entries = _entries(values, answer["standard_errors"])
    if len(entries) == 1:
        return [f"{heading} {entries[0]}"]
    edges = answer.get("edges") or []
    names = [f"from {lower:g} to {upper:g}" for lower, upper in pairwise(edges)]
    names = names or [f"entry {at}" for at in range(1, len(entries) + 1)]
    lines = [f"  {name}: {entry}" for name, entry in zip(names, entries, strict=True)][:MAX_LINES]
    left_out = len(entries) - len(lines)
    return [heading, *lines, *([f"  and {left_out} more; --format json has them all"] if left_out else [])]


def _entries(values: "list[float]", errors: "list[float]") -> list[str]:
    from analyses.job.text import half_intervals

    return [f"{x:.12g}" + (f" +- {h:.2g}" if h else "") for x, h in zip(values, half_intervals(errors), strict=True)]


def _no_mean(answer: dict[str, Any]) -> str:
    """Say why a mean has no value; with noise in it, the total of the weights says little about the weights."""
    error = answer["standard_error_of_weight"]
    if not error:
        return "none: the weights add up to 0"
    return (
        f"none: the noisy total of the weights is {answer['total_weight']} with a standard error of {error:.2g}, which "
        "is not distinguishable from 0; more members or a larger epsilon would help"
    )
