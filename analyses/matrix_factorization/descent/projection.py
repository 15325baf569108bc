"""Form `sgd`: embeddings in a public set, and integer gradients of certified size.

Pi projects onto {v : v >= 0, |v|^2 <= R} [SGDMF22, eq. 6]. Ratings lie in [0, R]. For u and v in that set
0 <= <u, v> <= R, so |x - <u, v>| <= R, and the gradient of one rating with respect to v is

    |-2 u (x - <u, v>)|  <=  2 R^(3/2),

and the same for u. It is scaled, rounded toward zero and shrunk until its squared integer norm is at most
B = floor(units^2 4 R^3), rating by rating, before anything is added up. So, adding or removing

* one rating moves the gradient of V by at most B, and that of (U, V) by at most 2 B;
* a user of theta distinct items moves that of V by at most theta B, as different items are different rows, and that of
  its own row of U, a sum of theta vectors, by at most theta^2 B: theta^2 B + theta B for (U, V).

(All are squared norms.) All of them are attained, at v = u of length sqrt R and x = 0. The bound needs *every* u and v
to be in the set, the first ones included, whatever the data and the noise: what is broadcast is projected, on its
lattice, before it is used.

The factor for a user is sqrt(theta) where [SGDMF22] has theta, which over-noises V by sqrt(theta).
"""

import math

import numpy as np
from numpy.typing import NDArray

from analyses.rows.quantise import rounded

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def project(rows: Floats, largest: float) -> Floats:
    """Return the nearest rows without negative entries and with squared norm at most R: Pi, shape as given.

    First negative entries become 0, then what is too long is shortened: that is the nearest point of the set.
    """
    positive = np.maximum(rows, 0.0)
    norms = np.sqrt(np.einsum("ij,ij->i", positive, positive))
    return np.asarray(positive * np.minimum(1.0, math.sqrt(largest) / np.maximum(norms, 1e-300))[:, None])


def project_to_lattice(rows: Floats, largest: int, units: int) -> Integers:
    """Return Pi(rows) in lattice points, rounded toward zero: no entry negative, squared norms at most R units^2.

    Args:
        rows: shape (rows, p), finite.
        largest: R.
        units: lattice points per 1.
    """
    if not np.isfinite(rows).all():
        raise ValueError("an embedding has an entry that is not finite")
    scaled = project(rows, largest) * units
    return rounded(scaled, largest * units**2)


def gradient_bound(largest: int, units: int) -> int:
    """Return B: of the squared integer norm of one rating's gradient, with respect to v or to u."""
    return units**2 * 4 * largest**3


def squared_sensitivity(largest: int, units: int, *, unit: str, theta: int, both: bool) -> int:
    """Return Delta_2^2 for adding or removing one unit; proof at the head of this module.

    Args:
        largest: R.
        units: integer units per 1 of a gradient.
        unit: "rating" or "user".
        theta: most ratings of a user; unused for a rating.
        both: whether gradients of U are released too.
    """
    bound = gradient_bound(largest, units)
    if unit == "rating":
        return 2 * bound if both else bound
    return (theta**2 + theta) * bound if both else theta * bound


def integer_gradients(own: Floats, other: Floats, values: Floats, largest: int, units: int) -> Integers:
    """Return the gradient of each rating with respect to `own`, shape (ratings, p): -2 other (x - <own, other>).

    Args:
        own: shape (ratings, p), the embedding that is to be moved, per rating. In the set.
        other: shape (ratings, p), the other one. In the set.
        values: shape (ratings,), clipped to 0 .. R here.
        largest: R.
        units: integer units per 1.

    Raises:
        ValueError: an embedding is not in the set: no bound would hold.
    """
    for rows in (own, other):
        if not ((rows >= 0).all() and (np.einsum("ij,ij->i", rows, rows) <= largest * (1 + 2.0**-30)).all()):
            raise ValueError("an embedding is negative or too long: it has not been projected")
    residuals = np.clip(values, 0.0, float(largest)) - np.einsum("ij,ij->i", own, other)
    scaled = -2.0 * units * other * residuals[:, None]
    bound, steps = gradient_bound(largest, units), 0
    gradients: Integers = np.trunc(scaled).astype(np.int64)
    while (over := np.einsum("ij,ij->i", gradients, gradients) > bound).any():
        scaled[over] *= 1.0 - min(0.5, 2.0 ** (steps - 40))
        gradients[over] = np.trunc(scaled[over]).astype(np.int64)
        steps += 1
    return gradients


def add_rows(at: Integers, gradients: Integers, n_rows: int) -> Integers:
    """Return the sum of the gradients of each row, shape (rows, p), in integers."""
    total: Integers = np.zeros((n_rows, gradients.shape[1]), dtype=np.int64)
    np.add.at(total, at, gradients)
    return total
