"""`moiety demo` as a user runs it: one command, real services, a plot and numbers at the end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from demo.data_sets.kdd import NORM_BOUNDS, ROW_NORM, TABLE_NAME

REPOSITORY = Path(__file__).parents[2]


def moiety(*arguments, cwd):
    command = [sys.executable, "-m", "cli.main", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    arguments = ("demo", "pca", "--rows", "4000", "--epsilon", "20", "--keep", "work", "--format", "json")
    return folder, moiety(*arguments, cwd=folder)


def test_the_demo_prints_one_json_object_with_both_views_and_the_comparison(demo):
    _, run = demo
    assert run.returncode == 0, run.stderr
    outcome = json.loads(run.stdout)
    assert outcome["n_rows"] == 4000
    captured, *along = outcome["scores"]
    assert 0.97 * captured["no_privacy"] < captured["moiety"] < captured["no_privacy"]
    assert len(along) == 5
    assert outcome["lines"][1].startswith("component 1 (variance")
    assert all(n > 0 for n in outcome["clipped"].values())
    views = outcome["privacy"]["views"]
    assert views["coordinator"]["epsilon"] < views["coalition"]["epsilon"] <= 20
    assert all(n > 0 for n in outcome["bytes_sent"].values())


def test_the_plot_is_a_png_and_the_numbers_hold_the_result(demo):
    folder, run = demo
    files = json.loads(run.stdout)["files"]
    assert (folder / files["plot"]).read_bytes().startswith(b"\x89PNG")
    numbers = json.loads((folder / files["numbers"]).read_text())
    assert len(numbers["result"]["components"]) == 5
    assert len(numbers["result"]["columns"]) == 118


def test_states_are_told_on_standard_error_and_no_progress_of_parties(demo):
    _, run = demo
    assert " UTC DONE\n" in run.stderr
    assert " %" not in run.stderr


def test_no_process_of_the_demo_is_left(demo):
    folder, _ = demo
    mine = str(folder / "work")
    commands = [p.read_bytes().decode(errors="replace") for p in Path("/proc").glob("[0-9]*/cmdline") if readable(p)]
    assert not [c for c in commands if mine in c]


def readable(path):
    try:
        path.read_bytes()
    except OSError:  # it ended between the listing and the reading
        return False
    return True


def test_what_is_kept_shows_keys_to_their_owner_only(demo):
    folder, _ = demo
    keys = list((folder / "work").rglob("*.key"))
    assert len(keys) == 5
    assert all(key.stat().st_mode & 0o077 == 0 for key in keys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--epsilon", "-1"), "privacy.epsilon"),
        (("--epsilon", "nan"), "privacy.epsilon"),
        (("--delta", "2"), "privacy.delta"),
        (("--rows", "999999999"), "145586"),
        (("--rows", "5"), "--rows"),
        (("--components", "0"), "--components"),
        (("--keep", "."), "new folder"),
    ],
)
def test_a_newcomers_mistake_ends_at_once_with_one_clear_message(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(app, ["demo", "pca", *arguments])
    assert run.exit_code == 2
    assert words in run.stderr
    assert isinstance(run.exception, SystemExit)


def test_the_example_job_is_the_demos_job():
    import tomllib

    job = tomllib.loads((REPOSITORY / "examples" / "pca.toml").read_text())
    assert job["parameters"]["row_norm"] == ROW_NORM
    assert job["parameters"]["norm_bounds"] == dict(NORM_BOUNDS)
    assert [(i["party"], i["table"]) for i in job["inputs"]] == [(party, TABLE_NAME) for party in NORM_BOUNDS]


def test_the_circuit_demo_runs_three_processes_that_print_the_same(tmp_path):
    run = moiety("demo", "circuit", "--keep", "work", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    names, figures = zip(*(line.split(": ") for line in run.stdout.splitlines()), strict=True)
    assert names == ("alice", "bob", "carol")
    assert set(figures) == {"mean 4544.44, standard deviation 755.88, skewness 0.652"}
    program = (REPOSITORY / "examples" / "circuit.py").read_text()
    assert (tmp_path / "work" / "circuit.py").read_text() == program


def test_the_circuit_demo_says_which_process_failed(tmp_path):
    environment = {**os.environ, "MOIETY_MESH__TLS__KEY": "nowhere.key"}
    command = [sys.executable, "-m", "cli.main", "demo", "circuit"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, env=environment)
    assert run.returncode == 1
    assert "error: alice:" in run.stderr
    assert "nowhere.key does not exist" in run.stderr
