"""Tables that are a query over local files, which polars answers: derived columns, filters, joins of own files."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from party.tables.sources.apart import ReadApart
from party.tables.sources.columnar_file import ROWS_AT_ONCE, ArrowFile, ParquetFile
from party.tables.sources.csv_file import CsvFile, check_differ
from party.tables.sources.file import check_names, data_of_file, fingerprint, leads_somewhere
from party.tables.sources.source import SourceError, library_errors
from service.settings import FilePath

if TYPE_CHECKING:
    import polars as pl

UNANSWERED = "its query is not one that can be answered over its files"


class FileQuery(ReadApart):
    """The rows of a SELECT over local files, written by the owner: columns may be derived, rows left out.

    What is protected is a row of the answer. So a query should make each from what belongs to one row or one person. A
    person's sums by a GROUP BY are so; ranks, running sums and shares of a total are not, because one person's data
    then move others' rows.

    Columns of a CSV file are text in the query, which may CAST them. A type that was inferred from the file would let
    one row decide how all others are read: whether an id is `007` or 7. A column of the answer that is asked for as
    numbers is cast afterwards.

    Attributes:
        files: name in the query to its file: `.csv`, `.csv.gz`, `.parquet` or `.arrow`. All columns of CSV are text.
        query: a single SELECT, in the SQL of polars. It makes a number of text by `CAST(cost AS DOUBLE)`; texts in its
            answer are read like those of a CSV file (`party.tables.spelling.numbers`).
    """

    files: Annotated[dict[str, FilePath], Field(min_length=1)]
    query: Annotated[str, Field(min_length=1)]

    @property
    def has_numbers_in_text(self) -> bool:
        """See `TableSource`."""
        return True

    def is_there(self) -> bool:
        """See `TableSource`."""
        return all(map(leads_somewhere, self.files.values()))

    def version(self) -> tuple[tuple[int, int, int], ...]:
        """See `TableSource`."""
        return tuple(fingerprint(path) for path in self.files.values())

    def data(self) -> frozenset[str]:
        """See `TableSource`."""
        return frozenset().union(*(data_of_file(path) for path in self.files.values()))

    def rows_here(self, start: int, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """See `ReadApart`."""
        for batch in self._answer((*numbers, *texts)):
            if start < batch.height:
                yield batch[start:]
            start = max(0, start - batch.height)

    def count_here(self) -> int:
        """See `ReadApart`."""
        return sum(batch.height for batch in self._answer(None))

    def _answer(self, wanted: Sequence[str] | None) -> Iterator["pl.DataFrame"]:
        """Yield the wanted columns of the rows, computed once; all columns where None."""
        import polars as pl  # the configuration of a table is read without

        refused: list[SourceError] = []
        try:
            with (
                library_errors(UNANSWERED),
                pl.SQLContext({name: _scanned(path, refused) for name, path in self.files.items()}) as context,
            ):
                answer = context.execute(self.query, eager=False)
                if wanted is not None:
                    check_names(answer.collect_schema().names(), wanted)
                    answer = answer.select(wanted)
                yield from answer.collect_batches(chunk_size=ROWS_AT_ONCE, lazy=True)
        except SourceError:
            if refused:
                raise refused[0] from None
            raise


def _scanned(path: FilePath, refused: list[SourceError]) -> "pl.LazyFrame":
    for columnar in (ParquetFile, ArrowFile):
        if path.name.endswith(columnar.ending):
            columnar(path=path).check_kind(path)
            return columnar.scan(path)
    if path.name.endswith((".csv", ".csv.gz")):
        return _text_of(CsvFile(path=path), refused)
    raise SourceError("one of its files has an unknown format")


def _text_of(file: CsvFile, refused: list[SourceError]) -> "pl.LazyFrame":
    """Return a CSV file as what polars reads when it is collected; its errors are noted, as the library hides them."""
    import polars as pl  # the configuration of a table is read without
    from polars.io.plugins import register_io_source

    names = file.column_names()
    check_differ(names)

    def batches(
        wanted: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator["pl.DataFrame"]:
        try:
            for batch in file.batches((), wanted or names):
                rows = batch if n_rows is None else batch.head(n_rows)
                n_rows = None if n_rows is None else n_rows - rows.height
                yield rows if predicate is None else rows.filter(predicate)
                if n_rows == 0:
                    return
        except SourceError as error:
            refused.append(error)
            raise

    return register_io_source(batches, schema=dict.fromkeys(names, pl.String))
