"""The proof that rows which members have dealt keep their norm, among all members of a computation.

Its numbers, and why they suffice, are in `mpc.proofs.norm_bound`. It is awaited when everybody has its shares of all
rows, and before anything is computed with them that is opened.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.arithmetic.words import Words
from mpc.errors import InconsistentSharesError, PeerViolationError
from mpc.proofs.coin import PublicCoin
from mpc.proofs.folding import Schedule
from mpc.proofs.inner_products import Proofs, Statement, Vectors
from mpc.proofs.norm_bound import N_PROJECTIONS, NormBound
from mpc.proofs.projections import column_factors, projected
from mpc.protocol.exchange import ShareExchange

PROJECTIONS_STAGE = "projections"
"""The stage in which compute parties open masked projections to each other. It needs the commit, as the opening does:
what is opened there is a release (`party.gate`)."""

NAME = "norms"
MASKS_STAGE = f"masks of {NAME}"

FIRST_ROWS = 24
"""Rows of the first fold; see `Schedule`."""


@dataclass(frozen=True, eq=False)
class DealtRows:
    """The rows of all dealers as one member holds them, completed by squares.

    Attributes:
        bounds: dealer to what is to be proven of its rows.
        n_rows: n, the same for all dealers.
        shares: dealer to my share, shape (n_words, n, whole width), degree t; empty where I hold no shares.
        mine: my own rows as elements, of the same shape; None if I deal none. Secret.
        masks: my own masks, integers of shape (N_PROJECTIONS,); None if I deal no rows. Secret.
    """

    bounds: Mapping[int, NormBound]
    n_rows: int
    shares: Mapping[int, Words] = field(repr=False)
    mine: Words | None = field(repr=False)
    masks: NDArray[Any] | None = field(repr=False)


@dataclass(frozen=True)
class ProofOfWhat:
    """Names of the stages of a proof, and of what it is about.

    Attributes:
        name: begins the names of stages.
        masks: stage in which masks are dealt.
        projections: stage in which projections are opened.
        rows: what is dealt, in words.
    """

    name: str = NAME
    masks: str = MASKS_STAGE
    projections: str = PROJECTIONS_STAGE
    rows: str = "rows"


ROWS = ProofOfWhat()


async def prove_norms(
    exchange: ShareExchange, rows: DealtRows, commit: Callable[[], Awaitable[None]] | None, what: ProofOfWhat = ROWS
) -> None:
    """Prove that my rows keep their norm, and verify that those of all others do.

    Args:
        exchange: dealing and taking of shares, in a field of an order above `NormBound.order_needed` of all dealers.
        rows: rows of all dealers.
        commit: makes what the projections cost spent; awaited by dealers before anything of them can be opened. None
            where they tell nothing.
        what: what the rows are.

    Raises:
        PeerViolationError: names a dealer of which a row does not have its norm; or a member that sent a wrong share
            where that can be told.
        InconsistentSharesError: shares contradict each other: a dealer's, or those of whoever opened them.
        PeerError: a member is silent or drops out. Nobody may.

    Privacy: t parties learn the masked projections of each dealer and nothing else; `dp.mechanism.norm_proof`.
    Soundness: `mpc.proofs.norm_bound` and `Schedule.log2_error`; below 2^-40 for each dealer.
    Cost: 4 rounds, and those of `Proofs.check` with a coin; a dealer sends N_PROJECTIONS + 6 elements, 12 with bits,
    and its answers, parties open N_PROJECTIONS for each dealer.
    """
    if not rows.n_rows:
        return
    session, parties = exchange.session, range(1, exchange.n_parties + 1)
    listeners = [dealer for dealer in rows.bounds if dealer not in parties]
    coin = PublicCoin(session, exchange.n_parties, what.name, listeners)
    proofs = Proofs(exchange, coin, what.name)
    secrets, shares = await _deal_masks(exchange, rows, proofs, what.masks)
    stream = await coin.toss()
    of_products = KeyStream(stream.read(32))
    if rows.mine is not None and commit is not None:
        await commit()
    if exchange.am_receiver:
        await _open_projections(exchange, rows, shares, stream, what)
    statements = await session.compute(_statements, exchange, rows, proofs, secrets, shares)
    await proofs.check(statements, coin=of_products)


async def _deal_masks(
    exchange: ShareExchange, rows: DealtRows, proofs: Proofs, stage: str
) -> tuple[Words | None, dict[int, Words]]:
    """Deal masks of projections, and of the proof behind them; return mine as elements, and my shares of all."""
    me, field_ = exchange.session.me, exchange.field

    def n_masks(bound: NormBound) -> int:
        return N_PROJECTIONS + len(schedules_of(bound, rows.n_rows)) * int(np.prod(proofs.mask_shape))

    mine: Words | None = None
    shares: dict[int, Words] = {}
    if rows.masks is not None:
        stream = KeyStream(exchange.session.entropy.read(32))
        masks = field_.encode(rows.masks), field_.random(stream, n_masks(rows.bounds[me]) - N_PROJECTIONS)
        mine = np.concatenate(masks, axis=1)
        own = await exchange.deal(stage, 0, mine, exchange.t)
        if own is not None:
            shares[me] = own
    if exchange.am_receiver:
        shapes = {dealer: (n_masks(bound),) for dealer, bound in rows.bounds.items() if dealer != me}
        shares |= await exchange.take_all(shapes, stage, 0, exchange.t)
    return mine, shares


async def _open_projections(
    exchange: ShareExchange, rows: DealtRows, masks: Mapping[int, Words], coin: KeyStream, what: ProofOfWhat
) -> None:
    session, field_ = exchange.session, exchange.field

    def share() -> Words:
        of_bound = {bound: column_factors(coin, bound) for bound in dict.fromkeys(rows.bounds.values())}
        factors = [of_bound[bound] for bound in rows.bounds.values()]
        found = projected(field_, coin, [rows.shares[dealer] for dealer in rows.bounds], factors)
        hiding = np.stack([masks[dealer][:, :N_PROJECTIONS] for dealer in rows.bounds], axis=1)
        return field_.add(found, hiding)

    mine = await session.compute(share)
    parties = range(1, exchange.n_parties + 1)
    t = exchange.t
    opening = await exchange.open(what.projections, mine, mine.shape[1:], t, parties, deviating=t)
    assert opening is not None, "every party receives"
    if opening.wrong:  # a dealer's doing, or that of whoever sent it: nobody can tell
        raise InconsistentSharesError("shares of projections lie on no polynomial of degree t")
    values = await session.compute(field_.decode, opening.words)
    for (dealer, bound), projections in zip(rows.bounds.items(), values, strict=True):
        if max(-int(projections.min()), int(projections.max())) > bound.largest_projection:
            text = f"{session.names[dealer]} shared {what.rows} beyond their bound"
            raise PeerViolationError(dealer, what.projections, text)


def schedules_of(bound: NormBound, n_rows: int) -> list[Schedule]:
    """Return how what is proven of a dealer's rows is folded: their norms, then their bits where there are any.

    It proves its own alone, and everybody verifies those of all.
    """
    n_parts = len(bound.squared_norms)
    norms = Schedule(n_rows * n_parts, bound.whole_width // n_parts, FIRST_ROWS)
    return [norms] if bound.bit is None else [norms, Schedule(n_rows)]


def _statements(
    exchange: ShareExchange, rows: DealtRows, proofs: Proofs, secrets: Words | None, masks: Mapping[int, Words]
) -> list[Statement]:
    """Return the claims of each dealer: its rows have the squared norm of their bound, bits are their squares."""
    field_, me = exchange.field, exchange.session.me

    def squares(dealt_rows: Words, bound: NormBound, dealt: Words) -> list[Vectors]:
        values = bound.squared(field_, dealt_rows)
        vectors = [values] if bound.bit is None else [values, np.ascontiguousarray(values[:, :, bound.bit])]
        hiding = dealt[:, N_PROJECTIONS:].reshape(field_.n_words, len(vectors), *proofs.mask_shape)
        return [Vectors([one], [one], np.ascontiguousarray(hiding[:, i])) for i, one in enumerate(vectors)]

    def claimed(values: Words, bound: NormBound) -> list[Words]:
        norms = np.tile(field_.encode(np.array(bound.squared_norms, dtype=object)), rows.n_rows)
        if bound.bit is None:
            return [norms]
        bits = np.ascontiguousarray(values[:, :, bound.bit])
        return [field_.add(norms, bits), bits]

    statements: list[Statement] = []
    for dealer, bound in rows.bounds.items():
        schedules = schedules_of(bound, rows.n_rows)
        shares: Sequence[Vectors | None] = [None] * len(schedules)
        claims: Sequence[Words | None] = [None] * len(schedules)
        own: Sequence[Vectors | None] = [None] * len(schedules)
        if exchange.am_receiver:
            shares = squares(rows.shares[dealer], bound, masks[dealer])
            claims = claimed(rows.shares[dealer], bound)
        if dealer == me and rows.mine is not None and secrets is not None:
            own = squares(rows.mine, bound, secrets)
        for schedule, share, claim, mine in zip(schedules, shares, claims, own, strict=True):
            told = None if claim is None else [claim]
            statements.append(Statement(dealer, 0, schedule, share, told, mine, len(statements)))
    return statements
