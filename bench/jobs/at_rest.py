"""`python -m bench.jobs.at_rest [SECONDS]`: what a federation costs while nobody asks it anything, as JSON.

A coordinator and three parties run as processes on this machine, and each is probed as docker-compose.yml probes its
containers. Processor seconds are those of the services and of the probes, from the operating system; how long the
probes waited for a processor does not count. Memory is what is resident at the end, in MB: `anonymous` is the
process's own, `file` are pages of files, mostly libraries, of which other services on the machine share one copy.
With the folder of `deploy/image/compile-kernels` in LD_LIBRARY_PATH, services are those of the images: without numba.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.machine import processor_s, resident_bytes
from demo.local_deployment import LocalDeployment, LocalTable

PARTIES = ("bank", "hospital", "telco")
PROBE_INTERVAL_S = 30.0
SETTLE_S = 10.0


def children_s() -> float:
    """Return the processor seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table_in(folder: Path, party: str) -> LocalTable:
    path = folder / f"{party}.csv"
    rows = np.random.default_rng(1).uniform(0, 1, 100)
    path.write_text("id,x\n" + "".join(f"r{i},{x}\n" for i, x in enumerate(rows)))
    return LocalTable("people", path, {"x": (0.0, 1.0)}, (10, 1000), id_column="id")


def measured(seconds: float) -> dict[str, object]:
    """Run a federation at rest for so long and return what it used."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "run").mkdir()
        tables = {party: [table_in(folder, party)] for party in PARTIES}
        with LocalDeployment(folder / "run", tables) as running:
            time.sleep(SETTLE_S)
            pids = {name: process.pid for name, process in running.processes.items()}
            before = {name: processor_s(pid) for name, pid in pids.items()}
            probes_before, began_s, n_probes = children_s(), time.monotonic(), 0
            while (left_s := began_s + seconds - time.monotonic()) > 0:
                for name in pids:
                    command = [sys.executable, "-m", "cli.entry", "health", "--config", str(running.config_path(name))]
                    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                    n_probes += 1
                time.sleep(min(left_s, PROBE_INTERVAL_S))
            took_s = time.monotonic() - began_s
            services = {name: processor_s(pid) - before[name] for name, pid in pids.items()}
            probes_s = children_s() - probes_before
            resident = {name: resident_bytes(pid) for name, pid in pids.items()}
    return {
        "seconds": round(took_s, 1),
        "processor_s": {name: round(used, 3) for name, used in services.items()},
        "resident_mb": {name: {kind: round(n / 1e6, 1) for kind, n in one.items()} for name, one in resident.items()},
        "probes": n_probes,
        "processor_s_per_probe": round(probes_s / n_probes, 4),
        "percent_of_a_core": round(100 * (sum(services.values()) + probes_s) / took_s, 2),
    }


if __name__ == "__main__":
    print(json.dumps(measured(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0), indent=2))
