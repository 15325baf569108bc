"""An oblivious pseudorandom function of many ids: extended transfers over a key-value store [GPRTY21, OOS17].

One owner, the *leader*, gets the function at its own ids; another, the *holder*, can compute it anywhere. Both have the
keys of 472 transfers (`mpc.matching.transfer.key_transfers`): the leader two of each, the holder one, by the bits of
its secret word s. C is the code of `mpc.matching.transfer.code`, and each id x has a point P(x) of 76 bits, a hash.

1. The leader makes a store D that decodes at its ids to their points (`mpc.matching.okvs`), and puts 128 random rows
   behind it, other ones for each holder: two who collude would else have sums that hide nothing of D. Both keys of
   transfer j become columns of bits, a_j and b_j, of the matrices A and B. The leader sends U = A + B + C(D), row by
   row.
2. The holder has a_j or b_j of each column: it adds U where s_j is one, and has Q = A + s * C(D), with * place by
   place. Decoding is linear, and so is the code: at any id y

       decode(Q, y) + s * C(P(y)) = decode(A, y) + s * C(decode(D, y) + P(y))

   The function is F(y) = Hash(y, decode(Q, y) + s * C(P(y))). At the leader's ids it is Hash(y, decode(A, y)).
3. Check: 128 sums of rows, chosen by a hash of U, each with one of the random rows. The leader sends the sums of D and
   of A; with those of Q the holder sees whether U was made of words of the code.

What the holder sees. Of each column of U one key is unknown to it, so the column is as good as random, whatever D is; a
sum of D is uniform, by its random row, and the sum of A follows from it and from what the holder knows. So it learns
nothing of the leader's ids, nor how many they are.

What the leader sees of F. Let y be none of its ids. P(y) is independent of D, so decode(D, y) = P(y) has probability
2^-76, which is 2^-52 for all of 2^24 ids together. Otherwise C(decode(D, y) + P(y)) has 132 ones or more, and what is
hashed hides in as many bits of s: to who makes far fewer than 2^132 hashes, F is a random function outside of the
leader's ids. That is all that `mpc.matching.revealed` asks of its function, and what 2HashDH has by DDH.

Who deviates. A holder chooses s and nothing else. A leader whose U is not of the code has to guess the bits of s where
it is off, and is refused where it guesses wrong: k bits are a chance of 2^-k, and leave 132 - k [OOS17]. What remains
is that a store has more rows than ids: a leader that deviates can place as many ids as it has rows, 1.4 and some
hundredths for each that is declared, where 2HashDH gives it one evaluation for each. So jobs with `security =
"malicious"` match by 2HashDH.
"""

import hashlib
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES
from mpc.bulk_hash import hashes
from mpc.errors import ProtocolError
from mpc.matching.group import Bytes
from mpc.matching.okvs import SEED_BYTES, Okvs
from mpc.matching.okvs_kernels import add_chosen
from mpc.matching.oprf import PAD_WORDS, TAG_BYTES, Values
from mpc.matching.transfer import kernels
from mpc.matching.transfer.code import CODE_BYTES, CODE_WORDS, WORDS, masked, table

Words = NDArray[np.uint64]

SUMS = 128
"""Sums of the check: each misses a row that is off with probability one half."""

CHECK_BYTES = 8 * (WORDS + CODE_WORDS)
"""Bytes of one sum of D and of T."""

_ROW_BYTES = 8 * CODE_WORDS
_BLOCK = 64


class CheckFailedError(ProtocolError):
    """A leader's rows are not those of words of the code."""


def n_rows_of(n_keys: int) -> int:
    """Return the rows of U for a store of so many ids, random ones included."""
    return Okvs(n_keys, WORDS).n_rows + SUMS


class Places:
    """Where ids stand in stores, and their points: one BLAKE2b of each.

    Args:
        ids: shape (n, 32).
        salt: 16 bytes, of the match.
    """

    def __init__(self, ids: Bytes, salt: bytes) -> None:
        hashed = hashes(ids, 64, salt=salt, person=b"moiety place")
        self.ids = ids
        self.seeds = np.ascontiguousarray(hashed[:, :SEED_BYTES])
        self.points = masked(_words(hashed[:, SEED_BYTES : SEED_BYTES + 8 * WORDS]))

    def values(self, salt: bytes, rows: Words) -> Values:
        """Return the function of my ids from what is hashed with them, shape (n, 8). Its seeds are those of the ids."""
        both = np.concatenate([self.ids, np.ascontiguousarray(rows, dtype="<u8").view(np.uint8)], axis=1)
        hashed = hashes(both, 8 * PAD_WORDS + TAG_BYTES, salt=salt, person=b"moiety function")
        pads = _words(hashed[:, : 8 * PAD_WORDS])
        return Values(self.seeds, pads, np.ascontiguousarray(hashed[:, 8 * PAD_WORDS :]))


def stored(places: Places, n_keys: int, entropy: Entropy) -> Words:
    """Return D of at most n_keys ids, without random rows: what serves for all holders. Shape (n_rows_of - 128, 2).

    Raises:
        PlacementFailedError: see `Okvs.encode`.
    """
    return masked(Okvs(n_keys, WORDS).encode(places.seeds, places.points, entropy))


class LeaderEnd:
    """The leader's end towards one holder. Its calls, one for each part of the ids, come in the same order at both.

    Args:
        keys: two lists, the keys of 0 and of 1 of 472 transfers.
        n_keys: ids that a store is for.
        salt: 16 bytes, of the match.
        entropy: source of the random rows.
    """

    def __init__(
        self, keys: tuple[Sequence[bytes], Sequence[bytes]], n_keys: int, salt: bytes, entropy: Entropy
    ) -> None:
        self._streams = [[KeyStream(key) for key in some] for some in keys]
        self._store, self._salt, self._entropy = Okvs(n_keys, CODE_WORDS), salt, entropy

    def extend(self, places: Places, store: Words) -> tuple[Bytes, Bytes, Values]:
        """Return U, shape (rows, 59), and the sums of the check, (128, 80), which are sent; and F of my ids.

        Args:
            places: places of my ids.
            store: see `stored`.
        """
        random = KeyStream(self._entropy.read(KEY_BYTES)).words(SUMS * WORDS).reshape(SUMS, WORDS)
        rows = np.concatenate([store, masked(random)])
        n = len(rows)
        first, second = (_drawn_rows(streams, n) for streams in self._streams)
        second ^= first
        add_chosen(second, rows, table())
        sent = _cut(second)
        chosen = _choices(sent, self._salt)
        sums = np.concatenate([_summed(some, chosen) for some in (rows, first)], axis=1)
        values = places.values(self._salt, self._store.decode(places.seeds, first[:-SUMS]))
        return sent, np.ascontiguousarray(sums, dtype="<u8").view(np.uint8), values

    def __repr__(self) -> str:
        return "LeaderEnd()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys must not be copied or stored")


class HolderEnd:
    """The holder's end.

    Args:
        keys: chosen keys of 472 transfers.
        choices: the bits of s, shape (472,).
        n_keys: the leader's.
        salt: the leader's.
    """

    def __init__(self, keys: Sequence[bytes], choices: NDArray[np.uint8], n_keys: int, salt: bytes) -> None:
        self._streams = [KeyStream(key) for key in keys]
        padded = np.zeros(_ROW_BYTES, dtype=np.uint8)
        padded[:CODE_BYTES] = np.packbits(choices, bitorder="little")
        self._word = _words(padded[None, :])[0]
        self._store, self._salt = Okvs(n_keys, CODE_WORDS), salt

    def evaluate(self, places: Places, received: Bytes, check: Bytes) -> Values:
        """Return the function of my ids.

        Args:
            places: places of my ids.
            received: U, shape (rows, 59).
            check: the sums, shape (128, 80).

        Raises:
            CheckFailedError: they do not fit together.
        """
        rows = np.zeros((len(received), _ROW_BYTES), dtype=np.uint8)
        rows[:, :CODE_BYTES] = received
        mine = _drawn_rows(self._streams, len(received))
        mine ^= _words(rows) & self._word
        sums = _words(check)
        wrong = _summed(mine, _choices(received, self._salt)) ^ sums[:, WORDS:] ^ self._chosen(masked(sums[:, :WORDS]))
        if wrong.any():
            raise CheckFailedError("rows that are not those of words of the code")
        return places.values(self._salt, self._store.decode(places.seeds, mine[:-SUMS]) ^ self._chosen(places.points))

    def _chosen(self, messages: Words) -> Words:
        """Return s * C of messages."""
        words = np.zeros((len(messages), CODE_WORDS), dtype=np.uint64)
        add_chosen(words, messages, table())
        words &= self._word
        return words

    def __repr__(self) -> str:
        return "HolderEnd()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys must not be copied or stored")


def _drawn_rows(streams: Sequence[KeyStream], n: int) -> Words:
    """Return the next n rows of a matrix whose columns are streams of bits, shape (n, 8); zeros beyond column 472."""
    columns = np.zeros((8 * _ROW_BYTES, -(-n // _BLOCK)), dtype=np.uint64)
    for column, stream in zip(columns, streams, strict=False):
        stream.fill(column)
    rows = np.empty((_BLOCK * columns.shape[1], CODE_WORDS), dtype=np.uint64)
    kernels.transpose(rows, columns.astype("<u8", copy=False), np.empty(_BLOCK, dtype=np.uint64))
    return rows[:n]


def _cut(rows: Words) -> Bytes:
    return np.ascontiguousarray(np.ascontiguousarray(rows, dtype="<u8").view(np.uint8)[:, :CODE_BYTES])


def _choices(sent: Bytes, salt: bytes) -> Words:
    """Return which rows go into which sums, by a hash of U; random row c into sum c alone. Shape (rows, 2)."""
    data = np.ascontiguousarray(sent).data
    key = hashlib.blake2b(data, digest_size=KEY_BYTES, salt=salt, person=b"moiety check").digest()
    n = len(sent) - SUMS
    ones = np.packbits(np.eye(SUMS, dtype=np.uint8), axis=1, bitorder="little")
    drawn = KeyStream(key).words(n * WORDS).reshape(n, WORDS)
    return np.concatenate([drawn, _words(ones)]).astype(np.uint64, copy=False)


def _summed(rows: Words, choices: Words) -> Words:
    """Return the sums of the rows that are chosen, shape (128, w)."""
    by_byte = np.zeros((256 * SUMS // 8, rows.shape[1]), dtype=np.uint64)
    kernels.add_by_bytes(by_byte, rows, choices)
    of_bytes = by_byte.reshape(SUMS // 8, 256, -1)
    has_bit = [np.flatnonzero((np.arange(256) >> bit) & 1) for bit in range(8)]
    sums = np.stack([np.bitwise_xor.reduce(of_bytes[:, some], axis=1) for some in has_bit], axis=1)
    return np.ascontiguousarray(sums.reshape(SUMS, -1))


def _words(rows: Bytes) -> Words:
    return np.ascontiguousarray(rows).view("<u8").astype(np.uint64, copy=False)
