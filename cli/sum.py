"""`moiety sum`: put a question to the members of a coordinator's masked sums."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.terminal.options import DEFAULT_CLIENT, Client, OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_json, print_text, say

if TYPE_CHECKING:
    from analyses.device_questions import DeviceQuestion
    from cli.client import ClientConfig
    from transport.sum_codec import StageReport


def ask(
    question: Annotated[Path, typer.Argument(help="TOML file: analysis, record, largest, ...; see examples/sum.toml.")],
    client: Client = DEFAULT_CLIENT,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Ask for a secure-sum, secure-mean, secure-histogram or matrix-factorization over many members, and hide each."""
    with exit_codes():
        from analyses.device_questions import question_from_toml
        from analyses.job.job import JobError
        from cli.client import ClientConfig
        from service.files.text_file import TextFileError, read_text

        try:
            text = read_text(question)
        except TextFileError as error:
            fail(str(error), ExitCode.USAGE)
        try:
            params = question_from_toml(text)
        except JobError as error:
            hint = "; this is a job: `moiety job submit`" if "[[inputs]]" in text else ""
            fail("\n".join(f"{question}: {line}" for line in str(error).splitlines()) + hint, ExitCode.USAGE)
        answer = asyncio.run(run_sum(ClientConfig.load(client), params))
        if output is Format.JSON:
            print_json(answer)
        else:
            print_text(text_of(answer))


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
    from cli.client import open_coordinator
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
    missing = f"; no answer from {', '.join(report.missing)}" if report.missing else ""
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
    shown = "none: the weights add up to 0" if value is None else ", ".join(f"{entry:.12g}" for entry in value)
    lines = [f"{key} of {answer['record']} over {len(answer['survivors'])} members: {shown}"]
    if answer["vanished"]:
        lines.append("not in it: " + ", ".join(f"{name} ({stage})" for name, stage in answer["vanished"].items()))
    if answer["silent_after"]:
        told = ", ".join(f"{name} ({stage})" for name, stage in answer["silent_after"].items())
        lines.append(f"in it, although they dropped out later: {told}")
    return "\n".join([*lines, *describe(answer["privacy"], "members")])
