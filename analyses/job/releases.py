"""The releases that a plan states: which members draw the noise of each, how often, and before what."""

from collections.abc import Set
from dataclasses import dataclass, field

from dp.mechanism.release import Release


@dataclass(frozen=True)
class PlannedRelease:
    """A release of a job, with all that a party's gate needs in order to hold its analysis to it.

    A member that draws it has to have drawn before its messages leave: before message number m to one receiver, to the
    coordinator or in the opening stage, at least ceil(m / messages_per_draw) times, or `times` where that is less.
    Messages of the stages in `earlier` neither wait nor count.

    Attributes:
        release: the mechanism. What it costs (`Release.events`) covers all draws of all these members.
        members: numbers of those that draw it.
        times: how often each of them may draw it.
        earlier: stages of which messages may leave without this noise, as they contain nothing that it hides.
        messages_per_draw: how many messages one draw is enough for.
    """

    release: Release
    members: tuple[int, ...]
    times: int = 1
    earlier: Set[str] = field(default=frozenset())
    messages_per_draw: int = 1

    def __post_init__(self) -> None:
        if self.times < 1 or self.messages_per_draw < 1 or not self.members:
            raise ValueError("a release that is planned is drawn by somebody, at least once, for at least one message")

    def n_needed(self, n_messages: int) -> int:
        """Return how often a member must have drawn before so many messages to one receiver have left."""
        return min(self.times, -(-n_messages // self.messages_per_draw))
