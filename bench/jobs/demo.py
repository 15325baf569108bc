"""The demo of principal components, as `make demo` runs it: a federation on this machine, from nothing to the plot.

    python -m bench.jobs.demo [--rows 145586] [--format text|json]

The seconds are those of the whole command: interpreter, tables, certificates, services, jobs, plot.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from bench.machine import describe_machine

TIMEOUT_S = 600.0


def measure(rows: int | None) -> float:
    """Run the demo; return its seconds.

    Raises:
        RuntimeError: it failed; with its last words.
    """
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        only = [] if rows is None else ["--rows", str(rows)]
        program = "import sys; from cli.main import main; sys.exit(main())"
        started_s = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", program, "demo", "pca", "--out", folder, *only],
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        seconds = time.perf_counter() - started_s
    if done.returncode:
        raise RuntimeError(f"the demo failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return seconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="connections to use; all where absent")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    seconds = measure(options.rows)
    report = {"bench": "demo", "rows": options.rows, "seconds": seconds, "machine": describe_machine()}
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else f"{seconds:.1f} s") + "\n")


if __name__ == "__main__":
    main()
