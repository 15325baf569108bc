"""An interrupt while a job is submitted never leaves the user without the next command."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import job
from cli.main import app


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def submit(job_file: Path, client: Path) -> str:
    result = CliRunner().invoke(app, ["job", "submit", str(job_file), "--client", str(client)])
    assert result.exit_code == 130
    return result.stderr


@pytest.fixture
def client(write_client) -> Path:
    return write_client()


def test_before_the_job_has_a_number_its_list_is_named(job_file, client, monkeypatch):
    monkeypatch.setattr(job, "_call", interrupted)
    assert "the job may have been accepted: moiety job list" in submit(job_file, client)


def test_as_soon_as_it_has_one_it_is_named(job_file, client, monkeypatch):
    monkeypatch.setattr(job, "_call", lambda *_: "job-1")
    monkeypatch.setattr(job, "say", interrupted)
    assert "the job goes on: moiety job watch job-1" in submit(job_file, client)
