"""Small programs on shared arrays, run at all members in this process."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np
from virtual_time import run_in_virtual_time

from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.errors import ProtocolError
from mpc.local.network import LocalNetwork, local_names
from mpc.local.simulation import run_program
from mpc.protocol.computation import Computation
from mpc.protocol.session import COORDINATOR
from mpc.protocol.shared import SharedArray

ROSTERS = [(3, 1), (4, 1), (5, 2)]
"""N and t: without surplus, with surplus, and with three dealers of masks."""

Body = Callable[..., Awaitable[SharedArray]]


def opened(
    body: Body,
    *values: Any,
    bound: int,
    n_parties: int = 3,
    t: int = 1,
    field: ResidueField | None = None,
    seed: str = "",
) -> np.ndarray:
    """Return what the coordinator opens of `body(c, *shared)`; party i has shared the i-th of the values."""
    _, results = run_shared(body, *values, bound=bound, n_parties=n_parties, t=t, field=field, seed=seed)
    return results[COORDINATOR]


def run_shared(
    body: Body,
    *values: Any,
    bound: int,
    n_parties: int = 3,
    t: int = 1,
    field: ResidueField | None = None,
    seed: str = "",
) -> tuple[LocalNetwork, Mapping[int, Any]]:
    """Return the network after the run, and what each member opened; the first error of a member is raised."""
    arrays = {dealer: np.asarray(value) for dealer, value in enumerate(values, 1)}

    async def program(c: Computation, mine: Any) -> np.ndarray | None:
        shared = [
            await c.input(d, array.shape, array if d == c.me else None, bound=bound) for d, array in arrays.items()
        ]
        result = await c.open(await body(c, *shared))
        return None if result is None else result.values

    network = LocalNetwork(local_names(n_parties), entropy_of=lambda member: InsecureTestEntropy(f"{seed} {member}"))
    chosen = field or ResidueField(3)
    results = run_in_virtual_time(run_program(network, program, {}, field=chosen, n_parties=n_parties, t=t))
    for result in results.values():
        if isinstance(result, ProtocolError):
            raise result
    return network, results
