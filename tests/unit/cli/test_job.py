"""Mistakes of newcomers: one clear message on standard error, the documented exit code, nothing on standard output."""

import datetime
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from child_processes import child_environ
from doctor_peers import plain_text
from typer.testing import CliRunner, Result

from cli.main import app
from service.pki import KeyPair, create_authority

Write = Callable[..., Path]


@pytest.fixture
def client(write_client: Write) -> Path:
    return write_client()


def moiety(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["job", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def assert_refused(result: Result, code: int, *words: str) -> None:
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    for word in words:
        assert word in result.stderr
    assert result.stderr.startswith("error: ")


def test_no_client_configuration_is_a_usage_error(job_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOIETY_CLIENT", raising=False)
    monkeypatch.chdir(job_file.parent)
    result = moiety("submit", job_file)
    assert_refused(
        result, 2, "client.toml: there is no such file; --client, MOIETY_CLIENT or Client(PATH) names your client.toml"
    )


def test_a_wrong_path_of_the_job(client: Path, tmp_path: Path) -> None:
    result = moiety("submit", tmp_path / "nowhere.toml", "--client", client)
    assert_refused(result, 2, f"{tmp_path}/nowhere.toml: there is no such file")


def test_a_wrong_path_of_the_client_configuration(job_file: Path, tmp_path: Path) -> None:
    result = moiety("submit", job_file, "--client", tmp_path / "nowhere.toml")
    assert_refused(result, 2, f"{tmp_path}/nowhere.toml: there is no such file")


def test_the_client_configuration_may_come_from_the_environment(
    job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOIETY_CLIENT", str(tmp_path / "elsewhere.toml"))
    assert_refused(moiety("submit", job_file), 2, "elsewhere.toml: there is no such file")


def test_a_folder_instead_of_a_job(client: Path, tmp_path: Path) -> None:
    assert_refused(moiety("submit", tmp_path, "--client", client), 2, f"{tmp_path}: cannot be read: Is a directory")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('analysis = "pca"', "analysis = pca", "not valid TOML"),
        ("epsilon = 1.0", "epsilon = -1.0", "privacy.epsilon: must be greater than 0, got -1.0"),
        ("epsilon = 1.0", "epsilom = 1.0", "privacy.epsilom: there is no such field, got 1.0"),
        ("delta = 1e-6", "delta = 2", "privacy.delta: must be less than 1, got 2"),
        ('party = "south"', 'party = "north"', "inputs: party 'north' appears more than once"),
        ('analysis = "pca"', "", "analysis: missing"),
    ],
)
def test_a_job_that_is_not_right(client: Path, job_file: Path, before: str, after: str, words: str) -> None:
    job_file.write_text(job_file.read_text().replace(before, after))
    assert_refused(moiety("submit", job_file, "--client", client), 2, f"{job_file}: ", words)


def test_a_job_with_a_byte_order_mark_is_read(client: Path, job_file: Path) -> None:
    job_file.write_bytes(b"\xef\xbb\xbf" + job_file.read_bytes())
    assert_refused(moiety("submit", job_file, "--client", client), 3, "nothing listens at its address")


def test_a_job_that_is_not_text(client: Path, job_file: Path) -> None:
    job_file.write_bytes(b"\x80\x81")
    assert_refused(moiety("submit", job_file, "--client", client), 2, "not UTF-8 text")


@pytest.mark.parametrize("arguments", [["submit"], ["list"], ["show", "abc"], ["watch", "abc"], ["cancel", "abc"]])
def test_a_coordinator_that_does_not_run(client: Path, job_file: Path, closed_port: int, arguments: list[str]) -> None:
    given = [*arguments, job_file] if arguments == ["submit"] else arguments
    result = moiety(*given, "--client", client)
    assert_refused(result, 3, f"hub (127.0.0.1:{closed_port})", "nothing listens at its address")


_PYTHON_CLIENT = "import sys\nfrom moiety import Client\nClient(sys.argv[1]).tables()"


@pytest.mark.parametrize("program", [["-m", "cli.entry", "job", "list", "--client"], ["-c", _PYTHON_CLIENT]])
def test_what_answers_in_another_language_is_told_by_us_alone(write_client: Write, program: list[str]) -> None:
    environ = {name: value for name, value in child_environ().items() if name != "GRPC_VERBOSITY"}
    with plain_text() as port:
        command = [sys.executable, *program, str(write_client(f"127.0.0.1:{port}"))]
        done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert f"hub (127.0.0.1:{port}): what listens there does not speak TLS" in done.stderr.splitlines()[-1]
    assert "ssl_transport_security" not in done.stderr


def test_a_certificate_that_is_missing(client: Path) -> None:
    (client.parent / "ada.pem").unlink()
    assert_refused(moiety("list", "--client", client), 2, "ada.pem does not exist")


def test_a_certificate_from_another_authority(client: Path) -> None:
    other = create_authority("hospitals", days=1, now=datetime.datetime.now(datetime.UTC))
    (client.parent / "ca.pem").write_bytes(other.certificate_pem)
    assert_refused(moiety("list", "--client", client), 2, "ada.pem was not issued by the authority")


def test_a_certificate_of_another_federation(write_client: Write, authority: KeyPair) -> None:
    client = write_client(federation="banks")
    assert_refused(moiety("list", "--client", client), 2, "belongs to federation hospitals, not to banks")


def test_a_wrong_field_of_the_client_configuration(client: Path) -> None:
    client.write_text(client.read_text().replace("address = ", "adress = "))
    assert_refused(moiety("list", "--client", client), 2, "coordinator.address: missing", "coordinator.adress")


def test_a_plot_that_cannot_be_written_is_refused_before_anything_is_asked(
    client: Path, job_file: Path, tmp_path: Path
) -> None:
    words = "plot.jpg: a picture is a .png or an .svg file, so its name has to end in one of these"
    plot = tmp_path / "plot.jpg"
    assert_refused(moiety("submit", job_file, "--client", client, "--plot", plot), 2, words)
    assert_refused(moiety("show", "0" * 32, "--client", client, "--plot", plot), 2, words)
    assert_refused(moiety("watch", "0" * 32, "--client", client, "--plot", plot), 2, words)
    nowhere = tmp_path / "nowhere" / "plot.svg"
    assert_refused(moiety("submit", job_file, "--client", client, "--plot", nowhere), 2, "there is no folder")
    without = moiety("submit", job_file, "--client", client, "--plot", tmp_path / "a.svg", "--no-watch")
    assert_refused(without, 2, "--plot draws the result, so it needs --watch")


def test_the_help_of_job_lists_the_exit_codes() -> None:
    shown = " ".join(moiety("--help").output.split())
    for words in ("0 done", "1 the job failed or was cancelled", "2 wrong usage", "3 cannot", "4 no such", "130"):
        assert words in shown
