"""How many more jobs there may be, and what one release costs instead: said before a job is submitted."""

import pytest

from analyses.job.forecast import Wanted
from analyses.job.job import Job, JobError
from analyses.job.listing import ListedBudget, ListedTable, Listing
from analyses.job.schema import BlockSchema, ColumnSchema
from analyst.catalogue import Catalogue
from analyst.planning import plan_of
from transport.calls.coordinator_client import PartyTables

UNIT = "record of the joint table"
PARTIES = ("bank", "clinic", "shop")


def catalogue(left=1.0, shown=("bank",), unit=UNIT):
    said = {}
    for party in PARTIES:
        columns = tuple(ColumnSchema(name=f"x{at}", lower=0.0, upper=1.0) for at in range(2))
        block = BlockSchema(party=party, columns=columns, has_ids=True, rows=(1000, 100_000))
        budget = ListedBudget(
            unit=unit, period="2026-Q4", epsilon=4.0, delta=1e-6, remaining_epsilon=4.0 * left, remaining_part=left
        )
        table = ListedTable(
            name="people",
            block=block,
            usual=("x0", "x1"),
            admitted={"pca": "at once"},
            budget=budget if party in shown else None,
        )
        said[party] = PartyTables(Listing(party=party, tables=(table,)).canonical_json(), "")
    return Catalogue.of(said)


def job(analysis="pca", **parameters):
    return Job.model_validate(
        {
            "analysis": analysis,
            "inputs": [{"party": party, "table": "people"} for party in PARTIES],
            "privacy": {"epsilon": 0.5, "delta": 1e-6},
            "parameters": {"max_rows": 100_000, **parameters},
        }
    )


def test_a_plan_says_how_many_more_such_jobs_a_budget_admits_where_it_is_shown():
    plan = plan_of(job(components=2), catalogue())
    (one,) = plan.more
    assert (one.party, one.table, one.period, one.jobs, one.of_one_release) == ("bank", "people", "2026-Q4", 45, 45)
    assert "bank.people: about 45 such jobs more until period '2026-Q4' ends, or 45 of second-moments" in repr(plan)
    assert (
        "a job of second-moments over these columns would cost epsilon 0.5, and this job costs 0.5; what that"
        in repr(plan)
    )
    assert plan.to_dict()["more_jobs"][0]["jobs"] == 45
    half = plan_of(job(components=2), catalogue(left=0.5)).more
    assert half[0].jobs == 22
    assert plan_of(job(components=2), catalogue(left=0.0)).more[0].jobs == 0


def test_nothing_is_said_of_budgets_that_are_hidden_or_of_another_unit():
    assert plan_of(job(components=2), catalogue(shown=())).more == ()
    assert plan_of(job(components=2), catalogue(unit="person")).more == ()


def test_a_question_that_no_release_answers_has_no_other_way():
    plan = plan_of(job("joint-mean"), catalogue())
    assert plan.more[0].of_one_release is None
    assert plan.instead == ""
    assert "second-moments" not in repr(plan)


def test_tables_say_how_many_jobs_of_usual_epsilons_there_may_still_be():
    lines = catalogue().lines()
    assert (
        "  room for about 918 of epsilon 0.1, or 45 of epsilon 0.5, or 12 of epsilon 1, until the period ends" in lines
    )
    assert catalogue(left=0.1).to_dict()["parties"]["bank"][0]["more_jobs"] == {"0.1": 91, "0.5": 4, "1": 1}
    assert "room for" not in "\n".join(catalogue(shown=()).lines())


@pytest.mark.parametrize("left", [0.0, 1e-6])
def test_a_budget_that_is_used_up_admits_no_more(left):
    assert "0 of epsilon 0.1, or 0 of epsilon 0.5, or 0 of epsilon 1" in "\n".join(catalogue(left=left).lines())


@pytest.mark.parametrize(
    ("analysis", "parameters", "of"),
    [("joint-mean", {}, "mean"), ("joint-count", {}, ""), ("pca", {"components": 2}, "variance along")],
)
def test_a_plan_says_the_epsilon_that_a_wanted_error_takes_and_a_job_with_it_has_that_error(analysis, parameters, of):
    asked = job(analysis, **parameters)
    (planned, *_) = [one for one in plan_of(asked, catalogue()).forecast.quantities if one.name.startswith(of)]
    for factor in (0.5, 3.0):
        wanted = Wanted(planned.half_width * factor, of)
        plan = plan_of(asked, catalogue(), wanted=wanted)
        assert plan.enough.lines()[0] in repr(plan)
        assert plan.to_dict()["enough"]["epsilon"] == plan.enough.epsilon
        for epsilon, is_met in ((plan.enough.epsilon, True), (0.9 * plan.enough.epsilon, False)):
            other = asked.model_copy(update={"target": asked.privacy.model_copy(update={"epsilon": epsilon})})
            assert wanted.is_met(lambda other=other: plan_of(other, catalogue()).forecast) is is_met


def test_a_plan_without_a_wanted_error_says_nothing_of_it_and_an_exact_job_has_none():
    assert plan_of(job("joint-mean"), catalogue()).to_dict()["enough"] is None
    exact = job("secure-sum", units=1000, names=["x0", "x1"]).model_copy(update={"target": None})
    with pytest.raises(JobError, match="within: the answer is exact"):
        plan_of(exact, catalogue(), wanted=Wanted(1.0))
