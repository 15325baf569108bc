"""Periods whose first job has nearly Gaussian noise: what they admit, and when that is decided."""

from fractions import Fraction

import pytest
from ledgers import UNIT, budget, cost_of, ledger_in, records_of, reserve

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.registry import ANALYSES
from dp.cost.accounting import Adjacency
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.gaussian_filter import GAUSSIAN_PART
from dp.cost.more_jobs import more_gaussian_jobs, more_jobs
from ledger.books import Books, ChargeError
from ledger.entry import BudgetSet, Committed, Released, Reserved, genesis, write_entry

PARTIES = ("a", "b", "c")
LAPLACE = DiscreteLaplaceDpEvent(1, Fraction(100), Adjacency.REPLACE_ONE)


def pca(epsilon: float):
    """What a PCA of this epsilon is charged."""
    job = Job.model_validate(
        {
            "analysis": "pca",
            "inputs": [{"party": party, "table": "people"} for party in PARTIES],
            "privacy": {"epsilon": epsilon, "delta": 1e-6},
            "parameters": {"components": 2, "max_rows": 100_000},
        }
    )
    columns = (ColumnSchema(name="x0", lower=0.0, upper=1.0),)
    schemas = [BlockSchema(party=party, columns=columns, has_ids=True, rows=(1000, 100_000)) for party in PARTIES]
    return ANALYSES["pca"].plan(job, schemas).cost()


def wanted(job_id: str, cost, analyst: str = "ada") -> Reserved:
    return Reserved(job_id, "visits", analyst, "pca", "here", "policy", UNIT, records_of(cost), 1)


def books_of(epsilon: float, *happened, part: str | None = str(GAUSSIAN_PART)) -> Books:
    books = Books()
    orders = tuple((one.order, str(one.share)) for one in Books().orders_for("visits", budget(epsilon)))
    for sequence, what in enumerate((BudgetSet("visits", budget(epsilon), "first", orders, part), *happened), start=1):
        books.take(write_entry(sequence, 0.0, what, genesis("north")))
    return books


def is_admitted(books: Books, cost, *limits: float) -> bool:
    try:
        books.check_charge(wanted("next", cost), limits)
    except ChargeError:
        return False
    return True


def n_admitted(books: Books, cost) -> int:
    for number in range(200):
        if not is_admitted(books, cost):
            return number
        job = wanted(f"job-{number}", cost)
        for what in (job, Committed(job.job_id)):
            books.take(write_entry(1, 0.0, what, genesis("north")))
    raise AssertionError("a budget must end")


@pytest.mark.parametrize(
    ("epsilon", "each", "by_gaussian", "by_orders"), [(1.0, 0.1, 73, 63), (4.0, 0.5, 45, 40), (8.0, 1.0, 41, 36)]
)
def test_a_budget_admits_more_jobs_with_gaussian_noise_than_by_renyi_orders(epsilon, each, by_gaussian, by_orders):
    assert n_admitted(books_of(epsilon), pca(each)) == by_gaussian
    assert n_admitted(books_of(epsilon, part=None), pca(each)) == by_orders  # as periods of earlier versions go on


@pytest.mark.parametrize(("epsilon", "each"), [(1.0, 0.1), (4.0, 0.5), (8.0, 1.0), (1.0, 1.0), (1.0, 2.0)])
def test_as_many_more_jobs_are_foretold_as_the_ledger_admits(epsilon, each):
    cost, delta = pca(each), budget(epsilon).delta
    admitted = n_admitted(books_of(epsilon), cost)
    assert more_jobs(cost, epsilon, delta, 1.0) == admitted
    assert more_gaussian_jobs(each, epsilon, delta, 1.0) == pytest.approx(admitted, rel=0.03, abs=1)
    books = books_of(epsilon)
    for number in range(admitted // 2):
        for what in (wanted(f"before-{number}", cost), Committed(f"before-{number}")):
            books.take(write_entry(1, 0.0, what, genesis("north")))
    left = books.balance("visits").as_dict()["remaining_part"]
    assert more_jobs(cost, epsilon, delta, left) == admitted - admitted // 2


def test_jobs_with_laplace_noise_are_foretold_by_renyi_orders():
    cost = cost_of(DiscreteLaplaceDpEvent(1, Fraction(10), Adjacency.REPLACE_ONE))
    assert more_jobs(cost, 2.0, budget(2.0).delta, 1.0) == n_admitted(books_of(2.0), cost) > 5


def test_a_period_that_is_used_up_shows_its_budget_and_no_more_and_the_odometer_above():
    books = books_of(1.0)
    n_admitted(books, pca(0.1))
    shown = books.balance("visits").as_dict()
    assert 0.97 < shown["spent_epsilon"] <= 1.0
    assert 0.99 < shown["spent_part"] <= 1.0
    assert shown["odometer_epsilon"] == pytest.approx(1.30, abs=0.01)
    assert shown["gaussian_filter"] is True


@pytest.mark.parametrize("part", [str(GAUSSIAN_PART), None])
def test_a_job_of_exactly_the_budget_fits_and_uses_up_all_of_it(part):
    books = books_of(1.0, part=part)
    assert is_admitted(books, pca(1.0))
    job = wanted("job-1", pca(1.0))
    for what in (job, Committed("job-1")):
        books.take(write_entry(1, 0.0, what, genesis("north")))
    shown = books.balance("visits").as_dict()
    assert (shown["spent_epsilon"], shown["spent_part"], shown["remaining_part"]) == (pytest.approx(1.0), 1.0, 0.0)
    assert shown["spent_epsilon"] <= 1.0
    assert shown["odometer_epsilon"] == pytest.approx(1.31, abs=0.01)
    assert not is_admitted(books, cost_of(LAPLACE))
    assert not is_admitted(books, pca(0.01))


def test_laplace_noise_reads_what_it_costs():
    one = DiscreteLaplaceDpEvent(1, Fraction(10), Adjacency.REPLACE_ONE)
    jobs = [what for n in range(9) for what in (wanted(f"job-{n}", cost_of(one)), Committed(f"job-{n}"))]
    assert books_of(1.0, *jobs).balance("visits").as_dict()["odometer_epsilon"] == pytest.approx(0.9, abs=1e-4)


def test_the_first_job_decides_and_a_later_one_of_another_kind_does_not():
    laplace = wanted("job-0", cost_of(LAPLACE))
    books = books_of(1.0, laplace, wanted("job-1", pca(0.1)), Committed("job-1"), Committed("job-0"))
    assert books.balance("visits").as_dict()["gaussian_filter"] is False
    other = books_of(1.0, wanted("job-1", pca(0.1)), laplace, Committed("job-0"), Committed("job-1"))
    assert other.balance("visits").as_dict()["gaussian_filter"] is True
    assert is_admitted(other, cost_of(LAPLACE))


def test_a_first_job_that_was_released_before_anything_was_seen_decides_nothing():
    laplace = wanted("early", cost_of(LAPLACE))
    books = books_of(1.0, laplace, Released("early", "failed"))
    assert n_admitted(books, pca(0.1)) == 73
    seen = books_of(1.0, laplace, wanted("job-1", pca(0.1)), Committed("job-1"), Released("early", "failed"))
    assert seen.balance("visits").as_dict()["gaussian_filter"] is False


def test_an_analysts_limit_is_decided_by_that_analysts_first_job():
    others = [wanted("job-0", cost_of(LAPLACE), "grace"), Committed("job-0")]
    own = [what for n in range(1, 65) for what in (wanted(f"job-{n}", pca(0.1)), Committed(f"job-{n}"))]
    assert is_admitted(books_of(8.0, *others, *own), pca(0.1), 1.0)
    assert not is_admitted(books_of(8.0, *others, *own, part=None), pca(0.1), 1.0)
    first = [wanted("job-0", cost_of(LAPLACE)), Committed("job-0")]
    assert not is_admitted(books_of(8.0, *first, *own), pca(0.1), 1.0)


def test_a_change_of_the_budget_keeps_the_filters_of_a_period_with_jobs(tmp_path):
    ledger = ledger_in(tmp_path)
    ledger.set_budget("visits", budget(1.0), "first")
    reserve(ledger, "job-1", pca(0.5))
    ledger.set_budget("visits", budget(2.0), "more")
    assert ledger.history()[-1].what.gaussian_part == str(GAUSSIAN_PART)
    assert ledger.balance("visits").as_dict()["gaussian_filter"] is True
    ledger.close()


def test_a_period_of_an_earlier_version_goes_on_without_a_gaussian_filter_until_it_has_no_job(tmp_path):
    job = wanted("job-1", pca(0.5))
    books = books_of(1.0, job, part=None)
    assert books.gaussian_part_for("visits", budget(2.0)) is None
    assert books_of(1.0, part=None).gaussian_part_for("visits", budget(2.0)) == GAUSSIAN_PART


def test_a_refusal_says_which_filter_decides():
    books = books_of(1.0, wanted("job-1", pca(0.9)))
    with pytest.raises(ChargeError, match=r"use 1\d\d.* % of the budget as Gaussian noise"):
        books.check_charge(wanted("next", pca(0.395)))
