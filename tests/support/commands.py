"""The `moiety` command as a user runs it."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def moiety(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own; its output is text."""
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'proto'}", **environ},
    )
