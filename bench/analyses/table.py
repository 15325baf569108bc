"""The rows of the table of truth, and how they are shown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class Spent:
    """The resources that one job took on this machine.

    Attributes:
        seconds: in one process: processor time of all members, without the plan. Over services: wall time from the
            acceptance of the job to its result.
        sent_bytes: by the party that sends most; the coordinator is none. In one process: the arrays as they are sent.
            Over services: the payload by the party's own report.
    """

    seconds: float
    sent_bytes: int | None


@dataclass(frozen=True)
class Row:
    """One analysis on one data set at one epsilon.

    Attributes:
        analysis: name, with the variant where there are several.
        dataset: name, with the split where it matters.
        epsilon: against the view that the row states in `note`; None for rows without privacy.
        metric: what the numbers are, and whether more is better.
        private: the form of the paper, its privacy repaired.
        mpc: computed inside MPC.
        central: central DP at the same epsilon: somebody holds everything.
        non_private: no noise.
        private_spent, mpc_spent: what a job of the form took.
        others: name to number of further ways, in the same metric.
        note: what one must know to read the row.
    """

    analysis: str
    dataset: str
    epsilon: float | None
    metric: str
    private: float | None = None
    mpc: float | None = None
    central: float | None = None
    non_private: float | None = None
    private_spent: Spent | None = None
    mpc_spent: Spent | None = None
    others: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """Return what `as_json` made."""
        spent = {name: Spent(**kept[name]) for name in ("private_spent", "mpc_spent") if kept[name]}
        return cls(**{**kept, **spent})


_HEADINGS = ("data", "epsilon", "paper's form", "MPC", "central DP", "no privacy", "time", "sent", "note")


def of_metrics(rows: Sequence[Row]) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    """Yield the tables of one analysis, one per metric: the metric, the heads of the columns, the lines."""
    by_metric: dict[str, list[Row]] = {}
    for row in rows:
        by_metric.setdefault(row.metric, []).append(row)
    for metric, of_metric in by_metric.items():
        yield metric, _HEADINGS, _lines(of_metric)


def cells(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *lines))


def number(value: float | None) -> str:
    """Return four digits, or nothing."""
    return "" if value is None else f"{value:.4g}"


def _lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    lines = []
    for row in rows:
        spent = (row.private_spent, row.mpc_spent)
        others = [f"{name} {number(value)}" for name, value in row.others.items()]
        lines.append(
            (
                row.dataset,
                "" if row.epsilon is None else f"{row.epsilon:g}",
                *(number(value) for value in (row.private, row.mpc, row.central, row.non_private)),
                _both([None if s is None else f"{s.seconds:.2f}" for s in spent], "s"),
                _both([None if s is None or s.sent_bytes is None else _megabytes(s.sent_bytes) for s in spent], "MB"),
                "; ".join((*others, *([row.note] if row.note else []))),
            )
        )
    return lines


def _both(texts: Sequence[str | None], unit: str) -> str:
    """Return `paper's form / MPC unit`."""
    return "" if not any(texts) else " / ".join(text or "-" for text in texts) + f" {unit}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f}" if size >= 10_000 else f"{size / 1e6:.4f}"
