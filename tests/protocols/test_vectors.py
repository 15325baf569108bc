"""The files in tests/vectors against the library; only one test uses their generator."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from virtual_time import run_in_virtual_time

import mpc.protocol.reduction
from entropy import KeyStream
from mpc import errors
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.opening import open_shares
from mpc.arithmetic.shamir import ShamirScheme
from mpc.local.network import LocalNetwork, Message, local_names
from mpc.protocol.agreement import DealerAgreement
from mpc.protocol.double_sharing import reduce_with_double_sharings
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.greeting import binding_of
from mpc.protocol.hashkey import HashKey, HashKeys, combine, commit, commitment_digest
from mpc.protocol.pairwise import EphemeralKey, pairwise_secret
from mpc.protocol.product_check import ProductCheck
from mpc.protocol.reduction import reduce_degree
from mpc.protocol.sealed import SealedChannel

FOLDER = Path(__file__).parents[1] / "vectors"


def vectors(kind, *prefixes):
    chosen = [v for v in json.loads((FOLDER / f"{kind}.json").read_text()) if v["name"].startswith(prefixes)]
    assert chosen
    return pytest.mark.parametrize("vector", chosen, ids=lambda vector: vector["name"])


def words_of(rows):
    return np.array([[int(word, 16) for word in row] for row in rows], dtype=np.uint64)


def shares_of(by_number):
    return {int(number): words_of(rows) for number, rows in by_number.items()}


def field_of(vector):
    return ResidueField(vector["n_primes"])


def assert_same_shares(actual, expected):
    assert sorted(actual) == sorted(expected)
    for number, words in actual.items():
        np.testing.assert_array_equal(words, expected[number], err_msg=f"share of {number}")


def refuses(vector, action):
    with pytest.raises(errors.ProtocolError) as caught:
        action()
    assert type(caught.value).__name__ == vector["error"]


def test_the_files_are_what_the_generator_writes(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    monkeypatch.syspath_prepend(FOLDER)
    assert runpy.run_path(str(FOLDER / "generate.py"))["main"]() == 0, capsys.readouterr().out


def test_names_of_vectors_are_unique_and_bad_ones_have_an_error():
    for path in FOLDER.glob("*.json"):
        found = json.loads(path.read_text())
        names = [vector["name"] for vector in found]
        assert len(set(names)) == len(names)
        assert all(vector["name"].startswith("bad_") == ("error" in vector) for vector in found)


@vectors("field", "encode_")
def test_integers_are_encoded_and_decoded(vector):
    field, values = field_of(vector), np.array([int(v) for v in vector["values"]], dtype=object)
    np.testing.assert_array_equal(field.encode(values), words_of(vector["words"]))
    assert [int(v) for v in field.decode(words_of(vector["words"]))] == list(values)
    field.check(words_of(vector["words"]))


@vectors("field", "random_")
def test_elements_are_drawn_from_a_stream(vector):
    expected = words_of(vector["words"])
    drawn = field_of(vector).random(KeyStream(bytes.fromhex(vector["stream_key"])), expected.shape[1:])
    np.testing.assert_array_equal(drawn, expected)


@vectors("field", "bad_")
def test_bad_integers_and_words_are_refused(vector):
    field = field_of(vector)
    if "values" in vector:
        refuses(vector, lambda: field.encode(np.array([int(v) for v in vector["values"]], dtype=object)))
    else:
        refuses(vector, lambda: field.check(words_of(vector["words"])))


@vectors("sharing", "share_")
def test_explicit_shares_follow_from_the_derived_ones(vector):
    scheme = ShamirScheme(field_of(vector), vector["n_parties"], vector["degree"])
    derived, explicit = shares_of(vector["derived_shares"]), shares_of(vector["explicit_shares"])
    assert_same_shares(scheme.deal(vector["dealer"], words_of(vector["secret"]), derived), explicit)
    np.testing.assert_array_equal(scheme.recombine(derived | explicit), words_of(vector["secret"]))


@vectors("sharing", "bad_")
def test_bad_sharings_are_refused(vector):
    def deal():
        scheme = ShamirScheme(field_of(vector), vector["n_parties"], vector["degree"])
        scheme.deal(vector["dealer"], words_of(vector["secret"]), shares_of(vector["derived_shares"]))

    refuses(vector, deal)


@vectors("product", "multiply_")
def test_products(vector):
    a, b = words_of(vector["a"]), words_of(vector["b"])
    np.testing.assert_array_equal(field_of(vector).multiply(a, b), words_of(vector["product"]))


@vectors("product", "bad_")
def test_bad_products_are_refused(vector):
    refuses(vector, lambda: field_of(vector).multiply(words_of(vector["a"]), words_of(vector["b"])))


class Fixed:
    """Randomness that is read from a vector."""

    is_secure = False

    def __init__(self, data):
        self._data = data

    def read(self, n_bytes):
        assert n_bytes == len(self._data)
        return self._data


def binding_in(vector):
    return bytes.fromhex(vector["binding"])


def secret_of(vector, me, them):
    mine, theirs = (EphemeralKey(Fixed(bytes.fromhex(vector["private_keys"][str(p)]))) for p in (me, them))
    return pairwise_secret(mine, theirs.public_bytes, binding=binding_in(vector), my_number=me, their_number=them)


@vectors("binding", "bind_")
def test_what_is_bound_into_every_key_covers_job_names_and_terms(vector):
    names = {int(number): name for number, name in vector["names"].items()}
    assert binding_of(vector["job_id"], names, bytes.fromhex(vector["terms"])).hex() == vector["binding"]


@vectors("pairwise", "stream_")
def test_a_dealer_and_a_receiver_derive_the_same_share(vector):
    dealer, receiver, expected = vector["dealer"], vector["receiver"], words_of(vector["share"])
    for me, them in ((dealer, receiver), (receiver, dealer)):
        stream = secret_of(vector, me, them).stream(dealer, receiver, vector["label"], vector["block"])
        np.testing.assert_array_equal(field_of(vector).random(stream, expected.shape[1:]), expected)


@vectors("pairwise", "bad_")
def test_streams_of_other_pairs_are_refused(vector):
    me, them = map(int, vector["private_keys"])
    secret = secret_of(vector, me, them)
    refuses(vector, lambda: secret.stream(vector["dealer"], vector["receiver"], vector["label"], vector["block"]))


def run_vector(vector, step):
    """Run a step of all parties that are not lost over the in-process network; return it and what each returned.

    What the vector says to be arriving replaces what was sent in that stream.
    """
    n_parties, t, lost = vector["n_parties"], vector["t"], vector.get("lost", [])
    parties = [p for p in range(1, n_parties + 1) if p not in lost]
    keys = vector.get("mask_stream_keys", vector.get("coin_stream_keys", {}))
    network = LocalNetwork(local_names(n_parties), entropy_of=lambda m: Fixed(bytes.fromhex(keys.get(str(m), ""))))
    for party in lost:
        network.kill(party)
    if "arriving" in vector:
        instead = vector["arriving"]
        stream = (instead["sender"], instead["receiver"], instead["stage"])
        came = [Message(*stream, one["sequence"], words_of(one["words"])) for one in instead["messages"]]

        def fault(message):
            if (message.sender, message.receiver, message.stage) != stream:
                return (message,)
            return came if message.sequence == 0 else ()

        network.fault = fault
    a, b = shares_of(vector["a_shares"]), shares_of(vector["b_shares"])

    async def member(session):
        me = session.me
        secrets = {p: secret_of(vector, me, p) for p in range(1, n_parties + 1) if p != me}
        exchange = ShareExchange(session, field_of(vector), n_parties, t, secrets)
        return await step(exchange, lambda segment: exchange.field.multiply(a[me][:, segment], b[me][:, segment]))

    return network, run_in_virtual_time(network.run(dict.fromkeys(parties, member)))


def sent(network, stage):
    """What was sent in a stage: (sender, receiver) to the arrays, one after the other."""
    streams = {}
    for message in network.transcript:
        if message.stage == stage:
            streams.setdefault((message.sender, message.receiver), []).append(message.array)
    return {pair: np.concatenate(arrays, axis=1) for pair, arrays in streams.items()}


def assert_shares_of_the_product(vector, shares):
    field = field_of(vector)
    assert_same_shares(shares, shares_of(vector["reduced_shares"]))
    opening = open_shares(shares, vector["t"], field)
    assert opening.wrong == ()
    assert [str(value) for value in field.decode(opening.words)] == vector["product"]


def reduced(vector, monkeypatch):
    monkeypatch.setattr(mpc.protocol.reduction, "SEGMENT", vector["segment"])

    async def step(exchange, product_share):
        name, kind = vector["stage"].split("/")
        assert kind == "products"
        agreement = DealerAgreement(exchange, name)
        check = ProductCheck(exchange, agreement)
        share = await reduce_degree(exchange, agreement, check, 0, product_share, 3, vector["degree"])
        assert await check.verify(name) == ()
        return share

    return run_vector(vector, step)


@vectors("reduction", "reduce_")
def test_every_message_of_a_degree_reduction(vector, monkeypatch):
    network, shares = reduced(vector, monkeypatch)
    assert_shares_of_the_product(vector, shares)
    explicit = {int(d): shares_of(by_receiver) for d, by_receiver in vector["explicit_sub_shares"].items()}
    received = sent(network, vector["stage"])
    for (dealer, receiver), words in received.items():
        np.testing.assert_array_equal(words, explicit[dealer][receiver])
    present = set(shares)
    assert set(received) == {(d, r) for d in explicit for r in explicit[d] if r != d and r in present}
    for dealer, by_receiver in vector["derived_sub_shares"].items():
        scheme = ShamirScheme(field_of(vector), vector["n_parties"], vector["t"])
        product = field_of(vector).multiply(*(shares_of(vector[f])[int(dealer)] for f in ("a_shares", "b_shares")))
        secret = scheme.recombine(shares_of(by_receiver) | explicit[int(dealer)])
        np.testing.assert_array_equal(secret[:, : product.shape[1]], product)
    for words, stage in (("coin_shares", "computation/coin 0@"), ("check_shares", "computation/check 0")):
        shares_told = {m.sender: m.array for m in network.transcript if m.stage.startswith(stage)}
        assert set(shares_told) == set(shares_of(vector.get(words, {})))
        assert_same_shares(shares_told, shares_of(vector.get(words, {})))
    if "coin_shares" in vector:
        assert vector["name"] == "reduce_5_parties_t_1_dealers_1_3_4"
        assert not open_shares(shares_of(vector["check_shares"]), vector["t"], field_of(vector)).words.any()


@vectors("reduction", "bad_")
def test_bad_reductions_are_refused(vector, monkeypatch):
    _, results = reduced(vector, monkeypatch)
    assert type(results[vector["refused_by"]]).__name__ == vector["error"], results


def multiplied(vector):
    async def step(exchange, product_share):
        return await reduce_with_double_sharings(exchange, "computation", 0, product_share, 3)

    return run_vector(vector, step)


@vectors("double_sharing", "multiply_")
def test_every_message_of_a_product_by_double_sharings(vector):
    network, shares = multiplied(vector)
    assert_shares_of_the_product(vector, shares)
    for (dealer, receiver), words in sent(network, "computation/masks").items():
        np.testing.assert_array_equal(words, words_of(vector["explicit_masks"][str(dealer)][str(receiver)]))
    assert not sent(network, "computation/masks of products")
    to_kings = {f"{s} {k}": words for (s, k), words in sent(network, "computation/masked products").items()}
    assert sorted(to_kings) == sorted(vector["masked_products"])
    for pair, words in to_kings.items():
        np.testing.assert_array_equal(words, words_of(vector["masked_products"][pair]))
    from_kings = sent(network, "computation/opened masked products")
    assert {str(king) for king, _ in from_kings} == set(vector["opened_masked_products"])
    for (king, _), words in from_kings.items():
        np.testing.assert_array_equal(words, words_of(vector["opened_masked_products"][str(king)]))
    one_value = (vector[name] for name in ("mask_shares", "product_mask_shares"))
    mask, product_mask = (
        open_shares(shares_of(by_party), degree, field_of(vector)).words
        for by_party, degree in zip(one_value, (vector["t"], 2 * vector["t"]), strict=True)
    )
    np.testing.assert_array_equal(mask, product_mask)


@vectors("double_sharing", "bad_")
def test_bad_products_by_double_sharings_are_refused(vector):
    _, results = multiplied(vector)
    assert type(results[vector["refused_by"]]).__name__ == vector["error"], results


@vectors("opening", "open_")
def test_openings(vector):
    opening = open_shares(shares_of(vector["shares"]), vector["degree"], field_of(vector))
    assert [str(value) for value in field_of(vector).decode(opening.words)] == vector["values"]
    assert list(opening.wrong) == vector["wrong"]


@vectors("opening", "bad_")
def test_bad_openings_are_refused(vector):
    refuses(vector, lambda: open_shares(shares_of(vector["shares"]), vector["degree"], field_of(vector)))


def opened_commitments(vector):
    """What the receivers of a vector's sealed commitments find in them, by (sender, receiver)."""
    stage, opened = f"hash key {vector['key_name']}/commitment", {}
    for pair, sealed in vector["sealed_commitments"].items():
        them, me = map(int, pair.split())
        secret = secret_of(vector, me, them)
        channel = SealedChannel(secret, binding=binding_in(vector), me=me, them=them, their_name=f"party-{them}")
        opened[them, me] = channel.open(stage, bytes.fromhex(sealed))
    return opened


@vectors("hash_key", "agree_")
def test_key_agreements(vector):
    contributions = {int(p): bytes.fromhex(r) for p, r in vector["contributions"].items()}
    commitments = {
        p: commit(binding_in(vector), vector["key_name"], tuple(contributions), p, r) for p, r in contributions.items()
    }
    assert {str(p): c.hex() for p, c in commitments.items()} == vector["commitments"]
    assert opened_commitments(vector) == {(a, b): commitments[a] for a in commitments for b in commitments if a != b}
    transcript = commitment_digest(commitments)
    assert transcript.hex() == vector["transcript"]
    key = combine(binding_in(vector), vector["key_name"], transcript, contributions)
    assert key.hex() == vector["key"]
    assert HashKey(key, vector["key_name"]).digest(b"data").hex() == vector["digest_of_data"]


@vectors("hash_key", "bad_altered", "bad_cut_short", "bad_of_another")
def test_bad_sealed_commitments_are_refused(vector):
    refuses(vector, lambda: opened_commitments(vector))


class OtherPartiesOf:
    """One party's end of the agreement of a vector, in which the others send what the vector holds."""

    def __init__(self, vector, me):
        self.me, self.binding, self.entropy = (
            me,
            binding_in(vector),
            Fixed(bytes.fromhex(vector["contributions"][str(me)])),
        )
        self.names = {int(p): f"party-{p}" for p in vector["contributions"]}
        self.sent = {}
        self._messages = {
            f"hash key {vector['key_name']}/commitment": vector["sealed_commitments"],
            f"hash key {vector['key_name']}/reveal": vector["sealed_reveals"],
        }

    async def send(self, to, stage, message):
        self.sent[stage, to] = message.tobytes().hex()

    async def receive(self, sender, stage, shape, dtype):
        message = np.frombuffer(bytes.fromhex(self._messages[stage][f"{sender} {self.me}"]), dtype)
        if message.shape != shape:
            raise errors.PeerViolationError(sender, stage, "another shape than is due")
        return message


async def agree_as(vector, me):
    parties = tuple(map(int, vector["contributions"]))
    session = OtherPartiesOf(vector, me)
    keys = HashKeys(session, parties, {p: secret_of(vector, me, p) for p in parties if p != me})
    return session, await keys.agree(vector["key_name"])


@vectors("hash_key", "agree_")
async def test_parties_answer_the_committed_messages_with_the_committed_answers(vector):
    for me in map(int, vector["contributions"]):
        session, key = await agree_as(vector, me)
        assert key.digest(b"data").hex() == vector["digest_of_data"]
        for step in ("commitment", "reveal"):
            sealed = vector[f"sealed_{step}s"]
            mine = {p: sealed[f"{me} {p}"] for p in session.names if p != me}
            assert mine == {p: m for (stage, p), m in session.sent.items() if stage.endswith("/" + step)}


@vectors("hash_key", "bad_reveal_")
async def test_bad_reveals_are_refused_and_name_the_sender_where_nobody_else_can_be_at_fault(vector):
    with pytest.raises(getattr(errors, vector["error"])) as caught:
        await agree_as(vector, 2)
    if vector["error"] == "InconsistentSharesError":
        assert getattr(caught.value, "member", None) is None
        return
    assert (caught.value.member, caught.value.stage) == (1, f"hash key {vector['key_name']}/reveal")
