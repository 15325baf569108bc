"""Which parties, coordinators and analysts have called, when, and with what version and certificate."""

import datetime
import re
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from service.identity import Identity, PeerCertificate, Role

MAX_SIGHTINGS = 200
"""Of devices there may be very many, so none is kept; of others more would be no list to look at."""

_AGENT = re.compile(r"moiety/([0-9A-Za-z.+-]{1,32})(?: |$)")


@dataclass(frozen=True)
class Sighting:
    """The last call of a member.

    Attributes:
        identity: as in its certificate.
        at_s: Unix time.
        version: of its software, as it says; empty where it does not.
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


class Sightings:
    """The last sighting of each member."""

    def __init__(self) -> None:
        self._last: dict[Identity, Sighting] = {}

    def note(self, shown: PeerCertificate, context: Any) -> None:
        """Note a call that was permitted."""
        who = shown.identity
        if who.role is Role.DEVICE or (who not in self._last and len(self._last) >= MAX_SIGHTINGS):
            return
        agent = next((str(value) for key, value in context.invocation_metadata() or () if key == "user-agent"), "")
        found = _AGENT.match(agent)
        self._last[who] = Sighting(who, time.time(), found[1] if found else "", shown.not_valid_after)

    def all(self) -> list[Sighting]:
        """Return them, by role and name."""
        return sorted(self._last.values(), key=lambda one: (one.identity.role, one.identity.name))
