import itertools

import pytest

from mpc.arithmetic.moduli import PRIMES
from mpc.arithmetic.reed_solomon import decode_reed_solomon
from mpc.errors import LocalFaultError


def evaluate(coefficients, points, prime):
    return [sum(c * pow(x, i, prime) for i, c in enumerate(coefficients)) % prime for x in points]


@pytest.mark.parametrize("prime", [7, 11, PRIMES[0], PRIMES[5]])
@pytest.mark.parametrize("coefficients", [(0, 0), (3, 0), (0, 5), (4, 6)], ids=str)
def test_every_pattern_of_errors_within_the_radius_is_corrected(prime, coefficients):
    points = [1, 2, 4, 5, 6]
    word = evaluate(coefficients, points, prime)
    assert decode_reed_solomon(points, word, 1, prime) == word
    for position, shift in itertools.product(range(5), (1, 2, prime - 1)):
        received = list(word)
        received[position] = (received[position] + shift) % prime
        assert decode_reed_solomon(points, received, 1, prime) == word


def test_in_a_tiny_field_every_received_word_is_decoded_as_brute_force_does():
    points, degree, prime = [1, 2, 3, 4], 1, 5
    codewords = [evaluate(c, points, prime) for c in itertools.product(range(prime), repeat=2)]
    for received in itertools.product(range(prime), repeat=4):
        near = [w for w in codewords if sum(a != b for a, b in zip(w, received, strict=True)) <= 1]
        assert decode_reed_solomon(points, received, degree, prime) == (near[0] if near else None)


def test_many_errors_among_many_points_are_corrected():
    points, prime = list(range(1, 22)), PRIMES[2]
    word = evaluate((5, 7, 11, 13, 17), points, prime)
    received = [(v + k * k + 1) % prime if k % 3 == 0 else v for k, v in enumerate(word)]
    assert sum(a != b for a, b in zip(word, received, strict=True)) == 7
    assert decode_reed_solomon(points, received, 4, prime) == word


@pytest.mark.parametrize(("points", "values", "degree"), [((1, 2), (1,), 0), ((1, 2), (1, 1), 2), ((1, 2), (1, 1), -1)])
def test_words_that_determine_nothing_are_refused(points, values, degree):
    with pytest.raises(LocalFaultError):
        decode_reed_solomon(points, values, degree, 7)
