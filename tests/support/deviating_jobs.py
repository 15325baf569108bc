"""Jobs in which one member deviates once, by `deviating_member`, over the in-process network; and what became of them.

All others run what services run, behind their gates.
"""

import asyncio
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from deviating_member import SILENT_S, DeviatingSession, Point, points_of
from deviations import Case, noting_what_opens, plan_of, with_another_row
from virtual_time import run_in_virtual_time

from analyses.job.plan import Plan
from analyses.job.schema import Table
from analyses.registry import analysis_of
from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.errors import PeerViolationError, ProtocolError
from mpc.local.network import LocalNetwork, Message
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.greeting import DifferentTermsError
from mpc.protocol.session import COORDINATOR
from party.gate import GatedSession

MOST_DEADLINES = 16
"""Deadlines within which every member has ended, whatever one of them does: a series of masked sums waits in each round
for who is silent there."""

HONEST = Point("no stage", 0)


class DeviatedError(ProtocolError):
    """How the deviating member itself ended does not matter."""


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Attributes:
        opened: what the coordinator opened, array by array.
        ends: of all members.
        network: with its transcript.
        has_deviated: whether the member came as far as to deviate.
        seconds: of virtual time until the last one had ended.
        n_draws: how often the deviating member drew noise.
    """

    opened: list[np.ndarray]
    ends: dict[int, Any]
    network: LocalNetwork
    has_deviated: bool
    seconds: float
    n_draws: int


def run(plan: Plan, tables: dict[str, Table], liar: int, deviation: str = "", point: Point = HONEST) -> Outcome:
    """Run a job. All randomness of its members is that of every other run.

    Raises:
        Exception: what an honest member raised that no protocol declares, or RuntimeError if all wait for ever.
    """
    network = local_network(plan, deadline_s=SILENT_S, entropy_of=lambda m: InsecureTestEntropy(f"deviation {m}"))
    analysis, sessions = analysis_of(plan.job), []

    def part_of(member: int):
        async def part(session):
            if member == COORDINATOR:
                return await analysis.coordinator(session, plan)
            gated = GatedSession.of_plan(session, plan, commit=lambda: None)
            report = await analysis.party(gated, plan, tables.get(plan.job.members[member - 1]))
            await gated.open()
            return report

        return part

    async def deviating(session):
        sessions.append(DeviatingSession(session, deviation, point))
        try:
            return await part_of(liar)(sessions[0])
        except Exception as error:
            raise DeviatedError(str(error)) from error

    async def timed():
        parts = {member: part_of(member) for member in network.names} | {liar: deviating}
        return await run_plan(plan, tables, network, parts=parts), asyncio.get_running_loop().time()

    with noting_what_opens() as opened:
        ended, seconds = run_in_virtual_time(timed())
    (session,) = sessions
    return Outcome(opened, dict(ended.ends), network, session.has_deviated, seconds, session.n_drawn)


@dataclass(frozen=True, eq=False)
class DeviatingJob:
    """A job and the member that deviates in it.

    Attributes:
        case: what is asked.
        security: of the job.
        compute: parties without tables that compute; none if the owners do.
        colluding: t; 0 for what a job takes by itself.
        liar: number of the member.
    """

    case: Case
    security: str
    compute: tuple[str, ...]
    liar: int
    colluding: int = 0

    @cache  # noqa: B019 (jobs of tests live as long as the tests)
    def plan(self) -> Plan:
        more = {"colluding": self.colluding} if self.colluding else {}
        return plan_of(self.case, self.case.tables(), compute=self.compute, security=self.security, **more)

    @cache  # noqa: B019
    def honest(self, *, of_neighbours: bool = False) -> Outcome:
        """Return the run without a deviation."""
        ended = run(self.plan(), self._tables(of_neighbours), self.liar)
        failed = [end for end in ended.ends.values() if isinstance(end, Exception)]
        assert not failed, failed
        assert not ended.has_deviated
        return ended

    def _tables(self, of_neighbours: bool) -> dict[str, Table]:
        tables = self.case.tables()
        return with_another_row(tables, self.case) if of_neighbours else tables

    def points(self) -> list[Point]:
        honest = self.honest()
        return points_of(honest.network.transcript, self.liar, honest.n_draws)

    def deviating(self, deviation: str, point: Point, *, of_neighbours: bool = False) -> Outcome:
        return run(self.plan(), self._tables(of_neighbours), self.liar, deviation, point)

    def shift(self, ended: Outcome, *, of_neighbours: bool = False) -> list[np.ndarray] | None:
        """Return by how much what was opened is another than without the deviation, modulo Q; None if nothing was."""
        if not ended.opened:
            return None
        honest, order = self.honest(of_neighbours=of_neighbours).opened, ResidueField(self.plan().n_primes).order
        return [(found - right) % order for found, right in zip(ended.opened, honest, strict=False)]

    # -- verdicts --------------------------------------------------------------------------------------------------

    def check_end(self, ended: Outcome) -> None:
        """Nobody hangs or breaks: each honest member returns something or a declared error, in time."""
        assert ended.seconds <= MOST_DEADLINES * SILENT_S, ended.seconds

    def check_what_honest_members_send(self, ended: Outcome) -> None:
        """Nothing else leaves an honest member than in a run without a deviation: to whom, in which stage, how often.

        A proof that names the party whose products are wrong opens one array more, and a masked sum may begin anew:
        then the coordinator asks more often, but nobody answers twice with what opens it.
        """
        allowed = {_kind(message): message for message in self.honest().network.transcript}
        for message in ended.network.transcript:
            if message.sender == self.liar or message.stage.endswith("/proof opened"):
                continue
            assert _kind(message) in allowed, message
            if self.security == "malicious":  # who drops out of a masked sum is told in lists of other lengths
                due = allowed[_kind(message)].array
                assert (message.array.shape, message.array.dtype) == (due.shape, due.dtype), message

    def check_blame(self, ended: Outcome) -> None:
        """Whoever says that a member has broken the protocol means the one that has.

        Of two plans it says that the coordinator has shown them, "unless" the member "does not tell the truth". Of two
        tables it says that they differ, the first owner's and another: one of both is the liar's.
        """
        first = self.plan().owners[0]
        for member, end in ended.ends.items():
            if member != self.liar and isinstance(end, PeerViolationError) and not isinstance(end, DifferentTermsError):
                assert end.member == self.liar, (member, end)
            if member != self.liar and isinstance(end, UnequalValuesError):
                assert self.liar in {end.member, first}, (member, end)


def _kind(message: Message) -> tuple[int, int, str, int]:
    sequence = message.sequence if message.sender != COORDINATOR else 0
    return message.sender, message.receiver, re.sub(r", attempt \d+$", "", message.stage), sequence
