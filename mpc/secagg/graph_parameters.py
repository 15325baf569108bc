"""How many neighbours each member needs, and how many of them must answer: exact tails, no approximation.

Above 128 members each one shares keys with k neighbours only [Bell20]. Members stand on a ring in random order and each
is joined to the k / 2 nearest on either side. Two things may go wrong, each with a small probability that the choice of
k and of the number of shares required bounds:

* *security* (2^-80 for one ring): somebody's secrets can be opened by corrupt members alone, or members that are
    corrupt or have dropped out cut the ring, so that a part of the honest members' sum could be singled out;
* *correctness* (2^-20): too few of somebody's neighbours are left to open what has to be opened.

A coordinator need not take the first ring. The order is drawn from the hash of all advertisements, honest members'
fresh keys among them, so no ring can be known before those have arrived. But then the coordinator can give its own
members other keys, or leave honest ones out, as often as it likes, and keep the root whose ring it likes best.
Each root is a fresh, independent ring (the hash is a random oracle), and each costs one evaluation of scrypt, so by the
union bound q roots meet a bad ring with probability at most q 2^-80: after 2^40 of them, 2^-40. That is why a ring is
chosen for 2^-80, and not for the 2^-40 of the published parameters, which count one ring. `mpc.secagg.graph` says what
a try costs.

The finder is the published one of Google's federated-compute (class `HararyGraphParameterFinder`), in exact integers:
floating-point tails lose the digits that matter here and give a wrong k from a thousand members on.
"""

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

from mpc.errors import LocalFaultError

SECURITY_BITS = 40
"""A coordinator that tries 2^GRINDING_BITS rings finds a bad one with probability at most 2^-SECURITY_BITS."""
GRINDING_BITS = 40
RING_BITS = SECURITY_BITS + GRINDING_BITS
"""One random ring is bad with probability at most 2^-RING_BITS."""
CORRECTNESS_BITS = 20
SMALLEST_DEGREE = 20
"""Rings with fewer neighbours are not planned, and members refuse them unless their owners say otherwise: below it the
probabilities above rest on few members, and one wrong assumption about these opens a secret."""


@dataclass(frozen=True)
class GraphParameters:
    """A choice of the finder.

    Attributes:
        degree: k, neighbours of each member; even.
        n_required: shares that open a secret, out of k.
    """

    degree: int
    n_required: int


def find_graph_parameters(
    n_members: int,
    n_corrupt: int,
    n_dropouts: int,
    *,
    agrees_by_majority: bool = True,
    ring_bits: int = RING_BITS,
    smallest_degree: int = 2,
) -> GraphParameters | None:
    """Return the smallest safe degree and its number of required shares, or None where no degree below n is safe.

    Args:
        n_members: n, on the ring.
        n_corrupt: largest number of members that collude with the coordinator.
        n_dropouts: largest number of members that drop out.
        agrees_by_majority: ask for so many shares that two different answers of honest neighbours can never both open a
            secret ("semi-malicious" in the source). Our members besides agree on the survivors by signatures; this is
            the second line.
        ring_bits: one random ring is bad with probability at most 2^-ring_bits; 40 for the published parameters.
        smallest_degree: even; a smaller degree is not considered.
    """
    for degree in range(smallest_degree, n_members, 2):
        n_required = required_shares(
            n_members, degree, n_corrupt, n_dropouts, agrees_by_majority=agrees_by_majority, ring_bits=ring_bits
        )
        if n_required is not None:
            return GraphParameters(degree, n_required)
    return None


@functools.lru_cache(maxsize=1024)
def required_shares(
    n_members: int,
    degree: int,
    n_corrupt: int,
    n_dropouts: int,
    *,
    agrees_by_majority: bool = True,
    ring_bits: int = RING_BITS,
) -> int | None:
    """Return the number of shares to require at a degree, or None where the degree is not safe.

    With k the degree and s = `ring_bits`, t1 is the smallest t for which P[more than t of k neighbours are corrupt] <=
    2^-(s + 1) / n, raised to ceil((t1 + k - 1.25) / 2) where honest neighbours might answer differently; t2 is the
    smallest t for which P[at most t of k neighbours stay] >= 2^-20 / n. The degree is safe if t2 > t1 and the ring is
    not cut, but with probability 2^-(s + 1); t1 + 1 shares are required.
    """
    if degree % 2 or not 2 <= degree < n_members:
        raise LocalFaultError(f"{n_members} members on a ring cannot have {degree} neighbours each")
    if _cut_probability(n_members, degree, n_corrupt + n_dropouts) >= Fraction(1, 2 << ring_bits):
        return None
    most_corrupt = _smallest_with_tail_above(n_members, n_corrupt, degree, Fraction(1, n_members * (2 << ring_bits)))
    if agrees_by_majority:
        most_corrupt = math.ceil(Fraction(most_corrupt + degree, 2) - Fraction(5, 8))
    fewest_left = _smallest_with_mass_up_to(
        n_members, n_members - n_dropouts, degree, Fraction(1, n_members << CORRECTNESS_BITS)
    )
    return most_corrupt + 1 if fewest_left > most_corrupt else None


def _cut_probability(n: int, degree: int, n_bad: int) -> Fraction:
    """Bound the probability that the ring is cut: that one of n (n - k - 1) / 2 pairs of runs of k / 2 is all bad."""
    if n_bad < degree:
        return Fraction(0)
    return Fraction(n * (n - degree - 1), 2) * Fraction(math.comb(n - degree, n_bad - degree), math.comb(n, n_bad))


def _smallest_with_tail_above(n: int, n_marked: int, n_drawn: int, bound: Fraction) -> int:
    """Return the smallest t with P[X > t] <= bound, X the number of marked among `n_drawn` of n."""
    total, seen = math.comb(n, n_drawn), 0
    for t in range(n_drawn + 1):
        seen += math.comb(n_marked, t) * math.comb(n - n_marked, n_drawn - t)
        if Fraction(total - seen, total) <= bound:
            return t
    raise AssertionError("the whole distribution has no tail")


def _smallest_with_mass_up_to(n: int, n_marked: int, n_drawn: int, bound: Fraction) -> int:
    """Return the smallest t with P[X <= t] >= bound."""
    total, seen = math.comb(n, n_drawn), 0
    for t in range(n_drawn + 1):
        seen += math.comb(n_marked, t) * math.comb(n - n_marked, n_drawn - t)
        if Fraction(seen, total) >= bound:
            return t
    raise AssertionError("the whole distribution has mass one")
