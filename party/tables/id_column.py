"""The ids of a table's rows, batch by batch: one digest of all in their order, and whether they differ.

Of each row 8 bytes are kept, whatever the length of its id: a keyed hash. Where two rows have the same, their ids are
looked at in a second reading of the source, which hardly any table without a repeated id needs: of 10^7 rows one in
370,000. The key is new in each reading.
"""

from array import array

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.row_ids import IdsDigest
from entropy import SystemEntropy
from party.tables.filters import Mask
from party.tables.sources.file import CHANGED
from party.tables.sources.source import SourceError, TableSource
from party.tables.spelling.ids import as_written


class IdColumn:
    """Collects the ids of a table whose rows are not matched.

    What is wrong with them is not told before `check`: so it comes after what is wrong with values.

    Args:
        name: name of the column.
        source: source of the table, for the second reading.
    """

    def __init__(self, name: str, source: TableSource) -> None:
        self.name = name
        self._source = source
        self._version = source.version()
        self._seed = int.from_bytes(SystemEntropy().read(8), "big")
        self._hashes = array("Q")  # it grows in place
        self._digest = IdsDigest()
        self._is_text = True
        self._has_empty = False

    def add(self, ids: pl.Series, passes: Mask | None) -> None:
        """Take the ids of some rows.

        Args:
            ids: ids as the source has them.
            passes: which of them pass the job's filter, shape (rows,); None where all do.
        """
        self._is_text = self._is_text and is_text(ids)
        if not self._is_text:
            return
        ids = as_written(ids.cast(pl.String))
        self._has_empty = self._has_empty or has_empty(ids)
        if self._has_empty:
            return
        self._hashes.frombytes(hashes_of(ids, self._seed).tobytes())
        if passes is not None:
            ids = ids.filter(pl.Series(passes))
        if len(ids):
            self._digest.add_joined(ids.str.join("").item().encode(), ids.str.len_bytes().to_numpy())

    def check(self) -> None:
        """Check the ids of all rows, whether they pass or not. Nothing can be added afterwards.

        Raises:
            SourceError: they are neither text nor whole numbers, one is empty, two are the same; or the source had to
                be read again, and cannot be, or was changed meanwhile.
        """
        if not self._is_text:
            raise SourceError(f"id column {self.name!r} holds neither text nor whole numbers")
        if self._has_empty:
            raise SourceError(f"id column {self.name!r} has an empty value")
        hashes = np.frombuffer(self._hashes, dtype=np.uint64)
        hashes.sort()
        repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        if len(repeated) and self._is_repeated(repeated):
            raise SourceError(f"id column {self.name!r} names a row twice")

    @property
    def n_bytes(self) -> int:
        """Bytes that are kept of all rows so far."""
        return len(self._hashes) * self._hashes.itemsize

    def digest(self) -> bytes:
        """Return `digest_of_ids` of the rows that pass."""
        return self._digest.digest()

    def _is_repeated(self, hashes: NDArray[np.uint64]) -> bool:
        """Return whether two rows have the same id, given the hashes that two rows have."""
        if self._version is None:  # a second reading may find other rows
            return True
        seen: set[str] = set()
        for batch in self._source.batches((), (self.name,)):
            ids = as_written(batch[self.name].cast(pl.String))
            for one in ids.filter(pl.Series(np.isin(hashes_of(ids, self._seed), hashes))):
                if one in seen:
                    return True
                seen.add(one)
        if self._source.version() != self._version:
            raise SourceError(CHANGED)
        return False


def hashes_of(ids: pl.Series, seed: int) -> NDArray[np.uint64]:
    """Return a keyed hash of each id, shape (rows,); equal ids have equal ones."""
    return ids.hash(seed).to_numpy()


def is_text(column: pl.Series) -> bool:
    """Return whether a column can name rows or persons: it holds text or whole numbers."""
    return column.dtype.is_integer() or column.dtype == pl.String


def has_empty(column: pl.Series) -> bool:
    """Return whether a value of a column of text is missing or empty."""
    return column.has_nulls() or bool((column == "").any())
