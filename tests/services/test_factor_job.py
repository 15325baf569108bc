"""A matrix factorization over real gRPC sessions: the same result as in one process, with parties that go away."""

import asyncio
import json
from contextlib import suppress

import pytest
from deadlines import GENEROUS_S
from mailbox_federation import running_federation
from rating_jobs import VERTICAL, horizontal_tables, job_of, vertical_tables

from analyses.matrix_factorization import protocol
from analyses.run_locally import run_plan
from entropy import InsecureTestEntropy
from mpc.errors import PeerLostError, PeerSilentError, PeerViolationError, ProtocolError
from mpc.local.network import LocalNetwork
from mpc.protocol.session import COORDINATOR
from mpc.secagg.stage import Stage

NAMES = ("party-1", "party-2", "party-3", "party-4")


def planned(n, parameters, **changes):
    parties = NAMES[:n]
    tables = (vertical_tables if "setting" in parameters else horizontal_tables)(parties)
    job = job_of(parties, colluding=1, parameters=parameters, deadline_s=GENEROUS_S, **changes)
    return protocol.plan(job, [tables[name].schema for name in job.members]), tables


def as_sent(result):
    return json.loads(json.dumps(result, allow_nan=False))


async def over_sessions(federation, plan, tables, parts=None):
    """Return what each member's part returns or raises, by number; who fails ends its session, as a service does."""
    parts = parts or {}

    async def member(number):
        session = federation.session(number, deadline_s=GENEROUS_S)
        try:
            if number in parts:
                end = await parts[number](session)
            elif number == COORDINATOR:
                end = await protocol.coordinator(session, plan)
            else:
                end = await protocol.party(session, plan, tables[NAMES[number - 1]])
        except ProtocolError as error:
            await session.abort(str(error))
            return error
        else:
            with suppress(PeerLostError, PeerSilentError):  # whoever went away needs nothing more
                await session.finish()
            return end

    async with asyncio.timeout(2 * GENEROUS_S):
        ends = await asyncio.gather(*(member(number) for number in range(plan.n_parties + 1)))
    return dict(enumerate(ends))


@pytest.mark.parametrize(
    "parameters",
    [{"rank": 0}, {"rank": 2, "rounds": 3}, VERTICAL],
    ids=["offsets", "factors", "vertical"],
)
async def test_services_and_one_process_find_the_same_bit_for_bit(tmp_path, parameters):
    plan, tables = planned(3, parameters)
    async with running_federation(tmp_path, 3) as federation:
        ends = await over_sessions(federation, plan, tables)
        network = LocalNetwork(
            federation.names, job_id=federation.job_id, entropy_of=lambda member: InsecureTestEntropy(str(member))
        )
        alone = await run_plan(plan, tables, network, analysis=protocol.ANALYSIS)
    assert as_sent(ends[COORDINATOR]) == alone.result
    assert [ends[number].kept for number in (1, 2, 3)] == [alone.ends[number].kept for number in (1, 2, 3)]


class GoesAway(Exception):
    """A party is killed."""


@pytest.mark.parametrize("stage", [Stage.ADVERTISE, Stage.SHARE, Stage.MASK, Stage.AGREE, Stage.UNMASK])
@pytest.mark.parametrize(("n", "number"), [(4, 1), (3, 2)])
async def test_a_party_that_goes_away_in_a_round_does_not_stop_the_job(tmp_path, n, number, stage):
    """Of four one may go; of three none, so the last opened model is the result."""
    plan, tables = planned(n, {"rank": 1, "rounds": 2, "attempts": 1})

    async def leaving(session):
        send = session.send

        async def until_then(to, name, array):
            if name == f"{stage}, round {number}, attempt 0":
                raise GoesAway
            await send(to, name, array)

        session.send = until_then
        try:
            return await protocol.party(session, plan, tables[NAMES[n - 1]])
        except GoesAway:
            await session.abort("killed")
            raise PeerViolationError(n, str(stage), "it was killed") from None

    async with running_federation(tmp_path, n) as federation:
        ends = await over_sessions(federation, plan, tables, {n: leaving})
    result = ends[COORDINATOR]
    assert not isinstance(result, Exception), result
    assert len(result["rounds"]) == (3 if n == 4 else number)
    assert isinstance(ends[n], PeerViolationError)
    for staying in range(1, n):
        assert ends[staying].kept["vectors"] == result["vectors"]
