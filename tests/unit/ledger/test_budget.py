import dataclasses
import math
import sys

import pytest

from ledger.budget import Budget, BudgetError


def test_a_budget_keeps_what_its_owner_wrote():
    budget = Budget("record", "2026-Q4", 4, 1e-6)
    assert (budget.epsilon, budget.delta, budget.unit, budget.period) == (4.0, 1e-6, "record", "2026-Q4")


@pytest.mark.parametrize("value", [-1.0, 0, math.nan, math.inf, -math.inf, 5e-324, 1e-310, "1.0", None, True, 10**400])
@pytest.mark.parametrize("field", ["epsilon", "delta"])
def test_what_is_no_privacy_bound_is_refused_by_the_name_of_its_field(field, value):
    with pytest.raises(BudgetError, match=f"^{field}: must be"):
        Budget(**{"unit": "record", "period": "2026", "epsilon": 1.0, "delta": 1e-6, field: value})


def test_a_delta_of_one_or_more_is_refused():
    with pytest.raises(BudgetError, match="delta: must be below 1"):
        Budget("record", "2026", 1.0, 1.0)


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "x" * 201, None])
@pytest.mark.parametrize("field", ["unit", "period"])
def test_unit_and_period_are_short_printable_texts(field, text):
    with pytest.raises(BudgetError, match=f"^{field}: must be"):
        Budget(**{"unit": "record", "period": "2026", "epsilon": 1.0, "delta": 1e-6, field: text})


@pytest.mark.parametrize("text", ["x", " x ", "x" * 200])
def test_the_shortest_and_the_longest_text_are_taken(text):
    assert Budget(text, text, 1.0, 1e-6).unit == text


def test_the_smallest_normal_number_is_a_bound_and_a_delta_far_above_one_is_none():
    assert Budget("record", "2026", sys.float_info.min, sys.float_info.min).epsilon == sys.float_info.min
    with pytest.raises(BudgetError, match="delta: must be below 1, got 2"):
        Budget("record", "2026", 1.0, 2.0)


def test_a_budget_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Budget("record", "2026", 1.0, 1e-6).epsilon = 2.0
