"""Shares of rows on their way: most of what a job with large tables sends, so no word of it is left empty.

In fields of 1 or 4 primes they travel in compact form (`mpc.arithmetic.compact`), and are derived from key streams in
that form. A table of more rows than some millions needs a fourth prime by default: its rows take two thirds of the
bytes that they would take as other shares do.
"""

import asyncio
from collections.abc import Callable, Mapping
from math import prod

from mpc.arithmetic.compact import CompactForm, has_compact_form
from mpc.errors import LocalFaultError, OutOfRangeError
from mpc.protocol.concurrency import run_together
from mpc.protocol.exchange import ShareExchange, Words, outside_field, send_unless_lost


class RowShares:
    """Deals and takes shares of blocks of rows; degree t.

    Args:
        exchange: my end.
        label: the stage under which the shares travel. Unique within the job.
    """

    def __init__(self, exchange: ShareExchange, label: str) -> None:
        self._exchange, self._label = exchange, label
        self._compact = CompactForm(exchange.field) if has_compact_form(exchange.field) else None

    async def deal(self, block: int, make: Callable[[], Words]) -> Words | None:
        """Share a block of rows of mine as `ShareExchange.deal_made`; arguments as there."""
        exchange, compact = self._exchange, self._compact
        if compact is None:
            return await exchange.deal_made(self._label, block, make, exchange.t)
        session = exchange.session
        mine, sent = await session.compute(self._split, compact, block, make)
        await asyncio.gather(*(send_unless_lost(session, r, self._label, words) for r, words in sent.items()))
        return mine

    async def take(self, shapes: Mapping[int, tuple[int, ...]], block: int) -> dict[int, Words]:
        """Return my shares of a block from each of several dealers as `ShareExchange.take_all`; errors as there."""
        exchange, compact = self._exchange, self._compact
        if compact is None:
            return await exchange.take_all(shapes, self._label, block, exchange.t)
        receives = [self._arrival(compact, dealer, shape) for dealer, shape in shapes.items()]
        arrived = dict(zip(shapes, await run_together(*receives), strict=True))
        return await exchange.session.compute(
            lambda: {
                dealer: self._share_of(compact, dealer, block, shapes[dealer], arrived[dealer]) for dealer in shapes
            }
        )

    def _split(
        self, compact: CompactForm, block: int, make: Callable[[], Words]
    ) -> tuple[Words | None, dict[int, Words]]:
        """Return my own share and, by receiver, what is sent."""
        exchange, secret = self._exchange, make()
        me, scheme = exchange.session.me, exchange.scheme(exchange.t)
        derived = {
            r: compact.random(exchange.secrets[r].stream(me, r, self._label, block), secret.shape[1:])
            for r in scheme.derived_receivers(me)
        }
        shares = scheme.deal(me, secret, derived)
        mine = shares.pop(me, None)
        return mine, {receiver: compact.compacted(share) for receiver, share in shares.items()}

    async def _arrival(self, compact: CompactForm, dealer: int, shape: tuple[int, ...]) -> Words | None:
        """Wait for what a dealer sends me, unchecked; None where I derive it."""
        exchange = self._exchange
        me = exchange.session.me
        if dealer not in exchange.secrets:
            raise LocalFaultError(f"member {dealer} deals no shares to member {me}")
        if me in exchange.scheme(exchange.t).derived_receivers(dealer):
            return None
        return await exchange.session.receive(dealer, self._label, (compact.n_words(prod(shape)),))

    def _share_of(
        self, compact: CompactForm, dealer: int, block: int, shape: tuple[int, ...], arrived: Words | None
    ) -> Words:
        exchange = self._exchange
        session = exchange.session
        if arrived is None:
            return compact.random(exchange.secrets[dealer].stream(dealer, session.me, self._label, block), shape)
        try:
            compact.check(arrived, prod(shape))
        except OutOfRangeError as error:
            raise outside_field(dealer, self._label, session.names[dealer]) from error
        return compact.expanded(arrived, shape)
