"""Responses on disk: the first one of each device stands."""

import stat

import numpy as np
import pytest

from coordinator.surveys import store as surveys_store
from coordinator.surveys.store import Given, Outcome, SurveyStore, SurveyStoreError

ID = bytes(16)


@pytest.fixture
def store(tmp_path):
    store = SurveyStore(tmp_path / "surveys.sqlite")
    yield store
    store.close()


def test_the_first_response_stands_whatever_comes_later(store):
    number = store.add(ID, "ada", "{}").number
    given = [Given(number, "ann", 3), Given(number, "ann", 3), Given(number, "ann", 4), Given(number, "ben", 4)]
    outcomes = [Outcome.TAKEN, Outcome.REPEATED, Outcome.CONTRADICTED, Outcome.TAKEN]
    assert store.take(given) == outcomes
    assert store.take(given[:3]) == [Outcome.REPEATED, Outcome.REPEATED, Outcome.CONTRADICTED]
    assert store.counts(number, 6).tolist() == [0, 0, 0, 1, 1, 0]
    assert store.find(ID).n_contradictions == 2


def test_a_closed_question_takes_no_response_but_knows_those_it_has(store):
    number = store.add(ID, "ada", "{}").number
    store.take([Given(number, "ann", 3)])
    assert store.close_question(number).is_closed
    later = [Given(number, "ann", 3), Given(number, "ann", 4), Given(number, "ben", 3)]
    assert store.take(later) == [Outcome.REPEATED, Outcome.CLOSED, Outcome.CLOSED]
    assert store.counts(number, 4).sum() == 1


def test_what_was_written_is_there_at_the_next_start(tmp_path, monkeypatch):
    path = tmp_path / "surveys.sqlite"
    first = SurveyStore(path)
    asked = first.add(ID, "ada", "{}")
    first.take([Given(asked.number, f"d{i}", i % 3) for i in range(10)])
    first.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = SurveyStore(path)
    assert again.unended() == [asked]
    assert again.counts(asked.number, 3).tolist() == [4, 3, 3]
    monkeypatch.setattr(surveys_store, "ROWS_AT_ONCE", 4)
    parts = list(again.responses(asked.number))
    assert [len(names) for names, _ in parts] == [4, 4, 2]
    assert [name for names, _ in parts for name in names] == [f"d{i}" for i in range(10)]
    assert np.array_equal(np.concatenate([responses for _, responses in parts]), np.arange(10) % 3)
    assert again.n_responses(asked.number) == 10
    again.close_question(asked.number)
    again.end(asked.number, failure="nobody")
    assert again.unended() == []
    again.close()


def test_a_question_has_no_result_before_it_is_closed(store):
    number = store.add(ID, "ada", "{}").number
    store.end(number, result_json="{}")
    assert not store.find(ID).has_ended


def test_a_second_process_is_refused(store, tmp_path):
    with pytest.raises(SurveyStoreError, match="cannot be used"):
        SurveyStore(tmp_path / "surveys.sqlite")


def test_a_failed_write_leaves_nothing(store):
    number = store.add(ID, "ada", "{}").number
    with pytest.raises(TypeError):
        store.take([Given(number, "ann", 1), Given(number + 1, "ann", 1)])
    assert store.counts(number, 3).sum() == 0
