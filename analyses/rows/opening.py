"""What a release under shares needs besides its values: everybody's noise, and that nobody is needed to the end."""

import numpy as np
from numpy.typing import NDArray

from mpc.protocol.exchange import ShareExchange, Words

INPUT_STAGE = "input"
"""A party that has said that this is done may vanish."""

MULTIPLY_STAGE = "multiply"
"""Rows are multiplied block by block."""


async def share_noise(exchange: ShareExchange, noise: NDArray[np.int64], degree: int, label: str = "noise") -> Words:
    """Return my share of everybody's noise, to be added to what is opened; every compute party calls it.

    Each party deals its noise with a fresh polynomial of this degree, so the sum of those of N - t parties hides all
    but the value at 0 of whatever it is added to: products of degree 2t may be opened without reducing them first.

    Call it before the data are dealt. Whoever vanishes after that leaves its noise with the others.

    Args:
        exchange: dealing and taking of shares.
        noise: my part, of any shape. Secret.
        degree: of the sharing that will be opened: 2t for products.
        label: of this noise, unique within the job.

    Returns:
        Shape (n_words, *shape).

    Raises:
        PeerError: a party is silent, lost or sent what is no share: nothing can be opened without its noise.

    Privacy: each party learns nothing, as what it gets are shares.
    Cost: 1 round; N - 1 - degree words sent per value.
    """
    words = await exchange.session.compute(exchange.field.encode, noise)
    return await exchange.deal_and_sum(label, words, degree)


async def commit_after_input(exchange: ShareExchange) -> None:
    """Commit the job's cost as soon as all that I bring is dealt, so that I may vanish; owners of data call it.

    Only where N > 2t + 1: with fewer parties all are needed until the opening, and who commits there, at the last
    moment, has paid for nothing more rarely.
    """
    if _has_surplus(exchange):
        await exchange.session.commit()
        exchange.session.progress(INPUT_STAGE, 1, 1)


def tell_multiplied(exchange: ShareExchange, done: int, total: int) -> None:
    """Tell how much of the rows has been multiplied; say that all has been after `commit_after_input`.

    Nothing on the way to parties that tell of their input too: where that falls among quarters would show how many
    blocks the rows fill.
    """
    if not _has_surplus(exchange):
        exchange.session.progress(MULTIPLY_STAGE, done, total)


def _has_surplus(exchange: ShareExchange) -> bool:
    return exchange.n_parties > 2 * exchange.t + 1
