"""What a coordinator makes a party hold by preparing attempts that never begin."""

import time

from batches import HUB, PARTIES, asked_batch
from virtual_time import run_in_virtual_time

from entropy import SystemEntropy
from party.batches.member import MAX_PREPARED, PartyBatches, PartyPlace
from party.batches.rules import BatchRules
from party.batches.store import BatchStore, KeptBatch


def test_of_more_attempts_than_may_be_prepared_the_oldest_is_given_up(tmp_path):
    accepted, closed = [], []
    asked, me = asked_batch(), PARTIES[0]
    store = BatchStore(tmp_path / "batches.sqlite")
    kept = KeptBatch(bytes(32), bytes(32), b"certificate", b"signature")
    store.add(asked.digest, kept, time.time() + 1e6, analyst="ada", question=asked.canonical_json())
    party = PartyBatches(
        place=PartyPlace(
            me, HUB.name, HUB.uri, frozenset(PARTIES) - {me}, BatchRules(smallest_cohort=2, exact_sums=True)
        ),
        credentials=lambda: None,
        store=store,
        entropy=SystemEntropy(),
        fetch=lambda *_: None,
        accept_messages=lambda attempt, names: accepted.append(attempt),
        open_session=lambda *_: None,
        close_session=lambda attempt, reason: closed.append(attempt),
    )

    async def prepare():
        for number in range(MAX_PREPARED + 2):
            await party.prepare(asked.canonical_json(), f"attempt-{number}")
        assert len(accepted) - len(closed) == MAX_PREPARED
        assert closed == accepted[:2]
        party.stop()

    run_in_virtual_time(prepare())
    store.close()
    assert closed == accepted
