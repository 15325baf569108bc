"""A service that speaks another protocol: run as a module in the place of `cli.main`.

The first argument is the number of its protocol; 0 is a version from before there were numbers.
"""

import sys
from typing import Any

import service.interceptor
import service.server
import transport.calls.channel
from cli.main import main
from service.trust import protocol
from transport.calls import way


async def _is_reached(channel: Any, **how: Any) -> None:
    """Ask nobody for the protocol, as versions without a number."""


if __name__ == "__main__":
    protocol.PROTOCOL = int(sys.argv.pop(1))
    name = f"moiety.protocol.{protocol.PROTOCOL}"
    service.server.PROTOCOL_SERVICE = way.PROTOCOL_SERVICE = name
    if protocol.PROTOCOL == 0:
        service.server.PROTOCOL_SERVICE = ""
        transport.calls.channel.agent_of_protocol = lambda agent: agent
        service.interceptor.check_agent = lambda caller, context: None
        original, way.wait_until_reachable = way.wait_until_reachable, _is_reached
        for module in list(sys.modules.values()):
            if getattr(module, "wait_until_reachable", None) is original:
                module.wait_until_reachable = _is_reached  # type: ignore[attr-defined]
    main()
