"""Rows that are drawn from a fitted mixture, and the moments that they have."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyses.kept_moments.answer import Floats
from analyses.kept_moments.synthetic.mixture import Mixture
from analyses.kept_moments.synthetic.sources import Layout, Source
from analyses.second_moments.spectrum import SimulatedNoise
from entropy.stream import KEY_BYTES

_BLOCK_ROWS = 1 << 14
_EVEN = 1e-6  # spread of a number within components from which on it is drawn, and is not its mean


@dataclass(frozen=True)
class DrawnColumn:
    """A column of a synthetic table.

    Attributes:
        source: what it is a column of.
        states: state of each row, shape (rows,); of a number, its own column or that of gaps.
        values: in the column's own units where it is a number or bins, else its states; shape (rows,).
        heights: place of a number between its bounds, 0 to 1, and 0 in a gap, shape (rows,); None for other columns.
    """

    source: Source
    states: NDArray[np.int64] = field(repr=False)
    values: Floats = field(repr=False)
    heights: Floats | None = field(repr=False)

    @property
    def is_gap(self) -> NDArray[np.bool_]:
        """Which rows have no value, or one that was not released."""
        if self.source.kind == "number":
            return np.asarray(self.states > 0)
        if self.source.kind == "bins":
            has_ends = np.array([ends is not None for ends in self.source.bins] + [False] * self.source.has_rest)
            return np.asarray(~has_ends[self.states])
        labels = self.source.labels
        return np.asarray((self.states == len(labels)) & (self.source.kind == "category"))


def draw_rows(layout: Layout, mixture: Mixture, n_rows: int, seed: int) -> tuple[DrawnColumn, ...]:
    """Return rows of a mixture, the same for the same seed, in random order.

    Within a component each source takes its states as evenly as n rows can: the k-th of n quantiles is drawn from
    ((k, k + 1) / n), and sources are shuffled independently. So marginals are off by less than a random sample's are.
    Numbers have a beta distribution between their bounds, which mean and variance determine; values are spread evenly
    within bins.

    Args:
        layout: what was released.
        mixture: fitted to it.
        n_rows: at least 1.
        seed: at least 0, below 2^256.
    """
    simulated = SimulatedNoise(seed.to_bytes(KEY_BYTES, "big"))
    ends = np.cumsum(mixture.weights) * n_rows
    sizes = np.diff(np.concatenate([[0], np.floor(ends + simulated.uniform(1)[0]).clip(0, n_rows)])).astype(np.int64)
    sizes[-1] = n_rows - sizes[:-1].sum()
    states = [np.empty(n_rows, np.int64) for _ in layout.sources]
    heights: list[Floats | None] = [np.zeros(n_rows) if s.kind == "number" else None for s in layout.sources]
    start = 0
    for component, size in enumerate(sizes):
        rows = slice(start, start + size)
        start += size
        for at, source in enumerate(layout.sources):
            first = layout.starts[at]
            means = mixture.states[component, first : first + source.n_states]
            levels = (np.argsort(simulated.uniform(size)) + simulated.uniform(size)) / max(size, 1)
            of_number = heights[at]
            if of_number is None:
                states[at][rows] = _states_at(means, levels)
            else:
                states[at][rows], of_number[rows] = _numbers_at(means, mixture.spread[at], levels)
    order = np.argsort(simulated.uniform(n_rows))
    return tuple(
        _drawn(layout, source, of_states[order], None if of_heights is None else of_heights[order], simulated)
        for source, of_states, of_heights in zip(layout.sources, states, heights, strict=True)
    )


def _states_at(means: Floats, levels: Floats) -> NDArray[np.int64]:
    return np.asarray(np.searchsorted(np.cumsum(means[:-1]), levels, side="right"), dtype=np.int64)


def _numbers_at(means: Floats, spread: float, levels: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return 0 for a number, else the column of gaps, and the numbers; `means` are of number, gaps, rest."""
    is_there = means[0] + means[-1]
    states = np.where(levels < is_there, 0, 1 + _states_at(means[1:], levels - is_there))
    mean = float(means[0] / is_there) if is_there > 0 else 0.0
    within = np.clip(levels / max(is_there, 1e-12), 0.0, 1.0)
    return states, np.where(states == 0, _beta(mean, spread, within), 0.0)


def _beta(mean: float, spread: float, levels: Floats) -> Floats:
    """Return quantiles of a beta distribution of this mean, its variance `spread` times mean * (1 - mean)."""
    from scipy.special import betaincinv

    if spread < _EVEN:
        return np.full(len(levels), mean)
    if spread > 1 - _EVEN or not _EVEN < mean < 1 - _EVEN:
        return np.asarray(levels >= 1 - mean, dtype=np.float64)
    size = 1 / spread - 1
    found = betaincinv(mean * size, (1 - mean) * size, levels)
    return np.asarray(np.where(np.isfinite(found), np.clip(found, 0.0, 1.0), mean), dtype=np.float64)


def _drawn(
    layout: Layout, source: Source, states: NDArray[np.int64], heights: Floats | None, simulated: SimulatedNoise
) -> DrawnColumn:
    if heights is not None:
        at = source.columns[0]
        values = layout.moments.lower[at] + layout.moments.widths[at] * heights
        return DrawnColumn(source, states, values, heights)
    if source.kind == "bins":
        ends = np.array([(0.0, 0.0) if one is None else one for one in (*source.bins, None)])[states]
        return DrawnColumn(
            source, states, ends[:, 0] + (ends[:, 1] - ends[:, 0]) * simulated.uniform(len(states)), None
        )
    return DrawnColumn(source, states, states.astype(np.float64), None)


def encoded(layout: Layout, drawn: tuple[DrawnColumn, ...], rows: slice) -> Floats:
    """Return y of some drawn rows, one column for each of the release, scaled to [0, 1]; shape (rows, columns)."""
    y = np.zeros((len(drawn[0].states[rows]), len(layout.state_of)))
    for column in drawn:
        for place, at in enumerate(column.source.columns):
            y[:, at] = column.states[rows] == place
        if column.heights is not None:
            y[:, column.source.columns[0]] = column.heights[rows]
    return y


def moments_of(layout: Layout, drawn: tuple[DrawnColumn, ...]) -> Floats:
    """Return the moments of (y, 1) of drawn rows (`Layout`), shape (columns + 1, columns + 1)."""
    n = len(layout.state_of)
    found = np.zeros((n + 1, n + 1))
    for start in range(0, len(drawn[0].states), _BLOCK_ROWS):
        y = encoded(layout, drawn, slice(start, start + _BLOCK_ROWS))
        y = np.hstack([y, np.ones((len(y), 1))])
        found += y.T @ y
    return found
