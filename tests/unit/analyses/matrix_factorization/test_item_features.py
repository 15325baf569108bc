"""Public features of items in a job and in a question: the same at all, what they move, new items, bad ones refused."""

import json

import numpy as np
import pytest
from factor_devices import DECLARED, factor_question
from pydantic import ValidationError
from rating_jobs import BOUNDS, N_ITEMS, PARTIES, declaring, horizontal_tables, job_of, rows_of, table_of

from analyses.job.job import JobError
from analyses.job.ratings import MAX_FEATURE, digest_of_features
from analyses.matrix_factorization import protocol
from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.devices.record import DeclaredRatings
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.posterior import Prior, Regression, offset_posterior
from analyses.matrix_factorization.reference import reference
from analyses.matrix_factorization.serving.kept import recommended
from analyses.matrix_factorization.serving.new_items import NewItems
from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy
from mpc.errors import PeerViolationError

RNG = np.random.default_rng(7)
FEATURES = tuple(tuple(row) for row in (RNG.integers(0, 2, size=(N_ITEMS, 2)) * 1.0).tolist())
OTHERS = (*FEATURES[:-1], tuple(1 - one for one in FEATURES[-1]))
OFFSETS_ALONE = {"rank": 0, "features": FEATURES}


def planned(parameters, tables, **changes):
    job = job_of(parameters=parameters, **changes)
    return protocol.plan(job, [tables[name].schema for name in job.members])


async def test_a_job_with_features_finds_what_exact_sums_do_and_tells_how_they_move_offsets():
    tables = declaring(horizontal_tables(), lambda party: FEATURES)
    plan = planned(OFFSETS_ALONE, tables, privacy={"epsilon": 1e6, "delta": 1e-4})
    plain = planned({"rank": 0}, tables, privacy={"epsilon": 1e6, "delta": 1e-4})
    assert plan.digest() != plain.digest()
    assert plan.privacy_report() == plain.privacy_report()  # they cost nothing
    network = local_network(plan, entropy_of=lambda member: InsecureTestEntropy(f"member {member}"))
    ended = await run_plan(plan, tables, network, analysis=protocol.ANALYSIS)
    held = [tables[name] for name in PARTIES]
    exact, without = reference(held, plan), reference(held, plain)
    off = np.abs(np.array(ended.result["offsets"]) - exact.offsets_q).max()
    assert off < 0.5 * np.abs(without.offsets_q - exact.offsets_q).max()
    assert ended.result["features_digest"] == digest_of_features(FEATURES)
    json.dumps(ended.result, allow_nan=False)
    kept, own = ended.reports["bank"].kept, protocol.read_table(plan, tables["bank"])
    assert kept["regression"] == ended.result["regression"]
    assert kept["regression"]["features"] != [0.0, 0.0]
    features = np.array(FEATURES)
    more = {"top": N_ITEMS + 2, "prior": Prior(), "features": features}
    plain_order, with_new = (
        recommended(kept, own, own.user_names[3], **more, new=new) for new in (None, np.array([[1.0, 0.0], [9.0, 9.0]]))
    )
    assert {one.item for one in with_new} - {one.item for one in plain_order} == {N_ITEMS, N_ITEMS + 1}
    assert [one for one in with_new if one.item < N_ITEMS] == list(plain_order)
    assert len(recommended(kept, own, "nobody", **more, new=features[:1])) == N_ITEMS + 1
    with pytest.raises(ValueError, match="each must have 2 features"):
        recommended(kept, own, "nobody", **more, new=np.ones((1, 3)))
    with pytest.raises(ValueError, match="is not a number from -100 to 100"):
        recommended(kept, own, "nobody", **more, new=np.array([[np.nan, 0.0]]))
    with pytest.raises(ValueError, match="had no public features"):
        recommended({**kept, "regression": None} | {}, own, "nobody", top=3, prior=Prior(), new=features)


def test_an_item_without_ratings_and_a_new_one_have_the_offset_that_their_features_say():
    n, k = 400, 50
    features = RNG.normal(size=(n, 2))
    truth = features @ [0.4, -0.3] + 0.1
    counts = 1 + RNG.exponential(size=n) * 30
    counts[0] = 0.0
    sums = counts * truth
    found = offset_posterior(counts, sums, 0.1, ratings_per_user=k, prior=Prior(), features=features)
    without = offset_posterior(counts, sums, 0.1, ratings_per_user=k, prior=Prior())
    assert found.regression.weights[2:] == pytest.approx([0.4, -0.3], abs=0.03)
    new = float(found.regression.of_new(features[:1])[0])
    assert found.expected[0] == pytest.approx(new, abs=1e-9)  # a cold item is like a new one
    assert abs(found.offsets[0] - new) < 0.03
    assert abs(without.offsets[0] - new) > 0.1
    assert Regression.of_data(json.loads(json.dumps(found.regression.as_data()))).of_new(features[:1]) == new


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (FEATURES[:-1], "11 rows of features for 12 items"),
        ((*FEATURES[:-1], (1.0,)), "item 11 has 1 features, and item 0 has 2"),
        ((*FEATURES[:-1], (float("nan"), 0.0)), "features"),
        ((*FEATURES[:-1], (float("inf"), 0.0)), "features"),
        ((*FEATURES[:-1], (2 * MAX_FEATURE, 0.0)), "features.11.0: must be at most 100"),
        ((*FEATURES[:-1], ("1", 0.0)), "features"),
        (((0.0,) * 65,) * N_ITEMS, "at most 64"),
        ((), "features"),
    ],
)
def test_bad_features_are_refused_by_name_in_jobs_and_questions(features, words):
    tables = declaring(horizontal_tables(), lambda party: None)
    with pytest.raises((JobError, ValidationError), match="features") as refused:  # a job itself has finite numbers
        planned({"rank": 0, "features": features}, tables)
    assert words in str(refused.value)
    with pytest.raises(ValidationError, match="features"):
        factor_question(features=features)


@pytest.mark.parametrize(("declared", "words"), [(OTHERS, "other public features"), (None, "no public features")])
def test_a_party_or_device_that_declares_other_features_is_named_before_any_rating_is_read(declared, words):
    tables = declaring(horizontal_tables(), lambda party: declared if party == "telco" else FEATURES)
    with pytest.raises(JobError, match=f"telco declares {words}"):
        planned(OFFSETS_ALONE, tables)
    device = DeclaredRatings(N_ITEMS, *BOUNDS, most=N_ITEMS, features=declared)
    with pytest.raises(JobError, match=f"films is declared with {words}"):
        device.check(factor_question(features=FEATURES))
    device.check(factor_question())


def test_features_are_of_the_form_statistics_and_of_items_that_all_have():
    tables = declaring(horizontal_tables(), lambda party: FEATURES)
    with pytest.raises(JobError, match='features: the form "sgd" has no such parameter'):
        planned({"form": "sgd", "rank": 2, "features": FEATURES}, tables)
    with pytest.raises(JobError, match="in the vertical setting each has its own"):
        planned({"setting": "vertical", "features": FEATURES}, tables)
    DECLARED.check(factor_question())


async def test_collinear_huge_and_constant_features_and_an_empty_table_fail_no_job():
    """Nothing may fail after admission: the regression has a ridge in every direction."""
    rows = rows_of([1], [0], [1.0])
    tables = declaring({party: table_of(party, rows) for party in PARTIES}, lambda party: ((100.0, -100.0, 0.0),) * 12)
    plan = planned({"rank": 0, "features": ((100.0, -100.0, 0.0),) * 12}, tables)
    ended = await run_plan(plan, tables, local_network(plan), analysis=protocol.ANALYSIS)
    assert np.isfinite(ended.result["regression"]["features"]).all()


def test_devices_are_told_the_regression_at_the_end_and_refuse_one_that_is_not_finite():
    rounds = rounds_of(factor_question(features=FEATURES, rank=0, rounds=None), 5)
    model = FactorModel.nearest(np.ones(N_ITEMS), np.zeros((N_ITEMS, 0)), 1 << 12)
    stated = Regression(np.array([0.1, 0.2, 0.3, 0.4]), 0.5)
    outcome = rounds.write_outcome(1, model, stated)
    found, regression = rounds.read_outcome(outcome, "end")
    assert np.array_equal(found.offsets_q, model.offsets_q)
    assert regression.as_data() == stated.as_data()
    for lie in (Regression(np.array([np.nan, 0.2, 0.3, 0.4]), 0.5), Regression(stated.weights, 0.0)):
        with pytest.raises(PeerViolationError, match="not finite"):
            rounds.read_outcome(rounds.write_outcome(1, model, lie), "end")
    for short in (outcome[:-8], outcome[:5], b""):
        with pytest.raises(PeerViolationError):
            rounds.read_outcome(short, "end")


def test_new_items_are_read_from_lines_of_names_and_numbers():
    found = NewItems.of_lines(["dune, 1, 0", "heat,0,1.5"])
    assert found.names == ("dune", "heat")
    assert found.features.tolist() == [[1.0, 0.0], [0.0, 1.5]]
    for lines, words in (
        (["a,1", "b,1,2"], "as many numbers"),
        (["a,x"], "line 1"),
        (["a,1", "a,2"], "more than once"),
    ):
        with pytest.raises(ValueError, match=words):
            NewItems.of_lines(lines)
