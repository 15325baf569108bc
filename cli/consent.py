"""`moiety party jobs`, `approve`, `refuse`, `report`, `matches`, `recommend`: decisions on jobs, what they leave."""

import hashlib
import json
import math
from typing import Annotated, Any

import typer

from analyses.job.forecast import lines_of_forecast
from analyses.job.job import SECURITY_IN_WORDS, UNCHECKED_ORDER
from cli.configuration.new_items import NewItemsFile, new_items
from cli.configuration.party_config import Config, read_config
from cli.terminal.options import OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_result, print_text, say
from cli.terminal.wrapping import terminal_columns, wrapped
from service.codes.printed_time import printed_time

JobId = Annotated[str, typer.Argument(metavar="JOB", help="Identifier of the job.")]
LABEL_COLUMNS = 13
"""Columns of a terminal that the label of a field takes."""

MOST_SHOWN = 64
"""Values of a list that are shown one by one."""


def jobs(config: Config, output: OutputFormat = Format.TEXT) -> None:
    """List the jobs that wait for the owner's approval."""
    with exit_codes():
        from party.consent import ConsentBox

        waiting = ConsentBox(read_config(config).data_dir).waiting()
        lines = (line for question in waiting for line in _lines_of(question))
        print_result(output, waiting, lines, nothing="no job waits")


def approve(
    config: Config,
    job_id: JobId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask again.")] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show a job that waits, and let it run."""
    with exit_codes():
        from party.consent import ConsentBox, ConsentError

        box = ConsentBox(read_config(config).data_dir)
        try:
            question = box.question(job_id)
            if output is Format.TEXT or not yes:
                (print_text if output is Format.TEXT else say)("\n".join(_lines_of(question)))
            if not yes and not typer.confirm("Approve?", err=True):
                fail("not approved; the job goes on waiting", ExitCode.FAILED)
            box.answer(job_id, None)
        except ConsentError as error:
            fail(error, ExitCode.NOT_FOUND)
        print_result(output, {"approved": question}, f"job {job_id} is approved", by=say)


def refuse(
    config: Config,
    job_id: JobId,
    reason: Annotated[str, typer.Option(help="Why; the analyst sees it.")],
    output: OutputFormat = Format.TEXT,
) -> None:
    """Refuse a job that waits."""
    with exit_codes():
        from party.consent import ConsentBox, ConsentError

        try:
            ConsentBox(read_config(config).data_dir).answer(job_id, reason)
        except ConsentError as error:
            fail(error, ExitCode.NOT_FOUND)
        print_result(output, {"refused": job_id, "reason": reason}, f"job {job_id} is refused", by=say)


def report(config: Config, job_id: JobId, output: OutputFormat = Format.TEXT) -> None:
    """Show this party's own report of a job. It holds exact counts: keep it to yourself."""
    with exit_codes():
        from party.outcome.report import describe_report
        from service.files.private_report import report_path

        data_dir = read_config(config).data_dir
        try:
            found = json.loads(report_path(data_dir, job_id).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            fail(f"there is no report of job {job_id}", ExitCode.NOT_FOUND)
        print_result(output, found, describe_report(found))


def matches(
    config: Config,
    delete: Annotated[str | None, typer.Option(metavar="MATCH", help="Delete this match instead.")] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List the matches that this party keeps for later jobs, or delete one. Keep the exact counts to yourself."""
    with exit_codes():
        from party.tables.kept_matches import KeptMatches, NoMatchError
        from party.tables.match_of_job import shown_matches

        settings = read_config(config)
        if delete is not None:
            try:
                KeptMatches(settings.data_dir).delete(delete)
            except NoMatchError as error:
                fail(error, ExitCode.NOT_FOUND)
            print_result(
                output, {"deleted": delete}, f"match {delete} is deleted; jobs that name it are refused", by=say
            )
            return
        found = shown_matches(settings)
        lines = (line for one in found for line in _lines_of_match(one))
        print_result(output, found, lines, nothing="no match is kept")


def recommend(
    config: Config,
    job: Annotated[str, typer.Option(help="Identifier of a matrix factorization that ended here.")],
    user: Annotated[str, typer.Option(help="As the party's table calls it.")],
    top: Annotated[int, typer.Option(min=1, help="How many items at most.")] = 10,
    new: NewItemsFile = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Recommend items to one of this party's users, from its own ratings and the job's model. Nothing is sent.

    A user without ratings in the table gets the items that come first for all users.

    The model that a job of form `statistics` keeps here is improved by exact ratings, without noise: whoever is shown
    what this prints learns of them, and no ledger counts that.
    """
    with exit_codes():
        from analyses.matrix_factorization.serving.kept import UnknownUserError
        from party.recommend import NoModelError, recommend_for
        from party.tables.table import UnusableTableError
        from service.files.text_file import TextFileError

        try:
            found = recommend_for(read_config(config), job, user, top=top, new=new_items(new))
        except (NoModelError, UnknownUserError, TextFileError) as error:
            fail(error, ExitCode.NOT_FOUND)
        except UnusableTableError as error:
            fail(error.detail, ExitCode.FAILED, code=error.code)
        except ValueError as error:
            fail(error, ExitCode.USAGE)
        if not found.knows_user:
            say("the table has no ratings of this user: these items come first for all users")
        value = [{"item": one.item, "rating": one.rating} for one in found.items]
        print_result(output, value, (f"{one.rating:7.3f}  {one.item}" for one in found.items))


def add_to(app: typer.Typer) -> None:
    """Add the commands to `moiety party`."""
    for command in (jobs, approve, refuse, report, matches, recommend):
        app.command()(command)


def in_short(parameters: Any) -> Any:
    """Return parameters with the length and the SHA-256 of a list in the place of each long one, such as features."""
    if isinstance(parameters, dict):
        return {name: in_short(value) for name, value in parameters.items()}
    if isinstance(parameters, list) and len(parameters) > MOST_SHOWN:
        found = hashlib.sha256(json.dumps(parameters, separators=(",", ":")).encode()).hexdigest()
        return f"{len(parameters)} values, SHA-256 {found}"
    return parameters


def _lines_of(question: dict[str, Any]) -> list[str]:
    """Return who asks, what, about which columns, both epsilons, and what would be left.

    Text from others stands in its own field, and long text is continued below itself. It never begins a line, and the
    terminal never wraps it, so it cannot be mistaken for one of our fields.
    """
    budget = question["budget"]
    asked = printed_time(question["asked_at_s"])
    lines = [
        f"job {question['job_id']}: {question['analysis']}",
        *(_field("title", json.dumps(question["title"], ensure_ascii=False)) if question["title"] else []),
        *_field("asked by", f"{question['analyst']} at {asked}; waits for {question['deadline_s']:g} s"),
        *_field("members", f"{', '.join(question['members'])}; withstands {question['colluding']} colluding"),
        *_field("parameters", json.dumps(in_short(question["parameters"]))),
    ]
    if helpers := question.get("helpers"):  # jobs that waited before an upgrade say nothing of it, nor of products
        lines += _field("helpers", f"{', '.join(helpers)}: compute, and bring no table")
    if products := question.get("products"):
        lines += _field("products", products)
    if security := question.get("security"):
        lines += _field("security", SECURITY_IN_WORDS[security])
    if question["table"] is None:
        lines += _field("data", "none of this party's: it only computes")
    else:
        lines += _field("data", f"table {question['table']}: {', '.join(question['columns'])}")
        if question.get("where"):
            lines += _field("where", question["where"])
    if matching := question.get("matching"):  # nor of matching
        lines += _field("matching", f"{matching['kind']}: {matching['reveals']}")
    if question.get("order"):  # jobs that waited before an upgrade say nothing of it
        lines += _field("order", f"{question['order']}: {UNCHECKED_ORDER}")
    epsilon = question["epsilon"]
    lines += (
        _field("epsilon", "NONE: the result is exact, nothing protects anybody in it, and no budget counts it")
        if epsilon is None
        else [
            *_field(
                "epsilon", f"{_up(epsilon['coordinator'])} against the coordinator alone, delta {question['delta']:g}"
            ),
            *_field(
                "",
                "NONE against a coalition: one colluding party undoes all protection"
                if epsilon["coalition"] is None
                else f"{_up(epsilon['coalition'])} against the worst coalition",
            ),
        ]
    )
    if budget is not None:
        left = math.floor(max(0.0, 1 - budget["part_after"]) * 1e4) / 1e2
        lines += _field(
            "budget",
            f"epsilon {budget['epsilon']:g} at delta {budget['delta']:g} in period {budget['period']!r}: "
            f"{_up(budget['held_epsilon'])} spent or held, {_up(budget['held_after'])} with this job; {left:g} % left. "
            "These are the figures of the moment when the job asked",
        )
    for forecast in lines_of_forecast(question["forecast"]):
        lines += _field("forecast", forecast)
    if question["anyway"]:
        lines += _field("anyway", "the analyst wants the job although no answer could be seen in its noise")
    return [*lines, *(line for reason in question["why_asked"] for line in _field("asked as", reason))]


def _lines_of_match(match: dict[str, Any]) -> list[str]:
    lines = [f"match {match['match']}"]
    if match["inputs"]:
        at = printed_time(match["kept_at_s"])
        tables = ", ".join(f"{party}.{table}" for party, table in match["inputs"].items())
        lines += [f"  kept       {at}, {match['rows']} rows of table {match['table']}", *_field("of", tables)]
    return [*lines, *_field("state", match["state"])]


def _field(label: str, text: str) -> list[str]:
    """Return a labelled text in lines that the terminal does not wrap."""
    lines = [line.rstrip() for line in wrapped(text, terminal_columns() - LABEL_COLUMNS - 1)]
    return [
        f"  {name:10} {line}" for name, line in zip([label, *[""] * len(lines)], lines, strict=False) if line or name
    ]


def _up(epsilon: float) -> str:
    """Return an epsilon with about four digits, rounded up so that it never promises too much."""
    from dp.cost.report import ceil_to_digits

    return ceil_to_digits(epsilon)
