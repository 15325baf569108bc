"""The groups that sums are taken in: integers modulo 2^b, or modulo a prime (`prime_group`).

Masks are uniform elements of the group, so a masked vector is uniform too, and sums are exact: nothing is ever rounded,
and a round whose sum might not fit is refused before it starts.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.errors import LocalFaultError
from mpc.secagg.vector.bit_packing import pack_bits, packed_bytes, unpack_bits

Elements = NDArray[Any]
"""Group elements, shape (length,); their type is the group's own business."""

MASK_CHUNK = 1 << 16
"""Elements of a mask that are expanded at a time: chunk and total stay in the second-level cache. Part of the format of
masks, as a chunk takes whole words of the stream."""

MIN_RING_BITS, MAX_RING_BITS = 16, 64


class SumGroup(Protocol):
    """A finite commutative group in which integers of limited size are represented."""

    @property
    def name(self) -> str:
        """Says which group it is; bound into all keys of a round."""

    @property
    def largest(self) -> int:
        """The largest integer represented; its negative is represented too."""

    def zeros(self, length: int) -> Elements:
        """Return `length` elements of value 0."""

    def encode(self, values: NDArray[np.int64]) -> Elements:
        """Return the elements that stand for integers of any size, reduced into the group; shape (length,)."""

    def decode(self, elements: Elements) -> NDArray[Any]:
        """Return the integers that elements stand for, between -largest - 1 and largest."""

    def accumulate(self, total: Elements, elements: Elements) -> None:
        """Add `elements` to `total` in place."""

    def deduct(self, total: Elements, elements: Elements) -> None:
        """Subtract `elements` from `total` in place."""

    def draw(self, stream: KeyStream, out: Elements) -> None:
        """Overwrite `out`, at most `MASK_CHUNK` elements, with uniform elements from the stream."""

    def wire_bytes(self, length: int) -> int:
        """Return the size of `length` elements on the network."""

    def pack(self, elements: Elements) -> bytes:
        """Return elements as they cross the network."""

    def unpack(self, data: bytes, length: int) -> Elements:
        """Return `length` elements from the network.

        Raises:
            ShapeError: not `wire_bytes(length)` bytes.
            OutOfRangeError: something in it is not an element.
        """


@dataclass(frozen=True)
class RingGroup:
    """The integers modulo 2^bits, held in the smallest machine words of at least that many bits.

    Words wrap by themselves; the bits above `bits` carry no information and are cut off where elements leave.

    Attributes:
        bits: 16 .. 64.
    """

    bits: int

    def __post_init__(self) -> None:
        if not MIN_RING_BITS <= self.bits <= MAX_RING_BITS:
            raise LocalFaultError(
                f"a ring must have {MIN_RING_BITS} to {MAX_RING_BITS} bits, not {self.bits}: use a coarser encoding"
            )

    @property
    def name(self) -> str:
        """Say which group it is."""
        return f"integers modulo 2^{self.bits}"

    @property
    def largest(self) -> int:
        """The largest integer represented."""
        return (1 << (self.bits - 1)) - 1

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype("<u2" if self.bits <= 16 else "<u4" if self.bits <= 32 else "<u8")

    def zeros(self, length: int) -> Elements:
        """Return elements of value 0; see `SumGroup`."""
        return np.zeros(length, dtype=self._dtype)

    def encode(self, values: NDArray[np.int64]) -> Elements:
        """Return integers modulo 2^bits; see `SumGroup`."""
        return np.asarray(values, dtype=np.int64).astype(self._dtype)

    def decode(self, elements: Elements) -> NDArray[np.int64]:
        """Return signed integers: two's complement of `bits` bits."""
        spare = np.int64(64 - self.bits)
        return (elements.astype(np.uint64).view(np.int64) << spare) >> spare

    def accumulate(self, total: Elements, elements: Elements) -> None:
        """Add in place."""
        np.add(total, elements, out=total)

    def deduct(self, total: Elements, elements: Elements) -> None:
        """Subtract in place."""
        np.subtract(total, elements, out=total)

    def draw(self, stream: KeyStream, out: Elements) -> None:
        """Overwrite with the next words of the stream, little-endian; see `SumGroup`.

        A chunk takes a whole number of 64-bit words from the stream; what the last one has in excess is dropped.
        """
        per_word = 8 // out.itemsize
        whole = out.size // per_word * per_word
        stream.fill(out[:whole].view(np.uint64))
        if whole < out.size:
            out[whole:] = stream.words(1).view(out.dtype)[: out.size - whole]

    def wire_bytes(self, length: int) -> int:
        """Return the size on the network: bits / 8 bytes per element, rounded up in all."""
        return packed_bytes(length, self.bits)

    def pack(self, elements: Elements) -> bytes:
        """Return elements as they cross the network."""
        if self.bits == 8 * elements.itemsize:
            return elements.tobytes()
        return pack_bits(elements.astype(np.uint64) & np.uint64((1 << self.bits) - 1), self.bits)

    def unpack(self, data: bytes, length: int) -> Elements:
        """Return elements from the network; see `SumGroup`."""
        if self.bits == 8 * self._dtype.itemsize and len(data) == self.wire_bytes(length):
            return np.frombuffer(data, dtype=self._dtype)
        return unpack_bits(data, length, self.bits).astype(self._dtype)
