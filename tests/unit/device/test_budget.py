import pytest

from analyses.sums.secure_sum import SumParams
from device.budget import (
    DeviceBudget,
    answer_charge_id,
    charge_id,
    cost_of,
    read_device_ledger,
    series_charge_id,
)
from dp.cost.views import MEMBER_UNIT
from ledger.books import BudgetExhaustedError, ChargeError, JobState
from ledger.budget import Budget
from ledger.entry import LedgerDamagedError
from mpc.secagg.config import Topology
from mpc.transcript import RoundId
from service.settings import SettingsError

BUDGET = Budget(MEMBER_UNIT, "2026", 5.0, 1e-6)
ROUND = RoundId("aa", 0, 0)
EXACT = SumParams(analysis="secure-sum", record="steps", largest=10)
PARAMS = SumParams.model_validate({**EXACT.model_dump(), "privacy": {"epsilon": 3.0, "delta": 1e-6}})
NOISE = PARAMS.noise(Topology.complete(7, 1))


def budget_in(folder, budget=BUDGET, reason="the first"):
    return DeviceBudget.open(folder, "ann", "installation-1", "hub", budget, reason)


def test_a_round_is_held_then_spent_and_the_next_one_refused(tmp_path):
    device = budget_in(tmp_path)
    device.reserve(ROUND, PARAMS, NOISE)
    assert (device.standing()["spent_epsilon"], device.standing()["reserved_jobs"]) == (0.0, 1)
    device.commit(ROUND, PARAMS)
    assert 2.9 < device.standing()["spent_epsilon"] <= 3.0
    for _ in range(8):
        try:
            device.reserve(RoundId("bb", 0, _), PARAMS, NOISE)
        except BudgetExhaustedError:
            break
        device.commit(RoundId("bb", 0, _), PARAMS)
    else:
        raise AssertionError("the budget is without end")
    assert device.standing()["spent_epsilon"] <= 5.0
    device.close()


def test_what_was_not_committed_is_free_again_and_what_was_is_not(tmp_path):
    device = budget_in(tmp_path)
    device.reserve(ROUND, PARAMS, NOISE)
    device.release(ROUND, "left")
    assert device.standing()["held_epsilon"] == 0.0
    other = RoundId("aa", 0, 1)
    device.reserve(other, PARAMS, NOISE)
    device.commit(other, PARAMS)
    device.release(other, "left")
    assert device.standing()["spent_epsilon"] > 0
    device.close()


def test_a_crash_gives_back_what_no_masked_vector_used(tmp_path):
    device = budget_in(tmp_path)
    device.reserve(ROUND, PARAMS, NOISE)
    device.close()
    again = budget_in(tmp_path)
    assert again.standing()["held_epsilon"] == 0.0
    with pytest.raises(ChargeError, match="used only once"):
        again.reserve(ROUND, PARAMS, NOISE)
    again.close()


@pytest.mark.parametrize("params", [PARAMS, EXACT])
def test_a_round_is_counted_once(tmp_path, params):
    device = budget_in(tmp_path)
    if params is PARAMS:
        device.reserve(ROUND, params, NOISE)
    device.commit(ROUND, params)
    with pytest.raises(ChargeError, match="used only once"):
        device.reserve(ROUND, PARAMS, NOISE)
    if params is EXACT:
        with pytest.raises(ChargeError, match="used only once"):
            device.commit(ROUND, params)
    device.close()


def test_without_a_reservation_no_noisy_vector_leaves(tmp_path):
    device = budget_in(tmp_path)
    with pytest.raises(ChargeError, match="holds no reservation"):
        device.commit(ROUND, PARAMS)
    device.close()


def test_without_a_budget_there_are_no_noisy_rounds_not_even_from_an_earlier_budget(tmp_path):
    budget_in(tmp_path).close()
    device = budget_in(tmp_path, budget=None)
    with pytest.raises(ChargeError, match="has no privacy budget"):
        device.reserve(ROUND, PARAMS, NOISE)
    assert device.standing() is None
    device.close()


def test_another_period_starts_with_nothing_spent_and_the_old_one_goes_on_where_it_was(tmp_path):
    device = budget_in(tmp_path)
    device.reserve(ROUND, PARAMS, NOISE)
    device.commit(ROUND, PARAMS)
    spent = device.standing()["spent_epsilon"]
    device.close()
    for period, expected in (("2027", 0.0), ("2026", spent)):
        device = budget_in(tmp_path, Budget(MEMBER_UNIT, period, 5.0, 1e-6), f"on to {period}")
        assert device.standing()["spent_epsilon"] == expected
        device.close()


def test_an_unchanged_file_writes_nothing(tmp_path):
    for _ in range(3):
        budget_in(tmp_path).close()
    device = budget_in(tmp_path)
    assert len(device._ledger.history()) == 1
    device.close()


def test_each_change_is_an_entry_with_the_owners_reason_and_none_is_made_under_an_old_one(tmp_path):
    smaller = Budget(MEMBER_UNIT, "2026", 2.0, 1e-6)
    budget_in(tmp_path).close()
    with pytest.raises(SettingsError, match=r"policy\.budget\.reason: the budget was changed"):
        budget_in(tmp_path, smaller)
    device = budget_in(tmp_path, smaller, "we were asked too often")
    assert [entry.what.reason for entry in device._ledger.history()] == ["the first", "we were asked too often"]
    assert device.standing()["epsilon"] == 2.0
    device.close()
    budget_in(tmp_path, smaller, "other words, but no change").close()
    device = budget_in(tmp_path, smaller)
    assert len(device._ledger.history()) == 2
    device.close()


def test_the_owner_reads_what_was_spent_and_how_many_exact_sums_there_were(tmp_path):
    with pytest.raises(SettingsError, match="no ledger yet"):
        read_device_ledger(tmp_path, "ann")
    device = budget_in(tmp_path)
    device.commit(ROUND, EXACT)
    found = read_device_ledger(tmp_path, "ann")  # while the device runs
    assert found["exact_sums"] == 1
    assert found["budget"]["remaining_epsilon"] == 5.0
    device.close()


def test_a_ledger_put_back_from_an_old_copy_keeps_the_device_from_running(tmp_path):
    device = budget_in(tmp_path)
    device.close()
    old = (tmp_path / "ledger.sqlite").read_bytes()
    device = budget_in(tmp_path)
    device.reserve(ROUND, PARAMS, NOISE)
    device.commit(ROUND, PARAMS)
    device.close()
    for left in tmp_path.glob("ledger.sqlite*"):
        left.unlink()
    (tmp_path / "ledger.sqlite").write_bytes(old)
    with pytest.raises(LedgerDamagedError, match="old copy"):
        budget_in(tmp_path)


SESSIONS = ("S", "S-0", "series-S", "series:S", "survey-S", "sum:S", "S:0", "S%3A0", "batch-S", "")


def test_no_two_charges_of_different_kinds_or_sessions_have_one_name():
    names = [
        charge_id(RoundId(session, number, attempt)) for session in SESSIONS for number in (0, 1) for attempt in (0, 1)
    ]
    names += [
        series_charge_id(session, f"{number}-{place}") for session in SESSIONS for number in (0, 1) for place in (0, 1)
    ]
    names += [answer_charge_id(kind, bytes([i]) * 32) for kind in ("survey", "batch") for i in range(4)]
    assert len(set(names)) == len(names)
    kinds = [next(kind for kind in ("sum:", "series:", "survey-", "batch-") if name.startswith(kind)) for name in names]
    assert [kinds.count(kind) for kind in ("sum:", "series:", "survey-", "batch-")] == [40, 40, 4, 4]
    for session in SESSIONS:
        others = [series_charge_id(other, "0-0") for other in SESSIONS if other != session]
        assert not any(name.startswith(series_charge_id(session, "")) for name in others)


def test_a_sum_in_a_session_called_like_a_series_neither_uses_nor_gives_back_what_the_series_holds(tmp_path):
    device = budget_in(tmp_path, Budget(MEMBER_UNIT, "2026", 100.0, 1e-6))
    device.hold_rounds("S", {0: cost_of(NOISE)}, "matrix-factorization")
    device.hold_rounds("S-0", {0: cost_of(NOISE)}, "matrix-factorization")
    for session in ("series-S", "series:S", "S"):
        device.reserve(RoundId(session, 0, 0), PARAMS, NOISE)
        device.commit(RoundId(session, 0, 0), PARAMS)
    assert (device.standing()["committed_jobs"], device.standing()["reserved_jobs"]) == (3, 2)
    device.release_rounds("S", "it is over")
    assert device.standing()["reserved_jobs"] == 1
    device.commit_round("S-0", 0)
    device.close()


def test_a_ledger_with_the_names_of_earlier_versions_is_read_and_stays_spent(tmp_path):
    device = budget_in(tmp_path, Budget(MEMBER_UNIT, "2026", 100.0, 1e-6))
    for name in ("aa-0-0", "series-aa-0-0", answer_charge_id("survey", bytes(32))):
        device._reserve(name, PARAMS.analysis, cost_of(NOISE))
        device._ledger.commit(name)
    device._reserve("series-aa-1-0", PARAMS.analysis, cost_of(NOISE))
    spent = device.standing()["spent_epsilon"]
    device.close()
    again = budget_in(tmp_path, Budget(MEMBER_UNIT, "2026", 100.0, 1e-6))
    assert (again.standing()["committed_jobs"], again.standing()["reserved_jobs"]) == (3, 0)
    assert again.standing()["spent_epsilon"] == spent
    assert again.answer_state(answer_charge_id("survey", bytes(32))) is JobState.COMMITTED
    again.reserve(ROUND, PARAMS, NOISE)
    again.hold_rounds("aa", {0: cost_of(NOISE)}, "matrix-factorization")
    assert again.standing()["reserved_jobs"] == 2
    again.close()
