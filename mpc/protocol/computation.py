"""Arithmetic circuits over Shamir shares [BGW88]: a program that every member of a job runs.

    async def program(c: Computation, mine: NDArray | None) -> OpenedArray | None:
        x = await c.input(1, (1000,), mine, bound=100)
        y = await c.reduce(x * x)
        return await c.open((y * y).sum())

All members run the same program, whoever holds shares: operators on `SharedArray` are local, methods with `await` take
rounds. Members that hold no shares (the coordinator, input-only parties) follow the shapes.
"""

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import GramAccumulator, upper_triangle_indices
from mpc.errors import (
    FieldMismatchError,
    FieldTooSmallError,
    LocalFaultError,
    PeerError,
    PeerViolationError,
    ShapeError,
    TooFewPartiesError,
)
from mpc.protocol.agreement import DealerAgreement
from mpc.protocol.concurrency import run_together
from mpc.protocol.double_sharing import double_sharings_win, reduce_with_double_sharings
from mpc.protocol.exchange import (
    ShareExchange,
    Words,
    agree_pairwise_secrets,
    confirm_pairwise_secrets,
    send_unless_lost,
)
from mpc.protocol.product_check import ProductCheck
from mpc.protocol.reduction import SEGMENT, Part, random_sharing, reduce_degree, zero_sharing
from mpc.protocol.session import COORDINATOR, Session
from mpc.protocol.shared import SharedArray, concatenate, public_array


def _parameters(field: ResidueField, n_parties: int, t: int, name: str) -> bytes:
    """Return a digest of all that members must have in common for their shares to belong together. Public."""
    return hashlib.sha256(f"{name}\0{n_parties}\0{t}\0{field.primes}".encode()).digest()


@dataclass(frozen=True)
class OpenedArray:
    """What a receiver learns.

    Attributes:
        values: signed integers; int64, or Python integers in a field of more than three primes. Not shown by repr.
        wrong: numbers of the parties that have sent wrong shares so far, which were corrected: of these values, of
            earlier ones, or (where I hold shares) of checks on the way.
        gone: numbers of the parties that failed on the way, as far as I know.
    """

    values: NDArray[Any] = field(repr=False)
    wrong: tuple[int, ...]
    gone: tuple[int, ...]


class Computation:
    """One member's end of a computation on shares. Made by `start`.

    Methods that take rounds are awaited one after another, in the same order by all members: independent products go
    into one round with `reduce_all`. After an error nothing more can be computed.

    A party that vanishes after input does not end the computation while more than 2t parties are left and hear each
    other; see `mpc.protocol.agreement`. With exactly N = 2t + 1 parties, none may vanish before a product is opened.

    Args:
        exchange: dealing and taking of shares, in one field.
        name: begins the names of all stages; one job never uses a name twice: shares would be derived from used keys.
    """

    def __init__(self, exchange: ShareExchange, name: str = "computation") -> None:
        self._exchange = exchange
        self._name = name
        self._agreement = DealerAgreement(exchange, name)
        self._check_of_products = ProductCheck(exchange, self._agreement)
        self._next_block = 0
        self._n_openings = 0
        self._wrong: set[int] = set()
        self._coordinator_knows = False
        self._differing: set[int] = set()
        self._state: str | None = None

    @classmethod
    async def start(
        cls, session: Session, field: ResidueField, n_parties: int, t: int, *, name: str = "computation"
    ) -> "Computation":
        """Agree on pairwise keys and return my end.

        Args:
            session: my end; the members are the coordinator, compute parties 1..n_parties and input-only parties.
            field: of all shares. `ResidueField.for_bound` finds the smallest for what will be opened.
            n_parties: compute parties, N.
            t: how many of them may collude without learning anything, 2t + 1 <= N.
            name: see the class.

        Raises:
            TooFewPartiesError: N < 2t + 1.
            PeerViolationError: a member sent no valid key, or has another field, n_parties, t or name than I have.
            PeerError: a member is silent or lost.

        Cost: 2 rounds, 64 bytes per pair and direction; the coordinator takes no part.
        """
        secrets = {}
        if session.me != COORDINATOR:
            members = [member for member in session.names if member != COORDINATOR]
            secrets = await agree_pairwise_secrets(session, members, n_parties)
            await confirm_pairwise_secrets(session, secrets, _parameters(field, n_parties, t, name))
        return cls(ShareExchange(session, field, n_parties, t, secrets), name)

    @property
    def field(self) -> ResidueField:
        """Of all shares."""
        return self._exchange.field

    @property
    def t(self) -> int:
        """Degree of inputs and of what has been reduced."""
        return self._exchange.t

    @property
    def me(self) -> int:
        """My member number."""
        return self._exchange.session.me

    @property
    def members(self) -> tuple[int, ...]:
        """The numbers of all members, the coordinator included where there is one: to open something to everybody."""
        return tuple(self._exchange.session.names)

    # -- in --------------------------------------------------------------------------------------------------------

    async def input(
        self, dealer: int, shape: tuple[int, ...], values: ArrayLike | None = None, *, bound: int
    ) -> SharedArray:
        """Share an array of one member; see `inputs`."""
        arrays = await self.inputs({dealer: shape}, values, bound=bound)
        return arrays[dealer]

    async def inputs(
        self, shapes: Mapping[int, tuple[int, ...]], values: ArrayLike | None = None, *, bound: int
    ) -> dict[int, SharedArray]:
        """Share one array of each of several members, all at once.

        Args:
            shapes: dealer (a compute party or an input-only one) to the public shape of its array.
            values: mine, integers, if I am a dealer; ignored else.
            bound: public bound on the size of all values.

        Raises:
            LocalFaultError: my values are missing, no integers, or beyond the bound.
            ShapeError: my values have another shape.
            PeerError: a dealer is silent, lost or sent what is no share.

        Privacy: any t parties see uniform elements. Cost: 1 round; a dealer sends N - t words per element, one less if
        it is a compute party.
        """
        with self._step():
            me, stage = self.me, f"{self._name}/input"
            own = self._checked_input(shapes[me], values, bound) if me in shapes else None
            first_block = self._take_blocks(max(map(prod, shapes.values()), default=0))
            dealt = [self._deal(stage, first_block, own)] if own is not None else []
            others = [dealer for dealer in shapes if dealer != me and self._exchange.am_receiver]
            taken = [self._take(dealer, stage, first_block, prod(shapes[dealer])) for dealer in others]
            results = iter(await run_together(*dealt, *taken))
            flat: dict[int, Words | None] = {me: next(results)} if own is not None else {}
            flat |= dict(zip(others, results, strict=True))
            return {d: self._shared(shapes[d], self.t, bound, flat.get(d)) for d in shapes}

    def public(self, values: ArrayLike) -> SharedArray:
        """Return public integers as an array like the shared ones (degree 0); operators take plain integers too."""
        return public_array(self.field, values, holds_shares=self._exchange.am_receiver)

    async def random(self, shape: tuple[int, ...]) -> SharedArray:
        """Return uniform elements of the field that no t parties and nobody else know. Cost: 1 round.

        Raises:
            PeerError: a party is lost, silent or sent what is no share, and too few are left.
        """
        with self._step():
            first_block = self._take_blocks(prod(shape))
            share = None
            if self._exchange.am_receiver:
                share = await random_sharing(self._exchange, self._agreement, first_block, prod(shape))
            return self._shared(shape, self.t, None, share)

    async def zeros(self, shape: tuple[int, ...], degree: int) -> SharedArray:
        """Return zeros, shared with polynomials of this degree that nobody knows. Cost: 1 round. Raises as `random`."""
        with self._step():
            return await self._zeros(shape, degree)

    # -- products --------------------------------------------------------------------------------------------------

    async def reduce(self, x: SharedArray) -> SharedArray:
        """Return the same secrets with degree t, so that they can be multiplied on. See `reduce_degree`."""
        (reduced,) = await self.reduce_all([x])
        return reduced

    async def reduce_all(self, arrays: Sequence[SharedArray]) -> list[SharedArray]:
        """Reduce several arrays of one degree in one round.

        Raises:
            TooFewPartiesError: the degree is higher than the roster can open.
            ShapeError: arrays of different degrees.
            FieldMismatchError: an array of another field.
            PeerError: a party is lost, silent or sent what is no share, and too few are left.
            InconsistentSharesError: in a large batch, a party sent a wrong share (`mpc.protocol.double_sharing`).

        Cost: 1 round (2 where N > 2t + 1), N - 1 - t words sent per element; nothing for degrees up to t. Large batches
        of 7 parties and more take 4 rounds and some 2 words per element (`mpc.protocol.double_sharing`).
        """
        degrees = {array.degree for array in arrays}
        if len(degrees) > 1:
            raise ShapeError(f"arrays of degrees {sorted(degrees)} cannot be reduced in one round")
        if not degrees or max(degrees) <= self.t:
            for array in arrays:
                self._check(array)
            return list(arrays)
        flat = concatenate([array.reshape(-1) for array in arrays]) if len(arrays) > 1 else arrays[0].reshape(-1)
        return await self._reduced(arrays, flat.__getitem__)

    async def multiply(self, x: SharedArray, y: SharedArray) -> SharedArray:
        """Return the element-wise product, degree t. Cost: as `reduce`; a segment is multiplied while others travel."""
        a, b = x.aligned(y)
        if a.degree + b.degree <= self.t:
            return await self._local(lambda: a * b)
        outline = replace(a, share=None) * replace(b, share=None)
        flat_a, flat_b = a.reshape(-1), b.reshape(-1)
        (product,) = await self._reduced([outline], lambda segment: flat_a[segment] * flat_b[segment])
        return product

    async def dot(self, x: SharedArray, y: SharedArray) -> SharedArray:
        """Return the inner product of two vectors, degree t; one element is reduced, whatever their length."""
        if x.ndim != 1 or y.ndim != 1:
            raise ShapeError(f"an inner product takes two vectors, not shapes {x.shape} and {y.shape}")
        return await self.reduce(await self._local(lambda: x @ y))

    async def matmul(self, x: SharedArray, y: SharedArray) -> SharedArray:
        """Return the matrix product, degree t; one element is reduced per entry of the result."""
        return await self.reduce(await self._local(lambda: x @ y))

    async def gram(self, x: SharedArray) -> SharedArray:
        """Return x.T @ x of a matrix, degree t; only the entries on and above the diagonal are reduced."""
        if x.ndim != 2 or not x.shape[1]:
            raise ShapeError(f"a Gram matrix is of a matrix with at least one column, not of shape {x.shape}")
        n_rows, n_columns = x.shape
        rows, columns = upper_triangle_indices(n_columns)
        share = None
        if x.share is not None:
            accumulator = GramAccumulator(x.field, n_columns)
            await self._exchange.session.compute(accumulator.add_rows, [x.share])
            share = await self._exchange.session.compute(accumulator.upper_triangle)
        bound = None if x.bound is None else x.bound**2 * n_rows
        triangle = await self.reduce(SharedArray(x.field, rows.shape, 2 * x.degree, bound, share))
        full = None
        if triangle.share is not None:
            full = np.empty((x.field.n_words, n_columns, n_columns), dtype=np.uint64)
            full[:, rows, columns] = triangle.share
            full[:, columns, rows] = triangle.share
        return self._shared((n_columns, n_columns), triangle.degree, bound, full)

    async def polynomial(self, x: SharedArray, coefficients: Sequence[int]) -> SharedArray:
        """Evaluate a public polynomial at every element: sum_k coefficients[k] * x^k, degree t.

        Powers double per round; the last round multiplies x^h by the combination of lower powers that the upper half of
        the coefficients prescribes, so it costs one product per element, whatever they are.

        Cost: for degree d, ceil(log2(d)) times the rounds of `reduce` and less than d products per element.
        """
        highest = max((k for k, c in enumerate(coefficients) if c), default=0)
        powers = {1: await self.reduce(x)}
        half = 1
        while 2 * half < highest:
            upper = await self.reduce_all([powers[half] * powers[k] for k in range(1, half + 1)])
            powers |= dict(zip(range(half + 1, 2 * half + 1), upper, strict=True))
            half *= 2

        def combination(chosen: Sequence[int]) -> SharedArray:
            constant = powers[1] * 0 + (chosen[0] if chosen else 0)
            return sum((powers[k] * c for k, c in enumerate(chosen) if k and c), start=constant)

        low = combination(coefficients[: half + 1])
        if highest <= half:
            return low
        upper_half = combination([0, *coefficients[half + 1 : highest + 1]])
        return low + await self.multiply(powers[half], upper_half)

    # -- out -------------------------------------------------------------------------------------------------------

    async def check_products(self) -> None:
        """Check what has been reduced so far, before a result of it is opened by other means than `open`.

        Raises:
            PeerViolationError, InconsistentSharesError, PeerError: as `open`.

        Cost: 2 rounds where N > 2t + 1 and something was reduced since the last check; else none.
        """
        with self._step():
            if self._exchange.am_receiver:
                self._wrong.update(await self._check_of_products.verify(self._name))

    async def open(self, x: SharedArray, receivers: Sequence[int] = (COORDINATOR,)) -> OpenedArray | None:
        """Reveal an array to some members; None for the others.

        Products may be opened as they are: a sharing of zero of their degree hides all but the values. Surplus shares
        are checked and, where they suffice, wrong ones corrected and their senders named (`mpc.arithmetic.opening`).
        Before that, surplus dealers of the reductions that led here are checked (`mpc.protocol.product_check`). Where
        N = 2t + 1 there is no
        surplus: a wrong share of a product that is opened, or one that went into a reduction of less than a large
        batch, goes unnoticed, and with it a wrong value.

        Args:
            x: any degree below N.
            receivers: member numbers; 0 is the coordinator.

        Raises:
            TooFewPartiesError: the degree is too high for the roster.
            FieldTooSmallError: a value might have wrapped around the field.
            FieldMismatchError: an array of another field.
            InconsistentSharesError: shares contradict each other, and too few are there to tell which are wrong.
            PeerViolationError: a party multiplied wrong shares on the way; or, at the coordinator, so many have another
                field, roster, t or name of the computation than I have that too few are left.
            PeerError: fewer than degree + 1 parties answered; names one that did not.

        Privacy: reveals the values to the receivers and to nobody else, and nothing besides.
        Cost: 1 round, with 32 bytes from each party to the coordinator the first time; 1 more for products.
        Where N > 2t + 1, 1 more for what has been reduced, and 1 more for products.
        """
        self._check(x)
        if x.bound is not None and x.bound > self.field.half_order:
            raise FieldTooSmallError(
                f"what is opened may have {x.bound.bit_length()} bits and a sign, which a field of "
                f"{self.field.order.bit_length()} bits does not hold: use more primes or tighter bounds"
            )
        with self._step():
            if self._exchange.am_receiver:
                self._wrong.update(await self._check_of_products.verify(self._name))
            if x.degree > self.t:
                x = x + await self._zeros(x.shape, x.degree)
            number = self._n_openings
            self._n_openings += 1
            needed = x.degree + 1
            senders = await self._agreement.senders_with_one_view(f"{self._name}/view {number}", receivers, needed)
            if COORDINATOR in receivers:
                senders = await self._compare_with_coordinator(senders, needed)
            stage = f"{self._name}/opening {number}"
            share = None if x.share is None else x.share.reshape(self.field.n_words, -1)
            opening = await self._exchange.open(stage, share, (x.size,), x.degree, receivers, senders)
            if opening is None:
                return None
            values = await self._exchange.session.compute(self.field.decode, opening.words)
            self._wrong.update(opening.wrong)
            gone = self._agreement.gone.keys() | self._differing
            return OpenedArray(values.reshape(x.shape), tuple(sorted(self._wrong)), tuple(sorted(gone)))

    async def _compare_with_coordinator(self, senders: list[int] | None, n_required: int) -> list[int] | None:
        """Tell the coordinator once what I compute with: it shares no key with anybody by which it could have noticed.

        Returns:
            At the coordinator, those of the senders that compute with the same; else the senders.

        Raises:
            PeerViolationError, PeerError: at the coordinator, too few do; names one that does not.
        """
        exchange, session, stage = self._exchange, self._exchange.session, f"{self._name}/parameters"
        if self._coordinator_knows:
            return None if senders is None else [party for party in senders if party not in self._differing]
        self._coordinator_knows = True
        mine = np.frombuffer(_parameters(self.field, exchange.n_parties, self.t, self._name), dtype=np.uint8)
        if exchange.am_receiver:
            await send_unless_lost(session, COORDINATOR, stage, mine)
        if self.me != COORDINATOR or senders is None:
            return senders

        async def compare(party: int) -> None:
            theirs = await session.receive(party, stage, mine.shape, np.uint8)
            if not np.array_equal(mine, theirs):
                what = f"{session.names[party]} has another field, roster, t or name of the computation than I have"
                raise PeerViolationError(party, stage, what)

        answers = await asyncio.gather(*map(compare, senders), return_exceptions=True)
        failures: list[PeerError] = []
        for answer in answers:
            if isinstance(answer, PeerError):
                failures.append(answer)
            elif answer is not None:
                raise answer
        if len(senders) - len(failures) < n_required:
            raise failures[0]
        self._differing.update(failure.member for failure in failures)
        return [party for party in senders if party not in self._differing]

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _reduced(
        self, arrays: Sequence[SharedArray], segment_of: Callable[[slice], SharedArray]
    ) -> list[SharedArray]:
        """Reduce arrays of one degree above t in one round.

        Args:
            arrays: what counts of them is shape, degree and bound.
            segment_of: returns some of their elements, counted from the first array's first to the last one's last.
        """
        for array in arrays:
            self._check(array)

        def share_of(segment: slice) -> Words:
            share = segment_of(segment).share
            assert share is not None, "a compute party holds a share of every array"
            return share

        with self._step():
            sizes = [array.size for array in arrays]
            first_block = self._take_blocks(sum(sizes))
            reduced: Words | None = None
            if self._exchange.am_receiver:
                reduced = await self._reduced_share(first_block, share_of, sum(sizes), arrays[0].degree)
            ends = list(itertools.accumulate(sizes))
            return [
                self._shared(a.shape, self.t, a.bound, None if reduced is None else reduced[:, end - a.size : end])
                for a, end in zip(arrays, ends, strict=True)
            ]

    async def _reduced_share(self, first_block: int, share_of: Part, n_elements: int, degree: int) -> Words:
        """Reduce in the way that takes less time; all parties choose the same one, from what is public."""
        exchange = self._exchange
        if double_sharings_win(exchange.n_parties, exchange.t, n_elements, exchange.field.n_words):
            return await reduce_with_double_sharings(exchange, self._name, first_block, share_of, n_elements)
        return await reduce_degree(
            exchange, self._agreement, self._check_of_products, first_block, share_of, n_elements, degree
        )

    @contextmanager
    def _step(self) -> Iterator[None]:
        """Let one operation at a time use the network, and none after a failure: streams would no longer be in step."""
        if self._state is not None:
            raise LocalFaultError(f"the computation {self._state}")
        self._state = "is waiting for another operation: await them one after another"
        self._agreement.begin()
        try:
            yield
        except BaseException:
            self._state = "has failed before"
            raise
        self._state = None

    def _take_blocks(self, n_elements: int) -> int:
        """Reserve block numbers for an operation on so many elements: public, hence the same for all members."""
        first = self._next_block
        self._next_block += -(-n_elements // SEGMENT)
        return first

    def _check(self, x: SharedArray) -> None:
        if x.field != self.field:
            raise FieldMismatchError(
                f"an array in a field of {x.field.primes} in a computation over {self.field.primes}"
            )
        if x.degree >= self._exchange.n_parties:
            raise TooFewPartiesError(
                f"a sharing of degree {x.degree} needs {x.degree + 1} parties, there are {self._exchange.n_parties}: "
                "reduce before multiplying again"
            )

    def _shared(self, shape: tuple[int, ...], degree: int, bound: int | None, flat: Words | None) -> SharedArray:
        share = None if flat is None else flat.reshape(self.field.n_words, *shape)
        return SharedArray(self.field, shape, degree, bound, share)

    async def _local(self, product: Callable[[], SharedArray]) -> SharedArray:
        return await self._exchange.session.compute(product)

    def _checked_input(self, shape: tuple[int, ...], values: ArrayLike | None, bound: int) -> NDArray[Any]:
        if values is None:
            raise LocalFaultError("my values are missing: I am one of the dealers of this input")
        integers = np.asarray(values)
        if integers.shape != tuple(shape):
            raise ShapeError(f"my values have shape {integers.shape}, not {tuple(shape)}")
        integers = self.field.encodable(integers.reshape(-1))
        if integers.size and max(-int(integers.min()), int(integers.max())) > bound:
            raise LocalFaultError("a value of mine is beyond the public bound")
        return integers

    async def _deal(self, stage: str, first_block: int, integers: NDArray[Any]) -> Words | None:
        own = np.empty((self.field.n_words, integers.size), np.uint64) if self._exchange.am_receiver else None
        for number, start in enumerate(range(0, integers.size, SEGMENT)):
            part = await self._exchange.session.compute(self.field.encode, integers[start : start + SEGMENT])
            share = await self._exchange.deal(stage, first_block + number, part, self.t)
            if own is not None and share is not None:
                own[:, start : start + SEGMENT] = share
        return own

    async def _take(self, dealer: int, stage: str, first_block: int, size: int) -> Words:
        share = np.empty((self.field.n_words, size), dtype=np.uint64)
        for number, start in enumerate(range(0, size, SEGMENT)):
            part = share[:, start : start + SEGMENT]
            part[:] = await self._exchange.take(dealer, stage, first_block + number, (part.shape[1],), self.t)
        return share

    async def _zeros(self, shape: tuple[int, ...], degree: int) -> SharedArray:
        first_block = self._take_blocks(prod(shape))
        share = None
        if self._exchange.am_receiver:
            share = await zero_sharing(self._exchange, self._agreement, first_block, prod(shape), degree)
        return self._shared(shape, degree, 0, share)
