"""Small jobs, schemas and tables for tests."""

import numpy as np

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids

PARTIES = ("bank", "hospital", "telco")


def make_job(**changes):
    fields = {
        "analysis": "pca",
        "inputs": [{"party": p, "table": "people"} for p in PARTIES],
        "privacy": {"epsilon": 4.0, "delta": 1e-5},
        "parameters": {"components": 2, "gamma": 1024, "max_rows": 1000},
    }
    fields.update(changes)
    return Job.model_validate(fields)


def make_schema(party, n_columns=2, has_ids=True, rows=(2, 1000), matching=None):
    columns = tuple(ColumnSchema(name=f"x{i}", lower=-1.0, upper=3.0) for i in range(n_columns))
    return BlockSchema(party=party, columns=columns, has_ids=has_ids, rows=rows, matching=matching)


def make_table(party, values, ids=None):
    values = np.asarray(values, dtype=np.float64)
    ids = [str(i) for i in range(len(values))] if ids is None else ids
    rows = (max(1, len(values) // 2), len(values))
    return Table(make_schema(party, values.shape[1], rows=rows), values, digest_of_ids(ids))
