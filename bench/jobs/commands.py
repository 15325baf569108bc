"""`python -m bench.jobs.commands`: processor seconds and memory of commands that people run often, as JSON.

A federation runs on this machine and has done a job. Each command runs a few times in a process of its own; shown are
the fewest processor seconds, as a busy machine adds some, and the most memory (resident, at its largest).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.jobs.at_rest import PARTIES, table_in
from demo.local_deployment import LocalDeployment

LAUNCHER = """
import os, resource, sys
process = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(process, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)
"""
"""Starts a command from a process that is small itself: a child is accounted with the memory of who started it."""


def measured(command: list[str]) -> tuple[float, float]:
    """Return processor seconds and MB of one run."""
    launched = [sys.executable, "-S", "-E", "-c", LAUNCHER, *command]
    done = subprocess.run(launched, capture_output=True, text=True, check=True)
    code, seconds, mb = done.stderr.split()[-3:]
    if code != "0":
        raise SystemExit(f"{' '.join(command)} ended with {code}: {done.stderr}")
    return float(seconds), float(mb)


def all_measured(repeats: int) -> dict[str, dict[str, float]]:
    """Run a federation and return each command's figures."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "run").mkdir()
        tables = {party: [table_in(folder, party)] for party in PARTIES}
        job = folder / "job.toml"
        inputs = "".join(f'[[inputs]]\nparty = "{party}"\ntable = "people"\n' for party in PARTIES)
        job.write_text(
            f'analysis = "pca"\n{inputs}[privacy]\nepsilon = 20.0\ndelta = 1e-6\n[parameters]\ncomponents = 1\n'
        )
        with LocalDeployment(folder / "run", tables) as running:
            owner, analyst = ["--config", str(running.config_path("bank"))], ["--client", str(running.client_config)]
            moiety = [sys.executable, "-m", "cli.entry"]
            subprocess.run([*moiety, "job", "submit", str(job), *analyst], check=True, capture_output=True)
            commands = {
                "--help": [],
                "health": owner,
                "budget show": owner,
                "budget history": owner,
                "job list": analyst,
                "tables": analyst,
            }
            runs = {
                name: [measured([*moiety, *name.split(), *options]) for _ in range(repeats)]
                for name, options in commands.items()
            }
    return {
        name: {"processor_s": round(min(s for s, _ in found), 2), "mb": round(max(mb for _, mb in found))}
        for name, found in runs.items()
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each command")
    print(json.dumps(all_measured(parser.parse_args(arguments).repeats), indent=2))


if __name__ == "__main__":
    main()
