"""libsodium's ristretto255, as functions of addresses, which release the GIL while they compute.

The library is what the distribution of `rbcl` carries. rbcl's own functions take and return `bytes`, one point each;
these work on arrays of points in place, which makes threads scale (docs/decisions/039). An image of containers
has the library beside the kernels, under `PREPARED`, where the dynamic loader finds it: rbcl writes it to a temporary
file at every start, which a file system that forbids programs refuses to load.
"""

import contextlib
import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mpc.errors import LocalFaultError

POINT_BYTES = 32
SCALAR_BYTES = 32
UNIFORM_BYTES = 64
"""Number of uniform bytes that make a uniform point, or a uniform scalar."""

PREPARED = "libmoiety-sodium.so"
"""Name of the library in an image (`deploy/image/compile-kernels`)."""


class GroupUnavailableError(LocalFaultError):
    """libsodium cannot be loaded on this machine."""

    code = "group-unavailable"


@dataclass(frozen=True)
class Ristretto255:
    """Functions of libsodium. Each takes addresses, the result's first, and returns 0 where it succeeded.

    Attributes:
        multiply: result, scalar, point: fails where the bytes are no point, or the result is the identity.
        from_uniform: result, 64 uniform bytes: the one-way map of RFC 9496, section 4.3.4.
        reduce: result, 64 bytes, little-endian: the number modulo the order of the group. Returns nothing.
        invert: result, scalar: fails for zero.
        add: result, two points: fails where one of them is none.
        subtract: result, a point and what is taken from it; as `add`.
    """

    multiply: Callable[..., int]
    from_uniform: Callable[..., int]
    reduce: Callable[..., object]
    invert: Callable[..., int]
    add: Callable[..., int]
    subtract: Callable[..., int]


@cache
def ristretto255() -> Ristretto255:
    """Load the library, at the first call.

    Raises:
        GroupUnavailableError: it cannot be loaded.
    """
    library = _library()

    def function(name: str, n_arguments: int, result: type | None = ctypes.c_int) -> Callable[..., Any]:
        found = library[name]  # an object of our own: rbcl's keep their types
        found.argtypes = [ctypes.c_void_p] * n_arguments
        found.restype = result
        return found

    return Ristretto255(
        multiply=function("crypto_scalarmult_ristretto255", 3),
        from_uniform=function("crypto_core_ristretto255_from_hash", 2),
        reduce=function("crypto_core_ristretto255_scalar_reduce", 2, None),
        invert=function("crypto_core_ristretto255_scalar_invert", 2),
        add=function("crypto_core_ristretto255_add", 3),
        subtract=function("crypto_core_ristretto255_sub", 3),
    )


def _library() -> ctypes.CDLL:
    with contextlib.suppress(OSError):
        prepared = ctypes.CDLL(PREPARED)
        prepared.sodium_init()
        return prepared
    try:
        import rbcl  # which initialises the library
    except OSError as error:
        raise GroupUnavailableError(
            "the library of the group ristretto255 cannot be loaded: it needs a folder of temporary files from which "
            "programs may be loaded"
        ) from error
    library: ctypes.CDLL = rbcl._sodium
    with contextlib.suppress(OSError):
        Path(library._name).unlink()  # it is mapped by now, and rbcl would leave the file behind
    return library
