"""Virtual environments of the programs that we are compared with: no dependencies of this project.

The versions that a comparison names are installed under `.cache/peers/<name>` at the first use, by pip's own
configuration. Where no package index can be reached, the comparison cannot be made and says so.
"""

import contextlib
import os
import signal
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.machine import ONE_THREAD

PROGRAMS = Path(__file__).parent
ENVIRONMENTS = PROGRAMS.parents[1] / ".cache" / "peers"
UNAVAILABLE = 3
"""Exit status of a measurement whose peer cannot be installed here."""


class PeerUnavailableError(RuntimeError):
    """The other program cannot be installed; the text says why."""


class PeerRunError(RuntimeError):
    """The other program failed or did not end; the text holds the end of what it printed."""


def ensure_environment(name: str, requirements: Sequence[str]) -> Path:
    """Install what is not installed yet, and return the folder that has `bin/python`.

    Raises:
        PeerUnavailableError: pip failed.
    """
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    stamp = folder / "installed.txt"
    wanted = "\n".join(requirements)
    if not stamp.exists() or stamp.read_text() != wanted:
        sys.stderr.write(f"installing {', '.join(requirements)} for a comparison\n")
        venv.create(folder, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        done = subprocess.run(command, check=False, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise PeerUnavailableError(f"{requirements[0]} cannot be installed: {done.stderr.strip()[-500:]}")
        stamp.write_text(wanted)
    return folder


def run_to_its_end(command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None) -> str:
    """Run a program that may start others, and return what it printed; if it fails none of them is left.

    Raises:
        PeerRunError: it failed, or did not end in time.
    """
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **ONE_THREAD, **(environment or {})},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
        text = output.decode(errors="replace")
        if process.returncode != 0:
            raise PeerRunError(f"{Path(command[0]).name} failed:\n{text[-2000:]}")
        return text
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise PeerRunError(f"{Path(command[0]).name} did not end within {timeout_s:g} s") from error
        raise
