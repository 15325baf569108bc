"""What a device says where it does not answer a question: one of five words, and nothing else.

Each follows from the owner's configuration, from what the ledger was charged before, or from the question: no record is
read before the device has said it. Who asked hears how many devices said which.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mpc.transcript import RoundId


class WhyRefused(StrEnum):
    """The reason, by its class."""

    POLICY = "policy"
    BUDGET = "budget"
    QUESTION = "question"
    VERSION = "version"
    TROUBLE = "trouble"


@dataclass(frozen=True)
class Declined:
    """A member does not take part in a round, and says so before it has sent anything else.

    Attributes:
        round_id: identifier of the round.
        member: its number.
        why: the class of its reason.
    """

    round_id: RoundId
    member: int
    why: WhyRefused


Refusals = tuple[tuple[str, int], ...]
"""How many gave which reason; reasons in the order of `WhyRefused`, none that nobody gave."""


def why_of(word: str) -> WhyRefused:
    """Return the reason that a word of the wire means; a newer device may have others."""
    return WhyRefused(word) if word in set(WhyRefused) else WhyRefused.TROUBLE


def counted(reasons: Iterable[WhyRefused]) -> Refusals:
    """Return how many gave which reason."""
    given = list(reasons)
    return tuple((str(why), given.count(why)) for why in WhyRefused if why in given)


def refusals_of(counts: Mapping[str, int]) -> Refusals:
    """Return counts of the wire as `counted` does; what is no reason is left out."""
    return tuple((str(why), int(counts[why])) for why in WhyRefused if counts.get(why, 0) > 0)


def in_words(refusals: Refusals) -> str:
    """Return counts as words, for instance `3 refused: policy 1, budget 2`; empty where nobody refused."""
    if not refusals:
        return ""
    total = sum(n for _, n in refusals)
    return f"{total} refused: " + ", ".join(f"{why} {n}" for why, n in refusals)
