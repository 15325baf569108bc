"""A series of masked sums over real gRPC sessions: one party is late in a round, and comes back in the next one."""

import asyncio

import numpy as np
from deadlines import GENEROUS_S
from mailbox_federation import running_federation
from masked_sums import make_config

from analyses.sums.sessions import session_series
from analyses.sums.sessions.session_link import SessionHost
from analyses.sums.sessions.session_series import SessionSeries, conduct_series, contribute_to_series
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import RosterEntry, Topology
from mpc.secagg.stage import Stage

N, LENGTH, LATE, LATE_IN = 4, 1 << 20, 4, 1
PARTIES = range(1, N + 1)


def config_of(round_id, identities):
    roster = tuple(RosterEntry(m, f"party-{m}", key) for m, key in sorted(identities.items()))
    return make_config(N, LENGTH, roster=roster, round_id=round_id, topology=Topology.complete(N, 0))


def values_in(number, party):
    return np.full(LENGTH, 10 * number + party)


class ImpatientHost(SessionHost):
    """Waits for all vectors but one of a round for as long as it takes, and for that one not at all."""

    async def collect(self, stage):
        if (self._round_id.number, stage) == (LATE_IN, Stage.MASK):
            self._dropped_out.add(LATE)
            await super().collect(stage)
            self._dropped_out.remove(LATE)
            self._stage_s, generous_s = 0.0, self._stage_s
            await super().collect(stage)
            self._stage_s = generous_s
        else:
            await super().collect(stage)


async def test_a_party_that_was_too_late_for_one_round_is_in_the_next_and_its_late_vector_holds_nobody_up(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(session_series, "SessionHost", ImpatientHost)
    agreed, is_open = SessionSeries(N, 3, 1, config_of), asyncio.Event()

    async def party(session):
        async def contribute(announced, seeds):
            if (session.me, announced.number) == (LATE, LATE_IN):
                await is_open.wait()
            return values_in(announced.number, session.me), None

        rounds = await contribute_to_series(session, agreed, contribute)
        await session.finish()
        return rounds

    async def coordinator(session):
        async def after_round(config, opened):
            if config.round_id.number == LATE_IN:
                is_open.set()
            return b"model %d" % config.round_id.number

        sums = await conduct_series(session, agreed, stage_s=GENEROUS_S, first_input=b"start", after_round=after_round)
        await session.finish()
        return sums

    async with running_federation(tmp_path, N) as federation, asyncio.timeout(GENEROUS_S):
        sessions = {number: federation.session(number, deadline_s=GENEROUS_S) for number in (COORDINATOR, *PARTIES)}
        sums, *rounds = await asyncio.gather(coordinator(sessions[COORDINATOR]), *(party(sessions[m]) for m in PARTIES))
    assert [opened.survivors for opened in sums] == [(1, 2, 3, 4), (1, 2, 3), (1, 2, 3, 4)]
    for number, opened in enumerate(sums):
        assert np.array_equal(opened.integers(), sum(values_in(number, m) for m in opened.survivors))
    assert rounds == [(0, 1, 2), (0, 1, 2), (0, 1, 2), (0, 2)]
