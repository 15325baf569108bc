"""A series of masked sums in one process: exact in each round whoever drops out, and no round's messages in another."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_series import LocalSeriesMember, run_series_locally
from masked_sums import OpenRound, identity_of, make_config

from entropy import InsecureTestEntropy
from mpc.errors import LocalFaultError, PeerViolationError
from mpc.secagg.config import Topology
from mpc.secagg.errors import (
    DifferentInputError,
    ForgedSignatureError,
    InvalidSetError,
    SplitMembersError,
    SplitSurvivorsError,
    TooFewMembersError,
    WrongRoundError,
)
from mpc.secagg.messages import Advertisement, SurvivorSignature, seed_digest
from mpc.secagg.secret.keys import RoundKey, SealedChannel, pair_mask_key, self_mask_key
from mpc.secagg.series import Announcement, Series
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId

N, LENGTH = 6, 4
MEMBERS = range(1, N + 1)
STAGES = [Stage.ADVERTISE, Stage.SHARE, Stage.MASK, Stage.AGREE, Stage.UNMASK]


def config_of(round_id: RoundId):
    return make_config(N, LENGTH, round_id=round_id, topology=Topology.complete(N, 0))


def series(n_rounds=3, attempts=1, **changes) -> Series:
    return Series(
        **{
            "session": "s",
            "n_rounds": n_rounds,
            "attempts": attempts,
            "binding": b"terms",
            **changes,
            "config_of": config_of,
        }
    )


def values_in(number: int, member: int) -> np.ndarray:
    return np.random.default_rng((number, member)).integers(-100, 101, LENGTH)


def run(agreed, **options):
    return run_series_locally(
        agreed,
        options.pop("contribute", lambda me, announced, seeds: (values_in(announced.number, me), None)),
        {m: identity_of(m) for m in MEMBERS},
        options.pop("entropy_of", lambda m: InsecureTestEntropy(f"member {m}")),
        **options,
    )


few_drop_out = st.dictionaries(st.sampled_from(MEMBERS), st.sampled_from(STAGES), max_size=2)


@settings(deadline=None, max_examples=12)
@given(st.lists(few_drop_out, min_size=1, max_size=4))
def test_each_rounds_sum_is_exact_over_its_survivors_and_who_drops_out_comes_back(dropouts):
    sums, rounds_of = run(series(len(dropouts)), dropouts_in=lambda round_id: dropouts[round_id.number])
    assert len(sums) == len(dropouts)
    for number, (opened, dropped) in enumerate(zip(sums, dropouts, strict=True)):
        survivors = [m for m in MEMBERS if dropped.get(m, Stage.DONE) not in STAGES[:3]]
        assert list(opened.survivors) == survivors
        assert opened.integers().tolist() == sum(values_in(number, m) for m in survivors).tolist()
        assert {m for m in MEMBERS if number in rounds_of[m]} == set(MEMBERS) - set(dropped)


def test_the_public_input_of_a_round_is_made_of_the_sum_before_and_reaches_all_members():
    seen = {}

    def contribute(me, announced, seeds):
        seen.setdefault(announced.number, set()).add(announced.public_input)
        return values_in(announced.number, me), None

    sums, _ = run(
        series(3),
        contribute=contribute,
        first_input=b"start",
        after_round=lambda config, opened: opened.integers().tobytes(),
    )
    assert seen == {0: {b"start"}, 1: {sums[0].integers().tobytes()}, 2: {sums[1].integers().tobytes()}}


def test_a_series_may_end_before_its_last_round():
    sums, rounds_of = run(series(5), after_round=lambda config, opened: None if config.round_id.number == 1 else b"")
    assert len(sums) == 2
    assert set(rounds_of.values()) == {(0, 1)}


def test_a_round_that_too_few_answer_is_tried_again_and_then_fails():
    too_many = dict.fromkeys((1, 2, 3), Stage.MASK)
    sums, _ = run(series(2, attempts=2), dropouts_in=lambda at: too_many if (at.number, at.attempt) == (1, 0) else {})
    assert sums[1].survivors == tuple(MEMBERS)
    with pytest.raises(TooFewMembersError):
        run(series(2, attempts=2), dropouts_in=lambda at: too_many if at.number == 1 else {})


class _LyingMember(LocalSeriesMember):
    """Hears other announcements than the coordinator made."""

    heard = staticmethod(lambda announcement: announcement)

    async def announced(self):
        announcement = await super().announced()
        return None if announcement is None else self.heard(announcement)


@pytest.mark.parametrize(
    ("heard", "error", "text"),
    [
        (lambda a: replace(a, number=0), PeerViolationError, "not due"),
        (lambda a: replace(a, number=a.number + 7), PeerViolationError, "not due"),
        (lambda a: replace(a, attempt=9), PeerViolationError, "not due"),
        (
            lambda a: replace(a, public_input=b"another model"),
            DifferentInputError,
            "public input that differs from ours",
        ),
    ],
    ids=["a round that is over", "a round after the last", "an attempt too many", "another input for one member"],
)
def test_what_the_coordinator_may_not_announce_is_refused_by_name(monkeypatch, heard, error, text):
    class Lying(_LyingMember):
        def __init__(self, of, me):
            super().__init__(of, me)
            self.heard = (lambda a: heard(a) if a.number == 1 else a) if me == 2 else (lambda a: a)

    monkeypatch.setattr("local_series.LocalSeriesMember", Lying)
    with pytest.raises(error, match=text):
        run(series(2))


def two_rounds():
    """Rounds 0 and 1 of one session, of the same members."""
    return [OpenRound(config_of(RoundId("s", number, 0))) for number in (0, 1)]


STEPS = ("advertise", "share", "mask", "sign", "unmask")


def relabelled(message, round_id):
    changes = {"round_id": round_id}
    for name in ("advertisements", "signatures"):
        if hasattr(message, name):
            changes[name] = tuple(replace(one, round_id=round_id) for one in getattr(message, name))
    return replace(message, **changes)


TO_MEMBERS = {
    "advertise": ("member_list", "share_keys"),
    "share": ("deliveries", "check_shares"),
    "mask": ("survivors", "sign_survivors"),
    "sign": ("signed", "unmask"),
}
"""Step to the coordinator's message that ends it, and the member's method that takes it."""


def replayed_to_member_1(step, relabel):
    """Give member 1 of round 1 the message of round 0 that it waits for."""
    before, now = (held.up_to(step) for held in two_rounds())
    what, take = TO_MEMBERS[step]
    message = getattr(before, what)
    message = message[1] if isinstance(message, dict) else message
    getattr(now.members[1], take)(relabelled(message, now.config.round_id) if relabel else message)


@pytest.mark.parametrize("step", TO_MEMBERS)
def test_a_message_to_a_member_replayed_from_the_round_before_is_refused(step):
    with pytest.raises(WrongRoundError):
        replayed_to_member_1(step, relabel=False)


@pytest.mark.parametrize(
    ("step", "error"),
    [("advertise", InvalidSetError), ("share", SplitMembersError), ("sign", ForgedSignatureError)],
)
def test_so_is_one_that_says_it_is_of_this_round(step, error):
    """But for the list of survivors, which is numbers only: what is signed of it is bound to the round."""
    with pytest.raises(error):
        replayed_to_member_1(step, relabel=True)


@pytest.mark.parametrize(
    ("step", "what", "error"),
    [
        ("advertise", "advertisements", ForgedSignatureError),
        ("share", "sealed", SplitMembersError),
        ("sign", "signatures", SplitSurvivorsError),
    ],
)
@pytest.mark.parametrize("is_relabelled", [False, True])
def test_a_members_message_replayed_from_the_round_before_is_refused(step, what, error, is_relabelled):
    before, now = two_rounds()
    before.up_to(step)
    for name in STEPS[: STEPS.index(step)]:
        getattr(now, name)()
    message = getattr(before, what)[2]
    if is_relabelled:
        message = relabelled(message, now.config.round_id)
    with pytest.raises(error if is_relabelled else WrongRoundError):
        now.coordinator.receive(message)


@pytest.mark.parametrize("other", [RoundId("s", 2, 0), RoundId("s", 1, 1), RoundId("t", 1, 0)])
def test_every_key_commitment_and_signed_text_differs_between_rounds_attempts_and_sessions(other):
    def derived(round_id):
        mine, theirs = RoundKey(bytes(32)), RoundKey(bytes([7] * 32)).public_bytes
        salt = {"transcript": bytes(32), "round_id": round_id}
        channel = SealedChannel(mine, theirs, **salt, me=1, them=2)
        ad = Advertisement(round_id, 1, *(bytes(32),) * 6, b"")
        return [
            pair_mask_key(mine, theirs, **salt, vector="v", pair=(1, 2)),
            self_mask_key(bytes(32), **salt, vector="v", member=1),
            channel.seal("shares", b"secret"),
            seed_digest(round_id, 1, bytes(32)),
            ad.signed_bytes(),
            SurvivorSignature(round_id, 1, bytes(32), b"").signed_bytes(),
            config_of(round_id).digest,
        ]

    assert all(a != b for a, b in zip(derived(RoundId("s", 1, 0)), derived(other), strict=True))


def test_a_series_has_rounds_and_attempts_and_configurations_of_its_own_rounds():
    for changes in ({"n_rounds": 0}, {"n_rounds": 1 << 17}, {"attempts": 0}):
        with pytest.raises(LocalFaultError):
            series(**changes)
    agreed = replace(series(), config_of=lambda round_id: config_of(RoundId("s", 0, 0)))
    with pytest.raises(LocalFaultError, match="not of s round 1"):
        agreed.config(1, 0)


def test_the_input_of_a_round_says_what_all_have_in_common():
    assert series().input_of(b"") != series(binding=b"other terms").input_of(b"")
    assert "secret model" not in repr(Announcement(0, 0, b"secret model"))
