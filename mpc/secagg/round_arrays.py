"""Messages of a round as byte arrays whose shape everybody knows beforehand, for rounds over a `Session`.

In the complete graph the size of every message follows from the configuration, if there is one row per member of the
roster and a first byte that says whether the row is there. So nothing has to be announced, and what has another shape
is refused before it is looked at. Members' own messages carry no number: the session says who sent them.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mpc.errors import LocalFaultError, OutOfRangeError
from mpc.secagg.config import RoundConfig
from mpc.secagg.keys import SIGNATURE_BYTES
from mpc.secagg.messages import (
    Advertisement,
    MaskedInput,
    MemberList,
    SealedShares,
    ShareDelivery,
    SignedSurvivors,
    SurvivorList,
    SurvivorSignature,
    UnmaskingShares,
)
from mpc.secagg.secret_sharing import SHARE_BYTES
from mpc.transcript import DIGEST_BYTES

Bytes = NDArray[np.uint8]

_TAG_BYTES = 16


class RoundArrays:
    """Turns the messages of one round into arrays and back.

    Args:
        config: of the round.

    Raises:
        LocalFaultError: the graph is not complete.
    """

    def __init__(self, config: RoundConfig) -> None:
        if not config.topology.is_complete:
            raise LocalFaultError("only rounds of a complete graph have messages of fixed shape")
        self._config = config
        self._n = config.n_members
        self._has_surplus = config.n_surplus_seeds > 0
        sealed = (2 + config.n_surplus_seeds) * SHARE_BYTES + _TAG_BYTES
        advertised = (5 + self._has_surplus) * DIGEST_BYTES + SIGNATURE_BYTES
        masked = config.group.wire_bytes(config.n_elements)
        self._widths: dict[type, int] = {
            MemberList: advertised,
            ShareDelivery: DIGEST_BYTES + sealed,
            SurvivorList: 0,
            SignedSurvivors: DIGEST_BYTES + SIGNATURE_BYTES,
        }
        self._lengths: dict[type, int] = {
            Advertisement: advertised,
            SealedShares: DIGEST_BYTES + self._n * (1 + sealed),
            MaskedInput: masked,
            SurvivorSignature: DIGEST_BYTES + SIGNATURE_BYTES,
            UnmaskingShares: 3 * self._n * (1 + SHARE_BYTES),
        }

    def shape(self, kind: type) -> tuple[int, ...]:
        """Return the shape of the array of a kind of message; its type is uint8."""
        if kind in self._widths:
            return (self._n, 1 + self._widths[kind])
        return (self._lengths[kind],)

    # -- from a member ---------------------------------------------------------------------------------------------

    def of_advertisement(self, ad: Advertisement) -> Bytes:
        """Return the array of an advertisement."""
        return _bytes(_advertised(ad))

    def advertisement(self, member: int, array: Bytes) -> Advertisement:
        """Read what `of_advertisement` wrote."""
        return self._advertisement(member, array.tobytes())

    def of_sealed(self, message: SealedShares) -> Bytes:
        """Return the array of sealed shares."""
        width = self._widths[ShareDelivery] - DIGEST_BYTES
        return np.concatenate([_bytes(message.transcript), self._table(message.sealed, width).reshape(-1)])

    def sealed(self, member: int, array: Bytes) -> SealedShares:
        """Read what `of_sealed` wrote.

        Raises:
            OutOfRangeError: not such an array. Also for the other messages.
        """
        table = array[DIGEST_BYTES:].reshape(self._n, -1)
        return SealedShares(self._config.round_id, member, array[:DIGEST_BYTES].tobytes(), _rows(table))

    def of_masked(self, message: MaskedInput) -> Bytes:
        """Return the array of a masked vector."""
        return _bytes(message.elements)

    def masked(self, member: int, array: Bytes) -> MaskedInput:
        """Read what `of_masked` wrote."""
        return MaskedInput(self._config.round_id, member, array.tobytes())

    def of_signature(self, message: SurvivorSignature) -> Bytes:
        """Return the array of a signature of the survivors."""
        return _bytes(message.set_digest + message.signature)

    def signature(self, member: int, array: Bytes) -> SurvivorSignature:
        """Read what `of_signature` wrote."""
        data = array.tobytes()
        return SurvivorSignature(self._config.round_id, member, data[:DIGEST_BYTES], data[DIGEST_BYTES:])

    def of_unmasking(self, message: UnmaskingShares) -> Bytes:
        """Return the array of unmasking shares."""
        kinds = (message.seed_shares, message.key_shares, message.surplus_shares)
        return np.concatenate([self._table(shares, SHARE_BYTES).reshape(-1) for shares in kinds])

    def unmasking(self, member: int, array: Bytes) -> UnmaskingShares:
        """Read what `of_unmasking` wrote."""
        seeds, keys, surplus = (_rows(table) for table in array.reshape(3, self._n, 1 + SHARE_BYTES))
        return UnmaskingShares(self._config.round_id, member, seeds, keys, surplus)

    # -- from the coordinator --------------------------------------------------------------------------------------

    def of_members(self, message: MemberList) -> Bytes:
        """Return the array of the list of members."""
        rows = {ad.member: _advertised(ad) for ad in message.advertisements}
        return self._table(rows, self._widths[MemberList])

    def members(self, array: Bytes) -> MemberList:
        """Read what `of_members` wrote."""
        ads = tuple(self._advertisement(member, row) for member, row in _rows(array).items())
        return MemberList(self._config.round_id, ads)

    def of_delivery(self, message: ShareDelivery) -> Bytes:
        """Return the array of a delivery: a row for each sharer; that of the receiver itself holds zeros."""
        width = self._widths[ShareDelivery]
        rows = {
            member: message.transcripts[member] + message.sealed[member] if member in message.sealed else bytes(width)
            for member in message.sharers
        }
        return self._table(rows, width)

    def delivery(self, me: int, array: Bytes) -> ShareDelivery:
        """Read what `of_delivery` wrote for me."""
        rows = _rows(array)
        others = {member: row for member, row in rows.items() if member != me}
        return ShareDelivery(
            self._config.round_id,
            tuple(rows),
            {member: row[:DIGEST_BYTES] for member, row in others.items()},
            {member: row[DIGEST_BYTES:] for member, row in others.items()},
        )

    def of_survivors(self, message: SurvivorList) -> Bytes:
        """Return the array of the survivors."""
        return self._table(dict.fromkeys(message.survivors, b""), 0)

    def survivors(self, array: Bytes) -> SurvivorList:
        """Read what `of_survivors` wrote."""
        return SurvivorList(self._config.round_id, tuple(_rows(array)))

    def of_signatures(self, message: SignedSurvivors) -> Bytes:
        """Return the array of all signatures."""
        rows = {one.member: one.set_digest + one.signature for one in message.signatures}
        return self._table(rows, self._widths[SignedSurvivors])

    def signatures(self, array: Bytes) -> SignedSurvivors:
        """Read what `of_signatures` wrote."""
        return SignedSurvivors(
            self._config.round_id,
            tuple(
                SurvivorSignature(self._config.round_id, member, row[:DIGEST_BYTES], row[DIGEST_BYTES:])
                for member, row in _rows(array).items()
            ),
        )

    def _advertisement(self, member: int, data: bytes) -> Advertisement:
        fields = [data[i : i + DIGEST_BYTES] for i in range(0, len(data) - SIGNATURE_BYTES, DIGEST_BYTES)]
        if not self._has_surplus:
            fields.insert(3, b"")
        mask, channel, seed, anchor, config, given = fields
        signature = data[-SIGNATURE_BYTES:]
        return Advertisement(self._config.round_id, member, mask, channel, seed, anchor, config, given, signature)

    def _table(self, rows: Mapping[int, bytes], width: int) -> Bytes:
        table = np.zeros((self._n, 1 + width), dtype=np.uint8)
        for member, row in rows.items():
            if not 1 <= member <= self._n or len(row) != width:
                raise LocalFaultError("a message of the round has a row of another length, or of a stranger")
            table[member - 1, 0] = 1
            table[member - 1, 1:] = _bytes(row)
        return table


def _advertised(ad: Advertisement) -> bytes:
    keys = (ad.mask_public, ad.channel_public, ad.seed_digest, ad.surplus_anchor)
    return b"".join((*keys, ad.config_digest, ad.input_digest, ad.signature))


def _bytes(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def _rows(table: Bytes) -> dict[int, bytes]:
    """Return member to row; a row that is said to be absent must be zero, so that one message has one array.

    Raises:
        OutOfRangeError: it is not, or the first byte is neither 0 nor 1.
    """
    absent = table[:, 0] == 0
    if (table[:, 0] > 1).any() or table[absent].any():
        raise OutOfRangeError("a row of a message of the round is neither there nor absent")
    return {int(i) + 1: table[i, 1:].tobytes() for i in np.flatnonzero(~absent)}
