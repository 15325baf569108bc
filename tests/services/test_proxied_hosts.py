"""Hosts of networks that let nobody out but through squid: IPv4 with a proxy that is open, IPv6 with passwords."""

import json
import re
import time

import pytest
from commands import moiety
from deadlines import GENEROUS_S
from hosts import Hosts, are_allowed
from squid import Squid, a_password, needs_squid

from demo.loopback import toml

pytestmark = [needs_squid, pytest.mark.slow]

PARTIES = ("bank", "clinic", "shop")
SITES = ("coordinator", *PARTIES, "analyst")
FIRST_PORT = 7100
NETWORKS = {"ipv4": ("10.0.{}.1", "10.0.{}.2"), "ipv6": ("fd00:{}::1", "fd00:{}::2")}
"""Address of the proxy in the network of a site, and address of the site."""


def shown(host):
    return f"[{host}]" if ":" in host else host


@pytest.fixture(params=NETWORKS)
def sites(request, tmp_path):
    """A federation whose members are in networks of their own: its folder, its hosts and a proxy in all networks."""
    if not are_allowed():
        pytest.skip("this kernel gives no network namespaces to its users")
    of_proxy, of_site = NETWORKS[request.param]
    acme = tmp_path / "acme"
    done = moiety("new", "acme", "--out", acme, "--parties", ",".join(PARTIES))
    assert done.returncode == 0, done.stderr
    at = {name: of_site.format(number) for number, name in enumerate(SITES, start=1)}
    for path in acme.rglob("*.toml"):
        text = path.read_text()
        for number, name in enumerate(("coordinator", *PARTIES)):
            text = text.replace(f"127.0.0.1:{FIRST_PORT + number}", f"{shown(at[name])}:{FIRST_PORT + number}")
        path.write_text(text)
    at_proxy = {name: of_proxy.format(number) for number, name in enumerate(SITES, start=1)}
    passwords = {name: a_password() for name in SITES} if request.param == "ipv6" else {}
    with Hosts({**at, "proxy": tuple(at_proxy.values())}) as hosts:
        port = "[::]:3128" if request.param == "ipv6" else "0.0.0.0:3128"
        with Squid(port, passwords, on_host=hosts.on("proxy")) as squid:
            yield acme, hosts, squid, {name: f"{shown(host)}:3128" for name, host in at_proxy.items()}, passwords


def configuration(acme, name):
    kind = {"coordinator": "coordinator", "analyst": "client"}.get(name, "party")
    return acme / name / f"{kind}.toml"


def use_proxies(acme, proxies, passwords):
    for name in SITES:
        path, section = configuration(acme, name), {"url": f"http://{proxies[name]}"}
        if passwords:
            word = path.with_name("proxy.password")
            word.touch(mode=0o600)
            word.write_text(passwords[name])
            section = {"url": f"http://{name}@{proxies[name]}", "password_file": word.name}
        path.write_text(path.read_text() + "\n" + toml({}, {"proxy": section}))


def doctor(hosts, acme, name, *more):
    path = configuration(acme, name)
    line = ["doctor", "--quick", "--format", "json", "--timeout", "30", "--config", path.name, *more]
    done = hosts.run(name, path.parent, line)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_members_that_reach_each_other_by_a_proxy_only_run_a_job_and_doctor_shows_the_way(sites, tmp_path):
    acme, hosts, squid, proxies, passwords = sites
    code, found = doctor(hosts, acme, "bank")
    assert code == 1
    reaches = [check["found"] for check in found["checks"] if check["name"].startswith("reach ")]
    assert len(reaches) == 3
    assert all(re.search("unreachable|route", text) for text in reaches), reaches
    use_proxies(acme, proxies, passwords)
    for name in ("coordinator", *PARTIES):
        role = name if name == "coordinator" else "party"
        serve = [role, "serve", "--config", configuration(acme, name).name]
        hosts.start(name, acme / name, serve, tmp_path / f"{name}.log")
    end_s = time.monotonic() + GENEROUS_S
    while (matrix := doctor(hosts, acme, "coordinator", "--federation"))[0] != 0:
        logs = [path.read_text() for path in tmp_path.glob("*.log")]
        assert time.monotonic() < end_s, (matrix, logs, squid.log())
        time.sleep(0.5)
    for row in matrix[1]["members"]:
        assert len(row["reaches"]) == 3
        assert all(f"through the proxy {proxies[row['name']]} " in one["found"] for one in row["reaches"]), row
    job = next((acme / "analyst").glob("mean.toml"))
    done = hosts.run("analyst", job.parent, ["job", "submit", job.name, "--format", "json"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "DONE"
    code, found = doctor(hosts, acme, "analyst")
    assert code == 0, found
    told = "".join(path.read_text() for path in tmp_path.glob("*.log")) + done.stdout + done.stderr
    assert not [name for name, word in passwords.items() if word in told]
