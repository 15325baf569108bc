"""Memory use of our processes: fewer heaps, so that threads reuse freed memory, and no resident compiler."""

import contextlib
import ctypes
import gc
from collections.abc import Iterator
from pathlib import Path

_M_ARENA_MAX = -8  # in glibc's malloc.h
MAX_HEAPS = 2
_MADV_DONTNEED = 4  # of Linux


def limit_heaps() -> None:
    """Let all threads share two heaps. Call it before other threads allocate; without glibc it does nothing.

    glibc gives each of up to eight threads per core its own heap and keeps there what that thread has freed. Arrays
    of a megabyte pass through many threads here: at 10^6 products this took 35 MB more, and no less time.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MAX_HEAPS)


def release_compiler() -> None:
    """Give back the pages of LLVM's machine code; where it is called after all, they are read from its file again.

    The kernels of `mpc` are ready once they are imported. Loading them has then brought some 60 MB of the compiler's
    code into memory, which stay resident as long as nobody asks for the space. Does nothing but on Linux.
    """
    with contextlib.suppress(OSError, AttributeError):
        madvise = ctypes.CDLL(None).madvise
        for line in Path("/proc/self/maps").read_text().splitlines():
            addresses, permissions, *_, path = line.split(maxsplit=5)
            if permissions == "r-xp" and Path(path).name.startswith("libllvmlite"):  # never written, so never lost
                start, end = (int(address, 16) for address in addresses.split("-"))
                madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


@contextlib.contextmanager
def made_to_stay() -> Iterator[None]:
    """Collect no garbage meanwhile, and leave what is made out of all later collections: for imports.

    Modules live as long as the process, and those of a service are several hundred thousand objects: looking through
    them again and again, while they are made, would take a good part of the processor time of its start.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
