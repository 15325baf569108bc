"""What one check has found, and what mends it."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a check ended. A warning stops nothing today."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    """One check of one thing.

    Attributes:
        name: name of the check, the same in every run.
        outcome: see `Outcome`.
        found: what is so. It may quote a table's values, so it is for the owner of the member alone.
        fix: what to do, in one sentence; empty only where nothing is wrong.

    Raises:
        ValueError: something is wrong, and no fix is named.
    """

    name: str
    outcome: Outcome
    found: str
    fix: str = ""

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.OK) == bool(self.fix):
            raise ValueError(f"{self.name}: what is not ok, and nothing else, needs a fix")

    def as_dict(self) -> dict[str, str]:
        """Return it for JSON."""
        return {"name": self.name, "outcome": str(self.outcome), "found": self.found, "fix": self.fix}


def passed(name: str, found: str) -> Check:
    """Return a check that found nothing wrong."""
    return Check(name, Outcome.OK, found)


def warning(name: str, found: str, fix: str) -> Check:
    """Return a check that found what stops nothing today."""
    return Check(name, Outcome.WARNING, found, fix)


def failed(name: str, found: str, fix: str) -> Check:
    """Return a check that found what does not work."""
    return Check(name, Outcome.FAILED, found, fix)
