"""Estimates from waves: against dense matrices, plain iteration, a convex solver, and what they were drawn from."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from analyses.distribution.estimates import kernels, wave_estimate
from analyses.distribution.estimates.metrics import wasserstein
from analyses.distribution.estimates.wave_estimate import (
    choose_passes,
    estimate_em,
    estimate_ems,
    log_likelihood,
)
from analyses.distribution.estimates.wave_moments import gain_of_a_response, moments, scores, sign_mean
from analyses.distribution.estimates.wave_operator import WaveOperator
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave
from entropy import InsecureTestEntropy

ODDS = Odds.of_epsilon(1.0)


def beta_values(n, d, seed=1):
    return np.minimum((np.random.default_rng(seed).beta(5, 2, n) * d).astype(np.int64), d - 1)


def counts_of(wave, values, seed="counts"):
    return np.bincount(wave.respond(values, InsecureTestEntropy(seed)), minlength=wave.n_outputs)


def smoothed(x, n_passes):
    """Passes of the weights (1, 2, 1) / 4, at the two ends (2, 1) / 3, scaled to the former sum [SW20]."""
    found, total = x, x.sum()
    for _ in range(n_passes):
        inner = (found[:-2] + 2 * found[1:-1] + found[2:]) / 4
        found = np.concatenate([[(2 * found[0] + found[1]) / 3], inner, [(found[-2] + 2 * found[-1]) / 3]])
    return found * (total / found.sum())


def rounding(operator):
    """How far weights that are not rounded down may lie from those that responses are drawn with."""
    return 1e-12 if operator.wave.is_square else 1e-6


def dense(operator):
    """M as a matrix, from the weights of the inputs."""
    wave, per_bucket = operator.wave, operator.wave.n_inputs // operator.n_buckets
    rows = np.array([wave.weights_of(i) for i in range(wave.n_inputs + wave.has_empty)]) / wave.total
    buckets = rows[: wave.n_inputs].reshape(operator.n_buckets, per_bucket, -1).mean(axis=1)
    return np.concatenate([buckets, rows[wave.n_inputs :]]).T


OPERATORS = {
    "square": WaveOperator(Wave.square(24, ODDS), 24),
    "square, empty slots": WaveOperator(Wave.square(24, ODDS, has_empty=True), 24),
    "narrow": WaveOperator(Wave.square(24, ODDS, 0), 24),
    "two buckets": WaveOperator(Wave.square(2, ODDS, 1), 2),
    "three buckets": WaveOperator(Wave.square(3, ODDS, 1), 3),
    "wide": WaveOperator(Wave.square(6, ODDS, 9), 6),
    "triangle": WaveOperator(Wave.of_shape("triangle", 24, ODDS), 24),
    "trapezoid, empty slots": WaveOperator(Wave.of_shape("trapezoid", 24, ODDS, has_empty=True), 24),
    "triangle as wide as the range": WaveOperator(Wave.of_shape("triangle", 24, ODDS, 12), 24),
    "trapezoid, nearly square": WaveOperator(Wave.of_shape("trapezoid", 24, ODDS, 5, top=Fraction(4, 5)), 24),
    "finer inputs": WaveOperator(Wave.square(24, ODDS), 8),
    "finer inputs, triangle, empty slots": WaveOperator(Wave.of_shape("triangle", 24, ODDS, has_empty=True), 12),
}


@pytest.fixture(params=OPERATORS)
def operator(request):
    return OPERATORS[request.param]


def test_products_are_those_of_the_dense_matrix(operator):
    rng, matrix = np.random.default_rng(3), dense(operator)
    x, r = rng.dirichlet(np.ones(operator.n_entries)), rng.random(operator.wave.n_outputs)
    assert matrix.sum(axis=0) == pytest.approx(np.ones(operator.n_entries))
    assert operator.densities(x) == pytest.approx(matrix @ x, rel=rounding(operator))
    assert operator.transposed(r) == pytest.approx(matrix.T @ r, rel=rounding(operator))


@pytest.mark.parametrize("n_passes", [0, 1, 3])
def test_a_compiled_map_is_that_of_the_dense_matrix(operator, n_passes):
    rng, n = np.random.default_rng(4), operator.n_buckets
    x = rng.dirichlet(np.ones(operator.n_entries))
    counts = rng.integers(0, 50, operator.wave.n_outputs).astype(float)
    out = np.empty_like(x)
    kernels.map_once(out, x, counts, wave_estimate._work(operator, 2), *wave_estimate._transition(operator), n_passes)
    matrix = dense(operator)
    expected = x * (matrix.T @ (counts / (matrix @ x)))
    expected /= expected.sum()
    expected[:n] = smoothed(expected[:n], n_passes)
    assert out == pytest.approx(expected, rel=10 * rounding(operator))


@pytest.mark.parametrize("window", [(3, 9, 4), (4, 9, 4, 9, 4), (3, 5, 9, 6, 3)])
def test_a_window_of_another_shape_has_no_estimate(window):
    wave = Wave(8, window, 3)
    with pytest.raises(ValueError, match="window"):
        WaveOperator(wave, 8)


def test_smoothing_has_the_weights_of_the_source_and_keeps_the_sum():
    x = np.array([0.5, 0.1, 0.1, 0.3])
    once = np.array([1.1 / 3, 0.2, 0.15, 0.7 / 3])
    assert smoothed(x, 1) == pytest.approx(once / once.sum())
    assert smoothed(x, 7).sum() == pytest.approx(1)


@pytest.mark.parametrize("n_passes", [1, 3])
def test_the_smoothed_estimate_is_the_fixed_point_of_plain_iteration(operator, n_passes):
    values = beta_values(20_000, operator.wave.n_inputs)
    counts = counts_of(operator.wave, values).astype(float)
    found = estimate_ems(operator, counts, n_passes=n_passes)
    assert found.has_converged
    matrix, n = dense(operator), operator.n_buckets
    x = np.full(operator.n_entries, 1 / operator.n_entries)
    for _ in range(30_000):
        after = x * (matrix.T @ (counts / (matrix @ x)))
        after /= after.sum()
        after[:n] = smoothed(after[:n], n_passes)
        if np.abs(np.cumsum(after - x)).max() < 1e-9:
            break
        x = after
    assert np.abs(np.cumsum(found.probabilities - x[:n] / x[:n].sum())).max() < 1e-4
    assert found.probabilities.min() >= 0
    assert found.probabilities.sum() == pytest.approx(1)


def test_the_fixed_point_does_not_depend_on_the_start():
    operator = OPERATORS["square"]
    counts = counts_of(operator.wave, beta_values(20_000, 24))
    start = np.random.default_rng(5).dirichlet(np.ones(24))
    first, second = estimate_ems(operator, counts), estimate_ems(operator, counts, start=start)
    assert np.abs(np.cumsum(first.probabilities - second.probabilities)).max() < 1e-5


def test_an_estimate_that_did_not_converge_says_so(monkeypatch):
    monkeypatch.setattr(wave_estimate, "MAX_MAPS", 3)
    for name in ("square", "triangle"):
        operator = OPERATORS[name]
        counts = counts_of(operator.wave, beta_values(20_000, 24))
        assert not estimate_ems(operator, counts).has_converged
        assert not estimate_em(operator, counts).has_converged


def test_maximisation_reaches_the_likelihood_that_a_convex_solver_finds(monkeypatch):
    monkeypatch.setattr(wave_estimate, "_EM_GAIN", 1e-9)
    operator = WaveOperator(Wave.square(8, Odds.of_epsilon(2.0)), 8)
    counts = counts_of(operator.wave, beta_values(5_000, 8)).astype(float)
    found = estimate_em(operator, counts)
    matrix = dense(operator)
    solved = minimize(
        lambda x: -counts @ np.log(matrix @ x) / counts.sum(),
        np.full(8, 1 / 8),
        jac=lambda x: -matrix.T @ (counts / (matrix @ x)) / counts.sum(),
        bounds=[(0, 1)] * 8,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": lambda x: np.ones(8)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert solved.success
    reached = log_likelihood(operator, found.entries, counts)
    assert reached == pytest.approx(-solved.fun * counts.sum(), abs=1e-2)
    assert found.probabilities == pytest.approx(solved.x, abs=5e-3)


def test_maximisation_stops_earlier_where_epsilon_is_larger():
    n_maps = []
    for epsilon in (1.0, 4.0):
        operator = WaveOperator(Wave.square(64, Odds.of_epsilon(epsilon)), 64)
        found = estimate_em(operator, counts_of(operator.wave, beta_values(50_000, 64)))
        assert found.has_converged
        n_maps.append(found.n_maps)
    assert n_maps[1] < n_maps[0]


def test_estimates_are_near_what_was_drawn_from_also_with_empty_slots():
    values = beta_values(60_000, 64)
    truth = np.bincount(values, minlength=64) / len(values)
    plain = WaveOperator(Wave.square(64, ODDS), 64)
    assert wasserstein(estimate_ems(plain, counts_of(plain.wave, values)).probabilities, truth) < 0.015
    wave = Wave.square(64, ODDS, has_empty=True)
    slots = np.concatenate([values, np.full(20_000, wave.empty)])
    found = estimate_ems(WaveOperator(wave, 64), counts_of(wave, slots))
    assert found.empty_share == pytest.approx(0.25, abs=0.02)
    assert wasserstein(found.probabilities, truth) < 0.02


def test_estimates_that_only_choose_the_passes_end_earlier(monkeypatch):
    """Each of the sixteen may take a tenth of the maps of the one that is released."""
    asked = []
    one = wave_estimate.estimate_ems

    def counted(*arguments, **named):
        asked.append(named["max_maps"])
        return one(*arguments, **named)

    monkeypatch.setattr(wave_estimate, "estimate_ems", counted)
    operator = OPERATORS["triangle"]
    choose_passes(operator, counts_of(operator.wave, beta_values(2_000, 24)))
    assert asked == [wave_estimate.MAX_MAPS_OF_A_PART] * 16


def test_more_smoothing_is_chosen_for_few_responses_and_the_choice_is_the_same_again():
    spiky = np.zeros(64)
    spiky[[5, 6, 40]] = 1 / 3
    operator = WaveOperator(Wave.square(64, Odds.of_epsilon(4.0)), 64)
    exact = np.rint(1e6 * operator.densities(spiky))
    assert choose_passes(operator, exact) == 1
    flat = WaveOperator(Wave.square(512, Odds.of_epsilon(0.5)), 512)
    few = counts_of(flat.wave, beta_values(2_000, 512))
    assert choose_passes(flat, few) == choose_passes(flat, few) > 1


@pytest.mark.parametrize("counts", [np.zeros(50), np.ones(3), np.full(50, -1.0), np.full(50, np.nan)])
def test_counts_that_cannot_be_are_refused(counts):
    operator = WaveOperator(Wave.square(24, ODDS, 13), 24)
    with pytest.raises(ValueError, match="counts"):
        estimate_ems(operator, counts)


# -- closed moments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_empty", [False, True])
@pytest.mark.parametrize("shape", ["square", "triangle"])
def test_scores_have_the_moments_as_expectations_exactly(shape, has_empty):
    wave = Wave.of_shape(shape, 7, Odds.of_epsilon(1.0, 1 << 8), 2, has_empty=has_empty)
    for i in range(7 + has_empty):
        law = [Fraction(int(weight), wave.total) for weight in wave.weights_of(i)]
        found = [sum(p * x for p, x in zip(law, f, strict=True)) for f in scores(wave)]
        assert found == ([0, 0, 0] if i == 7 else [1, i, i * i])


def test_the_mean_of_the_piecewise_mechanism_is_that_of_the_square_wave():
    """[Wang19] answers x in [-1, 1] by y in [-C, C] and takes the mean of y: here y is a linear map of the output."""
    odds = Odds(9, 4)  # e^(epsilon / 2) = 3/2 and C = 5
    d, w = 12, 4  # b = 1/3 = e^(-epsilon / 2) / 2
    wave = Wave.square(d, odds, w)
    _, f1, _ = scores(wave)
    s = Fraction(sum(wave.window) - len(wave.window) * wave.other, wave.total)
    slopes = {f1[j + 1] - f1[j] for j in range(wave.n_outputs - 1)}
    assert slopes == {1 / s}
    # The outputs are centred about the middle input's, so the least and the largest estimate are as far from it.
    assert f1[0] + f1[-1] == d - 1
    # In units of [-1, 1] the largest estimate of the continuous mechanism is C = (s + 1) / (s - 1).
    s_root, fine = Fraction(3, 2), 1200
    fine_wave = Wave.square(fine, odds, round(fine / 3))
    largest = scores(fine_wave)[1][-1]
    assert float((2 * largest - (fine - 1)) / fine) == pytest.approx(float((s_root + 1) / (s_root - 1)), rel=2e-3)


@pytest.mark.parametrize("has_empty", [False, True])
def test_moments_are_near_the_truth_as_often_as_their_errors_say(has_empty):
    wave, values = Wave.square(32, ODDS, has_empty=has_empty), beta_values(4_000, 32)
    slots = np.concatenate([values, np.full(1_000 * has_empty, 32)]).astype(np.int64)
    middles = (values + 0.5) / 32
    source, errors = InsecureTestEntropy("moments"), []
    for _ in range(150):
        found = moments(wave, np.bincount(wave.respond(slots, source), minlength=wave.n_outputs))
        errors.append(
            [(found.mean - middles.mean()) / found.mean_error, (found.variance - middles.var()) / found.variance_error]
        )
    spread = np.std(errors, axis=0)
    assert spread == pytest.approx(np.ones(2), abs=0.25)
    assert np.abs(np.mean(errors, axis=0)).max() < 0.35


@pytest.mark.parametrize(("epsilon", "gain"), [(0.5, 8.0), (1.0, 4.1), (2.0, 2.2)])
def test_a_lie_moves_the_mean_by_no_more_than_its_gain(epsilon, gain):
    wave = Wave.square(256, Odds.of_epsilon(epsilon))
    assert gain_of_a_response(wave, 1) == pytest.approx(gain, rel=0.02)
    counts = counts_of(wave, beta_values(1_000, 256)).astype(float)
    low, high = (counts + np.eye(wave.n_outputs)[j] for j in (0, -1))
    moved = moments(wave, high).mean - moments(wave, low).mean
    assert moved == pytest.approx(gain_of_a_response(wave, 1_001), rel=1e-9)


@pytest.mark.parametrize("has_empty", [False, True])
def test_the_mean_of_sign_responses_is_near_the_truth_as_often_as_its_error_says(has_empty):
    mechanism, values = SignResponse(32, ODDS, has_empty), beta_values(4_000, 32)
    slots = np.concatenate([values, np.full(1_000 * has_empty, 32)]).astype(np.int64)
    source, off = InsecureTestEntropy("signs"), []
    for _ in range(150):
        found = sign_mean(mechanism, np.bincount(mechanism.respond(slots, source), minlength=mechanism.n_outputs))
        off.append(
            [
                (found.mean - ((values + 0.5) / 32).mean()) / found.mean_error,
                (found.present - 4_000 / len(slots)) / max(found.present_error, 1e-9),
            ]
        )
    assert np.std(off, axis=0) == pytest.approx([1.0, float(has_empty)], abs=0.25)
    assert np.abs(np.mean(off, axis=0)).max() < 0.35
    for value, mean in ((0, 0.5 / 32), (31, 31.5 / 32)):
        # Responses with exactly the law of an end say that end.
        assert sign_mean(mechanism, mechanism.weights_of(np.array([value]))[0]).mean == pytest.approx(mean)


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("kind", ["sign", "square", "triangle", "piecewise"])
def test_responses_that_are_all_alike_do_not_make_an_error_small(kind, epsilon):
    """Rare responses that no sample shows count too: two alike say no more than two, and sixty no more than sixty."""
    odds, d = Odds.of_epsilon(epsilon), 32
    mechanism = {
        "sign": lambda: SignResponse(d, odds, True),
        "piecewise": lambda: Wave.piecewise(d, odds, has_empty=True),
    }.get(kind, lambda: Wave.of_shape(kind, d, odds, has_empty=True))()
    law, find = (
        (mechanism.weights_of(np.array([d - 1]))[0], sign_mean)
        if kind == "sign"
        else (mechanism.weights_of(d - 1), moments)
    )
    for n in (2, 60):
        expected = find(mechanism, n * law / mechanism.total)
        alike = find(mechanism, n * np.eye(mechanism.n_outputs)[np.argmax(law)])
        # By its influence a response moves a mean among more people less: the errors agree as they count people.
        assert alike.mean_error * alike.present > 0.45 * expected.mean_error
        assert alike.present_error > 0.9 * expected.present_error
        assert alike.gain * alike.present == pytest.approx(expected.gain)
        if kind != "sign":
            assert alike.variance_error > 0.1 * expected.variance_error
