"""What makes a party's share of a sum of use only with those of the parties that it agreed with.

Where parties may be missing, shares of one vector are points of one polynomial: several honest parties hold several of
them, and noise that each adds to its own would not hide what they have in common. So each pair of the parties that open
has a mask in common, which one adds and the other subtracts. Its key follows from both parties' keys for the batch, and
from who opens which cohort. So whoever sees shares of some of the honest parties, or of all but for other openers or
another cohort, sees uniform elements; all of one opening add up to the sum and all their noise.

A party that has closed the batch has masked its share, and no longer has its key; the others need its public one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from entropy import derive_key
from mpc.errors import PeerViolationError
from mpc.protocol.concurrency import run_together
from mpc.secagg.secret.keys import KEY_BYTES, RoundKey, is_usable_public_key
from mpc.secagg.secret.mask import Mask
from mpc.transcript import digest, encode_fields

KEYS_STAGE = "keys of the batch"


async def exchange_batch_keys(session: Any, openers: Sequence[int], public: bytes) -> dict[int, bytes]:
    """Return the public keys for the batch of the other parties that open, by number.

    Raises:
        PeerViolationError: one is not usable.
        PeerError: a party is silent or drops out.
    """
    others = [other for other in openers if other != session.me]

    async def key_of(other: int) -> bytes:
        await session.send(other, KEYS_STAGE, np.frombuffer(public, dtype=np.uint8))
        theirs: bytes = (await session.receive(other, KEYS_STAGE, (KEY_BYTES,), np.uint8)).tobytes()
        if not is_usable_public_key(theirs):
            raise PeerViolationError(other, KEYS_STAGE, f"{session.names[other]} has no usable key for this batch")
        return theirs

    return dict(zip(others, await run_together(*map(key_of, others)), strict=True))


def masks_of(
    me: int, own: RoundKey, publics: Mapping[int, bytes], batch: bytes, openers: Sequence[int], cohort: bytes
) -> list[Mask]:
    """Return the masks of my share, one for each other party that opens.

    Args:
        me: my number.
        own: my key for the batch.
        publics: public keys of the others.
        batch: digest of the question.
        openers: numbers of the parties that open, mine among them.
        cohort: digest of the list and of the cohort.
    """
    salt = digest("batch opening", batch, bytes(openers), cohort)

    def key_of(other: int) -> bytes:
        pair = encode_fields("moiety batch mask", min(me, other), max(me, other))
        return derive_key(own.exchange(publics[other]), salt=salt, info=pair)

    return [Mask(key_of(other), is_negative=me > other) for other in sorted(publics)]
