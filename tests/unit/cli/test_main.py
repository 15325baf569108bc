import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import child_environ
from typer.testing import CliRunner

from cli.main import SUBCOMMANDS, app, load_subcommand

HEAVY = {"numpy", "grpc", "cryptography", "pydantic", "scipy", "polars", "numba", "structlog"}


def test_help_names_every_subcommand() -> None:
    shown = CliRunner().invoke(app, ["--help"])
    assert shown.exit_code == 0
    for name, entry in SUBCOMMANDS.items():
        if entry.is_hidden:
            assert entry.summary not in shown.stdout
            continue
        assert name in shown.stdout
        assert entry.summary.split(",")[0][:30] in shown.stdout


@pytest.mark.parametrize("name", list(SUBCOMMANDS))
def test_every_subcommand_of_the_table_can_be_loaded_and_explains_itself(name: str) -> None:
    assert load_subcommand(name).name == name
    shown = CliRunner().invoke(app, [name, "--help"])
    assert shown.exit_code == 0, shown.output
    assert "completion" not in shown.output  # there is one for the whole command


def test_an_unknown_subcommand_is_a_usage_error() -> None:
    shown = CliRunner().invoke(app, ["jobs"])
    assert shown.exit_code == 2
    assert "No such command 'jobs'" in shown.output


@pytest.mark.parametrize(
    "arguments",
    [["jobs"], ["--nope"], ["job", "shows"], ["job", "show"], ["job", "list", "--limit", "x"], ["sum", "a", "--nope"]],
)
def test_errors_of_usage_end_with_a_code_that_can_be_explained(arguments: list[str]) -> None:
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 2
    assert shown.output.count("[usage-wrong]") == 1
    assert CliRunner().invoke(app, ["explain", "usage-wrong"]).exit_code == 0


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=child_environ(), check=True)
    return done.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, cli.main\n"
        "try:\n    cli.main.app(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print('LOADED', sorted({HEAVY!r} & set(sys.modules)))"
    )
    assert run_python(code).splitlines()[-1] == "LOADED []"


@pytest.mark.parametrize(
    "module", ["cli.job, analyst.connection", "cli.federation.requests", "cli.doctor", "cli.entry"]
)
def test_light_commands_import_no_numerics(module: str) -> None:
    code = f"import sys, {module}\nprint('LOADED', sorted({{'numpy', 'numba', 'scipy', 'polars'}} & set(sys.modules)))"
    assert run_python(code).splitlines()[-1] == "LOADED []"


@pytest.mark.parametrize(("module", "prefix"), [("party", "MOIETY_PARTY"), ("coordinator", "MOIETY_COORDINATOR")])
def test_threads_are_pinned_before_numpy_is_imported(tmp_path, module: str, prefix: str) -> None:
    config = tmp_path / "service.toml"
    config.write_text("blas_threads = 3\n")
    code = (
        "import os, sys, pathlib\n"
        "from cli.serve import _limit_process\n"
        f"_limit_process(pathlib.Path({str(config)!r}), {prefix!r})\n"
        "print('numpy' in sys.modules, os.environ['OPENBLAS_NUM_THREADS'], os.environ['OMP_NUM_THREADS'])"
    )
    assert run_python(code).split() == ["False", "3", "3"]


def test_a_missing_configuration_of_a_service_is_one_line_and_exit_code_2(tmp_path) -> None:
    for service in ("party", "coordinator"):
        shown = CliRunner().invoke(app, [service, "serve", "--config", str(tmp_path / "absent.toml")])
        assert (shown.exit_code, shown.stderr) == (
            2,
            f"error: {tmp_path}/absent.toml: there is no such file [configuration-invalid]\n",
        )


SERVES = {"party serve", "coordinator serve", "device run", "relay serve"}
"""Run until they are stopped: they log, and print no result."""


def commands(command, path: str):
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
    for name, one in (below or {}).items():
        yield from commands(one, f"{path} {name}")


COMMANDS = dict(pair for name in SUBCOMMANDS for pair in commands(load_subcommand(name), name))


@pytest.mark.parametrize("columns", ["80", "200"])
@pytest.mark.parametrize("path", COMMANDS)
def test_help_is_whole_in_a_terminal_of_usual_width(path: str, columns: str) -> None:
    shown = CliRunner().invoke(app, [*path.split(), "--help"], env={"COLUMNS": columns})
    assert "…" not in shown.output


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_tells_its_exit_codes_and_prints_json_if_asked_to(path: str) -> None:
    shown = CliRunner().invoke(app, [*path.split(), "--help"], env={"COLUMNS": "200"})
    assert "Exit codes: 0 " in shown.output
    offered = {option for parameter in COMMANDS[path].params for option in parameter.opts}
    assert ("--format" in offered) == (path not in SERVES)


@pytest.mark.parametrize(
    "path", [p for p, c in COMMANDS.items() if {"--config", "--client"} & {o for q in c.params for o in q.opts}]
)
def test_a_configuration_that_is_not_there_is_wrong_usage(path: str, tmp_path) -> None:
    given = []
    for parameter in COMMANDS[path].params:
        if {"--config", "--client"} & set(parameter.opts):
            given += [parameter.opts[0], str(tmp_path / "absent.toml")]
        elif parameter.required:
            value = "1e-6" if parameter.name in {"epsilon", "delta"} else "x"
            given += [parameter.opts[0], value] if parameter.opts[0].startswith("-") else [value]
    done = CliRunner().invoke(app, [*path.split(), *given])
    assert (done.exit_code, isinstance(done.exception, SystemExit)) == (2, True), done.output
    assert "Traceback" not in done.output


def test_the_examples_of_configurations_can_be_read() -> None:
    from analyst.connection import ClientConfig
    from coordinator.config import CoordinatorConfig
    from device.config import DeviceConfig

    examples = Path(__file__).parents[3] / "examples"
    assert set(CoordinatorConfig.load(examples / "coordinator.toml").roster) == {"carrier", "host", "monitor"}
    assert ClientConfig.load(examples / "client.toml").coordinator.name == "coordinator"
    assert DeviceConfig.load(examples / "device.toml").roster == examples / "roster.toml"


@pytest.mark.parametrize("path", ["", "job submit", "budget"])
def test_help_is_whole_in_a_terminal_of_40_columns(path: str) -> None:
    environment = {**child_environ(), "COLUMNS": "40"}
    shown = subprocess.run(
        [sys.executable, "-m", "cli.entry", *path.split(), "--help"], capture_output=True, text=True, env=environment
    ).stdout
    assert max(map(len, shown.splitlines())) <= 40
    assert "…" not in shown
    assert "..." not in shown.replace("[ARGS]...", "")
    names = SUBCOMMANDS if not path else {"job submit": ["--client", "--watch / --no-watch"], "budget": ["adopt"]}[path]
    assert all(name in shown for name in names)


@pytest.mark.parametrize(
    "command",
    [
        ["new", "acme", "--parties", "bank,clinic"],
        ["new", "acme", "--parties", "bank,bank,clinic"],
        ["new", "a/b", "--parties", "bank,clinic,shop"],
        ["new", "acme", "--parties", "bank,clinic,shop", "--hosts", "bank"],
    ],
)
def test_a_mistake_in_an_argument_is_no_internal_error(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 2
    assert "internal-error" not in shown.output
    assert shown.output.strip().endswith("[usage-wrong]")
