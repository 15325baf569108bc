from dataclasses import replace

import pytest

from mpc.secagg.errors import RoundReusedError, ShareKindError
from mpc.secagg.journal import MemoryJournal, ShareKind
from mpc.transcript import RoundId

ROUND = RoundId("session", 3, 0)
SEED, KEY = ShareKind.SELF_MASK_SEED, ShareKind.MASK_KEY


@pytest.fixture
def journal():
    opened = MemoryJournal()
    opened.open_round(ROUND)
    return opened


def test_a_round_is_opened_once(journal):
    with pytest.raises(RoundReusedError, match="already taken part in session round 3 attempt 0"):
        journal.open_round(ROUND)
    for other in (replace(ROUND, attempt=1), replace(ROUND, number=4), replace(ROUND, session="another")):
        journal.open_round(other)


def test_shares_are_released_once_and_only_in_an_opened_round(journal):
    journal.record_release(ROUND, {1: SEED, 2: KEY})
    with pytest.raises(RoundReusedError, match="already released"):
        journal.record_release(ROUND, {1: SEED})
    with pytest.raises(RoundReusedError, match="not opened"):
        journal.record_release(replace(ROUND, attempt=1), {1: SEED})


def test_the_other_kind_of_a_share_is_never_released(journal):
    journal.record_release(ROUND, {1: SEED, 2: KEY})
    with pytest.raises(
        ShareKindError,
        match="a share of the mask key of member 2 was released; a share of its seed of its own mask must not",
    ):
        journal.record_release(ROUND, {2: SEED})
    with pytest.raises(ShareKindError, match="member 1"):
        journal.record_release(ROUND, {1: KEY})


def test_after_a_release_no_other_attempt_is_opened(journal):
    journal.open_round(replace(ROUND, attempt=1))
    journal.record_release(replace(ROUND, attempt=1), {1: SEED})
    with pytest.raises(RoundReusedError, match="attempt 1, so the sum of that attempt may have been opened"):
        journal.open_round(replace(ROUND, attempt=2))
    journal.open_round(replace(ROUND, number=4))


def test_of_two_open_attempts_only_one_releases(journal):
    journal.open_round(replace(ROUND, attempt=1))
    journal.record_release(ROUND, {1: SEED})
    with pytest.raises(RoundReusedError, match="attempt 0, so the sum of that attempt may have been opened"):
        journal.record_release(replace(ROUND, attempt=1), {1: SEED})
