"""Commands that people run often load no numerics but NumPy."""

import subprocess
import sys

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


@pytest.mark.parametrize(("command", "output"), [("budget show", "text"), *((command, "json") for command in LIGHT)])
def test_a_light_command_does_its_work_without_numerics(deployment, command, output):
    option = LIGHT[command]
    path = deployment.config_path("bank") if option == "--config" else deployment.client_config
    given = [*command.split(), option, str(path), "--format", output]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *given], capture_output=True, text=True, env=child_environ())
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "LOADED []"
    assert done.stdout or command == "job list"
