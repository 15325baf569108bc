"""Small programs for tests: every way through a computation, with the values that come out."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np
from fault_injection import FIELD, Protocol

from entropy import InsecureTestEntropy
from mpc.local.network import local_names
from mpc.protocol.computation import Computation, OpenedArray
from mpc.protocol.equality import check_equal
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets
from mpc.protocol.greeting import binding_of
from mpc.protocol.hashkey import CONTRIBUTION_BYTES, HashKey, HashKeys, combine, commit, commitment_digest
from mpc.protocol.pairwise import SEED_BYTES
from mpc.protocol.session import COORDINATOR, Session
from mpc.protocol.shared import concatenate

X = np.array([3, -5, 7, 11])
Y = np.array([-2, 4, 6, 1])
A = np.array([[1, -2, 3], [4, 5, -6]])


def computation(
    name: str,
    program: Callable[[Computation, Any], Awaitable[OpenedArray | None]],
    values: Mapping[int, Any],
    expected: Mapping[int, Any],
    *,
    n_parties: int,
    t: int,
    n_owners: int = 0,
    n_steps: int = 4,
) -> Protocol:
    """Return a program as a protocol.

    Without surplus every wait is one deadline, and whoever waits for one that gave up waits one more. With surplus a
    member that holds no shares waits longest: for views 2 deadlines and 3 per step (`mpc.protocol.agreement`), then
    for shares. `n_steps` are the operations with rounds, the opening included.
    """

    async def member(session: Session) -> Any:
        c = await Computation.start(session, FIELD, n_parties, t)
        opened = await program(c, values.get(session.me))
        return None if opened is None else opened.values

    patience = 2 if n_parties == 2 * t + 1 else 3 + 3 * n_steps
    return Protocol(f"{name} among {n_parties}, t={t}", n_parties, t, member, expected, n_owners, patience=patience)


def key_agreement(n_parties: int, t: int) -> Protocol:
    async def member(session: Session) -> Any:
        secrets = await agree_pairwise_secrets(session, range(1, n_parties + 1), n_parties)
        return len(secrets)

    members = tuple(range(1, n_parties + 1))
    expected = dict.fromkeys(members, n_parties - 1)
    return Protocol(f"keys among {n_parties}", n_parties, t, member, expected, members=members)


def equality(n_parties: int, t: int) -> Protocol:
    members = tuple(range(1, n_parties + 1))

    async def member(session: Session) -> Any:
        secrets = await agree_pairwise_secrets(session, members, n_parties)
        exchange = ShareExchange(session, FIELD, n_parties, t, secrets)
        return await check_equal(exchange, members, members, "ids", b"the same everywhere")

    return Protocol(f"equality among {n_parties}", n_parties, t, member, {}, members=members)


def hash_key(n_parties: int, t: int) -> Protocol:
    """All parties agree on a key; what they return is a digest under it."""
    members, key_name = tuple(range(1, n_parties + 1)), "ids"
    name = f"hash key among {n_parties}"

    async def member(session: Session) -> Any:
        secrets = await agree_pairwise_secrets(session, members, n_parties)
        key = await HashKeys(session, members, secrets).agree(key_name)
        return np.frombuffer(key.digest(b"data"), dtype=np.uint8)

    drawn = {m: InsecureTestEntropy(f"{name} {m}").read(SEED_BYTES + CONTRIBUTION_BYTES)[SEED_BYTES:] for m in members}
    binding = binding_of("local", local_names(n_parties), b"")
    transcript = commitment_digest({m: commit(binding, key_name, members, m, drawn[m]) for m in members})
    digest = HashKey(combine(binding, key_name, transcript, drawn), key_name).digest(b"data")
    expected = dict.fromkeys(members, np.frombuffer(digest, dtype=np.uint8))
    return Protocol(name, n_parties, t, member, expected, members=members)


def opened_input(n_parties: int, t: int) -> Protocol:
    async def program(c: Computation, mine: Any) -> OpenedArray | None:
        return await c.open(await c.input(1, X.shape, mine, bound=100))

    return computation("input", program, {1: X}, {COORDINATOR: X}, n_parties=n_parties, t=t, n_steps=2)


def opened_product(n_parties: int, t: int) -> Protocol:
    async def program(c: Computation, mine: Any) -> OpenedArray | None:
        given = await c.inputs({1: X.shape, 2: Y.shape}, mine, bound=100)
        return await c.open(given[1] * given[2])

    return computation("product", program, {1: X, 2: Y}, {COORDINATOR: X * Y}, n_parties=n_parties, t=t, n_steps=2)


def two_layers(n_parties: int, t: int) -> Protocol:
    """Two reductions, then an opening to the coordinator and to the first party."""

    async def program(c: Computation, mine: Any) -> OpenedArray | None:
        given = await c.inputs({1: X.shape, 2: Y.shape}, mine, bound=100)
        product = await c.multiply(given[1], given[2])
        return await c.open(await c.multiply(product, given[1] + 1), (COORDINATOR, 1))

    right = X * Y * (X + 1)
    return computation("two layers", program, {1: X, 2: Y}, {COORDINATOR: right, 1: right}, n_parties=n_parties, t=t)


def matrix_product(n_parties: int, t: int) -> Protocol:
    """An input-only party's matrix times a compute party's, opened to that owner."""
    owner = n_parties + 1

    async def program(c: Computation, mine: Any) -> OpenedArray | None:
        given = await c.inputs({owner: A.shape, 2: A.shape}, mine, bound=100)
        return await c.open(await c.matmul(given[owner], given[2].T), (owner,))

    return computation(
        "matrix product", program, {owner: A, 2: 2 * A}, {owner: 2 * A @ A.T}, n_parties=n_parties, t=t, n_owners=1
    )


def masked_opening(n_parties: int, t: int) -> Protocol:
    """A random element hides the input; what is opened is their difference, to all parties, then corrected."""

    async def program(c: Computation, mine: Any) -> OpenedArray | None:
        given = await c.input(1, X.shape, mine, bound=100)
        mask = await c.random(X.shape)
        zero = await c.zeros(X.shape, 2 * c.t)
        return await c.open(given + (mask - mask) + zero, tuple(range(1, n_parties + 1)))

    right = dict.fromkeys(range(1, n_parties + 1), X)
    return computation("masked opening", program, {1: X}, right, n_parties=n_parties, t=t)


def gram(n_parties: int, t: int) -> Protocol:
    """The Gram matrix of what one party holds, to the coordinator."""

    async def program(c: Computation, mine: Any) -> OpenedArray | None:
        return await c.open(await c.gram(await c.input(2, A.shape, mine, bound=100)))

    return computation("gram", program, {2: A}, {COORDINATOR: A.T @ A}, n_parties=n_parties, t=t)


def dot(n_parties: int, t: int) -> Protocol:
    async def program(c: Computation, mine: Any) -> OpenedArray | None:
        given = await c.inputs({1: X.shape, 2: Y.shape}, mine, bound=100)
        return await c.open(await c.dot(given[1], given[2]))

    return computation("dot", program, {1: X, 2: Y}, {COORDINATOR: X @ Y}, n_parties=n_parties, t=t)


def polynomial(n_parties: int, t: int) -> Protocol:
    """A polynomial of degree 3, computed in two rounds of products."""

    async def program(c: Computation, mine: Any) -> OpenedArray | None:
        x = await c.input(3, X.shape, mine, bound=100)
        return await c.open(await c.polynomial(x, [1, 0, -2, 5]))

    right = {COORDINATOR: 1 - 2 * X**2 + 5 * X**3}
    return computation("polynomial", program, {3: X}, right, n_parties=n_parties, t=t)


def several_products(n_parties: int, t: int) -> Protocol:
    """Three products of different sizes reduced in one round; a segment holds parts of two of them."""

    async def program(c: Computation, mine: Any) -> OpenedArray | None:
        given = await c.inputs({1: X.shape, 2: Y.shape}, mine, bound=100)
        x, y = given[1], given[2]
        return await c.open(concatenate(await c.reduce_all([x * y, x[:3] * x[:3], y[1:] * x[1:]])))

    right = np.concatenate([X * Y, X[:3] ** 2, (X * Y)[1:]])
    return computation("several products", program, {1: X, 2: Y}, {COORDINATOR: right}, n_parties=n_parties, t=t)
