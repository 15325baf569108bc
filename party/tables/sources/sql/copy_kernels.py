"""Compiled loop over rows of a binary COPY, the form in which PostgreSQL sends many rows with the least work.

A row is the number of its fields in 2 bytes, and of each field the length in 4, then the content; an empty value has
the length -1. Integers begin with their highest byte. Rows end where there are no more bytes, or at one of -1 fields.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.machine_code import Array, kernel

_QUOTE, _COMMA, _LINE = 34, 44, 10
_NEGATIVE = 1 << 31
"""From here on, 4 bytes without a sign are a negative number."""


@kernel(
    Array("uint64", 2, is_written=True),
    Array("uint8", 2, is_written=True),
    Array("uint8", is_written=True),
    Array("uint8"),
    Array("int64", is_written=True),
)
def take_apart(
    cells: NDArray[np.uint64], present: NDArray[np.uint8], text: NDArray[np.uint8], sent: NDArray[np.uint8], ends: Any
) -> None:
    """Put fields of 8 bytes into columns, and make the fields behind them lines of CSV with quotes.

    Args:
        cells: columns of the first fields, their 8 bytes as an integer; as many columns as there are such fields.
        present: 0 for an empty value, in the shape of `cells`.
        text: room for the lines: at least twice the bytes that were sent.
        sent: rows.
        ends: how many fields of text follow in each row; in its place, the number of rows, and then of bytes of `text`.
            The number of rows is -1 where the bytes are no rows of this form.
    """
    n_fixed, most, n_texts, size = cells.shape[0], cells.shape[1], ends[0], sent.size
    at: Any = 0
    written, n_rows = 0, 0
    ends[0], ends[1] = -1, 0
    while at < size:
        if at + 2 > size:
            return
        n_fields = np.int64(sent[at]) << 8 | np.int64(sent[at + 1])
        at += 2
        if n_fields == 0xFFFF:
            break
        if n_fields != n_fixed + n_texts or n_rows == most:
            return
        for field in range(n_fields):
            if at + 4 > size:
                return
            length: Any = np.int64(0)
            for byte in range(4):
                length = length << 8 | np.int64(sent[at + byte])
            at += 4
            is_empty = length >= _NEGATIVE
            if is_empty:
                length = 0
            if at + length > size:
                return
            if field < n_fixed:
                cell = np.uint64(0)
                if not is_empty:
                    if length != 8:
                        return
                    for byte in range(8):
                        cell = cell << np.uint64(8) | np.uint64(sent[at + byte])
                cells[field, n_rows] = cell
                present[field, n_rows] = not is_empty
            else:
                if not is_empty:
                    text[written] = _QUOTE
                    written += 1
                    for byte in range(length):
                        character = sent[at + byte]
                        text[written] = character
                        written += 1
                        if character == _QUOTE:
                            text[written] = _QUOTE
                            written += 1
                    text[written] = _QUOTE
                    written += 1
                text[written] = _LINE if field == n_fields - 1 else _COMMA
                written += 1
            at += length
        n_rows += 1
    ends[0], ends[1] = n_rows, written
