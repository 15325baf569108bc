"""The states of a job and the steps between them, in one table."""

from enum import StrEnum


class State(StrEnum):
    """Where a job stands."""

    SUBMITTED = "SUBMITTED"
    """The job is valid and stored; it waits for its turn."""
    PROPOSED = "PROPOSED"
    """The job was proposed to the parties."""
    RUNNING = "RUNNING"
    """All parties accepted the same plan."""
    OPENING = "OPENING"
    """Shares of the noisy result have begun to arrive: from here on parties count their budget as spent."""
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def has_ended(self) -> bool:
        """Whether nothing can follow."""
        return not NEXT[self]


_STOPPED = {State.FAILED, State.CANCELLED}

NEXT: dict[State, frozenset[State]] = {
    State.SUBMITTED: frozenset({State.PROPOSED} | _STOPPED),
    State.PROPOSED: frozenset({State.RUNNING} | _STOPPED),
    State.RUNNING: frozenset({State.OPENING} | _STOPPED),
    State.OPENING: frozenset({State.DONE} | _STOPPED),
    State.DONE: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
}
"""All allowed transitions. Any other one is a bug of the coordinator and raises an error."""


class IllegalStepError(RuntimeError):
    """A transition that is not in `NEXT`."""

    def __init__(self, job_id: str, before: State, after: State) -> None:
        super().__init__(f"job {job_id} cannot go from {before} to {after}")
