"""Places of questions that are open at a coordinator: so many in all, and so many of one analyst."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from service.errors import TooMuchError

MAX_OPEN = 64
"""Largest number of questions of one kind that are open at a time."""

CALLED_OFF_CODE = "question-called-off"

MAX_OPEN_EACH = 16
"""Largest number of them of one analyst."""


@dataclass(frozen=True)
class Places:
    """The places of one kind of questions.

    Attributes:
        kind: what they are called, in the plural.
        open_of: returns of each open question the analyst who asks.
        most_each: largest number of open questions of one analyst.
    """

    kind: str
    open_of: Callable[[], Iterable[str]]
    most_each: int = MAX_OPEN_EACH
    _opening: "Counter[str]" = field(default_factory=Counter, init=False, repr=False)

    @contextmanager
    def one_of(self, analyst: str) -> Iterator[None]:
        """Take a place for a question that is being opened; once it is open, `open_of` counts it.

        Raises:
            TooMuchError: there is none, or none for this analyst.
        """
        held = Counter(self.open_of()) + self._opening
        if held.total() >= MAX_OPEN:
            raise TooMuchError(f"{MAX_OPEN} {self.kind} are open; come again when one is over")
        if held[analyst] >= self.most_each:
            raise TooMuchError(f"{self.most_each} {self.kind} of {analyst} are open: wait, or call one off")
        self._opening[analyst] += 1
        try:
            yield
        finally:
            self._opening[analyst] -= 1
