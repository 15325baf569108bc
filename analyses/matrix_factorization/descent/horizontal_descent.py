"""Form `sgd`, horizontal and local setting: a member with its users, and what it fits for itself at the end."""

from collections.abc import Collection, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.descent.descent_plan import DescentPlan
from analyses.matrix_factorization.descent.projected_descent import as_floats, fit_users, moved
from analyses.matrix_factorization.descent.projection import add_rows, integer_gradients, project
from analyses.matrix_factorization.descent.step_noise import NoiseSource
from analyses.matrix_factorization.ratings import Ratings
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_RELEASED_WEIGHT = 20.0


class HorizontalMember:
    """A party with its users, or a device with one. Trims once, throws its users' coins, and tells nobody.

    A user's embedding depends on that user's ratings, on its coins and on what was broadcast, and is always in the set.
    So a user moves the gradient by its own theta rows at most, whatever has been done to its embedding before.

    Args:
        plan: public.
        ratings: values from 0 to R, by user. Private.
        items: the first item embeddings, on the lattice: public.
        entropy: the source of trimming and coins.
        n_before: steps that the same member has thrown coins for before, from the same entropy: they are passed over.
            What it is then is what it was, as long as users are fitted before the first step.
    """

    def __init__(
        self, plan: DescentPlan, ratings: Ratings, items: Integers, entropy: Entropy | KeyStream, n_before: int = 0
    ) -> None:
        p = plan.params
        self._plan = plan
        self._ratings = ratings.trimmed(p.theta, KeyStream(entropy.read(KEY_BYTES)))
        if p.pre_train:
            self._users = fit_users(ratings, as_floats(plan, items), p.largest)
        else:
            self._users = np.full((ratings.n_rows, p.rank), (p.largest / 2 / p.rank) ** 0.5)
        samples = plan.sampling.samples(KeyStream(entropy.read(KEY_BYTES)), ratings.n_rows)
        self._samples: Iterator[NDArray[np.intp]] = islice(samples, n_before, None)

    def __repr__(self) -> str:
        return "HorizontalMember()"

    @property
    def n_own_numbers(self) -> int:
        """How much noise of its own the member needs in a round: none with noise "once"."""
        p = self._plan.params
        return 0 if p.noise == "once" else p.local_steps * p.n_items * p.rank

    def contribution(self, items: Integers, noise: NoiseSource) -> Integers:
        """Return what a masked sum adds up in a round: a gradient, or with noise "party" item embeddings. Private.

        Args:
            items: the broadcast item vectors.
            noise: the member's own noise, of the plan's `own_noise`.
        """
        return self.gradient(items) if self._plan.params.noise == "once" else self.noisy_steps(items, noise)

    def gradient(self, items: Integers, absent: Collection[int] = ()) -> Integers:
        """Return the sum of the sampled users' gradients of V for the next step, shape (items, p). Private.

        Args:
            items: the broadcast item vectors.
            absent: users that are left out although their coins show heads: in simulations of devices, those that drop
                out of the round.
        """
        plan, chosen = self._plan, next(self._samples)
        if len(absent):
            chosen = np.setdiff1d(chosen, np.fromiter(absent, dtype=np.intp))
        part = self._ratings.of_rows(np.asarray(chosen, dtype=np.int64))
        own, other = as_floats(plan, items)[part.columns], self._users[chosen][part.rows]
        gradients = integer_gradients(own, other, part.deviations, plan.params.largest, plan.params.units)
        if not plan.params.pre_train:
            self._move_users(chosen, part, own)
        return add_rows(part.columns, gradients, plan.params.n_items)

    def noisy_steps(self, items: Integers, noise: NoiseSource) -> Integers:
        """Return the item embeddings after T' steps, each with noise of the whole mu, and projected."""
        for _ in range(self._plan.params.local_steps):
            gradient = self.gradient(items)
            items = moved(self._plan, items, gradient + noise(gradient.size).reshape(gradient.shape))
        return items

    def _move_users(self, chosen: NDArray[np.intp], part: Ratings, vectors: Floats) -> None:
        """Move the sampled users by an exact step of their own, without noise: they never leave."""
        users = self._users[chosen]
        residuals = part.deviations - np.einsum("ij,ij->i", users[part.rows], vectors)
        total = np.zeros_like(users)
        np.add.at(total, part.rows, residuals[:, None] * vectors)
        squared = np.bincount(part.rows, np.einsum("ij,ij->i", vectors, vectors), len(users))
        self._users[chosen] = project(users + total / (squared + 1.0)[:, None], self._plan.params.largest)


def fine_tuned(plan: DescentPlan, ratings: Ratings, items: Integers, n_sweeps: int = 0) -> tuple[Floats, Floats]:
    """Return a member's own (U, V), fitted to all of its ratings: stage 3, without noise, never sent.

    Args:
        plan: public.
        ratings: untrimmed ratings, by user.
        items: the released item vectors.
        n_sweeps: how often V is refitted too, as the mean of the released one, which counts as many ratings as a public
            constant says, and of the best one for the own ratings; 0: users alone.
    """
    released, largest = as_floats(plan, items), plan.params.largest
    vectors, users = released, fit_users(ratings, released, largest)
    by_item = ratings.transposed()
    own = np.bincount(by_item.rows, minlength=by_item.n_rows)[:, None]
    for _ in range(n_sweeps):
        refitted = fit_users(by_item, users, largest)
        vectors = (released * _RELEASED_WEIGHT + refitted * own) / (_RELEASED_WEIGHT + own)
        users = fit_users(ratings, vectors, largest)
    return users, vectors
