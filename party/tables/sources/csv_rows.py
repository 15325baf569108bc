"""What makes a line of a CSV file a row, and what is wrong with one that is none.

Programs differ in what they make of a quotation mark within a plain field, of a blank line or of a carriage return, so
such lines are none. The rules are those of `docs/tables.md`.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from party.tables.sources.csv_header import CR, QUOTE, Bytes, Places, RepeatedHeader

LONGEST_LINE = 1 << 24
"""Bytes of the longest row, with the line breaks in its quoted fields: as much is in memory of a quotation mark that is
never closed."""

WINDOW = 1 << 19
"""Bytes that are looked at in several ways while they are in the caches of a processor: a multiple of 64."""

LF = ord("\n")
_NO_TEXT = {b"\0": "a zero byte", b"\x1a": "the byte 0x1A (Ctrl-Z)", b"\xef\xbb\xbf": "a byte order mark"}

NOT_ENCODED = "has bytes that are not"
_BLANKS = b"".join(chr(code).encode() for code in range(0x3001) if chr(code).isspace())
"""Bytes of all spaces of Unicode."""

OPEN = "begins a quoted field that does not end"
TOO_LONG = f"is longer than {LONGEST_LINE >> 20} MiB"
BEFORE_QUOTE = "has a quotation mark in a field that does not begin with one: quote the field, and double the mark"
BEHIND_QUOTE = "has text behind the quotation mark that ends a field"
BLANK = 'is blank: remove it; a row of nothing but gaps is written with ""'
HEADER_AGAIN = "repeats the first line"


class Rows(NamedTuple):
    """Where rows and fields end in a text, outside of quoted fields.

    Attributes:
        codes: the bytes of the whole rows, shape (bytes,).
        starts, ends: start and end of each row; the end is the place of its line end.
        separators: between fields.
        quotes: quotation marks.
        outside: which bytes are outside of quoted fields; None where there is no quotation mark.
    """

    codes: Bytes
    starts: Places
    ends: Places
    separators: Places
    quotes: Places
    outside: NDArray[np.bool_] | None


class RowForm:
    """The form of the rows of one file.

    Args:
        separator: the byte between fields.
        line_end: a line feed, before which a carriage return may stand, or a carriage return.
        encoding: encoding that the owner declares, for error texts.
        header: the first line.

    Attributes:
        n_fields: fields of each row.
    """

    def __init__(self, separator: int, line_end: bytes, encoding: str, header: bytes) -> None:
        self.line_end = line_end
        self._separator, self._encoding = separator, encoding
        self._is_blank = np.isin(np.arange(256), [separator, *_BLANKS])
        self.n_fields = len(self.rows(header + line_end).separators) + 1
        self._header = RepeatedHeader(header, separator)

    def n_right(self, text: bytes) -> int | None:
        """Return the number of rows of a text that holds nothing but right ones; None where a closer look is needed.

        It is asked of all of a file, so it takes few passes, window by window, and counts bits of separators.
        """
        codes, end = np.frombuffer(text, np.uint8), self.line_end[0]
        words = np.zeros(len(text) // 64 + 1, np.uint64)
        ends, is_ascii, has_returns = [], True, False
        for start in range(0, len(text), WINDOW):
            stop = start + WINDOW
            if any(text.find(mark, start, stop) >= 0 for mark in (b'"', b"\0", b"\x1a")):
                return None
            part = codes[start:stop]
            is_ascii = is_ascii and part.max() < 128
            has_returns = has_returns or text.find(b"\r", start, stop) >= 0
            ends.append(np.flatnonzero(part == end) + start)
            bits = np.packbits(part == self._separator, bitorder="little")
            words.view(np.uint8)[start >> 3 :][: len(bits)] = bits
        places = np.concatenate(ends)
        if (np.diff(_counts_before(words, places), prepend=0) != self.n_fields - 1).any():
            return None
        if not is_ascii and self.not_text(text):
            return None
        return len(places) if self._is_plain(text, codes, places, has_returns=end == LF and has_returns) else None

    def _is_plain(self, text: bytes, codes: Bytes, ends: Places, *, has_returns: bool) -> bool:
        """Return whether no row is blank or the first line again, and no line end another one."""
        if self.line_end[0] == CR and b"\n" in text:
            return False
        if has_returns and text.count(b"\r") != np.count_nonzero(codes[ends - 1] == CR):
            return False
        starts = np.empty_like(ends)
        starts[:1], starts[1:] = 0, ends[:-1] + 1
        lengths = ends - starts
        if lengths.min() < self.n_fields + has_returns:  # nothing but separators
            return False
        if b" " in text or b"\t" in text or not text.isascii():
            first, last = codes[starts], codes[ends - 1]
            if (self._is_blank[first] & self._is_blank[last]).any():
                return False
        return not self._header.rows(text, codes, starts, ends)

    def begins_field(self, codes: Bytes, opening: Places) -> NDArray[np.bool_]:
        """Return which quotation marks begin a field, or stand behind another one."""
        before = codes[opening - 1]
        begins: NDArray[np.bool_] = (
            (before == QUOTE) | (before == self._separator) | (before == self.line_end[0]) | (opening == 0)
        )
        return begins

    def rows(self, text: bytes) -> Rows:
        """Return the marks of the whole rows at the beginning of a text."""
        codes = np.frombuffer(text, np.uint8)
        is_end, is_separator = codes == self.line_end[0], codes == self._separator
        outside, quotes = None, np.empty(0, np.intp)
        if b'"' in text:
            is_quote = codes == QUOTE
            outside = np.bitwise_and(np.cumsum(is_quote, dtype=np.uint8), 1) == 0
            is_end &= outside
            is_separator &= outside
            quotes = np.flatnonzero(is_quote)
        ends = np.flatnonzero(is_end)
        whole = int(ends[-1]) + 1 if len(ends) else 0
        return Rows(
            codes[:whole],
            np.concatenate(([0], ends[:-1] + 1)) if whole else ends,
            ends,
            np.flatnonzero(is_separator[:whole]),
            quotes[: np.searchsorted(quotes, whole)],
            None if outside is None else outside[:whole],
        )

    def lines_of(self, rows: Rows, line: int) -> Places:
        """Return the number of the line in which each row begins."""
        return line + np.searchsorted(np.flatnonzero(rows.codes == self.line_end[0]), rows.starts)

    def quotes_amiss(self, rows: Rows) -> list[tuple[int, str]]:
        """Return the place of the first quotation mark that opens within a field, and of the first that closes there.

        Marks open and close in turn, and two that touch are one within the field. So one that opens stands at the
        beginning of a field or behind the one that closed, and one that closes at the end of a field or before another.
        """
        if not len(rows.quotes):
            return []
        codes, opening, closing = rows.codes, rows.quotes[0::2], rows.quotes[1::2]
        begins, behind = self.begins_field(codes, opening), codes[closing + 1]
        finishes = (behind == QUOTE) | (behind == self._separator) | (behind == self.line_end[0])
        if self.line_end[0] == LF:  # a lone carriage return is refused elsewhere
            finishes |= behind == CR
        found = []
        for places, fits, what in ((opening, begins, BEFORE_QUOTE), (closing, finishes, BEHIND_QUOTE)):
            if not fits.all():
                found.append((int(places[np.argmin(fits)]), what))
        return found

    def not_text(self, text: bytes) -> list[tuple[int, str]]:
        """Return the places of bytes that no text has, and what they are."""
        found = []
        for stray, what in _NO_TEXT.items():
            found += (
                [(match.start(), f"has {what} in it") for match in re.finditer(re.escape(stray), text)]
                if stray in text
                else []
            )
        if not text.isascii():
            start = 0
            while True:
                try:
                    str(memoryview(text)[start:], "utf-8")
                    break
                except UnicodeDecodeError as error:
                    place = start + error.start
                    found.append((place, f"{NOT_ENCODED} {_shown(self._encoding)} text"))
                    start = text.find(self.line_end, place) + 1
        return found

    def bad_rows(self, rows: Rows, text: bytes) -> dict[int, str]:
        """Return which rows are none, and what is wrong with each."""
        n_within = self.n_fields - 1
        found = dict.fromkeys(self._header.rows(text, rows.codes, rows.starts, rows.ends), HEADER_AGAIN)
        found |= dict.fromkeys(self._blank(rows, text), BLANK)
        between = rows.separators
        is_right = len(between) == n_within * len(rows.ends)
        if is_right and n_within:
            is_right = bool(
                (between[::n_within] >= rows.starts).all() and (between[n_within - 1 :: n_within] < rows.ends).all()
            )
        if not is_right:
            counts = np.diff(np.searchsorted(between, rows.ends), prepend=0)
            for row in np.flatnonzero(counts != n_within).tolist():
                found.setdefault(row, _miscounted(int(counts[row]) + 1, self.n_fields))
        for row in np.flatnonzero(rows.ends - rows.starts > LONGEST_LINE).tolist():
            found[row] = TOO_LONG
        places = self.not_text(text) + [
            (int(place), "has another line end in it than the first line") for place in self._strange_ends(rows, text)
        ]
        for place, what in places:
            found[int(np.searchsorted(rows.ends, place))] = what
        return found

    def _strange_ends(self, rows: Rows, text: bytes) -> Places:
        """Return the places of line ends, outside of quoted fields, of another kind than those of the file."""
        other = CR if self.line_end[0] == LF else LF
        if bytes([other]) not in text:
            return np.empty(0, np.intp)
        is_other = rows.codes == other
        if rows.outside is not None:
            is_other &= rows.outside
        places = np.flatnonzero(is_other)
        return places[rows.codes[places + 1] != LF] if other == CR else places

    def _blank(self, rows: Rows, text: bytes) -> list[int]:
        """Return the rows that hold nothing but separators and spaces."""
        separator = chr(self._separator)
        is_blank = self._is_blank
        may_be = is_blank[rows.codes[rows.starts]]
        if not may_be.any():
            return []
        for part in (1, 2, 3, 4):  # hardly any other row has blanks in all of these places
            may_be &= is_blank[rows.codes[rows.starts + (rows.ends - rows.starts) * part // 4]]
        return [
            row
            for row in np.flatnonzero(may_be).tolist()
            if not text[rows.starts[row] : rows.ends[row]].decode(errors="replace").replace(separator, "").strip()
        ]


def _counts_before(words: NDArray[np.uint64], places: Places) -> Places:
    """Return how many of the bits of some words, the lowest first, are set before each place."""
    counts = np.bitwise_count(words)
    before = np.cumsum(counts, dtype=np.intp) - counts
    word, bit = places >> 6, (places & 63).astype(np.uint64)
    found: Places = before[word] + np.bitwise_count(words[word] & ((np.uint64(1) << bit) - np.uint64(1)))
    return found


def _miscounted(n_fields: int, n_right: int) -> str:
    return f"has too {'few' if n_fields < n_right else 'many'} fields: {n_fields}, and the first line has {n_right}"


def _shown(encoding: str) -> str:
    return encoding.upper() if encoding.startswith("utf") else encoding
