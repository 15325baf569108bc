"""What [SGDMF22] claims in its figures, and whether it holds at equal true privacy, judged by the measured rows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.analyses.claims import Setting, Verdict, _verdict
from bench.analyses.matrix_factorization import at_size, figures, printed, tables, whole_jobs
from bench.analyses.table import Row

Rows = Sequence[Row]


def verdicts(rows: Rows) -> Iterator[Verdict]:
    """Yield the verdicts: in our settings in the order of figures, as printed, at the paper's size; on our default."""
    yield from _factorization(rows)
    yield from _as_printed(rows)
    yield from _at_size(rows)
    yield _joined(rows)


def _of_figure(rows: Rows, figure: int, what: str = "") -> list[Row]:
    return [r for r in rows if r.analysis == figures.analysis(figure) and what in r.dataset and r.private is not None]


def _where(row: Row) -> str:
    return f"{row.dataset.split(': ')[-1]}, " + ("no noise" if row.epsilon is None else f"epsilon {row.epsilon:g}")


def _below(rows: Rows, *others: str) -> list[Setting]:
    """Return the paper's form against others, wherever both were measured."""
    return [
        Setting(f"{_where(row)}, {other}", row.private or 0.0, row.others[other])
        for row in rows
        for other in others
        if other in row.others
    ]


CONSTANT = 1.27
WORSE_THAN_A_CONSTANT = "not decidable on this data, both err more than one public constant for all ratings"
UNTUNED = "the rival's step is not tuned to the unit"
OTHERS_IN_THE_MIDDLE = (
    (figures.SGLD, "at the epsilon that its authors claim: that a short chain has it is not shown"),
    (figures.OBJECTIVE, "which protects V given U, and not what V learns through U: no equal privacy"),
)


def _without_verdict(verdict: Verdict, unit: str, why: str) -> Verdict:
    """Return the verdict for ratings as it is; for users, in the vertical setting, the numbers without one."""
    return verdict if unit == "rating" or verdict.holds is None else replace(verdict, not_comparable=why)


def _better_than_a_constant(claim: str, settings: Sequence[Setting], constant: float = CONSTANT) -> Verdict:
    """Return the verdict by settings in which one of the two errs less than one constant: 3.5 for MovieLens 100K."""
    decidable = [s for s in settings if min(s.ours, s.other) <= constant]
    if settings and not decidable:
        return replace(_verdict(claim, settings), not_comparable=WORSE_THAN_A_CONSTANT)
    verdict, left_out = _verdict(claim, decidable), len(settings) - len(decidable)
    more = f"; in {left_out} more both err more than one public constant" if left_out else ""
    return replace(verdict, numbers=verdict.numbers + more)


def _factorization(rows: Rows) -> Iterator[Verdict]:
    for unit in ("rating", "user"):
        found = _of_figure(rows, 4, f"unit {unit}")
        claim = f"[SGDMF22] figure 4: clipped embeddings err less than clipped gradients, unit {unit}"
        yield _without_verdict(_verdict(claim, _below(found, figures.CLIP)), unit, UNTUNED)
    for other, why in OTHERS_IN_THE_MIDDLE:
        for unit in ("rating", "user"):
            claim = f"[SGDMF22] figure 5: the paper's form errs less than {other} ({why}), unit {unit}"
            verdict = _verdict(claim, _below(_of_figure(rows, 5, f"unit {unit}"), other))
            yield _without_verdict(verdict, unit, WORSE_THAN_A_CONSTANT)
    yield _frequency(rows)
    for unit in ("rating", "user"):
        found = _of_figure(rows, 7, f"unit {unit}")
        claim = f"[SGDMF22] figure 7: together owners err less than each alone with privacy, unit {unit}"
        yield _without_verdict(_verdict(claim, _below(found, figures.LOCAL_ONLY)), unit, WORSE_THAN_A_CONSTANT)
        claim = f"[SGDMF22] figure 7, stricter: and less than each alone without noise, unit {unit}"
        yield _verdict(claim, _below(found, figures.ALONE))
    yield _verdict(
        "Ours: the form `statistics` errs less than each owner alone without noise, s = 10",
        [Setting(_where(r), r.mpc, r.others[figures.ALONE]) for r in _of_figure(rows, 7) if r.mpc is not None],
    )
    eighth = _of_figure(rows, 8)
    for noise in ("once", "party"):
        claim = f"[SGDMF22] figure 8: users fitted first err less than users moved in each step, noise {noise}"
        yield _verdict(claim, _below([r for r in eighth if f"noise {noise}" in r.dataset], figures.TRAIN_BOTH))
    yield from _horizontal_figures(rows)


def _frequency(rows: Rows) -> Verdict:
    claim = (
        "[SGDMF22] figure 6, with 50 steps in all where the paper has 1000: several local steps between two rounds "
        "(T' = 5) err less than one, and than all"
    )
    found = {steps: _of_figure(rows, 6, f"random, T = {steps[0]}, T' = {steps[1]}") for steps in figures.ROUNDS}
    most, some, all_of_them = (found[steps] for steps in figures.ROUNDS)
    settings = [
        Setting(f"{_where(middle)}, to {what}", middle.private or 0.0, other.private or 0.0)
        for what, others in (("one", most), ("all", all_of_them))
        for middle, other in zip(some, others, strict=False)
    ]
    return _verdict(claim, settings)


def _horizontal_figures(rows: Rows) -> Iterator[Verdict]:
    ninth = _of_figure(rows, 9)
    yield _verdict(
        "Stricter than [SGDMF22] figure 9: after fine-tuning, less error than each party alone without noise (alone by "
        "exact least squares, where the paper has local gradient steps)",
        _below(ninth, figures.ALONE),
    )
    at_40 = [r for r in ninth if "s = 40" in r.dataset]
    yield _verdict(
        "Stricter than [SGDMF22] figure 9, likewise: at s = 40 so before fine-tuning",
        [Setting(_where(r), r.others[figures.RELEASED], r.others[figures.ALONE]) for r in at_40],
    )
    yield _verdict("[SGDMF22] figure 9: less error than synSGD", _below(ninth, figures.SYN))
    yield _verdict(
        "Ours: the form `statistics` errs less than each party alone without noise, s = 40",
        [Setting(_where(r), r.mpc, r.others[figures.ALONE]) for r in at_40 if r.mpc is not None],
    )
    tenth = _of_figure(rows, 10)
    yield _verdict("[SGDMF22] figure 10: less error than GD-DR", _below(tenth, figures.GD_DR))
    stage_1 = [Setting(_where(r), r.others[figures.STAGE_1], r.others[figures.GD_DR]) for r in tenth]
    yield _verdict("[SGDMF22] figure 10: stage 1 alone errs less than GD-DR", stage_1[::2])
    more = [
        Setting(f"{_where(none)}, against a fifth dropped out", none.private or 0.0, fifth.private or 0.0)
        for none, fifth in zip(tenth[::2], tenth[1::2], strict=False)
    ]
    yield _verdict("[SGDMF22] figure 10: a little more error if more devices drop out", more)
    near = [
        Setting(f"{r.dataset}, epsilon {r.epsilon:g}", r.mpc, r.others[tables.PROTOTYPE], most=1.01)
        for r in rows
        if r.analysis == tables.ANALYSIS and r.mpc is not None and tables.PROTOTYPE in r.others
    ]
    yield _verdict("Ours: the form `statistics` reaches the prototype's figures within 1 %", near)


def _as_printed(rows: Rows) -> Iterator[Verdict]:
    """Yield verdicts in the setting that [SGDMF22] prints, on MovieLens 100K where the paper has 10M."""

    def of(figure: str, what: str = "") -> list[Row]:
        return [r for r in rows if r.analysis == printed.analysis(figure) and what in r.dataset]

    head = "[SGDMF22] figure {} in its own setting, MovieLens 100K:"
    quiet = [r for r in of("4", "unit rating") if r.epsilon is None]
    claim = f"{head.format(4)} without noise, clipped embeddings err less than gradients clipped at 10 and at 50"
    yield _verdict(claim, _below(quiet, figures.CLIP, printed.UNCLIPPED))
    for unit in ("unit rating", "unit user"):
        noisy = [r for r in of("4", unit) if r.epsilon is not None]
        claim = f"{head.format(4)} clipped embeddings err less than clipped gradients, {unit}"
        yield _better_than_a_constant(claim, _below(noisy, figures.CLIP))
        found = {steps: of("6", f"{unit}, s = 18, random, T = {steps[0]}, T'") for steps in printed.FREQUENCIES}
        one, *some, all_of_them = found.values()
        settings = [
            Setting(f"{_where(few)}, to {what}", few.private or 0.0, other.private or 0.0)
            for few in [*some[0], *some[1]]
            for what, others in (("1000 rounds", one), ("one round", all_of_them))
            for other in others
        ]
        claim = f"{head.format(6)} T' of 10 and of 50 err less than 1 and 1000, {unit}"
        yield _better_than_a_constant(claim, settings)
        for other, why in OTHERS_IN_THE_MIDDLE:
            claim = f"{head.format(5)} less error than {other}, tuned ({why}), {unit}"
            yield _better_than_a_constant(claim, _below(of("5", unit), other))
        yield from _by_category(of("6, by category", unit), found[printed.FREQUENCIES[1]], head.format(6), unit)
        claim = f"{head.format('6 and 7')} together owners err less than each alone with privacy, {unit}"
        together = of("6", unit) + of("6, by category", unit) + of("7", unit)
        yield _better_than_a_constant(claim, _below(together, figures.LOCAL_ONLY))
        yield _more_owners(of("7", unit), head.format(7), unit)
    ninth, tenth = of("8 and 9"), of("10")
    alone = {row.dataset.split(": ")[-1]: row.others[printed.LOCAL] for row in of("9, alone")}
    settings = [
        Setting(f"{_where(row)}{', as printed' if row in ninth else ''}", error, other)
        for row in (*_of_figure(rows, 9), *ninth)
        for split, other in alone.items()
        if row.dataset.endswith(split) and (error := row.private) is not None
    ]
    claim = "[SGDMF22] figure 9: after fine-tuning, less error than parties alone by the paper's descent, without noise"
    yield _verdict(claim, settings)
    near = [replace(one, most=1.02) for one in settings if "s = 40, epsilon 8" in one.where]
    yield _verdict(f"{claim}, within 2 %, s = 40, epsilon 8", near)
    both = head.format("8 and 9")
    yield _verdict(f"{both} users fitted first err less than users that move", _below(ninth, figures.TRAIN_BOTH))
    yield _verdict(f"{both} after fine-tuning, less error than synSGD", _below(ninth, figures.SYN))
    yield _verdict(f"{head.format(10)} less error than GD-DR, omega .3 and .6", _below(tenth, figures.GD_DR))


def _by_category(by_category: Rows, random: Rows, head: str, unit: str) -> Iterator[Verdict]:
    """Yield what figure 6 says of (b) and (d) beside (a) and (c), with T = 100 and T' = 10."""
    pairs = [(a, b) for a in by_category for b in random]
    alike = [(max(x, y), min(x, y)) for a, b in pairs for x, y in [(a.private or 0.0, b.private or 0.0)]]
    if unit == "unit rating":
        claim = f"{head} 18 owners err alike with items by category and at random (within 5 %), {unit}"
        settings = [Setting("the larger to the smaller", *pair, most=1.05) for pair in alike]
    else:
        claim = f"{head} 18 owners err less with items at random than by category, {unit}"
        settings = [Setting(_where(b), b.private or 0.0, a.private or 0.0) for a, b in pairs]
    yield _better_than_a_constant(claim, settings)
    claim = f"{head} alone with privacy they err more by category than at random, {unit}"
    alone = [(b.others[figures.LOCAL_ONLY], a.others[figures.LOCAL_ONLY]) for a, b in pairs]
    if unit == "unit user":
        yield _better_than_a_constant(claim, [Setting("at random to by category", *pair) for pair in alone])


def _more_owners(rows: Rows, head: str, unit: str) -> Verdict:
    """Return whether errors fall as the owners grow from 2 to 5 and 10."""
    of = {(row.epsilon, n): row.private or 0.0 for row in rows for n in (2, 5, 10) if row.dataset.endswith(f"s = {n}")}
    settings = [
        Setting(f"epsilon {epsilon:g}, s = {more} to {few}", error, of[epsilon, few])
        for (epsilon, more), error in of.items()
        for few in {5: (2,), 10: (5,)}.get(more, ())
        if epsilon is not None and (epsilon, few) in of
    ]
    return _better_than_a_constant(f"{head} the more owners the less error, {unit}", settings)


def _at_size(rows: Rows) -> Iterator[Verdict]:
    """Yield figure 4 on made-up ratings, at each size that was measured."""
    for row in rows:
        if row.analysis == at_size.ANALYSIS:
            data, unit = row.dataset.split(": ")
            claim = f"[SGDMF22] figure 4 in its own setting, made-up ratings {data}: clipped embeddings err less than "
            claim += f"clipped gradients, {unit}"
            yield _better_than_a_constant(claim, _below([row], figures.CLIP), row.others[at_size.ONE_CONSTANT])


def _joined(rows: Rows) -> Verdict:
    """Return whether whoever joins is nowhere worse than alone."""
    found = [
        (row, row.mpc, row.others[whole_jobs.ALONE])
        for row in rows
        if row.analysis == whole_jobs.ANALYSIS and row.mpc is not None
    ]
    return _verdict(
        f"Ours: by default what parties keep errs {whole_jobs.MARGIN:g} more than each alone, without noise, at most",
        [
            Setting(f"{row.dataset}, epsilon {row.epsilon:g}", joined, alone, most=1 + whole_jobs.MARGIN / alone)
            for row, joined, alone in found
        ],
    )
