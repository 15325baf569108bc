import numpy as np
import pytest
from virtual_time import run_in_virtual_time

from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.errors import PeerError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.local.simulation import run_program, run_program_locally
from mpc.protocol import reduction
from mpc.protocol.computation import Computation
from mpc.protocol.operations import core
from mpc.protocol.pairwise import PairwiseSecret
from mpc.protocol.product_check import n_coins
from mpc.protocol.session import COORDINATOR
from mpc.protocol.shared import concatenate

ROSTERS = [(3, 1), (4, 1), (5, 2), (7, 3), (7, 2)]
RNG = np.random.default_rng(4)
X, Y = RNG.integers(-50, 50, (2, 6, 5))
FIELD = ResidueField(3)


def run(program, values, *, n_parties=3, t=1, n_owners=0, field=FIELD):
    """The network after the run, and what every member returned; errors propagate."""
    network = LocalNetwork(local_names(n_parties, n_owners), entropy_of=lambda m: InsecureTestEntropy(str(m)))
    results = run_in_virtual_time(run_program(network, program, values, field=field, n_parties=n_parties, t=t))
    for result in results.values():
        if isinstance(result, Exception):
            raise result
    return network, results


async def two_inputs(c, mine):
    given = await c.inputs({1: X.shape, 2: Y.shape}, mine, bound=50)
    return given[1], given[2]


def opened(method, **options):
    """Apply a coroutine function to two shared matrices and open the result to the coordinator."""

    async def program(c, mine):
        return await c.open(await method(c, *await two_inputs(c, mine)))

    _, results = run(program, {1: X, 2: Y}, **options)
    assert all(result is None for member, result in results.items() if member != COORDINATOR)
    assert results[COORDINATOR].wrong == results[COORDINATOR].dropped_out == ()
    return results[COORDINATOR].values


@pytest.mark.parametrize(("n_parties", "t"), ROSTERS)
def test_every_product_equals_numpys_in_every_roster(n_parties, t):
    async def program(c, mine):
        x, y = await two_inputs(c, mine)
        results = [
            await c.multiply(x, y),
            await c.matmul(x, y.T),
            await c.gram(x),
            await c.dot(x[0], y[0]),
        ]
        assert all(result.degree == t for result in results)
        return [await c.open(result) for result in results]

    _, results = run(program, {1: X, 2: Y}, n_parties=n_parties, t=t)
    expected = [X * Y, X @ Y.T, X.T @ X, X[0] @ Y[0]]
    for result, right in zip(results[COORDINATOR], expected, strict=True):
        np.testing.assert_array_equal(result.values, right)


@pytest.mark.parametrize(("n_parties", "t"), ROSTERS)
def test_a_product_opens_without_reduction(n_parties, t):
    async def product(c, x, y):
        return x * y + 3 * x - 7

    np.testing.assert_array_equal(opened(product, n_parties=n_parties, t=t), X * Y + 3 * X - 7)


def test_deep_circuits_stay_right_layer_by_layer():
    async def program(c, mine):
        x = await c.input(1, (3,), mine, bound=2)
        for _ in range(30):
            x = await c.multiply(x, x - 1) if x.bound < 1 << 30 else await c.multiply(x[:1], 0 * x[:1] + 1)
        return await c.open(x)

    _, results = run(program, {1: [2, 0, -1]})
    assert results[COORDINATOR].values.tolist() == [2]


@pytest.mark.parametrize(
    "coefficients", [[], [4], [0, 3], [1, 0, -2], [5, 4, 3, 2], [0, 0, 0, 0, 1], [1] * 9, [7, 0, 0]]
)
def test_polynomials_of_every_degree(coefficients):
    async def polynomial(c, x, y):
        return await c.polynomial(x, coefficients)

    expected = sum((coefficient * X**k for k, coefficient in enumerate(coefficients)), start=np.zeros_like(X))
    np.testing.assert_array_equal(opened(polynomial, field=ResidueField(5)), expected)


@pytest.mark.parametrize(("degree", "rounds"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3)])
def test_a_polynomial_takes_the_logarithm_of_its_degree_in_rounds(degree, rounds):
    async def program(c, mine):
        x = await c.input(1, (2,), mine, bound=2)
        return await c.open(await c.polynomial(x, [1] * (degree + 1)))

    network, _ = run(program, {1: [1, 2]})
    reshares = [m for m in network.transcript if "products" in m.stage and (m.sender, m.receiver) == (1, 3)]
    assert len(reshares) == rounds


def test_input_only_parties_deal_and_receive():
    async def program(c, mine):
        given = await c.inputs({4: (3,), 5: (3,), 6: (3,)}, mine, bound=9)
        product = await c.multiply(given[4], given[5])
        return await c.open(product * given[6], receivers=[5, 1])

    network, results = run(program, {4: [1, 2, 3], 5: [-4, 5, 6], 6: [7, 8, 9]}, n_owners=3)
    for member, result in results.items():
        if member in (1, 5):
            assert result.values.tolist() == [-28, 80, 162]
        else:
            assert result is None
    assert not [m for m in network.transcript if m.sender > 3 and m.receiver > 3]


def test_fields_of_every_size_compute_alike():
    async def product(c, x, y):
        return await c.multiply(x, y)

    for n_primes in range(1, 7):
        np.testing.assert_array_equal(opened(product, field=ResidueField(n_primes)).astype(object), X * Y)


def test_integers_beyond_64_bits():
    big = [10**18, -(10**18)]

    async def program(c, mine):
        x = await c.input(1, (2,), mine, bound=10**18)
        return await c.open(x * x)

    _, results = run(program, {1: big}, field=ResidueField(6))
    assert results[COORDINATOR].values.tolist() == [10**36, 10**36]


def test_several_arrays_are_reduced_in_one_round_and_keep_their_shapes():
    async def program(c, mine):
        x, y = await two_inputs(c, mine)
        square, product = await c.reduce_all([x @ x.T, x[0] * y[0]])
        return await c.open(square * 2), await c.open(product)

    network, results = run(program, {1: X, 2: Y})
    np.testing.assert_array_equal(results[COORDINATOR][0].values, 2 * X @ X.T)
    np.testing.assert_array_equal(results[COORDINATOR][1].values, X[0] * Y[0])
    assert len([m for m in network.transcript if "products" in m.stage]) == 3


def test_arrays_longer_than_a_message_travel_in_segments(monkeypatch):
    for module in (reduction, core):
        monkeypatch.setattr(module, "SEGMENT", 7)

    async def program(c, mine):
        x, y = await two_inputs(c, mine)
        product = await c.multiply(x, y)
        mask = await c.random(X.shape)
        return await c.open(product * x + (mask - mask) * y)

    for n_parties in (3, 4):
        network, results = run(program, {1: X, 2: Y}, n_parties=n_parties)
        np.testing.assert_array_equal(results[COORDINATOR].values, X * Y * X)
        sizes = [m.array.size for m in network.transcript if m.stage.endswith(("input", "products", "random"))]
        assert max(sizes) == 7
        assert set(sizes) == ({7, 2} if n_parties == 3 else {7, 2, 3})  # 30 elements, and 8 more of the product's coin


@pytest.mark.parametrize(("n_parties", "t"), ROSTERS)
def test_a_product_costs_n_minus_1_minus_t_words_per_party(n_parties, t):
    async def program(c, mine):
        x, y = await two_inputs(c, mine)
        await c.multiply(x, y)

    network, _ = run(program, {1: X, 2: Y}, n_parties=n_parties, t=t)
    for party in range(1, n_parties + 1):
        sent = sum(m.array.nbytes for m in network.transcript if m.sender == party and "products" in m.stage)
        assert sent == 8 * (X.size + n_coins(n_parties, 2 * t, X.size)) * (n_parties - 1 - t)


def test_a_sharing_of_zero_among_2t_plus_1_parties_costs_no_message():
    async def program(c, mine):
        return await c.open(await c.zeros((5,), 2))

    network, results = run(program, {})
    assert results[COORDINATOR].values.tolist() == [0] * 5
    assert not [m for m in network.transcript if "zero" in m.stage]


def test_random_elements_differ_and_are_the_same_for_all_receivers():
    async def program(c, mine):
        first, second = await c.random((50,)), await c.random((50,))
        return await c.open(concatenate([first, second]), receivers=(COORDINATOR, 2))

    _, results = run(program, {})
    np.testing.assert_array_equal(results[COORDINATOR].values, results[2].values)
    assert len(set(results[2].values.tolist())) == 100
    assert np.abs(results[2].values).max() > FIELD.half_order // 2


def test_fresh_polynomials_hide_equal_secrets_after_every_reduction():
    async def program(c, mine):
        x = await c.input(1, (20,), mine, bound=3)
        return [x.share, (await c.reduce(x * 1 * c.public(1))).share, (await c.multiply(x, x)).share]

    _, results = run(program, {1: [1] * 20})
    for party in (1, 2, 3):
        dealt, kept, squared = results[party]
        np.testing.assert_array_equal(dealt, kept)  # a degree of at most t needs no reduction
        assert len({*dealt.flat, *squared.flat}) == 40


@pytest.mark.parametrize("n_parties", [3, 4])
def test_no_key_stream_is_drawn_from_twice(n_parties, monkeypatch):
    """A stream that served two arrays would hide neither."""
    drawn = []
    stream = PairwiseSecret.stream

    def recording(self, dealer, receiver, label, block):
        drawn.append((id(self), dealer, receiver, label, block))
        return stream(self, dealer, receiver, label, block)

    monkeypatch.setattr(PairwiseSecret, "stream", recording)
    for module in (reduction, core):
        monkeypatch.setattr(module, "SEGMENT", 7)

    async def program(c, mine):
        x, y = await two_inputs(c, mine)
        again, _ = await two_inputs(c, mine)
        x = await c.multiply(await c.multiply(x, y), again + await c.random(X.shape) + await c.random(X.shape))
        await c.zeros(X.shape, 2)
        await c.zeros(X.shape, 2)
        await c.open(x * y)
        return await c.open(x * y)

    run(program, {1: X, 2: Y}, n_parties=n_parties)
    assert len(drawn) > 100
    assert len(set(drawn)) == len(drawn)


def test_run_locally_returns_what_the_coordinator_got_and_raises_what_a_member_raised():
    async def program(c, mine):
        return await c.open(await c.input(1, (2,), mine, bound=5))

    assert run_program_locally(program, {1: [3, -4]}).values.tolist() == [3, -4]
    with pytest.raises(Exception, match="beyond the public bound"):
        run_program_locally(program, {1: [3, -6]})


def run_with_a_stranger(stranger, *, n_parties, **others):
    """Who computes with something else than the rest, and what became of everybody."""
    network = LocalNetwork(local_names(n_parties), deadline_s=1.0, entropy_of=lambda m: InsecureTestEntropy(str(m)))
    usual = {"field": FIELD, "n_parties": n_parties, "t": 1, "name": "sum"}

    async def member(session):
        chosen = usual | (others if session.me == stranger else {})
        c = await Computation.start(session, **chosen)
        return await c.open(await c.input(1, (2,), [3, 4] if session.me == 1 else None, bound=5))

    return run_in_virtual_time(network.run(dict.fromkeys(network.names, member)))


OTHERS = [{"field": ResidueField(1)}, {"field": ResidueField(2)}, {"t": 2}, {"name": "mean"}]


@pytest.mark.parametrize("other", OTHERS, ids=str)
@pytest.mark.parametrize("stranger", range(1, 6))
def test_a_member_with_another_field_t_or_name_is_named_before_anything_is_shared(stranger, other):
    results = run_with_a_stranger(stranger, n_parties=5, **other)
    for member in set(results) - {COORDINATOR, stranger}:
        assert isinstance(results[member], PeerViolationError)
        assert results[member].member == stranger
        assert "a different field, roster, t or name" in results[member].what
    assert isinstance(results[COORDINATOR], PeerError)


@pytest.mark.parametrize("n_parties", [3, 5])
@pytest.mark.parametrize("other", [{"field": ResidueField(1)}, {"field": ResidueField(2)}, {"t": 2}], ids=str)
def test_a_coordinator_with_another_field_or_t_opens_nothing(n_parties, other):
    results = run_with_a_stranger(COORDINATOR, n_parties=max(n_parties, 2 * other.get("t", 1) + 1), **other)
    assert isinstance(results[COORDINATOR], PeerViolationError)
    assert "a different field, roster, t or name" in results[COORDINATOR].what
