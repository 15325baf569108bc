"""The papers' claims about these analyses, and whether they hold at equal true privacy, judged by the measured rows."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.analyses import additive_error, clustering, logistic_regression, pattern_count, pca
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


def verdicts(rows: Rows) -> list[Verdict]:
    """Return the verdict on each claim."""
    return [*_clustering(rows), *_exponents(rows), *_logistic(rows), *_pca(rows)]
