"""`GrpcSession` between members over mutual TLS on loopback."""

import asyncio
import contextlib
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from deadlines import GENEROUS_S
from mailbox_federation import running_federation

import party.jobs
import transport.messages.session
from mpc.errors import LocalFaultError, PeerLostError, PeerSilentError, PeerViolationError
from mpc.protocol.session import Session
from service.errors import WrongStateError
from service.limits import LIMITS
from transport.messages.frames import DELIVER, part_of, read_frame
from transport.messages.outlet import Outlet

PEER = Path(__file__).parent.parent / "support" / "mailbox_peer.py"
MB = 1 << 20


async def until_waiting(federation, number, n_bytes):
    """Wait until arrays of so many bytes have arrived at a member and not been taken."""
    async with asyncio.timeout(GENEROUS_S):
        while federation.members[number].inbox.waiting_bytes < n_bytes:  # noqa: ASYNC110 - an inbox tells nobody
            await asyncio.sleep(0.01)


async def send_many(session, n_arrays):
    """Send arrays of 8 MB to party 2 in stage s."""
    for _ in range(n_arrays):
        await session.send(2, "s", words(MB))


def words(n_words, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, n_words, dtype=np.uint64, endpoint=False)


@contextlib.asynccontextmanager
async def peer_process(federation, mode):
    """Run party 2 in a process of its own; yield it and the first line that it says."""
    first = federation.members[1]
    arguments = [str(federation.folder / "party-party-2"), mode, f"127.0.0.1:{first.port}", first.identity.uri]
    process = await asyncio.create_subprocess_exec(sys.executable, PEER, *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        yield process, (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_three_members_exchange_arrays_of_several_megabytes(tmp_path):
    sent = {i: words(5 * MB // 8 + i, seed=i) for i in range(3)}

    async def take_part(session: Session, me: int):
        others = [i for i in range(3) if i != me]
        for block in range(3):
            for to in others:
                await session.send(to, "deal", sent[me] + np.uint64(block))
            for sender in others:
                got = await session.receive(sender, "deal", sent[sender].shape)
                assert np.array_equal(got, sent[sender] + np.uint64(block))
        await session.finish()

    async with running_federation(tmp_path, 2) as federation:
        sessions = {i: federation.session(i) for i in range(3)}
        await asyncio.gather(*(take_part(sessions[i], i) for i in range(3)))
        assert sessions[1].bytes_sent == {"deal": 2 * 3 * sent[1].nbytes}
        assert sessions[1].bytes_received == {"deal": 3 * (sent[0].nbytes + sent[2].nbytes)}


async def test_every_shape_and_type_arrives_as_it_was_sent(tmp_path):
    arrays = [
        np.array(7, np.uint8),
        np.zeros((0, 5), np.uint64),
        words(12).reshape(3, 4).T,
        np.arange(256, dtype=np.uint8),
        words(3 * MB // 8 + 1),
    ]
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        for array in arrays:
            await one.send(2, "s", array)
        for array in arrays:
            got = await two.receive(1, "s", array.shape, array.dtype.type)
            assert got.dtype == array.dtype
            assert np.array_equal(got, array)


async def test_an_array_may_be_overwritten_once_send_returns(tmp_path):
    array = words(4 * MB // 8)
    original = array.copy()
    async with running_federation(tmp_path, 2) as federation:
        await federation.session(1).send(2, "s", array)
        array[:] = 0
        assert np.array_equal(await federation.session(2).receive(1, "s", array.shape), original)


async def test_concurrent_sends_of_one_stage_do_not_mix(tmp_path):
    arrays = [np.full(MB // 2, i, dtype=np.uint64) for i in range(4)]
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        sending = asyncio.gather(*(one.send(2, "s", array) for array in arrays))
        got = [await two.receive(1, "s", (MB // 2,)) for _ in arrays]
        await sending
    assert [np.unique(array).tolist() for array in got] == [[0], [1], [2], [3]]


async def test_more_stages_than_calls_are_sent_and_come_back_to_an_earlier_one(tmp_path, monkeypatch):
    monkeypatch.setattr(transport.messages.session, "MAX_CALLS", 8)
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        for again in range(2):
            for i in range(40):
                await one.send(2, f"round {i}", words(5, seed=i + 100 * again))
            for i in range(40):
                assert np.array_equal(await two.receive(1, f"round {i}", (5,)), words(5, seed=i + 100 * again))
        await one.finish()


async def test_a_new_stage_looks_at_few_of_the_stages_before_it(tmp_path, monkeypatch):
    looked_at = 0

    class Counted(Outlet):
        @property
        def is_busy(self):
            nonlocal looked_at
            looked_at += 1
            return super().is_busy

    monkeypatch.setattr("transport.messages.outlets.Outlet", Counted)
    n_stages = 600
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        for step in range(n_stages):
            await one.send(2, f"step {step}", words(300, seed=step))
            assert np.array_equal(await two.receive(1, f"step {step}", (300,)), words(300, seed=step))
        assert 0 < looked_at < 3 * transport.messages.session.MAX_STAGES_PER_MEMBER * n_stages
        await one.finish()


async def test_streams_that_jobs_keep_open_for_later_do_not_take_the_turns_of_others(tmp_path):
    """As many jobs as a party holds, each of which has more streams at once than it keeps open.

    Their service reads fewer streams of one sender at the same time than all of these. Where senders left them all
    open, later ones would wait for ever.
    """
    n_stages = 24
    reads_each = LIMITS[DELIVER].reads_each
    assert party.jobs.MAX_JOBS * n_stages > reads_each
    assert reads_each > party.jobs.MAX_JOBS * (transport.messages.session.MAX_STAGES_PER_MEMBER + 1)
    async with running_federation(tmp_path, 2) as federation:

        async def run(job_id):
            one, two = (federation.session_of(job_id, number) for number in (1, 2))
            for again in range(2):
                sending = asyncio.gather(*(one.send(2, f"s{i}", words(9, seed=i + again)) for i in range(n_stages)))
                for i in range(n_stages):
                    assert np.array_equal(await two.receive(1, f"s{i}", (9,)), words(9, seed=i + again))
                await sending
            await begun.wait()
            await one.send(2, "last", words(9))
            await two.receive(1, "last", (9,))
            await one.finish()

        begun = asyncio.Barrier(party.jobs.MAX_JOBS)
        async with asyncio.timeout(GENEROUS_S):
            await asyncio.gather(*(run(f"job-{n}0") for n in range(party.jobs.MAX_JOBS)))


async def test_a_stage_that_has_ended_keeps_no_call(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        for step in range(40):
            await one.send(2, f"step {step}", words(300))
            await two.receive(1, f"step {step}", (300,))
        await one.finish()
        outlets = one._outlets[2]._all()
        assert len(outlets) == 40
        assert not any(outlet._call or outlet._ending for outlet in outlets)


async def test_a_stage_that_was_ended_for_others_continues_once_it_is_acknowledged(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        await send_many(one, 4)  # the receiver has no room for more in this stage
        await one.send(2, "s", words(5, seed=5))
        for i in range(20):
            await one.send(2, f"other {i}", words(300))
        again = asyncio.create_task(one.send(2, "s", words(6, seed=6)))
        await asyncio.sleep(0.1)
        assert not again.done()
        for _ in range(4):
            await two.receive(1, "s", (MB,))
        assert np.array_equal(await two.receive(1, "s", (5,)), words(5, seed=5))
        assert np.array_equal(await two.receive(1, "s", (6,)), words(6, seed=6))
        await again
        await one.finish()


async def test_a_sender_waits_while_the_receiver_takes_nothing(tmp_path):
    block = words(8 * MB // 8)
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        sent = 0

        async def send_all():
            nonlocal sent
            for _ in range(16):  # 128 MB
                await one.send(2, "s", block)
                sent += 1

        sending = asyncio.create_task(send_all())
        await until_waiting(federation, 2, 32 * MB)
        await asyncio.sleep(0.5)  # more would come by then
        waiting_bytes = federation.members[2].inbox.waiting_bytes
        assert waiting_bytes == 32 * MB
        assert sent <= 7  # four wait; gRPC's window and buffers were seen to hold up to two more on a busy machine
        for _ in range(16):
            assert np.array_equal(await two.receive(1, "s", block.shape), block)
        await sending


async def test_a_receiver_that_never_takes_anything_is_reported_as_silent(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        await federation.connected(1, 2)
        one = federation.session(1, deadline_s=0.5)
        with pytest.raises(PeerSilentError, match=r"party-2 took nothing for 0\.5 s in stage s") as caught:
            await send_many(one, 10)
    assert (caught.value.member, caught.value.stage) == (2, "s")


async def test_a_silent_peer_is_named_within_the_deadline(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        begun_s = time.monotonic()
        with pytest.raises(PeerSilentError, match=r"party-2 sent nothing for 0\.5 s in stage deal"):
            await federation.session(1, deadline_s=0.5).receive(2, "deal", (3,))
        assert time.monotonic() - begun_s > 0.4


async def test_a_sender_killed_in_the_middle_of_an_array_is_lost_at_once(tmp_path):
    async with running_federation(tmp_path, 2) as federation, peer_process(federation, "HALF") as (process, said):
        assert said == "half"
        waiting = asyncio.create_task(federation.session(1, deadline_s=GENEROUS_S).receive(2, "deal", (1 << 18,)))
        await asyncio.sleep(0.1)
        process.kill()
        with pytest.raises(PeerLostError, match="party-2 has dropped out: its connection broke in stage deal"):
            await waiting  # a deadline that passed would be another error


async def test_a_receiver_killed_while_we_send_is_lost_for_all_who_wait_for_it(tmp_path):
    async with running_federation(tmp_path, 2) as federation, peer_process(federation, "SERVE") as (process, port):
        federation.members[2].port = int(port)
        one = federation.session(
            1, deadline_s=GENEROUS_S, channels={2: federation.dial(2, federation.members[1].credentials)}
        )

        async def send_for_ever():
            while True:
                await one.send(2, "deal", words(MB))

        sending, waiting = asyncio.create_task(send_for_ever()), asyncio.create_task(one.receive(2, "open", (3,)))
        async with asyncio.timeout(GENEROUS_S):
            while not one.bytes_sent.get("deal"):  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.01)
        process.kill()
        with pytest.raises(PeerLostError, match="cannot send to party-2 in stage deal: it closed the connection"):
            await asyncio.wait_for(sending, GENEROUS_S)
        with pytest.raises(PeerLostError, match="party-2 has dropped out"):
            await asyncio.wait_for(waiting, GENEROUS_S)
        with pytest.raises(PeerLostError, match="party-2 has dropped out"):
            await one.send(2, "later", words(3))


async def test_a_server_told_to_stop_ends_with_status_0(tmp_path):
    async with running_federation(tmp_path, 2) as federation, peer_process(federation, "SERVE") as (process, _):
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), GENEROUS_S) == 0


async def test_gather_goes_on_without_a_silent_member_where_the_quorum_answered(tmp_path):
    async with running_federation(tmp_path, 3) as federation:
        hub = federation.session(0, deadline_s=0.7)
        for i in (1, 3):
            await federation.session(i).send(0, "open", words(4, seed=i))
        await until_waiting(federation, 0, 2 * 4 * 8)
        arrays = await hub.gather([1, 2, 3], "open", (4,), quorum=2)
        assert list(arrays) == [1, 3]
        assert all(np.array_equal(array, words(4, seed=i)) for i, array in arrays.items())
        two = federation.session(2)
        await two.send(0, "open", words(4, seed=2))  # the answer to a question that is over
        with pytest.raises(PeerLostError, match="party-2 sent nothing"):
            await hub.receive(2, "open", (4,))
        await two.send(0, "next", words(4, seed=3))
        await until_waiting(federation, 0, 4 * 8)
        assert np.array_equal(await hub.receive(2, "next", (4,)), words(4, seed=3))


async def test_a_party_that_answers_after_the_deadline_is_heard_by_who_asks_again(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one = federation.session(1, deadline_s=0.2)
        with pytest.raises(PeerSilentError):
            await one.receive(2, "deal", (4,))
        await federation.session(2).send(1, "deal", words(4, seed=5))
        await until_waiting(federation, 1, 4 * 8)
        assert np.array_equal(await one.receive(2, "deal", (4,)), words(4, seed=5))
        one._deadline_s = GENEROUS_S  # a slow machine needs longer for its first message
        await one.send(2, "answer", words(4))


async def test_a_member_that_took_nothing_for_the_deadline_counts_as_lost_on_both_sides(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        await federation.connected(1, 2)
        one, two = federation.session(1, deadline_s=0.5), federation.session(2, deadline_s=GENEROUS_S)
        with pytest.raises(PeerSilentError):
            await send_many(one, 10)
        with pytest.raises(PeerLostError, match="took nothing"):
            await one.send(2, "later", words(3))

        async def receive_for_ever():
            while True:
                await two.receive(1, "s", (MB,))

        with pytest.raises(PeerLostError, match="its connection broke"):
            await receive_for_ever()


async def test_gather_fails_at_once_where_too_many_are_lost(tmp_path):
    async with running_federation(tmp_path, 3) as federation:
        hub = federation.session(0, deadline_s=GENEROUS_S)
        gathering = asyncio.create_task(hub.gather([1, 2, 3], "open", (4,), quorum=2))
        await asyncio.sleep(0.05)
        hub.mark_lost(3, "it was killed")
        await asyncio.sleep(0.05)
        assert not gathering.done()
        hub.mark_lost(1, "it was killed")
        with pytest.raises(PeerLostError, match=r"party-[13] has dropped out: it was killed"):
            await asyncio.wait_for(gathering, GENEROUS_S)


async def test_gather_that_failed_leaves_what_came_for_the_next_question(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        hub = federation.session(0, deadline_s=0.3)
        await federation.session(1).send(0, "a", words(4, seed=1))
        with pytest.raises(PeerSilentError):
            await hub.gather([1, 2], "b", (4,), quorum=2)
        assert np.array_equal(await hub.receive(1, "a", (4,)), words(4, seed=1))


async def test_wrong_calls_are_our_own_fault(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one = federation.session(1)
        with pytest.raises(LocalFaultError, match="member 1 is not one"):
            await one.send(1, "s", words(3))
        with pytest.raises(LocalFaultError, match="member 7 is not one"):
            await one.receive(7, "s", (3,))
        with pytest.raises(
            LocalFaultError, match="stage s: a message must be an array of uint8 or uint64, not of float64"
        ):
            await one.send(2, "s", np.zeros(3))
        with pytest.raises(LocalFaultError, match="a quorum of 3 is larger than the number of senders, 2"):
            await one.gather([0, 2], "s", (3,), quorum=3)
        await one.send(2, "s", words(3))  # the stream is still well
        await federation.session(2).receive(1, "s", (3,))


async def sent_and_finished(session, to, stage, message):
    await session.send(to, stage, message)
    await session.finish()


async def test_another_shape_than_expected_is_the_sender_s_violation_on_both_sides(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        waiting = asyncio.create_task(two.receive(1, "s", (4,)))
        await asyncio.sleep(0.05)
        with pytest.raises(
            PeerLostError, match="cannot send to party-2 in stage s: party-1 sent an array of another shape"
        ):
            await sent_and_finished(one, 2, "s", words(5))  # refused at its header, perhaps before all of it is sent
        with pytest.raises(
            PeerViolationError, match="party-1 sent an array of another shape or type than stage s expects"
        ):
            await waiting


async def test_finish_tells_whether_everything_was_taken(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        await one.send(2, "a", words(3))
        await two.receive(1, "a", (3,))
        federation.members[2].mailboxes.close("job-1")  # party 2 has all it needs, before we say that we are done
        await one.finish()


async def test_finish_fails_where_the_receiver_ended_before_it_took_everything(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one = federation.session(1)
        await one.send(2, "a", words(3))
        await until_waiting(federation, 2, 3 * 8)
        federation.members[2].mailboxes.close("job-1")
        with pytest.raises(PeerLostError, match="party-2 in stage a: it ended the job before it took all that we sent"):
            await one.finish()


async def test_what_comes_after_an_orderly_end_is_read_and_thrown_away(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        await one.send(2, "a", words(300))
        await two.receive(1, "a", (300,))
        federation.members[2].mailboxes.close("job-1")
        await asyncio.sleep(0.1)
        for _ in range(3):
            await one.send(2, "a", words(MB))
        with pytest.raises(PeerLostError, match="it ended the job before it took all that we sent"):
            await one.finish()


async def test_the_reason_of_a_failed_job_reaches_those_who_send_to_it(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one = federation.session(1)
        await one.send(2, "a", words(3))
        federation.members[2].mailboxes.close("job-1", "its owner cancelled the job")
        with pytest.raises(PeerLostError, match=r"cannot send to party-2 in stage a: .*its owner cancelled the job"):
            await one.finish()


async def test_abort_ends_everything_that_waits(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1, deadline_s=GENEROUS_S), federation.session(2, deadline_s=GENEROUS_S)

        async def send_for_ever():
            while True:
                await one.send(2, "deal", words(MB))

        tasks = [
            asyncio.create_task(send_for_ever()),
            asyncio.create_task(one.receive(2, "a", (3,))),
            asyncio.create_task(two.receive(1, "a", (3,))),
        ]
        await until_waiting(federation, 2, 32 * MB)
        await asyncio.sleep(0.5)  # the sender waits for room by then
        await one.abort("the budget is exhausted")
        with pytest.raises(PeerLostError, match="we aborted the job: the budget is exhausted"):
            await asyncio.wait_for(tasks[0], GENEROUS_S)
        with pytest.raises(WrongStateError, match="the job has ended: the budget is exhausted"):
            await asyncio.wait_for(tasks[1], GENEROUS_S)
        with pytest.raises(PeerLostError, match="party-1 has dropped out"):
            await asyncio.wait_for(tasks[2], GENEROUS_S)
        with pytest.raises(LocalFaultError, match="aborted"):
            await one.send(2, "b", words(3))


async def test_a_send_given_up_half_way_loses_the_connection_for_that_stage_only_at_the_receiver(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        sending = asyncio.create_task(send_many(one, 9))
        await until_waiting(federation, 2, 4 * 8 * MB)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

        async def receive_all():
            for _ in range(9):
                await two.receive(1, "s", (MB,))

        with pytest.raises(PeerLostError, match="party-1 has dropped out: its connection broke in stage s"):
            await receive_all()


async def test_compute_runs_in_a_thread_and_leaves_the_loop_free(tmp_path):
    async with running_federation(tmp_path, 1) as federation:
        released = threading.Event()
        working = asyncio.create_task(federation.session(1).compute(lambda seconds: released.wait(seconds), 10.0))
        await asyncio.sleep(0.05)
        released.set()
        assert await working is True


async def test_progress_reaches_the_callback(tmp_path):
    async with running_federation(tmp_path, 1) as federation:
        federation.session(1).progress("deal", 1, 4)
        assert federation.members[1].progress == [("deal", 1, 4)]


@pytest.fixture
def messages(monkeypatch):
    """The kinds of all messages that arrive at mailboxes, in order."""
    kinds = []

    def read_and_note(data):
        frame = read_frame(data)
        kinds.append(part_of(frame))
        return frame

    monkeypatch.setattr("transport.messages.mailbox.read_frame", read_and_note)
    return kinds


async def test_small_first_arrays_share_a_stream_that_stays_open_to_the_end(messages, tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        for stage in ("a", "b", "c"):
            await one.send(2, stage, words(3, seed=3))
            assert np.array_equal(await two.receive(1, stage, (3,)), words(3, seed=3))
        assert messages == ["bundle", "first", "first"]  # the first of them with the envelope
        await one.finish()
        assert messages == ["bundle", "first", "first", "end"]


async def test_small_first_arrays_that_are_sent_together_travel_in_one_message(messages, tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        await asyncio.gather(*(one.send(2, f"stage {i}", words(60, seed=i)) for i in range(6)))
        for i in range(6):
            assert np.array_equal(await two.receive(1, f"stage {i}", (60,)), words(60, seed=i))
        await one.finish()
        assert messages == ["bundle", "bundle", "end"]  # of at most 2 KiB


async def test_further_small_arrays_of_a_stage_share_a_stream_with_one_message_each(messages, tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)
        for i in range(4):
            await one.send(2, "a", words(3, seed=i))
        for i in range(4):
            assert np.array_equal(await two.receive(1, "a", (3,)), words(3, seed=i))
        await one.finish()
        assert messages == ["bundle", "bundle", "bundle", "bundle", "end", "end"]


@pytest.mark.parametrize("lengths", [(3, MB, 3), (MB, 3, 3), (3, 3, MB), (0, 0)], ids=str)
async def test_arrays_of_a_stage_keep_their_order_whichever_way_they_take(lengths, tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1), federation.session(2)

        async def send(stage):
            for i, n in enumerate(lengths):
                await one.send(2, stage, words(n, seed=i))
            await one.finish()

        async def receive(stage):
            for i, n in enumerate(lengths):
                assert np.array_equal(await two.receive(1, stage, (n,)), words(n, seed=i))

        await asyncio.gather(send("a"), receive("a"))


async def test_a_small_array_passes_a_large_one_that_nobody_takes(tmp_path):
    async with running_federation(tmp_path, 2) as federation:
        one, two = federation.session(1, deadline_s=GENEROUS_S), federation.session(2, deadline_s=GENEROUS_S)
        blocked = asyncio.create_task(send_many(one, 20))
        await until_waiting(federation, 2, 32 * MB)
        await one.send(2, "small", words(3, seed=1))
        assert np.array_equal(await two.receive(1, "small", (3,)), words(3, seed=1))
        assert not blocked.done()
        blocked.cancel()
        await asyncio.wait((blocked,))
