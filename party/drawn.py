"""What an analysis has drawn of the noise that its plan states, and so what may leave. Pure: `party.gate` acts on it.

A plan is charged for the releases that it states (`analyses.job.plan.Plan.releases`). Here the other half is kept: the
noise that is drawn is that of a stated release, no more often than stated, and what it shall hide waits until it was
drawn. Compared are releases, by value; what an analysis then does with the noise is not seen
(docs/decisions/020-one-cost.md).
"""

from collections import Counter
from collections.abc import Sequence

from analyses.job.releases import PlannedRelease
from mpc.errors import LocalFaultError


class DrawnNoise:
    """The books of one member about the releases of one plan.

    Args:
        planned: the releases of the plan.
        me: the member number; what others draw is no matter here.
    """

    def __init__(self, planned: Sequence[PlannedRelease], me: int) -> None:
        self._planned = [one for one in planned if me in one.members]
        self._n_begun = [0] * len(self._planned)
        self._n_drawn = [0] * len(self._planned)
        self._n_sent = [Counter[int]() for _ in self._planned]

    def begin(self, release: object) -> int:
        """Return the number under which `finish` knows a draw, and count it.

        Raises:
            LocalFaultError: the plan does not state this release for this member, or not so often.
        """
        places = [i for i, one in enumerate(self._planned) if _is_same(one.release, release)]
        if not places:
            raise LocalFaultError(f"the plan states no such release for this party: a {type(release).__name__}")
        for place in places:
            if self._n_begun[place] < self._planned[place].times:
                self._n_begun[place] += 1
                return place
        most = sum(self._planned[place].times for place in places)
        raise LocalFaultError(f"the plan allows this party at most {most} draws of this {type(release).__name__}")

    def finish(self, place: int) -> None:
        """Record that the noise of a draw was made."""
        self._n_drawn[place] += 1

    def check_message(self, to: int, stage: str) -> None:
        """Count a message to the coordinator, or of the opening stage; it leaves if this returns.

        Raises:
            LocalFaultError: noise that the plan wants drawn before was not drawn; the message does not count then.
        """
        counted = [i for i, one in enumerate(self._planned) if stage not in one.earlier]
        for i in counted:
            planned, n_messages = self._planned[i], self._n_sent[i][to] + 1
            n_needed = planned.n_needed(n_messages)
            if self._n_drawn[i] < n_needed:
                raise LocalFaultError(
                    f"message {n_messages} of stage {stage!r} needs noise that was not drawn: the plan states a "
                    f"{type(planned.release).__name__}, which must have been drawn {n_needed} times by then, and was "
                    f"drawn {self._n_drawn[i]} times"
                )
        for i in counted:
            self._n_sent[i][to] += 1


def _is_same(stated: object, drawn: object) -> bool:
    """Compare by value. Of another class, a subclass too, it is another release: it may draw something else."""
    return type(stated) is type(drawn) and stated == drawn
