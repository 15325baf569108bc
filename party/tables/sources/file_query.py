"""Tables that are a query over local files, which polars answers: derived columns, filters, joins of own files."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from party.tables.sources.columnar_file import ROWS_AT_ONCE, ArrowFile, ParquetFile
from party.tables.sources.file import CHANGED, UNREADABLE, check_names, fingerprint
from party.tables.sources.source import SourceError, TableSource
from service.settings import FilePath

if TYPE_CHECKING:
    import polars as pl


class FileQuery(TableSource):
    """The rows of a SELECT over local files, written by the owner: columns may be derived, rows left out.

    What is protected is a row of the answer. So a query should make each from what belongs to one row or one person. A
    person's sums by a GROUP BY are so; ranks, running sums and shares of a total are not, because one person's data
    then move others' rows.

    Attributes:
        files: name in the query to its file: `.csv`, `.csv.gz`, `.parquet` or `.arrow`.
        query: a single SELECT, in the SQL of polars.
    """

    files: Annotated[dict[str, FilePath], Field(min_length=1)]
    query: Annotated[str, Field(min_length=1)]

    def is_there(self) -> bool:
        """See `TableSource`."""
        return all(path.exists() for path in self.files.values())

    def version(self) -> tuple[tuple[int, int, int], ...]:
        """See `TableSource`."""
        return tuple(fingerprint(path) for path in self.files.values())

    def batches(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """See `TableSource`."""
        before = self.version()
        yield from self._answer((*numbers, *texts))
        if self.version() != before:
            raise SourceError(CHANGED)

    def count_rows(self) -> int:
        """See `TableSource`."""
        return sum(batch.height for batch in self._answer(None))

    def _answer(self, wanted: Sequence[str] | None) -> Iterator["pl.DataFrame"]:
        """Yield the wanted columns of the rows, computed once; all columns where None."""
        import polars as pl  # the configuration of a table is read without

        try:
            with pl.SQLContext({name: _scanned(path) for name, path in self.files.items()}) as context:
                answer = context.execute(self.query, eager=False)
                if wanted is not None:
                    check_names(answer.collect_schema().names(), wanted)
                    answer = answer.select(wanted)
                yield from answer.collect_batches(chunk_size=ROWS_AT_ONCE, lazy=True)
        except OSError:
            raise SourceError(UNREADABLE) from None
        except pl.exceptions.PolarsError:
            raise SourceError("its query is not one that can be answered over its files") from None


def _scanned(path: FilePath) -> "pl.LazyFrame":
    import polars as pl  # the configuration of a table is read without

    for columnar in (ParquetFile, ArrowFile):
        if path.name.endswith(columnar.ending):
            return columnar.scan(path)
    if path.name.endswith((".csv", ".csv.gz")):
        return pl.scan_csv(path, glob=False)
    raise SourceError("one of its files has an unknown format")
