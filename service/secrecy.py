"""Prevents memory dumps of processes that hold keys and rows."""

import contextlib
import ctypes
import resource

_PR_SET_DUMPABLE = 4  # of Linux, <sys/prctl.h>


def forbid_core_files() -> None:
    """Let no core file be written when this process crashes, and no other process of its user read its memory.

    A core file holds keys, shares and rows, and is put where the machine's settings say, often readable by others. The
    limit is zero, soft and hard, so that nobody below root raises it again; programs that are started from here inherit
    it. On Linux the process is also made non-dumpable, which covers systems that pipe cores to a program whatever the
    limit (core(5)), and closes /proc/PID/mem and ptrace(2) to processes without privileges.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
