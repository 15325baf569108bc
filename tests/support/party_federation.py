"""Parties' jobs and their ledgers over one in-process network; the test plays the coordinator."""

import asyncio
from contextlib import aclosing

from job_builders import PARTIES
from ledgers import budget, ledger_in

from analyses.registry import analysis_of
from mpc.local.network import LocalNetwork, LocalSession
from mpc.protocol.greeting import binding_of
from mpc.protocol.session import COORDINATOR
from party.admission import Admission
from party.config import CoordinatorPin, PartyConfig
from party.consent import ConsentBox
from party.jobs import PartyJobs
from party.policy import Policy, Rules
from party.tables.config import TableConfig
from party.tables.table import TableError
from service.settings import TlsFiles

NAMES = dict(enumerate(PARTIES, start=1))
AUTOMATIC = Policy(automatic=Rules(max_epsilon_per_job=1e6), limits=Rules(withstand_coalition=1))


async def told_by(jobs, job_id):
    """Yield a job's events one by one, as one who listens to them gets them."""
    async with aclosing(jobs.run(job_id)) as some:
        async for events in some:
            for event in events:
                yield event


class EndableSession(LocalSession):
    """A session of the in-process network that notes how it was ended."""

    ended = None
    slow = None  # the member that it says it waits for

    def waits_for(self, least_s):
        return self.slow

    def waited_most_for(self):
        return self.slow

    def count_traffic(self, sent, received):
        """Nobody asks for it here."""

    async def finish(self):
        self.ended = "finished"

    async def abort(self, reason):
        self.ended = reason

    def on_violation(self, report):
        """Keep what is to be told where the coordinator breaks the protocol."""
        self.violated = report

    def hold(self, member):
        """The in-process network loses no connection."""

    async def begin_again(self, member):
        """Likewise: nothing was lost."""


class Federation:
    """Parties with budgets of epsilon 100.

    Args:
        tables: party to its table; the parties are numbered in this order.
        tmp_path: for their folders.
        deadline_s: of the network.
        policy: of all parties.
        with_budget: whether their tables have a budget.
        least_deadline_s: of all parties.
        engine: of all parties.
    """

    def __init__(
        self,
        tables,
        tmp_path,
        *,
        deadline_s=2.0,
        policy=AUTOMATIC,
        with_budget=True,
        least_deadline_s=0.01,
        engine=None,
    ):
        self.engine = engine
        self.least_deadline_s = least_deadline_s
        self.with_budget = with_budget
        self.policy = policy
        self.tables = tables
        self.names = dict(enumerate(tables, start=1))
        self.network = LocalNetwork({COORDINATOR: "main", **self.names}, deadline_s=deadline_s)
        self.sent = []  # (stage, receiver) of every message
        self.loaded = []  # parties whose table was read, in order
        self.network.fault = self._note
        self.reports, self.sessions, self.closed, self.ledgers = {}, {}, [], {}
        for name in ("ca", "own", "key"):
            (tmp_path / name).touch()
        tls = TlsFiles(certificate=tmp_path / "own", key=tmp_path / "key", authority=tmp_path / "ca")
        self.jobs = {name: self._jobs_of(name, tls, tmp_path) for name in tables}

    def _jobs_of(self, me, tls, folder):
        config = PartyConfig(
            name=me,
            federation="test",
            data_dir=folder,
            tls=tls,
            coordinator=CoordinatorPin(name="main", address="127.0.0.1:1"),
            peers={name: f"127.0.0.1:{port}" for port, name in enumerate(self.tables, start=2) if name != me},
            tables=(TableConfig(name="people", path=folder / "people.csv", bounds={"x0": (-1, 3), "x1": (-1, 3)}),),
            policy=self.policy,
            least_deadline_s=self.least_deadline_s,
        )
        (folder / me).mkdir()
        ledger = self.ledgers[me] = ledger_in(folder / me, party=me)
        if self.with_budget:
            ledger.set_budget("people", budget(100.0, delta=1e-5), "test")

        def describe(config, brought):
            if brought.table != "people":
                raise TableError(f"{me}: there is no table {brought.table!r}")
            return self.tables[me].schema

        def load(config, brought):
            self.loaded.append(me)
            return self.tables[me]

        def open_session(job_id, terms, number, names, deadline_s, on_progress):
            session = EndableSession(self.network, number)
            session.binding = binding_of(job_id, names, terms)
            session.progress = on_progress
            self.sessions[me] = session
            return session

        return PartyJobs(
            config,
            Admission(config, ledger, ConsentBox(folder / me)),
            describe_table=describe,
            load_table=load,
            accept_messages=lambda job_id, names: None,
            open_session=open_session,
            close_session=lambda job_id, reason: self.closed.append((me, reason)),
            write_report=lambda config, job_id, plan, report, elapsed_s: self.reports.__setitem__(me, report),
            engine=self.engine,
        )

    def _note(self, message):
        self.sent.append((message.stage, message.receiver))
        return (message,)

    async def propose(self, job, name=PARTIES[0], roster=None, job_id="job-1"):
        return await self.jobs[name].propose(job_id, job.canonical_json(), roster or self.names, "ada")

    async def reserve(self, job, *names, job_id="job-1"):
        """Take a job as far as its reservation; return its plan."""
        schemas = [await self.propose(job, name, job_id=job_id) for name in self.tables]
        plan = analysis_of(job).plan(job, schemas)
        for name in names or self.tables:
            assert [text async for text in self.jobs[name].reserve(job_id, schemas, plan.digest())] == []
        return plan

    async def run(self, job, job_id="job-1"):
        """Return the events of all parties and the coordinator's result."""
        plan = await self.reserve(job, job_id=job_id)

        async def events_of(name):
            return [event async for event in told_by(self.jobs[name], job_id)]

        session = self.network.session(COORDINATOR)
        session.binding = binding_of(job_id, self.network.names, plan.terms("ada"))
        coordinating = analysis_of(job).coordinator(session, plan)
        *events, result = await asyncio.gather(*map(events_of, self.tables), coordinating, return_exceptions=True)
        return dict(zip(self.tables, events, strict=True)), result
