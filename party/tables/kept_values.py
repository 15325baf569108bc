"""Keeps a table's values while jobs use them: in memory, or, where they are too many, in a file without a name.

So it does with the shares of rows that an analysis returns to.
"""

import math
import mmap
import os
import tempfile
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from party.tables.sources.source import SourceError

Block = NDArray[np.float64]

NO_PLACE = "its values take more memory than table_memory_mib allows, and data_dir has no place for them"


class KeptValues:
    """Collects rows, block by block.

    The file has no name, so nobody can open it, and the system frees its place when the last job lets go of the values,
    or when the process ends, however that happens. It is no safer than the disk that it is on.

    Args:
        n_columns: columns of each row.
        most_bytes: bytes that may be in memory; more go to the file.
        folder: where the file is stored.
    """

    def __init__(self, n_columns: int, most_bytes: int, folder: Path) -> None:
        self._n_columns, self._folder = n_columns, folder
        # One array, of which the system gives only pages that are written: rows that were collected one block after the
        # other would take twice their memory while they are made one.
        self._held: Block | None = np.empty((most_bytes // max(1, 8 * n_columns), n_columns))
        self._file: IO[bytes] | None = None
        self.n_rows = 0

    def append(self, block: Block) -> None:
        """Add rows, shape (rows, n_columns).

        Raises:
            SourceError: the file cannot be written.
        """
        before, self.n_rows = self.n_rows, self.n_rows + len(block)
        if self._held is not None and self.n_rows <= len(self._held):
            self._held[before : self.n_rows] = block
            return
        try:
            if self._held is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115, it stays open
                self._file.write(self._held[:before].data)
                self._held = None
            assert self._file is not None, "what is not held in memory is in the file"
            self._file.write(np.ascontiguousarray(block).data)
        except OSError:
            raise SourceError(NO_PLACE) from None

    def finish(self) -> Block:
        """Return all rows, shape (rows, n_columns), read-only; nothing can be added any more.

        Raises:
            SourceError: the file cannot be written.
        """
        if self._file is not None:
            return self._mapped(self._file)
        assert self._held is not None, "what is not in the file is held in memory"
        values = self._held[: self.n_rows]
        values.setflags(write=False)
        return values

    def _mapped(self, file: IO[bytes]) -> Block:
        try:
            file.flush()
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError:
            raise SourceError(NO_PLACE) from None
        file.close()  # the mapping holds the file
        return np.ndarray((self.n_rows, self._n_columns), buffer=pages)


def kept_words(shape: tuple[int, ...], most_bytes: int, folder: Path) -> NDArray[np.uint64]:
    """Return an array to write to, in memory or, where it is larger than that, in such a file.

    Args:
        shape: shape of the array.
        most_bytes: bytes that may be in memory.
        folder: where the file is stored.

    Raises:
        SourceError: the folder has no place for it.
    """
    n_bytes = 8 * math.prod(shape)
    if n_bytes <= most_bytes:
        return np.empty(shape, np.uint64)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:  # the mapping holds the file
            os.posix_fallocate(file.fileno(), 0, n_bytes)  # a page without a place would end the process later
            pages = mmap.mmap(file.fileno(), n_bytes)
    except OSError:
        raise SourceError(NO_PLACE) from None
    return np.ndarray(shape, np.uint64, buffer=pages)
