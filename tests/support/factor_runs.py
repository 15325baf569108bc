"""Runs of a matrix factorization in one process, on made-up tables: with losses, and with a coordinator that lies."""

import numpy as np
from rating_jobs import PARTIES, horizontal_tables, job_of, vertical_tables
from virtual_time import run_in_virtual_time

from analyses.matrix_factorization import protocol
from analyses.run_locally import local_network, run_plan
from analyses.sums.sessions.session_series import ANNOUNCEMENT_STAGE
from entropy import InsecureTestEntropy
from mpc.protocol.session import COORDINATOR
from mpc.secagg.stage import Stage
from party.gate import GatedSession

FOUR = (*PARTIES, "west")
STAGES = (Stage.ADVERTISE, Stage.SHARE, Stage.MASK, Stage.AGREE, Stage.UNMASK)


def planned(parties=FOUR, parameters=None, **changes):
    parameters = parameters or {"rank": 2, "rounds": 2}
    tables = (vertical_tables if "setting" in parameters else horizontal_tables)(parties)
    job = job_of(parties, colluding=1, parameters=parameters, deadline_s=600.0, **changes)
    return protocol.plan(job, [tables[name].schema for name in job.members]), tables


def run_with(plan, tables, fault=lambda message: (message,), parts=None):
    network = local_network(
        plan, entropy_of=lambda member: InsecureTestEntropy(f"{member}"), fault=fault, deadline_s=600.0
    )
    return run_in_virtual_time(run_plan(plan, tables, network, analysis=protocol.ANALYSIS, parts=parts or {}))


def through_the_gate(plan, tables, commits):
    """Parts of parties that run through their gate, which notes the name of who commits."""

    def part_of(name):
        async def part(session):
            gated = GatedSession.of_plan(session, plan, commit=lambda: commits.append(name))
            report = await protocol.party(gated, plan, tables[name])
            await gated.open()
            return report

        return part

    return {number: part_of(name) for number, name in enumerate(PARTIES, 1)}


class DrawsPastTheGate:
    """The gate of a party that draws some noise itself: of releases that `is_skipped` says."""

    def __init__(self, gate, is_skipped):
        self.gate, self.is_skipped = gate, is_skipped

    def __getattr__(self, name):
        return getattr(self.gate, name)

    async def draw(self, release, *args):
        if not self.is_skipped(release):
            return await self.gate.draw(release, *args)
        return release.draw(InsecureTestEntropy("past the gate"), *args)


def run_past_the_gate(plan, tables, is_skipped):
    """Run a job whose first party draws some noise past its gate."""

    async def part(session):
        gate = GatedSession.of_plan(session, plan, commit=lambda: None)
        seen = DrawsPastTheGate(gate, is_skipped) if session.me == 1 else gate
        return await protocol.party(seen, plan, tables[PARTIES[session.me - 1]])

    return run_with(plan, tables, parts=dict.fromkeys((1, 2, 3), part))


class Lost:
    """Loses a member for good when it says something at a stage of a round."""

    def __init__(self, member, stage, number):
        self.member, self.at, self.is_lost = member, f"{stage}, round {number}, attempt 0", False

    def __call__(self, message):
        if message.sender == self.member and message.stage == self.at:
            self.is_lost = True
        return () if self.is_lost and message.sender == self.member else (message,)


class Retold:
    """Changes what the coordinator broadcasts before a round, to one member or to all."""

    def __init__(self, plan, number, members, change):
        self.plan, self.number, self.members, self.change = plan, number, members, change
        self.n_told = dict.fromkeys(members, 0)

    def __call__(self, message):
        told = (message.sender, message.stage) == (COORDINATOR, ANNOUNCEMENT_STAGE) and message.receiver in self.members
        if told and message.array.size == self.plan.broadcast.n_bytes:
            self.n_told[message.receiver] += 1
            if self.n_told[message.receiver] == self.number:
                changed = np.frombuffer(self.change(message.array.tobytes()), dtype=np.uint8)
                return (message.altered(changed),)
        return (message,)


def one_more(data):
    return data[:-4] + (int.from_bytes(data[-4:], "little") ^ 1).to_bytes(4, "little")
