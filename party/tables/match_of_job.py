"""A job that keeps a match, or names a kept one: what an owner checks before, and what it keeps afterwards.

What a refusal says is public. Whether a match is kept, of which tables it is and whether their files were written since
says nothing about a row. Whether rows are still the same does: that is seen when the table has been read, and others
are told of it what they are told of any table that cannot be used.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, OwnMatch, Table
from party.tables.config import TableConfig, TableOwner
from party.tables.kept_matches import KeptMatch, KeptMatches, NoMatchError, UnreadableMatchError
from party.tables.sources.source import SourceError
from party.tables.table import TableError, UnusableTableError

log = structlog.get_logger()


class MatchRefusedError(TableError):
    """The job names a match that this party cannot go by; the text is public."""

    code = "match-refused"


def check_kept_match(owner: TableOwner, job: Job, schema: BlockSchema) -> None:
    """Refuse a job that names a kept match which this party does not have, or which is not of the job's tables.

    No table is read. Whether the owner allows revealed matching at all is for policy and plan, as for any such job.

    Args:
        owner: the party's configuration.
        job: what is asked for.
        schema: the public part of its table.

    Raises:
        MatchRefusedError: says what does not fit.
    """
    if job.matching is None or job.matching.match is None or not _brings(owner, job):
        return
    kept = _found(owner, job.matching.match)
    if kept.inputs != _inputs_of(job):
        raise MatchRefusedError(f"match {kept.match} is of other parties or other tables than the job")
    if schema.matching is None or schema.matching.recipe != kept.recipe:
        raise MatchRefusedError(f"{owner.name} changed its matching rules since match {kept.match}")
    if version_of(owner, kept.table) != kept.version:
        raise MatchRefusedError(
            f"the table of {owner.name} was written anew since match {kept.match}; rows have to be matched again"
        )


def version_of(owner: TableOwner, table: str) -> str | None:
    """Return the version of a table's source as text; None where it has none, or cannot be found."""
    try:
        version = _table_of(owner, table).make_source().version()
    except SourceError as error:
        log.warning("the source of a table cannot be found", table=table, reason=str(error))
        return ""
    return None if version is None else json.dumps(version)


@dataclass
class MatchOfJob:
    """The part of one owner's kept match in a job: at its beginning, with its table, and at its end.

    Attributes:
        owner: the party's configuration.
        job: job that keeps a match, or names one.
        version: version of the table's source before the table was read.
        kept: the match that the job names; None where it makes one.
    """

    owner: TableOwner
    job: Job
    version: str | None
    kept: KeptMatch | None = field(default=None, repr=False)

    @classmethod
    def begin(cls, owner: TableOwner, job: Job) -> "MatchOfJob | None":
        """Look at the source before it is read; None where the job neither keeps nor names a match.

        Raises:
            UnusableTableError: the match has been deleted since the job was accepted, or its file is damaged.
        """
        matching = job.matching
        if matching is None or not (matching.keep or matching.match) or not _brings(owner, job):
            return None
        table = _inputs_of(job)[owner.name]
        try:
            kept = None if matching.match is None else _found(owner, matching.match)
        except MatchRefusedError as error:
            raise UnusableTableError(f"table {table!r} of party {owner.name!r}", str(error)) from None
        return cls(owner, job, version_of(owner, table), kept)

    def given_to(self, table: Table) -> Table:
        """Return a table that has been read, with what is kept of it, or with room for it.

        Raises:
            UnusableTableError: its rows are not those of which the match is, or the match cannot be read.
        """
        if self.kept is None:
            return replace(table, match=OwnMatch())
        label = f"table {self.kept.table!r} of party {self.owner.name!r}"
        if ids_digest(table) != self.kept.ids_digest:
            raise UnusableTableError(label, f"its rows are not those of match {self.kept.match}, or in another order")
        try:
            rows = KeptMatches(self.owner.data_dir).rows(self.kept.match)
        except (NoMatchError, UnreadableMatchError) as error:
            raise UnusableTableError(label, str(error)) from None
        if len(rows) and rows.max() >= table.n_rows:
            raise UnusableTableError(label, f"match {self.kept.match} names rows that it does not have")
        return replace(table, match=OwnMatch(rows, bytes.fromhex(self.kept.origin)))

    @contextmanager
    def kept_with(self, job_id: str, table: Table) -> Iterator[None]:
        """Keep what the job has found, if it was to find it; what is done in this context must succeed, or it goes.

        Args:
            job_id: id of the job; it becomes the id of the match.
            table: table that `given_to` returned.

        Raises:
            OSError: it cannot be written.
        """
        found = table.match
        if self.kept is not None or found is None or found.rows is None or table.schema.matching is None:
            yield
            return
        matches, inputs = KeptMatches(self.owner.data_dir), _inputs_of(self.job)
        matches.keep(
            job_id,
            found.rows,
            inputs=inputs,
            table=inputs[self.owner.name],
            recipe=table.schema.matching.recipe,
            version=self.version,
            ids_digest=ids_digest(table),
            origin=found.origin,
        )
        try:
            yield
        except BaseException:
            matches.delete(job_id)
            raise


def shown_matches(owner: TableOwner) -> list[dict[str, Any]]:
    """Return all kept matches for their owner's eyes, the newest first, as JSON data.

    Each has its id `match`, when it was kept, of which tables it is, how many `rows` of the owner's `table` matched,
    and its `state`: `usable`; `table changed`, since its source is not as it was; `damaged`, of which nothing else is
    known. Rows of a source that has no version are looked at when a job reads them: until then they count as usable.
    """
    kept, found = KeptMatches(owner.data_dir), list[dict[str, Any]]()
    for match in kept.ids():
        try:
            one = kept.find(match)
        except (NoMatchError, UnreadableMatchError):
            unknown = dict.fromkeys(("table", "rows"))
            found.append({"match": match, "kept_at_s": 0.0, "inputs": {}, **unknown, "state": "damaged"})
            continue
        is_there = any(table.name == one.table for table in owner.tables)
        is_usable = is_there and version_of(owner, one.table) == one.version
        shown = {"match": match, "kept_at_s": one.kept_at_s, "inputs": one.inputs, "table": one.table}
        found.append(shown | {"rows": one.n_rows, "state": "usable" if is_usable else "table changed"})
    return sorted(found, key=lambda shown: shown["kept_at_s"], reverse=True)


def ids_digest(table: Table) -> str:
    """Return the SHA-256 of the ids of all rows of a table, in its order, in hexadecimal digits."""
    assert table.ids is not None, "a table without ids serves no job that matches rows"
    return hashlib.sha256(table.ids.tobytes()).hexdigest()


def _found(owner: TableOwner, match: str) -> KeptMatch:
    try:
        return KeptMatches(owner.data_dir).find(match)
    except NoMatchError:
        raise MatchRefusedError(f"{owner.name} keeps no match {match}") from None
    except UnreadableMatchError as error:
        log.error("a kept match cannot be used", reason=str(error))
        raise MatchRefusedError(f"{owner.name} keeps no match {match} that it can read") from None


def _inputs_of(job: Job) -> dict[str, str]:
    return {brought.party: brought.table for brought in job.inputs}


def _brings(owner: TableOwner, job: Job) -> bool:
    return any(brought.party == owner.name for brought in job.inputs)


def _table_of(owner: TableOwner, name: str) -> TableConfig:
    return next(table for table in owner.tables if table.name == name)
