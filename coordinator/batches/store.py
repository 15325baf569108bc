"""What a store of batches does: it keeps questions and the sealed answers to them.

What a call writes is durable when it returns. The key of an answer is the name in the certificate of who gave it, so
there is one of each device; the first stands. Nothing here can be opened without the keys of all parties. When a batch
has ended its answers are emptied; only their hashes stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from coordinator.surveys.store import Outcome
from service.errors import ServiceError


class BatchesUnusableError(ServiceError):
    """The store cannot be used."""

    code = "batches-unusable"


@dataclass(frozen=True)
class GivenAnswer:
    """An answer as a device gave it.

    Attributes:
        batch: number of the batch.
        name: in the device's certificate.
        body: sealed.
    """

    batch: int
    name: str
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class StoredBatch:
    """A batch and how it stands.

    Attributes:
        number: 1 and up, in the order of asking.
        batch_id: its identifier.
        analyst: who asks.
        text: of the question, canonical.
        keys: of the parties, as `transport.batch_codec.encode_keys`.
        most_answers: no more are taken.
        n_answers: so many were.
        is_closed: whether no answer is taken any more.
        result_json: once it is known.
        failure: why there is no result; public.
    """

    number: int
    batch_id: bytes
    analyst: str
    text: str
    keys: bytes = field(repr=False)
    most_answers: int = 0
    n_answers: int = 0
    is_closed: bool = False
    result_json: str = ""
    failure: str = ""


class BatchesStore(Protocol):
    """May be called from several threads.

    Raises:
        BatchesUnusableError: in every call: the store cannot be used. What was to be written is not, or is taken for
            repeated when it comes again.
    """

    def close(self) -> None:
        """Release what it holds."""

    def add(self, batch_id: bytes, analyst: str, text: str, keys: bytes, most_answers: int) -> StoredBatch:
        """Write a batch that is asked from now on."""

    def unended(self) -> list[StoredBatch]:
        """Return the batches without a result or a failure, the oldest first."""

    def find(self, batch_id: bytes) -> StoredBatch | None:
        """Return a batch; None where there is none."""

    def take(self, given: Sequence[GivenAnswer], /) -> list[Outcome]:
        """Write answers in one transaction; return what became of each, in their order."""

    def has_answered(self, batch: int, name: str) -> bool:
        """Say whether there is an answer of a device."""

    def answers(self, batch: int, after: str, most_rows: int) -> list[tuple[str, bytes]]:
        """Return names and bodies of the next answers after a name, by name (as Unicode orders them)."""

    def names(self, batch: int) -> list[str]:
        """Return the names of all that have answered, in the order of `answers`."""

    def close_batch(self, batch: int) -> StoredBatch:
        """Take no answer from now on; return how the batch stands."""

    def end(self, batch: int, *, result_json: str = "", failure: str = "") -> None:
        """Write the result of a closed batch, or why there is none, and empty its answers."""
