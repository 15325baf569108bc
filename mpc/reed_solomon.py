"""Decoding of one Reed-Solomon word over a prime field: the few entries in which shares contradict each other."""

from collections.abc import Sequence

from mpc.errors import LocalFaultError


def decode_reed_solomon(points: Sequence[int], values: Sequence[int], degree: int, prime: int) -> list[int] | None:
    """Return the corrected values of a polynomial, or None where too many are wrong.

    With m points, up to e = (m - degree - 1) // 2 wrong values are corrected, and the answer is then unique. Gao's
    decoder [Gao03]: the extended Euclidean algorithm on prod_i (x - x_i) and the interpolation polynomial of all values
    stops at the remainder f * v, where v vanishes at the wrong points. Where there are too many, the quotient f has too
    high a degree or differs from the values at more than e points.

    Args:
        points: m distinct abscissas.
        values: what was received at each, in [0, prime).
        degree: at most this is the degree of the polynomial; m > degree.
        prime: order of the field.

    Cost: O(m^2) field operations in Python, milliseconds for tens of points.
    """
    n_points = len(points)
    if n_points != len(values) or not 0 <= degree < n_points:
        raise LocalFaultError(f"{len(values)} values at {n_points} points do not determine a degree of {degree}")
    import galois  # here, not above: 40 MB in every process that only a contradiction among shares needs

    n_correctable = (n_points - degree - 1) // 2
    gf = galois.GF(prime, compile="python-calculate")  # a few dozen operations: not worth compiling a field
    x, y = gf(list(points)), gf(list(values))
    previous, remainder = galois.Poly.Roots(x), galois.lagrange_poly(x, y)
    previous_locator, locator = galois.Poly.Zero(gf), galois.Poly.One(gf)
    while 2 * remainder.degree >= n_points + degree + 1:
        quotient, rest = divmod(previous, remainder)
        previous, remainder = remainder, rest
        previous_locator, locator = locator, previous_locator - quotient * locator
    polynomial = remainder // locator
    if polynomial.degree > degree:
        return None
    corrected = [int(value) for value in polynomial(x)]
    n_wrong = sum(got != right for got, right in zip(values, corrected, strict=True))
    return corrected if n_wrong <= n_correctable else None
