"""The job during which tests end a leading coordinator, its tables, and what must have come of it."""

import numpy as np
from deadlines import GENEROUS_S
from federation import memory_table, pca_job, random_values, result_of

from analyses.pca import protocol as pca

PARTIES = ("bank", "hospital", "telco")
VALUES = {name: random_values((200, 2), seed) for seed, name in enumerate(PARTIES)}
JOB = pca_job(
    PARTIES,
    parameters={"components": 2, "center": False, "gamma": 1024, "max_rows": 1_000_000},
    deadline_s=GENEROUS_S,
)
WHOLE = ["SUBMITTED", "PROPOSED", "RUNNING", "OPENING", "DONE"]


def check_result(view):
    result = result_of(view)
    tables = [memory_table(p, VALUES[p]) for p in PARTIES]
    exact = pca.reference(tables, pca.plan(JOB, [t.schema for t in tables]))
    values, _ = pca.leading_components(exact, 2)
    assert np.allclose(result["eigenvalues"][0], values[0], rtol=0.05)


def steps(deployment, job_id):
    """Return the states that a job has gone through, as the database has them."""
    events = deployment.execute("SELECT state FROM coordinator_events WHERE job_id = %s ORDER BY sequence", job_id)
    states = [state for (state,) in events]
    return [state for i, state in enumerate(states) if i == 0 or states[i - 1] != state]
