"""Receipts of a job over real services, and what `moiety verify` and `result.verify` say of its result."""

import json
import re
from base64 import b64decode, b64encode

import pytest
from federation import Analyst, pca_job, random_values, result_of, tables_of
from forked_services import ForkedDeployment
from reader import REPOSITORY
from typer.testing import CliRunner

from analyst.client import result_of as result_object
from cli.main import app

PARTIES = ("bank", "hospital", "telco")
VALUES = {name: random_values((200, 2), seed) for seed, name in enumerate(PARTIES)}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("receipts")
    (folder / "run").mkdir()
    with ForkedDeployment(folder / "run", tables_of(VALUES, folder)) as running:
        yield running


@pytest.fixture(scope="module")
def view(deployment):
    return Analyst(deployment).run(pca_job(PARTIES))


@pytest.fixture(scope="module")
def shown(deployment, view):
    command = ["job", "show", view.job_id, "--format", "json", "--client", str(deployment.client_config)]
    return CliRunner().invoke(app, command).stdout


@pytest.fixture
def verified(deployment, tmp_path):
    def run(text, *options):
        path = tmp_path / "result.json"
        path.write_text(text)
        command = ["verify", str(path), "--authority", str(deployment.folder / "ca.pem"), *map(str, options)]
        return CliRunner().invoke(app, command)

    return run


def test_every_party_signs_and_the_saved_result_is_verified_without_any_service(view, shown, verified):
    receipts = result_of(view)["receipts"]
    assert [one["receipt"]["party"].rsplit("/", 1)[1] for one in receipts] == list(PARTIES)
    assert {one["receipt"]["charge"] for one in receipts} == {"committed"}
    found = verified(shown)
    assert found.exit_code == 0, found.output
    assert found.stdout.endswith("the result holds\n")
    assert "every owner of data has signed: bank, hospital, telco" in found.stdout
    assert found.stdout.count("the noise of the plan gives it, recomputed") == 2
    as_json = json.loads(verified(shown, "--format", "json").stdout)
    assert as_json["holds"] is True
    assert {one["kind"] for one in as_json["findings"]} == {"verified", "on trust"}


def test_a_program_verifies_the_result_object(deployment, view):
    result = result_object(view)
    found = result.verify(deployment.folder / "ca.pem")
    assert found.holds
    assert "receipts" not in "\n".join(result.lines)


def test_a_receipt_holds_no_secret_and_no_budget_that_its_owner_does_not_show(view):
    fields = [one["receipt"] for one in result_of(view)["receipts"]]
    assert {frozenset(one) for one in fields} == {
        frozenset(
            ("job_id", "party", "coordinator", "analyst", "plan_digest", "result_digest", "consent", "charge", "budget",
             "security", "moiety", "protocol", "signed_at_s")
        )
    }  # fmt: skip
    assert {one["budget"] for one in fields} == {None}


def test_one_digit_of_the_result_or_of_the_plan_changed_fails(shown, verified):
    document = json.loads(shown)
    document["result"]["n_rows"] = document["result"].get("n_rows", 0) + 1
    found = verified(json.dumps(document))
    assert found.exit_code == 1
    assert found.stdout.count("the result is not the one that it was told") == 3
    document = json.loads(shown)
    document["plan"]["party_mu"] += 2
    found = verified(json.dumps(document))
    assert found.exit_code == 1
    assert found.stdout.count("the plan is not the one that it agreed to") == 3


def test_a_receipt_of_another_job_fails_and_a_missing_one_too(deployment, shown, verified):
    other = result_of(Analyst(deployment).run(pca_job(PARTIES)))["receipts"]
    document = json.loads(shown)
    document["result"]["receipts"][1] = other[1]
    found = verified(json.dumps(document))
    assert found.exit_code == 1
    assert "FAILS     hospital: the receipt is of another job" in found.stdout
    del document["result"]["receipts"][1]
    found = verified(json.dumps(document))
    assert found.exit_code == 1
    assert "hospital, who brought a table, has signed no receipt" in found.stdout


def test_a_changed_receipt_fails(shown, verified):
    for change in (
        lambda one: one["receipt"].update(charge="none"),
        lambda one: one.update(signature=b64encode(b64decode(one["signature"])[::-1]).decode()),
        lambda one: one["receipt"].update(more="words"),
    ):
        document = json.loads(shown)
        change(document["result"]["receipts"][2])
        found = verified(json.dumps(document))
        assert found.exit_code == 1
        assert "FAILS     receipt 3: telco has not signed what it states" in found.stdout


def test_a_result_of_an_earlier_version_is_shown_but_not_verified(shown, verified, view):
    document = json.loads(shown)
    del document["result"]["receipts"]
    found = verified(json.dumps(document))
    assert found.exit_code == 2
    assert "its result carries no receipts" in found.stderr


def test_the_report_on_the_page_is_the_one_that_is_printed(shown, verified):
    page = (REPOSITORY / "docs" / "how-to" / "verify-a-result.md").read_text(encoding="utf-8")
    (printed,) = re.findall(r"^```text\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    numbers = re.compile(r"\d[\w.+-]*")
    assert numbers.sub("N", printed) == numbers.sub("N", verified(shown).stdout)
