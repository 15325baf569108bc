"""Jobs of parties that accept no connection from outside, by relays, over real services."""

import datetime
import json
import re
import signal
import socket
from dataclasses import replace

import numpy as np
import pytest
from deadlines import GENEROUS_S
from federation import Analyst, jobs_paid, memory_table, pca_job, random_values, result_of, tables_of
from pages import DeploymentWithPages, metrics_of
from typer.testing import CliRunner

from analyses.job.job import Job
from analyses.kept_moments import protocol as kept_moments
from cli.main import app
from demo.local_deployment import COORDINATOR_NAME

PARTIES = ("bank", "clinic", "shop")
VALUES = {
    name: random_values((200, width), seed) for seed, (name, width) in enumerate(zip(PARTIES, (3, 2, 2), strict=True))
}


CODES = {name: random_values((200, 1), 10 + seed).round() for seed, name in enumerate(PARTIES)}
"""Categories -1 .. 3."""

MATCHING = '\n[tables.matching]\ncolumns = ["id"]\nreveal = true\n'


def deployed(folder, **how):
    tables = tables_of(VALUES, folder)
    (folder / "codes").mkdir()
    codes = tables_of(CODES, folder / "codes")
    for name, (people,) in list(tables.items()):  # the same rows, matched by their ids
        customers = replace(people, name="customers", id_column=None, sections=MATCHING)
        tables[name] = [people, customers, replace(codes[name][0], name="codes")]
    (folder / "run").mkdir()
    rules = {"max_epsilon_per_job": 1e4, "matching": ["revealed", "secret"]}
    policy = {party: {"policy.automatic": rules} for party in PARTIES}
    patience = {"MOIETY_PARTY__LEAST_DEADLINE_S": "1"}
    return DeploymentWithPages(folder / "run", tables, environment=patience, policy=policy, **how)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    with deployed(tmp_path_factory.mktemp("relayed"), dial_out=PARTIES, pages={COORDINATOR_NAME: {}}) as running:
        yield running


@pytest.fixture(scope="module")
def with_relays(tmp_path_factory):
    """One party has an address, the others are reached by two relays of their own."""
    how = {"dial_out": PARTIES[1:], "relays": ("north", "south"), "pages": {"north": {}, "south": {}}}
    with deployed(tmp_path_factory.mktemp("mixed"), **how) as running:
        yield running


def job(analysis, table=None, **fields):
    """Return a job of all parties."""
    inputs = [{"party": name, "table": "people", **(table or {})} for name in PARTIES]
    privacy = {"epsilon": 50.0, "delta": 1e-6}
    return Job.model_validate({"analysis": analysis, "inputs": inputs, "privacy": privacy, **fields})


def doctor(*arguments):
    found = CliRunner().invoke(app, ["doctor", *map(str, arguments), "--format", "json"])
    return json.loads(found.stdout)


def test_a_job_of_parties_that_only_dial_out_gives_its_result_and_is_paid_once(deployment):
    before = jobs_paid(deployment, PARTIES)
    result = result_of(Analyst(deployment).run(pca_job(PARTIES)))
    assert np.isfinite(result["explained_variance"]).all()
    assert jobs_paid(deployment, PARTIES) == {name: paid + 1 for name, paid in before.items()}


def test_no_configuration_but_a_partys_own_knows_where_a_party_listens(deployment):
    for name in (*PARTIES, COORDINATOR_NAME):
        text = deployment.config_path(name).read_text()
        assert not [other for other in PARTIES if other != name and deployment.addresses[other] in text]


def shown(deployment, name, path):
    """Return the rows of the tables of a page."""
    status, _, text = deployment.get(name, path)
    assert status == 200
    return [tuple(re.findall(r"<td[^>]*>([^<]*)</td>", row)) for row in re.findall(r"<tr><td.*</tr>", text)]


def check_relay_shown(deployment, name, path, members):
    """Check who a page and metrics say is connected, and that bytes of each pair are powers of two.

    Returns:
        Members that have been called by this relay.
    """
    rows = shown(deployment, name, path)
    connected, pairs = [row for row in rows if len(row) == 2], [row for row in rows if len(row) == 3]
    assert [member for member, _ in connected] == sorted(members)
    assert all(re.fullmatch(r"(1|2|4|8|16|32|64|128|256|512) [KMG]iB", n_bytes) for _, _, n_bytes in pairs)
    metrics = metrics_of(deployment.get(name, "/metrics")[2])
    for caller, called, _ in pairs:
        n_bytes = metrics[f'moiety_relay_bytes{{called="{called}",caller="{caller}"}}']
        assert float(n_bytes).is_integer()
        assert int(n_bytes).bit_count() == 1
    for member, since in connected:
        since_s = int(metrics[f'moiety_relay_connected_since_seconds{{member="{member}"}}'])
        assert f"{datetime.datetime.fromtimestamp(since_s, datetime.UTC):%Y-%m-%d %H:%M:%S}" == since
    assert "moiety_certificate_days" in metrics
    return {called for _, called, _ in pairs}


def test_the_page_of_a_coordinator_that_relays_says_who_is_connected_and_rounds_what_it_forwards(deployment):
    result_of(Analyst(deployment).run(pca_job(PARTIES)))
    assert check_relay_shown(deployment, COORDINATOR_NAME, "/relay", PARTIES) == set(PARTIES)
    callers = {caller for caller, *called in shown(deployment, COORDINATOR_NAME, "/relay") if len(called) == 2}
    assert callers == {f"coordinator/{COORDINATOR_NAME}", *PARTIES}
    assert '<a href="/relay">Relay</a>' in deployment.get(COORDINATOR_NAME, "/")[2]


def test_relays_of_their_own_have_a_page_and_metrics(with_relays):
    result_of(Analyst(with_relays).run(pca_job(PARTIES)))
    called = [check_relay_shown(with_relays, name, "/", PARTIES[1:]) for name in ("north", "south")]
    assert set().union(*called) == set(PARTIES[1:])  # a party that is ahead of the first relay calls by the second
    assert "<h1>Relay</h1>" in with_relays.get("north", "/")[2]


def test_doctor_names_the_relay_of_each_pair_and_the_time_of_a_round_trip(deployment):
    told = doctor("--federation", "--config", deployment.config_path(COORDINATOR_NAME))
    rows = {row["name"]: row for row in told["members"]}
    for name in PARTIES:
        reached = {one["name"]: one for one in rows[name]["reaches"]}
        for other in set(PARTIES) - {name}:
            assert reached[other]["outcome"] == "ok"
            assert f"{other} serves by relay {COORDINATOR_NAME} at " in reached[other]["found"]
            assert "round trip " in reached[other]["found"]
        assert f"serves at {deployment.addresses[COORDINATOR_NAME]}" in reached[COORDINATOR_NAME]["found"]


def test_doctor_of_a_party_says_by_which_relay_others_reach_it(deployment):
    checks = {one["name"]: one for one in doctor("--quick", "--config", deployment.config_path("bank"))["checks"]}
    assert "accepts no connection from outside" in checks["inbound"]["found"]
    assert checks[f"relay {COORDINATOR_NAME}"]["outcome"] == "ok"


def test_a_mixed_federation_goes_on_by_the_second_relay_when_the_first_dies(with_relays):
    analyst = Analyst(with_relays)
    result_of(analyst.run(pca_job(PARTIES)))
    with_relays.send_signal("north", signal.SIGKILL)
    result_of(analyst.run(pca_job(PARTIES)))
    with_relays.start("north")
    with_relays.wait_until_ready("north")
    with_relays.send_signal("south", signal.SIGKILL)
    with_relays.start("south")
    with_relays.wait_until_ready("south")
    result_of(analyst.run(pca_job(PARTIES)))


@pytest.mark.parametrize("state", ["PROPOSED", "RUNNING", "OPENING"])
def test_a_relay_killed_in_a_stage_ends_no_job_without_a_reason_and_nothing_is_paid_twice(with_relays, state):
    before = jobs_paid(with_relays, PARTIES)
    analyst, killed = Analyst(with_relays), []

    def kill(event):
        if event.state == state and not killed:
            killed.append(event)
            for name in with_relays.relays:
                with_relays.send_signal(name, signal.SIGKILL)
            for name in with_relays.relays:
                with_relays.start(name)

    view = analyst.wait(analyst.submit(pca_job(PARTIES, deadline_s=60.0)), on_event=kill)
    assert killed
    paid = {name: now - before[name] for name, now in jobs_paid(with_relays, PARTIES).items()}
    assert view.state == "DONE" or view.reason
    assert max(paid.values()) <= 1
    if view.state == "DONE":
        assert set(paid.values()) == {1}
    for name in with_relays.relays:
        with_relays.wait_until_ready(name)
    result_of(analyst.run(pca_job(PARTIES)))


def test_a_relay_says_that_it_serves_to_whoever_supervises_it(with_relays):
    found = CliRunner().invoke(app, ["health", "--config", str(with_relays.config_path("north"))])
    assert found.stdout == f"north serves at {with_relays.addresses['north']}\n"
    checks = {one["name"]: one for one in doctor("--quick", "--config", with_relays.config_path("north"))["checks"]}
    assert checks["port"]["found"] == f"this relay serves at {with_relays.addresses['north']}"


def test_a_relay_ends_at_sigterm(with_relays):
    with_relays.processes["south"].terminate()
    assert with_relays.processes["south"].wait(GENEROUS_S) == 0
    host, port = with_relays.addresses["south"].split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    with_relays.start("south")
    with_relays.wait_until_ready("south")


@pytest.mark.parametrize("kind", ["revealed", "secret"])
def test_rows_of_parties_that_only_dial_out_are_matched(deployment, kind):
    asked = pca_job(
        PARTIES,
        matching={"kind": kind},
        compute=PARTIES,
        inputs=[{"party": name, "table": "customers"} for name in PARTIES],
    )
    view = Analyst(deployment).run(asked)
    assert np.isfinite(result_of(view)["explained_variance"]).all()


def test_a_masked_sum_of_parties_that_only_dial_out_is_near_the_exact_one(deployment):
    columns = {"columns": ["x0", "x1"]}
    asked = job("secure-sum", columns, parameters={"max_rows": 1000, "units": 3000})
    exact = sum(VALUES[name][:, :2].sum(axis=0) for name in PARTIES)
    assert result_of(Analyst(deployment).run(asked))["sum"] == pytest.approx(exact, abs=100.0)


def test_patterns_of_three_owners_that_only_dial_out_are_counted(deployment):
    asked = job("pattern-count", {"table": "codes"}, parameters={"max_rows": 1000})
    counts = np.array(result_of(Analyst(deployment).run(asked))["counts"])
    expected = np.zeros((5, 5, 5))
    np.add.at(expected, tuple(CODES[name][:, 0].astype(int) + 1 for name in PARTIES), 1)
    assert np.abs(counts - expected).max() < 20


def test_second_moments_of_parties_that_only_dial_out_are_proven_to_all(deployment):
    asked = job("second-moments", parameters={"gamma": 1024, "max_rows": 1000}, security="malicious")
    result = result_of(Analyst(deployment).run(asked))
    tables = [memory_table(name, VALUES[name]) for name in PARTIES]
    exact = kept_moments.reference(tables, kept_moments.plan(asked, [table.schema for table in tables]))
    assert np.abs(np.array(result["matrix"]) - exact).max() < 8 * result["noise_deviation"] + 0.5  # rounding
    assert result["privacy"]["security"] == "malicious"
