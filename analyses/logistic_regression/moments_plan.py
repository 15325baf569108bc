"""The public part of a logistic regression by one release of second moments: bounds, noise, field."""

from collections.abc import Sequence
from math import isqrt, sqrt

import numpy as np
from numpy.typing import NDArray

from analyses.job.declared_rows import declared_rows
from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema
from analyses.logistic_regression.labelled_plan import (
    LabelledRowPlan,
    reaches_of_features,
    squared_norm_bounds_of,
    widths_of_features,
)
from analyses.logistic_regression.labelled_rows import LabelledRows
from analyses.logistic_regression.parameters import LogisticRegressionParams
from analyses.rows.own_rows import OwnRows, RowSource
from analyses.rows.quantise import check_scale
from analyses.rows.row_plan import RowBounds
from analyses.second_moments.gram_plan import GramPlan
from analyses.second_moments.noisy_gram import calibrate_gram
from analyses.second_moments.rounding import worst_rounding

SQUARED_SHARE = 4
"""The features' squared norm bound is so many times the square of the label's integer, and of the constant's.

The larger these are, the less noise there is on the sums of features by label, and the more on everything else. The
noise of the whole matrix grows by 1 + 2/4, that of the sums by label falls to 1.5 of twice the features' bound from the
1.77 of an eighth. Tables of a few hundred rows gain from that, and large ones lose nothing that can be measured
(docs/decisions/028-logistic-regression-by-moments.md).
"""


class LabelledMomentsPlan(LabelledRowPlan, GramPlan):
    """What all participants agree on before the second moments of features, label and a constant are released.

    A row of integers is z = (x, c s, c): x the features, |x|^2 <= B = sum B_q; s = -1 for label 0 and +1 for label 1; c
    the constant. So z z^T holds x x^T, the label's products c s x, and the sums c x, c^2 s and c^2, in the order of the
    joint table, where the label ends its owner's block and the constant the last block.

    Sensitivity: whatever the record, |z|^2 = |x|^2 + 2 c^2 <= B + 2 c^2, and a row that does not count is 0 altogether.
    `GramSensitivity` holds for any integer rows of bounded norm: adding or removing a record moves Z^T Z by B + 2 c^2
    at most in Frobenius norm, replacing one by sqrt(2) (B + 2 c^2).

    Attributes:
        row_norm: norm in the parameters, default filled in. All B_q sum up to gamma^2 at most.
        constant: c, floor(sqrt(B / SQUARED_SHARE)).
    """

    @property
    def n_row_columns(self) -> int:
        """Columns of an integer row: features, label, constant."""
        return sum(self.widths.values())

    @property
    def total_squared_norm(self) -> int:
        """The largest squared norm of an integer row of the joint table."""
        return sum(self.squared_norm_bounds) + 2 * self.constant**2

    @property
    def squared_norms(self) -> tuple[int, ...]:
        """See `RowPlan`: the label is as long as the constant."""
        label = self.job.members.index(self.params.label_party) + 1
        norms = zip(self.owners, super().squared_norms, strict=True)
        return tuple(norm + self.constant**2 * (owner == label) for owner, norm in norms)

    @property
    def shares_constant(self) -> bool:
        """The last owner shares it: it is 0 in rows that do not count, and only the owners may know which these are."""
        return True

    @property
    def label_values(self) -> tuple[int, int]:
        """The label is as far from 0 as the constant, on either side."""
        return -self.constant, self.constant

    def own_rows(self, member: int, table: RowSource, counting: NDArray[np.bool_] | None) -> OwnRows:
        """See `RowPlan.own_rows`: features, then the label and the constant where they are the owner's."""
        return LabelledRows(self, member, table, counting)

    @property
    def order(self) -> list[int]:
        """Places in the joint table of the features, the label and the constant, in this order."""
        label, last = self.label_index, self.n_row_columns - 1
        return [i for i in range(last) if i != label] + [label, last]


def plan_labelled_moments(
    job: Job, schemas: Sequence[BlockSchema], params: LogisticRegressionParams
) -> LabelledMomentsPlan:
    """Fix everything public: bounds, noise, field.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    widths = widths_of_features(job, params, schemas)
    n_features = sum(widths.values())
    reaches = reaches_of_features(job, params, schemas)
    row_norm = params.row_norm or sqrt(sum(reaches.values()))
    check_scale(params.gamma, row_norm)
    bounds = squared_norm_bounds_of(params, row_norm, reaches, constant=0)
    constant = isqrt(sum(bounds) // SQUARED_SHARE)
    if constant < 1:
        raise JobError(
            f"parameters.gamma: with {params.gamma} every label would be rounded to zero; choose a larger gamma"
        )
    with_label = tuple(
        bound + constant**2 * (party == params.label_party) for party, bound in zip(widths, bounds, strict=True)
    )
    rows = RowBounds(n_features + 2, row_norm, with_label, constant)
    mechanism, n_primes = calibrate_gram(job, schemas, rows, params.max_rows)
    return LabelledMomentsPlan(
        job=job,
        schemas=tuple(schemas),
        n_primes=n_primes,
        params=params,
        row_norm=row_norm,
        squared_norm_bounds=bounds,
        constant=constant,
        party_mu=mechanism.party_mu,
    )


def rounding_of(plan: LabelledMomentsPlan) -> float:
    """Return how far rounding may have moved second moments at worst, in spectral norm, in units of rows of norm 1.

    Label and constant are integers from the start: they add to the rows' norm, not to what is rounded.
    """
    most = declared_rows(plan.job, plan.schemas).most
    return worst_rounding(len(plan.feature_names), plan.total_squared_norm, most) / plan.params.gamma**2
