"""Parts of a joint table that a member's workers share and multiply among themselves: the partition, and the seam.

A *shard* is a range of rows. The workers of a member are processes of its owner, on one host or on several. For each
shard one worker of every member works, and they talk to each other alone: they agree on keys of their own, deal the
rows of the shard, multiply, and each returns to its own member a share of the shard's part of X^T X. Shares of one
degree add up locally, so a member adds what its workers return; that, noise and opening, stays with the member.

A shard whose worker was lost is done again, as another *attempt*. Everything in an attempt is bound to (job, shard,
attempt): the name of its session, the binding that is part of every key (`mpc.protocol.greeting`), and ephemeral keys
that each worker draws anew. So no two attempts draw from one key stream, and what was dealt in one is of no use in
another.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mpc.arithmetic.words import Words
from mpc.errors import ProtocolError
from mpc.transcript import encode_fields

LEAST_SHARD_ROWS = 1 << 14
"""Rows of a table for each worker from which on workers are worth their keys and connections."""

MAX_SHARD_BLOCKS = 1 << 10
"""Largest number of blocks of a shard: what is done again where its worker is lost."""


@dataclass(frozen=True)
class Shard:
    """Some rows of a joint table.

    Attributes:
        number: 0, 1, 2 ... in the order of the rows.
        start, stop: the rows, as of a slice.
    """

    number: int
    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return self.stop - self.start


def shards_of(n_rows: int, n_lanes: int, height: int) -> tuple[Shard, ...]:
    """Return the partition of a joint table, the same at all members; empty where workers are not worth it.

    Args:
        n_rows: rows of the joint table.
        n_lanes: shards that are worked on at the same time: workers of the member that has fewest; 0 without workers.
        height: rows of a block; a shard has whole blocks, but for the last one.

    Returns:
        A multiple of `n_lanes` shards, as long as there are so many blocks, in the order of their rows.
    """
    if n_lanes < 1 or n_rows < n_lanes * LEAST_SHARD_ROWS:
        return ()
    n_blocks = -(-n_rows // height)
    n_shards = min(n_blocks, n_lanes * -(-n_blocks // (n_lanes * MAX_SHARD_BLOCKS)))
    ends = [min(n_rows, height * (n_blocks * number // n_shards)) for number in range(n_shards + 1)]
    return tuple(Shard(number, ends[number], ends[number + 1]) for number in range(n_shards))


@dataclass(frozen=True)
class Attempt:
    """One attempt at one shard of one job, and what its keys are bound to. Public among the members.

    Attributes:
        job_id: id of the job.
        binding: binding of the job, 32 bytes (`mpc.protocol.greeting.binding_of`).
        shard: which.
        number: 0 at first; each repetition counts one up.
    """

    job_id: str
    binding: bytes = field(repr=False)
    shard: Shard
    number: int

    @property
    def terms(self) -> bytes:
        """What the workers of one attempt must have in common besides their names: 32 bytes."""
        shard = self.shard
        what = encode_fields(self.job_id, self.binding, shard.number, shard.start, shard.stop, self.number)
        return hashlib.sha256(encode_fields("moiety shard terms", what)).digest()

    @property
    def session_id(self) -> str:
        """The name of the workers' session: that of no job and of no other attempt, but by a collision of SHA-256."""
        return f"shard-{self.shard.number}-{self.number}-{self.terms.hex()[:32]}"


@dataclass(frozen=True)
class ShardSum:
    """What a worker returns to its own member.

    Attributes:
        share: share of the shard's part of the upper triangle of X^T X, degree 2t, shape (n_words, entries); None where
            the member holds no shares. Secret.
        counts: what the worker counted of its owner's rows. Private to the owner.
    """

    share: Words | None = field(repr=False)
    counts: Mapping[str, Any] = field(default_factory=dict, repr=False)


class WorkerLostError(ProtocolError):
    """A worker of mine has ended, or cannot be had; another one may do its work. The text is public."""

    code = "worker-lost"


class ShardRun(Protocol):
    """One attempt at one shard, at one of my workers."""

    async def prepare(self) -> str:
        """Let a worker expect the messages of the attempt; return the address where it does so, `host:port`.

        Raises:
            WorkerLostError: no worker can be had.
        """

    async def work(self, addresses: Mapping[int, str]) -> ShardSum:
        """Let it work.

        Args:
            addresses: member number to where the worker of that member expects messages; of all others.

        Raises:
            WorkerLostError: the worker is lost.
            PeerError: a worker of another member is lost, silent or violates the protocol.
        """

    async def abandon(self) -> None:
        """Let the worker forget the attempt, whatever it is doing. Never raises."""


class RowWorkers(Protocol):
    """The workers of a member in one job."""

    @property
    def n_lanes(self) -> int:
        """How many shards are worked on at the same time, alike at all members."""

    def run_of(self, lane: int, attempt: Attempt, counting: NDArray[np.bool_] | None) -> ShardRun:
        """Return a run of an attempt.

        Args:
            lane: 0 .. n_lanes - 1; in one lane one attempt follows the other.
            attempt: which.
            counting: which rows of the shard count, shape (rows,); None where all do. Private.
        """
