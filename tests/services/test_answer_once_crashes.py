"""A device killed with SIGKILL at every step of an answer of any kind: never two answers, never an unpaid one."""

import signal

import pytest
from answering_children import STEPS, OneAnswer, answer_and_die_around, answer_and_die_at, answer_and_send
from child_processes import child_process, end_of
from surveys import asked, survey_device

from device.refusing import SitsOutError
from device.response_store import ResponseStore
from ledger.books import JobState

KINDS = ("survey", "batch", "exact batch", "sum")


@pytest.fixture(params=KINDS)
def one(request, tmp_path):
    return OneAnswer.of(request.param, tmp_path)


def check(one, folder):
    """All that was sent is the same, and paid for. Returns what was sent, how the charge stands and what is kept."""
    sent = (folder / "sent").read_text().split() if (folder / "sent").exists() else []
    assert len(set(sent)) <= 1
    state, exact, kept = one.state(folder)
    if kept or sent:
        assert exact if one.kind == "exact batch" else state is JobState.COMMITTED
    if one.kind == "sum":
        assert len(sent) <= 1  # a round is never answered again
    else:
        assert kept or not sent
    return sent, state, kept


def killed(one, folder, how, *args):
    folder.mkdir(exist_ok=True)
    with child_process(how, *args, one, folder) as child:
        exit_code = end_of(child)
    assert exit_code in (0, -signal.SIGKILL)
    return exit_code


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_device_killed_around_a_step_gives_one_answer_or_none(one, tmp_path, step, after):
    if one.kind == "sum" and step == "keep":
        pytest.skip(
            "a masked vector is not kept: its keys are gone with the process, so the round is not taken up again"
        )
    folder = tmp_path / "device"
    assert killed(one, folder, answer_and_die_around, step, after) == -signal.SIGKILL
    reached = list(STEPS).index(step) + after  # steps that were done
    before, state, _ = check(one, folder)
    assert bool(before) == (step == "send")
    if one.kind != "exact batch":
        assert (state is JobState.COMMITTED) == (reached >= 3)
    for _ in range(2):
        answer_and_send(one, folder)
        sent, _, kept = check(one, folder)
    resumes = reached < 2 or (reached >= 3 and one.kind != "sum" and (one.kind != "exact batch" or reached >= 5))
    if one.kind != "sum":
        assert (len(sent) - len(before) == 2) == resumes == bool(kept)
    else:
        assert len(sent) == (1 if reached < 1 or before else 0)  # what was reserved is used up


@pytest.mark.parametrize(
    ("first", "stride"),
    [pytest.param(7, 60, id="few"), pytest.param(0, 1, id="every step", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("one", ["survey"], indirect=True)
def test_a_device_killed_at_any_step_gives_one_response_or_none(one, tmp_path, first, stride):
    outcomes = set()
    for step in range(first, 10**6, stride):
        folder = tmp_path / str(step)
        exit_code = killed(one, folder, answer_and_die_at, step)
        before, state, kept = check(one, folder)
        outcomes.add((state, kept))
        answer_and_send(one, folder)
        after, state, kept = check(one, folder)
        if not kept:
            assert after == []
            assert state is not JobState.COMMITTED
        else:
            assert len(after) == len(before) + 1
        if exit_code == 0:
            break
    assert step > 100
    assert (JobState.COMMITTED, True) in outcomes


@pytest.mark.slow
@pytest.mark.parametrize("one", ["survey"], indirect=True)
def test_four_hundred_kills_leave_one_response_or_none(one, tmp_path):
    """Kills follow each other in one folder until the device has answered or sits out, then a new folder begins."""
    turn, folder = 0, tmp_path / "0"
    for kill in range(400):
        killed(one, folder, answer_and_die_at, (kill * 37) % 400)
        sent, _, kept = check(one, folder)
        if sent or (kept is not None and kill % 3 == 0):
            answer_and_send(one, folder)
            check(one, folder)
            turn += 1
            folder = tmp_path / str(turn)
    assert turn > 40


@pytest.mark.parametrize("one", ["survey"], indirect=True)
def test_a_lost_store_is_noticed(one, tmp_path):
    answer_and_send(one, tmp_path)
    for path in tmp_path.glob("responses.sqlite*"):
        path.unlink()
    ResponseStore(tmp_path / "responses.sqlite").close()
    with survey_device(tmp_path) as device, pytest.raises(SitsOutError, match="the store was lost"):
        device.answer_once(asked())
