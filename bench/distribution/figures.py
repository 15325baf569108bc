"""Measures what the figures 3.2 to 3.7 of [SW20] show: median errors over the runs of each setting."""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np

from analyses.distribution.estimates.metrics import (
    kolmogorov_smirnov,
    mean_of,
    quantiles,
    range_query_error,
    variance_of,
    wasserstein,
)
from analyses.distribution.estimates.wave_estimate import estimate_ems
from analyses.distribution.estimates.wave_operator import WaveOperator
from bench.distribution import methods
from bench.distribution.samples import (
    BETA,
    INCOME,
    OF_THE_SOURCE,
    SAMPLES,
    TAXI,
    WAGES,
    Floats,
    Sample,
    inputs_of,
    share,
)
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.wave import Wave, best_half_width

EPSILONS = (0.5, 1.0, 2.0, 2.5)
N_SHAPE_RUNS = 10
N_LARGE_RUNS = 6
LARGE_EPSILONS = (1.0, 2.5)
LARGE = "3.2 and 3.4, as many values as [SW20] has"
SOURCES_N = {TAXI: 2_189_968, INCOME: 2_308_374, WAGES: 178_012}
W1, KS = "W1", "KS"
RANGES = {"range .1": 0.1, "range .4": 0.4}
MEAN, VARIANCE, QUANTILES, OF_BUCKETS = "mean", "variance", "quantiles", "W1 on a grid of 4,096"
TOPS = {"square": 1.0, "ratio .8": 0.8, "ratio .6": 0.6, "ratio .4": 0.4, "ratio .2": 0.2, "triangle": 0.0}
"""Of the waves of figure 3.5: how much of the window is flat."""

SHAPE_WIDTHS = (0.15, 0.25)
WIDTHS = (0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.38)
"""b, in units of the range, of figures 3.5 and 3.6."""

BEST_WIDTH = "b of [SW20]"
BUCKETS = (256, 512, 1024, 2048)

_DECILES = np.arange(1, 10) / 10
_RAW = (methods.HH, methods.HAAR)
"""No distributions: asked for ranges only."""

_FINE = 4096


@dataclass(frozen=True)
class Setting:
    """Median errors of several ways in one setting.

    Attributes:
        figure: of [SW20].
        data: name of the sample.
        epsilon: of a response, or of the masked sum.
        metric: what the errors are of, in units of the range or probabilities.
        errors: from the way to its median error.
    """

    figure: str
    data: str
    epsilon: float
    metric: str
    errors: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """Return what `as_json` made."""
        return cls(**kept)


Errors = dict[tuple[float, str], dict[str, list[float]]]
"""From epsilon and metric to way to the errors of its runs."""


def distances_and_statistics(sample: Sample, quick: bool) -> Iterator[Setting]:
    """Yield the settings of figures 3.2 to 3.4 of one sample."""
    found: Errors = {}
    for seed in _runs(sample.n_runs, quick):
        values, d = sample.values(seed, quick), sample.n_buckets
        inputs = inputs_of(values, d)
        truth = share(inputs, d)
        for epsilon in EPSILONS[:1] if quick else EPSILONS:
            odds = Odds.of_epsilon(epsilon)
            estimates = methods.from_waves(inputs, d, odds, seed) | methods.from_categories(inputs, d, odds, seed)
            estimates[methods.MASKED] = np.array(methods.masked_result(values, d, epsilon)["probabilities"])
            _add_errors(found, epsilon, estimates, truth)
            for metric, ways, exact in (
                (MEAN, methods.means(inputs, d, odds, seed), mean_of(truth)),
                (VARIANCE, methods.variances(inputs, d, odds, seed), variance_of(truth)),
            ):
                for way, value in ways.items():
                    found[epsilon, metric].setdefault(way, []).append(abs(value - exact))
    figures = {W1: "3.2", KS: "3.2", **dict.fromkeys(RANGES, "3.3")}
    for (epsilon, metric), errors in found.items():
        yield Setting(figures.get(metric, "3.4"), sample.name, epsilon, metric, _medians(errors))


def at_the_sources_n(name: str, quick: bool) -> Iterator[Setting]:
    """Yield the distances of one sample with as many values as [SW20] has, drawn with replacement."""
    found: Errors = {}
    for seed in _runs(N_LARGE_RUNS, quick):
        own, d = SAMPLES[name].values(seed, quick), SAMPLES[name].n_buckets
        n = len(own) if quick else SOURCES_N[name]
        inputs = inputs_of(np.random.default_rng(seed).choice(own, n), d)
        truth = share(inputs, d)
        for epsilon in LARGE_EPSILONS:
            odds = Odds.of_epsilon(epsilon)
            estimates = methods.from_waves(inputs, d, odds, seed) | methods.from_categories(inputs, d, odds, seed)
            _add_errors(found, epsilon, estimates, truth)
    for (epsilon, metric), errors in found.items():
        if metric in (W1, KS, QUANTILES):
            yield Setting(LARGE, name, epsilon, metric, _medians(errors))


def _add_errors(found: Errors, epsilon: float, estimates: Mapping[str, Floats], truth: Floats) -> None:
    for way, p in estimates.items():
        one = {metric: range_query_error(p, truth, width) for metric, width in RANGES.items()}
        if way not in _RAW:
            one |= {
                W1: wasserstein(p, truth),
                KS: kolmogorov_smirnov(p, truth),
                MEAN: abs(mean_of(p) - mean_of(truth)),
                VARIANCE: abs(variance_of(p) - variance_of(truth)),
                QUANTILES: float(np.abs(quantiles(p, _DECILES) - quantiles(truth, _DECILES)).mean()),
            }
        for metric, error in one.items():
            found.setdefault((epsilon, metric), {}).setdefault(way, []).append(error)


def _medians(errors: Mapping[str, list[float]]) -> dict[str, float]:
    return {way: statistics.median(of_runs) for way, of_runs in errors.items()}


def _w1_of_a_wave(wave: Wave, values: Floats, seed: int) -> float:
    inputs = inputs_of(values, wave.n_inputs)
    found = estimate_ems(WaveOperator(wave, wave.n_inputs), methods.counts_of(wave, inputs, seed))
    return wasserstein(found.probabilities, share(inputs, wave.n_inputs))


def shapes(quick: bool) -> Iterator[Setting]:
    """Yield the settings of figure 3.5: waves of six shapes and two widths at epsilon 1."""
    odds = Odds.of_epsilon(1.0)
    for name in (BETA,) if quick else (BETA, TAXI):
        sample = SAMPLES[name]
        for width in SHAPE_WIDTHS[:1] if quick else SHAPE_WIDTHS:
            w, errors = round(width * sample.n_buckets), {}
            for shape, top in TOPS.items():
                kind = "triangle" if shape == "triangle" else "trapezoid"
                wave = (
                    Wave.square(sample.n_buckets, odds, w)
                    if shape == "square"
                    else Wave.of_shape(kind, sample.n_buckets, odds, w, top=Fraction(str(top)))
                )
                seeds = _runs(N_SHAPE_RUNS, quick)
                errors[shape] = [_w1_of_a_wave(wave, sample.values(seed, quick), seed) for seed in seeds]
            yield Setting("3.5", name, 1.0, f"{W1}, b = {width:g}", _medians(errors))


def widths(quick: bool) -> Iterator[Setting]:
    """Yield the settings of figure 3.6: square waves of several widths."""
    for name in OF_THE_SOURCE[:1] if quick else OF_THE_SOURCE:
        sample = SAMPLES[name]
        for epsilon in EPSILONS[:1] if quick else EPSILONS[:3]:
            odds, d = Odds.of_epsilon(epsilon), sample.n_buckets
            half = {f"{width:g}": max(1, round(width * d)) for width in WIDTHS} | {BEST_WIDTH: best_half_width(d, odds)}
            errors = {
                label: [
                    _w1_of_a_wave(Wave.square(d, odds, w), sample.values(seed, quick), seed)
                    for seed in _runs(sample.n_runs, quick)
                ]
                for label, w in half.items()
            }
            yield Setting("3.6", name, epsilon, W1, _medians(errors))


def numbers_of_buckets(quick: bool) -> Iterator[Setting]:
    """Yield the settings of figure 3.7: all against the values in one grid, whatever the buckets of the estimate."""
    for name in OF_THE_SOURCE[:1] if quick else OF_THE_SOURCE:
        for epsilon in EPSILONS[:1] if quick else EPSILONS:
            odds, errors = Odds.of_epsilon(epsilon), {}
            for d in BUCKETS:
                operator = WaveOperator(Wave.square(d, odds), d)
                seeds = _runs(SAMPLES[name].n_runs, quick)
                errors[f"{d}"] = [_w1_on_the_grid(operator, SAMPLES[name], seed, quick) for seed in seeds]
            yield Setting("3.7", name, epsilon, OF_BUCKETS, _medians(errors))


def _w1_on_the_grid(operator: WaveOperator, sample: Sample, seed: int, quick: bool) -> float:
    values, d = sample.values(seed, quick), operator.n_buckets
    found = estimate_ems(operator, methods.counts_of(operator.wave, inputs_of(values, d), seed)).probabilities
    return wasserstein(np.repeat(found, _FINE // d) * d / _FINE, share(inputs_of(values, _FINE), _FINE))


def _runs(n: int, quick: bool) -> range:
    return range(1 if quick else n)
