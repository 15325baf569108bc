"""One job over sessions of any kind and in one process, to be compared bit for bit."""

import asyncio
import json

from analyses.registry import analysis_of
from analyses.run_locally import run_plan
from entropy import InsecureTestEntropy
from mpc.local.network import LocalNetwork
from mpc.protocol.session import COORDINATOR


def plan_of(job, tables):
    return analysis_of(job).plan(job, [table.schema for table in tables])


async def over_sessions(job, tables, session_of):
    """Return the result of the parts of all members, each over its own session, as a service sends it."""
    analysis, plan = analysis_of(job), plan_of(job, tables)
    parties = [analysis.party(session_of(number), plan, table) for number, table in enumerate(tables, start=1)]
    result, *_ = await asyncio.gather(analysis.coordinator(session_of(COORDINATOR), plan), *parties)
    return json.loads(json.dumps(result, allow_nan=False))


async def in_one_process(job, tables, names, job_id):
    """Return the result over the in-process network, with the entropy that a federation of tests has."""
    network = LocalNetwork(
        {number: names[number] for number in range(len(tables) + 1)},
        job_id=job_id,
        deadline_s=60.0,
        entropy_of=lambda member: InsecureTestEntropy(str(member)),
    )
    run = await run_plan(plan_of(job, tables), {table.schema.party: table for table in tables}, network)
    return run.result
