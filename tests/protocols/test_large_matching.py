"""Revealed matching by extended transfers: results, bytes, what messages depend on, and faults in each pass."""

from unittest import mock

import numpy as np
import pytest
from matchings import id_of, ids_of, match, matched_rows, network_of

from mpc.errors import PeerLostError, PeerSilentError, PeerViolationError, PlacementFailedError
from mpc.matching import bins, parcels, revealed
from mpc.matching.bins import n_parts_of, room_of
from mpc.matching.revealed import by_transfers, sent_bytes
from mpc.matching.transfer import match as large
from mpc.matching.transfer.match import ANSWER, CHECK, EXTENDED, MATCHED, START, STORE, Parts
from mpc.traffic.matching import match_revealed
from mpc.traffic.walk import Traffic

THREE = {1: "abcde", 2: "xcay", 3: "uvwacq"}
"""Owners that have "a" and "c" in common; the leader is 2, which has the fewest rows."""
TWO = {1: "abcde", 2: "xcay"}
PASSES = {START: 2, ANSWER: 1, EXTENDED: 2, CHECK: 2, STORE: 1, MATCHED: 2}
"""Stage to who is wrong in it."""


@pytest.fixture(autouse=True)
def few_ids_suffice():
    with mock.patch.object(revealed, "TRANSFERS_FROM", 0):
        yield


@pytest.mark.parametrize(
    ("rows", "common", "part_ids"),
    [
        ({1: "abc", 2: "cdea"}, "ac", 1 << 16),
        (THREE, "ac", 2),
        ({1: "ab", 2: "", 3: "ab"}, "", 1 << 16),
        ({1: "abp", 2: "bcp", 3: "caq"}, "", 2),
    ],
)
def test_owners_find_the_rows_that_all_have_in_one_order(rows, common, part_ids):
    sizes = {owner: len(names) + owner for owner, names in rows.items()}
    with mock.patch.object(bins, "PART_IDS", part_ids), mock.patch.object(parcels, "PARCEL_ROWS", 1000):
        network = network_of(max(rows))
        results = match(rows, sizes, network=network)
        assert sorted(matched_rows(rows, results)) == sorted(common)
        sent = dict.fromkeys(rows, 0)
        for message in network.transcript:
            sent[message.sender] += message.array.nbytes
        assert sent == sent_bytes(list(rows), sizes)
    assert {EXTENDED, STORE} <= {message.stage for message in network.transcript}


def test_the_stated_formula_is_what_is_counted():
    def of_list(n, width):
        return n * width + 32 * -(-n // 4096)

    def rows_of(n):
        return 3 * (-(-13 * room_of(n, 3) // 30) + 8) + 64

    n, n_parts = {1: 600_000, 2: 140_000, 3: 150_000}, 3
    to_each = of_list(2, 32) + n_parts * (of_list(rows_of(n[2]) + 128, 59) + of_list(128, 80)) + of_list(n[2], 16)
    of_others = {i: of_list(944, 32) + n_parts * of_list(rows_of(n[i]), 16) for i in (1, 3)}
    assert sent_bytes([1, 2, 3], n) == {2: 2 * to_each, **of_others}


def shape_of(rows, sizes):
    network = network_of(max(rows))
    match(rows, sizes, network=network)
    return [(m.sender, m.receiver, m.stage, m.array.shape) for m in network.transcript]


def test_messages_depend_on_declared_sizes_alone():
    sizes = {1: 4, 2: 6}
    with mock.patch.object(bins, "PART_IDS", 2):
        assert shape_of({1: "abcd", 2: "abcdef"}, sizes) == shape_of({1: "", 2: "xy"}, sizes)


def test_few_ids_and_strict_jobs_are_matched_by_exponentiations():
    with mock.patch.object(revealed, "TRANSFERS_FROM", 100):
        assert not by_transfers([1, 2], {1: 50, 2: 49}, strict=False)
        assert by_transfers([1, 2], {1: 50, 2: 50}, strict=False)
        assert not by_transfers([1, 2], {1: 50, 2: 50}, strict=True)
        assert not by_transfers([1], {1: 200}, strict=False)


def test_a_part_has_room_but_for_a_chance_of_two_to_the_minus_60():
    """By the exact tail of the binomial distribution; where parts are full, no more than a tenth above the mean."""
    from scipy.stats import binom

    for size in (1000, 65_537, 1_000_000, 10_000_000):
        n_parts = n_parts_of([size, size])
        room = room_of(size, n_parts)
        if n_parts > 1:
            assert n_parts * binom.sf(room, size, 1 / n_parts) < 2**-60
            assert size < 2e5 or room < 1.1 * size / n_parts
        if size > 65_536:  # what a leader that deviates could ask for (docs/protocols/private-matching.md)
            assert n_parts * large.Okvs(room, 2).n_rows < 1.4 * size
    n_parts = n_parts_of([50, 5_000_000])
    assert n_parts == 20
    assert n_parts * binom.sf(room_of(5_000_000, n_parts), 5_000_000, 1 / n_parts) < 2**-60
    assert room_of(50, n_parts) == 50 or n_parts * binom.sf(room_of(50, n_parts), 50, 1 / n_parts) < 2**-60


def test_parts_hold_every_id_once_and_equal_ids_in_parts_of_one_number():
    parts, ids = Parts(7, bytes(range(32))), ids_of(range(500))
    split = parts.split(ids, 500)
    assert sorted(np.concatenate(split)) == list(range(500))
    backwards = parts.split(ids[::-1], 500)
    assert [sorted(499 - part) for part in backwards] == [sorted(part) for part in split]
    assert len(parts.split(ids[:0], 5)) == 7
    with pytest.raises(PlacementFailedError):
        parts.split(ids, 20)


def tampered(stage, change):
    def fault(network):
        return lambda m: change(network, m) if (m.stage, m.sender) == (stage, PASSES[stage]) else (m,)

    return network_of(2, fault=fault)


def failed(results):
    errors = [result for result in results.values() if isinstance(result, Exception)]
    assert all(id_of(row).hex() not in str(error) for error in errors for row in "abcde")
    return errors


@pytest.mark.parametrize("stage", PASSES)
def test_who_is_silent_or_killed_or_sends_something_else_is_named(stage):
    def kill(network, message):
        network.kill(message.sender)
        return ()

    wrong = PASSES[stage]
    silent = failed(match(TWO, network=tampered(stage, lambda network, m: ())))
    assert wrong in {error.member for error in silent if isinstance(error, PeerSilentError)}
    killed = failed(match(TWO, network=tampered(stage, kill)))
    assert wrong in {error.member for error in killed if isinstance(error, PeerLostError)}
    altered = failed(match(TWO, network=tampered(stage, lambda network, m: (m.altered(m.array ^ np.uint8(1)),))))
    assert {error.member for error in altered if isinstance(error, PeerViolationError)} == {wrong}


@pytest.mark.parametrize("stage", [START, ANSWER, EXTENDED, CHECK])
def test_an_owner_that_makes_something_else_itself_is_named(stage):
    send = parcels.ParcelLine.send

    async def cheat(line, rows):
        await send(line, ~rows if (line._stage, line._sender) == (stage, PASSES[stage]) else rows)

    with mock.patch.object(parcels.ParcelLine, "send", cheat):
        named = [error for error in failed(match(TWO)) if isinstance(error, PeerViolationError)]
    assert {error.member for error in named} == {PASSES[stage]}
    assert {error.stage for error in named} == {EXTENDED if stage == CHECK else stage}


def test_a_row_of_padding_is_no_row_whatever_the_stores_say():
    decode = large.Okvs.decode

    def zeros(store, seeds, table):
        return decode(store, seeds, table) if store.n_words > 2 else np.zeros((len(seeds), 2), np.uint64)

    with mock.patch.object(large.Okvs, "decode", zeros):
        results = match({1: "ab", 2: "abcd"}, {1: 4, 2: 6})
    assert isinstance(results[1], np.ndarray)
    assert set(results[1]) <= {0, 1}


def test_the_walk_counts_what_is_sent_and_who_waits_for_whom():
    sizes = {1: 9, 2: 8, 3: 12}
    for part_ids, flights in ((1 << 16, 4), (2, 6)):
        with mock.patch.object(bins, "PART_IDS", part_ids):
            traffic = Traffic(range(4), (1, 2, 3))
            match_revealed(traffic, (1, 2, 3), sizes, strict=False)
            assert {owner: traffic.bytes_of(owner) for owner in sizes} == sent_bytes([1, 2, 3], sizes)
        assert traffic.flights == flights
