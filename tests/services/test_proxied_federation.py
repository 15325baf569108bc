"""A federation whose members dial each other through squid, which asks each for a user and a password of its own."""

import base64
import json
import signal
import time
from contextlib import ExitStack

import pytest
from commands import moiety
from deadlines import GENEROUS_S
from federation import all_text, jobs_paid, random_values, tables_of
from forked_services import ForkedDeployment
from squid import Squid, a_password, needs_squid

from demo.devices.deployment import ROSTER, _make_identities, write_device
from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME
from demo.loopback import toml
from demo.ports import free_row_of_ports
from service.identity import Role

pytestmark = needs_squid

PARTIES = ("bank", "hospital", "telco")
DEVICES = ("ann", "ben", "cem")
PASSWORDS = {name: a_password() for name in (*PARTIES, *DEVICES, COORDINATOR_NAME, ANALYST_NAME)}
VALUES = {name: random_values((60, 2), seed) for seed, name in enumerate(PARTIES)}


class ProxiedDeployment(ForkedDeployment):
    """Each member dials by a proxy, as a user of its own name."""

    proxy: str = ""

    def write_files(self) -> None:
        super().write_files()
        for name in (*PARTIES, COORDINATOR_NAME):
            self.use_proxy(name, self.config_path(name))
        self.use_proxy(ANALYST_NAME, self.client_config)

    def use_proxy(self, name, path) -> None:
        word = self.folder / f"{name}.password"
        word.touch(mode=0o600)
        word.write_text(PASSWORDS[name] + "\n")
        section = {"url": f"http://{name}@{self.proxy}", "password_file": word.name}
        path.write_text(path.read_text() + "\n" + toml({}, {"proxy": section}))

    def hang_up(self, name) -> None:
        done = "files were read again"
        before = self.log_path(name).read_text().count(done)
        self.send_signal(name, signal.SIGHUP)
        end_s = time.monotonic() + GENEROUS_S
        while self.log_path(name).read_text().count(done) == before:
            assert time.monotonic() < end_s, self.log_path(name).read_text()
            time.sleep(0.02)


@pytest.fixture(scope="module")
def squid():
    with Squid(f"127.0.0.1:{free_row_of_ports(1)}", PASSWORDS) as running:
        yield running


@pytest.fixture(scope="module")
def deployment(tmp_path_factory, squid):
    folder = tmp_path_factory.mktemp("proxied")
    (folder / "run").mkdir()
    tables = tables_of(VALUES, folder)
    identities = _make_identities(folder / "run", DEVICES)
    roster = "".join("[[members]]\n" + toml({"name": n, "identity": i}) + "\n" for n, i in identities.items())
    (folder / "run" / ROSTER).write_text(roster)
    members = [(Role.DEVICE, name) for name in DEVICES]
    made = ProxiedDeployment(folder / "run", tables, members=members, sum_members=identities)
    made.proxy = squid.address
    with ExitStack() as stack:
        running = stack.enter_context(made)
        configs = []
        for number, name in enumerate(DEVICES, start=1):
            policy = {"policy": {"smallest_cohort": 2, "corrupt_fraction": 0.0, "exact_sums": True}}
            write_device(running, name, {"values": [number]}, policy, {"name": "steps", "length": 1})
            running.use_proxy(name, running.config_path(name))
            configs += ["--config", str(running.config_path(name))]
        running.log_path("devices").touch()
        running.launch("devices", "cli.main", "device", "run", *configs)
        running.wait_until_logged("devices", "member is ready")
        yield running


def run_job(deployment, tmp_path):
    """Run a job as an analyst does."""
    path = tmp_path / "job.toml"
    inputs = "".join("\n[[inputs]]\n" + toml({"party": name, "table": "people"}) for name in PARTIES)
    path.write_text(toml({"analysis": "secure-mean"}, {"privacy": {"epsilon": 50.0, "delta": 1e-6}}) + inputs)
    return moiety("job", "submit", path, "--client", deployment.client_config, "--format", "json")


def doctor(path, *more):
    done = moiety("doctor", "--quick", "--format", "json", "--timeout", str(GENEROUS_S), "--config", path, *more)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stdout + done.stderr


def test_each_member_dials_the_others_through_its_proxy_and_no_password_is_told(deployment, squid, tmp_path):
    done = run_job(deployment, tmp_path)
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr
    for name in (*PARTIES, COORDINATOR_NAME):
        code, found, text = doctor(deployment.config_path(name))
        told += text
        assert code == 0, text
        checks = {check["name"]: check["found"] for check in found["checks"]}
        assert checks["proxies"] == f"members are called through the proxy {squid.address} as user {name}"
        others = {one: text for one, text in checks.items() if one.startswith("reach ")}
        assert len(others) == 3
        assert all(f"through the proxy {squid.address}" in text for text in others.values())
    deployment.send_signal("bank", signal.SIGTERM)
    deployment.processes["bank"].wait(GENEROUS_S)  # the tunnels end, and squid writes who had them
    deployment.start("bank")
    deployment.wait_until_ready("bank")
    at = deployment.addresses
    expected = {("bank", at[COORDINATOR_NAME]), ("bank", at["telco"]), (COORDINATOR_NAME, at["bank"])}
    expected |= {("hospital", at["bank"]), (ANALYST_NAME, at[COORDINATOR_NAME])}
    end_s = time.monotonic() + GENEROUS_S
    while missing := expected - {(user, address) for user, address, status in squid.asked() if status == 200}:
        assert time.monotonic() < end_s, missing
        time.sleep(0.1)
    told += all_text(deployment)
    for name, word in PASSWORDS.items():
        assert word not in told
        assert base64.b64encode(f"{name}:{word}".encode()).decode() not in told


def test_the_matrix_of_the_federation_shows_the_proxy_of_every_pair(deployment, squid):
    code, found, text = doctor(deployment.config_path(COORDINATOR_NAME), "--federation")
    assert code == 0, text
    pairs = [one for row in found["members"] for one in row["reaches"]]
    assert len(pairs) == 12
    assert all(f"through the proxy {squid.address}" in one["found"] for one in pairs)


def ask_devices(deployment, tmp_path):
    question = tmp_path / "question.toml"
    question.write_text(
        toml({"analysis": "secure-sum", "record": "steps", "length": 1, "largest": 100, "stage_s": GENEROUS_S})
    )
    done = moiety("ask", question, "--client", deployment.client_config, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["sum_in_units"]


def test_devices_answer_through_their_proxy(deployment, tmp_path):
    assert ask_devices(deployment, tmp_path) == [6]


def test_a_password_is_read_again_at_sighup_and_a_wrong_one_ends_a_job_before_anybody_pays(deployment, tmp_path):
    path, paid = deployment.folder / "bank.password", jobs_paid(deployment, PARTIES)
    path.write_text("another\n")
    deployment.hang_up("bank")
    try:
        done = run_job(deployment, tmp_path)
        assert done.returncode != 0
        assert "our proxy demands a user and a password, and does not accept ours" in done.stdout
        assert "proxy-refuses-us" in done.stdout
        code, found, text = doctor(deployment.config_path("bank"))
        assert code == 1
        failed = [check for check in found["checks"] if check["outcome"] == "failed"]
        assert [check["name"][:6] for check in failed] == ["reach "] * 3
        assert all("it does not accept user bank" in check["found"] for check in failed)
        assert "another" not in text.replace("another scheme", "")
    finally:
        path.write_text(PASSWORDS["bank"])
        deployment.hang_up("bank")
    assert jobs_paid(deployment, PARTIES) == paid
    done = run_job(deployment, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_proxy_that_is_gone_is_named_as_what_failed_and_all_goes_on_when_it_is_back(deployment, squid, tmp_path):
    squid.stop()
    try:
        done = run_job(deployment, tmp_path)
        assert done.returncode != 0
        assert "our proxy cannot be reached" in done.stderr
        _, found, text = doctor(deployment.config_path("telco"))
        failed = [check for check in found["checks"] if check["outcome"] == "failed"]
        assert len(failed) == 3, text
        assert all(f"our proxy cannot be reached ({squid.address}" in check["found"] for check in failed)
        own = moiety("coordinator", "questions", "--config", deployment.config_path(COORDINATOR_NAME))
        assert own.returncode == 0, own.stderr  # of this very machine no proxy is asked
    finally:
        squid.start()
    done = run_job(deployment, tmp_path)
    assert done.returncode == 0, done.stderr
    assert ask_devices(deployment, tmp_path) == [6]


def test_a_member_that_is_gone_is_told_from_a_proxy_that_is(deployment, tmp_path):
    deployment.send_signal("telco", signal.SIGKILL)
    deployment.processes["telco"].wait(GENEROUS_S)
    try:
        done = run_job(deployment, tmp_path)
        assert done.returncode != 0
        assert "our proxy does not reach it" in done.stdout
        _, found, _ = doctor(deployment.config_path("bank"))
        failed = {check["name"]: check["found"] for check in found["checks"] if check["outcome"] == "failed"}
        assert list(failed) == ["reach telco"]
        assert "our proxy does not reach it" in failed["reach telco"]
    finally:
        deployment.start("telco")
        deployment.wait_until_ready("telco")
