"""What the measurements ran on, and what a process took of it. Reads /proc: Linux only."""

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Environment of the processes of a measurement: they share the cores, so each gets one thread of linear algebra."""


def describe_machine() -> dict[str, Any]:
    """Return processor, vector instructions, cores, memory and versions; no names of hosts or people."""
    cpu = _field(Path("/proc/cpuinfo"), "model name", platform.machine())
    memory_kib = int(_field(Path("/proc/meminfo"), "MemTotal", "0 kB").split()[0])
    return {
        "cpu": cpu,
        "instructions": instruction_set(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_kib / 2**20),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def instruction_set() -> str:
    """Return the widest vector instructions of this processor, or for which others our kernels were compiled."""
    flags = set(_field(Path("/proc/cpuinfo"), "flags", "").split())
    widest = "AVX-512" if {"avx512dq", "avx512vl"} <= flags else "AVX2" if "avx2" in flags else "no AVX2"
    told = os.environ.get("NUMBA_CPU_NAME")
    return f"{widest}, kernels compiled for {told}" if told else widest


def peak_resident_bytes(pid: int | str) -> int:
    """Return the largest resident set that a process has had since its start (VmHWM).

    Raises:
        OSError: there is no such process.
    """
    return int(_field(Path(f"/proc/{pid}/status"), "VmHWM", "0 kB").split()[0]) * 1024


def resident_bytes(pid: int | str) -> dict[str, int]:
    """Return what a process has in memory now: `all`, of that `anonymous` (its own), and `file` (pages of files).

    Pages of files that nobody writes, such as libraries and mapped tables, are dropped by the system when memory runs
    short, and read again; anonymous ones can only be written to a swap device.

    Raises:
        OSError: there is no such process.
    """
    status = Path(f"/proc/{pid}/status")
    all_kib, anonymous_kib = (int(_field(status, name, "0 kB").split()[0]) for name in ("VmRSS", "RssAnon"))
    return {"all": all_kib * 1024, "anonymous": anonymous_kib * 1024, "file": (all_kib - anonymous_kib) * 1024}


def has_compiler(pid: int | str) -> bool:
    """Return whether a process has loaded LLVM, which services without kernels compiled beforehand do.

    Raises:
        OSError: there is no such process.
    """
    return "libllvmlite" in Path(f"/proc/{pid}/maps").read_text()


def processor_s(pid: int) -> float:
    """Return the processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


_OF_GRPC = ("event_engine", "grpc_", "lifeguard")
"""What names of its threads begin with."""


def threads_s(pid: int) -> dict[str, float]:
    """Return the processor time of a service's living threads, by kind; `system` is the system's part of all of it."""
    ticks, found = os.sysconf("SC_CLK_TCK"), {"event loop": 0.0, "gRPC": 0.0, "arithmetic": 0.0, "system": 0.0}
    for folder in Path(f"/proc/{pid}/task").iterdir():
        try:
            head, _, rest = (folder / "stat").read_text().rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        user, system = (int(field) / ticks for field in rest.split()[11:13])
        is_grpc = head.partition("(")[2].startswith(_OF_GRPC)
        kind = "event loop" if folder.name == str(pid) else "gRPC" if is_grpc else "arithmetic"
        found[kind] += user + system
        found["system"] += system
    return found


def _field(path: Path, name: str, default: str) -> str:
    """Return the first `name: value` of a file of such lines."""
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return default
