"""Programs and members that do what a computation does not allow: each a declared error before anything is opened."""

import asyncio
from dataclasses import replace

import circuits
import numpy as np
import pytest
from fault_injection import FIELD, at, is_right, points_of, run
from virtual_time import run_in_virtual_time

from mpc.arithmetic.field import ResidueField
from mpc.errors import (
    FieldMismatchError,
    FieldTooSmallError,
    LocalFaultError,
    PeerError,
    ProtocolError,
    ShapeError,
    TooFewPartiesError,
)
from mpc.local.network import LocalNetwork, local_names
from mpc.local.simulation import run_program, run_program_locally
from mpc.protocol.computation import Computation
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.session import COORDINATOR
from mpc.protocol.shared import public_array


def outcomes(program, values, *, n_parties=3, t=1, n_owners=0):
    network = LocalNetwork(local_names(n_parties, n_owners), deadline_s=10)
    return run_in_virtual_time(run_program(network, program, values, field=FIELD, n_parties=n_parties, t=t))


def assert_all_fail(results, error):
    assert {member: type(result) for member, result in results.items()} == dict.fromkeys(results, error)


async def one_input(c, mine):
    return await c.input(1, (4,), mine, bound=100)


async def test_fewer_than_2t_plus_1_parties_are_refused():
    network = LocalNetwork(local_names(2), deadline_s=1)
    with pytest.raises(TooFewPartiesError, match="needs 3 compute parties"):
        await Computation.start(network.session(COORDINATOR), FIELD, 2, 1)


@pytest.mark.parametrize("end", ["open", "reduce"])
def test_a_degree_above_what_the_roster_can_open_is_refused_by_everybody(end):
    async def program(c, mine):
        x = await one_input(c, mine)
        return await getattr(c, end)(x * x * x)

    results = outcomes(program, {1: circuits.X})
    assert_all_fail(results, TooFewPartiesError)
    assert (
        "a sharing of degree 3 needs 4 parties, but there are only 3: reduce the degree before multiplying again"
    ) in str(results[COORDINATOR])


def test_a_third_power_opens_directly_where_four_parties_are_there():
    async def program(c, mine):
        x = await one_input(c, mine)
        return await c.open(x * x * x)

    np.testing.assert_array_equal(run_program_locally(program, {1: circuits.X}, n_parties=4).values, circuits.X**3)


def test_shapes_that_do_not_fit_are_refused_by_everybody():
    async def program(c, mine):
        x = await one_input(c, mine)
        return await c.multiply(x, x[:3])

    assert_all_fail(outcomes(program, {1: circuits.X}), ShapeError)


def test_a_share_of_another_field_is_refused_by_everybody():
    other = ResidueField(2)

    async def adds(c, mine):
        x = await one_input(c, mine)
        return await c.open(x + public_array(other, [1, 2, 3, 4], holds_shares=x.share is not None))

    async def opens(c, mine):
        return await c.open(public_array(other, [1], holds_shares=1 <= c.me <= 3))

    assert_all_fail(outcomes(adds, {1: circuits.X}), FieldMismatchError)
    assert_all_fail(outcomes(opens, {1: circuits.X}), FieldMismatchError)


def test_what_might_wrap_around_the_field_is_not_opened():
    async def program(c, mine):
        x = await c.input(1, (4,), mine, bound=1 << 32)
        return await c.open(x * x)

    results = outcomes(program, {1: circuits.X})
    assert_all_fail(results, FieldTooSmallError)
    assert "65 bits" in str(results[1])


@pytest.mark.parametrize(
    ("values", "error", "what"),
    [
        (None, LocalFaultError, "missing"),
        ([1, 2, 3], ShapeError, r"\(3,\), not \(4,\)"),
        ([1, 2, 3, 101], LocalFaultError, "beyond the public bound"),
        ([-101, 2, 3, 4], LocalFaultError, "beyond the public bound"),
        ([1.0, 2.0, 3.0, 4.0], LocalFaultError, "only integers"),
    ],
)
def test_a_dealer_with_unfit_values_fails_and_the_others_name_it(values, error, what):
    results = outcomes(one_input, {1: values})
    with pytest.raises(error, match=what):
        raise results[1]
    assert isinstance(results[3], PeerError)  # party 2 derives its share, and waits for nothing
    assert results[3].member == 1
    assert "101" not in str(results[1])


def test_an_array_reduced_in_one_round_with_one_of_another_degree_is_refused():
    async def program(c, mine):
        x = await one_input(c, mine)
        return await c.reduce_all([x, x * x])

    assert_all_fail(outcomes(program, {1: circuits.X}), ShapeError)


def test_two_operations_at_once_are_refused():
    async def program(c, mine):
        x = await one_input(c, mine)
        return await asyncio.gather(c.multiply(x, x), c.random((2,)))

    results = outcomes(program, {1: circuits.X})
    assert all(isinstance(results[party], LocalFaultError) for party in (1, 2, 3))
    assert "one after another" in str(results[1])


def test_nothing_is_computed_after_an_error():
    async def program(c, mine):
        try:
            await one_input(c, mine)
        except ProtocolError:
            return await c.random((1,))

    results = outcomes(program, {1: [1]})
    assert all(isinstance(results[party], LocalFaultError) for party in (1, 3))
    assert "failed before" in str(results[3])


async def test_a_share_dealt_by_somebody_outside_the_roster_is_refused():
    network = LocalNetwork(local_names(3), deadline_s=1)
    exchange = ShareExchange(network.session(1), FIELD, 3, 1, {})
    with pytest.raises(LocalFaultError, match="member 9 deals no shares"):
        await exchange.take(9, "computation/products", 0, (4,), 1)
    with pytest.raises(LocalFaultError, match="member 9 is not one"):
        await network.session(1).receive(9, "computation/products", (1, 4))


@pytest.mark.parametrize("stranger", [0, 4])
def test_a_reshare_from_a_member_that_holds_no_shares_changes_nothing(stranger):
    """The coordinator and an input-only party send what looks like sub-shares, beside the right ones."""
    protocol = circuits.two_layers(3, 1)
    with_owner = replace(protocol, n_owners=1)
    for point in points_of(with_owner):
        if "products" in point[2]:
            outcome = run(with_owner, at(point, lambda message: (message, replace(message, sender=stranger))))
            assert is_right(with_owner, COORDINATOR, outcome.results[COORDINATOR])
