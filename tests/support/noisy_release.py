"""The release of a noisy Gram matrix, as PCA runs it: keys, rows, blocks of shares, noise, opening."""

from dataclasses import replace
from typing import Any

import numpy as np
from fault_injection import Protocol, run
from job_builders import make_job, make_schema, make_table

from analyses.pca import protocol as pca
from analyses.second_moments.noisy_gram import open_noisy_gram
from mpc.local.network import local_names
from mpc.protocol.session import COORDINATOR, Session

N_ROWS = 5


def noisy_release(n_parties: int, t: int, n_owners: int) -> Protocol:
    """Return the release of the table of the last so many members, two columns each; the others only compute.

    Compute parties are 1 .. n_parties; owners beyond them bring columns and hold no shares.
    """
    n_inputs_only = max(0, n_owners - n_parties)
    names = local_names(n_parties, n_inputs_only)
    members = [names[i] for i in range(1, n_parties + n_inputs_only + 1)]
    rng = np.random.default_rng(5)
    tables = {name: make_table(name, rng.uniform(-1.0, 3.0, (N_ROWS, 2))) for name in members[-n_owners:]}
    job = make_job(
        inputs=[{"party": name, "table": "people"} for name in tables],
        compute=members[:n_parties],
        colluding=t,
        privacy={"epsilon": 1e4, "delta": 1e-5},
    )
    plan = pca.plan(job, [tables[m].schema if m in tables else make_schema(m, 0, False) for m in job.members])

    async def member(session: Session) -> Any:
        if session.me == COORDINATOR:
            return np.rint((await open_noisy_gram(session, plan)).matrix / plan.unit**2)
        await pca.party(session, plan, tables.get(session.names[session.me]))
        return None

    name = f"noisy release of {n_owners} owners among {n_parties}, t={t}"
    protocol = Protocol(name, n_parties, t, member, {}, n_inputs_only)
    clean = run(protocol)
    noisy = clean.results[COORDINATOR]
    rows = np.hstack([plan.quantise(owner, tables[members[owner - 1]].values)[0] for owner in plan.owners])
    assert 0 < np.abs(noisy - rows.T @ rows).max() <= plan.mechanism.noise_tail_bound(-40), clean.results
    return replace(protocol, expected={COORDINATOR: noisy})
