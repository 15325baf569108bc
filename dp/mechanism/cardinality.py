"""Flajolet-Martin sketches of the clusters of several parties, with phantom users, drawn exactly.

A user is hashed to a geometric variable H, P(H > r) = 2^-r, by a key stream that the parties share: H is one more than
the number of trailing zeros of the user's 32 bits, and 33 stands for 33 and more. A party publishes per sketch and
cluster the largest H among

- its users in the cluster,
- the shared phantoms: `shared_phantoms` virtual users in each joint cell, hashed alike by all parties,
- its own phantoms: `own_phantoms` virtual users in each of its clusters, hashed by bits that nobody else has,

and at least `floor`. Everything is integers and comparisons of random bits, so the variables have the distribution that
`dp.cost.losses.sketch` accounts for; cutting them off at 33 is post-processing.

This is the partition sketch of [VertClust23, algorithm 3], after [Smith20], at gamma = 1, with its privacy repaired by
the shared phantoms. The guarantee is for whoever does not know the hash keys: see `PartitionSketch`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import ORDERS, Adjacency, CalibrationError, check_delta, check_epsilon
from dp.cost.calibrate import last_enough
from dp.cost.composition import composed_epsilon
from dp.cost.events.sketch import CardinalitySketchDpEvent
from dp.cost.views import ADJACENCY, View
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

Levels = NDArray[np.uint8]

HIGHEST = 33
"""Largest level; up to some 2^28 users no sketch gets there often enough to matter."""

MAX_PHANTOMS = 1 << 20
"""Largest number of phantoms of each kind. With more, a sketch could no longer distinguish users from phantoms."""

_WORDS_PER_BLOCK = 1 << 20
_MISS = 1e-3  # probability that the phantoms of a cluster alone stay at or below the floor
_OFFSETS = np.array([-256, -64, -16, -4, -1, 0, 1, 4, 16, 64, 256])
_SHARED = tuple(sorted({round(2 ** (i / 2)) for i in range(21)}))  # 1 .. 1024


@dataclass(frozen=True)
class PartitionSketch:
    """The sketches that a group of parties makes with one key, and what they cost.

    Hashes of users are independent and identically distributed, so neither the position of a user in the table matters
    nor that others move up when one is removed.

    Whoever knows a hash key knows H of every user and can infer from the sketches which users are in a cluster: there
    is no guarantee against an observer to whom a party revealed the key.

    Attributes:
        n_clusters: k' of each party.
        n_sketches: M.
        n_parties: S, in the group.
        own_phantoms: n, at most MAX_PHANTOMS.
        shared_phantoms: c, 1 .. MAX_PHANTOMS.
        floor: 1 .. 32.
        n_groups: groups that make such sketches of the same users, each with a key of its own.
    """

    n_clusters: int
    n_sketches: int
    n_parties: int
    own_phantoms: int
    shared_phantoms: int
    floor: int
    n_groups: int = 1

    def __post_init__(self) -> None:
        if min(self.n_clusters, self.n_sketches, self.n_groups) < 1 or self.n_parties < 2:
            raise CalibrationError("at least one cluster, one sketch and two parties are needed")
        if not (0 <= self.own_phantoms <= MAX_PHANTOMS and 1 <= self.shared_phantoms <= MAX_PHANTOMS):
            raise CalibrationError(
                f"the number of shared phantoms must be in 1..{MAX_PHANTOMS}, and that of own phantoms in "
                f"0..{MAX_PHANTOMS}"
            )
        if not 1 <= self.floor < HIGHEST:
            raise CalibrationError(f"the floor of a sketch must be in 1..{HIGHEST - 1}")

    def event(self, adjacency: Adjacency) -> CardinalitySketchDpEvent:
        """Return what the sketches of all parties of all groups cost together, against whoever does not know the keys.

        The shared phantoms of other cells do not count: a cell that meets the target's in one party's cluster lies in
        another cluster of another party, whose level tells of them.
        """
        return CardinalitySketchDpEvent(
            n_sketches=self.n_sketches * self.n_groups,
            n_parties=self.n_parties,
            own_phantoms=self.own_phantoms,
            shared_phantoms=self.shared_phantoms,
            floor=self.floor,
            adjacency=adjacency,
        )

    def events(self, view: View) -> tuple[CardinalitySketchDpEvent]:
        """Return what all sketches cost AGAINST THE COORDINATOR ALONE, with the view's adjacency: see the class."""
        return (self.event(ADJACENCY[view]),)

    @property
    def phantoms_of_cluster(self) -> int:
        """All phantoms in one cluster of one party."""
        return self.own_phantoms + self.shared_phantoms * int(self.n_clusters ** (self.n_parties - 1))

    @property
    def phantoms_of_meeting(self) -> int:
        """Phantoms that one cluster of a party has in common with one of another party: of at least two parties."""
        return self.shared_phantoms * int(self.n_clusters ** (self.n_parties - 2))

    @property
    def phantoms_of_union(self) -> int:
        """Phantoms in the union of one cluster of a party with one of another party."""
        return 2 * self.phantoms_of_cluster - self.phantoms_of_meeting

    def draw(self, entropy: Entropy) -> Levels:
        """Draw the largest levels of one party's own phantoms, for the sketches of one group: uint8, shape (M, k')."""
        shape = (self.n_sketches, self.n_clusters)
        stream = KeyStream(entropy.read(KEY_BYTES))
        return highest_of_many(stream, self.own_phantoms, math.prod(shape)).reshape(shape)

    def publish(
        self, membership: NDArray[np.int64], axis: int, users: KeyStream, phantoms: KeyStream, own: Levels
    ) -> Levels:
        """Return one party's sketches for one group.

        Args:
            membership: cluster of each user, 0 .. k' - 1; users in the same order at all parties.
            axis: which of the S parties this is, 0 .. S - 1.
            users: a stream of the group's key, at its beginning: alike at all parties, fresh per job.
            phantoms: another such stream.
            own: the levels of this party's own phantoms, fresh from `draw`.

        Returns:
            uint8 levels of shape (M, k').

        Raises:
            ValueError: a cluster that is none, or an axis that is none.
        """
        if membership.size and not 0 <= membership.min() <= membership.max() < self.n_clusters:
            raise ValueError(f"a cluster is outside 0..{self.n_clusters - 1}")
        if not 0 <= axis < self.n_parties:
            raise ValueError(f"axis {axis} does not exist in a group of {self.n_parties} parties")
        levels = highest_of_clusters(users, membership, self.n_clusters, self.n_sketches)
        np.maximum(levels, self._shared_levels(phantoms, axis), out=levels)
        np.maximum(levels, own, out=levels)
        np.maximum(levels, np.uint8(self.floor), out=levels)
        return levels

    def _shared_levels(self, stream: KeyStream, axis: int) -> Levels:
        """Return the largest level of the shared phantoms in each of a party's clusters: shape (M, k')."""
        k, s = self.n_clusters, self.n_parties
        others = tuple(1 + a for a in range(s) if a != axis)
        out = np.empty((self.n_sketches, k), dtype=np.uint8)
        step = max(1, _WORDS_PER_BLOCK // k**s)
        for start in range(0, self.n_sketches, step):
            n_here = min(step, self.n_sketches - start)
            cells = highest_of_many(stream, self.shared_phantoms, n_here * k**s)
            out[start : start + n_here] = cells.reshape((n_here,) + (k,) * s).max(axis=others, initial=0)
        return out


@lru_cache(maxsize=64)
def calibrate_sketch(
    n_clusters: int, n_sketches: int, n_parties: int, n_groups: int, epsilon: float, delta: float
) -> PartitionSketch:
    """Return the sketch with the fewest phantoms in the union of two parties' clusters.

    `n_groups` groups make such sketches of the same users, each with its own key; all together cost at most `epsilon`
    at `delta`, for users that are added or removed. The floor is as high as the phantoms of a cluster alone get almost
    always, which costs no accuracy. How many phantoms the parties share is chosen by Renyi curves, which is quick; of
    the others as many are then left out as the loss distribution allows.

    Raises:
        CalibrationError: epsilon or delta is out of range, or needs more than MAX_PHANTOMS phantoms.
    """
    check_epsilon(epsilon)
    check_delta(delta)

    def with_phantoms(own: int, shared: int) -> PartitionSketch:
        crowd = own + shared * n_clusters ** (n_parties - 1)
        floor = min(max(1, math.floor(math.log2(crowd / -math.log(_MISS)))), HIGHEST - 1)
        return PartitionSketch(n_clusters, n_sketches, n_parties, own, shared, floor, n_groups)

    is_enough = RenyiBound(epsilon, delta).covers
    best: PartitionSketch | None = None
    for shared in _SHARED:
        enough = MAX_PHANTOMS
        if best is not None:  # no more of them than would beat the best so far
            enough = min(enough, (best.phantoms_of_union - with_phantoms(0, shared).phantoms_of_union) // 2)
        if enough < 0 or not is_enough(with_phantoms(enough, shared)):
            continue
        enough = last_enough(
            lambda own, shared=shared: is_enough(with_phantoms(own, shared)),  # type: ignore[misc]
            lacking=-1,
            enough=enough,
            excess_bits=7,
        )
        best = with_phantoms(enough, shared)
    if best is None:
        raise CalibrationError(f"epsilon {epsilon:g} at delta {delta:g} needs more than {MAX_PHANTOMS} phantoms")
    shared_phantoms = best.shared_phantoms

    def is_enough_by_losses(own: int) -> bool:
        event = with_phantoms(own, shared_phantoms).event(Adjacency.ADD_OR_REMOVE_ONE)
        return composed_epsilon(event, delta, near=epsilon).epsilon <= epsilon

    enough = last_enough(is_enough_by_losses, lacking=-1, enough=best.own_phantoms, excess_bits=7)
    return with_phantoms(enough, shared_phantoms)


class RenyiBound:
    """Whether sketches cost at most epsilon at delta by their Renyi curves, computed near their best order only.

    With D_a the divergence of order a, that order bounds epsilon by D_a + (f(a) - ln delta) / (a - 1), where
    f(a) = (a - 1) ln(1 - 1/a) - ln a is convex (`dp.cost.accounting.epsilon_of_rdp`). So is (a - 1) D_a, as it
    generates cumulants of the loss. Whether a bound is at most epsilon depends on the least value of
    (a - 1) (D_a - epsilon) + f(a), and a convex function that is larger at both neighbours of an order is least there.
    Every order's bound holds by itself: an order that is not the best could ask for more phantoms, never for too few.
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        self._epsilon, self._log_delta = epsilon, math.log(delta)
        self._best = 0

    def covers(self, sketch: PartitionSketch) -> bool:
        """Return whether they do."""
        event, last = sketch.event(Adjacency.ADD_OR_REMOVE_ONE), len(ORDERS) - 1
        while True:
            near = np.unique(np.clip(self._best + _OFFSETS, 0, last))
            orders = ORDERS[near]
            curve, a = event.curve(orders), orders.astype(np.float64)
            excess = (a - 1) * (curve - self._epsilon + np.log1p(-1 / a)) - np.log(a)
            before, self._best = self._best, int(near[excess.argmin()])
            if excess.min() <= self._log_delta:
                return True
            if self._best == before:
                return False


def highest_of_clusters(stream: KeyStream, membership: NDArray[np.int64], n_clusters: int, n_sketches: int) -> Levels:
    """Return the largest level of the users of each cluster, by one sketch after the other.

    User i of sketch s has bits number s n + i of the stream, 32 of them.

    Args:
        stream: stream at its beginning.
        membership: shape (n,), cluster of each user.
        n_clusters: k'.
        n_sketches: M.

    Returns:
        shape (M, k'); 0 for an empty cluster.
    """
    n_users = len(membership)
    out = np.zeros((n_sketches, n_clusters), dtype=np.uint8)
    if n_users == 0:
        return out
    order = np.argsort(membership, kind="stable")
    present, starts = np.unique(membership[order], return_index=True)
    # An odd number of users leaves half a word over in each sketch, which keeps sketches apart.
    words = np.empty((n_users + 1) // 2, dtype=np.uint64)
    largest = np.empty((n_sketches, len(present)), dtype=np.uint32)
    for sketch in range(n_sketches):
        stream.fill(words)
        bits = words.view(np.uint32)[:n_users]
        # Ones where the trailing zeros are: grows with their number, all ones for the word 0.
        zeros = ~bits & (bits - np.uint32(1))
        largest[sketch] = np.maximum.reduceat(zeros[order], starts)
    out[:, present] = 1 + np.bitwise_count(largest)
    return out


def highest_of_many(stream: KeyStream, n_users: int, size: int) -> Levels:
    """Return independent variables, each the largest level of `n_users` users.

    Of the users at level r or above each is above r with probability 1/2, so their number is halved at random, by one
    bit per user, until none is left.

    Args:
        stream: where the bits come from; about 2 n_users + 64 per variable.
        n_users: 0 .. MAX_PHANTOMS; with none the variables are 0.
        size: how many variables.

    Returns:
        shape (size,), 0 .. HIGHEST.
    """
    out = np.zeros(size, dtype=np.uint8)
    step = max(1, _WORDS_PER_BLOCK // (n_users // 64 + 1))
    for start in range(0, size, step):
        block = out[start : start + step]
        active = np.arange(len(block))
        left = np.full(len(block), n_users, dtype=np.int64)
        for level in range(1, HIGHEST + 1):
            active, left = active[left > 0], left[left > 0]
            if not len(active):
                break
            block[active] = level
            left = _halved(stream, left)
    return out


def _halved(stream: KeyStream, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each count how many of that many fair coins show heads."""
    n_words = int(counts.max()) // 64 + 1
    words = stream.words(len(counts) * n_words).reshape(len(counts), n_words)
    full, rest = counts // 64, (counts % 64).astype(np.uint64)
    heads = np.bitwise_count(words)
    heads[np.arange(n_words) >= full[:, None]] = 0
    last = words[np.arange(len(counts)), full] & ((np.uint64(1) << rest) - np.uint64(1))
    total: NDArray[np.int64] = heads.sum(axis=1, dtype=np.int64) + np.bitwise_count(last)
    return total
