import stat

import pytest

from device.journal import SqliteSumJournal, SumJournalError
from mpc.secagg.errors import RoundReusedError, ShareKindError
from mpc.secagg.journal import MemoryJournal, ShareKind
from mpc.transcript import RoundId
from service.errors import ServiceError

ROUND = RoundId("session", 0, 0)
OTHER = RoundId("other", 0, 0)
KINDS = {1: ShareKind.SELF_MASK_SEED, 2: ShareKind.MASK_KEY}


@pytest.fixture(params=["memory", "sqlite", "reopened"])
def journals(request, tmp_path):
    """A function that returns the journal; `reopened` restarts the process, so to speak, before every call."""
    memory, opened = MemoryJournal(), []

    def journal():
        if request.param == "memory":
            return memory
        if request.param == "reopened" or not opened:
            for one in opened:
                one.close()
            opened[:] = [SqliteSumJournal(tmp_path / "sums.sqlite")]
        return opened[0]

    yield journal
    for one in opened:
        one.close()


def test_a_round_is_opened_once(journals):
    journals().open_round(ROUND)
    with pytest.raises(RoundReusedError, match="already taken part"):
        journals().open_round(ROUND)


def test_another_attempt_or_round_or_session_is_another_round(journals):
    for other in (ROUND, RoundId("session", 0, 1), RoundId("session", 1, 0), RoundId("other", 0, 0)):
        journals().open_round(other)


def test_shares_are_released_once(journals):
    journals().open_round(ROUND)
    journals().record_release(ROUND, KINDS)
    with pytest.raises(RoundReusedError, match="already released"):
        journals().record_release(ROUND, KINDS)


def test_never_both_kinds_of_one_owner(journals):
    journals().open_round(ROUND)
    journals().record_release(ROUND, KINDS)
    with pytest.raises(ShareKindError, match="member 1"):
        journals().record_release(ROUND, {1: ShareKind.MASK_KEY})


def test_a_release_needs_an_opened_round(journals):
    with pytest.raises(RoundReusedError, match="has not opened"):
        journals().record_release(ROUND, KINDS)


def test_after_a_release_no_other_attempt_is_opened_or_released(journals):
    retry = RoundId("session", 0, 1)
    journals().open_round(ROUND)
    journals().open_round(retry)
    journals().record_release(ROUND, KINDS)
    with pytest.raises(RoundReusedError, match="attempt 0"):
        journals().record_release(retry, KINDS)
    with pytest.raises(RoundReusedError, match="attempt 0"):
        journals().open_round(RoundId("session", 0, 2))


def test_a_refused_call_writes_nothing(journals):
    with pytest.raises(RoundReusedError):
        journals().record_release(ROUND, KINDS)
    journals().open_round(ROUND)
    journals().record_release(ROUND, {})
    with pytest.raises(RoundReusedError, match="already released"):
        journals().record_release(ROUND, {})


def test_two_processes_with_one_file_cannot_both_enter_a_round(tmp_path):
    one, two = SqliteSumJournal(tmp_path / "sums.sqlite"), SqliteSumJournal(tmp_path / "sums.sqlite")
    one.open_round(ROUND)
    with pytest.raises(RoundReusedError):
        two.open_round(ROUND)
    one.close()
    two.close()


def test_the_file_is_for_its_owner_only(tmp_path):
    SqliteSumJournal(tmp_path / "sums.sqlite").close()
    assert stat.S_IMODE((tmp_path / "sums.sqlite").stat().st_mode) == 0o600


def test_a_file_that_is_no_journal_is_one_clear_error(tmp_path):
    path = tmp_path / "sums.sqlite"
    path.write_bytes(b"not a database at all, " * 100)
    with pytest.raises(SumJournalError, match=r"sums.sqlite cannot be used: file is not a database"):
        SqliteSumJournal(path)
    with pytest.raises(SumJournalError, match=r"cannot be opened: Is a directory"):
        SqliteSumJournal(tmp_path)
    assert issubclass(SumJournalError, ServiceError)  # what devices leave a round for, and commands end with


@pytest.mark.parametrize("call", [lambda j: j.open_round(OTHER), lambda j: j.record_release(ROUND, KINDS)])
def test_a_journal_that_cannot_be_written_says_so_and_writes_later(tmp_path, call):
    journal = SqliteSumJournal(tmp_path / "sums.sqlite")
    journal.open_round(ROUND)
    journal._db.connection.execute("PRAGMA query_only = ON")  # as on a disk that was mounted read-only
    with pytest.raises(SumJournalError, match="readonly"):
        call(journal)
    journal._db.connection.execute("PRAGMA query_only = OFF")
    call(journal)
    journal.close()


def test_what_was_edited_into_nonsense_is_not_taken_for_an_empty_release(tmp_path):
    journal = SqliteSumJournal(tmp_path / "sums.sqlite")
    journal.open_round(ROUND)
    journal._db.connection.execute('UPDATE rounds SET released = \'{"1": "everything"}\'')
    with pytest.raises(SumJournalError, match="edited or damaged"):
        journal.record_release(ROUND, KINDS)
    journal.close()
