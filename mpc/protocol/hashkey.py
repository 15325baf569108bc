"""Keys that the data parties of a job have in common and the coordinator never learns: by commit and reveal.

For hashes that outsiders must not be able to compute, and for samples and projections that no single party may choose.
Every party contributes 32 random bytes, commits to them, and reveals them only when it has all commitments. Every
message is sealed for its receiver (`mpc.protocol.sealed`), so whoever relays it sees commitments as little as
contributions.
This holds if the X25519 keys behind the seals came directly from their owners, as those of parties do: a carrier that
could replace them would be in the middle of every pair, and learn every key.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np

from entropy import KeyStream, derive_key
from mpc.errors import InconsistentSharesError, LocalFaultError, PeerViolationError
from mpc.protocol.concurrency import run_together
from mpc.protocol.pairwise import PairwiseSecret
from mpc.protocol.sealed import SEAL_BYTES, SealedChannel
from mpc.protocol.session import Session
from mpc.transcript import encode_fields

CONTRIBUTION_BYTES = 32
DIGEST_BYTES = 32


class KeyNameReusedError(LocalFaultError):
    """A key of this name was asked for here before. A second use needs a second name."""


class HashKey:
    """A 256-bit key of one job and one purpose. Shows nothing of itself when printed, and cannot be pickled or copied.

    Args:
        key: 32 bytes.
        name: its purpose.
    """

    __slots__ = ("_key", "name")

    def __init__(self, key: bytes, name: str) -> None:
        self._key = key
        self.name = name

    def digest(self, data: bytes) -> bytes:
        """Return HMAC-SHA256 of `data`, 32 bytes: who lacks the key cannot even try out likely data."""
        return hmac.digest(self._key, data, "sha256")

    def stream(self, label: str) -> KeyStream:
        """Return the random stream that all parties with this key draw alike, one per label."""
        return KeyStream(derive_key(self._key, salt=b"", info=encode_fields("moiety hash key stream", label)))

    def __repr__(self) -> str:
        return f"HashKey({self.name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key must not be copied or stored")


class HashKeys:
    """One data party's end of key agreements of a job.

    There may be several over the same secrets, and still each name is agreed once: the secrets refuse to seal anything
    for it again.

    Args:
        session: my end of the job.
        parties: member numbers of the data parties that agree, mine among them; at least two.
        secrets: at least those that I have in common with the others (`mpc.protocol.exchange.agree_pairwise_secrets`).

    Raises:
        LocalFaultError: the parties are fewer than two, or I am not one, or a secret is missing.
    """

    def __init__(self, session: Session, parties: Sequence[int], secrets: Mapping[int, PairwiseSecret]) -> None:
        self._session = session
        self._parties = tuple(sorted(set(parties)))
        others = [party for party in self._parties if party != session.me]
        if not others or session.me not in self._parties:
            raise LocalFaultError(
                "a key agreement needs at least two data parties, and this member must be one of them"
            )
        if not set(others) <= set(secrets):
            raise LocalFaultError("a key agreement needs a pairwise secret with each party, and one is missing")
        self._channels = {
            party: SealedChannel(
                secrets[party], binding=session.binding, me=session.me, them=party, their_name=session.names[party]
            )
            for party in others
        }
        self._names: set[str] = set()

    async def agree(self, name: str) -> HashKey:
        """Agree on the key of a purpose; all parties come to the same one or to an error.

        Party i draws r_i and sends c_i = SHA-256(binding, name, parties, i, r_i) to every other. With all c in hand it
        sends r_i together with T = SHA-256(c_1, c_2, ...). Its receiver checks r_i against c_i and T against its own.
        The key is HKDF-SHA256 of (r_1, r_2, ...) with salt T and the binding of the job (`mpc.protocol.greeting`)
        and the name as label.

        Args:
            name: the purpose, unique within the job; in error texts and stages, so public.

        Raises:
            KeyNameReusedError: a key of this name was asked for here before, whether or not it came about.
            LocalFaultError: it was asked for elsewhere, with the same secrets.
            PeerViolationError: a party revealed something else than it had committed to, or a message does not open.
                Names the party.
            InconsistentSharesError: a party saw other commitments than I did. It, or whoever made them, is at fault:
                nobody can tell, so no member is named.
            PeerError: a party is silent or drops out, so there is no key.

        Privacy: active, all parties but one may be corrupt, with the coordinator or without. One honest r_i makes the
        key uniform: it stays hidden until all other contributions are fixed in the eyes of that party. The last to
        reveal can still refuse, and is named for it. Who is not one of the parties learns nothing.
        Cost: 2 rounds, 128 bytes per pair and direction.
        """
        if name in self._names:
            raise KeyNameReusedError(
                f"a key named {name!r} was requested before in this job; each key has only one use"
            )
        self._names.add(name)
        me = self._session.me
        contribution = self._session.entropy.read(CONTRIBUTION_BYTES)
        commitments = await self._exchange(f"hash key {name}/commitment", self._commitment(name, me, contribution))
        commitments[me] = self._commitment(name, me, contribution)
        transcript = commitment_digest(commitments)
        stage = f"hash key {name}/reveal"
        contributions = {me: contribution}
        for party, revealed in (await self._exchange(stage, contribution + transcript)).items():
            theirs, seen = revealed[:CONTRIBUTION_BYTES], revealed[CONTRIBUTION_BYTES:]
            if not hmac.compare_digest(self._commitment(name, party, theirs), commitments[party]):
                what = f"{self._session.names[party]} revealed a part of the key {name!r} that it had not committed to"
                raise PeerViolationError(party, stage, what)
            if seen != transcript:
                what = f"{self._session.names[party]} received commitments to the key {name!r} that differ from ours"
                raise InconsistentSharesError(f"{what}: one of us, or whoever told both, is at fault")
            contributions[party] = theirs
        return HashKey(combine(self._session.binding, name, transcript, contributions), name)

    def _commitment(self, name: str, party: int, contribution: bytes) -> bytes:
        return commit(self._session.binding, name, self._parties, party, contribution)

    async def _exchange(self, stage: str, message: bytes) -> dict[int, bytes]:
        """Send some bytes to all others, sealed, and return what each sent, once all have."""
        session, sealed_bytes = self._session, len(message) + SEAL_BYTES

        async def with_party(party: int, channel: SealedChannel) -> bytes:
            await session.send(party, stage, np.frombuffer(channel.seal(stage, message), dtype=np.uint8))
            sealed = await session.receive(party, stage, (sealed_bytes,), np.uint8)
            return channel.open(stage, sealed.tobytes())

        answers = await run_together(*(with_party(party, channel) for party, channel in self._channels.items()))
        return dict(zip(self._channels, answers, strict=True))


def commit(binding: bytes, name: str, parties: Sequence[int], party: int, contribution: bytes) -> bytes:
    """Return the commitment of a party to its contribution, 32 bytes. 256 random bits hide behind a plain hash."""
    fields = encode_fields("moiety hash key commitment", binding, name, encode_fields(*parties), party, contribution)
    return hashlib.sha256(fields).digest()


def commitment_digest(commitments: Mapping[int, bytes]) -> bytes:
    """Return the hash of all commitments, in the order of the parties: the same for all who were shown the same."""
    fields = [encode_fields(party, commitments[party]) for party in sorted(commitments)]
    return hashlib.sha256(encode_fields("moiety hash key commitments", *fields)).digest()


def combine(binding: bytes, name: str, transcript: bytes, contributions: Mapping[int, bytes]) -> bytes:
    """Return the key that these contributions make, 32 bytes."""
    secret = b"".join(contributions[party] for party in sorted(contributions))
    return derive_key(secret, salt=transcript, info=encode_fields("moiety hash key", binding, name))
