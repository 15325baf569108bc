import json

import pytest
from ledgers import budget, event

from dp.event_record import record_of
from party.ledger_entry import (
    Adopted,
    BudgetSet,
    Committed,
    LedgerDamagedError,
    Released,
    Reserved,
    genesis,
    read_entry,
    write_entry,
)

RESERVED = Reserved("job-1", "visits", "ada", "pca", "here", "owner", "record", (record_of(event()),))


@pytest.mark.parametrize(
    "what", [BudgetSet("visits", budget(), "first"), RESERVED, Committed("j"), Released("j", "why"), Adopted("why")]
)
def test_an_entry_comes_back_from_its_text(what):
    entry = write_entry(7, 12.5, what, genesis("north"))
    assert read_entry(7, entry.text, entry.digest, genesis("north")) == entry


def test_a_digest_depends_on_the_text_and_on_all_entries_before():
    one = write_entry(1, 0.0, Committed("j"), genesis("north"))
    assert one.digest != write_entry(1, 0.0, Committed("k"), genesis("north")).digest
    assert one.digest != write_entry(1, 0.0, Committed("j"), genesis("south")).digest


def test_an_entry_of_another_chain_is_refused():
    entry = write_entry(1, 0.0, Committed("j"), genesis("north"))
    with pytest.raises(LedgerDamagedError, match="edited, or belongs to another party"):
        read_entry(1, entry.text, entry.digest, genesis("south"))


@pytest.mark.parametrize(
    "changes", [{"kind": "refund"}, {"sequence": 2}, {"more": 1}, {"at_s": "noon"}, {"job_id": None, "kind": "budget"}]
)
def test_an_entry_that_this_version_does_not_write_is_refused_though_its_hash_fits(changes):
    honest = write_entry(1, 0.0, Committed("j"), genesis("north"))
    text = json.dumps({**json.loads(honest.text), **changes})
    forged = write_entry(1, 0.0, Committed("j"), genesis("north"))
    from party.ledger_entry import _digest

    with pytest.raises(LedgerDamagedError, match="entry 1"):
        read_entry(1, text, _digest(genesis("north"), text), genesis("north"))
    assert forged == honest


def test_a_budget_in_an_entry_is_checked_like_any_other():
    entry = write_entry(1, 0.0, BudgetSet("visits", budget(), "first"), genesis("north"))
    from party.ledger_entry import _digest

    text = entry.text.replace('"epsilon":1.0', '"epsilon":-1.0')
    with pytest.raises(LedgerDamagedError):
        read_entry(1, text, _digest(genesis("north"), text), genesis("north"))
