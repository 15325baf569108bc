"""Order without telling it, against NumPy."""

import itertools

import numpy as np
import pytest
from programs import ROSTERS, opened, run_shared

from entropy import KeyStream
from mpc.errors import LocalFaultError, ShapeError
from mpc.protocol.operations.selections import permutation, sorting_network

RNG = np.random.default_rng(3)
X = RNG.integers(-9, 10, 11)


@pytest.mark.parametrize("n", range(1, 13))
def test_the_network_sorts_all_sequences_of_zeros_and_ones(n):
    """And therefore all others [Knu98, theorem 5.3.4 Z]."""
    rows = np.array(list(itertools.product([0, 1], repeat=n)))
    for lower, upper in sorting_network(n):
        assert len({*lower, *upper}) == 2 * len(lower), "two comparators of a layer share a place"
        a, b = rows[:, lower], rows[:, upper]
        rows[:, lower], rows[:, upper] = np.minimum(a, b), np.maximum(a, b)
    assert (np.diff(rows, axis=1) >= 0).all()


@pytest.mark.parametrize("n", [33, 100, 255])
def test_the_network_sorts_longer_sequences(n):
    rows = RNG.integers(0, 20, (50, n))
    for lower, upper in sorting_network(n):
        a, b = rows[:, lower], rows[:, upper]
        rows[:, lower], rows[:, upper] = np.minimum(a, b), np.maximum(a, b)
    assert (np.diff(rows, axis=1) >= 0).all()


@pytest.mark.parametrize(("n_parties", "t"), [ROSTERS[0], ROSTERS[-1]])
def test_a_vector_is_sorted(n_parties, t):
    async def body(c, x):
        return await c.sort(x)

    np.testing.assert_array_equal(opened(body, X, bound=9, n_parties=n_parties, t=t), np.sort(X))


def test_rows_travel_with_their_first_column():
    x = np.stack([RNG.permutation(9), np.arange(9)], axis=1)

    async def body(c, shared):
        return await c.sort(shared)

    async def largest(c, shared):
        return await c.top_k(shared, 4)

    ordered = x[x[:, 0].argsort()]
    np.testing.assert_array_equal(opened(body, x, bound=9), ordered)
    np.testing.assert_array_equal(opened(largest, x, bound=9), ordered[::-1][:4])


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_the_median_is_the_lower_middle_one(n):
    async def body(c, x):
        return await c.median(x)

    assert opened(body, X[:n], bound=9) == np.sort(X[:n])[(n - 1) // 2]


@pytest.mark.parametrize("x", [[4], [4, 4], [1, 2], [3, 1, 3, 1, 2, 3]])
def test_different_values_are_counted(x):
    async def body(c, shared):
        return await c.count_distinct(shared)

    assert opened(body, x, bound=9) == len(set(x))


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8])
def test_one_place_is_marked_and_looked_up(length):
    index = np.arange(length)
    table = RNG.integers(-9, 10, (length, 2))

    async def marked(c, i):
        return await c.one_hot(i, length)

    async def found(c, i, t):
        return await c.lookup(t, i)

    np.testing.assert_array_equal(opened(marked, index, bound=9), np.eye(length, dtype=int))
    np.testing.assert_array_equal(opened(found, index, table, bound=9), table[index])


def test_a_table_is_looked_up_at_places_of_any_shape():
    index = np.array([[0, 5, 2], [2, 6, 1]])
    table = RNG.integers(-9, 10, (7, 3))

    async def body(c, i, t):
        return await c.lookup(t, i)

    np.testing.assert_array_equal(opened(body, index, table, bound=9), table[index])


@pytest.mark.parametrize("n_parties", [3, 4])
def test_a_shuffle_keeps_rows_and_changes_their_order(n_parties):
    x = np.stack([np.arange(50), 2 * np.arange(50)], axis=1)

    async def body(c, shared):
        return await c.shuffle(shared)

    got = opened(body, x, bound=100, n_parties=n_parties)
    np.testing.assert_array_equal(got[got[:, 0].argsort()], x)
    assert (got != x).any()


def test_an_order_of_three_is_uniform_over_runs():
    async def body(c, x):
        return np.stack([await c.shuffle(x) for _ in range(10)])

    n_runs = 300
    orders = [
        tuple(order) for seed in range(n_runs // 10) for order in opened(body, [0, 1, 2], bound=2, seed=str(seed))
    ]
    counts = [orders.count(order) for order in itertools.permutations(range(3))]
    assert sum(counts) == n_runs
    assert sum((count - n_runs / 6) ** 2 / (n_runs / 6) for count in counts) < 25  # chi-squared, 5 degrees: p = 1e-4


def test_of_each_committee_the_outsider_gets_fresh_shares_only():
    """What a party receives while others order it: messages of the committee alone, of the size of the array."""

    async def body(c, x):
        return await c.shuffle(x)

    network, _ = run_shared(body, X, bound=9)
    stages = {m.stage for m in network.transcript if "/order " in m.stage}
    assert stages == {f"computation/order {a} {b}" for a, b in itertools.combinations((1, 2, 3), 2)}
    for message in network.transcript:
        if "/order " in message.stage:
            assert str(message.sender) in message.stage.split("order ")[1].split()


def test_an_order_of_many_words_has_each_place_once():
    order = permutation(KeyStream(bytes(32)), 1000)
    assert sorted(order) == list(range(1000))


def test_more_than_one_reader_is_not_shuffled_against():
    async def body(c, x):
        return await c.shuffle(x)

    with pytest.raises(LocalFaultError, match="one party that reads along"):
        opened(body, X, bound=9, n_parties=5, t=2)


def test_shapes_that_have_no_order_are_refused():
    async def cube(c, x):
        return await c.sort(x.reshape(1, 1, -1))

    async def too_many(c, x):
        return await c.top_k(x, 12)

    for body in (cube, too_many):
        with pytest.raises(ShapeError):
            opened(body, X, bound=9)
