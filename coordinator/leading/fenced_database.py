"""The coordinators' database as one of their stores sees it: it writes in the present term alone.

Each write is one transaction that is durable when the call returns (synchronous_commit = on), and that is fenced by the
term of the coordinator's lease: nothing is written any more once another coordinator has taken over.
"""

from typing import Any

from coordinator.leading.database import error_of
from coordinator.leading.lease import Lease
from service.database.database import Tables
from service.database.postgres import PostgresDatabase
from service.errors import ServiceError


class FencedDatabase(PostgresDatabase):
    """Implements `Database`.

    Args:
        lease: lease with which this coordinator leads; its database holds the tables.
        tables: tables of the store.

    Raises:
        DatabaseError: the database cannot be used.
        DatabaseAwayError: it does not answer.
        SupersededError: in a write: another coordinator leads.
    """

    def __init__(self, lease: Lease, tables: Tables) -> None:
        self.lease = lease
        super().__init__(tables)

    def _connect(self) -> Any:
        return self.lease.database.connect()

    def _fence(self, cursor: Any) -> None:
        self.lease.fence(cursor)

    def _reason(self, error: Any) -> ServiceError:
        return error_of(error)
