"""A device killed with SIGKILL at every step of an answer: never two different responses, never an unpaid one."""

import signal

import pytest
from child_processes import child_process, end_of
from survey_children import answer_and_die_at, answer_and_send
from surveys import asked, survey_device

from device.response_store import ResponseStore
from device.survey import SitsOutError
from party.ledger.books import JobState


def check(folder):
    """All that was sent is the same, and paid for. Returns what was sent, how the charge stands and what is kept."""
    key = asked().digest
    sent = (folder / "sent").read_text().split() if (folder / "sent").exists() else []
    assert len(set(sent)) <= 1
    with survey_device(folder) as device:
        state, kept = device.budget.survey_state(key), device.store.find(key)
        assert device.budget.standing()["committed_jobs"] <= 1
    if kept is not None and kept.body is not None:
        assert state is JobState.COMMITTED
    if sent:
        assert kept.body.hex() == sent[0]
    return sent, state, kept


def killed_at(step, folder):
    with child_process(answer_and_die_at, step, folder) as child:
        exit_code = end_of(child)
    assert exit_code in (0, -signal.SIGKILL)
    return exit_code


@pytest.mark.parametrize(
    ("first", "stride"),
    [pytest.param(7, 60, id="few"), pytest.param(0, 1, id="every step", marks=pytest.mark.slow)],
)
def test_a_device_killed_at_any_step_gives_one_response_or_none(tmp_path, first, stride):
    outcomes = set()
    for step in range(first, 10**6, stride):
        folder = tmp_path / str(step)
        folder.mkdir()
        exit_code = killed_at(step, folder)
        before, state, kept = check(folder)
        outcomes.add((state, None if kept is None else kept.body is not None))
        answer_and_send(folder)
        after, state, kept = check(folder)
        if kept is None or kept.body is None:
            assert after == []
            assert state is not JobState.COMMITTED
        else:
            assert len(after) == len(before) + 1
        if exit_code == 0:
            break
    assert step > 100
    assert (JobState.COMMITTED, True) in outcomes


@pytest.mark.slow
def test_a_thousand_kills_leave_one_response_or_none(tmp_path):
    """Kills follow each other in one folder until the device has answered or sits out, then a new folder begins."""
    turn, folder = 0, tmp_path / "0"
    for kill in range(1000):
        folder.mkdir(exist_ok=True)
        killed_at((kill * 37) % 400, folder)
        sent, _, kept = check(folder)
        if sent or (kept is not None and kill % 3 == 0):
            answer_and_send(folder)
            check(folder)
            turn += 1
            folder = tmp_path / str(turn)
    assert turn > 100


def test_a_lost_store_is_noticed(tmp_path):
    answer_and_send(tmp_path)
    for path in tmp_path.glob("responses.sqlite*"):
        path.unlink()
    ResponseStore(tmp_path / "responses.sqlite").close()
    with survey_device(tmp_path) as device, pytest.raises(SitsOutError, match="the store was lost"):
        device.respond(asked())
