"""Quantiles of the normal distribution: `scipy.special.ndtri`, without what scipy loads for it.

scipy takes a tenth of a processor second to load, a third of an answer from a release, and 11 MB, which a service at
rest does without. Wichura's rational functions [Wic88] are right to one part in 10^15.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

_MIDDLE = 0.425
"""Distance from 1/2 within which the first pair of polynomials holds; the others are of a root of a logarithm, from 5
on the last."""

Polynomials: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]


def _read(above: str, below: str) -> Polynomials:
    return tuple(map(float, above.split())), tuple(map(float, below.split()))


# Numerator and denominator of each pair, the highest power first.
_WITHIN = _read(
    """2509.0809287301226727 33430.575583588128105 67265.770927008700853 45921.953931549871457 13731.693765509461125
    1971.5909503065514427 133.14166789178437745 3.387132872796366608""",
    """5226.495278852854561 28729.085735721942674 39307.89580009271061 21213.794301586595867 5394.1960214247511077
    687.1870074920579083 42.313330701600911252 1.0""",
)
_BEYOND = _read(
    """7.7454501427834140764e-4 .0227238449892691845833 .24178072517745061177 1.27045825245236838258
    3.64784832476320460504 5.7694972214606914055 4.6303378461565452959 1.42343711074968357734""",
    """1.05075007164441684324e-9 5.475938084995344946e-4 .0151986665636164571966 .14810397642748007459
    .68976733498510000455 1.6763848301838038494 2.05319162663775882187 1.0""",
)
_FAR = _read(
    """2.01033439929228813265e-7 2.71155556874348757815e-5 .0012426609473880784386 .026532189526576123093
    .29656057182850489123 1.7848265399172913358 5.4637849111641143699 6.6579046435011037772""",
    """2.04426310338993978564e-15 1.4215117583164458887e-7 1.8463183175100546818e-5 7.868691311456132591e-4
    .0148753612908506148525 .13692988092273580531 .59983220655588793769 1.0""",
)


_PIECE = 16384
"""Numbers at once: with what is computed beside them they fit a core's cache."""


def normal_quantiles(p: Floats) -> Floats:
    """Return z with a standard normal number below z with probability p.

    Args:
        p: numbers in (0, 1), any shape.
    """
    found, flat = np.empty(p.size), p.ravel()
    for start in range(0, p.size, _PIECE):
        found[start : start + _PIECE] = _quantiles_of_piece(flat[start : start + _PIECE])
    return found.reshape(p.shape)


def _quantiles_of_piece(p: Floats) -> Floats:
    off = p - 0.5
    found = off * _ratio(_WITHIN, np.maximum(_MIDDLE**2 - off**2, 0.0))
    tails = np.abs(off) > _MIDDLE
    root = np.sqrt(-np.log(np.minimum(p[tails], 1 - p[tails])))
    size, far = _ratio(_BEYOND, root - 1.6), root > 5
    if far.any():
        size[far] = _ratio(_FAR, root[far] - 5.0)
    found[tails] = np.copysign(size, off[tails])
    return found


def _ratio(polynomials: Polynomials, x: Floats) -> Floats:
    above, below = (np.zeros_like(x) for _ in polynomials)
    for found, powers in zip((above, below), polynomials, strict=True):
        for one in powers:
            found *= x
            found += one
    above /= below
    return above
