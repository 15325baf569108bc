"""Group commit: many responses in few transactions, and nobody hears of one that is not on disk."""

import asyncio

import pytest

from coordinator.questions.intake import MAX_ROWS, Intake
from coordinator.stores.question import Outcome
from coordinator.stores.surveys import Given, SurveyStoreError


class Store:
    """Keeps the sizes of the transactions, and fails where it shall."""

    def __init__(self, error=None):
        self.sizes, self.error = [], error

    def take(self, given):
        self.sizes.append(len(given))
        if self.error:
            raise self.error
        return [Outcome.TAKEN] * len(given)


async def test_many_responses_take_few_transactions():
    store, counted = Store(), []
    intake = Intake(store, counted.append)
    outcomes = await asyncio.gather(*(intake.take(Given(1, f"d{i}", 0)) for i in range(2 * MAX_ROWS + 5)))
    assert set(outcomes) == {Outcome.TAKEN}
    assert store.sizes == [MAX_ROWS, MAX_ROWS, 5]
    assert len(counted) == 2 * MAX_ROWS + 5


async def test_a_transaction_that_fails_is_heard_of_by_all_its_callers_and_not_counted():
    counted = []
    intake = Intake(Store(SurveyStoreError("full")), counted.append)
    found = await asyncio.gather(*(intake.take(Given(1, f"d{i}", 0)) for i in range(3)), return_exceptions=True)
    assert [str(error) for error in found] == ["full"] * 3
    assert counted == []


async def test_a_response_counts_also_where_its_caller_has_gone():
    counted = []
    intake = Intake(Store(), counted.append)
    call = asyncio.create_task(intake.take(Given(1, "d", 0)))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await intake.stop()
    assert counted == [Given(1, "d", 0)]
