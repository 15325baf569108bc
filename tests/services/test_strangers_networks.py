"""Networks of strangers: ways, proxies, clocks. What cannot run ends before anybody pays, and doctor says it."""

import asyncio
import contextlib
import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import uuid

import pytest
from deadlines import GENEROUS_S
from doctor_peers import write_pair
from federation import Analyst, jobs_paid, pca_job, random_values, result_of, tables_of
from forked_services import ForkedDeployment
from relays import Relay
from typer.testing import CliRunner

from analyses.job.job import PrivacyTarget
from analyst.client import Client
from cli.main import app
from demo.local_deployment import COORDINATOR_NAME
from demo.ports import free_row_of_ports
from service.authorization import Permissions
from service.errors import ServiceError
from service.identity import Role
from service.pki import CLOCK_SKEW, create_authority, issue
from service.reach import proxy as proxies
from service.server import Server
from service.tls import load_credentials
from service.trust.protocol import PROTOCOL
from transport.calls.channel import open_channel
from transport.calls.way import wait_until_reachable

PARTIES = ("bank", "hospital", "telco")
ASKED_FROM = 100.0
"""Epsilon from which on the owner of telco is asked."""

VALUES = {name: random_values((60, 2), seed) for seed, name in enumerate(PARTIES)}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = tables_of(VALUES, folder)
    (folder / "run").mkdir()
    policy = {"telco": {"policy.automatic": {"max_epsilon_per_job": ASKED_FROM, "analysts": ["analyst"]}}}
    with ForkedDeployment(folder / "run", tables, policy=policy) as running:
        yield running


@pytest.fixture(scope="module")
def analyst(deployment):
    return Analyst(deployment)


def mean_job(**changes):
    return pca_job(PARTIES, analysis="secure-mean", parameters={}, **changes)


JOBS = {"pca": pca_job(PARTIES), "mean": mean_job()}


@contextlib.contextmanager
def configured(deployment, name, **addresses):
    """Let a party know other members at other addresses, until the end."""
    path = deployment.config_path(name)
    before = text = path.read_text()
    for member, address in addresses.items():
        assert text.count(f'"{deployment.addresses[member]}"') == 1
        text = text.replace(deployment.addresses[member], address)
    path.write_text(text)
    try:
        restart(deployment, name)
        yield path
    finally:
        path.write_text(before)
        restart(deployment, name)


def restart(deployment, name):
    deployment.send_signal(name, signal.SIGKILL)
    deployment.start(name)
    deployment.wait_until_ready(name)


@pytest.fixture(autouse=True)
def no_proxy_of_other_tests(monkeypatch):
    """Tests before these may have dialled by a proxy, which a process remembers."""
    monkeypatch.setattr(proxies, "_PLACES", set())


@pytest.fixture
def nobody():
    """An address where nothing listens."""
    return f"127.0.0.1:{free_row_of_ports(1)}"


@pytest.fixture
def silent():
    """An address that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def elsewhere(deployment):
    """An address of which a member's own service knows nothing: it leads to another member."""
    address = f"127.0.0.1:{free_row_of_ports(1)}"
    relay = Relay(address, deployment.addresses["hospital"])
    yield address
    relay.close()


def doctor(path, timeout_s=GENEROUS_S):
    """Return the exit code of doctor, and what it says of each check."""
    arguments = ["doctor", "--config", str(path), "--format", "json", "--timeout", str(timeout_s)]
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def check_unpaid(deployment, view, paid, words):
    """Check that a job has failed with these words, and that nobody's ledger has charged more jobs than before."""
    assert view.state == "FAILED"
    for word in words:
        assert word in view.reason
    assert jobs_paid(deployment, PARTIES) == paid


@pytest.fixture
def relay(deployment):
    """An address that leads to the coordinator."""
    made = Relay(f"127.0.0.1:{free_row_of_ports(1)}", deployment.addresses[COORDINATOR_NAME])
    yield made
    made.close()


WAYS = {
    "coordinator, nothing listens": ("bank", COORDINATOR_NAME, "{nobody}", "nothing listens"),
    "coordinator, silence": ("hospital", COORDINATOR_NAME, "{silent}", ""),
    "coordinator, no such name": ("telco", COORDINATOR_NAME, "nowhere.invalid:7100", "name cannot be resolved"),
    "coordinator, another member's address": ("bank", COORDINATOR_NAME, "{elsewhere}", "somebody else"),
    "a peer, nothing listens": ("hospital", "telco", "{nobody}", "nothing listens"),
    "a peer, silence": ("bank", "telco", "{silent}", ""),
    "a peer, another member's address": ("telco", "bank", "{elsewhere}", "somebody else"),
    "a peer, no such name": ("bank", "hospital", "nowhere.invalid:7100", "name cannot be resolved"),
}


QUICK = ("coordinator, nothing listens", "a peer, nothing listens")


@pytest.mark.parametrize("way", [way if way in QUICK else pytest.param(way, marks=pytest.mark.slow) for way in WAYS])
def test_a_way_that_fails_ends_a_job_unpaid_and_is_named(deployment, analyst, nobody, silent, elsewhere, way):
    dialling, dialled, address, cause = WAYS[way]
    places = {"nobody": nobody, "silent": silent, "elsewhere": elsewhere}
    with configured(deployment, dialling, **{dialled: address.format_map(places)}) as path:
        paid = jobs_paid(deployment, PARTIES)
        view = analyst.run(JOBS["mean" if dialled == COORDINATOR_NAME else "pca"])
        check_unpaid(deployment, view, paid, (f"party {dialling} refused: {dialling}: cannot reach {dialled} ", cause))
        code, checks = doctor(path, 2)  # which it waits for where nobody answers
        assert (code, checks[f"reach {dialled}"]["outcome"]) == (1, "failed")
    result_of(analyst.run(JOBS["mean"]))


BREAKS = {"cut": Relay.close, "hushed": Relay.hush}


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("cut", "mean"),
        pytest.param("hushed", "mean", marks=pytest.mark.slow),
        pytest.param("hushed", "pca", marks=pytest.mark.slow),
    ],
)
def test_a_way_that_is_lost_while_an_owner_decides_costs_nobody(deployment, analyst, relay, how, kind):
    job = JOBS[kind].model_copy(update={"target": PrivacyTarget(epsilon=2 * ASKED_FROM, delta=1e-6)})
    with configured(deployment, "bank", **{COORDINATOR_NAME: relay.address}):
        paid = jobs_paid(deployment, PARTIES)
        job_id = analyst.submit(job)
        wait_until_asked(deployment, job_id)
        BREAKS[how](relay)
        assert moiety(deployment, "telco", "party", "approve", job_id, "--yes").exit_code == 0
        check_unpaid(deployment, analyst.wait(job_id), paid, (f"bank: cannot reach {COORDINATOR_NAME} ",))
    result_of(analyst.run(JOBS["mean"]))


@pytest.mark.parametrize("how", ["cut", pytest.param("hushed", marks=pytest.mark.slow)])
def test_a_way_that_is_lost_between_two_jobs_costs_nobody(deployment, analyst, relay, how):
    with configured(deployment, "hospital", **{COORDINATOR_NAME: relay.address}):
        result_of(analyst.run(JOBS["mean"]))
        paid = jobs_paid(deployment, PARTIES)
        BREAKS[how](relay)
        view = analyst.run(JOBS["mean"])
        check_unpaid(deployment, view, paid, (f"hospital: cannot reach {COORDINATOR_NAME} ",))
    result_of(analyst.run(JOBS["mean"]))


def test_the_first_job_after_an_address_has_changed_succeeds(deployment, analyst, relay):
    """The address of bank leads to a new process at another place: what was connected is cut off."""
    relay.lead_to(deployment.addresses["bank"])
    moved = f"127.0.0.1:{free_row_of_ports(1)}"
    with contextlib.ExitStack() as stack:
        for name in ("hospital", "telco", COORDINATOR_NAME):
            stack.enter_context(configured(deployment, name, bank=relay.address))
        result_of(analyst.run(JOBS["pca"]))
        path, before = deployment.config_path("bank"), deployment.config_path("bank").read_text()
        stack.callback(restart, deployment, "bank")
        stack.callback(path.write_text, before)
        path.write_text(before.replace(deployment.addresses["bank"], moved))
        deployment.send_signal("bank", signal.SIGKILL)
        deployment.start("bank")
        deployment.wait_until_logged("bank", moved)
        relay.lead_to(moved)
        result_of(analyst.run(JOBS["pca"]))


def moiety(deployment, party, *arguments):
    """Run a command of the owner; in this process, but on the files of the running service."""
    return CliRunner().invoke(app, [*arguments, "--config", str(deployment.config_path(party))])


def wait_until_asked(deployment, job_id):
    deadline = time.monotonic() + GENEROUS_S
    while job_id not in moiety(deployment, "telco", "party", "jobs").stdout:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@contextlib.contextmanager
def speaking(deployment, name, protocol):
    """Let a service speak another protocol, until the end; 0: be of a version from before there were numbers."""
    role = "coordinator" if name == COORDINATOR_NAME else "party"
    deployment.send_signal(name, signal.SIGKILL)
    arguments = [str(protocol), role, "serve", "--config", str(deployment.config_path(name))]
    deployment.launch(name, "other_protocol", *arguments)
    deployment.wait_until_ready(name)
    try:
        yield
    finally:
        restart(deployment, name)


@pytest.mark.parametrize(
    ("name", "protocol", "kind"),
    [("bank", 0, "pca"), ("telco", 7, "mean"), pytest.param("bank", 7, "pca", marks=pytest.mark.slow)],
)
def test_a_party_of_another_protocol_is_named_before_anything_is_reserved(deployment, analyst, name, protocol, kind):
    with speaking(deployment, name, protocol):
        paid = jobs_paid(deployment, PARTIES)
        view = analyst.run(JOBS[kind])
        check_unpaid(deployment, view, paid, (name, "another protocol", "install the same version at both"))
        assert (view.stage, view.code) == ("proposal", "protocol-differs")
        for other in {*PARTIES, COORDINATOR_NAME} - {name}:
            code, checks = doctor(deployment.config_path(other))
            assert code == 1
            assert "speaks another protocol" in checks[f"reach {name}"]["found"]
    result_of(analyst.run(JOBS[kind]))


@pytest.mark.parametrize("protocol", [0, 7])
def test_a_coordinator_of_another_protocol_is_named_to_analysts_and_gets_no_job(deployment, analyst, protocol):
    with speaking(deployment, COORDINATOR_NAME, protocol):
        listed = CliRunner().invoke(app, ["job", "list", "--client", str(deployment.client_config)])
        assert listed.exit_code == 1
        assert "speaks another protocol" in listed.stderr
        paid = jobs_paid(deployment, PARTIES)
        if protocol == 0:  # the analyst has the version of the coordinator, and the parties have not
            view = asyncio.run(as_before(analyst, JOBS["mean"]))
            check_unpaid(deployment, view, paid, ("runs Moiety", "an earlier protocol"))
    result_of(analyst.run(JOBS["mean"]))


async def as_before(analyst, job):
    """Run a job by a client of a version without a number."""

    async def use(client):
        job_id = await client.submit(job.canonical_json(), uuid.uuid4().hex)
        async for _ in client.watch(job_id):
            pass
        return await client.show(job_id)

    return await analyst._with_client(use)


def test_doctor_shows_the_protocol_of_every_member(deployment):
    path = deployment.config_path(COORDINATOR_NAME)
    done = CliRunner().invoke(app, ["doctor", "--federation", "--config", str(path), "--format", "json"])
    protocols = {row["name"]: row["protocol"] for row in json.loads(done.stdout)["members"]}
    assert protocols == dict.fromkeys((*PARTIES, COORDINATOR_NAME), PROTOCOL)


@pytest.fixture
def dated(tmp_path):
    """Issue credentials of members of one authority whose certificates begin some days from now."""
    now = datetime.datetime.now(datetime.UTC)
    authority = create_authority("acme", days=1000, now=now - datetime.timedelta(days=500))

    def issued(name, begins, days):
        begin = now + datetime.timedelta(days=begins)
        pair = issue(authority, Role.PARTY, name, days=days, now=begin)
        write_pair(pair, tmp_path / f"{name}.pem", tmp_path / f"{name}.key")
        (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
        files = {
            "authority": tmp_path / "ca.pem",
            "certificate": tmp_path / f"{name}.pem",
            "key": tmp_path / f"{name}.key",
        }
        return load_credentials(**files, now=lambda: begin + datetime.timedelta(hours=1))

    return issued


async def refusal(server_credentials, credentials, code):
    """Return why a member does not reach another one: tried until it is for this reason, not for a slow machine."""
    server = Server(server_credentials, Permissions("acme", {}), [])
    port = await server.start("127.0.0.1:0")
    try:
        async with open_channel(f"127.0.0.1:{port}", server_credentials.identity, credentials) as channel:
            async with asyncio.timeout(GENEROUS_S):
                while True:
                    with pytest.raises(ServiceError) as caught:
                        await wait_until_reachable(channel, peer="bank", address="there", deadline_s=1.0)
                    if caught.value.code == code:
                        return caught.value
    finally:
        await server.stop(0)


CLOCKS = {"2 h": 2 / 24, "10 min": 1 / 144, "2 days": 2, "1 year": 365, "400 days": 400}


@pytest.mark.parametrize("ahead", CLOCKS)
async def test_a_certificate_that_is_not_yet_valid_is_called_that_with_both_clocks(dated, ahead):
    theirs = dated("bank", CLOCKS[ahead] + CLOCK_SKEW / datetime.timedelta(days=1), 30)
    found = await refusal(theirs, dated("shop", -1, 30), "certificate-not-yet-valid")
    begins = theirs.not_valid_after - datetime.timedelta(days=30)
    assert f"not yet valid: it is valid only from {begins - CLOCK_SKEW:%Y-%m-%d %H:%M} UTC" in str(found)
    assert f"is the clock of this machine right? It says {datetime.datetime.now(datetime.UTC):%Y-%m-%d}" in str(found)


@pytest.mark.parametrize("ago", [1, 400])
async def test_the_clock_is_suspected_before_a_certificate_that_has_expired(dated, ago):
    found = await refusal(dated("bank", -10 - ago, 10), dated("shop", -1, 30), "certificate-expired")
    assert "is the clock of this machine right? It says " in str(found)


@pytest.mark.parametrize(
    ("begins", "words"), [(2, "perhaps it is not yet valid by the clock there"), (-20, "does not accept our")]
)
async def test_who_is_refused_with_a_new_certificate_is_told_of_the_clock_there(dated, begins, words):
    found = await refusal(dated("bank", -1, 30), dated("shop", begins, 15), "connection-closed")
    assert words in str(found)
    assert ("clock" in str(found)) == (begins > 0)


PROXIES = (
    "https_proxy",
    "http_proxy",
    "grpc_proxy",
    "all_proxy",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "ALL_PROXY",
    "GRPC_PROXY",
)


@pytest.fixture
def proxy():
    """A proxy that counts who asks it for a connection, and makes none."""
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    caller, _ = listener.accept()
                    asked.append(caller.recv(1000))
                    caller.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                    caller.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize("variable", PROXIES)
async def test_members_are_dialled_directly_whatever_proxy_the_environment_names(dated, proxy, monkeypatch, variable):
    """Also a name: of an address of loopback a library may decide otherwise."""
    address, asked = proxy
    monkeypatch.setenv(variable, address)
    credentials = dated("bank", -1, 30)
    server = Server(credentials, Permissions("acme", {}), [])
    port = await server.start("127.0.0.1:0")
    async with open_channel(f"localhost:{port}", credentials.identity, dated("shop", -1, 30)) as channel:
        await wait_until_reachable(channel, peer="bank", address="there", deadline_s=GENEROUS_S)
    await server.stop(0)
    assert asked == []


def test_services_analysts_and_doctor_agree_on_proxies(deployment, analyst, proxy, monkeypatch):
    address, asked = proxy
    for variable in PROXIES:
        monkeypatch.setenv(variable, address)
    for name in deployment.processes:
        restart(deployment, name)
    result_of(analyst.run(JOBS["mean"]))
    for name in (*PARTIES, COORDINATOR_NAME, "client"):
        code, checks = doctor(deployment.config_path(name))
        assert code == 0, checks
        assert checks["proxies"]["found"] == "members are called directly: the proxy of https_proxy is not used"
    assert asked == []
    monkeypatch.undo()
    for name in deployment.processes:
        restart(deployment, name)


def test_who_is_not_reached_is_told_that_the_proxy_was_not_used(deployment, proxy, nobody, monkeypatch, tmp_path):
    monkeypatch.setenv("https_proxy", proxy[0])
    path = tmp_path / "client.toml"
    path.write_text(deployment.client_config.read_text().replace(deployment.addresses[COORDINATOR_NAME], nobody))
    for file in deployment.folder.glob("*.pem"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "analyst.key").touch(mode=0o600)
    (tmp_path / "analyst.key").write_bytes((deployment.folder / "analyst.key").read_bytes())
    direct = "members are called directly: the proxy of https_proxy is not used"
    code, checks = doctor(path)
    assert code == 1
    assert direct in checks[f"reach {COORDINATOR_NAME}"]["found"]
    listed = CliRunner().invoke(app, ["job", "list", "--client", str(path)])
    assert listed.exit_code == 3
    assert direct in listed.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_title_of_one_analyst_takes_the_list_of_jobs_from_nobody(deployment, analyst, encoding):
    view = analyst.run(mean_job(title="Größe 😀"))
    result_of(view)
    command = [sys.executable, "-m", "cli.entry", "job", "list", "--client", str(deployment.client_config)]
    done = subprocess.run(
        command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding}, timeout=GENEROUS_S, check=True
    )
    assert view.job_id in done.stdout.decode(encoding)
    assert ("Größe" if encoding == "cp1252" else "Gr\\u00f6\\u00dfe") in done.stdout.decode(encoding)


def test_an_error_of_the_python_client_has_one_traceback_and_none_of_the_libraries_below(deployment, nobody, tmp_path):
    path = tmp_path / "client.toml"
    text = deployment.client_config.read_text().replace(deployment.addresses[COORDINATOR_NAME], nobody)
    for name in ("ca.pem", "analyst.pem", "analyst.key"):
        text = text.replace(f'"{name}"', json.dumps(str(deployment.folder / name)))
    path.write_text(text)
    asks = (lambda client: client.jobs(), lambda client: client.tables(), lambda client: client.job("job-1").result())
    for ask in asks:
        with Client(path) as client, pytest.raises(ServiceError) as caught:
            ask(client)
        told = "".join(traceback.format_exception(caught.value))
        assert "nothing listens at its address" in told
        for foreign in ("grpc", "During handling", "direct cause", "AioRpcError", "Tls", "ipv4:"):
            assert foreign not in told
