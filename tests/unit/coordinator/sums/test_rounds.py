"""One hosted round without a network: calls that break off while their message is being taken in."""

import asyncio

import numpy as np
import pytest
from masked_sums import PUBLIC_INPUT, OpenRound, exact_sum, make_config
from slow_additions import PATIENCE_S, SlowAdditions

from coordinator.sums.rounds import HostedRound, HostedRounds
from mpc.transcript import RoundId
from service.errors import NotAllowedError, NotFoundError, TooMuchError
from service.identity import Identity, Role
from transport.aggregation import RoundStep

STAGE_S = 300.0
"""Nothing here waits for the end of a stage."""


@pytest.fixture
def sent():
    """A round of five members that went well: all that they sent."""
    held = OpenRound(make_config()).up_to("sign")
    held.unmasking = {m: held.members[m].unmask(held.signed) for m in held.members}
    return held


async def hosted_up_to_the_vectors(sent):
    """A hosted round that waits for masked vectors, and the task in which it runs."""
    hosted = HostedRound(sent.config, PUBLIC_INPUT, STAGE_S)
    running = asyncio.create_task(hosted.run())
    for messages, step in ((sent.advertisements, RoundStep.MEMBERS), (sent.sealed, RoundStep.SHARES)):
        for member, message in messages.items():
            await hosted.receive(f"party-{member}", message)
        await told(hosted, step)
    return hosted, running


async def told(hosted, step):
    async with asyncio.timeout(PATIENCE_S):
        await hosted.wait(step)
        return hosted.due("party-1", step)


async def invitation(rounds, last):
    await rounds.wait(PARTY, last, RoundStep.INVITATION, PATIENCE_S)
    return rounds.due(PARTY, last, RoundStep.INVITATION)


async def opened(hosted, running, sent):
    """The sum, once the last two stages are over too."""
    await told(hosted, RoundStep.SURVIVORS)
    for messages, step in ((sent.signatures, RoundStep.SIGNATURES), (sent.unmasking, RoundStep.END)):
        for member, message in messages.items():
            await hosted.receive(f"party-{member}", message)
        await told(hosted, step)
    return await running


async def test_a_vector_whose_call_breaks_off_and_is_repeated_is_in_the_sum_once(sent, monkeypatch):
    additions = SlowAdditions(monkeypatch, member=1)
    hosted, running = await hosted_up_to_the_vectors(sent)
    broken = asyncio.create_task(hosted.receive("party-1", sent.masked[1]))
    await asyncio.to_thread(additions.has_begun.wait, PATIENCE_S)
    broken.cancel()
    calls = [asyncio.create_task(hosted.receive(f"party-{m}", sent.masked[m])) for m in sent.masked]
    for _ in range(10):
        await asyncio.sleep(0)
        broken.cancel()
    assert not broken.done()  # or the others would be added beside it
    additions.may_end.set()
    await asyncio.gather(*calls)
    with pytest.raises(asyncio.CancelledError):
        await broken
    result = await opened(hosted, running, sent)
    assert additions.most_at_once == 1
    assert np.array_equal(result.integers(), exact_sum(sent.members))


async def test_a_stage_is_over_when_the_last_message_was_taken_though_its_call_broke_off(sent, monkeypatch):
    additions = SlowAdditions(monkeypatch, member=5)
    hosted, running = await hosted_up_to_the_vectors(sent)
    for member in (1, 2, 3, 4):
        await hosted.receive(f"party-{member}", sent.masked[member])
    broken = asyncio.create_task(hosted.receive("party-5", sent.masked[5]))
    await asyncio.to_thread(additions.has_begun.wait, PATIENCE_S)
    broken.cancel()
    await asyncio.sleep(0)
    additions.may_end.set()
    result = await opened(hosted, running, sent)
    assert result.survivors == (1, 2, 3, 4, 5)
    assert np.array_equal(result.integers(), exact_sum(sent.members))


DEVICE, PARTY = (Identity("walkers", role, "party-1") for role in (Role.DEVICE, Role.PARTY))
DEVICE_6 = Identity("walkers", Role.DEVICE, "party-6")
NO_ROUND = RoundId("", 0, 0)


async def test_a_caller_is_its_role_and_its_name(sent):
    rounds = HostedRounds([PARTY])
    hosted = HostedRound(sent.config, PUBLIC_INPUT, STAGE_S)
    running = asyncio.create_task(rounds.run(hosted))
    await asyncio.sleep(0)
    advertisement, round_id = sent.advertisements[1], sent.config.round_id
    for stranger in (DEVICE, Identity("walkers", Role.PARTY, "party-2"), Identity("runners", Role.PARTY, "party-1")):
        with pytest.raises(NotAllowedError, match=f"{stranger} is not a member of the masked sums of this coordinator"):
            rounds.longest_answer_bytes(stranger)
        with pytest.raises(NotAllowedError, match="is not a member"):
            await rounds.receive(stranger, advertisement)
        for step in (RoundStep.INVITATION, RoundStep.MEMBERS):
            with pytest.raises(NotAllowedError, match="is not a member"):
                await rounds.wait(stranger, round_id, step, 0.0)
            with pytest.raises(NotAllowedError, match="is not a member"):
                rounds.due(stranger, round_id, step)
    await rounds.receive(PARTY, advertisement)
    assert (await invitation(rounds, NO_ROUND)).round_id == round_id
    running.cancel()


async def test_a_round_waits_where_too_many_run_as_its_members_may_have_paid_for_those_before_it(sent, monkeypatch):
    monkeypatch.setattr("coordinator.sums.rounds.MAX_ROUNDS", 1)
    rounds = HostedRounds([PARTY])
    next_id = RoundId("of the same series", 1, 0)
    first, second = (
        asyncio.create_task(rounds.run(HostedRound(config, PUBLIC_INPUT, STAGE_S)))
        for config in (sent.config, make_config(round_id=next_id))
    )
    invited = await invitation(rounds, NO_ROUND)
    assert invited.round_id == sent.config.round_id
    with pytest.raises(TooMuchError, match="1 masked sums run here already"):
        rounds.check_room()
    assert not second.done()
    first.cancel()
    invited = await invitation(rounds, sent.config.round_id)
    assert invited.round_id == next_id
    second.cancel()


async def test_an_answer_may_be_as_long_as_the_longest_round_of_its_sender_needs():
    rounds = HostedRounds([PARTY, DEVICE_6])
    short, long, longest = (
        HostedRound(make_config(n, length, round_id=RoundId(f"of {length}", 0, 0)), PUBLIC_INPUT, STAGE_S)
        for n, length in ((5, 12), (5, 5000), (6, 800_000))
    )
    running = []
    for hosted, caller in ((short, PARTY), (long, PARTY), (longest, DEVICE_6)):
        with pytest.raises(
            NotFoundError,
            match="this coordinator has no round of party-6: the round has ended, or the coordinator was restarted",
        ):
            rounds.longest_answer_bytes(DEVICE_6)
        running.append(asyncio.create_task(rounds.run(hosted)))
        await asyncio.sleep(0)
        assert rounds.longest_answer_bytes(caller) == hosted.longest_answer_bytes
    assert short.longest_answer_bytes < long.longest_answer_bytes < 20_000 < longest.longest_answer_bytes
    for task in running:
        task.cancel()


async def test_who_waits_is_woken_once_whatever_others_say(sent, monkeypatch):
    """Members that wait for the list look at what is due once, when it is there, however many answer meanwhile."""
    looks, due = [], HostedRound.due

    def counted(self, name, step):
        looks.append(name)
        return due(self, name, step)

    monkeypatch.setattr(HostedRound, "due", counted)
    hosted = HostedRound(sent.config, PUBLIC_INPUT, STAGE_S)
    running = asyncio.create_task(hosted.run())
    await hosted.receive("party-1", sent.advertisements[1])
    waiting = asyncio.create_task(told(hosted, RoundStep.MEMBERS))
    for member in (2, 3, 4, 5):
        await hosted.receive(f"party-{member}", sent.advertisements[member])
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        assert await waiting == sent.member_list
    assert looks == ["party-1"]
    running.cancel()
