"""The vectors of proofs against a second reader, which knows integers, SHA-256 and AES alone, and the library."""

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from entropy import KeyStream
from mpc import errors
from mpc.arithmetic.balanced import packed
from mpc.arithmetic.field import ResidueField
from mpc.proofs.coin import PublicCoin
from mpc.proofs.folding import Factors, Folded, Schedule, Weights, next_claim, weighted_claims
from mpc.proofs.norm_bound import NormBound
from mpc.proofs.projections import column_factors, projected

FOLDER = Path(__file__).parents[1] / "vectors"
PRIMES = (2097143, 2097133, 2097131, 2097097, 2097091, 2097083)


def vectors(kind, *prefixes):
    chosen = [v for v in json.loads((FOLDER / f"{kind}.json").read_text()) if v["name"].startswith(prefixes)]
    assert chosen
    return pytest.mark.parametrize("vector", chosen, ids=lambda vector: vector["name"])


# -- the public coin ---------------------------------------------------------------------------------------------------


def error_of_toss(vector):
    """The error that a toss must end with, by SHA-256 alone; None and the key of the coin if none."""
    binding, number = bytes.fromhex(vector["binding"]), vector["number"]
    commitments = {int(party): bytes.fromhex(c) for party, c in vector["commitments"].items()}
    digest = hashlib.sha256(b"".join(commitments[party] for party in sorted(commitments))).digest()
    seeds = b""
    for party, message in sorted(vector["revealed"].items()):
        seed, following, seen = (bytes.fromhex(message)[start : start + 32] for start in (0, 32, 64))
        text = b"moiety commitment of %d to coin %d of %b\0" % (int(party), number, binding)
        if hashlib.sha256(text + seed).digest() != commitments[int(party)]:
            return "PeerViolationError", None
        if seen != digest:
            return "InconsistentSharesError", None
        if "error" not in vector:
            text = b"moiety commitment of %d to coin %d of %b\0" % (int(party), number + 1, binding)
            assert hashlib.sha256(text + bytes.fromhex(vector["next_seeds"][party])).digest() == following
        seeds += seed
    return None, hashlib.sha256(b"moiety coin %d of %b\0" % (number, binding) + seeds).hexdigest()


@vectors("coin", "toss_", "bad_")
def test_coins(vector):
    assert error_of_toss(vector) == (vector.get("error"), vector.get("stream_key"))


class OthersOf:
    """Party 1's end of a toss, in which the others say what the vector holds."""

    def __init__(self, vector):
        self.me, self.binding, self.names = 1, bytes.fromhex(vector["binding"]), {p: f"party-{p}" for p in (1, 2, 3)}
        self.entropy = self
        self._seeds = [vector["revealed"]["1"][:64], vector["next_seeds"]["1"]]
        self._said = {"vectors/coin commitments": vector["commitments"], "vectors/coin seeds": vector["revealed"]}

    def read(self, n_bytes):
        return bytes.fromhex(self._seeds.pop(0))[:n_bytes]

    async def send(self, to, stage, message):
        assert message.tobytes().hex() == self._said[stage]["1"]

    async def receive(self, sender, stage, shape, dtype):
        return np.frombuffer(bytes.fromhex(self._said[stage][str(sender)]), dtype).reshape(shape)


@vectors("coin", "toss_", "bad_")
async def test_the_library_tosses_as_the_vectors_say(vector):
    coin = PublicCoin(OthersOf(vector), 3, "vectors")
    coin._n_tossed = vector["number"]
    if "error" in vector:
        with pytest.raises(getattr(errors, vector["error"])):
            await coin.toss()
    else:
        assert (await coin.toss()).read(64) == KeyStream(bytes.fromhex(vector["stream_key"])).read(64)


# -- folding -----------------------------------------------------------------------------------------------------------


def residues(nested, p_index):
    """Nested words as nested integers modulo one prime."""
    words = nested[p_index // 3]

    def read(part):
        if isinstance(part, str):
            return int(part, 16) >> 21 * (p_index % 3) & (1 << 21) - 1
        return [read(inner) for inner in part]

    return read(words)


def rows_of(vector, n_rows):
    """A vector in rows, zeros behind."""
    columns = -(-len(vector) // n_rows)
    padded = vector + [0] * (n_rows * columns - len(vector))
    return [padded[i * columns : (i + 1) * columns] for i in range(n_rows)]


def dot(a, b, p):
    return sum(x * y for x, y in zip(a, b, strict=True)) % p


def check_folding(vector, i, p):
    """Verify a proof modulo one prime as the verifiers do, and yield what is wrong."""
    claims = residues(vector["claims"], i)
    group, n_rows = vector["group"], vector["rows"][0]
    row_weights, group_weights = (residues(vector[name], i) for name in ("row_weights", "group_weights"))
    masks, numbers = residues(vector["masks"], i), residues(vector["numbers"], i)
    for repetition, (rho, s) in enumerate(zip(row_weights, group_weights, strict=True)):
        claim = sum(r * dot(h, s, p) for r, h in zip(rho, rows_of(claims, n_rows), strict=True)) % p
        if claim != residues(vector["first_claim"], i)[repetition]:
            yield "the weighted sum of claims"
        columns = len(s) * group
        sides = []
        for side in ("left", "right"):
            values = residues(vector[side], i)
            sides.append(rows_of(values + [0] * (n_rows * columns - len(values)), n_rows))
        sides[0] = [[x * s[c // group] % p for c, x in enumerate(row)] for row in sides[0]]
        for number, fold in enumerate(vector["folds"]):
            is_last = number == len(vector["folds"]) - 1
            if number:
                sides = [rows_of(side, vector["rows"][number]) for side in sides]
            if is_last:
                sides = [[[masks[j][repetition]], *side] for j, side in enumerate(sides)]
            answer = residues(fold["answer"], i)[repetition]
            if answer != [[dot(x, y, p) for y in sides[1]] for x in sides[0]]:
                yield f"the answer of fold {number}"
            told = [answer[k][k] for k in range(int(is_last), len(answer))]
            if claim != (dot(told, rho, p) if number == 0 else sum(told) % p):
                yield f"the trace of fold {number}"
            w, v = (residues(fold[f"{side}_factors"], i)[repetition] for side in ("left", "right"))
            if is_last and (w[0], v[0]) != (1, 1):
                yield "the factor of a mask"
            claim = sum(w[a] * dot(answer[a], v, p) for a in range(len(w))) % p
            sides = [
                [dot(column, f, p) for column in zip(*side, strict=True)] for side, f in zip(sides, (w, v), strict=True)
            ]
        if [side[0] for side in sides] != [numbers[0][repetition], numbers[1][repetition]]:
            yield "the two numbers"
        if numbers[0][repetition] * numbers[1][repetition] % p != claim:
            yield "their product"


@vectors("folding", "fold_")
def test_a_second_reader_accepts_what_is_folded(vector):
    for i in range(vector["n_primes"]):
        assert list(check_folding(vector, i, PRIMES[i])) == []


@vectors("folding", "bad_")
def test_a_second_reader_refuses_what_is_wrong(vector):
    found = [what for i in range(vector["n_primes"]) for what in check_folding(vector, i, PRIMES[i])]
    assert found
    assert vector["error"] == "PeerViolationError"


def words_of(nested):
    return np.array([[int(w, 16) for w in np.array(part).reshape(-1)] for part in nested], dtype=np.uint64).reshape(
        np.array(nested).shape
    )


@vectors("folding", "fold_")
def test_the_library_folds_as_the_vectors_say(vector):
    field = ResidueField(vector["n_primes"])
    schedule = Schedule(vector["n_groups"], vector["group"], vector["rows"][0])
    assert list(schedule.rows) == vector["rows"]
    coins = [KeyStream(bytes.fromhex(key)) for key in vector["coin_stream_keys"]]
    masks = words_of(vector["masks"])
    weights = Weights.draw(field, coins[0], schedule, masks.shape[2])
    assert np.array_equal(weights.groups, words_of(vector["group_weights"]))
    claim = weighted_claims(field, schedule, weights, [words_of(vector["claims"])])
    assert np.array_equal(claim, words_of(vector["first_claim"]))
    folded = Folded(field, schedule, [words_of(vector["left"])], [words_of(vector["right"])], masks)
    for number, (n_rows, fold) in enumerate(zip(schedule.rows, vector["folds"], strict=True)):
        masked = number == len(schedule.rows) - 1
        answer = folded.answer(weights)
        assert np.array_equal(answer, words_of(fold["answer"]))
        factors = Factors.draw(field, coins[number + 1], n_rows + masked, masked=masked, repetitions=masks.shape[2])
        assert np.array_equal(packed(field, factors.left), words_of(fold["left_factors"]))
        assert np.array_equal(packed(field, factors.right), words_of(fold["right_factors"]))
        assert np.array_equal(next_claim(field, answer, factors), words_of(fold["claim"]))
        folded.fold(weights, factors)
    assert np.array_equal(folded.last(), words_of(vector["numbers"]))


# -- projections of rows -----------------------------------------------------------------------------------------------


ALL_NORMS = [v for v in json.loads((FOLDER / "norm.json").read_text()) if v["name"].startswith("project_")]


class Bits:
    """AES-256 in counter mode from block 0, read as 64-bit words."""

    def __init__(self, key):
        self._stream = Cipher(algorithms.AES(bytes.fromhex(key)), modes.CTR(bytes(16))).encryptor()

    def ternary(self, n_rows, n_columns):
        """Entries -1, 0, 0, 1: the first half of the bits less the second one; the highest bit of a byte is first."""
        n_bits = 2 * n_rows * n_columns
        drawn = self._stream.update(bytes(8 * -(-n_bits // 64)))
        bits = [drawn[i // 8] >> 7 - i % 8 & 1 for i in range(n_bits)]
        flat = [a - b for a, b in zip(bits[: n_bits // 2], bits[n_bits // 2 :], strict=True)]
        return [flat[i * n_columns : (i + 1) * n_columns] for i in range(n_rows)]


def bound_of(vector):
    names = ("width", "squared_norm", "most_rows", "mask", "is_one_hot")
    return NormBound(**{name: vector[name] for name in names})


@vectors("norm", "project_", "bad_")
def test_the_numbers_of_a_bound(vector):
    n, squared, a = vector["most_rows"], vector["squared_norm"], vector["mask"]
    largest = math.isqrt(68 * (a * a + 18 * n) * squared) + 1
    width = vector["width"] + (1 if vector["is_one_hot"] else 4)
    assert str(largest) == vector["largest_projection"]
    assert str(max(9 * width * largest**2, 8 * largest)) == vector["order_needed"]
    bound = bound_of(vector)
    assert (str(bound.largest_projection), str(bound.order_needed)) == (
        vector["largest_projection"],
        vector["order_needed"],
    )


@vectors("norm", "project_")
def test_rows_are_complete_and_projected_as_the_vectors_say(vector):
    rows, sigma, bits = vector["rows"], vector["column_factors"], Bits(vector["stream_key"])
    for row in rows:
        assert sum(x * x for x in row) == vector["squared_norm"]
        assert not vector["is_one_hot"] or sum(row) == 1
    assert bits.ternary(len(sigma), len(sigma[0])) == sigma  # the first draw was short enough
    found = [0] * len(sigma)
    for start in range(0, len(rows), 512):
        panel = rows[start : start + 512]
        for k, rho in enumerate(bits.ternary(len(sigma), len(panel))):
            found[k] += sum(r * dot_of(sigma[k], row) for r, row in zip(rho, panel, strict=True) if r)
    assert found == vector["projections"]
    assert max(map(abs, found)) <= int(vector["largest_projection"])


def dot_of(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


@vectors("norm", "bad_")
def test_an_entry_beyond_its_bound_is_seen_in_a_projection(vector):
    assert int(vector["entry"]) > 3 * int(vector["largest_projection"])
    assert max(map(abs, vector["projections"])) > int(vector["largest_projection"])
    assert vector["error"] == "PeerViolationError"


@vectors("norm", "project_", "bad_")
def test_the_library_projects_as_the_vectors_say(vector):
    field, bound = ResidueField(vector["n_primes"]), bound_of(vector)
    coin = KeyStream(bytes.fromhex(vector["stream_key"]))
    factors = column_factors(coin, bound)
    assert factors.tolist() == vector["column_factors"]
    if "rows" in vector:
        rows = np.array(vector["rows"])
    else:
        (same,) = [v for v in ALL_NORMS if vector["name"].endswith(v["name"].removeprefix("project"))]
        rows = np.array(same["rows"])
        rows[vector["row"], vector["column"]] = int(vector["entry"])
    found = projected(field, coin, [field.encode(rows)], [factors])
    assert field.decode(found)[0].tolist() == vector["projections"]
