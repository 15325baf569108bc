"""`moiety distribution`: ask many devices how a number is distributed, each of which randomizes its own answer."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.terminal.options import DEFAULT_CLIENT, Client, OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_json, print_text, say
from cli.terminal.plot import Plot, check_plot
from cli.terminal.plot import plot as draw

if TYPE_CHECKING:
    from analyses.distribution.cohorts import MaskedQuestion
    from analyses.distribution.survey import SurveyQuestion
    from analyst.connection import ClientConfig

distribution_app = typer.Typer(name="distribution", no_args_is_help=True)


@distribution_app.callback()
def _distribution() -> None:
    """Survey devices that dial out: each gives one randomized response, and trusts nobody for it."""


@distribution_app.command()
def ask(
    question: Annotated[Path, typer.Argument(help="TOML file: record, range, epsilon, ...; see examples/survey.toml.")],
    client: Client = DEFAULT_CLIENT,
    plot: Plot = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Open a survey and wait for its end. It goes on without you; `moiety distribution show` has its result."""
    with exit_codes():
        from analyst.connection import ClientConfig

        check_plot(plot)
        asked = _question_of(question)
        result = asyncio.run(run_survey(ClientConfig.load(client), question_json=asked.canonical_json()))
        _show(result, output, plot)


@distribution_app.command()
def plan(
    question: Annotated[Path, typer.Argument(help="TOML file: record, range, epsilon, ...; see examples/survey.toml.")],
    members: Annotated[
        int | None, typer.Option(min=1, help="How many devices answer, where the question does not say.")
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the errors to expect of a survey's result, and what it would cost a device. Asks nobody."""
    with exit_codes():
        from cli.sum import show_plan

        show_plan(_question_of(question), members, output)


def _question_of(path: Path) -> "SurveyQuestion | MaskedQuestion":
    """Read a question's file; a mistake in it ends the command."""
    from analyses.distribution.questions import question_from_toml
    from analyses.job.job import JobError
    from service.files.text_file import TextFileError, read_text

    try:
        return question_from_toml(read_text(path))
    except TextFileError as error:
        fail(error, ExitCode.USAGE)
    except JobError as error:
        fail("\n".join(f"{path}: {line}" for line in str(error).splitlines()), ExitCode.USAGE, code=error.code)


@distribution_app.command()
def show(
    survey: Annotated[str, typer.Argument(metavar="SURVEY", help="The identifier that `ask` has printed.")],
    client: Client = DEFAULT_CLIENT,
    plot: Plot = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Wait for the end of a survey that you have asked for, and print its result."""
    with exit_codes():
        from analyst.connection import ClientConfig

        try:
            question_id = bytes.fromhex(survey)
        except ValueError:
            fail(f"{survey!r} is no identifier of a survey: 32 hexadecimal digits", ExitCode.USAGE)
        check_plot(plot)
        _show(asyncio.run(run_survey(ClientConfig.load(client), question_id=question_id)), output, plot)


async def run_survey(config: "ClientConfig", question_json: str = "", question_id: bytes = b"") -> dict[str, Any]:
    """Ask or follow, say how many have answered, and return the result; a failure ends the command with its reason.

    Args:
        config: of the analyst.
        question_json: a question to ask; or
        question_id: that of an earlier one.

    Raises:
        ServiceError: the coordinator cannot be reached, or refuses.
    """
    from analyst.connection import open_coordinator
    from service.errors import RemoteFailureError
    from transport.refusal import in_words
    from transport.survey import SurveyCounted, SurveyFailure, SurveyOpened, SurveyRefused
    from transport.survey_client import ask_survey

    async with open_coordinator(config) as (name, channel):
        async for happening in ask_survey(name, channel, question_json, question_id):
            if isinstance(happening, SurveyOpened):
                say(f"survey {happening.question_id.hex()}")
            elif isinstance(happening, SurveyCounted):
                say(f"  {happening.n_responses} responses")
            elif isinstance(happening, SurveyRefused):
                say(f"  {in_words(happening.refusals)}")
            elif isinstance(happening, SurveyFailure):
                fail(f"the survey has no result: {happening.reason}", ExitCode.FAILED)
            else:
                result: dict[str, Any] = json.loads(happening.result_json)
                return result
    raise RemoteFailureError(f"{config.coordinator.name} ended the call without a result")


def _show(result: dict[str, Any], output: Format, path: Path | None) -> None:
    if output is Format.JSON:
        print_json(result)
    else:
        print_text(text_of(result))
    if path is not None:
        draw(result, path, result["record"])


def text_of(result: dict[str, Any]) -> str:
    """Return a result for people, with what it costs whom."""
    from dp.cost.report import describe

    half = result.get("half_widths")
    about = f"{result['responses']} responses, about {result['rows']:.0f} of them about a value"
    mean = f"mean {result['mean']:.6g}" + (f" +- {half['mean']:.2g}" if half else "")
    lines = [f"{result['record']}, method {result['method']}: {about}", mean]
    for at, (level, value) in enumerate(result["quantiles"]):
        lines.append(f"  {100 * level:g} % below {value:.6g}" + (f" +- {half['quantiles'][at]:.2g}" if half else ""))
    if result.get("has_converged") is False:
        lines.append("The estimate did not converge.")
    if result["contradictions"]:
        lines.append(f"{result['contradictions']} second responses differed from the first, and were refused.")
    return "\n".join([*lines, *describe(result["privacy"], "members")])
