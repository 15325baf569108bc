import json
import sys

import pytest
from job_builders import PARTIES, make_job, make_schema

from analyses.job.job import MAX_COMPUTING, MAX_NAMED, MAX_PROBLEMS_SHOWN, Job, JobError
from analyses.job.plan import check_roster, check_schemas
from analyses.job.schema import BlockSchema
from analyses.registry import analysis_of

TOML = """
analysis = "pca"
inputs = [
  {party = "bank", table = "people"}, {party = "hospital", table = "people"}, {party = "telco", table = "people"},
]
[privacy]
epsilon = EPSILON
delta = DELTA
[parameters]
components = 2
max_rows = 1000
"""


def toml(epsilon="1.0", delta="1e-5"):
    return TOML.replace("EPSILON", epsilon).replace("DELTA", delta)


def test_a_job_file_is_read_and_its_canonical_json_reads_back_to_the_same_job():
    job = Job.from_toml(toml())
    assert Job.from_json(job.canonical_json()) == job
    assert job.members == PARTIES
    assert job.t == 1


@pytest.mark.parametrize("epsilon", ["0.0", "-1.0", "nan", "inf", '"much"', '"4.0"', "true", "5e-324", "0"])
def test_an_epsilon_that_is_not_positive_and_finite_is_refused_by_name(epsilon):
    with pytest.raises(JobError, match=r"privacy\.epsilon"):
        Job.from_toml(toml(epsilon=epsilon))


@pytest.mark.parametrize("delta", ["0.0", "1.0", "-1e-5", "nan", "inf", '"1e-5"', "true", "5e-324", "1"])
def test_a_delta_outside_zero_and_one_is_refused_by_name(delta):
    with pytest.raises(JobError, match=r"privacy\.delta"):
        Job.from_toml(toml(delta=delta))


@pytest.mark.parametrize(("written", "epsilon"), [("1", 1.0), ("2.2250738585072014e-308", sys.float_info.min)])
def test_a_whole_number_and_the_smallest_normal_one_are_epsilons(written, epsilon):
    job = Job.from_toml(toml(epsilon=written))
    assert job.privacy.epsilon == epsilon
    assert isinstance(job.privacy.epsilon, float)
    assert Job.from_json(job.canonical_json()) == job


def test_an_explanation_names_the_first_problems_counts_the_others_and_stays_short():
    parameters = {"max_rows": 1000, "edges": [None] * 1000, "x" * 900: "y" * 900}
    job = make_job(analysis="secure-histogram", parameters=parameters)
    with pytest.raises(JobError) as caught:
        analysis_of(job).check_parameters(job)
    lines = str(caught.value).splitlines()
    assert lines[0] == "parameters.edges.0: must be a number, got None"
    assert len(lines) == MAX_PROBLEMS_SHOWN
    assert lines[-1].endswith(f" (and {1001 - MAX_PROBLEMS_SHOWN} more problems)")
    job = make_job(parameters={"max_rows": 1000, "components": 2, "x" * 900: "y" * 900})
    with pytest.raises(JobError) as caught:
        analysis_of(job).check_parameters(job)
    assert str(caught.value).endswith("xxx...")
    assert len(str(caught.value)) < 600


def test_text_that_is_not_toml_is_refused():
    with pytest.raises(JobError, match="not valid TOML"):
        Job.from_toml("analysis = ")


def test_an_unknown_field_is_refused_by_name():
    with pytest.raises(JobError, match="colour"):
        Job.from_toml('colour = "blue"\n' + toml())


def test_a_party_that_appears_twice_is_refused_by_name():
    text = toml().replace("hospital", "bank")
    with pytest.raises(JobError, match=r"'bank' appears more than once"):
        Job.from_toml(text)


def test_json_with_nan_is_refused():
    tree = json.loads(make_job().canonical_json())
    tree["privacy"]["epsilon"] = float("nan")
    with pytest.raises(JobError, match=r"privacy\.epsilon"):
        Job.from_json(json.dumps(tree))


def test_compute_parties_come_first_in_the_numbering_and_input_only_parties_after_them():
    job = make_job(compute=["telco", "one", "two"])
    assert job.members == ("telco", "one", "two", "bank", "hospital")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inputs": [{"party": p, "table": "people"} for p in PARTIES[:2]]}, "at least 3"),
        ({"colluding": 2}, "needs 5 compute parties"),
    ],
)
def test_a_roster_too_small_for_its_colluding_parties_is_refused(changes, words):
    with pytest.raises(JobError, match=words):
        check_roster(make_job(**changes))


def test_zero_colluding_parties_cannot_be_asked_for():
    with pytest.raises(ValueError, match="colluding"):
        make_job(colluding=0)


def test_an_unknown_analysis_is_refused_with_those_on_offer():
    with pytest.raises(JobError, match=r"available: .*\bpca\b"):
        analysis_of(make_job(analysis="pcr"))


def test_an_analysis_that_joins_no_rows_takes_no_order():
    job = make_job(analysis="secure-sum", order="trusted")
    with pytest.raises(JobError, match="secure-sum joins no rows"):
        analysis_of(job).plan(job, tuple(make_schema(p) for p in PARTIES))


def test_two_owners_are_told_how_to_name_a_helper():
    job = make_job(inputs=[{"party": "bank", "table": "people"}, {"party": "shop", "table": "people"}])
    with pytest.raises(
        JobError, match=r'A party without a table may compute, too: .* compute = \["bank", "shop", "HELPER"\]'
    ):
        check_roster(job)


def test_schemas_of_other_members_are_refused():
    job = make_job()
    with pytest.raises(JobError, match="but the members of the job are"):
        check_schemas(job, tuple(make_schema(p) for p in ("bank", "telco", "hospital")))


def test_an_owner_without_columns_is_refused_by_name():
    with pytest.raises(JobError, match="inputs: hospital must bring at least one column"):
        check_schemas(make_job(), (make_schema("bank"), make_schema("hospital", 0), make_schema("telco")))


def test_rows_in_an_order_that_nobody_can_check_are_refused_unless_the_job_trusts_it():
    schemas = tuple(make_schema(party, has_ids=False) for party in ("bank", "hospital", "telco"))
    with pytest.raises(JobError, match=r'nobody can check that row i .* order = "trusted"'):
        check_schemas(make_job(), schemas)
    check_schemas(make_job(order="trusted"), schemas)
    check_schemas(make_job(inputs=[{"party": "bank", "table": "people"}], compute=["bank", "one", "two"]), _alone())


def _alone():
    return (make_schema("bank", has_ids=False), *(BlockSchema(party=name) for name in ("one", "two")))


def test_an_order_is_not_trusted_where_ids_are_compared():
    schemas = tuple(make_schema(party) for party in ("bank", "hospital", "telco"))
    with pytest.raises(JobError, match="leave `order` away"):
        check_schemas(make_job(order="trusted"), schemas)
    with pytest.raises(JobError, match="order: must be 'trusted', got 'any'"):
        Job.from_json(make_job().canonical_json()[:-1] + ',"order":"any"}')
    assert '"order"' not in make_job().canonical_json()
    assert Job.from_json(make_job(order="trusted").canonical_json()).order == "trusted"


def test_tables_of_which_only_some_have_ids_are_refused_by_name():
    schemas = (make_schema("bank"), make_schema("hospital", has_ids=False), make_schema("telco"))
    with pytest.raises(JobError, match="bank has an id column and the table of hospital has none"):
        check_schemas(make_job(), schemas)


def test_a_job_of_more_parties_than_may_compute_is_refused_before_anybody_looks_through_them():
    tree = make_job().model_dump(mode="json", by_alias=True)
    with pytest.raises(JobError, match=f"compute: must have at most {MAX_COMPUTING} entries"):
        Job.from_json(json.dumps(tree | {"compute": [f"p{i}" for i in range(MAX_COMPUTING + 1)]}))


def test_patterns_that_stand_for_more_columns_than_a_job_can_have_are_refused_before_any_name_is_made():
    tree = make_job().model_dump(mode="json", by_alias=True)
    inputs = [one | {"columns": ["x{0..9999}"] * 5} for one in tree["inputs"]]
    assert len(inputs) * 50_000 > MAX_NAMED
    with pytest.raises(JobError, match=f"inputs: name more than {MAX_NAMED} columns"):
        Job.from_json(json.dumps(tree | {"inputs": inputs}))
    few = Job.from_json(json.dumps(tree | {"inputs": [{**inputs[0], "columns": ["x{0..9999}"]}, *tree["inputs"][1:]]}))
    assert len(few.inputs[0].columns) == 10_000


@pytest.mark.parametrize("written", ["NaN", "1e999", '[1.0, {"a": -Infinity}]'])
def test_a_number_that_json_cannot_write_is_refused_as_it_would_be_another_job_with_the_same_text(written):
    text = make_job().canonical_json().replace('"parameters":{', f'"parameters":{{"other":{written},', 1)
    assert written in text
    with pytest.raises(JobError, match=r"parameters: .*must be a finite number"):
        Job.from_json(text)
