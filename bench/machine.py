"""What the measurements ran on, and what a process took of it. Reads /proc: Linux only."""

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Environment of the processes of a measurement: they share the cores, so each gets one thread of linear algebra."""


def describe_machine() -> dict[str, Any]:
    """Return the processor, its cores, the memory and the versions that matter; no names of hosts or people."""
    cpu = _field(Path("/proc/cpuinfo"), "model name", platform.machine())
    memory_kib = int(_field(Path("/proc/meminfo"), "MemTotal", "0 kB").split()[0])
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_kib / 2**20),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def peak_resident_bytes(pid: int | str) -> int:
    """Return the largest resident set that a process has had since its start (VmHWM).

    Raises:
        OSError: there is no such process.
    """
    return int(_field(Path(f"/proc/{pid}/status"), "VmHWM", "0 kB").split()[0]) * 1024


def _field(path: Path, name: str, default: str) -> str:
    """Return the first `name: value` of a file of such lines."""
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return default
