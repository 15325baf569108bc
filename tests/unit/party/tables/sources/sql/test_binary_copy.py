"""Bytes that are no rows of a binary COPY are refused; nothing beyond them is read."""

import struct

import polars as pl
import pytest

from party.tables.sources.source import SourceError
from party.tables.sources.sql.binary_copy import UNREADABLE, Column, frames_of

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
COLUMNS = (Column("x", "x", pl.Float64, pl.Float64), Column("note", "note", pl.String, pl.String))


class Sent:
    """Stands for a COPY whose messages have all come."""

    def __init__(self, *messages):
        self._messages = list(messages)
        self.connection = self
        self.pgconn = self

    def get_copy_data(self, _):
        return (len(self._messages[0]), memoryview(self._messages.pop(0))) if self._messages else (-1, None)

    def get_result(self):
        return None


def row(*fields):
    sent = (b"\xff\xff\xff\xff" if one is None else struct.pack(">i", len(one)) + one for one in fields)
    return struct.pack(">h", len(fields)) + b"".join(sent)


def number(x):
    return struct.pack(">d", x)


def read(*messages, chunk_bytes=1 << 20):
    return pl.concat(list(frames_of(Sent(*messages), COLUMNS, chunk_bytes))).rows()


@pytest.mark.parametrize("chunk_bytes", [1, 60, 1 << 20])
def test_rows_come_in_pieces_of_any_size_with_their_gaps(chunk_bytes):
    messages = (HEADER + row(number(0.1), b'"a",\n'), row(None, b""), row(number(-0.0), None), row(None, None), END)
    found = read(*messages, chunk_bytes=chunk_bytes)
    assert str(found) == str([(0.1, '"a",\n'), (None, ""), (-0.0, None), (None, None)])


def test_no_rows_are_an_empty_table():
    assert read(HEADER + END) == []


GOOD = row(number(1), b"text")


@pytest.mark.parametrize(
    "messages",
    [
        (b"no header" + GOOD,),
        (HEADER[:12],),
        *((HEADER + GOOD[:n],) for n in range(1, len(GOOD))),
        (HEADER + row(number(1)),),
        (HEADER + row(number(1), b"a", b"b"),),
        (HEADER + row(number(1)[:4], b"a"),),
        (HEADER + row(number(1) * 2, b"a"),),
        (HEADER + row(number(1), b"a")[:-5] + struct.pack(">i", 2**31 - 1) + b"a",),
        (HEADER + GOOD * 200_000,),  # rows in one message: more than there is room for
        (HEADER + row(number(1), b"\xff"),),
        (HEADER + b"\xff\xfe" + GOOD[2:],),
    ],
)
def test_what_are_no_such_rows_are_refused(messages):
    with pytest.raises(SourceError, match=UNREADABLE):
        read(*messages)
