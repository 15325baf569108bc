"""Metrics of real services before, during and after jobs, and who may read them."""

import json
import re
import signal
import time
from importlib.metadata import version

import pytest
from deadlines import GENEROUS_S
from federation import Analyst, pca_job, random_values, tables_of
from pages import SCRAPER_TOKEN, DeploymentWithPages, metrics_of, page_folder

from demo.local_deployment import COORDINATOR_NAME

PARTIES = ("bank", "hospital", "telco")
ROWS = 437


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics")
    tables = tables_of({name: random_values((ROWS, 2), seed) for seed, name in enumerate(PARTIES)}, folder)
    pages = {"bank": {}, "telco": {"metrics_token_file": "scraper"}, COORDINATOR_NAME: {}}
    with DeploymentWithPages(page_folder(folder), tables, pages=pages) as running:
        yield running


def scrape(deployment, name) -> dict[str, float]:
    headers = {"Authorization": f"Bearer {SCRAPER_TOKEN}"} if name == "telco" else {}
    status, told, text = deployment.get(name, "/metrics", **headers)
    assert status == 200, text
    assert told["content-type"].startswith("text/plain; version=")
    return metrics_of(text)


def until(deployment, name, metric, least):
    """Scrape until a counter is there: parties end a moment after the analyst has the result."""
    end_s = time.monotonic() + GENEROUS_S
    while (found := scrape(deployment, name)).get(metric, 0.0) < least:
        assert time.monotonic() < end_s, found
        time.sleep(0.05)
    return found


def test_a_job_is_counted_at_the_coordinator_and_at_the_party(deployment):
    before = scrape(deployment, "bank")
    assert before['moiety_budget_left_ratio{table="people"}'] == 1.0
    assert Analyst(deployment).run(pca_job(PARTIES)).state == "DONE"
    done = 'moiety_jobs_total{reason="",state="DONE"}'
    at_bank = until(deployment, "bank", done, 1.0)
    at_coordinator = until(deployment, COORDINATOR_NAME, done, 1.0)
    assert at_bank['moiety_stage_seconds_count{stage="reading"}'] >= 1
    assert at_coordinator['moiety_stage_seconds_count{stage="reading"}'] >= 3
    assert 0.0 < at_bank['moiety_budget_left_ratio{table="people"}'] < 1.0
    for operation in ("reserve", "commit"):
        assert at_bank[f'moiety_ledger_seconds_count{{operation="{operation}"}}'] >= 1
    for peer in ("hospital", "telco"):
        for direction in ("sent", "received"):
            n_bytes = int(at_bank[f'moiety_peer_bytes_total{{direction="{direction}",peer="{peer}"}}'])
            assert n_bytes.bit_count() == 1, "of one job, a power of two"
    for found, name, role in ((at_bank, "bank", "party"), (at_coordinator, COORDINATOR_NAME, "coordinator")):
        assert found[f'moiety_info{{name="{name}",role="{role}",version="{version("moiety")}"}}'] == 1
        assert found["moiety_certificate_days"] == 0  # of a day
    running, end_s = 'moiety_jobs_present{state="running"}', time.monotonic() + GENEROUS_S
    while scrape(deployment, COORDINATOR_NAME)[running] != 0:  # until it has heard that all parties have ended
        assert time.monotonic() < end_s
        time.sleep(0.05)


def test_no_private_number_is_in_a_metric_and_no_budget_at_the_coordinator(deployment):
    view = Analyst(deployment).run(pca_job(PARTIES))
    report = deployment.report("bank", view.job_id)
    private = {str(ROWS), *re.findall(r"\d{4,}", json.dumps(report["traffic"]))}
    for name in ("bank", "telco", COORDINATOR_NAME):
        headers = {"Authorization": f"Bearer {SCRAPER_TOKEN}"}
        status, _, text = deployment.get(name, "/metrics", **headers)
        assert status == 200
        numbers = {line.rpartition(" ")[2].removesuffix(".0") for line in text.splitlines() if line[:1] != "#"}
        assert private.isdisjoint(numbers)
        assert view.job_id not in text
        assert "analyst" not in text
    assert "budget" not in deployment.get(COORDINATOR_NAME, "/metrics")[2]


def test_a_refused_job_is_counted_by_the_kind_of_its_reason(deployment):
    view = Analyst(deployment).run(pca_job(PARTIES, inputs=[{"party": p, "table": "nothing"} for p in PARTIES]))
    assert view.state == "FAILED"
    assert scrape(deployment, "bank")['moiety_jobs_total{reason="table",state="REFUSED"}'] == 1
    assert scrape(deployment, COORDINATOR_NAME)['moiety_jobs_total{reason="table",state="FAILED"}'] == 1


def test_who_bears_no_token_or_comes_by_another_name_reads_nothing(deployment):
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": SCRAPER_TOKEN}):
        status, told, text = deployment.get("telco", "/metrics", **headers)
        assert (status, told["www-authenticate"], text) == (401, "Bearer", "metrics need a bearer token here\n")
    assert deployment.get("bank", "/metrics", Host="evil.example")[0] == 401
    assert deployment.get("bank", "/metrics", Host="localhost:1")[0] == 200
    logs = "".join(deployment.log_path(name).read_text() for name in deployment.processes)
    assert SCRAPER_TOKEN not in logs


def test_attempts_to_reach_a_party_are_counted(deployment):
    deployment.send_signal("hospital", signal.SIGKILL)
    try:
        assert Analyst(deployment).run(pca_job(PARTIES)).state == "FAILED"
        found = scrape(deployment, COORDINATOR_NAME)
        assert found['moiety_retries_total{peer="hospital"}'] >= 1
        assert found['moiety_jobs_total{reason="unreachable",state="FAILED"}'] == 1
    finally:
        deployment.start("hospital")
        deployment.wait_until_ready("hospital")
