import itertools
from collections import Counter

import galois
import numpy as np
import pytest
from sharings import pick, random_words, share

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import ShamirScheme, lagrange_weights
from mpc.errors import LocalFaultError, ShapeError, TooFewPartiesError, TooFewSharesError

FIELD = ResidueField(4)
GF7 = ResidueField.over((7,))


@pytest.mark.parametrize(("n_parties", "degree"), [(3, 3), (3, 0), (1, 1), (2, 5), (3, -1)])
def test_a_degree_that_the_roster_cannot_hold_is_refused_with_both_numbers(n_parties, degree):
    with pytest.raises(TooFewPartiesError, match=rf"{n_parties} parties .* degree {degree}"):
        ShamirScheme(FIELD, n_parties, degree)


def test_more_parties_than_abscissas_are_refused():
    assert ShamirScheme(GF7, 6, 2).n_required == 3
    with pytest.raises(TooFewPartiesError, match=r"7 parties .* smallest prime 7"):
        ShamirScheme(GF7, 7, 2)


def test_receivers_that_derive_follow_the_dealer_cyclically_without_it():
    scheme = ShamirScheme(FIELD, 5, 2)
    assert {d: scheme.derived_receivers(d) for d in range(1, 9)} == {
        1: (2, 3),
        2: (3, 4),
        3: (4, 5),
        4: (5, 1),
        5: (1, 2),
        6: (1, 2),
        7: (2, 3),
        8: (3, 4),
    }
    assert scheme.explicit_receivers(4) == (2, 3, 4)
    assert scheme.explicit_receivers(7) == (1, 4, 5)
    with pytest.raises(LocalFaultError):
        scheme.derived_receivers(0)


@pytest.mark.parametrize(("n_parties", "degree"), [(2, 1), (3, 2), (7, 3), (9, 8)])
def test_no_dealer_derives_its_own_share_and_the_load_is_even(n_parties, degree):
    scheme = ShamirScheme(FIELD, n_parties, degree)
    for first in (1, n_parties + 1):
        dealers = range(first, first + n_parties)
        load = Counter(r for dealer in dealers for r in scheme.derived_receivers(dealer))
        assert load == dict.fromkeys(scheme.parties, degree)
        for dealer in dealers:
            derived, explicit = scheme.derived_receivers(dealer), scheme.explicit_receivers(dealer)
            assert dealer not in derived
            assert sorted(derived + explicit) == list(scheme.parties)


@pytest.mark.parametrize("dealer", [1, 4, 5, 8])
def test_all_shares_lie_on_one_polynomial_of_the_degree_through_the_secret(dealer):
    scheme = ShamirScheme(FIELD, 5, 2)
    secret = random_words(FIELD, 3, "secret")
    shares = share(scheme, secret, "dealt", dealer)
    assert sorted(shares) == list(scheme.parties)
    for i, p in enumerate(FIELD.primes):
        gf = galois.GF(p, compile="python-calculate")
        for entry in range(3):
            values = [int(FIELD.residues(words)[i][entry]) for words in (secret, *(shares[k] for k in scheme.parties))]
            assert galois.lagrange_poly(gf(list(range(6))), gf(values)).degree == 2


def test_dealing_with_the_shares_of_the_wrong_receivers_is_refused():
    scheme = ShamirScheme(FIELD, 4, 1)
    secret = random_words(FIELD, 5, "secret")
    for derived in ({}, {1: secret}, {2: secret}, {3: secret, 4: secret}):
        with pytest.raises(LocalFaultError, match=r"dealer 2: `derived` must hold the shares of parties \(3,\)"):
            scheme.deal(2, secret, derived)
    with pytest.raises(ShapeError):
        scheme.deal(2, secret, {3: secret[:, :4]})


def test_interpolation_agrees_with_galois():
    points = (1, 4, 5, 9)
    for at in (0, 2, 9):
        weights = lagrange_weights(FIELD, points, at)
        assert ShamirScheme(FIELD, 9, 3).lagrange_weights(points, at) == weights
        for i, p in enumerate(FIELD.primes):
            gf = galois.GF(p, compile="python-calculate")
            for k, row in enumerate(weights):
                unit = gf([int(j == k) for j in range(len(points))])
                assert row[i] == int(galois.lagrange_poly(gf(points), unit)(gf(at)))


@pytest.mark.parametrize(("points", "at"), [((), 0), ((1, 1), 0), ((0, 7), 1), ((1, 2), 7), ((-1, 2), 0)])
def test_interpolation_from_unsuitable_points_is_refused(points, at):
    with pytest.raises(LocalFaultError):
        lagrange_weights(GF7, points, at)


def test_too_few_shares_and_shares_of_strangers_are_refused():
    scheme = ShamirScheme(FIELD, 5, 2)
    shares = share(scheme, random_words(FIELD, 2, "secret"), "dealt")
    with pytest.raises(TooFewSharesError, match="2 shares arrived, but 3 are needed"):
        scheme.recombine(pick(shares, (1, 5)))
    with pytest.raises(ShapeError, match="no share number 6"):
        scheme.recombine({**shares, 6: shares[1]})
    with pytest.raises(ShapeError):
        scheme.recombine({**pick(shares, (1, 2)), 3: shares[3][:, :1]})


def all_elements(n_digits):
    """Every vector of GF(7)^n_digits: one row per digit, one column per vector."""
    return np.array(list(itertools.product(range(7), repeat=n_digits))).T


@pytest.mark.parametrize(("n_parties", "degree", "dealer"), [(3, 1, 1), (3, 2, 2), (5, 2, 1), (5, 2, 4), (4, 3, 6)])
def test_any_shares_up_to_the_degree_are_exactly_uniform_whatever_the_secret(n_parties, degree, dealer):
    scheme = ShamirScheme(GF7, n_parties, degree)
    randomness = all_elements(degree)
    for secret in range(7):
        derived = {
            receiver: GF7.pack([row])
            for receiver, row in zip(scheme.derived_receivers(dealer), randomness, strict=True)
        }
        shares = derived | scheme.deal(dealer, GF7.pack([np.full(7**degree, secret)]), derived)
        for coalition in itertools.combinations(scheme.parties, degree):
            seen = Counter(zip(*(shares[member][0].tolist() for member in coalition), strict=True))
            assert len(seen) == 7**degree
            assert set(seen.values()) == {1}


def views_of_a_release(a, b, noise_value, noise_degree, coalition_member, noise_dealer):
    """How often a coalition of one of three parties sees what, when a * b + noise is opened from all three shares."""
    inputs, noise = ShamirScheme(GF7, 3, 1), ShamirScheme(GF7, 3, noise_degree)
    randomness = [GF7.pack([row]) for row in all_elements(2 + noise_degree)]
    size = randomness[0].shape[1]

    def dealt(scheme, dealer, value, rows):
        derived = dict(zip(scheme.derived_receivers(dealer), rows, strict=True))
        return derived | scheme.deal(dealer, GF7.pack([np.full(size, value)]), derived)

    a_shares = dealt(inputs, 1, a, randomness[:1])
    b_shares = dealt(inputs, 2, b, randomness[1:2])
    noise_shares = dealt(noise, noise_dealer, noise_value, randomness[2:])
    opened = [GF7.add(GF7.multiply(a_shares[k], b_shares[k]), noise_shares[k]) for k in (1, 2, 3)]
    own = [shares[coalition_member] for shares in (a_shares, b_shares, noise_shares)]
    return Counter(zip(*(words[0].tolist() for words in (*own, *opened)), strict=True))


@pytest.mark.parametrize(("coalition_member", "noise_dealer"), [(1, 2), (2, 3), (3, 1)])
def test_a_product_opened_with_noise_of_twice_the_degree_shows_its_value_only(coalition_member, noise_dealer):
    same_release = [(1, 4, 1), (2, 2, 1), (0, 3, 5), (5, 0, 5)]  # a, b, noise: a * b + noise = 5
    views = [views_of_a_release(a, b, e, 2, coalition_member, noise_dealer) for a, b, e in same_release]
    assert all(view == views[0] for view in views)
    assert views_of_a_release(1, 4, 2, 2, coalition_member, noise_dealer) != views[0]


def test_noise_of_the_inputs_degree_would_show_more_than_the_value():
    views = [views_of_a_release(a, b, 1, 1, 1, 2) for a, b in ((1, 4), (2, 2))]
    assert views[0] != views[1]
