"""What every store of a ledger's entries must do: one class of tests, run against each implementation."""

import threading

import pytest
from ledgers import budget, reserve

from ledger.counter import LedgerCounter
from ledger.entry import LedgerError, Released, genesis, write_entry
from ledger.ledger import Ledger


def entries(n, *, after=0):
    """Return as many entries; a store does not look at what they say."""
    digest, made = genesis("north"), []
    for sequence in range(1, after + n + 1):
        made.append(write_entry(sequence, 1.0, Released(f"job-{sequence}", "a reason, whatever its länge"), digest))
        digest = made[-1].digest
    return made[after:]


class EntryStoreContract:
    """The tests. A subclass whose name begins with `Test` has a fixture `place`, and says how to open a store there."""

    def open(self, place):
        """Open the store at a place; the same one whenever the place is the same."""
        raise NotImplementedError

    @pytest.fixture
    def place(self, tmp_path):
        return tmp_path / "entries"

    @pytest.fixture
    def store(self, place):
        store = self.open(place)
        yield store
        store.close()

    def test_a_new_store_is_empty(self, store):
        with store.transaction() as stored:
            assert stored.after(0) == []
            assert stored.digest_of(1) is None

    def test_what_was_appended_is_there_in_order_also_after_another_start(self, store, place):
        written = entries(3)
        with store.transaction() as stored:
            stored.append(written[:1])
            stored.append(written[1:])
        rows = [(entry.sequence, entry.text, entry.digest) for entry in written]
        again = self.open(place)
        for one in (store, again):
            with one.transaction() as stored:
                assert stored.after(0) == rows
                assert stored.after(2) == rows[2:]
                assert stored.after(3) == []
                assert stored.digest_of(2) == written[1].digest
                assert stored.digest_of(4) is None
        again.close()

    def test_a_transaction_sees_what_it_appended_itself(self, store):
        with store.transaction() as stored:
            stored.append(entries(2))
            assert [sequence for sequence, _, _ in stored.after(0)] == [1, 2]

    def test_an_error_takes_the_whole_transaction_back_and_comes_out_as_it_is(self, store, place):
        class LightsWentOut(Exception):
            pass

        def append_and_fail():
            with store.transaction() as stored:
                stored.append(entries(2, after=1))
                raise LightsWentOut

        with store.transaction() as stored:
            stored.append(entries(1))
        with pytest.raises(LightsWentOut):
            append_and_fail()
        again = self.open(place)
        for one in (store, again):
            with one.transaction() as stored:
                assert [sequence for sequence, _, _ in stored.after(0)] == [1]
        again.close()

    def test_a_number_is_given_once(self, store):
        with store.transaction() as stored:
            stored.append(entries(2))
        with pytest.raises(LedgerError), store.transaction() as stored:
            stored.append(entries(1, after=1))
        with store.transaction() as stored:
            assert [sequence for sequence, _, _ in stored.after(0)] == [1, 2]

    def test_transactions_of_two_openings_never_overlap(self, store, place):
        """Each reads the last number and appends the next one: were they to overlap, a number would be given twice."""
        each = 20

        def append_some(one):
            for _ in range(each):
                with one.transaction() as stored:
                    last = len(stored.after(0))
                    stored.append(entries(1, after=last))

        other, failures = self.open(place), []

        def appended(one):
            try:
                append_some(one)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=appended, args=(one,)) for one in (store, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        other.close()
        assert failures == []
        with store.transaction() as stored:
            assert [sequence for sequence, _, _ in stored.after(0)] == list(range(1, 2 * each + 1))

    def test_a_ledger_works_with_it(self, place, tmp_path):
        counter = LedgerCounter(tmp_path / "counter")
        ledger = Ledger(self.open(place), counter, party="north", holder="here")
        ledger.set_budget("visits", budget(1.0), "first")
        reserve(ledger, "job-1", 0.001)
        ledger.commit("job-1")
        ledger.close()
        again = Ledger(self.open(place), LedgerCounter(tmp_path / "counter"), party="north", holder="here")
        assert again.balance("visits").n_committed == 1
        assert again.verify().sequence == 3
        again.close()
