"""Logistic regression by moments: the released distribution itself, without shares.

The plan of the job, each party's quantiser, the exact sums of integers, and one draw of each party's noise: a job opens
exactly such integers (`tests/utility/test_logistic_utility.py`).
"""

import numpy as np

from analyses.logistic_regression.labelled_plan import LabelledRowPlan
from analyses.logistic_regression.link import fit
from analyses.logistic_regression.moments_plan import LabelledMomentsPlan
from analyses.logistic_regression.weights import labelled_moments, weights_of
from bench.baselines.logistic import Floats
from bench.datasets.labelled_tables import LabelledTables
from entropy import SystemEntropy
from mpc.arithmetic.gram import expand_triangle


def integer_rows(data: LabelledTables, chosen: LabelledMomentsPlan) -> Floats:
    """Return Z, the rows of integers that the parties multiply, in the order of the joint table."""
    blocks = []
    for owner, table in zip(chosen.owners, data.training, strict=True):
        names = [c.name for c in table.schema.columns]
        features = [names.index(c.name) for c in chosen.features_of(owner).columns]
        blocks.append(chosen.quantiser_of(owner).quantise(table.values[:, features])[0])
        if table.schema.party == chosen.params.label_party:
            label = table.values[:, [names.index(chosen.params.label_column)]].astype(np.int64)
            blocks.append((2 * label - 1) * chosen.constant)
    return np.hstack([*blocks, np.full((len(blocks[0]), 1), chosen.constant)]).astype(np.float64)


def exact_gram(data: LabelledTables, chosen: LabelledMomentsPlan) -> Floats:
    """Return Z^T Z of the integer rows; the same at every epsilon."""
    rows = integer_rows(data, chosen)
    assert len(rows) * chosen.total_squared_norm < 2**53, "float64 would round the sums"
    return np.asarray(rows.T @ rows, dtype=np.float64)


def released_moment_weights(chosen: LabelledMomentsPlan, exact: Floats) -> tuple[Floats, float]:
    """Return weights and intercept by what a job releases: exact sums and a draw of each party's noise."""
    matrix, entropy = exact.copy(), SystemEntropy()
    for _ in range(chosen.n_parties):
        matrix += expand_triangle(chosen.mechanism.draw(entropy).astype(np.float64), chosen.n_row_columns)
    return weights_of(chosen, fit(labelled_moments(chosen, matrix * chosen.unit**2)))


def own_scores(data: LabelledTables, chosen: LabelledRowPlan, weights: Floats, intercept: float) -> Floats:
    """Return the log odds as an analyst computes them: values clipped to their bounds, in their own units."""
    blocks = []
    for owner, table in zip(chosen.owners, data.testing, strict=True):
        names, columns = [c.name for c in table.schema.columns], chosen.features_of(owner).columns
        values = table.values[:, [names.index(c.name) for c in columns]]
        blocks.append(np.clip(values, [c.lower for c in columns], [c.upper for c in columns]))
    return np.asarray(np.hstack(blocks) @ weights + intercept, dtype=np.float64)
