"""Revealed matching as a whole: results, declared sizes, members without ids, faults in each pass."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matchings import DEADLINE_S, id_of, ids_of, match, matched_rows, network_of, secrets_of

from mpc.errors import LocalFaultError, PeerError, PeerLostError, PeerSilentError, PeerViolationError, ShapeError
from mpc.local.network import LocalSession, Message
from mpc.matching import group, parcels, revealed
from mpc.matching.parcels import leader_of
from mpc.matching.revealed import (
    BLINDED,
    EVALUATED,
    MATCHED,
    PACE,
    STORE,
    RepeatedIdsError,
    TooManyIdsError,
    match_revealed,
    sent_bytes,
)
from mpc.matching.transfer import rows as tags_of_matched

THREE = {1: "abcde", 2: "xcay", 3: "zzzacq".replace("zzz", "uvw")}
"""Owners that have "a" and "c" in common; the leader is 2, which has the fewest rows."""

CASES = {
    "two owners": ({1: "abc", 2: "cdea"}, "ac"),
    "three owners": (THREE, "ac"),
    "four owners": ({1: "abcd", 2: "dcba", 3: "aced", 4: "fadg"}, "ad"),
    "all alike": ({1: "abc", 2: "cab", 3: "bca"}, "abc"),
    "nothing in common": ({1: "ab", 2: "bc", 3: "ca"}, ""),
    "pairs in common": ({1: "abp", 2: "bcp", 3: "caq"}, ""),
    "one row each": ({1: "a", 2: "a", 3: "a"}, "a"),
    "one row each, of which two agree": ({1: "a", 2: "a", 3: "b"}, ""),
    "a leader without rows": ({1: "abc", 2: "", 3: "abc"}, ""),
    "others without rows": ({1: "ab", 2: "", 3: "", 4: "ab"}, ""),
    "nobody has rows": ({1: "", 2: ""}, ""),
    "one owner": ({1: "abc"}, "abc"),
}


@pytest.mark.parametrize("case", CASES)
def test_owners_find_the_rows_that_all_have_in_one_order(case):
    rows, common = CASES[case]
    assert sorted(matched_rows(rows, match(rows))) == sorted(common)


@pytest.mark.parametrize("case", CASES)
def test_declared_sizes_change_nothing(case):
    rows, common = CASES[case]
    sizes = {owner: len(names) + 3 * owner for owner, names in rows.items()}
    assert sorted(matched_rows(rows, match(rows, sizes))) == sorted(common)


@given(
    st.lists(st.lists(st.integers(0, 12), unique=True, max_size=9), min_size=2, max_size=4),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.integers(1, 4),
)
@settings(max_examples=40)
def test_any_lists_match_as_sets_do(lists, spare, parcel_rows):
    rows = dict(enumerate(lists, start=1))
    sizes = {owner: len(names) + spare[owner - 1] for owner, names in rows.items()}
    with mock.patch.object(parcels, "PARCEL_ROWS", parcel_rows):
        found = matched_rows(rows, match(rows, sizes))
    assert len(found) == len(set(found))
    assert set(found) == set.intersection(*map(set, lists))


def test_threads_at_work_on_pieces_of_a_parcel_change_nothing():
    """As in a service, where `compute` has a thread for every call."""

    async def in_a_thread(session, work, *args, **kwargs):
        return await asyncio.to_thread(work, *args, **kwargs)

    rows = {1: range(40), 2: range(20, 60), 3: range(10, 50)}
    with (
        mock.patch.object(group, "PIECE", 3),
        mock.patch.object(parcels, "PARCEL_ROWS", 10),
        mock.patch.object(LocalSession, "compute", in_a_thread),
    ):
        assert sorted(matched_rows(rows, match(rows))) == list(range(20, 40))


def test_a_row_of_padding_is_no_row_whatever_the_stores_say():
    with mock.patch.object(revealed, "is_zero", lambda decoded: np.ones(decoded[0].shape[0], dtype=bool)):
        results = match({1: "ab", 2: "ab"}, {1: 5, 2: 6})
    assert sorted(results[1]) == [0, 1]


def test_the_order_is_drawn_anew_in_every_match():
    rows = {1: "abcdef", 2: "fedcba"}
    orders = {tuple(matched_rows(rows, match(rows, network=network_of(2, seed=seed)))) for seed in "pqrst"}
    assert len(orders) > 1


def test_members_without_ids_send_and_receive_nothing():
    rows = {2: "abc", 4: "cbx"}
    network = network_of(5)
    results = match(rows, network=network)
    assert sorted(matched_rows(rows, results)) == ["b", "c"]
    assert [results[member] for member in (0, 1, 3, 5)] == [None] * 4
    assert {end for message in network.transcript for end in (message.sender, message.receiver)} == {2, 4}


def test_members_without_ids_may_be_absent():
    rows = {2: "abc", 3: "cbx"}
    assert sorted(matched_rows(rows, match(rows, n_members=4, absent=(0, 1, 4)))) == ["b", "c"]


@pytest.mark.parametrize("parcel_rows", [1, 3, 4096])
def test_every_owner_sends_what_the_formula_says_and_nothing_depends_on_the_ids(parcel_rows):
    sizes = {1: 9, 2: 7, 3: 8}
    shapes = []
    with mock.patch.object(parcels, "PARCEL_ROWS", parcel_rows):
        for rows in (THREE, {1: "", 2: "", 3: ""}, {1: "abc", 2: "abc", 3: "abc"}):
            network = network_of(3)
            match(rows, sizes, network=network)
            sent = {owner: n for owner, n in network.sent_bytes.items() if owner}
            assert sent == sent_bytes(list(sizes), sizes)
            sent_messages = [(m.sender, m.receiver, m.stage, m.sequence, m.array.shape) for m in network.transcript]
            shapes.append(sorted(sent_messages))
    assert shapes[0] == shapes[1] == shapes[2]


def test_the_stated_formula_is_what_is_counted():
    def of_list(n, width):
        return n * width + 32 * -(-n // 4096)

    n = {1: 10_000, 2: 5_000, 3: 5_000}
    to_each = of_list(5_000, 32) + of_list(5_000, 16) + 3 + 2 + 2
    of_others = {i: of_list(5_000, 32) + of_list(3 * (-(-13 * n[i] // 30) + 8) + 64, 16) for i in (1, 3)}
    assert sent_bytes([1, 2, 3], n, strict=True) == {2: 2 * to_each, 1: of_others[1] + 3, 3: of_others[3] + 2}


def test_the_leader_has_the_smallest_declared_size():
    assert leader_of([1, 2, 3], {1: 5, 2: 4, 3: 4}) == 2


# -- what the caller does wrong ----------------------------------------------------------------------------------------


async def call(network, me, rows, sizes, *, owners=(1, 2), secrets=None, ids=None):
    session = network.session(me)
    secrets = secrets_of(session, (1, 2)) if secrets is None else secrets
    return await match_revealed(session, owners, ids_of(rows) if ids is None else ids, sizes, secrets)


async def test_more_rows_than_declared_are_refused_without_a_message():
    network = network_of(2)
    with pytest.raises(TooManyIdsError, match=r"party-1 has more rows than the 2 that it has declared"):
        await call(network, 1, "abc", {1: 2, 2: 5})
    assert network.transcript == []


async def test_repeated_ids_are_refused_without_a_message_and_not_shown():
    network = network_of(2)
    with pytest.raises(RepeatedIdsError, match="two rows of party-1 have the same id") as refused:
        await call(network, 1, "abca", {1: 5, 2: 5})
    assert id_of("a").hex() not in str(refused.value)
    assert network.transcript == []


async def test_ids_that_differ_in_their_last_bytes_only_are_different():
    ids = ids_of("aab").copy()
    ids[1, -1] ^= 1
    with pytest.raises(PeerSilentError):
        await call(network_of(2), 1, "", {1: 5, 2: 5}, ids=ids)


@pytest.mark.parametrize(
    "wrong",
    [{"sizes": {1: 5}}, {"secrets": {}}, {"owners": (2,)}],
    ids=["a size is missing", "a secret is missing", "not an owner"],
)
async def test_what_is_missing_is_said(wrong):
    with pytest.raises(LocalFaultError):
        await call(network_of(2), 1, "abc", **{"sizes": {1: 5, 2: 5}, **wrong})


async def test_ids_of_another_shape_are_refused():
    with pytest.raises(ShapeError):
        await call(network_of(2), 1, "", {1: 5, 2: 5}, ids=np.zeros((2, 31), dtype=np.uint8))


async def test_secrets_serve_one_match_only():
    network = network_of(2)
    secrets = {me: secrets_of(network.session(me), (1, 2)) for me in (1, 2)}

    async def both():
        calls = (call(network, me, "abc", {1: 3, 2: 3}, secrets=secrets[me]) for me in (1, 2))
        return await asyncio.gather(*calls)

    await both()
    with pytest.raises(LocalFaultError, match="before"):
        await both()


# -- faults ------------------------------------------------------------------------------------------------------------

PASSES = {BLINDED: 2, EVALUATED: 3, STORE: 1, MATCHED: 2, PACE: 3}
"""Each stage, with the member of `THREE` whose messages of it are at fault. The leader is 2."""


def at(stage: str, sender: int, change):
    """A fault at the first message of a stage from a member."""

    def tamper(network):
        seen = []

        def fault(message: Message) -> Sequence[Message]:
            if (message.stage, message.sender) != (stage, sender) or seen:
                return (message,)
            seen.append(message)
            return change(network, message)

        return fault

    return tamper


def failures(results):
    return [result for result in results.values() if isinstance(result, Exception)]


def blamed(results):
    """Who is named by members that wait for nobody else: violations and losses before silence."""
    errors = failures(results)
    assert errors
    assert all(isinstance(error, PeerError) for error in errors), errors
    assert all(id_of(row).hex() not in str(error) for error in errors for row in "abcdexyuvwq")
    return errors


@pytest.mark.parametrize("stage", PASSES)
def test_a_member_that_is_silent_in_a_pass_is_named(stage):
    silent = stage, PASSES[stage]
    network = network_of(3, fault=lambda network: lambda m: () if (m.stage, m.sender) == silent else (m,))
    ended: list[int] = []
    results = match(THREE, network=network, ended=ended)
    errors = blamed(results)
    first = [error for error in errors if error.member == PASSES[stage]]
    assert first
    assert isinstance(first[0], PeerSilentError)
    assert f"party-{PASSES[stage]} sent nothing for {DEADLINE_S:g} s" in str(first[0])
    if PASSES[stage] != 2:
        first_to_fail = next(results[member] for member in ended if isinstance(results[member], Exception))
        assert first_to_fail.member == PASSES[stage]  # others wait for the leader, longer


@pytest.mark.parametrize("stage", PASSES)
def test_a_member_that_is_killed_in_a_pass_is_named(stage):
    def kill(network, message):
        network.kill(message.sender)
        return ()

    network = network_of(3, fault=at(stage, PASSES[stage], kill))
    results = match(THREE, network=network)
    others = {member: result for member, result in results.items() if member not in (0, PASSES[stage])}
    leader = 2 if PASSES[stage] != 2 else 1
    assert isinstance(others[leader], PeerLostError)
    assert others[leader].member == PASSES[stage]


@pytest.mark.parametrize("stage", [BLINDED, EVALUATED])
@pytest.mark.parametrize("kind", ["identity", "no point"])
def test_what_is_no_element_of_the_group_is_refused_and_its_sender_named(stage, kind):
    """By a member that cheats: it makes the digest of what it sends itself."""
    sender = PASSES[stage]
    bad = np.zeros(32, np.uint8) if kind == "identity" else np.full(32, 0xFF, np.uint8)
    send = parcels.ParcelLine.send

    async def cheat(line, rows):
        if (line._stage, line._sender) == (stage, sender):
            rows = rows.copy()
            rows[1] = bad
        await send(line, rows)

    with mock.patch.object(parcels.ParcelLine, "send", cheat):
        results = match(THREE)
    named = [error for error in failures(results) if isinstance(error, PeerViolationError)]
    assert {error.member for error in named} == {sender}
    assert "no element of the group" in str(named[0])


@pytest.mark.parametrize("stage", [BLINDED, EVALUATED, STORE, MATCHED])
def test_a_pass_of_another_job_is_refused_and_its_sender_named(stage):
    earlier = network_of(3, job_id="earlier")
    match(THREE, network=earlier)

    def replay(network, message):
        old = next(m for m in earlier.transcript if (m.sender, m.receiver, m.stage) == key_of(message))
        return (replace(message, array=old.array),)

    def key_of(message):
        return message.sender, message.receiver, message.stage

    results = match(THREE, network=network_of(3, fault=at(stage, PASSES[stage], replay)))
    named = [error for error in failures(results) if isinstance(error, PeerViolationError)]
    assert {error.member for error in named} == {PASSES[stage]}
    assert "does not belong to this job" in str(named[0])


@pytest.mark.parametrize("stage", [BLINDED, EVALUATED, STORE, MATCHED])
def test_a_wrong_number_of_rows_is_refused_and_its_sender_named(stage):
    cut = at(stage, PASSES[stage], lambda network, message: (message.altered(message.array[32:]),))
    named = [e for e in failures(match(THREE, network=network_of(3, fault=cut))) if isinstance(e, PeerViolationError)]
    assert {error.member for error in named} == {PASSES[stage]}


@pytest.mark.parametrize("stage", [BLINDED, EVALUATED, STORE, MATCHED])
def test_a_repeated_message_is_refused_or_changes_nothing(stage):
    twice = at(stage, PASSES[stage], lambda network, message: (message, message))
    with mock.patch.object(parcels, "PARCEL_ROWS", 2):
        named = failures(match(THREE, network=network_of(3, fault=twice)))
    assert PASSES[stage] in {error.member for error in named}


def test_a_leader_that_says_of_a_row_twice_that_it_matched_is_named():
    with mock.patch.object(tags_of_matched, "permutation", lambda _, n: np.zeros(n, dtype=np.uint32)):
        results = match(THREE)
    assert isinstance(results[1], PeerViolationError)
    assert results[1].member == 2


def test_a_match_may_take_longer_than_any_deadline():
    """Owner 1 needs 0.6 deadlines for each of its parcels: it says so in between, and the leader tells owner 3."""

    def slow(network):
        def fault(message):
            if message.sender != 1 or message.stage not in (PACE, STORE):
                return (message,)
            n_parcels = message.sequence + 1 if message.stage == PACE else len(rows[1])
            return (message.delayed(0.6 * DEADLINE_S * n_parcels + 1e-3 * message.sequence),)

        return fault

    rows = {1: range(12), 2: range(2), 3: range(1, 4)}
    network = network_of(3, fault=slow)
    with mock.patch.object(parcels, "PARCEL_ROWS", 1):
        results = match(rows, network=network)
    assert matched_rows(rows, results) == [1]


def test_a_leader_gets_as_many_powers_as_it_has_declared():
    rows = {1: "ab", 2: "abcdef"}
    network = network_of(2)
    match(rows, network=network)
    answered = [m for m in network.transcript if m.stage == EVALUATED]
    assert sum((m.array.nbytes - 32) // 32 for m in answered) == 2
