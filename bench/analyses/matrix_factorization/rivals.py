"""What others do, at equal true privacy: a run of each rival of the form `sgd`, on data of `bench.utility.descents`."""

from dataclasses import replace
from typing import Any

import numpy as np

from analyses.matrix_factorization.descent.descent_plan import DescentParams, calibrated
from analyses.matrix_factorization.model import Fitted
from analyses.matrix_factorization.plan import Members
from analyses.matrix_factorization.ratings import Ratings
from bench.baselines import descent
from bench.baselines.factors import dpals, local_non_private, objective_perturbation
from bench.utility.descents import LARGEST, RANK, THETA, Positive, Shape, Split, of_items
from bench.utility.factors import DELTA, SETS
from entropy import KeyStream


def _multiplier(epsilon: float | None, n_steps: int, rate: float) -> float:
    """Return z that `n_steps` steps on Poisson samples need: of a release whose sensitivity is 1 in a fine unit."""
    if epsilon is None:
        return 1e-9
    params = DescentParams("vertical", 100, 100, "rating", rank=1, largest=LARGEST, steps=n_steps, sampling_rate=rate)
    return calibrated(params, Members(3, 0, 3), epsilon=epsilon, delta=DELTA, view="coordinator").multiplier


def gradient_clipping(
    data: Positive,
    size: float,
    *,
    epsilon: float | None,
    unit: str = "rating",
    n_steps: int = 50,
    clip: float = 10.0,
    shape: Shape | None = None,
) -> dict[str, float]:
    """Return the error of descent with clipped gradients in the middle."""
    of, of_users = shape or Shape(RANK, THETA["vertical"], 0.3), unit == "user"
    z = _multiplier(epsilon, n_steps, of.sampling_rate)
    train = data.train
    if of_users:
        train = _trimmed(data, of.theta)
    options: dict[str, Any] = {
        "n_steps": n_steps,
        "sampling_rate": of.sampling_rate,
        "clip": clip,
        "rate": 0.5 * size / (1 + z),
        "of_users": of_users,
    }
    return _measured(data, descent.gradient_clipping(train, of.rank, z, data.rng(), **options))


def private_als(data: Positive, *, epsilon: float, rank: int = RANK, n_rounds: int = 5) -> dict[str, float]:
    """Return the error of DPALS [Chien21], which has a noisy Gram matrix per item, for users, in the middle."""
    centre = SETS[data.name][1]
    centred = replace(data.train, deviations=data.train.deviations - centre)
    fitted = dpals(centred, rank, _multiplier(epsilon, n_rounds, 1.0), data.rng(), n_rounds=n_rounds)
    return {"mse": data.error(centre + fitted.predict(*data.test[:2]))}


def syn_sgd(
    data: Positive,
    size: float,
    *,
    epsilon: float | None,
    n_parties: int,
    n_steps: int = 20,
    shape: Shape | None = None,
) -> dict[str, float]:
    """Return the error of HFL-synSGD: every party noises its clipped gradients in each step, and these are summed."""
    of = shape or Shape(RANK, THETA["horizontal"], 1.0)
    z = _multiplier(epsilon, n_steps, of.sampling_rate)
    train = _trimmed(data, of.theta)
    options: dict[str, Any] = {
        "n_steps": n_steps,
        "sampling_rate": of.sampling_rate,
        "rate": 0.5 * size / (1 + z),
    }
    fitted = descent.syn_sgd(train, of.rank, z * n_parties**0.5, data.rng(), **options)
    return _measured(data, Fitted(fitted.users, fitted.items))


def local_descent(data: Positive, size: float, *, n_parties: int, n_steps: int, shape: Shape) -> dict[str, float]:
    """Return the errors of parties alone by projected descent on U and V without noise, at its end and at its best."""
    users, items, values = data.test
    parts = [
        descent.projected_steps(part, shape.rank, data.rng(), n_steps, shape.sampling_rate, 0.05 * size)
        for part in data.train.split_rows(n_parties)
    ]
    errors = []
    for found in zip(*parts, strict=True):
        result = np.zeros(len(values))
        for k, (u, v) in enumerate(found):
            here = users % n_parties == k
            result[here] = (u[users[here] // n_parties] * v[items[here]]).sum(axis=1)
        errors.append(data.error(result))
    return {"mse": errors[-1], "best": min(errors)}


def sgld(
    data: Positive, size: float, *, epsilon: float, unit: str = "rating", n_steps: int = 200, shape: Shape | None = None
) -> dict[str, float]:
    """Return the error of DP-SGLD; a user of theta ratings costs theta times one rating."""
    of = shape or Shape(RANK, THETA["vertical"], 0.05)
    part, share = _of_unit(data, unit, of.theta)
    options: dict[str, Any] = {"n_steps": n_steps, "sampling_rate": of.sampling_rate, "size": size}
    return _measured(data, descent.dp_sgld(share, of.rank, epsilon / part, data.rng(), **options))


def perturbed_objective(
    data: Positive, size: float, *, epsilon: float, unit: str = "rating", shape: Shape | None = None
) -> dict[str, float]:
    """Return the error of objective perturbation, about the middle of the ratings, with `size` times a ridge of 10."""
    of = shape or Shape(RANK, THETA["vertical"], 1.0)
    part, share = _of_unit(data, unit, of.theta)
    centre = SETS[data.name][1]
    centred = replace(share, deviations=share.deviations - centre)
    fitted = objective_perturbation(centred, of.rank, epsilon / part, data.rng(), ridge=10.0 * size)
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
            parts = [of_items(centred, at) for at in places]
            for k, fitted in enumerate(local_non_private(parts, rank, data.rng())):
                here = by_items[items] == k
                result[here] = fitted.predict(users[here], np.searchsorted(places[k], items[here]))
        errors.append(data.error(centre + result))
    return min(errors)


def _of_unit(data: Positive, unit: str, theta: int) -> tuple[int, Ratings]:
    """Return how many ratings are a unit, and the ratings that are used."""
    return (1, data.train) if unit == "rating" else (theta, _trimmed(data, theta))


def _trimmed(data: Positive, theta: int) -> Ratings:
    return data.train.trimmed(theta, KeyStream(data.entropy("trimming").read(32)))


def _measured(data: Positive, fitted: Fitted) -> dict[str, float]:
    return {"mse": data.error(fitted.predict(*data.test[:2]))}
