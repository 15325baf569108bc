"""The integers modulo the prime 2^64 - 2^32 + 1, in which sums are taken of vectors that members prove."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.errors import OutOfRangeError, ShapeError
from mpc.prime import field as prime_field
from mpc.prime import kernels as prime_kernels
from mpc.prime.kernels import PRIME
from mpc.secagg.vector.group import Elements


@dataclass(frozen=True)
class PrimeGroup:
    """Implements `SumGroup`: an element in each 64-bit word, little-endian, below the prime."""

    @property
    def name(self) -> str:
        """Say which group it is."""
        return "integers modulo 2^64 - 2^32 + 1"

    @property
    def largest(self) -> int:
        """The largest integer represented."""
        return PRIME // 2

    def zeros(self, length: int) -> Elements:
        """Return elements of value 0."""
        return np.zeros(length, dtype=np.uint64)

    def encode(self, values: NDArray[np.int64]) -> Elements:
        """Return what stands for integers, shape (length,)."""
        return prime_field.signed(np.asarray(values, dtype=np.int64))

    def decode(self, elements: Elements) -> NDArray[Any]:
        """Return the integers that elements stand for, all of which 64 bits and a sign hold."""
        return np.where(elements > np.uint64(self.largest), elements - np.uint64(PRIME), elements).view(np.int64)

    def accumulate(self, total: Elements, elements: Elements) -> None:
        """Add in place."""
        prime_kernels.add_to(total, elements)

    def deduct(self, total: Elements, elements: Elements) -> None:
        """Subtract in place."""
        prime_kernels.take_from(total, elements)

    def draw(self, stream: KeyStream, out: Elements) -> None:
        """Overwrite with uniform elements; see `prime_field.draw`."""
        prime_field.draw(stream, out)

    def wire_bytes(self, length: int) -> int:
        """Return the size on the network: 8 bytes for each element."""
        return 8 * length

    def pack(self, elements: Elements) -> bytes:
        """Return elements as they cross the network."""
        return elements.astype("<u8").tobytes()

    def unpack(self, data: bytes, length: int) -> Elements:
        """Return elements from the network; see `SumGroup`."""
        if len(data) != self.wire_bytes(length):
            raise ShapeError(f"{length} elements are not {len(data)} bytes")
        elements = np.frombuffer(data, dtype="<u8")
        if length and int(elements.max()) >= PRIME:
            raise OutOfRangeError("a word is no element of the field")
        return elements
