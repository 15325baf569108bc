"""A federation whose parties' hosts drop every connection that others open to them, as a firewall does."""

import json
import subprocess
import time

import pytest
from deadlines import GENEROUS_S
from hosts import Hosts, are_allowed
from typer.testing import CliRunner

from cli.main import app

PARTIES = ("bank", "clinic", "shop")
NAMES = (*PARTIES, "coordinator")
NETWORKS = {"IPv4": "10.0.0.{}", "IPv6": "fd00::{}"}
FIREWALL = """
add table inet firewall
add chain inet firewall input { type filter hook input priority 0 ; policy drop ; }
add rule inet firewall input iif lo accept
add rule inet firewall input ct state established,related accept
add rule inet firewall input meta l4proto icmpv6 accept
"""


@pytest.fixture(params=["IPv4", pytest.param("IPv6", marks=pytest.mark.slow)])
def federation(tmp_path, request):
    acme = tmp_path / "acme"
    addresses = {name: NETWORKS[request.param].format(number) for number, name in enumerate(NAMES, start=1)}
    hub = shown(addresses["coordinator"])
    given = ["--parties", ",".join(PARTIES), "--dial-out", ",".join(PARTIES), "--hosts", f"coordinator={hub}"]
    made = CliRunner().invoke(app, ["new", "acme", *given, "--out", str(acme)])
    assert made.exit_code == 0, made.output
    for role, name in (*(("party", name) for name in PARTIES), ("coordinator",) * 2, ("analyst",) * 2):
        issued = ["pki", "issue", "--ca", str(acme / "authority"), "--out", str(acme / name / "pki")]
        assert CliRunner().invoke(app, [*issued, "--member", f"{role}/{name}"]).exit_code == 0
    if not are_allowed():
        pytest.skip("this kernel gives no network namespaces to its users")
    with Hosts(addresses) as hosts:
        for name in PARTIES:
            subprocess.run([*hosts.on(name), "nft", "-f", "-"], input=FIREWALL, text=True, check=True)
        for name in NAMES:
            role = "coordinator" if name == "coordinator" else "party"
            hosts.start(name, acme / name, [role, "serve", "--config", f"{role}.toml"], tmp_path / f"{name}.log")
        yield hosts, acme


def shown(host):
    return f"[{host}]" if ":" in host else host


def reached(hosts, acme):
    told = hosts.run("coordinator", acme / "coordinator", [
        "doctor", "--federation", "--config", "coordinator.toml", "--timeout", "60", "--format", "json",
    ])  # fmt: skip
    rows = json.loads(told.stdout)["members"] if told.stdout else []
    return {
        (row["name"], one["name"]): one["found"] for row in rows for one in row["reaches"] if one["outcome"] == "ok"
    }


@pytest.mark.slow  # hosts of their own; services on one host are quick (`test_relayed_federation.py`)
def test_no_party_accepts_a_connection_and_the_first_question_is_answered(federation):
    hosts, acme = federation
    end_s = time.monotonic() + GENEROUS_S
    while len(found := reached(hosts, acme)) < 12:
        assert time.monotonic() < end_s, found
    for (asker, asked), text in found.items():
        by = "by relay coordinator at " if asked in PARTIES else f"at {shown(hosts.addresses['coordinator'][0])}:7100"
        assert by in text, (asker, asked, text)
    port = "7101"
    refused = f"import socket; socket.create_connection(('{hosts.addresses['bank'][0]}', {port}), 2)"
    done = subprocess.run([*hosts.on("coordinator"), "python3", "-c", refused], capture_output=True, check=False)
    assert done.returncode, "the packet filter lets connections in"
    answer = hosts.run("coordinator", acme / "analyst", ["job", "submit", "pca.toml", "--client", "client.toml"])
    assert answer.returncode == 0, answer.stderr
    assert "pca, DONE" in answer.stdout
