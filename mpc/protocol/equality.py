"""A test whether members hold the same value, which reveals only yes or no.

Comparing keyed digests would let a party test guesses: "is your list of ids mine without this one?" Here the members
share their digests, and only r * (d_p - d_q) is opened, with an r that nobody knows.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.errors import PeerError
from mpc.protocol.concurrency import run_together
from mpc.protocol.exchange import ShareExchange, Words

N_ELEMENTS = 8
"""Field elements per digest: at least 8 * 21 bits, so that unequal values pass with probability below 2^-159."""


class UnequalValuesError(PeerError):
    """A member holds another value than the first of those compared."""

    code = "members-differ"


async def check_equal(
    exchange: ShareExchange, members: Sequence[int], compared: Sequence[int], label: str, value: bytes | None
) -> None:
    """Raise unless the compared members hold the same bytes. Every member of the job takes part.

    Each compared member deals (degree t) a hash of its value as field elements; each compute party deals a random r of
    degree t and a zero of degree 2t per comparison. With f the first of those compared, all members learn, for every
    other q, z_q = r * (d_f - d_q): zero where the digests agree, uniform (per prime) where they differ. The sharing of
    zero hides the polynomial of the product.

    Args:
        exchange: dealing and taking of shares.
        members: all member numbers but the coordinator's.
        compared: the members that hold a value, the reference first.
        label: stage of the messages, unique within the job.
        value: mine, where I am one of those compared; else None.

    If N > 2t + 1, corrupted shares of the verdict are corrected and their senders are passed to `Session.accuse`.

    Raises:
        UnequalValuesError: names the member that differs from the reference.
        PeerError: a member is silent, drops out or sent an invalid message.

    Privacy: passive, at most t corrupt; `mpc.proofs.proven_equality` is for members that deviate, who can choose the
    verdict here. Reveals per compared member only whether it agrees with the reference; the coordinator sees nothing.
    Digests, r and zero are dealt together: each is dealt with fresh randomness, and what t parties receive of the
    others is uniform, so nothing that they deal can depend on a digest.
    Cost: 2 rounds.
    """
    reference, *others = compared
    if not others:
        return
    field, t, shape = exchange.field, exchange.t, (len(others), N_ELEMENTS)
    masked: Words | None = None
    if exchange.am_receiver:
        secret_r = field.random(KeyStream(exchange.session.entropy.read(32)), shape)
        digests, blinding, zero = await run_together(
            _share_digests(exchange, compared, label, value),
            exchange.deal_and_sum(f"{label}/blinding", secret_r, t),
            exchange.deal_and_sum(f"{label}/zero", field.zeros(shape), 2 * t),
        )
        difference = np.stack([field.subtract(digests[reference], digests[q]) for q in others], axis=1)
        masked = field.multiply(blinding, difference)
        field.accumulate(masked, zero)
    else:
        await _share_digests(exchange, compared, label, value)
    opening = await exchange.open(f"{label}/verdict", masked, shape, 2 * t, members)
    assert opening is not None
    raise_first_difference(exchange, compared, label, np.asarray(opening.words.any(axis=(0, 2))))


def raise_first_difference(
    exchange: ShareExchange, compared: Sequence[int], label: str, differs: NDArray[np.bool_]
) -> None:
    """Name the first of those compared with the reference that differs, by `differs`, shape (others,); if one does.

    Raises:
        UnequalValuesError: see `check_equal`.
    """
    names, (reference, *others) = exchange.session.names, compared
    for member, is_another in zip(others, differs, strict=True):
        if is_another:
            raise UnequalValuesError(member, label, f"{names[member]} and {names[reference]} differ in their {label}")


async def _share_digests(
    exchange: ShareExchange, compared: Sequence[int], label: str, value: bytes | None
) -> dict[int, Words]:
    """Deal mine, if I hold a value, and return my shares of all, if I hold shares."""
    me, stage, shares = exchange.session.me, f"{label}/digest", {}
    if value is not None:
        own = await exchange.deal(stage, 0, digest_elements(exchange, value), exchange.t)
        if own is not None:
            shares[me] = own
    if exchange.am_receiver:
        for member in compared:
            if member != me:
                shares[member] = await exchange.take(member, stage, 0, (N_ELEMENTS,), exchange.t)
    return shares


def digest_elements(exchange: ShareExchange, value: bytes) -> Words:
    """Hash a value, with the binding of the job as the salt, to uniform field elements."""
    digest = hashlib.sha256(exchange.session.binding + value).digest()
    return exchange.field.random(KeyStream(digest), (N_ELEMENTS,))
