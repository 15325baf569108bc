"""Rows of a COPY of PostgreSQL in its binary form, as frames.

psycopg hands over one row at a time, and waits for each in Python. What libpq has already received is taken from it
directly, which halves the time, and a compiled loop takes the rows apart (`copy_kernels`).
"""

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from party.tables.sources.source import SourceError, library_errors

if TYPE_CHECKING:
    import polars as pl

UNREADABLE = "its database sent rows that cannot be read"

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_HEADER_BYTES = len(_SIGNATURE) + 8
"""The signature, flags and the length of an extension; no version of PostgreSQL has set any."""


class Column(NamedTuple):
    """A column of a COPY.

    Attributes:
        name: in the frame.
        term: what is selected: of type float8, int8 or text.
        sent: this type, as polars has it.
        wanted: type in the frame; a day counts from 1970, a point in time in microseconds.
    """

    name: str
    term: str
    sent: Any
    wanted: Any


def frames_of(copy: Any, columns: Sequence[Column], chunk_bytes: int) -> Iterator["pl.DataFrame"]:
    """Yield the rows of a COPY of columns, those of text last; once about so many bytes have come, and at the end.

    Memory: these bytes, four times, and the frame.

    Raises:
        SourceError: what came are no such rows.
        psycopg.Error: the server's.
    """
    is_first = True
    for sent, n_messages in _pieces(copy, chunk_bytes):
        yield _frame(sent, n_messages, columns, is_first=is_first)
        is_first = False


def _pieces(copy: Any, chunk_bytes: int) -> Iterator[tuple[bytearray, int]]:
    """Yield what the server sends, in pieces, and how many messages each is: rows, before them a header, then a mark.

    Raises:
        psycopg.Error: the server's.
    """
    import psycopg

    connection = copy.connection.pgconn
    take, sent, n_messages = connection.get_copy_data, bytearray(), 0
    while True:
        n_bytes, row = take(1)
        if n_bytes == 0:  # nothing that has come is left
            row = copy.read()  # waits
            if not row:
                break
        elif n_bytes < 0:
            while (answer := connection.get_result()) is not None:
                if answer.status != psycopg.pq.ExecStatus.COMMAND_OK:
                    raise psycopg.errors.error_from_result(answer)
            break
        sent += row
        n_messages += 1
        if len(sent) >= chunk_bytes:
            yield sent, n_messages
            sent, n_messages = bytearray(), 0
    yield sent, n_messages


def _frame(sent: bytearray, n_messages: int, columns: Sequence[Column], *, is_first: bool) -> "pl.DataFrame":
    import polars as pl  # the configuration of a table is read without

    from party.tables.sources.sql.copy_kernels import take_apart

    if is_first and (len(sent) < _HEADER_BYTES or not sent.startswith(_SIGNATURE)):
        raise SourceError(UNREADABLE)
    rows = np.frombuffer(sent, np.uint8)[_HEADER_BYTES if is_first else 0 :]
    fixed = [column for column in columns if column.sent != pl.String]
    texts = columns[len(fixed) :]
    cells = np.empty((len(fixed), n_messages), np.uint64)
    present = np.empty(cells.shape, np.uint8)
    lines = np.empty(2 * len(sent), np.uint8)
    ends = np.array([len(texts), 0])
    take_apart(cells, present, lines, rows, ends)
    n_rows, n_bytes = ends.tolist()
    if n_rows < 0:
        raise SourceError(UNREADABLE)
    with library_errors(UNREADABLE):
        frame = pl.DataFrame()
        if texts:
            schema: Mapping[str, Any] = {column.name: pl.String for column in texts}
            text = BytesIO(lines[:n_bytes].data)
            frame = pl.read_csv(text, has_header=False, schema=schema) if n_rows else pl.DataFrame(schema=schema)
        whole = [
            pl.Series(column.name, cells[number, :n_rows].view(np.float64 if column.sent == pl.Float64 else np.int64))
            for number, column in enumerate(fixed)
        ]
        frame = pl.DataFrame([*whole, *frame])
        gaps = [number for number in range(len(fixed)) if not present[number, :n_rows].all()]
        there = {fixed[number].name: pl.Series(present[number, :n_rows].view(bool)) for number in gaps}
        return frame.with_columns(pl.when(one).then(pl.col(name)) for name, one in there.items()).cast(
            {column.name: column.wanted for column in columns}
        )
