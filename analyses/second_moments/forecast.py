"""What the noise of second moments leaves to be seen, before a job runs."""

from math import sqrt

from analyses.job.forecast import Signal
from analyses.second_moments.gram_plan import GramPlan, deviation_of, rows_of
from analyses.second_moments.noisy_moments import MomentPlan, gram_noise_level, sketch_noise_level

EVEN_VARIANCE = 1 / 12
"""Variance of a scaled column whose values are spread evenly over its bounds, which lie 1 apart."""

EVEN = "The tables have the most rows that are declared, and no row is shortened by row_norm."

MOST_VARIANCE = 1 / 4
"""Largest variance of a scaled column: half of the rows lie at either bound."""

LEAST_VARIANCE = 1e-4
"""Variance, in the bad case, of what a scaled feature does apart from the others: a deviation of a hundredth."""

OF_RANGE = (
    "In the best case half of the rows of each feature lie at either bound. In the bad case a feature, apart from what "
    "the others tell of it, has a standard deviation of 1 % of the width of its bounds, or the noise hides how it "
    "varies, and the ridge alone bounds the errors."
)

OF_GROUPS = (
    "Columns that were encoded from one depend on each other, so errors of their coefficients depend on how often each "
    "category occurs. All columns of a category add up to 1, as an intercept does: name all but one of them, or a "
    "ridge decides between them and errors may not be known."
)


def noise_level(plan: MomentPlan) -> float:
    """Return about the spectral norm of the noise on X^T X in units of scaled rows; of a sketch no more than it."""
    if isinstance(plan, GramPlan):
        return gram_noise_level(plan) * plan.unit**2
    matrix = plan.matrix  # its longest column is at least as long as the mean one
    variance = plan.mechanism.variance(plan.sketch_rows * matrix.variance) / matrix.variance
    return sketch_noise_level(plan, variance) * plan.unit**2


def signal(plan: MomentPlan) -> Signal:
    """Return the spectral norm of the noise beside the largest eigenvalue that second moments can have.

    X^T X has no eigenvalue above its trace, the sum of the squared norms of all rows.
    """
    return Signal(
        "the spectral norm of the noise",
        noise_level(plan),
        "the largest eigenvalue that so many rows of bounded norm can have",
        rows_of(plan)[1] * plan.total_squared_norm * plan.unit**2,
        "squared scaled units",
        rows_power=1.0 if isinstance(plan, GramPlan) else 0.5,
        instead="" if isinstance(plan, GramPlan) else "method 'mpc'",
    )


def signal_of_regression(plan: MomentPlan) -> Signal:
    """Return `signal`, or the noise beside the constant's square summed over all rows where that is worse.

    A regression needs to see the number of rows: without it there is no answer (`analyses.second_moments.ridge.solve`,
    `analyses.logistic_regression.link.fit`). Counted under shares, the constant's square is seen where it and its own
    noise, of sqrt(2) times the deviation off the diagonal, come to the noise level; three of these deviations are
    granted.
    """
    whole = signal(plan)
    if not isinstance(plan, GramPlan):
        return whole
    rows = Signal(
        "the noise on the number of rows, below which a regression gives no answer,",
        (noise_level(plan) - 3 * sqrt(2) * deviation_of(plan)) / (plan.constant * plan.unit) ** 2,
        "the largest number of rows",
        float(rows_of(plan)[1]),
        "rows",
    )
    return max(whole, rows, key=lambda one: one.noise / one.largest)
