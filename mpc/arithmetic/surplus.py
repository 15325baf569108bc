"""Shares beyond those that an opening needs: how many may be missing or corrupted."""

from mpc.errors import TooFewPartiesError


def survivable(n_parties: int, degree: int) -> tuple[int, int]:
    """Return how many parties may drop out before an opening, and how many may send corrupted shares instead.

    An opening needs degree + 1 shares. Of the surplus s all shares may be missing; or s // 2 shares may be corrupted
    and are corrected, and their senders named.

    Args:
        n_parties: N.
        degree: degree of the opened sharing: t, or 2t for a product, with t colluding parties tolerated.

    Raises:
        TooFewPartiesError: not degree + 1 <= N.
    """
    surplus = n_parties - degree - 1
    if degree < 0 or surplus < 0:
        raise TooFewPartiesError(
            f"{n_parties} parties cannot open a sharing of degree {degree}: {degree + 1} are needed"
        )
    return surplus, surplus // 2
