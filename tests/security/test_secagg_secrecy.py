"""No secret of a masked sum appears where it must not: what the coordinator receives, printed objects, error texts."""

import copy
import pickle

import pytest
from masked_sums import OpenRound, RecordingEntropy, all_bytes, entropy_of, identity_of, make_config, values_of

from entropy import InsecureTestEntropy
from mpc.errors import ProtocolError
from mpc.secagg.messages import MemberList
from mpc.secagg.secret.keys import RoundKey, SealedChannel
from mpc.secagg.secret.surplus import SurplusSeeds
from mpc.transcript import RoundId

LEVELS = (4, 5, 6)


@pytest.fixture
def recorded():
    sources = {m: RecordingEntropy(entropy_of(m)) for m in range(1, 7)}
    config = make_config(6, surplus_levels=LEVELS)
    return OpenRound(config, {m: {"entropy": source} for m, source in sources.items()}), sources


def inbox(round_) -> bytes:
    messages = (round_.advertisements, round_.sealed, round_.masked, round_.signatures, round_.unmasking)
    return b"".join(all_bytes(message) for by_member in messages for message in by_member.values())


def test_no_secret_is_in_what_the_coordinator_receives(recorded):
    round_, sources = recorded
    round_.advertise()
    round_.share()
    round_.mask(dropped_out={6})
    round_.sign()
    round_.unmask()
    received = inbox(round_)
    for member, source in sources.items():
        assert len(source.given) == 5  # two keys, seed, surplus, and the key of the sharing's coefficients
        for secret in source.given:
            assert secret not in received
        for seed in round_.members[member].surplus_seeds:
            assert seed not in received
        assert values_of(member).tobytes() not in received
        assert values_of(member).astype("<u4").tobytes() not in received


def test_shares_of_the_secrets_leave_only_sealed_but_for_those_released(recorded):
    round_, _ = recorded
    round_.up_to("sign")
    held = {m: round_.members[m]._state.held for m in round_.members}
    round_.unmask()
    received = inbox(round_)
    for member, shares in held.items():
        released = round_.unmasking[member]
        for owner, share in shares.items():
            assert share.key not in received
            assert share.seed in received
            assert released.seed_shares[owner] == share.seed
            assert [s in received for s in share.surplus] == [False, True]  # all six survive: both seeds, one share


@pytest.mark.parametrize("stage", ["advertise", "share", "mask", "sign", "unmask"])
def test_printed_members_and_messages_show_no_secret(recorded, stage):
    round_, sources = recorded
    round_.up_to(stage)
    printed = repr(vars(round_)) + "".join(repr(vars(m)) + repr(m._state) for m in round_.members.values())
    printed += repr(vars(round_.coordinator)) if stage == "advertise" else ""
    secrets = [secret for source in sources.values() for secret in source.given]
    for m in round_.members.values():
        secrets += m.surplus_seeds
        for share in getattr(m._state, "held", {}).values():
            secrets += [share.key, share.seed, *share.surplus]
        secrets += getattr(m._state, "pair_mask_keys", {}).values()
    assert len(secrets) > 30
    for secret in secrets:
        assert repr(secret)[2:-1] not in printed
        assert secret.hex() not in printed
    assert str(values_of(1).tolist())[1:20] not in printed


def test_errors_of_every_kind_show_no_value_and_no_share():
    round_ = OpenRound(make_config(5)).up_to("share")
    values = values_of(1).copy()
    values[0] = 123456
    errors = []
    for attempt in (
        lambda: round_.members[1].mask_input(round_.deliveries[1], values),
        lambda: round_.members[2].mask_input(
            type(round_.deliveries[2])(
                round_.config.round_id,
                round_.deliveries[2].sharers,
                round_.deliveries[2].transcripts,
                {j: s[::-1] for j, s in round_.deliveries[2].sealed.items()},
            ),
            values_of(2),
        ),
        lambda: round_.members[3].share_keys(MemberList(round_.config.round_id, ())),
        lambda: round_.members[1].advertise(),
    ):
        with pytest.raises(ProtocolError) as caught:
            attempt()
        errors.append(str(caught.value) + repr(caught.value))
    assert "123456" not in "".join(errors)
    secrets = [entropy_of(m).read(160) for m in range(1, 6)]
    for text in errors:
        assert not any(secret[i : i + 32].hex() in text for secret in secrets for i in range(0, 160, 32))


@pytest.mark.parametrize(
    "secret",
    [
        identity_of(1),
        RoundKey(bytes([7] * 32)),
        SealedChannel(
            RoundKey(bytes([7] * 32)),
            RoundKey(bytes([8] * 32)).public_bytes,
            transcript=b"t",
            round_id=RoundId("s", 0, 0),
            me=1,
            them=2,
        ),
    ],
)
def test_keys_are_neither_printed_nor_copied_nor_pickled(secret):
    assert "7" not in repr(secret)
    for store in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="must not be copied or stored"):
            store(secret)


def test_surplus_seeds_are_not_printed():
    chain = SurplusSeeds(InsecureTestEntropy("x"), 2)
    assert repr(chain) == "SurplusSeeds(n_seeds=2)"


def test_an_aborted_member_holds_nothing(recorded):
    round_, _ = recorded
    round_.up_to("sign")
    member = round_.members[1]
    member.abort("the deadline has passed")
    assert (member._state, member._answered, member._surplus) == (None, {}, None)
    with pytest.raises(ProtocolError, match="the round was aborted: the deadline has passed"):
        member.unmask(round_.signed)
