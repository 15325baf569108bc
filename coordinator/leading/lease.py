"""The lease: which of several coordinators with one database leads, and since which term.

One row of the database says who leads, in which term, and until when by the database's clock. Whoever finds the time
past takes the row and raises the term; who leads renews it several times before it lapses. The term fences: each write
of a leader's jobs is a transaction that holds the row of its own term (`Lease.fence`), so that after a takeover nothing
of an earlier term can be written, however late it comes. Parties see the term with each call, and refuse earlier ones
(`service.trust.terms`).

Terms are milliseconds of the database's clock where that is more than one above the last: then they also rise where a
database was lost and is begun anew, and parties, which remember the last term, need not be restarted. A term, or the
end of a lease, further in the future than `MOST_AHEAD_S` was written while that clock was wrong: parties refuse such
terms, so the next leader takes one of the present. Writes are fenced by the equality of terms, all the same.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog

from coordinator.leading.database import LEADER, DatabaseAwayError, DatabaseError, JobDatabase, Leader, driver, error_of
from service.errors import RemoteFailureError
from service.trust.terms import MOST_AHEAD_S

RENEWALS_PER_LEASE = 5
LONGEST_LEASE_S = 3600.0
LOST_EXIT_CODE = 75
"""EX_TEMPFAIL of sysexits.h: whoever supervises the process starts it again, and then it stands by."""

_TAKE = """
UPDATE coordinator_leader SET
    holder = %s,
    lapses_at = clock_timestamp() + %s * interval '1 s',
    term = CASE WHEN term > now_ms + %s THEN now_ms ELSE greatest(term + 1, now_ms) END
FROM (SELECT floor(1000 * extract(epoch FROM clock_timestamp()))::bigint AS now_ms) AS clock
WHERE lapses_at < clock_timestamp() OR lapses_at > clock_timestamp() + %s * interval '1 s'
RETURNING term
"""

_log = structlog.get_logger(__name__)


class SupersededError(RemoteFailureError):
    """We lead no more: another coordinator has taken over, or may have."""

    code = "leads-no-more"


def end_at_once(reason: str) -> None:
    """End the process as if it was killed: what it would still say to parties is no longer its to say."""
    _log.error("coordinator leads no more, and ends at once", reason=reason)
    os._exit(LOST_EXIT_CODE)


def boot_time_s() -> float:
    """Return seconds of a clock that also runs while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """The right to lead. `take` and `leader` are for one thread; after `keep` two threads of its own renew and watch.

    Args:
        database: whose row it is; its tables are made where they are absent.
        coordinator: URI of the identity of all its coordinators.
        holder: its instance, which is what others are told of this one, when it leads.
        lease_s: seconds after the last renewal for which nobody else may take it.
        on_lost: told why, from any thread, when it is lost. By default this ends the process.
        now_s: a clock of this machine, in seconds.
    """

    def __init__(
        self,
        database: JobDatabase,
        coordinator: str,
        holder: str,
        *,
        lease_s: float,
        on_lost: Callable[[str], None] = end_at_once,
        now_s: Callable[[], float] = boot_time_s,
    ) -> None:
        self.database = database
        self.term = 0
        self.since_s = 0.0
        """Unix time by this machine's clock at which it was taken."""
        self._coordinator = coordinator
        self._is_prepared = False
        self._holder = holder
        self._lease_s = lease_s
        self._on_lost = on_lost
        self._now_s = now_s
        self._lapses_at_s = float("-inf")
        self._db: Any = None
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def take(self) -> bool:
        """Lead from now on, if nobody else does; return whether.

        Raises:
            DatabaseError: the database cannot be used.
            DatabaseAwayError: it does not answer.
        """
        if not self._is_prepared:
            self.database.prepare(self._coordinator)
            self._is_prepared = True
        begun_s = self._now_s()
        row = self._row(
            _TAKE,
            self._holder,
            self._lease_s,
            int(1000 * MOST_AHEAD_S),
            LONGEST_LEASE_S + MOST_AHEAD_S,
        )
        if row is None:
            return False
        self.term, self._lapses_at_s = row[0], begun_s + self._lease_s
        self.since_s = time.time()
        return True

    def leader(self) -> Leader:
        """Return who leads, or led last. Raises as `take`."""
        return Leader(*self._row(LEADER))

    def keep(self) -> None:
        """Renew it from now on until `release`, and watch that it does not lapse."""
        for work in (self._renew_in_time, self._watch):
            thread = threading.Thread(target=work, name=f"lease {work.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def check(self) -> None:
        """Refuse to go on without it.

        Raises:
            SupersededError: it has lapsed, by our clock. Nobody else need have taken it yet.
        """
        if self._now_s() >= self._lapses_at_s:
            self.lose(f"the lease was not renewed for {self._lease_s:g} s")
            raise SupersededError("this coordinator no longer leads")

    def fence(self, cursor: Any) -> None:
        """Keep others from leading until the transaction ends, whose writes are those of the present term.

        Raises:
            SupersededError: another has taken over.
        """
        self.check()
        cursor.execute("SELECT term FROM coordinator_leader WHERE term = %s FOR SHARE", (self.term,))
        if cursor.fetchone() is None:
            self.lose("another coordinator has taken over")
            raise SupersededError("another coordinator leads, so nothing was written")

    def lose(self, reason: str) -> None:
        """Say once that it is lost."""
        if not self._ended.is_set():
            self._ended.set()
            self._on_lost(reason)

    def release(self) -> None:
        """Let another take it at once; where the database does not answer, it lapses."""
        self._ended.set()
        for thread in self._threads:
            thread.join(self._lease_s)
        if self.term and not any(thread.is_alive() for thread in self._threads):
            with suppress(DatabaseError, DatabaseAwayError):
                self._row(
                    "UPDATE coordinator_leader SET lapses_at = '-infinity' WHERE term = %s RETURNING term", self.term
                )
        self.close()

    def close(self) -> None:
        """Close the connection; what was taken lapses."""
        if self._db is not None:
            self._db.close()

    def _renew_in_time(self) -> None:
        while not self._ended.wait(self._lease_s / RENEWALS_PER_LEASE):
            begun_s = self._now_s()
            try:
                row = self._row(
                    "UPDATE coordinator_leader SET lapses_at = clock_timestamp() + %s * interval '1 s'"
                    " WHERE term = %s RETURNING term",
                    self._lease_s,
                    self.term,
                )
            except (DatabaseError, DatabaseAwayError) as error:
                _log.warning("the lease of the leading coordinator cannot be renewed", cause=str(error))
                continue
            if row is None:
                self.lose("another coordinator has taken over")
                return
            self._lapses_at_s = begun_s + self._lease_s

    def _watch(self) -> None:
        """The renewing thread may hang with the database; this one does not."""
        while not self._ended.wait(min(max(self._lapses_at_s - self._now_s(), 0.0), self._lease_s)):
            with suppress(SupersededError):
                self.check()

    def _row(self, statement: str, *values: object) -> Any:
        """Return the first row of a statement's answer. A connection that broke is made anew, next time."""
        psycopg = driver()
        if self._db is None or self._db.closed:
            self._db = self.database.connect()
        try:
            return self._db.execute(statement, values).fetchone()
        except psycopg.Error as error:
            if self._db.broken:
                self._db.close()
            raise error_of(error) from None
