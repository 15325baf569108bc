"""A job or question that starts from an earlier public result: new ratings alone, and what is refused."""

import json

import numpy as np
import pytest
from factor_devices import factor_question
from pydantic import ValidationError
from rating_jobs import N_ITEMS, PARTIES, VERTICAL, horizontal_tables, job_of, rows_of, table_of, vertical_tables
from virtual_time import run_in_virtual_time

from analyses.job.job import JobError
from analyses.matrix_factorization import protocol
from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.jobs.earlier import start_of
from analyses.run_locally import local_network, run_plan

EXACT = {"epsilon": 1e6, "delta": 1e-4}
HORIZONTAL = {"rank": 1, "rounds": 1}


def planned(parameters, tables, **changes):
    job = job_of(parameters=parameters, privacy=EXACT, **changes)
    return protocol.plan(job, [tables[name].schema for name in job.members])


async def run(plan, tables):
    return (await run_plan(plan, tables, local_network(plan), analysis=protocol.ANALYSIS)).result


@pytest.fixture(scope="module", params=["horizontal", "vertical"])
def earlier(request):
    """The parameters, tables and result of an earlier job, the result as an analyst has it."""
    parameters = VERTICAL if request.param == "vertical" else HORIZONTAL
    tables = (vertical_tables if request.param == "vertical" else horizontal_tables)()
    return parameters, tables, json.loads(json.dumps(run_in_virtual_time(run(planned(parameters, tables), tables))))


async def test_where_there_is_one_new_rating_the_earlier_model_stays_and_only_the_new_table_is_paid(earlier):
    parameters, tables, result = earlier
    one = {}
    for party, table in tables.items():
        declared = table.schema.ratings
        rows = rows_of([1], [0], [1.0])
        one[party] = table_of(party, rows, n_items=declared.items, users=declared.users)
    started = planned({**parameters, "start": start_of(result)}, one)
    cold = planned(parameters, one)
    assert started.digest() != cold.digest()
    assert started.privacy_report() == cold.privacy_report()
    before = np.array(result["offsets"]) / result["units"]
    warm, from_nothing = [np.array((await run(plan, one))["offsets"]) / result["units"] for plan in (started, cold)]
    moved = np.abs(warm - before)
    moved[: 1 if result["of"] == "items" else 2] = 0.0  # what the new ratings are of
    assert moved.max() < 0.1
    assert np.corrcoef(warm, before)[0, 1] > 0.9
    assert np.abs(from_nothing - before).max() > 0.3


def altered(start, **changes):
    return {**start, **changes}


async def test_an_earlier_model_that_does_not_fit_is_refused_by_name(earlier):
    parameters, tables, result = earlier
    start = start_of(result)
    planned({**parameters, "start": start}, tables)
    first = start["offsets"][0]
    lies = {
        "they were changed": altered(start, offsets=[first + 1, *start["offsets"][1:]]),
        "one for each offset": altered(start, vectors=start["vectors"][1:]),
        "further from 0": altered(start, offsets=[1 << 40, *start["offsets"][1:]]),
        "start.offsets": altered(start, offsets=[1.5, *start["offsets"][1:]]),
        "start: must be a finite number": altered(start, centre=float("nan")),
        "start.kept": altered(start, kept=1),
    }
    for words, lie in lies.items():
        with pytest.raises((JobError, ValidationError), match="start") as refused:
            planned({**parameters, "start": lie}, tables)
        assert words in str(refused.value)
    with pytest.raises(JobError, match=r"start: the earlier model has .* rank"):
        planned({**parameters, "rank": 2, "start": start}, tables)
    if result["of"] == "items":
        with pytest.raises(JobError, match="start: the earlier model has another centre"):
            planned({**parameters, "centre": 1.0, "start": start}, tables)
        named = {p: table_of(p, tables[p].ratings, items=[f"film {i}" for i in range(N_ITEMS)]) for p in PARTIES}
        with pytest.raises(JobError, match="start: the earlier model is of another list of items"):
            planned({**parameters, "start": start}, named)
    else:
        renamed = dict(zip(("bank", "hospital", "school"), tables.values(), strict=True))
        others = {
            party: type(table)(table.schema.model_copy(update={"party": party}), table.values, ratings=table.ratings)
            for party, table in renamed.items()
        }
        job = job_of(tuple(others), parameters={**parameters, "start": start}, privacy=EXACT)
        with pytest.raises(JobError, match="start: the earlier model is of other parties"):
            protocol.plan(job, [others[name].schema for name in job.members])


async def test_what_a_party_keeps_is_no_public_result(earlier):
    parameters, tables, result = earlier
    plan = planned(parameters, tables)
    ended = await run_plan(plan, tables, local_network(plan), analysis=protocol.ANALYSIS)
    kept = json.loads(json.dumps(ended.reports["bank"].kept))
    with pytest.raises(ValueError, match="no public result"):
        start_of(kept)
    with pytest.raises(ValueError, match="were changed"):
        start_of({**result, "offsets": result["offsets"][::-1]})
    with pytest.raises(JobError, match="start"):
        planned({**parameters, "start": {"of": result["of"], **kept}}, tables)


async def test_a_question_to_devices_starts_from_the_result_of_a_job_about_the_same_items(earlier):
    parameters, _, result = earlier
    asked = {"rank": parameters["rank"], "rounds": 1, "start": start_of(result)}
    if result["of"] == "users":
        with pytest.raises(JobError, match="start: the earlier model is of users"):
            rounds_of(factor_question(**asked), 5)
        return
    rounds = rounds_of(factor_question(**asked), 5)
    progress = rounds.begin()
    progress.improve(np.zeros(rounds.noise(0).length, dtype=np.int64))
    assert np.abs(progress.model.offsets_q - result["offsets"]).max() < 0.1 * result["units"]
    assert progress.model.vectors_q.tolist() == result["vectors"]
    with pytest.raises(JobError, match="start: the earlier model has"):
        rounds_of(factor_question(**{**asked, "rank": 2}), 5)
