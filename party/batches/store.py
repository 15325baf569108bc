"""A party's lasting memory of batches: its key for each, and, once a batch is closed, what it has let out of it.

One SQLite file; each step is on disk when its call returns (write-ahead log, synchronous = FULL). A batch is open while
its key is there. The first list of answers that it is shown is the only one that it ever goes on with. It is closed by
one transaction that writes the cohort and the share of the sum and destroys the key, before the share leaves. So at
most one share of a batch ever leaves, of one cohort, with one noise, however often the party is stopped or asked: a
second cohort can neither be recorded nor be opened.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyses.sums.batch.agreement import ShownList
from service.errors import ServiceError
from service.files.sqlite import SqliteFile

_SCHEMA = """
CREATE TABLE IF NOT EXISTS batches (
    digest BLOB PRIMARY KEY,
    private BLOB,
    public BLOB NOT NULL,
    certificate BLOB NOT NULL,
    signature BLOB NOT NULL,
    forget_at_s REAL NOT NULL,
    list_digest BLOB,
    openable BLOB,
    n_answers INTEGER,
    cohort BLOB,
    share BLOB
) STRICT, WITHOUT ROWID
"""

_COLUMNS = "private, public, certificate, signature, list_digest, openable, n_answers, cohort, share"


class BatchStoreError(ServiceError):
    """The store of batches cannot be used. No share leaves."""

    code = "batch-store-unusable"


@dataclass(frozen=True)
class ClosedBatch:
    """What was decided when a batch was closed.

    Attributes:
        cohort: per answer, whether it is in the sum.
        share: of the sum, packed, with this party's noise. Secret but for the coordinator.
    """

    cohort: NDArray[np.bool_] = field(repr=False)
    share: bytes = field(repr=False)


@dataclass(frozen=True)
class KeptBatch:
    """A batch that this party has agreed to.

    Attributes:
        private: of its X25519 key; None once the batch is closed. Secret.
        public: the public half.
        certificate, signature: with which the party vouches for it.
        shown: the answers that the coordinator has shown; None before the first time.
        closed: None while the batch is open.
    """

    private: bytes | None = field(repr=False)
    public: bytes
    certificate: bytes
    signature: bytes
    shown: ShownList | None = None
    closed: ClosedBatch | None = None


class BatchStore(SqliteFile):
    """May be called from several threads.

    Args:
        path: of the file; made, readable by its owner only, where absent.

    Raises:
        BatchStoreError: here and in every call: the file cannot be used. What was to be written is not.
    """

    what = "the batches"
    failure = BatchStoreError
    pragmas = ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON")
    busy_s = 5.0

    def _make_tables(self) -> None:
        self._db.execute(_SCHEMA)

    def find(self, digest: bytes) -> KeptBatch | None:
        """Return a batch; None where this party has not agreed to it, or has forgotten it."""
        with self._reading() as db:
            query = f"SELECT {_COLUMNS} FROM batches WHERE digest = ?"  # noqa: S608  # no text from outside
            row = db.execute(query, (digest,)).fetchone()
        if row is None:
            return None
        private, public, certificate, signature, list_digest, openable, n, cohort, share = row
        shown = None if list_digest is None else ShownList(list_digest, _bits(openable, n))
        closed = None if share is None else ClosedBatch(_bits(cohort, n), share)
        return KeptBatch(private, public, certificate, signature, shown, closed)

    def add(self, digest: bytes, batch: KeptBatch, forget_at_s: float) -> KeptBatch:
        """Write a batch that is agreed to; return it as it stands, which is as it was where it was added before.

        Args:
            digest: of the question.
            batch: open.
            forget_at_s: Unix time after which an open batch is forgotten, with its key.
        """
        row = (digest, batch.private, batch.public, batch.certificate, batch.signature, forget_at_s)
        with self._transaction():
            self._db.execute(
                "INSERT INTO batches (digest, private, public, certificate, signature, forget_at_s)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                row,
            )
        found = self.find(digest)
        assert found is not None
        return found

    def note_shown(self, digest: bytes, shown: ShownList) -> None:
        """Write which answers the coordinator has shown, and what of them this party could open. It stays so.

        Raises:
            BatchStoreError: another list was shown before, or the batch is not open.
        """
        row = (shown.digest, np.packbits(shown.openable).tobytes(), len(shown.openable))
        with self._transaction():
            changed = self._db.execute(
                "UPDATE batches SET list_digest = ?, openable = ?, n_answers = ?"
                " WHERE digest = ? AND private IS NOT NULL AND list_digest IS NULL",
                (*row, digest),
            )
            if changed.rowcount != 1:
                raise BatchStoreError(f"{self._path}: the answers of a batch are noted once, while it is open")

    def close_batch(self, digest: bytes, closed: ClosedBatch) -> None:
        """Close a batch and destroy its key. Only when this has returned, the share may leave.

        Raises:
            BatchStoreError: the batch is not open, or no answers were noted.
        """
        with self._transaction():
            changed = self._db.execute(
                "UPDATE batches SET private = NULL, cohort = ?, share = ?"
                " WHERE digest = ? AND private IS NOT NULL AND share IS NULL AND n_answers = ?",
                (np.packbits(closed.cohort).tobytes(), closed.share, digest, len(closed.cohort)),
            )
            if changed.rowcount != 1:
                raise BatchStoreError(f"{self._path}: a batch is closed once, while it is open")
        with self._reading() as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # where the key lies as well

    def forget(self, now_s: float) -> int:
        """Forget the open batches whose time is over; return how many there are still."""
        with self._transaction():
            self._db.execute("DELETE FROM batches WHERE share IS NULL AND forget_at_s < ?", (now_s,))
            (n,) = self._db.execute("SELECT COUNT(*) FROM batches WHERE share IS NULL").fetchone()
        return int(n)


def _bits(data: bytes, n: int) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=n).astype(np.bool_)
