"""The epsilons that honest jobs claim are proven from their plans alone, and smaller ones are refused."""

import json
from fractions import Fraction

import pytest
from registry_jobs import VARIANTS

from analyses.job.schema import BlockSchema
from analyses.registry import analysis_of
from dp.cost.events.skellam import SkellamDpEvent
from verify.document import Document
from verify.mechanisms import SkellamVector
from verify.plans import RECOMPUTED, VIEWS, UnknownPlanError, colluding, compute_parties, members, releases_of
from verify.privacy import findings_of_privacy

COUNTED = [name for name, one in VARIANTS.items() if one.analysis in RECOMPUTED and " by " not in name]
OTHERS = [name for name in VARIANTS if name not in COUNTED]


def planned(name, epsilon):
    variant = VARIANTS[name]
    job, tables = variant.job_of_epsilon(epsilon), variant.tables()
    schemas = [tables[one].schema if one in tables else BlockSchema(party=one) for one in job.members]
    return analysis_of(job).plan(job, schemas)


def document_of(plan, report):
    result = {"analysis": plan.job.analysis, "privacy": report, "receipts": []}
    return Document("job-1", None, json.loads(plan.canonical_json()), json.loads(json.dumps(result)))


def kinds(found):
    return [one.kind for one in found]


@pytest.mark.parametrize(
    ("name", "epsilon"), [*((name, 40.0) for name in COUNTED), ("pca", 0.5), ("pattern-count", 0.5)]
)
def test_what_an_honest_job_claims_is_proven_and_a_twentieth_less_is_not(name, epsilon):
    plan = planned(name, epsilon)
    report = plan.privacy_report()
    assert kinds(findings_of_privacy(document_of(plan, report))) == ["verified", "verified"]
    for view in VIEWS:
        lied = json.loads(json.dumps(report))
        lied["views"][view]["epsilon"] *= 0.95
        found = findings_of_privacy(document_of(plan, lied))
        assert sorted(kinds(found)) == ["fails", "verified"]


@pytest.mark.parametrize("name", COUNTED)
def test_sums_of_differences_are_those_that_the_ledger_is_charged(name):
    plan = planned(name, 4.0)
    releases = releases_of(json.loads(plan.canonical_json()))
    for view in VIEWS:
        (event,) = plan.privacy_events(view)
        if isinstance(event, SkellamDpEvent):
            assert isinstance(releases[view], SkellamVector)
            found = [getattr(releases[view], one) for one in SkellamDpEvent.bounds]
            assert found == [getattr(event, one) for one in SkellamDpEvent.bounds]


@pytest.mark.parametrize("name", COUNTED)
def test_members_of_a_job_are_read_as_everybody_reads_them(name):
    job = planned(name, 4.0).job
    data = json.loads(job.canonical_json())
    assert tuple(members(data)) == job.members
    assert tuple(compute_parties(data)) == job.compute_parties
    assert colluding(data) == job.t


@pytest.mark.parametrize("name", [name for name in OTHERS if "clustering" in name or "by gradients" in name])
def test_noise_of_another_kind_is_taken_on_trust(name):
    plan = planned(name, 40.0)
    assert kinds(findings_of_privacy(document_of(plan, plan.privacy_report()))) == ["on trust"]
    with pytest.raises(UnknownPlanError):
        releases_of(json.loads(plan.canonical_json()))


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan["job"].update(security="malicious"),
        lambda plan: plan["job"].update(later=1),
        lambda plan: plan.update(later=1),
        lambda plan: plan["params"].update(later=1),
        lambda plan: plan["job"]["parameters"].update(later=1),
        lambda plan: plan.update(params=1),
    ],
)
@pytest.mark.parametrize("name", ["pca", "joint-count", "pattern-count"])
def test_what_may_release_more_than_this_checker_knows_is_taken_on_trust(name, change):
    plan = planned(name, 4.0)
    document = document_of(plan, plan.privacy_report())
    change(document.plan)
    document.result["privacy"]["security"] = document.plan["job"].get("security", "semi-honest")
    assert kinds(findings_of_privacy(document)) == ["on trust"]


def test_less_noise_in_the_plan_does_not_give_the_epsilon():
    plan = planned("pca", 4.0)
    document = document_of(plan, plan.privacy_report())
    document.plan["party_mu"] = document.plan["party_mu"] * 8 // 10 // 2 * 2
    assert kinds(findings_of_privacy(document)) == ["fails", "fails"]


@pytest.mark.parametrize(
    "change",
    [
        lambda report: report.update(delta=1e-3),
        lambda report: report["views"]["coalition"].update(epsilon=4.1),
        lambda report: report["views"]["coalition"].update(epsilon=None),
        lambda report: report["views"].pop("coordinator"),
        lambda report: report.clear(),
    ],
)
def test_claims_that_do_not_fit_the_job_fail(change):
    plan = planned("joint-count", 4.0)
    report = plan.privacy_report()
    change(report)
    assert "fails" in kinds(findings_of_privacy(document_of(plan, report)))


@pytest.mark.parametrize("given", ["1e999999999", None, [1]])
@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_a_target_that_is_no_number_fails_at_once(name, given):
    plan = planned(COUNTED[0], 4.0)
    document = document_of(plan, plan.privacy_report())
    document.plan["job"]["privacy"][name] = given
    (found,) = findings_of_privacy(document)
    assert found.kind == "fails"


def test_k_rows_of_a_person_multiply_norms_by_k():
    plan = json.loads(planned("pca", 4.0).canonical_json())
    one = releases_of(plan)["coalition"]
    plan["job"]["parameters"]["unit"] = "person"
    for schema in plan["schemas"]:
        schema["most_rows_per_person"] = 3
    three = releases_of(plan)["coalition"]
    assert (three.squares, three.sizes) == (9 * one.squares, 3 * one.sizes)
    assert three.delta(Fraction(4)) > one.delta(Fraction(4))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"security": "malicious"}, "security mode"),
        ({"matching": {"kind": "secret", "reveals": "nothing"}}, "matching of rows"),
        ({"colluding": 2}, "number of colluding parties"),
        ({"n_parties": 5}, "number of parties"),
        ({"unit": "person"}, "protected unit"),
    ],
)
@pytest.mark.parametrize("name", ["pca", "pattern-count"])
def test_a_result_that_claims_more_of_its_job_than_the_plan_says_fails(name, change, what):
    plan = planned(name, 4.0)
    found = findings_of_privacy(document_of(plan, {**plan.privacy_report(), **change}))
    assert [one.text for one in found if one.kind == "fails"] == [f"the result claims another {what} than its plan"]
