"""The SELECT over one table or one query of the owner, as every engine of SQL here understands it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from party.tables.sources.source import SourceError, TableSource

if TYPE_CHECKING:
    import polars as pl

CELLS = 1 << 20
"""Values of a batch, 8 MiB of numbers."""


class Selection(TableSource):
    """The rows of a table or of a query.

    Attributes:
        table: table or view whose rows are all read: `name` or `schema.name`; or
        query: a single SELECT.
        order_by: columns of the rows' order, which parties of a joint table must have in common. Text is ordered by its
            bytes, not by a language; numbers by their size. Absent: the order in which the engine gives them.
    """

    table: Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)?$")] | None = None
    query: Annotated[str, Field(min_length=1)] | None = None
    order_by: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _names_one_thing(self) -> Self:
        if (self.table is None) == (self.query is None):
            raise ValueError("table, query: one of the two must be given")
        return self

    def _select(self, terms: str, end: str = "") -> str:
        """Return the SELECT of some terms over the rows; a subquery can neither write nor end the statement."""
        if self.query is not None:
            rows = f"({self.query.strip().removesuffix(';')}\n)"  # a comment at its end ends with the line
        else:
            assert self.table is not None, "a source names one of the two"
            rows = ".".join(quoted(part) for part in self.table.split("."))
        return f"SELECT {terms} FROM {rows} AS source {end}"  # noqa: S608, the query is the owner's own


def check_numeric(names: Iterable[str], is_number: Callable[[str], bool]) -> None:
    """Refuse a column that is asked for as numbers and is none.

    Raises:
        SourceError: names the first one.
    """
    for name in names:
        if not is_number(name):
            raise SourceError(f"column {name!r} is not numeric")


def quoted(name: str) -> str:
    """Return the name of a column or a table as SQL writes it, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def ordered_by(names: Sequence[str]) -> str:
    """Return the ORDER BY of some columns; empty for none."""
    return f"ORDER BY {', '.join(map(quoted, names))}" if names else ""


def rows_of(answer: Any, start: int) -> Iterator["pl.DataFrame"]:
    """Yield what an engine sends as a stream of Arrow, from a number of a row on, `CELLS` values and more at once.

    Some engines send 8,192 rows at a time, and what polars does with a batch takes it as long as that many values.

    Args:
        answer: an object with `__arrow_c_stream__`; batches come as the engine makes them.
        start: rows to leave out.
    """
    import polars as pl  # the configuration of a table is read without
    from arro3.core import RecordBatchReader

    waiting: list[pl.DataFrame] = []
    for part in RecordBatchReader.from_arrow(answer):
        batch = pl.DataFrame(part)
        if start < batch.height:
            waiting.append(batch[start:])
            if sum(one.height for one in waiting) * batch.width >= CELLS:
                yield pl.concat(waiting, rechunk=True)
                waiting.clear()
        start = max(0, start - batch.height)
    if waiting:
        yield pl.concat(waiting, rechunk=True)
