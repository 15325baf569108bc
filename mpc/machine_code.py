"""Machine code for modules of kernels: by numba at import, or from libraries that were made beforehand.

numba brings the LLVM compiler, 200 MB on disk, a second of processor time and 60 MB of memory in every process. A
service needs none of it once its kernels are compiled: `deploy/image/compile-kernels` writes them, as numba has
translated them, into a shared library of 30 kB for each module, and where the dynamic loader finds that library, numba
is not loaded. An analyst's installation has neither: it plans jobs, and calls no kernel.
Its name holds a digest of the source of the module, so that a library of other kernels is never taken.

Both ways check every argument: element type, number of dimensions, memory order, and that what is written may be. Sizes
are the callers' matter, in both.
"""

import ctypes
import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

SYMBOL_PREFIX = "moiety_"
_C_TYPES = {"uint8": "uint8_t", "uint64": "uint64_t", "int64": "int64_t", "float64": "double", "void": "void"}


@dataclass(frozen=True)
class Array:
    """A C-contiguous array as an argument of a kernel.

    Attributes:
        element: its type: uint8, uint64, int64 or float64.
        n_dimensions: dimensions of the array.
        is_written: whether the kernel writes to it.
    """

    element: str
    n_dimensions: int = 1
    is_written: bool = False


@dataclass(frozen=True)
class Signature:
    """What a kernel takes and returns; scalars are named by their element type."""

    arguments: tuple[Array | str, ...]
    returns: str

    def c_declaration(self, name: str) -> str:
        """Return the function's declaration in C: of an array its address, then its sizes."""
        parameters: list[str] = []
        for argument in self.arguments:
            if isinstance(argument, Array):
                qualifier = "" if argument.is_written else "const "
                parameters += [f"{qualifier}{_C_TYPES[argument.element]} *", *["intptr_t"] * argument.n_dimensions]
            else:
                parameters.append(_C_TYPES[argument])
        return f"{_C_TYPES[self.returns]} {SYMBOL_PREFIX}{name}({', '.join(parameters)});"


SIGNATURES: dict[str, dict[str, Signature]] = {}
"""The signatures of all kernels, by module and name."""


def library_name(module: str) -> str:
    """Return the file name of a library of the present kernels of a module."""
    specification = importlib.util.find_spec(module)
    assert specification is not None
    source = specification.loader.get_source(module)  # type: ignore[union-attr]
    digest = hashlib.sha256((source or "").encode()).hexdigest()
    return f"libmoiety-kernels-{digest[:16]}.so"


def kernel(*arguments: Array | str, returns: str = "void") -> Callable[[F], F]:
    """Make a function of arrays machine code, for one signature, which releases the GIL."""
    signature = Signature(arguments, returns)

    def make(function: F) -> F:
        SIGNATURES.setdefault(function.__module__, {})[function.__name__] = signature
        library = _library(function.__module__)
        if library is None:
            return _compiled(function, signature)
        return cast(F, _Prepared(function.__name__, signature, library))

    return make


def inlined(function: F) -> F:
    """Make a function part of the kernels that call it."""
    if _library(function.__module__) is not None:
        return function
    try:
        from numba import njit
    except ModuleNotFoundError:
        return function
    return cast(F, njit(inline="always")(function))


def _compiled(function: F, signature: Signature) -> F:
    """Compile now; keep the machine code where a cache folder is writable.

    A division by zero is infinite or not a number, as in NumPy: an exception would need numba's run-time library.
    """
    try:
        from numba import njit, types
    except ModuleNotFoundError:
        return cast(F, _absent(function.__name__))

    def numba_type(argument: Array | str) -> Any:
        if isinstance(argument, str):
            return getattr(types, argument)
        return types.Array(
            getattr(types, argument.element), argument.n_dimensions, "C", readonly=not argument.is_written
        )

    numba_signature = numba_type(signature.returns)(*map(numba_type, signature.arguments))
    try:
        return cast(F, njit(numba_signature, nogil=True, error_model="numpy", cache=True)(function))
    except (RuntimeError, OSError):  # no writable cache folder: a read-only root file system
        return cast(F, njit(numba_signature, nogil=True, error_model="numpy")(function))


def _absent(name: str) -> Callable[..., Any]:
    """Return what stands for a kernel where numba is not installed: whoever only plans never calls it."""

    def refuse(*_: object) -> None:
        raise ModuleNotFoundError(f"{name} needs numba: pip install 'moiety[service]'", name="numba")

    return refuse


_loaded: dict[str, Any] = {}


def _library(module: str) -> Any:
    """Return a module's open library and what opened it, or None where the loader finds none; asked once each."""
    if module not in _loaded:
        try:
            ctypes.CDLL(
                library_name(module)
            )  # by name: the loader chooses the variant that fits this processor (glibc-hwcaps)
        except OSError:
            _loaded[module] = None
        else:
            import cffi

            interface = cffi.FFI()
            _loaded[module] = (interface, interface.dlopen(library_name(module)))
    return _loaded[module]


_DTYPES = {element: np.dtype(element) for element in ("uint8", "uint64", "int64", "float64")}
_POINTERS = {element: f"{_C_TYPES[element]}[]" for element in _DTYPES}
_ARRAYS: dict[Array, Array] = {}
"""One object for equal ones, so that comparing them is quick."""

_SMALL = 4
_MAX_ARRAYS_REMEMBERED = 256
_remembered: dict[int, tuple[Any, Array, Any]] = {}
"""Addresses of small arrays that are only read: primes, inverses and weights come with every call. The arrays are kept,
so nobody else can have their numbers."""


class _Prepared:
    """One function of a library, called like the numba function of the same name."""

    def __init__(self, name: str, signature: Signature, library: Any) -> None:
        interface, functions = library
        interface.cdef(signature.c_declaration(name))
        self.__name__ = name
        self._function = getattr(functions, SYMBOL_PREFIX + name)
        self._from_buffer = interface.from_buffer
        self._arguments = tuple(_ARRAYS.setdefault(a, a) if isinstance(a, Array) else None for a in signature.arguments)

    def __call__(self, *arguments: Any) -> Any:
        """Check the arguments and call the function."""
        if len(arguments) != len(self._arguments):
            raise TypeError(f"{self.__name__} takes {len(self._arguments)} arguments, not {len(arguments)}")
        passed: list[Any] = []
        for argument, expected in zip(arguments, self._arguments, strict=True):
            if expected is None:
                passed.append(argument if type(argument) in (int, float) else argument.item())
                continue
            remembered = _remembered.get(id(argument))
            if remembered is None or remembered[0] is not argument or remembered[1] is not expected:
                remembered = (argument, expected, self._checked(argument, expected))
                if argument.size <= _SMALL and not expected.is_written:
                    if len(_remembered) >= _MAX_ARRAYS_REMEMBERED:
                        _remembered.clear()
                    _remembered[id(argument)] = remembered
            passed.append(remembered[2])
            passed += argument.shape
        return self._function(*passed)

    def _checked(self, argument: Any, expected: Array) -> Any:
        """Return the address of an array that is as expected."""
        if (
            type(argument) is not np.ndarray
            or argument.dtype != _DTYPES[expected.element]
            or argument.ndim != expected.n_dimensions
            or not argument.flags.c_contiguous
            or (expected.is_written and not argument.flags.writeable)
        ):
            raise TypeError(f"{self.__name__}: an argument is not {expected}")
        return self._from_buffer(_POINTERS[expected.element], argument, expected.is_written)
