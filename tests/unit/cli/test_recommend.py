"""`moiety party recommend`: from a party's own table and its own report of a job, without any service."""

import json

import pytest
from rating_jobs import BOUNDS, VERTICAL, declaring, horizontal_tables, job_of, vertical_tables
from typer.testing import CliRunner

from analyses.matrix_factorization import protocol
from analyses.run_locally import local_network, run_plan
from cli.main import app
from party.outcome.report import write_report

ITEMS = 12


def write_party(folder, table, report, n_items, users, more=""):
    rows = table.ratings
    lines = [
        f"{rows.user_names[u]},{i},{v!r}" for u, i, v in zip(rows.users, rows.items, rows.values.tolist(), strict=True)
    ]
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating", *lines]) + "\n")
    (folder / "party.toml").write_text(
        f"""
name = "bank"
federation = "shops"
data_dir = "data"
[tls]
authority = "ca.pem"
certificate = "bank.pem"
key = "bank.key"
[coordinator]
name = "coordinator"
address = "127.0.0.1:7100"
[peers]
hospital = "127.0.0.1:7102"
telco = "127.0.0.1:7103"
[[tables]]
name = "ratings"
kind = "ratings"
path = "ratings.csv"
user = "user"
item = "item"
rating = "rating"
items = {n_items}
users = {users}
ratings_per_user = 6
{more}
[tables.bounds]
rating = [{BOUNDS[0]}, {BOUNDS[1]}]
"""
    )
    budget = {"dataset": "ratings", "period": "p", "epsilon": 1.0, "delta": 1e-6}
    write_report(folder / "data", "job-1", report, traffic={}, privacy={}, budget=budget, elapsed_s=1.0)
    return folder / "party.toml"


def ask(config, *more, user="0"):
    arguments = ["party", "recommend", "--config", str(config), "--job", "job-1", "--user", user, *more]
    return CliRunner().invoke(app, arguments)


@pytest.fixture(params=["horizontal", "vertical"])
async def party(request, tmp_path):
    is_vertical = request.param == "vertical"
    tables = vertical_tables() if is_vertical else horizontal_tables()
    job = job_of(parameters=VERTICAL if is_vertical else {"rank": 1, "rounds": 1})
    plan = protocol.plan(job, [tables[name].schema for name in job.members])
    ended = await run_plan(plan, tables, local_network(plan), analysis=protocol.ANALYSIS)
    n_items, users = (ITEMS // 3, 90) if is_vertical else (ITEMS, 50)
    return write_party(tmp_path, tables["bank"], ended.reports["bank"], n_items, users), tables["bank"].ratings


async def test_the_best_items_that_the_user_has_not_rated_come_first(party):
    config, rows = party
    done = ask(config, "--top", "3", "--format", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    rated = {str(i) for i in rows.items[rows.users == rows.user_names.index("0")]}
    assert 0 < len(found) <= 3
    assert not rated & {one["item"] for one in found}
    ratings = [one["rating"] for one in found]
    assert ratings == sorted(ratings, reverse=True)
    assert all(BOUNDS[0] <= rating <= BOUNDS[1] for rating in ratings)
    assert len(ask(config, "--top", "3").stdout.splitlines()) == len(found)


async def test_an_unknown_user_gets_the_items_that_come_first_for_all_and_is_told_so(party):
    config, _ = party
    done = ask(config, "--format", "json", user="nobody")
    assert done.exit_code == 0, done.output
    kept = json.loads((config.parent / "data" / "reports" / "job-1.json").read_text())["kept"]
    offsets = [item[0] for item in kept["items"]] if kept["of"] == "items and users" else kept["offsets"]
    order = sorted(range(len(offsets)), key=lambda item: -offsets[item])
    assert [one["item"] for one in json.loads(done.stdout)] == [str(item) for item in order[:10]]
    assert "no ratings of this user" in done.stderr
    assert "no ratings of this user" not in ask(config).stderr


async def test_an_unknown_job_is_not_found(party):
    config, _ = party
    arguments = ["party", "recommend", "--config", str(config), "--job", "job-2", "--user", "0"]
    assert CliRunner().invoke(app, arguments).exit_code == 4


async def test_a_list_of_items_that_was_changed_since_the_job_is_refused(party):
    config, _ = party
    text = config.read_text()
    n_items = 4 if "items = 4\n" in text else ITEMS
    config.write_text(text.replace(f"items = {n_items}\n", f"items = {n_items + 1}\n"))
    done = ask(config)
    assert done.exit_code == 4
    assert "is not the one that job job-1 had" in done.output


async def test_a_job_that_left_no_model_and_a_table_that_is_gone_are_named(party):
    config, _ = party
    report = config.parent / "data" / "reports" / "job-1.json"
    kept = json.loads(report.read_text())
    report.write_text(json.dumps(kept | {"kept": {}}))
    assert "left no model" in ask(config).output
    report.write_text(json.dumps(kept))
    config.write_text(config.read_text().replace('name = "ratings"', 'name = "stars"'))
    assert "not a table of ratings any longer" in ask(config).output


async def test_new_items_are_recommended_by_their_features_and_other_features_than_the_jobs_are_refused(tmp_path):
    features = [[float(item % 2), float(item < 6)] for item in range(ITEMS)]
    tables = declaring(horizontal_tables(), lambda party: features)
    job = job_of(parameters={"rank": 0, "features": features})
    plan = protocol.plan(job, [tables[name].schema for name in job.members])
    ended = await run_plan(plan, tables, local_network(plan), analysis=protocol.ANALYSIS)
    (tmp_path / "genres.csv").write_text("".join(f"{a:g}, {b:g}\n" for a, b in features))
    config = write_party(
        tmp_path, tables["bank"], ended.reports["bank"], ITEMS, 50, 'features = { file = "genres.csv" }'
    )
    (tmp_path / "new.csv").write_text("dune,1,0\nheat,0,1\n")
    new = ("--top", "20", "--format", "json", "--new", str(tmp_path / "new.csv"))
    found = {one["item"] for one in json.loads(ask(config, *new).stdout)}
    assert {"dune", "heat"} < found
    assert not {"dune", "heat"} & {one["item"] for one in json.loads(ask(config, "--format", "json").stdout)}
    (tmp_path / "new.csv").write_text("dune,1\n")
    refused = ask(config, *new)
    assert refused.exit_code == 2
    assert "each must have 2 features" in refused.output
    (tmp_path / "genres.csv").write_text("1, 1\n" * ITEMS)
    refused = ask(config)
    assert refused.exit_code == 4
    assert "are not those that job job-1 had" in " ".join(refused.output.split())
