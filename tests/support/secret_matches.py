"""Matches under shares among all members over the in-process network, and what each of them sees."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from virtual_time import run_in_virtual_time

from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.opening import open_shares
from mpc.errors import ProtocolError
from mpc.local.network import LocalNetwork, Message, local_names
from mpc.local.simulation import run_program
from mpc.matching.secret import SecretMatch, match_secretly
from mpc.matching.secret_terms import SecretTerms
from mpc.protocol.computation import Computation


def ids_of(names: np.ndarray | list | range) -> np.ndarray:
    """The id of each name, shape (n, 32)."""
    digests = b"".join(hashlib.sha256(b"id %d" % name).digest() for name in names)
    return np.frombuffer(digests, dtype=np.uint8).reshape(-1, 32)


@dataclass(frozen=True)
class Match:
    """What came of a match.

    Attributes:
        rows: the joint rows, opened; shape (n_slots, all columns).
        matched: the bit of each slot, opened.
        ends: each compute party's end.
        transcript: every message.
        field: of the shares.
    """

    rows: np.ndarray
    matched: np.ndarray
    ends: Mapping[int, SecretMatch]
    transcript: list[Message]
    field: ResidueField


def run_match(
    tables: Mapping[int, tuple[Any, np.ndarray]],
    *,
    most_rows: Mapping[int, int] | None = None,
    n_parties: int = 3,
    n_primes: int = 2,
    height: int = 64,
    seed: str = "match",
    entropy_seed: str | None = None,
) -> Match:
    """Match the rows of some owners and mask them.

    Args:
        tables: owner to the names of its rows, and its rows of integers.
        most_rows: what owners declare; default: the rows that they have.
        n_parties: compute parties.
        n_primes: of the field.
        height: rows of a block.
        seed: name of the job, and of the members' randomness.
        entropy_seed: of the members' randomness, where it is another one.

    Raises:
        ProtocolError: the first that a member's end raised.
    """
    field = ResidueField(n_primes)
    declared = dict(most_rows or {owner: max(1, len(names)) for owner, (names, _) in tables.items()})
    terms = SecretTerms(tuple(tables), declared, n_parties)
    widths = {owner: rows.shape[1] for owner, (_, rows) in tables.items()}

    async def program(c: Computation, _: Any) -> Any:
        if not c.holds_shares:
            return None
        own = tables.get(c.me)
        match = await match_secretly(c, terms, None if own is None else ids_of(own[0]))
        mine = None if own is None else (lambda part: own[1][part])
        rows = await match.share_rows(widths, mine, height=height)
        return match, [x.share async for _, x in match.masked(rows, height=height)]

    network = LocalNetwork(
        local_names(n_parties, 0),
        entropy_of=lambda member: InsecureTestEntropy(f"{entropy_seed or seed} {member}"),
        job_id=seed,
    )
    ended = run_in_virtual_time(run_program(network, program, {}, field=field, n_parties=n_parties, t=1))
    for error in ended.values():
        if isinstance(error, ProtocolError):
            raise error
    parties = range(1, n_parties + 1)
    ends = {p: ended[p][0] for p in parties}

    def opened(shares: Mapping[int, np.ndarray]) -> np.ndarray:
        words = open_shares({p: s.reshape(field.n_words, -1) for p, s in shares.items()}, 1, field).words
        return np.asarray(field.decode(words), dtype=np.int64).reshape(shares[1].shape[1:])

    rows = opened({p: np.concatenate(ended[p][1], axis=1) for p in parties})
    return Match(rows, opened({p: ends[p].matched.share for p in parties}), ends, network.transcript, field)


def plain_join(tables: Mapping[int, tuple[Any, np.ndarray]]) -> list[tuple[int, ...]]:
    """The rows that all owners have, in no order: sorted."""
    places = {owner: {int(name): i for i, name in enumerate(names)} for owner, (names, _) in tables.items()}
    common = set.intersection(*(set(place) for place in places.values()))
    rows = [np.concatenate([tables[o][1][places[o][name]] for o in tables]) for name in common]
    return sorted(tuple(row.tolist()) for row in rows)
