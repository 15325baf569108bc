"""Baselines of logistic regression. FOR COMPARISON ONLY: they use floating-point noise and pooled tables.

None of them is private in production: the low bits of floating-point noise reveal the data [Mironov12], and two of them
    need one participant who holds all data.
"""

import dp_accounting
import numpy as np
from dp_accounting.rdp import RdpAccountant
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from analyses.logistic_regression.descent import Descent, Optimiser
from bench.baselines.gaussian import analytic_gaussian_sigma

Floats = NDArray[np.float64]


def dp_sgd_weights(
    x: Floats,
    y: Floats,
    *,
    epsilon: float,
    delta: float,
    sampling_rate: float,
    iterations: int,
    optimiser: Optimiser,
    learning_rate: float,
    rng: np.random.Generator,
) -> Floats:
    """DP-SGD [Abadi16] where somebody holds all rows: exact sigmoid, gradients of norm at most 1, Gaussian noise.

    A record's gradient x (sigmoid(u) - y) has norm at most |x| <= 1, so clipping to 1 changes none. Poisson sampling,
    Renyi accounting by dp_accounting, adjacency add_or_remove_one, as in the view of Moiety's coordinator.

    Args:
        x: shape (rows, n), rows of norm at most 1.
        y: shape (rows,), 0 or 1.
        epsilon: for adding or removing one row.
        delta: likewise.
        sampling_rate: of each row in each step.
        iterations: how many steps.
        optimiser: `adam` or `sgd`.
        learning_rate: of it.
        rng: not cryptographic: a comparison, not a release.

    Returns:
        shape (n,).
    """
    deviation = dp_sgd_noise(epsilon=epsilon, delta=delta, sampling_rate=sampling_rate, iterations=iterations)
    descent = Descent(x.shape[1], optimiser, learning_rate, np.inf)
    for _ in range(iterations):
        batch = rng.random(len(x)) < sampling_rate
        rows, labels = x[batch], y[batch]
        gradient = rows.T @ (expit(rows @ descent.weights) - labels)
        noise = rng.normal(0.0, deviation, x.shape[1])
        descent.follow((gradient + noise) / (sampling_rate * len(x)))
    return descent.weights


def dp_sgd_noise(*, epsilon: float, delta: float, sampling_rate: float, iterations: int) -> float:
    """Return the least noise multiplier of DP-SGD at (epsilon, delta), add_or_remove_one."""

    def event(multiplier: float) -> dp_accounting.DpEvent:
        step = dp_accounting.PoissonSampledDpEvent(sampling_rate, dp_accounting.GaussianDpEvent(multiplier))
        return dp_accounting.SelfComposedDpEvent(step, iterations)

    bracket = dp_accounting.LowerEndpointAndGuess(0.0, 1.0)
    return float(
        dp_accounting.calibrate_dp_mechanism(RdpAccountant, event, epsilon, delta, bracket_interval=bracket, tol=1e-3)
    )


def exact_weights(x: Floats, y: Floats, ridge: float = 1e-6) -> Floats:
    """Return the weights of logistic regression without privacy, and with next to no regularisation.

    Args:
        x: shape (rows, n); a constant column makes an intercept.
        y: shape (rows,), 0 or 1.
        ridge: weight of |w|^2 / 2 beside the mean loss.

    Returns:
        shape (n,).
    """

    def loss(w: Floats) -> tuple[float, Floats]:
        u = x @ w
        value = float(np.mean(np.logaddexp(0.0, u) - y * u) + ridge * (w @ w) / 2)
        return value, x.T @ (expit(u) - y) / len(x) + ridge * w

    found = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 300})
    weights: Floats = found.x
    return weights


def local_noise_table(
    x: Floats, y: Floats, *, epsilon: float, delta: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """The local-noise baseline [SPCA24, algorithm 3]: each party publishes its entries plus Gaussian noise.

    The number of rows is seen by all, so the adjacency is replace_one. A row and its label, together (x, y), have norm
    at most sqrt 2 and no negative entry, so two of them are at most 2 apart.

    Args:
        x: shape (rows, n), non-negative, rows of norm at most 1.
        y: shape (rows,), 0 or 1.
        epsilon: for replacing one row.
        delta: likewise.
        rng: not cryptographic.

    Returns:
        What everybody may then learn from, shapes as given.
    """
    sigma = analytic_gaussian_sigma(sensitivity=2.0, epsilon=epsilon, delta=delta)
    return x + rng.normal(0.0, sigma, x.shape), y + rng.normal(0.0, sigma, y.shape)


def accuracy(scores: Floats, y: Floats) -> float:
    """Return the share of rows whose label is 1 exactly where the log odds are positive."""
    return float(np.mean((scores > 0) == (y == 1)))
