"""What every store of surveys, and every store of batches, must do: classes of tests, run against each implementation.

A subclass whose name begins with `Test` says how its store is opened: the same one whenever the folder is the same.
"""

import numpy as np
import pytest

from coordinator.stores.batches import GivenAnswer
from coordinator.stores.question import Outcome
from coordinator.stores.surveys import ROWS_AT_ONCE, Given

ID = bytes(16)


def given(name, body=b"sealed", batch=1):
    return GivenAnswer(batch, name, body)


class SurveyStoreContract:
    """The tests of a `SurveyStore`."""

    @pytest.fixture
    def store(self, tmp_path):
        store = self.open(tmp_path)
        yield store
        store.close()

    def test_the_first_response_stands_whatever_comes_later(self, store):
        number = store.add(ID, "ada", "{}").number
        given = [Given(number, "ann", 3), Given(number, "ann", 3), Given(number, "ann", 4), Given(number, "ben", 4)]
        outcomes = [Outcome.TAKEN, Outcome.REPEATED, Outcome.CONTRADICTED, Outcome.TAKEN]
        assert store.take(given) == outcomes
        assert store.take(given[:3]) == [Outcome.REPEATED, Outcome.REPEATED, Outcome.CONTRADICTED]
        assert store.counts(number, 6).tolist() == [0, 0, 0, 1, 1, 0]
        assert (store.has_answered(number, "ann"), store.has_answered(number, "cem")) == (True, False)
        assert store.find(ID).n_contradictions == 2

    def test_a_closed_question_takes_no_response_but_knows_those_it_has(self, store):
        number = store.add(ID, "ada", "{}").number
        store.take([Given(number, "ann", 3)])
        assert store.close_question(number).is_closed
        later = [Given(number, "ann", 3), Given(number, "ann", 4), Given(number, "ben", 3)]
        assert store.take(later) == [Outcome.REPEATED, Outcome.CLOSED, Outcome.CLOSED]
        assert store.counts(number, 4).sum() == 1

    def test_what_was_written_is_there_at_the_next_start(self, tmp_path):
        n, first = ROWS_AT_ONCE + 10, self.open(tmp_path)
        asked = first.add(ID, "ada", "{}")
        first.take([Given(asked.number, f"d{i:06}", i % 3) for i in range(n)])
        first.close()
        again = self.open(tmp_path)
        assert again.unended() == [asked]
        assert again.counts(asked.number, 3).tolist() == np.bincount(np.arange(n) % 3).tolist()
        parts = list(again.responses(asked.number))
        assert [len(names) for names, _ in parts] == [ROWS_AT_ONCE, 10]
        assert [name for names, _ in parts for name in names] == [f"d{i:06}" for i in range(n)]
        assert np.array_equal(np.concatenate([responses for _, responses in parts]), np.arange(n) % 3)
        assert again.n_answers(asked.number) == n
        again.close_question(asked.number)
        again.end(asked.number, failure="nobody")
        assert again.unended() == []
        again.close()

    def test_a_question_has_no_result_before_it_is_closed(self, store):
        number = store.add(ID, "ada", "{}").number
        store.end(number, result_json="{}")
        assert not store.find(ID).has_ended
        assert store.find(b"another") is None

    def test_the_first_end_stands(self, store):
        """Whoever calls a question off may come while its result is being written, in another thread."""
        number = store.add(ID, "ada", "{}").number
        store.close_question(number)
        store.end(number, failure="ada called it off")
        store.end(number, result_json="{}")
        assert (store.find(ID).result_json, store.find(ID).failure) == ("", "ada called it off")

    def test_a_failed_write_leaves_nothing(self, store):
        number = store.add(ID, "ada", "{}").number
        with pytest.raises(TypeError):
            store.take([Given(number, "ann", 1), Given(number + 1, "ann", 1)])
        assert store.counts(number, 3).sum() == 0

    def test_later_questions_have_higher_numbers(self, store):
        numbers = [store.add(bytes([i]) * 16, "ada", "{}").number for i in range(3)]
        assert numbers == sorted(set(numbers))
        assert [one.number for one in store.unended()] == numbers


class BatchesStoreContract:
    """The tests of a `BatchesStore`."""

    @pytest.fixture
    def store(self, tmp_path):
        store = self.open(tmp_path)
        yield store
        store.close()

    def test_the_first_answer_of_a_device_stands(self, store):
        store.add(ID, "ada", "{}", b"keys", 5)
        outcomes = store.take([given("ann"), given("ann"), given("ann", b"another"), given("ben")])
        assert outcomes == [Outcome.TAKEN, Outcome.REPEATED, Outcome.CONTRADICTED, Outcome.TAKEN]
        assert store.answers(1, "", 10) == [("ann", b"sealed"), ("ben", b"sealed")]
        assert store.answers(1, "ann", 10) == [("ben", b"sealed")]
        assert store.names(1) == ["ann", "ben"]
        assert (store.has_answered(1, "ann"), store.has_answered(1, "cem")) == (True, False)

    def test_no_more_are_taken_than_there_may_be_and_none_of_a_closed_batch(self, store):
        store.add(ID, "ada", "{}", b"keys", 2)
        found = store.take([given("ann"), given("ben"), given("cem")])
        assert found == [Outcome.TAKEN, Outcome.TAKEN, Outcome.CLOSED]
        assert store.find(ID).n_answers == 2
        store.add(b"b" * 16, "ada", "{}", b"keys", 9)
        assert store.close_question(2).is_closed
        assert store.take([given("ann", batch=2)]) == [Outcome.CLOSED]
        assert store.take([given("ann")]) == [Outcome.REPEATED]

    def test_batches_and_their_counts_outlive_the_process(self, tmp_path):
        store = self.open(tmp_path)
        added = store.add(ID, "ada", "{}", b"keys", 5)
        store.take([given("ann")])
        store.close()
        again = self.open(tmp_path)
        (found,) = again.unended()
        assert (found.number, found.n_answers, found.keys, found.is_closed) == (added.number, 1, b"keys", False)
        again.end(1, result_json="{}")  # not before it is closed
        assert again.unended() == [found]
        assert again.answers(1, "", 10) == [("ann", b"sealed")]
        again.close_question(1)
        again.end(1, result_json="{}")
        assert again.unended() == []
        again.end(1, failure="ada called it off")  # the first end stands
        assert (again.find(ID).result_json, again.find(ID).failure) == ("{}", "")
        assert again.answers(1, "", 10) == [("ann", b"")]
        assert again.take([given("ann"), given("ann", b"another")]) == [Outcome.REPEATED, Outcome.CONTRADICTED]
        again.close()
