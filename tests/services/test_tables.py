"""The catalogue over real services: what an analyst is told of tables, by `moiety tables` and `Client`, and no more."""

import json
import signal
from dataclasses import replace

import pytest
from commands import moiety as run_command
from deadlines import GENEROUS_S
from forked_services import ForkedDeployment
from registry_jobs import BOUNDS, N_RATED, OWNERS, ROWS
from registry_tables import tables_of_jobs
from typer.testing import CliRunner

from analyses.job.job import Job
from analyses.job.listing import Listing
from analyses.registry import ANALYSES
from cli.main import app
from demo.local_deployment import COORDINATOR_NAME
from moiety import Client
from service.identity import Identity, Role
from service.tls import load_credentials
from transport.calls.channel import open_channel
from transport.calls.party_client import PartyClient

POLICY = {
    "bank": {
        "policy.automatic": {"max_epsilon_per_job": 5.0, "analyses": ["pca"], "analysts": ["analyst"]},
        "policy.limits": {"analyses": ["pca", "least-squares"]},
        "policy.limits.columns": {"people": ["x0", "code"]},
    },
    "hospital": {
        "policy.automatic": {"max_epsilon_per_job": 5.0, "analysts": ["eve"]},
        "policy.limits": {"analysts": ["eve"]},
    },
}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = tables_of_jobs(folder, ["pca", "matrix-factorization"])
    (folder / "run").mkdir()
    tables["telco"] = [replace(one, show_budget=one.name == "people") for one in tables["telco"]]
    with ForkedDeployment(folder / "run", tables, policy=POLICY, budget=(10_000.0, 1e-6)) as running:
        yield running


@pytest.fixture(scope="module")
def catalogue(deployment):
    with Client(deployment.client_config) as client:
        return client.tables()


def test_an_analyst_is_told_declarations_of_the_tables_that_it_may_use(catalogue):
    table = catalogue.parties["telco"]["people"]
    assert {one.name: (one.lower, one.upper) for one in table.block.columns} == BOUNDS
    assert table.block.rows == ROWS
    assert table.block.has_ids
    assert table.usual == tuple(BOUNDS)
    assert table.admitted == dict.fromkeys(sorted(ANALYSES), "at once")
    ratings = catalogue.parties["telco"]["users"]
    assert ratings.block.ratings.items == N_RATED
    assert ratings.block.columns == ratings.usual == ()


def test_what_the_policy_refuses_is_not_listed(catalogue):
    assert list(catalogue.parties["bank"]) == ["people"]
    table = catalogue.parties["bank"]["people"]
    assert [one.name for one in table.block.columns] == ["x0", "code"]
    assert table.admitted == {"pca": "at once", "least-squares": "owner"}
    assert catalogue.parties["hospital"] == {}


def test_a_select_becomes_a_job_file_of_the_listed_tables(deployment):
    client = str(deployment.client_config)
    text = "SELECT avg(b.x0), count(*) FROM bank.people b JOIN telco.people USING (id)"
    shown = CliRunner().invoke(app, ["sql", text, "--epsilon", "2", "--client", client])
    assert shown.exit_code == 0, shown.output
    job = Job.from_toml(shown.stdout)
    assert (job.analysis, job.privacy.epsilon, job.compute_parties) == (
        "joint-mean",
        2.0,
        ("bank", "telco", "hospital"),
    )
    refused = CliRunner().invoke(app, ["sql", f"{text} WHERE b.x0 > 1", "--epsilon", "2", "--client", client])
    assert (refused.exit_code, "WHERE is not offered" in refused.output) == (2, True)


def test_what_remains_of_a_budget_is_seen_only_where_the_owner_permits_it(catalogue):
    assert catalogue.parties["telco"]["people"].budget.remaining_epsilon == pytest.approx(10_000.0)
    assert catalogue.parties["telco"]["users"].budget is None
    assert catalogue.parties["bank"]["people"].budget is None


async def test_a_party_lists_its_tables_for_whomever_the_coordinator_names(deployment):
    """A known limit, which the threat model states: a party has the coordinator's word for who asks."""
    folder, party = deployment.folder, Identity(deployment.federation, Role.PARTY, "hospital")
    own = (folder / "ca.pem", folder / f"{COORDINATOR_NAME}.pem", folder / f"{COORDINATOR_NAME}.key")
    credentials = load_credentials(authority=own[0], certificate=own[1], key=own[2])
    async with open_channel(deployment.addresses["hospital"], party, credentials) as channel:
        client = PartyClient("hospital", channel)
        told = {name: await client.describe(name, timeout_s=GENEROUS_S) for name in ("analyst", "eve")}
    assert [table.name for table in Listing.from_json(told["analyst"]).tables] == []
    assert [table.name for table in Listing.from_json(told["eve"]).tables] == ["people", "users"]  # she has not asked


def test_the_command_prints_the_same_as_text_and_as_json(deployment, catalogue):
    command = ["tables", "--client", str(deployment.client_config)]
    text, as_json = run_command(*command), run_command(*command, "--format", "json")
    assert (text.returncode, as_json.returncode) == (0, 0), text.stderr + as_json.stderr
    assert text.stdout.splitlines() == catalogue.lines()
    assert json.loads(as_json.stdout) == catalogue.to_dict()
    assert "bank.people: 100 to 400 rows, rows have ids" in text.stdout
    assert "  if its owner agrees: least-squares" in text.stdout
    assert "  budget: about 1e+04 of epsilon 10000 remains, per record of the joint table" in text.stdout
    one = run_command(*command, "--party", "bank")
    assert "bank.people" in one.stdout
    assert "telco" not in one.stdout


def test_a_party_that_is_not_there_is_said(deployment):
    done = run_command("tables", "--client", str(deployment.client_config), "--party", "shop")
    assert (done.returncode, done.stderr) == (
        2,
        f"error: --party: there is no party 'shop'; the roster has {', '.join(OWNERS)} [usage-wrong]\n",
    )


def test_the_catalogue_is_a_table_and_is_shown_in_a_notebook(catalogue):
    table = catalogue.to_polars()
    assert table.filter(party="bank")["column"].to_list() == ["x0", "code"]
    assert table.filter(table="users")["column"].to_list() == ["ratings"]
    assert "<table>" in catalogue._repr_html_()
    assert repr(catalogue).splitlines() == catalogue.lines()


def test_a_party_that_does_not_answer_is_named_and_the_others_are_listed(deployment):
    deployment.send_signal("hospital", signal.SIGKILL)
    done = run_command("tables", "--client", str(deployment.client_config))
    assert done.returncode == 1
    assert "telco.people" in done.stdout
    assert "nothing listens at its address" in done.stdout
    deployment.start("hospital")
    deployment.wait_until_ready("hospital")
