"""The pages of real services over HTTP: who sees what, who may decide, and what comes of it."""

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
from deadlines import GENEROUS_S
from federation import Analyst, pca_job, random_values, tables_of
from pages import TOKEN, DeploymentWithPages, log_in, page_folder

from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME

PARTIES = ("bank", "hospital", "telco")
ROWS = 437
ASKS = {"policy.automatic": {"max_epsilon_per_job": 0.001, "analysts": [ANALYST_NAME]}}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    tables = tables_of({name: random_values((ROWS, 2), seed) for seed, name in enumerate(PARTIES)}, folder)
    pages = {"bank": {"token_file": "token"}, "telco": {}, COORDINATOR_NAME: {}}
    told = str(page_folder(folder) / "told")
    asks = ASKS | {"notice": {"command": ["sh", "-c", 'cat >> "$0"', told]}}
    with DeploymentWithPages(folder / "run", tables, pages=pages, policy={"bank": asks}) as running:
        yield running


@pytest.fixture(scope="module")
def owner(deployment):
    return log_in(deployment, "bank")


class Asked:
    """A job that waits for the bank's owner, on a thread of its own."""

    def __init__(self, deployment, owner, **changes):
        self.deployment, self.owner = deployment, owner
        analyst = Analyst(deployment)
        self.job_id = analyst.submit(pca_job(PARTIES, **changes))
        end_s = time.monotonic() + GENEROUS_S
        while self.job_id not in (page := deployment.get("bank", "/", Cookie=owner)[2]):
            assert time.monotonic() < end_s, analyst.show(self.job_id)
            time.sleep(0.05)
        self.page = page
        self.csrf = re.search(r'name="csrf" value="([^"]+)"', page)[1]

    def decide(self, fields=None, **headers):
        origin = f"http://{self.deployment.page_at['bank']}"
        body = urlencode({"csrf": self.csrf, "decision": "approve", "reason": ""} | (fields or {}))
        named = {"Cookie": self.owner, "Origin": origin} | headers
        return self.deployment.request("bank", "POST", f"/requests/{self.job_id}", body, **named)

    def end(self):
        return Analyst(self.deployment).wait(self.job_id)


def wait_until_told(deployment, job_id):
    """Wait until the owner's command has heard of a job."""
    told, end_s = deployment.folder / "told", time.monotonic() + GENEROUS_S
    while not told.exists() or job_id not in told.read_text():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def wait_until_the_coordinator_says(pattern, deployment):
    """Wait until the coordinator's page says a pattern: a party's own page is the first to ask."""
    end_s = time.monotonic() + GENEROUS_S
    while not re.search(pattern, page := deployment.get(COORDINATOR_NAME, "/")[2]):
        assert time.monotonic() < end_s, page
        time.sleep(0.05)


def test_a_job_is_approved_at_the_page_and_the_coordinators_page_shows_its_way(deployment, owner):
    asked = Asked(deployment, owner, title="<b>bold</b> & brave")
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; brave" in asked.page
    assert "<b>" not in asked.page
    for words in ("table people: x0, x1", "against the worst coalition", "% left", "Asked because"):
        assert words in asked.page
    wait_until_the_coordinator_says(rf"{asked.job_id}.*waits for the owner of bank", deployment)
    assert (
        '<dt>Waits for</dt><dd class="waits">the owner of bank</dd>'
        in (deployment.get(COORDINATOR_NAME, f"/jobs/{asked.job_id}")[2])
    )
    status, headers, _ = asked.decide()
    assert (status, headers["location"]) == (303, "/")
    assert asked.end().state == "DONE"
    assert asked.job_id not in deployment.get("bank", "/", Cookie=owner)[2]
    shown = deployment.get(COORDINATOR_NAME, f"/jobs/{asked.job_id}")[2]
    for words in ("DONE", '<progress max="100" value="100"', "eigenvalues", "The result as JSON"):
        assert words in shown
    pictures = re.findall('<svg .*?role="img".*?</svg>', shown)
    assert len(pictures) == 2
    assert "Variance of the principal components" in pictures[0]
    assert [name for name in ("bank.x0", "telco.x1") if name not in pictures[1]] == []
    assert "component 1 (variance" in shown
    assert "waits for the owner" not in deployment.get(COORDINATOR_NAME, "/")[2]
    budget = deployment.get("bank", "/budget", Cookie=owner)[2]
    assert re.search(r"by \d jobs?", budget)
    assert re.search(r"after \d jobs", budget)


def test_the_owner_sees_the_forecast_and_that_an_infeasible_job_is_wanted_anyway(deployment, owner):
    asked = Asked(deployment, owner)
    assert "variance along a component: " in asked.page
    assert "INFEASIBLE" not in asked.page
    asked.decide({"decision": "refuse"})
    asked.end()
    asked = Asked(deployment, owner, anyway=True, privacy={"epsilon": 0.01, "delta": 1e-6})
    assert "INFEASIBLE: the spectral norm of the noise is" in asked.page
    assert "The analyst wants the job although no answer could be seen in its noise." in asked.page
    asked.decide({"decision": "refuse"})
    asked.end()


def test_a_job_is_refused_with_the_reason_that_the_analyst_sees(deployment, owner):
    asked = Asked(deployment, owner)
    wait_until_told(deployment, asked.job_id)
    assert asked.decide({"decision": "refuse", "reason": "not before June"})[0] == 303
    view = asked.end()
    assert view.state == "FAILED"
    assert "the owner refused the job: not before June" in view.reason
    assert asked.decide()[0] == 404


def test_nobody_else_decides(deployment, owner):
    asked = Asked(deployment, owner)
    for fields, headers in (
        ({"csrf": ""}, {}),
        ({"csrf": asked.csrf[:-1]}, {}),
        ({"decision": "perhaps"}, {}),
        ({"reason": "x" * 10_000}, {}),
        ({}, {"Origin": "http://evil.example"}),
        ({}, {"Origin": "null"}),
        ({}, {"Origin": ""}),
        ({}, {"Host": "evil.example", "Origin": "http://evil.example"}),
    ):
        status, _, text = asked.decide(fields, **headers)
        assert status == 403, (fields, headers, text)
    for cookie in ("", "moiety-party-bank=guess"):
        status, headers, _ = asked.decide(Cookie=cookie)
        assert (status, headers["location"]) == (303, "/login")
    other = log_in(deployment, "bank")  # another visit's token does not fit
    assert asked.decide(Cookie=other)[0] == 403
    assert asked.job_id in deployment.get("bank", "/", Cookie=owner)[2]
    assert asked.decide({"decision": "refuse"})[0] == 303
    assert "the owner gave no reason" in asked.end().reason


def test_a_page_with_a_token_shows_nothing_before_the_log_in_and_after_the_log_out(deployment):
    for path in ("/", "/budget", "/members"):
        status, headers, text = deployment.get("bank", path)
        assert (status, headers["location"], text) == (303, "/login", "")
    origin = f"http://{deployment.page_at['bank']}"
    began_s = time.monotonic()
    status, headers, text = deployment.request("bank", "POST", "/login", "token=wrong", Origin=origin)
    assert time.monotonic() - began_s >= 1.0
    assert status == 403
    assert "set-cookie" not in headers
    assert "This is not the token" in text
    assert deployment.request("bank", "POST", "/login", f"token={TOKEN}", Origin="http://evil.example")[0] == 403
    status, headers, _ = deployment.request("bank", "POST", "/login", f"token={TOKEN}", Origin=origin)
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(headers["set-cookie"].split("; "))
    cookie = headers["set-cookie"].partition(";")[0]
    csrf = re.search(r'name="csrf" value="([^"]+)"', deployment.get("bank", "/", Cookie=cookie)[2])[1]
    out = deployment.request("bank", "POST", "/logout", urlencode({"csrf": csrf}), Cookie=cookie, Origin=origin)
    assert out[0] == 303
    assert deployment.get("bank", "/budget", Cookie=cookie)[0] == 303


@pytest.mark.parametrize("n_wrong", [40, 70])
def test_who_shows_the_right_token_does_not_wait_for_those_who_show_wrong_ones(deployment, n_wrong):
    """Not even where more show wrong ones than there are connections."""
    origin = f"http://{deployment.page_at['bank']}"

    def show(token):
        return deployment.request("bank", "POST", "/login", f"token={token}", Origin=origin)[0]

    with ThreadPoolExecutor(n_wrong) as pool:
        wrong = [pool.submit(show, f"wrong-{i}") for i in range(n_wrong)]
        time.sleep(0.5)  # they are on their way
        began_s = time.monotonic()
        assert show(TOKEN) == 303
        took_s = time.monotonic() - began_s
        answered = [one.result() for one in wrong if not one.exception()]
    assert took_s < n_wrong - 5, "one after the other they take a second each"
    assert set(answered) == {403}


def test_without_a_token_this_machine_may_look_and_nobody_decides(deployment):
    status, _, text = deployment.get("telco", "/")
    assert status == 200
    assert "No job waits" in text
    origin = f"http://{deployment.page_at['telco']}"
    assert (
        deployment.request("telco", "POST", "/requests/0123456789abcdef", "decision=approve", Origin=origin)[0] == 403
    )
    for path in ("/", "/budget", "/members"):
        assert deployment.get("telco", path, Host="evil.example:80")[0] == 403


@pytest.mark.parametrize("name", ["bank", "telco", COORDINATOR_NAME])
@pytest.mark.parametrize("path", ["/", "/members", "/login", "/nothing", "/jobs/nothing", "/style.css", "/metrics"])
def test_every_answer_forbids_scripts_frames_and_caches(deployment, name, path):
    status, headers, text = deployment.get(name, path)
    assert status < 500
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "script" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == ("max-age=3600" if path == "/style.css" else "no-store")
    assert "server" not in headers
    assert "<script" not in text
    assert " style=" not in text
    assert re.findall(r'(?:href|src)="(?!/|data:,")', text) == []


def test_members_are_shown_with_their_last_call_version_and_certificate(deployment, owner):
    Asked(deployment, owner).decide({"decision": "refuse"})
    rows = deployment.get("bank", "/members", Cookie=owner)[2].split("<tr>")
    row = next(row for row in rows if ">coordinator</td>" in row)
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", row)
    assert "0.1.0" in row
    rows = deployment.get(COORDINATOR_NAME, "/members")[2].split("<tr>")
    assert {name for name in (*PARTIES, ANALYST_NAME) if any(f">{name}</td>" in row for row in rows)} == {
        *PARTIES,
        ANALYST_NAME,
    }


def test_private_numbers_and_budgets_stay_off_the_coordinators_page_and_tokens_off_logs(deployment, owner):
    asked = Asked(deployment, owner)
    asked.decide()
    assert asked.end().state == "DONE"
    pages = [deployment.get(COORDINATOR_NAME, path)[2] for path in ("/", "/members")]
    assert "budget" not in "".join(pages).lower().replace("privacy budget of table", "")
    for name in ("bank", "telco"):
        for path in ("/", "/budget", "/members"):
            text = deployment.get(name, path, Cookie=owner)[2]
            assert re.findall(rf"(?<![\w.-]){ROWS}(?![\w.-])", text) == []
    logs = "".join(deployment.log_path(name).read_text() for name in deployment.processes)
    assert TOKEN not in logs
    assert "the owner decided at the page" in logs


def test_many_look_at_once(deployment):
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(deployment.get("telco", "/budget")[0])) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 20
