"""The papers' claims about these analyses, and whether they hold at equal true privacy, judged by the measured rows."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from bench.analyses import additive_error, clustering, logistic_regression, pattern_count, pca
from bench.analyses.matrix_factorization import figures, printed, tables
from bench.analyses.table import Row, number

Rows = Sequence[Row]
MIXTURE = "mixed Gaussian"
LOSS = clustering.METRICS[2]


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds.

    Attributes:
        claim: in words, with its source.
        holds: None where nothing was measured.
        numbers: what was measured.
        not_comparable: why the numbers allow no verdict; empty where they do.
    """

    claim: str
    holds: bool | None
    numbers: str
    not_comparable: str = ""

    @property
    def text(self) -> str:
        """Return it in words."""
        if self.not_comparable:
            return f"no verdict: {self.not_comparable}"
        return {True: "holds", False: "**does not hold**", None: "not measured"}[self.holds]


@dataclass(frozen=True)
class Setting:
    """One comparison of two numbers, the first of which is claimed to be the smaller.

    Attributes:
        where: data and epsilon.
        ours, other: the numbers.
        most: how many times the other the first may be.
    """

    where: str
    ours: float
    other: float
    most: float = 1.0

    @property
    def holds(self) -> bool:
        """Whether the claim does."""
        return self.ours <= self.most * self.other

    def __str__(self) -> str:
        return f"{self.where}: {number(self.ours)} to {number(self.other)}"


def _verdict(claim: str, settings: Sequence[Setting]) -> Verdict:
    """Return the verdict: it holds everywhere. Exceptions are named, all numbers where they are few."""
    if not settings:
        return Verdict(claim, None, "")
    failing = [s for s in settings if not s.holds]
    good = len(settings) - len(failing)
    shown = settings if len(settings) <= 4 else failing
    what = "" if not shown else ("; " if shown is settings else "; not at ") + ", ".join(map(str, shown))
    return Verdict(claim, not failing, f"{good} of {len(settings)} settings{what}")


def _losses(rows: Rows, way: str, dataset: str = "", metric: str = LOSS) -> dict[tuple[str, float], Row]:
    """Return the rows of one way of counting, by data and epsilon; refused ones are left out."""
    return {
        (row.dataset, row.epsilon): row
        for row in rows
        if row.analysis == f"clustering, {way}"
        and row.metric == metric
        and row.dataset.startswith(dataset)
        and row.epsilon is not None
        and row.private is not None
    }


def _against(rows: Rows, ours: str, others: Sequence[str], dataset: str = "") -> list[Setting]:
    mine = _losses(rows, ours, dataset)
    return [
        Setting(f"{where[0]}, epsilon {where[1]:g}, {other}", mine[where].private or 0.0, row.private or 0.0)
        for other in others
        for where, row in _losses(rows, other, dataset).items()
        if where in mine
    ]


def _clustering(rows: Rows) -> Iterator[Verdict]:
    baselines = ("independent", "ldp")
    claim = "[VertClust23] 2PEst loses less than IND-LAP and LDP-AGG"
    beaten = _against(rows, "fm-sketch", baselines)
    outside = [s for s in beaten if not (s.where.startswith("letter") and s.where.endswith("independent"))]
    yield _verdict(f"{claim} (our `fm-sketch`, likely intersections; without IND-LAP on Letter, see below)", outside)
    paper = _against(rows, "fm-sketch, estimator 2pest", baselines)
    yield _verdict(f"{claim} (the paper's estimator `2pest` on the repaired sketch; mixture)", paper)
    letters = [s for s in _against(rows, "independent", ["fm-sketch"], "letter") if "epsilon 4" not in s.where]
    yield _verdict("[VertClust23] but on Letter at small epsilon IND-LAP loses less than 2PEst", letters)
    basic, paired = (_errors_of_counts(rows, f"fm-sketch, estimator {name}") for name in ("basic", "2pest"))
    both = [epsilon for epsilon in basic if epsilon in paired]
    means = [statistics.fmean(way[epsilon] for epsilon in both) for way in (basic, paired) if both]
    yield _verdict(
        "[VertClust23] Basic = 2PEst at S = 2 (errors of the counts alone, means over epsilon, within 25 %)",
        [Setting(f"the larger to the smaller, {MIXTURE}", max(means), min(means), most=1.25)] if means else [],
    )
    few, many = _losses(rows, "fm-sketch, M = 2048"), _losses(rows, "fm-sketch", MIXTURE)
    halves = [
        Setting(f"{w[0]}, epsilon {w[1]:g}", row.private or 0.0, many[w].private or 0.0, most=1.1)
        for w, row in few.items()
        if w in many
    ]
    yield _verdict("[VertClust23] M = 2048 sketches do as well as 4096 (loss within 10 %)", halves)
    yield _mpc_is_best(rows)
    yield _mpc_to_central(rows)


def _errors_of_counts(rows: Rows, way: str) -> dict[float, float]:
    """Return the errors of one way of counting two owners' memberships, by epsilon."""
    return {
        row.epsilon: row.private
        for row in rows
        if row.analysis == "clustering, counts alone"
        and row.dataset.endswith("S = 2")
        and row.note.startswith(f"{way};")
        and row.epsilon is not None
        and row.private is not None
    }


def _mpc_is_best(rows: Rows) -> Verdict:
    settings = [
        Setting(f"{dataset}, epsilon {epsilon:g}, {way}", row.mpc or 0.0, row.private or 0.0)
        for way in clustering.ESTIMATORS
        for (dataset, epsilon), row in _losses(rows, way, MIXTURE).items()
        if row.mpc is not None
    ]
    return _verdict(
        f"Ours: `mpc` loses less than every other counting on the {MIXTURE}, S = 2 and 4, each epsilon", settings
    )


def _mpc_to_central(rows: Rows) -> Verdict:
    settings = [
        Setting(dataset, row.mpc, row.central, most=2.0)
        for (dataset, epsilon), row in _losses(rows, "independent", MIXTURE).items()
        if epsilon == 1 and row.mpc is not None and row.central is not None
    ]
    return _verdict(f"Ours: at epsilon 1 `mpc` loses at most twice what central privacy does, {MIXTURE}", settings)


def _exponent(rows: Rows, claim: str, analysis: str, metric: str, expected: float, within: float) -> Verdict:
    for row in rows:
        if row.analysis == analysis and row.metric == metric and row.private is not None:
            beside = "" if row.mpc is None else f"; inside MPC {row.mpc:.2f}"
            text = f"fitted {row.private:.2f}, claimed {expected:g}, within {within:g}{beside}"
            return Verdict(claim, abs(row.private - expected) <= within, text)
    return Verdict(claim, None, "")


def _exponents(rows: Rows) -> Iterator[Verdict]:
    slope = "exponent of the rows in the error of a count"
    yield _exponent(
        rows, "[VertPrim23] the error of a pattern's count grows like sqrt(m)", pattern_count.SLOPE, slope, 0.5, 0.05
    )
    for n in pattern_count.PARTIES:
        metric = pattern_count.OF_EPSILON.format(n)
        text = f"[VertPrim23] and like (1 / epsilon)^v with v = {n} parties, theorem B.1"
        yield _exponent(rows, text, pattern_count.SLOPE, metric, float(n), 0.15)
    text = "[VertPrim23] and like the root of the rows over the sampled share of them, theorem B.2"
    yield _exponent(rows, text, pattern_count.SLOPE, pattern_count.OF_SHARE, -0.5, 0.1)
    for analysis, what, expected, within in (
        (additive_error.MOMENTS, "the moment of order 2 errs by the noise's variance, theorem E.5", 2.0, 0.25),
        (additive_error.LOW_RANK, "low-rank approximation's additive error is proportional to the noise", 1.0, 0.25),
        (
            additive_error.LEAST_SQUARES,
            "least squares' additive error is proportional to the noise's variance",
            2.0,
            0.5,
        ),
    ):
        yield _exponent(rows, f"[VertPrim23] {what}", analysis, additive_error.OF_NOISE, expected, within)
        text = f"[VertPrim23] it does not depend on the rows ({analysis.split(',')[0]})"
        yield _exponent(rows, text, analysis, additive_error.OF_ROWS, 0.0, 0.35)


def _logistic(rows: Rows) -> Iterator[Verdict]:
    of_adult = [r for r in rows if r.analysis == "logistic regression" and r.epsilon == 4 and r.central is not None]
    ways: dict[str, Callable[[Row], float | None]] = {
        "three sums": lambda r: r.private,
        "one gradient": lambda r: r.others.get(logistic_regression.GRADIENT),
        "ours, by moments": lambda r: r.mpc,
    }
    for way, number_of in ways.items():
        pairs = [(r, ours) for r in of_adult if (ours := number_of(r)) is not None]
        near = [Setting(f"{_short(r)}, DP-SGD", (r.central or 0.0) - 0.03, ours) for r, ours in pairs]
        yield _points(f"[SPCA24] SLR at epsilon 4 is within 3 points of DP-SGD ({way})", near)
        above = [Setting(f"{_short(r)}, local noise", r.others[logistic_regression.LOCAL], ours) for r, ours in pairs]
        yield _points(f"[SPCA24] SLR at epsilon 4 is above the local-noise baseline ({way})", above)


def _short(row: Row) -> str:
    return row.dataset.split(" (")[0]


def _points(claim: str, settings: Sequence[Setting]) -> Verdict:
    """Return a verdict about accuracies: the first number of a setting is what must be reached."""
    if not settings:
        return Verdict(claim, None, "")
    texts = [f"{s.where}: {s.other:.3f} where {s.ours:.3f} is asked for" for s in settings]
    return Verdict(claim, all(s.holds for s in settings), ", ".join(texts))


def _pca(rows: Rows) -> Iterator[Verdict]:
    found = [r for r in rows if r.analysis == "pca" and r.central is not None and r.mpc is not None]
    near = [Setting(f"epsilon {r.epsilon:g}, central", 0.99 * (r.central or 0.0), r.mpc or 0.0) for r in found]
    yield _points("[SPCA24] PCA captures as much as central privacy, KDD (within 1 %)", near)
    above = [Setting(f"epsilon {r.epsilon:g}, local noise", r.others[pca.LOCAL], r.mpc or 0.0) for r in found]
    yield _points("[SPCA24] and more than the local-noise baseline", above)


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
WORSE_THAN_A_CONSTANT = "both err more than one public constant for all ratings"
UNTUNED = "the rival's step is not tuned to the unit"


def _without_verdict(verdict: Verdict, unit: str, why: str) -> Verdict:
    """Return the verdict for ratings as it is; for users, in the vertical setting, the numbers without one."""
    return verdict if unit == "rating" or verdict.holds is None else replace(verdict, not_comparable=why)


def _better_than_a_constant(claim: str, settings: Sequence[Setting]) -> Verdict:
    """Return the verdict, none where in every setting both err more than 3.5 for all ratings of MovieLens 100K."""
    is_worse = bool(settings) and all(min(s.ours, s.other) > CONSTANT for s in settings)
    return replace(_verdict(claim, settings), not_comparable=WORSE_THAN_A_CONSTANT if is_worse else "")


def _factorization(rows: Rows) -> Iterator[Verdict]:
    for unit in ("rating", "user"):
        found = _of_figure(rows, 4, f"unit {unit}")
        claim = f"[SGDMF22] figure 4: clipped embeddings err less than clipped gradients, unit {unit}"
        yield _without_verdict(_verdict(claim, _below(found, figures.CLIP)), unit, UNTUNED)
    for other, why in (
        (figures.SGLD, "at the epsilon that its authors claim: that a short chain has it is not shown"),
        (figures.OBJECTIVE, "which protects V given U, and not what V learns through U: no equal privacy"),
    ):
        for unit in ("rating", "user"):
            claim = f"[SGDMF22] figure 5: the paper's form errs less than {other} ({why}), unit {unit}"
            verdict = _verdict(claim, _below(_of_figure(rows, 5, f"unit {unit}"), other))
            yield _without_verdict(verdict, unit, WORSE_THAN_A_CONSTANT)
    yield _frequency(rows)
    split = {row.dataset: row for row in _of_figure(rows, 6, "T = 10, T' = 5")}
    by_genre = [row for name, row in split.items() if "by genre" in name]
    random = [row for name, row in split.items() if "random" in name]
    same = [
        Setting("the larger to the smaller", max(a, b), min(a, b), most=1.05)
        for one, other in zip(by_genre, random, strict=False)
        for a, b in [(one.private or 0.0, other.private or 0.0)]
    ]
    yield _verdict("[SGDMF22] figure 6: items split by genre or at random make no difference (within 5 %)", same)
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
        claim = f"{head.format('6 and 7')} together owners err less than each alone with privacy, {unit}"
        yield _better_than_a_constant(claim, _below(of("6", unit) + of("7", unit), figures.LOCAL_ONLY))
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


def verdicts(rows: Rows) -> list[Verdict]:
    """Return the verdict on each claim."""
    of_factors = (*_factorization(rows), *_as_printed(rows))
    return [*_clustering(rows), *_exponents(rows), *_logistic(rows), *_pca(rows), *of_factors]
