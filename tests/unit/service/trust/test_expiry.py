import asyncio
import datetime
from dataclasses import dataclass

from structlog.testing import capture_logs

from service.identity import Identity, Role
from service.tls import Credentials
from service.trust.expiry import DAY_S, warn_every_day
from service.trust.revocation import RevocationList

DAY = datetime.timedelta(days=1)
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@dataclass
class Clock:
    """Credentials that look at a clock of their own."""

    credentials: Credentials
    days: int = 0

    def expiry_warnings(self):
        found = self.credentials.expiry_warnings(NOW + self.days * DAY)
        self.days += 1
        return found


def credentials(days: int, list_days: int) -> Credentials:
    known = RevocationList(1, frozenset(), NOW + list_days * DAY)
    return Credentials(Identity("acme", Role.PARTY, "bank"), b"", b"", b"", NOW + days * DAY, None, known)


async def test_what_expires_is_warned_of_every_day_from_thirty_days_before_its_end_and_lists_from_seven():
    clock = Clock(credentials(33, 8))
    with capture_logs() as logs:
        warning = asyncio.create_task(warn_every_day(lambda: clock, "bank"))
        await asyncio.sleep(5.5 * DAY_S)  # of the virtual clock
        warning.cancel()
    assert clock.days == 6
    assert [line["event"] for line in logs] == [
        "the revocation list expires in 6 days: ask the authority for a new one",  # on day 2
        "the revocation list expires in 5 days: ask the authority for a new one",
        "the certificate expires in 29 days: renew it",  # on day 4
        "the revocation list expires in 4 days: ask the authority for a new one",
        "the certificate expires in 28 days: renew it",
        "the revocation list expires in 3 days: ask the authority for a new one",
    ]
    assert {(line["log_level"], line["name"]) for line in logs} == {("warning", "bank")}


async def test_renewed_credentials_are_no_longer_warned_of():
    current = credentials(10, 30)
    with capture_logs() as logs:
        warning = asyncio.create_task(warn_every_day(lambda: Clock(current), "bank"))
        await asyncio.sleep(DAY_S / 2)
        current = credentials(100, 30)
        await asyncio.sleep(3 * DAY_S)
        warning.cancel()
    assert len(logs) == 1
