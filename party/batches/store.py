"""A party's lasting memory of batches, and of who led last (`service.trust.terms.KeptTerms`).

It holds the party's key for each batch, and, once a batch is closed, what the party has let out of it. A place is
tentative at first: it ends by itself after a short time, unless all parties have agreed to the batch (`keep`).

One SQLite file; each step is on disk when its call returns (write-ahead log, synchronous = FULL). A batch is open while
its key is there. The first list of answers that it is shown is the only one that it ever goes on with. It is closed by
one transaction that writes the cohort and the share of the sum and destroys the key, before the share leaves. So at
most one share of a batch ever leaves, of one cohort, with one noise, however often the party is stopped or asked: a
second cohort can neither be recorded nor be opened.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from questions.shares_agreement import ShownList
from service.database.database import Run, Tables
from service.database.sqlite import SqliteDatabase
from service.errors import ServiceError

MOST_CALLED_OFF = 1024
"""Batches that were called off of which a row is kept."""

_COLUMNS = "private, public, certificate, signature, list_digest, openable, n_answers, cohort, share, rejected, numbers"


class BatchStoreError(ServiceError):
    """The store of batches cannot be used. No share leaves."""

    code = "batch-store-unusable"


_PROOFS = """\
CREATE TABLE proofs (
    digest BYTEA PRIMARY KEY,
    coin BYTEA NOT NULL,
    rejected BYTEA
) /*STRICT, WITHOUT ROWID*/"""

_OPENERS = """\
CREATE TABLE openers (
    digest BYTEA PRIMARY KEY,
    numbers BYTEA NOT NULL
) /*STRICT, WITHOUT ROWID*/"""

_TABLES = Tables(
    what="the store of batches",
    failure=BatchStoreError,
    version=3,
    schema=f"""\
{_PROOFS};
{_OPENERS};
CREATE TABLE batches (
    digest BYTEA PRIMARY KEY,
    private BYTEA,
    public BYTEA NOT NULL,
    certificate BYTEA NOT NULL,
    signature BYTEA NOT NULL,
    forget_at_s DOUBLE PRECISION NOT NULL,
    list_digest BYTEA,
    openable BYTEA,
    n_answers INTEGER,
    cohort BYTEA,
    share BYTEA
) /*STRICT, WITHOUT ROWID*/;
CREATE TABLE places (
    digest BYTEA PRIMARY KEY,
    analyst TEXT NOT NULL,
    question TEXT NOT NULL,
    is_kept INTEGER NOT NULL
) /*STRICT, WITHOUT ROWID*/;
CREATE TABLE terms (coordinator TEXT PRIMARY KEY, term INTEGER NOT NULL) /*STRICT*/""",
    upgrades={1: _PROOFS, 2: _OPENERS},
)


@dataclass(frozen=True)
class ClosedBatch:
    """What was decided when a batch was closed.

    Attributes:
        cohort: per answer, whether it is in the sum.
        share: share of the sum, packed, with this party's noise. Secret but for the coordinator.
        rejected: per answer, whether its proof was rejected; None where devices prove nothing.
        openers: numbers of the parties that open; none for all, where nobody may be missing.
    """

    cohort: NDArray[np.bool_] = field(repr=False)
    share: bytes = field(repr=False)
    rejected: NDArray[np.bool_] | None = field(default=None, repr=False)
    openers: tuple[int, ...] = ()


@dataclass(frozen=True)
class KeptBatch:
    """A batch that this party has agreed to.

    Attributes:
        private: private part of its X25519 key; None once the batch is closed or called off. Secret.
        public: the public half.
        certificate, signature: with which the party vouches for its key.
        shown: the answers that the coordinator has shown; None before the first time.
        closed: None while the batch is open.
    """

    private: bytes | None = field(repr=False)
    public: bytes
    certificate: bytes
    signature: bytes
    shown: ShownList | None = None
    closed: ClosedBatch | None = None


@dataclass(frozen=True)
class OpenPlace:
    """What takes up a place here.

    Attributes:
        digest: digest of the question.
        analyst: who asks, as the coordinator says; empty for a batch of an earlier version of the program.
        question: its canonical text; likewise.
        is_kept: whether all parties have agreed to it.
        forget_at_s: Unix time after which it is forgotten, with its key.
    """

    digest: bytes
    analyst: str
    question: str
    is_kept: bool
    forget_at_s: float


class BatchStore:
    """May be called from several threads.

    Args:
        path: path of the file; created, readable by its owner only, where absent.

    Raises:
        BatchStoreError: here and in every call: the file cannot be used. What was to be written is not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = SqliteDatabase(path, _TABLES, alone=False, patience_s=5.0)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def find(self, digest: bytes) -> KeptBatch | None:
        """Return a batch; None where this party has not agreed to it, or has forgotten it."""
        joined = "batches LEFT JOIN proofs USING (digest) LEFT JOIN openers USING (digest)"
        query = f"SELECT {_COLUMNS} FROM {joined} WHERE digest = %s"  # noqa: S608  # no text from outside
        rows = self._db.read(query, digest)
        if not rows:
            return None
        private, public, certificate, signature, list_digest, openable, n, cohort, share, rejected, numbers = rows[0]
        shown = None if list_digest is None else ShownList(list_digest, _bits(openable, n))
        of_proofs = None if rejected is None else _bits(rejected, n)
        closed = None if share is None else ClosedBatch(_bits(cohort, n), share, of_proofs, tuple(numbers or b""))
        return KeptBatch(private, public, certificate, signature, shown, closed)

    def add(
        self, digest: bytes, batch: KeptBatch, forget_at_s: float, *, analyst: str = "", question: str = ""
    ) -> KeptBatch:
        """Write a batch with a tentative place; return it as it stands, as it was where it was added before.

        Args:
            digest: digest of the question.
            batch: open.
            forget_at_s: Unix time after which the batch is forgotten, with its key, if it is not kept.
            analyst: who asks.
            question: canonical text.
        """
        with self._db.transaction() as run:
            run(
                "INSERT INTO places SELECT %s, %s, %s, 0 WHERE NOT EXISTS (SELECT 1 FROM batches WHERE digest = %s)",
                *(digest, analyst, question, digest),
            )
            run(
                "INSERT INTO batches (digest, private, public, certificate, signature, forget_at_s)"
                " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                *(digest, batch.private, batch.public, batch.certificate, batch.signature, forget_at_s),
            )
        found = self.find(digest)
        assert found is not None
        return found

    def keep(self, digest: bytes, forget_at_s: float) -> bool:
        """Keep an open batch until later; return whether there was one."""
        with self._db.transaction() as run:
            query = "UPDATE batches SET forget_at_s = max(forget_at_s, %s) WHERE digest = %s AND private IS NOT NULL"
            is_open: bool = run(query, forget_at_s, digest).rowcount == 1
            run("UPDATE places SET is_kept = 1 WHERE digest = %s", digest)
        return is_open

    def call_off(self, digest: bytes) -> bool:
        """Destroy the key of an open batch; return whether there was one.

        Of one that was kept a row without a key stays, so that it is never opened again under another key.
        """
        with self._db.transaction() as run:
            query = "DELETE FROM batches WHERE digest IN (SELECT digest FROM places WHERE digest = %s AND NOT is_kept)"
            was_open: bool = run(query, digest).rowcount == 1
            query = "UPDATE batches SET private = NULL WHERE digest = %s AND private IS NOT NULL"
            was_open |= run(query, digest).rowcount == 1
            query = "SELECT digest FROM batches WHERE private IS NULL AND share IS NULL ORDER BY forget_at_s DESC"
            run(f"DELETE FROM batches WHERE digest IN ({query} LIMIT -1 OFFSET {MOST_CALLED_OFF})")  # noqa: S608
            _tidy(run)
        if was_open:
            self._db.erase_log()
        return was_open

    def open_places(self) -> list[OpenPlace]:
        """Return what takes up places, the first to be forgotten first."""
        query = (
            "SELECT digest, coalesce(analyst, ''), coalesce(question, ''), coalesce(is_kept, 1), forget_at_s"
            " FROM batches LEFT JOIN places USING (digest) WHERE private IS NOT NULL ORDER BY forget_at_s, digest"
        )
        rows = self._db.read(query)
        return [OpenPlace(digest, who, text, bool(is_kept), at_s) for digest, who, text, is_kept, at_s in rows]

    def note_shown(self, digest: bytes, shown: ShownList) -> None:
        """Write which answers the coordinator has shown, and what of them this party could open. It stays so.

        Raises:
            BatchStoreError: another list was shown before, or the batch is not open.
        """
        row = (shown.digest, _packed(shown.openable), len(shown.openable))
        with self._db.transaction() as run:
            changed = run(
                "UPDATE batches SET list_digest = %s, openable = %s, n_answers = %s"
                " WHERE digest = %s AND private IS NOT NULL AND list_digest IS NULL",
                *(*row, digest),
            )
            if changed.rowcount != 1:
                raise BatchStoreError(f"{self._path}: the answers of a batch are noted once, while it is open")

    def note_coin(self, digest: bytes, coin: bytes) -> bytes:
        """Write the coin under which the proofs of an open batch are judged, unless one was written; return the first.

        Raises:
            BatchStoreError: the batch is not open.
        """
        with self._db.transaction() as run:
            if run("SELECT 1 FROM batches WHERE digest = %s AND private IS NOT NULL", digest).fetchone() is None:
                raise BatchStoreError(f"{self._path}: proofs are judged while the batch is open")
            run("INSERT INTO proofs (digest, coin) VALUES (%s, %s) ON CONFLICT DO NOTHING", digest, coin)
            (found,) = run("SELECT coin FROM proofs WHERE digest = %s", digest).fetchone()
        return bytes(found)

    def noted_coin(self, digest: bytes) -> bytes | None:
        """Return the coin that was noted for an open batch; None before."""
        rows = self._db.read("SELECT coin FROM proofs WHERE digest = %s", digest)
        return bytes(rows[0][0]) if rows else None

    def close_batch(self, digest: bytes, closed: ClosedBatch) -> None:
        """Close a batch and destroy its key. Only when this has returned, the share may leave.

        Raises:
            BatchStoreError: the batch is not open, or no answers were noted.
        """
        with self._db.transaction() as run:
            changed = run(
                "UPDATE batches SET private = NULL, cohort = %s, share = %s"
                " WHERE digest = %s AND private IS NOT NULL AND share IS NULL AND n_answers = %s",
                *(_packed(closed.cohort), closed.share, digest, len(closed.cohort)),
            )
            if changed.rowcount != 1:
                raise BatchStoreError(f"{self._path}: a batch is closed once, while it is open")
            if closed.rejected is not None:
                query = "INSERT INTO proofs VALUES (%s, %s, %s) ON CONFLICT (digest)"
                run(query + " DO UPDATE SET rejected = excluded.rejected", digest, b"", _packed(closed.rejected))
            if closed.openers:
                run("INSERT INTO openers VALUES (%s, %s)", digest, bytes(closed.openers))
            _tidy(run)
        self._db.erase_log()

    def terms(self) -> dict[str, int]:
        """Return the last term of each coordinator, by the URI of its identity."""
        return dict(self._db.read("SELECT coordinator, term FROM terms"))

    def note_term(self, coordinator: str, term: int) -> None:
        """Write the last term of a coordinator."""
        query = "INSERT INTO terms VALUES (%s, %s) ON CONFLICT (coordinator) DO UPDATE SET term = excluded.term"
        self._db.write(lambda run: run(query, coordinator, term))

    def forget(self, now_s: float) -> int:
        """Forget the open batches whose time is over; return how many there are still."""
        with self._db.transaction() as run:
            run("DELETE FROM batches WHERE share IS NULL AND forget_at_s < %s", now_s)
            _tidy(run)
            (n,) = run("SELECT COUNT(*) FROM batches WHERE private IS NOT NULL").fetchone()
        return int(n)


def _tidy(run: Run) -> None:
    """Delete the places of batches that are not open, and what else is kept of those that are forgotten."""
    run("DELETE FROM proofs WHERE NOT EXISTS (SELECT 1 FROM batches WHERE batches.digest = proofs.digest)")
    run("DELETE FROM openers WHERE NOT EXISTS (SELECT 1 FROM batches WHERE batches.digest = openers.digest)")
    query = "SELECT 1 FROM batches WHERE batches.digest = places.digest AND private IS NOT NULL"
    run(f"DELETE FROM places WHERE NOT EXISTS ({query})")  # noqa: S608  # no text from outside


def _packed(bits: NDArray[np.bool_]) -> bytes:
    return np.packbits(bits).tobytes()


def _bits(data: bytes, n: int) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=n).astype(np.bool_)
