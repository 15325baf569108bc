import math
from fractions import Fraction

import numpy as np
import pytest

from dp.draw.noise import (
    MAX_SCALE,
    MAX_TRIALS,
    MAX_WEIGHT,
    MIN_SCALE,
    sample_bernoulli,
    sample_binomial,
    sample_categorical,
    sample_discrete_gaussian,
    sample_discrete_laplace,
)
from entropy import InsecureTestEntropy

THIRD = Fraction(1, 3)
ALL = [
    (sample_discrete_laplace, (10,)),
    (sample_discrete_gaussian, (100,)),
    (sample_bernoulli, (THIRD,)),
    (sample_binomial, (20, THIRD)),
    (sample_binomial, (1000, THIRD)),
    (sample_binomial, (1000, 1 - THIRD)),
    (sample_categorical, ([3, 0, 1],)),
]


class ScriptedEntropy:
    """Counts what is read."""

    is_secure = False

    def __init__(self) -> None:
        self.n_bytes = 0

    def read(self, n_bytes: int) -> bytes:
        self.n_bytes += n_bytes
        return bytes(n_bytes)


@pytest.mark.parametrize(("sample", "arguments"), ALL)
def test_equal_seeds_give_equal_samples_and_different_seeds_different_ones(sample, arguments):
    first = sample(InsecureTestEntropy("seed"), *arguments, 3000)
    assert first.shape == (3000,)
    assert first.dtype == (np.bool_ if sample is sample_bernoulli else np.int64)
    assert np.array_equal(first, sample(InsecureTestEntropy("seed"), *arguments, 3000))
    assert not np.array_equal(first, sample(InsecureTestEntropy("other"), *arguments, 3000))


@pytest.mark.parametrize(("sample", "arguments"), ALL)
def test_two_draws_from_one_entropy_differ(sample, arguments):
    entropy = InsecureTestEntropy("twice")
    assert not np.array_equal(sample(entropy, *arguments, 300), sample(entropy, *arguments, 300))


@pytest.mark.parametrize(("sample", "arguments"), [case for case in ALL if case[1] != (1000, 1 - THIRD)])
def test_one_key_of_32_bytes_is_read_for_any_number_of_samples(sample, arguments):
    entropy = ScriptedEntropy()
    sample(entropy, *arguments, 40_000)
    assert entropy.n_bytes == 32


@pytest.mark.parametrize(("sample", "arguments"), ALL)
def test_a_negative_number_of_samples_is_refused_and_none_are_allowed(sample, arguments):
    with pytest.raises(ValueError, match="cannot be drawn"):
        sample(InsecureTestEntropy("size"), *arguments, -1)
    assert sample(InsecureTestEntropy("size"), *arguments, 0).shape == (0,)


BAD_NUMBERS = [0.5, math.nan, math.inf, 5e-324, "1/3", True, None, -1, Fraction(-1, 10**9)]


@pytest.mark.parametrize("parameter", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize(
    "sample",
    [
        sample_discrete_laplace,
        sample_discrete_gaussian,
        sample_bernoulli,
        lambda entropy, p, size: sample_binomial(entropy, 10, p, size),
        lambda entropy, weight, size: sample_categorical(entropy, [1, weight], size),
    ],
)
def test_a_parameter_that_is_no_exact_number_or_negative_is_refused(sample, parameter):
    with pytest.raises(ValueError, match=r"outside|must be an integer or a Fraction|non-negative integers"):
        sample(InsecureTestEntropy("bad"), parameter, 1)


@pytest.mark.parametrize(
    ("sample", "arguments"),
    [
        (sample_discrete_laplace, (MAX_SCALE + 1,)),
        (sample_discrete_laplace, (MIN_SCALE / 2,)),
        (sample_discrete_gaussian, (MAX_SCALE**2 + 1,)),
        (sample_discrete_gaussian, (MIN_SCALE / 2,)),
        (sample_bernoulli, (Fraction(4, 3),)),
        (sample_binomial, (-1, THIRD)),
        (sample_binomial, (MAX_TRIALS + 1, THIRD)),
        (sample_binomial, (10, Fraction(4, 3))),
    ],
)
def test_a_parameter_out_of_range_is_refused(sample, arguments):
    with pytest.raises(ValueError, match="outside"):
        sample(InsecureTestEntropy("range"), *arguments, 1)


@pytest.mark.parametrize("weights", [[], [0, 0], [MAX_WEIGHT, 1]])
def test_weights_that_are_no_distribution_are_refused(weights):
    with pytest.raises(ValueError, match="add up to"):
        sample_categorical(InsecureTestEntropy("weights"), weights, 1)


@pytest.mark.parametrize(
    ("sample", "arguments", "value"),
    [
        (sample_bernoulli, (0,), 0),
        (sample_bernoulli, (1,), 1),
        (sample_binomial, (0, THIRD), 0),
        (sample_binomial, (10**6, 0), 0),
        (sample_binomial, (10**6, 1), 10**6),
        (sample_categorical, ([0, 7, 0],), 1),
    ],
)
def test_certain_outcomes_are_certain(sample, arguments, value):
    assert set(sample(InsecureTestEntropy("certain"), *arguments, 500).tolist()) == {value}


def test_the_largest_parameters_are_drawn_and_of_the_right_size():
    entropy = InsecureTestEntropy("largest")
    for drawn, deviation in [
        (sample_discrete_laplace(entropy, MAX_SCALE, 5000), math.sqrt(2) * MAX_SCALE),
        (sample_discrete_gaussian(entropy, MAX_SCALE**2, 5000), MAX_SCALE),
        (sample_binomial(entropy, MAX_TRIALS, Fraction(1, 2), 5000) - MAX_TRIALS // 2, math.sqrt(MAX_TRIALS) / 2),
    ]:
        z = drawn / deviation
        assert abs(z.mean()) < 0.1
        assert 0.8 < (z**2).mean() < 1.3


def test_a_probability_within_a_word_of_a_boundary_is_decided_by_further_words():
    # The first word of the all-zero key's stream as probability: the comparison of the first sample is a tie.
    from entropy import KeyStream

    words = KeyStream(bytes(32)).words(2).tolist()
    tie = Fraction(words[0], 2**64)
    for low_bits, expected in [(Fraction(words[1] + 1, 2**128), True), (Fraction(words[1], 2**128), False)]:
        assert sample_bernoulli(ScriptedEntropy(), tie + low_bits, 1)[0] == expected


def test_an_index_of_weight_zero_never_comes():
    drawn = sample_categorical(InsecureTestEntropy("zero weight"), [0, 5, 0, 0, 1, 0], 20_000)
    assert set(drawn.tolist()) == {1, 4}
