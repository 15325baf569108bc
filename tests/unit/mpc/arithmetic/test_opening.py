import itertools

import numpy as np
import pytest
from sharings import corrupt, pick, random_words, share

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.opening import open_shares
from mpc.arithmetic.shamir import ShamirScheme, lagrange_weights
from mpc.arithmetic.surplus import survivable
from mpc.errors import (
    InconsistentSharesError,
    LocalFaultError,
    ShapeError,
    TooFewPartiesError,
    TooFewSharesError,
)

FIELD = ResidueField(4)
SECRET = random_words(FIELD, (3, 40), "secret")


@pytest.fixture
def seven_shares():
    return share(ShamirScheme(FIELD, 7, 2), SECRET, "dealt", dealer=4)


def test_any_sufficient_set_of_shares_opens(seven_shares):
    for n in (3, 4, 7):
        for numbers in itertools.combinations(range(1, 8), n):
            opening = open_shares(pick(seven_shares, numbers), 2, FIELD)
            np.testing.assert_array_equal(opening.words, SECRET)
            assert opening.wrong == ()


def test_fewer_shares_than_needed_do_not_open(seven_shares):
    with pytest.raises(TooFewSharesError, match="2 shares arrived, but 3 are needed"):
        open_shares(pick(seven_shares, (2, 5)), 2, FIELD)
    with pytest.raises(TooFewSharesError):
        open_shares({}, 2, FIELD)


@pytest.mark.parametrize("liars", list(itertools.combinations(range(1, 8), 2)), ids=str)
def test_any_two_liars_among_seven_shares_are_corrected_and_named(seven_shares, liars):
    first, second = liars
    lies = dict(seven_shares)
    lies[first] = corrupt(seven_shares[first], prime_index=3, entry=7, field=FIELD)
    lies[second] = corrupt(seven_shares[second], prime_index=0, entry=119, field=FIELD)
    opening = open_shares(lies, 2, FIELD)
    np.testing.assert_array_equal(opening.words, SECRET)
    assert opening.wrong == liars


def test_two_of_five_that_choose_their_shares_together_cannot_have_a_third_taken_for_wrong():
    """They lie on the polynomial through two right shares and another value: one correction would open that value."""
    right = share(ShamirScheme(FIELD, 5, 2), SECRET, "dealt", dealer=1)
    other = FIELD.add(SECRET, random_words(FIELD, (3, 40), "shift"))
    lies, known = dict(right), [other, right[4], right[5]]
    for liar in (1, 2):
        lies[liar] = FIELD.combine(known, lagrange_weights(FIELD, (0, 4, 5), at=liar))
    opening = open_shares(lies, 2, FIELD)
    np.testing.assert_array_equal(opening.words, other)
    assert opening.wrong == (3,)
    with pytest.raises(InconsistentSharesError):
        open_shares(lies, 2, FIELD, deviating=2)


@pytest.mark.parametrize(("n", "t", "n_corrected"), [(4, 1, 1), (5, 2, 0), (6, 2, 1), (7, 2, 2), (9, 2, 2)])
def test_as_many_shares_are_corrected_as_those_that_may_deviate_cannot_feign(n, t, n_corrected):
    lies = share(ShamirScheme(FIELD, n, t), SECRET, "dealt", dealer=1)
    for liar in range(1, n_corrected + 1):
        lies[liar] = corrupt(lies[liar], prime_index=1, entry=5, field=FIELD)
    assert open_shares(lies, t, FIELD, deviating=t).wrong == tuple(range(1, n_corrected + 1))
    if n_corrected < t:
        lies[n] = corrupt(lies[n], prime_index=1, entry=5, field=FIELD)
        with pytest.raises(InconsistentSharesError):
            open_shares(lies, t, FIELD, deviating=t)


def test_a_sender_of_garbage_is_corrected_and_named(seven_shares):
    lies = {**seven_shares, 1: random_words(FIELD, (3, 40), "garbage"), 2: FIELD.zeros((3, 40))}
    opening = open_shares(lies, 2, FIELD)
    np.testing.assert_array_equal(opening.words, SECRET)
    assert opening.wrong == (1, 2)


def test_liars_in_different_entries_count_together(seven_shares):
    lies = {
        number: corrupt(words, prime_index=1, entry=number, field=FIELD) if number in (2, 3, 6) else words
        for number, words in seven_shares.items()
    }
    with pytest.raises(InconsistentSharesError, match="at most 2 corrupted shares"):
        open_shares(lies, 2, FIELD)


def test_two_liars_in_different_entries_are_too_many_for_six_shares(seven_shares):
    lies = {
        number: corrupt(words, prime_index=1, entry=number, field=FIELD) if number in (2, 3) else words
        for number, words in seven_shares.items()
        if number != 7
    }
    with pytest.raises(InconsistentSharesError, match="at most 1 corrupted shares"):
        open_shares(lies, 2, FIELD)


def test_three_liars_in_one_entry_are_too_many_for_seven_shares(seven_shares):
    lies = {
        number: corrupt(words, prime_index=1, entry=5, field=FIELD) if number in (2, 3, 6) else words
        for number, words in seven_shares.items()
    }
    with pytest.raises(InconsistentSharesError):
        open_shares(lies, 2, FIELD)


@pytest.mark.parametrize("liar", [1, 2, 3, 4])
def test_a_single_surplus_share_shows_that_somebody_lied_but_not_who(seven_shares, liar):
    four = pick(seven_shares, (1, 2, 3, 4))
    with pytest.raises(InconsistentSharesError, match=r"\[1, 2, 3, 4\] contradict"):
        open_shares({**four, liar: corrupt(four[liar], 2, 0, FIELD)}, 2, FIELD)


def test_without_a_surplus_a_lie_goes_unnoticed(seven_shares):
    three = pick(seven_shares, (1, 2, 3))
    opening = open_shares({**three, 2: corrupt(three[2], 2, 0, FIELD)}, 2, FIELD)
    assert opening.wrong == ()
    assert not np.array_equal(opening.words, SECRET)


def test_shares_of_different_shapes_or_impossible_numbers_are_refused(seven_shares):
    with pytest.raises(ShapeError):
        open_shares({**seven_shares, 2: SECRET[:, :2]}, 2, FIELD)
    with pytest.raises(ShapeError, match="share of member 7"):
        open_shares({**seven_shares, 7: SECRET[:, :2]}, 2, FIELD)
    with pytest.raises(LocalFaultError):
        open_shares({**seven_shares, 0: SECRET}, 2, FIELD)
    with pytest.raises(LocalFaultError):
        open_shares(seven_shares, -1, FIELD)


def test_an_opening_does_not_print_its_values(seven_shares):
    assert repr(open_shares(seven_shares, 2, FIELD)) == "Opening(wrong=())"


def test_what_a_roster_survives_when_a_product_is_opened():
    table = {
        (3, 1): (0, 0),
        (4, 1): (1, 0),
        (5, 1): (2, 1),
        (5, 2): (0, 0),
        (7, 2): (2, 1),
        (9, 2): (4, 2),
        (1, 0): (0, 0),
    }
    assert {(n, t): survivable(n, 2 * t) for n, t in table} == table
    for n_parties, t in ((2, 1), (4, 2), (3, -1)):
        with pytest.raises(TooFewPartiesError):
            survivable(n_parties, 2 * t)


@pytest.mark.parametrize("n_parties", [3, 4, 5, 7])
def test_what_is_survived_is_what_the_table_says(n_parties):
    t = 1
    may_drop_out, may_lie = survivable(n_parties, 2 * t)
    shares = share(ShamirScheme(FIELD, n_parties, 2 * t), SECRET, "product")
    numbers = tuple(range(1, n_parties + 1))
    present = pick(shares, numbers[may_drop_out:])
    np.testing.assert_array_equal(open_shares(present, 2 * t, FIELD).words, SECRET)
    with pytest.raises(TooFewSharesError):
        open_shares(pick(shares, numbers[may_drop_out + 1 :]), 2 * t, FIELD)
    lies = {n: corrupt(words, 0, 0, FIELD) if n <= may_lie else words for n, words in shares.items()}
    opening = open_shares(lies, 2 * t, FIELD)
    assert opening.wrong == numbers[:may_lie]
    np.testing.assert_array_equal(opening.words, SECRET)
