"""A coordinator that shows different plans to different parties, over real services, for each way to meet.

`security/test_two_plans.py` has all analyses, in one process.
The parties are the real ones; the coordinator's process is the real one but for what it shows to some of them.
"""

import csv
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import registry_jobs
from deadlines import GENEROUS_S
from federation import Analyst, all_text, result_of
from forked_services import ForkedDeployment
from registry_jobs import (
    BOUNDS,
    HELPERS,
    MOST_USERS,
    N_RATED,
    OWNERS,
    PER_USER,
    ROWS,
    VARIANTS,
    ratings_of,
    values_of,
)
from two_faced_coordinator import LIES
from typer.testing import CliRunner

from analyses.registry import ANALYSES
from cli.main import app
from demo.local_deployment import COORDINATOR_NAME, LocalRatings, LocalTable
from dp.cost.views import PERSON_AT_PARTY_UNIT, RATING_UNIT, ROW_UNIT

LIMIT = 50.0
"""The limit that party `three`, which only computes, sets on the epsilon of a job."""

LARGER_EPSILON = 48.0
"""Than that of the jobs that all others are shown, 40."""

ACCUSATION = f"coordinator {COORDINATOR_NAME} showed different plans to "
DOUBT = "does not tell the truth or runs another version"
BUDGET = (1e5, 1e-5)


class TwoFacedDeployment(ForkedDeployment):
    """A federation whose coordinator lies."""

    def start(self, name):
        if name != COORDINATOR_NAME:
            super().start(name)
            return
        self.launch(name, "two_faced_coordinator", "coordinator", "serve", "--config", str(self.config_path(name)))


def write_people(folder, owner):
    path = folder / f"{owner}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *BOUNDS])
        writer.writerows([f"row-{i}", *row] for i, row in enumerate(values_of(owner).tolist()))
    return LocalTable("people", path, BOUNDS, ROWS, "id")


def write_ratings(folder, owner):
    path = folder / f"{owner} ratings.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "item", "stars"])
        writer.writerows(zip(*(column.tolist() for column in ratings_of(owner)), strict=True))
    declared = LocalRatings("user", "item", "stars", N_RATED, MOST_USERS, PER_USER)
    return LocalTable("users", path, {"stars": BOUNDS["x0"]}, ROWS, unit=PERSON_AT_PARTY_UNIT, ratings=declared)


def tables_of(folder, owner):
    """Two tables, each offered twice, with budgets of different units: of columns and of ratings."""
    people, ratings = write_people(folder, owner), write_ratings(folder, owner)
    return [
        people,
        replace(people, name="rows", unit=ROW_UNIT),
        ratings,
        replace(ratings, name="items", unit=RATING_UNIT),
    ]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    lies = folder / "lies.json"
    lies.write_text("{}")
    support = str(Path(registry_jobs.__file__).parent)
    tables = {**{owner: tables_of(folder, owner) for owner in OWNERS}, **{helper: [] for helper in HELPERS}}
    anybody = {"policy.automatic": {"max_epsilon_per_job": BUDGET[0], "exact_tables": ["people"]}}
    anybody["policy.limits"] = {"exact_tables": ["people"]}
    only_computes = {"policy.automatic": {"max_epsilon_per_job": BUDGET[0]}}
    policy = dict.fromkeys(OWNERS, anybody) | dict.fromkeys(HELPERS, only_computes)
    limit = {"max_epsilon_per_job": LIMIT}
    policy["three"] = {"policy.automatic": limit, "policy.limits": limit}
    environment = {"PYTHONPATH": support, LIES: str(lies)}
    with TwoFacedDeployment(folder / "run", tables, environment=environment, budget=BUDGET, policy=policy) as running:
        running.lies = lies
        yield running


def lies_about(variant):
    """Return a lie for each of what may be shown differently, and to whom: see `TwoFacedProposal`."""
    computing = HELPERS if variant.has_helpers else OWNERS
    privacy = variant.privacy_of(LARGER_EPSILON)
    only_computing = HELPERS if variant.has_helpers else OWNERS[2:]
    reverse = {"compute": computing[::-1]} if variant.has_helpers else {"inputs": inputs_of(variant)[::-1]}
    lies = {
        "epsilon, to those that only compute": {"victims": only_computing, "job": {"privacy": privacy}},
        "epsilon, to one owner": {"victims": OWNERS[:1], "job": {"privacy": privacy}},
        "parameters, to one compute party": {
            "victims": computing[1:2],
            "job": {"parameters": {**variant.parameters, **variant.others}},
        },
        "schemas, to one compute party": {"victims": computing[2:], "upper": {"bank": 2.0}},
        "roster, to one compute party": {"victims": computing[:1], "job": reverse},
        "analyst, to all owners but one": {"victims": OWNERS[1:], "analyst": "mallory"},
    }
    if ANALYSES[variant.analysis].may_be_exact:
        lies["no noise, to one owner"] = {"victims": OWNERS[:1], "job": {"privacy": None}}
    return lies


def inputs_of(variant):
    return [{"party": o, "table": variant.table, "columns": variant.columns_of(o)} for o in OWNERS]


def budgets(deployment):
    """What every owner's ledger says of its tables: spent, held and exact results, in all."""
    found = {}
    for owner in OWNERS:
        command = ["budget", "show", "--format", "json", "--config", str(deployment.config_path(owner))]
        of_tables = json.loads(CliRunner().invoke(app, command).stdout)["budgets"]
        found[owner] = tuple(
            sum(budget[key] for budget in of_tables) for key in ("spent_epsilon", "held_epsilon", "exact_results")
        )
    return found


def wait_until_released(deployment, before):
    """Reservations are given back when the party hears of the end, in the background."""
    deadline = time.monotonic() + GENEROUS_S
    while (now := budgets(deployment)) != before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert now == before, (before, now)


MEETING = ["pca", "clustering", "secure-sum", "logistic-regression", "matrix-factorization"]


@pytest.mark.parametrize("analysis", MEETING)
def test_two_plans_are_found_out_before_any_share_moves_and_cost_nobody_anything(deployment, analysis):
    variant, analyst, before = VARIANTS[analysis], Analyst(deployment), budgets(deployment)
    lies = lies_about(variant)
    deployment.lies.write_text(json.dumps(lies))
    jobs = {what: analyst.submit(variant.job(title=what)) for what in lies}
    stages = {what: set() for what in lies}
    views = {
        what: analyst.wait(job_id, on_event=lambda event, seen=stages[what]: seen.add(event.stage))
        for what, job_id in jobs.items()
    }
    for what, view in views.items():
        assert (view.state, view.result_json) == ("FAILED", ""), f"{what}: {view.reason}"
        assert ACCUSATION in view.reason, f"{what}: {view.reason}"
        assert DOUBT in view.reason
        assert (view.culprit, view.stage) == ("", "keys"), f"{what}: {view.reason}"
        # Sums read or add up their own rows first; nothing is said of them.
        before_words = {"", "start", "reading", "keys", "key confirmation"} | (
            set() if variant.has_helpers else {"rows", "ratings"}
        )
        assert stages[what] <= before_words, what
    wait_until_released(deployment, before)
    text = all_text(deployment)
    assert "Traceback" not in text, text[text.index("Traceback") :][:3000]
    failures = [json.loads(line) for line in text.splitlines() if '"job failed"' in line]
    for what, job_id in jobs.items():
        accused = {entry["member"] for entry in failures if entry["job"] == job_id and ACCUSATION in entry["reason"]}
        assert COORDINATOR_NAME in accused, what


@pytest.mark.parametrize("analysis", MEETING)
def test_the_same_jobs_shown_alike_come_to_a_result_and_are_charged(deployment, analysis):
    before = budgets(deployment)
    result_of(Analyst(deployment).run(VARIANTS[analysis].job(title="the truth")))
    after = budgets(deployment)
    assert all(after[owner][0] > before[owner][0] for owner in OWNERS)


def test_hardly_any_noise_from_most_compute_parties_is_found_out(deployment):
    """The owners and one compute party are to add noise for epsilon 4, the others next to none."""
    before = budgets(deployment)
    privacy = {"epsilon": 5000.0, "delta": 1e-6}
    lie = {"victims": ["one", "two"], "job": {"privacy": privacy}}
    deployment.lies.write_text(json.dumps({"hardly any noise": lie}))
    job = VARIANTS["pca"].job(title="hardly any noise", privacy={"epsilon": 4.0, "delta": 1e-6})
    view = Analyst(deployment).run(job)
    assert (view.state, view.result_json) == ("FAILED", "")
    assert ACCUSATION in view.reason
    wait_until_released(deployment, before)


@pytest.mark.parametrize("name", ["pca", "clustering", "moments, sketch"])
def test_a_limit_of_epsilon_holds_at_a_party_that_only_computes(deployment, name):
    before = budgets(deployment)
    view = Analyst(deployment).run(VARIANTS[name].job_of_epsilon(4000.0))
    assert (view.state, view.culprit) == ("FAILED", "three"), view.reason
    assert "party three refused: by its policy: epsilon " in view.reason
    assert "of the job is above 50 (worst view)" in view.reason
    wait_until_released(deployment, before)
