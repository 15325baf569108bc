"""A source of tables of its own: a query on a SQLite database. See docs/recipes.md.

python examples/table_source.py     describes and reads a table that is made up
"""

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analyses.job.job import JobInput
from party.tables.config import TableConfig
from party.tables.registry import SOURCES
from party.tables.source import SourceError, TableSource
from party.tables.table import describe_table, load_table
from service.settings import FilePath


class SqliteQuery(TableSource):
    """The rows of a query.

    Attributes:
        path: of the database.
        query: a SELECT with its own ORDER BY: the rows of all parties must be in the same order.
    """

    path: FilePath
    query: str

    def is_there(self) -> bool:
        """See `TableSource`."""
        return self.path.exists()

    def version(self) -> None:
        """Nobody can tell, so the table is read for each job."""

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[pl.Series]:
        """See `TableSource`."""
        names, rows = self._answer()
        for name in (*numbers, *texts):
            if names.count(name) != 1:
                raise SourceError(f"column {name!r} is missing in the answer of its database, or stands there twice")
        try:
            frame = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
        except (TypeError, OverflowError, pl.exceptions.PolarsError):
            raise SourceError("a column holds values of more than one type") from None
        for name in (*numbers, *texts):
            yield frame[name]

    def count_rows(self) -> int:
        """See `TableSource`."""
        return len(self._answer()[1])

    def _answer(self) -> tuple[list[str], list[tuple[object, ...]]]:
        try:
            with closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True)) as database:
                cursor = database.execute(self.query)
                return [column[0] for column in cursor.description], cursor.fetchall()
        except sqlite3.Error:
            raise SourceError("its database cannot be opened, or refuses the query") from None


@dataclass(frozen=True)
class North:
    """A party with one table; a service reads both from `party.toml`."""

    tables: tuple[TableConfig, ...]
    name: str = "north"


def main() -> None:
    """Make a database, describe the table, read it."""
    SOURCES["sqlite"] = SqliteQuery  # the one line in party/tables/registry.py
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clinic.sqlite"
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE visits (patient TEXT, age REAL)")
            database.executemany("INSERT INTO visits VALUES (?, ?)", [("p-1", 31.0), ("p-2", 47.5)])
        source = {"kind": "sqlite", "path": path, "query": "SELECT patient, age FROM visits ORDER BY patient"}
        section = {"name": "visits", "id_column": "patient", "bounds": {"age": (0, 120)}, "source": source}
        owner = North((TableConfig.model_validate(section),))
        wanted = JobInput(party="north", table="visits")
        columns = ", ".join(column.name for column in describe_table(owner, wanted).columns)
        print(f"columns {columns}; {load_table(owner, wanted).n_rows} rows")


if __name__ == "__main__":
    main()
