"""The distribution of a number as a job: all members in one process, estimates near the truth, and what is refused."""

import json
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from analyses.distribution import protocol
from analyses.distribution.estimates.about_intervals import OF_SQUARES
from analyses.distribution.estimates.metrics import wasserstein
from analyses.distribution.estimates.wave_moments import gain_of_a_response, moments
from analyses.distribution.methods import MASKED, METHODS, Answered, Method
from analyses.distribution.plan import DistributionPlan, plan
from analyses.distribution.protocol import ANALYSIS, RESPONSES_STAGE
from analyses.distribution.reference import reference
from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.run_locally import local_network, run_locally, run_plan
from dp.cost.accounting import Adjacency
from dp.cost.composition import composed_epsilon
from dp.cost.views import VIEWS
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.wave import Wave
from entropy import InsecureTestEntropy
from mpc.errors import PeerViolationError
from mpc.protocol.session import COORDINATOR
from party.gate import GatedSession
from results.drawing.chart import NothingToDrawError
from results.kinds.distribution import DistributionResult
from results.registry import lines_of, picture_of

PARTIES = ("a", "b", "c")
SPIKY = [0.3, 0.0, 0.25, 0.05, 0.0, 0.1, 0.0, 0.3]


def job_of(epsilon=2.0, anyway=False, **parameters):
    return Job.model_validate(
        {
            "analysis": "distribution",
            "inputs": [{"party": name, "table": "people"} for name in PARTIES],
            "privacy": {"epsilon": epsilon, "delta": 1e-6},
            "anyway": anyway,
            "parameters": {"buckets": 64, **parameters},
        }
    )


def tables_of(n_rows=4000, most=5000, bounds=(0.0, 200.0)):
    rng = np.random.default_rng(7)
    columns = (ColumnSchema(name="wage", lower=bounds[0], upper=bounds[1]),)
    found = {}
    for name in PARTIES:
        values = rng.beta(5, 2, (n_rows, 1)) * 200
        values[0] = 1e6  # far outside
        found[name] = Table(BlockSchema(party=name, columns=columns, rows=(1, most)), values)
    return found


def entropy_of(member):
    return InsecureTestEntropy(f"distribution {member}")


@pytest.mark.parametrize("method", ["wave", "masked"])
async def test_two_owners_are_enough_and_each_counts_as_colluding_against_the_other(method):
    tables = {name: table for name, table in tables_of().items() if name != "c"}
    job = job_of(method=method, smoothing=3)
    job = job.model_copy(update={"inputs": job.inputs[:2]})
    run = await run_locally(job, tables, entropy_of=entropy_of)
    assert wasserstein(np.array(run.result["probabilities"]), reference(list(tables.values()), run.plan)) < 0.04
    costs = {view: composed_epsilon(run.plan.privacy_events(view), 1e-6).epsilon for view in VIEWS}
    assert costs["coalition"] <= 2.0
    assert (costs["coordinator"] < costs["coalition"]) == (method == "masked")


OF_DISTRIBUTIONS = [name for name, method in METHODS.items() if method.ways and method.n_values == 1]
CHOICES = [
    {"method": "wave", "estimate": "em"},
    {"method": "wave", "estimate": "em", "tau": 1.0},
    {"method": "wave", "half_width": 0.1},
    {"method": "trapezoid", "half_width": 0.3, "top": 0.75},
    {"method": "hashed", "estimate": "norm-sub"},
    {"method": "tree", "estimate": "admm"},
    {"method": "masked", "estimate": "admm"},
]


def test_every_method_is_offered_by_name():
    assert {*get_args(Answered), MASKED} == set(METHODS)
    assert {name for name, method in METHODS.items() if method.mechanism is not None} == set(get_args(Answered))


@pytest.mark.parametrize("asked", [*({"method": name} for name in OF_DISTRIBUTIONS), *CHOICES], ids=str)
async def test_every_method_estimates_the_distribution_of_all_rows(asked):
    tables, method = tables_of(), asked["method"]
    smoothing = {} if asked.get("estimate") == "em" else {"smoothing": 3}
    run = await run_locally(
        job_of(**asked, **smoothing, bins=16, queries=[[100.0, 175.0]]), tables, entropy_of=entropy_of
    )
    result = run.result
    truth = reference(list(tables.values()), run.plan)
    assert truth.sum() == pytest.approx(1)
    assert len(result["edges"]) == 65
    assert sum(result["probabilities"]) == pytest.approx(1)
    assert wasserstein(np.array(result["probabilities"]), truth) < 0.04
    exact = np.concatenate([np.clip(table.values[:, 0], 0, 200) for table in tables.values()])
    assert result["mean"] == pytest.approx(exact.mean(), abs=8)
    assert result["quantiles"][2][1] == pytest.approx(np.median(exact), abs=10)
    assert result["rows"] == pytest.approx(12_000, abs=1_500)
    assert result["estimate"] == asked.get("estimate", METHODS[method].ways[0])
    for report in run.reports.values():
        assert (report.n_rows, report.clipped_values) == (4000, {"wage": 1})
    is_wave = "ems" in METHODS[method].ways
    if is_wave:
        assert abs(result["closed_mean"] - exact.mean()) < 4 * result["closed_mean_error"]
        assert abs(result["closed_variance"] - exact.var()) < 4 * result["closed_variance_error"]
        assert abs(result["fit"]) < 6
    if is_wave or METHODS[method].is_binned:
        assert result["intervals"] is None
    else:
        lower, upper = result["intervals"]["mean"]
        assert lower < result["mean"] < upper < lower + 20
        assert len(result["intervals"]["probabilities"]) == 64
        assert len(result["intervals"]["queries"]) == 1
    ((lower, upper, probability),) = result["queries"]
    assert (lower, upper) == (100.0, 175.0)
    assert probability == pytest.approx(np.mean((exact >= 100) & (exact < 175)), abs=0.1)
    lines = lines_of("distribution", result)
    assert method in lines[0]
    assert any("row of one party's table" in line for line in lines)


async def test_what_an_entry_says_of_a_method_is_all_that_its_job_follows_from(monkeypatch):
    made = Method(lambda params, odds: Wave.square(params.n_inputs, odds, 3, has_empty=True), ("em",), frozenset())
    monkeypatch.setitem(METHODS, "triangle", made)
    run = await run_locally(job_of(method="triangle"), tables_of(), entropy_of=entropy_of)
    assert (run.plan.mechanism.half_width, run.plan.mechanism.is_square) == (3, True)
    assert (run.result["estimate"], run.result["passes"]) == ("em", 0)
    with pytest.raises(JobError, match="half_width: triangle has none; only wave, trapezoid"):
        planned(method="triangle", half_width=0.1)


async def test_prefixes_tell_the_frequent_ones_of_very_many_values_and_nothing_else():
    rng, most, n = np.random.default_rng(5), 1 << 48, 4000
    columns = (ColumnSchema(name="wage", lower=0.0, upper=float(most)),)
    common = {7: 0.4, most - 1: 0.3}
    chosen = [rng.choice([*common, -1], n, p=[*common.values(), 0.3]) for _ in PARTIES]
    values = [np.where(found < 0, rng.integers(0, most, n), found).astype(np.float64) for found in chosen]
    tables = {
        name: Table(BlockSchema(party=name, columns=columns, rows=(1, 5000)), of_party[:, None])
        for name, of_party in zip(PARTIES, values, strict=True)
    }
    run = await run_locally(
        job_of(8.0, method="prefixes", range=[0, most], buckets=most), tables, entropy_of=entropy_of
    )
    result, exact = run.result, dict(reference(list(tables.values()), run.plan).T.tolist())
    assert [value for value, *_ in result["frequent"]] == list(common)
    assert all(lower < exact[value] < upper < lower + 0.3 for value, _, lower, upper in result["frequent"])
    assert result["rows"] == pytest.approx(12_000, abs=1_500)
    assert [result[name] for name in ("probabilities", "mean", "variance", "estimate", "intervals")] == [None] * 5
    assert any("281474976710655: 0." in line for line in lines_of("distribution", result))
    (panel,) = picture_of(result).panels
    assert panel.labels == ("7", "281474976710655")
    assert DistributionResult(run.plan.job, result).table()["value"] == [float(value) for value in common]


async def test_signs_tell_the_mean_of_all_rows_and_nothing_else():
    tables = tables_of()
    run = await run_locally(job_of(method="sign"), tables, entropy_of=entropy_of)
    result, exact = run.result, np.concatenate([np.clip(table.values[:, 0], 0, 200) for table in tables.values()])
    assert abs(result["closed_mean"] - exact.mean()) < 4 * result["closed_mean_error"] < 20
    assert result["mean"] == result["closed_mean"]
    assert result["rows"] == pytest.approx(12_000, abs=1_500)
    assert (run.plan.inquiry.response_bytes, run.plan.inquiry.n_outputs) == (1, 3)
    assert [result[name] for name in ("probabilities", "variance", "estimate", "intervals")] == [None] * 4
    assert result["quantiles"] == result["queries"] == []
    lines = lines_of("distribution", result)
    assert any("in closed form" in line for line in lines)
    (panel,) = picture_of(result).panels
    assert panel.intervals[0][0] < panel.values[0] == result["mean"] < panel.intervals[0][1]
    asked = DistributionResult(run.plan.job, result)
    assert (asked.table()["mean"], asked.probabilities_.shape) == ([result["mean"]], (0,))


async def test_signs_about_a_centre_tell_the_variance_about_it_and_nothing_else():
    tables, centre = tables_of(), 60.0
    run = await run_locally(job_of(4.0, method="sign", centre=centre, buckets=256), tables, entropy_of=entropy_of)
    result, exact = run.result, np.concatenate([np.clip(table.values[:, 0], 0, 200) for table in tables.values()])
    about = exact.var() + (exact.mean() - centre) ** 2
    assert abs(result["closed_variance"] - about) < 4 * result["closed_variance_error"] < about / 2
    assert (result["mean"], result["closed_mean"], result["probabilities"]) == (centre, None, None)
    for report in run.reports.values():
        assert report.clipped_values == {"wage": 1}
    assert result["about_intervals"] == OF_SQUARES
    (panel,) = picture_of(result).panels
    assert (panel.title, panel.values[0]) == ("Variance about 60", result["closed_variance"])
    assert any("variance without smoothing" in line for line in lines_of("distribution", result))


@pytest.mark.parametrize("method", [name for name in get_args(Answered) if METHODS[name].n_values == 1])
async def test_without_noise_to_speak_of_every_method_finds_what_it_asks_for(method):
    """At epsilon 16 the truth is lied about once in 100,000 responses: what is left is the part of a respondent."""
    rng, rows = np.random.default_rng(1), 20_000
    columns = (ColumnSchema(name="wage", lower=0.0, upper=8.0),)
    tables = {
        name: Table(BlockSchema(party=name, columns=columns, rows=(1, rows)), rng.choice(8, (rows, 1), p=SPIKY) + 0.5)
        for name in PARTIES
    }
    extra = {} if method == "sign" else {"smoothing": 1}
    run = await run_locally(job_of(16.0, method=method, buckets=8, bins=8, **extra), tables, entropy_of=entropy_of)
    result, truth = run.result, reference(list(tables.values()), run.plan)
    if method == "prefixes":
        assert dict(zip(*truth.tolist(), strict=True)) == {
            value: pytest.approx(share, abs=0.03) for value, share, *_ in result["frequent"]
        }
        return
    mean = float(truth @ (np.arange(8) + 0.5))
    if method == "sign":
        assert result["closed_mean"] == pytest.approx(mean, abs=0.08)
    elif METHODS[method].ways[0] == "ems":
        # Smoothing spreads a spike over its neighbours, whatever epsilon; the closed mean is not smoothed.
        assert result["closed_mean"] == pytest.approx(mean, abs=0.08)
    else:
        assert np.array(result["probabilities"]) == pytest.approx(truth, abs=0.03)


def planned(**parameters):
    job, tables = job_of(**parameters), tables_of(20, 30)
    return plan(job, [tables[name].schema for name in PARTIES]), tables


def test_a_response_costs_the_epsilon_that_was_asked_for_in_both_views():
    found, _ = planned()
    report = found.privacy_report()
    for view in VIEWS:
        assert report["views"][view]["epsilon"] <= 2.0 + 1e-6
        (event,) = found.privacy_events(view)
        assert event.truthful == found.inquiry.odds.truthful
    (event,) = found.privacy_events("coordinator")
    assert event.adjacency is Adjacency.ADD_OR_REMOVE_ONE
    assert found.cost()
    assert DistributionPlan.model_validate_json(found.canonical_json()).digest() == found.digest()


async def test_as_many_responses_are_sent_whatever_the_number_of_rows():
    seen = []
    for n_rows in (3, 300):
        sent = []

        def note(message, sent=sent):
            sent.append((message.sender, message.receiver, message.stage, message.array.shape))
            return [message]

        run = await run_locally(job_of(), tables_of(n_rows, 300), entropy_of=entropy_of, fault=note)
        assert run.result["privacy"]["unit"] == "row of one party's table"
        seen.append(sorted(sent))
    assert seen[0] == seen[1]
    assert sum(shape[0] for _, to, stage, shape in seen[0] if (to, stage) == (COORDINATOR, RESPONSES_STAGE)) == 900


@pytest.mark.parametrize("method", ["wave", "tree"])
async def test_behind_the_gate_every_party_pays_before_a_response_leaves(method):
    tables, events = tables_of(20, 30), []
    found, _ = planned(method=method)

    async def gated(session, plan, table):
        def commit():
            events.append(("paid", session.me))

        return await protocol.party(GatedSession.of_plan(session, plan, commit=commit), plan, table)

    def note(message):
        if message.stage == RESPONSES_STAGE:
            events.append(("sent", message.sender))
        return [message]

    network = local_network(found, entropy_of=entropy_of, fault=note)
    run = await run_plan(found, tables, network, analysis=replace(ANALYSIS, own_party=gated))
    assert run.result["method"] == method
    for member in (1, 2, 3):
        assert events.index(("paid", member)) < events.index(("sent", member))
        assert events.count(("paid", member)) == 1


async def test_responses_of_two_bytes_arrive_in_several_messages(monkeypatch):
    monkeypatch.setattr(protocol, "SLOTS_PER_MESSAGE", 64)
    run = await run_locally(job_of(buckets=256), tables_of(190, 200), entropy_of=entropy_of)
    assert run.plan.inquiry.n_outputs > 256
    assert run.result["rows"] == pytest.approx(570, abs=150)


def test_rows_lie_at_random_slots_and_the_others_are_empty():
    found, _ = planned()

    class Session:
        me = 1
        entropy = InsecureTestEntropy("slots")

    orders = []
    for _ in range(3):
        slots = protocol.placed(found, np.arange(20), Session())
        assert sorted(slots.tolist()) == [*range(20), *[found.inquiry.empty] * 10]
        orders.append(slots.tolist())
    assert orders[0] != orders[1] != orders[2]


async def test_a_response_that_is_no_output_is_refused_and_its_sender_named():
    tables = tables_of(20, 30)
    found, _ = planned()
    network = local_network(found, entropy_of=entropy_of)

    async def lying(session, plan, table):
        send = session.send

        async def changed(to, stage, message):
            if to == COORDINATOR and stage == RESPONSES_STAGE and session.me == 2:
                message = np.full_like(message, 255)
            await send(to, stage, message)

        session.send = changed
        return await protocol.party(session, plan, table)

    run = await run_plan(found, tables, network, analysis=replace(ANALYSIS, own_party=lying))
    failure = run.ends[COORDINATOR]
    assert isinstance(failure, PeerViolationError)
    assert "no output" in str(failure)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"range": [5.0, 5.0]}, "parameters.range"),
        ({"range": [7.0, 5.0]}, "parameters.range"),
        ({"range": [1.0, 1.0000000000000004]}, "too narrow"),
        ({"buckets": 1}, "parameters.buckets"),
        ({"buckets": 16385}, "parameters.buckets"),
        ({"buckets": 16384, "method": "tree"}, "parameters"),
        ({"buckets": 100, "method": "bins", "bins": 32}, "parameters.bins"),
        ({"fine": 96}, "parameters.fine: 96 is no multiple of 64 buckets"),
        ({"fine": 128, "method": "tree"}, "parameters.fine: tree has none"),
        ({"fine": 32768}, "parameters.fine"),
        ({"queries": [[10.0, 5.0]]}, "parameters.queries"),
        ({"queries": [[10.0, 500.0]]}, "parameters.queries"),
        ({"smoothing": 0}, "parameters.smoothing"),
        ({"smoothing": 3, "estimate": "em"}, "parameters.smoothing: plain"),
        ({"tau": 0.1}, "parameters.tau: only plain"),
        ({"tau": 0.0, "estimate": "em"}, "parameters.tau"),
        ({"estimate": "isotonic"}, "parameters.estimate: wave has ems, em"),
        ({"method": "haar", "estimate": "admm"}, "parameters.estimate: haar has isotonic, norm-sub"),
        ({"method": "wave", "buckets": 1 << 15}, "parameters.buckets: wave has at most 16384; only prefixes"),
        ({"method": "prefixes", "queries": [[1.0, 5.0]]}, "parameters.queries: prefixes makes no distribution"),
        ({"method": "wave", "centre": 1.0}, "parameters.centre: wave has none; only sign"),
        ({"method": "sign", "centre": 201.0}, "parameters.centre: 201 is outside the range"),
        ({"method": "sign", "estimate": "ems"}, "parameters.estimate: sign has none"),
        ({"method": "sign", "queries": [[1.0, 5.0]]}, "parameters.queries: sign makes no distribution"),
        ({"half_width": 0.51}, "parameters.half_width"),
        ({"method": "piecewise", "half_width": 0.1}, "parameters.half_width: piecewise has none"),
        ({"top": 0.5}, "parameters.top: wave has none; only trapezoid"),
        ({"method": "memoized"}, "parameters.method"),
        ({"epsilon": 2.0**-11}, "privacy"),
        ({"epsilon": 17.0}, "privacy"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused_by_name(parameters, text):
    with pytest.raises(JobError, match=text):
        planned(**parameters)


def test_columns_with_different_bounds_need_a_range_and_tables_declare_their_rows():
    job, tables = job_of(), tables_of(20, 30)
    schemas = [tables[name].schema for name in PARTIES]
    other = schemas[2].model_copy(update={"columns": (ColumnSchema(name="wage", lower=0.0, upper=100.0),)})
    with pytest.raises(JobError, match="different bounds"):
        plan(job, [*schemas[:2], other])
    asked = plan(job_of(range=[0.0, 150.0]), [*schemas[:2], other])
    assert asked.inquiry.inputs_of(np.array([-1.0, 0.0, 75.0, 150.0, 180.0]))[0].tolist() == [0, 0, 32, 63, 63]
    assert asked.inquiry.inputs_of(np.array([-1.0, 0.0, 75.0, 150.0, 180.0]))[1] == 2
    with pytest.raises(JobError, match="declare its rows"):
        plan(job, [*schemas[:2], schemas[2].model_copy(update={"rows": None})])


@pytest.mark.parametrize("method", ["wave", "tree", "sign"])
async def test_tables_without_a_row_that_shows_give_a_result(method):
    run = await run_locally(job_of(epsilon=0.1, anyway=True, method=method), tables_of(1, 3), entropy_of=entropy_of)
    result = run.result
    assert json.dumps(result)
    assert lines_of("distribution", result)
    if method == "sign":
        assert (result["mean"], result["closed_mean"]) == (100.0, None)
        with pytest.raises(NothingToDrawError, match="hardly seen"):
            picture_of(result)
    else:
        assert sum(result["probabilities"]) == pytest.approx(1)
    assert result["intervals"] is None


async def test_rows_are_randomized_on_a_finer_grid_where_one_is_asked_for():
    tables = tables_of()
    run = await run_locally(job_of(fine=256, smoothing=3), tables, entropy_of=entropy_of)
    assert (run.plan.mechanism.n_inputs, run.plan.inquiry.empty) == (256, 256)
    assert run.plan.inquiry.inputs_of(np.array([0.0, 1.0, 200.0]))[0].tolist() == [0, 1, 255]
    assert len(run.result["probabilities"]) == 64
    assert wasserstein(np.array(run.result["probabilities"]), reference(list(tables.values()), run.plan)) < 0.03


async def test_the_third_view_is_labelled_and_stands_in_the_report_of_square_waves_only():
    tables = tables_of(200, 300)
    result = (await run_locally(job_of(epsilon=1.0), tables, entropy_of=entropy_of)).result
    third = result["privacy"]["analyst"]
    assert third["responses"] == 2 * 300 - 1  # one of the three parties may collude
    assert 0 < third["epsilon"] < 0.5 * result["privacy"]["views"]["coalition"]["epsilon"]
    assert third["never"] == "never against the coordinator or anybody who sees names with responses"
    (line,) = [line for line in lines_of("distribution", result) if third["whom"] in line]
    assert third["never"] in line
    for method in ("triangle", "tree", "masked"):
        other = await run_locally(job_of(method=method), tables_of(20, 30), entropy_of=entropy_of)
        assert "analyst" not in other.result["privacy"]


async def test_responses_that_no_rows_explain_do_not_fit():
    """One hundredth of the responses is one output: the statistic tells, as it does not for honest ones."""
    tables = tables_of(4000, 4000)
    honest = await run_locally(job_of(smoothing=3), tables, entropy_of=entropy_of)

    async def lying(session, plan, table):
        send = session.send

        async def changed(to, stage, message):
            if to == COORDINATOR and stage == RESPONSES_STAGE and session.me == 2:
                message = message.copy()
                message[:120] = 0
            await send(to, stage, message)

        session.send = changed
        return await protocol.party(session, plan, table)

    network = local_network(honest.plan, entropy_of=entropy_of)
    poisoned = await run_plan(honest.plan, tables, network, analysis=replace(ANALYSIS, own_party=lying))
    assert abs(honest.result["fit"]) < 6
    assert poisoned.result["fit"] > honest.result["fit"] + 4


async def test_messages_of_another_length_are_refused_and_their_sender_named():
    found, tables = planned()
    network = local_network(found, entropy_of=entropy_of)

    async def short(session, plan, table):
        send = session.send

        async def changed(to, stage, message):
            if to == COORDINATOR and stage == RESPONSES_STAGE and session.me == 2:
                message = message[:-1]
            await send(to, stage, message)

        session.send = changed
        return await protocol.party(session, plan, table)

    run = await run_plan(found, tables, network, analysis=replace(ANALYSIS, own_party=short))
    failure = run.ends[COORDINATOR]
    assert isinstance(failure, PeerViolationError)
    assert failure.member == 2


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_one_lie_moves_the_closed_mean_by_no_more_than_the_result_says(epsilon):
    """Of slots that all hold rows: `gain_of_a_response` is attained between the two outermost outputs."""
    wave, n = Wave.square(64, Odds.of_epsilon(epsilon)), 500
    counts = np.bincount(np.random.default_rng(3).integers(0, wave.n_outputs, n), minlength=wave.n_outputs)
    gain = gain_of_a_response(wave, n)
    found = []
    for output in range(wave.n_outputs):
        lied = counts.copy()
        lied[np.flatnonzero(counts)[0]] -= 1
        lied[output] += 1
        found.append(moments(wave, lied).mean)
    assert max(found) - min(found) == pytest.approx(gain)
