"""The same where somebody holds all tables: no privacy, no rounding."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import Table
from analyses.logistic_regression.descent import Descent
from analyses.logistic_regression.gradient_plan import GradientPlan
from analyses.logistic_regression.link import LabelledMoments, fit
from analyses.logistic_regression.moments_plan import LabelledMomentsPlan
from analyses.logistic_regression.plan import LogisticRegressionPlan
from analyses.logistic_regression.weights import in_own_units, weights_of
from analyses.rows.integer_column import nearest_places


def scaled_rows(
    tables: Sequence[Table], plan: LogisticRegressionPlan
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows as the analysis sees them, before rounding, and the labels. Needs all tables in one place.

    Returns:
        shape (rows, n): scaled by public bounds, clipped, features of norm at most 1 (method `gradient`: with the
        constant), the constant last; and shape (rows,).
    """
    blocks, labels = [], np.zeros(0)
    for owner, table in zip(plan.owners, tables, strict=True):
        names = [c.name for c in table.schema.columns]
        features = [names.index(c.name) for c in plan.features_of(owner).columns]
        blocks.append(plan.quantiser_of(owner).scale_and_clip(table.values[:, features])[0])
        if table.schema.party == plan.params.label_party:
            nearest, _ = nearest_places(table.values[:, names.index(plan.params.label_column)], 0, 1)
            labels = nearest.astype(np.float64)
    if plan.constant:
        blocks.append(np.full((len(labels), 1), float(plan.constant)))
    return np.hstack(blocks) / plan.params.gamma, labels


def reference_by_moments(tables: Sequence[Table], plan: LabelledMomentsPlan) -> tuple[NDArray[np.float64], float]:
    """Return weights and intercept in the columns' own units, from the exact moments of all records, without a ridge.

    For tests and comparisons where somebody holds all tables: no privacy, no rounding.

    Args:
        tables: tables of the owners, in the order of the joint table.
        plan: plan of the job.
    """
    return weights_of(plan, fit(exact_moments(*scaled_rows(tables, plan))))


def reference_by_gradients(tables: Sequence[Table], plan: GradientPlan) -> tuple[NDArray[np.float64], float]:
    """Return the same by steps of the same Taylor polynomial, optimiser, ball and divisor, every record in each.

    Args:
        tables: tables of the owners, in the order of the joint table.
        plan: plan of the job.
    """
    x, y = scaled_rows(tables, plan)
    descent = Descent(x.shape[1], plan.params.optimiser, plan.params.learning_rate, plan.params.weight_norm)
    for _ in range(plan.params.iterations):
        u = x @ descent.weights
        residual = 0.5 - y + u / 4 - (u**3 / 48 if plan.params.order == 3 else 0.0)
        descent.follow(x.T @ residual / plan.params.max_rows)
    return in_own_units(plan, descent.weights)


def exact_moments(x: NDArray[np.float64], y: NDArray[np.float64]) -> LabelledMoments:
    """Return the second moments of rows as `scaled_rows` gives them, and of their labels."""
    rows = np.column_stack([x[:, :-1], x[:, -1] * (2 * y - 1), x[:, -1]])
    return LabelledMoments(rows.T @ rows, float(x[0, -1]), 0.0)
