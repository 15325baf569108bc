"""Callers whose software speaks another protocol are refused by the name by which it calls itself."""

from types import SimpleNamespace

import pytest

from service.trust.protocol import PROTOCOL, ProtocolDiffersError, agent_of_protocol, check_agent
from service.trust.terms import agent_of_term
from service.watch.callers import own_agent


def calling(agent):
    return SimpleNamespace(invocation_metadata=lambda: (("user-agent", agent),))


LIBRARY = " grpc-python-asyncio/1.85"


@pytest.mark.parametrize(
    "agent",
    [
        agent_of_protocol(own_agent()) + LIBRARY,
        agent_of_term(agent_of_protocol(own_agent()), 7) + LIBRARY,
        LIBRARY.strip(),  # another program, which says nothing of a protocol
        "",
    ],
)
def test_who_speaks_this_protocol_or_says_nothing_is_let_in(agent):
    check_agent("bank", calling(agent))


@pytest.mark.parametrize(
    ("agent", "theirs"),
    [
        (f"moiety/0.1.0{LIBRARY}", "an earlier protocol"),
        (f"moiety/0.1.0 moiety-term/3{LIBRARY}", "an earlier protocol"),
        (f"moiety/0.2.0 moiety-protocol/{PROTOCOL + 1}{LIBRARY}", f"protocol {PROTOCOL + 1}"),
        (f"moiety/0.2.0 moiety-protocol/{PROTOCOL + 1} moiety-term/3{LIBRARY}", f"protocol {PROTOCOL + 1}"),
        (f"moiety/0.2.0 moiety-protocol/{10 * PROTOCOL}{LIBRARY}", f"protocol {10 * PROTOCOL}"),
        (f"moiety/0.1.0 moiety-protocol/x{LIBRARY}", "an earlier protocol"),
    ],
)
def test_who_speaks_another_protocol_is_refused_with_both_numbers(agent, theirs):
    with pytest.raises(ProtocolDiffersError, match=f"speaks {theirs}, and this service protocol {PROTOCOL}"):
        check_agent("bank", calling(agent))
