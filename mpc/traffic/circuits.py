"""What comparisons, sorting, fixed point and shuffles send: `mpc.protocol.operations`, walked through."""

from itertools import combinations

from mpc.protocol.operations.selections import sorting_network
from mpc.traffic.shares import ShareTraffic


def random_parts(share: ShareTraffic, n_bits: int, n_high: int) -> None:
    """Walk through `Bits._random_parts`."""
    share.inputs(dict.fromkeys(range(1, share.t + 2), n_bits + n_high))
    product(share, share.t + 1, n_bits)


def product(share: ShareTraffic, n_factors: int, n_values: int) -> None:
    """Walk through `Bits.prod`."""
    while n_factors > 1 and n_values:
        half = n_factors // 2
        share.reduce(half * n_values)
        n_factors -= half


def mask(share: ShareTraffic, n_values: int, n_bits: int) -> None:
    """Walk through `Bits._mask` of an array of degree t."""
    random_parts(share, n_bits * n_values, n_values)
    share.open_among_parties(n_values)


def is_below(share: ShareTraffic, n_values: int, n_bits: int) -> None:
    """Walk through `Bits._is_below`."""
    while n_bits > 1:
        n_pairs = n_bits // 2
        share.reduce((2 * n_pairs - (n_bits % 2 == 0)) * n_values)
        n_bits -= n_pairs


def low_bits(share: ShareTraffic, n_values: int, n_bits: int) -> None:
    """Walk through `Computation.low_bits`, `floor_shift` and `less` of arrays of degree t."""
    mask(share, n_values, n_bits)
    is_below(share, n_values, n_bits)


less = low_bits


def is_zero(share: ShareTraffic, n_values: int, n_bits: int) -> None:
    """Walk through `Computation.is_zero` and `equal` of arrays of degree t."""
    mask(share, n_values, n_bits)
    product(share, n_bits, n_values)


def bits(share: ShareTraffic, n_values: int, n_bits: int) -> None:
    """Walk through `Computation.bits` of an array of degree t."""
    mask(share, n_values, n_bits)
    for step in range((n_bits - 1).bit_length()):
        upper = [place for place in range(n_bits) if place >> step & 1]
        with_p = sum(1 for place in upper if (place >> step << step) - 1 >> step)
        share.reduce((len(upper) + with_p) * n_values)
    share.reduce((n_bits - 1) * n_values)


def select(share: ShareTraffic, n_values: int) -> None:
    """Walk through `Computation.select`."""
    share.reduce(n_values)


def sort(share: ShareTraffic, n_rows: int, n_columns: int, n_bits: int) -> None:
    """Walk through `Computation.sort` of an array of degree t."""
    for lower, _ in sorting_network(n_rows):
        less(share, lower.size, n_bits)
        share.reduce(lower.size * n_columns)


def truncate(share: ShareTraffic, n_values: int, degree: int | None = None, n_pieces: int = 2) -> None:
    """Walk through `Computation.truncate`; arrays have degree t by default, masks two pieces (`pieces_of`)."""
    share.inputs(dict.fromkeys(range(1, share.t + 2), n_pieces * n_values))
    share.open_among_parties(n_values, degree)


def shuffle(share: ShareTraffic, n_values: int) -> None:
    """Walk through `Computation.shuffle` of an array of degree t."""
    for committee in combinations(share.parties, 2):
        share.inputs(dict.fromkeys(committee, n_values))
