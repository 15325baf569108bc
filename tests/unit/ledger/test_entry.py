import json

import pytest
from earlier_ledgers import budget_set, committed, reserved, texts_of
from ledgers import UNIT, budget, cost_of, event, records_of

from ledger.entry import (
    Adopted,
    BudgetSet,
    Committed,
    LedgerDamagedError,
    LedgerError,
    Released,
    Reserved,
    genesis,
    read_entry,
    write_entry,
)

RESERVED = Reserved("job-1", "visits", "ada", "pca", "here", "owner", UNIT, records_of(cost_of(event())), 1)


ORDERS = ((22, "127/128"), (16777216, "1/128"))


@pytest.mark.parametrize(
    "what",
    [BudgetSet("visits", budget(), "first", ORDERS), RESERVED, Committed("j"), Released("j", "why"), Adopted("why")],
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
    from ledger.entry import _digest

    with pytest.raises(LedgerDamagedError, match="entry 1"):
        read_entry(1, text, _digest(genesis("north"), text), genesis("north"))
    assert forged == honest


def test_a_budget_in_an_entry_is_checked_like_any_other():
    entry = write_entry(1, 0.0, BudgetSet("visits", budget(), "first"), genesis("north"))
    from ledger.entry import _digest

    text = entry.text.replace('"epsilon":1.0', '"epsilon":-1.0')
    with pytest.raises(LedgerDamagedError):
        read_entry(1, text, _digest(genesis("north"), text), genesis("north"))


@pytest.mark.parametrize("orders", [((22, "3/4"), (2, "1/2")), ((23_000, "1"),), ((22, "0"),), ()])
def test_orders_that_are_no_filter_are_damage(orders):
    entry = write_entry(1, 0.0, BudgetSet("visits", budget(), "first", orders), genesis("north"))
    with pytest.raises(LedgerDamagedError):
        read_entry(1, entry.text, entry.digest, genesis("north"))


def test_an_entry_of_version_1_is_read_and_says_what_it_did_not_keep():
    ((_, text, digest),) = texts_of([reserved("job-1", event())])
    found = read_entry(1, text, digest, genesis("north")).what
    assert (found.version, found.colluding, list(found.events)) == (1, None, ["coalition"])
    ((_, text, digest),) = texts_of([budget_set(budget())])
    assert read_entry(1, text, digest, genesis("north")).what.filter_orders is None


def test_an_entry_of_a_later_version_is_not_taken_for_damage():
    ((_, text, digest),) = texts_of([{**committed("job-1"), "version": 4}])
    with pytest.raises(LedgerError, match="has version 4; this program reads up to version 3") as raised:
        read_entry(1, text, digest, genesis("north"))
    assert not isinstance(raised.value, LedgerDamagedError)


@pytest.mark.parametrize("part", ["3/2", "0", "-1/2", "much"])
def test_a_part_of_delta_that_is_none_is_damage(part):
    entry = write_entry(1, 0.0, BudgetSet("visits", budget(), "first", ((22, "1"),), part), genesis("north"))
    with pytest.raises(LedgerDamagedError):
        read_entry(1, entry.text, entry.digest, genesis("north"))


def test_a_budget_of_version_2_is_read_and_has_no_gaussian_filter():
    from ledger.entry import _digest

    written = write_entry(1, 0.0, BudgetSet("visits", budget(), "first", ((22, "1"),), "1/2"), genesis("north"))
    document = json.loads(written.text) | {"version": 2}
    del document["gaussian_part"]
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    found = read_entry(1, text, _digest(genesis("north"), text), genesis("north")).what
    assert found == BudgetSet("visits", budget(), "first", ((22, "1"),))
