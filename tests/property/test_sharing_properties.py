"""What must hold for every field, roster, secret and subset of shares."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sharings import as_integers, corrupt, pick, random_words, share

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.opening import open_shares
from mpc.arithmetic.shamir import ShamirScheme

fields = st.integers(1, 6).map(ResidueField)


@st.composite
def fields_and_integers(draw, max_size=20):
    field = draw(fields)
    element = st.integers(-field.half_order, field.half_order)
    return field, np.array(draw(st.lists(element, min_size=1, max_size=max_size)), dtype=object)


@st.composite
def schemes(draw, degrees_per_party=1):
    """A scheme in which `degrees_per_party` times the degree is still below the number of parties."""
    degree = draw(st.integers(1, 4))
    n_parties = draw(st.integers(degrees_per_party * degree + 1, 12))
    return ShamirScheme(draw(fields), n_parties, degree)


def subset(draw, numbers, size):
    return tuple(draw(st.permutations(numbers))[:size])


@given(fields_and_integers())
def test_decoding_undoes_encoding(case):
    field, values = case
    words = field.encode(values)
    field.check(words)
    assert as_integers(field, words).tolist() == values.tolist()


@given(fields_and_integers(), st.data())
def test_arithmetic_on_residues_is_arithmetic_modulo_the_order(case, data):
    field, x = case
    y = np.array([data.draw(st.integers(-field.half_order, field.half_order)) for _ in x], dtype=object)
    a, b = field.encode(x), field.encode(y)
    for words, exact in ((field.add(a, b), x + y), (field.subtract(a, b), x - y), (field.multiply(a, b), x * y)):
        field.check(words)
        assert (as_integers(field, words) % field.order).tolist() == (exact % field.order).tolist()


@given(schemes(), st.integers(1, 30), st.data())
def test_any_degree_plus_one_shares_recombine(scheme, dealer, data):
    secret = random_words(scheme.field, 5, "secret")
    shares = share(scheme, secret, "dealt", dealer)
    chosen = subset(data.draw, scheme.parties, data.draw(st.integers(scheme.n_required, scheme.n_parties)))
    np.testing.assert_array_equal(scheme.recombine(pick(shares, chosen)), secret)
    np.testing.assert_array_equal(open_shares(pick(shares, chosen), scheme.degree, scheme.field).words, secret)


@given(schemes(degrees_per_party=2), st.data())
def test_a_product_of_two_sharings_opens_from_any_two_degrees_plus_one(scheme, data):
    field, t = scheme.field, scheme.degree
    x, y = random_words(field, 4, "x"), random_words(field, 4, "y")
    x_shares, y_shares = share(scheme, x, "dealt x", dealer=1), share(scheme, y, "dealt y", dealer=scheme.n_parties)
    chosen = subset(data.draw, scheme.parties, 2 * t + 1)
    products = {party: field.multiply(x_shares[party], y_shares[party]) for party in chosen}
    np.testing.assert_array_equal(open_shares(products, 2 * t, field).words, field.multiply(x, y))


@settings(max_examples=50)
@given(schemes(), st.data())
def test_liars_within_half_the_surplus_are_corrected_and_named(scheme, data):
    field = scheme.field
    secret = random_words(field, 6, "secret")
    shares = share(scheme, secret, "dealt")
    n_liars = data.draw(st.integers(0, (scheme.n_parties - scheme.n_required) // 2))
    liars = subset(data.draw, scheme.parties, n_liars)
    for liar in liars:
        for _ in range(data.draw(st.integers(1, 3))):
            prime_index = data.draw(st.integers(0, len(field.primes) - 1))
            shares[liar] = corrupt(shares[liar], prime_index, data.draw(st.integers(0, 5)), field)
    opening = open_shares(shares, scheme.degree, field)
    np.testing.assert_array_equal(opening.words, secret)
    assert opening.wrong == tuple(sorted(liars))
