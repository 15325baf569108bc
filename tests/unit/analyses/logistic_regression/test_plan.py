import pytest
from labelled_tables import PARTIES, labelled_tables, logistic_job

from analyses.job.job import JobError
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.logistic_regression.parameters import MAX_ITERATIONS
from analyses.logistic_regression.protocol import ANALYSIS
from dp.cost.composition import composed_epsilon
from dp.cost.events.sampling import BoundedSampledDpEvent
from dp.mechanism.norm_proof import MaskedProjections

SCHEMAS = [table.schema for table in labelled_tables().values()]
NORMS = dict.fromkeys(PARTIES, 1.0)
LARGE = {"epsilon": 50.0, "delta": 1e-6}


def planned(parameters=None, schemas=SCHEMAS, **changes):
    return ANALYSIS.plan(logistic_job(parameters, **changes), schemas)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"label": "left"}, "parameters.label"),
        ({"label": "school.left"}, "parameters.label: school has no input in this job, so it cannot provide the label"),
        (
            {"label": "telco.gone"},
            ("parameters.label: column 'gone' is not in the input of telco; add it to the columns of that input"),
        ),
        (
            {"label": "bank.x0"},
            ("parameters.label: bank.x0 has the bounds -1 and 3; the bounds of a label must be 0 and 1"),
        ),
        ({"max_rows": 0}, "parameters.max_rows"),
        ({"iterations": 0}, "parameters.iterations"),
        ({"iterations": MAX_ITERATIONS + 1}, "parameters.iterations: must be at most 20000, got 20001"),
        ({"sampling_rate": 0.0}, "parameters.sampling_rate"),
        ({"sampling_rate": 1.5}, "parameters.sampling_rate"),
        ({"most_participations": 6}, "parameters.most_participations: most_participations must be in 1..5, not 6"),
        ({"sampling_rate": 1, "most_participations": 2}, "parameters.most_participations: at rate 1"),
        ({"weight_norm": 0}, "parameters.weight_norm"),
        (
            {"weight_norm": 3.5, "order": 3},
            ("weight_norm: 3.5 is too large for order 3, whose gradient has the wrong sign beyond sqrt"),
        ),
        ({"order": 2}, "parameters.order"),
        (
            {"order": 3, "release": "three-sums", "weight_norm": 1.0},
            ("release: 'three-sums' exists for order 1 only; use 'gradient' with order 3"),
        ),
        ({"optimiser": "newton"}, "parameters.optimiser"),
        ({"learning_rate": 0}, "parameters.learning_rate"),
        ({"gamma": 1}, "parameters.gamma"),
        ({"gamma": 2}, "parameters.gamma: with 2 every value of telco would be rounded to zero; choose a larger gamma"),
        ({"weight_gamma": 1, "weight_norm": 0.5}, "every weight would be rounded to zero"),
        ({"norm_bounds": NORMS}, "norm_bounds: they can only be given together with row_norm"),
        (
            {"row_norm": 2.0, "norm_bounds": {"bank": 1.0}},
            "norm_bounds: must have one entry for each of the parties bank, hospital",
        ),
        ({"row_norm": 1.9, "norm_bounds": NORMS}, "and the constant column's is larger than the square of row_norm"),
        (
            {"row_norm": 1.7, "norm_bounds": NORMS, "intercept": False},
            ("parameters.norm_bounds: the sum of their squares is larger than the square of row_norm"),
        ),
        ({"row_norm": 1e-310}, "parameters.row_norm: 1e-310 is too small"),
        ({"row_norm": 1e-310, "intercept": False}, "parameters.row_norm: 1e-310 is too small"),
        ({"row_norm": 1e200}, "parameters.row_norm: 1e\\+200 is too large"),
        ({"surprise": 1}, "parameters.surprise"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(parameters, words):
    with pytest.raises(JobError, match=words):
        planned(parameters)


def test_an_epsilon_too_small_for_any_answer_is_refused_whatever_the_reason():
    with pytest.raises(JobError, match="infeasible: the standard deviation of the noise of all steps"):
        planned(privacy={"epsilon": 1e-3, "delta": 1e-5})
    with pytest.raises(JobError, match=r"privacy: .*needs more noise than the sampler can draw"):
        planned({"gamma": 1 << 20, "weight_gamma": 1 << 20})


def test_values_too_large_for_any_field_are_refused():
    with pytest.raises(
        JobError, match=r"parameters.max_rows, parameters.gamma, parameters.weight_gamma: .*the largest field has 126"
    ):
        planned({"max_rows": 1 << 100})


def test_bounds_with_which_the_weights_may_leave_floating_point_are_refused_before_anything_is_spent():
    columns = (ColumnSchema(name="x0", lower=0.0, upper=1e-300),)
    narrow = [s.model_copy(update={"columns": columns}) if s.party == "bank" else s for s in SCHEMAS]
    with pytest.raises(JobError, match=r"bounds 0..1e-300 of bank.x0 .* range of float64"):
        planned(schemas=narrow)


def test_a_table_of_nothing_but_the_label_is_refused():
    label = BlockSchema(party="telco", columns=(ColumnSchema(name="left", lower=0, upper=1),), rows=(1, 60))
    others = [BlockSchema(party=party) for party in ("bank", "hospital")]
    job = logistic_job(inputs=[{"party": "telco", "table": "people"}], compute=["bank", "hospital", "telco"])
    with pytest.raises(JobError, match="the label is the only column"):
        ANALYSIS.plan(job, [*others, label])


def test_a_party_may_bring_the_label_and_nothing_else():
    label = SCHEMAS[2].model_copy(update={"columns": (ColumnSchema(name="left", lower=0, upper=1),)})
    found = planned(schemas=[*SCHEMAS[:2], label])
    assert found.squared_norm_bounds[2] == 0
    assert found.feature_names == ("bank.x0", "bank.x1", "hospital.x0", "hospital.x1", "hospital.x2")


def test_the_bounds_of_the_parties_and_the_intercept_fit_into_the_row_norm():
    given = {"row_norm": 2.0, "norm_bounds": NORMS, "gamma": 64}
    found = planned(given)
    assert found.squared_norm_bounds == (32**2,) * 3
    assert found.constant == 32
    assert found.gradient.squared_row_bound == 64**2
    assert found.gradient.n_columns == 7
    without = planned({**given, "intercept": False})
    assert (without.constant, without.gradient.n_columns) == (0, 6)
    assert without.gradient.squared_row_bound == 3 * 32**2


@pytest.mark.parametrize("view", ["coordinator", "coalition"])
def test_the_target_is_met_in_the_view_that_the_job_names_and_both_are_reported(view):
    found = planned({"iterations": 50, "sampling_rate": 0.1}, privacy={"epsilon": 20.0, "delta": 1e-5, "view": view})
    views = found.privacy_report()["views"]
    assert 19.9 < views[view]["epsilon"] <= 20.0
    assert views["coordinator"]["epsilon"] < views["coalition"]["epsilon"]
    (charged,) = found.privacy_events("coalition")
    assert charged.squares == found.most_participations * found.mechanism.step.events("coalition")[0].squares
    (sampled,) = found.privacy_events("coordinator")
    assert isinstance(sampled, BoundedSampledDpEvent)
    assert (sampled.n_steps, sampled.most_participations) == (50, found.most_participations)


def test_the_parties_that_are_told_weights_count_as_receivers():
    assert planned().receivers == (0, 1, 2, 3)


def test_every_member_computes_the_same_plan_digest():
    assert planned().digest() == planned().digest()
    assert planned().digest() != planned({"learning_rate": 0.2}).digest()


@pytest.mark.parametrize("view", ["coordinator", "coalition"])
def test_a_malicious_job_pays_for_the_projections_of_features_and_of_the_label_beside_them(view):
    plan = planned({"sampling_rate": 1.0}, security="malicious", privacy={**LARGE, "view": view})
    label = plan.job.members.index(plan.params.label_party) + 1
    features = len(plan.features_of(label).columns)
    assert features
    for owner, bound, squared_norm in zip(
        plan.owners, plan.norm_bounds.values(), plan.squared_norm_bounds, strict=True
    ):
        assert (bound.width, bound.squared_norm) == (plan.width_of(owner), squared_norm)
        assert bound.bit == (features if owner == label else None)
    masks = [planned.release for planned in plan.releases if isinstance(planned.release, MaskedProjections)]
    charged = [bound + (owner == label) for owner, bound in zip(plan.owners, plan.squared_norm_bounds, strict=True)]
    assert [one.squared_norm for one in masks] == charged
    whole = composed_epsilon(plan.privacy_events(view), 1e-6).epsilon
    steps = composed_epsilon(plan.mechanism.events(view), 1e-6).epsilon
    assert 0.95 * 50 < steps < whole <= 50


def test_a_constant_that_the_owner_of_the_label_shares_counts_in_the_norm_beside_it():
    """Of persons: a row that does not count is zero, its constant too, so nobody knows the constant but its owner."""
    schemas = [schema.model_copy(update={"most_rows_per_person": 2}) for schema in SCHEMAS]
    found = planned({"sampling_rate": 1.0, "unit": "person"}, schemas, security="malicious", privacy=LARGE)
    *_, (last, bound) = found.norm_bounds.items()
    assert found.shares_constant
    assert (bound.width, bound.bit) == (found.width_of(last), len(found.features_of(last).columns))
    assert bound.squared_norm == found.squared_norm_bounds[-1] + found.constant**2
    assert found.gradient.squared_row_bound == sum(one.squared_norm for one in found.norm_bounds.values())
