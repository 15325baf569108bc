"""What a protocol sends, walked through without running it: who sends how many bytes to whom, and who waits for whom.

A *flight* is one message, one-way, that somebody waits for before the next can leave. Each member has a clock that
counts the flights which have passed before it can go on. A step moves the clocks of its receivers; the largest of all
clocks in the end is the longest chain of messages. Bytes are those of arrays: no frames, no TLS.

What is walked through follows from public numbers alone. Tests hold it to runs of the real code, message by message.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from mpc.protocol.hashkey import CONTRIBUTION_BYTES, DIGEST_BYTES
from mpc.protocol.sealed import SEAL_BYTES
from mpc.protocol.session import COORDINATOR

BINDING_AND_KEY_BYTES = 64
CONFIRMATION_BYTES = 32


class Sent(NamedTuple):
    """A message: the numbers of two members, and its bytes."""

    sender: int
    receiver: int
    n_bytes: int


class Traffic:
    """The messages of a job so far.

    Args:
        members: numbers of all members, the coordinator (0) among them.
        owners: those that bring tables.
        openers: those that hold shares: each waits for the owners' word that the cost is committed before it tells the
            coordinator anything (`party.gate`).

    Attributes:
        sent: bytes by sender and receiver.
        not_known: what is not known beforehand and how it is counted, in words; empty where all is known.
        has_intermediate_products: whether products of secrets are brought back to degree t, to be computed with.
    """

    def __init__(self, members: Iterable[int], owners: Collection[int] = (), openers: Collection[int] = ()) -> None:
        self._clock = dict.fromkeys(members, 0)
        self._owners, self._openers = tuple(owners), tuple(openers)
        self._committed: set[int] = set()
        self._heard_at = dict.fromkeys(self._openers, 0)
        self.sent: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.not_known: list[str] = []
        self.has_intermediate_products = False

    @property
    def flights(self) -> int:
        """The longest chain of messages."""
        return max(self._clock.values(), default=0)

    def bytes_of(self, member: int) -> int:
        """Return how many bytes a member sends."""
        return sum(n_bytes for (sender, _), n_bytes in self.sent.items() if sender == member)

    def step(self, messages: Iterable[Sent]) -> None:
        """Record messages that are sent concurrently; a receiver waits for all of its own. Empty ones are skipped."""
        left = dict(self._clock)
        for sender, receiver, n_bytes in messages:
            if n_bytes:
                self.sent[sender, receiver] += n_bytes
                self._clock[receiver] = max(self._clock[receiver], left[sender] + 1)

    def together(self, *parts: Callable[[], None]) -> None:
        """Let parts go on side by side; who takes part in several waits for the end of all."""
        before, ends = dict(self._clock), []
        for part in parts:
            self._clock = dict(before)
            part()
            ends.append(self._clock)
        self._clock = {member: max(end[member] for end in ends) for member in before}

    def repeat(self, times: int, part: Callable[[], None]) -> None:
        """Let a part happen so often, one after the other. Clocks and bytes advance by the same from the second on."""
        for _ in range(min(times, 2)):
            part()
        if times <= 2:
            return
        clock, sent = dict(self._clock), dict(self.sent)
        part()
        left = times - 3
        for member, now in self._clock.items():
            self._clock[member] = now + left * (now - clock[member])
        for pair, now in list(self.sent.items()):
            self.sent[pair] = now + left * (now - sent.get(pair, 0))

    def wait(self, members: Iterable[int], flights: int) -> None:
        """Let members wait for further messages among them, which are counted already."""
        for member in members:
            self._clock[member] += flights

    def clock_of(self, member: int) -> int:
        """Return the flights that have passed before a member can go on."""
        return self._clock[member]

    def wait_until(self, member: int, flights: int) -> None:
        """Let a member go on only after so many flights."""
        self._clock[member] = max(self._clock[member], flights)

    def commit(self, members: Iterable[int], at: int | None = None) -> None:
        """Let members commit the cost, after so many flights or now; owners tell all others that hold shares."""
        for member in members:
            if member in self._committed:
                continue
            self._committed.add(member)
            for opener in self._openers:
                if member in self._owners and opener != member:
                    self.sent[member, opener] += 1
                    left = self._clock[member] if at is None else at
                    self._heard_at[opener] = max(self._heard_at[opener], left + 1)

    def pass_gate(self, members: Iterable[int]) -> None:
        """Let members commit, and those that hold shares wait for all owners, whose own part may be over by now."""
        passing = tuple(members)
        self.commit(passing)
        self.commit(self._owners)
        for member in passing:
            if member in self._heard_at:
                self.wait_until(member, self._heard_at[member])

    def end(self) -> None:
        """Let all parties end their parts, which opens their gates."""
        self.pass_gate(member for member in self._clock if member != COORDINATOR)


def pairwise(members: Collection[int], n_bytes: int) -> list[Sent]:
    """Return a message from each member to each other one."""
    return [Sent(a, b, n_bytes) for a in members for b in members if a != b]


def greet(traffic: Traffic, members: Sequence[int], n_parties: int) -> None:
    """Walk through `agree_pairwise_secrets`: members of whom neither is among the first n_parties send nothing."""
    pairs = [(a, b) for a in members for b in members if a != b and min(a, b) <= n_parties]
    traffic.step(Sent(a, b, BINDING_AND_KEY_BYTES) for a, b in pairs)


def confirm(traffic: Traffic, members: Sequence[int], n_parties: int) -> None:
    """Walk through `confirm_pairwise_secrets`; arguments as of `greet`."""
    pairs = [(a, b) for a in members for b in members if a != b and min(a, b) <= n_parties]
    traffic.step(Sent(a, b, CONFIRMATION_BYTES) for a, b in pairs)


def agree_on_key(traffic: Traffic, parties: Collection[int]) -> None:
    """Walk through `HashKeys.agree`: commitments, then contributions."""
    traffic.step(pairwise(parties, DIGEST_BYTES + SEAL_BYTES))
    traffic.step(pairwise(parties, CONTRIBUTION_BYTES + DIGEST_BYTES + SEAL_BYTES))
