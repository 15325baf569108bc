"""What `moiety table draft` tells its user beside the draft: columns that are nearly empty, with the commonest value.

The draft itself never depends on a value. A note is for the owner's screen, on standard error, and for no file.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mpc.public_text import made_public

if TYPE_CHECKING:
    import polars as pl

    from party.tables.sources.source import TableSource

MOST_ROWS = 1 << 17
MAX_CHARACTERS = 40
_MEAN_A_GAP = frozenset(
    (
        "",
        "-",
        "--",
        ".",
        "?",
        "na",
        "n/a",
        "nan",
        "nil",
        "none",
        "null",
        "unknown",
        "missing",
        "-9",
        "-99",
        "-999",
        "-9999",
    )
)
"""Canonical texts, in small letters, that people write where a value is missing."""


def notes_of(file: Path) -> list[str]:
    """Return a line for each column of a file of which nearly all values are missing, or mean that.

    Args:
        file: file to draft from; a file that cannot be read has no notes.
    """
    from party.tables.looks.lost import NEARLY_ALL
    from party.tables.sources.source import SourceError

    n_rows, counts = 0, dict[str, Counter[str]]()
    try:
        for batch in _batches(file):
            n_rows += batch.height
            for column in batch:
                counts.setdefault(column.name, Counter()).update(_gaps_in(column))
            if n_rows >= MOST_ROWS:
                break
    except SourceError:
        return []
    return [
        f"{made_public(name, MAX_CHARACTERS)}: {found.total()} of {n_rows} values seem to be missing, the commonest is "
        f"{made_public(found.most_common(1)[0][0], MAX_CHARACTERS)!r}: leave the column out, or declare `gaps`"
        for name, found in counts.items()
        if n_rows and found.total() >= NEARLY_ALL * n_rows
    ]


def _batches(file: Path) -> "Iterator[pl.DataFrame]":
    from party.tables.sources.columnar_file import ColumnarFile
    from party.tables.sources.csv_file import CsvFile, likeliest_delimiter
    from party.tables.sources.registry import source_of_file

    source: TableSource = source_of_file(file)
    if isinstance(source, CsvFile):
        source = CsvFile(path=file, delimiter=likeliest_delimiter(source.lines().header) or source.delimiter)
        return source.batches((), source.column_names())
    assert isinstance(source, ColumnarFile), "there is no other kind of file"
    return source.batches((), tuple(source.schema_of(source.files()[0])))


def _gaps_in(column: "pl.Series") -> dict[str, int]:
    """Return the values of a column that seem to mean a gap, and how often each is there."""
    import polars as pl

    from party.tables.spelling.canonical import canonical, of_number

    if not (column.dtype.is_numeric() or column.dtype in (pl.String, pl.Null)):
        return {"": column.null_count()}
    found = Counter[str]()
    for value, times in column.value_counts().iter_rows():
        text = "" if value is None else of_number(value) if isinstance(value, float) else str(value)
        if canonical(text).lower() in _MEAN_A_GAP:
            found[text] += times
    return found
