"""Two coordinators, one database: what devices were asked goes on after a takeover, or ends with the reason."""

import datetime
import json
import signal
import subprocess
import sys

import pytest
from deadlines import GENEROUS_S, wait_until
from dying_coordinator import DIES_AT
from two_coordinators import TwoAddresses

from demo.devices.deployment import ROSTER, _make_identities, write_device
from demo.loopback import toml
from device.config import DeviceConfig
from device.response_store import read_responses
from service.identity import Role

pytestmark = pytest.mark.slow  # it starts ten processes

PARTIES = ("bank", "clinic", "shop")
DEVICES = ("ann", "ben", "cem")
FIRST = ("ann", "ben")
"""Those that answer before the leader is killed."""

UNTIL = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)).isoformat()
RANGE = {"record": "steps", "range": (0.0, 100.0), "buckets": 16}
SURVEY = RANGE | {"epsilon": 2.0, "responses": 3, "until": UNTIL}
MASKED = RANGE | {"method": "masked", "epsilon": 4.0, "stage_s": GENEROUS_S}
BATCH = {"analysis": "secure-sum", "channel": "parties", "record": "steps", "length": 1, "largest": 100}
BATCH |= {"parties": PARTIES, "colluding": 1, "smallest_cohort": 3, "largest_cohort": 3, "until": UNTIL}
RULES = {"batches": {"smallest_cohort": 3}}
PRIVACY = {"privacy": {"epsilon": 4.0, "delta": 1e-6}}


@pytest.fixture
def deployment(tmp_path, url):
    folder = tmp_path / "run"
    folder.mkdir()
    identities = _make_identities(folder, DEVICES)
    roster = "".join("[[members]]\n" + toml({"name": n, "identity": i}) + "\n" for n, i in identities.items())
    (folder / ROSTER).write_text(roster)
    with TwoAddresses(
        folder,
        dict.fromkeys(PARTIES, ()),
        environment={DIES_AT: str(folder / "dies-at")},
        url=url,
        policy=dict.fromkeys(PARTIES, RULES),
        members=[(Role.DEVICE, name) for name in DEVICES],
        sum_members=identities,
    ) as running:
        sections = {
            "policy": {"smallest_cohort": 2, "corrupt_fraction": 0.0, "exact_sums": True},
            "policy.surveys": {"max_epsilon": 2.0},
            "policy.parties": {"names": PARTIES, "colluding": 1},
            "policy.budget": {"period": "p", "epsilon": 90.0, "delta": 1e-6, "reason": "first"},
        }
        for number, name in enumerate(DEVICES, start=1):
            write_device(running, name, {"values": [10 * number]}, sections, {"name": "steps", "length": 1})
            running.name_both(running.config_path(name))
        yield running


def start_devices(deployment, process, names):
    paths = [part for name in names for part in ("--config", str(deployment.config_path(name)))]
    deployment.launch(process, "cli.main", "device", "run", *paths)


def until_logged(deployment, process, words, n):
    log = deployment.log_path(process)
    wait_until(lambda: log.exists() and log.read_text().count(words) >= n)


def command(deployment, *arguments):
    """A command as the analyst runs it."""
    line = [sys.executable, "-m", "cli.main", *map(str, arguments), "--client", str(deployment.client_config)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def asking(deployment, name, fields, sections, *words):
    path = deployment.folder / f"{name}-question.toml"
    until_line = f"until = {fields['until']}\n" if "until" in fields else ""
    plain = {key: value for key, value in fields.items() if key != "until"}
    path.write_text(toml(plain) + until_line + toml({}, sections))
    return command(deployment, *words, path)


def identifier(asked, what):
    """Return what a command has printed that was cut off, once it has ended with a plain reason."""
    _, said = asked.communicate(timeout=GENEROUS_S)
    assert asked.returncode != 0
    assert "Traceback" not in said
    assert "it closed the connection: it went away" in said or "nothing listens at its address" in said, said
    return said.split(f"{what} ", 1)[1].split()[0] if what else ""


def result_of(followed):
    out, said = followed.communicate(timeout=GENEROUS_S)
    assert followed.returncode == 0, said
    return json.loads(out)


def test_a_survey_and_a_batch_go_on_and_each_device_counts_once_and_has_paid_once(deployment):
    survey = asking(deployment, "survey", SURVEY, {}, "ask")
    batch = asking(deployment, "batch", BATCH, PRIVACY, "ask")
    leader = deployment.leader()
    until_logged(deployment, leader, "question is open", 2)
    start_devices(deployment, "first", FIRST)
    until_logged(deployment, "first", '"outcome": "taken"', 4)
    deployment.send_signal(leader, signal.SIGKILL)
    survey_id, batch_id = identifier(survey, "survey"), identifier(batch, "batch")
    after = deployment.until_taken_over(leader)
    followed = command(deployment, "ask", "--follow", survey_id, "--format", "json")
    batched = command(deployment, "ask", "--follow", batch_id, "--format", "json")
    start_devices(deployment, "last", DEVICES[2:])
    result, total = result_of(followed), result_of(batched)
    assert (result["responses"], result["contradictions"]) == (3, 0)
    assert (total["devices"], total["left_out"]) == (3, [])
    assert abs(total["sum"][0] - 60) < 60 * total["standard_errors"][0]
    for table in ("coordinator_responses", "coordinator_answers"):
        assert deployment.execute(f"SELECT name FROM {table} ORDER BY name") == [(name,) for name in DEVICES]
    for name in DEVICES:
        config = DeviceConfig.load(deployment.config_path(name))
        assert len(read_responses(config.response_path)) == 1
        assert config.read_ledger()["budget"]["committed_jobs"] == 2
    for process in ("first", "last"):
        assert "another response" not in deployment.log_path(process).read_text()
    assert deployment.leader() == after


def test_what_masked_sums_were_asked_ends_with_the_reason_and_is_asked_again(deployment):
    """Their rounds live in memory: what a device has sent of one is of no use in another."""
    start_devices(deployment, "first", FIRST)
    until_logged(deployment, "first", "member is ready", 2)
    sum_of = {"analysis": "secure-sum", "record": "steps", "length": 1, "largest": 100, "stage_s": GENEROUS_S}
    leader = deployment.leader()
    summed = asking(deployment, "sum", sum_of, {}, "ask")
    survey = asking(deployment, "masked", MASKED, {}, "ask")
    until_logged(deployment, leader, "masked sum begins", 2)
    deployment.send_signal(leader, signal.SIGKILL)
    identifier(summed, "")
    survey_id = identifier(survey, "sum")
    deployment.until_taken_over(leader)
    followed = command(deployment, "ask", "--follow", survey_id)
    _, said = followed.communicate(timeout=GENEROUS_S)
    assert followed.returncode == 1
    assert "there is no answer: the coordinator was restarted; ask again" in said
    start_devices(deployment, "last", DEVICES[2:])
    until_logged(deployment, "last", "member is ready", 1)
    again = result_of(asking(deployment, "again", sum_of, {}, "ask", "--format", "json"))
    assert (again["sum"], again["survivors"]) == ([60.0], list(DEVICES))
