"""A series of masked sums over the session of a job: one exchange of keys, dropouts that come back, replays refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from masked_sums import make_config
from virtual_time import run_in_virtual_time

from analyses.sums.sessions.session_series import (
    ANNOUNCEMENT_STAGE,
    SessionSeries,
    StagesBesideVectors,
    conduct_series,
    contribute_to_series,
    name_in_series,
    stages_before_vectors,
)
from analyses.sums.sessions.session_sum import IDENTITY_STAGE
from mpc.errors import PeerViolationError, ProtocolError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import RosterEntry, Topology
from mpc.secagg.errors import ForgedSignatureError, TooFewMembersError
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId

N, LENGTH, STAGE_S, DEADLINE_S = 5, 3, 10.0, 40.0
MEMBERS = range(1, N + 1)
STAGES = (Stage.ADVERTISE, Stage.SHARE, Stage.MASK, Stage.AGREE, Stage.UNMASK)


def config_of(round_id, identities):
    roster = tuple(RosterEntry(m, f"party-{m}", key) for m, key in sorted(identities.items()))
    return make_config(N, LENGTH, roster=roster, round_id=round_id, topology=Topology.complete(N, 0))


def values_in(number, member):
    return np.random.default_rng((number, member)).integers(-100, 101, LENGTH)


def run(n_rounds, fault=lambda message: (message,), attempts=1, deadline_s=DEADLINE_S):
    """The coordinator's sums, member to its rounds or its error, and the network."""
    agreed = SessionSeries(N, n_rounds, attempts, config_of)
    network = LocalNetwork(local_names(N), deadline_s=deadline_s, fault=fault)

    async def party(session):
        async def contribute(announced, seeds):
            assert announced.public_input == (b"" if announced.number == 0 else bytes([announced.number]))
            return values_in(announced.number, session.me), None

        try:
            return await contribute_to_series(session, agreed, contribute)
        except ProtocolError as error:
            network.kill(session.me)  # as a service, which ends its part of the job
            return error

    async def conductor(session):
        async def after_round(config, opened):
            return bytes([config.round_id.number + 1])

        try:
            return await conduct_series(session, agreed, stage_s=STAGE_S, first_input=b"", after_round=after_round)
        except ProtocolError as error:
            for member in network.names:
                network.kill(member)
            return error

    ends = run_in_virtual_time(network.run(dict.fromkeys(MEMBERS, party) | {COORDINATOR: conductor}))
    return ends.pop(COORDINATOR), ends, network


def slow_in(dropouts):
    """A fault: what a party says at a stage of a round comes when nobody waits for it any more."""

    def fault(message):
        for number, of_round in enumerate(dropouts):
            stage = of_round.get(message.sender)
            if message.receiver == COORDINATOR and message.stage == f"{stage}, round {number}, attempt 0":
                return (message.delayed(1.5 * STAGE_S),)
        return (message,)

    return fault


@settings(deadline=None, max_examples=10)
@given(st.lists(st.dictionaries(st.sampled_from(MEMBERS), st.sampled_from(STAGES), max_size=2), min_size=1, max_size=3))
def test_each_rounds_sum_is_exact_over_its_survivors_and_who_was_late_comes_back(dropouts):
    sums, rounds_of, network = run(len(dropouts), slow_in(dropouts))
    for number, (opened, late) in enumerate(zip(sums, dropouts, strict=True)):
        survivors = [m for m in MEMBERS if late.get(m, Stage.DONE) not in STAGES[:3]]
        assert list(opened.survivors) == survivors
        assert opened.integers().tolist() == sum(values_in(number, m) for m in survivors).tolist()
        assert {m for m in MEMBERS if number not in rounds_of[m]} == {m for m in late if late[m] != Stage.UNMASK}
    keys = [message for message in network.transcript if message.stage == IDENTITY_STAGE]
    assert sorted(message.sender for message in keys) == list(MEMBERS)  # once, for all rounds


def test_a_round_that_too_few_answer_is_tried_again_and_then_ends_the_series():
    slow = slow_in([{}, dict.fromkeys((1, 2, 3), Stage.SHARE)])
    sums, rounds_of, _ = run(2, slow, attempts=2)
    assert [opened.survivors for opened in sums] == [tuple(MEMBERS)] * 2
    assert set(rounds_of.values()) == {(0, 1)}
    failure, _, _ = run(2, slow)
    assert isinstance(failure, TooFewMembersError)


def test_a_party_waits_for_the_next_round_longer_than_a_deadline_where_the_one_that_it_missed_lasts_longer():
    def fault(message):
        of_round = message.receiver == COORDINATOR and message.stage.endswith("round 0, attempt 0")
        if of_round and message.sender == 4 and message.stage.startswith(str(Stage.ADVERTISE)):
            return (message.delayed(1.5 * STAGE_S),)
        return (message.delayed(0.9 * STAGE_S),) if of_round and message.sender == 5 else (message,)

    sums, rounds_of, _ = run(2, fault, deadline_s=2 * STAGE_S)
    assert [opened.survivors for opened in sums] == [(1, 2, 3, 5), tuple(MEMBERS)]
    assert rounds_of[4] == (1,)


@pytest.mark.parametrize("stage", [Stage.SHARE, Stage.UNMASK])
def test_what_the_coordinator_said_in_the_round_before_is_refused_by_name(stage):
    """The lists of members, and the signatures of the survivors, of round 0 in the place of those of round 1."""
    said = {}

    def fault(message):
        if message.sender == COORDINATOR and message.receiver == 2 and message.array.size > 1:
            if message.stage == f"{stage}, round 0, attempt 0":
                said[0] = message.array
            elif message.stage == f"{stage}, round 1, attempt 0":
                return (message.altered(said[0]),)
        return (message,)

    sums, ends, _ = run(2, fault)
    assert isinstance(ends[2], ProtocolError)
    assert "never advertised" in str(ends[2]) or isinstance(ends[2], ForgedSignatureError)
    assert sums[0].survivors == tuple(MEMBERS)


def test_an_announcement_is_refused_that_repeats_a_round_or_is_longer_than_agreed():
    def repeating(message):
        if message.stage == ANNOUNCEMENT_STAGE and message.receiver == 2 and message.sequence == 1:
            array = message.array.copy()
            array[1:5] = 0  # the number of the round
            return (message.altered(array),)
        return (message,)

    def too_long(message):
        if message.stage == ANNOUNCEMENT_STAGE and message.receiver == 2 and message.sequence == 0:
            array = message.array.copy()
            array[9:13] = 255  # the bytes of the public input
            return (message.altered(array),)
        return (message,)

    for fault, text in ((repeating, "not due"), (too_long, "no announcement has")):
        _, ends, _ = run(2, fault)
        assert isinstance(ends[2], PeerViolationError)
        assert text in str(ends[2])
        assert ends[2].member == COORDINATOR


def test_nothing_is_said_to_the_coordinator_before_the_keys_are_known():
    _, _, network = run(2)
    to_coordinator = [m.stage for m in network.transcript if m.sender == 1 and m.receiver == COORDINATOR]
    assert to_coordinator[0] == IDENTITY_STAGE
    assert len(set(to_coordinator)) == len(to_coordinator) == 1 + 2 * len(STAGES)
    before = stages_before_vectors(2, 1)
    assert [stage in before for stage in to_coordinator] == [True] + 2 * [True, True, False, False, False]


def test_beside_a_rounds_vectors_are_all_stages_but_three_of_each_of_its_attempts():
    found = StagesBesideVectors(1, 3, 2)
    of_all = {name_in_series(stage, RoundId("", n, a)) for stage in STAGES for n in range(3) for a in range(2)}
    of_round = {name_in_series(stage, RoundId("", 1, a)) for stage in STAGES[2:] for a in range(2)}
    assert set(found) == of_all - of_round | {IDENTITY_STAGE}
    assert len(found) == len(set(found))
    assert all(stage in found for stage in of_all - of_round)
    assert not any(stage in found for stage in of_round)
    assert "opening" not in found
    assert found == StagesBesideVectors(1, 3, 2) != StagesBesideVectors(2, 3, 2)
