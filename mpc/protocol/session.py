"""The session of one member while it runs a job: numbered peers, ordered messages, a deadline.

Protocols are straight-line asynchronous code against this interface. `mpc.local.network` implements it in one process,
`transport.messages.session` over gRPC; a protocol cannot tell which.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy
from mpc.protocol.shards import RowWorkers

COORDINATOR = 0
"""The coordinator's member number. Shamir's abscissa 0 is the secret, so no party can have it."""

MAX_ARRAY_BYTES = 1 << 30
"""Largest size of one array; larger data are sent in blocks of rows."""

Array = NDArray[Any]
P = ParamSpec("P")
R = TypeVar("R")


R_co = TypeVar("R_co", covariant=True)


class Drawable(Protocol[P, R_co]):
    """Whatever draws noise; what it costs is not the matter of a protocol."""

    def draw(self, entropy: Entropy, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Draw a member's noise."""


class Session(Protocol):
    """One member's end of a job.

    Members are numbered: 0 is the coordinator, 1..N are the compute parties (their Shamir abscissas), N+1.. are
    input-only parties. Messages with one (sender, receiver, stage) arrive in the order in which they were sent; a
    message is one array of uint8 or uint64 whose shape the receiver states beforehand.
    """

    @property
    def job_id(self) -> str:
        """The job; every message and, by `binding`, every derived key belongs to it."""

    @property
    def binding(self) -> bytes:
        """Return the 32-byte hash of what all members must have in common; see `mpc.protocol.greeting`.

        Every key is bound to it.
        """

    @property
    def me(self) -> int:
        """My member number."""

    @property
    def names(self) -> Mapping[int, str]:
        """Member number to name, for messages to people."""

    @property
    def entropy(self) -> Entropy:
        """Where my randomness comes from."""

    @property
    def row_workers(self) -> RowWorkers | None:
        """My workers, who can share and multiply rows for me; None where I have none, or where a job needs none."""

    def kept_words(self, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """Return an array without values for words that are kept as long as the job runs.

        It is memory, or where a party would need too much of it (`party.gate`), a file.

        Raises:
            LocalFaultError: there is no place for it.
        """

    async def send(self, to: int, stage: str, message: Array) -> None:
        """Send one array. Returns when it may be overwritten, not when it has arrived.

        Raises:
            PeerLostError: the receiver cannot be reached.
            PeerSilentError: the receiver took nothing within the deadline. From then on it counts as dropped out.
        """

    async def receive(self, sender: int, stage: str, shape: tuple[int, ...], dtype: type = np.uint64) -> Array:
        """Return the next array of `stage` from `sender`: exactly of this shape and type.

        Raises:
            PeerSilentError: nothing came within the deadline. The array is still due: whoever can wait longer calls
                again. Whoever goes on without it must not receive from this sender in this stage again.
            PeerLostError: the sender went away.
            PeerViolationError: what came has another shape or type.
        """

    async def gather(
        self, senders: Sequence[int], stage: str, shape: tuple[int, ...], *, quorum: int
    ) -> dict[int, NDArray[np.uint64]]:
        """Return one array from each sender, or from those that answered if at least `quorum` did.

        A member that was silent although the others sufficed is ignored for the rest of this stage.

        Raises:
            PeerSilentError, PeerLostError: fewer than `quorum` answered; names one that did not.
        """

    async def compute(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run heavy arithmetic off the event loop."""

    async def draw(self, release: Drawable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Draw my noise for a release, off the event loop, from my entropy.

        Where a party has a gate (`party.gate`), this is the way to noise: it draws what the plan states, no more often
        than stated, and opens for nothing that should have noise before it was drawn.

        Args:
            release: what is drawn.
            *args: what `release.draw` takes after the entropy.
            **kwargs: named arguments that `release.draw` takes.

        Raises:
            LocalFaultError: the plan does not state this release, or not so often.
        """

    async def commit(self) -> None:
        """Do what must be done before anything is opened: from then on the others can open it without me.

        If a job has a privacy cost (`party.gate`), it is committed here, once, and the others are notified; otherwise
        nothing happens. The call is optional, because sending to an opening commits first.
        """

    def trust_binding(self, members: Collection[int]) -> None:
        """Report that these members have shown me the same binding as mine (`mpc.protocol.greeting`).

        Where a party has a gate (`party.gate`), it lets nothing else pass before; elsewhere nothing happens.
        """

    def accuse(self, member: int, stage: str, what: str) -> None:
        """Report that a member is at fault although the job continues; a service logs it.

        Args:
            member: its number.
            stage: where it was found out.
            what: it did; public text, without any value.
        """

    def progress(self, stage: str, done: int, total: int) -> None:
        """Report the progress of a stage: public numbers only (never a count of rows)."""
