"""SIGHUP on real services: certificates, lists and configuration are read again, and jobs that run go on."""

import signal
import time
from pathlib import Path

import pytest
from deadlines import GENEROUS_S
from federation import Analyst, pca_job, random_values, tables_of
from renewable_services import NOW, REFUSED, RenewableDeployment

from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME
from service.errors import ServiceError
from service.identity import Role
from service.pki import create_authority, issue
from service.trust.revocation import create_list

PARTIES = ("bank", "hospital", "telco")
SERVICES = (*PARTIES, COORDINATOR_NAME)


@pytest.fixture
def deployment(tmp_path: Path):
    (tmp_path / "run").mkdir()
    tables = tables_of({name: random_values((400, 2), seed) for seed, name in enumerate(PARTIES)}, tmp_path)
    with RenewableDeployment(tmp_path / "run", tables) as running:
        yield running


def test_a_job_survives_the_renewal_of_all_certificates_and_lists_and_later_jobs_use_the_new_ones(deployment):
    reloaded = []

    def reload_while_it_runs(event) -> None:
        if event.state == "RUNNING" and not reloaded:
            deployment.send_signal("telco", signal.SIGSTOP)  # nobody gets far without it
            old = {name: deployment.certificate(name) for name in SERVICES}
            for name in SERVICES:
                deployment.renew(name)
            reloaded.extend(deployment.reload("bank", "hospital", COORDINATOR_NAME))
            deployment.send_signal("telco", signal.SIGCONT)
            reloaded.extend(deployment.reload("telco"))
            assert all(old[name] != deployment.certificate(name) for name in SERVICES)

    analyst = Analyst(deployment)
    view = analyst.run(pca_job(PARTIES, deadline_s=GENEROUS_S), on_event=reload_while_it_runs)
    assert (view.state, view.reason) == ("DONE", "")
    assert [line["changed"] for line in reloaded] == ["no field"] * 4
    assert analyst.run(pca_job(PARTIES)).state == "DONE"


def test_a_revoked_party_and_a_revoked_analyst_are_refused_until_they_have_new_certificates(deployment):
    analyst = Analyst(deployment)
    assert analyst.run(pca_job(PARTIES)).state == "DONE"  # all hold connections to each other
    deployment.revoke("telco")
    deployment.reload("bank", "hospital", COORDINATOR_NAME)
    view = analyst.run(pca_job(PARTIES))
    assert view.state == "FAILED"
    assert "telco" in view.reason
    assert "revoked" in view.reason
    assert "is revoked" in deployment.reload("telco", answer=REFUSED)[0]["reason"]
    deployment.renew("telco")
    deployment.reload("telco")
    assert analyst.run(pca_job(PARTIES)).state == "DONE"
    deployment.revoke(ANALYST_NAME)
    deployment.reload(COORDINATOR_NAME)
    with pytest.raises(ServiceError, match="analyst is revoked"):
        analyst.submit(pca_job(PARTIES))


def test_bad_files_are_refused_and_the_old_ones_stay_in_use(deployment):
    analyst, folder = Analyst(deployment), deployment.folder
    good = {path: path.read_bytes() for path in folder.glob("*.*") if path.suffix in {".pem", ".key", ".toml"}}
    other = create_authority("local", days=9, now=NOW)
    foreign = issue(other, Role.PARTY, "bank", days=5, now=NOW)
    bad = {
        "bank.pem": (foreign.certificate_pem, "was not issued by the authority"),
        "bank.key": (foreign.key_pem, "does not belong to the certificate"),
        "revoked.pem": (create_list(other, [], days=3, now=NOW), "it was not signed by"),
        "bank.toml": (good[folder / "bank.toml"] + b"\n[", "bank.toml"),
    }
    for name, (content, words) in bad.items():
        (folder / name).write_bytes(content)
        (line,) = deployment.reload("bank", answer=REFUSED)
        assert words in line["reason"], line
        (folder / name).write_bytes(good[folder / name])
    deployment.edit("bank", 'log_format = "json"', 'log_format = "console"')
    assert (
        "log_format: changes only when the service is restarted"
        in deployment.reload("bank", answer=REFUSED)[0]["reason"]
    )
    deployment.edit(COORDINATOR_NAME, "local", "otherwise")
    assert "federation: changes only when" in deployment.reload(COORDINATOR_NAME, answer=REFUSED)[0]["reason"]
    assert analyst.run(pca_job(PARTIES)).state == "DONE"


def test_what_may_change_is_in_force_from_then_on(deployment):
    analyst = Analyst(deployment)
    deployment.edit("bank", "[policy.automatic]", '[policy.limits]\nanalyses = ["pattern-count"]\n\n[policy.automatic]')
    deployment.edit("bank", 'name = "bank"', 'name = "bank"\nlog_level = "warning"\nleast_deadline_s = 2000.0')
    deployment.send_signal("bank", signal.SIGHUP)  # its log says nothing of it any more
    end_s = time.monotonic() + GENEROUS_S
    while (view := analyst.run(pca_job(PARTIES, deadline_s=1000.0))).state == "DONE":
        assert time.monotonic() < end_s
        time.sleep(1)  # each job is paid, and the budget is not without end
    assert "deadline_s: 1000 is below 2000, the shortest deadline that bank accepts" in view.reason
    view = analyst.run(pca_job(PARTIES, deadline_s=3000.0))
    assert "bank refused: by its policy" in view.reason
    assert deployment.lines("bank", "serving")
    assert not deployment.lines("bank", "job refused")
    deployment.edit(COORDINATOR_NAME, '["analyst"]', '["somebody"]')
    assert deployment.reload(COORDINATOR_NAME)[0]["changed"] == "analysts"
    with pytest.raises(ServiceError, match="analyst analyst is not in the list"):
        analyst.submit(pca_job(PARTIES))
