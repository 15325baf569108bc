"""`moiety.Client` and `moiety.AsyncClient` over real services: every analysis, events, failures, wrong use."""

import asyncio
import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import child_environ
from forked_services import ForkedDeployment
from registry_jobs import LOGISTIC, VARIANTS, values_of
from registry_tables import tables_of_jobs

from analyses.job.job import Job, JobError
from analyses.registry import ANALYSES
from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME
from moiety import PCA, AsyncClient, Client, JobFailedError, LogisticRegression, SecureMean
from results.registry import RESULTS
from service.errors import InvalidRequestError, NotFoundError, UnreachableError, WrongStateError
from service.settings import SettingsError

PEOPLE = {"bank": ("people", ["x0", "x1"]), "hospital": ("people", ["x0"]), "telco": ("people", ["x0"])}
PRIVACY = {"epsilon": 40.0, "delta": 1e-6}
ASKED_FROM = 10_000.0
"""Epsilon from which on the owner of telco is asked."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = tables_of_jobs(folder, ANALYSES)
    (folder / "run").mkdir()
    asks = {"telco": {"policy.automatic": {"max_epsilon_per_job": ASKED_FROM, "analysts": [ANALYST_NAME]}}}
    with ForkedDeployment(folder / "run", tables, policy=asks, budget=(100 * ASKED_FROM, 1e-6)) as running:
        yield running


@pytest.fixture(scope="module")
def client(deployment):
    with Client(deployment.client_config) as connected:
        yield connected


@pytest.fixture(scope="module")
def answered(client):
    """Let an analysis answer once for all tests; return its submission."""

    @functools.cache
    def run(name):
        submission = client.submit(VARIANTS[name].job(compute=(), title="asked in Python"))
        submission.watch()
        return submission

    return run


ONE_OF_EACH = ["circuit", "clustering", "distribution", "matrix-factorization", "moments", "pca", "secure-sum"]
"""Of each kind of table and of result; `test_same_result` runs the examples of all analyses."""


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_an_analysis_gives_a_result_of_its_own_class(answered, name, tmp_path):
    result = answered(name).result()
    assert type(result) is RESULTS[name]
    assert result.job == VARIANTS[name].job(compute=(), title="asked in Python")
    assert result.to_polars().height > 0
    assert "asked in Python" in result._repr_html_()
    assert "asked in Python" in result.plot(tmp_path / "plot.svg")._repr_svg_()
    assert "asked in Python" in (tmp_path / "plot.svg").read_text(encoding="utf-8")


def test_a_question_is_answered_with_names_of_scikit_learn_and_predictions(client):
    inputs = {**PEOPLE, "telco": ("people", ["x0", "label"])}
    result = client.run(LogisticRegression(inputs, **PRIVACY, **LOGISTIC))
    rows = {"bank.x0": values_of("bank")[:, 0], "bank.x1": values_of("bank")[:, 1]}
    rows |= {"hospital.x0": values_of("hospital")[:, 0], "telco.x0": values_of("telco")[:, 0]}
    assert tuple(result.feature_names_in_) == tuple(rows)
    assert set(result.predict(rows)) <= {0, 1}
    assert result.column_bounds["telco.x0"] == (-1.0, 3.0)


def test_a_submission_can_be_watched_looked_at_and_found_again(client):
    submission = client.submit(PCA(PEOPLE, **PRIVACY, components=1))
    seen = []
    result = submission.watch(seen.append)
    assert [event.state for event in seen][-1] == "DONE"
    assert {event.member for event in seen} > {"bank"}
    assert all(event.as_text() for event in seen)
    assert result.n_components_ == 1
    again = client.job(submission.job_id)
    assert again.result().fields == result.fields
    assert again.view().state == "DONE"
    assert submission.job_id in repr(again)
    assert submission.job_id in [job.job_id for job in client.jobs()]
    assert len(client.jobs(limit=1)) == 1


def test_leaving_the_events_of_a_job_leaves_the_job_going(client):
    submission = client.submit(PCA(PEOPLE, **PRIVACY, components=1))
    for event in submission.events():
        assert event.state
        break
    assert submission.watch().n_components_ == 1


def test_the_same_key_gives_the_same_job(client):
    question = PCA(PEOPLE, **PRIVACY, components=1)
    first = client.submit(question, key="again")
    assert client.submit(question, key="again").job_id == first.job_id
    assert client.submit(question).job_id != first.job_id
    first.watch()


def test_what_fails_says_why_and_keeps_the_job(client):
    asked = {**PEOPLE, "telco": ("people", ["x9"])}
    with pytest.raises(JobFailedError, match=r"is FAILED: .*'x9'") as raised:
        client.run(PCA(asked, **PRIVACY, components=1))
    assert raised.value.view.state == "FAILED"
    with pytest.raises(JobFailedError, match="is FAILED"):
        client.job(raised.value.view.job_id).result()


def test_a_job_that_has_ended_cannot_be_cancelled(client):
    submission = client.submit(PCA(PEOPLE, **PRIVACY, components=1))
    submission.watch()
    with pytest.raises(WrongStateError, match="has ended: it is DONE"):
        submission.cancel()


def test_wrong_questions_are_refused_before_anything_is_sent_and_by_the_coordinator(client):
    with pytest.raises(InvalidRequestError, match="there is no party 'shop' in the roster"):
        client.submit(PCA({"shop": "people", **PEOPLE}, **PRIVACY, components=1))
    with pytest.raises(NotFoundError):
        client.job("0" * 32).view()


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_plan_says_what_a_job_will_cost_and_who_may_drop_out(client, answered, name):
    plan, submission = client.plan(VARIANTS[name].job(compute=())), answered(name)
    planned = json.loads(submission.view().plan_json)
    assert [f"{s['party']}.{c['name']}" for s in planned["schemas"] for c in s["columns"]] == list(plan.columns)
    assert plan.privacy["views"] == submission.result().privacy["views"] or name == "distribution"
    assert plan.survival.n_parties == 3
    assert len(plan.to_polars()) == len(plan.to_dict()["forecast"]["quantities"])
    assert plan.forecast.quantities or plan.forecast.not_forecast
    assert plan.to_dict()["distance"]["flights"] == plan.distance.flights > 0
    assert "Plan" in plan._repr_html_()
    assert "bytes" in plan._repr_html_()
    assert "3 compute parties" in repr(plan)
    assert "epsilon" in repr(plan)


@pytest.mark.parametrize(
    ("inputs", "changes", "words"),
    [
        ({"bank": "people"}, {}, "compute"),
        ({**PEOPLE, "bank": "persons"}, {}, "party 'bank' lists no table 'persons' that you may use"),
        ({**PEOPLE, "bank": ("people", ["x7"])}, {}, "table 'people' of party 'bank' lists no column 'x7'"),
        ({**PEOPLE, "shop": "people"}, {}, "there is no party 'shop' in the roster"),
        (PEOPLE, {"components": 9}, "9 components are more than the 4 columns"),
    ],
)
def test_a_plan_refuses_what_the_job_would_fail_with(client, inputs, changes, words):
    with pytest.raises(JobError, match=words):
        client.plan(PCA(inputs, **{**PRIVACY, "components": 1, **changes}))


def test_many_jobs_run_beside_each_other_in_an_asynchronous_program(deployment):
    async def ask():
        async with AsyncClient(str(deployment.client_config)) as asking:
            question = SecureMean(PEOPLE_OF_TWO, **PRIVACY, max_rows=500)
            results = await asyncio.gather(*(asking.run(question) for _ in range(3)))
            assert (await asking.jobs(1))[0].state == "DONE"
            return [result.mean for result in results]

    assert len({tuple(mean) for mean in asyncio.run(ask())}) == 3


PEOPLE_OF_TWO = {owner: ("people", ["x0", "x1"]) for owner in ("bank", "hospital", "telco")}


def test_a_job_that_waits_for_an_owner_can_be_cancelled(deployment):
    async def ask():
        async with AsyncClient(deployment.client_config) as asking:
            waiting = await asking.submit(PCA(PEOPLE, epsilon=2 * ASKED_FROM, delta=1e-6, components=1))
            view = await waiting.cancel()
            with pytest.raises(JobFailedError, match="is CANCELLED: cancelled by analyst"):
                await waiting.result()
            assert waiting.job_id in repr(waiting)
            return view.state

    assert asyncio.run(ask()) == "CANCELLED"


def test_a_closed_client_opens_again_when_it_is_used(deployment):
    one = Client(deployment.client_config)
    assert one.jobs(1)
    one.close()
    assert one.jobs(1)
    one.close()


def test_an_environment_variable_names_the_configuration_and_a_missing_one_is_said(deployment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MOIETY_CLIENT", raising=False)
    with pytest.raises(SettingsError, match=r"client\.toml: there is no such file"):
        Client()
    monkeypatch.setenv("MOIETY_CLIENT", str(deployment.client_config))
    assert Client().config.coordinator.name == COORDINATOR_NAME


def test_a_coordinator_that_does_not_answer_is_said(deployment):
    config = Client(deployment.client_config).config
    entry = config.coordinator.model_copy(update={"address": "127.0.0.1:9"})
    with Client(config.model_copy(update={"coordinator": entry})) as nowhere, pytest.raises(UnreachableError):
        nowhere.jobs()


PROGRAM = """
import asyncio, sys
from moiety import Client
async def cell():  # a notebook runs cells while its own loop runs
    client = Client(sys.argv[1])
    return len(client.jobs(1))
print(asyncio.run(cell()))
"""


def test_a_client_works_where_a_loop_runs_already_and_lets_its_program_end(deployment):
    command = [sys.executable, "-c", PROGRAM, str(deployment.client_config)]
    done = subprocess.run(command, capture_output=True, text=True, env=child_environ(), timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_job_file_is_asked_for_by_its_path(client, tmp_path):
    path = Path(tmp_path / "job.toml")
    path.write_text(
        'analysis = "pca"\n'
        + "".join(f'[[inputs]]\nparty = "{party}"\ntable = "people"\ncolumns = ["x0"]\n' for party in PEOPLE)
        + "[privacy]\nepsilon = 40.0\ndelta = 1e-6\n[parameters]\ncomponents = 1\n"
    )
    assert client.run(path).job == Job.from_toml(path.read_text())
