"""What stores in the coordinators' database have in common: a connection, and writes of the present term alone.

Each write is one transaction that is durable when the call returns (synchronous_commit = on), and that is fenced by the
term of the coordinator's lease: nothing is written any more once another coordinator has taken over.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from coordinator.leading.database import DatabaseAwayError, DatabaseError, driver, error_of
from coordinator.leading.lease import Lease

T = TypeVar("T")


class FencedStore:
    """Base of stores. May be used from several threads, of which one works at a time.

    Args:
        lease: by which this coordinator leads; its database is the store.

    Attributes:
        write_failure, read_failure: what is raised where the database cannot be written or read now.

    Raises:
        DatabaseError: the database cannot be used.
        DatabaseAwayError: it does not answer.
    """

    write_failure: type[Exception]
    read_failure: type[Exception]

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._psycopg = driver()
        self._db = lease.database.connect()
        self._turn = threading.Lock()

    def close(self) -> None:
        """Release the connection."""
        with self._turn:
            self._db.close()

    def _write(self, work: Callable[[Any], T]) -> T:
        """Do some work in one transaction of the present term; once more where the connection had broken.

        Then the first transaction may have been committed or not: the work must come to the same where it was.

        Raises:
            Exception: of `write_failure`: it cannot be written now.
            SupersededError: another coordinator leads.
        """

        def write() -> T:
            with self._db.transaction(), self._db.cursor() as cursor:
                self._lease.fence(cursor)
                return work(cursor)

        return self._twice(write, self.write_failure)

    def _read(self, statement: str, *values: object) -> list[Any]:
        """Return the rows of a SELECT.

        Raises:
            Exception: of `read_failure`: it cannot be read now.
        """
        return self._twice(lambda: list(self._db.execute(statement, values, binary=True)), self.read_failure)

    def _twice(self, work: Callable[[], T], failure: type[Exception]) -> T:
        with self._turn:
            for is_last in (False, True):
                try:
                    if self._db.closed:
                        self._db = self._lease.database.connect()
                    return work()
                except (DatabaseError, DatabaseAwayError) as error:
                    raise failure(error) from None
                except self._psycopg.Error as error:
                    if is_last or not self._db.closed:
                        raise failure(error_of(error)) from None
        raise AssertionError("the last attempt returns or raises")
