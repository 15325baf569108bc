"""Turns what is kept of the measurements into `docs/analyses/distribution-figures.md`."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.analyses.table import cells
from bench.distribution.claims import PRINTED, verdicts
from bench.distribution.figures import LARGE, N_LARGE_RUNS, N_SHAPE_RUNS, Setting
from bench.distribution.numbers import DISTANCE, SECONDS, Number
from bench.distribution.picture import CAPTIONS
from bench.distribution.samples import SAMPLES
from bench.distribution.targets import reached

Kept = Mapping[str, Mapping[str, Any]]
"""Part to what was kept of it."""

HEAD = f"""\
# The figures of [SW20], measured again

Written by `python -m bench.distribution` ([how the estimates work](distribution.md)): medians of as many runs as the
table says, of figure 3.5 of {N_SHAPE_RUNS}. Every local method has the same true privacy: no output is more than
e^epsilon times likelier for one value than for another one. *masked* is the job with `method = "masked"` of three
parties: its epsilon, at delta 1e-6 and for neighbours that replace a row, holds against the coordinator and one party
together. Bins (CFO) are made a distribution by norm-sub where nothing else is said, as in the source; *isotonic*
is our way. *HH* and *HaarHRR* alone keep their negative frequencies, so they are asked for ranges only. The real data
are a twentieth to a third as many as the source's: fewer responses show less detail, which favours coarse bins and few
buckets here.
"""
CLAIMS = """\
## What the source claims

A claim "in most cases" holds where it does in more than half of the settings; any other one must hold in all of them.
Where a claim fails only in settings in which the two errors differ by less than a quarter, medians of other 20 runs may
have it the other way round: it is not decidable on this data, unless it holds in so few settings as less than one toss
of coins in 20 would have it.
"5.00 to 4.00" is what is claimed to be the smaller error, and what it is compared with, in thousandths.
"""
UNITS = "All numbers below are in thousandths: of the range, of its square for variances, of 1 for probabilities.\n"
MEANING = {
    "3.2": "Distances of the estimate from the values' own distribution",
    "3.3": "Mean error of the probability of a range of relative length .1 and .4",
    "3.4": "Errors of mean, variance and deciles",
    LARGE: f"Values of the samples drawn with replacement; medians of {N_LARGE_RUNS} runs",
    "3.5": "W1 of waves of six shapes at epsilon 1",
    "3.6": "W1 of square waves by their half-width b",
    "3.7": "W1 by the number of buckets, against the values in a grid of 4,096",
}


def page(kept: Kept) -> str:
    """Return the page: targets, claims, pictures, and the tables of all figures."""
    settings = [Setting.from_json(one) for part in kept.values() for one in part["settings"]]
    numbers = [Number.from_json(one) for part in kept.values() for one in part["numbers"]]
    targets = [(t.asked, t.what, t.measured, "yes" if t.is_met else "**no**") for t in reached(settings, numbers)]
    said = [(*_divided(v.claim), v.text, v.numbers) for v in verdicts(settings)]
    data = [
        (f"{s.name}{', spiky' if s.is_spiky else ''}", s.what, f"{s.n_buckets}", f"{s.n_runs}")
        for s in SAMPLES.values()
    ]
    return "\n".join(
        [
            HEAD,
            cells(("data", "what", "buckets", "runs"), data),
            f"## Targets\n\n{cells(('target', 'what', 'measured', 'met'), targets)}",
            f"{CLAIMS}\n{cells(('figure', 'claim', 'verdict', 'settings in which it holds'), said)}",
            "## Pictures\n",
            *(f"![{text}](../images/{name}.png)\n" for name, text in CAPTIONS.items()),
            UNITS,
            *(_figure(figure, [s for s in settings if s.figure == figure]) for figure in MEANING),
            f"## Speed\n\n{_numbers(numbers)}",
            f"Measured: {when(kept)}.\n",
        ]
    )


def _divided(claim: str) -> tuple[str, str]:
    """Return the figure that a claim is about, and what it says."""
    figure, _, text = claim.removeprefix(PRINTED).partition(": ")
    return figure, text


def _figure(figure: str, settings: Sequence[Setting]) -> str:
    """Return a figure's tables: a column for each setting, a row for each way."""
    tables = []
    for metric in dict.fromkeys("" if figure in ("3.5", "3.6") else s.metric for s in settings):
        shown = [s for s in settings if metric in ("", s.metric)]
        head = [_column(figure, s) for s in shown]
        ways = dict.fromkeys(way for s in shown for way in s.errors)
        lines = [(way, *(f"{1000 * s.errors[way]:.2f}" if way in s.errors else "" for s in shown)) for way in ways]
        title = f"{metric[0].upper()}{metric[1:]}:\n\n" if metric else ""
        tables.append(f"{title}{cells(('', *head), lines)}")
    return f"## Figure {figure}\n\n{MEANING[figure]}.\n\n" + "\n".join(tables)


def _column(figure: str, setting: Setting) -> str:
    return (
        f"{setting.data}, {setting.metric.split(', ')[1]}"
        if figure == "3.5"
        else f"{setting.data}, {setting.epsilon:g}"
    )


def _numbers(numbers: Sequence[Number]) -> str:
    def text(number: Number) -> str:
        if number.kind == DISTANCE:
            return f"{number.value:.5f}"
        return f"{number.value:.4f} s" if number.kind == SECONDS else f"{number.value:.0f}"

    return cells(("", "what", "", "how"), [(n.kind, n.what, text(n), n.note) for n in numbers])


def when(kept: Kept) -> str:
    """Return where and when each part was measured, and what it took."""
    by_place: dict[str, list[str]] = {}
    for name, part in kept.items():
        machine = part["machine"]
        where = f"{machine['cores']} cores of {machine['cpu']}, {part['date']}, processor time"
        by_place.setdefault(where, []).append(f"{name} {part['seconds']:.0f} s")
    return "; ".join(f"{', '.join(times)} ({where})" for where, times in by_place.items())
