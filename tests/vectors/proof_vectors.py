"""Test vectors of proofs: the public coin, folding, projections of rows and the squares that complete them."""

import hashlib
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.balanced import packed
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.words import Words
from mpc.proofs.coin import PublicCoin
from mpc.proofs.folding import Factors, Folded, Schedule, Weights, next_claim, weighted_claims
from mpc.proofs.norm_bound import NormBound
from mpc.proofs.projections import column_factors, projected
from mpc.proofs.squares.four_squares import four_squares

Vector = dict[str, Any]
BINDING = bytes(range(32))
REPETITIONS = 2


def nested(words: Words) -> Any:
    """The words of an array, in lists nested like it, each as 16 hexadecimal digits."""
    return [nested(part) for part in words] if words.ndim else f"{int(words):016x}"


def key_of(seed: str) -> bytes:
    return InsecureTestEntropy(seed).read(32)


def coin_vectors() -> Iterable[Vector]:
    """Two tosses of three parties, and what must end a toss."""
    coin = PublicCoin(SimpleNamespace(me=1, binding=BINDING), 3, "vectors")  # type: ignore[arg-type]
    for number in (0, 1):
        seeds = {party: key_of(f"coin {number} {party}") for party in (1, 2, 3)}
        commitments = {party: coin._commitment(number, party, seed) for party, seed in seeds.items()}
        following = {party: key_of(f"coin {number + 1} {party}") for party in (1, 2, 3)}
        told = {party: seed + coin._commitment(number + 1, party, following[party]) for party, seed in seeds.items()}
        digest = hashlib.sha256(b"".join(commitments.values())).digest()
        key = hashlib.sha256(coin._label(b"coin", number) + b"".join(seeds.values())).digest()
        whole = {
            "binding": BINDING.hex(),
            "number": number,
            "commitments": {str(party): commitment.hex() for party, commitment in commitments.items()},
            "revealed": {str(party): (message + digest).hex() for party, message in told.items()},
            "next_seeds": {str(party): seed.hex() for party, seed in following.items()},
        }
        yield {"name": f"toss_{number}", **whole, "stream_key": key.hex()}
    bad = {
        "another_seed": (bytes(32) + told[3][32:] + digest, "PeerViolationError"),
        "seed_of_another_party": (told[1] + digest, "PeerViolationError"),
        "other_commitments_seen": (told[3] + bytes(32), "InconsistentSharesError"),
    }
    for name, (message, error) in bad.items():
        yield {"name": f"bad_{name}", **whole, "revealed": whole["revealed"] | {"3": message.hex()}, "error": error}


def _folded(field: ResidueField, schedule: Schedule, seed: str) -> Vector:
    stream = KeyStream(key_of(seed))
    length = schedule.n_groups * schedule.group
    left, right = (field.random(stream, (length,)) for _ in "xy")
    products = field.residues(field.multiply(left, right))
    sums = [r.reshape(-1, schedule.group).sum(axis=1) % p for r, p in zip(products, field.primes, strict=True)]
    claims, masks = field.pack(sums), field.random(stream, (2, REPETITIONS))
    coins = [key_of(f"{seed} coin {number}") for number in range(len(schedule.rows) + 1)]
    weights = Weights.draw(field, KeyStream(coins[0]), schedule, REPETITIONS)
    folded, folds = Folded(field, schedule, [left], [right], masks), []
    claim = weighted_claims(field, schedule, weights, [claims])
    whole = {"first_claim": nested(claim), "row_weights": nested(packed(field, weights.rows))}
    for number, n_rows in enumerate(schedule.rows):
        masked = number == len(schedule.rows) - 1
        answer = folded.answer(weights)
        coin = KeyStream(coins[number + 1])
        factors = Factors.draw(field, coin, n_rows + masked, masked=masked, repetitions=REPETITIONS)
        claim = next_claim(field, answer, factors)
        folded.fold(weights, factors)
        both = (nested(packed(field, side)) for side in (factors.left, factors.right))
        folds.append({"answer": nested(answer), **dict(zip(("left_factors", "right_factors"), both, strict=True))})
        folds[-1]["claim"] = nested(claim)
    return {
        "n_primes": len(field.primes),
        "n_groups": schedule.n_groups,
        "group": schedule.group,
        "rows": list(schedule.rows),
        "left": nested(left),
        "right": nested(right),
        "claims": nested(claims),
        "masks": nested(masks),
        "coin_stream_keys": [coin.hex() for coin in coins],
        **whole,
        "group_weights": nested(weights.groups),
        "folds": folds,
        "numbers": nested(folded.last()),
    }


def folding_vectors() -> Iterable[Vector]:
    """Proofs of products in the clear: what a prover deals, and what is opened in the end."""
    for n_primes, schedule in ((1, Schedule(1)), (4, Schedule(12)), (3, Schedule(5, 2, 3))):
        name = f"{schedule.n_groups}_groups_of_{schedule.group}_{n_primes}_primes_{len(schedule.rows)}_folds"
        whole = _folded(ResidueField(n_primes), schedule, name)
        yield {"name": f"fold_{name}", **whole}
    field = ResidueField(3)
    words = np.array([[int(word, 16) for word in whole["claims"][0]]], dtype=np.uint64)
    claims = nested(field.add(words, field.encode(np.array([0, 0, 0, 1, 0]))))
    last = whole["folds"][-1]
    swapped = {**last, "answer": [[part[::-1] for part in word] for word in last["answer"]]}
    first = {**whole["folds"][0], "answer": [[part[::-1] for part in word] for word in whole["folds"][0]["answer"]]}
    numbers = [[part[::-1] for part in word] for word in whole["numbers"]]
    for name, change in {
        "bad_claimed_sum": {"claims": claims},
        "bad_answer_of_the_last_fold": {"folds": [*whole["folds"][:-1], swapped]},
        "bad_answer_of_the_first_fold": {"folds": [first, *whole["folds"][1:]]},
        "bad_numbers_of_other_repetitions": {"numbers": numbers},
    }.items():
        yield {"name": name, **whole, **change, "error": "PeerViolationError"}


def norm_vectors() -> Iterable[Vector]:
    """Rows of one dealer, what completes them, and their projections without masks."""
    field, n_rows = ResidueField(3), 530
    for name, bound in (
        ("two_columns", NormBound(2, 1000, n_rows)),
        ("one_hot", NormBound(3, 1, n_rows, is_one_hot=True)),
    ):
        rng, key = np.random.default_rng(7), key_of(f"projections {name}")
        if bound.is_one_hot:
            rows = (rng.integers(0, 4, n_rows)[:, None] == np.arange(3)).astype(np.int64)
            completed = np.hstack([rows, 1 - rows.sum(axis=1, keepdims=True)])
        else:
            rows = rng.integers(-20, 21, (n_rows, 2))
            completed = np.hstack([rows, four_squares(bound.squared_norm - (rows**2).sum(axis=1))])
        coin = KeyStream(key)
        factors = column_factors(coin, bound)
        values = field.decode(projected(field, coin, [field.encode(completed)], [factors]))[0]
        whole = {
            "n_primes": 3,
            "width": bound.width,
            "squared_norm": bound.squared_norm,
            "most_rows": bound.most_rows,
            "mask": bound.mask,
            "is_one_hot": bound.is_one_hot,
            "largest_projection": str(bound.largest_projection),
            "order_needed": str(bound.order_needed),
        }
        shown = {
            "stream_key": key.hex(),
            "column_factors": factors.astype(int).tolist(),
            "projections": values.tolist(),
        }
        yield {"name": f"project_{name}", **whole, "rows": completed.tolist(), **shown}
        beyond = completed.copy()
        beyond[5, 0] = 4 * bound.largest_projection
        coin = KeyStream(key)
        column_factors(coin, bound)
        found = field.decode(projected(field, coin, [field.encode(beyond)], [factors]))[0]
        shown["projections"] = found.tolist()
        yield {
            "name": f"bad_entry_beyond_three_times_the_bound_{name}",
            **whole,
            "row": 5,
            "column": 0,
            "entry": str(4 * bound.largest_projection),
            **shown,
            "error": "PeerViolationError",
        }
