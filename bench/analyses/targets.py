"""What was to be reached, and what was measured: the first table of `docs/analyses/README.md`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.analyses import claims, clustering_countings, logistic_regression, pattern_count
from bench.analyses.table import Row

Measured = tuple[str, bool]


@dataclass(frozen=True)
class Target:
    """One number.

    Attributes:
        what: in words.
        bound: the target in words.
        measured: from the rows: what was measured and whether it meets the target; None where it was not.
        command: measures it again.
    """

    what: str
    bound: str
    measured: Callable[[Sequence[Row]], Measured | None]
    command: str


def _first(rows: Sequence[Row], analysis: str, says: str = "") -> Row | None:
    return next((r for r in rows if r.analysis == analysis and says in f"{r.dataset} {r.note}"), None)


def _step(rows: Sequence[Row]) -> Measured | None:
    row = _first(rows, logistic_regression.STEP, "order 1")
    return None if row is None or row.mpc is None else (f"{row.mpc:.1f} ms", row.mpc < 50)


def _grid(rows: Sequence[Row]) -> Measured | None:
    row = _first(rows, clustering_countings.GRID)
    return None if row is None or row.private is None else (f"{row.private:.2f} s of processor time", row.private <= 1)


def _million(method: str) -> Callable[[Sequence[Row]], Measured | None]:
    def measured(rows: Sequence[Row]) -> Measured | None:
        row = _first(rows, pattern_count.LARGE, method)
        if row is None or (spent := row.private_spent or row.mpc_spent) is None:
            return None
        memory = row.others[pattern_count.MEMORY]
        return f"{spent.seconds:.1f} s, {memory:.2f} GB", spent.seconds <= 5 and memory <= 1

    return measured


def _verdict(claim: str) -> Callable[[Sequence[Row]], Measured | None]:
    def measured(rows: Sequence[Row]) -> Measured | None:
        verdict = next(v for v in claims.verdicts(rows) if claim in v.claim)
        return None if verdict.holds is None else (verdict.numbers, verdict.holds)

    return measured


_ONLY = "python -m bench.analyses --only"
_MILLION = "pattern counts, v = 3, M = 8, 1e6 users: "
TARGETS = (
    Target(
        "SLR on Adult, about 300 records: one step over three services", "50 ms", _step, "python -m bench.utility.slr"
    ),
    Target(
        "weights of a grid of 4096 cells from sketches, k' = 8, S = 4, M = 4096 (the paper: 101 s)",
        "1 s",
        _grid,
        f"{_ONLY} clustering_countings",
    ),
    Target(
        f"{_MILLION}randomized response, reports and estimate",
        "5 s, 1 GB",
        _million("randomized-response"),
        "python -m bench.utility.pattern_count --methods randomized-response",
    ),
    Target(
        f"{_MILLION}`mpc`, the default, all members one after another in one process",
        "5 s, 1 GB",
        _million("mpc"),
        "python -m bench.utility.pattern_count --methods mpc",
    ),
    Target(
        "slope of a count's error in the rows",
        "0.5 within 0.05",
        _verdict("sqrt(m)"),
        "python -m bench.utility.pattern_count",
    ),
    Target(
        "clustering `mpc`, mixed Gaussian, S = 2 and 4, epsilon 0.5, 1, 2, 4",
        "better than every other counting",
        _verdict("every other counting"),
        f"{_ONLY} clustering",
    ),
    Target(
        "the same at epsilon 1, against central private k-means",
        "twice the loss",
        _verdict("at most twice"),
        f"{_ONLY} clustering",
    ),
)


def target_lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return the lines of the table: what, target, measured, met, command."""
    lines: list[tuple[str, ...]] = []
    for target in TARGETS:
        found = target.measured(rows)
        measured, met = ("not measured yet", "") if found is None else (found[0], "yes" if found[1] else "**no**")
        lines.append((target.what, target.bound, measured, met, f"`{target.command}`"))
    return lines
