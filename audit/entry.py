"""An entry of the table of audit targets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from dp.audit.audit import Target
from dp.audit.exact_audit import Design, ExactTarget, design_audit
from dp.cost.views import VIEWS, View

SEEN_BY = {"coordinator": "seen by the coordinator", "coalition": "seen by a coalition"}
"""View to who has it, in words."""


@dataclass(frozen=True)
class Entry:
    """One sound mechanism of the table.

    Attributes:
        summary: what is audited, and by whom it is seen.
        covers: the ways of analyses that release by this mechanism, `analysis:way`.
        make: builds the target.
        n_runs: runs of each input; by default as many as `design_audit` computes.
    """

    summary: str
    covers: tuple[str, ...]
    make: Callable[[], ExactTarget]
    n_runs: int | None = None

    def design(self, *, n_runs: int | None = None, **options: Any) -> Design:
        """Return the design of its audit; arguments as `design_audit`."""
        return design_audit(self.make(), n_runs=n_runs or self.n_runs, **options)


class Published(NamedTuple):
    """A mechanism with a known fault, and the claim that was made for it.

    Attributes:
        summary: what is wrong.
        n_runs: runs of each input, enough to beat the claim.
        make: builds the target.
    """

    summary: str
    n_runs: int
    make: Callable[[], Target]


def ways_of(analyses: tuple[str, ...], way: str) -> tuple[str, ...]:
    """Return what a target covers that stands for one way of several analyses."""
    return tuple(f"{analysis}:{way}" for analysis in analyses)


def both_views(
    name: str, summary: str, covers: tuple[str, ...], make: Callable[[View], ExactTarget], n_runs: int | None = None
) -> dict[str, Entry]:
    """Return the entries of a mechanism seen in both views; arguments as of `Entry`, but `make` takes the view."""
    return {
        f"{name}-{view}": Entry(f"{summary}, {SEEN_BY[view]}", covers, lambda view=view: make(view), n_runs)  # type: ignore[misc]
        for view in VIEWS
    }
