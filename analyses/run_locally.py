"""Runs a whole job in this process: the real code of all members over an in-process network.

It is for tests and measurements, and for users who hold all tables and want to try a job. Nothing is charged to any
ledger.
"""

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from analyses.job.analysis import Analysis
from analyses.job.job import Job, JobError
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema, LocalReport, Table
from analyses.registry import analysis_of
from entropy import SystemEntropy
from mpc.errors import ProtocolError
from mpc.local.network import LocalNetwork
from mpc.protocol.session import COORDINATOR, Session

DEADLINE_S = 3600.0
"""Deadline of a local run. One process computes for all members, so no member is late; a failure ends the others at
once."""


Part = Callable[[Session], Awaitable[Any]]
"""What a member does in a job, given its end of the session."""


@dataclass(frozen=True)
class LocalRun:
    """A job that has ended.

    Attributes:
        plan: plan of the job.
        ends: what the part of each member returned, or its error, by member number (0 is the coordinator).
        failures: the errors of members, the first one first.
        network: the in-process network, with a record of all messages.
    """

    plan: Plan
    ends: Mapping[int, Any] = field(repr=False)
    failures: tuple[ProtocolError, ...]
    network: LocalNetwork = field(repr=False)

    @property
    def result(self) -> dict[str, Any]:
        """The result as an analyst receives it from a service: encoded as JSON and decoded again.

        Raises:
            ProtocolError: the job failed; this is the first error of any member.
        """
        if isinstance(self.ends[COORDINATOR], ProtocolError):
            raise self.failures[0]
        result: dict[str, Any] = json.loads(json.dumps(self.ends[COORDINATOR], sort_keys=True, allow_nan=False))
        return result

    @property
    def reports(self) -> dict[str, LocalReport]:
        """The private report of each party that succeeded, by its name."""
        return {self.network.names[m]: end for m, end in self.ends.items() if isinstance(end, LocalReport)}


async def run_locally(job: Job, tables: Mapping[str, Table], **options: Any) -> LocalRun:
    """Plan a job and run it.

    Args:
        job: what is asked for.
        tables: party to its table, with the columns that the job asks for, of the parties that bring columns.
        options: options of the network; see `local_network`.

    Raises:
        JobError: the job cannot be planned, or a table is of no member of it.
    """
    tables = _tables_of(job, tables)
    schemas = [tables[name].schema if name in tables else BlockSchema(party=name) for name in job.members]
    plan = analysis_of(job).plan(job, schemas)
    return await run_plan(plan, tables, local_network(plan, **options))


def local_network(plan: Plan, **options: Any) -> LocalNetwork:
    """Return a network of the members of a job.

    Args:
        plan: plan of the job.
        options: options of `mpc.local.network.LocalNetwork`. By default the noise is as random as that of a service.
    """
    names = {COORDINATOR: "coordinator", **dict(enumerate(plan.job.members, start=1))}
    return LocalNetwork(names, **{"deadline_s": DEADLINE_S, "entropy_of": lambda member: SystemEntropy(), **options})


async def run_plan(
    plan: Plan,
    tables: Mapping[str, Table],
    network: LocalNetwork,
    *,
    analysis: Analysis | None = None,
    absent: Collection[int] = (),
    parts: Mapping[int, Part] | None = None,
) -> LocalRun:
    """Run the parts of all members of a job.

    Args:
        plan: computed for these tables.
        tables: party to its table; a member without one only computes.
        network: network of the members of the job; see `local_network`.
        analysis: replaces the analysis of the plan's job, for tests.
        absent: members that never send a message.
        parts: what members do that do something else than the analysis says, for tests.
    """
    analysis, parts = analysis or analysis_of(plan.job), parts or {}
    failures: list[ProtocolError] = []

    def part_of(member: int) -> Part:
        async def part(session: Session) -> Any:
            try:
                if member in parts:
                    return await parts[member](session)
                if member == COORDINATOR:
                    return await analysis.coordinator(session, plan)
                return await analysis.party(session, plan, tables.get(plan.job.members[member - 1]))
            except ProtocolError as error:
                failures.append(error)
                network.kill(member)  # as a service does: the others learn at once that nothing more will come
                raise

        return part

    ends = await network.run({member: part_of(member) for member in network.names if member not in absent})
    return LocalRun(plan, ends, tuple(failures), network)


def _tables_of(job: Job, tables: Mapping[str, Table]) -> dict[str, Table]:
    """Return of each table the columns that the job asks for, in its order."""
    wanted = {brought.party: brought.columns for brought in job.inputs}
    strangers = sorted(tables.keys() - wanted.keys())
    if strangers:
        raise JobError(f"inputs: {strangers[0]} has no input in this job")
    return {name: _columns_of(table, wanted[name]) for name, table in tables.items()}


def _columns_of(table: Table, wanted: tuple[str, ...]) -> Table:
    if not wanted:
        return table
    places = {column.name: place for place, column in enumerate(table.schema.columns)}
    missing = [name for name in wanted if name not in places]
    if missing:
        raise JobError(f"inputs: the table of {table.schema.party} has no column {missing[0]!r}")
    columns = tuple(table.schema.columns[places[name]] for name in wanted)
    schema = table.schema.model_copy(update={"columns": columns})
    return replace(table, schema=schema, values=table.values[:, [places[name] for name in wanted]])
