"""What is forecast of results, beside what runs then show; and the refusal of infeasible jobs."""

import json

import numpy as np
import pytest
from forecast_cases import CASES, observed
from registry_jobs import VARIANTS

from analyses.job.forecast import Forecast, Quantity, lines_of_forecast
from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema
from analyses.registry import ANALYSES, OFFERED, analysis_of

INFEASIBLE = {
    "pca": 0.005,
    "second-moments": 0.005,
    "low-rank": 0.005,
    "least-squares": 0.005,
    "logistic-regression": 0.005,
    "pattern-count": 0.002,
    "cross-table": 0.002,
    "circuit": 0.002,
    "joint-count": 0.002,
    "joint-mean": 0.005,
    "joint-sum": 0.005,
    "moments": 0.002,
    "clustering": 0.01,
    "secure-sum": 0.0005,
    "secure-mean": 0.0005,
    "secure-histogram": 0.001,
    "distribution": 0.01,
    "distribution, masked": 0.005,
    "matrix-factorization": 0.02,
}
"""Job of `VARIANTS` to an epsilon whose noise exceeds every answer."""


def schemas_of(variant, job):
    tables = variant.tables()
    return [tables[name].schema if name in tables else BlockSchema(party=name) for name in job.members]


def infeasible_job(name, **changes):
    variant = VARIANTS[name]
    job = variant.job(privacy={"epsilon": INFEASIBLE[name], "delta": 1e-6}, **changes)
    return job, schemas_of(variant, job)


@pytest.mark.parametrize("name", ["pattern-count", "secure-sum"])
def test_errors_are_as_large_as_was_forecast_at_a_glance(name):
    errors, _ = observed(CASES[name], CASES[name].runs)
    assert 1 / 1.5 < np.sqrt(np.mean(errors**2)) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_errors_are_within_a_factor_of_their_forecast_and_stated_intervals_cover(name):
    errors, stated = observed(CASES[name], max(60, CASES[name].runs))
    assert 1 / 1.3 < np.sqrt(np.mean(errors**2)) < 1.3
    covered = np.mean(np.abs(errors if stated is None else stated) < 1.96)
    assert covered > 0.86, "19 of 20, less what so few runs may miss"
    if errors.size >= 500:
        assert 0.9 < covered < 0.99


@pytest.mark.parametrize("name", VARIANTS)
def test_every_job_of_the_registry_has_a_forecast_of_errors_or_says_why_not(name):
    variant = VARIANTS[name]
    job = variant.job()
    analysis = analysis_of(job)
    forecast = analysis.forecast(analysis.plan(job, schemas_of(variant, job)))
    assert forecast.quantities or forecast.not_forecast
    assert not forecast.infeasible
    assert all(one.standard_error > 0 for one in forecast.quantities)
    assert all(sentence.endswith(".") for sentence in (*forecast.assumptions, *forecast.not_forecast))
    told = json.loads(json.dumps(forecast.as_dict(), allow_nan=False))
    assert lines_of_forecast(told) == forecast.lines()


def test_every_analysis_of_the_registry_forecasts_for_itself():
    own = {one.names: one.own_forecast.__module__ for one in OFFERED}
    assert "analyses.job.analysis" not in own.values()


@pytest.mark.parametrize("name", INFEASIBLE)
def test_an_infeasible_job_is_refused_with_an_epsilon_that_helps_and_planned_if_it_says_anyway(name):
    job, schemas = infeasible_job(name)
    analysis = ANALYSES[job.analysis]
    with pytest.raises(JobError, match=r"^privacy\.epsilon: with .* this job is infeasible: .*--anyway") as refused:
        analysis.plan(job, schemas)
    text = str(refused.value)
    assert "in Python: client.run(question, anyway=True)" in text
    helps = float(text.split("an epsilon of at least about ")[1].split()[0])
    analysis.plan(job.model_copy(update={"target": job.privacy.model_copy(update={"epsilon": helps})}), schemas)

    asked = job.model_copy(update={"anyway": True})
    planned = analysis.plan(asked, schemas)
    assert analysis.forecast(planned).infeasible in text


def test_an_exact_answer_has_no_errors_and_is_never_infeasible():
    variant = VARIANTS["secure-sum"]
    job = variant.job(privacy=None)
    forecast = ANALYSES["secure-sum"].forecast(ANALYSES["secure-sum"].plan(job, schemas_of(variant, job)))
    assert (forecast.quantities, forecast.infeasible) == ((), "")


def test_of_a_table_of_which_a_filter_is_asked_no_row_may_count():
    variant = VARIANTS["secure-sum"]
    job = variant.job()
    schemas = [
        one.model_copy(
            update={
                "rows": (50, 60),
                "columns": tuple(c.model_copy(update={"lower": 10.0, "upper": 20.0}) for c in one.columns),
            }
        )
        for one in schemas_of(variant, job)
    ]
    filtered = [one.model_copy(update={"where": "age is at least 18"}) for one in schemas]
    analysis = ANALYSES["secure-sum"]
    of_all, of_some = (analysis.forecast(analysis.plan(job, of)).quantities for of in (schemas, filtered))
    for one, other in zip(of_all, of_some, strict=True):
        assert (one.least, other.least) == (len(schemas) * 500.0, 0.0)
        assert one.largest == other.largest == len(schemas) * 1200.0


def test_a_job_that_says_anyway_says_so_to_all_and_others_look_as_before():
    job = VARIANTS["pca"].job()
    assert "anyway" not in job.canonical_json()
    assert Job.from_json(job.model_copy(update={"anyway": True}).canonical_json()).anyway
    with pytest.raises(JobError, match="anyway"):
        Job.from_json(job.canonical_json()[:-1] + ',"anyway":"yes"}')


def test_only_so_many_quantities_are_shown_as_text():
    forecast = Forecast(tuple(Quantity(f"number {i}", "rows", 1.0) for i in range(30)))
    assert len(forecast.lines()) == 13
    assert forecast.lines()[-1] == "and 18 more; --format json has them all"
    assert len(forecast.as_dict()["quantities"]) == 30


RANGES = (
    "pca",
    "second-moments",
    "low-rank",
    "least-squares",
    "logistic-regression",
    "secure-mean",
    "distribution",
    "distribution, masked",
)


@pytest.mark.parametrize("name", RANGES)
def test_a_forecast_that_depends_on_the_rows_is_a_range_and_the_bad_case_is_what_is_approved_on(name):
    variant = VARIANTS[name]
    job = variant.job(privacy={"epsilon": 15.0 if name == "distribution" else 30.0, "delta": 1e-6})
    analysis = analysis_of(job)
    forecast = analysis.forecast(analysis.plan(job, schemas_of(variant, job)))
    for one in forecast.quantities:
        best = one.standard_error if one.best_case is None else one.best_case
        assert best <= one.standard_error <= one.bad_case
        assert one.half_width == pytest.approx(1.96 * one.bad_case, rel=1e-4)
        assert f"95 % within {one.half_width:.3g} in a bad case, {one.best_half_width:.3g} in the best" in one.in_words
    assert any("In the bad case" in sentence for sentence in forecast.assumptions)


def test_an_error_larger_than_all_that_is_possible_is_told_as_useless():
    few = Quantity("mean", "units", 0.1, at_fewest_rows=24.7, least=0.0, largest=3.0)
    assert "; useless with the fewest rows" in few.in_words
    assert "; standard error 2 with the fewest rows" in Quantity("mean", "units", 0.1, 2.0, least=0, largest=3).in_words
    assert "; standard error 24.7 with" in Quantity("mean", "units", 0.1, 24.7).in_words
