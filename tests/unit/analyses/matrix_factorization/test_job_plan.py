"""The plan of the job: what it refuses before anything costs, what it releases, what that costs."""

import pytest
from rating_jobs import PARTIES, VERTICAL, horizontal_tables, job_of, table_of, vertical_tables

from analyses.job.job import JobError
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.matrix_factorization.job_plan import plan
from analyses.matrix_factorization.jobs.forecast import OFFSETS_ALONE, forecast
from analyses.sums.sessions.session_series import name_in_series
from dp.cost.composition import composed_epsilon
from dp.cost.views import VIEWS
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId

HORIZONTAL = horizontal_tables()


def schemas_of(tables=HORIZONTAL, **others):
    return [(tables | others)[name].schema for name in PARTIES]


def rows(party, tables=HORIZONTAL):
    return tables[party].ratings


@pytest.mark.parametrize(
    ("changes", "others", "what"),
    [
        ({}, {"bank": table_of("bank", rows("bank"), items=tuple("lkjihgfedcba"))}, "different lists of items"),
        ({}, {"bank": table_of("bank", rows("bank"), bounds=(-3, 4))}, "different bounds of a rating"),
        ({"parameters": VERTICAL}, {"bank": table_of("bank", rows("bank"), users=7)}, "different numbers of users"),
        ({"parameters": {"unit": "rating"}}, {}, 'parameters.unit: "rating" is not offered in the horizontal setting'),
        ({"parameters": {**VERTICAL, "unit": "user"}}, {}, 'parameters.unit: "user" is not offered in the vertical'),
        ({"privacy": {"epsilon": 1.0, "delta": 0.01}}, {}, "privacy.delta: must be positive and below 1 / 150"),
        ({"parameters": {"rank": 0, "rounds": 3}}, {}, "rank 0 has none"),
        ({"parameters": {"centre": 4.0}}, {}, "parameters.centre: must lie within the bounds"),
        ({"parameters": {"form": "adam"}}, {}, "parameters.form"),
        ({"parameters": {"rank": 65}}, {}, "parameters.rank"),
        ({"parameters": {"ranks": 1}}, {}, "there is no such field"),
        ({"colluding": 2}, {}, "colluding"),
    ],
)
def test_what_cannot_be_planned_is_refused_by_the_name_of_its_field(changes, others, what):
    with pytest.raises(JobError, match=what):
        plan(job_of(**changes), schemas_of(**others))


@pytest.mark.parametrize("parameters", [{"rank": 1, "rounds": 1}, {"setting": "vertical", "rank": 0, "rounds": 1}])
def test_of_two_owners_each_is_counted_as_colluding_against_the_other(parameters):
    """The noise of the other alone hides a unit, so the coordinator's view, where both count, costs less."""
    two = PARTIES[:2]
    job = job_of(two, parameters=parameters, privacy={"epsilon": 1.0, "delta": 1e-4})
    tables = vertical_tables(two) if "setting" in parameters else horizontal_tables(two)
    found = plan(job, [tables[name].schema for name in two])
    assert job.t == found.factors.members.n_corrupt == 1
    assert found.factors.members.fewest == 2
    costs = {view: composed_epsilon(found.privacy_events(view), 1e-4).epsilon for view in VIEWS}
    assert costs["coordinator"] < costs["coalition"] <= 1.0
    for noise in found.sum_noises:
        alone, both = (noise.noise.least_unknown_mu(view) for view in ("coalition", "coordinator"))
        assert both == 2 * alone


def test_one_party_is_too_few_and_all_members_bring_ratings():
    with pytest.raises(JobError, match="at least 2"):
        plan(job_of(PARTIES[:1]), schemas_of()[:1])
    column = ColumnSchema(name="x", lower=0, upper=1)
    with pytest.raises(JobError, match="the table of telco holds no ratings"):
        plan(job_of(), [*schemas_of()[:2], BlockSchema(party="telco", columns=(column,))])
    with pytest.raises(JobError, match="exactly the parties that bring ratings"):
        plan(job_of(compute=["one", "two", "three"]), schemas_of())


@pytest.mark.parametrize(
    ("parameters", "tables", "unit", "n_releases"),
    [
        ({"rank": 2, "rounds": 3}, HORIZONTAL, "person in one party's table", 4),
        ({"rank": 0}, HORIZONTAL, "person in one party's table", 1),
        (VERTICAL, vertical_tables(), "rating of an item by a user", 4),
    ],
)
@pytest.mark.parametrize("view", VIEWS)
def test_all_rounds_together_cost_what_the_job_allows_and_hardly_less(parameters, tables, unit, n_releases, view):
    privacy = {"epsilon": 2.0, "delta": 1e-4, "view": view}
    planned = plan(job_of(privacy=privacy, parameters=parameters), schemas_of(tables))
    assert len(planned.releases) == n_releases
    assert planned.privacy_unit == unit
    shown = planned.privacy_report()["views"]
    assert 1.98 < shown[view]["epsilon"] <= 2.0
    for each in VIEWS:
        assert composed_epsilon(planned.privacy_events(each), 1e-4).epsilon == shown[each]["epsilon"]
    assert planned.cost().epsilon(1e-4).epsilon == max(shown[each]["epsilon"] for each in VIEWS)


@pytest.mark.parametrize(
    ("parameters", "tables"), [({"rank": 1, "rounds": 2}, HORIZONTAL), (VERTICAL, vertical_tables())]
)
def test_no_message_with_a_vector_of_a_round_may_leave_before_the_noise_of_that_round(parameters, tables):
    planned = plan(job_of(parameters=parameters), schemas_of(tables))
    for number in range(planned.n_sums):
        for attempt in range(planned.params.attempts):
            for stage in (Stage.MASK, Stage.AGREE, Stage.UNMASK):
                name = name_in_series(stage, RoundId("", number, attempt))
                waiting = [one.release for one in planned.releases if name not in one.earlier]
                numbers = {getattr(one, "number", getattr(one, "sweep", None)) for one in waiting}
                assert numbers == {number}
                assert len(waiting) == (2 if planned.is_vertical else 1)
            for stage in (Stage.ADVERTISE, Stage.SHARE):
                name = name_in_series(stage, RoundId("", number, attempt))
                assert all(name in one.earlier for one in planned.releases)
    assert all("an unknown stage" not in one.earlier for one in planned.releases)


@pytest.mark.parametrize("setting", ["horizontal", "vertical"])
def test_a_plan_without_vectors_says_so_and_who_chose_it(setting):
    tables = horizontal_tables() if setting == "horizontal" else vertical_tables()

    def assumed(rank, **more):
        job = job_of(parameters={"setting": setting, "rank": rank, **more})
        return forecast(plan(job, schemas_of(tables))).assumptions

    assert OFFSETS_ALONE in assumed("auto")
    assert OFFSETS_ALONE in assumed(0)
    assert OFFSETS_ALONE not in assumed(1, rounds=1)
    assert any('"auto" gave it' in one for one in assumed("auto"))
    assert not any('"auto" gave it' in one for one in assumed(0))


def test_the_error_of_a_users_offset_is_forecast_where_no_vectors_are_released():
    def quantities(epsilon, **parameters):
        target = {"epsilon": epsilon, "delta": 1e-4}
        job = job_of(parameters={"setting": "vertical", **parameters}, privacy=target, anyway=True)
        return forecast(plan(job, schemas_of(vertical_tables()))).quantities

    (few,), (many,) = (quantities(epsilon, rank=0) for epsilon in (1e3, 1e2))
    assert 0 < few.standard_error < many.standard_error
    assert few.name.startswith("offset of a user")
    assert quantities(1.0, rank=0) == quantities(1e3, rank=1, rounds=1) == ()


def test_equal_jobs_have_equal_digests_and_other_declarations_another_one():
    first = plan(job_of(), schemas_of())
    assert plan(job_of(), schemas_of()).digest() == first.digest()
    others = [
        plan(job_of(), schemas_of(bank=table_of("bank", rows("bank"), users=51))),
        plan(job_of(parameters={"rank": 2, "rounds": 2, "centre": 1.0}), schemas_of()),
    ]
    assert len({first.digest(), *(other.digest() for other in others)}) == 3
    assert type(first).model_validate_json(first.canonical_json()).releases == first.releases


def test_the_ring_holds_every_sum_that_the_declared_users_can_come_to():
    planned = plan(job_of(), schemas_of())
    for one in planned.sum_noises:
        largest = planned.encoding(one.number).largest_element
        bound = one.noise.sensitivities["coordinator"].squared_l2
        assert largest**2 >= 50**2 * (bound - 2 * bound**0.5)
    assert planned.check_rings() is None
