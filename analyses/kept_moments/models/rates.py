"""Log-linear models of a mean from released second moments: of counts, counts per exposure, and positive numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analyses.kept_moments.answer import (
    Answer,
    AnswerError,
    Floats,
    block,
    check_rows,
    chosen,
    numbers,
    others_than,
    p_values,
    ratios,
)
from analyses.kept_moments.models.population import Features, Population, of_chance, of_noise, stated
from analyses.kept_moments.redrawn import check_regular
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import SimulatedNoise

_SWEEPS = 200
_SETTLED = 1e-10
SEEN_EVENTS = 4.0
"""Standard errors of its noise that the sum of the label in each category must come to."""

_OF_THE_MEAN = (
    "coefficients are those of Poisson's score equations, right whatever the variance of the label is; its own score "
    "would need sums of y / mu(x), which the release does not hold. Errors by chance follow its variance"
)
_UNKNOWN_SPREAD = "noise may hide any variance of the label: no error by chance, so no interval"
_SMALL_SPREAD = (
    "dispersion below 0, by noise or as the label varies less than this model has it: errors are of a larger one"
)


@dataclass(frozen=True)
class _Law:
    """How the variance of a label follows from its mean m.

    Attributes:
        of: what is modelled, for the names of coefficients.
        dispersion: d, of the means of the label, of its square, and of m^2.
        least: least d that errors by chance suppose.
        variance: variance of the label by m and d.
        notes: what is to be said of it.
    """

    of: str
    dispersion: Callable[[Floats, Floats, Floats], Floats]
    least: float
    variance: Callable[[Floats, float], Floats]
    notes: tuple[str, ...] = ()


_POISSON = _Law("rate", lambda y, yy, mm: (yy - mm) / y, 1.0, lambda m, d: d * m)
_NEGATIVE_BINOMIAL = _Law("rate", lambda y, yy, mm: (yy - mm - y) / mm, 0.0, lambda m, d: m + d * m**2, (_OF_THE_MEAN,))
_GAMMA = _Law("mean", lambda y, yy, mm: (yy - mm) / mm, 0.0, lambda m, d: d * m**2, (_OF_THE_MEAN,))


@dataclass(frozen=True)
class Rates:
    """Log-linear models of a mean; NaN where there is none.

    Attributes:
        weights: log rate per unit of each column, and of a row of zeros, shape (..., columns + 1).
        rate: mean of the label, shape (...,).
        square: mean of its square.
        square_of_mean: mean of the square of its modelled mean.
    """

    weights: Floats
    rate: Floats
    square: Floats
    square_of_mean: Floats


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
    return _model("poisson", _POISSON, moments, label, columns, offset, normal)


def negative_binomial(
    moments: ReleasedMoments,
    label: str,
    columns: Sequence[str] = (),
    *,
    offset: str | None = None,
    normal: bool = False,
) -> Answer:
    """Return `poisson` with the errors of a count of variance m + `dispersion` m^2, m its mean.

    The equations of `poisson` hold for whatever has this mean [GouMonTro84]: coefficients are consistent, and of a
    single category those of greatest likelihood. `dispersion` follows from the mean of y^2.
    """
    return _model("negative-binomial", _NEGATIVE_BINOMIAL, moments, label, columns, offset, normal)


def gamma(
    moments: ReleasedMoments,
    label: str,
    columns: Sequence[str] = (),
    *,
    offset: str | None = None,
    normal: bool = False,
) -> Answer:
    """Return the log-linear model of a positive number of variance `dispersion` m^2; see `negative_binomial`."""
    return _model("gamma", _GAMMA, moments, label, columns, offset, normal)


def _model(
    name: str,
    law: _Law,
    moments: ReleasedMoments,
    label: str,
    columns: Sequence[str],
    offset: str | None,
    normal: bool,
) -> Answer:
    features = _asked(moments, label, columns, offset)
    part = chosen(moments, [*features.names, label])
    if part.lower[-1] < 0:
        raise AnswerError(f"the label {label!r} may be negative by its bounds; a count is at least 0")
    check_rows(part)
    k = len(features.names)
    check_regular(part.centred.matrix[:k, :k], part.noise_level)
    _check_events(part, features, label)

    def estimate(drawn: Floats) -> Floats:
        found = _rates(drawn, features, offset is not None)
        dispersion = law.dispersion(found.rate, found.square, found.square_of_mean)
        return np.column_stack([found.weights, dispersion])

    try:
        found = estimate(part.raw[None])[0]
        population = Population.of(block(part.raw, [*range(k), k + 1], [*range(k), k + 1]), features)
    except np.linalg.LinAlgError:
        found = np.full(k + 2, np.nan)
    if not np.isfinite(found).all():
        raise AnswerError(f"no rates of {label}: in some category it is not distinguishable from 0")
    noise = of_noise(part, estimate)
    # One standard error more than was measured, as noise may have hidden some of it.
    dispersion = max(float(found[-1]), law.least) + float(noise[-1])
    chance, notes_of_law = np.full(k + 2, np.nan), law.notes
    if np.isfinite(dispersion):
        rows, weights = population.rows(SimulatedNoise())
        mean = np.exp(rows @ found[:k] + found[k])
        spread = np.sqrt(law.variance(mean, dispersion))
        labelled = np.column_stack([np.vstack([rows, rows]), np.append(mean - spread, mean + spread)])
        chance = of_chance(part, estimate, labelled, np.append(weights, weights) / 2)
    else:
        notes_of_law = (*notes_of_law, _UNKNOWN_SPREAD)
    if found[-1] < 0:
        notes_of_law = (*notes_of_law, _SMALL_SPREAD)
    kept = [*range(k - (offset is not None)), k]
    values = found[kept]
    whole, notes = stated(features, np.hypot(noise, chance)[kept], normal=normal)
    interval, ratio, of_ratio = ratios(values, whole)
    return Answer(
        name,
        {
            "column": [*(features.names[at] for at in kept[:-1]), "intercept"],
            f"log_{law.of}_per_unit": numbers(values),
            "noise_error": numbers(noise[kept]),
            "chance_error": numbers(chance[kept]),
            "interval": interval,
            f"{law.of}_ratio": ratio,
            f"{law.of}_ratio_interval": of_ratio,
            "p_value": p_values(values, whole),
        },
        {
            "label": label,
            "offset": offset,
            "n_rows": part.n_rows,
            "mean_label": float(part.raw[k, -1] / part.raw[-1, -1]),
            "dispersion": float(found[-1]),
            "dispersion_noise_error": numbers(noise[-1:])[0],
        },
        (*notes, *notes_of_law),
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
    """Refuse rates where the sum of the label, in all rows or in some category, is not seen in the noise.

    Raises:
        AnswerError: names the category.
    """
    k = len(features.names)
    error = part.deviation / part.constant * part.widths[-1]
    if part.raw[k, -1] < SEEN_EVENTS * error:
        raise AnswerError(f"{label} is not distinguishable from 0: there is no rate to explain")
    for members in features.categories:
        sums = np.append(part.raw[k, -1] - part.raw[list(members), k].sum(), part.raw[list(members), k])
        if (sums < SEEN_EVENTS * error * np.sqrt(len(members))).any():
            name = features.names[members[0]].partition("=")[0]
            raise AnswerError(f"{label} is not distinguishable from 0 in some category of {name}: leave it out")


def _rates(raw: Floats, features: Features, has_offset: bool) -> Rates:
    """Return the models of many moments, features first, then the label, the constant last, shape (..., m, m).

    Raises:
        LinAlgError: some features do not vary.
    """
    k = len(features.names)
    own = [*range(k), k + 1]
    population = Population.of(block(raw, own, own), features)
    across = raw[..., k, :] / raw[..., -1, -1:]
    rate, places, at = across[..., -1], list(features.numbers), features.indicators
    of_cells = np.einsum("...i,...in->...n", across[..., at], population.slopes)
    in_common = across[..., places] - population.centre * rate[..., None] - of_cells
    slopes = _of_numbers(population.within, in_common / rate[..., None], has_offset)
    variance = np.einsum("...i,...ij,...j->...", slopes, population.within, slopes)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_cells, steps, base = _cell_rates(population, across[..., at], rate)
        weights = np.zeros((*rate.shape, k + 1))
        weights[..., places] = slopes
        weights[..., at] = steps - np.einsum("...in,...n->...i", population.slopes, slopes)
        weights[..., -1] = base - variance / 2 - (population.centre * slopes).sum(axis=-1)
        squares = (population.shares * np.exp(2 * log_cells + variance[..., None])).sum(axis=-1)
    weights[~np.isfinite(weights).all(axis=-1)] = np.nan
    return Rates(weights, rate, across[..., k], squares)


def _of_numbers(within: Floats, wanted: Floats, has_offset: bool) -> Floats:
    """Return b with C b = wanted; the last one is 1 where it is of an offset."""
    if not has_offset:
        return np.asarray(np.linalg.solve(within, wanted[..., None])[..., 0], dtype=np.float64)
    beside = (wanted[..., :-1] - within[..., :-1, -1])[..., None]
    free = np.linalg.solve(within[..., :-1, :-1], beside)[..., 0]
    return np.concatenate([free, np.ones((*free.shape[:-1], 1))], axis=-1)


def _cell_rates(population: Population, across: Floats, rate: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the log rate of each cell, how each indicator moves it, and that of the cell of no indicator.

    Sums of y by cell are scaled, category by category, to those of the moments: rates stay products. Where a sum is
    negative there are none: NaN.

    Args:
        population: cells and their shares.
        across: mean of y times each indicator, shape (..., indicators).
        rate: mean of y, shape (...,).
    """
    sums, base = population.shares * rate[..., None], np.log(rate)
    log_rates, steps = np.repeat(base[..., None], sums.shape[-1], axis=-1), np.zeros_like(across)
    members, start = [], 0
    for one in population.features.categories:
        own = slice(start, start + len(one))
        indicators = population.cells[:, own]
        values = np.column_stack([1 - indicators.sum(axis=1), indicators])
        first = rate[..., None] - across[..., own].sum(axis=-1, keepdims=True)
        members.append((own, values, np.concatenate([first, across[..., own]], axis=-1)))
        start += len(one)
    for _ in range(_SWEEPS):
        before = log_rates
        for own, values, target in members:
            moves = np.log(target / (sums @ values))
            steps[..., own] += moves[..., 1:] - moves[..., :1]
            base = base + moves[..., 0]
            of_cells = moves @ values.T
            log_rates = log_rates + of_cells
            sums = sums * np.exp(of_cells)
        moved = np.abs(log_rates - before)
        if not (moved[np.isfinite(moved)] >= _SETTLED).any():
            break
    return log_rates, steps, base
