"""One sender, many receivers: the receivers check that all of them received the same array."""

import hashlib
import hmac
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mpc.errors import InconsistentSharesError
from mpc.protocol.concurrency import run_together
from mpc.protocol.session import Session

ECHO_BYTES = 32
"""Bytes of the digest that each receiver sends to every other receiver."""


async def compare(
    session: Session, sender: int, stage: str, array: NDArray[np.uint64], receivers: Sequence[int]
) -> None:
    """Compare the array that I got in a stage with those of the other receivers.

    Each receiver sends a SHA-256 of what it got to every other one, in the order of the stage. A sender that sends
    different arrays to two of them is detected by both (the echo of Bracha's broadcast, for receivers that follow the
    protocol).

    Args:
        session: my end of the job.
        sender: member number.
        stage: stage of the array; "<stage> echo" is that of the digests.
        array: what I got.
        receivers: member numbers, mine among them.

    Raises:
        InconsistentSharesError: another receiver got something else, or says so. The sender or that receiver lies:
            nobody can tell, so no member is named.
        PeerError: a member is silent or drops out.

    Cost: 1 round, 32 bytes per pair and direction.
    """
    digest = np.frombuffer(hashlib.sha256(array.tobytes()).digest(), dtype=np.uint8)
    echo = f"{stage} echo"

    async def with_receiver(other: int) -> None:
        await session.send(other, echo, digest)
        theirs = await session.receive(other, echo, digest.shape, np.uint8)
        if not hmac.compare_digest(theirs.tobytes(), digest.tobytes()):
            names = session.names
            what = f"{names[sender]} sent different arrays to {names[other]} and {names[session.me]} in stage {stage}"
            raise InconsistentSharesError(f"{what}, unless {names[other]} does not tell the truth")

    await run_together(*(with_receiver(other) for other in receivers if other != session.me))
