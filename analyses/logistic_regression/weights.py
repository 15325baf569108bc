"""From what was opened to moments of scaled rows, and from the weights of these to those of the columns themselves."""

import numpy as np
from numpy.typing import NDArray

from analyses.job.declared_rows import declared_rows
from analyses.logistic_regression.labelled_plan import LabelledRowPlan
from analyses.logistic_regression.link import LabelledMoments, LogisticFit
from analyses.logistic_regression.moments_plan import LabelledMomentsPlan
from analyses.rows.reach import zeros_of


def in_own_units(plan: LabelledRowPlan, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return weights per unit of each column and the intercept, from those of scaled rows.

    A column of bounds [l, u] enters as (value - zero) / (u - l) / row_norm, where zero is its value that is mapped to 0
    (`analyses.rows.reach.zeros_of`), the constant as its integer over gamma.

    Args:
        plan: plan of the job.
        weights: weights of the features, in the order of the joint table, then of the constant where the plan has one.
    """
    blocks = [plan.features_of(owner).columns for owner in plan.owners]
    widths = np.array([c.upper - c.lower for columns in blocks for c in columns])
    zeros = np.concatenate([zeros_of(columns, plan.params.origin) for columns in blocks])
    per_unit = weights[: len(widths)] / (plan.row_norm * widths)
    constant = float(weights[-1]) * plan.constant / plan.params.gamma if plan.constant else 0.0
    return per_unit, constant - float(per_unit @ zeros)


def weights_of(plan: LabelledMomentsPlan, fitted: LogisticFit) -> tuple[NDArray[np.float64], float]:
    """Return weights per unit of each column and the intercept, from those of rows of norm at most 1."""
    return in_own_units(plan, np.append(fitted.weights, fitted.intercept * plan.params.gamma / plan.constant))


def labelled_moments(plan: LabelledMomentsPlan, matrix: NDArray[np.float64]) -> LabelledMoments:
    """Return the opened moments of scaled rows, in the order of the joint table, for rows of norm at most 1."""
    of_units = matrix[np.ix_(plan.order, plan.order)] / plan.row_norm**2
    deviation = float(np.sqrt(plan.n_parties * float(plan.party_mu))) / plan.params.gamma**2
    rows = declared_rows(plan.job, plan.schemas)
    return LabelledMoments(of_units, plan.constant / plan.params.gamma, deviation, rows.least, rows.most)
