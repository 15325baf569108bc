"""The plan of the form `sgd` as a job: what it refuses before anything costs, what it releases, what that costs."""

import math
import tracemalloc

import pytest
from rating_jobs import (
    PARTIES,
    SGD,
    SGD_PARTY,
    SGD_VERTICAL,
    SGD_WAYS,
    horizontal_tables,
    job_of,
    table_of,
    vertical_tables,
)

from analyses.job.job import JobError
from analyses.matrix_factorization.descent.step_noise import OwnStepNoise
from analyses.matrix_factorization.protocol import plan
from analyses.sums.sessions.session_series import name_in_series
from dp.cost.composition import composed_epsilon
from dp.cost.views import VIEWS
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId


def planned(parameters=SGD, **changes):
    tables = (vertical_tables if "setting" in parameters else horizontal_tables)()
    return plan(job_of(parameters=parameters, **changes), [tables[name].schema for name in PARTIES])


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        ({**SGD, "rank": 0}, "parameters.steps: .*rank"),
        ({**SGD, "rounds": 2}, 'rounds: the form "sgd" has no such parameter'),
        ({**SGD, "centre": 0.0}, 'centre: the form "sgd" has no such parameter'),
        ({"steps": 2}, 'steps: the form "statistics" has no such parameter'),
        ({"noise": "party"}, 'noise: the form "statistics" has no such parameter'),
        ({**SGD, "noise": "twice"}, "parameters.noise"),
        ({**SGD, "sampled": "row"}, "there is no such field"),
        ({**SGD, "local_steps": 2}, 'parameters.local_steps: noise "once"'),
        ({**SGD, "final_steps": 2}, "parameters.final_steps: only the vertical setting"),
        ({**SGD, "unit": "rating"}, "parameters.unit: the horizontal"),
        ({**SGD_VERTICAL, "unit": "user"}, "parameters.unit: in the vertical setting a user has ratings at every"),
        ({**SGD_VERTICAL, "pre_train": False}, "parameters.pre_train"),
        ({**SGD, "sampling_rate": 0.0}, "parameters.sampling_rate"),
        ({**SGD, "sampling_rate": 1.0, "most_participations": 1}, "parameters.*most_participations"),
        ({**SGD, "steps": 1001}, "parameters.steps"),
    ],
)
def test_what_cannot_be_planned_is_refused_by_the_name_of_its_field(parameters, what):
    with pytest.raises(JobError, match=what):
        planned(parameters)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"privacy": {"epsilon": 1.0, "delta": 0.01}}, "privacy.delta: must be positive and smaller than 1 / 150"),
        ({"colluding": 2}, "colluding"),
    ],
)
def test_so_are_targets_that_protect_nobody(changes, what):
    with pytest.raises(JobError, match=what):
        planned(**changes)


def test_a_plan_of_a_thousand_rounds_takes_memory_by_rounds_not_by_pairs_of_them():
    made = planned({**SGD, "steps": 1000, "sampling_rate": 0.01})
    tracemalloc.start()
    try:
        assert len(made.releases) == 1000
        first, last = name_in_series(Stage.MASK, RoundId("", 0, 1)), name_in_series(Stage.MASK, RoundId("", 999, 1))
        assert [(first in one.earlier, last in one.earlier) for one in made.releases] == (
            [(False, True)] + [(True, True)] * 998 + [(True, False)]
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20e6


@pytest.mark.parametrize("way", SGD_WAYS)
@pytest.mark.parametrize("view", VIEWS)
def test_all_steps_together_cost_what_the_job_allows_and_hardly_less_and_are_charged_once(way, view):
    made = planned(SGD_WAYS[way], privacy={"epsilon": 2.0, "delta": 1e-4, "view": view})
    shown = made.privacy_report()["views"]
    assert 1.98 < shown[view]["epsilon"] <= 2.0
    for each in VIEWS:
        assert made.privacy_events(each) == made.descent.events(each)
        assert composed_epsilon(made.privacy_events(each), 1e-4).epsilon == shown[each]["epsilon"]
    assert made.cost().epsilon(1e-4).epsilon == max(shown[each]["epsilon"] for each in VIEWS)
    assert made.privacy_unit == ("rating of an item by a user" if "vertical" in way else "person in one party's table")


@pytest.mark.parametrize("way", SGD_WAYS)
def test_the_cost_knows_how_many_numbers_two_units_move(way):
    made = planned(SGD_WAYS[way])
    numbers = 2 * made.descent.params.n_nonzeros(both=made.is_vertical)
    joint, *final = made.privacy_events("coalition")
    assert joint.n_moved == numbers * made.most_participations
    assert [event.n_moved for event in final] == [numbers // 2 * made.most_final] * made.is_vertical


def test_one_party_and_parties_of_different_items_are_refused_before_any_cost():
    tables = horizontal_tables()
    with pytest.raises(JobError, match="at least 2"):
        plan(job_of(PARTIES[:1], parameters=SGD), [tables[name].schema for name in PARTIES[:1]])
    other = table_of("bank", tables["bank"].ratings, items=tuple("lkjihgfedcba"))
    with pytest.raises(JobError, match="different lists of items"):
        plan(job_of(parameters=SGD), [(tables | {"bank": other})[name].schema for name in PARTIES])


def test_the_sample_amplifies_for_the_coordinator_alone():
    views = planned({**SGD, "steps": 20, "sampling_rate": 0.1}).privacy_report()["views"]
    assert views["coordinator"]["epsilon"] < 0.2 * views["coalition"]["epsilon"]


def test_a_user_of_all_parties_costs_what_all_release_about_it_and_the_owner_reads_so():
    rating, user = (planned({**SGD_WAYS["vertical, party"], "unit": unit}) for unit in ("rating", "user"))
    assert (rating.descent.n_releasing, user.descent.n_releasing) == (1, 3)
    assert len(user.privacy_events("coalition")) == 3 * len(rating.privacy_events("coalition"))
    assert user.privacy_unit == "person"
    assert "a user has ratings at each of 3 parties" in user.privacy_report()["mechanism"]
    assert "adds up" not in rating.privacy_report()["mechanism"]


@pytest.mark.parametrize("way", SGD_WAYS)
def test_the_report_states_rounds_and_bytes(way):
    made = planned(SGD_WAYS[way])
    stated = made.privacy_report()["parameters"]
    n_rows, rank = (90, 1) if "vertical" in way else (12, 2)
    assert (stated["rounds"], stated["numbers"]) == (3, n_rows * rank)
    bits = made.round_sum(0)[2].bits
    assert stated["bytes_per_round"] == math.ceil(n_rows * rank * bits / 8)
    assert made.broadcast.n_bytes == 8 + 4 * n_rows * rank


@pytest.mark.parametrize("way", SGD_WAYS)
def test_no_vector_of_a_round_may_leave_before_the_noise_of_that_round(way):
    made = planned(SGD_WAYS[way])
    n_kinds = {"horizontal, once": 1, "horizontal, party": 1, "vertical, once": 2, "vertical, party": 1}[way]
    finals = [one for one in made.releases if getattr(one.release, "of", "") == "final"]
    assert len(finals) == ("vertical" in way)
    assert len(made.releases) == n_kinds * 3 + len(finals)
    for number in range(made.n_sums):
        for attempt in range(made.params.attempts):
            for stage in (Stage.MASK, Stage.AGREE, Stage.UNMASK):
                name = name_in_series(stage, RoundId("", number, attempt))
                waiting = [one.release for one in made.releases if name not in one.earlier and one not in finals]
                assert [one.number for one in waiting] == [number] * n_kinds
                assert all(name not in one.earlier for one in finals)
            for stage in (Stage.ADVERTISE, Stage.SHARE):
                name = name_in_series(stage, RoundId("", number, attempt))
                assert all(name in one.earlier for one in made.releases)


@pytest.mark.parametrize("way", SGD_WAYS)
def test_own_noise_is_drawn_once_per_round_and_that_of_the_sum_for_each_attempt(way):
    made = planned({**SGD_WAYS[way], "attempts": 3})
    assert {(type(one.release) is OwnStepNoise, one.times) for one in made.releases} <= {(True, 1), (False, 3)}
    assert all(one.members == (1, 2, 3) for one in made.releases)


def test_equal_jobs_have_equal_digests_and_other_parameters_another_one():
    first = planned()
    assert planned().digest() == first.digest()
    others = [planned({**SGD, "learning_rate": 0.25}), planned({**SGD, "most_participations": 3}), planned(SGD_PARTY)]
    assert len({first.digest(), *(other.digest() for other in others)}) == 4
    read = type(first).model_validate_json(first.canonical_json())
    assert read.releases == first.releases


def test_steps_are_divided_by_a_public_constant_that_grows_with_the_noise():
    few, much = (planned(privacy={"epsilon": epsilon, "delta": 1e-4}).descent for epsilon in (1e6, 0.5))
    assert few.params.divisor == pytest.approx(20 * 6 * 0.5 * 6 * 150 / 12, rel=0.01)  # R, rate, ratings, users / items
    deviation = math.sqrt(2 * much.mu) / much.params.units
    assert much.params.divisor - few.params.divisor == pytest.approx(20 * deviation, rel=0.01)
    once, party = planned().descent, planned({**SGD, "noise": "party"}).descent
    assert party.params.divisor < once.params.divisor * math.sqrt(party.mu / once.mu)


@pytest.mark.parametrize("way", SGD_WAYS)
def test_the_ring_holds_every_sum_that_declared_users_and_items_can_come_to(way):
    made = planned(SGD_WAYS[way])
    encoding, noise, _ = made.round_sum(0)
    if noise is None:
        assert encoding.largest_element**2 >= 0.99 * 6 * made.descent.params.factor_units**2
    else:
        most = 4 if "vertical" in way else 50
        assert encoding.largest_element >= 0.99 * most * 256 * 2 * 6**1.5
