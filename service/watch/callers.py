"""Which parties, coordinators and analysts have called, when, and with what version and certificate."""

import datetime
import re
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from service.identity import Identity, PeerCertificate, Role

MAX_CALLERS = 200
"""Maximum number of callers to remember. Devices are not remembered, as there may be very many."""

_AGENT = re.compile(r"moiety/([0-9A-Za-z.+-]{1,32})(?: |$)")


@dataclass(frozen=True)
class LastCall:
    """The last call of a member.

    Attributes:
        identity: identity in its certificate.
        at_s: Unix time.
        version: version of its software, as the caller states it; empty where it states none.
        not_valid_after: the end of its certificate.
    """

    identity: Identity
    at_s: float
    version: str
    not_valid_after: datetime.datetime


@cache
def own_agent() -> str:
    """Return what this software calls itself when it dials."""
    from importlib.metadata import version

    return f"moiety/{version('moiety')}"


class Callers:
    """The last call of each member."""

    def __init__(self) -> None:
        self._last: dict[Identity, LastCall] = {}

    def note(self, shown: PeerCertificate, context: Any) -> None:
        """Note a call that was permitted."""
        who = shown.identity
        if who.role is Role.DEVICE or (who not in self._last and len(self._last) >= MAX_CALLERS):
            return
        agent = next((str(value) for key, value in context.invocation_metadata() or () if key == "user-agent"), "")
        found = _AGENT.match(agent)
        self._last[who] = LastCall(who, time.time(), found[1] if found else "", shown.not_valid_after)

    def all(self) -> list[LastCall]:
        """Return them, by role and name."""
        return sorted(self._last.values(), key=lambda one: (one.identity.role, one.identity.name))
