"""Runs MPyC programs beside ours, in a virtual environment of their own.

gmpy2 and uvloop are installed with it: MPyC uses them where it finds them.
"""

import contextlib
import json
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.peers.environment import PROGRAMS, PeerRunError, ensure_environment, run_to_its_end

REQUIREMENTS = ("mpyc==0.11", "numpy==2.4.6", "gmpy2==2.3.2", "uvloop==0.23.0")
TIMEOUT_S = 900.0


@dataclass(frozen=True)
class PeerRun:
    """What one run of the other program took.

    Attributes:
        seconds: at the slowest party; each program says from when to when.
        processor_s: of the busiest party, in the same time.
        sent_bytes: by the party that sent most.
        peak_resident_bytes: of the party that needed most.
        result: as opened.
    """

    seconds: float
    processor_s: float
    sent_bytes: int
    peak_resident_bytes: int
    result: NDArray[np.int64]


def ensure_mpyc() -> Path:
    """Install MPyC where it is not yet, and return the interpreter that has it.

    Raises:
        PeerUnavailableError: it cannot be installed.
    """
    return ensure_environment("mpyc", REQUIREMENTS) / "bin" / "python"


def run_peer(program: str, blocks: Sequence[NDArray[np.int64]], n_parties: int, *arguments: str) -> PeerRun:
    """Run a program of this folder as MPyC processes on loopback.

    Args:
        program: file name; the program says what it computes of the blocks.
        blocks: whole numbers that the first parties bring, one array each.
        n_parties: processes.
        arguments: arguments of the program besides.

    Raises:
        PeerRunError: it failed, or ran longer than 15 minutes (a party that dies leaves the others waiting for ever).
    """
    python = ensure_mpyc()
    with tempfile.TemporaryDirectory(prefix="mpyc-") as name:
        folder = Path(name)
        for party, block in enumerate(blocks):
            np.save(folder / f"block_{party}.npy", block)
        ports = ["-B", str(_free_base_port(n_parties))]
        command = [str(python), str(PROGRAMS / program), str(folder), *arguments, f"-M{n_parties}", *ports]
        run_to_its_end(command, TIMEOUT_S)  # the first party starts the others
        try:
            reports = [json.loads((folder / f"party_{party}.json").read_text()) for party in range(n_parties)]
        except FileNotFoundError as error:
            raise PeerRunError("MPyC ended, but a party left no result") from error
        return PeerRun(
            seconds=max(report["seconds"] for report in reports),
            processor_s=max(report["processor_s"] for report in reports),
            sent_bytes=max(report["sent_bytes"] for report in reports),
            peak_resident_bytes=max(report["peak_resident_bytes"] for report in reports),
            result=np.load(folder / "result.npy"),
        )


def _free_base_port(n_ports: int) -> int:
    """Return the first of n consecutive ports that were free a moment ago."""
    for base in range(21365, 31365, 100):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(base, base + n_ports):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return base
    raise PeerRunError("no free ports between 21365 and 31365")
