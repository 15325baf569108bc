"""What all operations of a computation stand on: one step at a time, block numbers, checks of operands."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from math import prod
from types import TracebackType
from typing import Any, Self, TypeVar

from mpc.arithmetic.field import ResidueField
from mpc.errors import FieldMismatchError, LocalFaultError, TooFewPartiesError
from mpc.protocol.agreement import DealerAgreement
from mpc.protocol.exchange import ShareExchange, Words
from mpc.protocol.product_check import ProductCheck, ReductionCheck
from mpc.protocol.reduction import SEGMENT, zero_sharing
from mpc.protocol.shared import SharedArray

T = TypeVar("T")


def parameters_digest(field: ResidueField, n_parties: int, t: int, name: str) -> bytes:
    """Return a digest of the parameters that all members must share for their shares to belong together. Public."""
    return hashlib.sha256(f"{name}\0{n_parties}\0{t}\0{field.primes}".encode()).digest()


class ComputationCore:
    """One member's state of a computation. See `mpc.protocol.computation.Computation`.

    As an asynchronous context it ends what was begun `ahead` and is still running, whatever fails.
    """

    _may_use_double_sharings = True
    _deviating = 0

    def __init__(self, exchange: ShareExchange, name: str = "computation") -> None:
        self._exchange = exchange
        self._name = name
        self._agreement = DealerAgreement(exchange, name)
        self._check_of_products: ReductionCheck = ProductCheck(exchange, self._agreement)
        self._next_block = 0
        self._n_openings = 0
        self._wrong: set[int] = set()
        self._coordinator_knows = False
        self._differing: set[int] = set()
        self._state: str | None = None
        self._n_noises = 0
        self._begun: set[asyncio.Future[Any]] = set()

    @property
    def field(self) -> ResidueField:
        """The field in which all shares live."""
        return self._exchange.field

    @property
    def t(self) -> int:
        """Degree of inputs and of what has been reduced."""
        return self._exchange.t

    @property
    def product_degree(self) -> int:
        """Degree of sums of products (`Products.product_sum`, `gram_sum`): 2t, as they are opened without reduction."""
        return 2 * self.t

    @property
    def me(self) -> int:
        """My member number."""
        return self._exchange.session.me

    @property
    def members(self) -> tuple[int, ...]:
        """The numbers of all members, the coordinator included where there is one: to open something to everybody."""
        return tuple(self._exchange.session.names)

    @contextmanager
    def _step(self) -> Iterator[None]:
        """Allow one operation at a time to use the network, and none after a failure, when streams are out of step."""
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
        self._next_block += len(self._segments(n_elements))
        return first

    def _segments(self, n_elements: int) -> list[slice]:
        """Return the parts in which so many elements travel, each one block."""
        return [slice(start, min(start + SEGMENT, n_elements)) for start in range(0, n_elements, SEGMENT)]

    def _check(self, x: SharedArray) -> None:
        if x.field != self.field:
            raise FieldMismatchError(
                f"the array lives in the field of {x.field.primes}, but the computation is over {self.field.primes}"
            )
        if x.degree >= self._exchange.n_parties:
            raise TooFewPartiesError(
                f"a sharing of degree {x.degree} needs {x.degree + 1} parties, but there are only "
                f"{self._exchange.n_parties}: reduce the degree before multiplying again"
            )

    def _shared(self, shape: tuple[int, ...], degree: int, bound: int | None, flat: Words | None) -> SharedArray:
        share = None if flat is None else flat.reshape(self.field.n_words, *shape)
        return SharedArray(self.field, shape, degree, bound, share)

    def _stage(self, what: str) -> str:
        """Return the name of a stage. A computation without a name has the whole job's names to itself."""
        return f"{self._name}/{what}" if self._name else what

    async def _local(self, product: Callable[[], SharedArray]) -> SharedArray:
        return await self._exchange.session.compute(product)

    async def _check_reduced(self) -> None:
        """Check what this computation has reduced so far: each opening does so before it tells anything."""
        if self._exchange.am_receiver:
            self._wrong.update(await self._check_of_products.verify(self._name))

    async def _zeros(self, shape: tuple[int, ...], degree: int) -> SharedArray:
        first_block = self._take_blocks(prod(shape))
        share = None
        if self._exchange.am_receiver:
            share = await zero_sharing(self._exchange, self._agreement, first_block, prod(shape), degree)
        return self._shared(shape, degree, 0, share)

    @property
    def exchange(self) -> ShareExchange:
        """Dealing and taking of shares, on which the computation stands."""
        return self._exchange

    @property
    def holds_shares(self) -> bool:
        """Whether I am a compute party."""
        return self._exchange.am_receiver

    # -- beside the computation ------------------------------------------------------------------------------------

    def ahead(self, work: Awaitable[T]) -> "asyncio.Future[T]":
        """Begin what will be needed later; await the result when it is. It ends with the computation's context."""
        task = asyncio.ensure_future(work)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        begun = list(self._begun)
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
