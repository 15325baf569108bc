from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy import InsecureTestEntropy, KeyStream
from mpc.errors import LocalFaultError, OutOfRangeError, TooFewSharesError
from mpc.secagg.secret.secret_sharing import (
    PRIME,
    SHARE_BYTES,
    check_share,
    lagrange_weights,
    recombine_secret,
    split_secret,
)

SECRET = bytes(range(200, 232))


def stream(label="coefficients"):
    return KeyStream(InsecureTestEntropy(label).read(32))


def test_the_modulus_is_a_prime_of_257_bits():
    assert PRIME.bit_length() == 257
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):  # Miller and Rabin
        d, s = PRIME - 1, 0
        while d % 2 == 0:
            d, s = d // 2, s + 1
        powers = [pow(base, d << i, PRIME) for i in range(s)]
        assert powers[0] == 1 or PRIME - 1 in powers


def test_every_subset_of_the_required_size_recombines():
    shares = split_secret(SECRET, 3, [1, 2, 5, 9, 1000], stream())
    for chosen in combinations(shares, 3):
        assert recombine_secret({x: shares[x] for x in chosen}, 3) == SECRET


@settings(deadline=None)
@given(st.binary(min_size=32, max_size=32), st.integers(1, 8), st.integers(0, 4))
def test_any_secret_comes_back(secret, n_required, spare):
    holders = list(range(3, 3 + n_required + spare))
    shares = split_secret(secret, n_required, holders, stream())
    assert recombine_secret(dict(list(shares.items())[-n_required:]), n_required) == secret


def test_shares_are_points_of_a_polynomial_with_the_secret_at_zero():
    shares = {x: int.from_bytes(s, "big") for x, s in split_secret(SECRET, 3, [1, 2, 3, 4], stream()).items()}
    third_difference = (shares[4] - 3 * shares[3] + 3 * shares[2] - shares[1]) % PRIME
    assert third_difference == 0
    assert (3 * shares[1] - 3 * shares[2] + shares[3]) % PRIME == int.from_bytes(SECRET, "big")
    assert (shares[3] - 2 * shares[2] + shares[1]) % PRIME != 0


def test_fewer_shares_than_required_fit_every_secret():
    """For two shares of three required, each candidate secret has exactly one polynomial: nothing is said."""
    shares = {x: s for x, s in split_secret(SECRET, 3, [1, 2, 3], stream()).items() if x < 3}
    for candidate in (0, 1, int.from_bytes(SECRET, "big")):
        # the value at 3 that makes the three points recombine to the candidate
        weights = lagrange_weights((1, 2, 3))
        partial = sum(w * int.from_bytes(shares[x], "big") for x, w in zip((1, 2), weights, strict=False))
        third = (candidate - partial) * pow(weights[2], -1, PRIME) % PRIME
        completed = {**shares, 3: third.to_bytes(SHARE_BYTES, "big")}
        assert recombine_secret(completed, 3) == candidate.to_bytes(32, "big")
    with pytest.raises(TooFewSharesError, match="2 shares are available, but 3 are needed"):
        recombine_secret(shares, 3)


def test_wrong_shares_that_make_no_32_bytes_recombine_to_none():
    assert recombine_secret({1: (PRIME - 1).to_bytes(SHARE_BYTES, "big")}, 1) is None


def test_coefficients_are_uniform_and_fresh():
    """The top bit of a 257-bit residue is set for 297 of 2^256 values only; the next one half of the time."""
    shares = [split_secret(SECRET, 2, [1, 2], stream(str(i)))[1] for i in range(400)]
    assert len(set(shares)) == 400
    assert all(share[0] == 0 for share in shares)
    assert 150 < sum(share[1] >> 7 for share in shares) < 250


@pytest.mark.parametrize("share", [b"", bytes(32), bytes(34), PRIME.to_bytes(33, "big"), b"\xff" * 33])
def test_what_cannot_be_a_share_is_refused(share):
    with pytest.raises(OutOfRangeError):
        check_share(share)


@pytest.mark.parametrize(
    ("secret", "n_required", "holders"),
    [(bytes(31), 1, [1]), (bytes(32), 0, [1]), (bytes(32), 3, [1, 2]), (bytes(32), 1, [1, 1]), (bytes(32), 1, [0, 1])],
)
def test_impossible_sharings_are_refused(secret, n_required, holders):
    with pytest.raises(LocalFaultError):
        split_secret(secret, n_required, holders, stream())
