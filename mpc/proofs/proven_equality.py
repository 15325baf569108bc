"""The test whether members hold the same value (`mpc.protocol.equality`), against members that deviate.

There a party that waits for the others' shares of the verdict, of degree 2t, can choose its own so that owners who
differ hear that they agree. Here the product r * (d_f - d_q) is reduced and proven before it is opened, with degree t,
and all N shares count: no t wrong ones lie on another polynomial of degree t with the others.

Whatever a member deals as its digest, or as its part of r, it chooses before anybody can know r. So of two honest
members that differ one at least differs from the reference, also where the reference deviates: z_q - z_p is
r * (d_p - d_q).
"""

from collections.abc import Sequence

import numpy as np

from mpc.proofs.products import ProvenComputation
from mpc.protocol.equality import N_ELEMENTS, digest_elements, raise_first_difference
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.shared import stack


async def check_equal_proven(
    exchange: ShareExchange, members: Sequence[int], compared: Sequence[int], label: str, value: bytes | None
) -> None:
    """Raise unless the compared members hold the same bytes, as `check_equal` does, whose arguments these are.

    Raises:
        UnequalValuesError: names the member that differs from the reference. One of these two may have deviated.
        InconsistentSharesError: shares contradict each other, and nobody can tell whose are wrong.
        PeerViolationError: names a party whose products are wrong.
        PeerError: a member is silent, drops out or sent an invalid message.

    Privacy: active, at most t corrupt; reveals what `check_equal` does.
    Soundness: members that differ pass with less than 2^-46, as a wrong product does with less than 2^-47
    (`mpc.proofs.products`).
    Cost: 4 rounds, and those of a proof of a few products (`Proofs.check`).
    """
    reference, *others = compared
    if not others:
        return
    field = exchange.field
    mine = None if value is None else field.decode(digest_elements(exchange, value))
    async with ProvenComputation(exchange, label) as c:
        digests = await c.inputs(dict.fromkeys(compared, (N_ELEMENTS,)), mine, bound=None)
        blinding = await c.random((len(others), N_ELEMENTS))
        difference = stack([digests[reference] - digests[q] for q in others])
        opened = await c.open(await c.multiply(blinding, difference), members)
    assert opened is not None
    differs = np.asarray(opened.values.astype(bool).any(axis=1))
    raise_first_difference(exchange, compared, label, differs)
