"""Jobs that match rows in secret: answers are those of the pooled rows, and nobody sees how many there were."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from overlapping_tables import COUNTS, MOST, OWNERS, REALS, overlapping_tables, pooled, secret_job
from secret_matches import ids_of

from analyses.job.job import JobError
from analyses.job.plan import OPENING_STAGE
from analyses.registry import ANALYSES, analysis_of
from analyses.rows.meeting import meet
from analyses.rows.secret_rows import SecretRows, terms_of
from analyses.run_locally import local_network, run_locally, run_plan
from dp.cost.composition import composed_epsilon
from dp.cost.views import VIEWS
from dp.mechanism.sampled import SampledSkellam
from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.errors import LocalFaultError, PeerError, PeerLostError
from mpc.matching.bins import Bins
from mpc.protocol.session import COORDINATOR
from mpc.protocol.shared import public_array

N = 250
WITH_A_FOURTH = (*OWNERS, "fourth")
GRADIENTS = {"label": "bank.y", "method": "gradient", "iterations": 4}
GRADIENTS |= {"optimiser": "sgd", "learning_rate": 4.0}  # not `adam`, which hardly depends on how long a gradient is
JOBS = [
    ("pca", {"components": 2}, REALS),
    ("low-rank", {"rank": 2}, REALS),
    ("least-squares", {"label": "bank.x0"}, REALS),
    ("logistic-regression", {"label": "bank.y", "method": "moments"}, REALS),
    ("logistic-regression", GRADIENTS, REALS),
    ("logistic-regression", GRADIENTS | {"order": 3}, REALS),
    ("pattern-count", {}, COUNTS),
    ("moments", {"order": 1}, COUNTS),
    ("moments", {"order": 3}, COUNTS),
    ("cross-table", {}, COUNTS),
    ("joint-count", {}, REALS),
    ("joint-mean", {}, REALS),
    ("joint-sum", {}, REALS),
    ("second-moments", {}, REALS),
]


async def run_reproducibly(job, tables):
    return await run_locally(job, tables, entropy_of=entropy_of)


def entropy_of(member):
    return InsecureTestEntropy(f"member {member}")


async def result_of(analysis, parameters, kind=REALS, *, compute=(), n_common=N):
    job = secret_job(analysis, parameters, compute=compute, colluding=1)
    return (await run_reproducibly(job, overlapping_tables(n_common, kind))).result


def test_every_analysis_that_matches_in_secret_is_tried_here():
    assert {analysis for analysis, _, _ in JOBS} == {name for name, one in ANALYSES.items() if "secret" in one.matching}


@pytest.mark.parametrize("compute", [(), WITH_A_FOURTH])
async def test_principal_components_are_those_of_the_pooled_rows(compute):
    result, rows = await result_of("pca", {"components": 2}, compute=compute), pooled(N)
    assert result["n_rows"] == pytest.approx(N, abs=3)  # from the constant column: slots without a match have none
    np.testing.assert_allclose(result["mean"], rows.mean(axis=0), atol=0.02)
    covariance = np.cov((rows / np.array([2, 2, 1, 2, 2, 2, 2])).T)
    variances, vectors = np.linalg.eigh(covariance)
    np.testing.assert_allclose(result["explained_variance"], variances[::-1][:2], rtol=0.1)
    assert abs(np.array(result["components"][0]) @ vectors[:, -1]) > 0.99


async def test_a_low_rank_approximation_is_that_of_the_pooled_rows():
    result, rows = await result_of("low-rank", {"rank": 2}), pooled(N)
    scaled = (rows - np.array([-1, -1, 0, -1, -1, -1, -1])) / np.array([2, 2, 1, 2, 2, 2, 2])
    expected = np.linalg.eigvalsh(scaled.T @ scaled)[::-1]
    np.testing.assert_allclose(result["eigenvalues"][:2], expected[:2], rtol=0.05)


@pytest.mark.parametrize("compute", [(), WITH_A_FOURTH])
async def test_least_squares_are_those_of_the_pooled_rows(compute):
    result, rows = await result_of("least-squares", {"label": "bank.x0"}, compute=compute), pooled(N)
    design = np.column_stack([rows[:, 1:], np.ones(N)])
    expected = np.linalg.lstsq(design, rows[:, 0], rcond=None)[0]
    np.testing.assert_allclose(result["coefficients"], expected[:-1], atol=0.12)
    assert result["intercept"] == pytest.approx(expected[-1], abs=0.05)


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({"label": "bank.y", "method": "moments"}, marks=pytest.mark.slow),
        GRADIENTS,
        pytest.param(GRADIENTS | {"order": 3}, marks=pytest.mark.slow),
    ],
)
async def test_a_logistic_regression_is_that_of_tables_that_were_joined_before(parameters):
    """The intercept is far off where slots without a match have a constant."""
    in_secret = await result_of("logistic-regression", parameters)
    openly = secret_job("logistic-regression", parameters, matching={"kind": "revealed"})
    expected = (await run_reproducibly(openly, overlapping_tables(N))).result
    tolerance = 0.05 if parameters["method"] == "gradient" else 0.4
    np.testing.assert_allclose(in_secret["weights"], expected["weights"], atol=tolerance)
    assert in_secret["intercept"] == pytest.approx(expected["intercept"], abs=tolerance)


@pytest.mark.parametrize("compute", [(), WITH_A_FOURTH])
async def test_patterns_are_those_of_the_pooled_rows(compute):
    result = await result_of("pattern-count", {}, COUNTS, compute=compute)
    expected = np.zeros((4, 4, 4))
    np.add.at(expected, tuple(pooled(N, COUNTS).astype(int).T), 1)
    np.testing.assert_allclose(result["counts"], expected, atol=3)
    assert np.sum(result["counts"]) == pytest.approx(N, abs=20)


@pytest.mark.parametrize("compute", [(), WITH_A_FOURTH])
async def test_counts_sums_and_means_are_those_of_the_pooled_rows(compute):
    rows = pooled(N)
    for name in ("joint-count", "joint-mean"):
        result = await result_of(name, {}, compute=compute)
        assert abs(result["n_rows"] - N) < 8 * result["n_rows_standard_error"]
    for kind, expected in (("sum", rows.sum(axis=0)), ("mean", rows.mean(axis=0))):
        errors = np.array(result[f"{kind}_standard_errors"])
        assert np.all(np.abs(np.array(result[kind]) - expected) < 10 * errors)
        assert np.all(errors < 0.05 * np.abs(rows).max(axis=0) * (N if kind == "sum" else 1))


async def test_there_may_be_more_slots_than_a_field_has_integers():
    """A field of one prime holds the counts of a million rows, and there are 1.3 times as many slots."""
    n_slots, field = 1_200_000, ResidueField(1)
    found = SimpleNamespace(
        n_slots=n_slots,
        matched=public_array(field, np.r_[np.zeros(5, int), np.ones(n_slots - 5, int)], holds_shares=True),
    )
    empty = await SecretRows.empty_slots(SimpleNamespace(_found=found))
    assert (field.decode(empty.share).tolist(), empty.bound) == ([5], n_slots)


@pytest.mark.parametrize("order", [1, 2, 3])
async def test_moments_are_those_of_the_pooled_rows(order):
    result = await result_of("moments", {"order": order}, COUNTS)
    expected = (pooled(N, COUNTS).sum(axis=1) ** order).sum()
    assert result["moment"] == pytest.approx(expected, abs=6 * result["standard_error"] + 1e-9)


@pytest.mark.parametrize(("analysis", "parameters", "kind"), JOBS)
@pytest.mark.parametrize("compute", [(), WITH_A_FOURTH])
async def test_all_messages_are_the_same_in_number_and_size_however_many_rows_match(
    analysis, parameters, kind, compute
):
    """To the coordinator and between any two parties; also where none matches: then the answer is of noise alone."""
    seen = []
    for n_common in (0, 1, 40):
        job = secret_job(analysis, parameters, compute=compute, colluding=1)
        ran = await run_locally(
            job, overlapping_tables(n_common, kind), entropy_of=lambda m: InsecureTestEntropy(f"member {m}")
        )
        assert ran.result["analysis"] == analysis
        for party, table in overlapping_tables(n_common, kind).items():
            report = ran.reports[party]
            assert (report.n_matched, report.n_rows) == (None, table.n_rows)
        seen.append(Counter((m.sender, m.receiver, m.stage, m.array.shape) for m in ran.network.transcript))
        assert {done for _, stage, done, _ in ran.network.progress_log if stage == "matching"} == {0, 1}
    assert seen[0] == seen[1] == seen[2]


async def test_a_job_matched_in_secret_says_so_and_what_it_reveals():
    result = await result_of("moments", {"order": 1}, COUNTS)
    assert result["privacy"]["matching"] == {
        "kind": "secret",
        "reveals": "nobody learns which rows matched, nor how many",
    }


def planned(analysis="moments", parameters=None, **changes):
    job = secret_job(analysis, {"order": 1} if parameters is None else parameters, **changes)
    schemas = {party: table.schema for party, table in overlapping_tables(5, COUNTS).items()}
    blank = next(iter(schemas.values())).model_copy(update={"columns": (), "rows": None, "matching": None})
    of_all = [schemas.get(name) or blank.model_copy(update={"party": name}) for name in job.members]
    return analysis_of(job).plan(job, of_all)


def test_the_plan_is_for_as_many_rows_as_the_smallest_table_declares():
    plan = planned()
    assert plan.params.max_rows == min(MOST.values())
    assert terms_of(plan).leader == 1
    assert terms_of(plan).most_rows == {1: 400, 2: 500, 3: 600}


def hidden_from_everybody(release):
    """A release all of whose noise is unknown to a coalition too, so that its views differ in the neighbours alone."""
    if isinstance(release, SampledSkellam):
        return replace(release, step=replace(release.step, colluding=0))
    return replace(release, colluding=0)


@pytest.mark.parametrize("epsilon", [10.0, 100.0])
@pytest.mark.parametrize(("analysis", "parameters", "kind"), JOBS)
def test_what_a_coalition_is_charged_for_a_replaced_row_covers_one_that_is_added(analysis, parameters, kind, epsilon):
    """No party knows how many rows match, so tables with a row more are neighbours for a coalition as well."""
    job = secret_job(analysis, parameters, privacy={"epsilon": epsilon, "delta": 1e-5}, anyway=True)
    plan = analysis_of(job).plan(job, [overlapping_tables(5, kind)[name].schema for name in job.members])
    for release in (hidden_from_everybody(planned.release) for planned in plan.releases):
        of_view = {view: composed_epsilon(release.events(view), 1e-5).epsilon for view in VIEWS}
        assert of_view["coordinator"] <= of_view["coalition"] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"compute": ("bank", "hospital", "fourth")},
            "compute: telco brings a table, so it must be one of the compute",
        ),
        ({"compute": (*OWNERS, "fourth", "fifth")}, "colluding: 2 colluding parties could find out which rows match"),
        (
            {"parameters": {"order": 1, "unit": "person"}},
            "parameters.unit: .* nobody knows which are of the same person",
        ),
        (
            {"analysis": "clustering", "parameters": {"k": 2, "k_local": 2}},
            "clustering cannot match rows in the way 'sec",
        ),
        ({"analysis": "secure-sum", "parameters": {}}, "secure-sum cannot match rows in the way 'secret'"),
        ({"parameters": {"order": 1, "method": "laplace"}}, "method 'laplace' of moments needs owners that know which"),
        ({"parameters": {"order": 2, "method": "sketch"}}, "method 'sketch' of moments"),
        (
            {"analysis": "pattern-count", "parameters": {"method": "randomized-response"}},
            "'randomized-response' of patt",
        ),
        ({"analysis": "low-rank", "parameters": {"rank": 1, "method": "sketch"}}, "method 'sketch' of low-rank"),
        ({"analysis": "least-squares", "parameters": {"label": "bank.x", "method": "sketch"}}, "'sketch' of least-squ"),
    ],
)
def test_what_cannot_be_matched_in_secret_is_refused_by_the_plan(changes, match):
    with pytest.raises(JobError, match=match):
        planned(**changes)


def test_a_sample_of_slots_is_refused_as_one_row_moves_others_from_slot_to_slot():
    """Otherwise parties, who know the batches, see more than one row change."""
    job = secret_job("logistic-regression", GRADIENTS | {"sampling_rate": 0.5})
    schemas = [overlapping_tables(5)[name].schema for name in job.members]
    with pytest.raises(JobError, match=r"parameters.sampling_rate: of rows that are matched in secret one can change"):
        analysis_of(job).plan(job, schemas)
    candidates = Bins(100, bytes(32)).candidates(ids_of(range(100)))
    places = [Bins(100, bytes(32)).place(some) for some in (candidates, candidates[1:])]
    assert (places[0][1:] != places[1]).any()


def test_two_colluding_parties_are_refused_and_one_of_five_is_not():
    assert planned(compute=(*OWNERS, "fourth", "fifth"), colluding=1).n_parties == 5


async def test_tables_are_never_compared_row_by_row_where_rows_are_matched_in_secret():
    with pytest.raises(LocalFaultError, match="no order that their owners could agree on"):
        await meet(None, planned(), None)


STAGES = [
    "matching/bins",
    "matching/blinded",
    "matching/store",
    "matching/tags",
    "matching/empty",
    "products",
    "matching/rows",
    OPENING_STAGE,
]


@pytest.mark.parametrize(("stage", "killed"), [(stage, 1 + place % 3) for place, stage in enumerate(STAGES)])
async def test_an_owner_that_drops_out_in_any_pass_ends_the_job_and_is_named(stage, killed):
    """Of three parties all are needed to the end. Whoever never sends anything in the stage is left alive."""
    tables = overlapping_tables(30)
    job = secret_job("pca", {"components": 2})
    plan = analysis_of(job).plan(job, [tables[name].schema for name in job.members])
    hit = []

    def drop_out(message):
        if message.sender == killed and stage in message.stage and not hit:
            hit.append(message)
            network.kill(killed)
            return ()
        return (message,)

    network = local_network(plan, fault=drop_out, deadline_s=10.0, entropy_of=entropy_of)
    ran = await run_plan(plan, tables, network)
    if not hit:
        assert "explained_variance" in ran.ends[COORDINATOR]
        return
    assert isinstance(ran.ends[COORDINATOR], PeerError)
    others = [ran.ends[m] for m in (1, 2, 3) if m != killed]
    assert any(isinstance(end, PeerLostError) and end.member == killed for end in [ran.ends[COORDINATOR], *others])


async def test_with_a_fourth_party_an_owner_may_drop_out_once_its_rows_are_in():
    tables = overlapping_tables(N)
    job = secret_job("pca", {"components": 2}, compute=WITH_A_FOURTH, colluding=1)
    fourth = tables["bank"].schema.model_copy(update={"party": "fourth", "columns": (), "rows": None, "matching": None})
    plan = analysis_of(job).plan(job, [*(tables[name].schema for name in OWNERS), fourth])

    def drop_out(message):
        if message.sender == 3 and message.stage == OPENING_STAGE:
            network.kill(3)
            return ()
        return (message,)

    network = local_network(plan, fault=drop_out, deadline_s=10.0, entropy_of=entropy_of)
    ran = await run_plan(plan, tables, network)
    assert ran.result["n_rows"] == pytest.approx(N, abs=3)
