"""What [VertClust23] claims in these figures, and whether it holds at equal true privacy."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from bench.analyses.claims import Setting, Verdict, _verdict
from bench.analyses.clustering_figures import counts, ends
from bench.analyses.table import Row

NEAR = 1.1
"""A tenth more is about the same."""


def _where(row: Row) -> str:
    return row.dataset if row.epsilon is None else f"{row.dataset}, epsilon {row.epsilon:g}"


def _below_others(rows: Sequence[Row]) -> list[Setting]:
    return [
        Setting(f"{_where(r)}, {name}", r.private, r.others[name])
        for r in rows
        if r.private is not None
        for name in (ends.IND, ends.LDP)
        if name in r.others
    ]


def verdicts(rows: Sequence[Row]) -> Iterator[Verdict]:
    """Yield the verdicts, in the order of the figures."""

    def of(analysis: str) -> list[Row]:
        return [row for row in rows if row.analysis == analysis]

    source = "[VertClust23] figure"
    uneven, owners = of(ends.UNEVEN), of(ends.OWNERS)
    yield _verdict(f"{source} 5: whatever the split 2PEst loses less than both rivals", _below_others(uneven))
    by_table: dict[str, list[Row]] = {}
    for row in uneven:
        by_table.setdefault(row.dataset.split(",")[0], []).append(row)
    for way in ("private", "mpc"):
        losses = {name: [loss for r in found if (loss := getattr(r, way))] for name, found in by_table.items()}
        settings = [Setting(name, max(found), min(found), NEAR) for name, found in losses.items() if found]
        name = "2PEst" if way == "private" else "our `mpc`"
        yield _verdict(f"{source} 5: uneven splits change the loss of {name} by a tenth at most", settings)
    shown = sorted({int(r.dataset.rpartition("=")[2]) for r in owners if r.private is not None})
    claim = f"{source} 6, S = {' and '.join(map(str, shown))}: 2PEst loses less than both rivals"
    yield _verdict(claim, _below_others(owners))
    first = {(r.dataset.split(",")[0], r.epsilon): r for r in owners if r.dataset.endswith("S = 2")}
    last = {(r.dataset.split(",")[0], r.epsilon): r for r in owners if r.dataset.endswith("S = 16") and r.mpc}
    pairs = [(first[key], r) for key, r in last.items() if key in first]
    yield _verdict(
        "Ours, beside [VertClust23] figure 6: sixteen owners lose 1.05 times what two lose at most",
        [Setting(_where(r), r.mpc or 0.0, two.mpc or 0.0, 1.05) for two, r in pairs],
    )
    parts = of(ends.COMPONENTS)
    yield _verdict(
        f"{source}s 8 and 11: at S = 2 private centres cost more than private counts",
        [
            Setting(_where(r), r.others[ends.OPEN_CENTRES], r.others[ends.OPEN_COUNTS])
            for r in parts
            if r.dataset.endswith("S = 2")
        ],
    )
    yield _verdict(
        f"{source}s 8 and 11: at S = 4 both cost about as much (within a tenth)",
        [
            Setting(f"{_where(r)}, the larger to the smaller", max(both), min(both), NEAR)
            for r in parts
            if r.dataset.endswith("S = 4")
            for both in [(r.others[ends.OPEN_CENTRES], r.others[ends.OPEN_COUNTS])]
        ],
    )
    yield _verdict(
        f"{source}s 9 and 12: k' by the rule (ours) loses a tenth more than the best of 2, 3, 4, 5, 8 at most",
        [Setting(_where(r), r.mpc, min(r.others.values()), NEAR) for r in of(ends.SWEEP) if r.mpc is not None],
    )
    yield from _of_counts(rows)
    rivals = of(ends.RIVALS)
    yield _verdict(
        "[VertClust23] table 2: DPLSF, which holds all columns, loses less than private owners (our `mpc`, S = 4)",
        [Setting(_where(r), r.others[ends.DPLSF], r.others["mpc, S = 4"]) for r in rivals if "mpc, S = 4" in r.others],
    )
    yield _verdict(
        "Ours, beside [VertClust23] table 2: two owners lose less than diffprivlib, which holds all columns",
        [Setting(_where(r), r.mpc, r.others[ends.LIBRARY]) for r in rivals if r.mpc and ends.LIBRARY in r.others],
    )


def _of_counts(rows: Sequence[Row]) -> Iterator[Verdict]:
    real = [r for r in rows if r.analysis == counts.REAL and r.private is not None]
    by_way: dict[str, dict[str, float]] = {}
    for row in real:
        by_way.setdefault(row.note.split(";")[0], {})[_where(row)] = row.private or 0.0
    paper = by_way.get("fm-sketch, estimator 2pest", {})
    taxi = [
        Setting(f"{where}, {name}", error, by_way[name][where])
        for name in ("independent", "ldp")
        for where, error in paper.items()
        if where.startswith("taxi") and where in by_way.get(name, {})
    ]
    yield _verdict("[VertClust23] figure 10: 2PEst errs less about counts of taxi trips than both rivals", taxi)
    independent = by_way.get("independent", {})
    letters = [
        Setting(where, error, paper[where])
        for where, error in independent.items()
        if where.startswith("letter") and where.endswith("epsilon 1") and where in paper
    ]
    yield _verdict("[VertClust23] figure 10: below epsilon 2 IND-LAP errs less about counts of letters", letters)
    for row in (r for r in rows if r.analysis == counts.SKETCHES):
        errors = list(row.others.values())
        steps = [(less, more) for less, more in pairwise(row.others) if more != "M = 4096"]
        falling = [Setting(f"{more} to {less}", row.others[more], row.others[less]) for less, more in steps]
        yield _verdict(f"[VertClust23] figure 13: up to 2048 more sketches err less, {row.dataset}", falling)
        last = [Setting("M = 2048 to 4096", errors[-2], errors[-1], 1.25)]
        yield _verdict(f"[VertClust23] figure 13: and 4096 not much less (a quarter), {row.dataset}", last)
    table = [r for r in rows if r.analysis == counts.COSTS and "printed kB" in r.others]
    yield _verdict(
        "[VertClust23] table 1: an owner sends as many bytes as printed, or fewer",
        [Setting(r.dataset, r.private or 0.0, r.others["printed kB"], 1.02) for r in table],
    )
    peaks = [
        Setting(r.dataset, abs(int(re.findall(r"best at k = (\d+)", r.note)[0]) - 5), 1.0)
        for r in rows
        if r.analysis == counts.SILHOUETTES and not r.dataset.startswith("letter")
    ]
    yield _verdict("[VertClust23] figure 14: silhouettes of taxi trips and loans peak near k = 5 (4 to 6)", peaks)
