"""The shares of one owner's secrets that one holder keeps for it, and their bytes inside a seal."""

from dataclasses import dataclass, field

from mpc.errors import OutOfRangeError
from mpc.secagg.secret.secret_sharing import SHARE_BYTES, check_share

SHARE_KIND = "shares of secrets"
"""What the sealed message is called in its associated data."""


@dataclass(frozen=True)
class HeldShares:
    """Shares of both kinds. At most one of the first two ever leaves the holder.

    Attributes:
        seed: share of the seed of the owner's own mask.
        key: share of its mask key.
        surplus: shares of each of its surplus seeds, in order.
    """

    seed: bytes = field(repr=False)
    key: bytes = field(repr=False)
    surplus: tuple[bytes, ...] = field(repr=False)

    def encode(self) -> bytes:
        """Return them one after the other."""
        return b"".join((self.seed, self.key, *self.surplus))

    @classmethod
    def decode(cls, data: bytes, n_surplus: int) -> "HeldShares":
        """Read what `encode` wrote.

        Raises:
            OutOfRangeError: another number of shares, or something that cannot be a share.
        """
        if len(data) != (2 + n_surplus) * SHARE_BYTES:
            raise OutOfRangeError(f"{2 + n_surplus} shares take {(2 + n_surplus) * SHARE_BYTES} bytes, not {len(data)}")
        shares = [data[start : start + SHARE_BYTES] for start in range(0, len(data), SHARE_BYTES)]
        for share in shares:
            check_share(share)
        return cls(shares[0], shares[1], tuple(shares[2:]))
