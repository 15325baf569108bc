"""How a message is declared: what each field of its class holds, from which every form on the wire follows.

A message is a frozen dataclass. Beside `round_id` and `member`, which say whose it is, each of its fields is one of the
parts below. Two forms follow:

* arrays of fixed shape for the session of a job (`round_arrays`), whose sizes the parts state;
* `moiety.v1` messages, whose fields have the names of the class's fields (`transport.sum_codec`).
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, cast

from mpc.secagg.config import RoundConfig

Width = Callable[[RoundConfig], int]
"""The bytes of a part in a round of this configuration."""

_PART = "part of a message"
HEADER = frozenset({"round_id", "member"})
"""Fields that say whose a message is; they are no parts."""


@dataclass(frozen=True)
class OneString:
    """A byte string.

    Attributes:
        width: its bytes.
    """

    width: Width


@dataclass(frozen=True)
class StringPerMember:
    """A map of members' numbers to byte strings.

    Attributes:
        width: width of each string, in bytes.
    """

    width: Width


@dataclass(frozen=True)
class Members:
    """Members' numbers, ascending. Maps that follow in the message are of these members, or of some of them."""


@dataclass(frozen=True)
class MessagePerMember:
    """A tuple of messages of members, ascending by their numbers.

    Attributes:
        of: the class of each, whose parts are byte strings.
    """

    of: type


Part = OneString | StringPerMember | Members | MessagePerMember


def one_string(width: int | Width, *, repr: bool = True) -> Any:  # noqa: A002 -- as in dataclasses.field
    """Declare a field that holds a byte string of `width` bytes; secret ones have `repr=False`."""
    return field(repr=repr, metadata={_PART: OneString(_width(width))})


def string_per_member(width: int | Width, *, repr: bool = True) -> Any:  # noqa: A002 -- likewise
    """Declare a field that holds a byte string of `width` bytes for each of some members."""
    return field(repr=repr, metadata={_PART: StringPerMember(_width(width))})


def members() -> Any:
    """Declare a field that holds members' numbers, ascending."""
    return field(metadata={_PART: Members()})


def message_per_member(of: type) -> Any:
    """Declare a field that holds a message of each of some members."""
    return field(metadata={_PART: MessagePerMember(of)})


def parts_of(kind: type) -> Mapping[str, Part]:
    """Return field name to part of a class of messages, in their order.

    Raises:
        TypeError: a field beside the header is no part.
    """
    return _parts_of(cast(Hashable, kind))


@cache
def _parts_of(kind: Any) -> Mapping[str, Part]:
    found = {}
    for declared in fields(kind):
        if declared.name not in HEADER:
            if _PART not in declared.metadata:
                raise TypeError(f"{kind.__name__}.{declared.name} does not say what it holds on the wire")
            found[declared.name] = declared.metadata[_PART]
    return found


def _width(width: int | Width) -> Width:
    return width if callable(width) else lambda config: width
