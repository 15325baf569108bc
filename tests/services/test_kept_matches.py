"""A match that is computed once, kept by each owner and named by later jobs, over real services, and its faults."""

import json
import signal

import numpy as np
import pytest
from federation import Analyst, all_text, result_of
from forked_services import ForkedDeployment
from typer.testing import CliRunner

from analyses.job.job import Job
from cli.main import app
from demo.local_deployment import COORDINATOR_NAME, LocalTable
from party.config import load_party_config
from party.tables.kept_matches import KeptMatches

PARTIES = ("bank", "clinic", "shop")
N_COMMON = 60
MATCHING = '\n[tables.matching]\ncolumns = ["number"]\nnormalise = ["integer"]\nreveal = true\n'
TABLES = ("people", "changing", "others")


def value_of(party, number):
    """0 or 1: what a party knows of a customer."""
    return (number * (3, 5, 7)[PARTIES.index(party)] // 4) % 2


def write(path, party, numbers):
    path.write_text("number,x\n" + "".join(f"{number},{value_of(party, number)}\n" for number in numbers))


def numbers_of(party):
    own = np.arange(N_COMMON) + 1000 * (1 + PARTIES.index(party))
    return np.random.default_rng(PARTIES.index(party)).permutation(np.concatenate([np.arange(N_COMMON), own]))


def table_path(folder, party, name):
    return folder / f"{party}-{name}.csv"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = {party: [] for party in PARTIES}
    for party in PARTIES:
        for name in TABLES:
            path = table_path(folder, party, name)
            write(path, party, numbers_of(party))
            tables[party].append(LocalTable(name, path, {"x": (0, 1)}, (10, 200), sections=MATCHING))
    (folder / "run").mkdir()
    rules = {"max_epsilon_per_job": 1e6, "matching": ["revealed"]}
    policy = {party: {"policy.automatic": rules} for party in PARTIES}
    with ForkedDeployment(folder / "run", tables, budget=(1e6, 1e-6), policy=policy) as running:
        yield running


@pytest.fixture(scope="module")
def analyst(deployment):
    return Analyst(deployment)


def job(table="people", **matching):
    fields = {
        "analysis": "pattern-count",
        "inputs": [{"party": party, "table": table} for party in PARTIES],
        "privacy": {"epsilon": 5000.0, "delta": 1e-6},
        "matching": {"kind": "revealed", **matching},
        "deadline_s": 60.0,
    }
    return Job.model_validate(fields)


def pooled():
    counts = np.zeros((2, 2, 2))
    for number in range(N_COMMON):
        counts[tuple(value_of(party, number) for party in PARTIES)] += 1
    return counts


def is_pooled(result):
    return (np.abs(np.array(result["counts"]) - pooled()) <= 6 * np.array(result["standard_errors"])).all()


@pytest.fixture(scope="module")
def kept(deployment, analyst):
    """The match of a job that keeps it, by the table that it is of."""
    found = {}
    for table in ("people", "changing"):
        view = analyst.run(job(table, keep=True))
        assert is_pooled(result_of(view))
        assert "and keeps that for later jobs" in result_of(view)["privacy"]["matching"]["reveals"]
        for party in PARTIES:
            assert deployment.report(party, view.job_id)["matched_rows"] == N_COMMON
        found[table] = view.job_id
    return found


def command(deployment, party, *arguments):
    ran = CliRunner().invoke(app, ["party", "matches", *arguments, "--config", str(deployment.config_path(party))])
    return ran.exit_code, ran.stdout, ran.stderr


def spent(deployment, table="people"):
    found = []
    for party in PARTIES:
        config = str(deployment.config_path(party))
        shown = CliRunner().invoke(app, ["budget", "show", "--format", "json", "--config", config]).stdout
        found += [one["spent_epsilon"] for one in json.loads(shown)["budgets"] if one["dataset"] == table]
    return found


def refused(deployment, analyst, asked):
    """Why a job is refused: nothing is spent by it, and no table was read for it."""
    table, seen = asked.inputs[0].table, []
    before = spent(deployment, table)
    view = analyst.run(asked, on_event=lambda event: seen.append(event.stage))
    assert (view.state, view.result_json) == ("FAILED", "")
    assert "reading" not in seen
    assert spent(deployment, table) == before
    return view.reason


def restart(deployment, *names):
    for name in names:
        deployment.send_signal(name, signal.SIGKILL)
        deployment.start(name)
    for name in names:
        deployment.wait_until_ready(name)


def stores(deployment):
    return {party: KeptMatches(deployment.data_dir(party)) for party in PARTIES}


def rekeep(store, match, *, rows=None, origin=None):
    """Let a party lie: put other rows, or the origin of another match, into what it keeps."""
    head = store.find(match)
    store.keep(
        match,
        store.rows(match) if rows is None else rows,
        inputs=head.inputs,
        table=head.table,
        recipe=head.recipe,
        version=head.version,
        ids_digest=head.ids_digest,
        origin=bytes.fromhex(head.origin) if origin is None else origin,
    )


def test_later_jobs_go_by_the_kept_match_also_after_all_services_were_restarted(deployment, analyst, kept):
    first = deployment.report("bank", kept["people"])
    assert any(stage.startswith("matching") for stage in first["traffic"])
    restart(deployment, *PARTIES, COORDINATOR_NAME)
    before = spent(deployment)
    view = analyst.run(job(match=kept["people"]))
    assert is_pooled(result_of(view))
    assert f"from job {kept['people']}" in result_of(view)["privacy"]["matching"]["reveals"]
    assert min(spent(deployment)) > max(before)
    for party in PARTIES:
        report = deployment.report(party, view.job_id)
        assert report["matched_rows"] == N_COMMON
        assert not any(stage.startswith("matching") for stage in report["traffic"])


def test_what_is_kept_is_the_owners_rows_in_one_order_and_only_the_owner_may_read_it(deployment, kept):
    order = []
    for party, store in stores(deployment).items():
        rows = store.rows(kept["people"])
        order.append(numbers_of(party)[rows].tolist())
        (path,) = (deployment.data_dir(party) / "matches").glob(f"{kept['people']}.*")
        assert path.stat().st_mode & 0o077 == 0
    assert order[0] == order[1] == order[2]
    assert sorted(order[0]) == list(range(N_COMMON))


def test_a_match_of_other_tables_is_refused(deployment, analyst, kept):
    reason = refused(deployment, analyst, job("others", match=kept["people"]))
    for party in PARTIES:
        assert (
            f"party {party} refused: match {kept['people']} is of other parties or other tables than the job" in reason
        )


def test_an_unknown_match_is_refused(deployment, analyst):
    assert "bank keeps no match nobody-made-it" in refused(deployment, analyst, job(match="nobody-made-it"))


def test_a_party_that_has_deleted_its_match_refuses_and_is_named(deployment, analyst, kept):
    again = analyst.run(job(keep=True)).job_id
    assert command(deployment, "clinic", "--delete", again)[0] == 0
    reason = refused(deployment, analyst, job(match=again))
    assert f"party clinic refused: clinic keeps no match {again}" in reason
    assert "bank" not in reason
    assert command(deployment, "clinic", "--delete", again)[0] == 4
    assert is_pooled(result_of(analyst.run(job(match=kept["people"]))))


def test_a_damaged_file_is_refused(deployment, analyst, kept):
    store = deployment.data_dir("shop") / "matches"
    (store / "damaged.match").write_bytes(b"{}\n1234")
    assert "shop keeps no match damaged that it can read" in refused(deployment, analyst, job(match="damaged"))
    code, shown, _ = command(deployment, "shop", "--format", "json")
    states = {one["match"]: one["state"] for one in json.loads(shown)}
    assert (code, states["damaged"], states[kept["people"]]) == (0, "damaged", "usable")
    assert command(deployment, "shop", "--delete", "damaged")[0] == 0


@pytest.mark.parametrize("lie", ["another order", "a row more", "a row less", "another match of the same rows"])
def test_a_party_that_goes_by_something_else_is_found_out_before_a_row_is_dealt(deployment, analyst, kept, lie):
    store, match = stores(deployment)["shop"], kept["people"]
    true = store.rows(match)
    origin = bytes.fromhex(store.find(match).origin)
    free = sorted({*range(len(numbers_of("shop")))} - {*true.tolist()})
    rows, other = {
        "another order": (true[[1, 0, *range(2, len(true))]], origin),
        "a row more": (np.append(true, free[0]), origin),
        "a row less": (true[:-1], origin),
        "another match of the same rows": (true, bytes(32)),
    }[lie]
    rekeep(store, match, rows=rows, origin=other)
    before, seen = spent(deployment), []
    try:
        view = analyst.run(job(match=match), on_event=lambda event: seen.append(event.stage))
    finally:
        rekeep(store, match, rows=true, origin=origin)
    assert (view.state, view.result_json) == ("FAILED", "")
    assert "do not hold the same rows in the same order" in view.reason
    assert {stage.split("/")[0] for stage in seen} <= {"", "reading", "keys", "rows", "row count", "same rows"}
    assert spent(deployment) == before
    assert is_pooled(result_of(analyst.run(job(match=match))))


def test_two_kept_matches_cannot_be_mixed(deployment, analyst, kept):
    again = analyst.run(job(keep=True)).job_id
    store = stores(deployment)["shop"]
    mine, theirs = store.find(kept["people"]), store.find(again)
    assert mine.origin != theirs.origin
    true = store.rows(again)
    rekeep(store, again, rows=store.rows(kept["people"]), origin=bytes.fromhex(mine.origin))
    view = analyst.run(job(match=again))
    rekeep(store, again, rows=true, origin=bytes.fromhex(theirs.origin))
    assert "do not hold the same rows in the same order" in view.reason
    assert is_pooled(result_of(analyst.run(job(match=again))))


def test_a_table_that_was_written_anew_is_refused_and_can_be_matched_again(deployment, analyst, kept):
    match = kept["changing"]
    assert is_pooled(result_of(analyst.run(job("changing", match=match))))
    path = table_path(deployment.folder.parent, "clinic", "changing")
    write(path, "clinic", numbers_of("clinic")[::-1])
    reason = refused(deployment, analyst, job("changing", match=match))
    assert f"the table of clinic was written anew since match {match}; rows have to be matched again" in reason
    assert "bank" not in reason
    code, shown, _ = command(deployment, "clinic")
    assert code == 0
    assert f"match {match}\n" in shown
    assert "table changed" in shown
    assert f"{N_COMMON} rows of table changing" in shown
    again = analyst.run(job("changing", keep=True)).job_id
    assert is_pooled(result_of(analyst.run(job("changing", match=again))))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("reveal = true", "reveal = false", "the owner of table 'people' of party 'clinic' does not allow"),
        (
            "[policy.automatic]",
            '[policy.limits]\nmatching = ["secret"]\n\n[policy.automatic]',
            "party clinic refused: by its policy: matching of rows, revealed",
        ),
        ('normalise = ["integer"]', 'normalise = ["trim"]', "clinic changed its matching rules since match"),
    ],
)
def test_an_owner_who_allows_it_no_more_is_not_bound_by_what_it_keeps(deployment, analyst, kept, old, new, why):
    path = deployment.config_path("clinic")
    text = path.read_text()
    assert old in text
    changed = text.replace(old, new)
    if "limits" in new:
        changed = changed.replace('"matching" = ["revealed"]', '"matching" = ["secret"]')
    path.write_text(changed)
    restart(deployment, "clinic")
    try:
        assert why in refused(deployment, analyst, job(match=kept["people"]))
    finally:
        path.write_text(text)
        restart(deployment, "clinic")
    assert is_pooled(result_of(analyst.run(job(match=kept["people"]))))


def test_no_log_names_a_row_or_how_many_matched(deployment, analyst, kept):
    assert load_party_config(deployment.config_path("bank")).tables  # what the services read
    text = all_text(deployment) + (deployment.folder / "jobs.sqlite").read_bytes().decode(errors="replace")
    assert kept["people"] in text
    assert f"{N_COMMON} rows" not in text
    assert "matched_rows" not in text
