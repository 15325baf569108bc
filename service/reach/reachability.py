"""A member's answer to the question whom it reaches, as `moiety doctor --federation` asks it."""

import asyncio
from collections.abc import Sequence

from service.errors import InvalidRequestError
from service.identity import Identity
from service.reach.attempt import Caller, Peer, reach_all
from service.reach.check import Check

MAX_TIMEOUT_S = 300.0


class Reachability:
    """Dials the members that a configuration names, and nobody else.

    Args:
        caller: identity to call with.
        peers: the members.
    """

    def __init__(self, caller: Caller, peers: Sequence[Peer]) -> None:
        self._caller = caller
        self._peers = peers
        self._turn = asyncio.Lock()  # a caller who repeats itself must not multiply connections

    async def check(self, timeout_s: float) -> list[tuple[Identity, Check]]:
        """Dial all members.

        Args:
            timeout_s: seconds to wait for each attempt.

        Returns:
            Each member with what came of it, in the order of the peers.

        Raises:
            InvalidRequestError: the time is not above 0 and at most `MAX_TIMEOUT_S`.
        """
        if not 0 < timeout_s <= MAX_TIMEOUT_S:
            raise InvalidRequestError(f"the time for each attempt must be above 0 and at most {MAX_TIMEOUT_S:g} s")
        async with self._turn:
            checks = await asyncio.to_thread(reach_all, self._peers, self._caller, timeout_s)
        return [(peer.identity, check) for peer, check in zip(self._peers, checks, strict=True)]
