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
    component = np.repeat(np.arange(len(sizes)), sizes)
    first_rows = np.cumsum(sizes) - sizes
    order = np.argsort(simulated.uniform(n_rows))
    found = []
    for at, source in enumerate(layout.sources):
        ranks = np.empty(n_rows)
        ranks[np.lexsort((simulated.uniform(n_rows), component))] = np.arange(n_rows)
        levels = (ranks - first_rows[component] + simulated.uniform(n_rows)) / sizes[component]
        means = mixture.states[:, layout.starts[at] : layout.starts[at] + source.n_states]
        states, heights = _states_at(means, component, levels), None
        if source.kind == "number":
            states, heights = _numbers_at(means, float(mixture.spread[at]), component, levels)
        found.append(_drawn(layout, source, states[order], None if heights is None else heights[order], simulated))
    return tuple(found)


def _states_at(means: Floats, component: NDArray[np.int64], levels: Floats) -> NDArray[np.int64]:
    """Return the state of each row: how many of the sums of its component's means lie at its level or below."""
    found = np.zeros(len(levels), np.int64)
    for ends in np.cumsum(means[:, :-1], axis=1).T:
        found += ends[component] <= levels
    return found


def _numbers_at(
    means: Floats, spread: float, component: NDArray[np.int64], levels: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """Return 0 for a number, else the column of gaps, and the numbers; `means` are of number, gaps, rest."""
    parts = means[:, 0] + means[:, -1]
    is_there = parts[component]
    states = np.where(levels < is_there, 0, 1 + _states_at(means[:, 1:], component, levels - is_there))
    mean = np.divide(means[:, 0], parts, out=np.zeros(len(parts)), where=parts > 0)[component]
    within = np.clip(levels / np.maximum(is_there, 1e-12), 0.0, 1.0)
    return states, np.where(states == 0, _beta(mean, spread, within), 0.0)


def _beta(mean: Floats, spread: float, levels: Floats) -> Floats:
    """Return quantiles of beta distributions of these means, their variance `spread` times mean * (1 - mean)."""
    from scipy.special import betaincinv

    if spread < _EVEN:
        return mean
    found = (levels >= 1 - mean).astype(np.float64)
    middle = (mean > _EVEN) & (mean < 1 - _EVEN) & (spread <= 1 - _EVEN)
    size, of_middle = 1 / spread - 1, mean[middle]
    drawn = betaincinv(of_middle * size, (1 - of_middle) * size, levels[middle])
    found[middle] = np.where(np.isfinite(drawn), np.clip(drawn, 0.0, 1.0), of_middle)
    return found


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
