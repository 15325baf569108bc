"""The groups that sums are taken in: integers modulo 2^b, or modulo the product of 21-bit primes.

Masks are uniform elements of the group, so a masked vector is uniform too, and sums are exact: nothing is ever rounded,
and a round whose sum might not fit is refused before it starts.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.kernels import RESIDUE_BITS, RESIDUES_PER_WORD
from mpc.errors import LocalFaultError, OutOfRangeError
from mpc.secagg.vector.bit_packing import pack_bits, packed_bytes, unpack_bits

Elements = NDArray[Any]
"""Group elements: an array whose type and layout are the group's own business."""

MASK_CHUNK = 1 << 16
"""Elements of a mask that are expanded at a time: chunk and total stay in the second-level cache. Part of the format of
masks modulo primes, where rejected words are replaced at the end of each chunk."""

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

    def length(self, elements: Elements) -> int:
        """Return how many elements there are."""

    def accumulate(self, total: Elements, elements: Elements) -> None:
        """Add `elements` to `total` in place."""

    def deduct(self, total: Elements, elements: Elements) -> None:
        """Subtract `elements` from `total` in place."""

    def slice(self, elements: Elements, start: int, stop: int) -> Elements:
        """Return a view of elements start .. stop - 1."""

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
                f"a ring must have {MIN_RING_BITS} to {MAX_RING_BITS} bits, not {self.bits}: use a coarser encoding "
                "or the residue field"
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

    def length(self, elements: Elements) -> int:
        """Return how many elements there are."""
        return int(elements.size)

    def accumulate(self, total: Elements, elements: Elements) -> None:
        """Add in place."""
        np.add(total, elements, out=total)

    def deduct(self, total: Elements, elements: Elements) -> None:
        """Subtract in place."""
        np.subtract(total, elements, out=total)

    def slice(self, elements: Elements, start: int, stop: int) -> Elements:
        """Return a view of some elements."""
        return elements[start:stop]

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


@dataclass(frozen=True)
class ResidueGroup:
    """The integers modulo a product of 21-bit primes: for sums that go on as Shamir shares (`mpc.arithmetic.field`).

    Attributes:
        n_primes: 1 .. 6.
    """

    n_primes: int

    def __post_init__(self) -> None:
        ResidueField(self.n_primes)

    @property
    def name(self) -> str:
        """Say which group it is."""
        return f"integers modulo {self.n_primes} primes of 21 bits"

    @property
    def field(self) -> ResidueField:
        """The field of residues whose elements these are."""
        return ResidueField(self.n_primes)

    @property
    def largest(self) -> int:
        """The largest integer represented."""
        return self.field.half_order

    @property
    def _bits_of_words(self) -> list[int]:
        n_words = self.field.n_words
        last = self.n_primes - RESIDUES_PER_WORD * (n_words - 1)
        return [RESIDUE_BITS * RESIDUES_PER_WORD] * (n_words - 1) + [RESIDUE_BITS * last]

    def zeros(self, length: int) -> Elements:
        """Return elements of value 0; see `SumGroup`."""
        return self.field.zeros(length)

    def encode(self, values: NDArray[np.int64]) -> Elements:
        """Return the residues of integers; see `SumGroup`."""
        order = self.field.order
        if 2 * self.largest < 1 << 64:  # where a 64-bit integer can be too large for the field
            values = np.asarray([(int(v) + order // 2) % order - order // 2 for v in values], dtype=np.int64)
        return self.field.encode(values)

    def decode(self, elements: Elements) -> NDArray[Any]:
        """Return signed integers: int64 up to three primes, else Python integers."""
        return self.field.decode(elements)

    def length(self, elements: Elements) -> int:
        """Return how many elements there are."""
        return int(elements.shape[1])

    def accumulate(self, total: Elements, elements: Elements) -> None:
        """Add in place."""
        self.field.accumulate(total, elements)

    def deduct(self, total: Elements, elements: Elements) -> None:
        """Subtract in place."""
        self.field.accumulate(total, self.field.negate(np.ascontiguousarray(elements)))

    def slice(self, elements: Elements, start: int, stop: int) -> Elements:
        """Return a view of some elements."""
        return elements[:, start:stop]

    def draw(self, stream: KeyStream, out: Elements) -> None:
        """Overwrite with uniform elements: `ResidueField.random` of this shape; see `SumGroup`."""
        out[:] = self.field.random(stream, out.shape[1])

    def wire_bytes(self, length: int) -> int:
        """Return the size on the network: 21 bits per prime."""
        return sum(packed_bytes(length, bits) for bits in self._bits_of_words)

    def pack(self, elements: Elements) -> bytes:
        """Return elements as they cross the network: the used bits of all first words, then of all second ones."""
        return b"".join(pack_bits(row, bits) for row, bits in zip(elements, self._bits_of_words, strict=True))

    def unpack(self, data: bytes, length: int) -> Elements:
        """Return elements from the network; see `SumGroup`."""
        rows, start = [], 0
        for bits in self._bits_of_words:
            stop = start + packed_bytes(length, bits)
            rows.append(unpack_bits(data[start:stop], length, bits))
            start = stop
        if start != len(data):
            raise OutOfRangeError(f"{len(data) - start} bytes follow the last packed element")
        elements = np.stack(rows)
        self.field.check(elements)
        return elements
