"""What a service remembers of the terms of coordinators, whatever happens to it and to clocks."""

from types import SimpleNamespace

import pytest

from party.batches.store import BatchStore
from service.errors import ServiceError
from service.identity import Identity, Role
from service.trust.terms import MOST_AHEAD_S, EarlierTermError, TermAheadError, Terms, agent_of_term

HUB, OTHER = (Identity("local", Role.COORDINATOR, name) for name in ("hub", "other"))
NOW_S = 1_800_000_000.0
NOW = int(1000 * NOW_S)
AHEAD = int(1000 * MOST_AHEAD_S)


def calling(term):
    return SimpleNamespace(invocation_metadata=lambda: [("user-agent", agent_of_term("moiety", term) + " grpc")])


class Clock:
    def __init__(self):
        self.now_s = NOW_S

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def restarted(tmp_path, clock):
    """Return the terms of a service that is stopped, and started again each time."""
    stores = []

    def start():
        if stores:
            stores[-1].close()
        stores.append(BatchStore(tmp_path / "batches.sqlite"))
        return Terms(stores[-1], clock)

    yield start
    stores[-1].close()


def test_a_term_outlives_the_service(restarted):
    restarted().check(HUB, calling(NOW))
    terms = restarted()
    assert terms.last(HUB) == terms.present(HUB) == NOW
    with pytest.raises(EarlierTermError):
        terms.check(HUB, calling(NOW - 1))
    terms.check(OTHER, calling(NOW - 1))
    terms.check(HUB, calling(NOW + 1))
    assert restarted().last(HUB) == NOW + 1


def test_a_term_is_on_disk_before_a_call_of_it_is_taken(restarted, monkeypatch):
    terms, noted = restarted(), []

    def note(store, coordinator, term):
        noted.append(term)
        raise ServiceError("the disk is full")

    monkeypatch.setattr(BatchStore, "note_term", note)
    for _ in range(2):
        with pytest.raises(ServiceError, match="the disk is full"):
            terms.check(HUB, calling(NOW))
    assert (noted, terms.last(HUB)) == ([NOW, NOW], 0)


@pytest.mark.parametrize("term", [NOW + AHEAD + 1, 4_102_444_800_001, 10**18 - 1])
def test_a_term_far_in_the_future_is_refused_and_shuts_out_nobody(restarted, term):
    terms = restarted()
    with pytest.raises(TermAheadError, match="the term of coordinator hub is in the future"):
        terms.check(HUB, calling(term))
    terms.check(HUB, calling(NOW))
    restarted().check(HUB, calling(NOW + 5))


def test_a_term_as_far_ahead_as_clocks_differ_is_taken_and_passed_in_time(restarted, clock):
    restarted().check(HUB, calling(NOW + AHEAD))
    with pytest.raises(EarlierTermError):
        restarted().check(HUB, calling(NOW + 1))
    clock.now_s += MOST_AHEAD_S + 1
    restarted().check(HUB, calling(NOW + AHEAD + 1))


def test_a_term_that_was_taken_while_our_own_clock_was_ahead_counts_no_more(restarted, clock):
    clock.now_s += 10 * 365 * 86_400
    restarted().check(HUB, calling(int(1000 * clock.now_s)))
    clock.now_s = NOW_S
    terms = restarted()
    assert terms.last(HUB) == 0
    terms.check(HUB, calling(NOW))
    assert restarted().last(HUB) == NOW


def test_who_leads_without_a_term_is_not_looked_for_in_an_earlier_one(restarted):
    """Its operators have gone back to a store in a file: nobody would answer for the term that was kept."""
    restarted().check(HUB, calling(NOW))
    terms = restarted()
    terms.check(HUB, calling(0))
    assert (terms.present(HUB), terms.last(HUB)) == (0, NOW)
