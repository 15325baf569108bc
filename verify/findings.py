"""What a check finds: statements that hold, that do not hold, or that nothing here can check."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["verified", "fails", "on trust"]


@dataclass(frozen=True)
class Finding:
    """One line of a report.

    Attributes:
        kind: `verified`, `fails`, or `on trust` where nothing here can check it.
        text: the statement, public.
    """

    kind: Kind
    text: str


@dataclass(frozen=True)
class Verification:
    """All that was found about one result.

    Attributes:
        findings: lines of the report, in order.
    """

    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing fails."""
        return not any(one.kind == "fails" for one in self.findings)

    def lines(self) -> list[str]:
        """Return the report as lines of text; the last one sums it up."""
        shown = [f"{one.kind.upper() if one.kind == 'fails' else one.kind:8}  {one.text}" for one in self.findings]
        n_failed = sum(one.kind == "fails" for one in self.findings)
        return [*shown, "the result holds" if self.holds else f"THE RESULT DOES NOT HOLD: {n_failed} checks fail"]

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {"holds": self.holds, "findings": [asdict(one) for one in self.findings]}

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def verified(text: str) -> Finding:
    """Return a statement that holds."""
    return Finding("verified", text)


def fails(text: str) -> Finding:
    """Return a statement that does not hold."""
    return Finding("fails", text)


def on_trust(text: str) -> Finding:
    """Return a statement that nothing here can check."""
    return Finding("on trust", text)


def named(names: Iterable[str]) -> str:
    """Return names as a list in a sentence."""
    return ", ".join(names)
