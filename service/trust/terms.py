"""Terms of coordinators: where several share one identity, each call says in which term its caller leads.

One of them leads (`coordinator.leading`). One that was stopped for a while and comes back does not know yet that
another has taken over, and could cancel a job that goes on. It says its term with each call, in the name by which its
software calls itself, and a service refuses a term that is lower than one it has heard of. The term is the word of a
coordinator about itself: the certificate proves who calls, and a false term shuts out nobody but its own identity.

Terms are milliseconds of a database's clock. One further in the future than clocks differ would shut out
whoever leads once that clock is right; so it is refused, and one that was taken while our own clock was wrong counts no
more. Whatever happened to clocks, who leads by a clock that is right is refused for `MOST_AHEAD_S` at most.
"""

import re
import time
from collections.abc import Callable
from typing import Any, Protocol

from service.errors import WrongStateError
from service.identity import Identity, Role

MOST_AHEAD_S = 3600.0
"""Seconds by which the clocks of a coordinator's database and of a service may differ."""

_TERM = re.compile(r" moiety-term/([0-9]{1,18})(?: |$)")


class EarlierTermError(WrongStateError):
    """The caller led once; another leads now."""

    code = "coordinator-superseded"


class TermAheadError(WrongStateError):
    """The caller leads in a term that is in the future."""

    code = "coordinator-clock-ahead"


def agent_of_term(agent: str, term: int) -> str:
    """Return what software calls itself that leads in a term; 0 for one that has no term."""
    return f"{agent} moiety-term/{term}" if term else agent


def service_of_term(term: int) -> str:
    """Return the name of the service whose health a coordinator tells while it leads in a term, and no other does."""
    return f"moiety.term.{term}"


class KeptTerms(Protocol):
    """A lasting memory of terms."""

    def terms(self) -> dict[str, int]:
        """Return the last term of each coordinator, by the URI of its identity."""

    def note_term(self, coordinator: str, term: int) -> None:
        """Write the last term of a coordinator; it is on disk when this returns."""


class Terms:
    """The last term of each coordinator that a service has heard of.

    Args:
        kept: where they outlive this process; None where they need not.
        now_s: Unix time in seconds.
    """

    def __init__(self, kept: KeptTerms | None = None, now_s: Callable[[], float] = time.time) -> None:
        self._kept = kept
        self._now_s = now_s
        self._last = {} if kept is None else kept.terms()
        self._present: dict[str, int] = {}

    def last(self, coordinator: Identity) -> int:
        """Return the last term of a coordinator; 0 where it has none, or one that is too far in the future."""
        term = self._last.get(coordinator.uri, 0)
        return 0 if self._is_ahead(term) else term

    def present(self, coordinator: Identity) -> int:
        """Return the term of a coordinator's last call; 0 where it had none, as of one that has no other beside it."""
        return self._present.get(coordinator.uri, self.last(coordinator))

    def _is_ahead(self, term: int) -> bool:
        return term > 1000 * (self._now_s() + MOST_AHEAD_S)

    def check(self, caller: Identity, context: Any) -> None:
        """Refuse a call of an earlier term. A call without a term is one of a coordinator that has no other beside it.

        Args:
            caller: member whose call was permitted.
            context: context of the call.

        Raises:
            EarlierTermError: a call of a later term came before.
            TermAheadError: the term is too far in the future.
            ServiceError: a later term cannot be kept.
        """
        if caller.role is not Role.COORDINATOR:
            return
        agent = next((str(value) for key, value in context.invocation_metadata() or () if key == "user-agent"), "")
        if (found := _TERM.search(agent)) is None:
            self._present[caller.uri] = 0
            return
        term, last = int(found[1]), self.last(caller)
        if self._is_ahead(term):
            raise TermAheadError(
                f"the term of coordinator {caller.name} is in the future: check the clocks of its database and of this "
                "machine"
            )
        if term < last:
            raise EarlierTermError(f"another coordinator {caller.name} has taken over: this one no longer leads")
        if term != last:
            if self._kept is not None:
                self._kept.note_term(caller.uri, term)
            self._last[caller.uri] = term
        self._present[caller.uri] = term
