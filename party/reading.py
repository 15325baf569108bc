"""Reads a party's tables for running jobs: one at a time, and with the same public text for all failures."""

import asyncio
import time
from collections.abc import Callable

import numpy as np
import structlog
from numpy.typing import NDArray

from analyses.job.job import JobInput
from analyses.job.schema import Table
from party.admission import Admission
from party.config import PartyConfig
from party.tables.kept_values import kept_words
from party.tables.sources.source import SourceError
from party.tables.table import UnusableTableError

log = structlog.get_logger()


def words_for_shares(config: PartyConfig, shape: tuple[int, ...]) -> NDArray[np.uint64]:
    """Return room for shares of rows, as much in memory as for the values of a table.

    Raises:
        UnusableTableError: the party's folder cannot hold what does not fit into memory.
    """
    try:
        return kept_words(shape, config.table_memory_mib << 20, config.data_dir)
    except SourceError as error:
        raise UnusableTableError(f"the data folder of party {config.name!r}", str(error)) from None


class TableReading:
    """Reads tables in a thread, one after the other.

    A job that is cancelled leaves at once, but nothing stops the thread that reads for it. The next one waits until
    that has ended, so that jobs which are begun and cancelled over and over take one thread, and not all of those in
    which other jobs compute.

    Args:
        admission: compares the rows that were found with the budget.
        load_table: reads the columns of one of our tables; may take seconds.
    """

    def __init__(self, admission: Admission, load_table: Callable[[PartyConfig, JobInput], Table]) -> None:
        self._admission = admission
        self._load_table = load_table
        self._turn = asyncio.Lock()

    async def read(self, config: PartyConfig, brought: JobInput) -> Table:
        """Return the columns of a job.

        Args:
            config: the owner's file as it was when the job began.
            brought: table and columns.

        Raises:
            UnusableTableError: they cannot be read.
            LedgerError: the budget cannot be looked at.
        """
        await self._turn.acquire()
        reading = asyncio.ensure_future(asyncio.to_thread(self._read, config, brought))
        reading.add_done_callback(self._pass_on)
        return await asyncio.shield(reading)

    def _pass_on(self, reading: "asyncio.Future[Table]") -> None:
        self._turn.release()
        if not reading.cancelled():
            reading.exception()  # a job that has left does not ask for it

    def _read(self, config: PartyConfig, brought: JobInput) -> Table:
        began_s, least_s = time.monotonic(), config.least_deadline_s
        try:
            table = self._load_table(config, brought)
        except UnusableTableError:
            raise
        except BaseException as error:  # readers panic with errors that are no `Exception`
            label = f"table {brought.table!r} of party {config.name!r}"
            raise UnusableTableError(label, f"reading it failed: {type(error).__name__}") from None
        if 2 * (took_s := time.monotonic() - began_s) > least_s:
            log.warning("reading takes long: raise least_deadline_s", table=brought.table, took_s=took_s)
        self._admission.warn_of_rows(config.accounts[brought.table], brought, table)
        return table
