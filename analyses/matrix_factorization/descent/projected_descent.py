"""Form `sgd`: noisy projected gradient descent in three stages [SGDMF22], corrected. What is public of it.

| line of the paper (figure 3)                                      | function                                 |
| ----------------------------------------------------------------- | ---------------------------------------- |
| (s1) initialise the shared embeddings: public random, projected   | `first_embeddings`                       |
| (c1) horizontal, local: pre-train U locally, projected            | `fit_users`                              |
| (c2) trimming to theta, once                                      | `Ratings.trimmed`, at the members        |
| (c2) horizontal, local: a step on a sample, T' of them            | `horizontal_descent.HorizontalMember`    |
| (c2) vertical: U and V_k                                          | `vertical_descent.VerticalMember`        |
| (s2) all rounds: masked sums of steps or of what T' steps came to | `descend`                                |
| (c3) vertical: noisy steps that move items alone                  | `vertical_descent.VerticalMember.finish` |
| (c3) horizontal, local: fine-tuning, never sent                   | `horizontal_descent.fine_tuned`          |

What differs from the paper, and why, stands in `projection` and `descent_plan`. Gradients are divided by a public
constant, never by the number of ratings in a sample, which is private. Means over members have equal weights, as a
member's part of the users or items is private.
"""

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from analyses.matrix_factorization.descent.descent_plan import DescentPlan
from analyses.matrix_factorization.descent.projection import project, project_to_lattice
from analyses.matrix_factorization.horizontal import TooFewSurvivorsError
from analyses.matrix_factorization.ratings import Ratings
from entropy import KeyStream
from mpc.transcript import digest

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

OpenedStep = Callable[[int, Integers], tuple[Integers, int]]
"""Round s and what is broadcast before it to the opened sum over the survivors, and how many they are. With noise
"once" the sum of gradients, noised; with "party" the sum of what the members' own noisy steps came to. It raises where
too few survive."""

_FIT_STEPS = 40
_START = 0.75


def first_embeddings(plan: DescentPlan, n_rows: int, label: str) -> Integers:
    """Return public random embeddings on the lattice, within the set: shape (rows, p).

    Entries are uniform, a quarter about their middle to each side, and squared norms are about three quarters of R. So
    at first all predictions are close to one value, which a user's own fit makes its mean; wider starts would add what
    the first steps have to take away again.
    """
    p, largest = plan.params.rank, plan.params.largest
    words = KeyStream(digest("projected descent", label)).words(n_rows * p)
    uniform = ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(n_rows, p)
    middle = (_START * largest / p) ** 0.5
    return project_to_lattice((0.75 + 0.5 * uniform) * middle, largest, plan.params.factor_units)


def as_floats(plan: DescentPlan, points: Integers) -> Floats:
    """Return lattice points as numbers."""
    return np.asarray(points / float(plan.params.factor_units))


def moved(plan: DescentPlan, points: Integers, noisy_gradient: Integers, share: float = 1.0) -> Integers:
    """Return Pi(V - share rate g / constant) on the lattice: every released iterate. g is integers with their noise."""
    p = plan.params
    step = share * p.learning_rate / (p.divisor * p.units)
    return project_to_lattice(as_floats(plan, points) - step * noisy_gradient, p.largest, p.factor_units)


def mean_of(plan: DescentPlan, total: Integers, n_members: int) -> Integers:
    """Return the mean of so many members' embeddings, on the lattice: in the set, which is convex."""
    mean = np.asarray(total / (n_members * float(plan.params.factor_units)))
    return project_to_lattice(mean, plan.params.largest, plan.params.factor_units)


def descend(plan: DescentPlan, points: Integers, opened: OpenedStep) -> Integers:
    """Run stage 2: T rounds that move the shared embeddings, V or in the vertical setting U.

    A round that too few survive leaves them as they are, and is paid for all the same.

    Args:
        plan: public.
        points: the first shared embeddings, `first_embeddings`.
        opened: see `OpenedStep`.
    """
    for step in range(plan.params.steps):
        try:
            total, n_survivors = opened(step, points)
        except TooFewSurvivorsError:
            continue
        points = moved(plan, points, total) if plan.params.noise == "once" else mean_of(plan, total, n_survivors)
    return points


def fit_users(ratings: Ratings, items: Floats, largest: float, n_steps: int = _FIT_STEPS) -> Floats:
    """Return each user's embedding, fitted to its own ratings by projected descent: in the set. Local.

    It depends on the user's own ratings and on public vectors, on no other user: one user more or less changes no
    other's gradients.
    """
    vectors, rows = items[ratings.columns], ratings.rows
    found = np.full((ratings.n_rows, items.shape[1]), (largest / 2 / items.shape[1]) ** 0.5)
    squared = np.bincount(rows, np.einsum("ij,ij->i", vectors, vectors), ratings.n_rows)
    rate = 1.0 / (squared + 1.0)[:, None]
    shape = ratings.n_rows, len(items)
    residuals = scipy.sparse.csr_array((ratings.deviations, ratings.columns, ratings.starts), shape)
    for _ in range(n_steps):
        residuals.data = ratings.deviations - np.einsum("ij,ij->i", found[rows], vectors)
        found = project(found + rate * (residuals @ items), largest)
    return found
