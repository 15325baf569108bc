"""What an analyst is told of a party's tables follows from the owner's declarations and policy, and from no row."""

from contextlib import nullcontext

import pytest
from job_builders import make_job
from ledgers import budget, ledger_in

from analyses.job.job import JobError, JobInput
from analyses.registry import ANALYSES
from analyst.catalogue import Catalogue
from ledger.entry import LedgerError
from party.admission import Admission, PolicyRefusalError
from party.catalogue import listing_of
from party.config import CoordinatorPin, PartyConfig
from party.consent import ConsentBox
from party.policy import Policy
from party.tables.config import TableConfig
from party.tables.table import describe_table
from service.settings import TlsFiles


def table(name="visits", **changes):
    fields = {
        "name": name,
        "path": "/nowhere/visits.csv",
        "bounds": {"age": (0.0, 120.0), "stay": (0.0, 30.0), "code": (0.0, 9.0)},
        "on_request": ("code",),
        "rows": (10, 1000),
        "id_column": "id",
    }
    return TableConfig.model_validate(fields | changes)


def config(policy=None, tables=None, peers=("east", "west")):
    return PartyConfig(
        name="north",
        federation="test",
        data_dir="/nowhere",
        tls=TlsFiles(authority="a", certificate="b", key="c"),
        coordinator=CoordinatorPin(name="hub", address="127.0.0.1:7000"),
        peers={name: f"127.0.0.1:{7100 + at}" for at, name in enumerate(peers, start=2)},
        tables=tuple([table()] if tables is None else tables),
        policy=Policy.model_validate(policy or {}),
    )


@pytest.fixture
def ledger(tmp_path):
    opened = ledger_in(tmp_path)
    opened.set_budget("visits", budget(4.0), "test")
    yield opened
    opened.close()


def listed(ledger, analyst="ada", **changes):
    return {one.name: one for one in listing_of(config(**changes), ledger, analyst).tables}


def test_a_table_whose_columns_are_all_on_request_is_listed_and_a_job_must_name_some(ledger):
    only = table(on_request=("age", "stay", "code"))
    catalogue = Catalogue(parties={"north": listed(ledger, tables=[only])}, problems={})
    named = make_job(inputs=[{"party": "north", "table": "visits", "columns": ["code"]}])
    assert [one.name for one in catalogue.schemas_of(named)[0].columns] == ["code"]
    with pytest.raises(JobError, match="table 'visits' of party 'north' are given on request only"):
        catalogue.schemas_of(make_job(inputs=[{"party": "north", "table": "visits"}]))


def test_declarations_are_listed_though_the_table_is_not_there(ledger):
    one = listed(ledger)["visits"]
    assert [(c.name, c.lower, c.upper) for c in one.block.columns] == [
        ("age", 0.0, 120.0),
        ("stay", 0.0, 30.0),
        ("code", 0.0, 9.0),
    ]
    assert (one.block.rows, one.block.has_ids, one.usual) == ((10, 1000), True, ("age", "stay"))
    assert one.admitted == dict.fromkeys(ANALYSES, "owner")
    assert one.budget is None
    assert not one.may_be_exact


def test_the_schema_of_a_job_is_that_of_a_proposal(ledger):
    from party.tables.table import describe_table

    one = listed(ledger)["visits"]
    for columns in ((), ("code", "age")):
        brought = JobInput(party="north", table="visits", columns=columns)
        assert one.schema_of(brought) == describe_table(config(), brought)
    with pytest.raises(KeyError):
        one.schema_of(JobInput(party="north", table="visits", columns=("id",)))


def test_how_rows_can_be_matched_is_listed_and_by_which_columns_is_not(ledger):
    matching = {"columns": ["full name", "id"], "normalise": {"full name": ["letters"], "id": []}}
    tables = [table(matching=matching, id_column=None)]
    one = listed(ledger, tables=tables)["visits"]
    assert one.schema_of(JobInput(party="north", table="visits")).matching.recipe == (("letters",), ())
    assert "full name" not in one.canonical_json()
    catalogue = Catalogue(parties={"north": {"visits": one}}, problems={})
    assert "rows can be matched by 2 fields (letters; as it is), in secret only" in "\n".join(catalogue.lines())


AUTOMATIC = {"max_epsilon_per_job": 1.0, "analyses": ["pca"], "analysts": ["ada"]}


@pytest.mark.parametrize(
    ("policy", "analyst", "admitted"),
    [
        ({"limits": {"analyses": ["pca", "moments"]}}, "ada", {"pca": "owner", "moments": "owner"}),
        (
            {"automatic": AUTOMATIC, "limits": {"analyses": ["pca", "moments"]}},
            "ada",
            {"pca": "at once", "moments": "owner"},
        ),
        ({"automatic": AUTOMATIC, "limits": {"analyses": ["pca"]}}, "eve", {"pca": "owner"}),
        ({"limits": {"analysts": ["ada"]}}, "eve", None),
        ({"limits": {"receivers": ["ada", "hub"]}}, "eve", None),
        ({"limits": {"columns": {"stays": ["age"]}}}, "ada", None),
    ],
)
def test_what_the_policy_admits_is_listed_and_nothing_else(ledger, policy, analyst, admitted):
    found = listed(ledger, analyst, policy=policy, tables=[table(), table("stays")])
    assert ("visits" in found) == (admitted is not None)
    if admitted is not None:
        assert found["visits"].admitted == admitted


def test_columns_outside_the_limits_are_not_listed(ledger):
    one = listed(ledger, policy={"limits": {"columns": {"visits": ["stay", "code"]}}})["visits"]
    assert [c.name for c in one.block.columns] == ["stay", "code"]
    assert one.usual == ("stay",)


def test_a_policy_that_asks_for_more_parties_than_the_owner_knows_is_never_met(ledger):
    one = listed(ledger, policy={"limits": {"withstand_coalition": 2}}, peers=("a", "b", "c", "d"))
    assert "visits" in one


def test_a_budget_is_shown_where_the_owner_says_so(ledger):
    (shown,) = listed(ledger, tables=[table(show_budget=True)]).values()
    assert (shown.budget.epsilon, shown.budget.remaining_epsilon, shown.budget.remaining_part) == (4.0, 4.0, 1.0)
    (unset,) = listed(ledger, tables=[table("stays", show_budget=True)]).values()
    assert unset.budget is None


def test_a_ledger_that_cannot_be_read_shows_no_budget(ledger, monkeypatch):
    def fails(name):
        raise LedgerError("a secret of the owner's disk")

    monkeypatch.setattr(ledger, "balance", fails)
    (one,) = listed(ledger, tables=[table(show_budget=True)]).values()
    assert one.budget is None


def test_exact_answers_are_said_to_be_allowed(ledger):
    (one,) = listed(ledger, policy={"limits": {"exact_tables": ["visits"]}}).values()
    assert one.may_be_exact


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        ("region", ["region=north", "region=south"]),
        ("region=south", ["region=south"]),
    ],
)
def test_a_policy_names_a_column_of_the_table_or_an_encoded_one(ledger, allowed, names):
    region = {"region": {"kind": "category", "values": ["north", "south"]}}
    policy = {"limits": {"columns": {"visits": ["age", allowed]}}}
    one = listed(ledger, policy=policy, tables=[table(columns=region)])["visits"]
    assert [column.name for column in one.block.columns] == ["age", *names]
    assert one.usual == ("age", *names)
    assert one.admitted


def test_a_filter_on_a_column_that_an_analyst_may_not_use_is_not_listed_and_a_job_that_names_it_is_refused(
    ledger, tmp_path
):
    filters = {"adults": {"age": {"at_least": 18.0}}, "long": {"stay": {"at_least": 7.0}}}
    tables = [table(filters=filters)]
    for limits, analyst, names in (
        ({}, "ada", {"adults", "long"}),
        ({"columns": {"visits": ["stay"]}}, "ada", {"long"}),
        ({"columns": {"visits": ["stay"]}, "filters": {"visits": {"adults": ["ada"]}}}, "ada", {"adults"}),
        ({"columns": {"visits": ["stay"]}, "filters": {"visits": {"adults": ["ada"]}}}, "eve", set()),
    ):
        policy = {"limits": limits}
        assert set(listed(ledger, analyst, tables=tables, policy=policy)["visits"].filters) == names
        used = config(tables=tables, policy=policy)
        admission = Admission(used, ledger, ConsentBox(tmp_path))
        for name in filters:
            inputs = [
                {"party": "north", "table": "visits", "columns": ["stay"], "where": name},
                *({"party": party, "table": "visits", "columns": ["stay"]} for party in ("east", "west")),
            ]
            job = make_job(inputs=inputs, compute=("north", "east", "west"))
            schema = describe_table(used, job.inputs[0])
            text = f"filter '{name}' of table 'visits' may not be named by '{analyst}'"
            with nullcontext() if name in names else pytest.raises(PolicyRefusalError, match=text):
                admission.check_proposal(job, analyst, schema)
