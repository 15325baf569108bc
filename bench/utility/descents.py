"""Matrix factorization: one run of the form `sgd`, and of what it is compared with, at equal true privacy.

Ratings lie in 0 .. 5. All steps are those of `analyses.matrix_factorization.descent`, with exact Skellam noise of the
plan's parameter, for the coordinator's view at delta 1e-5. Where the paper has 1000 steps on samples of a hundredth, we
have 20 to 50 on larger samples: that is less noise for the same cost. Step sizes are tried at two sizes, and the one
that is best on the *test* part of the first seed is taken, for every method: that favours methods that must be tuned.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.descent.descent_plan import DescentParams, DescentPlan, calibrated
from analyses.matrix_factorization.descent.horizontal_descent import HorizontalMember, fine_tuned
from analyses.matrix_factorization.descent.in_process_steps import LocalSteps
from analyses.matrix_factorization.descent.projected_descent import as_floats, descend, first_embeddings
from analyses.matrix_factorization.descent.vertical_descent import VerticalMember
from analyses.matrix_factorization.plan import Members
from analyses.matrix_factorization.ratings import Ratings
from bench.utility.factors import DELTA, SETS, load
from dp.mechanism.bounded_sampling import BoundedPoisson
from entropy import InsecureTestEntropy

LARGEST = 5
RANK = 4
THETA = {"horizontal": 50, "vertical": 10}
SIZES = (0.3, 1.0)
"""Of steps, times a rule of thumb."""

Floats = NDArray[np.float64]
Split = NDArray[np.int64]
"""Whose each item is, 0 .. s - 1."""


@dataclass(frozen=True)
class Positive:
    """A data set whose values are ratings from 0 to 5.

    Attributes:
        name: of the set.
        train: by user.
        test: users, items and ratings of what is left out.
        bounds: of a rating.
        seed: of the split.
    """

    name: str
    train: Ratings
    test: tuple[Any, Any, Floats]
    bounds: tuple[float, float]
    seed: int

    @classmethod
    def load(cls, name: str, seed: int) -> "Positive":
        """Return a data set of `bench.utility.factors`, not centred."""
        data, centre = load(name, seed), SETS[name][1]
        train = replace(data.train, deviations=data.train.deviations + centre)
        users, items, values = data.test
        bounds = (data.bounds[0] + centre, data.bounds[1] + centre)
        return cls(name, train, (users, items, values + centre), bounds, seed)

    def error(self, predicted: Floats) -> float:
        """Return the mean squared error on the test part."""
        return float(np.mean((np.clip(predicted, *self.bounds) - self.test[2]) ** 2))

    def entropy(self, *what: object) -> InsecureTestEntropy:
        """Return the randomness of one run."""
        return InsecureTestEntropy(f"{self.name} {self.seed} {what}")

    def rng(self) -> np.random.Generator:
        """Return the randomness of a baseline."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True)
class Shape:
    """What the steps of a run are like, beside their number and size.

    Attributes:
        rank: p.
        theta: most ratings of a user at one owner that are used, where a user is protected.
        sampling_rate: of the protected units, in each step.
        final_steps: vertical: at the end, items alone.
        is_of_a_job: whether a size is relative to the public rule of a job, `DescentPlan.with_divisor`; else to a rule
            of thumb for few steps on large samples.
        rounds_normals: whether noise is a normal variable of the same variance, rounded, in a tenth of the time: it has
            thousands of units, and protects nobody here.
    """

    rank: int
    theta: int
    sampling_rate: float
    final_steps: int = 0
    is_of_a_job: bool = False
    rounds_normals: bool = False


class QuickSteps(LocalSteps):
    """Members in one process, whose own noise is made of rounded normal variables."""

    def own_noise(self, length: int) -> Any:
        """Return noise of one member's own."""
        return _rounded_normals(self.plan.own_noise.mu, length)

    def final_noise(self, length: int) -> Any:
        """Return noise of one owner's own, for final steps."""
        return _rounded_normals(self.plan.final_mu, length)


_NORMALS = np.random.default_rng(20)


def _rounded_normals(mu: int, length: int) -> Any:
    return np.rint(_NORMALS.standard_normal(length, dtype=np.float32) * (2 * mu) ** 0.5).astype(np.int64)


Run = Callable[[Positive, float], dict[str, float]]
"""One run at a size of steps: what was measured, by name."""


def tuned(run: Run, sets: Sequence[Positive], by: str = "mse") -> dict[str, float]:
    """Return medians over the seeds, at the size of steps that is best on the first one's test part."""
    tried = {size: run(sets[0], size) for size in SIZES}
    best = min(tried, key=lambda size: tried[size][by])
    found = [tried[best], *(run(data, best) for data in sets[1:])]
    return {name: float(np.median([one[name] for one in found])) for name in found[0]}


# -- the form `sgd` ------------------------------------------------------------------------------------------------


def _plan(
    params: DescentParams, members: Members, epsilon: float | None, size: float, rule: float, of_a_job: float | None
) -> DescentPlan:
    """Return a plan, with next to no noise for an epsilon of None, whose steps are `size` times a rule.

    Args:
        params: without the learning rate.
        members: of the sums.
        epsilon: coordinator's view, or None.
        size: of steps.
        rule: of thumb: a learning rate.
        of_a_job: ratings of a user that count, for the rule of a job; None for the rule of thumb.
    """
    plan = calibrated(params, members, epsilon=epsilon or 8.0, delta=DELTA, view="coordinator")
    if of_a_job is not None:
        plan = replace(plan, mu=plan.mu if epsilon else 1, params=replace(params, learning_rate=size))
        return plan.with_divisor(of_a_job)
    if epsilon is None:
        return replace(plan, mu=1, params=replace(params, learning_rate=size * rule))
    return replace(plan, params=replace(params, learning_rate=size * rule / (1 + plan.multiplier)))


def horizontal(
    data: Positive,
    size: float,
    *,
    epsilon: float | None,
    n_parties: int,
    noise: str = "once",
    steps: tuple[int, int] = (20, 1),
    pre_train: bool = True,
    setting: str = "horizontal",
    dropped: float = 0.0,
    omega: float = 0.3,
    shape: Shape | None = None,
) -> dict[str, float]:
    """Return the errors after stage 2, users fitted to V ("released"), and after stage 3 ("mse").

    Args:
        data: split.
        size: of steps.
        epsilon: coordinator's view; None for no noise.
        n_parties: s; in the local setting the devices, all of whose noise is drawn at once.
        noise: once or party.
        steps: T and T'.
        pre_train: see `DescentParams`.
        setting: horizontal or local.
        dropped: local: the part of the devices that drops out of each round.
        omega: local: the part that may.
        shape: where it is not p = 4 and all users in each step.
    """
    train, n = data.train, data.train.n_rows
    of = shape or Shape(RANK, THETA["horizontal"], 1.0)
    params = DescentParams(
        setting,  # type: ignore[arg-type]
        n,
        train.n_columns,
        rank=of.rank,
        largest=LARGEST,
        theta=of.theta,
        steps=steps[0],
        local_steps=steps[1],
        sampling_rate=of.sampling_rate,
        noise=noise,  # type: ignore[arg-type]
        pre_train=pre_train,
    )
    is_local = setting == "local"
    fewest = n - int(n * omega) if is_local else n_parties
    members = Members(n if is_local else n_parties, 0, fewest)
    by_party = n_parties if noise == "party" else 1
    of_a_job = min(of.theta, train.n_ratings / n) if of.is_of_a_job else None
    plan = _plan(params, members, epsilon, size, 1.5e-3 / of.theta**0.5 * by_party**0.5, of_a_job)
    start, entropy = first_embeddings(plan, train.n_columns, "V"), data.entropy("horizontal", epsilon, n_parties)
    parts = [] if is_local else list(train.split_rows(n_parties))
    absent: dict[int, list[int]] = {}
    if dropped:
        rng = np.random.default_rng(data.seed)
        absent = {t: np.flatnonzero(rng.random(n) < dropped).tolist() for t in range(steps[0])}
    members_of: list[Any] = [HorizontalMember(plan, part, start, entropy) for part in parts]
    if noise == "once":
        # The sum of all members' gradients is that of one that has all users; its noise is drawn at once.
        members_of = [AllUsers(HorizontalMember(plan, train, start, entropy), absent)]
    steps_with = QuickSteps if of.rounds_normals else LocalSteps
    opened = steps_with(plan, members_of, entropy, absent=absent, together=True)
    items = descend(plan, start, opened)
    released = data.error(_products(data, *fine_tuned(plan, train, items)))
    if is_local:
        return {"mse": released}
    result = np.zeros(len(data.test[2]))
    for k, part in enumerate(parts):
        here = data.test[0] % n_parties == k
        users, own = fine_tuned(plan, part, items, n_sweeps=3)
        u, v = users[data.test[0][here] // n_parties], own[data.test[1][here]]
        result[here] = (u * v).sum(axis=1)
    return {"mse": data.error(result), "released": released}


@dataclass
class AllUsers:
    """Stands for all members of the local setting, or all parties: what the members of a round add up together.

    Attributes:
        member: with all users.
        absent: round to the users that drop out of it.
        round: the next one.
    """

    member: HorizontalMember
    absent: dict[int, list[int]]
    round: int = 0

    def contribution(self, points: Any, _noise: Any) -> Any:
        """Return the sum over the members that have not dropped out."""
        self.round += 1
        return self.member.gradient(points, self.absent.get(self.round - 1, []))


def stage_1_alone(data: Positive) -> float:
    """Return the error of users fitted to the public random items: what the first stage comes to."""
    params = DescentParams("horizontal", data.train.n_rows, data.train.n_columns, rank=RANK, largest=LARGEST)
    plan = DescentPlan(params, Members(3, 0, 3), BoundedPoisson.with_rate(0.5, 100), None, 1, DELTA)
    return data.error(_products(data, *fine_tuned(plan, data.train, first_embeddings(plan, data.train.n_columns, "V"))))


def vertical(
    data: Positive,
    size: float,
    *,
    epsilon: float | None,
    owner_of: Split,
    unit: str = "rating",
    steps: tuple[int, int] = (50, 1),
    together: bool = True,
    shape: Shape | None = None,
) -> dict[str, float]:
    """Return the error of the released embeddings, each owner's items with the common users.

    Args:
        data: split.
        size: of steps.
        epsilon: coordinator's view; None for no noise.
        owner_of: whose each item is.
        unit: rating or user.
        steps: T and T'.
        together: whether owners share U; else each has its own ("DP local-only").
        shape: where it is not p = 4 and samples of 3 in 10.
    """
    train, n_owners = data.train, int(owner_of.max()) + 1
    of = shape or Shape(RANK, THETA["vertical"] if n_owners == 1 else THETA["vertical"] // 2, 0.3, final_steps=5)
    params = DescentParams(
        "vertical",
        train.n_rows,
        train.n_columns,
        unit,  # type: ignore[arg-type]
        rank=of.rank,
        largest=LARGEST,
        theta=of.theta,
        steps=steps[0],
        local_steps=steps[1],
        final_steps=of.final_steps,
        sampling_rate=of.sampling_rate,
        noise="party",
    )
    rule = (1e-3 if unit == "rating" else 1e-4) * (n_owners**0.5 if together else 1.0)
    # A user has ratings at all owners, so what it costs adds up, whether they share what they learn or not.
    of_users = train.n_ratings / train.n_rows
    of_a_job = of_users if unit == "rating" else min(of_users, of.theta * n_owners)
    plan = _plan(params, Members(n_owners, 0, n_owners), epsilon, size, rule, of_a_job if of.is_of_a_job else None)
    entropy = data.entropy("vertical", epsilon, n_owners)
    places = [np.flatnonzero(owner_of == k) for k in range(n_owners)]
    start = first_embeddings(plan, train.n_columns, "V")
    each = plan if together else replace(plan, members=Members(1, 0, 1))
    owners = [VerticalMember(each, of_items(train, at), start[at], entropy) for at in places]
    first = first_embeddings(plan, train.n_rows, "U")
    steps_with = QuickSteps if of.rounds_normals else LocalSteps
    steps_of = [steps_with(plan, owners, entropy)] if together else [steps_with(each, [one], entropy) for one in owners]
    found = [descend(one.plan, first, one) for one in steps_of]
    users, steps_of = (found * n_owners, steps_of * n_owners) if together else (found, steps_of)
    result = np.zeros(len(data.test[2]))
    for k, (owner, u, at) in enumerate(zip(owners, users, places, strict=True)):
        owner.finish(u, steps_of[k].final_noise)
        here = owner_of[data.test[1]] == k
        v = as_floats(plan, owner.items)[np.searchsorted(at, data.test[1][here])]
        result[here] = (as_floats(plan, u)[data.test[0][here]] * v).sum(axis=1)
    return {"mse": data.error(result)}


def of_items(train: Ratings, places: Split) -> Ratings:
    """Return the ratings of some items, which are renumbered in their order."""
    kept = np.isin(train.columns, places)
    columns = np.searchsorted(places, train.columns[kept])
    return Ratings.of(train.rows[kept], columns, train.deviations[kept], train.n_rows, len(places))


def _products(data: Positive, users: Floats, items: Floats) -> Floats:
    return np.asarray((users[data.test[0]] * items[data.test[1]]).sum(axis=1))
