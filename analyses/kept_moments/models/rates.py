"""Poisson regression from released second moments: counts, or counts per exposure, by any other columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyses.kept_moments.answer import (
    Answer,
    AnswerError,
    Floats,
    check_rows,
    chosen,
    numbers,
    others_than,
    p_values,
    ratios,
)
from analyses.kept_moments.models.population import Features, Population, errors_of, stated
from analyses.kept_moments.redrawn import check_regular
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import SimulatedNoise

_SWEEPS = 200
SEEN_EVENTS = 4.0
"""Standard errors of its noise that the sum of the label in each category must come to."""


@dataclass(frozen=True)
class Rates:
    """A log-linear model of a mean.

    Attributes:
        weights: log rate per unit of each column, and of a row of zeros, shape (columns + 1,).
        log_cells: logarithm of the mean of the label in each cell, shape (cells,).
        variance: variance of the log rate within cells, by the numbers.
        rate: mean of the label.
    """

    weights: Floats
    log_cells: Floats
    variance: float
    rate: float


def poisson(
    moments: ReleasedMoments,
    label: str,
    columns: Sequence[str] = (),
    *,
    offset: str | None = None,
    normal: bool = False,
) -> Answer:
    """Return the log-linear model of a count: log E[y] = w.x + w_0, and with an offset its own value besides.

    The score equations of Poisson's likelihood, sums of (y - exp(w.x)) x = 0, are solved for the population of
    `models.population`: numbers z that are normal within cells have E[exp(b.z) z] = E[exp(b.z)] (E[z] + C b), so b
    follows from C b = (what y and z have in common within cells) / E[y], and the cells' rates from the sums of y in
    each category, in proportion [DemSte40]. Errors by chance allow for a variance of y that is `dispersion` times its
    mean, where that is above 1.

    Args:
        moments: released.
        label: a count or another number whose lower bound is at least 0.
        columns: names of features, a category for all its values but the first; all others where none is named.
        offset: column that holds the logarithm of each row's exposure.
        normal: whether numbers, the offset too, are known to be near normal; else there are no intervals with them.

    Raises:
        AnswerError: a column is not in the release, the label may be negative or explains itself, an offset is no
            number, there is only noise, or the label is not seen in some category.
    """
    features = _asked(moments, label, columns, offset)
    part = chosen(moments, [*features.names, label])
    if part.lower[-1] < 0:
        raise AnswerError(f"the label {label!r} may be negative by its bounds; a count is at least 0")
    check_rows(part)
    k = len(features.names)
    check_regular(part.centred.matrix[:k, :k], part.noise_level)
    _check_events(part, features, label)
    raw = part.raw
    own = [*range(k), k + 1]
    population = Population.of(raw[np.ix_(own, own)], features)
    found = _rates(raw, features, offset is not None)
    if found is None:
        raise AnswerError(f"no rates of {label}: in some category it is not distinguishable from 0")
    dispersion = _dispersion(raw, population, found)

    def estimate(drawn: Floats) -> Floats:
        again = _rates(drawn, features, offset is not None)
        return np.full(k + 1, np.nan) if again is None else again.weights

    simulated = SimulatedNoise()
    rows, weights = population.rows(simulated)
    mean = np.exp(rows @ found.weights[:-1] + found.weights[-1])
    label_of = mean + np.sqrt(max(dispersion, 1.0) * mean) * simulated.normal(len(rows))
    errors = errors_of(part, estimate, np.column_stack([rows, label_of]), weights)
    kept = [*range(k - (offset is not None)), k]
    values = found.weights[kept]
    whole, notes = stated(features, errors.whole[kept], normal=normal)
    interval, ratio, of_ratio = ratios(values, whole)
    return Answer(
        "poisson",
        {
            "column": [*(features.names[at] for at in kept[:-1]), "intercept"],
            "log_rate_per_unit": numbers(values),
            "noise_error": numbers(errors.noise[kept]),
            "chance_error": numbers(errors.chance[kept]),
            "interval": interval,
            "rate_ratio": ratio,
            "rate_ratio_interval": of_ratio,
            "p_value": p_values(values, whole),
        },
        {"label": label, "offset": offset, "n_rows": part.n_rows, "mean_label": found.rate, "dispersion": dispersion},
        notes,
    )


def _asked(moments: ReleasedMoments, label: str, columns: Sequence[str], offset: str | None) -> Features:
    """Return the features, the offset last: it is a number.

    Raises:
        AnswerError: see `poisson`.
    """
    if offset is None:
        return Features.of(moments, label, columns)
    chosen(moments, [offset])
    if offset == label:
        raise AnswerError(f"the offset must be another column than {label!r}")
    others = [name for name in columns or others_than(moments, label) if name != offset]
    features = Features.of(moments, label, [*others, offset])
    if features.names.index(offset) not in features.numbers:
        raise AnswerError(f"the offset {offset!r} is no number: it must hold the logarithm of each row's exposure")
    return features


def _check_events(part: ReleasedMoments, features: Features, label: str) -> None:
    """Refuse rates where the sum of the label in some category is not seen in the noise.

    Raises:
        AnswerError: names the category.
    """
    k = len(features.names)
    error = part.deviation / part.constant * part.widths[-1]
    for members in features.categories:
        sums = np.append(part.raw[k, -1] - part.raw[list(members), k].sum(), part.raw[list(members), k])
        if (sums < SEEN_EVENTS * error * np.sqrt(len(members))).any():
            name = features.names[members[0]].partition("=")[0]
            raise AnswerError(f"{label} is not distinguishable from 0 in some category of {name}: leave it out")


def _rates(raw: Floats, features: Features, has_offset: bool) -> Rates | None:
    """Return the model of moments, features first, then the label, the constant last; None where there is none."""
    k = len(features.names)
    own = [*range(k), k + 1]
    try:
        population = Population.of(raw[np.ix_(own, own)], features)
        across = raw[k] / raw[-1, -1]
        rate, places, at = float(across[-1]), list(features.numbers), features.indicators
        if rate <= 0:
            return None
        in_common = across[places] - population.centre * rate - across[at] @ population.slopes
        slopes = _of_numbers(population.within, in_common / rate, has_offset)
    except np.linalg.LinAlgError:
        return None
    cells = _cell_rates(population, across[at], rate)
    if cells is None:
        return None
    variance = float(slopes @ population.within @ slopes)
    weights = np.zeros(k + 1)
    weights[places] = slopes
    weights[at] = cells[1] - population.slopes @ slopes
    weights[-1] = cells[2] - variance / 2 - float(population.centre @ slopes)
    return Rates(weights, cells[0], variance, rate)


def _of_numbers(within: Floats, wanted: Floats, has_offset: bool) -> Floats:
    """Return b with C b = wanted; the last one is 1 where it is of an offset."""
    if not has_offset:
        return np.asarray(np.linalg.solve(within, wanted) if len(within) else wanted, dtype=np.float64)
    free = np.linalg.solve(within[:-1, :-1], wanted[:-1] - within[:-1, -1]) if len(within) > 1 else np.zeros(0)
    return np.append(free, 1.0)


def _cell_rates(population: Population, across: Floats, rate: float) -> tuple[Floats, Floats, float] | None:
    """Return the log rate of each cell, how each indicator moves it, and that of the cell of no indicator.

    Sums of y by cell are scaled, category by category, to those of the moments: rates stay products.

    Args:
        population: cells and their shares.
        across: mean of y times each indicator.
        rate: mean of y.
    """
    sums, log_rates = population.shares * rate, np.full(len(population.shares), np.log(rate))
    steps, start, base = np.zeros(len(across)), 0, float(np.log(rate))
    members = []
    for one in population.features.categories:
        own = slice(start, start + len(one))
        target = np.append(rate - across[own].sum(), across[own])
        if (target <= 0).any():
            return None
        members.append((own, target))
        start += len(one)
    for _ in range(_SWEEPS):
        before = log_rates.copy()
        for own, target in members:
            indicators = population.cells[:, own]
            values = np.column_stack([1 - indicators.sum(axis=1), indicators])
            found = sums @ values
            if (found <= 0).any():
                return None
            moves = np.log(target / found)
            steps[own] += moves[1:] - moves[0]
            base += float(moves[0])
            log_rates = log_rates + values @ moves
            sums = sums * np.exp(values @ moves)
        if np.abs(log_rates - before).max() < 1e-10:
            break
    return log_rates, steps, base


def _dispersion(raw: Floats, population: Population, found: Rates) -> float:
    """Return by how much the variance of the label about its mean is larger than that mean, as moments tell."""
    k = len(population.features.names)
    squares = population.shares @ np.exp(2 * found.log_cells + found.variance)
    return float(raw[k, k] / raw[-1, -1] - squares) / found.rate
