"""The five stages of a round, in order, and its end."""

from enum import StrEnum


class Stage(StrEnum):
    """What is being collected from the members."""

    ADVERTISE = "advertise keys"
    SHARE = "share keys"
    MASK = "masked input"
    AGREE = "sign survivors"
    UNMASK = "unmask"
    DONE = "done"
    ABORTED = "aborted"
