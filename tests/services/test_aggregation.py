"""Masked sums over real gRPC: members that drop out, lie about who they are, come back; a coordinator that restarts."""

import asyncio
import base64
import sqlite3
import struct
from dataclasses import replace
from fractions import Fraction

import grpc
import numpy as np
import pytest
from deadlines import GENEROUS_S, SKIPPED_S
from masked_sums import RecordingEntropy, all_bytes
from sum_federation import (
    answer_of,
    begin,
    coordinator_config,
    exact_sum,
    member_of,
    question,
    reason_of,
    sum_federation,
)

from analyses.sums.records import DeclaredRecord, Record, reference
from coordinator.server import CoordinatorProcess
from coordinator.sums import answering as sums
from coordinator.sums import rounds
from device.device import RoundEndedError
from device.report import kept_rounds, read_sum_report
from dp.cost.views import MEMBER_UNIT
from entropy import InsecureTestEntropy, SystemEntropy
from ledger.budget import Budget
from mpc.errors import PeerViolationError
from mpc.secagg.errors import PolicyRefusalError, RoundReusedError
from mpc.secagg.messages import Advertisement, MaskedInput, SealedShares, SurvivorSignature, UnmaskingShares
from mpc.secagg.policy import MemberPolicy
from service.errors import InvalidRequestError, NotAllowedError, NotFoundError, TooMuchError, WrongStateError
from service.identity import Role
from transport import aggregation
from transport.aggregation import RoundStep
from transport.happenings import Failed, Opened, Retried, StageReport
from transport.question_client import ask, call_off, list_open
from transport.sum_codec import Ended


async def test_the_sum_of_all_members_is_exact(tmp_path):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all()
        happening, reports = await federation.ask()
        result = answer_of(happening)
        assert result["sum_in_units"] == exact_sum(federation, federation.names)
        assert result["survivors"] == list(federation.names)
        assert result["vanished"] == {}
        assert [r.stage for r in reports] == [
            "advertise keys",
            "share keys",
            "masked input",
            "sign survivors",
            "unmask",
        ]
        assert all(r.n_answers == 5 and not r.missing for r in reports)


@pytest.mark.parametrize(
    "changes",
    [
        {"analysis": "secure-mean", "largest_weight": 10},
        {"analysis": "secure-mean", "largest_weight": 10, "units": 1000, "colluding": 1},
        {"analysis": "secure-histogram", "length": 1, "largest": 3, "edges": (-1000.0, -100.0, 0.0, 1000.0)},
    ],
)
async def test_means_and_histograms_are_those_of_the_reference(tmp_path, changes):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all()
        happening, _ = await federation.ask(**changes)
        result = answer_of(happening)
        expected = reference(question(**changes), federation.records)
        assert (result.get("mean") or result["counts"]) == pytest.approx(expected, rel=1e-12)


class DroppingClient:
    """Calls of a member that hangs for good when a message of one kind is due."""

    def __init__(self, federation, name, client, kind):
        self.fetch = client.fetch
        self._federation, self._name, self._client, self._kind = federation, name, client, kind

    async def answer(self, message):
        if isinstance(message, self._kind):
            self._federation.silent.add(self._name)
            await asyncio.Event().wait()
        await self._client.answer(message)


@pytest.mark.parametrize(
    ("kind", "stage", "is_in_the_sum"),
    [
        (SealedShares, "share keys", False),
        (MaskedInput, "masked input", False),
        (SurvivorSignature, "sign survivors", True),
        (UnmaskingShares, "unmask", True),
    ],
)
async def test_a_member_that_drops_out_at_any_stage_is_reported_and_the_rest_is_exact(
    tmp_path, kind, stage, is_in_the_sum
):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=("walker-2",))
        client = DroppingClient(federation, "walker-2", await federation.client("walker-2"), kind)
        federation.start(await federation.device("walker-2", client=client))
        happening, reports = await federation.ask(stage_s=SKIPPED_S)
        result = answer_of(happening)
        assert ("walker-2" in result["survivors"]) is is_in_the_sum
        assert result["silent_after" if is_in_the_sum else "vanished"] == {"walker-2": stage}
        assert result["vanished" if is_in_the_sum else "silent_after"] == {}
        assert result["sum_in_units"] == exact_sum(federation, result["survivors"])
        assert {r.stage: r.missing for r in reports if r.missing} == {stage: ("walker-2",)}


async def test_members_that_never_come_are_waited_for_until_the_deadline_and_counted_as_dropped_out(tmp_path):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=("walker-1", "walker-4"))
        happening, reports = await federation.ask(stage_s=SKIPPED_S)
        result = answer_of(happening)
        assert result["vanished"] == {"walker-1": "advertise keys", "walker-4": "advertise keys"}
        assert reports[0].missing == ("walker-1", "walker-4")
        assert result["sum_in_units"] == exact_sum(federation, result["survivors"])


async def test_below_its_quorum_the_round_ends_with_a_reason_for_analyst_and_members(tmp_path):
    async with sum_federation(tmp_path) as federation:
        ends = []

        async def note(device):
            invitation = await device.client.fetch(RoundStep.INVITATION)
            with pytest.raises(RoundEndedError) as caught:
                await device.take_part(invitation)
            ends.append(str(caught.value))

        devices = [await federation.device(name) for name in federation.names[:2]]
        federation.silent |= set(federation.names[2:])
        tasks = [asyncio.create_task(note(device)) for device in devices]
        happening, _ = await federation.ask(stage_s=SKIPPED_S)
        await asyncio.gather(*tasks)
        assert "only 2 members answered at stage advertise keys, but 3 are needed" in reason_of(happening)
        assert ends == [reason_of(happening)] * 2


async def test_several_sums_follow_each_other_each_with_fresh_keys(tmp_path):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all()
        for _ in range(3):
            happening, _ = await federation.ask()
            assert answer_of(happening)["sum_in_units"] == exact_sum(federation, federation.names)


async def test_two_sums_at_once_do_not_disturb_each_other(tmp_path):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all()
        (one, _), (two, _) = await asyncio.gather(
            federation.ask(stage_s=GENEROUS_S), federation.ask(stage_s=GENEROUS_S)
        )
        assert (
            answer_of(one)["sum_in_units"] == answer_of(two)["sum_in_units"] == exact_sum(federation, federation.names)
        )


async def test_repeated_answers_and_questions_change_nothing(tmp_path):
    async with sum_federation(tmp_path) as federation:
        asking, device, invitation = await begin(federation, stage_s=SKIPPED_S)
        again = await device.client.fetch(RoundStep.INVITATION)
        assert again == invitation
        advertisement = member_of(device, invitation).advertise()
        for _ in range(3):
            await device.client.answer(advertisement)
        await federation.start_all(without=("walker-1",))
        happening, reports = await asking
        assert reports[0].n_answers == 5
        assert answer_of(happening)["vanished"] == {"walker-1": "share keys"}


async def test_nobody_answers_for_another_member(tmp_path):
    async with sum_federation(tmp_path) as federation:
        asking, device, invitation = await begin(federation)
        advertisement = member_of(device, invitation).advertise()
        impostor = await federation.client("walker-2")
        with pytest.raises(NotAllowedError, match="walker-2 is not member 1"):
            await impostor.answer(advertisement)
        asking.cancel()


async def test_an_analyst_is_no_member_and_a_member_no_analyst_and_strangers_hear_nothing(tmp_path):
    async with sum_federation(tmp_path) as federation:
        asking, _, invitation = await begin(federation)
        with pytest.raises(NotAllowedError):
            await (await federation.client("ada", Role.ANALYST)).fetch(RoundStep.MEMBERS, invitation.round_id)
        with pytest.raises(
            NotAllowedError, match="walkers/device/stranger is not a member of the masked sums of this coordinator"
        ):
            await (await federation.client("stranger")).fetch(RoundStep.MEMBERS, invitation.round_id)
        with pytest.raises(NotAllowedError, match="analyst eve is not in the list"):
            await federation.ask(analyst="eve")
        asking.cancel()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"members": ["walker-1", "who"]}, "members: this coordinator does not know 'who"),
        ({"colluding": 4}, "may contain a single honest member"),
        ({"largest": 2.0**52, "units": 2**52}, "because float64 cannot represent larger scaled values"),
        ({"members": ["walker-1"]}, "at least"),
    ],
)
async def test_a_question_that_cannot_be_answered_is_refused_with_its_reason(tmp_path, changes, words):
    async with sum_federation(tmp_path) as federation:
        with pytest.raises(InvalidRequestError):
            await federation.ask(**changes)


async def test_a_member_refuses_a_round_below_its_floor_and_the_others_go_on(tmp_path):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=("walker-3",))
        careful = await federation.device("walker-3")
        policy = MemberPolicy(pinned=careful.policy.pinned, smallest_cohort=5)
        federation.start(await federation.device("walker-3", policy=policy))
        happening, _ = await federation.ask(stage_s=SKIPPED_S)
        assert answer_of(happening)["vanished"] == {"walker-3": "advertise keys"}


async def test_a_member_that_restarts_in_mid_round_does_not_answer_a_second_time(tmp_path):
    async with sum_federation(tmp_path) as federation:
        asking, device, invitation = await begin(federation, stage_s=GENEROUS_S)
        await device.client.answer(member_of(device, invitation).advertise())
        restarted = await federation.device("walker-1")  # a new process, the same file
        again = await restarted.client.fetch(RoundStep.INVITATION)
        assert again.round_id == invitation.round_id
        with pytest.raises(RoundReusedError, match="already taken part"):
            await restarted.take_part(again)
        asking.cancel()


async def test_a_coordinator_that_restarts_in_mid_round_ends_it_for_all_and_serves_the_next(tmp_path):
    async with sum_federation(tmp_path) as federation:
        asking, device, invitation = await begin(federation, stage_s=GENEROUS_S)
        member = member_of(device, invitation)
        await device.client.answer(member.advertise())
        asking.cancel()
        await federation.process.stop()
        config = coordinator_config(tmp_path, federation.names, listen=federation.address)
        federation.process = CoordinatorProcess(config, federation.issue(Role.COORDINATOR, "hub"))
        await federation.process.start()
        ended = await device.client.fetch(RoundStep.MEMBERS, invitation.round_id)  # came before the stop
        assert isinstance(ended, Ended)
        assert ended.reason in ("the coordinator gave up the round", "the coordinator stops")
        with pytest.raises(NotFoundError, match="the coordinator was restarted"):
            await (await federation.client("walker-1")).fetch(RoundStep.MEMBERS, invitation.round_id)
        with pytest.raises(NotFoundError):
            await device.client.answer(member.advertise())
        await federation.start_all()
        happening, _ = await federation.ask()
        assert answer_of(happening)["sum_in_units"] == exact_sum(federation, federation.names)


async def test_a_coordinator_that_stops_tells_members_and_analyst(tmp_path, monkeypatch):
    wait, is_asked = rounds.HostedRounds.wait, asyncio.Event()

    async def noted(self, caller, round_id, step, patience_s):
        if step is RoundStep.END:
            is_asked.set()
        await wait(self, caller, round_id, step, patience_s)

    monkeypatch.setattr(rounds.HostedRounds, "wait", noted)
    async with sum_federation(tmp_path) as federation:
        asking, device, invitation = await begin(federation, stage_s=GENEROUS_S)
        waiting = asyncio.create_task(device.client.fetch(RoundStep.END, invitation.round_id))
        await asyncio.wait_for(is_asked.wait(), GENEROUS_S)  # a call that comes later is not answered any more
        await federation.process.stop()
        assert await waiting == Ended("the coordinator stops")
        happening, _ = await asking
        assert "the coordinator stops" in reason_of(happening)


async def open_sum(federation) -> bytes:
    """The identifier of the one sum that is open."""
    async with federation.channel(Role.ANALYST, "ada") as channel:
        (found,) = await list_open("hub", channel)
    assert (found.kind, found.analyst, found.record) == ("sum", "ada", "steps")
    return found.question_id


async def test_when_the_analyst_goes_away_the_sum_goes_on_and_is_followed_from_its_beginning_to_its_end(tmp_path):
    async with sum_federation(tmp_path) as federation:
        asking, _, _ = await begin(federation, stage_s=GENEROUS_S)
        asking.cancel()
        question_id = await open_sum(federation)
        await federation.start_all()
        for _ in range(2):  # the second time it has ended
            async with federation.channel(Role.ANALYST, "ada") as channel, asyncio.timeout(GENEROUS_S):
                heard = [happening async for happening in ask("hub", channel, question_id=question_id)]
            assert heard[0] == Opened(question_id)
            assert answer_of(heard[-1])["survivors"] == list(federation.names)


async def test_when_a_sum_is_called_off_its_round_ends(tmp_path):
    async with sum_federation(tmp_path) as federation:
        asking, device, invitation = await begin(federation, stage_s=GENEROUS_S)
        async with federation.channel(Role.ANALYST, "ada") as channel:
            await call_off("hub", channel, await open_sum(federation))
        end = await device.client.fetch(RoundStep.END, invitation.round_id)
        assert end == Ended("the coordinator gave up the round")
        happening, _ = await asking
        assert reason_of(happening) == "ada called it off [question-called-off]"


async def test_an_answer_for_a_stage_that_has_not_begun_is_refused(tmp_path):
    async with sum_federation(tmp_path) as federation:
        asking, device, invitation = await begin(federation)
        with pytest.raises(WrongStateError):
            await device.client.answer(MaskedInput(invitation.round_id, 1, b"\0" * 8))
        asking.cancel()


@pytest.mark.parametrize("patience_s", [0.0, GENEROUS_S])
async def test_a_round_goes_on_when_calls_wait_shortly_and_takes_one_call_per_stage_when_they_wait_long(
    tmp_path, monkeypatch, patience_s
):
    fetched, fetch = [], aggregation.AggregationService.Fetch

    async def counted(self, request, context):
        fetched.append(RoundStep(request.step))
        async for chunk in fetch(self, request, context):
            yield chunk

    monkeypatch.setattr(aggregation.AggregationService, "Fetch", counted)
    monkeypatch.setattr(aggregation, "PATIENCE_S", patience_s)
    monkeypatch.setattr(aggregation, "MAX_CALLS", 1)
    async with sum_federation(tmp_path) as federation:
        await federation.start_all()
        happening, _ = await federation.ask(stage_s=GENEROUS_S)
        assert answer_of(happening)["sum_in_units"] == exact_sum(federation, federation.names)
    assert (set(fetched) == {RoundStep.INVITATION}) is (patience_s == GENEROUS_S)


async def test_a_call_that_breaks_off_while_its_member_waits_for_the_next_stage_does_no_harm(tmp_path):
    class Lost:
        """A call whose connection is lost."""

        async def read(self):
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata())

        def cancel(self):
            pass

    class Broken:
        """Calls that break off as soon as a message is taken."""

        def __init__(self, client):
            self.fetch, self._client = client.fetch, client

        async def answer(self, message):
            await self._client.answer(message)
            self._client._goes_on = (*self._client._goes_on[:2], Lost())

    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=("walker-1",))
        federation.start(await federation.device("walker-1", client=Broken(await federation.client("walker-1"))))
        happening, _ = await federation.ask()
        assert answer_of(happening)["sum_in_units"] == exact_sum(federation, federation.names)


async def test_a_sum_that_too_many_refuse_fails_after_the_grace_and_is_not_tried_again(tmp_path):
    """The deadline of the stage never passes."""
    async with sum_federation(tmp_path) as federation:
        federation.silent |= set(federation.names[3:])
        strict = replace(federation.policy, corrupt_fraction=Fraction(9, 10))
        for name in federation.names[:3]:
            federation.start(await federation.device(name, policy=strict))
        happenings = await federation.listen(attempts=2, grace_s=SKIPPED_S)
        assert [type(happening) for happening in happenings] == [StageReport, Failed]
        assert happenings[0].refused == (("policy", 3),)
        assert "of the members 3 refused: policy 3" in reason_of(happenings[1])


async def test_a_stage_ends_when_enough_have_answered_and_nobody_has_for_a_while(tmp_path):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=("walker-5",))
        happening, reports = await federation.ask(grace_s=SKIPPED_S)  # the deadline of the stage is not skipped
        assert answer_of(happening)["survivors"] == list(federation.names[:4])
        assert reports[0].missing == ("walker-5",)


PRIVATE = {"privacy": {"epsilon": 4.0, "delta": 1e-6}}


@pytest.mark.parametrize(("params", "late"), [({}, ("walker-5",)), (PRIVATE, ())])
async def test_no_value_and_no_key_is_in_the_coordinators_inbox_or_in_logs_and_printed_objects(
    tmp_path, capsys, monkeypatch, params, late
):
    received, hosted, entropies = [], [], {}

    class RecordingRound(rounds.HostedRound):
        async def receive(self, name, message):
            received.append(message)
            hosted[:] = [self]
            await super().receive(name, message)

    monkeypatch.setattr(sums, "HostedRound", RecordingRound)
    async with sum_federation(tmp_path) as federation:
        rng = np.random.default_rng(11)  # ten digits: no identifier in a log holds them by chance
        for name in federation.names:
            federation.records[name] = Record(rng.integers(10**9, 10**10, 3) * rng.choice([-1.0, 1.0], 3))
        devices = []
        federation.silent |= set(late)
        for name in federation.names:
            entropies[name] = RecordingEntropy(SystemEntropy())
            devices.append(await federation.device(name, entropy=entropies[name]))
            if name not in late:
                federation.start(devices[-1])
        happening, _ = await federation.ask(stage_s=SKIPPED_S, largest=10**10, **params)
        assert answer_of(happening)["vanished"] == dict.fromkeys(late, "advertise keys")
        shown = capsys.readouterr()
        text = shown.out + shown.err + repr([devices, received, hosted, [vars(one) for one in hosted]])
        assert "masked sum is open" in text
    inbox = b"".join(map(all_bytes, received))
    secrets = [InsecureTestEntropy(f"identity of {name}").read(32) for name in federation.names]
    drawn = [given for entropy in entropies.values() for given in entropy.given]
    assert len(drawn) >= 5 * (len(federation.names) - len(late))
    for secret in (*secrets, *drawn):
        assert secret not in inbox
        for shape in (secret.hex(), secret.hex().upper(), repr(secret)[2:-1], base64.b64encode(secret).decode()):
            assert shape not in text
    for record in federation.records.values():
        for value in record.values:
            whole = int(value)
            assert str(abs(whole)) not in text  # with any sign, and as a float too
            for raw in (whole.to_bytes(8, "little", signed=True), struct.pack("<d", value)):
                assert raw not in inbox
                assert repr(raw)[2:-1] not in text


async def test_a_noisy_sum_is_near_the_exact_one_and_says_what_it_costs(tmp_path):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=("walker-4",))
        happening, _ = await federation.ask(**PRIVATE, stage_s=SKIPPED_S)
        result = answer_of(happening)
        report = result["privacy"]
        assert report["views"]["coalition"]["epsilon"] <= 4.0
        found = report["parameters"]
        difference = [
            a - b for a, b in zip(result["sum_in_units"], exact_sum(federation, result["survivors"]), strict=True)
        ]
        assert any(difference)
        assert max(map(abs, difference)) < 20 * found["standard_deviation"]


@pytest.mark.parametrize(
    ("params", "words"), [({}, "an exact sum"), ({"privacy": {"epsilon": 9.0, "delta": 1e-6}}, "epsilon is")]
)
async def test_a_member_may_insist_on_noise(tmp_path, params, words):
    async with sum_federation(tmp_path) as federation:
        asking, _, invitation = await begin(federation, **params)
        careful = await federation.device("walker-1", largest_epsilon=5.0, exact_sums=False)
        with pytest.raises(PolicyRefusalError, match=words):
            await careful.take_part(invitation)
        asking.cancel()


async def spent_by(device):
    return (await asyncio.to_thread(device.budget.standing))["spent_epsilon"]


async def test_every_noisy_round_is_charged_to_the_device_until_its_budget_is_spent(tmp_path, capsys):
    tight = Budget(MEMBER_UNIT, "2026", 5.0, 1e-6)
    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=("walker-2",))
        device = await federation.device("walker-2", budget=tight)
        federation.start(device)
        happening, _ = await federation.ask(**PRIVATE)
        assert answer_of(happening)["survivors"] == list(federation.names)
        spent = await spent_by(device)
        assert 0 < spent <= 4.0
        happening, _ = await federation.ask(**PRIVATE, stage_s=SKIPPED_S)
        assert answer_of(happening)["vanished"] == {"walker-2": "advertise keys"}
        assert await spent_by(device) == spent
        happening, _ = await federation.ask(privacy={"epsilon": 0.3, "delta": 1e-6})
        assert answer_of(happening)["survivors"] == list(federation.names)
        assert spent < await spent_by(device) <= 5.0
    logged = capsys.readouterr().out
    assert "the privacy budget of table 'records' does not cover this job" in logged
    assert "remaining_epsilon" in logged


async def test_a_device_without_a_budget_answers_no_noisy_sum_and_the_ledger_lists_its_exact_ones(tmp_path):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=("walker-3",))
        device = await federation.device("walker-3", budget=None)
        federation.start(device)
        happening, _ = await federation.ask(**PRIVATE, stage_s=SKIPPED_S)
        assert answer_of(happening)["vanished"] == {"walker-3": "advertise keys"}
        happening, _ = await federation.ask()
        assert answer_of(happening)["survivors"] == list(federation.names)
        entries = await asyncio.to_thread(device.budget._ledger.history)
        assert [entry.kind for entry in entries] == ["exact"]


async def test_the_cost_is_on_disk_before_the_masked_vector_leaves_and_a_round_left_before_costs_nothing(tmp_path):
    """The device hangs for good at its masked vector, or at the message before."""
    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=("walker-1", "walker-2"))
        at_the_mask, before_it = [
            await federation.device(
                name,
                client=DroppingClient(federation, name, await federation.client(name), kind),
                data_dir=tmp_path / name,
            )
            for name, kind in (("walker-1", MaskedInput), ("walker-2", SealedShares))
        ]
        federation.start(at_the_mask)
        federation.start(before_it)
        happening, _ = await federation.ask(**PRIVATE, stage_s=SKIPPED_S)
        assert answer_of(happening)["vanished"] == {"walker-1": "masked input", "walker-2": "share keys"}
        assert await spent_by(at_the_mask) > 0
        assert await spent_by(before_it) == 0
        (kept,) = kept_rounds(tmp_path / "walker-1")
        assert read_sum_report(tmp_path / "walker-1", kept)["budget"]["spent_epsilon"] == await spent_by(at_the_mask)
        assert kept_rounds(tmp_path / "walker-2") == []
        for name in ("walker-1", "walker-2"):
            await federation.kill(name)
        restarted = [await federation.device(name) for name in ("walker-1", "walker-2")]
        assert await spent_by(restarted[0]) > 0
        assert (await asyncio.to_thread(restarted[1].budget.standing))["reserved_jobs"] == 0


class LateClient:
    """Calls of a member whose first message of one kind comes only when its stage is over."""

    def __init__(self, federation, name, client, kind):
        self.fetch = client.fetch
        self._federation, self._name, self._client, self._kind, self._is_late = federation, name, client, kind, True

    async def answer(self, message):
        if isinstance(message, self._kind) and self._is_late:
            self._is_late = False
            self._federation.left.add((self._name, message.round_id))
            await self._client.fetch(RoundStep.END, message.round_id)
        await self._client.answer(message)


@pytest.mark.parametrize("kind", [Advertisement, MaskedInput, SurvivorSignature])
async def test_a_round_that_too_few_answered_is_tried_again_with_fresh_keys(tmp_path, kind):
    async with sum_federation(tmp_path) as federation:
        late = federation.names[:3]
        await federation.start_all(without=late)
        for name in late:
            client = LateClient(federation, name, await federation.client(name), kind)
            federation.start(await federation.device(name, client=client))
        happenings = await federation.listen(stage_s=SKIPPED_S, attempts=2, **PRIVATE)
        (retry,) = [happening for happening in happenings if isinstance(happening, Retried)]
        assert "members answered at stage" in retry.reason
        result = answer_of(happenings[-1])
        assert result["attempt"] == 1
        assert result["survivors"] == list(federation.names)
        journals = [sqlite3.connect(tmp_path / f"{name}.sqlite") for name in federation.names]
        rounds_of = [db.execute("SELECT attempt, released IS NOT NULL FROM rounds").fetchall() for db in journals]
        assert all(row in ([(0, 0), (1, 1)], [(1, 1)]) for row in map(sorted, rounds_of))


async def test_attempts_are_bounded_and_the_last_reason_is_told(tmp_path):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=federation.names[:3])
        happenings = await federation.listen(stage_s=SKIPPED_S, attempts=2)
        assert [type(h) for h in happenings] == [StageReport, Retried, StageReport, Failed]


async def test_a_round_of_which_shares_have_left_members_is_not_tried_again(tmp_path):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=federation.names[:3])
        for name in federation.names[:3]:
            client = DroppingClient(federation, name, await federation.client(name), UnmaskingShares)
            federation.start(await federation.device(name, client=client))
        happenings = await federation.listen(stage_s=SKIPPED_S, attempts=3)
        assert not any(isinstance(happening, Retried) for happening in happenings)
        assert "are needed" in reason_of(happenings[-1])


async def test_running_devices_outlive_a_coordinator_that_restarts_in_mid_round_and_answer_no_round_twice(tmp_path):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=("walker-5",))
        asking = asyncio.create_task(federation.ask(stage_s=GENEROUS_S))
        lost = await federation.device("walker-5")
        invitation = await lost.client.fetch(RoundStep.INVITATION)  # all others have answered the first stage or will
        await federation.process.stop()
        assert "the coordinator stops" in reason_of((await asking)[0])
        config = coordinator_config(tmp_path, federation.names, listen=federation.address)
        federation.process = CoordinatorProcess(config, federation.issue(Role.COORDINATOR, "hub"))
        await federation.process.start()
        federation.start(lost)
        happening, _ = await federation.ask()
        assert answer_of(happening)["survivors"] == list(federation.names)
        assert answer_of(happening)["sum_in_units"] == exact_sum(federation, federation.names)
        with sqlite3.connect(tmp_path / "walker-1.sqlite") as db:
            rows = db.execute("SELECT session, released IS NOT NULL FROM rounds").fetchall()
        assert [released for session, released in rows if session == invitation.round_id.session] in ([], [0])


@pytest.mark.parametrize(
    ("kind", "stage"),
    [(SealedShares, "share keys"), (MaskedInput, "masked input"), (SurvivorSignature, "sign survivors")],
)
async def test_every_stage_has_a_quorum(tmp_path, kind, stage):
    async with sum_federation(tmp_path) as federation:
        await federation.start_all(without=federation.names[:3])
        for name in federation.names[:3]:
            client = DroppingClient(federation, name, await federation.client(name), kind)
            federation.start(await federation.device(name, client=client))
        happening, reports = await federation.ask(stage_s=SKIPPED_S)
        assert f"only 2 members answered at stage {stage}, but 3 are needed" in reason_of(happening)
        assert reports[-1].missing == federation.names[:3]


async def test_parties_may_be_members_too(tmp_path):
    async with sum_federation(tmp_path, parties=("walker-2",)) as federation:
        await federation.start_all(without=("walker-2",))
        client = await federation.client("walker-2", Role.PARTY)
        federation.start(await federation.device("walker-2", client=client))
        happening, _ = await federation.ask()
        assert answer_of(happening)["survivors"] == list(federation.names)


async def test_a_round_other_than_its_question_asks_for_is_refused(tmp_path):
    async with sum_federation(tmp_path) as federation:
        asking, device, invitation = await begin(federation)
        other = replace(invitation.round_id, number=1)  # a sum has one round
        with pytest.raises(PeerViolationError, match="the round does not match its question"):
            await device.take_part(replace(invitation, round_id=other))
        asking.cancel()


async def test_a_long_vector_comes_whole(tmp_path):
    """Longer than one gRPC message, both as a vector and as a result."""
    async with sum_federation(tmp_path) as federation:
        for name in federation.names:
            federation.records[name] = Record(np.arange(600_000) % 1000 + 0.0)
        federation.declared = DeclaredRecord(length=600_000)
        await federation.start_all()
        happening, _ = await federation.ask(length=600_000, stage_s=GENEROUS_S)
        result = answer_of(happening)
        assert result["sum_in_units"] == (5 * (np.arange(600_000) % 1000)).tolist()


async def test_so_many_sums_run_at_once_and_ended_ones_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(rounds, "MAX_ROUNDS", 1)
    async with sum_federation(tmp_path) as federation:
        asking, _, _ = await begin(federation)
        with pytest.raises(TooMuchError, match="1 masked sums run here already"):
            await federation.ask()
        async with federation.channel(Role.ANALYST, "ada") as channel:
            await call_off("hub", channel, await open_sum(federation))
        await asyncio.gather(asking, return_exceptions=True)
        await federation.start_all()
        for _ in range(2):
            happening, _ = await federation.ask()
            assert answer_of(happening)["survivors"] == list(federation.names)
