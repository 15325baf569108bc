"""Form `sgd`, vertical setting: an owner of items, which are never sent, and its part of the users' embeddings."""

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.descent.descent_plan import DescentPlan
from analyses.matrix_factorization.descent.projected_descent import as_floats, moved
from analyses.matrix_factorization.descent.projection import add_rows, integer_gradients
from analyses.matrix_factorization.ratings import Ratings
from analyses.sums.noise import SumNoise
from dp.draw.skellam import sample_skellam
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class VerticalMember:
    """An owner of items. Throws a coin per rating, or per user where a user is protected; keeps its item embeddings.

    Args:
        plan: public.
        ratings: by user, columns its own items, values from 0 to R. Private.
        items: the first embeddings of its items, on the lattice.
        entropy: of trimming, of coins and of the owner's noise.

    Attributes:
        items: of the owner's items, released to the owner alone; paid for, so it may publish them.
    """

    def __init__(self, plan: DescentPlan, ratings: Ratings, items: Integers, entropy: Entropy) -> None:
        self._plan, self._entropy = plan, entropy
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

    def contribution(self, users: Integers) -> Integers:
        """Return what a masked sum adds up in a round, shape (users, p), and move the own items. Private.

        With noise "once" the gradient of U of one step, which the sum's noise protects. With "party" the users'
        embeddings after T' steps, each with noise of the owner's own; their mean over N owners moves by an N-th of one
        owner's step, and so do the items.
        """
        plan = self._plan
        if plan.params.noise == "once":
            of_users, of_items = self.gradients(users)
            self.items = moved(plan, self.items, self._noised(of_items, plan.own_noise))
            return of_users
        of_items_too = 1.0 / plan.members.n_members
        for _ in range(plan.params.local_steps):
            of_users, of_items = self.gradients(users)
            self.items = moved(plan, self.items, self._noised(of_items, plan.own_noise), of_items_too)
            users = moved(plan, users, self._noised(of_users, plan.own_noise))
        return users

    def finish(self, users: Integers) -> None:
        """Move the own items by all final steps, at the users of the last round."""
        for chosen in self._final:
            _, of_items = self._gradients(users, chosen)
            self.items = moved(self._plan, self.items, self._noised(of_items, self._plan.final_noise))

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

    def _noised(self, gradient: Integers, noise: SumNoise) -> Integers:
        drawn = sample_skellam(self._entropy, noise.mu, gradient.size)
        return np.asarray(gradient + drawn.reshape(gradient.shape))
