"""An object whose fields somebody writes is its fields: what it has derived from them is no part of it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mpc.strict_model import StrictModel
from questions.responses import SurveyQuestion


@dataclass(frozen=True)
class Reading:
    question: "Asked"


class Asked(StrictModel):
    epsilon: float

    @cached_property
    def reading(self):
        return Reading(self)

    @cached_property
    def table(self):
        return np.full(3, self.epsilon)


class Other(Asked):
    pass


def both(read):
    first, second = Asked(epsilon=1.0), Asked(epsilon=1.0)
    return [(read(one), one)[1] for one in (first, second)]


def test_what_refers_back_to_an_object_is_not_compared():
    first, second = both(lambda one: one.reading)
    assert first == second
    assert hash(first) == hash(second)
    assert first != Asked(epsilon=2.0)


def test_an_array_that_an_object_has_derived_is_not_compared():
    first, second = both(lambda one: one.table)
    assert first == second


def test_objects_of_two_classes_and_of_none_differ():
    assert Asked(epsilon=1.0) != Other(epsilon=1.0)
    assert Other(epsilon=1.0) != Asked(epsilon=1.0)
    assert Asked(epsilon=1.0) != {"epsilon": 1.0}


def test_a_copy_derives_anew():
    one = Asked(epsilon=1.0)
    assert one.table[0] == one.reading.question.epsilon == 1.0
    changed = one.model_copy(update={"epsilon": 2.0})
    assert changed.table[0] == changed.reading.question.epsilon == 2.0


def test_two_surveys_that_have_looked_up_how_they_are_answered_are_compared():
    tree = {"record": "salary", "range": [0, 100], "epsilon": 1.0, "until": "2030-01-01T00:00:00Z"}
    first, second = (SurveyQuestion.from_tree(tree) for _ in range(2))
    assert first.inquiry.params is first
    assert first == second
    assert first != SurveyQuestion.from_tree(tree | {"epsilon": 2.0})
