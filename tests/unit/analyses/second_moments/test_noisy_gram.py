import math

import pytest
from job_builders import PARTIES, make_job

from analyses.job.job import JobError
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.registry import analysis_of
from mpc.protocol.session import MAX_ARRAY_BYTES


def planned(n_columns):
    """Plan components of so many columns of the first party, and of one each of two others; nothing is centred."""
    sizes = (n_columns - 2, 1, 1)
    schemas = [
        BlockSchema(
            party=party,
            columns=tuple(ColumnSchema(name=f"x{i}", lower=-1, upper=1) for i in range(size)),
            rows=(10, 1000),
        )
        for party, size in zip(PARTIES, sizes, strict=True)
    ]
    job = make_job(parameters={"components": 1, "max_rows": 1000, "center": False}, anyway=True, order="trusted")
    return analysis_of(job).plan(job, schemas)


def test_a_matrix_that_no_message_holds_is_refused_when_it_is_planned():
    most = (math.isqrt(8 * (MAX_ARRAY_BYTES // 8) + 1) - 1) // 2
    assert planned(most).mechanism.n_entries * 8 <= MAX_ARRAY_BYTES
    with pytest.raises(JobError, match=f"can be opened: name at most {most} columns"):
        planned(most + 1)
