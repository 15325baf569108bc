import pytest

from entropy import InsecureTestEntropy
from mpc.secagg.secret.surplus import SurplusSeeds, belongs_to, n_opened_by, opened_seeds

CHAIN = SurplusSeeds(InsecureTestEntropy("surplus"), 5)


@pytest.mark.parametrize("n_opened", range(1, 6))
def test_one_seed_opens_all_before_it_and_none_after(n_opened):
    opened = opened_seeds(CHAIN.seeds[n_opened - 1], n_opened)
    assert opened == CHAIN.seeds[:n_opened]
    further = opened_seeds(CHAIN.seeds[n_opened - 1], 10)
    assert not set(CHAIN.seeds[n_opened:]) & set(further)


@pytest.mark.parametrize("n_opened", range(1, 6))
def test_the_anchor_commits_to_every_seed_at_its_place(n_opened):
    assert belongs_to(CHAIN.seeds[n_opened - 1], n_opened, CHAIN.anchor)
    assert not belongs_to(CHAIN.seeds[n_opened - 1], n_opened + 1, CHAIN.anchor)
    assert not belongs_to(CHAIN.seeds[n_opened - 1][::-1], n_opened, CHAIN.anchor)


def test_the_last_seed_is_fresh():
    assert CHAIN.seeds[-1] == InsecureTestEntropy("surplus").read(32)
    assert len({*CHAIN.seeds, CHAIN.anchor}) == 6
    assert SurplusSeeds(InsecureTestEntropy("surplus"), 0).seeds == ()


@pytest.mark.parametrize(("n", "opened"), [(6, 0), (7, 1), (8, 1), (9, 2), (10, 3), (11, 3)])
def test_each_level_reached_opens_one_more(n, opened):
    assert n_opened_by((6, 7, 9, 10), n) == opened
    assert n_opened_by((), n) == 0
