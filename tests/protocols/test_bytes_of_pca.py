"""What a PCA sends, payload by member, against the formula of the design: within 3 per cent.

An owner sends N - t words per element, one less if it computes, and with four primes four thirds of that, as three last
residues share a word; a compute party sends one word per entry of the
triangle to the coordinator and, where N > 2t + 1, N - 1 - 2t words per entry of noise. `tests/services/
test_wire_bytes.py` shows that the wire adds little to the payload.
"""

import numpy as np
import pytest
from job_builders import make_job, make_table

from analyses.run_locally import run_locally
from mpc.protocol.session import COORDINATOR

N_ROWS = 6000
WIDTHS = {"bank": 4, "hospital": 7, "telco": 5, "insurer": 6}


async def sent_bytes(owners, compute, colluding, gamma):
    """Return the plan and what each member sent."""
    rng = np.random.default_rng(3)
    tables = {name: make_table(name, rng.uniform(-1.0, 3.0, (N_ROWS, WIDTHS[name]))) for name in owners}
    job = make_job(
        inputs=[{"party": name, "table": "people"} for name in owners],
        compute=compute,
        colluding=colluding,
        parameters={"components": 2, "gamma": gamma, "max_rows": 10_000},
    )
    run = await run_locally(job, tables)
    return run.plan, run.network.sent_bytes


@pytest.mark.parametrize(
    ("owners", "compute", "colluding", "gamma"),
    [
        (("bank", "hospital", "telco"), (), 1, 1024),
        (("bank", "hospital", "telco"), (), 1, 1 << 25),  # four primes
        (("bank", "hospital", "telco", "insurer"), (), 1, 1024),  # one party may drop out, noise travels
        (("bank", "insurer"), ("one", "two", "three"), 1, 1024),
        (("bank",), ("one", "two", "three", "four", "five"), 2, 1024),
    ],
)
async def test_pca_sends_what_the_formula_says(owners, compute, colluding, gamma):
    plan, sent = await sent_bytes(owners, compute, colluding, gamma)
    n, t = plan.n_parties, plan.job.t
    n_words = -(-plan.n_primes // 3)
    assert plan.n_primes in ((2, 3) if gamma == 1024 else (4,))
    n_columns = len(plan.column_names) + 1  # the constant, which the last owner brings
    triangle = n_columns * (n_columns + 1) // 2
    for number, name in enumerate(plan.job.members, start=1):
        computes = number <= n
        elements = N_ROWS * (WIDTHS[name] + (name == owners[-1])) if name in owners else 0
        row_words = elements * (n - t - computes) * (1 if gamma == 1024 else 4 / 3)
        words = row_words + n_words * computes * triangle * (1 + n - 1 - 2 * t)
        if elements:
            assert sent[number] == pytest.approx(8 * words, rel=0.03)
        else:
            assert sent[number] < 8 * words + 3000  # keys, the test of the rows: as much for any table
    assert sent[COORDINATOR] == 0
