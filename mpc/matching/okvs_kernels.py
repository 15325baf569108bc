"""Compiled loops of the oblivious key-value store: peeling, elimination, filling and reading of its table.

Key i has three slots, `slots[i]`, and 64 dense bits, `dense[i]`: bit j stands for row `n_slots + j` of the table. Rows
of the table and values are of w words and are added by XOR. No loop allocates memory or clears it: what has to be zero
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
_DENSE = Array("uint64")
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


@inlined
def _add_others(out: Any, row: Any, table: Any, slots: Any, bits: Any, i: Any, pivot: Any) -> None:
    """Add to a row of `out` the rows of the table that belong to key i, all but `pivot`."""
    for k in range(SLOTS_PER_KEY):
        slot = slots[i, k]
        if slot != pivot:
            for c in range(table.shape[1]):
                out[row, c] ^= table[slot, c]
    for j in range(DENSE_ROWS):
        keep = np.uint64(0) - (
            (bits >> np.uint64(j)) & np.uint64(1)
        )  # no branch, which would be guessed wrong half the time
        for c in range(table.shape[1]):
            out[row, c] ^= table[table.shape[0] - DENSE_ROWS + j, c] & keep


@kernel(_WRITTEN_MATRIX, _SLOTS, _DENSE, _INDEX, _INDEX)
def fill_peeled(table: Words, slots: Integers, dense: Words, order: Integers, pivots: Integers) -> None:
    """Give the pivot of each peeled key, the last one first, what makes the key decode to its value.

    Args:
        table: shape (n_slots + 64, w), filled; each pivot holds its key's value.
        slots: shape (n, 3).
        dense: shape (n,).
        order: the keys that were peeled, from `peel`.
        pivots: pivot of each key of `order`.
    """
    for place in range(order.size - 1, -1, -1):
        i, pivot = order[place], pivots[place]
        _add_others(table, pivot, table, slots, dense[i], i, pivot)


@kernel(_WRITTEN_MATRIX, _MATRIX, _SLOTS, _DENSE)
def add_decoded(out: Words, table: Words, slots: Integers, dense: Words) -> None:
    """Add to each row of `out` what its key decodes to; shapes as of `fill_peeled`, `out` has one row per key."""
    for i in range(slots.shape[0]):
        _add_others(out, i, table, slots, dense[i], i, np.int64(-1))
