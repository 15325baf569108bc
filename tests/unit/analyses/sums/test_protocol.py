import json
from fractions import Fraction

import numpy as np
import pytest
from virtual_time import run_in_virtual_time

from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.registry import analysis_of
from analyses.sums import protocol
from analyses.sums.plan import UNITS
from analyses.sums.plan import plan as make_plan
from analyses.sums.reference import names_of_answer, reference, value_of
from analyses.sums.row_vectors import CLIPPED_TOTALS
from dp.cost.accounting import Adjacency
from dp.cost.composition import composed_epsilon
from dp.cost.report import describe
from dp.cost.views import UNIT
from dp.mechanism.shared_laplace import laplace_event
from mpc.errors import PeerViolationError, ProtocolError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.session import COORDINATOR
from mpc.secagg.errors import LeftBehindError, TooFewMembersError
from mpc.secagg.stage import Stage
from results.registry import lines_of

N = 7
PARTIES = tuple(f"party-{i}" for i in range(1, N + 1))
MEAN = {"analysis": "secure-mean"}
HISTOGRAM = {"analysis": "secure-histogram", "parameters": {"max_rows": 100, "edges": [0, 10, 20, 30]}}
PRIVATE = {"privacy": {"epsilon": 2.0, "delta": 1e-6}}


def make_job(analysis="secure-sum", **changes):
    fields = {
        "analysis": analysis,
        "inputs": [{"party": p, "table": "visits"} for p in PARTIES],
        "colluding": 1,
        "deadline_s": 60.0,
        "parameters": {"max_rows": 100, "units": 1000},
    }
    return Job.model_validate({**fields, **changes})


def make_schema(party, bounds=((0.0, 30.0), (-4.0, 2.0))):
    columns = tuple(ColumnSchema(name=f"x{i}", lower=low, upper=high) for i, (low, high) in enumerate(bounds))
    return BlockSchema(party=party, columns=columns)


def make_tables(n_columns=2, rows=40, bounds=((0.0, 30.0), (-4.0, 2.0))):
    rng = np.random.default_rng(4)
    schemas = [make_schema(party, bounds[:n_columns]) for party in PARTIES]
    low, high = np.array(bounds[:n_columns]).T
    return [Table(schema, rng.uniform(low, high, (rows, n_columns))) for schema in schemas]


def plan_of(job, tables):
    return analysis_of(job).plan(job, [table.schema for table in tables])


def run(job, tables, *, fault=None, kills=None):
    """All participants over the in-process network; a number of a party to the stage before which it is killed."""
    plan, reports = plan_of(job, tables), {}
    options = {} if fault is None else {"fault": fault}
    network = LocalNetwork(local_names(N), deadline_s=job.deadline_s, **options)

    async def take_part(session):
        if session.me in (kills or {}):
            session.progress = lambda stage, done, total: kill(session.me, stage)
        reports[session.me] = await analysis_of(job).party(session, plan, tables[session.me - 1])

    def kill(me, stage):
        if kills[me] == stage:
            network.kill(me)
            raise ProtocolError("killed")

    async def coordinate(session):
        try:
            return await analysis_of(job).coordinator(session, plan)
        finally:
            network.kill(COORDINATOR)  # as a service, which ends the job

    work = {COORDINATOR: coordinate, **dict.fromkeys(range(1, N + 1), take_part)}
    ends = run_in_virtual_time(network.run(work))
    return ends[COORDINATOR], ends, reports, plan


@pytest.mark.parametrize(
    ("changes", "n_columns"),
    [
        ({}, 2),
        ({"parameters": {"max_rows": 100, "units": 1000, "row_norm": 0.5}}, 2),
        ({"parameters": {"max_rows": 10, "units": 1000}}, 2),
        ({"parameters": {"max_rows": 100, "units": 64, "unit": "party", "party_norm": 5.0}}, 1),
        (MEAN, 2),
        ({**MEAN, "parameters": {"max_rows": 100, "units": 1000, "weight": 0}}, 2),
        (HISTOGRAM, 1),
    ],
)
def test_an_exact_answer_is_the_reference_over_all_tables(changes, n_columns):
    job, tables = make_job(**changes), make_tables(n_columns)
    result, _, reports, plan = run(job, tables)
    expected = reference(tables, plan)
    if plan.params.unit != "party":
        assert {key: result[key] for key in expected} == expected
    assert result["survivors"] == list(PARTIES)
    assert set(reports) == set(range(1, N + 1))
    json.dumps(result, allow_nan=False)


def test_the_reference_is_what_numpy_says():
    tables = make_tables()
    values = np.vstack([table.values for table in tables])
    sums = reference(tables, plan_of(make_job(), tables))["sum"]
    assert sums == pytest.approx(values.sum(axis=0), abs=len(values) * 30 / 1000)
    means = reference(tables, plan_of(make_job(**MEAN), tables))
    assert means["mean"] == pytest.approx(values.mean(axis=0), abs=30 / 1000)
    assert means["total_weight"] == len(values)
    weighted = make_job(**MEAN, parameters={"max_rows": 100, "units": 1000, "weight": 0})
    found = reference(tables, plan_of(weighted, tables))
    assert found["columns"] == ["x1"]
    assert found["mean"] == pytest.approx([np.average(values[:, 1], weights=np.floor(values[:, 0]))], abs=4 / 1000)
    assert found["total_weight"] == np.floor(values[:, 0]).sum()
    one = make_tables(1)
    counts, _ = np.histogram(np.vstack([table.values for table in one]), bins=[0, 10, 20, 30])
    assert reference(one, plan_of(make_job(**HISTOGRAM), one))["counts"] == counts.tolist()


@pytest.mark.parametrize(
    ("stage", "is_in_the_sum"),
    [
        (Stage.ADVERTISE, False),
        (Stage.SHARE, False),
        (Stage.MASK, False),
        (Stage.AGREE, True),
        ("opening", True),
    ],
)
@pytest.mark.parametrize("changes", [{}, PRIVATE])
def test_parties_that_drop_out_after_the_commit_do_not_stop_the_sum(stage, is_in_the_sum, changes):
    job, tables = make_job(**changes), make_tables()
    name = stage if stage == "opening" else str(stage)
    result, ends, _, plan = run(job, tables, kills={2: name, 6: name})
    dropped_out = {"party-2", "party-6"}
    assert set(result["survivors"]) == set(PARTIES) - (set() if is_in_the_sum else dropped_out)
    assert set(result["silent_after" if is_in_the_sum else "vanished"]) == dropped_out
    assert set(result["vanished" if is_in_the_sum else "silent_after"].values()) <= {
        "unmask" if stage == "opening" else name
    }
    survivors = [table for table in tables if table.schema.party in result["survivors"]]
    exact = reference(survivors, plan)["sum"]
    if plan.is_exact:
        assert result["sum"] == exact
    else:
        deviation = (
            np.sqrt(float(plan.noise.variance(plan.topology.fewest_survivors))) / 1000 * np.array(plan.rows.scales)
        )
        assert result["sum"][0] != exact[0]
        assert (np.abs(np.array(result["sum"]) - exact) < 20 * deviation).all()  # the tails of Laplace noise are longer
    assert [ends[party] for party in (1, 3, 4, 5, 7)] == [None] * 5


def test_with_too_few_left_the_sum_fails_and_names_who_is_missing():
    result, _, _, _ = run(make_job(), make_tables(), kills=dict.fromkeys((1, 2, 3), "masked input"))
    assert isinstance(result, TooFewMembersError)
    assert "only 4 members answered at stage masked input, but 5 are needed; missing: party-1, party-2, party-3" in str(
        result
    )


class Slow:
    """Answers of some parties that are late for a stage of the first attempt; nothing is lost."""

    def __init__(self, stage, parties, by_s):
        self.stage, self.parties, self.by_s, self.names = stage, parties, by_s, []

    def __call__(self, message):
        if message.receiver == COORDINATOR:
            self.names.append((message.sender, message.stage))
        late = message.stage == f"{self.stage}, attempt 0" and message.sender in self.parties
        return (message.delayed(self.by_s),) if late and message.receiver == COORDINATOR else (message,)


@pytest.mark.parametrize("stage", [Stage.ADVERTISE, Stage.SHARE, Stage.MASK, Stage.AGREE])
def test_a_round_that_too_few_answer_in_time_is_tried_again_with_fresh_keys(stage, monkeypatch):
    monkeypatch.setattr(protocol, "STAGES_PER_DEADLINE", 24)  # 2.5 s, far more than those need who are not held up
    fault = Slow(stage, {1, 2, 3}, by_s=30.0)
    tables = make_tables()
    result, ends, _, _ = run(make_job(**PRIVATE), tables, fault=fault)
    assert result["attempt"] == 1
    assert result["survivors"] == list(PARTIES)
    assert [ends[party] for party in range(1, N + 1)] == [None] * N
    opened = [sender for sender, name in fault.names if name == "opening"]
    assert sorted(opened) == list(range(1, N + 1))  # each released shares once


def test_who_is_late_in_a_round_that_goes_on_is_left_behind(monkeypatch):
    monkeypatch.setattr(protocol, "STAGES_PER_DEADLINE", 24)
    result, ends, _, _ = run(make_job(), make_tables(), fault=Slow(Stage.SHARE, {4}, by_s=30.0))
    assert result["vanished"] == {"party-4": "share keys"}
    assert isinstance(ends[4], LeftBehindError)


@pytest.mark.parametrize(
    ("stage", "told"), [("share keys, attempt 0", "vanished"), ("sign survivors, attempt 0", "silent_after")]
)
def test_who_sends_what_the_protocol_does_not_allow_counts_as_silent(stage, told):
    def fault(message):
        if (message.sender, message.stage, message.receiver) == (4, stage, COORDINATOR):
            return (message.altered(message.array ^ np.uint8(1)),)
        return (message,)

    result, ends, _, _ = run(make_job(), make_tables(), fault=fault)
    assert result[told] == {"party-4": stage.split(",")[0]}
    assert isinstance(ends[4], LeftBehindError)
    assert [ends[party] for party in (1, 2, 3, 5, 6, 7)] == [None] * 6


def test_parties_that_are_told_different_keys_of_one_sum_nothing():
    """Party 4 tells party 5 another signing key than the others: nobody can be played, so nothing is opened."""

    def fault(message):
        if (message.sender, message.stage, message.receiver) == (4, "keys", 5):
            flipped = np.repeat(np.array([0, 1], dtype=np.uint8), 32)  # the key, not the binding before it
            return (message.altered(message.array ^ flipped),)
        return (message,)

    result, _, _, _ = run(make_job(), make_tables(), fault=fault)
    assert isinstance(result, PeerViolationError)
    assert "reports signing keys that differ from those that another party reports" in str(result)


def test_attempts_are_bounded(monkeypatch):
    monkeypatch.setattr(protocol, "STAGES_PER_DEADLINE", 24)
    once = {"max_rows": 100, "units": 1000, "attempts": 1}
    result, _, _, _ = run(make_job(parameters=once), make_tables(), fault=Slow(Stage.SHARE, {1, 2, 3}, by_s=30.0))
    assert isinstance(result, TooFewMembersError)


@pytest.mark.parametrize(("party_norm", "n_shortened"), [(0.01, 1), (1e6, None)])
def test_a_party_is_told_that_its_whole_contribution_was_shortened(party_norm, n_shortened):
    job = make_job(parameters={"max_rows": 100, "units": 1000, "unit": "party", "party_norm": party_norm})
    _, _, reports, _ = run(job, make_tables())
    assert all(report.clipped_values.get(protocol.SHORTENED) == n_shortened for report in reports.values())


# -- privacy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["record", "row", "party"])
@pytest.mark.parametrize("view", ["coordinator", "coalition"])
def test_the_target_is_met_in_its_view_and_the_report_says_both(unit, view):
    extra = {"party_norm": 3.0} if unit == "party" else {}
    privacy = {"epsilon": 2.0, "delta": 1e-6, "view": view}
    job = make_job(privacy=privacy, parameters={"max_rows": 100, "units": 1000, "unit": unit, **extra})
    plan = plan_of(job, make_tables())
    report = plan.privacy_report()
    assert composed_epsilon(plan.privacy_events(view)[0], 1e-6).epsilon == report["views"][view]["epsilon"] <= 2.0
    assert report["views"][view]["epsilon"] > 1.9
    assert report["views"]["coordinator"]["epsilon"] < report["views"]["coalition"]["epsilon"]
    assert report["unit"] == plan.privacy_unit == UNITS[unit]
    assert any("against" in line.lower() for line in describe(report))


def test_a_record_may_have_a_row_at_every_party_and_costs_so_much_more():
    tables = make_tables()
    moved = {
        unit: plan_of(make_job(**PRIVATE, parameters={"max_rows": 100, "units": 1000, "unit": unit}), tables)
        for unit in ("row", "record")
    }
    row, record = (moved[unit].sensitivities["coalition"] for unit in ("row", "record"))
    assert record.squared_l2 == N**2 * row.squared_l2
    assert record.l1 == N * row.l1
    assert moved["record"].mu == pytest.approx(N**2 * moved["row"].mu, rel=0.02)
    assert moved["record"].privacy_unit == UNIT


def test_the_event_is_that_of_the_fewest_survivors_without_the_noise_of_the_colluding():
    plan = plan_of(make_job(**PRIVATE), make_tables())
    fewest = plan.topology.fewest_survivors
    assert plan.noise.least_unknown_part("coalition") == Fraction(fewest - 1, fewest)
    (event,) = plan.privacy_events("coalition")
    moved = plan.sensitivities["coalition"]
    assert event == laplace_event(
        moved.squared_l2, moved.l1, plan.rows.n_entries, Fraction(1), plan.noise.mean, Adjacency.REPLACE_ONE
    )


@pytest.mark.parametrize("kills", [{}, {2: "masked input"}, {2: "masked input", 6: "sign survivors"}])
def test_whoever_survives_the_answer_has_exactly_the_intended_noise(kills):
    """4000 bins, nearly all empty: the variance is estimated within 4 % (one s.d.); 20 % is what one survivor makes."""
    parameters = {"max_rows": 100, "edges": np.linspace(0.0, 30.0, 4001).tolist()}
    tables = [Table(table.schema, np.zeros((10, 1))) for table in make_tables(1)]
    result, _, _, plan = run(make_job("secure-histogram", **PRIVATE, parameters=parameters), tables, kills=kills)
    assert len(result["survivors"]) == 7 - (2 in kills)
    intended = float(plan.noise.variance(plan.topology.fewest_survivors))
    assert np.var(result["counts"][1:]) == pytest.approx(intended, rel=0.15)


def test_an_exact_answer_says_that_it_protects_nobody():
    result, _, _, plan = run(make_job(), make_tables())
    assert plan.is_exact
    assert plan.privacy_events("coalition") == ()
    assert result["privacy"]["guarantee"] == "none"
    assert "NO PRIVACY GUARANTEE" in "\n".join(describe(result["privacy"]))


def test_a_table_with_more_rows_than_allowed_is_clipped_and_only_its_owner_hears_of_it():
    job = make_job(parameters={"max_rows": 5, "units": 1000})
    tables = make_tables()
    result, _, reports, _ = run(job, tables)
    assert result["sum"][0] == N * 5 * 30.0
    assert reports[1].clipped_values[CLIPPED_TOTALS] == 2


# -- jobs that cannot be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": {"units": 10}}, "max_rows"),
        (
            {"parameters": {"max_rows": 10}},
            "parameters.units: must be given for sums and means without a privacy target",
        ),
        ({"parameters": {"max_rows": 10, "units": 10, "edges": [1, 2]}}, "for a histogram"),
        ({"parameters": {"max_rows": 10, "units": 10, "weight": 0}}, "for a mean"),
        ({"parameters": {"max_rows": 10, "units": 10, "unit": "party"}}, "party_norm"),
        ({"parameters": {"max_rows": 10, "units": 10, "party_norm": 1.0}}, "party_norm"),
        ({"parameters": {"max_rows": 10, "units": 10, "surprise": 1}}, "surprise"),
        ({"parameters": {"max_rows": 1 << 40, "units": 1 << 24}}, r"2\^53"),
        (
            {**MEAN, "parameters": {"max_rows": 10, "units": 10, "weight": 2}},
            ("parameters.weight: there is no column number 2, or no other column to average"),
        ),
        (
            {**MEAN, "parameters": {"max_rows": 10, "units": 10, "weight": 1}},
            ("must be at least 0 and its upper bound at least 1"),
        ),
        (HISTOGRAM, "one column of each party"),
        ({"compute": [*PARTIES, "party-8"]}, "exactly the parties that bring tables"),
        ({"colluding": 4}, "colluding"),
        ({"privacy": {"epsilon": 1e-30, "delta": 1e-6}}, "privacy"),
    ],
)
def test_a_job_that_cannot_be_met_is_refused_by_field(changes, words):
    job, tables = make_job(**changes), make_tables()
    schemas = [table.schema for table in tables]
    with pytest.raises(JobError, match=words):
        analysis_of(job).plan(job, schemas)


def test_bounds_with_which_the_answer_may_leave_floating_point_are_refused_where_it_is_in_their_units():
    schemas = [make_schema(party, ((-1e307, 0.0),)) for party in PARTIES]
    for changes in ({}, MEAN):
        with pytest.raises(JobError, match=r"bounds up to 1e\+307 the answer would leave the range of float64"):
            analysis_of(make_job(**changes)).plan(make_job(**changes), schemas)
    schemas = [make_schema(party, ((-1e307, 30.0),)) for party in PARTIES]
    analysis_of(make_job(**HISTOGRAM)).plan(make_job(**HISTOGRAM), schemas)


def test_parties_with_other_numbers_of_columns_are_refused():
    job = make_job()
    schemas = [make_schema(PARTIES[0], ((0.0, 1.0),)), *(make_schema(party) for party in PARTIES[1:])]
    with pytest.raises(JobError, match=r"party-2 brings 2 columns \(x0, x1\) and party-1 brings 1 columns \(x0\)"):
        analysis_of(job).plan(job, schemas)


def test_the_scale_of_a_column_is_the_widest_of_all_parties():
    schemas = [make_schema(party) for party in PARTIES]
    schemas[3] = make_schema(PARTIES[3], ((0.0, 50.0), (-4.0, 2.0)))
    job = make_job()
    with pytest.raises(JobError, match=r"party-1\.x0 \(0 to 30\) is another column than party-4\.x0 \(0 to 50\)"):
        make_plan(job, schemas)
    job = job.model_copy(update={"parameters": {**job.parameters, "names": ["orders", "change"]}})
    plan = make_plan(job, schemas)
    assert plan.rows.scales == (50.0, 4.0)
    assert names_of_answer(plan) == ["orders", "change"]


def test_columns_of_other_names_are_not_added_up_unless_the_job_says_what_they_are():
    schemas = [make_schema(party) for party in PARTIES]
    other = schemas[2].columns[1].model_copy(update={"name": "income"})
    schemas[2] = schemas[2].model_copy(update={"columns": (schemas[2].columns[0], other)})
    for changes in ({}, MEAN):
        job = make_job(**changes)
        with pytest.raises(JobError, match=r"party-1\.x1 .* is another column than party-3\.income"):
            analysis_of(job).plan(job, schemas)
        for names in (["a"], ["a", "b", "c"]):
            wrong = job.model_copy(update={"parameters": {**job.parameters, "names": names}})
            with pytest.raises(JobError, match=r"parameters\.names: \d names for 2 columns"):
                analysis_of(wrong).plan(wrong, schemas)


def test_columns_in_another_order_are_not_added_up():
    schemas = [make_schema(party) for party in PARTIES]
    schemas[1] = schemas[1].model_copy(update={"columns": schemas[1].columns[::-1]})
    with pytest.raises(JobError, match="name the same columns in the same order"):
        analysis_of(make_job()).plan(make_job(), schemas)


@pytest.mark.parametrize(
    ("edges", "counted"),
    [
        ([0.0, 30.0], (False, False)),
        ([5.0, 30.0], (True, False)),
        ([0.0, 5.0], (False, True)),
        ([5.0, 6.0], (True, True)),
    ],
)
def test_values_outside_the_edges_are_counted_where_bounds_allow_them(edges, counted):
    job = make_job(**{**HISTOGRAM, "parameters": {**HISTOGRAM["parameters"], "edges": edges}})
    schemas = [make_schema(party, ((0.0, 30.0),)) for party in PARTIES]
    rows = analysis_of(job).plan(job, schemas).rows
    assert (rows.has_below, rows.has_above) == counted


@pytest.mark.parametrize("edges", [[-5.0, -1.0, 30.0], [0.0, 31.0, 40.0], [31.0, 40.0]])
def test_bins_that_no_bounds_reach_are_refused(edges):
    job = make_job(**{**HISTOGRAM, "parameters": {**HISTOGRAM["parameters"], "edges": edges}})
    schemas = [make_schema(party, ((0.0, 30.0),)) for party in PARTIES]
    with pytest.raises(JobError, match=r"no bounds allow a value from .* leave this bin out"):
        analysis_of(job).plan(job, schemas)


@pytest.mark.parametrize("extra", [{}, {"row_norm": 0.5}], ids=["box", "norm"])
def test_planned_units_leave_at_worst_a_tenth_of_the_noise_to_rounding(extra):
    job = make_job(**PRIVATE, parameters={"max_rows": 5000, **extra})
    result, _, _, plan = run(job, make_tables())
    deviation = np.sqrt(float(plan.noise.variance(plan.topology.fewest_survivors)))
    assert 0 < plan.worst_rounding <= deviation / 10 < 2 * plan.worst_rounding
    assert result["worst_rounding"] == pytest.approx(
        plan.worst_rounding / plan.params.units * np.array(plan.rows.scales)
    )
    assert result["standard_errors"] == pytest.approx(deviation / plan.params.units * np.array(plan.rows.scales))


def test_planned_units_stay_within_what_the_sum_can_hold():
    plan = plan_of(make_job(**PRIVATE, parameters={"max_rows": 1 << 40}), make_tables())
    assert plan.params.units * (1 << 40) <= 1 << 53
    assert plan.worst_rounding > np.sqrt(float(plan.noise.variance(plan.topology.fewest_survivors))) / 10


def test_rounding_moves_an_exact_sum_by_little_and_never_by_more_than_stated():
    """40 rows of each of 7 parties in 16 units of 30: toward zero they would lose some 260 together."""
    tables = make_tables()
    result, *_ = run(make_job(parameters={"max_rows": 40, "units": 16}), tables)
    off = np.abs(np.array(result["sum"]) - sum(table.values.sum(axis=0) for table in tables))
    assert (off <= np.array(result["worst_rounding"])).all()
    assert off[0] < 6 * np.sqrt(280 / 12) * 30 / 16
    assert result["standard_errors"] == [0.0, 0.0]


def test_rounding_moves_a_mean_by_no_more_than_stated_and_text_says_where_that_is_much():
    tables = [Table(make_schema(party, ((-30.0, 30.0), (-1.0, 1.0))), np.full((20, 2), 0.9)) for party in PARTIES]
    result, *_ = run(make_job(**MEAN, parameters={"max_rows": 40, "units": 16}), tables)
    off = np.abs(np.array(result["mean"]) - 0.9)
    assert 0.02 < off[1] <= result["worst_rounding"][1] == 1 / 32
    assert off[0] <= result["worst_rounding"][0] == 30 / 32
    assert "rounding at most" in lines_of("secure-mean", result)[0]
    fine = run(make_job(**MEAN, **PRIVATE, parameters={"max_rows": 40}), tables)[0]
    assert "rounding at most" not in lines_of("secure-mean", fine)[0]


@pytest.mark.parametrize("analysis", ["secure-sum", "secure-mean"])
def test_the_noise_of_a_category_does_not_grow_with_its_length(analysis):
    def noise_of(n_columns, group):
        columns = tuple(ColumnSchema(name=f"x{i}", lower=0, upper=1, group=group) for i in range(n_columns))
        schemas = [BlockSchema(party=party, columns=columns) for party in PARTIES]
        return make_plan(make_job(analysis, **PRIVATE), schemas).mu

    short, category, columns = noise_of(15, "region"), noise_of(30, "region"), noise_of(30, None)
    assert 0 < category < 1.2 * short
    assert columns > 5 * category


@pytest.mark.parametrize("weight", [None, 0])
def test_standard_errors_of_means_cover_the_means_without_noise(weight):
    """400 draws of the noise about one exact total: 95 % intervals hold the means in 90 to 99 % of them."""
    tables = make_tables()
    parameters = {"max_rows": 100, "units": 1000} | ({} if weight is None else {"weight": weight})
    plan = plan_of(make_job(**MEAN, parameters=parameters, **PRIVATE), tables)
    exact = sum(plan.rows.total(table, plan.encoding.largest_entry)[0] for table in tables)
    means, rng = np.array(value_of(plan, exact)["mean"]), np.random.default_rng(3)
    deviation, within, weights = float(plan.noise.variance(N)) ** 0.5, [], []
    for _ in range(400):
        noisy = exact + np.rint(rng.normal(0, deviation, len(exact))).astype(np.int64)
        value, errors = value_of(plan, noisy), protocol.errors_of(plan, noisy, N)
        within.append(np.abs(np.array(value["mean"]) - means) <= 1.96 * np.array(errors["standard_errors"]))
        off = abs(value["total_weight"] - exact[-1] / plan.rows.rows.units)
        weights.append(off <= 1.96 * errors["standard_error_of_weight"])
    assert 0.9 <= np.mean(within) <= 0.99
    assert 0.9 <= np.mean(weights) <= 0.99


def test_a_mean_over_no_weight_has_no_standard_error():
    plan = plan_of(make_job(**MEAN, **PRIVATE), make_tables())
    assert protocol.errors_of(plan, np.array([5, 5, 0]), N)["standard_errors"] is None
