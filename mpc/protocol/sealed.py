"""Messages that are sealed between two members of a job, so that any carrier may relay them.

The channel needs a `PairwiseSecret` whose public keys went directly, over authenticated connections between the two.
What is sealed with it may then go directly or be relayed, by the coordinator for instance: the carrier can drop it, and
nothing else. That does not hold where the keys themselves came through a carrier that may replace them: it would have a
secret with either side, and read and change everything. Parties exchange theirs directly (`mpc.protocol.exchange`).
"""

from typing import NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from entropy.stream import KEY_BYTES
from mpc.errors import LocalFaultError, PeerViolationError
from mpc.protocol.pairwise import PairwiseSecret
from mpc.transcript import encode_fields

SEAL_BYTES = 16
"""Number of bytes by which a sealed message is longer than its plaintext."""

_NONCE = bytes(12)
"""The nonce is constant, because every key seals only one message."""


class SealedChannel:
    """Seals messages to, and opens messages from, one other member, with AES-256-GCM.

    Each (sender, receiver, stage) has a key of its own, drawn from the pair's secret, and that key seals one message:
    the secret keeps count, so this holds for all channels that share it.
    Associated data are the binding of the job (`mpc.protocol.greeting`), stage, sender and receiver.

    Args:
        secret: what the two have in common.
        binding: binding of the job for which the key was agreed.
        me: my member number.
        them: the other's.
        their_name: name of the other member, for error texts.
    """

    __slots__ = ("_binding", "_secret", "_their_name", "me", "them")

    def __init__(self, secret: PairwiseSecret, *, binding: bytes, me: int, them: int, their_name: str) -> None:
        self._secret = secret
        self._binding = binding
        self._their_name = their_name
        self.me = me
        self.them = them

    def seal(self, stage: str, plaintext: bytes) -> bytes:
        """Seal my one message of a stage; `SEAL_BYTES` longer than the plaintext.

        Raises:
            LocalFaultError: I have sealed a message of this stage before, with this secret through whatever channel.
        """
        if not self._secret.claim_seal(self.me, stage):
            raise LocalFaultError(
                f"a message of stage {stage} to {self._their_name} was sealed before; a key may seal only one message"
            )
        return self._cipher(stage, self.me, self.them).encrypt(
            _NONCE, plaintext, self._associated(stage, self.me, self.them)
        )

    def open(self, stage: str, sealed: bytes) -> bytes:
        """Open their one message of a stage.

        Raises:
            PeerViolationError: it was not sealed by them, for me, in this job and stage; or it was altered.
        """
        try:
            return self._cipher(stage, self.them, self.me).decrypt(
                _NONCE, sealed, self._associated(stage, self.them, self.me)
            )
        except InvalidTag as error:
            what = (
                f"a message of {self._their_name} in stage {stage} cannot be opened: it was altered or replaced, or "
                "belongs to another job"
            )
            raise PeerViolationError(self.them, stage, what) from error

    def _cipher(self, stage: str, sender: int, receiver: int) -> AESGCM:
        stream = self._secret.stream(sender, receiver, f"sealed message of {stage}", 0)
        return AESGCM(stream.read(KEY_BYTES))

    def _associated(self, stage: str, sender: int, receiver: int) -> bytes:
        return encode_fields("moiety sealed message", self._binding, stage, sender, receiver)

    def __repr__(self) -> str:
        return f"SealedChannel({self.me}, {self.them})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a channel must not be copied or stored")
