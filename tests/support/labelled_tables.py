"""Small tables of three parties of which one knows a label, and jobs that predict it."""

import numpy as np

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids

PARTIES = ("bank", "hospital", "telco")
WIDTHS = {"bank": 2, "hospital": 3, "telco": 1}
LABEL_BOUNDS = (0.0, 1.0)


def labelled_tables(n_rows=60, seed=7, label_at=0):
    """Tables whose label, with the telco, follows from one column of the bank and one of the hospital."""
    rng = np.random.default_rng(seed)
    values = {p: rng.uniform(-1, 3, (n_rows, width)) for p, width in WIDTHS.items()}
    score = values["bank"][:, 0] - values["hospital"][:, 1] + 0.3 * rng.standard_normal(n_rows)
    label = (score > 0).astype(np.float64)
    tables = {}
    for party, block in values.items():
        columns = [ColumnSchema(name=f"x{i}", lower=-1.0, upper=3.0) for i in range(block.shape[1])]
        if party == "telco":
            columns.insert(label_at, ColumnSchema(name="left", lower=LABEL_BOUNDS[0], upper=LABEL_BOUNDS[1]))
            block = np.insert(block, label_at, label, axis=1)
        schema = BlockSchema(party=party, columns=tuple(columns), has_ids=True, rows=(1, n_rows))
        tables[party] = Table(schema, block, digest_of_ids(map(str, range(n_rows))))
    return tables


BATCHES = {"method": "gradient", "iterations": 5, "sampling_rate": 0.5, "weight_norm": 4.0}


def logistic_job(parameters=None, **changes):
    """A job that opens the gradients of batches."""
    return moments_job({**BATCHES, **(parameters or {})}, **changes)


def moments_job(parameters=None, **changes):
    """A job with the method that is the default."""
    fields = {
        "analysis": "logistic-regression",
        "inputs": [{"party": p, "table": "people"} for p in PARTIES],
        "privacy": {"epsilon": 50.0, "delta": 1e-5},
        "parameters": {"label": "telco.left", "max_rows": 100, **(parameters or {})},
    }
    return Job.model_validate({**fields, **changes})
