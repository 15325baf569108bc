"""Responses over time: keeping one response per value betrays that the value has changed, and what is offered does not.

The attack is on RAPPOR's memoization: a device that draws one response for each value and gives it again whenever the
value comes back. Whoever sees two different responses to one mechanism knows that the value has changed, whatever
epsilon is: the event has probability 0 where it has not, so no finite epsilon holds.
"""

import numpy as np
import pytest
from surveys import another_session, asked, kept, survey_device

from entropy import InsecureTestEntropy

EPSILON = 0.01
N_DEVICES = 500


class MemoizingDevice:
    """Keeps a response for each value that it ever had."""

    def __init__(self, name, entropy):
        self._name, self._entropy, self._memory = name, entropy, {}

    def respond(self, question, value):
        if value not in self._memory:
            self._memory[value] = question.respond(value, self._name, self._entropy)
        return self._memory[value]


class FreshDevice(MemoizingDevice):
    """Draws anew for each question, as ours does."""

    def respond(self, question, value):
        return question.respond(value, self._name, self._entropy)


def share_that_differs(kind, second_value):
    """How many of the devices give two different responses, where the value is 3 first."""
    entropy = InsecureTestEntropy(f"{kind.__name__} {second_value}")
    questions = [asked(another_session(i), epsilon=EPSILON) for i in range(2)]
    found = []
    for i in range(N_DEVICES):
        device = kind(f"d{i}", entropy)
        found.append(device.respond(questions[0], 3) != device.respond(questions[1], second_value))
    return np.mean(found)


def test_two_memoized_responses_that_differ_prove_a_change_at_any_epsilon():
    assert share_that_differs(MemoizingDevice, 3) == 0
    assert share_that_differs(MemoizingDevice, 20) > 0.9


def test_fresh_responses_differ_as_often_without_a_change():
    """The two responses cost 0.02 together: the shares differ by less than 0.02, and 0.08 is five standard errors."""
    unchanged, changed = share_that_differs(FreshDevice, 3), share_that_differs(FreshDevice, 20)
    assert unchanged > 0.9
    assert abs(unchanged - changed) < 0.02 + 0.08


def test_a_device_does_not_know_its_earlier_values(tmp_path):
    """It draws anew where the value came back, and pays each time."""
    bodies = []
    for i in range(8):
        with survey_device(tmp_path, data_dir=None) as device:
            bodies.append(device.answer_once(asked(another_session(i), epsilon=1.0)))
            assert device.budget.standing()["committed_jobs"] == i + 1
    assert len(set(bodies)) > 2


@pytest.mark.parametrize("values", [[10.0] * 6, [10.0, 90.0, 10.0, 50.0, 0.0, 99.0]])
def test_a_fixed_record_gives_one_response_whether_or_not_its_value_changes(tmp_path, values):
    bodies = []
    for i, value in enumerate(values):
        with survey_device(tmp_path, fixed=frozenset({"wage"}), records={"wage": kept(value)}) as device:
            bodies.append(device.answer_once(asked(another_session(i))))
    assert len(set(bodies)) == 1
