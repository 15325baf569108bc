"""What the tables that lie in a file have in common."""

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

from party.tables.sources.source import SourceError, TableSource
from service.settings import FilePath

UNREADABLE = "its file is missing or unreadable"
CHANGED = "its file was changed while it was read"
NAMES_UNREADABLE = "the names of its columns cannot be read"


class TableFile(TableSource):
    """A table in one file.

    Attributes:
        path: of the file; no part of it is a pattern.
    """

    path: FilePath

    def is_there(self) -> bool:
        """See `TableSource`."""
        return self.path.exists()

    def version(self) -> Hashable:
        """See `TableSource`."""
        return fingerprint(self.path)


def fingerprint(path: Path) -> tuple[int, int, int]:
    """Return what changes when a file is changed or replaced.

    Raises:
        SourceError: it cannot be found.
    """
    try:
        status = path.stat()
    except OSError:
        raise SourceError(UNREADABLE) from None
    return status.st_ino, status.st_size, status.st_mtime_ns


def check_names(present: Sequence[str], wanted: Iterable[str]) -> None:
    """Refuse a file in which a wanted column is missing or stands twice.

    Raises:
        SourceError: it is so.
    """
    for name in wanted:
        if name not in present:
            raise SourceError(f"column {name!r} is missing in its file")
        if present.count(name) > 1:
            raise SourceError(f"column {name!r} appears more than once in its file")
