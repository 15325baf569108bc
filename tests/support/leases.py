"""Leases of coordinators that a test takes and loses, on a real database."""

from pydantic import SecretStr

from coordinator.leading.database import JobDatabase
from coordinator.leading.lease import Lease

COORDINATOR = "spiffe://local/coordinator/coordinator"
LONG_S = 600.0
"""No test waits for the end of such a lease."""


class HandClock:
    """Seconds of a machine's clock that a test sets."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def lease_on(url, holder="one", *, lost=None, lease_s=LONG_S, coordinator=COORDINATOR, clock=None):
    """Return a lease that is not taken; where it is lost, the reason is appended to a list."""
    lost = [] if lost is None else lost
    database = JobDatabase(SecretStr(url))
    return Lease(
        database,
        coordinator,
        holder,
        lease_s=lease_s,
        on_lost=lost.append,
        now_s=HandClock() if clock is None else clock,
    )


def let_it_lapse(url):
    """Let the database believe that the lease has not been renewed in time."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as database:
        database.execute("UPDATE coordinator_leader SET lapses_at = '-infinity'")
