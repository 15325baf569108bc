from dataclasses import replace

import pytest
from ledgers import UNIT, budget, cost_of, event, records_of

from dp.cost.accounting import Adjacency
from dp.cost.composition import composed_epsilon
from dp.cost.events.record import record_of
from dp.cost.views import VIEWS
from ledger.books import Books, BudgetExhaustedError, ChargeError
from ledger.entry import BudgetSet, Committed, LedgerDamagedError, Released, Reserved, genesis, write_entry

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE


def books_of(*happened) -> Books:
    books = Books()
    for sequence, what in enumerate(happened, start=1):
        books.take(write_entry(sequence, 0.0, what, genesis("north")))
    return books


def wanted(job_id, cost=0.01, *, analyst="ada", unit=UNIT, events=None, dataset="visits") -> Reserved:
    whole = cost_of(*([event(cost)] if events is None else events), unit=unit)
    return Reserved(job_id, dataset, analyst, "pca", "here", "policy", unit, records_of(whole), 1)


REPLACED, ADDED = ((record_of(event(adjacency=adjacency)),) for adjacency in (REPLACE, ADD))
SET = BudgetSet("visits", budget(1.0), "first")


def test_costs_are_composed_as_renyi_curves_and_not_by_adding_epsilons():
    jobs = [wanted(f"job-{i}") for i in range(20)]
    books = books_of(SET, *jobs, *[Committed(job.job_id) for job in jobs])
    spent = books.balance("visits").spent
    alone = composed_epsilon(event(0.01), 1e-6).epsilon
    assert spent == pytest.approx(composed_epsilon([event(0.01)] * 20, 1e-6).epsilon, rel=1e-9)
    assert spent < 20 * alone / 2


def test_reserved_jobs_count_until_they_are_released_and_committed_ones_for_ever():
    one, two = wanted("job-1", 0.002), wanted("job-2", 0.008)
    both = books_of(SET, one, two).balance("visits")
    assert (both.spent, both.n_reserved, both.n_committed) == (0.0, 2, 0)
    assert both.held == pytest.approx(composed_epsilon([event(0.002), event(0.008)], 1e-6).epsilon)
    first = books_of(SET, one, two, Committed("job-1"), Released("job-2", "failed")).balance("visits")
    assert first.spent == first.held == pytest.approx(composed_epsilon(event(0.002), 1e-6).epsilon)
    assert (first.n_reserved, first.n_committed) == (0, 1)


def test_a_job_that_would_pass_the_budget_is_refused_with_the_numbers_and_a_smaller_one_is_not():
    books = books_of(SET, wanted("job-1", 0.05))
    with pytest.raises(BudgetExhaustedError, match=r"'visits' does not cover .* epsilon [0-9.]+ of 1 at delta 1e-06"):
        books.check_charge(wanted("job-2", 0.05))
    books.check_charge(wanted("job-2", 0.001))


def test_an_analyst_has_a_limit_of_its_own():
    books = books_of(SET, wanted("job-1", 0.002), wanted("job-2", 0.002, analyst="grace"), Committed("job-1"))
    limit = composed_epsilon([event(0.002)] * 2, 1e-6).epsilon
    books.check_charge(wanted("job-3", 0.0019), [limit])
    with pytest.raises(BudgetExhaustedError, match="analyst 'ada'"):
        books.check_charge(wanted("job-3", 0.0021), [limit])
    books.check_charge(wanted("job-3", 0.0021))
    quote = books.quote(wanted("job-3", 0.0021))
    assert limit < quote.analyst_after.epsilon(1e-6) < quote.held_after


def test_a_new_period_starts_at_zero_and_an_old_one_goes_on_where_it_was_left():
    spent = (SET, wanted("job-1"), Committed("job-1"))
    before = books_of(*spent).balance("visits").spent
    next_period = BudgetSet("visits", budget(1.0, period="2027"), "new year")
    assert books_of(*spent, next_period).balance("visits").spent == 0
    assert books_of(*spent, next_period, SET).balance("visits").spent == before > 0


NEXT_YEAR = BudgetSet("visits", budget(0.1, period="2027", unit="rating"), "new year, new unit")


@pytest.mark.parametrize("settled", [Committed("job-1"), Released("job-1", "failed")])
def test_a_job_belongs_to_the_period_of_its_reservation_whatever_has_begun_meanwhile(settled):
    books = books_of(SET, wanted("job-1"), NEXT_YEAR)
    cost = composed_epsilon(event(0.01), 1e-6).epsilon
    fresh = books.balance("visits")
    assert (fresh.held, fresh.spent, fresh.n_reserved) == (0.0, 0.0, 0)
    assert books.reserved_by("here") == ["job-1"]
    books.check_commit("job-1")
    books.take(write_entry(4, 0.0, settled, genesis("north")))
    assert books.balance("visits").held == books.balance("visits").spent == 0.0
    books.take(write_entry(5, 0.0, SET, genesis("north")))
    expected = cost if isinstance(settled, Committed) else 0.0
    assert books.balance("visits").held == books.balance("visits").spent == pytest.approx(expected)


def test_a_reservation_of_an_earlier_period_is_held_there_again_when_that_period_goes_on():
    books = books_of(SET, wanted("job-1", 0.05), NEXT_YEAR, SET)
    assert books.balance("visits").n_reserved == 1
    with pytest.raises(BudgetExhaustedError):
        books.check_charge(wanted("job-2", 0.05))


@pytest.mark.parametrize("lowered", [budget(0.5), budget(1.0, delta=1e-300)], ids=["epsilon", "delta"])
@pytest.mark.parametrize("then", [(), (NEXT_YEAR,)], ids=["", "and another period"])
def test_a_job_that_its_periods_budget_no_longer_covers_is_not_committed(lowered, then):
    books = books_of(SET, wanted("job-1", 0.04), BudgetSet("visits", lowered, "less"), *then)
    with pytest.raises(BudgetExhaustedError, match="'visits' does not cover this job"):
        books.check_commit("job-1")


def test_of_the_jobs_that_a_lowered_budget_covers_only_one_of_the_first_is_committed():
    jobs = [wanted("job-1", 0.01), wanted("job-2", 0.01)]
    alone, both = (composed_epsilon([event(0.01)] * n, 1e-6).epsilon for n in (1, 2))
    books = books_of(SET, *jobs, BudgetSet("visits", budget((alone + both) / 2), "less"))
    books.check_commit("job-2")
    books.take(write_entry(5, 0.0, Committed("job-2"), genesis("north")))
    with pytest.raises(BudgetExhaustedError):
        books.check_commit("job-1")


def test_a_budget_that_was_raised_and_lowered_again_is_not_taken_for_unchanged():
    books = books_of(
        SET,
        wanted("job-1", 0.05),
        BudgetSet("visits", budget(10.0), "more"),
        wanted("job-2", 0.05),
        Committed("job-2"),
        SET,
    )
    with pytest.raises(BudgetExhaustedError):
        books.check_commit("job-1")


def test_a_period_keeps_its_unit_also_when_another_one_was_between():
    books = books_of(SET, NEXT_YEAR)
    with pytest.raises(ChargeError, match="the unit of period '2026' is 'record of the joint table'"):
        books.check_budget("visits", budget(unit="rating"))
    books.check_budget("visits", budget(2.0))
    books.check_budget("stays", budget(unit="rating"))


def test_tables_do_not_share_a_budget():
    books = books_of(SET, BudgetSet("stays", budget(1.0), "first"), wanted("job-1", 0.05))
    books.check_charge(wanted("job-2", 0.05, dataset="stays"))


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (wanted("job-1", dataset="unknown"), "no privacy budget is set for table 'unknown'"),
        (
            wanted("job-1", unit="rating"),
            "is of the unit 'record of the joint table', but this job protects the unit 'rating'",
        ),
        (replace(wanted("job-1"), events=dict.fromkeys(VIEWS, ())), "states no cost"),
        (
            replace(wanted("job-1"), events=dict.fromkeys(VIEWS, ADDED)),
            ("relation replace_one, not for add_or_remove_one"),
        ),
        (
            replace(wanted("job-1"), events=dict.fromkeys(VIEWS, REPLACED)),
            ("relation add_or_remove_one, not for replace_one"),
        ),
        (
            replace(wanted("job-1"), events={"coalition": REPLACED}),
            "stated for exactly these views: coordinator and coalition",
        ),
    ],
)
def test_a_job_that_cannot_be_charged_is_refused_with_the_reason(job, words):
    with pytest.raises(ChargeError, match=words):
        books_of(SET).check_charge(job)


def test_an_unknown_event_is_refused():
    job = replace(wanted("job-1"), events=dict.fromkeys(VIEWS, ({"event": "wish"},)))
    with pytest.raises(ChargeError, match="kind 'wish' is unknown"):
        books_of(SET).check_charge(job)


@pytest.mark.parametrize(
    "happened",
    [
        (Committed("job-1"),),
        (SET, Released("job-1", "")),
        (SET, wanted("job-1"), wanted("job-1")),
        (SET, wanted("job-1"), Committed("job-1"), Committed("job-1")),
        (SET, wanted("job-1"), Committed("job-1"), Released("job-1", "")),
        (wanted("job-1"),),
    ],
)
def test_entries_that_contradict_each_other_are_damage(happened):
    with pytest.raises(LedgerDamagedError):
        books_of(*happened)


def orders_in(books) -> list[int]:
    return books.balance("visits").as_dict()["orders"]


def test_the_orders_of_a_period_are_fixed_before_its_first_job_whatever_budget_is_set_later():
    """Else each budget would bring orders, and so a whole delta, of its own."""
    larger = BudgetSet("visits", budget(8.0), "more")
    assert orders_in(books_of(SET)) != orders_in(books_of(SET, larger)) == orders_in(books_of(larger))
    for job in ([wanted("job-1")], [wanted("job-1"), Committed("job-1")]):
        assert orders_in(books_of(SET, *job, larger)) == orders_in(books_of(SET))
    released = [wanted("job-1"), Released("job-1", "failed")]
    assert orders_in(books_of(SET, *released, larger)) == orders_in(books_of(larger))
    another_period = BudgetSet("visits", budget(8.0, period="2027"), "new year")
    assert orders_in(books_of(SET, wanted("job-1"), another_period)) == orders_in(books_of(larger))


def test_orders_that_were_written_down_are_kept_though_a_later_version_would_choose_others():
    stated = BudgetSet("visits", budget(1.0), "first", ((512, "1/2"), (2, "1/4")))
    assert orders_in(books_of(stated)) == [512, 2]
    with pytest.raises(BudgetExhaustedError, match="at Renyi order 512"):
        books_of(stated, wanted("job-1", 0.002)).check_charge(wanted("job-2", 0.01))


def test_a_limit_per_analyst_is_a_filter_of_its_own_and_its_only_job_may_take_all_of_it():
    books = books_of(SET)
    alone = composed_epsilon(event(0.002), 1e-6).epsilon
    books.check_charge(wanted("job-1", 0.002), [alone * (1 + 1e-9)])
    with pytest.raises(BudgetExhaustedError, match="the jobs of analyst 'ada'"):
        books.check_charge(wanted("job-1", 0.002), [1.0, alone * 0.999])
    after = books_of(SET, wanted("job-1", 0.002))
    both = composed_epsilon([event(0.002)] * 2, 1e-6).epsilon
    after.check_charge(wanted("job-2", 0.002), [both * 1.01])
    with pytest.raises(BudgetExhaustedError):
        after.check_charge(wanted("job-2", 0.002), [both * 1.001])


def test_the_least_number_of_colluding_parties_is_kept_over_reserved_and_committed_jobs_of_the_period():
    three, two = replace(wanted("job-1"), colluding=3), replace(wanted("job-2"), colluding=2)
    assert books_of(SET).balance("visits").least_colluding is None
    assert books_of(SET, three).balance("visits").least_colluding == 3
    assert books_of(SET, three, two, Committed("job-2")).balance("visits").least_colluding == 2
    assert books_of(SET, three, two, Released("job-2", "failed")).balance("visits").least_colluding == 3
    assert books_of(SET, two, Committed("job-2"), NEXT_YEAR).balance("visits").least_colluding is None
