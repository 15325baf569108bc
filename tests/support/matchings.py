"""Matches among owners in one process, with short ids and the whole record of messages."""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from virtual_time import run_in_virtual_time

from entropy import InsecureTestEntropy
from mpc.local.network import Fault, LocalNetwork, local_names
from mpc.matching.revealed import match_revealed
from mpc.protocol.pairwise import EphemeralKey, pairwise_secret
from mpc.protocol.session import Session

DEADLINE_S = 100.0
"""Of virtual time."""

Tamper = Callable[[LocalNetwork], Fault]


def id_of(row: Any) -> bytes:
    return hashlib.sha256(f"row {row}".encode()).digest()


def ids_of(rows: Sequence[Any]) -> np.ndarray:
    return np.frombuffer(b"".join(map(id_of, rows)), dtype=np.uint8).reshape(-1, 32)


def secrets_of(session: Session, members: Collection[int], job_id: str = "") -> dict[int, Any]:
    """The pairwise secrets of a member, as they would be agreed on, without the messages."""
    binding = session.binding + job_id.encode()
    keys = {member: EphemeralKey(InsecureTestEntropy(f"key of {member}")) for member in members}
    me = session.me
    return {
        peer: pairwise_secret(keys[me], keys[peer].public_bytes, binding=binding, my_number=me, their_number=peer)
        for peer in members
        if peer != me
    }


def network_of(n_members: int, *, fault: Tamper | None = None, seed: str = "", job_id: str = "local") -> LocalNetwork:
    network = LocalNetwork(
        local_names(n_members),
        job_id=job_id,
        deadline_s=DEADLINE_S,
        entropy_of=lambda member: InsecureTestEntropy(f"{seed} {member}"),
    )
    if fault is not None:
        network.fault = fault(network)
    return network


def match(
    rows: Mapping[int, Sequence[Any]],
    sizes: Mapping[int, int] | None = None,
    *,
    n_members: int | None = None,
    network: LocalNetwork | None = None,
    absent: Collection[int] = (),
    ended: list[int] | None = None,
) -> dict[int, Any]:
    """What each member returns, or the error that ended it.

    Args:
        rows: of the owners, by member number; any names.
        sizes: declared; by default what each has.
        n_members: besides the coordinator; by default as many as are needed.
        network: of the members.
        absent: members that never send a message.
        ended: filled with the members in the order in which they end.
    """
    sizes = sizes or {owner: len(names) for owner, names in rows.items()}
    network = network or network_of(n_members or max(rows))
    n_members = max(network.names)

    async def member(session: Session) -> Any:
        ids = ids_of(rows[session.me]) if session.me in rows else None
        secrets = secrets_of(session, range(1, n_members + 1)) if session.me else {}
        try:
            return await match_revealed(session, list(rows), ids, sizes, secrets)
        finally:
            if ended is not None:
                ended.append(session.me)

    async def all_of_them() -> dict[int, Any]:
        return await network.run({m: member for m in network.names if m not in absent})

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_in_virtual_time(all_of_them())
    raise AssertionError("call it outside of a loop")


def matched_rows(rows: Mapping[int, Sequence[Any]], results: Mapping[int, Any]) -> list[Any]:
    """The names of the rows that matched, in the common order; all owners must agree."""
    found = {}
    for owner, names in rows.items():
        if isinstance(results[owner], Exception):
            raise results[owner]
        found[owner] = [names[row] for row in results[owner]]
    first, *others = found.values()
    assert all(other == first for other in others), found
    return first
