"""The greeting between members of a job: a public key, and proof that both mean the same job.

The coordinator, which sets a job up, describes it to each member, and may describe it differently to each. So members
compare, before anything else, what they computed themselves: the *binding*, a hash of the version of the protocol, the
job, all names and the terms (in a job: the plan and who asked for it). It travels with the first public key, over the
connection on which the two have authenticated each other, and it is part of every key that they derive afterwards. No
statement of the coordinator is used for this.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from mpc.errors import PeerViolationError
from mpc.protocol.concurrency import run_together
from mpc.protocol.session import COORDINATOR, Session
from mpc.transcript import encode_fields

PROTOCOL = "moiety protocol 2"
"""Version of the protocol between members. It changes whenever the meaning of a message changes."""

GREETING_STAGE = "keys"
"""The stage of greetings, as errors name it."""

BINDING_BYTES = 32


class DifferentTermsError(PeerViolationError):
    """A member reports that it takes part in a different job than I do: other terms, other members or another protocol.

    The coordinator described the job to both, so it is suspected first: `member` is the coordinator, if there is one.
    This is no proof: the witness may lie or run another version. The text says both.

    Attributes:
        witness: number of the member that reports it.
    """

    code = "terms-differ"

    def __init__(self, witness: int, names: Mapping[int, str], me: int) -> None:
        other, own = names[witness], names[me]
        if COORDINATOR in names and COORDINATOR not in (witness, me):
            host = names[COORDINATOR]
            member = COORDINATOR
            what = (
                f"{other} says that it was shown another plan of this job than {own}: coordinator {host} showed "
                f"different plans to {own} and {other}, unless {other} does not tell the truth or runs another version"
            )
        else:
            member = witness
            what = f"{other} says that it takes part in another job than {own}, with other members, or by other rules"
        super().__init__(member, GREETING_STAGE, what)
        self.witness = witness


def binding_of(job_id: str, names: Mapping[int, str], terms: bytes) -> bytes:
    """Return what is bound into every key that members of a job derive: 32 bytes, the same for all of them.

    Members with different bindings have no key in common, but by a collision of SHA-256.

    Args:
        job_id: the job.
        names: member number to name, the coordinator's among them.
        terms: whatever else all have to have in common.
    """
    roster = [encode_fields(number, names[number]) for number in sorted(names)]
    return hashlib.sha256(encode_fields(PROTOCOL, "binding", job_id, encode_fields(*roster), terms)).digest()


async def exchange_public_keys(session: Session, peers: Sequence[int], public: bytes) -> dict[int, bytes]:
    """Send my public key to some members; return theirs, if all of them are bound to the same job as I am.

    Args:
        session: my end of the job.
        peers: their numbers.
        public: my public key; theirs have the same length.

    Raises:
        DifferentTermsError: a member has another binding, or says so.
        PeerError: a member is silent or drops out.

    Privacy: public keys and a hash of public facts, between two members each; nobody else sees them.
    Cost: 1 round, 32 bytes and the key per pair and direction.
    """
    message = np.frombuffer(session.binding + public, dtype=np.uint8)

    async def key_of(peer: int) -> bytes:
        theirs = (await session.receive(peer, GREETING_STAGE, message.shape, np.uint8)).tobytes()
        if theirs[:BINDING_BYTES] != session.binding:
            raise DifferentTermsError(peer, session.names, session.me)
        return theirs[BINDING_BYTES:]

    # Send to all of them before anything is compared, so that each member detects a difference by itself.
    await asyncio.gather(*(session.send(peer, GREETING_STAGE, message) for peer in peers))
    keys = await run_together(*map(key_of, peers))
    session.trust_binding(peers)
    return dict(zip(peers, keys, strict=True))
