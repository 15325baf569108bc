"""Double sharings inside a computation: right values, and no wrong one whatever happens to one message."""

import circuits
import numpy as np
import pytest
from fault_injection import (
    MESSAGE_FAULTS,
    assert_right,
    assert_right_or_declared,
    in_turn,
    kill_sender,
    make_wrong_share,
    many,
    points_of,
    run,
)
from virtual_time import run_in_virtual_time

import mpc.protocol.operations.products
from mpc.arithmetic.field import ResidueField
from mpc.errors import ProtocolError
from mpc.local.network import LocalNetwork, local_names
from mpc.local.simulation import run_program
from mpc.protocol.double_sharing import double_sharings_win


@pytest.fixture
def always(monkeypatch):
    """Small batches use them too."""
    monkeypatch.setattr(mpc.protocol.operations.products, "double_sharings_win", lambda *public: True)


def one_layer(n_parties, t):
    async def program(c, mine):
        given = await c.inputs({1: circuits.X.shape, 2: circuits.Y.shape}, mine, bound=100)
        return await c.open(await c.multiply(given[1], given[2]))

    values, right = {1: circuits.X, 2: circuits.Y}, {0: circuits.X * circuits.Y}
    return circuits.computation("one layer", program, values, right, n_parties=n_parties, t=t)


def of_products(points):
    return [point for point in points if "mask" in point[2]]


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (7, 3), (9, 4)])
def test_two_layers_give_the_right_values(always, n_parties, t):
    protocol = circuits.two_layers(n_parties, t)
    assert of_products(points_of(protocol))
    assert_right(protocol, run(protocol))


def test_owners_and_the_coordinator_follow_without_shares(always):
    protocol = circuits.matrix_product(3, 1)
    assert of_products(points_of(protocol))
    assert_right(protocol, run(protocol))


TWO_LAYERS = circuits.two_layers(3, 1)


@pytest.mark.parametrize("fault", MESSAGE_FAULTS)
def test_a_fault_at_some_messages_leads_to_the_right_value_or_a_declared_error(always, fault):
    for point in in_turn(of_products(points_of(TWO_LAYERS)), list(MESSAGE_FAULTS).index(fault)):
        assert_right_or_declared(TWO_LAYERS, run(TWO_LAYERS, MESSAGE_FAULTS[fault](point)))


@pytest.mark.slow
@pytest.mark.parametrize("fault", MESSAGE_FAULTS)
def test_a_fault_at_many_messages_leads_to_the_right_value_or_a_declared_error(always, fault):
    for point in many(of_products(points_of(TWO_LAYERS)), list(MESSAGE_FAULTS).index(fault)):
        assert_right_or_declared(TWO_LAYERS, run(TWO_LAYERS, MESSAGE_FAULTS[fault](point)))


@pytest.mark.parametrize("protocol", [circuits.two_layers(3, 1), one_layer(5, 2)], ids=lambda protocol: protocol.name)
def test_a_party_killed_at_many_messages_leads_to_the_right_value_or_a_declared_error(always, protocol):
    for point in many(of_products(points_of(protocol)), 0):
        assert_right_or_declared(protocol, run(protocol, kill_sender(point)))


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 2)])
def test_a_wrong_share_at_any_message_never_opens_a_wrong_value(always, n_parties, t):
    protocol = one_layer(n_parties, t)
    points = of_products(points_of(protocol))
    outcomes = []
    for point in points:
        broken = run(protocol, make_wrong_share(point))
        assert_right_or_declared(protocol, broken)
        outcomes.append((point[2].split("/")[1], isinstance(broken.results[0], ProtocolError)))
    assert {stage.split(" ")[0] for stage, failed in outcomes if failed} >= {"masked", "opened"}
    if t > 1:  # of five shares of degree 2 one wrong one is corrected
        assert not any(failed for stage, failed in outcomes if stage == "masks")


def test_a_large_batch_of_seven_parties_uses_them_and_a_small_one_does_not():
    n_parties, t, n_large = 7, 3, 200_000
    assert double_sharings_win(n_parties, t, n_large, 1)
    values = np.arange(n_large) - 1000

    async def program(c, mine):
        x = await c.input(1, (n_large,), mine, bound=n_large)
        small = await c.multiply(x[:100], x[:100])
        return [(await c.open(part)) for part in (await c.multiply(x, x + 1), small)]

    network = LocalNetwork(local_names(n_parties))
    field = ResidueField(2)
    results = run_in_virtual_time(run_program(network, program, {1: values}, field=field, n_parties=n_parties, t=t))
    large, small = results[0]
    np.testing.assert_array_equal(large.values, values * (values + 1))
    np.testing.assert_array_equal(small.values, values[:100] ** 2)
    stages = {message.stage for message in network.transcript}
    assert {"computation/masked products", "computation/products"} <= stages
    assert {m.array.shape[1] for m in network.transcript if m.stage == "computation/products"} == {100}
