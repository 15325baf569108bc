"""The lines of a CSV file, block by block: what is no row is refused before a library sees it.

A line that is not a row would be read as one, or as no error but as values in wrong columns, and a quotation mark that
is never closed as one field of the whole file. So each block is looked at first, and the reader of values gets whole
lines with as many fields as the first one, in UTF-8. What is done with which spelling stands in `docs/tables.md`.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from party.tables.sources.csv_header import QUOTE, Places
from party.tables.sources.csv_rows import BEFORE_QUOTE, LONGEST_LINE, OPEN, TOO_LONG, RowForm, Rows
from party.tables.sources.csv_text import utf_8_chunks
from party.tables.sources.file import NAMES_UNREADABLE
from party.tables.sources.source import SourceError

_ENDS = re.compile(rb'"|\r\n?|\n')


class BadLine(NamedTuple):
    """A line that is no row: its number, and what is wrong with it."""

    line: int
    what: str


class BadLineError(SourceError):
    """A line of a file is no row.

    Attributes:
        bad: the line.
    """

    def __init__(self, bad: BadLine) -> None:
        where = f"line {bad.line} of its file {bad.what}"
        super().__init__(f"{NAMES_UNREADABLE}: {where}" if bad.line == 1 else where)
        self.bad = bad


class Block(NamedTuple):
    """Whole rows.

    Attributes:
        text: UTF-8, with a line end behind each row.
        n_rows: how many.
        lines: the number of the line in which each row begins, shape (rows,); None where they follow each other.
        first_line: line in which the first one begins.
    """

    text: bytes
    n_rows: int
    first_line: int
    lines: Places | None = None

    def line_numbers(self) -> list[int]:
        """Return the number of the line in which each row begins."""
        return [*range(self.first_line, self.first_line + self.n_rows)] if self.lines is None else self.lines.tolist()


class CsvLines:
    """The lines of one file. The first one is read at once, and the others as they are asked for.

    Memory: a chunk, and a line.

    Args:
        path: the file.
        delimiter: the character between fields, ASCII.
        encoding: encoding that the owner declares.

    Attributes:
        header: the first line, without its end, as UTF-8.
        line_end: what ends the lines: a line feed, before which a carriage return may stand, or a carriage return.

    Raises:
        SourceError: the file cannot be read, or its first line is no row.
    """

    def __init__(self, path: Path, delimiter: str, encoding: str) -> None:
        self._chunks = utf_8_chunks(path, encoding)
        text, end, at = b"", None, 0
        for chunk in self._chunks:
            text += chunk
            end, at = _first_end(text, at)
            if end is not None or len(text) > LONGEST_LINE:
                break
        else:
            text += b"\n"
            end, _ = _first_end(text, at)
        if end is None or end.start() > LONGEST_LINE:
            raise BadLineError(BadLine(1, OPEN if b'"' in text else TOO_LONG))
        self.header = text[: end.start()]
        self.line_end = b"\r" if end[0] == b"\r" else b"\n"
        self._left = text[end.end() :]
        self._form = RowForm(ord(delimiter), self.line_end, encoding, self.header)
        first = self.header + self.line_end
        if bad := [*self._form.quotes_amiss(self._form.rows(first)), *self._form.not_text(first)]:
            raise BadLineError(BadLine(1, min(bad)[1]))
        self._next_line = 2 + self.header.count(self.line_end)

    @property
    def n_fields(self) -> int:
        """Fields of each row."""
        return self._form.n_fields

    def blocks(self, noted: list[BadLine] | None = None) -> Iterator[Block]:
        """Yield all other lines, each of them a row with as many fields as the first line.

        Args:
            noted: gets the lines that are no rows, which are left out then; None to refuse the first of them.

        Raises:
            SourceError: the file cannot be read further.
            BadLineError: a line is no row, and none are noted.
        """
        left, line = self._left, self._next_line
        for chunk in itertools.chain(self._chunks, [None]):
            if chunk is None:
                text = left if left.endswith(self.line_end) or not left else left + self.line_end
                left = b""
            else:
                cut = chunk.rfind(self.line_end) + 1
                text = b"".join((left, memoryview(chunk)[:cut])) if cut else b""
                left = chunk[cut:] if cut else left + chunk
            if text and (n_rows := self._form.n_right(text)) is not None:
                yield Block(text, n_rows, line)
                line += n_rows
            elif text:
                rows = self._form.rows(text)
                whole = len(rows.codes)
                text, left = text[:whole], text[whole:] + left
                found, kept, is_lost = self._looked_at(rows, text, line)
                self._note(found, noted)
                if is_lost:
                    return
                if kept.n_rows:
                    yield kept
                line += text.count(self.line_end)
            if len(left) > LONGEST_LINE or (chunk is None and left):
                self._note([self._unended(left, line)], noted)
                return

    def _note(self, found: list[BadLine], noted: list[BadLine] | None) -> None:
        if noted is not None:
            noted += found
        elif found:
            raise BadLineError(min(found))

    def _looked_at(self, rows: Rows, text: bytes, line: int) -> tuple[list[BadLine], Block, bool]:
        """Return the bad lines among some rows, the others, and whether quotation marks make no sense from there on."""
        bad, lines = self._form.bad_rows(rows, text), self._form.lines_of(rows, line)
        found = [BadLine(int(lines[row]), what) for row, what in sorted(bad.items())]
        if amiss := self._form.quotes_amiss(rows):
            place, what = min(amiss)
            return [BadLine(line + text.count(self.line_end, 0, place), what)], Block(b"", 0, line), True
        if not bad:
            return [], Block(text, len(lines), line, lines), False
        kept = [row for row in range(len(lines)) if row not in bad]
        text = b"".join(text[rows.starts[row] : rows.ends[row] + 1] for row in kept)
        return found, Block(text, len(kept), line, lines[kept]), False

    def _unended(self, text: bytes, line: int) -> BadLine:
        """Return what is wrong with a text in which no row ends: its last quotation mark opens a field."""
        codes = np.frombuffer(text, np.uint8)
        opening = np.flatnonzero(codes == QUOTE)[0::2]
        if not len(opening):
            return BadLine(line, TOO_LONG)
        amiss = opening[~self._form.begins_field(codes, opening)]
        place, what = (int(amiss[0]), BEFORE_QUOTE) if len(amiss) else (int(opening[-1]), OPEN)
        return BadLine(line + text.count(self.line_end, 0, place), what)


def _first_end(text: bytes, at: int) -> tuple[re.Match[bytes] | None, int]:
    """Return the first line end outside of quoted fields, and the place to look on from if more text is needed to tell.

    Args:
        text: the file as far as it is known.
        at: a place outside of quoted fields before which no line ends.
    """
    while match := _ENDS.search(text, at):
        if match[0] != b'"':
            is_told = match[0] != b"\r" or match.end() < len(text)
            return (match if is_told else None), match.start()
        closing = text.find(b'"', match.end())
        if closing < 0:
            return None, match.start()
        at = closing + 1
    return None, len(text)
