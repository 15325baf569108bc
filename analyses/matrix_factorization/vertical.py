"""Vertical setting, form `statistics`: owners hold items, all of the same users; the protected unit is one rating.

| line of the specification                                                 | function                              |
| ------------------------------------------------------------------------- | ------------------------------------- |
| owner: per own item count, sum of clip(x - mu0 - a_i, Y) (1, u_i)         | `unit_vectors.add_ratings`, `Owner`   |
| plus own Skellam noise -> b, V                                            | `Owner.release_items`                 |
| masked sum: per user kappa, clip(x - mu0 - b_j, Y) f_j; pooled f f'       | `Owner.user_vector`                   |
| everybody: user vectors = posterior mean                                  | `users_of`                            |
| T sweeps                                                                  | `run`                                 |
| stage 3: own exact items; prior of a user = opened sum less own part      | `Owner.own_choice`                    |

What is paid for. A sweep is two releases about one rating (`plan`): the owners' item sums, which are not sent but on
which the next sums depend, and the users' sums. Pooled second moments are entries of the same vectors and so within
the same bound B = units^2 (kappa^2 + Y^2 F^2 + h^2 (F^4 - 1)): with F^2 = 2 and h = 1/3 that is 5.83 in place of 5.5
times units^2, 3 % more deviation on every number. Without factors F is 1, nothing is pooled, and it costs nothing. The
number of ratings that moments are divided by is the sum of the opened counts, which is post-processing. No mean weight
of users is needed here, as every rating weighs 1; in the other settings its place is taken by the declared k.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.own_factors import SHAPES, Choice, RowPrior, RowPriors, Shape, chosen, of_nothing
from analyses.matrix_factorization.plan import FactorPlan
from analyses.matrix_factorization.posterior import OffsetPosterior, Prior, offset_posterior, symmetric
from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.unit_vectors import add_ratings, within_ball
from entropy import Entropy, KeyStream
from mpc.transcript import digest

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

NoisyUserSum = Callable[[int, Sequence[Integers]], Integers]
"""Sweep s and all owners' user vectors to their sum with the noise of the plan's user release."""

_MIN_TOTAL = 1.0


@dataclass(frozen=True)
class VerticalPrior:
    """Public constants of the estimates.

    Attributes:
        items: variances of items' offsets and of ratings about them.
        user_variance: variance of a user's mean.
        user_spread: sum over the entries of the variances of a user's factors: below the bound F^2 - 1.
        item_spread: the same of an item's vector.
    """

    items: Prior
    user_variance: float = 0.15
    user_spread: float = 0.5
    item_spread: float = 0.5

    def variances(self, rank: int, *, of_users: bool) -> Floats:
        """Return the prior variances of (offset, factors), shape (1 + p,)."""
        first, spread = (
            (self.user_variance, self.user_spread) if of_users else (self.items.offset_variance, self.item_spread)
        )
        return np.array([first, *[spread / max(1, rank)] * rank])


@dataclass(frozen=True)
class OpenedRows:
    """An opened release about ratings, row by row, in units of 1.

    Attributes:
        counts: ratings per row, noisy, shape (rows,).
        sums: noisy sums of residuals times f, shape (rows, 1 + p).
        moment: noisy mean of f f', shape (1 + p, 1 + p).
        deviation: standard deviation of the noise on counts and sums.
    """

    counts: Floats
    sums: Floats
    moment: Floats
    deviation: float

    @classmethod
    def read(cls, plan: FactorPlan, at: int, opened: Integers) -> "OpenedRows":
        """Return what release `at` of the plan has opened; `opened` as `unit_vectors.add_ratings`, with noise."""
        rule, p = plan.params.rule, plan.rank
        n_pooled = (p + 1) * (p + 2) // 2 - 1
        numbers = opened / float(rule.units)
        rows = numbers[: len(numbers) - n_pooled].reshape(-1, 2 + p)
        counts = rows[:, 0] / float(rule.count_weight)
        total = max(_MIN_TOTAL, float(counts.sum()))
        pooled = numbers[len(numbers) - n_pooled :] / (float(rule.moment_weight or 1) * total)
        moment = symmetric(np.concatenate([[1.0], pooled]), p + 1)
        values, basis = np.linalg.eigh(moment)
        moment = (basis * np.maximum(values, 1e-3)) @ basis.T
        return cls(counts, np.ascontiguousarray(rows[:, 1:]), moment, plan.deviation(at))


def normal_equations(opened: OpenedRows, residual_variance: float) -> tuple[Floats, Floats]:
    """Return what opened sums say of their rows: precisions, shape (rows, q, q), and precisions times means.

    s ~ N(c M y, sigma^2 I + c r^2 M) for a row with c ratings and parameters y; c is raised to 0 where noise has made
    it negative.
    """
    counts = np.maximum(opened.counts, 0.0)[:, None, None]
    means = counts * opened.moment
    covariance = opened.deviation**2 * np.eye(len(opened.moment)) + means * residual_variance
    gain = np.linalg.solve(covariance, means)
    return means @ gain, np.einsum("nba,nb->na", gain, opened.sums)


def posterior_rows(
    opened: OpenedRows, variances: Floats, residual_variance: float, means: Floats | float = 0.0
) -> Floats:
    """Return posterior means of (offset, factors), shape (rows, 1 + p), under a prior about `means`, as many, or 0."""
    precision, known = normal_equations(opened, residual_variance)
    known = known + means / variances
    return np.asarray(np.linalg.solve(precision + np.diag(1 / variances), known[:, :, None])[:, :, 0])


def users_of(
    plan: FactorPlan, opened: OpenedRows, prior: VerticalPrior, start: FactorModel | None = None
) -> FactorModel:
    """Return all users' offsets and vectors on the lattice, shortened to the public bound: what is broadcast.

    After an earlier public model of the users, `start`, the prior is about that one.
    """
    variances = prior.variances(plan.rank, of_users=True)
    means = 0.0 if start is None else np.column_stack([start.offsets, start.vectors])
    return on_lattice(plan, posterior_rows(opened, variances, prior.items.residual_variance, means))


def on_lattice(plan: FactorPlan, found: Floats) -> FactorModel:
    """Return offsets and vectors, shape (rows, 1 + p), on the lattice, vectors with |v|^2 <= F^2 - 1."""
    longest = float(plan.params.squared_length - 1) ** 0.5
    vectors = within_ball(found[:, 1:], longest * (1 - 2.0**-20)) if plan.rank else found[:, 1:]
    model = FactorModel.nearest(found[:, 0], vectors, plan.params.factor_units)
    units = float(plan.params.factor_units)
    too_long = np.einsum("ij,ij->i", model.vectors, model.vectors) > longest**2
    toward_zero = np.trunc(vectors * units).astype(np.int64)  # never longer than the vector itself
    return replace(model, vectors_q=np.where(too_long[:, None], toward_zero, model.vectors_q))


class Owner:
    """One owner of items and what it keeps for itself.

    Args:
        plan: public.
        ratings: the owner's ratings by user; columns are the owner's own items. Private.
        prior: public constants.
        entropy: the source of the owner's noise.

    Attributes:
        items: offsets and vectors of its items, of the last noisy sums that it took. They follow from these sums, and
            from what was broadcast, alone (`take_items`), and each of the sums is a release of the plan: so whoever
            sees them beside all sums by user has seen what is paid for, and the owner may publish them.
    """

    def __init__(self, plan: FactorPlan, ratings: Ratings, prior: VerticalPrior, entropy: Entropy) -> None:
        self._plan, self._prior, self._entropy = plan, prior, entropy
        self._by_user = ratings
        self.items = self.take_none()
        self._expected: Floats = np.zeros(ratings.n_columns)

    def __repr__(self) -> str:
        return f"Owner(n_items={self._by_user.n_columns})"

    @cached_property
    def _by_item(self) -> Ratings:
        return self._by_user.transposed()

    def release_items(self, sweep: int, users: FactorModel) -> FactorModel:
        """Return offsets and vectors of the owner's items from noisy sums; they cost what the plan says.

        They are not sent, but the user sums depend on them. An owner may publish them: they are paid for.

        Args:
            sweep: 0 .. T - 1.
            users: the users broadcast after the sweep before.
        """
        total = self.item_sums(users)
        noise = replace(self._plan.releases[2 * sweep], length=len(total)).draw(self._entropy, [])
        return self.take_items(sweep, total + noise)

    def item_sums(self, users: FactorModel) -> Integers:
        """Return the sum of the owner's ratings' vectors by item. Private: noise is added before anything uses it."""
        plan = self._plan
        return add_ratings(plan.params.rule, self._by_item, users.offsets, users.vectors, squared_length_of(plan))

    def take_none(self) -> FactorModel:
        """Take items at 0 for the owner's, as before the first release; return them."""
        params, n_items = self._plan.params, self._by_user.n_columns
        zeros = np.zeros((n_items, self._plan.rank), dtype=np.int64)
        self.items = FactorModel(np.zeros(n_items, dtype=np.int64), zeros, params.factor_units)
        return self.items

    def take_items(self, sweep: int, noisy: Integers) -> FactorModel:
        """Return offsets and vectors of the owner's items from `item_sums` with noise; `sweep` as `release_items`."""
        plan = self._plan
        opened = OpenedRows.read(plan, 2 * sweep, noisy)
        released = self._offsets(opened)
        self._expected = released.expected
        if plan.rank == 0:
            found = released.offsets[:, None]
        else:
            # The regression's part is taken off, so that the prior is about 0.
            centred = replace(
                opened, sums=opened.sums - opened.counts[:, None] * np.outer(released.expected, opened.moment[0])
            )
            found = posterior_rows(
                centred, self._prior.variances(plan.rank, of_users=False), self._prior.items.residual_variance
            )
            found[:, 0] += released.expected
        self.items = on_lattice(plan, found)
        return self.items

    def user_vector(self) -> Integers:
        """Return the sum of the owner's ratings' vectors by user, padded to all users. Private: masked."""
        plan, items = self._plan, self.items
        return add_ratings(plan.params.rule, self._by_user, items.offsets, items.vectors, squared_length_of(plan))

    def own_choice(self, opened: OpenedRows, bounds: tuple[float, float], *, is_included: bool = True) -> Choice:
        """Return (offset, vector) of the owner's items and of all users, the best of joint and alone. Never sent.

        Joint: users about what the others' noisy sums say of them, which are the opened ones less the owner's own exact
        part; items about the released regression. Own factors stand on top of the others' offsets, or, where vectors
        were released, also on all that the sums say.

        Args:
            opened: the user release of the last sweep.
            bounds: the bounds of a rating less the centre.
            is_included: whether the owner's own part is in it: whether the owner survived that round.
        """
        plan, prior, p = self._plan, self._prior, self._plan.rank
        r2, ratings = prior.items.residual_variance, self._by_user
        rule, width = plan.params.rule, 2 + p
        own = np.zeros((ratings.n_rows, width))
        if is_included:
            own = self.user_vector()[: ratings.n_rows * width].reshape(-1, width) / float(rule.units)
        others = replace(
            opened, counts=opened.counts - own[:, 0] / float(rule.count_weight), sums=opened.sums - own[:, 1:]
        )
        precision, known = normal_equations(others, r2)
        precision = precision + np.diag(1 / prior.variances(p, of_users=True))
        spread = np.linalg.inv(precision)
        ridges = r2 / prior.variances(p, of_users=False)
        of_offsets = RowPrior.of_offsets(self._expected, np.full(ratings.n_columns, float(ridges[0])))
        means = np.einsum("nb,nb->n", spread[:, 0], known)
        ridge = np.asarray(r2 / spread[:, 0, 0], dtype=np.float64)
        joint = [(RowPriors(RowPrior.of_offsets(means, ridge), of_offsets), SHAPES)]
        if p:
            of_rows = of_offsets.with_factors(np.zeros((ratings.n_columns, p)), float(ridges[1]))
            joint.append((RowPriors(RowPrior.of_precisions(precision * r2, known * r2), of_rows), (Shape(p),)))
        return chosen(ratings, joint, of_nothing(ratings, prior.items), bounds)

    def _offsets(self, opened: OpenedRows) -> OffsetPosterior:
        return offset_posterior(
            opened.counts, opened.sums[:, 0], opened.deviation, ratings_per_user=1, prior=self._prior.items
        )


@dataclass(frozen=True)
class VerticalResult:
    """What all sweeps came to.

    Attributes:
        users: offsets and vectors of all users: public, known to all parties.
        opened: the last user release.
        items: per owner, its items' released offsets and vectors: known to the owner alone.
    """

    users: FactorModel
    opened: OpenedRows
    items: tuple[FactorModel, ...]


def run(plan: FactorPlan, owners: Sequence[Owner], prior: VerticalPrior, noisy_sum: NoisyUserSum) -> VerticalResult:
    """Run all sweeps: each owner's item release, then the masked sum by user."""
    users = first_users(plan)
    opened: OpenedRows | None = None
    items: tuple[FactorModel, ...] = ()
    for sweep in range(plan.n_rounds):
        items = tuple(owner.release_items(sweep, users) for owner in owners)
        opened = OpenedRows.read(plan, 2 * sweep + 1, noisy_sum(sweep, [owner.user_vector() for owner in owners]))
        users = users_of(plan, opened, prior)
    assert opened is not None
    return VerticalResult(users, opened, items)


def first_users(plan: FactorPlan, start: str = "first user vectors") -> FactorModel:
    """Return offsets 0 and public random vectors, within the bound."""
    n, p = plan.params.n_users, plan.rank
    words = KeyStream(digest("matrix factorization", start)).words(n * p)
    uniform = ((words >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0).reshape(n, p)
    return on_lattice(plan, np.column_stack([np.zeros(n), uniform / max(1, p) ** 0.5]))


def squared_length_of(plan: FactorPlan) -> Fraction:
    """Return F^2: 1 without factors."""
    return plan.params.squared_length if plan.rank else Fraction(1)
