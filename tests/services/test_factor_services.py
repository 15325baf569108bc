"""Matrix factorization over real services: processes with ledgers, members killed in and between rounds, commands.

Of four parties one may drop out. It kills itself before it sends a message of a round, which no party does before all
have committed; the coordinator does before it announces a round.
"""

import csv
import json
import re
import signal
from itertools import product
from pathlib import Path

import dying_member
import pytest
from deadlines import GENEROUS_S
from dying_member import announcing
from federation import Analyst, jobs_paid, result_of
from forked_services import ForkedDeployment
from rating_jobs import (
    BOUNDS,
    PER_USER,
    SGD,
    SGD_VERTICAL_PARTY,
    VERTICAL,
    horizontal_tables,
    job_of,
    rows_of,
    table_of,
    vertical_tables,
)
from typer.testing import CliRunner

from analyses.matrix_factorization.jobs.earlier import start_of
from cli.main import app
from demo.local_deployment import COORDINATOR_NAME, LocalRatings, LocalTable
from dp.cost.views import PERSON_AT_PARTY_UNIT, RATING_UNIT
from mpc.secagg.stage import Stage

PARTIES = ("bank", "clinic", "hospital", "telco")
HORIZONTAL = {"rank": 1, "rounds": 2}
PAGE = Path(__file__).parents[2] / "docs" / "analyses" / "matrix-factorization.md"


def write(folder, name, party, table, unit, n_items=None):
    rows, schema = table.ratings, table.schema.ratings
    path = folder / f"{party} {name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "item", "stars"])
        users = [rows.user_names[place] for place in rows.users]
        writer.writerows(zip(users, rows.items.tolist(), rows.values.tolist(), strict=True))
    declared = LocalRatings("user", "item", "stars", n_items or schema.items, schema.users, PER_USER)
    return LocalTable(name, path, {"stars": BOUNDS}, (1, 10_000), unit=unit, ratings=declared)


def new_ratings(table, newcomer):
    """One rating of a user whom the table has, and one of somebody else."""
    known = table.ratings.user_names[0]
    declared = table.schema.ratings
    rows = rows_of([known, newcomer], [0, 1], [2.0, -1.0])
    return table_of(table.schema.party, rows, n_items=declared.items, users=declared.users)


class DyingDeployment(ForkedDeployment):
    """A federation whose party `telco`, or whose coordinator, dies where `dies_at` says."""

    def start(self, name):
        if name not in ("telco", COORDINATOR_NAME):
            super().start(name)
            return
        service = "coordinator" if name == COORDINATOR_NAME else "party"
        self.launch(name, "dying_member", service, "serve", "--config", str(self.config_path(name)))

    def start_again(self, name):
        if self.processes[name].poll() is not None:
            self.start(name)
            self.wait_until_ready(name)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    of_users, of_items = horizontal_tables(PARTIES), vertical_tables(PARTIES)
    tables = {
        party: [
            write(folder, "ratings", party, of_users[party], PERSON_AT_PARTY_UNIT),
            write(folder, "lists", party, of_users[party], PERSON_AT_PARTY_UNIT, 13 if party == "telco" else None),
            write(folder, "items", party, of_items[party], RATING_UNIT),
            write(folder, "steps", party, of_users[party], PERSON_AT_PARTY_UNIT),
            write(folder, "item-steps", party, of_items[party], RATING_UNIT),
            *(write(folder, name, party, of_users[party], PERSON_AT_PARTY_UNIT) for name in ("old", "cold")),
            write(folder, "new", party, new_ratings(of_users[party], party), PERSON_AT_PARTY_UNIT),
            *(write(folder, name, party, of_items[party], RATING_UNIT) for name in ("old-items", "cold-items")),
            write(folder, "new-items", party, new_ratings(of_items[party], "5"), RATING_UNIT),
        ]
        for party in PARTIES
    }
    dies_at = folder / "dies at"
    dies_at.write_text("")
    environment = {"PYTHONPATH": str(Path(dying_member.__file__).parent), dying_member.DIES_AT: str(dies_at)}
    with DyingDeployment(folder / "run", tables, environment=environment) as running:
        running.dies_at = dies_at
        yield running


def job_on(table, parameters, **changes):
    inputs = [{"party": party, "table": table} for party in PARTIES]
    changes = {"deadline_s": 240.0, "privacy": {"epsilon": 40.0, "delta": 1e-6}} | changes
    return job_of(PARTIES, inputs=inputs, colluding=1, parameters=parameters, **changes)


def told(deployment, party, *arguments):
    return CliRunner().invoke(app, [*arguments, "--config", str(deployment.config_path(party))])


def spent(deployment, party, table):
    shown = json.loads(told(deployment, party, "budget", "show", "--format", "json").stdout)["budgets"]
    return next(one["spent_epsilon"] for one in shown if one["dataset"] == table)


@pytest.mark.parametrize(("table", "parameters"), [("ratings", HORIZONTAL), ("items", VERTICAL)])
def test_a_job_is_paid_once_for_all_rounds_and_recommends_as_the_page_says(deployment, table, parameters):
    before = spent(deployment, "bank", table)
    view = Analyst(deployment).run(job_on(table, parameters))
    result = result_of(view)
    n_sums = len(result["rounds"])
    assert n_sums == (2 if table == "items" else 3)
    assert result["rounds_paid"] == result["rounds_opened"] == list(range(n_sums))
    assert spent(deployment, "bank", table) > before
    command = re.search(r"`moiety (party recommend --job J --user U --top 10)`", " ".join(PAGE.read_text().split()))[1]
    arguments = command.replace(" J ", f" {view.job_id} ").replace(" U ", " 0 ").split()
    deployment.report("bank", view.job_id)
    shown = told(deployment, "bank", *arguments)
    assert shown.exit_code == 0, shown.output
    assert 1 <= len(shown.stdout.splitlines()) <= 10
    assert "recommend" in CliRunner().invoke(app, ["party", "--help"]).stdout


@pytest.mark.parametrize(
    ("table", "parameters"), [("steps", SGD), pytest.param("item-steps", SGD_VERTICAL_PARTY, marks=pytest.mark.slow)]
)
def test_all_steps_of_a_descent_are_charged_at_once_what_the_result_states_and_recommend(deployment, table, parameters):
    """The first job about its tables: what is spent is what it cost, at every party."""
    view = Analyst(deployment).run(job_on(table, parameters))
    result = result_of(view)
    assert (result["form"], result["rounds_opened"]) == ("sgd", [0, 1, 2])
    stated = max(one["epsilon"] for one in result["privacy"]["views"].values())
    assert 38 < stated <= 40
    for party in PARTIES:
        assert spent(deployment, party, table) == pytest.approx(stated, rel=1e-9)
    deployment.report("bank", view.job_id)
    shown = told(deployment, "bank", "party", "recommend", "--job", view.job_id, "--user", "0", "--top", "3")
    assert shown.exit_code == 0, shown.output
    assert 1 <= len(shown.stdout.splitlines()) <= 3


@pytest.mark.parametrize(("tables", "parameters"), [("", HORIZONTAL), ("-items", VERTICAL)])
def test_a_start_charges_the_table_of_new_ratings_alone_and_a_person_in_both_has_paid_for_both(
    deployment, tables, parameters
):
    """`old` and `new` have one user in common; `cold` is declared as `new` is, and its job starts from nothing."""
    old, new, cold = (f"{name}{tables}" for name in ("old", "new", "cold"))
    first = result_of(Analyst(deployment).run(job_on(old, parameters)))
    paid = spent(deployment, "bank", old)
    assert paid > 0
    assert spent(deployment, "bank", new) == 0
    started = {**parameters, "start": start_of(first)}
    second = result_of(Analyst(deployment).run(job_on(new, started)))
    result_of(Analyst(deployment).run(job_on(cold, parameters)))
    for party in PARTIES:
        assert spent(deployment, party, old) == paid
        assert spent(deployment, party, new) == spent(deployment, party, cold) == paid
    assert second["privacy"] == first["privacy"]
    # Whoever takes the old table again, for the sake of a few new rows in it, has all of it charged again.
    result_of(Analyst(deployment).run(job_on(old, started)))
    assert spent(deployment, "bank", old) > 1.2 * paid


@pytest.mark.parametrize(("table", "parameters"), [("ratings", HORIZONTAL), ("items", VERTICAL)])
def test_two_owners_alone_factor_and_each_is_told_whose_model_it_keeps(deployment, table, parameters):
    """`items` are of four owners' items, of whom two ask."""
    two = PARTIES[:2]
    inputs = [{"party": party, "table": table} for party in two]
    job = job_of(two, inputs=inputs, parameters=parameters, privacy={"epsilon": 40.0, "delta": 1e-6}, deadline_s=240.0)
    view = Analyst(deployment).run(job)
    result = result_of(view)
    assert [one["survivors"] for one in result["rounds"]] == [list(two)] * len(result["rounds_paid"])
    assert set(result["privacy"]["views"]) == {"coordinator", "coalition"}
    deployment.report("bank", view.job_id)
    assert "own model kept for recommendations: " in told(deployment, "bank", "party", "report", view.job_id).stdout


def test_a_party_whose_list_of_items_differs_is_refused_before_any_cost(deployment):
    before = [spent(deployment, party, "lists") for party in PARTIES]
    view = Analyst(deployment).run(job_on("lists", HORIZONTAL))
    assert view.state == "FAILED"
    assert "telco and bank have different lists of items" in view.reason
    assert [spent(deployment, party, "lists") for party in PARTIES] == before


STAGES = (Stage.ADVERTISE, Stage.SHARE, Stage.MASK, Stage.AGREE, Stage.UNMASK)
CASES = (
    *product(("ratings",), STAGES, (1,)),
    ("items", Stage.SHARE, 1),
    ("items", Stage.AGREE, 0),
    ("ratings", Stage.UNMASK, 3),
)
QUICK = ("ratings", Stage.MASK, 1)


@pytest.mark.parametrize(
    ("table", "stage", "number"),
    [pytest.param(*case, marks=[] if case == QUICK else [pytest.mark.slow]) for case in CASES],
)
def test_a_party_killed_within_a_round_or_between_rounds_does_not_stop_the_job(deployment, table, stage, number):
    """It dies before it sends its message of a stage: of the first stage of a later round, between rounds."""
    settings = {"rank": 1, "rounds": max(1, number)} if table == "ratings" else VERTICAL | {"rounds": 1 + number}
    killed_in(deployment, table, settings, stage, number)


@pytest.mark.parametrize(
    ("table", "parameters", "stage", "number"),
    [
        pytest.param("steps", SGD, *case, marks=[] if case == (Stage.MASK, 1) else [pytest.mark.slow])
        for case in ((Stage.ADVERTISE, 0), (Stage.MASK, 1), (Stage.UNMASK, 2))
    ]
    + [pytest.param("item-steps", SGD_VERTICAL_PARTY, Stage.AGREE, 0, marks=pytest.mark.slow)],
)
def test_so_it_is_in_every_round_of_a_descent(deployment, table, parameters, stage, number):
    killed_in(deployment, table, parameters, stage, number)


def killed_in(deployment, table, settings, stage, number):
    """Kill the telco where a stage of a round begins for it, and see who is in which round."""
    deployment.dies_at.write_text(f"{stage}, round {number}, attempt 0")
    try:
        view = Analyst(deployment).run(job_on(table, settings))
        assert deployment.processes["telco"].wait(60.0) == -signal.SIGKILL
    finally:
        deployment.dies_at.write_text("")
        deployment.start_again("telco")
    result = result_of(view)
    assert result["rounds_opened"] == result["rounds_paid"]
    assert number in result["rounds_opened"]
    for t, one in enumerate(result["rounds"]):
        assert {"bank", "clinic", "hospital"} <= set(one["survivors"])
        has_sent_its_vector = t < number or (t == number and stage in (Stage.AGREE, Stage.UNMASK))
        assert ("telco" in one["survivors"]) == has_sent_its_vector
    assert spent(deployment, "telco", table) > 0


@pytest.mark.slow  # the quick case is a party's; here budgets of all are read, and a coordinator starts again
@pytest.mark.parametrize(
    ("table", "settings"),
    [("ratings", HORIZONTAL), ("items", VERTICAL), ("steps", SGD), ("item-steps", SGD_VERTICAL_PARTY)],
)
def test_a_coordinator_killed_between_rounds_goes_on_with_all_rounds_and_they_are_paid_once(
    deployment, table, settings
):
    analyst = Analyst(deployment)
    before = jobs_paid(deployment, PARTIES)
    deployment.dies_at.write_text(announcing(1))
    try:
        job_id = analyst.submit(job_on(table, settings))
        assert deployment.processes[COORDINATOR_NAME].wait(GENEROUS_S) == -signal.SIGKILL
    finally:
        deployment.dies_at.write_text("")
        deployment.start_again(COORDINATOR_NAME)
    result = result_of(analyst.wait(job_id, timeout_s=GENEROUS_S))
    assert result["rounds_opened"] == result["rounds_paid"] == list(range(len(result["rounds"])))
    assert all(set(one["survivors"]) == set(PARTIES) for one in result["rounds"])
    assert jobs_paid(deployment, PARTIES) == {party: n + 1 for party, n in before.items()}
    deployment.report("bank", job_id)
    shown = told(deployment, "bank", "party", "recommend", "--job", job_id, "--user", "0")
    assert shown.exit_code == 0, shown.output
