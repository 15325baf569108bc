"""The least that a cell of a joint table could cost a party: arithmetic, one key stream, one copy in and one out."""

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import GramAccumulator

BLOCK_ROWS = 4096


def floor_ns(n_columns: int, n_primes: int, repeats: int) -> dict[str, float]:
    """Return the nanoseconds per cell of each part of the floor."""
    field = ResidueField(n_primes)
    key = InsecureTestEntropy("floor").read(32)
    shares = field.random(KeyStream(key), (BLOCK_ROWS, n_columns))
    accumulator, target = GramAccumulator(field, n_columns), np.empty_like(shares)

    def ns(work: Callable[[], object]) -> float:
        taken = []
        for _ in range(repeats * 5):
            started_s = time.thread_time()
            work()
            taken.append(time.thread_time() - started_s)
        return 1e9 * median(taken) / (BLOCK_ROWS * n_columns)

    return {
        "product": ns(lambda: accumulator.add_rows([shares])),
        "key_stream": ns(lambda: KeyStream(key).fill(target)),
        "copies": 2 * ns(lambda: np.copyto(target, shares)),
    }
