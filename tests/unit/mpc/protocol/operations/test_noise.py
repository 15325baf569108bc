import numpy as np
import pytest
from virtual_time import run_in_virtual_time

from mpc.arithmetic.field import ResidueField
from mpc.errors import FieldMismatchError, LocalFaultError, ShapeError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.computation import Computation
from mpc.protocol.operations.noise import NoisySum
from mpc.protocol.session import COORDINATOR
from mpc.protocol.shared import SharedArray

FIELD = ResidueField(3)
X = np.array([[1, -2, 3], [4, 5, -6]])
NOISE = {party: np.arange(6) * party for party in range(1, 6)}


def run(program, n_parties, t=1):
    network = LocalNetwork(local_names(n_parties))

    async def member(session):
        c = await Computation.start(session, FIELD, n_parties, t, name="")
        return await program(c)

    ends = run_in_virtual_time(network.run(dict.fromkeys(network.names, member)))
    return network, ends


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (4, 1), (5, 2)])
def test_products_under_noise_are_opened_without_a_reduction_or_a_sharing_of_zero(n_parties, t):
    async def program(c):
        if c.me == COORDINATOR:
            return await c.open_noisy(c.noisy_outline((6,)))
        total = await c.noise((6,), NOISE[c.me])
        gram = c.gram_sum(3)
        async for blocks in c.rows({1: 3}, 2, X.__getitem__ if c.me == 1 else None, height=1):
            await gram.add(blocks)
        total += await gram.triangle()
        return await c.open_noisy(total)

    network, ends = run(program, n_parties, t)
    noise = sum(NOISE[party] for party in range(1, n_parties + 1))
    assert (ends[COORDINATOR].values == (X.T @ X)[np.triu_indices(3)] + noise).all()
    assert all(ends[party] is None for party in range(1, n_parties + 1))
    stages = {m.stage for m in network.transcript} - {"keys", "key confirmation"}
    assert stages == {"table", "opening"} | ({"noise"} if n_parties > 2 * t + 1 else set())


def test_noise_to_compute_with_is_the_sum_of_all_parts():
    async def program(c):
        noise = await c.shared_noise((6,), NOISE.get(c.me), bound=30)
        assert (noise.degree, noise.bound) == (1, 90)
        return await c.open(noise * 2)

    _, ends = run(program, 3)
    assert (ends[COORDINATOR].values == 2 * sum(NOISE[party] for party in (1, 2, 3))).all()


def test_each_noise_of_a_computation_is_hidden_by_other_polynomials():
    async def program(c):
        if c.me == COORDINATOR:
            return None
        return [(await c.noise((6,), NOISE[c.me])).opened_share() for _ in range(2)]

    _, ends = run(program, 4)
    for party in range(1, 5):
        first, second = ends[party]
        assert not (first == second).any()


def noisy(degree=2):
    return NoisySum(FIELD, (2,), degree, FIELD.encode(np.array([5, 6])))


def array(values, degree=2, field=FIELD):
    return SharedArray(field, np.shape(values), degree, None, field.encode(np.array(values)))


def test_a_noisy_sum_is_opened_once_and_not_added_to_afterwards():
    total = noisy()
    total += array([1, 2])
    assert FIELD.decode(total.opened_share()).tolist() == [6, 8]
    with pytest.raises(LocalFaultError, match="opened once"):
        total.opened_share()
    with pytest.raises(LocalFaultError, match="opened once"):
        total += array([1, 2])


def test_what_noise_does_not_hide_is_not_added():
    with pytest.raises(ShapeError, match="does not hide an array of degree 3"):
        noisy().__iadd__(array([1, 2], degree=3))
    with pytest.raises(ShapeError, match="shape"):
        noisy().__iadd__(array([1]))
    with pytest.raises(FieldMismatchError):
        noisy().__iadd__(array([1, 2], field=ResidueField(2)))


def test_a_noisy_sum_shows_no_share():
    assert repr(noisy()) == "NoisySum(shape=(2,), degree=2)"


def test_a_party_without_noise_is_told():
    async def program(c):
        if c.me == COORDINATOR:
            return None
        return await c.noise((6,), None)

    _, ends = run(program, 3)
    assert all("my noise is missing" in str(ends[party]) for party in (1, 2, 3))
