"""Reads a party's tables for running jobs: one at a time, and with the same public text for all failures."""

import asyncio
import time
from collections.abc import Callable

import structlog

from analyses.job.job import JobInput
from analyses.job.schema import Table
from party.admission import Admission
from party.config import PartyConfig
from party.tables.table import UnusableTableError

log = structlog.get_logger()


class TableReading:
    """Reads tables in a thread, one after the other.

    A job that is cancelled leaves at once, but nothing stops the thread that reads for it. The next one waits until
    that has ended, so that jobs which are begun and cancelled over and over take one thread, and not all of those in
    which other jobs compute.

    Args:
        config: the owner's file.
        admission: compares the rows that were found with the budget.
        load_table: reads the columns of one of our tables; may take seconds.
    """

    def __init__(self, config: PartyConfig, admission: Admission, load_table: Callable[[JobInput], Table]) -> None:
        self._config = config
        self._admission = admission
        self._load_table = load_table
        self._turn = asyncio.Lock()

    def use(self, config: PartyConfig) -> None:
        """Take over another configuration of the same tables."""
        self._config = config

    async def read(self, brought: JobInput) -> Table:
        """Return the columns of a job.

        Raises:
            UnusableTableError: they cannot be read.
            LedgerError: the budget cannot be looked at.
        """
        await self._turn.acquire()
        reading = asyncio.ensure_future(asyncio.to_thread(self._read, brought))
        reading.add_done_callback(self._pass_on)
        return await asyncio.shield(reading)

    def _pass_on(self, reading: "asyncio.Future[Table]") -> None:
        self._turn.release()
        if not reading.cancelled():
            reading.exception()  # a job that has left does not ask for it

    def _read(self, brought: JobInput) -> Table:
        began_s, least_s = time.monotonic(), self._config.least_deadline_s
        try:
            table = self._load_table(brought)
        except UnusableTableError:
            raise
        except BaseException as error:  # readers panic with errors that are no `Exception`
            label = f"table {brought.table!r} of party {self._config.name!r}"
            raise UnusableTableError(label, f"reading it failed: {type(error).__name__}") from None
        if 2 * (took_s := time.monotonic() - began_s) > least_s:
            log.warning("reading takes long: raise least_deadline_s", table=brought.table, took_s=took_s)
        self._admission.warn_of_rows(brought, table)
        return table
