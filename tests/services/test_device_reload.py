"""SIGHUP on real devices: certificates and configuration are read again, and a round that runs goes on."""

import asyncio
import signal
import time
from contextlib import ExitStack

import pytest
from commands import moiety
from deadlines import GENEROUS_S
from renewable_services import REFUSED, RenewableDeployment

from analyses.sums.secure_sum import SumParams
from analyst.asking import result_of
from analyst.connection import ClientConfig
from demo.devices.deployment import ROSTER, _make_identities, write_device
from demo.local_deployment import COORDINATOR_NAME
from demo.loopback import toml
from service.identity import Role

NAMES = ("ann", "ben", "cem")
PROCESSES = {"ann": ("ann", "ben"), "cem": ("cem",)}
"""Process, by the name of its log, to the devices in it."""

QUESTION = SumParams(analysis="secure-sum", record="steps", length=1, largest=100, stage_s=GENEROUS_S)


class RenewableDevices(RenewableDeployment):
    def start_devices(self) -> None:
        for process, names in PROCESSES.items():
            configs = [part for name in names for part in ("--config", str(self.config_path(name)))]
            self.launch(process, "cli.main", "device", "run", *configs)
        for process, names in PROCESSES.items():
            self.await_lines(process, "member is ready", len(names))

    def await_lines(self, process: str, event: str, n: int) -> list[dict]:
        end_s = time.monotonic() + GENEROUS_S
        while len(found := self.lines(process, event)) < n:
            assert time.monotonic() < end_s, self.log_path(process).read_text()
            assert self.processes[process].poll() is None, self.log_path(process).read_text()
            time.sleep(0.02)
        return found

    def hang_up(self, process: str, event: str = "files were read again") -> list[dict]:
        before, n = len(self.lines(process, event)), len(PROCESSES[process])
        self.send_signal(process, signal.SIGHUP)
        return self.await_lines(process, event, before + n)[before:]

    def ask(self) -> dict:
        return asyncio.run(self.asking())

    async def asking(self) -> dict:
        return await result_of(ClientConfig.load(self.client_config), QUESTION)


@pytest.fixture
def deployment(tmp_path):
    identities = _make_identities(tmp_path, NAMES)
    roster = "".join("[[members]]\n" + toml({"name": n, "identity": i}) + "\n" for n, i in identities.items())
    (tmp_path / ROSTER).write_text(roster)
    members = [(Role.DEVICE, name) for name in NAMES]
    with ExitStack() as stack:
        running = stack.enter_context(RenewableDevices(tmp_path, {}, members=members, sum_members=identities))
        for number, name in enumerate(NAMES, start=1):
            policy = {"policy": {"smallest_cohort": 2, "corrupt_fraction": 0.0, "exact_sums": True}}
            write_device(running, name, {"values": [number]}, policy, {"name": "steps", "length": 1})
        running.start_devices()
        yield running


def test_a_round_survives_the_renewal_of_all_certificates_and_later_rounds_use_the_new_ones(deployment):
    async def renew_while_it_runs() -> dict:
        deployment.send_signal("cem", signal.SIGSTOP)  # the round does not get far without it
        asking = asyncio.create_task(deployment.asking())
        await asyncio.to_thread(deployment.await_lines, COORDINATOR_NAME, "masked sum begins", n=1)
        for name in NAMES:
            deployment.renew(name)
        told = await asyncio.to_thread(deployment.hang_up, "ann")
        assert [line["member"] for line in told] == ["ann", "ben"]
        deployment.send_signal("cem", signal.SIGCONT)
        await asyncio.to_thread(deployment.hang_up, "cem")
        return await asking

    old = deployment.certificates(NAMES)
    answer = asyncio.run(renew_while_it_runs())
    assert (answer["sum_in_units"], answer["survivors"]) == ([6], list(NAMES))
    assert not set(old) & set(deployment.certificates(NAMES))
    deployment.revoke_serials(old)
    deployment.reload(COORDINATOR_NAME)
    assert deployment.ask()["survivors"] == list(NAMES)


def test_bad_files_and_changes_that_need_a_restart_are_refused_and_the_device_goes_on(deployment):
    good = deployment.certificate("cem")
    (deployment.folder / "cem.pem").write_bytes(deployment.certificate("ann"))
    assert "does not belong to the certificate" in deployment.hang_up("cem", REFUSED)[0]["reason"]
    (deployment.folder / "cem.pem").write_bytes(good)
    text = deployment.config_path("cem").read_text()
    for old, new, words in (
        ("cem.data", "elsewhere", "data_dir: changes only when the service is restarted"),
        (f'"name" = "{COORDINATOR_NAME}"', '"name" = "other"', "coordinator.name: changes only when the device"),
        ("[policy]", "[policy.budget", "cem.toml: not valid TOML"),
    ):
        assert old in text
        deployment.config_path("cem").write_text(text.replace(old, new, 1))
        assert words in deployment.hang_up("cem", REFUSED)[0]["reason"]
    deployment.config_path("cem").write_text(text)
    assert deployment.hang_up("cem")[0]["changed"] == "no field"
    assert deployment.ask()["survivors"] == list(NAMES)


def test_a_changed_policy_holds_for_the_next_round_and_who_asks_hears_how_many_refuse_and_why(deployment, tmp_path):
    def asked(text: str) -> tuple[int, str]:
        question = tmp_path / "question.toml"
        common = f'analysis = "secure-sum"\nlength = 1\nlargest = 100\nattempts = 1\nstage_s = {GENEROUS_S}\n'
        question.write_text(common + text)
        done = moiety("sum", question, "--client", deployment.client_config)
        return done.returncode, done.stderr

    for name in PROCESSES["ann"]:
        deployment.edit(name, '"exact_sums" = true', '"exact_sums" = false')
    assert [line["changed"] for line in deployment.hang_up("ann")] == ["policy", "policy"]
    code, text = asked('record = "steps"\n')
    (tmp_path / "exact.toml").write_text((tmp_path / "question.toml").read_text())
    assert (code, "1 answered; 2 refused: policy 2\n" in text) == (1, True), text
    assert text.endswith("; of the members 2 refused: policy 2 [members-too-few]\n")
    noisy = 'record = "steps"\n\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n'
    assert "0 answered; 3 refused: budget 3\n" in asked(noisy)[1]  # none has a budget
    assert "0 answered; 3 refused: question 3\n" in asked('record = "weight"\n')[1]
    for name in PROCESSES["ann"]:
        deployment.edit(name, '"exact_sums" = false', '"exact_sums" = true')
    deployment.hang_up("ann")
    picture = tmp_path / "sum.svg"
    done = moiety("sum", tmp_path / "exact.toml", "--client", deployment.client_config, "--plot", picture)
    assert (done.returncode, f"plot: {picture}" in done.stderr) == (0, True), done.stderr
    assert all(words in picture.read_text() for words in ("Sum of steps over all members", "ann, ben, cem"))
