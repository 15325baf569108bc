"""AIM [AIM22] where somebody holds the table: its own settings, and a fit that ends at the optimum of each round.

The workload is all pairs of columns. Rounds are 16 for each column, unless the noise is halved before; nine tenths of a
round's budget measure, one tenth selects; models are at most 80 MB by their junction tree, in proportion to what is
spent. The model of greatest likelihood among those with the measured pairs is found over the joint table, by L-BFGS
from the model of the round before, in the place of mirror descent in a junction tree: the optimum is the same.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, log, log1p, pi, prod, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Clique = tuple[int, ...]

ROUNDS = 16
"""Most rounds, for each column."""
MEASURING = 0.9
"""Part of a round's budget that measures; the rest selects."""
MAX_MODEL_MB = 80.0
ITERATIONS = 1_000
"""Most steps of a round's fit."""


@dataclass(frozen=True)
class Model:
    """A distribution of rows, exp(e' T e / 2) over the joint table, e the indicators of a row's values.

    Attributes:
        moments: shape (indicators, indicators): shares of rows with each pair of values; on the diagonal with each.
        probabilities: of the joint table's cells, in the order of the columns, flat.
    """

    moments: Floats
    probabilities: NDArray[np.float32]


class JointTable:
    """The joint table of some columns, in two halves, so that sums over it are products of matrices.

    Args:
        sizes: number of values of each column.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        half = min(range(1, len(sizes)), key=lambda at: prod(sizes[:at]) + prod(sizes[at:]))
        self.left, self.right = _indicators(sizes[:half]), _indicators(sizes[half:])
        self.n_left = self.left.shape[1]
        self.ends = np.cumsum([0, *sizes])

    def places(self, clique: Clique) -> tuple[slice, slice]:
        """Return where a column's or a pair's counts are in the moments."""
        first, last = clique[0], clique[-1]
        return slice(*self.ends[first : first + 2]), slice(*self.ends[last : last + 2])

    def quadratic(self, theta: Floats) -> NDArray[np.float32]:
        """Return e' T e / 2 of each cell, shape (cells of the left half, of the right half)."""
        single, n = theta.astype(np.float32), self.n_left
        found = (self.left @ single[:n, n:]) @ self.right.T
        found += 0.5 * np.einsum("ci,ij,cj->c", self.left, single[:n, :n], self.left, optimize=True)[:, None]
        found += 0.5 * np.einsum("ci,ij,cj->c", self.right, single[n:, n:], self.right, optimize=True)
        return np.asarray(found, dtype=np.float32)

    def moments(self, cells: NDArray[np.float32]) -> Floats:
        """Return the sum over cells of e e', shape (indicators, indicators)."""
        n, found = self.n_left, np.zeros((self.ends[-1], self.ends[-1]))
        found[:n, n:] = (self.left.T @ cells) @ self.right
        found[n:, :n] = found[:n, n:].T
        found[:n, :n] = (self.left * cells.sum(axis=1)[:, None]).T @ self.left
        found[n:, n:] = (self.right * cells.sum(axis=0)[:, None]).T @ self.right
        return found

    def model(self, theta: Floats) -> Model:
        """Return the distribution of some parameters, shape (indicators, indicators), symmetric."""
        logs = self.quadratic(theta)
        logs -= logs.max()
        cells = np.exp(logs, out=logs)
        cells /= cells.sum(dtype=np.float64)
        return Model(self.moments(cells), cells)

    def fitted(self, theta: Floats, shares: Floats, precise: Floats) -> tuple[Floats, Model]:
        """Return the parameters, and their model, whose moments are nearest to measured ones.

        Args:
            theta: parameters to start from.
            shares: measured shares of rows, shape (indicators, indicators).
            precise: inverse variances of these; 0 where nothing is measured.
        """
        where = np.nonzero(np.triu(precise))
        scale = float(precise.max())
        width = 1 / np.sqrt(np.maximum(shares[where], 1e-4))  # rare values move their counts less

        def whole(flat: Floats) -> Floats:
            found = np.zeros_like(theta)
            found[where] = flat * width
            found.T[where] = flat * width
            return found

        def loss(flat: Floats) -> tuple[float, Floats]:
            model = self.model(whole(flat))
            off = np.where(precise > 0, model.moments - shares, 0.0)
            slope = off * precise / scale
            value = 0.5 * float((np.triu(off * slope)).sum())
            weighted = self.quadratic(slope + np.diag(np.diagonal(slope)))  # each pair once, and the diagonal
            mean = float(np.vdot(weighted, model.probabilities))
            moved = self.moments(np.asarray(model.probabilities * (weighted - mean), dtype=np.float32))
            moved[np.diag_indices_from(moved)] /= 2  # as e' T e / 2 counts them
            return value, moved[where] * width

        options = {"maxiter": ITERATIONS, "maxcor": 30, "ftol": 1e-7, "gtol": 1e-12}
        found = minimize(loss, theta[where] / width, jac=True, method="L-BFGS-B", options=options)
        theta = whole(np.asarray(found.x, dtype=np.float64))
        return theta, self.model(theta)


def aim(codes: Codes, epsilon: float, delta: float, seed: int) -> tuple[Codes, Floats, int]:
    """Return synthetic rows, as many as there are; the model's moments as `Model`; and how many rounds there were.

    Args:
        codes: the table, each value a number from 0, shape (rows, columns).
        epsilon: for neighbours that differ in a record that is there or not.
        delta: likewise.
        seed: seed of the noise.
    """
    rng, sizes = np.random.default_rng(seed), [int(one) + 1 for one in codes.max(axis=0)]
    joint, d = JointTable(sizes), len(sizes)
    true = counts_of(codes, joint)
    rho, rounds = rho_of(epsilon, delta), ROUNDS * d
    sigma, selecting = sqrt(rounds / (2 * MEASURING * rho)), sqrt(8 * (1 - MEASURING) * rho / rounds)
    pairs = list(combinations(range(d), 2))
    candidates: list[Clique] = [*((at,) for at in range(d)), *pairs]
    weights = np.array([len(one) * (d - 1) for one in candidates])
    sums, precise = np.zeros_like(true), np.zeros_like(true)
    totals: list[tuple[float, float]] = []
    measured: list[Clique] = []

    def measure(clique: Clique, sigma: float) -> None:
        rows, columns = joint.places(clique)
        exact = true[rows, columns]
        counts = np.diagonal(exact) if len(clique) == 1 else exact
        noisy = counts + rng.normal(0, sigma, counts.shape)
        totals.append((float(noisy.sum()), noisy.size * sigma**2))
        block = np.diag(noisy) if len(clique) == 1 else noisy
        known = np.diag(np.ones_like(noisy)) if len(clique) == 1 else np.ones_like(noisy)
        for at, of, is_known in ((rows, block, known), (columns, block.T, known.T)):
            other = columns if at is rows else rows
            sums[at, other] += of / sigma**2
            precise[at, other] += is_known / sigma**2
            if len(clique) == 1:
                break
        measured.append(clique)

    def estimated(theta: Floats) -> tuple[Floats, Model, float]:
        inverse = np.array([1 / variance for _, variance in totals])
        n_rows = max(1.0, float(np.dot([total for total, _ in totals], inverse) / inverse.sum()))
        shares = np.divide(sums, precise, out=np.zeros_like(sums), where=precise > 0) / n_rows
        return (*joint.fitted(theta, shares, precise), n_rows)

    for at in range(d):
        measure((at,), sigma)
    spent, is_last, n_rounds = d * 0.5 / sigma**2, False, d
    theta, model, n_rows = estimated(np.zeros_like(true))
    while not is_last:
        n_rounds += 1
        if rho - spent < 2 * (0.5 / sigma**2 + selecting**2 / 8):
            left, is_last = rho - spent, True
            sigma, selecting = sqrt(1 / (2 * MEASURING * left)), sqrt(8 * (1 - MEASURING) * left)
        spent += selecting**2 / 8 + 0.5 / sigma**2
        within = [
            one in measured or len(one) == 1 or model_mb(sizes, [*measured, one]) <= MAX_MODEL_MB * spent / rho
            for one in candidates
        ]
        errors = np.array([np.abs(_part(true, joint, one) - n_rows * _part(model.moments, joint, one)).sum()
                           for one in candidates])  # fmt: skip
        noise = np.array([sqrt(2 / pi) * sigma * prod(sizes[at] for at in one) for one in candidates])
        scores = np.where(within, weights * (errors - noise), -np.inf)
        drawn = selecting * scores / (2 * weights.max()) + rng.gumbel(size=len(scores))
        chosen = candidates[int(np.argmax(drawn))]
        before = n_rows * _part(model.moments, joint, chosen)
        measure(chosen, sigma)
        theta, model, n_rows = estimated(theta)
        moved = np.abs(n_rows * _part(model.moments, joint, chosen) - before).sum()
        if moved <= sqrt(2 / pi) * sigma * prod(sizes[at] for at in chosen):
            sigma, selecting = sigma / 2, selecting * 2
    cells = np.cumsum(model.probabilities.ravel(), dtype=np.float64)
    even = (np.arange(len(codes)) + rng.random()) / len(codes) * cells[-1]
    rows = np.unravel_index(np.minimum(np.searchsorted(cells, even), len(cells) - 1), sizes)
    return np.column_stack(rows), model.moments, n_rounds


def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest rho of which zCDP implies (epsilon, delta) [CanKamSte20], to nine digits."""

    def delta_of(rho: float) -> float:
        def logarithm(a: float) -> float:
            return (a - 1) * (a * rho - epsilon) + a * log1p(-1 / a) - log(a - 1)

        # The order is searched for by its logarithm: it may be near 1 or large.
        best = minimize_scalar(lambda t: logarithm(1 + exp(t)), bounds=(-12, 12), method="bounded")
        return exp(min(float(best.fun), 0.0))

    low, high = 0.0, epsilon + 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle) <= delta else (low, middle)
    return low


def model_mb(sizes: Sequence[int], cliques: Collection[Clique]) -> float:
    """Return the size of a junction tree with these cliques, 8 bytes a cell, columns eliminated by least fill."""
    beside = {at: {at} for at in range(len(sizes))}
    for clique in cliques:
        for at in clique:
            beside[at] |= {*clique}
    cells, found = 0, list[set[int]]()
    while beside:
        at = min(beside, key=lambda one: (_fill(beside, one), prod(sizes[k] for k in beside[one])))
        clique = beside.pop(at)
        if not any(clique <= known for known in found):
            found.append(clique)
            cells += prod(sizes[k] for k in clique)
        for k in clique - {at}:
            beside[k] = (beside[k] | clique) - {at}
    return cells * 8 / 2**20


def _fill(beside: dict[int, set[int]], at: int) -> int:
    return sum(b not in beside[a] for a, b in combinations(beside[at] - {at}, 2))


def _part(moments: Floats, joint: JointTable, clique: Clique) -> Floats:
    block = moments[joint.places(clique)]
    return np.diagonal(block) if len(clique) == 1 else block


def _indicators(sizes: Sequence[int]) -> NDArray[np.float32]:
    values = np.indices(sizes).reshape(len(sizes), -1)
    stacked = [one[:, None] == np.arange(size) for one, size in zip(values, sizes, strict=True)]
    return np.hstack(stacked).astype(np.float32)


def counts_of(codes: Codes, joint: JointTable) -> Floats:
    """Return how many rows have each pair of values, and on the diagonal each value."""
    ones = np.hstack([codes[:, at, None] == np.arange(size) for at, size in enumerate(joint.sizes)]).astype(np.float32)
    return np.asarray(ones.T @ ones, dtype=np.float64)
