"""A matrix factorization over real gRPC sessions: as in one process; parties that go away; a coordinator that lies."""

import asyncio
import json
from contextlib import suppress
from itertools import product

import numpy as np
import pytest
from deadlines import GENEROUS_S
from mailbox_federation import running_federation
from rating_jobs import (
    SGD,
    SGD_VERTICAL_PARTY,
    SGD_WAYS,
    VERTICAL,
    declaring,
    horizontal_tables,
    job_of,
    vertical_tables,
)

from analyses.matrix_factorization import protocol
from analyses.matrix_factorization.broadcast import ECHO_STAGE, RELEASED_STAGE
from analyses.run_locally import run_plan
from analyses.sums.sessions.session_series import ANNOUNCEMENT_STAGE
from entropy import InsecureTestEntropy
from mpc.errors import PeerLostError, PeerSilentError, PeerViolationError, ProtocolError
from mpc.local.network import LocalNetwork
from mpc.protocol.session import COORDINATOR
from mpc.secagg.stage import Stage

NAMES = ("party-1", "party-2", "party-3", "party-4")


def planned(n, parameters, **changes):
    parties = NAMES[:n]
    tables = (vertical_tables if "setting" in parameters else horizontal_tables)(parties)
    if "features" in parameters:
        tables = declaring(tables, lambda party: parameters["features"])
    job = job_of(parties, colluding=1, parameters=parameters, deadline_s=GENEROUS_S, **changes)
    return protocol.plan(job, [tables[name].schema for name in job.members]), tables


def as_sent(result):
    return json.loads(json.dumps(result, allow_nan=False))


async def over_sessions(federation, plan, tables, parts=None, sent=None):
    """Return what each member's part returns or raises, by number; who fails ends its session, as a service does.

    `sent`, a list, gets what parties send the coordinator: number and stage.
    """
    parts = parts or {}

    async def member(number):
        session = federation.session(number, deadline_s=GENEROUS_S)
        if number != COORDINATOR and sent is not None:
            note_sent(session, sent)
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


def note_sent(session, sent):
    send = session.send

    async def noting(to, stage, array):
        if to == COORDINATOR:
            sent.append((session.me, stage))
        await send(to, stage, array)

    session.send = noting


@pytest.mark.parametrize(
    "parameters",
    [
        {"rank": 0},
        {"rank": 0, "features": [[float(item % 2)] for item in range(12)]},
        {"rank": 2, "rounds": 3},
        {**VERTICAL, "publish_items": True},
        *SGD_WAYS.values(),
    ],
    ids=["offsets", "features", "factors", "vertical", *(f"sgd, {way}" for way in SGD_WAYS)],
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


STAGES = (Stage.ADVERTISE, Stage.SHARE, Stage.MASK, Stage.AGREE, Stage.UNMASK)


class GoesAway(Exception):
    """A party is killed."""


AWAY = [
    *product(({"rank": 1, "rounds": 2},), ((4, 1), (3, 2)), STAGES),
    *product((SGD,), ((4, 1), (3, 2)), (Stage.MASK,)),
    (SGD_VERTICAL_PARTY, (4, 2), Stage.AGREE),
    (SGD_VERTICAL_PARTY, (3, 1), Stage.UNMASK),
]


@pytest.mark.parametrize(("parameters", "of", "stage"), AWAY)
async def test_a_party_that_goes_away_in_a_round_does_not_stop_the_job(tmp_path, parameters, of, stage):
    """Of four one may go; of three none, so the last opened model is the result."""
    n, number = of
    plan, tables = planned(n, {**parameters, "attempts": 1})

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
    if plan.params.form == "statistics":
        kept = [ends[staying].kept for staying in range(1, n)]  # own factors, or the joint ones where these are better
        assert all(len(one["offsets"]) == len(result["offsets"]) for one in kept)
        assert all("joint" in one["errors"] for one in kept)


def of_number(model):
    return int.from_bytes(model[:8], "little")


def another(model, first):
    """The same model but for one bit."""
    return model[:-1] + bytes([model[-1] ^ 1])


def of_the_round_before(model, first):
    return first


def of_the_round_before_by_another_name(model, first):
    return model[:8] + first[8:]


def lying(plan, victims, number, lie, *, at=ANNOUNCEMENT_STAGE):
    """The coordinator's own part, but that some members hear a lie: instead of the model before a round, at its first
    attempt, or at the end of the model after so many rounds.
    """

    async def part(session):
        send, models, has_heard = session.send, {}, set()

        async def telling(to, stage, array):
            if stage in (ANNOUNCEMENT_STAGE, RELEASED_STAGE) and array.dtype == np.uint8 and array.size == n_bytes:
                model = array.tobytes()
                models.setdefault(of_number(model), model)
                if (stage, of_number(model)) == (at, number) and to in victims - has_heard:
                    has_heard.add(to)
                    array = np.frombuffer(lie(model, models[1]), dtype=np.uint8)
            await send(to, stage, array)

        n_bytes, session.send = plan.broadcast.n_bytes, telling
        ended = await protocol.coordinator(session, plan)
        assert has_heard == victims
        return ended

    return {COORDINATOR: part}


def vectors_of(sent, number, attempt=0):
    """Parties that have sent their masked vector of an attempt."""
    return {party for party, stage in sent if stage == f"{Stage.MASK}, round {number}, attempt {attempt}"}


VERTICALLY = {**VERTICAL, "rounds": 3}
HORIZONTALLY = {"rank": 1, "rounds": 2}


@pytest.mark.parametrize(
    ("parameters", "victims", "number", "lie"),
    [
        (HORIZONTALLY, {2}, 1, another),
        pytest.param(HORIZONTALLY, {2}, 2, of_the_round_before, marks=pytest.mark.slow),
        pytest.param(HORIZONTALLY, {1, 2, 3}, 2, of_the_round_before, marks=pytest.mark.slow),
        pytest.param(VERTICALLY, {2}, 2, of_the_round_before_by_another_name, marks=pytest.mark.slow),
        (SGD, {2}, 1, another),
        pytest.param(SGD_VERTICAL_PARTY, {2}, 2, of_the_round_before, marks=pytest.mark.slow),
    ],
)
async def test_a_round_before_which_members_hear_different_models_has_no_masked_vector_until_all_hear_the_same(
    tmp_path, parameters, victims, number, lie
):
    plan, tables = planned(3, parameters)
    sent = []
    async with running_federation(tmp_path, 3) as federation:
        ends = await over_sessions(federation, plan, tables, lying(plan, victims, number, lie), sent)
    result = ends[COORDINATOR]
    assert not isinstance(result, Exception), result
    assert [one["attempt"] for one in result["rounds"]] == [int(t == number) for t in range(3)]
    assert vectors_of(sent, number) == set()
    assert vectors_of(sent, number, attempt=1) == {1, 2, 3}


async def test_if_all_agree_on_the_model_of_another_round_no_vector_leaves_and_the_coordinator_is_named(
    tmp_path, monkeypatch
):
    plan, tables = planned(3, HORIZONTALLY)
    after_round, models, sent = protocol.FactorHost.after_round, [], []

    async def first_model_again(self, *args):
        models.append(await after_round(self, *args))
        return models[0]

    monkeypatch.setattr(protocol.FactorHost, "after_round", first_model_again)
    async with running_federation(tmp_path, 3) as federation:
        ends = await over_sessions(federation, plan, tables, sent=sent)
    assert vectors_of(sent, 1) == {1, 2, 3}
    assert vectors_of(sent, 2) == vectors_of(sent, 2, attempt=1) == set()
    errors = [ends[party] for party in (1, 2, 3)]
    assert all(isinstance(error, ProtocolError) for error in errors), errors
    found = [error for error in errors if isinstance(error, PeerViolationError)]
    assert found
    assert all(error.member == COORDINATOR and "of another round" in str(error) for error in found)


LEAVES_AT_ONCE_S = 0.5
"""A party that leaves at what it has read has left by then; no test fails where it has not."""


async def test_parties_that_are_released_different_models_find_out_and_keep_none(tmp_path):
    """Party 2 hears from party 1 that it was lied to before party 3 has said or read anything, and leaves only then."""
    plan, tables = planned(3, HORIZONTALLY)
    told_by_1, left = asyncio.Event(), asyncio.Event()

    async def lied_to(session):
        receive = session.receive

        async def noting(sender, stage, *args):
            array = await receive(sender, stage, *args)
            if (sender, stage) == (1, ECHO_STAGE):
                told_by_1.set()
            return array

        session.receive = noting
        try:
            return await protocol.party(session, plan, tables[NAMES[1]])
        except ProtocolError as error:
            await session.abort(str(error))
            left.set()
            raise

    async def late(session):
        send = session.send

        async def later(to, stage, array):
            if stage == ECHO_STAGE:
                await told_by_1.wait()
                with suppress(TimeoutError):
                    await asyncio.wait_for(left.wait(), LEAVES_AT_ONCE_S)
            await send(to, stage, array)

        session.send = later
        return await protocol.party(session, plan, tables[NAMES[2]])

    async with running_federation(tmp_path, 3) as federation:
        told = lying(plan, {2}, 3, another, at=RELEASED_STAGE)
        ends = await over_sessions(federation, plan, tables, {**told, 2: lied_to, 3: late})
    for party in (1, 2, 3):
        assert isinstance(ends[party], PeerViolationError), ends[party]
        assert ends[party].member == COORDINATOR
        assert "different offsets or vectors" in str(ends[party])
