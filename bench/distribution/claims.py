"""What chapter 3 of the source claims in its figures, and whether it holds at equal true privacy, by the settings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb

from bench.analyses.claims import Verdict
from bench.distribution.figures import BEST_WIDTH, KS, LARGE, MEAN, QUANTILES, TOPS, VARIANCE, W1, Setting
from bench.distribution.methods import ADMM, CFO, EM, EMS, HAAR, HH, ISOTONIC, PM, SR
from bench.distribution.samples import BETA, INCOME, OF_THE_SOURCE, SAMPLES, TAXI

Settings = Sequence[Setting]
Errors = Mapping[str, float]

RIVALS = (EM, ADMM, *CFO)
"""Whom [SW20] compares distributions of SW+EMS with."""

NEAR = 1.25
"""Times as large is near: medians of 20 runs differ by as much from one set of runs to the next."""

NOT_DECIDABLE = "not decidable on this data"

SMOOTH = tuple(name for name in OF_THE_SOURCE if not SAMPLES[name].is_spiky)
PRINTED = "[SW20] "


@dataclass(frozen=True)
class Case:
    """A claim in one setting.

    Attributes:
        where: data, epsilon, metric.
        holds: whether it does there.
        numbers: the error that is claimed to be the smaller one to the other, in thousandths.
        is_close: whether another set of runs may have it the other way round, where it does not hold.
    """

    where: str
    holds: bool
    numbers: str
    is_close: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.numbers}"


def _of(settings: Settings, figure: str, metric: str | None = None, data: Sequence[str] = OF_THE_SOURCE) -> Settings:
    return [s for s in settings if s.figure == figure and s.data in data and metric in (None, s.metric)]


def _less(
    settings: Settings, ours: Sequence[str], others: Sequence[str], most: float = 1.0, *, each: bool = False
) -> list[Case]:
    """Return in which settings the least error of the one group is at most so many times that of the other.

    Args:
        settings: looked at.
        ours: ways; of several the best, or with `each` the worst.
        others: ways, of which the best.
        most: times.
        each: see `ours`.
    """
    cases = []
    for s in settings:
        own, least = (max if each else min)(s.errors[w] for w in ours), min(s.errors[w] for w in others)
        where = f"{s.data}, epsilon {s.epsilon:g}, {s.metric}"
        numbers = f"{1000 * own:.2f} to {1000 * least:.2f}"
        cases.append(Case(where, own <= most * least, numbers, is_close=own <= NEAR * most * least))
    return cases


def _verdict(claim: str, cases: Sequence[Case], *, in_most: bool = False) -> Verdict:
    """Return the verdict: it holds everywhere, or in more than half of the settings. Few exceptions are named.

    There is none where the exceptions that are no ties would not refute the claim.
    """
    if not cases:
        return Verdict(claim, None, "")
    failing = [case for case in cases if not case.holds]
    n_good, n_clear = len(cases) - len(failing), sum(not case.is_close for case in failing)
    holds = 2 * n_good > len(cases) if in_most else not failing
    is_open = not holds and (2 * n_clear < len(cases) if in_most else not n_clear) and not _are_few(n_good, len(cases))
    shown = failing if 0 < len(failing) <= 4 else []
    rest = f"; not at {'; '.join(map(str, shown))}" if shown else ""
    return Verdict(claim, holds, f"{n_good} of {len(cases)}{rest}", NOT_DECIDABLE if is_open else "")


def _are_few(n_good: int, n_cases: int) -> bool:
    """Return whether so few of some coins, or fewer, show heads in less than one of 20 tosses: a sign test."""
    return sum(comb(n_cases, n) for n in range(n_good + 1)) < 0.05 * 2**n_cases


def _ranks(settings: Settings, ways: Sequence[str], rank: int, among: Sequence[str]) -> list[Case]:
    """Return in which settings the way of a rank, 0 for the best, is one of `among`."""
    cases = []
    for s in settings:
        order = sorted(ways, key=lambda way: s.errors[way])
        numbers = ", ".join(f"{way} {1000 * s.errors[way]:.2f}" for way in order[: rank + 2])
        is_close = min(s.errors[way] for way in order[rank:] if way in among) <= NEAR * s.errors[order[rank]]
        where = f"{s.data}, epsilon {s.epsilon:g}, {s.metric}"
        cases.append(Case(where, order[rank] in among, numbers, is_close=is_close))
    return cases


def _distances(settings: Settings) -> Iterator[Verdict]:
    w1, ks = _of(settings, "3.2", W1), _of(settings, "3.2", KS, SMOOTH)
    best = f"{PRINTED}3.2, W1: SW+EMS errs least in most cases"
    yield _verdict(best, _less(w1, [EMS], RIVALS), in_most=True)
    second = _ranks(w1, (EMS, *RIVALS), 1, (EMS, EM, ADMM))
    yield _verdict(f"{PRINTED}3.2, W1: followed by EM and HH-ADMM (the second is one of them)", second, in_most=True)
    optimal = f"{PRINTED}3.2, W1: the best number of bins, chosen for each setting, is still worse than SW+EMS"
    yield _verdict(f"{optimal} (bins by norm-sub, as printed)", _less(w1, [EMS], CFO))
    isotonic = [f"{way}{ISOTONIC}" for way in CFO]
    yield _verdict(f"{optimal} (our isotonic bins)", _less(w1, [EMS], isotonic))
    small = [s for s in w1 if s.epsilon == 0.5]
    yield _verdict(
        f"{PRINTED}3.2, W1: at small epsilon (0.5) fewer bins are better: 16 to 64", _less(small, CFO[:1], CFO[2:])
    )
    large = [s for s in w1 if s.epsilon == max(x.epsilon for x in w1)]
    name = f"{PRINTED}3.2, W1: at large epsilon (2.5) more bins are better: 64 to 16"
    yield _verdict(name, _less(large, CFO[2:], CFO[:1]))
    yield _verdict(f"{PRINTED}3.2, KS: SW+EMS errs least, without income", _less(ks, [EMS], RIVALS), in_most=True)
    yield _verdict(
        f"{PRINTED}3.2, KS: followed by EM, without income", _ranks(ks, (EMS, *RIVALS), 1, (EMS, EM)), in_most=True
    )
    of_income = _of(settings, "3.2", KS, (INCOME,))
    yield _verdict(
        f"{PRINTED}3.2, KS: HH-ADMM errs less than EM and EMS on income", _less(of_income, [ADMM], [EM, EMS])
    )
    coarse = _less(of_income, [EMS], CFO[:1])
    yield _verdict(f"{PRINTED}3.2, KS: coarse bins (16) do poorly on income: SW+EMS errs less", coarse)


def _ranges(settings: Settings) -> Iterator[Verdict]:
    all_ranges = _of(settings, "3.3")
    yield _verdict(
        f"{PRINTED}3.3: SW+EMS errs less than HH and HaarHRR about ranges", _less(all_ranges, [EMS], [HH, HAAR])
    )
    excepted = [
        s
        for s in all_ranges
        if not (s.data == TAXI and s.metric == "range .1") and not (s.data == INCOME and s.epsilon > 2)
    ]
    best = f"{PRINTED}3.3: and least of all but for short ranges of taxi and income at epsilon above 2"
    yield _verdict(best, _less(excepted, [EMS], (*RIVALS, HH, HAAR)), in_most=True)
    taxi = _of(settings, "3.3", "range .1", (TAXI,))
    yield _verdict(
        f"{PRINTED}3.3: there SW+EMS is near CFO 64 for short ranges of taxi", _less(taxi, [EMS], CFO[2:], NEAR)
    )
    low = [s for s in _of(settings, "3.3", data=(INCOME,)) if s.epsilon > 2]
    yield _verdict(
        f"{PRINTED}3.3: on income at epsilon above 2 HH-ADMM errs least", _less(low, [ADMM], (EMS, EM, *CFO))
    )


def _statistics(settings: Settings) -> Iterator[Verdict]:
    means, spreads = _of(settings, "3.4", MEAN), _of(settings, "3.4", VARIANCE)
    small = [s for s in means if s.epsilon == 0.5]
    large = [s for s in means if s.epsilon > 2]
    yield _verdict(f"{PRINTED}3.4: SR errs less than PM about the mean at epsilon 0.5", _less(small, [SR], [PM]))
    yield _verdict(f"{PRINTED}3.4: and more at epsilon 2.5", _less(large, [PM], [SR]))
    near = f"{PRINTED}3.4: SW+EMS is near the better of the two about the mean (within {NEAR - 1:.0%}), or better"
    yield _verdict(near, _less(means, [EMS], [SR, PM], NEAR), in_most=True)
    admm = f"{PRINTED}3.4: HH-ADMM errs less than all bins about the mean"
    yield _verdict(admm, _less(means, [ADMM], CFO), in_most=True)
    yield _verdict(f"{PRINTED}3.4: and more than SW+EMS", _less(means, [EMS], [ADMM]), in_most=True)
    spread = f"{PRINTED}3.4: SR and PM err more than EM or EMS about the variance in most cases"
    yield _verdict(spread, _less(spreads, [EM, EMS], [SR, PM]), in_most=True)
    deciles = _of(settings, "3.4", QUANTILES, SMOOTH)
    yield _verdict(
        f"{PRINTED}3.4: SW+EMS errs least about quantiles, without income", _less(deciles, [EMS], (ADMM, *CFO))
    )
    of_income = _of(settings, "3.4", QUANTILES, (INCOME,))
    yield _verdict(
        f"{PRINTED}3.4: on income HH-ADMM errs least about quantiles", _less(of_income, [ADMM], (EMS, EM, *CFO))
    )
    tenfold = f"{PRINTED}3.4: on income coarse bins (16) err ten times as much as the others about quantiles"
    yield _verdict(tenfold, _less(of_income, [EMS, ADMM, EM], CFO[:1], 0.1, each=True))


def _parameters(settings: Settings) -> Iterator[Verdict]:
    of_shapes = _of(settings, "3.5")
    others = [shape for shape in TOPS if shape != "square"]
    yield _verdict(
        f"{PRINTED}3.5: the square wave errs least of all shapes, whatever b", _less(of_shapes, ["square"], others)
    )
    steep = f"{PRINTED}3.5: less of the window flat is worse in general: square to triangle"
    yield _verdict(steep, _less(of_shapes, ["square"], ["triangle"]), in_most=True)
    of_widths = _of(settings, "3.6")
    cases = [
        case for s in of_widths for case in _less([s], [BEST_WIDTH], [b for b in s.errors if b != BEST_WIDTH], NEAR)
    ]
    yield _verdict(f"{PRINTED}3.6: its b is among the best (within {NEAR - 1:.0%} of the best of the others)", cases)
    for data, best, most in (((BETA,), "256", False), (tuple(n for n in OF_THE_SOURCE if n != BETA), "1024", True)):
        of_buckets = [s for s in settings if s.figure == "3.7" and s.data in data]
        cases = [case for s in of_buckets for case in _less([s], [best], [d for d in s.errors if d != best])]
        where = "Beta" if data == (BETA,) else "the others, in most cases"
        yield _verdict(f"{PRINTED}3.7: {best} buckets are best for {where}", cases, in_most=most)


def _large(settings: Settings) -> Iterator[Verdict]:
    """Claims that fewer values than the source has cannot show."""
    large = [s for s in settings if s.figure == LARGE]
    w1 = [s for s in large if s.metric == W1]
    smooth = [s for s in large if s.metric == QUANTILES and s.data != INCOME]
    of_income = [s for s in large if s.metric == KS and s.data == INCOME]
    at, most = f"{PRINTED}source's n", [s for s in w1 if s.epsilon == max(x.epsilon for x in w1)]
    yield _verdict(f"{at}, epsilon 2.5: more bins are better: 64 to 16, W1", _less(most, CFO[2:], CFO[:1]))
    yield _verdict(f"{at}: the best number of bins is still worse than SW+EMS, W1", _less(w1, [EMS], CFO))
    yield _verdict(f"{at}: HH-ADMM errs less than EM and EMS on income, KS", _less(of_income, [ADMM], [EM, EMS]))
    yield _verdict(f"{at}: SW+EMS errs least about quantiles, without income", _less(smooth, [EMS], (ADMM, *CFO)))


_ALL: tuple[Callable[[Settings], Iterator[Verdict]], ...] = (_distances, _ranges, _statistics, _parameters, _large)


def verdicts(settings: Settings) -> list[Verdict]:
    """Return the verdict on each claim; data sets that stand for none of the source are left out."""
    return [verdict for of_figures in _ALL for verdict in of_figures(settings)]
