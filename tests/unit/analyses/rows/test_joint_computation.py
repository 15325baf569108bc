"""A party that drops_out once its input is with the others takes nothing along: neither its noise nor its word."""

import asyncio
from collections import Counter
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from job_builders import make_schema

from analyses.job.job import Job
from analyses.job.plan import OPENING_STAGE
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids
from analyses.registry import analysis_of
from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.errors import PeerError
from mpc.local.network import LocalNetwork
from mpc.protocol.session import COORDINATOR
from party.gate import COMMIT_STAGE, GatedSession

ROWS = 12
IDS = digest_of_ids(str(i) for i in range(ROWS))
BEFORE_INPUT = ("keys", "key confirmation", "row count", "row ids")
ANALYSES = {
    "pca": {"components": 1, "max_rows": 1000},
    "moments": {"order": 3, "max_rows": 1000},
    "pattern-count": {"max_rows": 1000},
    "clustering": {"k": 2, "max_rows": 1000},
}
RESULTS = {"pca": "eigenvalues", "moments": "moment", "pattern-count": "counts", "clustering": "weights"}


class Network(LocalNetwork):
    """Whoever is killed stops at once: what only the dead would wait for takes no time."""

    def __init__(self, names, **options):
        super().__init__(names, **options)
        self.when_killed = {}

    def kill(self, member):
        super().kill(member)
        asyncio.get_running_loop().call_soon(self.when_killed[member])


class Setting:
    """A job of N compute parties, the first of which bring a column of integers 0 .. 3; every party has a gate."""

    def __init__(self, analysis, n_parties, *, n_owners=3):
        self.names = {COORDINATOR: "main", **{i: f"p{i}" for i in range(1, n_parties + 1)}}
        members = [self.names[i] for i in range(1, n_parties + 1)]
        self.job = Job.model_validate(
            {
                "analysis": analysis,
                "inputs": [{"party": name, "table": "people"} for name in members[:n_owners]],
                "compute": members,
                "colluding": 1,
                "privacy": {"epsilon": 8.0, "delta": 1e-5},
                "parameters": ANALYSES[analysis],
            }
        )
        rng = np.random.default_rng(7)
        codes = {"columns": (ColumnSchema(name="code", lower=0.0, upper=3.0),)}
        self.tables = {
            name: Table(make_schema(name).model_copy(update=codes), rng.integers(0, 4, (ROWS, 1)).astype(float), IDS)
            for name in members[:n_owners]
        }
        schemas = [self.tables[m].schema if m in self.tables else BlockSchema(party=m) for m in self.job.members]
        self.analysis = analysis_of(self.job)
        self.plan = self.analysis.plan(self.job, schemas)

    async def run(self, fault=lambda network, message: (message,)):
        network = Network(self.names, deadline_s=5.0, entropy_of=lambda m: InsecureTestEntropy(f"member {m}"))
        network.fault = partial(fault, network)

        async def party(session):
            running = asyncio.ensure_future(run_party(session))
            network.when_killed[session.me] = running.cancel
            with suppress(asyncio.CancelledError):
                await running

        async def run_party(session):
            gated = GatedSession.of_plan(session, self.plan, commit=lambda: None)
            await self.analysis.party(gated, self.plan, self.tables.get(self.names[session.me]))
            await gated.open()

        work = dict.fromkeys(list(self.names)[1:], party)
        work[COORDINATOR] = lambda session: self.analysis.coordinator(session, self.plan)
        return await network.run(work), network


def is_needed(message, dropouts):
    """Whether the others need a message of those who drop out: their keys, noise and columns, and that they pay."""
    stage, needed = message.stage, (*BEFORE_INPUT, "noise", "table", "centres", COMMIT_STAGE)
    is_input = stage.startswith(needed) or stage.endswith("/input")
    return is_input and message.sender in dropouts and message.receiver not in dropouts


def dropouts(clean, members, n_later):
    """Kill members so many messages of anybody after the last one that the others need of them."""
    left = Counter(message.sender for message in clean.transcript if is_needed(message, members))
    later = dict.fromkeys(members, n_later)

    def fault(network, message):
        for member in members:
            if left[member] == 0 and member not in network.lost:
                later[member] -= 1
                if later[member] < 0:
                    network.kill(member)
        if message.sender in network.lost:
            return ()
        left[message.sender] -= is_needed(message, members)
        return (message,)

    return fault


@pytest.mark.parametrize("analysis", ANALYSES)
@pytest.mark.parametrize(("n_parties", "lost"), [(4, (1,)), (4, (4,)), (5, (2,)), (5, (1, 5))])
async def test_a_party_killed_at_any_message_after_its_input_does_not_change_the_result(analysis, n_parties, lost):
    setting = Setting(analysis, n_parties)
    right, clean = await setting.run()
    key = RESULTS[analysis]
    assert not isinstance(right[COORDINATOR], Exception), right
    n_killed = 0
    for n_later in (0, 2, 5, 13):
        results, network = await setting.run(dropouts(clean, lost, n_later))
        n_killed += network.lost.keys() == set(lost)
        assert not isinstance(results[COORDINATOR], Exception), (n_later, results)
        assert results[COORDINATOR][key] == right[COORDINATOR][key]
        assert all(results[member] is None for member in results if member not in (COORDINATOR, *lost))
    assert n_killed >= 2


async def test_with_2t_plus_1_parties_all_are_needed_and_nobody_commits_before_the_opening():
    setting = Setting("pca", 3)
    _, clean = await setting.run()
    stages = [message.stage for message in clean.transcript]
    assert stages.index(COMMIT_STAGE) > max(i for i, stage in enumerate(stages) if stage == "table")
    commits = asyncio.Event()

    def fault(network, message):
        if message.stage == COMMIT_STAGE and message.sender == 2:
            commits.set()
            network.kill(2)
        return () if message.sender in network.lost else (message,)

    results, _ = await setting.run(fault)
    assert commits.is_set()
    assert isinstance(results[COORDINATOR], PeerError)


@pytest.mark.parametrize("liar", [1, 5])
async def test_who_sends_a_wrong_share_of_a_pca_is_corrected_and_named(liar):
    setting = Setting("pca", 5)
    right, _ = await setting.run()
    field = ResidueField(setting.plan.n_primes)

    def fault(network, message):
        if (message.sender, message.stage) != (liar, OPENING_STAGE):
            return (message,)
        one = field.encode(np.ones(message.array.shape[1:], dtype=np.int64))
        return (message.altered(field.add(message.array, one)),)

    results, network = await setting.run(fault)
    assert results[COORDINATOR] == {**right[COORDINATOR], "wrong_shares_from": [f"p{liar}"]}
    assert [(who, whom, stage) for who, whom, stage, _ in network.accusations] == [(COORDINATOR, liar, OPENING_STAGE)]
