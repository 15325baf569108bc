"""What a running service leaves to the system: no core files, no library too early; a probe costs next to nothing."""

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import child_environ
from registry_tables import tables_of_jobs

from demo.local_deployment import COORDINATOR_NAME, LocalDeployment

PARTIES = ("bank", "hospital", "telco")
SERVICES = (*PARTIES, COORDINATOR_NAME)
LIGHT = 3
"""Largest cost of a probe, in interpreters that load `ssl`: it takes about two, and four with gRPC."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("process")
    (folder / "run").mkdir()
    limits = {"bank": {"policy.limits": {"analyses": ["pca", "moments"]}}}  # names are checked by the configuration
    tables = tables_of_jobs(folder, ["pca", "matrix-factorization"])
    with LocalDeployment(folder / "run", tables, policy=limits) as running:
        yield running


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
def test_services_that_have_run_no_job_have_loaded_no_library_of_tables(deployment):
    for process in deployment.processes.values():
        loaded = Path(f"/proc/{process.pid}/maps").read_text()
        assert "_multiarray_umath" in loaded  # of NumPy: the file is readable, and names libraries
        large = ("/_polars_runtime", "/scipy/special/", "/scipy/sparse/")  # 22, 11 and 3 MB
        assert not [name for name in large if name in loaded]


def probe(deployment, name, *options) -> tuple[subprocess.CompletedProcess, float]:
    """Run `moiety health` as a container would; return how it ended and its processor seconds."""
    return run("-m", "cli.entry", "health", "--config", str(deployment.config_path(name)), *options)


def run(*arguments) -> tuple[subprocess.CompletedProcess, float]:
    command = [sys.executable, *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=child_environ(), capture_output=True, text=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("name", ["bank", COORDINATOR_NAME])
def test_a_probe_of_a_serving_service_takes_little_more_than_an_interpreter_that_can_call_it(deployment, name):
    took_s, least_s = [], []
    for _ in range(3):  # the least of several: others may use this processor meanwhile
        done, cost_s = probe(deployment, name, "--timeout", "60")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"{name} serves at {deployment.addresses[name]}\n"
        took_s.append(cost_s)
        least_s.append(run("-c", "import ssl")[1])
    assert min(took_s) < LIGHT * min(least_s), (took_s, least_s)


def test_a_probe_loads_nothing_but_the_standard_library_and_itself(deployment):
    program = (
        "import sys; sys.argv = ['moiety', 'health', '--config', sys.argv[1]]\n"
        "from cli.entry import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "known = sys.stdlib_module_names | {'__main__', 'cli', 'service'}\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} - known - set(sys.builtin_module_names)))"
    )
    command = [sys.executable, "-S", "-c", program, str(deployment.config_path("bank"))]  # without files of `site`
    done = subprocess.run(command, env=child_environ(), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", ["bank", COORDINATOR_NAME])
def test_a_service_that_hangs_with_its_port_open_does_not_serve(deployment, name):
    deployment.send_signal(name, signal.SIGSTOP)
    try:
        done, _ = probe(deployment, name, "--timeout", "1")
    finally:
        deployment.send_signal(name, signal.SIGCONT)
    assert done.returncode == 1
    assert "no answer within 1 s" in done.stderr
    assert probe(deployment, name, "--timeout", "60")[0].returncode == 0


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_writes_no_core_file(deployment, name):
    limits = Path(f"/proc/{deployment.processes[name].pid}/limits").read_text().splitlines()
    core = next(line for line in limits if line.startswith("Max core file size"))
    assert core.split()[-3:] == ["0", "0", "bytes"]


@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is Linux's")
def test_a_process_that_forbids_core_files_is_not_dumpable():
    program = (
        "import ctypes, resource\n"
        "from service.secrecy import forbid_core_files\n"
        "forbid_core_files()\n"
        "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), *resource.getrlimit(resource.RLIMIT_CORE))"  # PR_GET_DUMPABLE
    )
    done = subprocess.run([sys.executable, "-c", program], env=child_environ(), capture_output=True, text=True)
    assert done.stdout.split() == ["0", "0", "0"]
