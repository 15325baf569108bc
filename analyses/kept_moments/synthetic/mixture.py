"""The fit: a mixture of tables without association that has the second moments of a release, but for its noise."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyses.kept_moments.answer import Floats
from analyses.kept_moments.synthetic.sources import Layout
from analyses.second_moments.spectrum import SimulatedNoise

MOST_COMPONENTS, PER_COLUMN = 150, 5
"""Largest number of components of the mixture, and how many of them there are for each column of the release."""

MAX_STEPS = 1_500
"""Largest number of steps of the fit."""

FITTED = 0.85
"""Misfit at which the fit ends: what is missed by less than the noise misses is noise that was fitted."""

STALLED = 1e-6
"""The fit also ends where a step lowers the misfit by a smaller fraction."""

_MEMORY = 40  # steps that L-BFGS remembers: with the usual 10 it takes three times as many of them

_SPREAD = 0.5  # of the logarithms at the start: components that are alike would stay alike
_FARTHEST = 30.0  # logarithms of the weights are kept within; what lies beyond is 0 in any table


@dataclass(frozen=True)
class Mixture:
    """A distribution of rows: each is of one component, within which the sources do not depend on each other.

    Attributes:
        weights: probability of each component, shape (components,).
        states: how far a row of a component is in each state, on average, shape (components, states).
        spread: variance of each number within components, as a fraction of the largest possible; shape (sources,).
        misfit: chi^2 of the moments over the number of their entries: 1 where they are missed as the noise misses them.
    """

    weights: Floats = field(repr=False)
    states: Floats = field(repr=False)
    spread: Floats = field(repr=False)
    misfit: float


def fit(layout: Layout) -> Mixture:
    """Return the mixture whose second moments are nearest to those that were released.

    With P the means of the states in each component and w their weights, the moments of two sources are P' diag(w) P,
    and those within one are the sums. The released matrix has noise of one deviation s off the diagonal and sqrt(2) s
    on it, so -2 log likelihood is ||A R A' - M||^2 / (2 s^2), Frobenius: this is lowered by L-BFGS over logarithms of w
    and P [AydRAP21], from components that are near the released means. All pairs are met at once, and whatever it
    finds is the second moments of some table, which noisy ones need not be.

    Args:
        layout: the release; its number of rows must be seen.
    """
    from scipy.optimize import OptimizeResult, minimize  # slow to import, and only this question needs it

    misfit = _Misfit(layout)
    n = len(layout.moments.matrix)
    n_entries = n * (n + 1) / 2

    def end_if_fitted(intermediate_result: OptimizeResult) -> None:
        if 2 * intermediate_result.fun <= FITTED * n_entries:
            raise StopIteration

    found = minimize(
        misfit,
        misfit.start(),
        jac=True,
        method="L-BFGS-B",
        callback=end_if_fitted,
        options={"maxiter": MAX_STEPS, "maxfun": 2 * MAX_STEPS, "ftol": STALLED, "maxcor": _MEMORY},
    )
    weights, states = misfit.parts(found.x)
    weights = weights / weights.sum()
    return Mixture(weights, states, _spread(layout, weights, states), float(2 * found.fun / n_entries))


class _Misfit:
    """Half of chi^2 of the moments, and its gradient, by the logarithms of states and weights."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._a, self._m = layout.to_scaled, layout.moments.matrix
        self._scale = 1 / (2 * layout.moments.deviation**2)
        self._k = min(MOST_COMPONENTS, PER_COLUMN * len(layout.state_of))
        self._n_states = len(layout.source_of)
        self._shift = np.append((layout.moments.lower - layout.moments.zeros) / layout.moments.widths, 0.0)

    def start(self) -> Floats:
        """Return components near the released means."""
        layout, k = self._layout, self._k
        n_rows = layout.moments.n_rows
        sums = layout.measured[:, -1]
        means = np.concatenate([layout.states(at) @ sums for at in range(len(layout.sources))]) / n_rows
        logits = np.log(np.clip(means, 0.1 / n_rows, 1.0))
        drawn = logits + _SPREAD * SimulatedNoise().normal(k, self._n_states)
        return np.concatenate([drawn.ravel(), np.full(k, np.log(n_rows / k))])

    def parts(self, at: Floats) -> tuple[Floats, Floats]:
        """Return weights, in rows, and states."""
        layout, k = self._layout, self._k
        logits = at[: k * self._n_states].reshape(k, self._n_states)
        logits = logits - np.maximum.reduceat(logits, layout.starts, axis=1)[:, layout.source_of]
        states = np.exp(logits)
        states /= np.add.reduceat(states, layout.starts, axis=1)[:, layout.source_of]
        middle = np.log(layout.moments.n_rows / k)
        weights = np.exp(np.clip(at[k * self._n_states :], middle - _FARTHEST, middle + _FARTHEST))
        return weights, states

    def __call__(self, at: Floats) -> tuple[float, Floats]:
        layout, k = self._layout, self._k
        weights, states = self.parts(at)
        p = np.hstack([states[:, layout.state_of], np.ones((k, 1))])
        moments = (p.T * weights) @ p
        n = len(layout.state_of)
        is_sum, diagonal = self._diagonal(moments)
        moments[:n, :n][layout.is_same] = 0.0
        moments[np.arange(n), np.arange(n)] = diagonal
        missed = self._a @ moments @ self._a.T - self._m
        gradient = self._a.T @ missed @ self._a * self._scale
        slope = np.diagonal(gradient)[:n].copy()
        gradient[:n, :n][layout.is_same] = 0.0
        gradient[np.arange(n), np.arange(n)] = np.where(is_sum, 0.0, slope)
        gradient[:n, n] += np.where(is_sum, slope, 0.0) / 2
        gradient[n, :n] = gradient[:n, n]
        by_mean = p @ gradient
        of_weights = (by_mean * p).sum(1) * weights
        by_state = np.zeros_like(states)
        by_state[:, layout.state_of] = 2 * weights[:, None] * by_mean[:, :n]
        inner = np.add.reduceat(by_state * states, layout.starts, axis=1)[:, layout.source_of]
        of_states = states * (by_state - inner)
        return 0.5 * self._scale * float((missed**2).sum()), np.concatenate([of_states.ravel(), of_weights])

    def _diagonal(self, moments: Floats) -> tuple[NDArray[np.bool_], Floats]:
        """Return the sums of squares of the columns, and which of them follow from the sums alone.

        Of a category or a yes or no it is the sum. Of a number it may lie between what the components' means have and
        the sum: it is what was released, or the nearest of these.
        """
        n = len(moments) - 1
        sums, least = moments[:n, n], np.diagonal(moments)[:n]
        shift = self._shift[:n]
        released = np.diagonal(self._m)[:n] - 2 * shift * sums - shift**2 * moments[n, n]
        squares = np.where(self._layout.is_number, np.clip(released, least, sums), sums)
        return squares >= sums, squares


def _spread(layout: Layout, weights: Floats, states: Floats) -> Floats:
    """Return `Mixture.spread`: what is left of the released sum of squares of each number."""
    found = np.zeros(len(layout.sources))
    measured = layout.measured
    for at, (source, start) in enumerate(zip(layout.sources, layout.starts, strict=True)):
        if source.kind != "number":
            continue
        is_there = 1 - states[:, start + 1 : start + len(source.columns)].sum(1)
        mean = states[:, start] / np.maximum(is_there, 1e-12)
        least, most = weights @ (is_there * mean**2), weights @ (is_there * mean)
        squares = measured[source.columns[0], source.columns[0]] / layout.moments.n_rows
        found[at] = np.clip((squares - least) / max(most - least, 1e-12), 0.0, 1.0)
    return found
