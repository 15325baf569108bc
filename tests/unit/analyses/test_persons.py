"""Jobs that protect persons, over the in-process network: of each person as many rows count as owners declare."""

from dataclasses import replace

import numpy as np
import pytest
from person_tables import (
    JOBS,
    MOST,
    N_SURPLUS,
    job_of,
    plan_of,
    tables_of_persons,
    tables_of_the_rows_that_count,
    with_one_row_of_another_person,
)
from registry_jobs import OWNERS, VARIANTS

from analyses.job.job import JobError
from analyses.registry import analysis_of
from analyses.run_locally import run_plan
from dp.cost.views import PERSON, UNIT
from mpc.local.network import LocalNetwork
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.session import COORDINATOR

SUMS = {"secure-sum", "secure-mean", "secure-histogram"}
ABOUT_JOINT_TABLES = [name for name in JOBS if name not in SUMS]
NUMBERS = (
    "eigenvalues", "coefficients", "intercept", "weights", "counts", "moment", "sum", "mean", "total_weight", "n_rows",
    "values",
)  # fmt: skip


async def run(job, tables, deadline_s=30.0):
    plan = plan_of(job, tables)
    network = LocalNetwork({COORDINATOR: "main", **dict(enumerate(job.members, start=1))}, deadline_s=deadline_s)
    ends = (await run_plan(plan, tables, network)).ends
    return ends[COORDINATOR], {name: ends[number] for number, name in network.names.items()}, network


def numbers_of(result):
    """What an answer says, as one vector; signs, which are arbitrary, are left out."""
    kept = [np.ravel(np.array(result[key], dtype=float)) for key in NUMBERS if result.get(key) is not None]
    assert kept, f"none of {sorted(result)} is in NUMBERS: add the field with the answer of {result['analysis']}"
    return np.concatenate(kept)


@pytest.mark.parametrize("name", [name for name in JOBS if "sketch" not in name])
async def test_so_many_rows_of_each_person_count_as_if_there_were_no_others(name):
    variant = JOBS[name]
    result, reports, _ = await run(job_of(variant, unit="person"), tables_of_persons(variant))
    expected, _, _ = await run(job_of(variant), tables_of_the_rows_that_count(variant))
    everything, _, _ = await run(job_of(variant), tables_of_persons(variant))
    found, wanted, wrong = map(numbers_of, (result, expected, everything))
    off = np.abs(found - wanted).max()
    assert off <= 0.02 * np.abs(wanted).max() + (8 if "histogram" in name else 0)  # the noise of single rows
    assert np.abs(wrong - wanted).max() > 2 * off, "the rows that do not count would make no difference"
    assert (result["privacy"]["unit"], expected["privacy"]["unit"]) == (PERSON, UNIT)
    assert {reports[owner].surplus_rows for owner in OWNERS} == {N_SURPLUS}


@pytest.mark.parametrize("name", [name for name in JOBS if "sketch" in name])
async def test_what_rows_hold_that_do_not_count_changes_no_sketch(name, monkeypatch):
    """With the same matrix or signs, and noise that is small beside a row."""
    monkeypatch.setattr("mpc.protocol.hashkey.combine", lambda binding, name, transcript, contributions: bytes(32))
    monkeypatch.setattr(
        "analyses.job.row_ids.Persons.kept", lambda self, keyed_hash, most: np.arange(len(self.of_rows)) < 60
    )
    variant, answers = JOBS[name], []
    tables = tables_of_persons(variant, 1, np.tile(np.arange(60), 2))
    others = {}
    for owner, table in tables.items():
        values = table.values.copy()
        values[60:] = [column.upper for column in table.schema.columns]
        others[owner] = replace(table, values=values)
    for unit, given in (("person", tables), ("person", others), ("record", others)):
        result, reports, _ = await run(job_of(variant, epsilon=1e9, unit=unit), given)
        answers.append(numbers_of(result))
        assert {reports[owner].surplus_rows for owner in OWNERS} == {60 if unit == "person" else 0}
    assert answers[0] == pytest.approx(answers[1], rel=0.01)
    assert answers[0] != pytest.approx(answers[2], rel=0.1)


@pytest.mark.parametrize("name", ["pca", "low-rank by sketch", "pattern-count"])
async def test_owners_whose_rows_are_of_other_persons_are_named_before_anything_is_shared(name):
    variant = JOBS[name]
    tables = tables_of_persons(variant)
    tables["telco"] = with_one_row_of_another_person(tables["telco"])
    _, ends, network = await run(job_of(variant, unit="person"), tables, deadline_s=2.0)
    for name in OWNERS:
        assert isinstance(ends[name], UnequalValuesError)
        assert str(ends[name]) == "the tables of telco and bank do not hold the same rows in the same order"
    assert not any(message.stage in ("table", "noise", "opening") for message in network.transcript)


async def test_jobs_that_protect_records_do_not_look_at_persons():
    variant = JOBS["pca"]
    tables = tables_of_persons(variant)
    tables["telco"] = with_one_row_of_another_person(tables["telco"])
    result, reports, _ = await run(job_of(variant), tables)
    assert result["privacy"]["unit"] == UNIT
    assert reports["telco"].surplus_rows == 0


async def test_an_owner_of_a_whole_table_needs_nobody_to_choose_its_rows():
    variant = JOBS["pca"]
    tables = {"bank": tables_of_persons(variant)["bank"]}
    job = job_of(variant, unit="person").model_copy(update={"inputs": job_of(variant).inputs[:1]})
    result, reports, _ = await run(job, tables)
    assert reports["bank"].surplus_rows == N_SURPLUS
    assert result["privacy"]["unit"] == PERSON


@pytest.mark.parametrize("name", ABOUT_JOINT_TABLES)
async def test_nobody_but_the_owners_can_tell_whether_rows_count(name):
    """The same messages of the same lengths to everybody else, whether all rows count or hardly any."""
    variant = JOBS[name]

    async def seen(tables):
        _, _, network = await run(job_of(variant, unit="person"), tables)
        return sorted((m.sender, m.receiver, m.stage, m.array.shape) for m in network.transcript)

    few = tables_of_persons(variant)
    apart = tables_of_persons(variant, order=np.arange(len(next(iter(few.values())).values)))
    assert await seen(few) == await seen(apart)


@pytest.mark.parametrize("name", JOBS)
def test_a_table_without_persons_is_named(name):
    variant = JOBS[name]
    tables = tables_of_persons(variant)
    tables["hospital"] = tables_of_persons(variant, None)["hospital"]
    with pytest.raises(
        JobError, match=r"persons cannot be protected, because the table of hospital has no person_column"
    ):
        plan_of(job_of(variant, unit="person"), tables)


@pytest.mark.parametrize("name", ABOUT_JOINT_TABLES)
def test_owners_who_let_different_numbers_of_rows_count_are_named(name):
    variant = JOBS[name]
    tables = tables_of_persons(variant)
    tables["telco"] = tables_of_persons(variant, MOST + 1)["telco"]
    with pytest.raises(
        JobError, match=r"the table of bank counts at most 2 rows of one person and the table of telco at most 3"
    ):
        plan_of(job_of(variant, unit="person"), tables)


@pytest.mark.parametrize(
    ("name", "parameters", "what"),
    [
        ("clustering", {}, "unit: clustering can protect records only"),
        (
            "pattern-count",
            {"method": "subsampled", "share": 0.5},
            ("unit: the privacy cost of a sample of slots for a person"),
        ),
        ("moments, threshold", {}, "unit: method 'threshold' protects an event"),
        ("pca", {"unit": "people"}, "parameters.unit"),
        ("secure-sum", {"unit": "people"}, "parameters.unit"),
    ],
)
def test_what_cannot_protect_persons_is_refused_by_name_when_it_is_submitted(name, parameters, what):
    job = job_of(VARIANTS[name], **{"unit": "person", **parameters})
    with pytest.raises(JobError, match=what):
        analysis_of(job).check_parameters(job)


def test_reports_of_too_many_rows_of_a_person_are_refused():
    variant = JOBS["pattern-count by reports"]
    with pytest.raises(JobError, match=r"parameters.method: 'randomized-response' would report more than 20000 bits"):
        plan_of(job_of(variant, unit="person"), tables_of_persons(variant, 3334))


@pytest.mark.parametrize("name", JOBS)
def test_the_plan_states_the_unit_everywhere_and_how_many_rows_count(name):
    variant = JOBS[name]
    plan = plan_of(job_of(variant, epsilon=8.0, unit="person"), tables_of_persons(variant))
    report = plan.privacy_report()
    assert plan.privacy_unit == plan.cost().unit == report["unit"] == PERSON
    assert name in SUMS or "up to 2 rows of one person count" in report["sensitivity"]
    assert report["views"]["coalition"]["epsilon"] <= 8.0


@pytest.mark.parametrize("name", JOBS)
def test_more_rows_that_count_cost_more_and_one_costs_what_a_record_does(name):
    """With the same noise: the plan's own, of which only what the schemas declare is changed."""
    variant = JOBS[name]
    if name in SUMS:
        return  # where a record is a row at every party
    plan = plan_of(job_of(variant, epsilon=8.0, unit="person"), tables_of_persons(variant))
    record = plan.model_copy(update={"job": job_of(variant, epsilon=8.0), "params": plan.params})
    spent = []
    for most in (1, 2, 3):
        schemas = tuple(s.model_copy(update={"most_rows_per_person": most}) if s.columns else s for s in plan.schemas)
        spent.append(plan.model_copy(update={"schemas": schemas}).cost().epsilon(1e-6).epsilon)
    assert spent[0] == record.cost().epsilon(1e-6).epsilon
    assert spent[0] < spent[1] < spent[2]
