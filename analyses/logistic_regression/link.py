"""From noisy second moments of features and label to weights of a logistic model, by public arithmetic alone.

The gradient of the logistic loss at weights w is X^T (sigmoid(X w) - y). With the first-order polynomial of the sigmoid
[SPCA24, eq. 22] it is X^T X w / 4 + X^T (1/2 - y): second moments tell it for every w, so one release of them is worth
any number of steps. Where that gradient is zero, w is four times the line of least squares. Its direction is right
(for features whose mean given the predictor is linear in it, such as normal ones, whatever the true link is:
[Brillinger83]) but its length is not: it fits a line to the labels, so probabilities leave [0, 1], and log odds are too
small. So the line gives the direction alone; length and intercept follow from the same moments: `calibrated`.
"""

from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NODES, _MASSES = np.polynomial.hermite_e.hermegauss(61)
_MASSES = _MASSES / _MASSES.sum()
RIDGE_PART = 0.5
"""To this part of the noise level a ridge lifts the smallest eigenvalue: see `ridge_of`."""

_MOST_SEPARATION = 0.98
"""Most of the covariance that a perfect threshold would have; above it the weights would not be finite."""

_LEAST_RESIDUAL = 0.02
"""Least part of the labels' variance that is taken to be unexplained, where noise makes it seem none."""

_CLEAR = 2.0
"""Standard deviations by which the label must depend on the features more than noise and chance alone make it seem."""

_HARDLY = "noise and chance alone often give weights as large as these: the label may not depend on the features at all"
_NOTHING = "there is only noise: the release does not tell the label from the features at this epsilon"


@dataclass(frozen=True)
class LabelledMoments:
    """Second moments of features, label and constant, of `rows`, shape (rows, n), of norm at most 1.

    Attributes:
        matrix: symmetric, order n + 2: features, label as -constant or +constant, constant; noisy.
        constant: positive.
        deviation: standard deviation of the noise off the diagonal; sqrt(2) times that on it. 0 for none.
        fewest, most: rows that there can be, by what owners declare publicly.
    """

    matrix: Floats
    constant: float
    deviation: float
    fewest: float = 0.0
    most: float = np.inf

    @property
    def n_features(self) -> int:
        """Order without label and constant."""
        return len(self.matrix) - 2

    @property
    def noise_level(self) -> float:
        """About the spectral norm of the noise: 2 sqrt(order) deviations, as for any such random matrix."""
        return float(2 * np.sqrt(len(self.matrix)) * self.deviation)

    @property
    def n_rows(self) -> float:
        """Noisy number of rows, within what is declared."""
        return float(np.clip(self.matrix[-1, -1] / self.constant**2, self.fewest, self.most))

    @property
    def tells_rows(self) -> bool:
        """Whether the number of rows is two standard deviations of its noise above 0, and 1 at least."""
        return self.n_rows > max(1.0, 2 * 2**0.5 * self.deviation / self.constant**2)


@dataclass(frozen=True)
class CentredLabel:
    """Second moments of features and a label of 0 and 1 about their means.

    Attributes:
        features: sum of (x - mean)(x - mean)^T, shape (n, n).
        label: sum of (x - mean) y, shape (n,).
        means: means of the features, shape (n,).
        n_rows: about the number of rows.
        mean_label: strictly between 0 and 1.
        noise: variance of the noise on entries of `features` off the diagonal.
        noise_of_label: variance of the noise on entries of `label`.
    """

    features: Floats = field(repr=False)
    label: Floats = field(repr=False)
    means: Floats = field(repr=False)
    n_rows: float
    mean_label: float
    noise: float
    noise_of_label: float


@dataclass(frozen=True)
class LogisticFit:
    """Weights for rows of norm at most 1.

    Attributes:
        weights: shape (n,); zeros where there is only noise.
        intercept: log odds of a row of zeros.
        ridge: penalty on the squared line, chosen by `ridge_of`.
        smallest_eigenvalue: smallest eigenvalue of the features' centred second moments.
        mean_label, log_odds_mean, log_odds_deviation: moments of the rows.
        residual_variance: variance of the labels about the line of least squares.
        note: what is to be said about the answer; empty if nothing.
    """

    weights: Floats
    intercept: float
    ridge: float
    smallest_eigenvalue: float
    mean_label: float
    log_odds_mean: float
    log_odds_deviation: float
    residual_variance: float
    note: str = ""


def fit(moments: LabelledMoments, ridge: float | None = None) -> LogisticFit:
    """Return the logistic model of these moments.

    1. The constant column is eliminated, which centres features and label: A, r their moments.
    2. b = (A+ + ridge)^-1 r, A+ without the negative part that only noise can have made.
    3. What noise and chance alone do to b r and to b A b is taken back: with G = (A+ + ridge)^-1 and noise E, e on A
       and r of variances s and s_r, b r is too large by e G e, of mean s_r tr G, and by (labels' variance) tr G A; and
       b A b too small by 2 b E G E b, of mean 2 s (tr G |b|^2 + b G b).
    4. `calibrated`.

    Args:
        moments: moments of the table.
        ridge: the penalty; None to choose it.
    """
    n = moments.n_features
    n_rows, c = moments.n_rows, moments.constant
    if not moments.tells_rows:
        return LogisticFit(np.zeros(n), 0.0, ridge or 0.0, 0.0, 0.5, 0.0, 0.0, 0.25, _NOTHING)
    means = moments.matrix[:n, -1] / (c * n_rows)
    mean_sign = float(moments.matrix[n, -1] / (c**2 * n_rows))
    mean_label = float(np.clip((1 + mean_sign) / 2, 1 / (2 * n_rows), 1 - 1 / (2 * n_rows)))
    a = moments.matrix[:n, :n] - n_rows * np.outer(means, means)
    r = (moments.matrix[:n, n] / c - n_rows * mean_sign * means) / 2
    noise = moments.deviation**2
    across = noise * (1 + mean_sign**2) / (4 * c**2)
    return fit_centred(CentredLabel(a, r, means, n_rows, mean_label, noise, across), moments.noise_level, ridge)


def fit_centred(moments: CentredLabel, noise_level: float, ridge: float | None = None) -> LogisticFit:
    """Return the logistic model of moments about the mean: steps 2 to 4 of `fit`.

    Args:
        moments: moments of the table.
        noise_level: about the spectral norm of the noise on the features' moments.
        ridge: the penalty; None to choose it.
    """
    a, r, means, n_rows, mean_label = moments.features, moments.label, moments.means, moments.n_rows, moments.mean_label
    n, noise = len(r), moments.noise
    values = np.linalg.eigvalsh(a)
    used = ridge_of(float(values[0]), noise_level) if ridge is None else ridge
    inverse = _inverse(np.maximum(values, 0.0), used)
    if values[0] > 0 and inverse.all():  # their eigenvectors would take five times as long
        lifted = a + used * np.eye(n)
        b = np.asarray(np.linalg.solve(lifted, r), dtype=np.float64)
        bent = float(b @ np.linalg.solve(lifted, b))
    else:
        vectors = np.linalg.eigh(a)[1]
        b = vectors @ (inverse * (vectors.T @ r))
        bent = float((vectors.T @ b) ** 2 @ inverse)
    trace, squared = float(inverse.sum()), float(b @ b)
    variance = (float(b @ a @ b) + 2 * noise * (trace * squared + bent)) / n_rows
    label_variance = mean_label * (1 - mean_label)
    # What r varies by along each eigenvector where the label does not depend on the features: by noise and by chance.
    of_nothing = moments.noise_of_label + label_variance * np.maximum(values, 0.0)
    covariance = (float(b @ r) - float(inverse @ of_nothing)) / n_rows
    if covariance <= 0 or variance <= 0:
        odds = float(np.log(mean_label / (1 - mean_label)))
        return LogisticFit(np.zeros(n), odds, used, float(values[0]), mean_label, odds, 0.0, label_variance, _NOTHING)
    slope, centre = calibrated(variance, covariance, mean_label)
    weights: Floats = slope * b
    note = ""
    if n_rows * covariance < _CLEAR * np.sqrt(2) * float(np.linalg.norm(inverse * of_nothing)):
        note = _HARDLY
    elif values[0] <= noise_level and noise:
        note = "some combination of features does not vary beyond the noise; a ridge keeps its weight small"
    return LogisticFit(
        weights,
        centre - float(weights @ means),
        used,
        float(values[0]),
        mean_label,
        centre,
        slope * float(np.sqrt(variance)),
        max(label_variance - 2 * covariance + variance, _LEAST_RESIDUAL * label_variance),
        note,
    )


def ridge_of(smallest_eigenvalue: float, noise_level: float) -> float:
    """Return the penalty: what lifts the smallest eigenvalue to half of the noise level.

    As AdaSSP chooses it [Wang18], but for the half: the noise level is the largest eigenvalue of the noise, half of it
    their root mean square. A negative eigenvalue is noise and counts as zero, so no more than that is needed; and where
    all eigenvalues are above it, nothing. The noise level follows from epsilon, delta and the number of columns, which
    are public.
    """
    return max(0.0, RIDGE_PART * noise_level - max(0.0, smallest_eigenvalue))


def _inverse(values: Floats, ridge: float) -> Floats:
    """Return 1 / (values + ridge), and 0 where that is nothing but rounding."""
    lifted = values + ridge
    seen = lifted > 1e-12 * max(float(lifted.max()), 1e-300)
    return np.where(seen, 1.0, 0.0) / np.where(seen, lifted, 1.0)


def calibrated(variance: float, covariance: float, mean_label: float) -> tuple[float, float]:
    """Return slope and centre such that the model sigmoid(centre + slope * l) has the moments of the labels.

    For a normal predictor l of mean 0 and this variance, it solves E sigmoid(...) = mean_label and E l sigmoid(...) =
    covariance: for normal features, probabilities are then right on average, and so is their slope. The two equations
    are the gradient of a convex function, whose minimum Newton's method with halved steps finds.

    Args:
        variance: variance of l, positive.
        covariance: covariance of l and the label, positive; at most what a threshold would have is used.
        mean_label: strictly between 0 and 1.
    """
    spread = float(np.sqrt(variance))
    target = np.array([mean_label, min(covariance / spread, _MOST_SEPARATION * _covariance_of_threshold(mean_label))])
    found = np.array([np.log(mean_label / (1 - mean_label)), 0.0])

    def loss(at: Floats) -> float:
        return float(_MASSES @ np.logaddexp(0.0, at[0] + at[1] * _NODES) - target @ at)

    for _ in range(200):
        chance = np.exp(-np.logaddexp(0.0, -(found[0] + found[1] * _NODES)))
        gradient = np.array([_MASSES @ chance, (_MASSES * _NODES) @ chance]) - target
        weight = _MASSES * chance * (1 - chance)
        mixed = float(weight @ _NODES)
        curvature = np.array([[weight.sum(), mixed], [mixed, float(weight @ _NODES**2)]])
        step = np.linalg.solve(curvature + 1e-12 * np.eye(2), gradient)
        before, size = loss(found), 1.0
        while size > 1e-6 and not loss(found - size * step) <= before - 1e-4 * size * float(gradient @ step):
            size /= 2
        found = found - size * step
        if float(np.abs(step).max()) * size < 1e-10:
            break
    return float(found[1]) / spread, float(found[0])


def _covariance_of_threshold(mean_label: float) -> float:
    """Return the covariance of a standard normal variable with the event that it is among its largest values."""
    return NormalDist().pdf(NormalDist().inv_cdf(mean_label))
