from coordinator.state import NEXT, State


def test_ended_states_are_those_without_a_next_step() -> None:
    assert {state for state in State if state.has_ended} == {State.DONE, State.FAILED, State.CANCELLED}
    assert set(NEXT) == set(State)
