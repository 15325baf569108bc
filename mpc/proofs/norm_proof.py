"""The proof that rows which members have dealt keep their norm, among all members of a computation.

Its numbers, and why they suffice, are in `mpc.proofs.norm_bound`. It is awaited when everybody has its shares of all
rows, and before anything is computed with them that is opened.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.arithmetic.balanced import balanced, packed, reduce_in_place
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.kernels import Floats
from mpc.arithmetic.words import Words
from mpc.errors import InconsistentSharesError, PeerViolationError
from mpc.proofs.coin import PublicCoin
from mpc.proofs.folding import Schedule
from mpc.proofs.inner_products import Proofs, Statement, Vectors
from mpc.proofs.norm_bound import N_PROJECTIONS, NormBound
from mpc.proofs.projections import N_PAIRS, RowFactors, column_factors, projected, projections_of
from mpc.protocol.exchange import ShareExchange

PROJECTIONS_STAGE = "projections"
"""The stage in which compute parties open masked projections to each other. It needs the commit, as the opening does:
what is opened there is a release (`party.gate`)."""

NAME = "norms"
MASKS_STAGE = f"masks of {NAME}"
COMBINATIONS_STAGE = f"combinations of {NAME}"

FIRST_ROWS = 24
"""Rows of the first fold; see `Schedule`."""

FEW_ROWS = 1 << 10
"""Rows up to which each party combines its shares by itself; of more the dealer deals the combinations."""


@dataclass(frozen=True, eq=False)
class DealtRows:
    """The rows of all dealers as one member holds them, completed by squares.

    Attributes:
        bounds: dealer to what is to be proven of its rows.
        n_rows: n, the same for all dealers.
        shares: dealer to my share, shape (n_words, n, whole width), degree t; empty where I hold no shares.
        mine: my own rows as elements, of the same shape; None if I deal none. Secret.
        integers: the same as integers, shape (n, whole width), where I have them. Secret.
        masks: my own masks, integers of shape (N_PROJECTIONS,); None if I deal no rows. Secret.
    """

    bounds: Mapping[int, NormBound]
    n_rows: int
    shares: Mapping[int, Words] = field(repr=False)
    mine: Words | None = field(repr=False)
    masks: NDArray[Any] | None = field(repr=False)
    integers: NDArray[Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ProofOfWhat:
    """Names of the stages of a proof, and of what it is about.

    Attributes:
        name: begins the names of stages.
        masks: stage in which masks are dealt.
        combinations: stage in which combinations of rows are dealt, where these are many.
        projections: stage in which projections are opened.
        rows: what is dealt, in words.
    """

    name: str = NAME
    masks: str = MASKS_STAGE
    combinations: str = COMBINATIONS_STAGE
    projections: str = PROJECTIONS_STAGE
    rows: str = "rows"

    @classmethod
    def under(cls, stage: str, rows: str) -> "ProofOfWhat":
        """Return names of stages that begin with a stage of their own."""
        return cls(f"{stage} bounds", f"{stage} masks", f"{stage} combinations", f"{stage} projections", rows)


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
    Soundness: `mpc.proofs.norm_bound`, `mpc.proofs.projections` and `Schedule.log2_error`; below 2^-40 for each dealer.
    Cost: 4 rounds, 5 with more than `FEW_ROWS`, and those of `Proofs.check` with a coin; a dealer sends
    N_PROJECTIONS + 6 elements, 12 with bits, and its answers, parties open N_PROJECTIONS for each dealer. With more
    than `FEW_ROWS` a dealer sends N_PROJECTIONS elements besides for each column.
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
    sigmas = await session.compute(_factors_of, stream, rows.bounds)
    combinations = await _deal_combinations(exchange, rows, stream, what) if deals_combinations(rows.n_rows) else None
    if exchange.am_receiver:
        await _open_projections(exchange, rows, shares, combinations, sigmas, stream, what)
    statements = await session.compute(_statements, exchange, rows, proofs, secrets, shares)
    also = None if combinations is None else partial(combinations.differences, exchange.field, rows.shares)
    await proofs.check(statements, coin=of_products, also=also)


def _factors_of(coin: KeyStream, bounds: Mapping[int, NormBound]) -> list[Floats]:
    """Return sigma of each dealer, the same for equal bounds."""
    drawn = {bound: column_factors(coin, bound) for bound in dict.fromkeys(bounds.values())}
    return [drawn[bound] for bound in bounds.values()]


@dataclass(frozen=True, eq=False, repr=False)
class _Combinations:
    """What dealers claim to be combinations of their rows.

    Attributes:
        rho: factors of the rows.
        dealt: dealer to my share of R, balanced residues of shape (n_primes, N_PROJECTIONS, whole width).
    """

    rho: RowFactors
    dealt: Mapping[int, Floats]

    def differences(self, field: ResidueField, rows: Mapping[int, Words], coin: KeyStream) -> dict[int, Words]:
        """Return shares of a' R b - (rho a)' Y b, which is 0, for random a and b; shape (n_words, N_PAIRS) each."""
        a = balanced(field, field.random(coin, (N_PAIRS, N_PROJECTIONS)))
        of_rows = self.rho.weighted(field, a, [rows[dealer] for dealer in self.dealt])
        found = {}
        for (dealer, combined), total in zip(self.dealt.items(), of_rows, strict=True):
            b = balanced(field, field.random(coin, (N_PAIRS, combined.shape[2])))
            difference = reduce_in_place(field, a @ combined - total)
            products = np.ascontiguousarray((difference * b).sum(axis=2))  # of at most 2^12 columns: exact
            found[dealer] = packed(field, reduce_in_place(field, products))
        return found


async def _deal_combinations(
    exchange: ShareExchange, rows: DealtRows, coin: KeyStream, what: ProofOfWhat
) -> _Combinations:
    """Deal combinations of my rows, take those of others; the coin drew the factors of columns before."""
    session, field_, me = exchange.session, exchange.field, exchange.session.me
    rho = await session.compute(RowFactors, coin, rows.n_rows)
    dealt: dict[int, Words] = {}
    if rows.mine is not None:
        mine, integers = rows.mine, rows.integers

        def combined() -> Words:
            if integers is None:
                return packed(field_, rho.combined(field_, mine))
            found = rho.combined_integers(integers)
            return field_.pack([found % p for p in field_.primes])

        own = await exchange.deal_made(what.combinations, 0, combined, exchange.t)
        if own is not None:
            dealt[me] = own
    if exchange.am_receiver:
        shapes = {dealer: (N_PROJECTIONS, b.whole_width) for dealer, b in rows.bounds.items() if dealer != me}
        dealt |= await exchange.take_all(shapes, what.combinations, 0, exchange.t)
    in_order = {dealer: balanced(field_, dealt[dealer]) for dealer in rows.bounds if dealer in dealt}
    return _Combinations(rho, in_order)


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
    exchange: ShareExchange,
    rows: DealtRows,
    masks: Mapping[int, Words],
    combinations: _Combinations | None,
    factors: Sequence[Floats],
    coin: KeyStream,
    what: ProofOfWhat,
) -> None:
    session, field_ = exchange.session, exchange.field

    def share() -> Words:
        if combinations is None:
            found = projected(field_, coin, [rows.shares[dealer] for dealer in rows.bounds], factors)
        else:
            pairs = zip(combinations.dealt.values(), factors, strict=True)
            found = np.stack([projections_of(field_, combined, sigma) for combined, sigma in pairs], axis=1)
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


def deals_combinations(n_rows: int) -> bool:
    """Return whether dealers of so many rows deal their combinations."""
    return n_rows > FEW_ROWS


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
