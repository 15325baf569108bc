"""The position of the ledger, kept in a separate file: a counter that only increases.

A ledger that was truncated or restored from an old copy is consistent in itself, but it lacks the entry that this file
names. The file helps as far as it is not put back together with the ledger: keep it on another disk, out of the backup
(`ledger.counter` of party.toml), or note the head that `moiety budget show` prints somewhere else.

The file has two slots, written in turn and each with a checksum: a crash in the middle of a write leaves the other one.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ledger.entry import LedgerDamagedError, LedgerError

_SLOT_OFFSETS = (0, 4096)  # on pages, thus sectors, of their own
_MARK = "moiety-ledger-counter-1"
_SLOT_BYTES = len(f"{_MARK} {0:020d} {'':64} {'':16}\n")


@dataclass(frozen=True, order=True)
class Head:
    """The head of a ledger: the number of its last entry and the chain's digest; 0 and the genesis if it is empty."""

    sequence: int
    digest: str

    def __str__(self) -> str:
        return f"{self.sequence}:{self.digest}"

    @property
    def counted(self) -> str:
        """The number of entries, for people."""
        return f"{self.sequence} {'entry' if self.sequence == 1 else 'entries'}"


class LedgerCounter:
    """The counter file. Several processes may use it; one object, from one thread at a time.

    Args:
        path: path of the file; created, readable by its owner only, where absent.

    Raises:
        LedgerError: it cannot be opened for writing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LedgerError(f"the ledger's counter {path} cannot be opened: {error.strerror}") from error

    def close(self) -> None:
        """Release the file; again changes nothing."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def read(self) -> Head | None:
        """Return the furthest head that was recorded; None where nothing was yet.

        Raises:
            LedgerDamagedError: the file holds something, but no valid record.
        """
        heads = [head for head in map(self._read_slot, _SLOT_OFFSETS) if head is not None]
        if heads:
            return max(heads)
        if os.fstat(self._handle).st_size:
            raise LedgerDamagedError(f"the ledger's counter {self.path} cannot be read: it was edited or truncated")
        return None

    def advance(self, head: Head) -> None:
        """Record a head, durably, unless a later one is recorded already.

        Raises:
            LedgerError: it cannot be written.
        """
        try:
            with self._locked():
                seen = self.read()
                if seen is None or seen.sequence < head.sequence:
                    self._write(head)
        except OSError as error:
            raise LedgerError(f"the ledger's counter {self.path} cannot be written: {error.strerror}") from error

    def overwrite(self, head: Head) -> None:
        """Record a head regardless of earlier ones: the owner accepted the ledger as it is.

        Raises:
            LedgerError: it cannot be written.
        """
        try:
            with self._locked():
                os.ftruncate(self._handle, 0)
                self._write(head)
        except OSError as error:
            raise LedgerError(f"the ledger's counter {self.path} cannot be written: {error.strerror}") from error

    def _write(self, head: Head) -> None:
        is_new = os.fstat(self._handle).st_size == 0
        oldest_first = sorted(_SLOT_OFFSETS, key=lambda offset: (self._read_slot(offset) or Head(-1, "")).sequence)
        text = f"{_MARK} {head.sequence:020d} {head.digest}"
        os.pwrite(self._handle, f"{text} {_checksum(text)}\n".encode(), oldest_first[0])
        os.fdatasync(self._handle)
        if is_new:
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _read_slot(self, offset: int) -> Head | None:
        raw = os.pread(self._handle, _SLOT_BYTES, offset)
        try:
            text, checksum = raw.decode("ascii").rstrip("\n").rsplit(" ", 1)
            mark, sequence, digest = text.split(" ")
        except ValueError:
            return None
        if mark != _MARK or checksum != _checksum(text):
            return None
        return Head(int(sequence), digest)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
