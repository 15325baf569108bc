"""Write the test vectors of the protocol core, and of local responses (`wave_vectors.py`).

Use: python tests/vectors/generate.py [--check]
All randomness comes from named insecure sources, so the files are reproducible. Review differences.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from proof_vectors import coin_vectors, folding_vectors, norm_vectors
from row_id_vectors import row_id_vectors
from wave_vectors import wave_vectors

from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.kernels import RESIDUES_PER_WORD
from mpc.arithmetic.opening import open_shares
from mpc.arithmetic.shamir import ShamirScheme, lagrange_weights
from mpc.arithmetic.words import Words
from mpc.protocol.double_sharing import extraction_weights
from mpc.protocol.greeting import binding_of
from mpc.protocol.hashkey import HashKey, combine, commit, commitment_digest
from mpc.protocol.pairwise import EphemeralKey, PairwiseSecret, pairwise_secret
from mpc.protocol.product_check import N_COINS, N_COMBINATIONS
from mpc.protocol.sealed import SealedChannel

FOLDER = Path(__file__).parent
Vector = dict[str, Any]

SEEDS_WITH_A_REJECTION = {3: "rejection 3 5766", 6: "rejection 6 743"}
"""Primes to the seed of a stream among whose first words one is no element: found by trying."""

JOB = {"job_id": "job 7", "names": {0: "main", 1: "bank", 2: "hospital", 3: "telco"}, "terms": bytes(range(32))}
BINDING = binding_of(**JOB)


def hex_words(words: Words) -> list[list[str]]:
    """One list per word row, each word as 16 hexadecimal digits, most significant first."""
    return [[f"{int(word):016x}" for word in row.reshape(-1)] for row in words]


def stream(seed: str) -> KeyStream:
    return KeyStream(InsecureTestEntropy(seed).read(32))


def stream_key(seed: str) -> str:
    return InsecureTestEntropy(seed).read(32).hex()


def random_words(field: ResidueField, n: int, seed: str) -> Words:
    return field.random(stream(seed), (n,))


def integers(field: ResidueField) -> list[int]:
    edge = field.half_order
    return [value for value in (0, 1, -1, 1 << 20, -(1 << 20), 2097143, edge, -edge) if abs(value) <= edge]


def random_vector_with_a_rejection(n_primes: int, seed: str) -> Vector:
    """One of the words at first drawn is no element, so what stands there is drawn after all others."""
    field, n = ResidueField(n_primes), 5
    words, raw = random_words(field, n, seed), stream(seed).words(field.n_words * n).reshape(field.n_words, n)
    assert n_primes % RESIDUES_PER_WORD == 0, "no unused bits"
    assert not np.array_equal(words, raw & np.uint64((1 << 63) - 1))
    return {
        "name": f"random_{n_primes}_primes_one_word_rejected",
        "n_primes": n_primes,
        "stream_key": stream_key(seed),
        "words": hex_words(words),
    }


def field_vectors() -> Iterable[Vector]:
    for n_primes in range(1, 7):
        field = ResidueField(n_primes)
        values = integers(field)
        words = field.encode(np.array(values, dtype=object))
        yield {
            "name": f"encode_{n_primes}_primes",
            "n_primes": n_primes,
            "values": [str(value) for value in values],
            "words": hex_words(words),
        }
        yield {
            "name": f"random_{n_primes}_primes",
            "n_primes": n_primes,
            "stream_key": stream_key(f"random {n_primes}"),
            "words": hex_words(random_words(field, 5, f"random {n_primes}")),
        }
        if n_primes in SEEDS_WITH_A_REJECTION:
            yield random_vector_with_a_rejection(n_primes, SEEDS_WITH_A_REJECTION[n_primes])
        yield {
            "name": f"bad_value_beyond_half_order_{n_primes}_primes",
            "n_primes": n_primes,
            "values": [str(field.half_order + 1)],
            "error": "FieldTooSmallError",
        }
    bad_words = {
        "bad_first_residue_equals_its_prime": 2097143,
        "bad_second_residue_equals_its_prime": 2097133 << 21,
        "bad_third_residue_equals_its_prime": 2097131 << 42,
        "bad_highest_bit_is_set": 1 << 63,
        "bad_all_bits_are_set": (1 << 64) - 1,
    }
    for name, word in bad_words.items():
        yield {"name": name, "n_primes": 3, "words": [[f"{word:016x}"]], "error": "OutOfRangeError"}
    yield {
        "name": "bad_residue_of_a_prime_that_the_field_does_not_use",
        "n_primes": 4,
        "words": [[f"{1:016x}"], [f"{1 << 21:016x}"]],
        "error": "OutOfRangeError",
    }
    yield {"name": "bad_number_of_words", "n_primes": 4, "words": [[f"{1:016x}"]], "error": "ShapeError"}


def dealt(scheme: ShamirScheme, dealer: int, secret: Words, seed: str) -> tuple[dict[int, Words], dict[int, Words]]:
    """Return derived and explicit shares."""
    n = secret.shape[1]
    derived = {r: random_words(scheme.field, n, f"{seed} {dealer} {r}") for r in scheme.derived_receivers(dealer)}
    return derived, scheme.deal(dealer, secret, derived)


def keyed(shares: dict[int, Words]) -> dict[str, list[list[str]]]:
    return {str(number): hex_words(words) for number, words in sorted(shares.items())}


def sharing_vectors() -> Iterable[Vector]:
    for n_primes, n_parties, degree, dealer in ((3, 3, 1, 1), (3, 5, 2, 4), (4, 4, 2, 3), (6, 7, 3, 9)):
        field = ResidueField(n_primes)
        scheme = ShamirScheme(field, n_parties, degree)
        secret = field.encode(np.array([0, 1, -1, 12345, -(2**20)]))
        derived, explicit = dealt(scheme, dealer, secret, f"sharing {n_parties}")
        yield {
            "name": f"share_{n_parties}_parties_degree_{degree}_dealer_{dealer}",
            "n_primes": n_primes,
            "n_parties": n_parties,
            "degree": degree,
            "dealer": dealer,
            "secret": hex_words(secret),
            "derived_shares": keyed(derived),
            "explicit_shares": keyed(explicit),
        }
    small = {"n_primes": 3, "dealer": 1, "secret": [["0" * 16]], "derived_shares": {}}
    yield {
        "name": "bad_degree_not_below_n_parties",
        **small,
        "n_parties": 3,
        "degree": 3,
        "error": "TooFewPartiesError",
    }
    yield {"name": "bad_degree_zero", **small, "n_parties": 3, "degree": 0, "error": "TooFewPartiesError"}
    yield {"name": "bad_missing_derived_share", **small, "n_parties": 3, "degree": 1, "error": "LocalFaultError"}


def product_vectors() -> Iterable[Vector]:
    for n_primes in (1, 3, 6):
        field = ResidueField(n_primes)
        a, b = (random_words(field, 4, f"{name} {n_primes}") for name in ("left", "right"))
        yield {
            "name": f"multiply_{n_primes}_primes",
            "n_primes": n_primes,
            "a": hex_words(a),
            "b": hex_words(b),
            "product": hex_words(field.multiply(a, b)),
        }
    word = [["0" * 16] * 2]
    yield {"name": "bad_shapes", "n_primes": 3, "a": word, "b": [["0" * 16] * 3], "error": "ShapeError"}


def private_keys(parties: Iterable[int]) -> dict[str, str]:
    return {str(party): InsecureTestEntropy(f"vector key {party}").read(32).hex() for party in parties}


def secret_of(party: int, peer: int) -> PairwiseSecret:
    mine, theirs = (EphemeralKey(InsecureTestEntropy(f"vector key {number}")) for number in (party, peer))
    return pairwise_secret(mine, theirs.public_bytes, binding=BINDING, my_number=party, their_number=peer)


def binding_vectors() -> Iterable[Vector]:
    """What is bound into every key of a job."""
    for name, changes in {
        "bind_three_parties": {},
        "bind_another_job": {"job_id": "job 8"},
        "bind_other_terms": {"terms": b""},
        "bind_another_order": {"names": {0: "main", 1: "hospital", 2: "bank", 3: "telco"}},
    }.items():
        job = JOB | changes
        yield {
            "name": name,
            "job_id": job["job_id"],
            "names": {str(number): party for number, party in job["names"].items()},
            "terms": job["terms"].hex(),
            "binding": binding_of(**job).hex(),
        }


def pairwise_vectors() -> Iterable[Vector]:
    """What a dealer and a receiver derive from their keys."""
    cases = ((3, 1, 2, "computation/input", 0), (3, 2, 1, "computation/input", 0), (6, 1, 2, "table", 1))
    for n_primes, dealer, receiver, label, block in cases:
        drawn = secret_of(dealer, receiver).stream(dealer, receiver, label, block)
        yield {
            "name": f"stream_{dealer}_to_{receiver}_{label.replace('/', '_')}_block_{block}_{n_primes}_primes",
            "binding": BINDING.hex(),
            "private_keys": private_keys((dealer, receiver)),
            "n_primes": n_primes,
            "dealer": dealer,
            "receiver": receiver,
            "label": label,
            "block": block,
            "share": hex_words(ResidueField(n_primes).random(drawn, (4,))),
        }
    whole = {
        "binding": BINDING.hex(),
        "private_keys": private_keys((1, 2)),
        "n_primes": 3,
        "label": "table",
        "block": 0,
    }
    yield {"name": "bad_receiver_of_another_pair", **whole, "dealer": 1, "receiver": 3, "error": "LocalFaultError"}


def dealt_in_blocks(
    scheme: ShamirScheme, dealer: int, secret: Words, label: str, segment: int
) -> tuple[dict[int, Words], dict[int, Words]]:
    """Return derived and explicit shares of an array of which every `segment` elements are a block."""
    lengths = [min(segment, secret.shape[1] - start) for start in range(0, secret.shape[1], segment)]

    def derived_share(receiver: int) -> Words:
        pair = secret_of(dealer, receiver)
        streams = (pair.stream(dealer, receiver, label, block) for block in range(len(lengths)))
        return np.concatenate([scheme.field.random(*drawn) for drawn in zip(streams, lengths, strict=True)], axis=1)

    derived = {receiver: derived_share(receiver) for receiver in scheme.derived_receivers(dealer)}
    return derived, scheme.deal(dealer, secret, derived)


def factors(field: ResidueField, n_parties: int, t: int) -> tuple[dict[int, Words], dict[int, Words], list[str]]:
    """Return shares of two arrays, and their product."""
    scheme = ShamirScheme(field, n_parties, t)
    a, b = [3, -5, 1 << 20], [7, 11, -(1 << 19)]
    shares = [dealt(scheme, d, field.encode(np.array(x)), seed) for d, x, seed in ((1, a, "a"), (2, b, "b"))]
    a_shares, b_shares = (derived | explicit for derived, explicit in shares)
    return a_shares, b_shares, [str(x * y) for x, y in zip(a, b, strict=True)]


def arriving(stage: str, sender: int, receiver: int, *messages: tuple[int, Words]) -> Vector:
    """What comes instead of what was sent: sequence numbers and arrays."""
    shown = [{"sequence": sequence, "words": hex_words(words)} for sequence, words in messages]
    return {"stage": stage, "sender": sender, "receiver": receiver, "messages": shown}


def _combined(field: ResidueField, values: Words, coefficients: Words) -> Words:
    """Return sums of coefficient times value, one after the other: shape (n_words, combinations)."""
    total = field.zeros((coefficients.shape[1],))
    for i in range(values.shape[1]):
        field.accumulate(
            total, field.multiply(np.repeat(values[:, i : i + 1], total.shape[1], 1), coefficients[:, :, i])
        )
    return total


def _syndrome(field: ResidueField, combined: dict[int, Words], basis: list[int]) -> Words:
    """Return by how much surplus dealers' combinations differ from what those of the first determine, one by one."""
    surplus = [dealer for dealer in combined if dealer not in basis]
    expected = {s: field.combine([combined[d] for d in basis], lagrange_weights(field, basis, at=s)) for s in surplus}
    return np.concatenate([field.subtract(combined[s], expected[s]) for s in surplus], axis=1)


def reduction_vectors() -> Iterable[Vector]:
    """Every message of one element-wise product, from the parties' shares to those of degree t."""
    field, stage, segment = ResidueField(3), "computation/products", 2

    def given(n_parties: int, t: int, lost: tuple[int, ...] = ()) -> Vector:
        a_shares, b_shares, _ = factors(field, n_parties, t)
        return {
            "n_primes": 3,
            "n_parties": n_parties,
            "t": t,
            "degree": 2 * t,
            "lost": list(lost),
            "binding": BINDING.hex(),
            "private_keys": private_keys(range(1, n_parties + 1)),
            "stage": stage,
            "segment": segment,
            "a_shares": keyed(a_shares),
            "b_shares": keyed(b_shares),
        }

    for n_parties, t, lost in ((3, 1, ()), (5, 2, ()), (5, 1, (2,))):
        scheme = ShamirScheme(field, n_parties, t)
        a_shares, b_shares, product = factors(field, n_parties, t)
        size = len(product)
        present = [p for p in scheme.parties if p not in lost]
        n_coin = N_COINS if n_parties > 2 * t + 1 else 0
        secrets = {d: field.multiply(a_shares[d], b_shares[d]) for d in present}
        if n_coin:
            secrets = {d: np.concatenate([s, random_words(field, n_coin, f"coin {d}")], 1) for d, s in secrets.items()}
        messages = {d: dealt_in_blocks(scheme, d, secret, stage, segment) for d, secret in secrets.items()}
        dealers = present[: 2 * t + 1]
        weights = lagrange_weights(field, dealers)
        taken = {p: {d: (messages[d][0] | messages[d][1])[p] for d in present} for p in present}
        reduced = {p: field.combine([taken[p][d] for d in dealers], weights) for p in present}
        check: Vector = {}
        if n_coin:
            coin = scheme.recombine({p: words[:, size:] for p, words in reduced.items()})
            stream = KeyStream(hashlib.sha256(b"moiety check of products" + coin.tobytes()).digest())
            lengths = [min(segment, size - start) for start in range(0, size, segment)]
            factors_of = np.concatenate([field.random(stream, (N_COMBINATIONS, m)) for m in lengths], axis=2)
            combined = {p: {d: _combined(field, taken[p][d][:, :size], factors_of) for d in present} for p in present}
            check = {
                "coin_stream_keys": {str(p): stream_key(f"coin {p}") for p in present},
                "coin_shares": keyed({p: words[:, size:] for p, words in reduced.items()}),
                "coefficients": [hex_words(factors_of[:, i]) for i in range(N_COMBINATIONS)],
                "check_shares": keyed({p: _syndrome(field, combined[p], dealers) for p in present}),
            }
        reduced = {p: words[:, :size] for p, words in reduced.items()}
        yield {
            "name": f"reduce_{n_parties}_parties_t_{t}_dealers_{'_'.join(map(str, dealers))}",
            **given(n_parties, t, lost),
            "dealers": dealers,
            "derived_sub_shares": {str(d): keyed(messages[d][0]) for d in present},
            "explicit_sub_shares": {str(d): keyed(messages[d][1]) for d in present},
            "reduced_shares": keyed(reduced),
            "product": product,
            **check,
        }

    few = {"refused_by": 1, "error": "PeerLostError"}
    keys = {"coin_stream_keys": {str(p): stream_key(f"coin {p}") for p in (1, 3)}}
    yield {"name": "bad_too_few_dealers", **given(5, 1, lost=(2, 4, 5)), **keys, **few}
    yield {"name": "bad_lost_dealer_of_three", **given(3, 1, lost=(2,)), **few}
    high = {"degree": 3, "refused_by": 1, "error": "TooFewPartiesError"}
    yield {"name": "bad_degree_not_below_n_parties", **given(3, 1), **high}
    word = field.encode(np.array([1, 2]))
    outside = word.copy()
    outside[0, 1] = (1 << 64) - 1
    damages: dict[str, list[tuple[int, Words]]] = {
        "word_outside_the_field": [(0, outside)],
        "message_cut_short": [(0, word[:, :1])],
        "message_too_long": [(0, np.concatenate([word, word], axis=1))],
        "first_message_twice": [(0, word), (0, word)],
    }
    for name, messages_of_1 in damages.items():
        yield {
            "name": f"bad_{name}",
            **given(3, 1),
            "arriving": arriving(stage, 1, 3, *messages_of_1),
            "refused_by": 3,
            "error": "PeerViolationError",
        }


def double_sharing_vectors() -> Iterable[Vector]:
    """Every message of one element-wise product by double sharings, but for those of its last check."""
    field, name = ResidueField(3), "computation"

    def given(n_parties: int, t: int) -> Vector:
        a_shares, b_shares, _ = factors(field, n_parties, t)
        return {
            "n_primes": 3,
            "n_parties": n_parties,
            "t": t,
            "binding": BINDING.hex(),
            "private_keys": private_keys(range(1, n_parties + 1)),
            "mask_stream_keys": {str(p): stream_key(f"masks {p}") for p in range(1, n_parties + 1)},
            "a_shares": keyed(a_shares),
            "b_shares": keyed(b_shares),
        }

    def multiplied(n_parties: int, t: int) -> Vector:
        a_shares, b_shares, product = factors(field, n_parties, t)
        parties, size = range(1, n_parties + 1), len(product)
        n_dealt, of_king = -(-size // (n_parties - t)), -(-size // n_parties)
        scheme = {degree: ShamirScheme(field, n_parties, degree) for degree in (t, 2 * t)}
        labels = {t: f"{name}/masks", 2 * t: f"{name}/masks of products"}
        drawn = {dealer: random_words(field, n_dealt, f"masks {dealer}") for dealer in parties}
        sharings = {
            degree: {d: dealt_in_blocks(scheme[degree], d, drawn[d], labels[degree], n_dealt) for d in parties}
            for degree in labels
        }

        def mask(degree: int, party: int) -> Words:
            of_dealer = {d: (derived | explicit)[party] for d, (derived, explicit) in sharings[degree].items()}
            parts = [
                field.combine([of_dealer[d] for d in row], list(row.values()))
                for row in extraction_weights(field, n_parties, t)
            ]
            return np.concatenate(parts, axis=1)[:, :size]

        masked = {p: field.subtract(field.multiply(a_shares[p], b_shares[p]), mask(2 * t, p)) for p in parties}
        opened = scheme[2 * t].recombine(masked)
        king_of = [1 + i // of_king for i in range(size)]

        def told(party: int) -> Words:
            """My share of what the kings opened: the sharing of degree t in which t parties have 0."""
            words = [
                field.zeros((1,))
                if party in (zeros := scheme[t].derived_receivers(king))
                else field.combine([opened[:, [i]]], [lagrange_weights(field, (0, *zeros), at=party)[0]])
                for i, king in enumerate(king_of)
            ]
            return np.concatenate(words, axis=1)

        kings = {king: slice((king - 1) * of_king, king * of_king) for king in sorted(set(king_of))}
        pairs = [(sender, king) for sender in parties for king in kings if sender != king]
        return {
            "name": f"multiply_{n_parties}_parties_t_{t}",
            **given(n_parties, t),
            "explicit_masks": {str(d): keyed(sharings[t][d][1]) for d in parties},
            "mask_shares": keyed({p: mask(t, p) for p in parties}),
            "product_mask_shares": keyed({p: mask(2 * t, p) for p in parties}),
            "masked_products": {f"{s} {k}": hex_words(masked[s][:, kings[k]]) for s, k in pairs},
            "opened_masked_products": {str(king): hex_words(opened[:, where]) for king, where in kings.items()},
            "reduced_shares": keyed({p: field.add(mask(t, p), told(p)) for p in parties}),
            "product": product,
        }

    yield from (multiplied(3, 1), multiplied(5, 2))
    yield {"name": "bad_more_than_2t_plus_1_parties", **given(4, 1), "refused_by": 1, "error": "TooFewPartiesError"}
    one = field.encode(np.array([1]))
    damages = {
        "word_outside_the_field": (np.full_like(one, (1 << 64) - 1), "PeerViolationError"),
        "wrong_masked_product": (one, "InconsistentSharesError"),
    }
    for what, (words, error) in damages.items():
        came = arriving(f"{name}/masked products", 2, 1, (0, words))
        yield {"name": f"bad_{what}", **given(3, 1), "arriving": came, "refused_by": 1, "error": error}


def opening_vectors() -> Iterable[Vector]:
    field = ResidueField(3)
    values = np.array([42, -42, 0])
    scheme = ShamirScheme(field, 5, 2)
    derived, explicit = dealt(scheme, 1, field.encode(values), "opening")
    shares = derived | explicit

    def vector(name: str, chosen: dict[int, Words], **more: Any) -> Vector:
        return {"name": name, "n_primes": 3, "degree": 2, "shares": keyed(chosen), **more}

    def pick(*numbers: int) -> dict[int, Words]:
        return {number: shares[number] for number in numbers}

    def damaged(chosen: dict[int, Words], *numbers: int) -> dict[int, Words]:
        one = field.encode(np.array([0, 1, 0]))
        return {n: field.add(words, field.scale(one, n)) if n in numbers else words for n, words in chosen.items()}

    right = {"values": [str(v) for v in values], "wrong": []}
    yield vector("open_from_three_of_five", pick(1, 3, 5), **right)
    yield vector("open_from_four_of_five", pick(1, 2, 3, 5), **right)
    yield vector("open_from_all", shares, **right)
    corrected = open_shares(damaged(shares, 4), 2, field)
    yield vector("open_with_a_wrong_share_corrected", damaged(shares, 4), **right | {"wrong": list(corrected.wrong)})
    yield vector("bad_too_few_shares", pick(2, 4), error="TooFewSharesError")
    yield vector("bad_wrong_share_among_four", damaged(pick(1, 2, 3, 4), 2), error="InconsistentSharesError")
    yield vector("bad_two_wrong_shares_among_five", damaged(shares, 2, 4), error="InconsistentSharesError")
    yield vector("bad_shares_of_different_shapes", {**pick(1, 2, 3), 4: shares[4][:, :2]}, error="ShapeError")


def hash_key_vectors() -> Iterable[Vector]:
    """All of one agreement: what three parties draw, commit to, seal for each other, and come to."""
    name, parties = "row ids", (1, 2, 4)
    drawn = {party: InsecureTestEntropy(f"hash key {party}") for party in parties}
    private = {party: InsecureTestEntropy(f"hash key {party}").read(32) for party in parties}
    keys = {party: EphemeralKey(drawn[party]) for party in parties}
    contributions = {party: drawn[party].read(32) for party in parties}
    commitments = {party: commit(BINDING, name, parties, party, contributions[party]) for party in parties}
    transcript = commitment_digest(commitments)
    key = combine(BINDING, name, transcript, contributions)
    stage = f"hash key {name}/commitment"

    def channel(me: int, them: int) -> SealedChannel:
        secret = pairwise_secret(keys[me], keys[them].public_bytes, binding=BINDING, my_number=me, their_number=them)
        return SealedChannel(secret, binding=BINDING, me=me, them=them, their_name=f"party-{them}")

    pairs = [(sender, receiver) for sender in parties for receiver in parties if sender != receiver]
    sealed = {
        f"{sender} {receiver}": channel(sender, receiver).seal(stage, commitments[sender]) for sender, receiver in pairs
    }
    reveal = f"hash key {name}/reveal"
    reveals = {
        f"{sender} {receiver}": channel(sender, receiver).seal(reveal, contributions[sender] + transcript).hex()
        for sender, receiver in pairs
    }
    whole = {
        "binding": BINDING.hex(),
        "key_name": name,
        "private_keys": {str(party): private[party].hex() for party in parties},
        "contributions": {str(party): contributions[party].hex() for party in parties},
        "sealed_commitments": {pair: message.hex() for pair, message in sealed.items()},
    }
    yield {
        "name": "agree_three_parties",
        **whole,
        "sealed_reveals": reveals,
        "commitments": {str(party): commitments[party].hex() for party in parties},
        "transcript": transcript.hex(),
        "key": key.hex(),
        "digest_of_data": HashKey(key, name).digest(b"data").hex(),
    }
    first = next(iter(sealed))
    altered = bytearray(sealed[first])
    altered[0] ^= 1
    replaced = {"altered": altered.hex(), "cut_short": sealed[first][:-1].hex(), "of_another_pair": sealed["4 1"].hex()}
    for what, message in replaced.items():
        messages = {**whole["sealed_commitments"], first: message}
        yield {"name": f"bad_{what}", **whole, "sealed_commitments": messages, "error": "PeerViolationError"}
    yield {"name": "bad_of_another_job", **whole, "binding": bytes(32).hex(), "error": "PeerViolationError"}
    sealed_reveal = bytearray.fromhex(reveals[first])
    sealed_reveal[0] ^= 1
    of_another_key = f"hash key {name} again/reveal"
    revealed = {
        "wrong_opening": channel(1, 2).seal(reveal, contributions[4] + transcript),
        "other_transcript": channel(1, 2).seal(reveal, contributions[1] + bytes(32)),
        "of_another_key": channel(1, 2).seal(of_another_key, contributions[1] + transcript),
        "altered": bytes(sealed_reveal),
        "of_another_pair": bytes.fromhex(reveals["4 1"]),
        "cut_short": bytes.fromhex(reveals[first])[:-1],
    }
    for what, message in revealed.items():
        messages = {**reveals, first: message.hex()}
        error = "InconsistentSharesError" if what == "other_transcript" else "PeerViolationError"
        yield {"name": f"bad_reveal_{what}", **whole, "sealed_reveals": messages, "error": error}


GENERATORS: dict[str, Callable[[], Iterable[Vector]]] = {
    "field": field_vectors,
    "binding": binding_vectors,
    "sharing": sharing_vectors,
    "product": product_vectors,
    "pairwise": pairwise_vectors,
    "reduction": reduction_vectors,
    "double_sharing": double_sharing_vectors,
    "opening": opening_vectors,
    "hash_key": hash_key_vectors,
    "row_ids": row_id_vectors,
    "wave": wave_vectors,
    "coin": coin_vectors,
    "folding": folding_vectors,
    "norm": norm_vectors,
}


def render(kind: str) -> str:
    return json.dumps(list(GENERATORS[kind]()), indent=1) + "\n"


def main() -> int:
    stale = []
    for kind in GENERATORS:
        path = FOLDER / f"{kind}.json"
        text = render(kind)
        if "--check" not in sys.argv:
            path.write_text(text)
        elif path.read_text() != text:
            stale.append(path.name)
    for name in stale:
        print(f"{name} is not what this code generates")
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
