import itertools

import numpy as np
import pytest
from sharings import random_words

from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.moduli import PRIMES
from mpc.errors import ShapeError
from mpc.proofs.folding import (
    FEW_NUMBERS,
    FIRST_ROWS,
    MOST_ROWS,
    ONE_IN,
    REPETITIONS,
    Factors,
    Folded,
    Schedule,
    Weights,
    next_claim,
    weighted_claims,
    weighted_trace,
)

FIELD = ResidueField(4)


def stream(text):
    return KeyStream(InsecureTestEntropy(text).read(32))


@pytest.mark.parametrize("n_groups", [1, 2, 7, 8, 9, 64, 513, 5000, 10**6, 3 * 10**8])
@pytest.mark.parametrize("group", [1, 7, 104])
def test_a_schedule_ends_with_one_entry_and_its_error_is_below_2_to_the_minus_47(n_groups, group):
    schedule = Schedule(n_groups, group)
    left = schedule.columns
    assert left * schedule.rows[0] >= n_groups * group
    assert left % schedule.unit == 0
    assert schedule.rows[0] <= FIRST_ROWS
    for k in schedule.rows[1:]:
        assert k <= MOST_ROWS
        left = -(-left // k)
    assert left == 1
    assert len(schedule.rows) <= 6
    assert REPETITIONS * schedule.answers <= max(FEW_NUMBERS, n_groups * group / ONE_IN)
    for n_primes in (1, 6):
        assert schedule.log2_error(ResidueField(n_primes)) < -47


def test_a_million_products_are_folded_four_times_and_told_in_a_twentieth_of_them():
    schedule = Schedule(10**6)
    assert len(schedule.rows) == 4
    assert REPETITIONS * schedule.answers < 10**6 / 20


@pytest.mark.parametrize(("n_groups", "group"), [(0, 1), (1, 0)])
def test_a_proof_is_about_something(n_groups, group):
    with pytest.raises(ShapeError):
        Schedule(n_groups, group)


def folds(field, schedule, left, right, claims, coin, *, repetitions=REPETITIONS, lie=None):
    """Fold values in the clear; return what must be 0, the two last numbers and the claim that is left.

    Args:
        lie: changes an answer, given what its trace lacks and the factors of the trace.
    """
    masks = field.random(coin, (2, repetitions))
    folded = Folded(field, schedule, [left], [right], masks)
    weights = Weights.draw(field, coin, schedule, repetitions)
    claim = weighted_claims(field, schedule, weights, [claims])
    zeros = []
    for number, n_rows in enumerate(schedule.rows):
        masked = number == len(schedule.rows) - 1
        traced = weights.rows if number == 0 else None
        answer = folded.answer(weights)
        missing = field.subtract(claim, weighted_trace(field, answer, traced, masked=masked))
        if lie:
            answer = lie(answer, missing, traced, int(masked))
        zeros.append(field.subtract(weighted_trace(field, answer, traced, masked=masked), claim))
        factors = Factors.draw(field, coin, n_rows + masked, masked=masked, repetitions=repetitions)
        claim = next_claim(field, answer, factors)
        folded.fold(weights, factors)
    return np.concatenate(zeros, axis=1), folded.last(), claim


def accepted(field, zeros, last, claim):
    """Return which repetitions accept."""
    product = field.multiply(np.ascontiguousarray(last[:, 0]), np.ascontiguousarray(last[:, 1]))
    zeros = zeros.reshape(field.n_words, -1, claim.shape[1])
    return (product == claim).all(axis=0) & ~zeros.any(axis=(0, 1))


def is_accepted(field, zeros, last, claim):
    return bool(accepted(field, zeros, last, claim).all())


@pytest.mark.parametrize("n_primes", [1, 3, 4])
@pytest.mark.parametrize("length", [1, 5, 8, 100, 40_000])
def test_true_claims_are_accepted_and_a_wrong_one_is_not_whatever_its_place(n_primes, length):
    field, schedule = ResidueField(n_primes), Schedule(length)
    left, right = (random_words(field, length, side) for side in "xy")
    claims = field.multiply(left, right)
    assert is_accepted(field, *folds(field, schedule, left, right, claims, stream("coin")))
    for place in {0, length // 2, length - 1}:
        wrong = claims.copy()
        wrong[:, place : place + 1] = field.add(
            np.ascontiguousarray(wrong[:, place : place + 1]), field.encode(np.array([1]))
        )
        assert not is_accepted(field, *folds(field, schedule, left, right, wrong, stream("coin")))


def test_sums_of_groups_longer_than_a_piece_that_is_unpacked():
    field, group = ResidueField(1), 9000
    left, right = (random_words(field, 20 * group, side) for side in "xy")
    products = field.residues(field.multiply(left, right))[0].reshape(20, group)
    claims = field.pack([products.sum(axis=1) % field.primes[0]])
    assert is_accepted(field, *folds(field, Schedule(20, group), left, right, claims, stream("coin")))


def test_a_difference_modulo_one_prime_is_found():
    field = ResidueField(3)
    left, right = (random_words(field, 100, side) for side in "xy")
    claims = field.multiply(left, right)
    claims[:, 7] ^= np.uint64(1 << 42)  # a bit of the third residue, which stays below its prime or does not matter
    if field.residues(claims[:, 7:8])[2][0] < PRIMES[2]:
        assert not is_accepted(field, *folds(field, Schedule(100), left, right, claims, stream("coin")))


def best_lie(field):
    """Add to the first claimed product of an answer what the trace lacks: the best that is known."""
    (p,) = field.primes

    def lie(answer, missing, traced, masked):
        (lacks,) = field.residues(missing)
        factors = np.ones_like(lacks) if traced is None else traced[0, :, 0].astype(int) % p
        inverses = np.array([pow(int(f), -1, p) if f else 0 for f in factors])
        changed = answer.copy()
        first = np.ascontiguousarray(changed[:, :, masked, masked])
        changed[:, :, masked, masked] = field.add(first, field.pack([lacks * inverses % p]))
        return changed

    return lie


def sum_of(field, products):
    return field.pack([r.sum(keepdims=True) % p for r, p in zip(field.residues(products), field.primes, strict=True)])


@pytest.mark.parametrize("n_primes", [1, 4])
@pytest.mark.parametrize("length", [2, 23, 5000])
def test_a_single_claim_about_all_products_is_accepted_if_it_is_true(n_primes, length):
    field, schedule = ResidueField(n_primes), Schedule(1, length, 24)
    left, right = (random_words(field, length, side) for side in "xy")
    claim = sum_of(field, field.multiply(left, right))
    assert schedule.rows[0] == min(24, length)
    for vectors in ((left, right, claim), (left, left, sum_of(field, field.multiply(left, left)))):
        assert is_accepted(field, *folds(field, schedule, *vectors, stream("coin")))
    wrong = field.add(claim, field.encode(np.array([1])))
    assert not is_accepted(field, *folds(field, schedule, left, right, wrong, stream("coin")))


@pytest.mark.parametrize("schedule", [Schedule(8), Schedule(600), Schedule(1, 600)])
def test_the_best_known_lie_is_accepted_as_often_as_theory_says(schedule):
    """Two chances of 1 / p by the weights and in each fold: one row's factor is 0, or the other vector's.

    A single claim has no weights.
    """
    p, n_trials, length = 61, 20_000, schedule.n_groups * schedule.group
    field = ResidueField.over([p])
    left, right = (random_words(field, length, side) for side in "xy")
    claims = field.multiply(left, right)
    if schedule.is_single:
        claims = sum_of(field, claims)
    claims[:, :1] = field.add(np.ascontiguousarray(claims[:, :1]), field.encode(np.array([1])))
    lied = folds(field, schedule, left, right, claims, stream("coins"), repetitions=n_trials, lie=best_lie(field))
    expected = 1 - (1 - 1 / p) ** (2 * (1 - schedule.is_single + len(schedule.rows)))
    deviation = (expected * (1 - expected) / n_trials) ** 0.5
    assert abs(accepted(field, *lied).mean() - expected) < 4 * deviation
    assert expected < 2 ** schedule.log2_error(field, 1)


def test_whether_a_lie_is_accepted_does_not_depend_on_the_values():
    """The same lie and the same coins, with other secrets: the same repetitions accept it."""
    field, schedule, found = ResidueField.over([61]), Schedule(40), []
    for seed in ("one", "two"):
        left, right = (random_words(field, 40, f"{seed} {side}") for side in "xy")
        claims = field.multiply(left, right)
        claims[:, :1] = field.add(np.ascontiguousarray(claims[:, :1]), field.encode(np.array([1])))
        lied = folds(field, schedule, left, right, claims, stream("coins"), repetitions=3000, lie=best_lie(field))
        found.append(accepted(field, *lied))
    assert found[0].any()
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("length", [1, 3, 20])
def test_the_two_numbers_that_are_opened_are_uniform_whatever_the_vectors_are(length):
    """Exhaustion: all masks of a tiny field give each pair of numbers once, for any secrets and coins."""
    p = 5
    field, schedule = ResidueField.over([p]), Schedule(length)
    for seed in ("one", "two"):
        left, right = (random_words(field, length, f"{seed} {side}") for side in "xy")
        weights = Weights.draw(field, stream(seed), schedule, 1)
        found = set()
        for masks in itertools.product(range(p), repeat=2):
            folded = Folded(field, schedule, [left], [right], field.pack([np.array(masks).reshape(2, 1)]))
            coin = stream(f"{seed} factors")
            for number, n_rows in enumerate(schedule.rows):
                masked = number == len(schedule.rows) - 1
                folded.fold(weights, Factors.draw(field, coin, n_rows + masked, masked=masked, repetitions=1))
            found.add(tuple(folded.last().reshape(-1).tolist()))
        assert len(found) == p * p
