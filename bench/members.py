"""Members of a protocol as separate processes that join each other with `transport.messages.mesh`, TLS on loopback."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machine import ONE_THREAD
from demo.local_mesh import write_mesh

TIMEOUT_S = 3600.0
DEADLINE_S = 300.0


class WrongResultError(RuntimeError):
    """A party failed, or what was computed or sent is not what it must be."""


def run_members(
    module: str, n_parties: int, arguments: Sequence[object], timeout_s: float = TIMEOUT_S
) -> list[dict[str, Any]]:
    """Run a module once for each party, with its configuration and these arguments; return what each printed.

    Raises:
        WrongResultError: one failed.
    """
    names = [f"party-{number}" for number in range(1, n_parties + 1)]
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", module, str(file), *map(str, arguments)],
                stdout=subprocess.PIPE,
                env={**os.environ, **ONE_THREAD},
            )
            for file in write_mesh(Path(folder), names, deadline_s=DEADLINE_S).values()
        ]
        try:
            outputs = [process.communicate(timeout=timeout_s)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    if any(process.returncode for process in processes):
        raise WrongResultError("a party failed; it has said why")
    return [json.loads(output) for output in outputs]
