"""Whole tables of the local mechanisms: every uniform integer through the map that production uses."""

from fractions import Fraction

import numpy as np
import pytest

from dp.cost.accounting import CalibrationError
from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse, frequency_oracle
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse, level_sizes
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.prefix_response import PrefixResponse
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave, best_half_width, relative_half_width
from dp.mechanism.hashing import LocalHashing
from dp.mechanism.response import RandomizedResponse
from entropy import InsecureTestEntropy

B = 1 << 8
ODDS = {epsilon: Odds.of_epsilon(epsilon, B) for epsilon in (0.25, 1.0, 3.0)}


def table(total, n_outputs, n_inputs, outputs_of):
    """How many of the uniform integers below `total` lead each input to each output."""
    draws = np.arange(total)
    rows = [np.bincount(outputs_of(np.full(total, i), draws), minlength=n_outputs) for i in range(n_inputs)]
    found = np.array(rows)
    assert found.shape == (n_inputs, n_outputs)
    return found


def check(found, total, odds, *, is_attained=True):
    """Rows sum to one, and no output is more than A / B times likelier for one input than for another."""
    assert (found.sum(axis=1) == total).all()
    ratios = [Fraction(int(column.max()), int(column.min())) for column in found.T]
    bound = Fraction(odds.favoured, odds.other)
    assert max(ratios) == bound if is_attained else max(ratios) <= bound


@pytest.mark.parametrize("has_empty", [False, True])
@pytest.mark.parametrize("half_width", [None, 0, 1, 4])
@pytest.mark.parametrize("n_inputs", [2, 3, 7, 16])
@pytest.mark.parametrize("epsilon", ODDS)
def test_the_square_wave_has_its_table(epsilon, n_inputs, half_width, has_empty):
    odds = ODDS[epsilon]
    wave = Wave.square(n_inputs, odds, half_width, has_empty=has_empty)
    k = 2 * wave.half_width + 1
    assert wave.total == k * odds.favoured + (n_inputs - 1 + k * has_empty) * B
    found = table(wave.total, wave.n_outputs, n_inputs + has_empty, wave.outputs_of)
    check(found, wave.total, odds)
    for i in range(n_inputs):
        expected = [odds.favoured if i <= j < i + k else B for j in range(wave.n_outputs)]
        assert found[i].tolist() == expected == wave.weights_of(i).tolist()
    if has_empty:
        # The empty slot's window is disjoint from all others.
        assert (found[wave.empty, wave.n_real_outputs :] == odds.favoured).all()
        assert (found[:n_inputs, wave.n_real_outputs :] == B).all()
        assert found[wave.empty].tolist() == wave.weights_of(wave.empty).tolist()


@pytest.mark.parametrize("has_empty", [False, True])
@pytest.mark.parametrize("shape", ["triangle", "trapezoid"])
@pytest.mark.parametrize("n_inputs", [3, 9, 16])
def test_other_waves_have_their_tables(shape, n_inputs, has_empty):
    odds = ODDS[1.0]
    wave = Wave.of_shape(shape, n_inputs, odds, 3, top=Fraction(2, 5), has_empty=has_empty)
    found = table(wave.total, wave.n_outputs, n_inputs + has_empty, wave.outputs_of)
    check(found, wave.total, odds, is_attained=has_empty or n_inputs > 4)
    assert all(found[i].tolist() == wave.weights_of(i).tolist() for i in range(n_inputs + has_empty))
    rising = list(wave.window[:4])
    assert rising == sorted(rising)
    assert wave.window == wave.window[::-1]
    assert wave.window.count(odds.favoured) == (1 if shape == "triangle" else 3)


def test_a_wave_of_any_weights_has_its_table():
    wave = Wave(5, (B, 3 * B, 2 * B), B)
    found = table(wave.total, wave.n_outputs, 5, wave.outputs_of)
    check(found, wave.total, Odds(3 * B, B))
    assert found[2].tolist() == [B, B, B, 3 * B, 2 * B, B, B]


@pytest.mark.parametrize("has_empty", [False, True])
@pytest.mark.parametrize("n_inputs", [2, 5, 16])
@pytest.mark.parametrize("epsilon", ODDS)
def test_the_sign_response_has_its_table(epsilon, n_inputs, has_empty):
    mechanism, n = SignResponse(n_inputs, ODDS[epsilon], has_empty), n_inputs + has_empty
    found = table(mechanism.total, mechanism.n_outputs, n, mechanism.outputs_of)
    check(found, mechanism.total, ODDS[epsilon])
    assert (found == mechanism.weights_of(np.arange(n))).all()
    steps = np.diff(found[:n_inputs, 1])
    assert (steps == steps[0]).all()
    assert steps[0] > 0
    with pytest.raises(ValueError, match="outside"):
        mechanism.weights_of(np.array([n]))


@pytest.mark.parametrize("n_inputs", [2, 5, 16])
def test_the_hadamard_response_has_its_table_in_every_row(n_inputs):
    odds = ODDS[1.0]
    mechanism = HadamardResponse(n_inputs, odds)
    averages = np.zeros((n_inputs, n_inputs))
    for row in range(mechanism.n_rows):

        def outputs_of(values, draws, row=row):
            return mechanism.signs_of(values, np.full(len(values), row), draws)

        found = table(mechanism.total, 2, n_inputs, outputs_of)
        check(found, mechanism.total, odds, is_attained=row > 0 and n_inputs == mechanism.n_rows)
        signs = (found[:, 1] > found[:, 0]) * 2 - 1
        averages += np.outer(signs, signs) / mechanism.n_rows
        with_minus = mechanism.signs_of(
            np.zeros(4, int), np.full(4, row), np.arange(4), np.array([False, True, False, True])
        )
        assert with_minus.tolist() == [1, 0, 1, 0]
    assert (averages == np.eye(n_inputs)).all()


@pytest.mark.parametrize("n_options", [2, 3, 16])
@pytest.mark.parametrize("epsilon", ODDS)
def test_direct_and_hashed_responses_have_the_odds(epsilon, n_options):
    odds = ODDS[epsilon]
    responses = [
        RandomizedResponse.of_odds(n_options, odds.favoured, odds.other),
        DirectResponse(n_options, odds).response,
        HashedResponse.of_odds(n_options, odds).response,
        LocalHashing.of_odds(n_options, "label", odds.favoured, odds.other).response,
    ]
    for response in responses:
        assert response.truthful / response.other == Fraction(odds.favoured, odds.other)
        assert response.truthful + (response.n_options - 1) * response.other == 1
    assert responses[2].n_options == responses[3].n_options == round(odds.favoured / odds.other) + 1


@pytest.mark.parametrize("epsilon", [2.0**-10, 0.1, 1.0, 2.5, 16])
def test_a_over_b_is_below_the_epsilon_asked_for_and_a_plus_one_over_b_is_not(epsilon):
    import mpmath

    odds = Odds.of_epsilon(epsilon)
    with mpmath.workdps(60):
        assert mpmath.log(mpmath.mpf(odds.favoured) / odds.other) <= mpmath.mpf(epsilon)
        assert mpmath.log(mpmath.mpf(odds.favoured + 1) / odds.other) > mpmath.mpf(epsilon)
    assert odds.event().truthful == Fraction(odds.favoured, odds.favoured + odds.other)


@pytest.mark.parametrize("epsilon", [0, 2.0**-11, 16.5, float("nan"), float("inf"), -1.0])
def test_an_epsilon_out_of_range_is_refused(epsilon):
    with pytest.raises(CalibrationError):
        Odds.of_epsilon(epsilon)


@pytest.mark.parametrize("epsilon", [2.0**-10, 0.01, 0.5, 1.0, 4.0, 16])
def test_the_half_width_follows_the_printed_formula_and_its_series(epsilon):
    import mpmath

    odds = Odds.of_epsilon(epsilon, 1 << 60)  # so that A / B is e^epsilon to 17 digits
    with mpmath.workdps(40):
        x = mpmath.mpf(epsilon)
        printed = (x * mpmath.e**x - mpmath.e**x + 1) / (2 * mpmath.e**x * (mpmath.e**x - 1 - x))
    assert float(relative_half_width(odds)) == pytest.approx(float(printed), rel=1e-9)
    if epsilon < 0.02:
        assert float(relative_half_width(odds)) == pytest.approx(0.5 - epsilon / 3, rel=epsilon**2)


@pytest.mark.parametrize(("n_inputs", "epsilon"), [(16, 1.0), (256, 0.5), (2, 3.0)])
def test_no_neighbouring_half_width_has_more_mutual_information(n_inputs, epsilon):
    odds = Odds.of_epsilon(epsilon)

    def information(w):
        row = Wave.square(n_inputs, odds, w).weights_of(0)
        p = row / row.sum()
        return np.log(len(row)) + p @ np.log(p)

    low = int(relative_half_width(odds) * n_inputs)
    best = best_half_width(n_inputs, odds)
    assert best in (low, low + 1)
    assert information(best) >= max(information(low), information(low + 1)) - 1e-12


def test_waves_that_cannot_be_are_refused():
    odds = ODDS[1.0]
    for arguments in (
        (1, (2 * B,), B),
        (4, (2 * B, 2 * B), B),
        (4, (B - 1, 2 * B, B), B),
        (4, (B, B, B), B),
        (1 << 20, (2,), 1),
    ):
        with pytest.raises(CalibrationError):
            Wave(*arguments)
    with pytest.raises(CalibrationError):
        Wave.square(4, odds).empty  # noqa: B018
    with pytest.raises(CalibrationError):
        Wave.square(4, odds, -1)
    Wave.square(1 << 14, Odds.of_epsilon(16), has_empty=True)  # the largest


@pytest.mark.parametrize("bad", [-1, 5])
def test_a_value_that_is_no_input_is_refused(bad):
    odds, source, choices = ODDS[1.0], InsecureTestEntropy("bad"), PublicChoices(b"q", ["a"])
    values = np.array([bad])
    with pytest.raises(ValueError, match="outside"):
        Wave.square(5, odds).respond(values, source)
    with pytest.raises(ValueError, match="outside"):
        SignResponse(5, odds).respond(values, source)
    for mechanism in (
        HadamardResponse(5, odds),
        HashedResponse.of_odds(5, odds),
        DirectResponse(5, odds),
        HierarchicalResponse(5, odds),
        HaarResponse(5, odds),
        PrefixResponse(5, odds),
    ):
        with pytest.raises(ValueError, match="outside"):
            mechanism.respond(values, choices, source)


def test_the_piecewise_mechanism_has_the_relative_window_and_the_mass_of_the_source():
    odds = Odds(9 * B, 4 * B)  # e^(epsilon / 2) = 3/2, so C = 5
    wave = Wave.piecewise(12_000, odds)
    window = Fraction(len(wave.window), wave.n_outputs)
    assert float(window) == pytest.approx(float(Fraction(5 - 1, 2 * 5)), abs=1e-4)
    mass = Fraction(sum(wave.window), wave.total)
    assert float(mass) == pytest.approx(3 / 2 / (3 / 2 + 1), abs=1e-4)


# -- public choices ---------------------------------------------------------------------------------------------------


def test_public_choices_follow_from_question_and_name_alone():
    names = [f"device-{i}" for i in range(50)]
    first, again = PublicChoices(b"question", names), PublicChoices(b"question", names[::-1])
    assert (first.levels(5) == again.levels(5)[::-1]).all()
    assert (first.rows(64) == again.rows(64)[::-1]).all()
    assert (first.levels(5) != PublicChoices(b"another", names).levels(5)).any()
    part = first.part(10, 20)
    assert (part.rows(64) == first.rows(64)[10:20]).all()
    assert len(part) == 10


def test_hash_functions_meet_as_often_as_buckets_say_and_levels_are_uniform():
    choices = PublicChoices(b"question", [str(i) for i in range(20_000)])
    buckets = choices.hashed(np.arange(100)[None, :], 4)
    assert buckets.shape == (20_000, 100)
    for one, other in ((0, 1), (3, 99), (50, 51)):
        assert np.mean(buckets[:, one] == buckets[:, other]) == pytest.approx(1 / 4, abs=0.016)
    assert np.bincount(buckets[:, 7]) / 20_000 == pytest.approx(np.full(4, 0.25), abs=0.016)
    assert np.bincount(choices.levels(3)) / 20_000 == pytest.approx(np.full(3, 1 / 3), abs=0.016)
    values = np.full(20_000, 42)
    assert (choices.hashed(values, 4) == buckets[:, 42]).all()


def test_the_oracle_of_less_variance_is_taken():
    odds = Odds.of_epsilon(1.0)
    assert isinstance(frequency_oracle(4, odds), DirectResponse)
    assert isinstance(frequency_oracle(64, odds), HashedResponse)
    for n_inputs in (2, 4, 16, 256):
        direct, hashed = DirectResponse(n_inputs, odds), HashedResponse.of_odds(n_inputs, odds)
        assert frequency_oracle(n_inputs, odds).variance == min(direct.variance, hashed.variance)


@pytest.mark.parametrize(
    ("n_inputs", "branching", "sizes"),
    [(256, 4, (4, 16, 64, 256)), (10, 4, (3, 10)), (2, 4, (2,)), (9, 2, (2, 3, 5, 9))],
)
def test_the_levels_of_a_tree(n_inputs, branching, sizes):
    assert level_sizes(n_inputs, branching) == sizes


def test_hierarchical_responses_are_about_the_level_of_the_respondent():
    odds, n = Odds(1 << 40, 1), 400  # hardly ever a lie
    choices, source = PublicChoices(b"q", [str(i) for i in range(n)]), InsecureTestEntropy("levels")
    tree = HierarchicalResponse(16, odds)
    values = np.arange(n) % 16
    found, levels = tree.respond(values, choices, source), choices.levels(2)
    assert (found[levels == 0] == values[levels == 0] // 4).all()
    assert (found[levels == 1] == values[levels == 1]).all()
    haar = HaarResponse(16, odds)
    bits, heights = haar.respond(values, choices, source), choices.levels(4) + 1
    rows = np.array([choices.rows(haar.oracle(h).n_rows)[i] for i, h in enumerate(heights.tolist())])
    minus = (np.bitwise_count((values >> heights) & rows) & 1) ^ (values >> (heights - 1) & 1)
    assert (bits == 1 - minus).all()
