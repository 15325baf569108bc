import pytest
from ledgers import UNIT, budget, cost_of, event, ledger_in, reserve

from dp.cost.accounting import Adjacency
from dp.cost.views import UNIT_AGAINST_COORDINATOR
from ledger.standing import against_whom, lines_of


def standing_after(tmp_path, *costs, unit=UNIT):
    ledger = ledger_in(tmp_path)
    ledger.set_budget("visits", budget(4.0, unit=unit), "first")
    for number, cost in enumerate(costs):
        reserve(ledger, f"job-{number}", cost=cost)
        ledger.commit(f"job-{number}")
    found = ledger.balance("visits").as_dict()
    ledger.close()
    return found


def test_a_period_holds_against_as_many_colluding_parties_as_the_job_that_withstands_fewest(tmp_path):
    jobs = [cost_of(event(), colluding=colluding) for colluding in (3, 2, 4)]
    standing = standing_after(tmp_path, *jobs)
    assert standing["least_colluding"] == 2
    assert "holds      against the coordinator and at most 2 colluding parties (t of the job" in lines_of(standing)[1]


def test_a_period_without_jobs_and_one_whose_job_trusts_everybody_say_so(tmp_path):
    for folder in ("none", "all"):
        (tmp_path / folder).mkdir()
    assert "as many colluding parties as each job withstands" in against_whom(standing_after(tmp_path / "none"))
    trusting = standing_after(tmp_path / "all", cost_of(event(), colluding=0))
    assert "against the coordinator alone" in against_whom(trusting)


@pytest.mark.parametrize("has_job", [False, True])
def test_a_budget_against_the_coordinator_alone_never_shows_a_coalition(tmp_path, has_job):
    added = event(adjacency=Adjacency.ADD_OR_REMOVE_ONE)
    cost = cost_of(coordinator=[added], unit=UNIT_AGAINST_COORDINATOR, colluding=0)
    standing = standing_after(tmp_path, *([cost] if has_job else []), unit=UNIT_AGAINST_COORDINATOR)
    assert standing["adjacency"] == {"coordinator": "add_or_remove_one"}
    shown = "\n".join(lines_of(standing))
    assert "against the coordinator alone; one colluding party undoes it" in shown
    assert "coalition" not in shown


def test_parts_of_the_budget_add_up_and_are_rounded_against_the_reader(tmp_path):
    standing = standing_after(tmp_path, *[cost_of(event(0.01))] * 3)
    one = standing["spent_part"] / 3
    assert standing["remaining_part"] == pytest.approx(1 - 3 * one)
    shown = "\n".join(lines_of(standing))
    spent, remaining = (float(line.split(" % of")[0].split()[-1]) for line in lines_of(standing)[2:4])
    assert spent >= 100 * standing["spent_part"]
    assert remaining <= 100 * standing["remaining_part"]
    assert "by 3 jobs" in shown


def test_what_running_jobs_hold_is_a_line_of_its_own(tmp_path):
    ledger = ledger_in(tmp_path)
    ledger.set_budget("visits", budget(4.0), "first")
    reserve(ledger, "job-0", cost=cost_of(event(0.01)))
    _, _, spent, held, _, room = lines_of(ledger.balance("visits").as_dict())
    assert room.startswith("  room for   about ")
    ledger.close()
    assert spent.startswith("  spent      0 % of the budget, by 0 jobs: epsilon 0 at delta ")
    assert " % of the budget, 1 job not yet opened: epsilon 0." in held
    assert held.endswith("(parts of what the budget admits add up, epsilons do not)")
