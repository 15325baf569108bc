"""Whole rounds: exact sums, whoever drops_out and whenever."""

import itertools

import numpy as np
import pytest
from masked_sums import exact_sum, make_config, run

from mpc.errors import TooFewSharesError
from mpc.secagg.config import Topology
from mpc.secagg.errors import TooFewMembersError
from mpc.secagg.stage import Stage
from mpc.secagg.vector.group import RingGroup
from mpc.secagg.vector.prime_group import PrimeGroup

STAGES = (Stage.ADVERTISE, Stage.SHARE, Stage.MASK, Stage.AGREE, Stage.UNMASK)


@pytest.mark.parametrize("group", [*(RingGroup(b) for b in (16, 17, 32, 33, 63, 64)), PrimeGroup()])
def test_the_sum_of_all_members_is_exact_in_every_group(group):
    opened = run(make_config(3, group=group))
    assert np.array_equal(opened.integers(), exact_sum((1, 2, 3)))
    assert (opened.survivors, opened.dropped_out, opened.silent_after) == ((1, 2, 3), {}, {})


@pytest.mark.parametrize(("first", "second"), list(itertools.product(STAGES, STAGES)))
def test_two_of_five_may_drop_out_at_any_two_stages(first, second):
    opened = run(make_config(5), dropouts={2: first, 5: second})
    sent_none = {m: s for m, s in ((2, first), (5, second)) if s in STAGES[:3]}
    survivors = tuple(m for m in range(1, 6) if m not in sent_none)
    assert opened.survivors == survivors
    assert opened.dropped_out == sent_none
    assert opened.silent_after == {m: s for m, s in ((2, first), (5, second)) if s in STAGES[3:]}
    assert np.array_equal(opened.integers(), exact_sum(survivors))


@pytest.mark.parametrize("stage", STAGES[:4])
def test_with_three_of_five_dropped_out_nothing_is_opened(stage):
    with pytest.raises(
        TooFewMembersError, match=r"only 2 members answered at stage .*, but 3 are needed; missing: party-1"
    ):
        run(make_config(5), dropouts=dict.fromkeys((1, 2, 3), stage))


def test_with_three_of_five_silent_at_unmasking_the_sum_stays_masked():
    with pytest.raises(TooFewSharesError, match="only 2 holders of shares of party-1 have answered, but 3 are needed"):
        run(make_config(5), dropouts=dict.fromkeys((1, 2, 3), Stage.UNMASK))


def test_vectors_longer_than_a_chunk_of_masks_are_summed_exactly():
    length = (1 << 16) + 3
    config = make_config(3, length, group=RingGroup(24))
    assert np.array_equal(run(config, dropouts={2: Stage.MASK}).integers(), exact_sum((1, 3), length))


def test_noise_of_any_size_is_added_modulo_the_group():
    config = make_config(3)
    noise = np.full(12, 1 << 40, dtype=np.int64)  # far beyond 2^20, of which it is a multiple
    opened = run(config, noise_of=lambda member, seeds: noise + member)
    assert np.array_equal(opened.integers(), exact_sum((1, 2, 3)) + 6)


def test_a_ring_of_neighbours_sums_exactly_when_a_tenth_drops_out():
    config = make_config(130, topology=Topology.ring(130, 6, 13))
    dropped_out = dict.fromkeys(range(1, 130, 10), Stage.MASK)
    opened = run(config, dropouts=dropped_out)
    assert opened.dropped_out == dropped_out
    assert np.array_equal(opened.integers(), exact_sum(opened.survivors))


def test_surplus_seeds_of_all_survivors_are_opened_as_far_as_their_number_asks():
    config = make_config(6, surplus_levels=(4, 5, 6))
    chains = {}

    def noise_of(member, seeds):
        chains[member] = seeds
        return np.zeros(12, dtype=np.int64)

    for n_dropouts, n_opened in ((0, 2), (1, 1), (2, 0)):
        dropped_out = dict.fromkeys(range(1, n_dropouts + 1), Stage.MASK)
        dropped_out |= {6: Stage.UNMASK} if n_dropouts < 2 else {}  # a second loss, while the excess is opened
        opened = run(config, noise_of=noise_of, dropouts=dropped_out)
        expected = {m: chains[m][:n_opened] for m in opened.survivors} if n_opened else {}
        assert opened.surplus_seeds == expected


def test_a_reason_names_a_few_of_the_missing_members_and_counts_the_others():
    with pytest.raises(TooFewMembersError) as caught:
        run(make_config(30, group=RingGroup(24)), dropouts=dict.fromkeys(range(1, 21), Stage.MASK))
    assert str(caught.value).endswith("missing: " + ", ".join(f"party-{i}" for i in range(1, 11)) + " and 10 others")
