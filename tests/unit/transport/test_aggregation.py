from contextlib import ExitStack

import pytest

from transport.aggregation import MOST_CALLS, MOST_WAITING, PATIENCE_S, CallCount
from transport.errors import TooMuchError


def test_at_most_500_calls_are_in_flight():
    count = CallCount()
    with ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(count.call())
        with pytest.raises(TooMuchError, match="come again"), count.call():
            pass
    assert (MOST_CALLS, count.n_calls) == (500, 0)
    with count.call():
        assert count.n_calls == 1


def test_who_would_wait_beyond_the_limit_is_answered_at_once_and_room_for_answers_stays():
    count = CallCount()
    with ExitStack() as stack:
        for _ in range(MOST_WAITING):
            assert stack.enter_context(count.waiting()) == PATIENCE_S
        assert stack.enter_context(count.waiting()) == 0.0
        assert count.n_waiting == MOST_WAITING < MOST_CALLS
    assert count.n_waiting == 0


def test_a_call_that_fails_is_counted_out():
    count = CallCount()
    with pytest.raises(ValueError, match="boom"), count.call(), count.waiting():
        raise ValueError("boom")
    assert (count.n_calls, count.n_waiting) == (0, 0)
