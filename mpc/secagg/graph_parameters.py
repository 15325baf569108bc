"""How many neighbours each member needs, and how many of them must answer: exact tails, no approximation.

Above 128 members each one shares keys with k neighbours only [Bell20]. Members stand on a ring in random order and each
is joined to the k / 2 nearest on either side. Two things may go wrong, each with a small probability that the choice of
k and of the number of shares required bounds:

* *security* (2^-80 for one ring): somebody's secrets can be opened by corrupt members alone, or the sum of a part of
    the honest members can be opened by itself, whomever the coordinator says to have dropped out;
* *correctness* (2^-20): too few of somebody's neighbours are left to open what has to be opened.

Who drops out is for the coordinator to say, once it knows the ring. So it could cut the ring with members that are
honest: say that all of two runs of k / 2 have dropped out. But then those beside a run have half of their neighbours
left, and corrupt ones of the run, to release shares of their own masks' seeds: the part opens only if so many of the
run are corrupt as shares are required beyond k / 2. That of no two runs is what the number of shares is chosen for
besides (docs/decisions/146 has the proof). The published parameters take those that drop out for as random as the
corrupt ones, and ask only that no two runs are all of either.

A coordinator need not take the first ring. The order is drawn from the hash of all advertisements, honest members'
fresh keys among them, so no ring can be known before those have arrived. But then the coordinator can give its own
members other keys, or leave honest ones out, as often as it likes, and keep the root whose ring it likes best.
Each root is a fresh, independent ring (the hash is a random oracle), and each costs one evaluation of scrypt, so by the
union bound q roots meet a bad ring with probability at most q 2^-80: after 2^40 of them, 2^-40. That is why a ring is
chosen for 2^-80, and not for the 2^-40 of the published parameters, which count one ring. `mpc.secagg.graph` says what
a try costs.

But for that the finder is the published one of Google's federated-compute (class `HararyGraphParameterFinder`), in
exact integers: floating-point tails lose the digits that matter here and give a wrong k from a thousand members on.
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
    chooses_dropouts: bool = True,
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
        chooses_dropouts: the coordinator knows the ring when it says who has dropped out; False for the published
            parameters.
        ring_bits: one random ring is bad with probability at most 2^-ring_bits; 40 for the published parameters.
        smallest_degree: even; a smaller degree is not considered.
    """
    for degree in range(smallest_degree, n_members, 2):
        n_required = required_shares(
            n_members,
            degree,
            n_corrupt,
            n_dropouts,
            agrees_by_majority=agrees_by_majority,
            chooses_dropouts=chooses_dropouts,
            ring_bits=ring_bits,
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
    chooses_dropouts: bool = True,
    ring_bits: int = RING_BITS,
) -> int | None:
    """Return the number of shares to require at a degree, or None where the degree is not safe.

    With k the degree and s = `ring_bits`, t1 is the smallest t for which P[more than t of k neighbours are corrupt] <=
    2^-(s + 1) / n, raised to ceil((t1 + k - 1.25) / 2) where honest neighbours might answer differently; t2 is the
    smallest t for which P[at most t of k neighbours stay] >= 2^-20 / n. Required are t1 + 1 shares, or, where the
    coordinator chooses who drops out, so many more that no two runs have as many corrupt members as are required
    beyond k / 2, but with probability 2^-(s + 1). The degree is safe if these are t2 at most and the ring is not cut
    by members that drop out at random, but with probability 2^-(s + 1).
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
    for n_required in range(most_corrupt + 1, fewest_left + 1):
        parted = _parted_probability(n_members, degree, n_corrupt, n_required) if chooses_dropouts else Fraction(0)
        if parted <= Fraction(1, 2 << ring_bits):
            return n_required
    return None


def _parted_probability(n: int, degree: int, n_corrupt: int, n_required: int) -> Fraction:
    """Bound the probability that two runs of k / 2 with others between them have n_required - k / 2 corrupt each.

    The more are corrupt in the first run, the fewer are left for the second: given the first has so many or more, the
    second has them with at most the probability that it has when the first has just so many.
    """
    run, least = degree // 2, n_required - degree // 2
    first = 1 - _mass_up_to(n, n_corrupt, run, least - 1)
    second = 1 - _mass_up_to(n - run, max(0, n_corrupt - least), run, least - 1)
    return Fraction(n * (n - degree - 1), 2) * first * second


def _mass_up_to(n: int, n_marked: int, n_drawn: int, most: int) -> Fraction:
    """Return P[X <= most], X the number of marked among `n_drawn` of n."""
    ways = sum(math.comb(n_marked, t) * math.comb(n - n_marked, n_drawn - t) for t in range(min(most, n_drawn) + 1))
    return Fraction(ways, math.comb(n, n_drawn))


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
