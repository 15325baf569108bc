"""Dask clusters whose schedulers and workers have hosts and addresses of their own, of which some are lost in a job."""

import json
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from commands import moiety
from dask_clusters import DaskCluster, Place
from deadlines import wait_until
from hosts import Hosts, are_allowed
from worked_jobs import N_WORKERS, OWNERS, assert_sums_right, local_tables

from demo.loopback import toml

pytestmark = pytest.mark.slow

N_ROWS = 399_999
EPSILON = 50.0
MEMBERS = {name: f"10.0.0.{number}" for number, name in enumerate(("coordinator", *OWNERS), start=1)}
WORKERS = {
    (owner, worker): f"10.0.0.{16 * number + worker}"
    for number, owner in enumerate(OWNERS, start=1)
    for worker in range(N_WORKERS)
}
READY = re.compile("serving|coordinator is ready")
WORKED = "Run out-of-band function 'work'"


def write_members(folder):
    """Write a federation whose parties bring large tables and have engines, but for their clusters."""
    acme = folder / "acme"
    given = ",".join(f"{name}={address}" for name, address in MEMBERS.items())
    made = moiety("new", "acme", "--out", acme, "--parties", ",".join(OWNERS), "--hosts", given)
    assert made.returncode == 0, made.stderr
    own = {name: acme / name / "pki" for name in (*MEMBERS, "analyst")}
    members = [
        "coordinator/coordinator",
        "analyst/analyst",
        *(f"{role}/{o}" for o in OWNERS for role in ("party", "worker")),
    ]
    for member in members:
        role, name = member.split("/")
        out = acme / name / "workers" if role == "worker" else own[name]
        issued = moiety("pki", "issue", "--ca", acme / "authority", "--member", member, "--out", out)
        assert issued.returncode == 0, issued.stderr
        shutil.copy(acme / "authority" / "ca.pem", out)
    for owner, (table, *_) in local_tables(folder, N_ROWS).items():
        path = acme / owner / "party.toml"
        head = path.read_text().partition("[[tables]]")[0].replace("= 1.0", f"= {EPSILON}")
        budget = {"period": "first", "epsilon": 20 * EPSILON, "delta": 2e-6}
        section = {"name": "joined", "path": str(table.path), "id_column": "id", "rows": [2, 400_000]}
        tables = toml({}, {"tables.first_budget": budget, "tables.bounds": dict(table.bounds)})
        path.write_text(f"{head}\n[[tables]]\n{toml(section, {})}\n{tables}")
    return acme


def write_engine(acme, owner, cluster):
    workers = acme / owner / "workers"
    tls = {"authority": workers / "ca.pem", "certificate": workers / f"{owner}.pem", "key": workers / f"{owner}.key"}
    engine = {name: value for name, value in cluster.section(workers=N_WORKERS).items() if name != "cluster_tls"}
    hosts = {other: [at for (of, _), at in WORKERS.items() if of == other] for other in OWNERS if other != owner}
    sections = {
        "engine": engine,
        "engine.cluster_tls": cluster.tls,
        "engine.tls": {name: str(path) for name, path in tls.items()},
        "engine.peer_hosts": hosts,
    }
    path = acme / owner / "party.toml"
    path.write_text(path.read_text() + "\n" + toml({}, sections))


def write_job(acme, title):
    fields = {"analysis": "pca", "title": title, "colluding": 1, "deadline_s": 60.0}
    parameters = {"components": sum(OWNERS.values()), "center": False, "gamma": 4096, "max_rows": 400_000}
    inputs = "".join(f'[[inputs]]\nparty = "{owner}"\ntable = "joined"\n' for owner in OWNERS)
    privacy = {"epsilon": EPSILON, "delta": 1e-7}
    sections = toml({}, {"privacy": privacy, "parameters": parameters})
    (acme / "analyst" / f"{title}.toml").write_text(f"{toml(fields)}\n{inputs}\n{sections}")


def assert_right(answer):
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert_sums_right(json.loads(answer.stdout)["result"], N_ROWS)


def test_jobs_go_on_where_the_host_of_a_worker_or_a_scheduler_is_lost(tmp_path):
    """Of the bank a worker's host falls off the network, without a word; of the telco the scheduler is killed.

    What no worker can do the parties do themselves, so that every job is answered.
    """
    if not are_allowed():
        pytest.skip("this kernel gives no network namespaces to its users")
    acme = write_members(tmp_path)
    addresses = {f"{owner}-{worker}": at for (owner, worker), at in WORKERS.items()}
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts({**MEMBERS, **addresses}))
        clusters = {}
        for owner in OWNERS:
            names = [owner, *(f"{owner}-{worker}" for worker in range(N_WORKERS))]
            places = [Place(tuple(hosts.on(name)), hosts.addresses[name][0]) for name in names]
            cluster = DaskCluster(tmp_path / f"cluster-{owner}", owner, N_WORKERS, places)
            clusters[owner] = stack.enter_context(cluster)
            write_engine(acme, owner, clusters[owner])
        for name in MEMBERS:
            role = "party" if name in OWNERS else "coordinator"
            hosts.start(name, acme / name, [role, "serve", "--config", f"{role}.toml"], tmp_path / f"{name}.log")
        wait_until(lambda: all(READY.search((tmp_path / f"{name}.log").read_text()) for name in MEMBERS))
        asking = stack.enter_context(ThreadPoolExecutor(2))

        def ask(title):
            write_job(acme, title)
            line = ["job", "submit", f"{title}.toml", "--client", "client.toml", "--format", "json"]
            return asking.submit(hosts.run, "coordinator", acme / "analyst", line)

        def n_worked():
            return {owner: cluster.log().count(WORKED) for owner, cluster in clusters.items()}

        assert_right(ask("whole").result())
        assert n_worked() == dict.fromkeys(OWNERS, N_WORKERS)

        answer = ask("without-a-host")
        wait_until(lambda: min(n_worked().values()) > N_WORKERS)
        subprocess.run([*hosts.on("bank-1"), "ip", "link", "set", "eth0", "down"], check=True)
        assert_right(answer.result())

        answer, before = ask("without-a-scheduler"), n_worked()["telco"]
        wait_until(lambda: n_worked()["telco"] > before)
        clusters["telco"].processes[0].kill()
        begun_without = ask("begun-without-a-scheduler")  # both wait for half a minute, and for the same
        assert_right(answer.result())
        assert_right(begun_without.result())
