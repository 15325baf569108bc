"""Distributed zero-knowledge proofs of products: a prover knows the values of which the parties hold shares.

A statement says of two shared vectors x and y, and of shared (or public) h, that

    sum of x_i y_i over group c  =  h_c    modulo every prime, for all groups,

where x_i, y_i are the values of sharings of degree t at an abscissa: 0 for what an owner dealt; a party's own number
for the products of its own shares, which are points of polynomials that the others' shares determine as well. Several
members may prove statements about the same vectors at their own abscissas: the vectors are folded once.

The prover deals the answers of the folds (`mpc.proofs.folding`) with degree t. After the last fold the parties open
to each other, with degree t and all N shares considered: what must be 0, the two numbers left of each pair of vectors,
and the claim that is left, their product.

Soundness: at most t parties deviate, the prover among them. The N - t >= t + 1 honest shares fix what is opened, since
t wrong shares of N never lie on another polynomial of degree t. So a wrong statement is accepted with the probability
of `Schedule.log2_error` only. That includes shares of h or of answers on no polynomial of degree t: the map from what
honest parties hold to what is opened is linear, and the argument of `mpc.proofs.folding` holds in each coordinate.
A prover is named only if all shares agree: then what it dealt is wrong, whatever t others did.

Zero knowledge: t parties see t shares of each answer, uniform, and then opened polynomials. The one of two numbers is
uniform because the mask is a uniform polynomial, of which the prover alone, or nobody, knows more than its shares.
All others have t known points and a known value at 0. Source: [BBC+19], section 4; [BGIN20], section 4.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from entropy import KeyStream
from mpc.arithmetic.field import Weights as Residues
from mpc.arithmetic.opening import open_shares
from mpc.arithmetic.shamir import lagrange_weights
from mpc.errors import InconsistentSharesError, LocalFaultError, PeerError, PeerViolationError
from mpc.proofs.coin import PublicCoin
from mpc.proofs.folding import (
    REPETITIONS,
    Factors,
    Folded,
    Schedule,
    Weights,
    next_claim,
    weighted_claims,
    weighted_trace,
)
from mpc.protocol.concurrency import run_together
from mpc.protocol.exchange import ShareExchange, Words, check_from


@dataclass(frozen=True, eq=False, repr=False)
class Vectors:
    """Two vectors: my shares of them, or the secrets of a prover.

    Attributes:
        left: arrays of the first vector as they follow each other, shape (n_words, ...) each.
        right: arrays of the second one.
        masks: uniform elements, used here only, shared as the vectors are, shape (n_words, 2, repetitions).
    """

    left: Sequence[Words]
    right: Sequence[Words]
    masks: Words


@dataclass(frozen=True, eq=False, repr=False)
class Statement:
    """One prover's claim.

    Attributes:
        prover: member number.
        at: abscissa of the values that are multiplied.
        schedule: how many products there are.
        shares, claims: mine of the vectors, the same object in all statements about them, and arrays of those of the
            claimed sums; None if I hold no shares.
        secrets: values of the vectors at `at`, at the prover: the same object as `shares` if they are its shares.
        pair: public name of the vectors; statements with equal names are about the same ones.
        repetitions: how often it is proven, where not as often as others.
    """

    prover: int
    at: int
    schedule: Schedule
    shares: Vectors | None
    claims: Sequence[Words] | None
    secrets: Vectors | None
    pair: int = 0
    repetitions: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Total:
    """A weighted sum of the claims of all provers about two vectors, which alone counts for what follows.

    It is looked at in place of the single claims: one array for any number of provers. Only if it is wrong the claims
    are, to name who dealt a wrong one. Errors that cancel in it do no harm.

    Attributes:
        share: mine, arrays as they follow each other.
        factors: prover to the factor of its claims, residues modulo each prime.
    """

    share: Sequence[Words]
    factors: Mapping[int, Residues]


@dataclass
class _Pair:
    """The state of the proofs about two vectors. Claims and zeros are those of each prover, in order."""

    schedule: Schedule
    statements: list[Statement]
    repetitions: int
    total: Total | None = None
    shares: Folded | None = None
    secrets: Folded | None = None
    weights: Weights | None = None
    claims: list[Words] = field(default_factory=list)
    zeros: list[list[Words]] = field(default_factory=list)
    traces: list[Words] = field(default_factory=list)
    difference: Words | None = None

    def size(self, fold: int) -> int:
        """Numbers that a prover says in a fold."""
        rows = self.schedule.rows
        return 0 if fold >= len(rows) else self.repetitions * (rows[fold] + self.is_last(fold)) ** 2

    def is_last(self, fold: int) -> bool:
        return fold == len(self.schedule.rows) - 1


class Proofs:
    """One member's end of the proofs of a computation, as prover or verifier. All members call it alike.

    Nobody may drop out. Members are the compute parties, and owners without shares that prove.

    Args:
        exchange: dealing and taking of shares.
        coin: public coin of the same computation.
        name: begins the names of the stages.
        repetitions: how often each proof is repeated; fewer than `REPETITIONS` only to measure.
    """

    def __init__(self, exchange: ShareExchange, coin: PublicCoin, name: str, *, repetitions: int = REPETITIONS) -> None:
        self._exchange, self._coin = exchange, coin
        self._answers, self._opening = f"{name}/proof answers", f"{name}/proof opened"
        self._masks = f"{name}/proof masks"
        self._repetitions = repetitions
        self._n_masks = self._n_answers = 0

    @property
    def mask_shape(self) -> tuple[int, int]:
        """Shape of the masks of two vectors, without the axis of words."""
        return 2, self._repetitions

    async def joint_masks(self, n_pairs: int) -> list[Words]:
        """Return my shares of masks that nobody knows; for vectors whose values are parties' shares.

        Args:
            n_pairs: pairs of vectors, each of which has masks of its own.

        Cost: 1 round, 2 elements per pair and repetition.
        """
        stream = KeyStream(self._exchange.session.entropy.read(32))
        secret = self._exchange.field.random(stream, (n_pairs, *self.mask_shape))
        block, self._n_masks = self._n_masks, self._n_masks + 1
        shares = await self._exchange.deal_and_sum(self._masks, secret, self._exchange.t, block)
        return [np.ascontiguousarray(shares[:, pair]) for pair in range(n_pairs)]

    async def check(
        self,
        statements: Sequence[Statement],
        totals: Mapping[int, Total] | None = None,
        coin: KeyStream | None = None,
        also: Callable[[KeyStream], Mapping[int, Words]] | None = None,
    ) -> None:
        """Prove my statements and verify those of all others, all at once.

        Call it when everything that the statements are about has been dealt and received, masks included.

        Args:
            statements: the same ones in the same order at all members.
            totals: name of a pair of vectors to the sum of claims that counts; where there is none, each claim does.
            coin: a coin that was tossed when all of this had been received; none of its numbers were used for it.
            also: returns of the first fold's coin my shares of what must be 0 as well, by the member that dealt it.

        Raises:
            PeerViolationError: a statement is wrong, and names its prover; or a member sent what is no element, named.
            InconsistentSharesError: a member sent, or dealt before, shares that lie on no polynomial of degree t. Which
                of the two nobody can tell, so no member is named.
            PeerError: a member is silent or drops out.

        Cost: 2 rounds per fold and 1 more, and a toss without coin; a prover deals `Schedule.answers` per repetition.
        """
        by_name = self._pairs(statements)
        for name, total in (totals or {}).items():
            by_name[name].total = total
        pairs, coin = list(by_name.values()), coin or await self._coin.toss()
        for pair in pairs:
            pair.weights = Weights.draw(self._exchange.field, coin, pair.schedule, pair.repetitions)
        await self._exchange.session.compute(self._begin, pairs)
        zeros: Mapping[int, Words] = {}
        for fold in range(max((len(pair.schedule.rows) for pair in pairs), default=0)):
            answers = await self._answers_of_all(pairs, fold)
            coin = await self._coin.toss()
            factors = [self._factors(pair, fold, coin) for pair in pairs]
            await self._exchange.session.compute(self._fold, pairs, fold, answers, factors)
            if also is not None and fold == 0 and self._exchange.am_receiver:
                zeros = await self._exchange.session.compute(also, coin)
        if self._exchange.am_receiver:
            await self._open(pairs, zeros)

    # -- folding ---------------------------------------------------------------------------------------------------

    def _pairs(self, statements: Sequence[Statement]) -> dict[int, _Pair]:
        pairs: dict[int, _Pair] = {}
        for statement in statements:
            new = _Pair(statement.schedule, [], statement.repetitions or self._repetitions)
            pairs.setdefault(statement.pair, new).statements.append(statement)
        for pair in pairs.values():
            provers = [statement.prover for statement in pair.statements]
            if len(set(provers)) < len(provers):
                raise LocalFaultError("a prover makes one statement about two vectors")
        return pairs

    def _begin(self, pairs: Sequence[_Pair]) -> None:
        field, me = self._exchange.field, self._exchange.session.me
        for pair in pairs:
            assert pair.weights is not None
            shares = pair.statements[0].shares
            if shares is not None:
                pair.shares = Folded(field, pair.schedule, shares.left, shares.right, shares.masks)
            pair.zeros = [[] for statement in pair.statements if statement.claims is not None]
            if pair.zeros:
                counted = [s.claims or () for s in pair.statements] if pair.total is None else [pair.total.share]
                pair.claims = [weighted_claims(field, pair.schedule, pair.weights, claims) for claims in counted]
            for prover, secrets in ((statement.prover, statement.secrets) for statement in pair.statements):
                if prover == me and secrets is not None:
                    pair.secrets = pair.shares
                    if secrets is not shares:
                        pair.secrets = Folded(field, pair.schedule, secrets.left, secrets.right, secrets.masks)

    async def _answers_of_all(self, pairs: Sequence[_Pair], fold: int) -> dict[int, Words]:
        """Deal my answers of a fold, take those of others; return each prover's, of all pairs behind each other."""
        exchange, me, block = self._exchange, self._exchange.session.me, self._n_answers
        self._n_answers += 1
        sizes: dict[int, int] = {}
        for pair in pairs:
            for prover in (statement.prover for statement in pair.statements):
                sizes[prover] = sizes.get(prover, 0) + pair.size(fold)
        provers = [prover for prover, size in sizes.items() if size]
        answers: dict[int, Words] = {}
        if me in provers:
            words = await exchange.session.compute(self._my_answers, pairs, fold)
            share = await exchange.deal(self._answers, block, words, exchange.t)
            if share is not None:
                answers[me] = share
        if exchange.am_receiver:
            shapes = {prover: (sizes[prover],) for prover in provers if prover != me}
            answers |= await exchange.take_all(shapes, self._answers, block, exchange.t)
        return answers

    def _my_answers(self, pairs: Sequence[_Pair], fold: int) -> Words:
        n_words = self._exchange.field.n_words
        mine = [
            pair.secrets.answer(pair.weights).reshape(n_words, -1)
            for pair in pairs
            if pair.secrets is not None and pair.weights is not None and pair.size(fold)
        ]
        return np.concatenate(mine, axis=1)

    def _factors(self, pair: _Pair, fold: int, coin: KeyStream) -> Factors | None:
        if not pair.size(fold):
            return None
        masked = pair.is_last(fold)
        n_rows = pair.schedule.rows[fold] + masked
        return Factors.draw(self._exchange.field, coin, n_rows, masked=masked, repetitions=pair.repetitions)

    def _fold(
        self, pairs: Sequence[_Pair], fold: int, answers: dict[int, Words], factors: Sequence[Factors | None]
    ) -> None:
        field = self._exchange.field
        start = dict.fromkeys(answers, 0)
        for pair, chosen in zip(pairs, factors, strict=True):
            if chosen is None:
                continue
            assert pair.weights is not None
            masked, size = pair.is_last(fold), pair.size(fold)
            n_rows = pair.schedule.rows[fold] + masked
            told: list[Words] = []
            for statement in pair.statements[: len(pair.zeros)]:
                first = start[statement.prover]
                start[statement.prover] += size
                words = answers[statement.prover][:, first : first + size]
                told.append(words.reshape(field.n_words, pair.repetitions, n_rows, n_rows))
            rows = None if fold else pair.weights.rows
            traces = [weighted_trace(field, answer, rows, masked=masked) for answer in told]
            if told and fold == 0 and pair.total is not None:
                combined = field.combine(traces, [pair.total.factors[one.prover] for one in pair.statements])
                pair.traces, pair.difference = traces, field.subtract(combined, pair.claims[0])
            else:
                for zeros, trace, claim in zip(pair.zeros, traces, pair.claims, strict=True):
                    zeros.append(field.subtract(trace, claim))
            pair.claims = [next_claim(field, answer, chosen) for answer in told]
            for vectors in {id(v): v for v in (pair.shares, pair.secrets) if v is not None}.values():
                vectors.fold(pair.weights, chosen)

    # -- opening ---------------------------------------------------------------------------------------------------

    async def _open(self, pairs: Sequence[_Pair], also: Mapping[int, Words]) -> None:
        n_words = self._exchange.field.n_words
        parts: list[Words] = []
        for pair in pairs:
            assert pair.shares is not None, "a compute party holds shares of all vectors"
            parts.append(pair.shares.last().reshape(n_words, -1))
            for zeros, claim in zip(pair.zeros, pair.claims, strict=True):
                parts += [*zeros, claim]
            if pair.difference is not None:
                parts.append(pair.difference)
        shares = await self._shares_of_all(np.concatenate([*parts, *also.values()], axis=1))
        sizes = {dealer: words.shape[1] for dealer, words in also.items()}
        for pair in await self._exchange.compute(parts[0].size, self._judge, pairs, shares, sizes):
            await self._name_one(pair)

    async def _shares_of_all(self, mine: Words) -> dict[int, Words]:
        """Send my shares of what is opened to the other parties, return everybody's."""
        exchange, session = self._exchange, self._exchange.session
        others = [party for party in range(1, exchange.n_parties + 1) if party != session.me]
        await run_together(*(session.send(other, self._opening, mine) for other in others))
        arrived = await run_together(*(session.receive(other, self._opening, mine.shape) for other in others))
        for other, words in zip(others, arrived, strict=True):
            check_from(exchange.field, words, other, self._opening, session.names[other])
        return {session.me: mine} | dict(zip(others, arrived, strict=True))

    def _judge(self, pairs: Sequence[_Pair], shares: dict[int, Words], also: Mapping[int, int]) -> list[_Pair]:
        """Raise for the first statement that is wrong; return pairs of which only the total of claims is."""
        field, t = self._exchange.field, self._exchange.t
        opened, basis = self._opened(shares), sorted(shares)[: t + 1]
        wrong: list[_Pair] = []
        start = 0
        for pair in pairs:
            repetitions = pair.repetitions
            ends = slice(start, start + 2 * repetitions)
            start = ends.stop
            for statement, zeros in zip(pair.statements, pair.zeros, strict=True):
                n_zeros = repetitions * len(zeros)
                told, claim = opened[:, start : start + n_zeros], opened[:, start + n_zeros :][:, :repetitions]
                start += n_zeros + repetitions
                numbers = field.combine(
                    [shares[party][:, ends] for party in basis], lagrange_weights(field, basis, at=statement.at)
                )
                product = field.multiply(numbers[:, :repetitions], numbers[:, repetitions:])
                if told.any() or not np.array_equal(product, claim):
                    raise self._violation(statement.prover)
            if pair.difference is not None:
                wrong += [pair] if opened[:, start : start + repetitions].any() else []
                start += repetitions
        for dealer, size in also.items():
            if opened[:, start : start + size].any():
                raise self._violation(dealer)
            start += size
        return wrong

    def _opened(self, shares: dict[int, Words]) -> Words:
        opening = open_shares(shares, self._exchange.t, self._exchange.field, self._exchange.t)
        if opening.wrong:
            names = " and ".join(self._exchange.session.names[party] for party in opening.wrong)
            what = "contradict those of the others in a proof: they were sent wrongly, or dealt wrongly before"
            raise InconsistentSharesError(f"the shares of {names} {what}")
        return opening.words

    async def _name_one(self, pair: _Pair) -> None:
        """Open the difference of each claim, as all shares agreed that their sum is wrong.

        It is 0 for whoever dealt what it proved, so this tells nothing of anybody else. Who receives no answer, as
        others have ended the job for another reason, names nobody.
        """
        field, weights, schedule = self._exchange.field, pair.weights, pair.schedule
        assert weights is not None

        def differences() -> Words:
            found = [
                field.subtract(trace, weighted_claims(field, schedule, weights, statement.claims or ()))
                for statement, trace in zip(pair.statements, pair.traces, strict=True)
            ]
            return np.concatenate(found, axis=1)

        what, session = "products that were dealt are not those that were proven", self._exchange.session
        try:
            opened = self._opened(await self._shares_of_all(await session.compute(differences)))
        except PeerError as error:
            raise InconsistentSharesError(f"{what}, and a member did not help to name who dealt them") from error
        for i, statement in enumerate(pair.statements):
            if opened[:, i * pair.repetitions : (i + 1) * pair.repetitions].any():
                raise self._violation(statement.prover)
        raise InconsistentSharesError(f"{what}, but each by itself is")

    def _violation(self, prover: int) -> PeerViolationError:
        what = f"{self._exchange.session.names[prover]} dealt values that are not the products it was to prove"
        return PeerViolationError(prover, self._opening, what)
