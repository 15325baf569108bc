"""The books of what was drawn: what may be drawn, and what may leave when."""

from fractions import Fraction

import pytest

from analyses.job.plan import OPENING_STAGE
from analyses.job.releases import PlannedRelease
from analyses.power_moments.column_sums import NoisyColumnSums
from dp.mechanism.gram import NoisyGram
from mpc.errors import LocalFaultError
from mpc.protocol.session import COORDINATOR
from party.drawn import DrawnNoise

GRAM = NoisyGram(n_columns=2, squared_norm_bound=100, n_parties=3, colluding=1, party_mu=200)
SUMS = NoisyColumnSums((4, 5), Fraction(3))


def equal_gram(party_mu=200):
    return NoisyGram(n_columns=2, squared_norm_bound=100, n_parties=3, colluding=1, party_mu=party_mu)


def draw(books, release):
    books.finish(books.begin(release))


def test_a_release_is_drawn_that_equals_the_stated_one_and_no_other():
    books = DrawnNoise([PlannedRelease(GRAM, (1, 2, 3))], 1)
    draw(books, equal_gram())
    for other in (equal_gram(party_mu=202), SUMS, None, GRAM.draw):
        with pytest.raises(LocalFaultError, match="states no such release"):
            books.begin(other)


def test_a_subclass_is_another_release_whatever_it_says_of_itself():
    class Quiet(NoisyGram):
        def __eq__(self, other):
            return True

        __hash__ = None

    with pytest.raises(LocalFaultError, match="states no such release"):
        DrawnNoise([PlannedRelease(GRAM, (1,))], 1).begin(Quiet(2, 100, 3, 1, 200))


def test_a_release_of_others_is_not_mine_and_keeps_nothing_of_mine_back():
    books = DrawnNoise([PlannedRelease(GRAM, (2, 3))], 1)
    with pytest.raises(LocalFaultError, match="no such release for this party"):
        books.begin(GRAM)
    books.check_message(COORDINATOR, OPENING_STAGE)


def test_a_release_is_drawn_as_often_as_stated_and_no_more_even_if_a_draw_failed():
    books = DrawnNoise([PlannedRelease(GRAM, (1,), times=2)], 1)
    books.begin(GRAM)  # and it fails
    draw(books, GRAM)
    with pytest.raises(LocalFaultError, match="at most 2 draws"):
        books.begin(GRAM)


def test_a_release_that_is_stated_twice_is_drawn_twice():
    books = DrawnNoise([PlannedRelease(GRAM, (1,)), PlannedRelease(GRAM, (1,))], 1)
    draw(books, GRAM)
    with pytest.raises(LocalFaultError, match="not drawn"):
        books.check_message(COORDINATOR, OPENING_STAGE)
    draw(books, GRAM)
    books.check_message(COORDINATOR, OPENING_STAGE)
    with pytest.raises(LocalFaultError, match="at most 2 draws"):
        books.begin(GRAM)


@pytest.mark.parametrize("stage", [OPENING_STAGE, "diagnostics", ""])
def test_nothing_leaves_before_all_that_is_stated_was_drawn(stage):
    books = DrawnNoise([PlannedRelease(GRAM, (1,)), PlannedRelease(SUMS, (1,))], 1)
    draw(books, GRAM)
    begun = books.begin(SUMS)
    with pytest.raises(
        LocalFaultError,
        match="a NoisyColumnSums, which must have been drawn 1 times by then, and was drawn 0 times",
    ):
        books.check_message(COORDINATOR, stage)
    books.finish(begun)
    books.check_message(COORDINATOR, stage)


def test_each_message_of_a_release_in_steps_needs_a_draw_in_whatever_stage_it_goes():
    books = DrawnNoise([PlannedRelease(GRAM, (1,), times=3)], 1)
    for stage in (OPENING_STAGE, "again", OPENING_STAGE):
        with pytest.raises(LocalFaultError, match="not drawn"):
            books.check_message(COORDINATOR, stage)
        draw(books, GRAM)
        books.check_message(COORDINATOR, stage)
    books.check_message(COORDINATOR, "the end")


def test_messages_to_several_receivers_are_counted_for_each():
    books = DrawnNoise([PlannedRelease(GRAM, (1,), times=2)], 1)
    draw(books, GRAM)
    for receiver in (COORDINATOR, 2, 3):
        books.check_message(receiver, OPENING_STAGE)
    with pytest.raises(LocalFaultError, match="message 2 of stage 'opening' needs noise"):
        books.check_message(3, OPENING_STAGE)


def test_stages_that_hold_nothing_of_it_neither_wait_nor_count():
    books = DrawnNoise([PlannedRelease(GRAM, (1,), times=2, earlier=frozenset({"keys"}))], 1)
    for _ in range(5):
        books.check_message(COORDINATOR, "keys")
    draw(books, GRAM)
    books.check_message(COORDINATOR, OPENING_STAGE)


def test_a_draw_may_be_enough_for_several_messages():
    books = DrawnNoise([PlannedRelease(GRAM, (1,), times=2, messages_per_draw=3)], 1)
    draw(books, GRAM)
    for _ in range(3):
        books.check_message(COORDINATOR, OPENING_STAGE)
    with pytest.raises(LocalFaultError, match="message 4"):
        books.check_message(COORDINATOR, OPENING_STAGE)


@pytest.mark.parametrize("bad", [{"members": ()}, {"times": 0}, {"messages_per_draw": 0}])
def test_a_release_that_nobody_draws_is_not_planned(bad):
    with pytest.raises(ValueError, match="drawn by somebody"):
        PlannedRelease(GRAM, **{"members": (1,), **bad})
