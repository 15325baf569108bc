import json
from dataclasses import replace

from job_builders import make_job

from cli.terminal.result import lines_of
from dp.mechanism.gram import NoisyGram
from transport.calls.coordinator_client import EventView, JobView

VIEW = JobView(
    job_id="0123456789abcdef",
    analysis="pca",
    state="SUBMITTED",
    reason="",
    culprit="",
    stage="",
    submitted_by="ada",
    submitted_at_s=1_700_000_000.0,
    ended_at_s=0.0,
    title="",
    waits_for_owners_of=(),
    job_json=make_job().canonical_json(),
    plan_json="",
    result_json="",
)


def summary_of(view: JobView) -> str:
    return "\n".join(lines_of(view))


def done(analysis: str) -> JobView:
    return replace(VIEW, analysis=analysis, state="DONE", job_json=make_job(analysis=analysis).canonical_json())


def test_a_job_that_has_not_ended_shows_its_state() -> None:
    lines = summary_of(VIEW).splitlines()
    assert lines[0] == "job 0123456789abcdef: pca, SUBMITTED"
    assert "ended" not in lines[1]
    assert len(lines) == 2


def test_a_job_that_waits_for_owners_names_their_parties() -> None:
    shown = summary_of(replace(VIEW, state="PROPOSED", waits_for_owners_of=("bank", "telco")))
    assert "waits for approval by the owners of: bank, telco" in shown


def test_a_failure_shows_reason_culprit_and_stage() -> None:
    ended = replace(
        VIEW,
        state="FAILED",
        reason="party west went away",
        culprit="west",
        stage="multiply",
        ended_at_s=1_700_000_002.5,
    )
    text = summary_of(ended)
    assert "after 2.5 s" in text
    assert "reason: party west went away\nat fault: west\nstage: multiply" in text
    refused = replace(ended, reason="party west refused: it has no table 'people'", stage="")
    assert "\nrefused by: west" in summary_of(refused)


def test_a_job_that_failed_after_it_was_planned_says_that_its_cost_may_stay() -> None:
    assert "cost:" not in summary_of(replace(VIEW, state="FAILED", plan_json=""))
    assert "cost: stays charged at each party" in summary_of(replace(VIEW, state="FAILED", plan_json="{}"))
    assert "cost:" not in summary_of(replace(VIEW, state="RUNNING", plan_json="{}"))


def test_components_are_shown_by_size_with_their_cost_in_both_views() -> None:
    mechanism = NoisyGram.calibrate(
        n_columns=8, squared_norm_bound=1000, n_parties=3, colluding=1, epsilon=2.0, delta=1e-6, view="coalition"
    )
    result = {
        "columns": [f"north.x{i}" for i in range(8)],
        "components": [[0.1 * i - 0.5 for i in range(8)]],
        "explained_variance": [0.5],
        "explained_variance_interval": [[0.25, 0.75]],
        "explained_variance_ratio": [0.4],
        "left_out": [],
        "n_above_noise": 1,
        "wrong_shares_from": ["west"],
        "privacy": mechanism.report(1e-6),
    }
    text = summary_of(replace(VIEW, state="DONE", result_json=json.dumps(result)))
    assert "component 1 (variance 0.5, 40.0% of the whole; 95 % interval 0.25 to 0.75)\n  -0.5000  north.x0\n" in text
    assert "  -0.5000  north.x0\n  -0.4000  north.x1\n  -0.3000  north.x2" in text
    assert "and 2 smaller ones" in text
    assert "component 2" not in text
    assert "corrupted shares (corrected) from: west" in text
    assert "Against the coordinator alone: epsilon = " in text
    assert "Against the coordinator and 1 of 3 parties together: epsilon = " in text


def test_weights_are_shown_beside_their_columns() -> None:
    mechanism = NoisyGram.calibrate(
        n_columns=2, squared_norm_bound=1000, n_parties=3, colluding=1, epsilon=2.0, delta=1e-6, view="coalition"
    )
    result = {
        "method": "gradient",
        "label": "south.ill",
        "columns": ["north.age", "west.dose"],
        "weights": [0.25, -3.0],
        "intercept": -1.5,
        "iterations": 40,
        "wrong_shares_from": [],
        "privacy": mechanism.report(1e-6),
    }
    text = summary_of(replace(done("logistic-regression"), result_json=json.dumps(result)))
    assert "log odds that south.ill is 1, after 40 steps: -1.5 and" in text
    assert "no errors are stated for these numbers: each of them may be noise\n\nprivacy\n" in text
    shrunk = summary_of(replace(done("logistic-regression"), result_json=json.dumps(result | {"ridge": 0.1})))
    assert "each of them may be noise, and the ridge shrinks them by an amount that depends on the rows\n\n" in shrunk
    assert "No interval is known" not in shrunk  # one thing is said once
    by_moments = result | {"method": "moments", "standard_errors": [0.1, 2.0], "note": "a ridge keeps it small"}
    text = summary_of(replace(done("logistic-regression"), result_json=json.dumps(by_moments)))
    assert "by second moments: -1.5 and" in text
    assert "north.age      0.25  0.20" in text
    assert "not distinguishable from 0: west.dose" in text
    assert "\na ridge keeps it small\n" in text
    by_moments["standard_errors"] = [10.0, 2.0]
    text = summary_of(replace(done("logistic-regression"), result_json=json.dumps(by_moments)))
    noise = by_moments | {"standard_errors": None, "weights": [0.0, 0.0], "intercept": 0.0, "note": "only noise"}
    nothing = summary_of(replace(done("logistic-regression"), result_json=json.dumps(noise)))
    assert "no regression of south.ill: only noise\n\nprivacy" in nothing
    assert "north.age" not in nothing
    assert "by second moments: -1.5\nnot distinguishable from 0: north.age, west.dose\n" in text


def test_a_result_of_an_analysis_without_its_own_summary_is_shown_field_by_field() -> None:
    result = {"analysis": "mean", "mean": [1.5, 2.0], "counts": {"tcp": 3}, "rows": [[1, 2], [3, 4]], "spread": None}
    lines = summary_of(replace(done("mean"), result_json=json.dumps(result))).splitlines()
    fields = ["mean:", "  1: 1.5", "  2: 2", "counts:", "  tcp: 3", "rows:", "  1:", "    1: 1", "    2: 2", "  2:"]
    assert lines[lines.index(fields[0]) :][: len(fields)] == fields
    long = summary_of(replace(done("mean"), result_json=json.dumps({"rows": [1] * 50})))
    assert long.splitlines()[-1].strip() == "and 10 more lines; --format json has them all"


def test_events_say_who_is_how_far_or_what_happened() -> None:
    event = EventView(at_s=0.0, state="RUNNING", stage="multiply", member="north", percent=25, text="")
    assert event.as_text().endswith(" north: multiply 25 %")
    assert replace(event, member="", text="3 compute parties").as_text().endswith(" RUNNING: 3 compute parties")
    assert replace(event, text="party north failed: no").as_text().endswith(" RUNNING: party north failed: no")
    assert replace(event, member="", state="DONE").as_text().endswith(" DONE")
