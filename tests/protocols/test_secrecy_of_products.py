"""Exhaustively, in GF(5): what any one party (and the coordinator) sees of a product depends on nothing but its value.

The real protocol runs once per pair of secrets, on arrays whose elements are all values of all honest randomness at
once: every pairwise stream is replaced by one axis of a grid. The view of a coalition is what its members receive and
derive; its distribution is the multiset of the views over the grid.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from virtual_time import run_in_virtual_time

from mpc.arithmetic.field import ResidueField
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.computation import Computation
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.session import COORDINATOR

P = 5
FIELD = ResidueField.over([P])
DEALER_A, DEALER_B = 2, 3


class Grid:
    """All values of `n_axes` field elements, one axis for each different stream that is asked for."""

    def __init__(self, n_axes: int) -> None:
        self.size = P**n_axes
        self.n_axes = n_axes
        self.axis_of: dict[tuple, int] = {}

    def values(self, key: tuple) -> np.ndarray:
        axis = self.axis_of.setdefault(key, len(self.axis_of))
        assert axis < self.n_axes, "more randomness than the grid has axes"
        return np.arange(self.size, dtype=np.uint64) // np.uint64(P**axis) % np.uint64(P)


@dataclass
class GridStream:
    values: np.ndarray

    def fill(self, words: np.ndarray) -> None:
        words[:], self.values = self.values[: words.size], self.values[words.size :]


class GridSecret:
    """Stands for a pairwise secret at one of its two ends. Blocks of one array are parts of one axis."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.streams: dict[tuple, GridStream] = {}

    def stream(self, dealer: int, receiver: int, label: str, block: int) -> GridStream:
        key = dealer, receiver, label
        return self.streams.setdefault(key, GridStream(self.grid.values(key)))


async def reduced(c: Computation, a, b):
    return await c.open(await c.multiply(a, b))


async def opened_as_it_is(c: Computation, a, b):
    return await c.open(a * b)


async def opened_without_a_sharing_of_zero(c: Computation, a, b):
    product = a * b
    await c._exchange.open("computation/opening 0", product.share, product.shape, 2, (COORDINATOR,))


def opened_under_numbers_of_degree(degree: int) -> Callable:
    """As `truncate` opens a product, with numbers of known values, 0, dealt with this degree: no sharing of zero."""

    async def finish(c: Computation, a, b):
        dealing = Computation(c._exchange, "numbers")  # whose streams have names of their own
        dealing._drawn_parts = lambda n_bits, n_values, sizes: FIELD.zeros(n_values)
        numbers = await dealing._random_sums(a.size, 1, degree)
        await c._opened_words(replace(a * b + numbers, bound=None), (COORDINATOR,), is_fresh=True)

    return finish


def run_grid(finish: Callable, n_axes: int, a: int, b: int) -> tuple[Grid, LocalNetwork]:
    grid = Grid(n_axes)
    network = LocalNetwork(local_names(3))

    async def member(session):
        secrets = {peer: GridSecret(grid) for peer in (1, 2, 3) if peer != session.me}
        c = Computation(ShareExchange(session, FIELD, 3, 1, secrets))
        mine = {DEALER_A: np.full(grid.size, a), DEALER_B: np.full(grid.size, b)}.get(session.me)
        shared = await c.inputs({DEALER_A: (grid.size,), DEALER_B: (grid.size,)}, mine, bound=2)
        a_shared, b_shared = (replace(shared[dealer], bound=None) for dealer in (DEALER_A, DEALER_B))
        return await finish(c, a_shared, b_shared)

    results = run_in_virtual_time(network.run(dict.fromkeys(network.names, member)))
    if results[COORDINATOR] is not None:
        np.testing.assert_array_equal(results[COORDINATOR].values % P, a * b % P)
    assert len(grid.axis_of) == n_axes
    return grid, network


def view_distribution(grid: Grid, network: LocalNetwork, coalition: tuple[int, ...]) -> np.ndarray:
    """How often each view occurs: a view is a number whose digits are what the coalition derives and receives."""
    digits = [grid.values(key) for key in sorted(grid.axis_of) if {key[0], key[1]} & set(coalition)]
    received: dict[tuple, list[np.ndarray]] = {}
    for m in network.transcript:
        if m.stage.endswith("/parameters"):
            continue  # a digest of what is public: field, N, t, name
        if m.receiver in coalition and m.sender not in coalition:
            received.setdefault((m.sender, m.receiver, m.stage), []).append(m.array.reshape(-1))
    digits += [np.concatenate(received[key]) for key in sorted(received)]
    numbers = sum(digit.astype(np.int64) * P**i for i, digit in enumerate(digits))
    return np.stack(np.unique(numbers, return_counts=True))


COALITIONS = [(party, *rest) for party in (1, 2, 3) for rest in ((), (COORDINATOR,))] + [(COORDINATOR,)]


def what_may_be_known(coalition: tuple[int, ...], a: int, b: int) -> tuple:
    """Its members' own inputs, and the product if the coordinator is among them."""
    return (
        a if DEALER_A in coalition else None,
        b if DEALER_B in coalition else None,
        a * b % P if COORDINATOR in coalition else None,
    )


def tells_more(finish: Callable, n_axes: int, values: range) -> set[tuple[int, ...]]:
    """Return the coalitions whose views differ between secrets that may not be told apart."""
    leaking = set()
    seen: dict[tuple, np.ndarray] = {}
    for a, b in itertools.product(values, repeat=2):
        grid, network = run_grid(finish, n_axes, a, b)
        for coalition in COALITIONS:
            views = view_distribution(grid, network, coalition)
            first = seen.setdefault((coalition, what_may_be_known(coalition, a, b)), views)
            if not np.array_equal(first, views):
                leaking.add(coalition)
    assert len(seen) < len(COALITIONS) * len(values) ** 2, "no two pairs of secrets were compared"
    return leaking


def test_the_messages_of_a_reduced_product_tell_one_party_nothing_but_its_value():
    assert tells_more(reduced, 5, range(-2, 3)) == set()


def test_a_product_opened_as_it_is_tells_one_party_nothing_but_its_value():
    assert tells_more(opened_as_it_is, 8, range(3)) == set()


def test_without_the_sharing_of_zero_the_opened_polynomial_tells_more_than_its_value():
    assert (COORDINATOR,) in tells_more(opened_without_a_sharing_of_zero, 2, range(-2, 3))


def test_a_product_under_numbers_dealt_with_its_degree_tells_one_party_nothing_but_its_value():
    """Numbers of degree t leave the product's polynomial as it is, and that the check finds."""
    assert tells_more(opened_under_numbers_of_degree(2), 6, range(3)) == set()
    assert tells_more(opened_under_numbers_of_degree(1), 4, range(3)) != set()
