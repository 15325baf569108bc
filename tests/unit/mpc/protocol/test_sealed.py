import copy
import pickle

import pytest

from entropy import InsecureTestEntropy
from mpc.errors import LocalFaultError, PeerViolationError
from mpc.protocol.pairwise import EphemeralKey, pairwise_secret
from mpc.protocol.sealed import SEAL_BYTES, SealedChannel


def channels(binding=b"job", members=(1, 2), agreed_for=None):
    """Both ends of a channel; `agreed_for`: the job of the secret, if it is another."""
    keys = {m: EphemeralKey(InsecureTestEntropy(f"{binding} {m}")) for m in members}

    def end(me, them):
        secret = pairwise_secret(
            keys[me], keys[them].public_bytes, binding=agreed_for or binding, my_number=me, their_number=them
        )
        return SealedChannel(secret, binding=binding, me=me, them=them, their_name=f"party-{them}")

    return end(*members), end(*reversed(members))


def test_what_one_seals_the_other_opens_in_both_directions():
    one, two = channels()
    assert two.open("a", one.seal("a", b"hello")) == b"hello"
    assert one.open("a", two.seal("a", b"and back")) == b"and back"


def test_a_seal_has_the_stated_size_and_hides_the_plaintext():
    one, _ = channels()
    sealed = one.seal("a", b"hello" * 10)
    assert len(sealed) == 50 + SEAL_BYTES
    assert b"hello" not in sealed


def test_equal_plaintexts_of_two_stages_or_directions_look_different():
    one, two = channels()
    assert len({one.seal("a", b"hello"), one.seal("b", b"hello"), two.seal("a", b"hello")}) == 3


def test_one_stage_seals_one_message():
    one, _ = channels()
    one.seal("a", b"hello")
    with pytest.raises(LocalFaultError, match="sealed before"):
        one.seal("a", b"hello")


def test_two_channels_over_one_secret_seal_one_message_of_a_stage_together():
    keys = {m: EphemeralKey(InsecureTestEntropy(f"shared {m}")) for m in (1, 2)}
    secret = pairwise_secret(keys[1], keys[2].public_bytes, binding=b"job", my_number=1, their_number=2)
    first, second = (SealedChannel(secret, binding=b"job", me=1, them=2, their_name="party-2") for _ in range(2))
    first.seal("a", b"hello")
    with pytest.raises(LocalFaultError, match="a key may seal only one message"):
        second.seal("a", b"other")
    second.seal("b", b"other")
    SealedChannel(secret, binding=b"job", me=2, them=1, their_name="party-1").seal("a", b"the other direction")


@pytest.mark.parametrize("position", [0, 4, -1])
def test_an_altered_message_does_not_open_and_its_sender_is_named(position):
    one, two = channels()
    sealed = bytearray(one.seal("a", b"hello"))
    sealed[position] ^= 1
    with pytest.raises(PeerViolationError, match="party-1 in stage a cannot be opened") as caught:
        two.open("a", bytes(sealed))
    assert (caught.value.member, caught.value.stage) == (1, "a")


def test_a_message_of_another_stage_or_direction_does_not_open():
    one, two = channels()
    sealed = one.seal("a", b"hello")
    with pytest.raises(PeerViolationError):
        two.open("b", sealed)
    with pytest.raises(PeerViolationError):
        one.open("a", sealed)


def test_a_message_for_another_receiver_does_not_open():
    one, _ = channels(members=(1, 2))
    _, three = channels(members=(1, 3))
    with pytest.raises(PeerViolationError):
        three.open("a", one.seal("a", b"hello"))


def test_the_job_is_bound_twice_by_the_secret_and_by_the_associated_data():
    one, two = channels(binding=b"job")
    _, by_secret = channels(binding=b"job", agreed_for=b"other")
    with pytest.raises(PeerViolationError):
        by_secret.open("a", one.seal("a", b"hello"))
    two._binding = b"other"
    with pytest.raises(PeerViolationError):
        two.open("b", one.seal("b", b"hello"))


def test_a_channel_shows_nothing_and_is_not_copied():
    one, _ = channels()
    assert repr(one) == "SealedChannel(1, 2)"
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            attempt(one)
