"""When a horizontal factorization is worth it: what the page says of parties with few ratings and with many."""

from pathlib import Path

import numpy as np
import pytest

from analyses.matrix_factorization.horizontal import Estimates, member_vector, others_priors, run, solve_users
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.own_factors import Shape, fit
from analyses.matrix_factorization.plan import FactorParams, Members, plan_factors
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.ratings import Ratings
from bench.baselines.factors import local_non_private
from demo.data_sets.ratings import BOUNDS, N_LECTURERS, N_STUDENTS, PER_STUDENT, write_student_parties
from dp.draw.skellam import sample_skellam
from entropy import InsecureTestEntropy

PRIOR, CENTRE = Prior(), sum(BOUNDS) / 2
PAGE = Path(__file__).parents[2] / "docs" / "analyses" / "matrix-factorization.md"
HEAD = "| parties | students at each | each party alone | released | at each party |"
ROUNDING = 0.015
"""Of a printed error: two decimals, and another course of the noise."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """All ratings that are in a table, by student, and those that are in none."""
    made = write_student_parties(tmp_path_factory.mktemp("students"))
    users, items, values = made.pooled.T
    return Ratings.of(users, items, values - CENTRE, N_STUDENTS, N_LECTURERS), made.held_out


def errors(data, n):
    """Mean squared errors of each party alone, of what is released, and of stage 3, for n parties at epsilon 4."""
    ratings, held_out = data
    params = FactorParams("horizontal", N_STUDENTS, N_LECTURERS, PER_STUDENT, rank=0)
    plan = plan_factors(params, Members(n, 1, n), epsilon=4.0, delta=1e-6, view="coalition")
    release = plan.releases[0]

    def noisy(t, model):
        noise = sample_skellam(InsecureTestEntropy("noise"), release.kept_mu(n), release.length)
        return member_vector(plan, t, model, ratings, PRIOR) + noise

    found, parts = run(plan, Estimates(PRIOR), noisy), list(ratings.split_rows(n))
    alone = local_non_private(parts, 0, np.random.default_rng(1))
    squares = np.zeros(3)
    for place, (part, fitted) in enumerate(zip(parts, alone, strict=True)):
        users, items, values = held_out[held_out[:, 0] % n == place].T
        none = np.zeros((N_LECTURERS, 0))
        offsets = fit(part, others_priors(plan, found, part, PRIOR), Shape(0)).items[:, 0]
        own = FactorModel.nearest(offsets, none, params.factor_units)
        predicted = [fitted.predict(users // n, items)]
        predicted += [m.offsets[items] + solve_users(m, part, PRIOR)[users // n, 0] for m in (found.model, own)]
        squares += [((np.clip(one + CENTRE, *BOUNDS) - values) ** 2).sum() for one in predicted]
    return squares / len(held_out)


def printed():
    lines = PAGE.read_text().split(HEAD)[1].splitlines()[2:]
    rows = [line.strip("|").split("|") for line in lines[: lines.index("")]]
    return {int(row[0]): (int(row[1]), [float(cell) for cell in row[2:]]) for row in rows}


@pytest.mark.parametrize("n", printed())
def test_the_page_says_what_a_party_gains_by_what_is_released_and_by_its_own_ratings_beside_it(data, n):
    students, said = printed()[n]
    assert abs(students - N_STUDENTS / n) <= 1
    found = alone, released, own = errors(data, n)
    assert np.abs(found - said).max() < ROUNDING, found.round(3)
    assert own < alone
    assert (released < alone) == (n >= 20)
