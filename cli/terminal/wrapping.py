"""Texts in lines that a terminal does not wrap, broken between words."""

import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TextIO

FEWEST_COLUMNS, MOST_COLUMNS = 40, 200
"""Columns of the narrowest and the widest terminal that texts are laid out for."""

HANGING = 4
"""Columns by which the second and later pieces of a line are indented further than the first."""


def terminal_columns() -> int:
    """Return the columns of the terminal, 80 in a pipe, within the limits that texts are laid out for."""
    return min(max(shutil.get_terminal_size(fallback=(80, 24)).columns, FEWEST_COLUMNS), MOST_COLUMNS)


def wrapped(text: str, most: int) -> list[str]:
    """Return a text in pieces that take at most `most` columns; a space where one ends is left out.

    Only a word that is longer than a line is cut: text of others must not reach the first column of the terminal.
    """
    pieces, width = [""], 0
    for word in re.findall(r"\S+\s*|\s+", text):
        if width and width + _cells(word.rstrip()) > most:
            pieces.append("")
            width = 0
        for character in word:
            takes = _cells(character)
            if width + takes > most:
                if character.isspace():
                    continue
                pieces.append("")
                width = 0
            pieces[-1] += character
            width += takes
    return pieces


def fitted(lines: Iterable[str], columns: int) -> Iterator[str]:
    """Yield indented lines that take fewer than so many columns; what is left of one is indented further."""
    for line in lines:
        if _cells(line) < columns or " " not in line:  # a single word, such as a key, can be copied whole
            yield line
            continue
        text = line.lstrip()
        indent = min(len(line) - len(text), columns // 2)  # a head of columns may begin far to the right
        first, *rest = wrapped(text, columns - indent - HANGING - 1)
        yield " " * indent + first.rstrip()
        yield from (" " * (indent + HANGING) + piece.rstrip() for piece in rest if piece.strip())


def fitted_to_terminal(text: str, stream: TextIO) -> str:
    """Return a text whose lines the terminal does not wrap; in a pipe or a file it stays as it is."""
    return "\n".join(fitted(text.split("\n"), terminal_columns())) if stream.isatty() else text


def _cells(text: str) -> int:
    """Return how many cells of a terminal a text takes; wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WFA" else 1 for character in text)
