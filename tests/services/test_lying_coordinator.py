"""A coordinator service that lies to one member: real devices over gRPC, and parties over the session of a job."""

import asyncio
import sqlite3

import numpy as np
import pytest
from deadlines import GENEROUS_S
from lies import LIES, TARGET, VICTIM
from masked_sums import PUBLIC_INPUT, exact_sum, make_config, values_of
from sum_federation import answer_of, sum_federation

from analyses.job.job import PrivacyTarget
from analyses.sums.secure_sum import SumParams
from analyses.sums.sessions import session_link, session_sum
from coordinator.sums import answering as sums
from coordinator.sums import rounds
from mpc.errors import ProtocolError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import RosterEntry
from mpc.secagg.errors import (
    DifferentConfigurationError,
    DifferentInputError,
    SplitMembersError,
    SplitSurvivorsError,
)
from mpc.secagg.messages import Advertisement
from mpc.transcript import RoundId
from transport.aggregation import RoundStep
from transport.sum_codec import Invitation

N = 5


class Honest:
    """No lie at all."""

    told_to_all = staticmethod(dict)


def lying_round(lie):
    """The coordinator's own service of a round, but for what the victim is told."""

    class LyingRound(rounds.HostedRound):
        async def receive(self, name, message):
            try:
                await super().receive(name, message)
            except SplitSurvivorsError:  # the victim signed what was made up for it: nobody need wait for it
                self._coordinator._reached.signatures.expected -= {VICTIM}
                self._arrived.set()

        async def hand_out(self, stage, messages):
            await super().hand_out(stage, lie.told_to_all(messages))

    return LyingRound


async def take_part(device):
    """The error that a device leaves its round with."""
    try:
        await device.take_part(await device.client.fetch(RoundStep.INVITATION))
    except ProtocolError as error:
        return error


@pytest.mark.parametrize("name", LIES)
async def test_a_device_that_is_lied_to_over_the_network_leaves_and_names_the_lie(tmp_path, monkeypatch, name):
    lie = LIES[name]
    monkeypatch.setattr(sums, "HostedRound", lying_round(lie))
    async with sum_federation(tmp_path, N) as federation:
        asking = asyncio.create_task(federation.ask())
        devices = [await federation.device(member) for member in federation.names]
        taking_part = [asyncio.create_task(take_part(device)) for device in devices]
        error = await asyncio.wait_for(taking_part[VICTIM - 1], GENEROUS_S)
        for task in (asking, *taking_part):
            task.cancel()
        await asyncio.gather(asking, *taking_part, return_exceptions=True)
    assert type(error) is lie.error
    assert error.member == lie.accused
    with sqlite3.connect(tmp_path / f"{federation.names[VICTIM - 1]}.sqlite") as journal:
        assert journal.execute("SELECT released FROM rounds").fetchall() == [(None,)]


async def test_a_device_that_is_not_lied_to_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(sums, "HostedRound", lying_round(Honest))
    async with sum_federation(tmp_path, N) as federation:
        await federation.start_all()
        happening, _ = await federation.ask()
        assert answer_of(happening)["survivors"] == list(federation.names)


def lying_conductor(lie):
    """The coordinator's own part in a job, but for what the victim is told."""

    class LyingConductor(session_link.SessionHost):
        async def hand_out(self, stage, messages):
            await super().hand_out(stage, lie.told_to_all(messages))

    return LyingConductor


def config_of(attempt, identities):
    roster = tuple(RosterEntry(m, f"party-{m}", key) for m, key in sorted(identities.items()))
    return make_config(N, roster=roster, round_id=RoundId("session", 3, attempt))


async def job_session(monkeypatch, lie):
    """Member to the error that it left the session of a job with, or None; and the coordinator's sum."""
    monkeypatch.setattr(session_sum, "SessionHost", lying_conductor(lie))
    network = LocalNetwork(local_names(N), deadline_s=GENEROUS_S)

    async def party(session):
        try:
            await session_sum.contribute(session, config_of, N, PUBLIC_INPUT, values_of(session.me), None)
        except ProtocolError as error:
            network.kill(session.me)  # as a service, which ends its part of the job
            return error

    async def conductor(session):
        return await session_sum.conduct(session, config_of, N, PUBLIC_INPUT, stage_s=GENEROUS_S, attempts=1)

    return await network.run({COORDINATOR: conductor, **dict.fromkeys(range(1, N + 1), party)})


# The arrays of a session have one row per member: none is there twice, and one that is kept back reads as zeros.
IN_ARRAYS = {name: (lie.error, lie.accused) for name, lie in LIES.items() if "several times" not in name}
IN_ARRAYS["cuts two neighbours apart"] = (SplitMembersError, TARGET)


@pytest.mark.parametrize("name", IN_ARRAYS)
async def test_a_party_that_is_lied_to_over_the_session_of_a_job_leaves_and_names_the_lie(monkeypatch, name):
    ends = await job_session(monkeypatch, LIES[name])
    error = ends.pop(VICTIM)
    assert (type(error), error.member) == IN_ARRAYS[name]
    opened, _ = ends.pop(COORDINATOR)
    assert set(ends.values()) == {None}
    assert np.array_equal(opened.integers(), exact_sum(opened.survivors))


async def test_a_party_that_is_not_lied_to_stays(monkeypatch):
    ends = await job_session(monkeypatch, Honest)
    opened, _ = ends.pop(COORDINATOR)
    assert set(ends.values()) == {None}
    assert opened.survivors == (1, 2, 3, 4, 5)


class TwoFacedRound(rounds.HostedRound):
    """The coordinator's own service of a round, but that it asks the victim another question, and takes its answer."""

    def __post_init__(self):
        super().__post_init__()
        asked = SumParams.from_json(self.public_input)
        shown = asked.model_copy(update={"privacy": PrivacyTarget(epsilon=40.0, delta=1e-6)})
        invitation = Invitation(self.config.round_id, self.config.roster, shown.canonical_json().encode())
        self._due[RoundStep.INVITATION] = {**self._due[RoundStep.INVITATION], VICTIM: invitation}

    async def receive(self, name, message):
        if isinstance(message, Advertisement) and message.member == VICTIM:
            self._coordinator._reached.advertisements.answers[VICTIM] = message
            self._arrived.set()
            return
        await super().receive(name, message)


async def test_devices_that_are_asked_two_questions_part_before_any_masked_vector_and_pay_nothing(
    tmp_path, monkeypatch
):
    """The digests of configuration and question are signed by each device, compared by all, and in every mask's key."""
    monkeypatch.setattr(sums, "HostedRound", TwoFacedRound)
    async with sum_federation(tmp_path, N) as federation:
        asking = asyncio.create_task(federation.ask(privacy={"epsilon": 4.0, "delta": 1e-6}))
        devices = [await federation.device(member) for member in federation.names]
        errors = await asyncio.wait_for(asyncio.gather(*map(take_part, devices)), GENEROUS_S)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert all(device.budget.standing()["spent_epsilon"] == 0 for device in devices)
    assert all(isinstance(error, DifferentConfigurationError | DifferentInputError) for error in errors)
    assert {error.member for i, error in enumerate(errors, start=1) if i != VICTIM} == {VICTIM}
    assert errors[VICTIM - 1].member != VICTIM
