"""Counts and group means of released categories, with errors: all are linear in released moments, or ratios of such."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from analyses.job.column_names import spelled
from analyses.kept_moments.answer import (
    Answer,
    AnswerError,
    Floats,
    check_rows,
    chosen,
    hidden_square,
    intervals,
    noise_of_products,
    numbers,
    ratios,
)
from analyses.kept_moments.models.terms import Polynomial, Terms, is_plain
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import SimulatedNoise

SEEN_GROUP = 4.0
"""Standard errors that a group's number of rows must come to before anything is divided by it."""

N_TABLES = 2_000
"""Tables that are drawn to judge one."""

_CHANCE = "the interval counts noise, and chance as for groups that vary alike, as an analysis of variance does"


@dataclass(frozen=True)
class Categories:
    """The categories of a column of an owner, or of the combinations of several.

    Attributes:
        names: `party.column` of each column.
        values: values of the columns, for each category.
        vectors: shape (categories, columns + 1): u with u.(x, 1) = 1 in rows of the category, else 0.
    """

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    vectors: Floats = field(repr=False)

    @property
    def labels(self) -> tuple[str, ...]:
        """A text for each category."""
        return tuple(", ".join(one) for one in self.values)

    def columns(self, places: Iterable[int]) -> dict[str, list[str]]:
        """Return a column of values for each name, with a line for each place of a category."""
        shown = [self.values[at] for at in places]
        return {name: [value[at] for value in shown] for at, name in enumerate(self.names)}


def categories_of(moments: ReleasedMoments, name: str) -> Categories:
    """Return the categories of columns that were encoded as indicators, or of a yes or no with bounds 0 and 1.

    Of several columns of one owner, `party.a*party.b`, categories are the combinations of values. The indicator of one
    is a product of indicators, which an owner's own column holds, or a difference of such.

    Raises:
        AnswerError: the release has no such column, it is a number, or the release has not all products.
    """
    terms = Terms(moments)
    keys = [name] if is_plain(moments, name) else name.split("*")
    if len({*keys}) < len(keys):
        raise AnswerError(f"a column of {name!r} is named twice")
    parts = [_indicators(terms, key) for key in keys]
    vectors, values = [], []
    for chosen_values in product(*parts):
        vector = np.zeros(len(moments.names) + 1)
        for monomial, factor in terms.times(*(polynomial for _, polynomial in chosen_values)).items():
            if monomial not in terms.places:
                raise AnswerError(
                    f"the release has no column for each combination of {', '.join(keys)}: of columns of one owner a "
                    f"job of second-moments names the product, {spelled([one.partition('.')[2] for one in keys])}, and "
                    "those without a yes or no; of several owners a cross-table counts them"
                )
            vector[terms.places[monomial]] += factor
        vectors.append(vector)
        values.append(tuple(label for label, _ in chosen_values))
    return Categories(tuple(keys), tuple(values), np.array(vectors))


def _indicators(terms: Terms, key: str) -> list[tuple[str, Polynomial]]:
    """Return the values of a category, or no and yes, with what is 1 in their rows and 0 in others."""
    if values := terms.values_of(key):
        return [(value.partition("=")[2], {(value,): 1.0}) for value in values]
    moments = terms.moments
    known = [] if key in moments.names else [one for one in moments.names if _is_with_values(moments, one, key)]
    part = chosen(moments, known or [key])
    if {*zip(part.lower, part.widths, strict=True)} != {(0.0, 1.0)}:
        raise AnswerError(f"column {key!r} is a number; name a category, or a yes or no with bounds 0 and 1")
    yes = terms.monomial(key)
    return [("no", {(): 1.0, yes: -1.0}), ("yes", {yes: 1.0})]


def _is_with_values(moments: ReleasedMoments, name: str, key: str) -> bool:
    """Return whether a column is the product of another and values of categories, so that it tells its bounds."""
    factors = moments.factors.get(name, ())
    return key in factors and all("=" in one for one in factors if one != key)


def crosstab(moments: ReleasedMoments, down: str, across: str) -> Answer:
    """Return how many rows have each pair of categories, chi^2 and Cramer's V.

    Errors are by noise alone: the counts are of the rows that there are. `p_value` is the share of tables without
    association that have a larger chi^2: tables of the released margins are drawn with the release's noise in them, so
    that noise is not taken for association [GLRV16].

    Args:
        moments: released.
        down: column of categories, `party.column`.
        across: another one.

    Raises:
        AnswerError: a column is not in the release or no category, both are the same, or there is only noise.
    """
    if down == across:
        raise AnswerError(f"a cross-table needs two columns, and {down!r} is named twice")
    rows, columns = categories_of(moments, down), categories_of(moments, across)
    check_rows(moments)
    n_down, n_across = len(rows.labels), len(columns.labels)
    left, right = np.repeat(rows.vectors, n_across, axis=0), np.tile(columns.vectors, (n_down, 1))
    counts = np.einsum("ki,ij,kj->k", left, moments.raw, right, optimize=True)
    covariance = noise_of_products(moments, left, right)
    errors = np.sqrt(np.diagonal(covariance))
    about = _association(counts.reshape(n_down, n_across), covariance)
    return Answer(
        "crosstab",
        {
            **rows.columns(np.repeat(range(n_down), n_across)),
            **columns.columns(np.tile(range(n_across), n_down)),
            "count": numbers(counts),
            "noise_error": numbers(errors),
            "interval": intervals(counts, errors, 0.0),
        },
        {"n_rows": moments.n_rows, **about},
    )


def odds_ratios(moments: ReleasedMoments, down: str, across: str) -> Answer:
    """Return the odds ratios of a cross-table: of each category against the first one of its column.

    The log odds ratio of four counts is linear in their logarithms; its error by noise follows from their covariance by
    the delta method, that by chance is the root of the sum of 1 / count.

    Args:
        moments: released.
        down: column of categories, `party.column`.
        across: another one.

    Raises:
        AnswerError: see `crosstab`.
    """
    if down == across:
        raise AnswerError(f"a cross-table needs two columns, and {down!r} is named twice")
    rows, columns = categories_of(moments, down), categories_of(moments, across)
    check_rows(moments)
    pairs = [(i, j) for i in range(1, len(rows.labels)) for j in range(1, len(columns.labels))]
    values, noise, chance = (np.full(len(pairs), np.nan) for _ in range(3))
    for at, (i, j) in enumerate(pairs):
        left, right = rows.vectors[[0, 0, i, i]], columns.vectors[[0, j, 0, j]]
        counts = np.einsum("ki,ij,kj->k", left, moments.raw, right, optimize=True)
        covariance = noise_of_products(moments, left, right)
        if (counts > np.maximum(SEEN_GROUP * np.sqrt(np.diagonal(covariance)), 0.5)).all():
            slope = np.array([1.0, -1.0, -1.0, 1.0]) / counts
            values[at] = np.log(counts) @ [1.0, -1.0, -1.0, 1.0]
            noise[at], chance[at] = np.sqrt(slope @ covariance @ slope), np.sqrt((1 / counts).sum())
    interval, ratio, of_ratio = ratios(values, np.hypot(noise, chance))
    hidden = int(np.isnan(values).sum())
    return Answer(
        "odds-ratios",
        {
            **rows.columns(i for i, _ in pairs),
            **columns.columns(j for _, j in pairs),
            "log_odds_ratio": numbers(values),
            "noise_error": numbers(noise),
            "chance_error": numbers(chance),
            "interval": interval,
            "odds_ratio": ratio,
            "odds_ratio_interval": of_ratio,
        },
        {"against": [rows.labels[0], columns.labels[0]], "n_rows": moments.n_rows},
        (f"{hidden} ratios have a count that is not distinguishable from noise",) if hidden else (),
    )


def group_means(moments: ReleasedMoments, value: str, by: str, *, at_least: float | None = None) -> Answer:
    """Return mean and sum of a column in each category of another, and how many rows have the category.

    A mean is the ratio of two noisy sums; its error by noise follows by the delta method from their covariance. By
    chance it is that of an analysis of variance: the variance within groups, which the moments tell, over the rows.

    Args:
        moments: released.
        value: a number, `party.column`.
        by: a column of categories, or several of one owner, `party.a*party.b`.
        at_least: noisy count of rows below which a group is left out; None for no limit.

    Raises:
        AnswerError: see `crosstab`.
    """
    if value == by:
        raise AnswerError(f"the means of {value!r} need groups of another column")
    groups = categories_of(moments, by)
    chosen(moments, [value])
    check_rows(moments)
    k, at = len(groups.labels), moments.names.index(value)
    units = np.eye(len(moments.names) + 1)
    left = np.vstack([groups.vectors, groups.vectors])
    right = np.vstack([np.tile(units[at], (k, 1)), np.tile(units[-1], (k, 1))])
    found = np.einsum("ki,ij,kj->k", left, moments.raw, right, optimize=True)
    covariance = noise_of_products(moments, left, right)
    sums, sizes = found[:k], found[k:]
    of_size = np.sqrt(np.diagonal(covariance)[k:])
    is_seen = sizes > SEEN_GROUP * of_size
    size = np.where(is_seen, sizes, np.nan)
    low, high = moments.lower[at], moments.lower[at] + moments.widths[at]
    mean = np.clip(sums / size, low, high)
    squared = (
        np.diagonal(covariance)[:k] - 2 * mean * np.diagonal(covariance[:k, k:]) + mean**2 * np.diagonal(covariance)[k:]
    )
    noise = np.sqrt(np.maximum(squared, 0.0)) / size
    total, centre = float(moments.raw[at, at]), float(moments.raw[at, -1] / moments.raw[-1, -1])
    least = hidden_square(moments, units[at] - centre * units[-1])
    within = max(total - float(np.nansum(sums**2 / size)), least) / max(moments.n_rows - k, 1.0)
    chance = np.sqrt(within / size)
    whole = np.hypot(noise, chance)
    hidden = [label for label, seen in zip(groups.labels, is_seen, strict=True) if not seen]
    notes = (f"rows of {by} = {', '.join(hidden)} are not distinguishable from noise",) if hidden else ()
    kept = range(k) if at_least is None else [at for at in range(k) if sizes[at] >= at_least]
    if len(kept) < k:
        left_out = ", ".join(groups.labels[at] for at in range(k) if at not in kept)
        notes = (*notes, f"noisy counts of {left_out} are below {at_least:g}, and left out")
    table: dict[str, Sequence[object]] = {
        **groups.columns(range(k)),
        "mean": numbers(mean),
        "noise_error": numbers(noise),
        "chance_error": numbers(chance),
        "interval": intervals(mean, whole, low, high),
        "sum": numbers(sums),
        "sum_noise_error": numbers(np.sqrt(np.diagonal(covariance)[:k])),
        "rows": numbers(sizes),
        "rows_noise_error": numbers(of_size),
    }
    shown = {name: [column[at] for at in kept] for name, column in table.items()}
    return Answer("group-means", shown, {"value": value, "n_rows": moments.n_rows}, (*notes, _CHANCE))


def _association(counts: Floats, covariance: Floats) -> dict[str, float | None]:
    """Return chi^2, Cramer's V and a p-value that knows the noise; None where a margin is not above 0.

    Without association counts are multinomial, of covariance diag(e) - e e' / n with e what the margins expect. Normal
    tables of this covariance plus the noise's are drawn.
    """
    nothing: dict[str, float | None] = {"chi_squared": None, "cramers_v": None, "p_value": None}
    observed = _chi_squared(counts[None])[0]
    if not np.isfinite(observed):
        return nothing
    down, across, total = counts.sum(1), counts.sum(0), counts.sum()
    expected = (np.outer(down, across) / total).ravel()
    values, vectors = np.linalg.eigh(covariance + np.diag(expected) - np.outer(expected, expected) / total)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    tables = expected + SimulatedNoise().normal(N_TABLES, len(root)) @ root.T
    drawn = _chi_squared(tables.reshape(N_TABLES, *counts.shape))
    drawn = np.where(np.isfinite(drawn), drawn, np.inf)
    smaller = min(counts.shape) - 1
    return {
        "chi_squared": float(observed),
        "cramers_v": float(min(1.0, np.sqrt(observed / (total * smaller)))) if smaller else None,
        "p_value": float((1 + np.count_nonzero(drawn >= observed)) / (1 + N_TABLES)),
    }


def _chi_squared(tables: Floats) -> Floats:
    """Return chi^2 of tables, shape (tables, down, across); NaN where a margin is not above 0."""
    down, across = tables.sum(2), tables.sum(1)
    total = tables.sum((1, 2))
    is_possible = (down > 0).all(1) & (across > 0).all(1)
    safe = np.where(is_possible, total, 1.0)[:, None, None]
    expected = down[:, :, None] * across[:, None, :] / safe
    expected = np.where(is_possible[:, None, None], expected, 1.0)
    return np.where(is_possible, ((tables - expected) ** 2 / expected).sum((1, 2)), np.nan)
