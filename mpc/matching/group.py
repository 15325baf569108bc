"""The group ristretto255 (RFC 9496), many points at a time: hashing to it, and multiplication by one secret scalar.

The group has prime order, about 2^252, and no other points: what decodes is an element, and the only one of small order
is the identity. Arrays of points have shape (n, 32) and type uint8, one canonical encoding per row. Written additively
in RFC 9496, multiplicatively in papers on matching: "exponentiation" is `multiply` here.

The functions release the GIL for all but a hundredth of the time, so threads of one process use all cores.
`spread` cuts work into pieces for `Session.compute`, which has a thread for each in a service, and none in one process
of tests. So there are no processes to start, to keep apart from gRPC or to end, and no secret leaves ours.
"""

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from itertools import repeat
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy
from mpc.errors import ProtocolError, ShapeError
from mpc.matching.sodium import POINT_BYTES, SCALAR_BYTES, UNIFORM_BYTES, ristretto255
from mpc.protocol.concurrency import run_together
from mpc.protocol.session import Session

Bytes = NDArray[np.uint8]

PIECE = 512
"""Points that one thread works on at a time: some 20 ms, a hundred times what starting it takes."""

_HASH_BLOCK_BYTES = 128  # of SHA-512
_MAX_TAG_BYTES = 255


class InvalidPointError(ProtocolError):
    """Bytes that are no element of the group, or are the identity. Shows neither the bytes nor where they stand."""


class Scalar:
    """A secret number modulo the order of the group, not zero. Shows nothing of itself; cannot be pickled or copied.

    Args:
        encoded: 32 bytes, little-endian, below the order.
    """

    __slots__ = ("_encoded",)

    def __init__(self, encoded: bytes) -> None:
        if len(encoded) != SCALAR_BYTES:
            raise ShapeError(f"a scalar has {SCALAR_BYTES} bytes, not {len(encoded)}")
        self._encoded = encoded

    @classmethod
    def draw(cls, entropy: Entropy) -> "Scalar":
        """Draw a scalar: 512 random bits modulo the order, uniform but for 2^-259."""
        reduced = ctypes.create_string_buffer(SCALAR_BYTES)
        while not any(reduced.raw):
            ristretto255().reduce(reduced, entropy.read(UNIFORM_BYTES))
        return cls(reduced.raw)

    def inverse(self) -> "Scalar":
        """Return the scalar whose multiplication undoes that by this one."""
        inverted = ctypes.create_string_buffer(SCALAR_BYTES)
        if ristretto255().invert(inverted, self._encoded):
            raise ZeroDivisionError("zero has no inverse")
        return Scalar(inverted.raw)

    def multiply(self, points: Bytes) -> Bytes:
        """Return each point times this scalar; shape (n, 32), as `points`. Costs 40 microseconds each.

        The time does not depend on the scalar.

        Raises:
            InvalidPointError: a row is not the canonical encoding of a point, or is the identity.
        """
        if points.ndim != 2 or points.shape[1] != POINT_BYTES or points.dtype != np.uint8:
            raise ShapeError(f"points are uint8 of shape (n, {POINT_BYTES}), not {points.dtype} of {points.shape}")
        points = np.ascontiguousarray(points)
        products = np.empty_like(points)
        n_bytes, first, into = points.nbytes, points.ctypes.data, products.ctypes.data
        results = map(
            ristretto255().multiply,
            range(into, into + n_bytes, POINT_BYTES),
            repeat(self._encoded),
            range(first, first + n_bytes, POINT_BYTES),
        )
        if any(list(results)):
            raise InvalidPointError("bytes that are not an element of the group, or are its identity")
        return products

    def __repr__(self) -> str:
        return "Scalar()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret scalar must not be copied or stored")


def hash_to_points(messages: Sequence[bytes], tag: bytes) -> Bytes:
    """Hash messages to points whose logarithms nobody knows: hash_to_ristretto255 of RFC 9380, appendix B, SHA-512.

    Costs 15 microseconds each.

    Args:
        messages: n of them.
        tag: the domain separation tag, 1 .. 255 bytes: what each use of the group has for its own.

    Returns:
        Shape (n, 32).
    """
    return points_of(b"".join(map(_expander(tag), messages)))


def points_of(uniform: bytes) -> Bytes:
    """Return the points that uniform bytes stand for, 64 for each; nobody knows their logarithms. Shape (n, 32)."""
    n_points = len(uniform) // UNIFORM_BYTES
    points = np.empty((n_points, POINT_BYTES), dtype=np.uint8)
    source = np.frombuffer(uniform, dtype=np.uint8)
    first, into = source.ctypes.data, points.ctypes.data
    addresses = range(into, into + points.nbytes, POINT_BYTES), range(first, first + len(uniform), UNIFORM_BYTES)
    if any(list(map(ristretto255().from_uniform, *addresses))):
        raise ProtocolError("libsodium maps all bytes to a point")
    return points


def add_points(points: Bytes, others: Bytes, *, negated: bool = False) -> Bytes:
    """Return the sums of points in pairs, or with `negated` the differences; all of shape (n, 32).

    Raises:
        InvalidPointError: a row is not the canonical encoding of a point.
    """
    if points.shape != others.shape or points.shape[1:] != (POINT_BYTES,):
        raise ShapeError(f"points are uint8 of shape (n, {POINT_BYTES}), not {points.shape} and {others.shape}")
    points, others = np.ascontiguousarray(points), np.ascontiguousarray(others)
    sums = np.empty_like(points)
    work = ristretto255().subtract if negated else ristretto255().add
    first = (array.ctypes.data for array in (sums, points, others))
    if any(list(map(work, *(range(start, start + points.nbytes, POINT_BYTES) for start in first)))):
        raise InvalidPointError("bytes that are not an element of the group")
    return sums


async def spread(session: Session, work: Callable[..., Any], *arrays: Any) -> list[Any]:
    """Run work on pieces of some sequences at once, in as many threads as the session's `compute` has.

    Args:
        session: my end of the job.
        work: takes a piece of each sequence; the pieces of one call are from the same places.
        arrays: sequences of one length; cut into pieces of `PIECE`.

    Returns:
        What the calls returned, in the order of the pieces; nothing for sequences without elements.

    Raises:
        Exception: the first that a call raised; the threads of the others end for themselves.
    """
    starts = range(0, len(arrays[0]), PIECE)
    calls = (session.compute(work, *(array[start : start + PIECE] for array in arrays)) for start in starts)
    return await run_together(*calls)


@cache
def _expander(tag: bytes) -> Callable[[bytes], bytes]:
    """Return expand_message_xmd of RFC 9380, section 5.3.1, with SHA-512, for this tag and 64 bytes."""
    if not 1 <= len(tag) <= _MAX_TAG_BYTES:
        raise ShapeError(f"a domain separation tag has 1 to {_MAX_TAG_BYTES} bytes, not {len(tag)}")
    tag_prime = tag + bytes([len(tag)])
    begun = hashlib.sha512(bytes(_HASH_BLOCK_BYTES))
    length_and_tag = UNIFORM_BYTES.to_bytes(2, "big") + b"\0" + tag_prime
    block_and_tag = b"\1" + tag_prime

    def expand(message: bytes) -> bytes:
        inner = begun.copy()
        inner.update(message + length_and_tag)
        return hashlib.sha512(inner.digest() + block_and_tag).digest()

    return expand
