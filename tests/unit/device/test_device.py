"""What a device refuses by itself, before any message leaves it."""

import asyncio
import stat
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest
from devices import DECLARED, NAMES, device_in, question, round_of, sum_invitation

from analyses.job.job import JobError
from analyses.sums.records import Record
from coordinator.sums.rounds import HostedRound, HostedRounds
from device.device import PAUSE_S, Device
from device.records import KeptRecord
from device.report import describe_sum_report, kept_rounds, read_sum_report
from dp.cost.views import MEMBER_UNIT
from ledger.books import ChargeError
from ledger.budget import Budget
from mpc.secagg.errors import PolicyRefusalError
from mpc.transcript import RoundId
from service.errors import NotAllowedError
from service.identity import Identity, Role
from service.settings import SettingsError
from transport.aggregation import RoundStep
from transport.refusal import Declined, WhyRefused


def private(epsilon=1.0, delta=1e-6, **changes):
    return question(privacy={"epsilon": epsilon, "delta": delta}, **changes)


def test_a_delta_above_the_budgets_is_refused_whatever_its_epsilon(tmp_path):
    with device_in(tmp_path, largest_epsilon=1e-3) as device:
        for delta in (1.1e-6, 0.01):
            params = private(delta=delta)
            with pytest.raises(ChargeError, match="which is larger than 1e-06, the delta of this device's budget"):
                device._admit(params, round_of(params))
        assert device.budget.standing()["reserved_jobs"] == 0


def test_the_largest_epsilon_is_the_one_at_the_owners_delta_not_at_the_analysts(tmp_path):
    """A smaller delta costs more at the same epsilon, so epsilon 1 at 1e-9 is less than 1 at the owner's 1e-6.

    Of several entries, as one alone gets noise whose epsilon is the same at every delta.
    """
    length = 64
    declared = replace(DECLARED, length=length)
    records = {"steps": KeptRecord(declared, lambda: Record(np.ones(length)))}
    params = private(epsilon=1.0, delta=1e-9, length=length)
    noise = params.noise(round_of(params).topology)
    at_owners = noise.epsilon("coalition", 1e-6).epsilon
    assert at_owners < 0.9
    with (
        device_in(tmp_path, records=records, largest_epsilon=0.999 * at_owners) as device,
        pytest.raises(PolicyRefusalError, match="at delta 1e-06, in its worst view"),
    ):
        device._admit(params, round_of(params))
    with device_in(tmp_path, records=records, largest_epsilon=1.001 * at_owners) as device:
        device._admit(params, round_of(params))
        assert device.budget.standing()["reserved_jobs"] == 1


def test_a_budget_does_not_take_the_charge_of_a_larger_delta_either(tmp_path):
    with device_in(tmp_path, budget=Budget(MEMBER_UNIT, "2026", 4.0, 1e-9)) as device:
        params = private(delta=1e-6)
        config = round_of(params)
        with pytest.raises(ChargeError, match="delta is 1e-06"):
            device.budget.reserve(config.round_id, params, params.noise(config.topology))


@pytest.mark.parametrize("delta", [1 / len(NAMES), 0.5, 0.99])
def test_a_delta_of_one_over_the_members_or_more_is_no_question(delta):
    with pytest.raises(JobError, match=r"privacy.delta: must be smaller than 1 / 5, because the sum has 5 members"):
        round_of(private(delta=delta))
    round_of(private(delta=0.99 / len(NAMES)))


CLIPPED = {"steps": KeptRecord(DECLARED, lambda: Record(np.array([1.0, 2000.0, -1e9])))}


def report(device, params, config):
    """What a device writes down once it has read its record."""
    found = device.records["steps"].contribute(params)
    device._report(params, config, found, params.encoding.encode(found.vector, device.entropy, found.weight))


@pytest.mark.parametrize("params", [question(), private()])
def test_a_device_keeps_what_was_clipped_for_its_owner_only(tmp_path, params):
    with device_in(tmp_path, data_dir=tmp_path, records=CLIPPED) as device:
        config = round_of(params)
        report(device, params, config)
    assert kept_rounds(tmp_path) == ["session-0-0"]
    path = tmp_path / "reports" / "session-0-0.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = read_sum_report(tmp_path, "session-0-0")
    assert (found["clipped_fraction"], found["norm_was_clipped"]) == (2 / 3, False)
    text = "\n".join(describe_sum_report(found))
    assert "clipped: 66.67% of the entries were larger than 1000" in text
    assert ("NO PRIVACY GUARANTEE" in text) is (params.privacy is None)
    assert "Budget of period '2026'" in text
    assert "2000" not in path.read_text()


def test_a_report_that_cannot_be_kept_is_logged_and_shows_nothing(tmp_path, capsys):
    (tmp_path / "reports").write_text("in the way")
    params = question()
    with device_in(tmp_path, data_dir=tmp_path, records=CLIPPED) as device:
        report(device, params, round_of(params))
        report(device, params, round_of(params, "../../session"))
    logged = capsys.readouterr().out
    assert logged.count("report not kept") == 2
    assert "0.66" not in logged
    with pytest.raises(SettingsError, match="no report of round"):
        read_sum_report(tmp_path, "../ledger")


NO_ROUND = RoundId("", 0, 0)
MEMBERS = [Identity("walkers", Role.DEVICE, name) for name in NAMES]


class InProcess:
    """Calls of walker-1 to rounds hosted in this process; `seen` are its invitations."""

    def __init__(self, rounds):
        self.rounds, self.seen, self.has_seen = rounds, [], asyncio.Condition()

    async def fetch(self, step, last=NO_ROUND):
        while (message := self.rounds.due(MEMBERS[0], last, step)) is None:
            await self.rounds.wait(MEMBERS[0], last, step, 60.0)
        async with self.has_seen:
            self.seen.append(message.round_id.session)
            self.has_seen.notify_all()
        return message

    async def answer(self, message):
        await self.rounds.receive(MEMBERS[0], message)

    async def wait_for(self, session):
        async with asyncio.timeout(20), self.has_seen:
            await self.has_seen.wait_for(lambda: session in self.seen)


@asynccontextmanager
async def running(*tasks):
    running = [asyncio.create_task(task) for task in tasks]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def hosted(session):
    params = question(stage_s=60.0)
    return HostedRound(round_of(params, session), params.canonical_json().encode(), params.stage_s)


async def test_a_member_that_refuses_two_open_rounds_hears_of_each_once_and_then_of_the_next(tmp_path):
    rounds = HostedRounds(MEMBERS)
    client = InProcess(rounds)
    with device_in(tmp_path, client=client) as device:  # answers no exact sums
        first, second = hosted("a"), hosted("b")
        async with running(rounds.run(first), rounds.run(second), device.run()):
            await client.wait_for("b")
            async with running(rounds.run(hosted("c"))):
                await client.wait_for("c")
    assert client.seen == ["a", "b", "c"]
    assert first.refusals == second.refusals == (("policy", 1),)


async def test_a_member_declines_for_itself_alone_and_one_that_has_entered_declines_no_more(tmp_path):
    rounds, asked = HostedRounds(MEMBERS), hosted("a")
    async with running(rounds.run(asked)):
        await asyncio.sleep(0)
        with pytest.raises(NotAllowedError, match="is not member 2"):
            await rounds.receive(MEMBERS[0], Declined(asked.config.round_id, 2, WhyRefused.BUDGET))
        assert asked.refusals == ()
        for why in (WhyRefused.BUDGET, WhyRefused.POLICY):  # the first word counts
            await rounds.receive(MEMBERS[0], Declined(asked.config.round_id, 1, why))
        assert asked.refusals == (("budget", 1),)


async def test_an_owner_may_keep_the_reason_to_oneself(tmp_path):
    rounds, asked = HostedRounds(MEMBERS), hosted("a")
    client = InProcess(rounds)
    with device_in(tmp_path, client=client, tells_refusals=False) as device:
        async with running(rounds.run(asked)):
            await asyncio.sleep(0)
            assert not await device.answer(await client.fetch(RoundStep.INVITATION))
    assert asked.refusals == ()


async def test_the_same_question_has_the_same_invitation_and_strangers_to_it_hear_of_all():
    rounds = HostedRounds(MEMBERS)
    async with running(rounds.run(hosted("a")), rounds.run(hosted("b"))):
        await asyncio.sleep(0)

        async def after(last):
            await rounds.wait(MEMBERS[0], last, RoundStep.INVITATION, 0.05)
            message = rounds.due(MEMBERS[0], last, RoundStep.INVITATION)
            return None if message is None else message.round_id.session

        for _ in range(2):
            assert await after(NO_ROUND) == await after(RoundId("unknown", 0, 0)) == "a"
            assert await after(RoundId("a", 0, 0)) == "b"
        assert await after(RoundId("b", 0, 0)) is None


async def test_a_coordinator_that_repeats_itself_makes_no_work(tmp_path, monkeypatch):
    """Two rounds offered in turn, for ever: each is answered once, and then there is a pause before each question."""
    pauses, offered = [], asyncio.Event()

    async def pause(seconds):
        pauses.append(seconds)

    class Repeating:
        n_calls = 0

        async def answer(self, message):
            declined.append(message.why)

        async def fetch(self, step, last=NO_ROUND):
            self.n_calls += 1
            if self.n_calls > 20:
                offered.set()
                await asyncio.Event().wait()
            params = question()
            return sum_invitation(params, "ab"[self.n_calls % 2])

    answered, declined = [], []
    answer = Device.answer

    async def note(device, invitation):
        answered.append(invitation.round_id.session)
        return await answer(device, invitation)

    monkeypatch.setattr(Device, "answer", note)
    monkeypatch.setattr("device.device.asyncio.sleep", pause)
    with device_in(tmp_path, client=Repeating()) as device:
        async with running(device.run()), asyncio.timeout(20):
            await offered.wait()
    assert answered == ["b", "a"]
    assert declined == [WhyRefused.POLICY] * 2
    assert pauses == [PAUSE_S] * 18


async def test_a_device_whose_journal_fails_leaves_the_round_and_goes_on(tmp_path, capsys):
    params = question()
    with device_in(tmp_path, exact_sums=True) as device:
        device.journal._db.connection.execute("PRAGMA query_only = ON")
        assert not await device.answer(sum_invitation(params))
    assert "the journal of rounds" in capsys.readouterr().out
