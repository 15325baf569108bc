"""The kinds of sources of tables that a configuration can name. A new kind is one line here (`docs/recipes.md`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from party.tables.sources.columnar_file import ArrowFile, ParquetFile
from party.tables.sources.csv_file import CsvFile, TabbedFile
from party.tables.sources.file import TableFile
from party.tables.sources.file_query import FileQuery
from party.tables.sources.source import SourceError, TableSource
from party.tables.sources.sql.delta_table import DeltaTable
from party.tables.sources.sql.duckdb_table import DuckdbTable
from party.tables.sources.sql.postgres_table import PostgresTable
from service.settings import explain_fields

SOURCES: dict[str, type[TableSource]] = {
    "csv": CsvFile,
    "parquet": ParquetFile,
    "arrow": ArrowFile,
    "query": FileQuery,
    "postgres": PostgresTable,
    "duckdb": DuckdbTable,
    "delta": DeltaTable,
}
"""What `kind` says in a section `[tables.source]`, to the class whose fields are the rest of that section."""

FILES: dict[str, type[TableFile]] = {
    ".csv": CsvFile,
    ".csv.gz": CsvFile,
    ".tsv": TabbedFile,
    ".tsv.gz": TabbedFile,
    ".parquet": ParquetFile,
    ".arrow": ArrowFile,
}
"""End of a file's name to what reads it, for a table that has a `path` and no section."""


def source_of_section(section: Mapping[str, Any], context: Mapping[str, Any] | None) -> TableSource:
    """Make the source that a section `[tables.source]` describes. Nothing is opened.

    Args:
        section: section that was read: `kind` and the fields of that kind.
        context: context of the validation: it knows the folder in which relative paths start.

    Raises:
        ValueError: there is no such kind, or a field is wrong; the text shows no password.
    """
    fields = dict(section)
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in SOURCES:
        raise ValueError(f"kind: must be one of {', '.join(map(repr, SOURCES))}")
    try:
        return SOURCES[kind].model_validate(fields, context=context)
    except ValidationError as error:
        raise ValueError("; ".join(explain_fields(error))) from None


def source_of_file(path: Path) -> TableSource:
    """Make the source that reads a file, by the end of its name. Nothing is opened.

    Raises:
        SourceError: no source reads such files.
    """
    for ending, source in FILES.items():
        if path.name.endswith(ending):
            return source(path=path)
    *others, last = FILES
    raise SourceError(f"its file has an unknown format; {', '.join(others)} and {last} can be read")
