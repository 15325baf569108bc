"""Compiled loops of the oblivious key-value store: peeling, elimination, filling and reading of its table.

Key i has three slots, `slots[i]`, and 64 dense bits: bit j stands for row `n_slots + j` of the table. Rows of the table
and values are of w words and are added by XOR. No loop allocates memory or clears it: what has to be zero
before is said so (`mpc.machine_code`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.machine_code import Array, inlined, kernel

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]

SLOTS_PER_KEY = 3
DENSE_ROWS = 64
_WORD_BITS = 64

_SLOTS = Array("int64", 2)
_INDEX = Array("int64")
_WRITTEN_INDEX = Array("int64", is_written=True)
_MATRIX = Array("uint64", 2)
_WRITTEN_MATRIX = Array("uint64", 2, is_written=True)


@kernel(_SLOTS, _WRITTEN_INDEX, _WRITTEN_INDEX, _WRITTEN_INDEX, _WRITTEN_INDEX, returns="int64")
def peel(slots: Integers, degrees: Integers, sums: Integers, order: Integers, pivots: Integers) -> int:
    """Take away, as long as there is one, a key that is alone in one of its slots; return how many were taken.

    Args:
        slots: shape (n, 3), the slots of each key, distinct.
        degrees: shape (n_slots,), zeros; afterwards how many keys that are left have each slot.
        sums: shape (n_slots,), zeros; afterwards the XOR of the numbers of these keys.
        order: shape (n,), written: the keys that were taken, in order.
        pivots: shape (n_slots,), written: the slot in which the key at the same place of `order` was alone. Behind them
            stand slots that were considered and not taken.
    """
    for i in range(slots.shape[0]):
        for k in range(SLOTS_PER_KEY):
            degrees[slots[i, k]] += 1
            sums[slots[i, k]] ^= i
    n_taken = 0
    for start in range(degrees.size):
        slot = start
        # A chain: when a key is taken, another of its slots may have one key left. Of several such slots those that
        # have been passed are followed at once, one after the other, and are found again in `pivots`.
        n_waiting = n_taken
        if degrees[slot] == 1:
            pivots[n_waiting] = slot
            n_waiting += 1
        while n_waiting > n_taken:
            slot = pivots[n_taken]
            if degrees[slot] != 1:  # its last key was taken in another slot
                n_waiting -= 1
                pivots[n_taken] = pivots[n_waiting]
                continue
            key = sums[slot]
            order[n_taken] = key
            n_taken += 1
            for k in range(SLOTS_PER_KEY):
                other = slots[key, k]
                degrees[other] -= 1
                sums[other] ^= key
                if degrees[other] == 1 and other < start:
                    pivots[n_waiting] = other
                    n_waiting += 1
    return n_taken


@inlined
def _add_row(matrix: Any, to: Any, row: Any) -> None:
    for c in range(matrix.shape[1]):
        matrix[to, c] ^= matrix[row, c]


@kernel(_WRITTEN_MATRIX, _WRITTEN_MATRIX, "int64", _WRITTEN_INDEX, returns="int64")
def eliminate(bits: Words, values: Words, n_columns: int, pivot_columns: Integers) -> int:
    """Bring a system over GF(2) to reduced row echelon form, in place; return its rank.

    Args:
        bits: shape (rows, ceil(n_columns / 64)); column j is bit j % 64 of word j // 64.
        values: the right sides, shape (rows, w).
        n_columns: columns of the system.
        pivot_columns: shape (rows,), written: the column of the leading one of each of the first rank rows.
    """
    rank = 0
    for column in range(n_columns):
        word, bit = column // _WORD_BITS, np.uint64(column % _WORD_BITS)
        found = rank
        while found < bits.shape[0] and not (bits[found, word] >> bit) & np.uint64(1):
            found += 1
        if found >= bits.shape[0]:
            continue
        if found != rank:  # the row that is found is added to the one that has no leading one here
            _add_row(bits, rank, found)
            _add_row(values, rank, found)
        for row in range(bits.shape[0]):
            if row != rank and (bits[row, word] >> bit) & np.uint64(1):
                _add_row(bits, row, rank)
                _add_row(values, row, rank)
        pivot_columns[rank] = column
        rank += 1
    return rank


@kernel(_WRITTEN_MATRIX, _MATRIX, _MATRIX)
def add_chosen(out: Words, choices: Words, by_byte: Words) -> None:
    """Add to each row of `out` the sum of the rows that its choices name, a table row for each byte of them.

    Args:
        out: shape (n, w).
        choices: shape (n, m).
        by_byte: shape (256 b, w): sums of rows that the 256 values of each of the first b bytes of choices name.
    """
    n_bytes = by_byte.shape[0] // 256
    for i in range(choices.shape[0]):
        for b in range(n_bytes):
            value = (choices[i, b // 8] >> np.uint64(8 * (b % 8))) & np.uint64(255)
            row = 256 * b + np.int64(value)
            for c in range(out.shape[1]):
                out[i, c] ^= by_byte[row, c]


@kernel(_WRITTEN_MATRIX, _SLOTS, _INDEX, _INDEX)
def fill_peeled(table: Words, slots: Integers, order: Integers, pivots: Integers) -> None:
    """Give the pivot of each peeled key, the last one first, what makes the key decode to its value.

    Args:
        table: shape (n_slots + 64, w), filled; each pivot holds its key's value, less what its dense rows add.
        slots: shape (n, 3).
        order: the keys that were peeled, from `peel`.
        pivots: pivot of each key of `order`.
    """
    for place in range(order.size - 1, -1, -1):
        pivot = pivots[place]
        for k in range(SLOTS_PER_KEY):
            slot = slots[order[place], k]
            if slot != pivot:
                for c in range(table.shape[1]):
                    table[pivot, c] ^= table[slot, c]


@kernel(_WRITTEN_MATRIX, _MATRIX, _SLOTS)
def add_decoded(out: Words, table: Words, slots: Integers) -> None:
    """Add to each row of `out` the three rows of the table that its key has in the sparse part."""
    for i in range(slots.shape[0]):
        for c in range(table.shape[1]):
            out[i, c] ^= table[slots[i, 0], c] ^ table[slots[i, 1], c] ^ table[slots[i, 2], c]
