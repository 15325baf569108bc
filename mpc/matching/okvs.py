"""An oblivious key-value store: a table that decodes at given keys to given values, and shows nothing of the keys.

The table is a matrix P over words, and decoding is linear: key x decodes to the XOR of the rows of P that x selects,
three slots of the sparse part, one in each third, and a random half of 64 dense rows. Encoding solves the linear system
of all keys: keys that are alone in a slot are peeled off, the few of the core that is left are solved by elimination
with the dense rows, and the peeled ones follow backwards. Sources: [GPRTY21] (the three-hash garbled cuckoo table),
[RR22] (one slot in each part, the core solved with dense columns).

Obliviousness. Variables that the system leaves free are drawn uniformly, so P is a uniform solution. Where the values
are uniform and independent of each other, P is uniform whatever the keys are and however many: it hides the keys and,
up to the size of the table, their number. No padding by other keys is needed. Where the values are not uniform, P hides
nothing; so values are hidden by a pad that only who may read them can compute.

Failure. Encoding fails only where the rows of the system are dependent. A set of k keys sums to zero with probability
q_k^3 in its slots, where q_k is the probability that k keys fall into the slots of a third an even number of times
each, and, independently, with probability 2^-64 in the dense rows. So the probability is at most

    2^-64 sum_k C(n, k) q_k^3        (union bound over all sets of keys)

The sum is the expected number of dependent sets among the sparse rows alone. It stays bounded, and tends to 0 like
6.1 / n, where there are fewer than 0.8895 keys to a slot [Cal97]; here there are at most 0.77. With the slots that are
added to 1.3 n it is below 2^4 for every n, by a bound that `tests/unit/mpc/matching/test_okvs.py` computes. So encoding
fails with probability below 2^-60, over the seeds alone; the failure reveals nothing of the values.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES
from mpc.errors import LocalFaultError, PlacementFailedError, ShapeError
from mpc.matching import okvs_kernels as kernels

Words = NDArray[np.uint64]

SEED_BYTES = 32
_SEED_WORDS = SEED_BYTES // 8

_EXTRA_SLOTS = 8
"""Slots of each third beyond 1.3 n / 3: with few keys two of them share all slots too often otherwise."""


@dataclass(frozen=True)
class Okvs:
    """The public shape of a store, the same for who encodes and who decodes.

    Attributes:
        n_keys: largest number of keys.
        n_words: 64-bit words of a value, w.
    """

    n_keys: int
    n_words: int

    def __post_init__(self) -> None:
        if self.n_keys < 0 or self.n_words < 1:
            raise LocalFaultError("a store is for 0 or more keys and has values of 1 or more words")

    @property
    def n_slots_of_third(self) -> int:
        """Slots of one third of the sparse part: 1.3 n / 3, rounded up, and a few."""
        return -(-13 * self.n_keys // 30) + _EXTRA_SLOTS

    @property
    def n_rows(self) -> int:
        """Rows of the table: its slots, then the dense rows."""
        return kernels.SLOTS_PER_KEY * self.n_slots_of_third + kernels.DENSE_ROWS

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the table: (n_rows, n_words), uint64."""
        return self.n_rows, self.n_words

    def encode(self, seeds: NDArray[np.uint8], values: Words, entropy: Entropy) -> Words:
        """Return a table that decodes at the keys to their values.

        Args:
            seeds: shape (n, 32), uint8, n <= n_keys: of each key 32 bytes that are pseudorandom and differ between
                keys, for instance a hash of it.
            values: shape (n, n_words).
            entropy: 32 bytes are read from it, from which the free variables are drawn.

        Returns:
            The table, shape `shape`.

        Raises:
            LocalFaultError: there are more than n_keys keys, or two equal ones.
            ShapeError: seeds and values do not have the shapes above.
            PlacementFailedError: the keys' rows are dependent, with probability below 2^-60.

        Cost: a few passes over the table in no order; the memory of table and values, and some 100 bytes per key.
        """
        slots, dense = self._rows_of(seeds)
        n = len(slots)
        if n > self.n_keys:
            raise LocalFaultError("there are more keys than the store is for")
        if values.shape != (n, self.n_words) or values.dtype != np.uint64:
            raise ShapeError(f"the values of a store are uint64 of shape {(n, self.n_words)}, not {values.shape}")
        _refuse_equal(seeds)
        table = np.empty(self.shape, dtype=np.uint64)
        KeyStream(entropy.read(KEY_BYTES)).fill(table)
        n_slots = self.n_rows - kernels.DENSE_ROWS
        degrees, sums, pivots = np.zeros(n_slots, np.int64), np.zeros(n_slots, np.int64), np.empty(n_slots, np.int64)
        order = np.empty(n, dtype=np.int64)
        n_peeled = kernels.peel(slots, degrees, sums, order, pivots)
        order, pivots = order[:n_peeled], pivots[:n_peeled]
        is_core = np.ones(n, dtype=bool)
        is_core[order] = False
        if is_core.any():
            self._solve_core(table, slots[is_core], dense[is_core], values[is_core])
        table[pivots] = self._with_dense(values[order], dense[order], table)
        kernels.fill_peeled(table, slots, order, pivots)
        return table

    def decode(self, seeds: NDArray[np.uint8], table: Words) -> Words:
        """Return what a table decodes to at some keys, shape (number of seeds, n_words).

        Args:
            seeds: shape (any number, 32), uint8.
            table: shape `shape`.

        Raises:
            ShapeError: seeds or table do not have the shapes above.
        """
        if table.shape != self.shape or table.dtype != np.uint64:
            raise ShapeError(f"the table of a store is uint64 of shape {self.shape}, not {table.shape}")
        slots, dense = self._rows_of(seeds)
        out = self._with_dense(np.zeros((len(slots), self.n_words), dtype=np.uint64), dense, table)
        kernels.add_decoded(out, np.ascontiguousarray(table), slots)
        return out

    def _with_dense(self, out: Words, dense: Words, table: Words) -> Words:
        """Add to each row of `out`, in place, the dense rows of its key."""
        kernels.add_chosen(out, dense[:, None], sums_by_byte(table[-kernels.DENSE_ROWS :]))
        return out

    def _rows_of(self, seeds: NDArray[np.uint8]) -> tuple[NDArray[np.int64], Words]:
        """Return the slots, one in each third, and the dense bits of keys: from one word of the seed each."""
        if seeds.ndim != 2 or seeds.shape[1] != SEED_BYTES or seeds.dtype != np.uint8:
            raise ShapeError(f"the seeds of a store are uint8 of shape (n, {SEED_BYTES}), not {seeds.shape}")
        words = np.ascontiguousarray(seeds).view("<u8").astype(np.uint64, copy=False).reshape(-1, _SEED_WORDS)
        third = self.n_slots_of_third
        slots = (words[:, : kernels.SLOTS_PER_KEY] % np.uint64(third)).astype(np.int64)
        slots += np.arange(kernels.SLOTS_PER_KEY) * third
        return slots, np.ascontiguousarray(words[:, kernels.SLOTS_PER_KEY])

    def _solve_core(self, table: Words, slots: NDArray[np.int64], dense: Words, values: Words) -> None:
        """Overwrite the rows of the table on which the equations of the core are solved; the others stay as drawn."""
        n, n_slots = len(slots), self.n_rows - kernels.DENSE_ROWS
        in_core, column = np.unique(slots, return_inverse=True)
        rows = np.concatenate([in_core, np.arange(n_slots, self.n_rows)])  # of the table, in the order of the columns
        is_one = np.zeros((n, -(-len(rows) // 64) * 64), dtype=bool)
        is_one[np.arange(n)[:, None], column.reshape(slots.shape)] = True
        is_one[:, len(in_core) : len(rows)] = (dense[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
        bits = np.packbits(is_one, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        rights = np.ascontiguousarray(values)
        leading = np.empty(n, dtype=np.int64)
        rank = kernels.eliminate(bits, rights, len(rows), leading)
        if rank < n:
            raise PlacementFailedError("the keys of a store depend on each other: its seeds are not random")
        is_free = np.ones(len(rows), dtype=bool)
        is_free[leading] = False
        reduced = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little", count=len(rows)).astype(bool)
        for row in range(n):
            free = table[rows[reduced[row] & is_free]]
            table[rows[leading[row]]] = rights[row] ^ np.bitwise_xor.reduce(free, axis=0)


def sums_by_byte(rows: Words) -> Words:
    """Return the sums of rows that the 256 values of each byte of a choice name, shape (256 b, w) for 8 b rows."""
    sums = np.zeros((-(-len(rows) // 8), 256, rows.shape[1]), dtype=np.uint64)
    for place, row in enumerate(rows):
        sums[place // 8, (np.arange(256) >> place % 8) & 1 == 1] ^= row
    return sums.reshape(-1, rows.shape[1])


def _refuse_equal(seeds: NDArray[np.uint8]) -> None:
    """Refuse keys with equal seeds. Few have equal first words by chance, so only those are compared further."""
    first = np.ascontiguousarray(seeds[:, :8]).view("<u8").reshape(-1)
    order = np.argsort(first)
    equal = first[order[1:]] == first[order[:-1]]
    if equal.any():
        suspects = seeds[np.unique(np.concatenate([order[1:][equal], order[:-1][equal]]))]
        if len(np.unique(suspects, axis=0)) < len(suspects):
            raise LocalFaultError("two keys of a store are equal")
