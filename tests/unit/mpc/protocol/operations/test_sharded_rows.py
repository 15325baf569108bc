import asyncio

import numpy as np
import pytest

from mpc.errors import PeerError, PeerLostError, PeerSilentError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.operations import sharded_rows
from mpc.protocol.operations.sharded_rows import MAX_ATTEMPTS, MAX_WITHOUT_WORKER, ShardedRows
from mpc.protocol.shards import Shard, ShardSum, WorkerLostError

SHARDS = tuple(Shard(number, 10 * number, 10 * number + 10) for number in range(4))
MEMBERS = (1, 2, 3)


class ScriptedRun:
    """A run that fails as the script says, and returns (shard, attempt, member) instead of a share."""

    def __init__(self, workers, attempt):
        self.workers, self.attempt = workers, attempt

    def fault(self, when):
        return self.workers.script.get((when, self.attempt.shard.number, self.attempt.number))

    async def prepare(self):
        self.workers.prepared.append(self.attempt)
        if fault := self.fault("prepare"):
            raise fault
        return f"host-{self.workers.me}:{7000 + self.attempt.shard.number}"

    async def work(self, addresses):
        self.workers.addresses.append(addresses)
        await asyncio.sleep(0)
        if fault := self.fault("work"):
            raise fault
        words = np.array([[self.attempt.shard.number, self.attempt.number, self.workers.me]], dtype=np.uint64)
        return ShardSum(words, {"rows": self.attempt.shard.n_rows})

    async def abandon(self):
        self.workers.abandoned.append(self.attempt)


class ScriptedWorkers:
    def __init__(self, me, script=None, n_lanes=2):
        self.me, self.script, self.n_lanes = me, script or {}, n_lanes
        self.prepared, self.addresses, self.abandoned, self.counting = [], [], [], []

    def run_of(self, lane, attempt, counting):
        self.counting.append((attempt.shard.number, counting))
        return ScriptedRun(self, attempt)


async def run(scripts=None, counting=None, fault=None):
    network = LocalNetwork(local_names(3), deadline_s=5.0, **({"fault": fault} if fault else {}))
    workers = {member: ScriptedWorkers(member, (scripts or {}).get(member)) for member in MEMBERS}
    sums = {member: [] for member in MEMBERS}

    def part(member):
        async def take_part(session):
            sharded = ShardedRows(session, MEMBERS, workers[member])
            await sharded.sums(SHARDS, counting, lambda n_done, one: sums[member].append((n_done, one)))

        return take_part

    ends = await network.run({member: part(member) for member in MEMBERS})
    return ends, workers, sums


def kept(sums):
    """Member to the (shard, attempt) pairs that it was given."""
    return {m: sorted(tuple(part.share[0, :2].tolist()) for _, part in parts) for m, parts in sums.items()}


def everywhere(pairs):
    return dict.fromkeys(MEMBERS, pairs)


async def test_each_shard_is_summed_once_and_its_worker_knows_where_the_others_are():
    ends, workers, sums = await run()
    assert ends == dict.fromkeys(MEMBERS)
    assert kept(sums) == everywhere([(0, 0), (1, 0), (2, 0), (3, 0)])
    assert [n_done for n_done, _ in sums[1]] == [1, 2, 3, 4]
    assert workers[1].addresses[0] == {2: "host-2:7000", 3: "host-3:7000"}
    assert workers[1].abandoned == []


async def test_the_worker_gets_the_rows_that_count_of_its_shard():
    counting = np.arange(40) % 3 == 0
    _, workers, _ = await run(counting=counting)
    for number, rows in workers[2].counting:
        assert np.array_equal(rows, counting[10 * number : 10 * number + 10])


@pytest.mark.parametrize("when", ["prepare", "work"])
async def test_a_shard_whose_worker_is_lost_is_done_again_by_all_and_added_once(when):
    ends, workers, sums = await run({2: {(when, 1, 0): WorkerLostError("gone")}})
    assert ends == dict.fromkeys(MEMBERS)
    assert kept(sums) == everywhere([(0, 0), (1, 1), (2, 0), (3, 0)])
    attempts = [attempt for attempt in workers[1].prepared if attempt.shard.number == 1]
    assert [attempt.number for attempt in attempts] == [0, 1]
    assert len({attempt.session_id for attempt in attempts}) == len({attempt.terms for attempt in attempts}) == 2


async def test_a_shard_is_done_again_where_a_worker_lost_that_of_another_member():
    silent = PeerSilentError(3, "table", "party-3 sent nothing")
    _, _, sums = await run({1: {("work", 0, 0): silent}, 2: {("work", 0, 1): PeerLostError(1, "table", "gone")}})
    assert kept(sums) == everywhere([(0, 2), (1, 0), (2, 0), (3, 0)])


@pytest.mark.parametrize(("when", "n_attempts"), [("work", MAX_ATTEMPTS), ("prepare", MAX_WITHOUT_WORKER)])
async def test_a_lane_whose_workers_are_lost_again_and_again_is_left_to_the_members_themselves(when, n_attempts):
    """Lane 0 has shards 0 and 2, lane 1 has 1 and 3. A worker that cannot be had is not asked for as often."""
    network = LocalNetwork(local_names(3), deadline_s=5.0)
    script = {(when, 1, number): WorkerLostError("gone") for number in range(MAX_ATTEMPTS)}
    workers = {member: ScriptedWorkers(member, script if member == 2 else None) for member in MEMBERS}
    given_up, done = {}, {member: [] for member in MEMBERS}

    def part(member):
        async def take_part(session):
            sharded = ShardedRows(session, MEMBERS, workers[member])
            given_up[member] = await sharded.sums(SHARDS, None, lambda _, one: done[member].append((0, one)))

        return take_part

    ends = await network.run({member: part(member) for member in MEMBERS})
    assert ends == dict.fromkeys(MEMBERS)
    assert given_up == everywhere((SHARDS[1], SHARDS[3]))
    assert kept(done) == everywhere([(0, 0), (2, 0)])
    assert [one.number for one in workers[1].prepared if one.shard.number in (1, 3)] == list(range(n_attempts))


async def test_a_violation_is_not_tried_again():
    wrong = PeerViolationError(3, "table", "party-3 sent a value outside the field")
    ends, workers, _ = await run({1: {("work", 0, 0): wrong}})
    assert ends[1] is wrong
    assert isinstance(ends[2], PeerLostError)
    assert ends[2].member == 1
    assert [attempt.number for attempt in workers[1].prepared if attempt.shard.number == 0] == [0]


async def test_a_member_that_tells_two_members_different_ends_makes_the_job_fail():
    """Member 2 tells member 3, and nobody else, that its part of shard 3, the last one of its lane, was lost."""

    def lie(message):
        is_end = message.stage == f"{sharded_rows.SHARDS_STAGE}/1/ends" and message.array[7] == 3
        if (message.sender, message.receiver) == (2, 3) and is_end:
            message.array[-1] = sharded_rows.End.LOST
        return (message,)

    ends, _, _ = await run(fault=lie)
    assert isinstance(ends[1], PeerError)
    assert isinstance(ends[3], PeerError)


async def test_a_member_that_has_kept_another_attempt_is_found(monkeypatch):
    """Whatever let it come to that, nothing is added to what is opened."""
    compare = ShardedRows._compare

    async def of_another(self):
        if self._session.me == 3:
            self._kept[0] = 1
        await compare(self)

    monkeypatch.setattr(ShardedRows, "_compare", of_another)
    ends, _, _ = await run()
    assert [type(ends[member]) for member in MEMBERS] == [PeerViolationError] * 3
    assert ends[1].member == 3


async def test_what_runs_is_abandoned_when_the_job_ends():
    started = asyncio.Event()

    class Waiting(ScriptedRun):
        async def work(self, addresses):
            started.set()
            await asyncio.Event().wait()

    class WaitingWorkers(ScriptedWorkers):
        def run_of(self, lane, attempt, counting):
            return Waiting(self, attempt)

    network = LocalNetwork(local_names(3), deadline_s=5.0)
    workers = {member: WaitingWorkers(member) for member in MEMBERS}
    tasks = [
        asyncio.create_task(
            ShardedRows(network.session(m), MEMBERS, workers[m]).sums(SHARDS, None, lambda n_done, one: None)
        )
        for m in MEMBERS
    ]
    await started.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert workers[1].abandoned == [attempt for attempt in workers[1].prepared if attempt.number == 0] != []
