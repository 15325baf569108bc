"""Noisy second moments as they were opened, with all that is public about them: what answers are computed from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import Table
from analyses.rows.row_plan import RowPlan, clipped_rows
from analyses.second_moments.centred import CentredMoments, centred, scatters
from analyses.second_moments.gram_plan import GramPlan, deviation_of, rows_of
from analyses.second_moments.spectrum import SimulatedNoise

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ReleasedMoments:
    """A noisy matrix X^T X of scaled columns and a constant column. Whatever is computed from it costs nothing more.

    A column x, in its own units, is zero + width * z with z the scaled column of the matrix. Entries on and above the
    diagonal carry independent noise of standard deviation `deviation`, on the diagonal sqrt(2) times that
    (`dp.mechanism.gram.NoisyGram`).

    Attributes:
        names: names of the columns, `party.column`.
        matrix: shape (columns + 1, columns + 1), symmetric, in units of scaled rows; the constant column last.
        constant: value of the constant column in units of scaled rows.
        deviation: standard deviation of the noise off the diagonal, in the same squared units.
        zeros, widths: shape (columns,): see above.
        lower: lower bounds, shape (columns,), in the columns' own units; upper ones lie `widths` above.
        rows: the fewest and the most rows that can count, by the owners' declarations.
        factors: name of a column that is a product to the names of its factors (`ColumnSchema.factors`), released or
            not.
    """

    names: tuple[str, ...]
    matrix: Floats = field(repr=False)
    constant: float
    deviation: float
    zeros: Floats = field(repr=False)
    widths: Floats = field(repr=False)
    lower: Floats = field(repr=False)
    rows: tuple[int, int]
    factors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, matrix: Floats, plan: GramPlan) -> "ReleasedMoments":
        """Return what a job has opened.

        Args:
            matrix: shape (columns + 1, columns + 1), in units of scaled rows.
            plan: plan of the job, with a constant column.
        """
        columns = [column for owner in plan.owners for column in plan.schema_of(owner).columns]
        widths = np.array([column.upper - column.lower for column in columns])
        lower = np.array([column.lower for column in columns])
        constant = plan.constant * plan.unit
        factors = {
            f"{owner.party}.{column.name}": tuple(f"{owner.party}.{one}" for one in column.factors)
            for owner in (plan.schema_of(number) for number in plan.owners)
            for column in owner.columns
            if column.factors
        }
        return cls(
            plan.column_names, matrix, constant, deviation_of(plan), plan.zeros, widths, lower, rows_of(plan), factors
        )

    def part(self, names: Sequence[str]) -> "ReleasedMoments":
        """Return the moments of some columns, in this order.

        Raises:
            KeyError: a column is not there; its argument is the name.
        """
        at = []
        for name in names:
            if name not in self.names:
                raise KeyError(name)
            at.append(self.names.index(name))
        with_constant = [*at, len(self.names)]
        return replace(
            self,
            names=tuple(names),
            matrix=self.matrix[np.ix_(with_constant, with_constant)],
            zeros=self.zeros[at],
            widths=self.widths[at],
            lower=self.lower[at],
        )

    @property
    def noise_level(self) -> float:
        """About the spectral norm of the noise, in units of scaled rows: see `noisy_moments.gram_noise_level`."""
        return float(2 * np.sqrt(len(self.matrix)) * self.deviation)

    @property
    def n_rows(self) -> float:
        """About the number of rows, within what is declared."""
        return self.centred.n_rows

    @property
    def n_rows_error(self) -> float:
        """Standard error of the number of rows, by noise."""
        return float(np.sqrt(2) * self.deviation / self.constant**2)

    @cached_property
    def centred(self) -> CentredMoments:
        """Second moments about the mean, in units of scaled rows."""
        return self.centre(self.matrix)

    def centre(self, matrix: Floats) -> CentredMoments:
        """Return second moments about the mean of a matrix like this one."""
        least = (self.lower - self.zeros) / self.widths
        return centred(matrix, self.constant, (least, least + 1), self.rows)

    def scatters(self, matrices: Floats) -> Floats:
        """Return second moments about the mean of many matrices like this one, shape (..., columns, columns)."""
        least = (self.lower - self.zeros) / self.widths
        return scatters(matrices, self.constant, (least, least + 1), self.rows)

    def in_own_units(self, matrices: Floats) -> Floats:
        """Return `raw` of many matrices like this one, of the same shape."""
        return np.asarray(self.to_own @ matrices @ self.to_own.T, dtype=np.float64)

    def noise(self, n_draws: int) -> Iterator[Floats]:
        """Yield draws of the release's noise: how statistics differ when it is added tells their errors.

        The draws follow from a key that everybody knows (`SimulatedNoise`), so equal releases give equal statements.
        """
        simulated = SimulatedNoise()
        return (self.deviation * simulated.symmetric(len(self.matrix)) for _ in range(n_draws))

    @cached_property
    def to_own(self) -> Floats:
        """T of `raw`: (x, 1) = T (z, constant) for a row x in the columns' own units and its scaled row z."""
        n = len(self.names)
        found = np.zeros((n + 1, n + 1))
        found[:n, :n] = np.diag(self.widths)
        found[:n, n] = self.zeros / self.constant
        found[n, n] = 1 / self.constant
        return found

    @cached_property
    def raw(self) -> Floats:
        """Second moments in the columns' own units, shape (columns + 1, columns + 1); the last column is 1.

        Entry (i, j) is about the sum over rows of x_i x_j, (i, last) that of x_i, (last, last) the number of rows.
        """
        return self.in_own_units(self.matrix)


def exact_moments(tables: Sequence[Table], plan: RowPlan) -> Floats:
    """Return the exact second moments of the clipped table and the constant, in units of scaled rows: no privacy.

    Args:
        tables: owners' tables, in the order of the joint table.
        plan: plan of the job.

    Returns:
        shape (columns + 1, columns + 1), the constant last.
    """
    rows = clipped_rows(tables, plan)
    rows = np.hstack([rows, np.full((len(rows), 1), plan.constant * plan.unit)])
    return np.asarray(rows.T @ rows, dtype=np.float64)
