"""From noisy sums to offsets and item vectors: posterior means. Public, and post-processing of what was opened.

All of it reads opened sums and public constants only, so it costs nothing, however it is done.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_MIN_COUNT = 0.02
_MIN_EIGENVALUE = 1e-3


@dataclass(frozen=True)
class Prior:
    """Public constants of the estimates, for ratings about as far apart as 1 to 5.

    Attributes:
        offset_variance: variance of an item's offset about the regression.
        started_variance: the same after an earlier model, whose offsets are about right.
        residual_variance: variance of a rating about its mean and offset.
        mean_ridge: ridge of a user's own mean.
        factor_ridge: ridge of a user's factors, whose variance is 1.
        feature_ridge: ridge of a user's own weights of public item features.
        regression_ridge: ridge of the weights of public features in the regression of offsets.
        factor_deviation: standard deviation of an entry of an item vector.
        cut: length of a user's factors that becomes |q| = 1, over sqrt(p).
        moment: second moment of a user's factors, to which each round scales the pooled one.
    """

    offset_variance: float = 0.2
    started_variance: float = 0.05
    residual_variance: float = 0.9
    mean_ridge: float = 10.0
    factor_ridge: float = 0.7
    feature_ridge: float = 8.0
    regression_ridge: float = 20.0
    factor_deviation: float = 0.2
    cut: float = 1.0
    moment: float = 0.8

    def longest(self, rank: int) -> float:
        """Return the length of a user's factors that becomes |q| = 1: W of the specification is its reciprocal."""
        return self.cut * math.sqrt(rank)


@dataclass(frozen=True)
class Regression:
    """The regression of items' offsets on their counts and public features: what is known of an item without ratings.

    Attributes:
        weights: beta: one for 1, one for log c, one for each feature, shape (2 + features,).
        least_count: c of an item without ratings: the positive floor of noisy counts, a public constant of the plan.
    """

    weights: Floats
    least_count: float

    def of_new(self, features: Floats) -> Floats:
        """Return the offsets of items that were never rated, shape (items,), from their features alone."""
        always = self.weights[0] + self.weights[1] * math.log(self.least_count)
        return np.asarray(always + features @ self.weights[2:])

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        one, log_count, *of_features = self.weights.tolist()
        return {
            "constant": one,
            "log_count": log_count,
            "features": of_features,
            "least_count": self.least_count,
            "new_items": one + log_count * math.log(self.least_count),
        }

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "Regression":
        """Return what `as_data` has made.

        Raises:
            ValueError, KeyError, TypeError: it is not of this form, or not finite.
        """
        weights = np.array([data["constant"], data["log_count"], *data["features"]], dtype=np.float64)
        least_count = float(data["least_count"])
        if not (np.isfinite(weights).all() and 0 < least_count < math.inf):
            raise ValueError("a regression has finite weights and a positive count")
        return cls(weights, least_count)


@dataclass(frozen=True)
class OffsetPosterior:
    """Offsets, and what stage 3 needs to put a party's own sums in the place of its noisy ones.

    Attributes:
        offsets: posterior means, shape (items,).
        expected: the regression's values, shape (items,): means of the prior.
        counts: noisy counts, raised to a positive floor, shape (items,).
        opened_counts: opened counts, in units of 1, shape (items,).
        opened_sums: opened sums, in units of 1, shape (items,).
        deviation: standard deviation of the noise on each, in units of 1.
        regression: what `expected` was made with.
        variance: tau^2, prior variance of an offset about `expected`.
    """

    offsets: Floats
    expected: Floats
    counts: Floats
    opened_counts: Floats
    opened_sums: Floats
    deviation: float
    regression: Regression
    variance: float


def offset_posterior(
    counts: Floats,
    sums: Floats,
    deviation: float,
    *,
    ratings_per_user: int,
    prior: Prior,
    features: Floats | None = None,
    start: Floats | None = None,
) -> OffsetPosterior:
    """Return offsets, shrunk toward a regression on log c and public features.

    With c_j the weighted count of an item and s_j its weighted sum, each with noise of variance sigma^2,

        s_j ~ N(c_j b_j, sigma^2 + c_j r^2 / sqrt k),     b_j ~ N(g_j, tau^2),     g_j = beta (1, log c_j, features_j).

    The sum of the squared weights of an item's raters is about c_j / sqrt k, as each is about 1 / sqrt k. beta is
    fitted to the opened sums by weighted least squares. After an earlier model g_j is its offset, and tau^2 is smaller:
    an item without new ratings keeps about what it had.

    Args:
        counts: c, shape (items,), in units of 1.
        sums: s, shape (items,), in units of 1.
        deviation: sigma, in units of 1.
        ratings_per_user: k, declared.
        prior: public constants.
        features: public, shape (items, features); None for none.
        start: offsets of an earlier public model, shape (items,); None for none.
    """
    n_items, least_count = len(counts), 0.5 * deviation + _MIN_COUNT
    c = np.maximum(counts, least_count)
    tau2 = prior.offset_variance if start is None else prior.started_variance
    of_features = np.zeros((n_items, 0)) if features is None else features
    columns = np.column_stack([np.ones(n_items), np.log(c), of_features])
    noise = deviation**2 + c * prior.residual_variance / math.sqrt(ratings_per_user)
    weights = 1 / (noise + c**2 * tau2)
    ridge = np.diag([1e-6, 1e-6, *[prior.regression_ridge] * of_features.shape[1]])
    scaled = columns * c[:, None]
    if start is None:
        beta = np.linalg.solve(scaled.T @ (scaled * weights[:, None]) + ridge, scaled.T @ (weights * sums))
        expected = columns @ beta
    else:
        expected = start
    offsets = expected + c * tau2 * weights * (sums - c * expected)
    if start is not None:  # what new items are told by: the offsets, which hold what all ratings say
        beta = np.linalg.solve(columns.T @ columns + ridge, columns.T @ offsets)
    regression = Regression(np.asarray(beta, dtype=np.float64), least_count)
    return OffsetPosterior(offsets, expected, c, counts, sums, deviation, regression, tau2)


def factor_posterior(
    sums: Floats,
    moment: Floats,
    counts: Floats,
    deviation: float,
    *,
    ratings_per_user: int,
    prior: Prior,
) -> Floats:
    """Return item vectors as posterior means, in a basis in which users' factors have second moment `prior.moment`.

    A member has sent w r q with q = u / cut, so that r = v u + noise = (cut v) q + noise. With M the pooled second
    moment of q, which stands for that of each item's raters,

        s_j ~ N(c_j M x_j, sigma^2 I + c_j r^2 M / sqrt k),     x_j = cut v_j ~ N(0, cut^2 tau^2 I).

    Then V is multiplied by the square root of u's second moment over `prior.moment`: the users, who solve for u with a
    fixed ridge, thereby have factors of the assumed variance in every direction. This is what takes the place of
    fitting scales to private data.

    Args:
        sums: shape (items, p), in units of 1.
        moment: shape (p, p), symmetric: noisy mean of q q'. Eigenvalues below a positive floor are raised to it.
        counts: positive, shape (items,).
        deviation: sigma, in units of 1.
        ratings_per_user: k, declared.
        prior: public constants.
    """
    rank = len(moment)
    values, basis = np.linalg.eigh(moment)
    values = np.maximum(values, _MIN_EIGENVALUE)
    # In M's basis all matrices are diagonal, so every item is solved entry by entry.
    means = counts[:, None] * values
    covariance = deviation**2 + means * prior.residual_variance / math.sqrt(ratings_per_user)
    spread = (prior.longest(rank) * prior.factor_deviation) ** 2
    found = means * spread * (sums @ basis) / (means**2 * spread + covariance)
    return np.asarray((found * np.sqrt(values / prior.moment)) @ basis.T)


def symmetric(upper: Floats, rank: int) -> Floats:
    """Return the symmetric matrix, shape (p, p), of an upper triangle in rows, shape (p (p + 1) / 2,)."""
    found = np.zeros((rank, rank))
    found[np.triu_indices(rank)] = upper
    return found + np.triu(found, 1).T
