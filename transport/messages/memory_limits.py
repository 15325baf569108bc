"""Limits on unread arrays in memory: of one sender over all jobs, and of all senders together.

What somebody waits for always has room, whatever else is held: so a sender that fills its share slows down itself,
and no job can stop another. How much that is, our own programs decide, not the sender.

The bound. Of one sender at most SENDER_BYTES of arrays that nobody asked for yet are held. Besides, gRPC holds
for each of its calls at most two windows that nobody has read, and one message where one is being read, so with the
limits of `service.limits` and `service.server` in all

    SENDER_BYTES + reads_each * MAX_MESSAGE_BYTES + calls_each * 2 * STREAM_WINDOW_BYTES
        =  128 MiB + 144 * 449 KiB + 500 * 128 KiB  <  254 MiB.

Of all senders together, arrays take at most ALL_BYTES. Beyond these, first arrays of stages have
`transport.messages.first_arrays.FIRST_BYTES` = 128 KiB of room in each job for each sender.
"""

import asyncio
from collections.abc import Hashable

SENDER_BYTES = 128 << 20
ALL_BYTES = 512 << 20
MIN_CHARGE_BYTES = 1024
"""Bytes that every array counts as at least, so that the number of empty arrays is bounded, too."""


def charge(n_bytes: int) -> int:
    """Return what an array of so many bytes counts as."""
    return max(n_bytes, MIN_CHARGE_BYTES)


class ReceiveMemory:
    """The memory of one process for received arrays.

    Args:
        sender_bytes: maximum for one sender.
        all_bytes: maximum for all senders together.
    """

    def __init__(self, sender_bytes: int = SENDER_BYTES, all_bytes: int = ALL_BYTES) -> None:
        self.sender_bytes = sender_bytes
        self.all_bytes = all_bytes
        self.taken_bytes = 0
        self.changed = asyncio.Event()
        """Set when who waits for room should look again."""
        self._shares: dict[Hashable, Share] = {}

    def share_of(self, sender: Hashable) -> "Share":
        """Return the share of a sender, the same for all of its jobs."""
        return self._shares.setdefault(sender, Share(self))


class Share:
    """Memory that one sender has taken. Made by `ReceiveMemory.share_of`."""

    def __init__(self, room: ReceiveMemory) -> None:
        self.room = room
        self.taken_bytes = 0

    def has_room_for(self, n_bytes: int) -> bool:
        """Whether so many bytes fit, beside what is held already."""
        room = self.room
        return self.taken_bytes + n_bytes <= room.sender_bytes and room.taken_bytes + n_bytes <= room.all_bytes

    def take(self, n_bytes: int) -> None:
        """Count bytes as taken."""
        self.taken_bytes += n_bytes
        self.room.taken_bytes += n_bytes

    def give_back(self, n_bytes: int) -> None:
        """Count bytes as free."""
        self.taken_bytes -= n_bytes
        self.room.taken_bytes -= n_bytes
        self.room.changed.set()
