"""PCA jobs over real services: separate processes, mutual TLS on loopback."""

import json
import re
import signal

import numpy as np
import pytest
from federation import ROWS, Analyst, all_text, memory_table, pca_job, random_values, result_of, tables_of, write_table
from forked_services import ForkedDeployment
from typer.testing import CliRunner

from analyses.pca import protocol as pca
from cli.main import app
from demo.local_deployment import COORDINATOR_NAME, LocalTable
from service.errors import InvalidRequestError, NotAllowedError
from service.identity import Role

PARTIES = ("bank", "hospital", "telco")
VALUES = {
    name: random_values((400, width), seed) for seed, (name, width) in enumerate(zip(PARTIES, (3, 2, 2), strict=True))
}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = tables_of(VALUES, folder)
    rows = VALUES["hospital"]
    bad = rows.copy()
    swapped = [f"row-{i}" for i in [1, 0, *range(2, len(rows))]]
    more = {
        "short": write_table(folder / "short.csv", rows[:-1]),
        "swapped": write_table(folder / "swapped.csv", rows, swapped),
        "outside": write_table(folder / "outside.csv", rows * 10),
        "few": write_table(folder / "few.csv", rows, rows=(401, 1000)),
    }
    for name, text in (("nan", "nan"), ("infinite", "inf"), ("words", "many"), ("empty", "")):
        write_table(folder / f"{name}.csv", bad)
        lines = (folder / f"{name}.csv").read_text().splitlines()
        lines[7] = f"row-6,{text},0.5"
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        more[name] = LocalTable(name, folder / f"{name}.csv", {"x0": (-1.0, 3.0), "x1": (-1.0, 3.0)}, ROWS, "id")
    missing = {"x0": (-1.0, 3.0), "x9": (-1.0, 3.0)}
    more["missing"] = LocalTable("missing", folder / "hospital.csv", missing, ROWS, "id")
    renamed = [LocalTable(name, t.path, t.bounds, t.rows, t.id_column) for name, t in more.items()]
    tables["hospital"] = [*tables["hospital"], *renamed]
    big = {name: random_values((150_000, 12), seed) for seed, name in enumerate(PARTIES)}
    for name, block in big.items():
        header = ",".join(f"x{i}" for i in range(12))
        np.savetxt(folder / f"{name}-big.csv", block, delimiter=",", header=header, comments="", fmt="%.4f")
        bounds = {f"x{i}": (-1.0, 3.0) for i in range(12)}
        tables[name] = [*tables[name], LocalTable("big", folder / f"{name}-big.csv", bounds, (100_000, 200_000))]
    (folder / "run").mkdir()
    short = {"MOIETY_PARTY__LEAST_DEADLINE_S": "1"}  # so that lost parties are missed soon
    with ForkedDeployment(folder / "run", tables, environment=short) as running:
        yield running


@pytest.fixture(scope="module")
def analyst(deployment):
    return Analyst(deployment)


def job_with_table(table, **changes):
    inputs = [{"party": p, "table": table if p == "hospital" else "people"} for p in PARTIES]
    return pca_job(PARTIES, inputs=inputs, **changes)


def numbers_in(tree) -> set[float]:
    if isinstance(tree, dict | list):
        inner = tree.values() if isinstance(tree, dict) else tree
        return set().union(*map(numbers_in, inner))
    return {tree} if isinstance(tree, int | float) else set()


def big_job(**changes):
    """A job on the large tables, which have no ids."""
    fields = {"inputs": [{"party": p, "table": "big"} for p in PARTIES], "order": "trusted"}
    return pca_job(PARTIES, **(fields | changes))


def test_tables_without_ids_are_not_joined_unless_the_job_trusts_their_order(analyst, deployment):
    view = analyst.run(big_job(order=None))
    assert view.state == "FAILED"
    assert 'order = "trusted"' in view.reason
    for party in PARTIES:
        command = ["budget", "show", "--format", "json", "--config", str(deployment.config_path(party))]
        budgets = json.loads(CliRunner().invoke(app, command).stdout)["budgets"]
        assert [one["held_epsilon"] for one in budgets if one["dataset"] == "big"] == [0.0]


def test_the_components_agree_with_the_reference_on_the_pooled_table(analyst):
    job = pca_job(PARTIES, parameters={"components": 2, "center": False, "gamma": 1024, "max_rows": 1_000_000})
    result = result_of(analyst.run(job))
    tables = [memory_table(p, VALUES[p]) for p in PARTIES]
    plan = pca.plan(job, [t.schema for t in tables])
    exact = pca.reference(tables, plan)
    values, components = pca.leading_components(exact, 2)
    assert result["columns"] == ["bank.x0", "bank.x1", "bank.x2", "hospital.x0", "hospital.x1", "telco.x0", "telco.x1"]
    assert np.allclose(result["eigenvalues"][0], values[0], rtol=0.02)
    assert abs(np.dot(result["components"][0], components[0])) > 0.999
    assert result["privacy"]["views"]["coalition"]["epsilon"] <= 50.0


def test_values_outside_the_bounds_are_clipped_and_counted_in_the_owners_report_only(analyst, deployment):
    view = analyst.run(job_with_table("outside"))
    result_of(view)
    report = deployment.report("hospital", view.job_id)
    n_outside = int(((VALUES["hospital"][:, 0] * 10 < -1) | (VALUES["hospital"][:, 0] * 10 > 3)).sum())
    assert report["clipped_values"]["x0"] == n_outside
    told = numbers_in(json.loads(view.result_json)) | numbers_in(json.loads(view.plan_json))
    assert not told & {n_outside, len(VALUES["hospital"])}


DETAILS = {
    "nan": "column 'x0' has a value that is not a number",
    "words": "column 'x0' is not numeric",
    "empty": "column 'x0' has an empty value",
    "missing": "column 'x9' is missing in its file",
    "few": "its number of rows is outside the range that its owner declares",
}


@pytest.mark.parametrize("table", DETAILS)
@pytest.mark.parametrize("parameters", [{}, {"parameters": {"components": 2, "gamma": 1024, "max_rows": 2000}}])
def test_a_table_that_cannot_be_used_is_refused_in_the_same_words_and_its_owner_finds_the_reason(
    analyst, deployment, table, parameters
):
    view = analyst.run(job_with_table(table, **parameters))
    assert (view.state, view.culprit, view.result_json) == ("FAILED", "hospital", "")
    said = f"table {table!r} of party 'hospital' cannot be used; its owner finds the reason in the log of the service"
    assert view.reason.partition(": ")[2] == said
    assert DETAILS[table] in deployment.log_path("hospital").read_text()
    assert DETAILS[table] not in deployment.log_path(COORDINATOR_NAME).read_text()


def test_a_table_that_nobody_configured_is_refused_by_name(analyst):
    view = analyst.run(job_with_table("nothing"))
    assert (view.state, view.culprit) == ("FAILED", "hospital")
    assert "party 'hospital' has no table 'nothing'" in view.reason


def test_an_infinite_value_is_clipped_like_any_other_outside_the_bounds(analyst, deployment):
    view = analyst.run(job_with_table("infinite"))
    result_of(view)
    assert deployment.report("hospital", view.job_id)["clipped_values"]["x0"] == 1


def test_tables_that_do_not_match_fail_alike_in_whatever_they_differ_and_nothing_is_opened(analyst):
    seen = []
    for table in ("short", "swapped"):
        view = analyst.run(job_with_table(table))
        assert (view.state, view.culprit, view.result_json) == ("FAILED", "hospital", "")
        seen.append(view.reason.partition(": ")[2])  # before it stands whichever party was the first to tell
    assert seen == ["the tables of hospital and bank do not hold the same rows in the same order"] * 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": {"components": 2, "gamma": 1, "max_rows": 1000}}, "gamma"),
        ({"parameters": {"components": 99, "gamma": 64, "max_rows": 1000}}, "components"),
        ({"parameters": {"components": 2, "gamma": 1 << 20, "max_rows": 1 << 99}}, "the largest field has 126"),
        (
            {"parameters": {"components": 2, "gamma": 64, "max_rows": 999}},
            "999 is smaller than 1000, the largest number of rows that table 'people' of party 'bank' declares",
        ),
        ({"privacy": {"epsilon": 1e-30, "delta": 1e-6}}, "privacy"),
    ],
)
def test_a_job_that_cannot_be_met_fails_with_the_field_and_the_reason(analyst, changes, words):
    view = analyst.run(pca_job(PARTIES, **changes))
    assert view.state == "FAILED"
    assert words in view.reason
    assert view.result_json == ""


def test_a_party_that_is_not_in_the_roster_is_refused_by_name_at_submission(analyst):
    with pytest.raises(
        InvalidRequestError,
        match="inputs: there is no party 'nobody' in the roster; the roster has bank, hospital, telco",
    ):
        analyst.submit(pca_job(PARTIES, compute=["bank", "hospital", "nobody"]))


def test_too_few_parties_are_refused_at_submission(analyst):
    with pytest.raises(InvalidRequestError, match="needs 5 compute parties, the job has 3"):
        analyst.submit(pca_job(PARTIES, colluding=2))


def test_a_party_may_not_submit_jobs(deployment):
    with pytest.raises(NotAllowedError, match=r"spiffe://local/party/bank"):
        Analyst(deployment, role=Role.PARTY, name="bank").submit(pca_job(PARTIES))


def test_a_party_killed_before_the_job_is_named_and_the_next_job_works_when_it_is_back(analyst, deployment):
    deployment.send_signal("telco", signal.SIGKILL)
    view = analyst.run(pca_job(PARTIES))  # nobody waits for a deadline: nothing listens at its address
    assert (view.state, view.culprit) == ("FAILED", "telco")
    assert "telco" in view.reason
    deployment.start("telco")
    deployment.wait_until_ready("telco")
    result_of(analyst.run(pca_job(PARTIES)))


STOPPED_S = 60.0
"""Deadline of a job that waits for a party which is there and does nothing. The others have it, too."""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
def test_a_party_lost_in_the_middle_is_named_with_its_stage_within_the_deadline(analyst, deployment, number):
    def strike(event):
        if event.member == "telco" and event.stage:  # the first one that is told: later ones may come too late
            deployment.send_signal("telco", number)

    view = analyst.run(big_job(deadline_s=600.0 if number == signal.SIGKILL else STOPPED_S), on_event=strike)
    assert (view.state, view.culprit) == ("FAILED", "telco")
    assert view.stage
    assert "telco" in view.reason
    assert view.result_json == ""
    if number == signal.SIGKILL:
        deployment.start("telco")
        deployment.wait_until_ready("telco")
    else:
        deployment.send_signal("telco", signal.SIGCONT)
    result_of(analyst.run(pca_job(PARTIES)))


def test_a_running_job_can_be_cancelled_and_the_next_one_works(analyst):
    cancelled = []

    job_id = analyst.submit(big_job())
    view = analyst.cancel(job_id)
    cancelled.append(view.state)
    view = analyst.wait(job_id)
    assert view.state == "CANCELLED"
    assert view.result_json == ""
    result_of(analyst.run(pca_job(PARTIES)))


def test_no_log_holds_a_count_of_rows_or_a_key(deployment, analyst):
    result_of(analyst.run(pca_job(PARTIES)))
    text = all_text(deployment)
    assert '"job"' in text
    assert "PRIVATE KEY" not in text
    assert "row-" not in text
    assert not re.search(r"\b(399|400)\b", text)


def test_services_stop_gracefully_on_sigterm(deployment, analyst):
    deployment.send_signal("telco", signal.SIGTERM)
    assert deployment.processes["telco"].wait(timeout=120) == 0
    deployment.start("telco")
    deployment.wait_until_ready("telco")
    result_of(analyst.run(pca_job(PARTIES)))
