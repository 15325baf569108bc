"""Running a program of all members in one process: for first steps, tests and simulations."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from numpy.typing import ArrayLike

from entropy import SystemEntropy
from mpc.arithmetic.field import ResidueField
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.computation import Computation
from mpc.protocol.concurrency import run_together
from mpc.protocol.session import COORDINATOR, Session

Program = Callable[[Computation, ArrayLike | None], Awaitable[Any]]
"""What every member runs: its end of the computation, and its own values (None if it has none)."""


async def run_program(
    network: LocalNetwork,
    program: Program,
    values: Mapping[int, ArrayLike],
    *,
    field: ResidueField,
    n_parties: int,
    t: int,
    kind: type[Computation] = Computation,
) -> dict[int, Any]:
    """Run a program at every member of an in-process network, to the end of each.

    Args:
        network: its members are the coordinator, compute parties 1..n_parties, input-only parties.
        program: run by all, the coordinator included.
        values: values of the members that have any.
        field: field of all shares.
        n_parties: compute parties.
        t: how many of them may collude.
        kind: class of the computation: `mpc.proofs.products.ProvenComputation` where members may deviate.

    Returns:
        Member number to what its program returned, or to the `ProtocolError` that ended it.
    """

    async def member(session: Session) -> Any:
        return await _run_member(session, program, values, field, n_parties, t, kind)

    return await network.run(dict.fromkeys(network.names, member))


def run_program_locally(
    program: Program,
    values: Mapping[int, ArrayLike],
    *,
    n_parties: int = 3,
    t: int = 1,
    n_owners: int = 0,
    field: ResidueField | None = None,
    kind: type[Computation] = Computation,
) -> Any:
    """Run a program among compute parties, input-only parties and a coordinator, all in this process.

    Args:
        program: run by all members.
        values: member number to its own values: 1..n_parties are compute parties, the n_owners after them input-only.
        n_parties: compute parties.
        t: how many of them may collude.
        n_owners: input-only parties.
        field: field of all shares; default: three primes, 63 bits.
        kind: class of the computation, as in `run_program`.

    Returns:
        What the coordinator's program returned.

    Raises:
        ProtocolError: the first one that a member's program raised; it ends the others.
    """
    network = LocalNetwork(local_names(n_parties, n_owners), entropy_of=lambda _: SystemEntropy())
    chosen = field or ResidueField(3)

    async def run_all() -> list[Any]:
        sessions = map(network.session, network.names)
        return await run_together(*(_run_member(s, program, values, chosen, n_parties, t, kind) for s in sessions))

    return dict(zip(network.names, asyncio.run(run_all()), strict=True))[COORDINATOR]


async def _run_member(
    session: Session,
    program: Program,
    values: Mapping[int, ArrayLike],
    field: ResidueField,
    n_parties: int,
    t: int,
    kind: type[Computation],
) -> Any:
    computation = await kind.start(session, field, n_parties, t)
    return await program(computation, values.get(session.me))
