"""The number of rows, sums and means that noisy sums tell, each with its error by noise."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from analyses.job.forecast import NORMAL_95
from analyses.joint_sums.plan import JointSumPlan

Floats = NDArray[np.float64]
Ends = tuple[float, float]

SEEN_COUNT = 4.0
"""Standard errors that the number of rows must come to before a mean is stated: a mean is divided by it."""


@dataclass(frozen=True)
class Estimates:
    """What noisy sums tell. Errors and intervals are of noise alone: they are about the rows that were counted.

    Attributes:
        n_rows: the number of rows, without bias; may be negative.
        n_rows_error: its standard error.
        n_rows_interval: where it lies in 19 of 20 cases, or more.
        sums: sums of the columns, shape (columns,), without bias.
        sum_errors: standard errors.
        means: means of the columns, within their bounds; None where the number of rows is within its noise.
        mean_errors: standard errors, as long as they are small beside the bounds.
        mean_intervals: per column, where the mean lies in 19 of 20 cases; None where no value within the bounds does.
    """

    n_rows: float
    n_rows_error: float
    n_rows_interval: Ends
    sums: Floats = field(repr=False)
    sum_errors: Floats = field(repr=False)
    means: Floats | None = field(repr=False)
    mean_errors: Floats | None = field(repr=False)
    mean_intervals: Sequence[Ends | None] | None = field(repr=False)


def estimates(opened: NDArray[np.int64], plan: JointSumPlan) -> Estimates:
    """Return what the noisy sums tell.

    With u the units, x_j = (value - zero_j) u / width_j, and c the constant, what is opened is (c n, sum x_1, ...) plus
    noise, independent and of deviation s in each entry. So for a column with zero a and width w, Z its sum divided by
    u, s_z = s / u and s_n = s / c,

        sum = a n + w Z,    of variance a^2 s_n^2 + w^2 s_z^2;
        mean = a + w Z / n, of variance about w^2 (s_z^2 + (Z / n)^2 s_n^2) / n^2 (delta method).

    Args:
        opened: noisy integers, shape (1 + columns,), the constant's sum first.
        plan: plan of the job.
    """
    n, of_n, of_z = float(opened[0]) / plan.constant, plan.count_error, plan.scaled_error
    lower = np.array([column.lower for column in plan.summed])
    upper = np.array([column.upper for column in plan.summed])
    zeros, widths, z = plan.zeros, upper - lower, opened[1:].astype(np.float64) / plan.units
    half = NORMAL_95 * of_n if plan.widths else float(ceil(NORMAL_95 * of_n))  # a count with noise is an integer
    means = errors = ends = None
    if plan.widths and n > SEEN_COUNT * of_n:
        means = np.clip(zeros + widths * (z / n), lower, upper)
        errors = widths * np.hypot(of_z, z / n * of_n) / n
        found = ratio_intervals(z, of_z, n, of_n)
        low, high = (np.clip(zeros + widths * end, lower, upper) for end in found)
        ends = [(float(a), float(b)) if a < b else None for a, b in zip(low, high, strict=True)]
    return Estimates(
        n_rows=n,
        n_rows_error=of_n,
        n_rows_interval=(n - half, n + half),
        sums=zeros * n + widths * z,
        sum_errors=np.hypot(zeros * of_n, widths * of_z),
        means=means,
        mean_errors=errors,
        mean_intervals=ends,
    )


def ratio_intervals(z: Floats, of_z: float, n: float, of_n: float) -> tuple[Floats, Floats]:
    """Return the ends of the 95 % intervals of ratios Z / n of noisy numbers [Fieller54].

    They are all r for which Z - r n is within 1.96 of its deviations: Z - r n has mean 0 at the true ratio, whatever n
    is, so for normal noise they hold in exactly 95 % of cases. With q = 1.96 they end at

        r = (Z n -+ q sqrt(s_n^2 Z^2 + s_z^2 n^2 - q^2 s_n^2 s_z^2)) / (n^2 - q^2 s_n^2).

    Args:
        z: shape (columns,).
        of_z: s_z, the standard error of each.
        n: above q s_n.
        of_n: s_n, its standard error.
    """
    q = NORMAL_95
    root = q * np.sqrt((of_n * z) ** 2 + (of_z * n) ** 2 - (q * of_n * of_z) ** 2)
    divisor = n**2 - (q * of_n) ** 2
    return (z * n - root) / divisor, (z * n + root) / divisor


def mean_error(plan: JointSumPlan, n_rows: float, place: float) -> float:
    """Return the standard error of the mean of a column in widths of its bounds.

    Args:
        plan: plan of the job.
        n_rows: rows of the joint table.
        place: place of the mean, in widths from the middle of the bounds.
    """
    return sqrt(plan.scaled_error**2 + (place * plan.count_error) ** 2) / n_rows
