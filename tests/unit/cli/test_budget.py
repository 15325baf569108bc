import json
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analyses.matrix_factorization.jobs.factor_params import UNITS as RATING_UNITS
from analyses.sums.plan import UNITS as SUM_UNITS
from cli.main import app
from dp.cost.views import BUDGET_UNITS, EVENT_UNIT, ROW_UNIT, UNIT_AGAINST_COORDINATOR
from ledger import ledger
from ledger.ledger import open_ledger

FIRST_BUDGET = """
[tables.first_budget]
unit = "record of the joint table"
period = "2026"
epsilon = 4.0
delta = 1e-6
"""


def moiety(config: Path, *arguments: str):
    return CliRunner().invoke(app, ["budget", *arguments, "--config", str(config)])


def set_budget(config: Path, epsilon="4", delta="1e-6", period="2026", table="visits", reason="yearly review"):
    return moiety(config, "set", table, "--epsilon", epsilon, "--delta", delta, "--period", period, "--reason", reason)


def test_a_budget_is_set_shown_and_remembered_with_its_reason(party_config):
    assert set_budget(party_config).exit_code == 0
    assert set_budget(party_config, epsilon="6", period="2027", reason="the board agreed").exit_code == 0
    shown = json.loads(moiety(party_config, "show", "--format", "json").stdout)
    (budget,) = shown["budgets"]
    assert (budget["dataset"], budget["epsilon"], budget["period"]) == ("visits", 6.0, "2027")
    assert (budget["spent_epsilon"], budget["remaining_epsilon"], shown["without_budget"]) == (0.0, 6.0, [])
    entries = json.loads(moiety(party_config, "history", "--format", "json").stdout)
    assert [entry["reason"] for entry in entries] == ["yearly review", "the board agreed"]
    text = moiety(party_config, "history").stdout
    assert "visits: epsilon 6 at delta 1e-06 per record of the joint table, period '2027': the board agreed" in text


def test_a_unit_that_no_analysis_protects_is_refused_with_those_that_there_are(party_config):
    given = ["visits", "--epsilon", "4", "--delta", "1e-6", "--period", "2026", "--reason", "first", "--unit"]
    refused = moiety(party_config, "set", *given, "persons")
    assert refused.exit_code == 2
    assert "'persons' is not a unit of a budget; the units are 'record of the joint table', 'person'," in refused.stderr
    assert moiety(party_config, "set", *given, "person").exit_code == 0


def test_every_unit_that_a_refusal_quotes_is_a_unit_of_budgets():
    units = {UNIT_AGAINST_COORDINATOR, ROW_UNIT, EVENT_UNIT, *SUM_UNITS.values(), *RATING_UNITS.values()}
    assert units <= set(BUDGET_UNITS)


@pytest.fixture
def first_budget(party_config):
    budget = '\n[tables.first_budget]\nperiod = "2026"\nepsilon = 4.0\ndelta = 1e-6\n'
    party_config.write_text(party_config.read_text() + budget)
    return party_config


def test_a_new_ledger_begins_with_the_first_budgets_and_only_once(first_budget):
    begun = moiety(first_budget, "init", "--format", "json")
    assert [(one["dataset"], one["epsilon"]) for one in json.loads(begun.stdout)] == [("visits", 4.0)]
    again = moiety(first_budget, "init")
    assert (again.exit_code, again.stdout) == (1, "")
    assert "has begun already; nothing was changed" in again.stderr
    (entry,) = json.loads(moiety(first_budget, "history", "--format", "json").stdout)
    assert (entry["dataset"], entry["reason"]) == ("visits", "first budget of party.toml")


def test_a_ledger_without_a_first_budget_is_not_begun(party_config):
    refused = moiety(party_config, "init")
    assert refused.exit_code == 2
    assert "no table has a first_budget" in refused.stderr


def test_what_is_shown_for_people_has_the_numbers_and_the_head(party_config):
    set_budget(party_config)
    shown = moiety(party_config, "show").stdout
    assert (
        "visits: period '2026', per record of the joint table (coordinator: add_or_remove_one, coalition: replace_one)"
        in shown
    )
    assert "remaining  100 % of the budget, about epsilon 4" in shown
    assert "holds      against the coordinator and as many colluding parties as each job withstands" in shown
    head = shown.splitlines()[-1].split()[1]
    verified = moiety(party_config, "verify", "--noted", head)
    assert (verified.exit_code, verified.stdout) == (0, f"the ledger is whole: 1 entry\nhead {head}\n")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"epsilon": "-1"}, "epsilon: must be positive"),
        ({"epsilon": "nan"}, "epsilon: must be finite"),
        ({"epsilon": "inf"}, "epsilon: must be finite"),
        ({"epsilon": "1e-310"}, "not a subnormal"),
        ({"epsilon": "much"}, "Invalid value for '--epsilon'"),
        ({"delta": "0"}, "delta: must be positive"),
        ({"delta": "1.5"}, "delta: must be below 1"),
        ({"delta": "0.01"}, "delta: 0.01 is not below 1 / n for table 'visits'"),
        ({"delta": "0.02"}, "delta: 0.02 is not below 1 / n for table 'visits'"),
        ({"period": " "}, "period: must be"),
        ({"table": "stays"}, "has no table 'stays'"),
    ],
)
def test_a_budget_that_is_none_is_refused_and_nothing_is_written(party_config, changes, complaint):
    refused = set_budget(party_config, **changes)
    assert refused.exit_code == 2
    assert complaint in refused.stderr
    assert "100" not in refused.stderr
    assert not (party_config.parent / "state").exists()


def test_a_change_needs_a_reason(party_config):
    refused = set_budget(party_config, reason=" ")
    assert (refused.exit_code, refused.stderr) == (1, "error: a change of the budget needs a reason [charge-refused]\n")


def test_a_party_without_a_ledger_is_told_so(party_config):
    for command in ("show", "history", "verify"):
        shown = moiety(party_config, command)
        assert (shown.exit_code, "north has no ledger yet" in shown.stderr) == (4, True)


def test_an_edited_ledger_is_found_by_every_command(party_config):
    set_budget(party_config)
    database = sqlite3.connect(party_config.parent / "state" / "ledger.sqlite")
    database.execute("DROP TRIGGER entries_stay")
    database.execute("UPDATE entries SET text = replace(text, '4.0', '9.0')")
    database.commit()
    database.close()
    for command in ("show", "history", "verify"):
        shown = moiety(party_config, command)
        assert shown.exit_code == 1
        assert "the ledger was edited" in shown.stderr


def test_a_ledger_whose_counter_is_lost_can_be_adopted_with_a_reason(party_config):
    set_budget(party_config)
    (party_config.parent / "state" / "ledger.counter").unlink()
    assert "counter" in moiety(party_config, "show").stderr
    assert moiety(party_config, "adopt", "--reason", " ").exit_code == 2
    assert moiety(party_config, "adopt", "--reason", "the disk of the counter broke").exit_code == 0
    assert moiety(party_config, "verify").exit_code == 0
    assert "the disk of the counter broke" in moiety(party_config, "history").stdout


@pytest.mark.parametrize("noted", ["12", "x:ab", ":", "-1:ab"])
def test_a_head_that_is_none_is_a_usage_error(party_config, noted):
    set_budget(party_config)
    refused = moiety(party_config, "verify", f"--noted={noted}")
    assert (refused.exit_code, "--noted: a head looks like" in refused.stderr) == (2, True)


def test_a_head_of_another_ledger_is_found(party_config):
    set_budget(party_config)
    found = moiety(party_config, "verify", "--noted", "1:" + "0" * 64)
    assert (found.exit_code, "the head that was noted" in found.stderr) == (1, True)


def test_init_opens_the_ledger_once_and_only_where_there_is_none(party_config, monkeypatch):
    opened = []
    monkeypatch.setattr(ledger, "open_ledger", lambda *a, **k: opened.append(1) or open_ledger(*a, **k))
    party_config.write_text(party_config.read_text() + FIRST_BUDGET)
    begun = moiety(party_config, "init", "--format", "json")
    assert begun.exit_code == 0, begun.stderr
    assert [one["dataset"] for one in json.loads(begun.stdout)] == ["visits"]
    assert len(opened) == 1
    again = moiety(party_config, "init")
    assert (again.exit_code, "has begun already" in again.stderr) == (1, True)


SPACE = """
name = "labs"
path = "labs.csv"
id_column = "patient"
id_space = "patients"
bounds = { age = [0, 120] }
rows = [10, 1000]
"""


@pytest.fixture
def spaced(party_config):
    """A party whose two tables are about the same patients."""
    (party_config.parent / "labs.csv").write_text("patient,age\n1,30\n")
    text = party_config.read_text().replace(
        'name = "visits"', 'name = "visits"\nid_column = "p"\nid_space = "patients"'
    )
    party_config.write_text(f"{text}\n[[tables]]{SPACE}")
    return party_config


@pytest.mark.parametrize("name", ["visits", "labs", "patients"])
def test_the_budget_of_an_id_space_is_set_by_its_name_or_by_that_of_a_table(spaced, name):
    assert set_budget(spaced, table=name).exit_code == 0
    shown = json.loads(moiety(spaced, "show", "--format", "json").stdout)
    (budget,) = shown["budgets"]
    assert (budget["dataset"], budget["tables"]) == ("id space patients", ["visits", "labs"])
    assert (shown["without_budget"], shown["notices"]) == ([], [])
    assert "id space patients (tables visits, labs): period '2026'" in moiety(spaced, "show").stdout


def test_the_budget_of_an_id_space_suits_all_of_its_tables(spaced):
    refused = set_budget(spaced, table="patients", delta="0.002")  # 1 / n of the one, and not of the other
    assert "delta: 0.002 is not below 1 / n for table 'labs'" in refused.stderr
    given = ["patients", "--epsilon", "4", "--delta", "1e-6", "--period", "2026", "--reason", "first"]
    refused = moiety(spaced, "set", *given, "--unit", "person")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--unit: for table 'visits' it must be 'record of the joint table' or" in refused.stderr
    assert not (spaced.parent / "state").exists()


def test_show_says_where_the_file_and_the_ledger_differ_and_lists_budgets_of_tables_that_are_gone(first_budget):
    moiety(first_budget, "init")
    assert json.loads(moiety(first_budget, "show", "--format", "json").stdout)["notices"] == []
    set_budget(first_budget, epsilon="6", period="2027")
    shown = moiety(first_budget, "show").stdout
    assert "look at: budget of table 'visits': first_budget declares epsilon 4 at delta 1e-06" in shown
    first_budget.write_text(first_budget.read_text().replace('name = "visits"', 'name = "stays"'))
    shown = moiety(first_budget, "show").stdout
    assert "visits: period '2027'" in shown
    assert "look at: budget of table 'visits': the configuration has no table that is charged to it" in shown
    assert "stays: no budget, so no job may use it" in shown
