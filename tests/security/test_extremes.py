"""Every field of every job and question at both ends of what it admits, on values at both ends of what numbers are.

What cannot be met is refused where plans are made, from public numbers. What is admitted runs to its end: nothing of it
raises, and no value leads to an error that zeros would have to stand for.
"""

import random
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from batches import batch_question
from extremes import RANGES, extremes
from factor_devices import descent_question, factor_question
from pydantic import ValidationError
from registry_jobs import VARIANTS
from surveys import survey_question
from virtual_time import run_in_virtual_time

from analyses.job.job import JobError, PrivacyTarget
from analyses.job.ratings import RatingsSchema
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.devices.question import FactorQuestion
from analyses.matrix_factorization.devices.record import Coins, DeclaredRatings, RatedItems, device_vector, used_ratings
from analyses.matrix_factorization.model import FactorModel
from analyses.registry import analysis_of
from analyses.run_locally import local_network, run_plan
from analyses.sums.records import DeclaredRecord, Record
from analyses.sums.secure_sum import SumParams, round_config
from device.config import DeviceConfig, SumBudgetConfig, SumPolicy, SurveyPolicy
from device.records import KeptRecord
from entropy import SystemEntropy
from party.config import PartyConfig
from party.policy import Answer, Policy, Request, Rules
from party.tables.config import TableConfig
from party.tables.ratings_config import RatingsTableConfig
from questions.responses import SurveyQuestion
from questions.shares import BatchQuestion

NUMBERS = (0.0, 5e-324, -5e-324, 1.0, 1e16, 1.7976931348623157e308, -1.7976931348623157e308)

REFUSALS = (JobError, ValidationError)

LARGEST_RUN = 1024
SIZES = {"buckets", "fine", "iterations", "sketch_rows", "steps", "rounds", "max_rows", "local_steps", "final_steps"}
"""Fields whose values above LARGEST_RUN are planned and not run, as that takes long; and so do some methods."""

LONG = ("triangle", "trapezoid")


def with_extremes(table, bounds, rows):
    """The table with other declarations, and values at both ends of these and of what numbers are."""
    schema, changes = table.schema, {} if rows is None else {"rows": rows}
    lower, upper = bounds or (0.0, 1.0)
    if bounds is not None and schema.ratings is not None:
        declared = {**schema.ratings.model_dump(), "lower": lower, "upper": upper}
        changes["ratings"] = RatingsSchema.model_validate(declared)
    elif bounds is not None:
        changes["columns"] = tuple(ColumnSchema(name=c.name, lower=lower, upper=upper) for c in schema.columns)
    rng, ends = np.random.default_rng(3), (*NUMBERS, lower, upper, lower / 2 + upper / 2)
    ratings = table.ratings and replace(table.ratings, values=rng.choice(ends, table.ratings.values.shape))
    fields = {name: getattr(schema, name) for name in BlockSchema.model_fields} | changes
    return Table(
        BlockSchema.model_validate(fields), rng.choice(ends, table.values.shape), table.ids_digest, ratings=ratings
    )


def cases_of(variant):
    """Yield a word for each case, with the changes of the job, the bounds and the rows of all tables."""
    for name, value in extremes(analysis_of(variant.job()).parameters):
        yield f"{name} = {value!r}", {"parameters": {**variant.parameters, name: value}}, None, None
    for name, value in extremes(PrivacyTarget):
        yield f"{name} = {value!r}", {"privacy": {**variant.privacy_of(40.0), name: value}}, None, None
    for bounds in RANGES:
        yield f"bounds {bounds}", {}, bounds, None
    for rows in ((1, 300), (300, 300), (300, 1 << 31), (1, 1 << 40)):
        yield f"rows {rows}", {}, None, rows


def is_run(word, changes):
    name, value = word.split(" ")[0], changes.get("parameters", {}).get(word.split(" ")[0])
    return value not in LONG and not (name in SIZES and type(value) is int and value > LARGEST_RUN)


def check_job(variant, word, changes, bounds, rows):
    """Plan the job, and run it if it is admitted; return whether it was."""
    try:
        tables = {name: with_extremes(table, bounds, rows) for name, table in variant.tables().items()}
        job = variant.job(**changes)
        schemas = [tables[name].schema if name in tables else BlockSchema(party=name) for name in job.members]
        plan = analysis_of(job).plan(job, schemas)
    except REFUSALS:
        return False
    plan.privacy_report()
    plan.cost()
    analysis_of(job).forecast(plan)
    if is_run(word, changes):
        run = run_in_virtual_time(run_plan(plan, tables, local_network(plan)))
        assert not run.failures, word
        assert run.result["analysis"], word  # which JSON can hold, without infinities
        assert not any(table.failures for table in tables.values()), word
    return True


def check_some(name, most):
    variant = VARIANTS[name]
    cases = list(cases_of(variant))
    for case in random.Random(name).sample(cases, min(most, len(cases))):
        check_job(variant, *case)


@pytest.mark.parametrize("name", ["secure-sum", "moments, laplace", "distribution, masked", "matrix-factorization"])
def test_some_fields_of_jobs_at_the_ends_of_what_they_admit(name):
    check_some(name, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_each_field_of_each_job_at_the_ends_of_what_it_admits(name):
    check_some(name, 12)


@pytest.mark.parametrize("name", ["distribution", "distribution, masked"])
@pytest.mark.parametrize("ends", [(-1e300, 1e300), (0.0, 1e154), (1e101, 1e102)])
def test_a_range_whose_powers_overflow_is_refused_in_the_plan(name, ends):
    variant = VARIANTS[name]
    assert not check_job(variant, "range", {"parameters": {**variant.parameters, "range": list(ends)}}, None, None)
    parameters = {key: value for key, value in variant.parameters.items() if key != "range"}
    assert not check_job(variant, "bounds", {"parameters": parameters}, ends, None)
    with pytest.raises(JobError, match="range"):
        SurveyQuestion.from_tree({**survey_question().model_dump(), "range": ends})
    with pytest.raises(ValueError, match="range"):
        SumParams(analysis="secure-distribution", record="r", largest=1, range=ends, buckets=16)


@pytest.mark.parametrize("name", ["distribution", "distribution, masked"])
def test_the_widest_range_that_is_admitted_has_an_answer(name):
    variant = VARIANTS[name]
    for ends in ((-1e100, 1e100), (0.0, 1e-300)):
        assert check_job(variant, "range", {"parameters": {**variant.parameters, "range": list(ends)}}, None, None)


@pytest.mark.parametrize(
    "model",
    [
        SumPolicy,
        SumBudgetConfig,
        SurveyPolicy,
        Policy,
        Rules,
        TableConfig,
        RatingsTableConfig,
        PartyConfig,
        DeviceConfig,
    ],
)
def test_a_field_of_a_configuration_at_the_ends_of_what_it_admits_is_taken_or_refused_by_its_name(model):
    usual = {"period": "2026", "epsilon": 1.0, "delta": 1e-6, "reason": "first", "max_epsilon": 1.0}
    usual = {name: value for name, value in usual.items() if name in model.model_fields}
    for name, value in extremes(model):
        with suppress(ValidationError):
            made = model.model_validate({**usual, name: value})
            if isinstance(made, Rules):
                assert isinstance(made.objections(REQUEST), list)
            if isinstance(made, Policy):
                assert made.decide(REQUEST).answer in Answer


# -- questions to devices ----------------------------------------------------------------------------------------------

SUMS = {
    "sum": {"analysis": "secure-sum", "length": 3},
    "mean": {"analysis": "secure-mean", "length": 3, "largest_weight": 10},
    "histogram": {"analysis": "secure-histogram", "edges": (0.0, 1.0, 2.0), "values": 2, "largest": 1},
    "distribution": {"analysis": "secure-distribution", "range": (0.0, 1.0), "buckets": 4, "largest": 1},
}
REQUEST = Request("ann", "pca", "people", ("x0",), 3, 1, ("ann", "hub"), epsilon=1.0, stated_epsilon=1.0)
IDENTITIES = {f"walker-{i}": bytes([i]) * 32 for i in range(1, 6)}


@pytest.mark.parametrize("way", SUMS)
def test_a_question_about_a_sum_at_the_ends_of_what_it_admits_gets_a_vector_of_any_record(way):
    usual = {"record": "r", "largest": 1000, "colluding": 1, "privacy": {"epsilon": 1.0, "delta": 1e-6}, **SUMS[way]}
    changed = [{name: value} for name, value in extremes(SumParams)]
    changed += [{"privacy": {**usual["privacy"], name: value}} for name, value in extremes(PrivacyTarget)]
    for change in random.Random(way).sample(changed, 60):
        if any(type(value) is int and value > LARGEST_RUN for value in change.values()):
            continue
        try:
            params = SumParams.model_validate({**usual, **change})
            config = round_config(params, "session", IDENTITIES, 0)
        except REFUSALS:
            continue
        for value in NUMBERS:
            n = params.length if way in ("sum", "mean") else 1
            record = Record(np.full(n, value), 1 << 70)
            contributed, encoded = KeptRecord(DeclaredRecord.as_asked(params), lambda of=record: of).encoded(
                params, SystemEntropy()
            )
            assert not contributed.not_used_because, (change, value)
            config.encoding.check_values(encoded.values)


def test_a_question_of_a_batch_at_the_ends_of_what_it_admits_has_a_plan_or_is_refused():
    usual = batch_question(privacy={"epsilon": 1.0, "delta": 1e-6}).model_dump()
    changed = [{name: value} for name, value in extremes(BatchQuestion) if name not in ("sum", "until")]
    changed += [{"sum": {**usual["sum"], name: value}} for name, value in extremes(SumParams)]
    for change in random.Random(2).sample(changed, 60):
        with suppress(*REFUSALS):
            question = BatchQuestion.from_tree({**usual, **change})
            assert question.n_elements >= 1
            assert question.noise is None or question.noise.length == question.n_elements
            question.privacy_report()


def check_factors(question):
    """Plan the rounds of a question, and contribute to the first ones at the ends of what they admit."""
    rounds = rounds_of(question, 5)
    if max(question.items, rounds.noise(0).length, rounds.n_rounds) > LARGEST_RUN:
        return
    lower, upper = question.bounds
    declared = DeclaredRatings(question.items, lower, upper, question.items)
    for value in (lower, upper, *NUMBERS):
        used = used_ratings(
            declared, RatedItems(tuple(map(str, range(question.items))), np.full(question.items, value))
        )
        for number in range(min(2, rounds.n_rounds)):
            shape = (question.items, rounds.rank)
            points = rounds.first_points if question.form == "sgd" else np.full(shape, 1 << 20)
            model = FactorModel(np.zeros(shape[0], np.int64), points, rounds.broadcast.units) if number else None
            vector = device_vector(rounds, number, model, declared, used, Coins(bytes(32), number))
            rounds.encoding(number).check_values(vector)


@pytest.mark.parametrize("make", [factor_question, descent_question])
def test_a_question_about_ratings_at_the_ends_of_what_it_admits_gets_a_vector_of_any_record(make):
    usual = make().model_dump()
    changed = [{name: value} for name, value in extremes(FactorQuestion)]
    changed += [{"privacy": {**usual["privacy"], name: value}} for name, value in extremes(PrivacyTarget)]
    changed += [{"lower": lower, "upper": upper, "centre": None} for lower, upper in RANGES]
    for change in random.Random(make.__name__).sample(changed, 40):
        with suppress(*REFUSALS):
            check_factors(FactorQuestion.model_validate({**usual, **change}))


def test_a_question_of_a_survey_at_the_ends_of_what_it_admits_gets_an_input_of_any_record():
    usual = survey_question().model_dump()
    changed = [{name: value} for name, value in extremes(SurveyQuestion) if name not in ("until", "buckets", "fine")]
    changed += [{"range": ends} for ends in RANGES]
    for change in random.Random(1).sample(changed, 60):
        try:
            question = SurveyQuestion.from_tree({**usual, **change})
        except REFUSALS:
            continue
        question.cost()
        for value in NUMBERS:
            found = question.input_of(np.array([value]))
            assert 0 <= found.value < question.inquiry.empty, (change, value)
