"""An analyst's installation: what it plans, asks and shows without the libraries of services."""

import io
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout

import pytest
from small_installation import REPOSITORY, environment_of

from cli.main import SERVICE_LIBRARIES

IMPORT_NAMES = {"dp-accounting": "dp_accounting", "prometheus-client": "prometheus_client"}

PLANS = """
from registry_jobs import VARIANTS

from analyses.job.schema import BlockSchema
from analyses.registry import analysis_of

for variant in VARIANTS.values():
    job = variant.job()
    schemas = {table.schema.party: table.schema for table in variant.tables().values()}
    plan = analysis_of(job).plan(job, [schemas.get(member) or BlockSchema(party=member) for member in job.members])
    print(analysis_of(job).forecast(plan), analysis_of(job).survival(job), plan.is_exact or plan.privacy_report())
"""


def project():
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="session")
def small_installation(tmp_path_factory):
    return environment_of(tmp_path_factory.mktemp("absent"))


def run(environment, *arguments):
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, cwd=REPOSITORY
    )


def test_the_libraries_of_services_are_those_of_the_extra():
    extra = {line.partition(">")[0] for line in project()["optional-dependencies"]["service"]}
    assert {IMPORT_NAMES.get(name, name) for name in extra} == SERVICE_LIBRARIES


def test_every_job_is_planned_and_forecast_as_in_a_whole_installation(small_installation):
    small = run(small_installation, "-c", PLANS)
    assert small.stderr == ""
    with redirect_stdout(io.StringIO()) as whole:
        exec(PLANS, {})
    assert small.stdout == whole.getvalue() != ""


ASKED_AGAIN = "cli.answer, results.registry, analyses.kept_moments.questions, analyses.kept_moments.plan"


@pytest.mark.parametrize(
    "imported",
    [
        pytest.param("moiety, sys; [getattr(moiety, name) for name in moiety.__all__]", id="public names"),
        pytest.param(f"{ASKED_AGAIN}, sys", id="a release that is asked again"),
    ],
)
def test_the_public_names_and_answers_load_neither_kernels_nor_scipy(imported, small_installation):
    loaded = run(small_installation, "-c", f"import {imported}; print(sorted(sys.modules))")
    assert loaded.stderr == ""
    absent = {"scipy", "polars", "rich", "sklearn", "mpc.arithmetic.kernels", "mpc.machine_code"}
    assert not absent & set(eval(loaded.stdout))


COMMANDS = ["job", "tables", "sum", "questions", "distribution", "explain", "health", "table"]
SHOWN = """
import sys

from cli.main import app

for command in sys.argv[1:]:
    try:
        app([command, "--help"])
    except SystemExit as end:
        print("exit code", end.code)
"""


def test_the_commands_of_an_analyst_are_there(small_installation):
    shown = run(small_installation, "-c", SHOWN, *COMMANDS)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.count("exit code 0") == len(COMMANDS)
    for command in COMMANDS:
        assert f"{command} [OPTIONS]" in shown.stdout


@pytest.mark.parametrize(
    "command", [("demo", "pca"), ("audit", "--help"), ("device", "run", "--config", "device.toml")]
)
def test_what_needs_more_says_which_extra(command, small_installation, tmp_path):
    (tmp_path / "device.toml").write_text("")
    refused = subprocess.run(
        [sys.executable, "-m", "cli.main", *command], env=small_installation, capture_output=True, text=True,
        check=False, cwd=tmp_path,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "pip install 'moiety[service]' [extra-not-installed]" in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr
