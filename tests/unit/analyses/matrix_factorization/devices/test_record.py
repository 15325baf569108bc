"""What of a device's ratings counts, and which questions they answer."""

import numpy as np
import pytest
from factor_devices import DECLARED, N_ITEMS, factor_question

from analyses.job.job import JobError
from analyses.job.ratings import digest_of_items
from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.devices.record import DeclaredRatings, RatedItems, device_vector, used_ratings

NAN = float("nan")


def rated(*pairs):
    return RatedItems(tuple(item for item, _ in pairs), np.array([value for _, value in pairs], dtype=np.float64))


def test_a_rating_outside_the_bounds_is_clipped_and_one_of_an_unknown_item_dropped_both_are_counted():
    used = used_ratings(DECLARED, rated(("3", 9.0), ("1", -2.0), ("12", 1.0), ("01", 1.0), ("film", 1.0), ("², ", 1.0)))
    assert used.places.tolist() == [3, 1]
    assert used.values.tolist() == [3.0, -2.0]
    assert (used.n_outside, used.n_unknown, used.n_left_out, used.not_used_because) == (1, 4, 0, "")
    assert "3" not in repr(used)


def test_named_items_have_the_places_of_the_list_and_the_first_ratings_count():
    declared = DeclaredRatings(("a", "b", "c"), 1.0, 5.0, most=2)
    used = used_ratings(declared, rated(("c", 1.0), ("x", 1.0), ("a", 2.0), ("b", 3.0)))
    assert (used.places.tolist(), used.n_unknown, used.n_left_out) == ([2, 0], 1, 1)
    assert declared.name_of(2) == "c"


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (rated(("1", 1.0), ("1", 1.0)), "rates an item twice"),
        (rated(("1", NAN)), "not a finite number"),
        (rated(("1", float("inf"))), "not a finite number"),
        (RatedItems(("1", "2"), np.zeros(1)), "one rating for each item"),
    ],
)
@pytest.mark.parametrize("number", [0, 1])
def test_a_record_that_cannot_be_used_is_a_vector_of_zeros(record, why, number):
    rounds = rounds_of(factor_question(), 5)
    model = None if number == 0 else rounds.model_before(1, (1).to_bytes(8, "little") + bytes(4 * N_ITEMS * 3))
    used = used_ratings(DECLARED, record)
    assert why in used.not_used_because
    vector = device_vector(rounds, number, model, DECLARED, used)
    assert vector.shape == (rounds.noise(number).length,)
    assert not vector.any()


@pytest.mark.parametrize("number", [0, 1])
def test_the_vector_of_any_record_is_within_the_bound_of_the_noise_and_of_the_encoding(number):
    rounds = rounds_of(factor_question(), 5)
    rng = np.random.default_rng(3)
    longest = 0
    for _ in range(50):
        model = None
        if number:
            numbers = rng.integers(-(1 << 22), 1 << 22, N_ITEMS * 3).astype("<i4").tobytes()
            model = rounds.model_before(1, (1).to_bytes(8, "little") + numbers)
        n = int(rng.integers(1, N_ITEMS + 1))
        pairs = zip(rng.permutation(N_ITEMS)[:n], rng.normal(size=n) * 1e6, strict=True)
        vector = device_vector(
            rounds, number, model, DECLARED, used_ratings(DECLARED, rated(*((str(i), v) for i, v in pairs)))
        )
        rounds.encoding(number).check_values(vector)
        longest = max(longest, int(vector @ vector))
    bound = rounds.noise(number).sensitivities["coordinator"].squared_l2
    assert 0.5 * bound < longest <= bound


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"items": 13, "items_digest": digest_of_items(13)}, "another list of items"),
        ({"items_digest": digest_of_items([str(i) for i in range(N_ITEMS)])}, "another list of items"),
        ({"lower": 0.0}, "ratings of 0 to 3, but films is declared here with -3 to 3"),
    ],
)
def test_a_question_that_the_declaration_does_not_fit_is_refused(changes, words):
    DECLARED.check(factor_question())
    with pytest.raises(JobError, match=words):
        DECLARED.check(factor_question(**changes))
