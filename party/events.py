"""What a party tells the coordinator of a job that runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProgressEvent:
    """A stage has come so far, in quarters: an exact fraction would tell the number of rows.

    Every quarter that a stage passes is told, one by one: were the last one alone told after each block, which quarters
    are left out would tell how many blocks of rows there are.
    """

    stage: str
    percent: int
    waits_for: str = ""
    """The member for whom we have waited for half of the deadline; who waits for us should blame it and not us."""


@dataclass(frozen=True)
class FinishedEvent:
    """Our part is done and every message was received."""


@dataclass(frozen=True)
class FailedEvent:
    """We gave up; the text is public.

    Attributes:
        stage: where.
        reason: why.
        culprit: name of the member at fault; empty if it is ourselves.
        is_finding: whether the culprit was caught at something, rather than missed.
    """

    stage: str
    reason: str
    culprit: str = ""
    is_finding: bool = False


JobEvent = ProgressEvent | FinishedEvent | FailedEvent
