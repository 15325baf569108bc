"""What a job is charged is never less than what its report states, in any view, for all analyses and parameters."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledgers import records_of
from random_plans import DRAWN, plans

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.registry import ANALYSES
from dp.cost.events.record import rdp_of
from dp.cost.renyi_filter import RenyiFilter
from dp.cost.report import composed_epsilon
from dp.cost.views import VIEWS, views_of
from ledger.entry import Reserved, genesis, read_entry, write_entry
from ledger.spending import cover_of, spending_of

DELTAS = (1e-3, 1e-5, 1e-8)


def test_every_analysis_is_among_those_that_are_drawn():
    assert set(DRAWN) == set(ANALYSES)


@pytest.mark.parametrize("n_plans", [8, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("analysis", sorted(ANALYSES))
def test_the_charge_dominates_every_view_and_a_target_of_the_coalition_is_met_in_both(analysis, n_plans):
    @settings(max_examples=n_plans, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
    @given(st.data())
    def check(data):
        plan = data.draw(plans(analysis))
        check_charge(plan)
        check_target(plan)
        check_coalition(plan)

    check()


def check_charge(plan):
    """At every order and delta."""
    cost = plan.cost()
    report = plan.privacy_report()
    stated = {view for view in VIEWS if report["views"][view]["epsilon"] is not None}
    assert set(cost.events) == stated == set(views_of(plan.privacy_unit))
    assert (plan.withstands > 0) == ("coalition" in stated)
    kept = spending_of(_kept(plan, cost))
    for view in stated:
        curve = np.sum([rdp_of(event) for event in plan.privacy_events(view)], axis=0)
        assert np.all(cost.curve >= curve * (1 - 1e-12))
        for delta in DELTAS:
            alone = composed_epsilon(plan.privacy_events(view), delta).epsilon
            assert cost.epsilon(delta).epsilon >= alone
            assert kept.epsilon(delta) >= alone
            if RenyiFilter.of_budget(1.0, delta).covers(kept.curve, kept.n_events):
                assert alone <= 1.0
    masked = report.get("program", {}).get("delta_of_masked_openings", 0)
    delta = plan.job.privacy.delta - report.get("delta_of_noise_proofs", 0) - masked
    worst = max(report["views"][view]["epsilon"] for view in stated)
    assert cost.epsilon(delta).epsilon == worst
    assert not cover_of(kept, worst * 0.999, delta).is_covered


def check_target(plan):
    """The coordinator is part of every coalition: `coalition` is the worst promise, so no view may be worse."""
    target = plan.job.privacy
    views = plan.privacy_report()["views"]
    assert views[target.view]["epsilon"] <= target.epsilon
    if target.view == "coalition":
        assert views["coordinator"]["epsilon"] <= target.epsilon


def check_coalition(plan):
    """But for sketches its view dominates the coordinator's."""
    if set(views_of(plan.privacy_unit)) != set(VIEWS) or getattr(plan.params, "method", "") == "sketch":
        return
    curves = {view: np.sum([rdp_of(event) for event in plan.privacy_events(view)], axis=0) for view in VIEWS}
    if getattr(plan.params, "method", "") == "gradient":  # amplification by sampling never costs more than none
        step, sampling = plan.mechanism.step, plan.mechanism.sampling
        unsampled = sampling.most_participations * rdp_of(step.events("coordinator")[0])
        curves["coordinator"] = np.minimum(curves["coordinator"], unsampled)
    known = np.isfinite(curves["coordinator"])
    assert np.all(curves["coalition"][known] >= curves["coordinator"][known] * (1 - 1e-12))


def _kept(plan, cost) -> Reserved:
    """The charge as a ledger has it: written down and read again."""
    job = plan.job
    wanted = Reserved(
        "job", "people", "ada", job.analysis, "here", "policy", cost.unit, records_of(cost), cost.colluding
    )
    entry = write_entry(1, 0.0, wanted, genesis("p0"))
    return read_entry(1, entry.text, entry.digest, genesis("p0")).what


@pytest.mark.parametrize(
    ("origin", "row_norm"), [("middle", 0.55), ("middle", 0.51), ("middle", 0.501), ("lower", 1.01)]
)
@pytest.mark.parametrize("target", ["coalition", "coordinator"])
def test_sketches_whose_constant_column_is_most_of_a_row_are_charged_their_coordinators_view(origin, row_norm, target):
    """Once charged 1.0 while the report stated 1.22, 2.73, 9.40 and 5.89 against the coordinator."""
    plan = sketch_plan(origin, row_norm, target)
    views = {view: shown["epsilon"] for view, shown in plan.privacy_report()["views"].items()}
    assert views["coordinator"] > 1.2 * views["coalition"]
    assert plan.cost().epsilon(1e-6).epsilon == views["coordinator"] <= 1.0


def sketch_plan(origin, row_norm, target):
    parties = ("p0", "p1", "p2")
    job = Job.model_validate(
        {
            "analysis": "least-squares",
            "inputs": [{"party": p, "table": "people"} for p in parties],
            "privacy": {"epsilon": 1.0, "delta": 1e-6, "view": target},
            "parameters": {"label": "p0.x0", "method": "sketch", "origin": origin, "row_norm": row_norm},
        }
    )
    columns = (ColumnSchema(name="x0", lower=0.0, upper=1.0),)
    return ANALYSES[job.analysis].plan(
        job, [BlockSchema(party=p, columns=columns, has_ids=True, rows=(40, 200_000)) for p in parties]
    )
