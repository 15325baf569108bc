"""The question: rows that are like those of the release, and how far each marginal is from what was measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from analyses.kept_moments.answer import Answer, AnswerError, Floats, check_rows
from analyses.kept_moments.synthetic.mixture import fit
from analyses.kept_moments.synthetic.rows import DrawnColumn, draw_rows, moments_of
from analyses.kept_moments.synthetic.sources import Layout, layout_of
from analyses.kept_moments.synthetic.tasks import tasks
from analyses.second_moments.released import ReleasedMoments

MAX_ROWS = 1_000_000
DEFAULT_ROWS = 10_000

CLEAR = 3.0
"""Deviations of what noise alone shows that the association of two columns must exceed to be seen."""

_MEAN_SIZE = np.sqrt(2 / np.pi)  # of a standard normal variable, and below its variance
_SIZE_VARIANCE = 1 - 2 / np.pi

_UNKNOWN = "how three and more columns go together was not measured: the fit leaves it as even as pairs allow"
_SHAPE = "numbers keep their mean, deviation and relations, not the shape of their distribution, which only bins tell"
_ERRORS = (
    "errors and p-values computed from these rows count neither the noise nor chance, and fall with the number of rows "
    "asked for: take them from this release's own answers"
)
_HIDDEN = "{} of {} pairs are not distinguishable from noise: what goes together in them is not known"
_REST = "{} have values that were not released: their rows are empty there"


@dataclass(frozen=True)
class SyntheticAnswer(Answer):
    """The answer with its rows.

    Attributes:
        drawn: columns of the synthetic table.
    """

    drawn: tuple[DrawnColumn, ...] = field(default=(), repr=False)


def synthetic(
    moments: ReleasedMoments, columns: Sequence[str] = (), rows: int = DEFAULT_ROWS, seed: int = 0, label: str = ""
) -> SyntheticAnswer:
    """Return a synthetic table, and the distance of its one- and two-way marginals from those that were released.

    A distance is total variation: half of the sum of absolute differences of shares of rows; a number counts to the
    part of its bounds' width as its upper, else as its lower bound. `noise` is the expected distance of the released
    marginal from that of the owners' rows. `association` is the distance of a released pair from a table with the same
    marginals and none, and `is_seen` whether that is more than noise shows.

    Args:
        moments: released.
        columns: which, a category for all its values; all where none is named.
        rows: rows of the table.
        seed: the same seed gives the same table.
        label: column that the tasks explain; by default the last that can be explained.

    Raises:
        AnswerError: a column is not in the release, rows or seed are out of range, or there is only noise.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MAX_ROWS:
        raise AnswerError(f"rows must be a whole number from 1 to {MAX_ROWS}, not {rows!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise AnswerError(f"seed must be a whole number from 0 to 2^64 - 1, not {seed!r}")
    layout = layout_of(moments, columns)
    check_rows(layout.moments)
    mixture = fit(layout)
    drawn = draw_rows(layout, mixture, rows, seed)
    has = moments_of(layout, drawn)
    shares = _Shares.of(layout, has)
    found = [*_one_way(layout, shares), *_two_way(layout, shares)]
    pairs = [one for one in found if one["with"] is not None]
    table = {name: [one[name] for one in found] for name in found[0]}
    about: dict[str, Any] = {
        "rows": rows,
        "seed": seed,
        "mean_distance_of_columns": _mean(one["distance"] for one in found if one["with"] is None),
        "mean_distance_of_pairs": _mean(one["distance"] for one in pairs),
        "misfit": mixture.misfit,
        **tasks(layout, drawn, has, label),
    }
    return SyntheticAnswer("synthetic", table, about, _notes(layout, pairs), drawn)


def _notes(layout: Layout, pairs: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    notes = [_UNKNOWN, _ERRORS]
    if any(source.kind == "number" for source in layout.sources):
        notes.append(_SHAPE)
    if n_hidden := sum(not pair["is_seen"] for pair in pairs):
        notes.append(_HIDDEN.format(n_hidden, len(pairs)))
    rest = [s.name for s in layout.sources if s.has_rest and s.kind in ("category", "bins")]
    if rest:
        notes.append(_REST.format(", ".join(rest)))
    return tuple(notes)


def _mean(values: Iterator[float]) -> float | None:
    given = list(values)
    return float(np.mean(given)) if given else None


@dataclass(frozen=True)
class _Shares:
    """Shares of rows by states of any two sources, shape (states + 1, states + 1); last, beside nothing.

    Attributes:
        released: shares in the release, with its noise.
        noise: their standard errors.
        drawn: shares in the synthetic table.
    """

    released: Floats
    noise: Floats
    drawn: Floats

    @classmethod
    def of(cls, layout: Layout, has: Floats) -> "_Shares":
        """Count them for all pairs at once: one by one, each would cost as much as all.

        As `noise_of_products`, for all pairs of vectors u and v: the variance of u' R v is s^2 (|a|^2 |b|^2 + (a.b)^2)
        with a = A'^-1 u and b likewise.
        """
        moments = layout.moments
        states = np.vstack([*map(layout.states, range(len(layout.sources))), np.eye(len(has))[-1:]])
        a = states @ layout.from_scaled
        squares = (a**2).sum(1)
        deviations = moments.deviation * np.sqrt(np.outer(squares, squares) + (a @ a.T) ** 2)
        return cls(
            a @ moments.matrix @ a.T / moments.n_rows,
            deviations / moments.n_rows,
            states @ has @ states.T / has[-1, -1],
        )


def _slices(layout: Layout) -> list[slice]:
    """Return the states of each source."""
    return [slice(at, at + one.n_states) for at, one in zip(layout.starts, layout.sources, strict=True)]


def _one_way(layout: Layout, shares: _Shares) -> Iterator[dict[str, Any]]:
    """Yield the distance of each source's marginal."""
    for source, at in zip(layout.sources, _slices(layout), strict=True):
        off = shares.drawn[at, -1] - shares.released[at, -1]
        yield _row(source.name, None, off, shares.noise[at, -1])


def _two_way(layout: Layout, shares: _Shares) -> Iterator[dict[str, Any]]:
    """Yield the distance of each pair's table, and its association."""
    released = shares.released
    for (left, i), (right, j) in combinations(zip(layout.sources, _slices(layout), strict=True), 2):
        measured, noise = released[i, j], shares.noise[i, j]
        apart = measured - released[i, -1:] * released[-1:, j]
        found = _row(left.name, right.name, shares.drawn[i, j] - measured, noise)
        association, limit = float(np.abs(apart).sum() / 2), CLEAR * np.sqrt(_SIZE_VARIANCE * (noise**2).sum()) / 2
        yield {**found, "association": _rounded(association), "is_seen": bool(association > found["noise"] + limit)}


def _row(name: str, other: str | None, off: Floats, noise: Floats) -> dict[str, Any]:
    return {
        "column": name,
        "with": other,
        "distance": _rounded(min(1.0, np.abs(off).sum() / 2)),
        "noise": _rounded(min(1.0, _MEAN_SIZE * noise.sum() / 2)),
        "association": None,
        "is_seen": None,
    }


def _rounded(distance: float) -> float:
    return round(float(distance), 6)
