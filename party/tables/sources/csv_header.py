"""The first line of a CSV file again among its rows, as where files were put together."""

import csv

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]
Bytes = NDArray[np.uint8]

QUOTE, CR = b'"\r'
_BLANKS = b"\t\v\f\x1c\x1d\x1e\x1f "


class RepeatedHeader:
    """Finds the rows that say the same as the first line, whatever their case, quotation marks and spaces around.

    Args:
        header: the first line, without its end.
        separator: the byte between fields.
    """

    def __init__(self, header: bytes, separator: int) -> None:
        self._separator = bytes([separator])
        self._names = self._fields(header)
        # Other spellings of a name are no shorter in UTF-8, as far as the name is ASCII.
        self._n_least = len(self._names) - 1 + sum(len(name) for name in self._names if name.isascii())
        first, last = (self._names[0], self._names[-1]) if self._names else ("", "")
        self._may_begin = self._letters(first[:1])
        self._may_end = self._letters(last[-1:])

    def rows(self, text: bytes, codes: Bytes, starts: Places, ends: Places) -> list[int]:
        """Return which rows of a text are the first line again.

        Args:
            text: the rows.
            codes: its bytes, shape (bytes,).
            starts: start of each row, shape (rows,).
            ends: the place of the line end of each row, shape (rows,).
        """
        if len(self._names) < 2:  # a value may well be called like its column; a first line that is no row is refused
            return []
        first, last = starts + (codes[starts] == QUOTE), ends - 1
        last = last - (codes[last] == CR)
        last = np.maximum(last - (codes[last] == QUOTE), 0)
        may_be = ends - starts >= self._n_least
        may_be &= self._may_begin[codes[first]]
        may_be &= self._may_end[codes[last]]
        return [
            row for row in np.flatnonzero(may_be).tolist() if self._fields(text[starts[row] : ends[row]]) == self._names
        ]

    def _fields(self, row: bytes) -> tuple[str, ...]:
        text, separator = row.decode(errors="replace"), self._separator.decode()
        try:
            texts = next(csv.reader([text], delimiter=separator)) if '"' in text else text.split(separator)
        except csv.Error:  # it is no row, or has a field far longer than a name
            return ()
        return tuple(text.strip().casefold() for text in texts)

    def _letters(self, letter: str) -> NDArray[np.bool_]:
        """Return which bytes may stand where this letter does: spaces, either case, and all that is not ASCII."""
        may_be = np.arange(256) >= 128
        may_be[list(_BLANKS)] = True
        if letter.isascii() and letter:
            may_be[[ord(letter), ord(letter.upper())]] = True
        else:
            may_be[:] = True
        return may_be
