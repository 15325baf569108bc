"""`moiety table draft`: a first section `[[tables]]` for a file, with the questions that its owner must answer.

It is written from names and types of columns alone, never from values: whatever follows from values would be public as
soon as the section is used, and no noise would protect it. Of a CSV file, which has no types, the names in the first
line are used, and all other lines only to say whether they are rows. What is told beside the draft, on standard error,
comes from values (`cli.configuration.draft_notes`).
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.configuration.draft_notes import notes_of
from cli.configuration.ratings_draft import ratings_lines
from cli.terminal.options import OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_json, print_toml, say
from mpc.public_text import made_public

if TYPE_CHECKING:
    import polars as pl

    from party.tables.sources.csv_file import CsvFile

table_app = typer.Typer(no_args_is_help=True, help="Describe a party's tables. For the owner.")

MAX_NAME_CHARACTERS = 60
_ID_NAMES = re.compile(r"(^|_)(id|key|uuid)$", re.IGNORECASE)
_NUMBERS_QUESTION = "From what to what can it be, by its meaning? What becomes of a gap?"


@table_app.callback()
def _options() -> None:
    pass


@table_app.command("draft")
def draft(
    file: Annotated[Path, typer.Argument(help="The table: .csv, .tsv, .parquet or .arrow, or a folder of these.")],
    name: Annotated[str | None, typer.Option(help="What jobs call it; default: as the file.")] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Of a CSV file, such as cp1252; default: as its first bytes say, or UTF-8.")
    ] = None,
    ratings: Annotated[bool, typer.Option(help="A row says how one user rates one item.")] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Write a first section of a table for party.toml, from the names and types of columns, never from values.

    What only the owner can know stands there as a question: remove the sign # of a line when you have answered it.
    """
    with exit_codes():
        from party.tables.sources.source import SourceError

        try:
            lines = drafted(file, name or _name_of(file), encoding, of_ratings=ratings)
        except SourceError as error:
            fail(f"{file}: {error}", ExitCode.USAGE)
        text = "\n".join(lines)
        print_json({"toml": text}) if output is Format.JSON else print_toml(text)
        for note in notes_of(file):
            say(note)


def drafted(file: Path, name: str, encoding: str | None = None, *, of_ratings: bool = False) -> list[str]:
    """Return the section as lines of TOML. It is refused until its owner has said which columns jobs may use.

    Args:
        file: the table.
        name: what jobs call it.
        encoding: encoding of a CSV file; None: the one that its first bytes show, or UTF-8.
        of_ratings: whether a row says how one user rates one item.

    Raises:
        SourceError: names and types of its columns cannot be read, or one of its lines is no row.
    """
    types, source = _described(file, encoding)
    if of_ratings:
        return ratings_lines(name, file, types, source)
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
        "# What may all jobs together learn? docs/privacy-guarantee.md says what an epsilon lets others guess.",
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


def _described(file: Path, encoding: str | None) -> tuple[dict[str, "pl.DataType | None"], list[str]]:
    """Return the type of each column, None where the file has none, and the section of its source if it needs one."""
    from party.tables.sources.columnar_file import ColumnarFile
    from party.tables.sources.csv_file import CsvFile
    from party.tables.sources.registry import source_of_file
    from party.tables.sources.source import SourceError

    if file.is_dir() and not file.name.endswith((".parquet", ".arrow")):
        raise SourceError("call the folder NAME.parquet or NAME.arrow, or draft one of its files")
    source = source_of_file(file)
    if isinstance(source, ColumnarFile):
        return dict(source.types()), []
    assert isinstance(source, CsvFile), "there is no other kind of file"
    return _described_csv(source, encoding)


def _described_csv(usual: "CsvFile", encoding: str | None) -> tuple[dict[str, "pl.DataType | None"], list[str]]:
    from pydantic import ValidationError

    from party.tables.sources.csv_file import CsvFile, check_differ, likeliest_delimiter, why_no_names
    from party.tables.sources.csv_lines import BadLineError
    from party.tables.sources.csv_rows import NOT_ENCODED
    from party.tables.sources.csv_text import encoding_of
    from party.tables.sources.source import SourceError

    try:
        source = CsvFile(path=usual.path, encoding=encoding or encoding_of(usual.path))
    except ValidationError:
        raise SourceError(f"--encoding: {encoding!r} is not the name of a text encoding") from None
    try:
        delimiter = likeliest_delimiter(source.lines().header) or usual.delimiter
        source = source.model_copy(update={"delimiter": delimiter})
        names = source.column_names()
        check_differ(names)
        source.count_rows()
    except BadLineError as error:
        hint = "; say which encoding it has: --encoding cp1252" if NOT_ENCODED in str(error) and not encoding else ""
        raise SourceError(f"{error}{hint}") from None
    if doubt := why_no_names(names):
        raise SourceError(doubt)
    section = [
        "# Have numbers a comma before their fraction? `moiety doctor` compares.",
        "[tables.source]",
        'kind = "csv"',
        f"path = {json.dumps(str(usual.path))}",
        f"delimiter = {json.dumps(delimiter)}",
        f"encoding = {json.dumps(source.encoding)}",
        "# decimal_comma = true",
        """# thousands = "."           # what stands between groups of three digits""",
    ]
    is_usual = delimiter == usual.delimiter and source.encoding == "utf-8"
    return dict.fromkeys(names), [] if is_usual else section


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
        whole, ordinal = number.replace('"number"', '"integer"'), '{ kind = "ordinal", values = ["LOWEST", "HIGHEST"] }'
        return [
            f"# {shown}: is it a number, a whole number, yes or no, a category, an ordinal or a date? One of",
            f"# {key} = {number}",
            f"# {key} = {whole}",
            f"# {key} = {category}",
            f"# {key} = {ordinal}",
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
