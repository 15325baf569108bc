"""Form `sgd`, vertical setting: an owner of items, which are never sent, and its part of the users' embeddings."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.descent.descent_plan import DescentPlan
from analyses.matrix_factorization.descent.projected_descent import as_floats, moved
from analyses.matrix_factorization.descent.projection import add_rows, integer_gradients
from analyses.matrix_factorization.descent.step_noise import NoiseSource
from analyses.matrix_factorization.ratings import Ratings
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class VerticalMember:
    """An owner of items. Throws a coin per rating, or per user where a user is protected; keeps its item embeddings.

    Args:
        plan: public.
        ratings: values from 0 to R; rows are users, columns its own items. Private.
        items: the first embeddings of its items, on the lattice.
        entropy: the source of trimming and coins.

    Attributes:
        items: vectors of the owner's items, released to the owner alone; paid for, so it may publish them.
    """

    def __init__(self, plan: DescentPlan, ratings: Ratings, items: Integers, entropy: Entropy) -> None:
        self._plan = plan
        self._of_users = plan.params.unit == "user"
        trimming = KeyStream(entropy.read(KEY_BYTES))
        self._ratings = ratings.trimmed(plan.params.theta, trimming) if self._of_users else ratings
        self.items = items
        n_units = ratings.n_rows if self._of_users else ratings.n_ratings
        self._samples = plan.sampling.samples(KeyStream(entropy.read(KEY_BYTES)), n_units)
        final_coins = KeyStream(entropy.read(KEY_BYTES))
        self._final = plan.final_sampling.samples(final_coins, n_units) if plan.final_sampling else iter(())

    def __repr__(self) -> str:
        return "VerticalMember()"

    @property
    def n_own_numbers(self) -> int:
        """How much noise of its own the owner needs in a round: for its items, with noise "party" for users, too."""
        p = self._plan.params
        n_rows = len(self.items) if p.noise == "once" else len(self.items) + p.n_users
        return p.local_steps * n_rows * p.rank

    @property
    def n_final_numbers(self) -> int:
        """How much noise of its own the owner needs for all final steps."""
        p = self._plan.params
        return p.final_steps * len(self.items) * p.rank

    def contribution(self, users: Integers, noise: NoiseSource) -> Integers:
        """Return what a masked sum adds up in a round, shape (users, p), and move the own items. Private.

        With noise "once" the gradient of U of one step, which the sum's noise protects. With "party" the users'
        embeddings after T' steps, each with noise of the owner's own; their mean over N owners moves by an N-th of one
        owner's step, and so do the items ([SGDMF22, eq. 4] has the owner's part of all items for that weight).

        Args:
            users: the broadcast user vectors.
            noise: the owner's own noise, of the plan's `own_noise`.
        """
        plan = self._plan
        if plan.params.noise == "once":
            of_users, of_items = self.gradients(users)
            self.items = moved(plan, self.items, _noised(of_items, noise))
            return of_users
        of_items_too = 1.0 / plan.members.n_members
        for _ in range(plan.params.local_steps):
            of_users, of_items = self.gradients(users)
            self.items = moved(plan, self.items, _noised(of_items, noise), of_items_too)
            users = moved(plan, users, _noised(of_users, noise))
        return users

    def finish(self, users: Integers, noise: NoiseSource) -> None:
        """Move the own items by all final steps, at the users of the last round.

        These are whole steps, with noise "party" too. In a round an owner's steps have the weight of an N-th, as users
        and items descend one loss of all owners together. Here users stay where they are, so each owner's items have a
        convex loss of their own, which needs no weight (docs/decisions/026-descent-as-a-job.md has both measured).

        Args:
            users: the broadcast user vectors.
            noise: the owner's own noise, of the plan's `final_noise`.
        """
        for of_items in self.final_gradients(users):
            self.items = moved(self._plan, self.items, _noised(of_items, noise))

    def final_gradients(self, users: Integers) -> Iterator[Integers]:
        """Yield the gradient of the own items in each final step, at the items as they are then. Private, no noise."""
        for chosen in self._final:
            yield self._gradients(users, chosen)[1]

    def gradients(self, users: Integers) -> tuple[Integers, Integers]:
        """Return the next sample's gradients of U and of the own items, at the same embeddings. Private, no noise."""
        return self._gradients(users, next(self._samples))

    def _gradients(self, users: Integers, chosen: NDArray[np.intp]) -> tuple[Integers, Integers]:
        plan, ratings = self._plan, self._ratings
        if self._of_users:
            drawn = np.zeros(ratings.n_rows, dtype=bool)
            drawn[chosen] = True
            chosen = np.flatnonzero(drawn[ratings.rows])
        rows, columns, values = ratings.rows[chosen], ratings.columns[chosen], ratings.deviations[chosen]
        u, v = as_floats(plan, users)[rows], as_floats(plan, self.items)[columns]
        largest, units = plan.params.largest, plan.params.units
        of_users = add_rows(rows, integer_gradients(u, v, values, largest, units), plan.params.n_users)
        return of_users, add_rows(columns, integer_gradients(v, u, values, largest, units), len(self.items))


def _noised(gradient: Integers, noise: NoiseSource) -> Integers:
    return np.asarray(gradient + noise(gradient.size).reshape(gradient.shape))
