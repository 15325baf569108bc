"""What the tables that are stored in a file have in common."""

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

from party.tables.sources.source import SourceError, TableSource
from service.settings import FilePath

UNREADABLE = "its file is missing or unreadable"
CHANGED = "its file was changed while it was read"
NAMES_UNREADABLE = "the names of its columns cannot be read"


DELTA_LOG = "_delta_log"
"""Folder that says which files of a folder are a table of Delta Lake."""


class TableFile(TableSource):
    """A table in one file.

    Attributes:
        path: path of the file; no part of it is a pattern.
    """

    path: FilePath

    def is_there(self) -> bool:
        """See `TableSource`."""
        return leads_somewhere(self.path)

    def version(self) -> Hashable:
        """See `TableSource`."""
        return fingerprint(self.path)

    def data(self) -> frozenset[str]:
        """See `TableSource`."""
        return data_of_file(self.path)


def fingerprint(path: Path) -> tuple[int, int, int]:
    """Return what changes when a file is changed or replaced.

    Raises:
        SourceError: it cannot be found.
    """
    status = _status(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


def data_of_file(path: Path) -> frozenset[str]:
    """Return names of a file that are the same for every path to it: what it is after all links, and its inode.

    Raises:
        SourceError: it cannot be found.
    """
    try:
        names = [str(path.resolve())]
    except (OSError, ValueError, RuntimeError):  # the last one where links lead in a circle
        raise SourceError(UNREADABLE) from None
    with contextlib.suppress(SourceError):
        status = _status(path)
        names.append(f"inode {status.st_dev}:{status.st_ino}")
    return frozenset(names)


def check_no_lake(files: Sequence[Path]) -> None:
    """Refuse files of a lake as files that follow each other: some hold rows that its log has changed or taken away.

    Raises:
        SourceError: says which lake.
    """
    for folder in sorted({folder for file in files for folder in file.absolute().parents}):
        if leads_somewhere(folder / DELTA_LOG):
            raise SourceError('its folder is of a table of Delta Lake, which kind = "delta" reads')
        if any((folder / "metadata").glob("*.metadata.json")):
            raise SourceError("its folder is of an Iceberg table, of which not every file is a part: export the table")


def leads_somewhere(path: Path) -> bool:
    """Return whether a path leads to something; not where it is too long or we may not look there."""
    try:
        _status(path)
    except SourceError:
        return False
    return True


def check_regular(path: Path) -> None:
    """Refuse what is no file of bytes that end: a folder, a pipe, a device. To open a pipe may take for ever.

    Raises:
        SourceError: it is none, or cannot be found.
    """
    if not stat.S_ISREG(_status(path).st_mode):
        raise SourceError("it is not a regular file")


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except (OSError, ValueError):  # a path may have a zero byte in it
        raise SourceError(UNREADABLE) from None


def check_names(present: Sequence[str], wanted: Iterable[str]) -> None:
    """Refuse a file in which a wanted column is missing or stands twice.

    Raises:
        SourceError: it is so.
    """
    times = Counter(present)
    for name in wanted:
        if not times[name]:
            raise SourceError(f"column {name!r} is missing in its file")
        if times[name] > 1:
            raise SourceError(f"column {name!r} appears more than once in its file")
