"""Tables of `registry_jobs` whose rows belong to persons, of whom all rows are alike: any choice of them is as good."""

from dataclasses import replace

import numpy as np
from registry_jobs import VARIANTS, Variant

from analyses.job.row_ids import Persons, digest_of_ids
from analyses.job.schema import BlockSchema, Table
from analyses.registry import analysis_of

N_PERSONS = 60
MOST = 2
EPSILON = 1e6  # so little noise that what is opened is all but exact

_LOGISTIC = VARIANTS["logistic-regression by gradients"]
_SKETCH = VARIANTS["low-rank by sketch"].parameters


def _logistic(**parameters):
    return replace(_LOGISTIC, parameters={**_LOGISTIC.parameters, "sampling_rate": 1.0, **parameters})


def _label_first(variant):
    parameters = {**variant.parameters, "label": "bank.label"}
    return replace(variant, parameters=parameters, columns=("x0", "label"), label_columns=("x0", "x1"))


JOBS: dict[str, Variant] = {
    **{
        name: v
        for name, v in VARIANTS.items()
        if not name.startswith(("clustering", "distribution", "matrix-factorization")) and "threshold" not in name
    },
    "logistic-regression by gradients": _logistic(),
    "logistic-regression, three sums": _logistic(release="three-sums"),
    "logistic-regression, order 3": _logistic(order=3, weight_norm=3.0),
    "logistic-regression, no intercept": _logistic(intercept=False),
    "logistic-regression, label of the first owner": _label_first(VARIANTS["logistic-regression"]),
    "logistic-regression by gradients, label of the first owner": _label_first(_logistic()),
    "least-squares by sketch": Variant(
        "least-squares", {k: v for k, v in _SKETCH.items() if k != "rank"} | {"label": "bank.x0"}, {}
    ),
}
"""Every analysis and method that protects persons."""

ROWS_OF = 1 + np.arange(N_PERSONS) % 5
"""How many rows each person has."""

N_SURPLUS = int(np.maximum(ROWS_OF - MOST, 0).sum())
ORDER = np.random.default_rng(3).permutation(np.repeat(np.arange(N_PERSONS), ROWS_OF))


def person_ids(order):
    return tuple(f"person-{i}" for i in order)


def tables_of_persons(variant, most=MOST, order=ORDER):
    """Owner to its table: a row of person i is the i-th of the registry's table."""
    tables = {}
    for owner, table in variant.tables().items():
        schema = table.schema.model_copy(update={"most_rows_per_person": most})
        ids = digest_of_ids(f"row-{i}" for i in range(len(order)))
        persons = None if most is None else Persons.of(person_ids(order))
        tables[owner] = Table(schema, table.values[order], ids, persons)
    return tables


def tables_of_the_rows_that_count(variant):
    """The same tables with so many rows of each person as count, and without a word about persons."""
    return tables_of_persons(variant, None, np.repeat(np.arange(N_PERSONS), np.minimum(ROWS_OF, MOST)))


def with_one_row_of_another_person(table):
    """The same table, but two rows of different persons are said to be each other's."""
    order = ORDER.copy()
    other = int(np.flatnonzero(order != order[0])[0])
    order[[0, other]] = order[[other, 0]]
    return replace(table, persons=Persons.of(person_ids(order)))


def job_of(variant, epsilon=EPSILON, **parameters):
    return variant.job(privacy={"epsilon": epsilon, "delta": 1e-6}, parameters={**variant.parameters, **parameters})


def plan_of(job, tables):
    schemas = [tables[m].schema if m in tables else BlockSchema(party=m) for m in job.members]
    return analysis_of(job).plan(job, schemas)
