"""The journal of a member, which it writes before it answers, so that it never answers twice, even after a crash."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from mpc.secagg.errors import RoundReusedError, ShareKindError
from mpc.transcript import RoundId


class ShareKind(StrEnum):
    """The two secrets of each member of which shares exist. Whoever has both can open the member's vector."""

    SELF_MASK_SEED = "seed of its own mask"
    MASK_KEY = "mask key"


class MemberJournal(Protocol):
    """A member's persistent memory. Each call returns only when its entry is durable.

    An implementation refuses entries that contradict earlier ones; members call it before anything leaves them. Any
    other error means that the entry could not be written, and the member then leaves the round.
    """

    def open_round(self, round_id: RoundId) -> None:
        """Write that this member takes part in a round.

        Raises:
            RoundReusedError: it has been opened before, in this process or an earlier one; or shares have been released
                in another attempt of the round: its sum may be known, and the sum of other survivors could be
                subtracted from it.
        """

    def record_release(self, round_id: RoundId, kinds: Mapping[int, ShareKind]) -> None:
        """Write which kind of share of which member is about to be released.

        Args:
            round_id: an opened round.
            kinds: owner of the secret to the kind.

        Raises:
            RoundReusedError: the round has not been opened, or shares have been released in it or in another attempt of
                it: once is all.
            ShareKindError: the other kind of one of these owners has been released in this round.
        """


class MemoryJournal:
    """A journal that lasts as long as the process: for simulations, tests, and as the rule that others implement."""

    def __init__(self) -> None:
        self._released: dict[RoundId, dict[int, ShareKind] | None] = {}

    def open_round(self, round_id: RoundId) -> None:
        """See `MemberJournal`."""
        if round_id in self._released:
            raise RoundReusedError(f"this member has already taken part in {round_id}; a retry is a new attempt")
        self._check_no_other_attempt(round_id)
        self._released[round_id] = None

    def record_release(self, round_id: RoundId, kinds: Mapping[int, ShareKind]) -> None:
        """See `MemberJournal`."""
        if round_id not in self._released:
            raise RoundReusedError(f"this member has not opened {round_id}")
        check_release(self._released[round_id] or {}, kinds)
        if self._released[round_id] is not None:
            raise RoundReusedError(f"this member has already released shares in {round_id}")
        self._check_no_other_attempt(round_id)
        self._released[round_id] = dict(kinds)

    def _check_no_other_attempt(self, round_id: RoundId) -> None:
        for other, released in self._released.items():
            if released is not None and (other.session, other.number) == (round_id.session, round_id.number):
                raise RoundReusedError(
                    f"this member has already released shares in {other}, so the sum of that attempt may have been "
                    "opened"
                )


def check_release(before: Mapping[int, ShareKind], now: Mapping[int, ShareKind]) -> None:
    """Refuse to release a second kind of share of any member.

    Raises:
        ShareKindError: names the owner.
    """
    for owner, kind in now.items():
        if before.get(owner, kind) is not kind:
            raise ShareKindError(
                f"a share of the {before[owner]} of member {owner} was released; a share of its {kind} must not be "
                "released, too"
            )
