"""`moiety demo sum`, `moiety device` and `moiety sum` as a user runs them: real processes, real kills."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from commands import moiety
from devices import question, round_of
from typer.testing import CliRunner

from analyses.sums.records import DeclaredRecord, Record, contribution
from analyses.sums.secure_sum import SumParams
from cli.main import app
from demo.devices.processes import RandomKills
from demo.devices.sum import SumOutcome, text_of
from device.config import DeviceConfig
from device.report import write_sum_report
from entropy import SystemEntropy
from mpc.secagg.config import Topology
from mpc.transcript import RoundId

REPOSITORY = Path(__file__).parents[2]


def test_the_demo_sums_exactly_while_devices_are_killed_and_leaves_nothing_running(tmp_path):
    folder = tmp_path / "kept"
    arguments = ("--devices", 6, "--killed", 2, "--seed", 5, "--keep", folder, "--format", "json")
    done = moiety("demo", "sum", *arguments)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["is_exact"]
    assert outcome["seed"] == 5
    assert len(outcome["killed_after_s"]) == 2
    answer = outcome["answer"]
    assert set(answer["vanished"]) | set(answer["silent_after"]) <= set(outcome["killed_after_s"])
    records = [json.loads((folder / "services" / f"{n}.json").read_text())["values"] for n in answer["survivors"]]
    assert answer["sum_in_units"] == [sum(hour) for hour in zip(*records, strict=True)]
    commands = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(folder) not in commands
    logs = "".join(path.read_text() for path in (folder / "services").glob("*.log"))
    for secret in (folder / "services").glob("*.identity"):
        assert secret.read_text().strip() not in logs


def test_more_than_half_must_live():
    shown = CliRunner().invoke(app, ["demo", "sum", "--devices", "6", "--killed", "3"])
    assert shown.exit_code == 2
    assert "more than half" in shown.stderr


def outcome(**changes):
    answer = {
        "sum_in_units": list(range(24)),
        "survivors": ["device-01", "device-02"],
        "vanished": {"device-03": "masked input"},
        "silent_after": {"device-02": "unmask"},
    }
    killed = {"device-02": 2.0, "device-03": 1.0, "device-01": 3.0}
    return SumOutcome(
        **{"answer": answer, "seconds": 4.0, "killed_after_s": killed, "survivors_sum": [], "is_exact": True, **changes}
    )


def test_the_text_says_who_dropped_out_when_and_whether_the_sum_is_right():
    lines = [line.strip() for line in text_of(outcome()).splitlines()]
    assert lines[2] == "device-03 killed after  1.00 s, dropped out at stage masked input: not in the sum"
    assert lines[3].startswith("device-02 killed after  2.00 s, dropped out at stage unmask: its vector had arrived")
    assert lines[4] == "device-01 killed after  3.00 s, had sent everything before"
    assert "the check       exact: equal in every entry" in lines
    assert any(line.startswith("privacy") and "no noise" in line for line in lines)
    assert "WRONG" in text_of(outcome(is_exact=False))


class Devices:
    names = tuple(f"device-{i}" for i in range(10))

    def __init__(self):
        self.killed = []

    def kill(self, name):
        self.killed.append(name)


@pytest.mark.parametrize("seed", [1, 2])
def test_as_many_distinct_devices_are_killed_as_were_asked_for_by_the_end_of_the_last_stage(seed):
    devices = Devices()
    kills = RandomKills.draw(devices, 6, seed)
    for _ in range(5):
        kills.stage_begins()
    kills.wait()
    assert len(set(devices.killed)) == len(devices.killed) == 6


def test_device_key_writes_a_private_file_once_and_prints_the_public_half(tmp_path):
    path = tmp_path / "ann.identity"
    shown = CliRunner().invoke(app, ["device", "key", "--out", str(path)])
    assert shown.exit_code == 0
    assert len(bytes.fromhex(shown.stdout.strip())) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().strip() not in shown.output
    again = CliRunner().invoke(app, ["device", "key", "--out", str(path)])
    assert again.exit_code == 2
    assert "exists already" in again.stderr


def test_a_device_whose_files_are_missing_ends_with_one_line(tmp_path):
    shown = CliRunner().invoke(app, ["device", "run", "--config", str(tmp_path / "absent.toml")])
    assert (shown.exit_code, shown.stderr) == (
        2,
        f"error: {tmp_path}/absent.toml: there is no such file [configuration-invalid]\n",
    )


def test_a_question_that_cannot_be_read_ends_with_exit_code_2(tmp_path):
    question = tmp_path / "sum.toml"
    client = tmp_path / "client.toml"
    client.write_text(
        'federation = "f"\n[coordinator]\nname = "c"\naddress = "127.0.0.1:1"\n'
        '[tls]\nauthority = "a"\ncertificate = "c"\nkey = "k"\n'
    )
    assert CliRunner().invoke(app, ["sum", str(question), "--client", str(client)]).exit_code == 2
    question.write_text('analysis = "secure-sum"\n')
    shown = CliRunner().invoke(app, ["sum", str(question), "--client", str(client)])
    assert shown.exit_code == 2
    assert "record" in shown.stderr


def test_the_example_question_is_valid():
    question = SumParams.from_toml((REPOSITORY / "examples" / "sum.toml").read_text())
    assert (question.analysis, question.encoding.n_elements) == ("secure-mean", 25)


def test_the_owner_of_a_device_reads_what_sums_may_still_learn(tmp_path):
    config = tmp_path / "device.toml"
    config.write_text((REPOSITORY / "examples" / "device.toml").read_text())
    shown = CliRunner().invoke(app, ["device", "budget", "--config", str(config)])
    assert (shown.exit_code, "there is no ledger yet" in shown.stderr) == (2, True)
    (tmp_path / "ann-data").mkdir()
    device = DeviceConfig.load(config).open_budget("installation-1")
    fields = {"analysis": "secure-sum", "record": "steps", "largest": 10, "privacy": {"epsilon": 1.0, "delta": 1e-6}}
    noisy, exact = SumParams.model_validate(fields), SumParams.model_validate({**fields, "privacy": None})
    device.reserve(RoundId("a", 0, 0), noisy, noisy.noise(Topology.complete(20, 2)))
    device.commit(RoundId("a", 0, 0), noisy)
    device.commit(RoundId("b", 0, 0), exact)
    lines = CliRunner().invoke(app, ["device", "budget", "--config", str(config)]).stdout.splitlines()
    assert lines[0] == "period '2026', per one member's records"
    assert lines[2] == (
        "  holds      against the coordinator and at most 2 colluding members (t of the job that withstands fewest)"
    )
    assert " % of the budget, by 1 sum: epsilon 0.99" in lines[3]
    assert lines[6] == "  exact      1 sums without noise, which no epsilon counts"
    printed = json.loads(
        CliRunner().invoke(app, ["device", "budget", "--config", str(config), "--format", "json"]).stdout
    )
    assert 0.9 < printed["budget"]["spent_epsilon"] <= 1.0
    device.close()


def test_the_owner_of_a_device_reads_what_was_clipped(tmp_path):
    config = tmp_path / "device.toml"
    config.write_text((REPOSITORY / "examples" / "device.toml").read_text())

    def shown(*arguments):
        return CliRunner().invoke(app, ["device", "report", "--config", str(config), *arguments])

    assert shown().stdout == "no round has been answered yet\n"
    assert (shown("aa-0-0").exit_code, "no report of round" in shown("aa-0-0").stderr) == (2, True)
    params = question(length=2, largest=10)
    declared = DeclaredRecord.as_asked(params)

    def keep(session, values):
        found = contribution(params, declared, Record(np.array(values)))
        encoded = params.encoding.encode(found.vector, SystemEntropy(), found.weight)
        write_sum_report(tmp_path / "ann-data", params, round_of(params, session), found, encoded, None)

    keep("aa", [3.0, 11.0])
    assert shown().stdout == "aa-0-0\n"
    assert "clipped: 50.00% of the entries were larger than 10" in shown("aa-0-0").stdout
    assert json.loads(shown("aa-0-0", "--format", "json").stdout)["clipped_fraction"] == 0.5
    assert "not used" not in shown("aa-0-0").stdout
    keep("bb", [3.0, 11.0, 12.0])
    assert "zeros were contributed instead: it has 3 values; 2 are declared" in shown("bb-0-0").stdout
    assert json.loads(shown("bb-0-0", "--format", "json").stdout)["record_was_used"] is False


def test_the_owner_of_a_device_checks_what_its_records_are(tmp_path):
    config = tmp_path / "device.toml"
    config.write_text((REPOSITORY / "examples" / "device.toml").read_text())

    def shown(*arguments):
        return CliRunner().invoke(app, ["device", "check", "--config", str(config), *arguments])

    (tmp_path / "wage.json").write_text(json.dumps({"values": [2500]}))
    (tmp_path / "films.json").write_text(json.dumps({"ratings": [["0", 4.5]]}))
    assert shown().exit_code == 1
    assert "steps: would count as zeros:" in shown().stdout
    assert "cannot be read" in shown().stdout
    (tmp_path / "steps.json").write_text(json.dumps({"values": [1] * 24, "weight": 5}))
    assert (shown().exit_code, shown().stdout) == (
        0,
        "steps: matches its declaration\nwage: matches its declaration\nfilms: matches its declaration\n",
    )
    assert json.loads(shown("--format", "json").stdout) == {"steps": None, "wage": None, "films": None}
    (tmp_path / "steps.json").write_text(json.dumps({"values": [1] * 23}))
    assert json.loads(shown("--format", "json").stdout) == {
        "steps": "it has 23 values; 24 are declared",
        "wage": None,
        "films": None,
    }
