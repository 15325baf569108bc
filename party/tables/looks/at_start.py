"""Looks through a party's tables after its service has started, and tells its owner's log what no job would get.

In a process of its own, so that the service loads no library of tables before it needs one, and a damaged file ends no
service. The log names tables and columns; values and counts are for `moiety doctor`.
"""

import asyncio
import json
import os
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import structlog

from party.tables.config import TableConfig
from party.tables.ratings_config import RatingsTableConfig
from party.tables.sources.source import SourceError
from party.tables.table import is_there

MOST_ROWS = 1 << 17
"""Rows of a table that are looked at."""

log = structlog.get_logger()


class Looking(Protocol):
    """What this module needs of a party's configuration."""

    @property
    def tables(self) -> Sequence[TableConfig]:
        """Its tables."""

    @property
    def looks_at_tables(self) -> bool:
        """Whether they are to be looked at."""


def warn_of_declarations(tables: Sequence[TableConfig]) -> None:
    """Warn of tables that are not there or serve few jobs; none is opened."""
    if absent := [table.name for table in tables if not is_there(table)]:
        log.warning("tables whose file or database is missing: jobs on them are refused", tables=", ".join(absent))
    if undeclared := [t.name for t in tables if t.rows is None and not isinstance(t, RatingsTableConfig)]:
        log.info("tables without `rows`: for sums, means and histograms only", tables=", ".join(undeclared))


@asynccontextmanager
async def looking(config: Looking) -> AsyncIterator[Callable[[Looking], None]]:
    """Look through the tables that are there while the context lasts, if the configuration wants it.

    Yields:
        What looks through those of another configuration; of those that are declared as before nothing is told again.
    """
    told: list[TableConfig] = []
    tasks: set[asyncio.Task[None]] = set()

    def look(config: Looking) -> None:
        present = [table for table in config.tables if is_there(table) and table not in told]
        told[:] = config.tables
        if config.looks_at_tables and present:
            tasks.add(task := asyncio.create_task(warn_of_tables(present)))
            task.add_done_callback(tasks.discard)

    look(config)
    try:
        yield look
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def warn_of_tables(tables: Sequence[TableConfig]) -> None:
    """Warn of tables that no job can use, and of columns of which nearly all values are lost."""
    # Not by the event loop: uvloop forks, and gRPC stops its connections for a fork. This takes a few milliseconds.
    process = subprocess.Popen(  # noqa: ASYNC220, S603 -- our own interpreter and module
        [sys.executable, "-c", f"from {__name__} import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        answer, _ = await asyncio.to_thread(process.communicate, pickle.dumps(tuple(tables)))
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
    seen = [json.loads(line) for line in answer.splitlines()]
    for one in seen:
        if one["problem"]:
            log.warning("a table that no job can use", table=one["table"], reason=one["problem"], see="moiety doctor")
        elif one["lost"]:
            what = "; ".join(one["lost"])
            log.warning(
                "columns of which nearly all values are lost", table=one["table"], columns=what, see="moiety doctor"
            )
    if len(seen) < len(tables):
        log.warning("looking at a table has ended the process that did it", table=tables[len(seen)].name)


def main() -> None:
    """Look through the tables on standard input, and print a line of JSON for each."""
    os.nice(19)
    for table in pickle.loads(sys.stdin.buffer.read()):  # noqa: S301, our own service's
        sys.stdout.write(json.dumps({"table": table.name, **_seen(table)}) + "\n")
        sys.stdout.flush()  # what was found before a table that ends this process


def _seen(table: TableConfig) -> dict[str, Any]:
    from party.tables.looks.lost import in_words, lost_of  # brings polars

    try:
        return {"problem": "", "lost": in_words(lost_of(table, MOST_ROWS))}
    except SourceError as error:
        return {"problem": str(error), "lost": []}
    except BaseException as error:  # readers panic with errors that are no `Exception`
        return {"problem": f"reading it failed: {type(error).__name__}", "lost": []}
