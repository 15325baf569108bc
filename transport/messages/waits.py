"""The members that this member waits for, and for how long, so that a slow member is named and not its victims."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MIN_BYTES_PER_S = 64 << 10
"""Half a megabit per second: an array of B bytes that has begun to come must be there within the deadline and
B / MIN_BYTES_PER_S seconds."""


class Waits:
    """The waits of one member in one job.

    Args:
        clock: seconds, of the event loop.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started_s = clock()
        self._n_waits: Counter[int] = Counter()
        self._since_s: dict[int, float] = {}
        self._total_s: defaultdict[int, float] = defaultdict(float)  # of waits that are over

    @contextmanager
    def waiting_for(self, member: int) -> Iterator[None]:
        """Count the time from here to the end of the context as a wait for a member; waits may overlap."""
        if not self._n_waits[member]:
            self._since_s[member] = self._clock()
        self._n_waits[member] += 1
        try:
            yield
        finally:
            self._n_waits[member] -= 1
            if not self._n_waits[member]:
                self._total_s[member] += self._clock() - self._since_s.pop(member)

    def longest(self, least_s: float) -> int | None:
        """Return the member that we have waited for longest without a break; None if no wait lasted `least_s`."""
        if not self._since_s:
            return None
        member = min(self._since_s, key=lambda one: self._since_s[one])
        return member if self._clock() - self._since_s[member] >= least_s else None

    def costliest(self) -> int | None:
        """Return the member that we have waited for most in total; None if for no member half of the time."""
        now_s = self._clock()
        total_s = self._total_s.copy()
        for member, since_s in self._since_s.items():
            total_s[member] += now_s - since_s
        if not total_s:
            return None
        member = max(total_s, key=lambda one: total_s[one])
        return member if 2 * total_s[member] >= now_s - self._started_s else None
