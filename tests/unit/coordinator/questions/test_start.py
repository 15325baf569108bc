"""A coordinator that starts goes on with what is stored, whatever that is, and tells parties once of what has ended."""

import pytest
from batches import asked_batch
from certificates import authority_in
from stores import batches_in, surveys_in
from surveys import HUB

from coordinator.questions.batches import Batches
from coordinator.questions.host import MAX_SAID, OpenOne
from coordinator.questions.surveys import Surveys
from entropy import SystemEntropy
from service.identity import Role
from transport.happenings import StageReport

UNREAD = "this version of the coordinator cannot read the question; ask again"


class Agreeing:
    """Notes which batches parties are told to forget."""

    def __init__(self):
        self.told = []

    async def call_off(self, asked):
        self.told.append(asked.question_id)


@pytest.fixture
def store(tmp_path):
    found = batches_in(tmp_path / "batches.sqlite")
    yield found
    found.close()


@pytest.fixture
def batches(store, tmp_path):
    hub = authority_in(tmp_path, "walkers")(Role.COORDINATOR, "hub")
    return Batches(store, lambda: hub, SystemEntropy(), None, Agreeing(), tuple)


async def settled(host):
    """Wait for what a host has begun, and stop it."""
    while working := [task for task in host._tasks if task.get_coro().__name__ == "_tell"]:
        await working[0]
    await host.stop()


async def test_a_survey_of_another_version_is_ended_and_keeps_nobody_from_starting(tmp_path):
    store = surveys_in(tmp_path / "surveys.sqlite")
    stored = store.add(bytes(16), "ada", '{"asker":"hub","of":"a later version"}')
    surveys = Surveys(store, HUB, SystemEntropy())
    await surveys.start()
    assert store.find(stored.question_id).failure == UNREAD
    assert surveys.open_questions() == store.unended() == []
    await surveys.stop()
    store.close()


async def test_a_batch_of_another_version_is_ended_and_its_parties_are_left_to_the_version_that_reads_it(
    batches, store
):
    stored = store.add(bytes(16), "ada", '{"asker":"hub","of":"a later version"}', b"", 5)
    store.agree(stored.number)
    await batches.start()
    await settled(batches)
    assert store.find(stored.question_id).failure == UNREAD
    assert [one.question_id for one in store.untold()] == [stored.question_id]
    await batches.start()
    await settled(batches)


async def test_parties_are_told_once_of_a_batch_that_they_had_not_agreed_to(batches, store):
    asked = asked_batch()
    store.add(asked.question_id, "ada", asked.canonical_json(), b"", 5)
    await batches.start()
    await settled(batches)
    assert batches._agreeing.told == [asked.question_id]
    assert store.untold() == []


def test_of_a_long_series_the_last_reports_are_kept_and_a_follower_hears_each_once():
    one = OpenOne(None, b"", None, None)
    reports = [StageReport(f"stage {i}", 0.0, 5, ()) for i in range(3 * MAX_SAID)]
    heard = []
    for report in reports:
        one.say(report)
        heard += one.said_after(len(heard))
    assert heard == reports
    assert one.said_after(0) == reports[-MAX_SAID:]
    assert one.said_after(len(reports) - 1) == reports[-1:]
