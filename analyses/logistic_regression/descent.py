"""Gradient descent within a ball: what the coordinator does with noisy gradients. Public; post-processing."""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Optimiser = Literal["adam", "sgd"]

# Constants of Adam as published [Adam15].
_FIRST_DECAY, _SECOND_DECAY, _STABILITY = 0.9, 0.999, 1e-8


class Descent:
    """Gradient descent that keeps the weights within a Euclidean ball.

    Args:
        n_weights: how many, all zero at the beginning.
        optimiser: `sgd` subtracts learning_rate * gradient; `adam` scales each entry by its recent size.
        learning_rate: positive.
        weight_norm: radius of the ball.
    """

    def __init__(self, n_weights: int, optimiser: Optimiser, learning_rate: float, weight_norm: float) -> None:
        self.weights: Floats = np.zeros(n_weights)
        self._optimiser = optimiser
        self._learning_rate = learning_rate
        self._weight_norm = weight_norm
        self._n_steps = 0
        self._mean: Floats = np.zeros(n_weights)
        self._square: Floats = np.zeros(n_weights)

    def follow(self, gradient: Floats) -> None:
        """Take one step."""
        self._n_steps += 1
        step = gradient
        if self._optimiser == "adam":
            self._mean = _FIRST_DECAY * self._mean + (1 - _FIRST_DECAY) * gradient
            self._square = _SECOND_DECAY * self._square + (1 - _SECOND_DECAY) * gradient**2
            mean = self._mean / (1 - _FIRST_DECAY**self._n_steps)
            square = self._square / (1 - _SECOND_DECAY**self._n_steps)
            step = mean / (np.sqrt(square) + _STABILITY)
        weights = self.weights - self._learning_rate * step
        norm = float(np.linalg.norm(weights))
        self.weights = weights * (self._weight_norm / norm) if norm > self._weight_norm else weights


def on_lattice(weights: Floats, units: int, squared_bound: int) -> NDArray[np.int64]:
    """Return weights as integers of `units` per 1 whose squared norm is at most `squared_bound`.

    Rounded to the nearest; where that is too long, toward zero, and shortened until it fits.
    """
    rounded = np.rint(weights * units).astype(np.int64)
    shrink = 1.0
    while sum(int(w) ** 2 for w in rounded) > squared_bound:
        rounded = np.trunc(weights * (units * shrink)).astype(np.int64)
        shrink *= 1 - 2.0**-20
    return rounded


def squared_lattice_bound(units: int, weight_norm: float) -> int:
    """Return the largest squared norm, as an integer, of weights of norm at most `weight_norm` on the lattice."""
    return math.floor((units * weight_norm) ** 2)
