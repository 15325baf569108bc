import os
import stat

import pytest

from ledger.counter import Head, LedgerCounter
from ledger.entry import LedgerDamagedError, LedgerError


def head(sequence: int) -> Head:
    return Head(sequence, f"{sequence:064x}")


@pytest.fixture
def counter(tmp_path):
    counter = LedgerCounter(tmp_path / "counter")
    yield counter
    counter.close()


def test_a_new_counter_has_seen_nothing_and_belongs_to_its_owner_only(counter):
    assert counter.read() is None
    assert stat.S_IMODE(counter.path.stat().st_mode) == 0o600


def test_it_goes_up_and_never_down(counter):
    for sequence in (0, 1, 5, 6):
        counter.advance(head(sequence))
    written = counter.path.read_bytes()
    for sequence in (2, 6, 0):
        counter.advance(head(sequence))
    assert counter.read() == head(6)
    assert counter.path.read_bytes() == written  # the second slot stays the last but one


def test_another_process_sees_it(counter):
    counter.advance(head(3))
    other = LedgerCounter(counter.path)
    other.advance(head(9))
    other.close()
    assert counter.read() == head(9)


@pytest.mark.parametrize("torn", [0, 4096])
def test_a_write_that_was_torn_leaves_the_other_slot(counter, torn):
    counter.advance(head(1))
    counter.advance(head(2))
    with counter.path.open("r+b") as file:
        file.seek(torn + 30)
        file.write(b"xxxx")
    assert counter.read() in (head(1), head(2))
    counter.advance(head(3))
    assert counter.read() == head(3)


def test_a_counter_without_any_valid_slot_is_refused(counter):
    counter.advance(head(1))
    counter.path.write_bytes(b"nonsense")
    with pytest.raises(LedgerDamagedError, match="edited or truncated"):
        counter.read()


def test_the_owner_may_overwrite_it(counter):
    counter.advance(head(9))
    counter.overwrite(head(2))
    assert counter.read() == head(2)


def test_a_counter_that_cannot_be_opened_is_an_error_with_its_path(tmp_path):
    with pytest.raises(LedgerError, match="absent"):
        LedgerCounter(tmp_path / "absent" / "counter")


def test_a_counter_that_cannot_be_written_is_an_error(counter, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(LedgerError, match="No space left"):
        counter.advance(head(1))
