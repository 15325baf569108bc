import copy
import hashlib
import hmac
import pickle

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from entropy import InsecureTestEntropy, KeyStream, derive_key
from mpc.errors import LocalFaultError, PeerViolationError
from mpc.protocol.pairwise import EphemeralKey, pairwise_secret

ALICE, BOB = EphemeralKey(InsecureTestEntropy("alice")), EphemeralKey(InsecureTestEntropy("bob"))

LOW_ORDER_POINTS = [  # RFC 7748 section 6.1: orders 1, 2, 4 and 8, and their non-canonical encodings
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


def secret_of(mine, theirs, binding=b"job", my_number=1, their_number=2):
    return pairwise_secret(mine, theirs.public_bytes, binding=binding, my_number=my_number, their_number=their_number)


def test_both_members_compute_the_same_secret():
    a, b = secret_of(ALICE, BOB), secret_of(BOB, ALICE, my_number=2, their_number=1)
    assert a.digest("ids", b"data") == b.digest("ids", b"data")
    for dealer, receiver in ((1, 2), (2, 1)):
        assert a.stream(dealer, receiver, "input", 5).read(64) == b.stream(dealer, receiver, "input", 5).read(64)


def test_the_secret_follows_from_the_transcript_as_documented():
    shared = X25519PrivateKey.from_private_bytes(InsecureTestEntropy("alice").read(32)).exchange(
        X25519PublicKey.from_public_bytes(BOB.public_bytes)
    )
    transcript = b"moiety pairwise transcript"
    for part in (b"job", b"1", ALICE.public_bytes, b"2", BOB.public_bytes):
        transcript += len(part).to_bytes(8, "big") + part
    key = derive_key(shared, salt=hashlib.sha256(transcript).digest(), info=b"moiety pairwise secret")
    secret = secret_of(ALICE, BOB)
    digest_key = derive_key(key, salt=b"", info=b"moiety digest ids")
    assert secret.digest("ids", b"data") == hmac.digest(digest_key, b"data", hashlib.sha256)
    stream_key = derive_key(key, salt=b"", info=b"moiety stream 2 1 input")
    assert secret.stream(2, 1, "input", 9).read(32) == KeyStream(stream_key, 9).read(32)


def test_a_public_key_is_that_of_the_bytes_read():
    private = X25519PrivateKey.from_private_bytes(InsecureTestEntropy("alice").read(32))
    assert ALICE.public_bytes == private.public_key().public_bytes_raw()
    assert len(ALICE.public_bytes) == 32


def test_another_job_number_or_key_makes_another_secret():
    carol = EphemeralKey(InsecureTestEntropy("carol"))
    secrets = [
        secret_of(ALICE, BOB),
        secret_of(ALICE, BOB, binding=b"job2"),
        secret_of(ALICE, BOB, their_number=3),
        secret_of(ALICE, BOB, my_number=2, their_number=1),
        secret_of(ALICE, carol),
    ]
    assert len({secret.digest("ids", b"data") for secret in secrets}) == len(secrets)


def test_direction_label_and_block_make_streams_that_have_nothing_in_common():
    secret = secret_of(ALICE, BOB)
    keys = [(1, 2, "a", 0), (2, 1, "a", 0), (1, 2, "b", 0), (1, 2, "a", 1)]
    assert len({secret.stream(*key).read(16) for key in keys}) == len(keys)
    assert secret.digest("a", b"x") != secret.digest("b", b"x")
    assert secret.digest("a", b"x") != secret.digest("a", b"y")


def test_a_stream_between_other_members_is_refused():
    with pytest.raises(LocalFaultError, match=r"members \[1, 2\], not to dealer 1 and receiver 3"):
        secret_of(ALICE, BOB).stream(1, 3, "input", 0)


@pytest.mark.parametrize("point", LOW_ORDER_POINTS)
def test_a_point_of_low_order_is_the_peers_violation(point):
    with pytest.raises(PeerViolationError) as caught:
        pairwise_secret(ALICE, bytes.fromhex(point), binding=b"job", my_number=1, their_number=7)
    assert caught.value.member == 7
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("n_bytes", [0, 31, 33])
def test_a_key_of_another_length_is_the_peers_violation(n_bytes):
    with pytest.raises(PeerViolationError, match="member 2 sent no valid X25519 public key"):
        pairwise_secret(ALICE, bytes(n_bytes), binding=b"job", my_number=1, their_number=2)


def test_a_member_has_no_secret_with_itself():
    with pytest.raises(LocalFaultError):
        secret_of(ALICE, BOB, my_number=2, their_number=2)


@pytest.mark.parametrize("holder", [ALICE, secret_of(ALICE, BOB)], ids=["key", "secret"])
def test_keys_show_nothing_and_are_neither_copied_nor_stored(holder):
    assert repr(holder) in {"EphemeralKey()", "PairwiseSecret(members=[1, 2])"}
    assert f"{holder}" == repr(holder)
    for store in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            store(holder)
    assert not hasattr(holder, "__dict__")
