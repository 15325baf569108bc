"""Who shares keys with whom: everybody with everybody, or k neighbours each on a ring in random order."""

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from entropy import KeyStream
from mpc.transcript import RoundId, context

_SCRYPT = {"n": 1 << 14, "r": 8, "p": 1}  # 16 MiB and tens of milliseconds per seed


@dataclass(frozen=True)
class Neighbourhood:
    """The graph of one round. Symmetric: i is a neighbour of j if and only if j is one of i.

    Attributes:
        order: all member numbers, in their order on the ring.
        degree: k, even; or None for the complete graph.
    """

    order: tuple[int, ...]
    degree: int | None

    def neighbours(self, member: int) -> frozenset[int]:
        """Return the members with whom a member has masks in common."""
        if self.degree is None:
            return frozenset(self.order) - {member}
        at, n = self._places[member], len(self.order)
        half = self.degree // 2
        return frozenset(self.order[(at + step) % n] for step in range(-half, half + 1) if step)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {member: at for at, member in enumerate(self.order)}

    def holders(self, member: int) -> frozenset[int]:
        """Return who holds shares of a member's secrets: its neighbours; in the complete graph itself too.

        [Bonawitz17] counts the owner among the n of the complete graph, the published parameters of the ring do not.
        """
        return self.neighbours(member) | ({member} if self.degree is None else frozenset())


def draw_graph(n_members: int, degree: int, round_id: RoundId, transcript: bytes) -> Neighbourhood:
    """Return the graph of a round: complete if everybody has n - 1 neighbours, else the ring of `draw_ring`."""
    members = range(1, n_members + 1)
    return complete_graph(members) if degree == n_members - 1 else draw_ring(members, degree, round_id, transcript)


def complete_graph(members: Sequence[int]) -> Neighbourhood:
    """Return the complete graph."""
    return Neighbourhood(tuple(members), None)


def draw_ring(members: Sequence[int], degree: int, round_id: RoundId, transcript: bytes) -> Neighbourhood:
    """Draw the ring from what all members have committed to; everybody computes the same and nobody is told it.

    The seed is scrypt (RFC 7914) of the root of all signed advertisements. Each holds fresh keys of its member, so
    nobody knows a seed before the last honest member has advertised. Afterwards a coordinator can try many sets of
    advertisements (with other keys of its own members, or without some honest ones) and keep the ring it likes best.
    Preventing that would take another exchange in which no member may drop out, so it is bounded: each try is an
    independent ring and costs scrypt's 16 MiB and some 40 ms, and the parameters are chosen so that 2^40 tries, 1,400
    years of one processor, find a bad ring with probability of at most 2^-40; see `graph_parameters`.

    Args:
        members: the whole roster, present or not: absent members count as dropped out, so leaving honest members out
            does not raise the share of corrupt ones among the neighbours.
        degree: k.
        round_id: the round.
        transcript: hash of the configuration and of the root of all advertisements.
    """
    return Neighbourhood(_ring_order(tuple(sorted(members)), round_id, transcript), degree)


@functools.lru_cache(maxsize=8)
def _ring_order(members: tuple[int, ...], round_id: RoundId, transcript: bytes) -> tuple[int, ...]:
    """Draw a uniform order; remembered, as in a simulation all members ask for the same."""
    seed = hashlib.scrypt(transcript, salt=context(round_id, "ring"), dklen=32, maxmem=1 << 26, **_SCRYPT)
    stream = KeyStream(seed)
    order = list(members)
    for last in range(len(order) - 1, 0, -1):  # Fisher and Yates
        chosen = _below(last + 1, stream)
        order[last], order[chosen] = order[chosen], order[last]
    return tuple(order)


def _below(bound: int, stream: KeyStream) -> int:
    """Return a uniform integer in [0, bound), bound < 2^32; words that would make it biased are drawn again."""
    limit = (1 << 64) // bound * bound
    while (word := int.from_bytes(stream.read(8), "little")) >= limit:
        pass
    return word % bound
