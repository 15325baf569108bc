"""What a party tells the coordinator of a job that runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProgressEvent:
    """The progress of a stage in quarters: an exact fraction would reveal the number of rows.

    Every quarter that a stage passes is reported, one by one: if only the latest one were reported after each block,
        the missing quarters would reveal the number of blocks of rows.
    """

    stage: str
    percent: int
    waits_for: str = ""
    """The member that we have waited for during half of the deadline; others that wait for us should blame it."""


@dataclass(frozen=True)
class FinishedEvent:
    """Our part is done and every message was received."""


@dataclass(frozen=True)
class FailedEvent:
    """The party gave up; the text is public.

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
