"""Batches over processes of their own, by users' commands, while a party, a device and the coordinator are killed."""

import asyncio
import datetime
import json
import signal
import subprocess
import sys

import pytest

from demo.local_deployment import COORDINATOR_NAME, LocalDeployment
from demo.loopback import tls_files, toml
from device.config import write_identity_key
from device.response_store import ResponseStore
from entropy import SystemEntropy
from questions.shares import AskedBatch
from questions.shares_answer import open_sum
from service.identity import Identity, Role
from service.tls import load_credentials
from transport.batch_party import BatchPartyClient
from transport.calls.channel import open_channel

pytestmark = pytest.mark.slow  # it starts a dozen processes

PARTIES = ("bank", "clinic", "shop")
DEVICES = ("d0", "d1", "d2")


def write_devices(deployment, **parties_policy):
    """The folders of devices whose records are (1, 10), (2, 20), (3, 30)."""
    folder = deployment.folder
    keys = {name: write_identity_key(folder / f"{name}.identity", SystemEntropy()).hex() for name in DEVICES}
    members = [toml({"name": name, "identity": key}) for name, key in keys.items()]
    (folder / "roster.toml").write_text("".join(f"\n[[members]]\n{member}" for member in members))
    for number, name in enumerate(DEVICES, start=1):
        (folder / f"{name}.json").write_text(json.dumps({"values": [number, 10 * number]}))
        head = {"name": name, "federation": deployment.federation, "data_dir": f"{name}-data"}
        head |= {"identity_file": f"{name}.identity", "roster": "roster.toml", "log_format": "json"}
        sections = {
            "coordinator": {"name": COORDINATOR_NAME, "address": deployment.addresses[COORDINATOR_NAME]},
            "tls": tls_files(name),
            "policy": {"smallest_cohort": 3},
            "policy.parties": {"names": PARTIES, "colluding": 1, **parties_policy},
            "policy.budget": {"period": "p", "epsilon": 9.0, "delta": 1e-6, "reason": "first"},
        }
        record = toml({"name": "steps", "path": f"{name}.json", "length": 2})
        (folder / f"{name}.toml").write_text(toml(head, sections) + "\n[[records]]\n" + record)


def question_file(deployment, **more):
    path = deployment.folder / "batch-question.toml"
    until = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)).isoformat()
    fields = {"analysis": "secure-sum", "channel": "parties", "record": "steps", "length": 2, "largest": 100}
    fields |= {"parties": PARTIES, "colluding": 1, "smallest_cohort": 3, "largest_cohort": 3}
    text = toml(fields | more) + f"until = {until}\n"
    path.write_text(text + toml({}, {"privacy": {"epsilon": 8.0, "delta": 1e-6}}))
    return path


def command(deployment, *arguments):
    """`moiety ask` as the analyst runs it."""
    line = [sys.executable, "-m", "cli.main", "ask", *map(str, arguments), "--client", str(deployment.client_config)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def start_device(deployment, name):
    path = deployment.config_path(name)
    deployment.launch(name, "cli.main", "device", "run", "--config", str(path))


async def closed_again(deployment, asked):
    """The parties' shares, as a coordinator gets them that asks once more."""
    folder, hub = deployment.folder, COORDINATOR_NAME
    own = load_credentials(authority=folder / "ca.pem", certificate=folder / f"{hub}.pem", key=folder / f"{hub}.key")
    text = asked.canonical_json()
    channels = {
        name: open_channel(deployment.addresses[name], Identity(deployment.federation, Role.PARTY, name), own)
        for name in PARTIES
    }
    clients = [BatchPartyClient(name, channel) for name, channel in channels.items()]
    try:
        for client in clients:
            await client.prepare(text, "once-more")
        return await asyncio.gather(*(client.close(text, "once-more", 1 << 20) for client in clients))
    finally:
        for channel in channels.values():
            await channel.close()


def test_a_batch_goes_on_while_a_party_a_device_and_the_coordinator_are_killed(tmp_path):
    rules = {"batches": {"smallest_cohort": 3}}
    members = [(Role.DEVICE, name) for name in DEVICES]
    with LocalDeployment(
        tmp_path, dict.fromkeys(PARTIES, ()), members=members, policy=dict.fromkeys(PARTIES, rules)
    ) as deployment:
        write_devices(deployment)
        asking = command(deployment, question_file(deployment))
        deployment.wait_until_logged(COORDINATOR_NAME, "question is open")
        deployment.send_signal("clinic", signal.SIGKILL)
        for name in ("d0", "d1"):
            start_device(deployment, name)
            deployment.wait_until_logged(name, '"outcome": "taken"')
        deployment.send_signal("d0", signal.SIGKILL)  # it has sent: it is in the sum
        deployment.send_signal(COORDINATOR_NAME, signal.SIGKILL)
        _, said = asking.communicate(timeout=300)
        assert asking.returncode != 0
        batch = said.split("batch ", 1)[1].split()[0]
        deployment.start(COORDINATOR_NAME)
        deployment.wait_until_ready(COORDINATOR_NAME)
        following = command(deployment, "--follow", batch, "--format", "json")
        start_device(deployment, "d2")
        deployment.wait_until_logged(COORDINATOR_NAME, "batch not opened yet")  # the clinic is not there
        deployment.start("clinic")
        out, said = following.communicate(timeout=300)
        assert following.returncode == 0, said
        result = json.loads(out)
        assert (result["devices"], result["left_out"], result["batch"]) == (3, [], batch)
        deviation = result["standard_errors"][0]
        assert all(abs(got - true) < 60 * deviation for got, true in zip(result["sum"], (6, 60), strict=True))

        deployment.send_signal("clinic", signal.SIGKILL)
        deployment.start("clinic")
        deployment.wait_until_ready("clinic")
        asked = asked_in(deployment)
        shares = asyncio.run(closed_again(deployment, asked))
        again = open_sum(asked.question, [share.share for share in shares])
        assert again.tolist() == result["sum_in_units"]  # the same noise, not another draw


def test_a_batch_opens_without_a_party_that_was_killed_and_never_comes_back(tmp_path):
    rules = {"batches": {"smallest_cohort": 3, "may_miss": 1}}
    members = [(Role.DEVICE, name) for name in DEVICES]
    with LocalDeployment(
        tmp_path, dict.fromkeys(PARTIES, ()), members=members, policy=dict.fromkeys(PARTIES, rules)
    ) as deployment:
        write_devices(deployment, may_miss=1)
        asking = command(deployment, question_file(deployment, may_miss=1), "--format", "json")
        deployment.wait_until_logged(COORDINATOR_NAME, "question is open")
        deployment.send_signal("clinic", signal.SIGKILL)
        for name in DEVICES:
            start_device(deployment, name)
        out, said = asking.communicate(timeout=300)
        assert asking.returncode == 0, said
        result = json.loads(out)
        assert (result["devices"], result["opened_by"]) == (3, ["bank", "shop"])
        deviation = result["standard_errors"][0]
        assert all(abs(got - true) < 60 * deviation for got, true in zip(result["sum"], (6, 60), strict=True))


def asked_in(deployment) -> AskedBatch:
    """The question of the one batch, as devices have kept it."""
    store = ResponseStore(deployment.folder / "d1-data" / "batches.sqlite")
    try:
        (known,) = store.known()
    finally:
        store.close()
    assert known.outcome == "taken"
    return AskedBatch.from_json(known.text)
