"""Messages to members that are made when they are asked for: nobody keeps one of each of thousands of members."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class MadeWhenAsked(Mapping[int, T]):
    """Member to its message, made anew each time.

    Args:
        members: who gets one, in order.
        make: makes a member's message; always the same one for the same member.
    """

    def __init__(self, members: Sequence[int], make: Callable[[int], T]) -> None:
        self._members = dict.fromkeys(members)
        self._make = make

    def __getitem__(self, member: int) -> T:
        if member not in self._members:
            raise KeyError(member)
        return self._make(member)

    def __iter__(self) -> Iterator[int]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)
