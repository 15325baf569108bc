"""The number of the protocol: members compare it before anything is reserved, so that no job fails half-way by it.

Two versions of Moiety understand each other where frames, calls and their messages are the same. What is installed
(`moiety --version`) does not tell that. So the wire has a number of its own, and `FORMS` has a digest of the wire for
each: a test computes it from the code, and fails where the wire has changed and the number has not.

Who dials asks the health service about the protocol by its name, which another protocol's service does not know; who is
called reads the number in the name by which the caller's software calls itself. Neither is proof: a member that lies
about it fails later, as it could at any time.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from service.errors import WrongStateError

PROTOCOL = 5

FORMS: Mapping[int, str] = {
    1: "281a8cfe0b03f805f2ddcd99b980d3d074195e1fa5241488549170a133d86afb",
    2: "b7921a004d7710adf48333252300b7f136ecaaaa05389d326ec6f9a4167de381",
    3: "bb93ace26601f6124b0d0575379e0097f2c796741e0d276faf4c7f7be7c072a6",
    4: "1a3dffb0a006b63d38b5efa0ac005abcfdb990a35cbdfb0600a684dc6a9a07ff",
    5: "f94e7f5b8db13976df14b6b82ec9004c9dddf1bccccd85889fa8254f17d2b986",
}
"""Number of each protocol to the digest of its wire (`tests/test_protocol_number.py`)."""


@cache
def own_version() -> str:
    """Return what is installed; looked up once, as that takes more than a millisecond."""
    return version("moiety")


PROTOCOL_SERVICE = f"moiety.protocol.{PROTOCOL}"
"""Name under which a service tells its health to those who speak this protocol."""

_AGENT = re.compile(r"moiety/(?P<version>[^ ]{1,32})(?:.* moiety-protocol/(?P<protocol>[0-9]{1,9}))?(?: |$)")


class ProtocolDiffersError(WrongStateError):
    """The other end speaks another protocol: it runs another version of Moiety."""

    code = "protocol-differs"


def agent_of_protocol(agent: str) -> str:
    """Return what software calls itself that speaks this protocol."""
    return f"{agent} moiety-protocol/{PROTOCOL}"


def check_agent(caller: str, context: Any) -> None:
    """Refuse a caller whose software says that it speaks another protocol, or is of a version without a number.

    Args:
        caller: its name, for the error text.
        context: context of the call.

    Raises:
        ProtocolDiffersError: names both numbers.
    """
    agent = next((str(value) for key, value in context.invocation_metadata() or () if key == "user-agent"), "")
    if (found := _AGENT.match(agent)) is None:
        return
    if found["protocol"] != str(PROTOCOL):
        theirs = f"protocol {found['protocol']}" if found["protocol"] else "an earlier protocol"
        raise ProtocolDiffersError(
            f"{caller} runs Moiety {found['version']}, which speaks {theirs}, and this service protocol {PROTOCOL}: "
            "install the same version at both"
        )
