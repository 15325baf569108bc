"""What a party computes of its own values: where that raises anything, zeros of the same shape stand for them.

After admission an error that depends on values would be a message to everybody: the job fails, or fails in another
stage. No value that is known raises: each is mapped by a public rule (docs/decisions/018-public-mapping.md). This is
for errors that nobody foresaw. The job goes on with the same messages of the same sizes, and only the owner learns of
it.

Privacy: what stands for the values is admitted as values, so what bounds the sensitivity for all tables bounds it for
those. But whether something was raised may depend on one row, and then that row decides about a whole block or table.
So this is a second line: it hides an error from everybody but those who see the noisy result, where the declared
sensitivity does not cover it. The first line is that nothing raises, which tests try at both ends of all that is
admitted.
"""

from collections import Counter
from collections.abc import Callable
from typing import Protocol, TypeVar

R = TypeVar("R")
V = TypeVar("V")


class CountsFailures(Protocol):
    """A table, or what reads one, that keeps account of what its values raised."""

    @property
    def failures(self) -> Counter[str]:
        """How often computing raised an error, by its class. Private."""


def zeros_if_raised(own: CountsFailures | None, of_values: Callable[[], R], zeros: Callable[[], R]) -> R:
    """Return what is computed of own values, or what stands for none where that raises anything.

    All that a party computes of its own values goes through here. Of an error only the class is kept, for the owner:
    its text may quote values.

    Args:
        own: whose values they are; None where nobody keeps account.
        of_values: computes.
        zeros: returns the same for no values, of the same shape.
    """
    try:
        return of_values()
    except Exception as error:
        if own is not None:
            own.failures[type(error).__name__] += 1
        return zeros()


def zeros_instead(own: CountsFailures | None, work: Callable[[V], R], values: V, zeros: V) -> R:
    """Return what `work` makes of values, or of zeros where it raises anything; see `zeros_if_raised`."""
    return zeros_if_raised(own, lambda: work(values), lambda: work(zeros))
