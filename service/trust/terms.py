"""Terms of coordinators: where several share one identity, each call says in which term its caller leads.

One of them leads (`coordinator.leading`). One that was stopped for a while and comes back does not know yet that
another has taken over, and could cancel a job that goes on. It says its term with each call, in the name by which its
software calls itself, and a service refuses a term that is lower than one it has heard of. The term is the word of a
coordinator about itself: the certificate proves who calls, and a false term shuts out nobody but its own identity.
"""

import re
from typing import Any

from service.errors import WrongStateError
from service.identity import Identity, Role

_TERM = re.compile(r" moiety-term/([0-9]{1,18})(?: |$)")


class EarlierTermError(WrongStateError):
    """The caller led once; another leads now."""

    code = "coordinator-superseded"


def agent_of_term(agent: str, term: int) -> str:
    """Return what software calls itself that leads in a term; 0 for one that has no term."""
    return f"{agent} moiety-term/{term}" if term else agent


def service_of_term(term: int) -> str:
    """Return the name of the service whose health a coordinator tells while it leads in a term, and no other does."""
    return f"moiety.term.{term}"


class Terms:
    """The last term of each coordinator that a service has heard of."""

    def __init__(self) -> None:
        self._last: dict[Identity, int] = {}

    def last(self, coordinator: Identity) -> int:
        """Return the last term of a coordinator; 0 where it has none."""
        return self._last.get(coordinator, 0)

    def check(self, caller: Identity, context: Any) -> None:
        """Refuse a call of an earlier term. A call without a term is one of a coordinator that has no other beside it.

        Args:
            caller: whose call was permitted.
            context: of the call.

        Raises:
            EarlierTermError: a call of a later term came before.
        """
        if caller.role is not Role.COORDINATOR:
            return
        agent = next((str(value) for key, value in context.invocation_metadata() or () if key == "user-agent"), "")
        if (found := _TERM.search(agent)) is None:
            return
        term = int(found[1])
        if term < self._last.get(caller, 0):
            raise EarlierTermError(f"another coordinator {caller.name} has taken over since: this one leads no more")
        self._last[caller] = term
