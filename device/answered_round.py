"""What a device does in one round beside the protocol, whatever the round's question is."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mpc.secagg.config import RoundConfig

Integers = NDArray[np.int64]


class AnsweredRound(Protocol):
    """A round that a device was invited to. Calls block; they run off the event loop, in this order."""

    @property
    def config(self) -> RoundConfig:
        """The configuration that follows from its question."""

    def admit(self) -> None:
        """Refuse a round that the owner rules out; otherwise reserve budget.

        The records are not looked at: what decides about them is what their owner declares.

        Raises:
            ProtocolError, JobError, ChargeError, LedgerError: it is refused; the text says why.
        """

    def commit(self) -> None:
        """Count the round as spent. Only then the record may be read, and a masked vector may leave.

        Raises:
            ChargeError, LedgerError: it cannot be.
        """

    def contribute(self, seeds: tuple[bytes, ...]) -> tuple[Integers, Integers | None]:
        """Read the record; return what it contributes, and the noise. The round is paid, and no record stops this."""

    def leave(self, outcome: bytes) -> None:
        """Take note that the round is over for us.

        Args:
            outcome: what the coordinator says that a series of rounds has come to; empty where it says nothing.
        """
