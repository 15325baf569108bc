import re
import shutil
import stat
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from analyses.job.job import Job
from analyses.registry import analysis_of
from analyst.connection import ClientConfig
from cli.federation.member_files import COLUMNS, N_ROWS
from cli.federation.new import layout_of
from cli.main import app
from coordinator.config import CoordinatorConfig
from demo.ports import free_ports
from party.config import load_party_config
from tests.support.dask_clusters import START_S, cluster_files

EXAMPLES = Path(__file__).parents[4] / "examples"
PARTIES = ("bank", "clinic", "shop")
HOSTS = "bank=10.0.0.1,clinic=clinic.example.org:7777,shop=[::1],coordinator=10.0.0.4"


def new(*arguments, ok=True):
    result = CliRunner().invoke(app, ["new", *map(str, arguments)])
    assert (result.exit_code == 0) == ok, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def trial(tmp_path):
    new("acme", "--parties", "bank,clinic,shop", "--out", tmp_path / "acme")
    return tmp_path / "acme"


def test_every_configuration_can_be_read_and_all_know_the_same_members(trial):
    configs = {name: load_party_config(trial / name / "party.toml", environ={}) for name in PARTIES}
    listen = {name: config.listen for name, config in configs.items()}
    coordinator = CoordinatorConfig.load(trial / "coordinator" / "coordinator.toml")
    assert coordinator.roster == listen
    for name, config in configs.items():
        assert config.peers == {peer: address for peer, address in listen.items() if peer != name}
        assert config.coordinator.address == (coordinator.listen,)
    assert ClientConfig.load(trial / "analyst" / "client.toml").coordinator.address == (coordinator.listen,)


def test_the_pages_that_are_commented_out_can_be_read(trial):
    def page_of(path, load):
        text = path.read_text()
        assert load().page is None
        path.write_text(re.sub(r"^# (\[page\]|listen = .*|token_file = .*)$", r"\1", text, flags=re.MULTILINE))
        return load().page

    party = trial / "bank" / "party.toml"
    page = page_of(party, lambda: load_party_config(party, environ={}))
    assert (page.listen, page.token_file) == ("127.0.0.1:7180", trial / "bank" / "page.token")
    coordinator = trial / "coordinator" / "coordinator.toml"
    assert page_of(coordinator, lambda: CoordinatorConfig.load(coordinator)).is_on_loopback


def test_the_jobs_are_valid_and_name_the_tables_that_there_are(trial):
    for file in ("mean.toml", "pca.toml"):
        job = Job.from_toml((trial / "analyst" / file).read_text())
        analysis_of(job).check_parameters(job)
        assert [(one.party, one.table) for one in job.inputs] == [(name, "people") for name in PARTIES]


def test_invented_tables_differ_and_keep_their_declarations(trial):
    texts = [(trial / name / "people.csv").read_text() for name in PARTIES]
    assert len(set(texts)) == len(PARTIES)
    rows = [line.split(",") for line in texts[0].splitlines()]
    assert rows[0] == ["id", *COLUMNS]
    assert len(rows) == N_ROWS + 1
    for row in rows[1:]:
        assert all(low <= float(x) <= high for x, (low, high) in zip(row[1:], COLUMNS.values(), strict=True))


def test_on_one_machine_keys_lie_with_their_members_alone(trial):
    keys = sorted(path.relative_to(trial).as_posix() for path in trial.rglob("*.key"))
    assert keys == [
        "analyst/pki/analyst.key",
        "authority/ca.key",
        *(f"{name}/pki/{name}.key" for name in ("bank", "clinic", "coordinator", "shop")),
    ]
    assert {stat.S_IMODE((trial / key).stat().st_mode) for key in keys} == {0o600}


def test_on_several_machines_no_key_is_made_but_the_authoritys(tmp_path):
    shown = new("acme", "--parties", "bank,clinic,shop", "--hosts", HOSTS, "--out", tmp_path / "acme").stdout
    assert [path.name for path in (tmp_path / "acme").rglob("*.key")] == ["ca.key"]
    for who in ("party/bank", "coordinator/coordinator", "analyst/analyst"):
        assert f"moiety pki request --federation acme --member {who} --out pki" in shown
    bank = load_party_config(tmp_path / "acme" / "bank" / "party.toml", environ={})
    assert bank.listen == "0.0.0.0:7101"
    assert bank.peers == {"clinic": "clinic.example.org:7777", "shop": "[::1]:7103"}
    assert bank.coordinator.address == ("10.0.0.4:7100",)
    clinic = load_party_config(tmp_path / "acme" / "clinic" / "party.toml", environ={})
    assert clinic.listen == "0.0.0.0:7777"
    assert load_party_config(tmp_path / "acme" / "shop" / "party.toml", environ={}).listen == "[::]:7103"


@pytest.mark.parametrize("name", [*PARTIES, "coordinator"])
def test_the_files_that_run_a_service_name_its_own_files(trial, name):
    role = "coordinator" if name == "coordinator" else "party"
    port = (load_party_config if role == "party" else CoordinatorConfig.load)(
        trial / name / f"{role}.toml"
    ).listen.rpartition(":")[2]
    unit = (trial / name / f"moiety-{name}.service").read_text()
    assert f"ExecStart=/opt/moiety/bin/moiety {role} serve --config /etc/moiety/{name}/{role}.toml" in unit
    compose = (trial / name / "compose.yml").read_text()
    assert f'command: ["{role}", "serve", "--config", "/etc/moiety/{role}.toml"]' in compose
    assert f'- "{port}:{port}"' in compose
    manifest = (trial / name / "kubernetes.yaml").read_text()
    assert f'args: ["{role}", "serve", "--config", "/etc/moiety/{role}.toml"]' in manifest
    assert "ExecReload=/bin/kill -HUP $MAINPID\n" in unit  # of systemd, not of the template
    assert "$" not in manifest + unit.replace("$MAINPID", "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_units(trial, tmp_path):
    unit = (trial / "bank" / "moiety-bank.service").read_text()
    path = tmp_path / "moiety-bank.service"
    for text, code in ((unit, 0), (unit.replace("ExecReload=/bin/kill", "ExecReload=kill-it"), 1)):
        path.write_text(text.replace("/opt/moiety/bin/moiety", sys.executable))
        done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr


def documents_of(path):
    return list(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("name", [*PARTIES, "coordinator"])
@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_kubernetes_knows_every_field_of_the_manifest(trial, name, version):
    documents = documents_of(trial / name / "kubernetes.yaml")
    kinds = ["Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"]
    assert [document["kind"] for document in documents] == kinds
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(document | {"speck": {}}, version, strict=True)


@pytest.mark.parametrize("name", [*PARTIES, "coordinator"])
def test_the_parts_of_the_manifest_fit_each_other_and_the_folder(trial, name):
    service, stateful, budget, network = (
        document["spec"] for document in documents_of(trial / name / "kubernetes.yaml")
    )
    pod = stateful["template"]
    labels = pod["metadata"]["labels"]
    assert service["selector"] == labels
    assert {str(one["matchLabels"]) for one in (stateful["selector"], budget["selector"], network["podSelector"])} == {
        str(labels)
    }
    container = pod["spec"]["containers"][0]
    port = container["ports"][0]["containerPort"]
    assert service["ports"] == [{"port": port}]
    assert [one["port"] for one in network["ingress"][0]["ports"]] == [port]
    assert {container[probe]["tcpSocket"]["port"] for probe in ("startupProbe", "livenessProbe")} == {port}
    listen = {one: load_party_config(trial / one / "party.toml", environ={}).listen for one in PARTIES}
    listen["coordinator"] = CoordinatorConfig.load(trial / "coordinator" / "coordinator.toml").listen
    others = {int(address.rpartition(":")[2]) for one, address in listen.items() if one != name}
    assert {one["port"] for one in network["egress"][1]["ports"]} == others
    made = {
        one["name"]: one["files"] for one in documents_of(trial / name / "kustomization.yaml")[0]["secretGenerator"]
    }
    wanted = {one["secret"]["secretName"] for one in pod["spec"]["volumes"] if "secret" in one}
    assert set(made) == wanted
    for files in made.values():
        assert [file for file in files if not (trial / name / file).is_file()] == []
    volumes = {one["name"] for one in pod["spec"]["volumes"]} | {"data"}
    for one in (container, *pod["spec"]["initContainers"]):
        assert {mount["name"] for mount in one["volumeMounts"]} <= volumes
        assert one["image"].partition(":")[0] == "moiety"


@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_kubernetes_knows_every_field_of_the_workers_in_a_dask_cluster(trial, version):
    documents = documents_of(trial / "bank" / "dask" / "dask.yaml")
    kinds = ["PersistentVolumeClaim", "Service", *["StatefulSet"] * 2, *["NetworkPolicy"] * 2]
    assert [document["kind"] for document in documents] == kinds
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)
    assert not (trial / "coordinator" / "dask").exists()


def patched_party(folder):
    """Return the pod of a party with the component's patch, as strategic merges do it: lists by name."""
    pod = documents_of(folder / "kubernetes.yaml")[1]["spec"]["template"]["spec"]
    patch = documents_of(folder / "dask" / "party.yaml")[0]["spec"]["template"]["spec"]
    container, more = pod["containers"][0], patch["containers"][0]
    assert container["name"] == more["name"]
    assert {one["name"] for one in container["env"]}.isdisjoint(one["name"] for one in more["env"])
    for part in ("env", "volumeMounts"):
        container[part] += more[part]
    container["image"] = more["image"]
    pod["initContainers"] += patch["initContainers"]
    pod["volumes"] += patch["volumes"]
    return pod


@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_a_party_with_workers_is_a_manifest_whose_parts_fit_each_other_and_the_folder(trial, version, monkeypatch):
    folder = trial / "bank"
    pod = patched_party(folder)
    stateful = documents_of(folder / "kubernetes.yaml")[1]
    stateful["spec"]["template"]["spec"] = pod
    kubernetes_validate.validate(stateful, version, strict=True)
    claim, service, scheduler, worker, *policies = documents_of(folder / "dask" / "dask.yaml")
    component = documents_of(folder / "dask" / "kustomization.yaml")[0]
    assert component["kind"] == "Component"
    assert [*component["resources"], *(one["path"] for one in component["patches"])] == ["dask.yaml", "party.yaml"]
    made = {one["name"]: one["files"] for one in component["secretGenerator"]}
    pods = [pod, *(one["spec"]["template"]["spec"] for one in (scheduler, worker))]
    for one in pods:
        volumes = {volume["name"] for volume in one["volumes"]} | {"data"}
        for container in (*one["containers"], *one.get("initContainers", ())):
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        secrets = {volume["secret"]["secretName"] for volume in one["volumes"] if "secret" in volume}
        assert secrets <= {*made, "bank-pki", "bank-config"}
        claims = [volume["persistentVolumeClaim"] for volume in one["volumes"] if "persistentVolumeClaim" in volume]
        assert all(wanted == {"claimName": claim["metadata"]["name"], "readOnly": True} for wanted in claims)
    for container in (pods[1]["containers"][0], pods[2]["containers"][0]):
        given = {Path(word).name for word in container["command"] if word.startswith("/cluster/")}
        assert given == {Path(file).name for file in made["bank-cluster"]}
    assert service["spec"]["selector"] == scheduler["spec"]["template"]["metadata"]["labels"]
    assert {policy["metadata"]["name"] for policy in policies} == {"bank-scheduler", "bank-to-scheduler"}
    for one in pod["containers"][0]["env"]:
        monkeypatch.setenv(one["name"], one["value"])
    engine = load_party_config(folder / "party.toml").engine
    assert (engine.kind, engine.workers) == ("dask", worker["spec"]["replicas"])
    assert engine.scheduler == f"tls://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert engine.scheduler in pods[2]["containers"][0]["command"]
    ports = {one["containerPort"] for one in pods[2]["containers"][0]["ports"]}
    assert ports == {*range(engine.first_port, engine.first_port + engine.workers), 8788}
    assert {Path(path).name for path in (engine.tls.certificate, engine.tls.key, engine.tls.authority)} == {
        Path(file).name for file in made["bank-workers"]
    }


@pytest.mark.slow
def test_the_commands_of_scheduler_and_worker_run(trial, tmp_path):
    made = cluster_files(tmp_path, "bank")
    tls = {"ca.pem": made["authority"], "dask.pem": made["certificate"], "dask.key": made["key"]}
    _, _, scheduler, worker, *_ = documents_of(trial / "bank" / "dask" / "dask.yaml")
    commands = [one["spec"]["template"]["spec"]["containers"][0]["command"] for one in (scheduler, worker)]
    scheduler_port, worker_port = map(str, free_ports(2))
    here = {
        "python": sys.executable,
        "tls://0.0.0.0": "tls://127.0.0.1",
        "8786": scheduler_port,
        "8788": worker_port,
        "tls://bank-scheduler:8786": f"tls://127.0.0.1:{scheduler_port}",
        "/tmp": str(tmp_path),
        **{f"/cluster/{name}": path for name, path in tls.items()},
    }
    log = tmp_path / "log"
    with log.open("wb") as out:
        processes = [subprocess.Popen([here.get(w, w) for w in one], stdout=out, stderr=out) for one in commands]
    try:
        latest_s = time.monotonic() + START_S
        while "Register worker" not in log.read_text():
            assert time.monotonic() < latest_s, log.read_text()
            assert [process.poll() for process in processes] == [None, None], log.read_text()
            time.sleep(0.1)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_names_of_environment_variables_in_the_manifest_are_fields_of_the_configuration(trial, monkeypatch):
    for name, role in (("bank", "party"), ("coordinator", "coordinator")):
        text = (trial / name / "kubernetes.yaml").read_text()
        variables = dict(re.findall(r'name: (MOIETY_\w+), value: "([^"]*)"', text))
        assert len(variables) == 5
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        if role == "party":
            assert str(load_party_config(trial / name / "party.toml").data_dir) == "/data"
        else:
            assert str(CoordinatorConfig.load(trial / name / "coordinator.toml").store) == "/data/jobs.sqlite"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--parties", "bank,clinic"], "at least three parties, and these are 2"),
        (["--parties", "bank,clinic,bank"], "'bank' is named twice"),
        (["--parties", "bank,clinic,coordinator"], "'coordinator' is named twice, or is the coordinator's name"),
        (["--parties", "bank,clinic,analyst"], "a party cannot be called 'analyst'"),
        (["--parties", "bank,clinic,Shop"], "party name 'Shop'"),
        (
            ["--parties", "bank,clinic,shop", "--hosts", "bank=10.0.0.1"],
            "no host is given for coordinator, clinic, shop",
        ),
        (["--parties", "bank,clinic,shop", "--hosts", f"{HOSTS},pub=10.0.0.9"], "'pub' is neither a party nor"),
        (["--parties", "bank,clinic,shop", "--first-port", "65535"], "leaves no ports for 3 parties"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(tmp_path, arguments, words):
    refused = new("acme", *arguments, "--out", tmp_path / "acme", ok=False)
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert not (tmp_path / "acme").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            "bank=my_host",
            "--hosts: bank=my_host: a host name has letters of ASCII, digits, hyphens and dots, and no '_'",
        ),
        ("bank=http://h", "--hosts: bank=http://h: it has a scheme; write the host alone"),
        ("bank=https://h:7100", "it has a scheme"),
        ("bank=h:0", "--hosts: bank=h:0: a port is a number from 1 to 65535, not '0'"),
        ("bank=h:65536", "a port is a number from 1 to 65535, not '65536'"),
        ("bank=h:http", "a port is a number from 1 to 65535, not 'http'"),
        ("bank=h:", "a port is a number from 1 to 65535, not ''"),
        ("bank=", "no host is given for bank; write bank=HOST"),
        ("bank", "'bank' names no member"),
        ("bank=10.0.0.1,bank=10.0.0.9", "'bank' is named twice"),
        ("bank=::1", "an IPv6 host stands in brackets"),
        ("bank=[::g]", "'[::g]' is no IPv6 address"),
        ("bank=10.0.0.256", "'10.0.0.256' is no IPv4 address"),
        ("bank=10.0.1", "'10.0.1' is no IPv4 address"),
        ("bank=a b", "and no ' '"),
        ("bank=h/path", "and no '/'"),
        ("bank=größe.example", "and no 'ö'"),
        ("bank=-h", "with hyphens inside only"),
        ("bank=a..b", "with hyphens inside only"),
        (f"bank={64 * 'a'}.example", "at most 63 between two dots"),
        ("bank=0.0.0.0", "write where the others dial it"),
        ("bank=[::]:7100", "write where the others dial it"),
        ("bank=[0:0::0]", "write where the others dial it"),
        ("bank=224.0.0.1", "the address of many machines"),
        ("bank=[ff02::1]:7100", "the address of many machines"),
        ("bank=255.255.255.255", "the address of many machines"),
        ("bank=10.0.0.2:7102", "--hosts: 'bank' and 'clinic' have the same address 10.0.0.2:7102"),
    ],
)
def test_a_host_that_cannot_be_dialled_is_named_and_nothing_is_written(tmp_path, given, words):
    hosts = f"{given},clinic=10.0.0.2,shop=10.0.0.3,coordinator=10.0.0.4"
    refused = new("acme", "--parties", "bank,clinic,shop", "--hosts", hosts, "--out", tmp_path / "acme", ok=False)
    assert refused.exit_code == 2
    assert words in " ".join(refused.stderr.split())
    assert not (tmp_path / "acme").exists()


@pytest.mark.parametrize("host", ["h", "bank.example.org", "10.0.0.9", "[2001:db8::1]", "h:80", "[::1]:65535", "1and1"])
def test_hosts_that_can_be_dialled_are_taken(host):
    layout = layout_of("acme", "bank,clinic,shop", f"bank={host},clinic=c,shop=s,coordinator=k", 7100)
    assert layout.addresses["bank"] == (host if ":" in host.rpartition("]")[2] else f"{host}:7101")


def test_parties_that_only_dial_out_need_no_host_and_publish_no_port(tmp_path):
    hosts = "shop=10.0.0.3,coordinator=10.0.0.4"
    acme = tmp_path / "acme"
    new("acme", "--parties", "bank,clinic,shop", "--dial-out", "bank,clinic", "--hosts", hosts, "--out", acme)
    for name in ("bank", "clinic"):
        config = load_party_config(acme / name / "party.toml", environ={})
        assert config.reach == "dial-out"
        assert config.listen.startswith("127.0.0.1:")
        assert "ports" not in yaml.safe_load((acme / name / "compose.yml").read_text())["services"][name]
        policy = list(yaml.safe_load_all((acme / name / "kubernetes.yaml").read_text()))[-1]
        assert policy["spec"]["ingress"] == []
    assert load_party_config(acme / "shop" / "party.toml", environ={}).peers == {"bank": "relay", "clinic": "relay"}
    coordinator = CoordinatorConfig.load(acme / "coordinator" / "coordinator.toml")
    assert coordinator.relay.listen == "0.0.0.0:7104"
    assert {entry.name: entry.address for entry in coordinator.parties} == {
        "bank": "relay",
        "clinic": "relay",
        "shop": "10.0.0.3:7103",
    }
    published = yaml.safe_load((acme / "coordinator" / "compose.yml").read_text())["services"]["coordinator"]["ports"]
    assert published == ["7100:7100", "7104:7104"]


def test_dial_out_names_parties(tmp_path):
    refused = new("acme", "--parties", "a,b,c", "--dial-out", "d", "--out", tmp_path / "acme", ok=False)
    assert "--dial-out: 'd' is not among the parties" in " ".join(refused.stderr.split())


def test_what_fails_half_way_leaves_no_folder(tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError(28, "No space left on device", str(tmp_path))

    monkeypatch.setattr("cli.federation.new.begin_ledger", fail)
    refused = new("acme", "--parties", "bank,clinic,shop", "--out", tmp_path / "acme", ok=False)
    assert "No space left on device" in refused.stderr
    assert not (tmp_path / "acme").exists()


def test_an_existing_folder_is_left_as_it_is(trial):
    before = {path: path.read_bytes() for path in trial.rglob("*") if path.is_file()}
    assert "exists already; nothing was written" in new("acme", "--parties", "a,b,c", "--out", trial, ok=False).stderr
    assert {path: path.read_bytes() for path in trial.rglob("*") if path.is_file()} == before


def test_templates_and_examples_have_the_same_fields(trial):
    """A field that the examples no longer have would otherwise stay in new federations."""
    for made, example in (("bank/party.toml", "party.toml"), ("coordinator/coordinator.toml", "coordinator.toml")):
        written = tomllib.loads((trial / made).read_text())
        shown = tomllib.loads((EXAMPLES / example).read_text(encoding="utf-8"))
        assert set(written) <= set(shown)
        assert written["tls"].keys() == shown["tls"].keys()
