"""Random values that add up to zero over some owners, for every id, without a message [KMPRT17].

Each pair (i, j) of the owners has a key and a pseudorandom function P_ij with it; owner i takes

    s_i(x) = XOR over j != i of P_ij(x)

In the XOR over all owners each P_ij(x) stands twice: it is zero. For one x the vector (s_i(x)) is uniform among those
whose XOR is zero, because the complete graph is connected; so the values of any proper subset of the owners are uniform
and independent, and those of different ids are independent. Who colludes with some of the owners knows their keys; the
same then holds among the others, whose XOR is a value that the colluders know.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from mpc.bulk_hash import hashes
from mpc.errors import LocalFaultError
from mpc.matching.group import Bytes
from mpc.matching.oprf import PAD_WORDS
from mpc.protocol.pairwise import PairwiseSecret

_LABEL = "matching/zero sharing"


class ZeroSharing:
    """One owner's part. Shows nothing of its keys, and cannot be pickled or copied.

    Args:
        me: my member number.
        owners: those whose values add up to zero, me among them. A single one has zeros.
        secrets: what I have in common with the others.

    Raises:
        LocalFaultError: a secret was used for this before: the same values of one id in two matches would show whoever
            decodes them that an owner has this id.
    """

    def __init__(self, me: int, owners: Sequence[int], secrets: Mapping[int, PairwiseSecret]) -> None:
        others = [owner for owner in owners if owner != me]
        if not all(secrets[other].claim_seal(me, _LABEL) for other in others):
            raise LocalFaultError("the pairwise secrets of a job serve for one match only")
        self._keys = [secrets[other].digest(_LABEL, b"") for other in others]

    def values(self, ids: Bytes) -> NDArray[np.uint64]:
        """Return s_me of ids of shape (n, 32): shape (n, 2), uint64."""
        total = np.zeros((len(ids), PAD_WORDS), dtype=np.uint64)
        for key in self._keys:
            total ^= hashes(ids, 8 * PAD_WORDS, key=key).view("<u8")
        return total

    def __repr__(self) -> str:
        return "ZeroSharing()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys must not be copied or stored")
