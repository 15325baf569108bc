"""Masks: uniform group elements expanded from 256-bit keys with AES-256-CTR, in chunks that stay in the cache."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from entropy import KeyStream
from mpc.secagg.vector.group import MASK_CHUNK, Elements, SumGroup

_STREAMS = 256  # open at a time


@dataclass(frozen=True)
class Mask:
    """One mask: its key, and whether it is added or subtracted.

    Attributes:
        key: 32 bytes, used for this mask alone.
        is_negative: subtract it.
    """

    key: bytes = field(repr=False)
    is_negative: bool

    def opposite(self) -> "Mask":
        """Return the mask that takes this one away."""
        return Mask(self.key, not self.is_negative)


def apply_masks(group: SumGroup, total: Elements, masks: Iterable[Mask]) -> None:
    """Add masks to `total` in place.

    A mask is what `group.draw` draws, `MASK_CHUNK` elements at a time, from the AES-256-CTR stream of its key. The loop
    over masks is the inner one and the buffer is reused: per mask and element the cost is one write and one read of the
    second-level cache, with no memory taken. (Taking new memory for each mask costs ten times the cipher itself.)

    Args:
        group: group of the sum.
        total: contiguous elements.
        masks: any number.
    """
    remaining = iter(masks)
    while batch := list(islice(remaining, _STREAMS)):
        _apply_batch(group, total, batch)


def _apply_batch(group: SumGroup, total: Elements, masks: Sequence[Mask]) -> None:
    length = len(total)
    streams = [KeyStream(mask.key) for mask in masks]
    buffer = group.zeros(min(MASK_CHUNK, length))
    for start in range(0, length, MASK_CHUNK):
        part = total[start : start + MASK_CHUNK]
        drawn = buffer[: len(part)]
        for mask, stream in zip(masks, streams, strict=True):
            group.draw(stream, drawn)
            (group.deduct if mask.is_negative else group.accumulate)(part, drawn)
