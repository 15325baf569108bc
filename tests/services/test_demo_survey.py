"""`moiety demo survey`, `moiety distribution` and `moiety device responses` as a user runs them: real processes."""

import json
import subprocess
from pathlib import Path

from commands import moiety
from typer.testing import CliRunner

from cli.main import app

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_devices_killed_and_restarted_give_one_response_each_and_leave_nothing_running(tmp_path):
    folder = tmp_path / "kept"
    done = moiety("demo", "survey", "--devices", 5, "--killed", 2, "--seed", 5, "--keep", folder, "--format", "json")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["is_one_each"]
    assert len(outcome["killed"]) == 2
    result = outcome["result"]
    # On a slow machine a device that was started again may come after the end: its response is kept, and not counted.
    assert 5 - len(outcome["killed"]) <= result["responses"] + outcome["n_sat_out"] <= 5
    assert abs(sum(result["probabilities"]) - 1) < 1e-9
    assert str(folder) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    services = folder / "services"
    logs = "".join(path.read_text() for path in services.glob("*.log"))
    listed = moiety("device", "responses", "--config", services / "device-01.toml", "--format", "json")
    (known,) = json.loads(listed.stdout)
    assert known["survey"] == result["question"]
    assert known["survey"] in logs


def test_a_question_that_is_none_and_an_identifier_that_is_none_end_with_the_field(tmp_path):
    path = tmp_path / "question.toml"
    path.write_text((EXAMPLES / "survey.toml").read_text().replace("[0, 200000]", "[5, 1]"))
    shown = CliRunner().invoke(app, ["distribution", "ask", str(path)])
    assert shown.exit_code == 2
    assert "range" in shown.output
    shown = CliRunner().invoke(app, ["distribution", "show", "xyz"])
    assert shown.exit_code == 2
    assert "no identifier" in shown.output


def test_a_device_that_has_met_no_question_says_so(tmp_path):
    path = tmp_path / "device.toml"
    path.write_text((EXAMPLES / "device.toml").read_text())
    shown = CliRunner().invoke(app, ["device", "responses", "--config", str(path)])
    assert shown.exit_code == 0
    assert "no question was met yet" in shown.output
