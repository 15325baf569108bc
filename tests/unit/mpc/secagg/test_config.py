from dataclasses import replace

import pytest
from masked_sums import make_config, make_roster

from mpc.errors import LocalFaultError, TooFewPartiesError
from mpc.secagg.config import Topology, input_digest
from mpc.secagg.graph_parameters import SMALLEST_DEGREE, find_graph_parameters
from mpc.secagg.policy import MemberPolicy
from mpc.transcript import RoundId, digest, encode_fields


def test_the_default_complete_graph_lets_just_under_half_drop_out():
    assert Topology.complete(100, 0) == Topology(100, 99, 51, 51, 0)
    assert Topology.complete(100, 33) == Topology(100, 99, 67, 67, 33)
    assert Topology.complete(5, 0, fewest_survivors=4) == Topology(5, 4, 3, 4, 0)


def test_a_ring_is_the_smallest_safe_one():
    topology = Topology.ring(1000, 100, 100)
    assert (topology.degree, topology.n_required, topology.fewest_survivors) == (124, 90, 900)
    assert topology.n_signatures == 551
    with pytest.raises(
        TooFewPartiesError, match="members with 124 neighbours each and 89 required shares is not safe with"
    ):
        replace(topology, n_required=89)
    with pytest.raises(TooFewPartiesError):
        Topology.ring(200, 90, 60)


@pytest.mark.parametrize(("n_members", "n_corrupt", "n_dropouts"), [(129, 0, 0), (200, 10, 0), (130, 0, 6)])
def test_a_ring_that_is_planned_is_one_that_members_accept_by_default(n_members, n_corrupt, n_dropouts):
    smallest = find_graph_parameters(n_members, n_corrupt, n_dropouts)
    assert smallest.degree < SMALLEST_DEGREE
    config = make_config(n_members, topology=Topology.ring(n_members, n_corrupt, n_dropouts))
    MemberPolicy(pinned={entry.name: entry.identity_public for entry in config.roster}).check(
        config, 1, config.roster[0].identity_public
    )


def test_all_but_one_of_the_corrupt_may_be_alone_with_nobody():
    with pytest.raises(
        TooFewPartiesError, match="are corrupt, may contain a single honest member, whose value it would reveal"
    ):
        Topology(4, 3, 4, 4, 3)


@pytest.mark.parametrize(
    "roster",
    [
        make_roster(4),
        make_roster(5)[::-1],
        tuple(replace(entry, number=entry.number + 1) for entry in make_roster(5)),
        (*make_roster(4), replace(make_roster(1)[0], number=5, name="party-5")),
        (*make_roster(4), replace(make_roster(5)[4], name="party-1")),
        (*make_roster(4), replace(make_roster(5)[4], identity_public=b"short")),
    ],
)
def test_rosters_that_are_not_one_to_n_with_keys_and_names_of_their_own_are_refused(roster):
    with pytest.raises(LocalFaultError):
        make_config(5, roster=roster)


@pytest.mark.parametrize("levels", [(2, 5), (3, 4), (3, 3, 5), (3, 5, 4), (3, 6)])
def test_levels_ascend_from_the_fewest_to_all(levels):
    with pytest.raises(LocalFaultError, match="surplus levels"):
        make_config(5, surplus_levels=levels)
    assert make_config(5, surplus_levels=(3, 4, 5)).n_surplus_seeds == 2


def test_a_negative_noise_bound_is_refused():
    with pytest.raises(LocalFaultError, match="must not be negative"):
        make_config(5, noise_bound=-1)


def test_inputs_and_rounds_make_different_digests():
    first, second = RoundId("a", 1, 0), RoundId("a", 1, 1)
    assert len({input_digest(r, data) for r in (first, second) for data in (b"x", b"y")}) == 4
    assert str(second) == "a round 1 attempt 1"


def test_fields_cannot_run_into_each_other():
    assert encode_fields("ab", "c") != encode_fields("a", "bc")
    assert encode_fields(b"", b"a") != encode_fields(b"a", b"")
    assert encode_fields(1) == bytes([0] * 7 + [8] + [0] * 7 + [1])
    assert digest("x", b"y") != digest("xy")
