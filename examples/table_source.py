"""A source of tables of its own: a query on a SQLite database. See docs/recipes.md.

python examples/table_source.py     describes and reads a table that is made up
"""

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analyses.job.job import JobInput
from party.tables.config import TableConfig
from party.tables.sources.registry import SOURCES
from party.tables.sources.source import SourceError, TableSource
from party.tables.table import describe_table, load_table
from service.settings import FilePath

ROWS_AT_ONCE = 10_000


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

    def batches(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[pl.DataFrame]:
        """See `TableSource`."""
        wanted = (*numbers, *texts)
        with self._answer() as cursor:
            names = [column[0] for column in cursor.description]
            for name in wanted:
                if names.count(name) != 1:
                    raise SourceError(
                        f"column {name!r} is missing in the answer of its database, or stands there twice"
                    )
            # SQLite has a type for each value. As text, each by itself: else one row would decide how others are read.
            as_text = [name in texts for name in names]
            while found := cursor.fetchmany(ROWS_AT_ONCE):
                rows = [
                    [
                        str(one) if is_text and one is not None else one
                        for one, is_text in zip(row, as_text, strict=True)
                    ]
                    for row in found
                ]
                try:
                    frame = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
                except (TypeError, OverflowError, pl.exceptions.PolarsError):
                    raise SourceError("a column holds values of more than one type") from None
                yield frame.select(wanted)

    def count_rows(self) -> int:
        """See `TableSource`."""
        with self._answer() as cursor:
            return sum(1 for _ in cursor)

    @contextmanager
    def _answer(self) -> Iterator[sqlite3.Cursor]:
        try:
            with closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True)) as database:
                yield database.execute(self.query)
        except sqlite3.Error:
            raise SourceError("its database cannot be opened, or refuses the query") from None


@dataclass(frozen=True)
class North:
    """A party with one table; a service reads both from `party.toml`."""

    tables: tuple[TableConfig, ...]
    data_dir: Path
    name: str = "north"
    table_memory_mib: int = 128


def main() -> None:
    """Make a database, describe the table, read it."""
    SOURCES["sqlite"] = SqliteQuery  # the one line in party/tables/sources/registry.py
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clinic.sqlite"
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE visits (patient TEXT, age REAL)")
            database.executemany("INSERT INTO visits VALUES (?, ?)", [("p-1", 31.0), ("p-2", 47.5)])
        source = {"kind": "sqlite", "path": path, "query": "SELECT patient, age FROM visits ORDER BY patient"}
        section = {"name": "visits", "id_column": "patient", "bounds": {"age": (0, 120)}, "source": source}
        owner = North((TableConfig.model_validate(section),), Path(folder))
        wanted = JobInput(party="north", table="visits")
        columns = ", ".join(column.name for column in describe_table(owner, wanted).columns)
        print(f"columns {columns}; {load_table(owner, wanted).n_rows} rows")


if __name__ == "__main__":
    main()
