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
from analyses.matrix_factorization.model import Fitted
from analyses.matrix_factorization.plan import Members
from analyses.matrix_factorization.ratings import Ratings
from bench.baselines import descent
from bench.baselines.factors import dpals, local_non_private, objective_perturbation
from bench.utility.factors import DELTA, SETS, load
from dp.mechanism.bounded_sampling import BoundedPoisson
from entropy import InsecureTestEntropy, KeyStream

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


Run = Callable[[Positive, float], dict[str, float]]
"""One run at a size of steps: what was measured, by name."""


def tuned(run: Run, sets: Sequence[Positive], by: str = "mse") -> dict[str, float]:
    """Return medians over the seeds, at the size of steps that is best on the first one's test part."""
    tried = {size: run(sets[0], size) for size in SIZES}
    best = min(tried, key=lambda size: tried[size][by])
    found = [tried[best], *(run(data, best) for data in sets[1:])]
    return {name: float(np.median([one[name] for one in found])) for name in found[0]}


# -- the form `sgd` ------------------------------------------------------------------------------------------------


def _plan(params: DescentParams, members: Members, epsilon: float | None, size: float, rule: float) -> DescentPlan:
    """Return a plan, with next to no noise for an epsilon of None, whose steps are `size` times a rule of thumb."""
    plan = calibrated(params, members, epsilon=epsilon or 8.0, delta=DELTA, view="coordinator")
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
    """
    train = data.train
    theta, n = THETA["horizontal"], train.n_rows
    params = DescentParams(
        setting,  # type: ignore[arg-type]
        n,
        train.n_columns,
        rank=RANK,
        largest=LARGEST,
        theta=theta,
        steps=steps[0],
        local_steps=steps[1],
        sampling_rate=1.0,
        noise=noise,  # type: ignore[arg-type]
        pre_train=pre_train,
    )
    is_local = setting == "local"
    fewest = int(n * 0.7) if is_local else n_parties
    members = Members(n if is_local else n_parties, 0, fewest)
    by_party = n_parties if noise == "party" else 1
    plan = _plan(params, members, epsilon, size, 1.5e-3 / theta**0.5 * by_party**0.5)
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
    opened = LocalSteps(plan, members_of, entropy, absent=absent, together=True)
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
    final_steps: int = 5,
    together: bool = True,
) -> dict[str, float]:
    """Return the error of the released embeddings, each owner's items with the common users.

    Args:
        data: split.
        size: of steps.
        epsilon: coordinator's view; None for no noise.
        owner_of: whose each item is.
        unit: rating or user.
        steps: T and T'.
        final_steps: at the end, items alone.
        together: whether owners share U; else each has its own ("DP local-only").
    """
    train, n_owners = data.train, int(owner_of.max()) + 1
    params = DescentParams(
        "vertical",
        train.n_rows,
        train.n_columns,
        unit,  # type: ignore[arg-type]
        rank=RANK,
        largest=LARGEST,
        theta=THETA["vertical"] if n_owners == 1 else THETA["vertical"] // 2,
        steps=steps[0],
        local_steps=steps[1],
        final_steps=final_steps,
        sampling_rate=0.3,
        noise="party",
    )
    rule = (1e-3 if unit == "rating" else 1e-4) * (n_owners**0.5 if together else 1.0)
    # A user has ratings at all owners, so what it costs adds up, whether they share what they learn or not.
    plan = _plan(params, Members(n_owners, 0, n_owners), epsilon, size, rule)
    entropy = data.entropy("vertical", epsilon, n_owners)
    places = [np.flatnonzero(owner_of == k) for k in range(n_owners)]
    start = first_embeddings(plan, train.n_columns, "V")
    each = plan if together else replace(plan, members=Members(1, 0, 1))
    owners = [VerticalMember(each, _of_items(train, at), start[at], entropy) for at in places]
    first = first_embeddings(plan, train.n_rows, "U")
    steps_of = [LocalSteps(plan, owners, entropy)] if together else [LocalSteps(each, [one], entropy) for one in owners]
    found = [descend(one.plan, first, one) for one in steps_of]
    users, steps_of = (found * n_owners, steps_of * n_owners) if together else (found, steps_of)
    result = np.zeros(len(data.test[2]))
    for k, (owner, u, at) in enumerate(zip(owners, users, places, strict=True)):
        owner.finish(u, steps_of[k].final_noise)
        here = owner_of[data.test[1]] == k
        v = as_floats(plan, owner.items)[np.searchsorted(at, data.test[1][here])]
        result[here] = (as_floats(plan, u)[data.test[0][here]] * v).sum(axis=1)
    return {"mse": data.error(result)}


def _of_items(train: Ratings, places: Split) -> Ratings:
    """Return the ratings of some items, which are renumbered in their order."""
    kept = np.isin(train.columns, places)
    columns = np.searchsorted(places, train.columns[kept])
    return Ratings.of(train.rows[kept], columns, train.deviations[kept], train.n_rows, len(places))


def _products(data: Positive, users: Floats, items: Floats) -> Floats:
    return np.asarray((users[data.test[0]] * items[data.test[1]]).sum(axis=1))


# -- what others do, at equal true privacy -------------------------------------------------------------------------


def _multiplier(epsilon: float | None, n_steps: int, rate: float) -> float:
    """Return z that `n_steps` steps on Poisson samples need: of a release whose sensitivity is 1 in a fine unit."""
    if epsilon is None:
        return 1e-9
    params = DescentParams("vertical", 100, 100, "rating", rank=1, largest=LARGEST, steps=n_steps, sampling_rate=rate)
    return calibrated(params, Members(3, 0, 3), epsilon=epsilon, delta=DELTA, view="coordinator").multiplier


def gradient_clipping(data: Positive, size: float, *, epsilon: float | None, unit: str = "rating") -> dict[str, float]:
    """Return the error of descent with clipped gradients, C = 10, in the middle."""
    n_steps, rate, of_users = 50, 0.3, unit == "user"
    z = _multiplier(epsilon, n_steps, rate)
    train = data.train
    if of_users:
        train = train.trimmed(THETA["vertical"], KeyStream(data.entropy("trimming").read(32)))
    options: dict[str, Any] = {
        "n_steps": n_steps,
        "sampling_rate": rate,
        "rate": 0.5 * size / (1 + z),
        "of_users": of_users,
    }
    return _measured(data, descent.gradient_clipping(train, RANK, z, data.rng(), **options))


def private_als(data: Positive, *, epsilon: float, rank: int = RANK, n_rounds: int = 5) -> dict[str, float]:
    """Return the error of DPALS [Chien21], which has a noisy Gram matrix per item, for users, in the middle."""
    centre = SETS[data.name][1]
    centred = replace(data.train, deviations=data.train.deviations - centre)
    fitted = dpals(centred, rank, _multiplier(epsilon, n_rounds, 1.0), data.rng(), n_rounds=n_rounds)
    return {"mse": data.error(centre + fitted.predict(*data.test[:2]))}


def syn_sgd(data: Positive, size: float, *, epsilon: float | None, n_parties: int) -> dict[str, float]:
    """Return the error of HFL-synSGD: every party noises its clipped gradients in each step, and these are summed."""
    z = _multiplier(epsilon, 20, 1.0)
    train = data.train.trimmed(THETA["horizontal"], KeyStream(data.entropy("trimming").read(32)))
    options = {"n_steps": 20, "sampling_rate": 1.0, "rate": 0.5 * size / (1 + z)}
    fitted = descent.syn_sgd(train, RANK, z * n_parties**0.5, data.rng(), **options)  # type: ignore[arg-type]
    return _measured(data, Fitted(fitted.users, fitted.items))


def sgld(data: Positive, _size: float, *, epsilon: float, unit: str = "rating") -> dict[str, float]:
    """Return the error of DP-SGLD; a user of theta ratings costs theta times one rating."""
    part, share = (1, data.train) if unit == "rating" else (THETA["vertical"], _trimmed(data))
    return _measured(data, descent.dp_sgld(share, RANK, epsilon / part, data.rng(), n_steps=200))


def perturbed_objective(data: Positive, _size: float, *, epsilon: float, unit: str = "rating") -> dict[str, float]:
    """Return the error of objective perturbation, about the middle of the ratings."""
    part, share = (1, data.train) if unit == "rating" else (THETA["vertical"], _trimmed(data))
    centre = SETS[data.name][1]
    centred = replace(share, deviations=share.deviations - centre)
    fitted = objective_perturbation(centred, RANK, epsilon / part, data.rng())
    return {"mse": data.error(centre + fitted.predict(*data.test[:2]))}


def gd_dr(data: Positive, size: float, *, epsilon: float) -> dict[str, float]:
    """Return the error of GD-DR, its reports shuffled."""
    return _measured(data, descent.gd_dr(data.train, RANK, epsilon, data.rng(), delta=DELTA, rate=0.05 * size))


def alone(data: Positive, *, by_items: Split | None = None, n_parties: int = 10) -> float:
    """Return the error of what parties learn alone without noise: the better of offsets and of factors as well."""
    train, (users, items, values) = data.train, data.test
    centre = SETS[data.name][1]
    centred = replace(train, deviations=train.deviations - centre)
    errors = []
    for rank in (0, RANK):
        result = np.zeros(len(values))
        if by_items is None:
            parts = list(centred.split_rows(n_parties))
            for k, fitted in enumerate(local_non_private(parts, rank, data.rng())):
                here = users % n_parties == k
                result[here] = fitted.predict(users[here] // n_parties, items[here])
        else:
            places = [np.flatnonzero(by_items == k) for k in range(int(by_items.max()) + 1)]
            parts = [_of_items(centred, at) for at in places]
            for k, fitted in enumerate(local_non_private(parts, rank, data.rng())):
                here = by_items[items] == k
                result[here] = fitted.predict(users[here], np.searchsorted(places[k], items[here]))
        errors.append(data.error(centre + result))
    return min(errors)


def _trimmed(data: Positive) -> Ratings:
    return data.train.trimmed(THETA["vertical"], KeyStream(data.entropy("trimming").read(32)))


def _measured(data: Positive, fitted: Fitted) -> dict[str, float]:
    return {"mse": data.error(fitted.predict(*data.test[:2]))}
