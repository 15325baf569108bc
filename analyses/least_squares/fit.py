"""How well a released line fits, without the noise's share in it, and how far the noise moved its coefficients."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from analyses.job.forecast import NORMAL_95
from analyses.least_squares.line import feature_names, line_of_units
from analyses.second_moments.centred import CentredMoments, centred
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.ridge import RIDGE_FRACTION, RidgeSolution, solve
from analyses.second_moments.spectrum import (
    WIDE,
    SimulatedNoise,
    leading_components,
    n_draws,
    noise_edge,
    without_noise,
)

if TYPE_CHECKING:
    from analyses.least_squares.plan import LeastSquaresGramPlan

Floats = NDArray[np.float64]

_DRAWS = 200


@dataclass(frozen=True)
class Fit:
    """The share of the label's variance that a line explains.

    Attributes:
        r_squared: about that of the released line on the rows; below 0 where it is worse than the mean.
        interval: in which it lies in 19 of 20 cases.
        standard_errors: errors of the coefficients by the noise, in the columns' units, shape (features,): about the
            line that the same rows give without noise, and with as much of a ridge as there is.
        intercept_error: error of the intercept by the noise.
    """

    r_squared: float
    interval: tuple[float, float]
    standard_errors: Floats
    intercept_error: float

    @property
    def note(self) -> str:
        """What is to be said about it; empty if nothing."""
        return "" if self.interval[0] > 0 else "what the line explains is not distinguishable from noise"


def fit_of(matrix: Floats, plan: "LeastSquaresGramPlan", solution: RidgeSolution, noise_level: float) -> Fit | None:
    """Return how well the line of a job fits, as `fit`.

    Args:
        matrix: the opened matrix, in units of scaled rows.
        plan: plan of the job.
        solution: what was made of it.
        noise_level: about the spectral norm of the noise, as the solution's ridge was chosen by it.
    """
    order = (*feature_names(plan), plan.params.label)
    return fit(ReleasedMoments.of(matrix, plan).part(order), solution, noise_level, plan.params.ridge)


def fit(moments: ReleasedMoments, solution: RidgeSolution, noise_level: float, ridge: float | None) -> Fit | None:
    """Return how well the line fits whose coefficients come from the same noisy moments; None where there is none.

    Coefficients follow the noise as well as the rows, so the noisy moments flatter them. A parametric bootstrap says by
    how much: moments like those that were released, but without noise, get draws of the noise, whose distribution is
    public; each gives a line, and what it seems to explain is compared with what it does.

    Args:
        moments: moments of features, then label.
        solution: what was made of them.
        noise_level: about the spectral norm of the noise, as the solution's ridge was chosen by it.
        ridge: that was asked for; None where it was chosen.
    """
    if solution.coefficients is None:
        return None
    constant, deviation = moments.constant, moments.deviation
    centre = _centred(moments.matrix, constant)
    eigenvalues, vectors = leading_components(centre.matrix, len(centre.matrix))
    whole = without_noise(eigenvalues, noise_edge(len(eigenvalues), deviation, centre.lift), deviation)
    scatter = (vectors.T * whole) @ vectors
    if not scatter[-1, -1] > 0:
        return None
    mean = np.append(centre.mean, constant)
    exact = centre.n_rows * np.outer(mean, mean)
    exact[:-1, :-1] += scatter
    simulated, off, lines = SimulatedNoise(), [], []
    smallest: float | None = None
    draws = n_draws(_DRAWS, len(scatter))
    for _ in range(draws):
        again = exact + deviation * simulated.symmetric(len(exact))
        found = solve(again, constant, noise_level, ridge, smallest)
        smallest = _of_further_draws(found, noise_level, len(scatter))
        seen = _centred(again, constant).matrix
        if found.coefficients is not None and found.intercept is not None and seen[-1, -1] > 0:
            line = line_of_units(found.coefficients, found.intercept, moments.zeros, moments.widths)
            lines.append(np.append(line.coefficients, line.intercept))
            off.append(explained(seen, found) - explained(scatter, found))
    if len(off) < draws // 2 or not centre.matrix[-1, -1] > 0:
        return None
    r_squared = min(1.0, explained(centre.matrix, solution) - float(np.mean(off)))
    half = NORMAL_95 * float(np.std(off, ddof=1))
    largest = np.abs(lines).max(axis=0)
    largest[largest == 0] = 1.0  # squares of coefficients per unit of a wide column may leave the range of float64
    errors = np.std(lines / largest, axis=0, ddof=1) * largest
    return Fit(r_squared, (r_squared - half, min(1.0, r_squared + half)), errors[:-1], float(errors[-1]))


def _of_further_draws(found: RidgeSolution, noise_level: float, n_columns: int) -> float | None:
    """Return about the smallest eigenvalue in further draws, given one; None where each is to be computed.

    An eigenvalue is a function of the noise's entries that no change of them moves by more than its own size, so its
    standard deviation is below sqrt(2) of the noise's. The ridge lifts it to sqrt(n) of these or more, of n columns: 16
    where they are many. So a ridge that follows each draw would be another one by less than a tenth.
    """
    if n_columns <= WIDE or found.coefficients is None or found.smallest_eigenvalue is None:
        return None
    lifted = found.smallest_eigenvalue + found.ridge
    return found.smallest_eigenvalue if lifted >= (1 - 1e-9) * RIDGE_FRACTION * noise_level else None


def _centred(moments: Floats, constant: float) -> CentredMoments:
    return centred(moments, constant, (-1.0, 1.0), (1, 1 << 60))


def explained(scatter: Floats, solution: RidgeSolution) -> float:
    """Return the share of the label's variance that a line explains, by the scatter of features and label."""
    errors = np.append(-np.asarray(solution.coefficients), 1.0)
    return 1 - float(errors @ scatter @ errors) / float(scatter[-1, -1])
