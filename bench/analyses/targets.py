"""What was to be reached, and what was measured: the first table of `docs/analyses/claims.md`."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.analyses import claims, clustering_countings, logistic_regression, pattern_count
from bench.analyses.rivals import components, intervals, labels, numbers
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


def _errors(analysis: str) -> Callable[[Sequence[Row]], Measured | None]:
    """Return the judge of errors beside a rival's: root mean squares of the ratios of all tables, per epsilon.

    The errors that results state decide, which are those of the noise's exact law; those measured are beside them.
    """

    def measured(rows: Sequence[Row]) -> Measured | None:
        found = [r for r in rows if r.analysis == analysis]
        texts, worst = [], 0.0
        for epsilon in sorted({r.epsilon or 0.0 for r in found}):
            here = [r for r in found if r.epsilon == epsilon]
            stated = _mean_ratio([(r.others[numbers.STATED], r.central or 0.0) for r in here])
            seen = _mean_ratio([(r.mpc or 0.0, r.central or 0.0) for r in here])
            texts.append(f"{stated:.2f} (measured {seen:.2f}) at epsilon {epsilon:g}")
            worst = max(worst, stated)
        return (f"{', '.join(texts)}; {len(found)} settings", worst <= 1.3) if found else None

    return measured


def _mean_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return math.sqrt(statistics.fmean((ours / other) ** 2 for ours, other in pairs))


def _behind(analysis: str, most: float, *, is_share: bool) -> Callable[[Sequence[Row]], Measured | None]:
    """Return the judge of something that is to be large: how far it is behind the best rival, at most."""

    def measured(rows: Sequence[Row]) -> Measured | None:
        found = [r for r in rows if r.analysis == analysis and r.mpc is not None and r.central]
        if not found:
            return None
        gaps = {f"{r.dataset.split(' (')[0]}, epsilon {r.epsilon:g}": _gap(r, is_share=is_share) for r in found}
        far = {where: gap for where, gap in gaps.items() if gap > most}
        shown = "; ".join(
            f"{where}: {gap:.1%} behind" if is_share else f"{where}: {gap:.3f} behind" for where, gap in far.items()
        )
        return f"{len(found) - len(far)} of {len(found)} settings" + (f"; not {shown}" if far else ""), not far

    return measured


def _covered(rows: Sequence[Row]) -> Measured | None:
    found = {f"{r.dataset}, epsilon {r.epsilon:g}": r.mpc for r in rows if r.analysis == intervals.ANALYSIS and r.mpc}
    if not found:
        return None
    off = [f"{where}: {share:.3f}" for where, share in found.items() if not 0.9 <= share <= 0.99]
    return f"{len(found) - len(off)} of {len(found)}" + (f"; not {'; '.join(off)}" if off else ""), not off


def _gap(row: Row, *, is_share: bool) -> float:
    best, ours = row.central or 0.0, row.mpc or 0.0
    return 1 - ours / best if is_share else best - ours


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
    *(
        Target(
            f"{what} beside OpenDP's better mechanism, root mean square over the tables",
            "1.3 times the error",
            _errors(analysis),
            f"{_ONLY} rivals",
        )
        for what, analysis in (
            ("pattern counts", numbers.COUNTS),
            ("histograms", numbers.HISTOGRAMS),
            ("moments", numbers.MOMENTS),
        )
    ),
    Target(
        "principal components beside the best of Analyze Gauss and diffprivlib",
        "99 % of the variance captured",
        _behind(components.ANALYSIS, 0.01, is_share=True),
        f"{_ONLY} rivals",
    ),
    Target(
        "logistic regression beside the best of five rivals",
        "AUC at most 0.005 less",
        _behind(labels.ANALYSIS, 0.005, is_share=False),
        f"{_ONLY} rivals",
    ),
    Target(
        "stated intervals of 95 %, each analysis that states one",
        "hold the truth in 90 to 99 %",
        _covered,
        f"{_ONLY} rivals --part intervals",
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
