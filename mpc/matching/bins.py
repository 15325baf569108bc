"""Cuckoo hashing: a bin for each row of one table, so that an equal row of another table can be in three bins only.

Every id has three candidate bins, one in each third, by a function that the owners of a job know. Who places its rows
gives each a candidate of its own; others know of each of their ids the three bins where it would be. Source: [PSTY19],
without a stash.

Rows are placed by peeling, as keys of `mpc.matching.okvs`: a row that is alone in a bin takes it. The few that are
left, if any, are placed by a maximum matching, so that placement fails only if there is none.

Failure. There is no placement only if some k + 1 rows have all candidates among k bins [Hall], each of which is then a
candidate of at least two of them, if k is as small as can be. With s bins to a third, the probability is at most

    sum over k and a + b + c = k of C(n, k + 1) f(a) f(b) f(c),    f(a) = C(s, a) W(k + 1, a) / s^(k + 1),

where W(m, a) counts the ways to put m rows into a bins, two or more into each. The largest term for large tables is
that of four rows with the same three bins, C(n, 4) / s^9. With 1.3 n / 3 + 100 bins to a third, the sum is below 2^-40
for every n, as `tests/unit/mpc/matching/test_bins.py` computes; the 27 that would make 80 bins in all are too few for
tables of some hundred rows.

Large tables are dealt into parts of some 65,536 ids, by the same key: each part has bins for as many ids as it has but
for a chance of 2^-60, and stores of its own, which fit into a cache.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.errors import LocalFaultError, PlacementFailedError
from mpc.matching import okvs_kernels as kernels
from mpc.matching.block_prf import BLOCK_BYTES, block_of_numbers, mac

N_CANDIDATES = kernels.SLOTS_PER_KEY
ID_BYTES = 32

_EXTRA_BINS = 100
"""Bins of each third beyond 1.3 n / 3: few rows have the same three bins too often otherwise."""

PART_IDS, MOST_IN_PART = 1 << 16, 1 << 18
"""Ids of a part, on average: of the leader, whose rows are a few megabytes, and the most of another owner."""

Numbers = NDArray[np.uint32]
"""Numbers of rows: a match has at most 2^24, so four bytes hold one."""

_LOG_FAILURE = 60 * math.log(2)


def n_parts_of(sizes: Collection[int]) -> int:
    """Return into how many parts owners of these declared sizes deal their ids."""
    return max(1, -(-min(sizes) // PART_IDS), -(-max(sizes) // MOST_IN_PART))


def room_of(size: int, n_parts: int) -> int:
    """Return how many ids of an owner of this declared size a part has room for.

    The number in a part is binomial with mean mu = size / n_parts; by Bernstein's inequality it exceeds mu + t with a
    probability below exp(-t^2 / (2 (mu + t / 3))), which is 2^-60 / n_parts for the t below, so 2^-60 over all parts.
    """
    if n_parts == 1:
        return size
    mean, log = size / n_parts, _LOG_FAILURE + math.log(n_parts)
    return min(size, math.ceil(mean + log / 3 + math.sqrt(log * log / 9 + 2 * mean * log)))


def dealt(part: NDArray[Any], n_parts: int, room: int) -> list[Numbers]:
    """Return which ids are in each part.

    Args:
        part: part of each id, shape (n,).
        n_parts: number of parts.
        room: ids that a part has room for.

    Raises:
        PlacementFailedError: one has more, with a chance below 2^-60.
    """
    ends = np.cumsum(np.bincount(part, minlength=n_parts))
    if np.diff(ends, prepend=0).max() > room:
        raise PlacementFailedError("the ids do not fit into the parts of this match: submit the job again")
    return np.split(np.argsort(part, kind="stable").astype(np.uint32), ends[:-1])


def id_blocks(ids: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the two blocks of each id; `ids` has shape (n, 32)."""
    return ids[:, :BLOCK_BYTES], ids[:, BLOCK_BYTES:]


@dataclass(frozen=True)
class Bins:
    """The bins for a table; their number is public.

    Attributes:
        n_rows: largest number of rows that are placed.
        key: 32 bytes from which the candidates of ids follow; drawn when ids are fixed, so that nobody chooses one with
            which some ids do not fit.
        n_parts: parts into which ids are dealt, each with bins of its own.
    """

    n_rows: int
    key: bytes
    n_parts: int = 1

    @property
    def n_of_third(self) -> int:
        """Bins in each third of a part."""
        return -(-13 * room_of(self.n_rows, self.n_parts) // 30) + _EXTRA_BINS

    @property
    def n_of_part(self) -> int:
        """Bins of a part; those of the first part come first, then those of the next."""
        return N_CANDIDATES * self.n_of_third

    @property
    def n_bins(self) -> int:
        """All bins, B."""
        return self.n_parts * self.n_of_part

    def candidates(self, ids: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the bins in which an id may be, shape (n, 3): one in each third of its part.

        Args:
            ids: shape (n, 32), uint8.
        """
        bins = np.empty((len(ids), N_CANDIDATES), dtype=np.int64)
        for number in range(N_CANDIDATES):
            bins[:, number] = self._hashed(ids, number, self.n_of_third) + number * self.n_of_third
        if self.n_parts > 1:
            bins += self._hashed(ids, N_CANDIDATES, self.n_parts)[:, None] * self.n_of_part
        return bins

    def _hashed(self, ids: NDArray[np.uint8], number: int, below: int) -> NDArray[np.int64]:
        hashed = mac(self.key, *id_blocks(ids), block_of_numbers(np.full(len(ids), number)))
        return (hashed[:, :8].copy().view("<u8").reshape(-1) % np.uint64(below)).astype(np.int64)

    def place(self, candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a bin for each row, all different and each a candidate of its row, shape (n,).

        Args:
            candidates: shape (n, 3), of rows with different ids.

        Raises:
            LocalFaultError: there are more rows than the bins are for.
            PlacementFailedError: there is no such placement, with a probability below 2^-40.
        """
        n = len(candidates)
        if n > self.n_rows:
            raise LocalFaultError("there are more rows than the bins are for")
        degrees, sums = np.zeros(self.n_bins, np.int64), np.zeros(self.n_bins, np.int64)
        order, pivots = np.empty(n, np.int64), np.empty(self.n_bins, np.int64)
        n_placed = kernels.peel(np.ascontiguousarray(candidates), degrees, sums, order, pivots)
        bin_of = np.full(n, -1, dtype=np.int64)
        bin_of[order[:n_placed]] = pivots[:n_placed]
        left = np.flatnonzero(bin_of < 0)
        if left.size:  # none of their candidates is taken: a row was placed where it was alone
            from scipy.sparse import csr_array  # slow to import, and hardly any placement needs it
            from scipy.sparse.csgraph import maximum_bipartite_matching

            pairs = (np.repeat(np.arange(left.size), N_CANDIDATES), candidates[left].reshape(-1))
            graph = csr_array((np.ones(pairs[0].size, np.int8), pairs), shape=(left.size, self.n_bins))
            bin_of[left] = maximum_bipartite_matching(graph, perm_type="column")
        if (bin_of < 0).any():
            raise PlacementFailedError("the ids do not fit into the bins of this job: submit it again")
        return bin_of
