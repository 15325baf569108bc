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
    question: Annotated[Path, typer.Argument(help="TOML file: analysis, record, largest, ...; see examples/sum.toml.")],
    client: Client = DEFAULT_CLIENT,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show the errors to expect and the cost for a member; asks nobody.")
    ] = False,
    members: Members = None,
    plot: Plot = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Ask for a secure-sum, secure-mean, secure-histogram or matrix-factorization over many members, and hide each."""
    with exit_codes():
        if members is not None and not plan:
            fail("--members says how many answer where a question is planned, so it needs --plan", ExitCode.USAGE)
        check_plot(plot)
        from analyses.device_questions import question_from_toml
        from analyses.job.job import JobError
        from analyst.connection import ClientConfig
        from service.files.text_file import TextFileError, read_text

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
        answer = asyncio.run(run_sum(ClientConfig.load(client), params))
        if output is Format.JSON:
            print_json(answer)
        else:
            print_text(text_of(answer))
        if plot is not None:
            draw(answer, plot)


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
    heading = f"{key} of {answer['record']} over {len(answer['survivors'])} members:"
    lines = [f"{heading} {_no_mean(answer)}"] if value is None else _entry_lines(heading, value, answer)
    if value is not None and any(answer["standard_errors"]):
        lines.append("+- holds the noise in 19 of 20 cases (1.96 standard errors)")
    if answer["vanished"]:
        lines.append("not in it: " + ", ".join(f"{name} ({stage})" for name, stage in answer["vanished"].items()))
    if answer["silent_after"]:
        told = ", ".join(f"{name} ({stage})" for name, stage in answer["silent_after"].items())
        lines.append(f"in it, although they dropped out later: {told}")
    return "\n".join([*lines, *describe(answer["privacy"], "members")])


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
