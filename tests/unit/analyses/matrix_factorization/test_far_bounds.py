"""Bounds of ratings at the far end of what a number can be: refused from public numbers alone, or no rating raises."""

import numpy as np
import pytest
from factor_devices import factor_question
from rating_jobs import PARTIES, SGD, SGD_VERTICAL, VERTICAL, horizontal_tables, job_of, rows_of, table_of

from analyses.job.job import JobError
from analyses.job.ratings import RatingsSchema, digest_of_items
from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.devices.record import DeclaredRatings, RatedItems, device_vector, used_ratings
from analyses.matrix_factorization.horizontal import member_vector
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.protocol import plan
from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.unit_vectors import MAX_DEVIATION

HORIZONTAL = {"rank": 0}
WAYS = {"horizontal": HORIZONTAL, "vertical": VERTICAL, "sgd": SGD, "sgd, vertical": SGD_VERTICAL}


def planned(parameters, bounds):
    rows = rows_of([0], [0], [0.0])
    tables = [table_of(party, rows, bounds=bounds) for party in PARTIES]
    return plan(job_of(parameters=parameters), [table.schema for table in tables])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bounds", [(0.0, 4e9), (-1e300, 1e300), (-1.7e308, 0.0), (0.0, 1e9 * 2.5)])
def test_a_job_about_bounds_that_are_too_wide_is_refused_in_its_plan(way, bounds):
    with pytest.raises(JobError, match="bounds of a rating"):
        planned(WAYS[way], bounds)


@pytest.mark.parametrize("form", ["statistics", "sgd"])
@pytest.mark.parametrize("bounds", [(0.0, 4e9), (-1e300, 1e300), (-1.7e308, 0.0)])
def test_a_question_to_devices_about_bounds_that_are_too_wide_is_refused_in_its_plan(form, bounds):
    changes = {"form": "sgd", "rounds": None, "rank": 1} if form == "sgd" else {}
    question = factor_question(lower=bounds[0], upper=bounds[1], centre=None, **changes)
    with pytest.raises(JobError, match="bounds of a rating"):
        rounds_of(question, 5)


@pytest.mark.parametrize("centre", [0.0, 1.73e9, 1.74e9, 4e9])
def test_no_centre_tells_on_which_side_of_it_a_rating_lies(centre):
    with pytest.raises(JobError, match="centre"):
        rounds_of(factor_question(lower=0.0, upper=4e9, centre=centre), 5)
    with pytest.raises(JobError, match="centre"):
        planned({**HORIZONTAL, "centre": centre}, (0.0, 4e9))


def test_a_range_that_is_no_finite_number_is_refused_where_it_is_declared_or_asked_for():
    with pytest.raises(ValueError, match="too wide"):
        RatingsSchema(
            items=1, items_digest=digest_of_items(1), users=1, ratings_per_user=1, lower=-1.7e308, upper=1.7e308
        )
    with pytest.raises(ValueError, match="too wide"):
        factor_question(lower=-1e308, upper=1e308, centre=None)


@pytest.mark.parametrize("centre", [None, -MAX_DEVIATION / 2, MAX_DEVIATION / 2])
def test_at_the_widest_bounds_that_are_admitted_no_record_raises(centre):
    lower, upper = -MAX_DEVIATION / 2, MAX_DEVIATION / 2
    rounds = rounds_of(factor_question(lower=lower, upper=upper, centre=centre), 5)
    n_items = rounds.question.items
    declared = DeclaredRatings(n_items, lower, upper, n_items)
    for value in (lower, upper, 0.0, 5e-324, 1.7e308, -1.7e308):
        used = used_ratings(declared, RatedItems(tuple(map(str, range(n_items))), np.full(n_items, value)))
        for number in range(rounds.n_rounds):
            most = np.full((n_items, 1 + rounds.rank), 1 << 20)
            model = None if number == 0 else FactorModel(most[:, 0], most[:, 1:], rounds.broadcast.units)
            vector = device_vector(rounds, number, model, declared, used).astype(object)
            assert (vector**2).sum() <= rounds.noise(number).sensitivities["coordinator"].squared_l2


def test_what_a_user_is_solved_to_is_clipped_and_never_refused():
    tables = horizontal_tables()
    factors = plan(job_of(), [tables[name].schema for name in PARTIES]).factors
    m, p = factors.params.n_items, factors.rank
    rng = np.random.default_rng(2)
    for scale in (1e9, 1e200, 1.7e308, np.nan):
        deviations = scale * rng.choice([-1.0, 1.0], m)
        ratings = Ratings(np.array([0, m]), np.arange(m), deviations, m)
        model = FactorModel.nearest(rng.normal(size=m), 1e-3 * rng.normal(size=(m, p)), factors.params.factor_units)
        for number in range(factors.n_rounds + 1):
            vector = member_vector(factors, number, model if number else None, ratings, Prior())
            assert (
                int((vector.astype(object) ** 2).sum())
                <= factors.releases[number].sensitivities["coordinator"].squared_l2
            )
