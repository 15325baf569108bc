"""`moiety ask`: put a question to devices, follow it, and show its answer; whatever its kind."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.terminal.options import DEFAULT_CLIENT, Client, Of, OutputFormat, Within, wanted_of
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_json, print_text, say
from cli.terminal.plot import Plot, check_plot
from cli.terminal.plot import plot as draw

if TYPE_CHECKING:
    from analyses.job.forecast import Wanted
    from analyst.asking import AskedOfDevices
    from analyst.connection import ClientConfig
    from questions.reading import AnyQuestion
    from transport.happenings import Happening, StageReport

Members = Annotated[
    int | None, typer.Option(min=1, help="For --plan: how many devices answer, where the question does not say.")
]


def ask(
    question: Annotated[
        Path | None, typer.Argument(help="TOML file: analysis, record, ...; see examples/sum.toml and survey.toml.")
    ] = None,
    client: Client = DEFAULT_CLIENT,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show the errors to expect and the cost for a device; asks nobody.")
    ] = False,
    members: Members = None,
    within: Within = None,
    of: Of = "",
    follow: Annotated[
        str,
        typer.Option("--follow", "--batch", metavar="ID", help="Wait for the end of a question that you have asked."),
    ] = "",
    plot: Plot = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Ask devices for a distribution, a sum, a mean, a histogram or a matrix factorization, and hide each of them.

    The file names the channel: randomized responses, shares for compute parties (channel = "parties"), or masked sums.
    The question stays open without you; --follow has its answer.
    """
    with exit_codes():
        if (question is None) == (follow == ""):
            fail("either the file of a question or --follow with the identifier of one is needed", ExitCode.USAGE)
        if plan and question is None:
            fail("--plan is for a question; that of --follow was asked already", ExitCode.USAGE)
        if members is not None and not plan:
            fail("--members says how many answer where a question is planned, so it needs --plan", ExitCode.USAGE)
        if within is not None and not plan:
            fail("--within asks what an error would take, so it needs --plan", ExitCode.USAGE)
        wanted = wanted_of(within, of)
        check_plot(plot)
        from analyst.connection import ClientConfig

        if question is None:
            question_id = _question_id(follow)
            _show_answer(run_question(ClientConfig.load(client), question_id=question_id), output, plot)
            return
        asked = _read(question)
        if plan:
            _show_plan(asked, members, wanted, output)
        else:
            _show_answer(run_question(ClientConfig.load(client), asked), output, plot)


def _read(path: Path) -> "AnyQuestion":
    """Read a question's file; a mistake in it ends the command."""
    from analyses.job.job import JobError
    from analyst.asking import read_question

    try:
        return read_question(path)
    except JobError as error:
        is_job = path.is_file() and "[[inputs]]" in path.read_text(encoding="utf-8", errors="replace")
        hint = "; this is a job: `moiety job submit`" if is_job else ""
        fail(f"{error}{hint}", ExitCode.USAGE, code=error.code)


def _question_id(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        fail(f"{text!r} is no identifier of a question: 32 hexadecimal digits", ExitCode.USAGE)


def _show_answer(answer: dict[str, Any], output: Format, plot: Path | None) -> None:
    """Print an answer, and draw it where that is wanted."""
    if output is Format.JSON:
        print_json(answer)
    else:
        from results.registry import device_text

        print_text(device_text(answer))
    if plot is not None:
        draw(answer, plot, answer["record"])


def _show_plan(question: "AnyQuestion", members: int | None, wanted: "Wanted | None", output: Format) -> None:
    """Print the errors that are expected of an answer and what it would cost a device; nobody is asked."""
    from analyses.job.job import JobError
    from dp.cost.report import describe
    from questions.forecast import plan_of

    try:
        found = plan_of(question, members, wanted)
    except JobError as error:
        fail(error, ExitCode.USAGE, code=error.code)
    if output is Format.JSON:
        print_json(found.as_dict())
        return
    lines = [f"forecast for {found.members} members", *(f"  {line}" for line in found.forecast.lines())]
    if found.enough is not None:
        lines += found.enough.lines()
    if found.proofs is not None:
        kibibytes = found.proofs["sealed_bytes"] / 1024
        lines.append(f"each device proves that its vector keeps the bounds, and seals {kibibytes:.3g} KiB")
    print_text("\n".join([*lines, *describe(found.privacy, "members")]))


def run_question(
    config: "ClientConfig",
    question: "AskedOfDevices | None" = None,
    question_id: bytes = b"",
    on_stage: "Callable[[StageReport], None]" = lambda report: None,
) -> dict[str, Any]:
    """Ask or follow, print what happens, and return the answer; a failure ends the command with its reason.

    Args:
        config: configuration of the analyst.
        question: to ask; or
        question_id: identifier of a question that was asked before.
        on_stage: called for each stage of a masked sum that is over.

    Raises:
        ServiceError: the coordinator cannot be reached, or refuses.
    """
    from analyst.asking import QuestionFailedError, result_of
    from transport.happenings import StageReport

    def show(happening: "Happening") -> None:
        say(line_of(happening, getattr(question, "kind", "question")))
        if isinstance(happening, StageReport):
            on_stage(happening)

    try:
        return asyncio.run(result_of(config, question, question_id, show))
    except QuestionFailedError as error:
        fail(f"there is no answer: {error}", ExitCode.FAILED)


def line_of(happening: "Happening", kind: str = "question") -> str:
    """Return one line on what happens to a question."""
    from transport.happenings import Counted, Opened, Refused, Retried, StageReport
    from transport.refusal import in_words

    match happening:
        case Opened(question_id):
            return f"{kind} {question_id.hex()}"
        case Counted(n_answers):
            return f"  {n_answers} answers"
        case Refused(refusals):
            return f"  {in_words(refusals)}"
        case Retried(reason):
            return f"  another attempt, with fresh keys: {reason}"
        case StageReport(stage, seconds, n_answers, missing, refused):
            lost = f"; no answer from {', '.join(missing)}" if missing else ""
            lost += f"; {in_words(refused)}" if refused else ""
            width = 26 if ", round " in stage else 16
            return f"  {stage:<{width}} {seconds:6.2f} s  {n_answers} answered{lost}"
    return ""
