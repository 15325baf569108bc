"""Decoding of one Reed-Solomon word over a prime field: the few entries in which shares contradict each other.

Polynomials are lists of coefficients in [0, prime), lowest first, without trailing zeros; the zero polynomial is empty.
They have tens of coefficients at most, so plain integers are as good as a library of fields, which would be loaded in
the middle of a job.
"""

from collections.abc import Sequence

from mpc.errors import LocalFaultError

Polynomial = list[int]


def decode_reed_solomon(points: Sequence[int], values: Sequence[int], degree: int, prime: int) -> list[int] | None:
    """Return the corrected values of a polynomial, or None where too many are wrong.

    With m points, up to e = (m - degree - 1) // 2 wrong values are corrected, and the answer is then unique. Gao's
    decoder [Gao03]: the extended Euclidean algorithm on prod_i (x - x_i) and the interpolation polynomial of all values
    stops at the remainder f * v, where v drops_out at the wrong points. Where there are too many, the quotient f has
    too high a degree or differs from the values at more than e points.

    Args:
        points: m distinct abscissas in [0, prime).
        values: what was received at each, in [0, prime).
        degree: at most this is the degree of the polynomial; m > degree.
        prime: order of the field.

    Cost: O(m^2) field operations in Python, milliseconds for tens of points.
    """
    n_points = len(points)
    if n_points != len(values) or not 0 <= degree < n_points:
        raise LocalFaultError(
            f"{len(values)} values at {n_points} points do not determine a polynomial of degree {degree}"
        )
    n_correctable = (n_points - degree - 1) // 2
    previous, remainder = _through(points, values, prime)
    previous_locator: Polynomial = []
    locator: Polynomial = [1]
    while 2 * (len(remainder) - 1) >= n_points + degree + 1:
        quotient, rest = _divide(previous, remainder, prime)
        previous, remainder = remainder, rest
        previous_locator, locator = (
            locator,
            _minus(previous_locator, _times(quotient, locator, prime), prime),
        )
    polynomial, _ = _divide(remainder, locator, prime)
    if len(polynomial) - 1 > degree:
        return None
    corrected = [_value_at(x, polynomial, prime) for x in points]
    n_wrong = sum(got != right for got, right in zip(values, corrected, strict=True))
    return corrected if n_wrong <= n_correctable else None


def _through(points: Sequence[int], values: Sequence[int], prime: int) -> tuple[Polynomial, Polynomial]:
    """Return prod_i (x - x_i), and the polynomial of least degree through all points, by Newton's divided steps.

    Each step adds a multiple of the product so far, which drops_out at all points before, such that the next one fits.
    """
    product: Polynomial = [1]
    polynomial: Polynomial = []
    for x, y in zip(points, values, strict=True):
        missing = (y - _value_at(x, polynomial, prime)) * pow(_value_at(x, product, prime), -1, prime)
        polynomial = _minus(polynomial, _times([-missing % prime], product, prime), prime)
        product = _times(product, [-x % prime, 1], prime)
    return product, polynomial


def _value_at(x: int, polynomial: Polynomial, prime: int) -> int:
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * x + coefficient) % prime
    return value


def _times(a: Polynomial, b: Polynomial, prime: int) -> Polynomial:
    product = [0] * (len(a) + len(b))
    for i, p in enumerate(a):
        for j, q in enumerate(b):
            product[i + j] += p * q
    return _trimmed([c % prime for c in product])


def _minus(a: Polynomial, b: Polynomial, prime: int) -> Polynomial:
    size = max(len(a), len(b))
    left, right = a + [0] * (size - len(a)), b + [0] * (size - len(b))
    return _trimmed([(p - q) % prime for p, q in zip(left, right, strict=True)])


def _divide(a: Polynomial, b: Polynomial, prime: int) -> tuple[Polynomial, Polynomial]:
    """Return quotient and remainder of a by b, which is not zero."""
    rest, inverse = list(a), pow(b[-1], -1, prime)
    quotient = [0] * max(0, len(a) - len(b) + 1)
    for shift in reversed(range(len(quotient))):
        factor = quotient[shift] = rest[shift + len(b) - 1] * inverse % prime
        for j, coefficient in enumerate(b):
            rest[shift + j] = (rest[shift + j] - factor * coefficient) % prime
    return _trimmed(quotient), _trimmed(rest)


def _trimmed(polynomial: Polynomial) -> Polynomial:
    while polynomial and polynomial[-1] == 0:
        polynomial.pop()
    return polynomial
