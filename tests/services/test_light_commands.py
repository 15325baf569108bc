"""Commands that people run often load no numerics but NumPy; nor do services at rest load what only jobs need."""

import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import child_environ
from forked_services import ForkedDeployment
from registry_tables import tables_of_jobs

NUMERICS = {"numba", "scipy", "polars", "dp_accounting", "llvmlite"}
PROGRAM = f"""
import atexit, sys
atexit.register(lambda: sys.stderr.write("LOADED %s" % sorted({NUMERICS!r} & set(sys.modules))))
from cli.entry import main
main()
"""
LIGHT = {
    "budget show": "--config",
    "budget history": "--config",
    "budget verify": "--config",
    "health": "--config",
    "job list": "--client",
    "tables": "--client",
}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = tables_of_jobs(folder, ["pca", "matrix-factorization"])
    (folder / "run").mkdir()
    limits = {"bank": {"policy.limits": {"analyses": ["pca", "moments"]}}}  # names are checked by the configuration
    with ForkedDeployment(folder / "run", tables, policy=limits) as running:
        yield running


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
def test_services_that_have_run_no_job_have_loaded_no_library_of_tables(deployment):
    for process in deployment.processes.values():
        loaded = Path(f"/proc/{process.pid}/maps").read_text()
        assert "_multiarray_umath" in loaded  # of NumPy: the file is readable, and names libraries
        assert not {name for name in ("/_polars_runtime", "/scipy/special/", "/scipy/sparse/") if name in loaded}


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("command", LIGHT)
def test_a_light_command_does_its_work_without_numerics(deployment, command, output):
    option = LIGHT[command]
    path = deployment.config_path("bank") if option == "--config" else deployment.client_config
    given = [*command.split(), option, str(path), "--format", output]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *given], capture_output=True, text=True, env=child_environ())
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "LOADED []"
    assert done.stdout or command == "job list"
