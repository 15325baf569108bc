"""The test vectors of shares, checked with `galois` alone: a second implementation of what they say, without `mpc`.

    python tests/vectors/verify_with_galois.py

Modulo each prime shares are values of a polynomial over GF(p) at the parties' numbers. Prints how many of each file
hold.
"""

import json
import sys
from pathlib import Path

import galois
import numpy as np

PRIMES = (2097143, 2097133, 2097131, 2097097, 2097091, 2097083)
FOLDER = Path(__file__).parent


def field(p):
    return galois.GF(p, compile="python-calculate")


def residues(words, place):
    """Return residue number `place` of each element, in the field of its prime."""
    word = [int(text, 16) for text in words[place // 3]]
    return field(PRIMES[place])([value >> 21 * (place % 3) & (1 << 21) - 1 for value in word])


def integers(texts, place):
    p = PRIMES[place]
    return field(p)([int(text) % p for text in np.ravel(np.array(texts, dtype=object))])


def interpolated(shares, place, at):
    """Return the values at a point of the polynomials of least degree through these shares, party to words."""
    gf = field(PRIMES[place])
    points = gf([int(party) for party in shares])
    total = gf.Zeros(len(next(iter(shares.values()))[0]))
    for i, words in enumerate(shares.values()):
        unit = gf.Zeros(len(points))
        unit[i] = 1
        total = total + galois.lagrange_poly(points, unit)(gf(at)) * residues(words, place)
    return total


def lie_on(shares, degree, place):
    """Whether all shares follow from the first ones as a polynomial of this degree says."""
    first = dict(list(shares.items())[: degree + 1])
    others = list(shares.items())[degree + 1 :]
    return len(first) == degree + 1 and all(
        (interpolated(first, place, int(party)) == residues(words, place)).all() for party, words in others
    )


def holds_field(vector, place):
    if "values" not in vector:
        return None
    return (residues(vector["words"], place) == integers(vector["values"], place)).all()


def holds_product(vector, place):
    return (residues(vector["a"], place) * residues(vector["b"], place) == residues(vector["product"], place)).all()


def holds_sharing(vector, place):
    shares = vector["derived_shares"] | vector["explicit_shares"]
    at_zero = interpolated(dict(list(shares.items())[: vector["degree"] + 1]), place, 0)
    return lie_on(shares, vector["degree"], place) and (at_zero == residues(vector["secret"], place)).all()


def holds_opening(vector, place):
    right = {party: words for party, words in vector["shares"].items() if int(party) not in vector["wrong"]}
    at_zero = interpolated(dict(list(right.items())[: vector["degree"] + 1]), place, 0)
    return lie_on(right, vector["degree"], place) and (at_zero == integers(vector["values"], place)).all()


def holds_reduction(vector, place):
    """The product of the values that are shared is what the reduced shares of degree t are of."""
    t, shares = vector["t"], vector["reduced_shares"]
    factors = [interpolated(dict(list(vector[name].items())[: t + 1]), place, 0) for name in ("a_shares", "b_shares")]
    at_zero = interpolated(dict(list(shares.items())[: t + 1]), place, 0)
    return (
        lie_on(shares, t, place)
        and (factors[0] * factors[1] == at_zero).all()
        and (at_zero == integers(vector["product"], place)).all()
    )


CHECKS = {
    "field": holds_field,
    "product": holds_product,
    "sharing": holds_sharing,
    "opening": holds_opening,
    "reduction": holds_reduction,
    "double_sharing": holds_reduction,
}


def verified(name, vectors):
    """Return the names of the vectors of a file that hold; ValueError for the first one that does not."""
    found = []
    for vector in vectors:
        if vector["name"].startswith("bad_"):
            continue
        held = [CHECKS[name](vector, place) for place in range(vector["n_primes"])]
        if None in held:
            continue
        if not all(held):
            raise ValueError(f"{name}.json: {vector['name']} does not hold")
        found.append(vector["name"])
    return found


if __name__ == "__main__":
    for name in CHECKS:
        vectors = json.loads((FOLDER / f"{name}.json").read_text())
        sys.stdout.write(f"{name}: {len(verified(name, vectors))} of {len(vectors)}\n")
