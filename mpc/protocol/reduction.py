"""Sums over dealers: the reduction of a product's degree, random elements and sharings of zero.

All three are one round. Every party deals one array of its own with a fresh polynomial, most shares derived from
pairwise keys; everybody takes the shares dealt to it and returns a public linear combination of them.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

import numpy as np

from entropy import KeyStream
from mpc.arithmetic.field import Weights
from mpc.arithmetic.shamir import lagrange_weights
from mpc.errors import PeerError, TooFewPartiesError
from mpc.protocol.agreement import DealerAgreement
from mpc.protocol.concurrency import run_together
from mpc.protocol.exchange import ShareExchange, Words
from mpc.protocol.product_check import ReductionCheck

SEGMENT = 7 << 14
"""Elements per message: 896 KiB per word, two chunks of the transport. A segment is computed on while the next one
travels. Each message costs a party half a millisecond of processor time, whatever its length."""

Weigh = Callable[[tuple[int, ...]], Mapping[int, Weights]]
"""Function from the dealers that count to the factors of those that are used."""

Part = Callable[[slice], Words]
"""Returns my values of a segment of the elements, shape (n_words, length): made where they are needed, not before."""

Observe = Callable[[int, Mapping[int, Words]], None]
"""Looks at what the dealers that count dealt to me in one block."""


def _look_away(block: int, shares: Mapping[int, Words]) -> None:
    """Sums of random elements and of zeros have no redundancy to check."""


async def reduce_degree(
    exchange: ShareExchange,
    agreement: DealerAgreement,
    check: ReductionCheck,
    first_block: int,
    product_share: Part,
    n_elements: int,
    degree: int,
) -> Words:
    """Turn my share of a product into a share of degree t of the same value.

    Dealer j holds h_j, a point of a polynomial of this degree with the product at 0, and deals it with a fresh
    polynomial of degree t. With h_j(i) what it deals to party i, S the first `degree + 1` of the dealers that count,

        c_i = sum_{j in S} lambda_j * h_j(i),    lambda_j = prod_{k in S, k != j} k / (k - j)

    is a point of a polynomial of degree t with the product at 0. Source: [GRR98]; original step: [BGW88].

    With surplus dealers each deals random elements behind its products: together the coin that chooses the
    coefficients of the check. That of the reduction before is opened meanwhile.

    Args:
        exchange: dealing and taking of shares.
        agreement: who counts as a dealer.
        check: records what dealers dealt.
        first_block: number of the first segment, the same for all parties, never used before in this stage. There are
            as many as `n_elements` and the check's coin together fill.
        product_share: mine.
        n_elements: how many.
        degree: degree of its sharing, t < degree < N.

    Returns:
        Shape (n_words, n_elements).

    Raises:
        TooFewPartiesError: fewer than degree + 1 parties exist.
        PeerError: a member drops out, is silent or sent an invalid share, and fewer than degree + 1 dealers are left.

    Privacy: passive, at most t corrupt: a dealer's h_j is hidden by its fresh polynomial. Reveals nothing.
    Cost: 1 round (2 where N > 2t + 1); per element (N - 1 - t) words sent, N - 1 + t drawn from key streams. With
    surplus dealers `N_COINS` elements more, and as many to each party when the coin is opened.
    """
    if degree >= exchange.n_parties:
        raise TooFewPartiesError(
            f"a sharing of degree {degree} needs {degree + 1} parties, but there are only {exchange.n_parties}: "
            "reduce the degree earlier"
        )

    def weigh(dealers: tuple[int, ...]) -> Mapping[int, Weights]:
        used = dealers[: degree + 1]
        return dict(zip(used, lagrange_weights(exchange.field, used), strict=True))

    n_coin = check.n_coins(degree, n_elements)
    coin = None if not n_coin else exchange.field.random(KeyStream(exchange.session.entropy.read(32)), (n_coin,))

    def dealt(segment: slice) -> Words:
        products = slice(segment.start, min(segment.stop, n_elements))
        if coin is None or segment.stop <= n_elements:
            return product_share(products)
        behind = coin[:, max(0, segment.start - n_elements) : segment.stop - n_elements]
        return behind if products.start >= n_elements else np.concatenate([product_share(products), behind], axis=1)

    def collect(block: int, shares: Mapping[int, Words]) -> None:
        n_products = n_elements - (block - first_block) * SEGMENT
        if n_products > 0:
            check.collect(degree, {dealer: words[:, :n_products] for dealer, words in shares.items()})

    _, reduced = await run_together(
        check.reveal(),
        _combine_dealt(
            exchange,
            agreement,
            agreement.stage("products"),
            first_block,
            dealt,
            n_elements + n_coin,
            exchange.t,
            n_required=degree + 1,
            weigh=weigh,
            observe=collect,
        ),
    )
    if coin is not None:
        check.keep_coin(reduced[:, n_elements:].copy())
    return cast(Words, reduced[:, :n_elements])


async def random_sharing(
    exchange: ShareExchange, agreement: DealerAgreement, first_block: int, n_elements: int
) -> Words:
    """Return my share, of degree t, of uniform elements that no t parties know. Arguments as `reduce_degree`.

    The elements are the sum of what all parties dealt, at least t + 1 of them and therefore one honest.

    Returns:
        Shape (n_words, n_elements).
    """
    secret = exchange.field.random(KeyStream(exchange.session.entropy.read(32)), (n_elements,))
    return await _sum_of_dealt(
        exchange, agreement, "random", first_block, lambda segment: secret[:, segment], n_elements, exchange.t
    )


async def zero_sharing(
    exchange: ShareExchange, agreement: DealerAgreement, first_block: int, n_elements: int, degree: int
) -> Words:
    """Return my share of a uniform polynomial of this degree with value 0. Arguments as `reduce_degree`.

    Added to a product before it is opened, it leaves nothing of the product's polynomial but its value at 0. Nothing
    travels where degree = N - 1: all shares are derived from pairwise keys.

    Returns:
        Shape (n_words, n_elements).
    """
    zeros = exchange.field.zeros((min(SEGMENT, n_elements),))
    return await _sum_of_dealt(
        exchange,
        agreement,
        f"zero of degree {degree}",
        first_block,
        lambda segment: zeros[:, : segment.stop - segment.start],
        n_elements,
        degree,
    )


async def _sum_of_dealt(
    exchange: ShareExchange,
    agreement: DealerAgreement,
    kind: str,
    first_block: int,
    secret: Part,
    n_elements: int,
    degree: int,
) -> Words:
    one = (1,) * len(exchange.field.primes)
    return await _combine_dealt(
        exchange,
        agreement,
        agreement.stage(kind),
        first_block,
        secret,
        n_elements,
        degree,
        n_required=exchange.t + 1,
        weigh=lambda dealers: dict.fromkeys(dealers, one),
    )


async def _combine_dealt(
    exchange: ShareExchange,
    agreement: DealerAgreement,
    stage: str,
    first_block: int,
    secret: Part,
    n_elements: int,
    degree: int,
    *,
    n_required: int,
    weigh: Weigh,
    observe: Observe = _look_away,
) -> Words:
    """Deal `secret`, take what others deal, return the weighted sum, shape (n_words, n_elements); segment by segment.

    Dealing runs at most two segments ahead of taking, so memory beyond the result is some N + 3 segments.
    """
    me, field = exchange.session.me, exchange.field
    segments = [slice(i, min(i + SEGMENT, n_elements)) for i in range(0, n_elements, SEGMENT)]
    result = np.empty((field.n_words, n_elements), dtype=np.uint64)
    own_shares: asyncio.Queue[Words] = asyncio.Queue(maxsize=2)

    async def deal_all() -> None:
        for number, segment in enumerate(segments):
            share = await exchange.deal_made(stage, first_block + number, partial(secret, segment), degree)
            assert share is not None, "only compute parties take part"
            await own_shares.put(share)

    def combine(block: int, shares: Mapping[int, Words], agreed: tuple[int, ...], out: Words) -> None:
        weights = weigh(agreed)
        field.combine([shares[dealer] for dealer in weights], list(weights.values()), out)
        observe(block, {dealer: shares[dealer] for dealer in agreed})

    async def take_all() -> None:
        for number, segment in enumerate(segments):
            out = result[:, segment]
            sizes = dict.fromkeys(agreement.present(), (out.shape[1],))
            shares: dict[int, Words] = {}
            answers = await exchange.take_each(sizes, stage, first_block + number, degree)
            for dealer, answer in answers.items():
                if isinstance(answer, PeerError):
                    agreement.miss(answer)
                else:
                    shares[dealer] = answer
            shares[me] = await own_shares.get()
            agreed = await agreement.agree(shares.keys(), n_required)
            await exchange.compute(len(agreed) * out.size, partial(combine, first_block + number, shares, agreed, out))

    await run_together(deal_all(), take_all())
    agreement.settle()
    return result
