"""`moiety table draft`: a first section `[[tables]]` for a file, with the questions that its owner must answer.

It is written from names and types of columns alone, never from values: whatever follows from values would be public as
soon as the section is used, and no noise would protect it. So of CSV files, which have no types, only the first line
is read.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal.options import OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_json, print_text
from mpc.public_text import made_public

if TYPE_CHECKING:
    import polars as pl

table_app = typer.Typer(no_args_is_help=True, help="Describe a party's tables. For the owner.")

MAX_NAME_CHARACTERS = 60
_ID_NAMES = re.compile(r"(^|_)(id|key|uuid)$", re.IGNORECASE)
_NUMBERS_QUESTION = "From what to what can it be, by its meaning? What becomes of a gap?"


@table_app.callback()
def _options() -> None:
    pass


@table_app.command("draft")
def draft(
    file: Annotated[Path, typer.Argument(help="The table: .csv, .csv.gz, .parquet or .arrow, or a folder of these.")],
    name: Annotated[str | None, typer.Option(help="What jobs call it; default: as the file.")] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Write a first [[tables]] for party.toml, from the names and types of columns, never from values.

    What only the owner can know stands there as a question: remove the sign # of a line when you have answered it.
    """
    with exit_codes():
        from party.tables.sources.source import SourceError

        try:
            lines = drafted(file, name or _name_of(file))
        except SourceError as error:
            fail(f"{file}: {error}", ExitCode.USAGE)
        text = "\n".join(lines)
        print_json({"toml": text}) if output is Format.JSON else print_text(text)


def drafted(file: Path, name: str) -> list[str]:
    """Return the section as lines of TOML. It is refused until its owner has said which columns jobs may use.

    Args:
        file: the table.
        name: what jobs call it.

    Raises:
        SourceError: names and types of its columns cannot be read.
    """
    types, source = _described(file)
    ids = [column for column in types if _ID_NAMES.search(column)]
    lines = [
        "# All of this is public. Answer from what the table is about, never from a look at its values.",
        "[[tables]]",
        f"name = {json.dumps(name)}",
        *([] if source else [f"path = {json.dumps(str(file))}"]),
        "# Which column identifies the rows, alike at all parties of a joint table? Its values are never sent.",
        f"# id_column = {json.dumps(ids[0] if ids else '?')}",
        "# How many rows can it have, at least and at most? Round numbers, never a count.",
        "# rows = [LEAST, MOST]",
        "# Has one person several rows? Then which column names the person, and how many rows of one may count?",
        '# person_column = "?"',
        "# most_rows_per_person = MOST",
        "# Which columns are labels or codes, for jobs that name them only?",
        '# on_request = ["?"]',
        "",
        *([*source, ""] if source else []),
        "# May jobs match its rows with others', which hold other rows in another order? Then which columns identify a",
        "# row, in the same order at all parties, in which spelling? Can a row lack an id, or several rows share one?",
        "# May owners learn which of their rows all have (reveal)? No epsilon covers that.",
        "# [tables.matching]",
        f"# columns = {json.dumps(ids or ['?'], ensure_ascii=False)}",
        '# normalise = ["trim", "nfkc", "lower"]',
        '# duplicates = "refuse"    # or "first", "last", "mean", "sum", "max", "min"',
        '# missing = "refuse"       # or "leave out"',
        "# reveal = false",
        "",
        "# What may all jobs together learn? See `moiety budget --help`.",
        "# [tables.first_budget]",
        '# period = "?"',
        "# epsilon = EPSILON",
        "# delta = DELTA    # below 1 / (the most rows)",
        "",
        "# Which columns may jobs use, and what are they? Leave out what no job needs. `missing` says of gaps:",
        '# "refuse", "column" (a column of its own) or { value = ... } (a public constant in its place).',
        "[tables.columns]",
    ]
    for column, kind in types.items():
        lines += _question(column, kind)
    return lines


def _described(file: Path) -> tuple[dict[str, "pl.DataType | None"], list[str]]:
    """Return the type of each column, None where the file has none, and the section of its source if it needs one."""
    from party.tables.sources.columnar_file import ColumnarFile
    from party.tables.sources.csv_file import SEPARATORS, CsvFile
    from party.tables.sources.registry import source_of_file
    from party.tables.sources.source import SourceError

    if file.is_dir() and not file.name.endswith((".parquet", ".arrow")):
        raise SourceError("call the folder NAME.parquet or NAME.arrow, or draft one of its files")
    source = source_of_file(file)
    if isinstance(source, ColumnarFile):
        return dict(source.schema_of(source.files()[0])), []
    assert isinstance(source, CsvFile), "there is no other kind of file"
    try:
        with source.open_text() as text:
            first = text.readline()
    except OSError:
        raise SourceError("its file is missing or unreadable") from None
    delimiter = max(SEPARATORS, key=first.count)
    names = CsvFile(path=file, delimiter=delimiter).column_names()
    section = [
        "# In which encoding is it, and have numbers a comma before their fraction? `moiety doctor` compares.",
        "[tables.source]",
        'kind = "csv"',
        f"path = {json.dumps(str(file))}",
        f"delimiter = {json.dumps(delimiter)}",
        '# encoding = "cp1252"',
        "# decimal_comma = true",
    ]
    return dict.fromkeys(names), [] if delimiter == "," else section


def _question(column: str, kind: "pl.DataType | None") -> list[str]:
    """Return what is asked about a column, and how an answer looks."""
    import polars as pl  # `moiety --help` is quick without

    key = json.dumps(column, ensure_ascii=False) if not re.fullmatch(r"[A-Za-z0-9_-]+", column) else column
    shown = made_public(column, MAX_NAME_CHARACTERS)
    if _ID_NAMES.search(column):
        return [f"# {shown}: it seems to identify something; such a column is no feature."]
    number = '{ kind = "number", bounds = [LEAST, MOST], missing = "refuse" }'
    category = '{ kind = "category", values = ["?", "?"], others = "other", missing = "column" }'
    if kind is None:
        return [
            f"# {shown}: is it a number, a whole number, yes or no, a category, an ordinal or a date? One of",
            f"# {key} = {number}",
            f"# {key} = {category}",
            f'# {key} = {{ kind = "date", bounds = [FIRST, LAST], format = "%Y-%m-%d" }}',
            f'# {key} = {{ kind = "yes/no", yes = ["?"], no = ["?"] }}',
        ]
    if kind.is_integer():
        answer = '{ kind = "integer", bounds = [LEAST, MOST], missing = "refuse" }'
        return [
            f"# {shown}: whole numbers. Are they codes? Then list them as a category. {_NUMBERS_QUESTION}",
            f"# {key} = {answer}",
        ]
    if kind.is_numeric():
        return [f"# {shown}: numbers. {_NUMBERS_QUESTION}", f"# {key} = {number}"]
    if kind == pl.Boolean:
        return [
            f"# {shown}: truth values. What becomes of a gap?",
            f'# {key} = {{ kind = "yes/no", missing = "refuse" }}',
        ]
    if kind == pl.Date or isinstance(kind, pl.Datetime):
        answer = '{ kind = "date", bounds = [FIRST, LAST], missing = "refuse" }'
        return [f"# {shown}: dates. From when to when can they be? What becomes of a gap?", f"# {key} = {answer}"]
    if kind == pl.String or isinstance(kind, pl.Categorical | pl.Enum):
        return [
            f"# {shown}: text. Which values can it have, and what becomes of others? With an order it is ordinal.",
            f"# {key} = {category}",
        ]
    return [f"# {shown}: it is of the type {kind.base_type()}, of which no kind is made."]


def _name_of(file: Path) -> str:
    return re.sub(r"[^a-z0-9]+", "-", file.name.partition(".")[0].lower()).strip("-") or "table"
