"""Form `sgd`: noisy projected gradient descent in three stages [SGDMF22], corrected.

| line of the paper (figure 3)                                      | function                                 |
| ----------------------------------------------------------------- | ---------------------------------------- |
| (s1) initialise the shared embeddings: public random, projected   | `first_embeddings`                       |
| (c1) horizontal, local: pre-train U locally, projected            | `fit_users`                              |
| (c2) trimming to theta, once                                      | `Ratings.trimmed`, `HorizontalMember`    |
| (c2) a step on a sample: gradient, noise, projection              | `HorizontalMember.gradient`, `moved`     |
| (s2) masked sum of each step, noise "once"                        | `run_once`                               |
| (s2) average of what each member has noised, noise "party"        | `run_by_party`                           |
| (c2) vertical: U and V_k                                          | `VerticalMember`, `run_vertical`         |
| (c3) vertical: noisy steps that move items alone                  | `run_vertical`                           |
| (c3) horizontal, local: fine-tuning, never sent                   | `fine_tuned`                             |

What differs from the paper, and why, stands in `projection` and `descent_plan`. Gradients are divided by a public
constant, never by the number of ratings in a sample, which is private.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.descent.descent_plan import DescentPlan
from analyses.matrix_factorization.descent.projection import add_rows, integer_gradients, project, project_to_lattice
from analyses.matrix_factorization.ratings import Ratings
from dp.draw.skellam import sample_skellam
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES
from mpc.transcript import digest

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

NoisySteps = Callable[[int, Sequence[Integers]], Integers]
"""Step s and the members' integer gradients to their sum with noise of the plan's mu."""

_FIT_STEPS = 40


def first_embeddings(plan: DescentPlan, n_rows: int, label: str) -> Integers:
    """Return public random embeddings on the lattice, within the set: shape (rows, p).

    Entries are uniform with squared norms of about half of R on average.
    """
    p, largest = plan.params.rank, plan.params.largest
    words = KeyStream(digest("projected descent", label)).words(n_rows * p)
    uniform = ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(n_rows, p)
    return project_to_lattice(uniform * (1.5 * largest / p) ** 0.5, largest, plan.params.factor_units)


def as_floats(plan: DescentPlan, points: Integers) -> Floats:
    """Return lattice points as numbers."""
    return np.asarray(points / float(plan.params.factor_units))


def moved(plan: DescentPlan, points: Integers, noisy_gradient: Integers) -> Integers:
    """Return Pi(V - rate g / constant) on the lattice, g in integer units with its noise: every released iterate."""
    p = plan.params
    step = p.learning_rate / (p.divisor * p.units)
    return project_to_lattice(as_floats(plan, points) - step * noisy_gradient, p.largest, p.factor_units)


def fit_users(ratings: Ratings, items: Floats, largest: float, n_steps: int = _FIT_STEPS) -> Floats:
    """Return each user's embedding, fitted to its own ratings by projected descent: in the set. Local.

    It depends on the user's own ratings and on public vectors, on no other user: one user more or less changes no
    other's gradients.
    """
    vectors, rows = items[ratings.columns], ratings.rows
    found = np.full((ratings.n_rows, items.shape[1]), (largest / 2 / items.shape[1]) ** 0.5)
    squared = np.bincount(rows, np.einsum("ij,ij->i", vectors, vectors), ratings.n_rows)
    rate = 1.0 / (squared + 1.0)[:, None]
    for _ in range(n_steps):
        residuals = ratings.deviations - np.einsum("ij,ij->i", found[rows], vectors)
        gradient = np.stack(
            [np.bincount(rows, residuals * vectors[:, a], ratings.n_rows) for a in range(items.shape[1])], axis=1
        )
        found = project(found + rate * gradient, largest)
    return found


class HorizontalMember:
    """A party with its users, or a device with one. Trims once, throws its users' coins, and tells nobody.

    Args:
        plan: public.
        ratings: by user, values from 0 to R. Private.
        items: the first item embeddings, on the lattice: public.
        entropy: of trimming, coins and, with noise "party", noise.
    """

    def __init__(self, plan: DescentPlan, ratings: Ratings, items: Integers, entropy: Entropy) -> None:
        self._plan, self._entropy = plan, entropy
        self._ratings = ratings.trimmed(plan.params.theta, KeyStream(entropy.read(KEY_BYTES)))
        self._users = fit_users(ratings, as_floats(plan, items), plan.params.largest)
        self._samples: Iterator[NDArray[np.intp]] = plan.sampling.samples(
            KeyStream(entropy.read(KEY_BYTES)), ratings.n_rows
        )

    def __repr__(self) -> str:
        return "HorizontalMember()"

    def gradient(self, items: Integers) -> Integers:
        """Return the sum of the sampled users' gradients of V for the next step, shape (items, p). Private."""
        plan, chosen = self._plan, next(self._samples)
        part = self._ratings.of_rows(np.asarray(chosen, dtype=np.int64))
        own, other = as_floats(plan, items)[part.columns], self._users[chosen][part.rows]
        gradients = integer_gradients(own, other, part.deviations, plan.params.largest, plan.params.units)
        return add_rows(part.columns, gradients, plan.params.n_items)

    def noisy_steps(self, items: Integers) -> Integers:
        """Return the item embeddings after T' steps, each with noise of the whole mu, and projected."""
        for _ in range(self._plan.params.local_steps):
            gradient = self.gradient(items)
            noise = sample_skellam(self._entropy, self._plan.mu, gradient.size).reshape(gradient.shape)
            items = moved(self._plan, items, gradient + noise)
        return items


def run_once(
    plan: DescentPlan, members: Sequence[HorizontalMember], items: Integers, noisy_sum: NoisySteps
) -> Integers:
    """Run all steps, each with a masked sum that is noised once; return V on the lattice."""
    for step in range(plan.params.steps):
        items = moved(plan, items, noisy_sum(step, [member.gradient(items) for member in members]))
    return items


def run_by_party(plan: DescentPlan, members: Sequence[HorizontalMember], items: Integers) -> Integers:
    """Run all rounds, in each of which members noise T' steps of their own; return the mean of their V.

    The weights of the mean are equal: a member's part of the users is private.
    """
    for _ in range(plan.params.steps):
        total = np.sum([member.noisy_steps(items) for member in members], axis=0, dtype=np.int64)
        mean = np.asarray(total / (len(members) * float(plan.params.factor_units)))
        items = project_to_lattice(mean, plan.params.largest, plan.params.factor_units)
    return items


def fine_tuned(plan: DescentPlan, ratings: Ratings, items: Integers, n_sweeps: int = 0) -> tuple[Floats, Floats]:
    """Return a member's own (U, V), fitted to all of its ratings: stage 3, without noise, never sent.

    Args:
        plan: public.
        ratings: by user, untrimmed.
        items: released.
        n_sweeps: how often V is refitted too, held near the released one; 0: users alone.
    """
    vectors, largest = as_floats(plan, items), plan.params.largest
    users = fit_users(ratings, vectors, largest)
    by_item = ratings.transposed()
    for _ in range(n_sweeps):
        pull = np.bincount(by_item.rows, minlength=by_item.n_rows)[:, None]
        refitted = fit_users(by_item, users, largest)
        vectors = (vectors * 10 + refitted * pull) / (10 + pull)
        users = fit_users(ratings, vectors, largest)
    return users, vectors


class VerticalMember:
    """An owner of items in the vertical setting. Throws a coin per rating, and keeps its item embeddings.

    Args:
        plan: public.
        ratings: by user, columns its own items, values from 0 to R. Private.
        items: the first embeddings of its items, on the lattice.
        entropy: of coins and of its items' noise.
    """

    def __init__(self, plan: DescentPlan, ratings: Ratings, items: Integers, entropy: Entropy) -> None:
        self._plan, self._ratings, self._entropy = plan, ratings, entropy
        self.items = items
        self._samples = plan.sampling.samples(KeyStream(entropy.read(KEY_BYTES)), ratings.n_ratings)

    def __repr__(self) -> str:
        return "VerticalMember()"

    def step(self, users: Integers, *, items_alone: bool = False) -> Integers:
        """Move the own items by a noisy step, and return the sample's gradient of U, shape (users, p). Private.

        Both gradients are of the same sample, at the same embeddings; an item's noise is the owner's, of the whole mu.
        """
        plan, chosen = self._plan, next(self._samples)
        rows, columns = self._ratings.rows[chosen], self._ratings.columns[chosen]
        values = self._ratings.deviations[chosen]
        u, v = as_floats(plan, users)[rows], as_floats(plan, self.items)[columns]
        largest, units = plan.params.largest, plan.params.units
        of_users = add_rows(rows, integer_gradients(u, v, values, largest, units), plan.params.n_users)
        of_items = add_rows(columns, integer_gradients(v, u, values, largest, units), len(self.items))
        noise = sample_skellam(self._entropy, plan.mu, of_items.size).reshape(of_items.shape)
        self.items = moved(plan, self.items, of_items + noise)
        return np.zeros_like(of_users) if items_alone else of_users


def run_vertical(
    plan: DescentPlan, members: Sequence[VerticalMember], users: Integers, noisy_sum: NoisySteps
) -> Integers:
    """Run all steps on U and the owners' V, then the final ones on V alone; return U on the lattice."""
    for step in range(plan.params.steps):
        users = moved(plan, users, noisy_sum(step, [member.step(users) for member in members]))
    for _ in range(plan.params.final_steps):
        for member in members:
            member.step(users, items_alone=True)
    return users


def sum_with_noise(plan: DescentPlan, entropy: Entropy) -> NoisySteps:
    """Return the sum of all members' gradients with noise as a masked sum has it, for one process.

    In the horizontal setting it is mu in all. In the vertical one the parts of the N - t honest members alone come to
    mu: the same event covers V, whose noise is the owner's, and so a coalition cannot take any off.
    """
    honest = plan.members.n_members - plan.members.n_corrupt
    part = plan.mu * plan.members.n_members // honest + 1 if plan.both else plan.mu

    def noisy_sum(step: int, gradients: Sequence[Integers]) -> Integers:
        total = np.sum(gradients, axis=0, dtype=np.int64)
        return np.asarray(total + sample_skellam(entropy, part, total.size).reshape(total.shape))

    return noisy_sum
