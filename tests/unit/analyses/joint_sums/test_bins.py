"""People counted over tables of different people: how far one moves what is opened, errors, whole jobs, refusals."""

from itertools import product

import numpy as np
import pytest
from virtual_time import run_in_virtual_time

from analyses.job.job import Job, JobError
from analyses.job.matching import MatchingSchema
from analyses.job.row_ids import digests_of_ids
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.joint_sums.bin_counts import bins_of
from analyses.joint_sums.bin_estimate import people, subsets
from analyses.joint_sums.bin_plan import BIN_SENSITIVITY
from analyses.joint_sums.protocol import ANALYSIS
from analyses.joint_sums.reference import reference_of_people
from analyses.run_locally import run_locally
from dp.cost.composition import composed_epsilon
from entropy import InsecureTestEntropy
from results.registry import lines_of, picture_of, result_of

MATCHING = MatchingSchema(recipe=(("trim",),))
PEOPLE = {"bank": range(1500), "clinic": range(1000, 2500), "shop": range(1400, 1600)}


def table_of(party, numbers, **changes):
    declared = {"columns": (ColumnSchema(name="age", lower=0.0, upper=1.0),), "rows": (100, 2000), "matching": MATCHING}
    schema = BlockSchema(party=party, **declared | changes)
    ids = digests_of_ids([[f"person {number}" for number in numbers]])
    return Table(schema, np.zeros((len(numbers), 1)), ids=ids if schema.matching else None)


def tables_of(parties=tuple(PEOPLE)):
    return {party: table_of(party, list(PEOPLE[party])) for party in parties}


def job_of(parties=tuple(PEOPLE), analysis="joint-count", epsilon=1.0, bins="auto", **changes):
    fields = {
        "analysis": analysis,
        "inputs": [{"party": party, "table": "people"} for party in parties],
        "compute": [*parties, "helper"][:3],
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "parameters": {"bins": bins},
    }
    return Job.model_validate(fields | changes)


def counted(tables, bins):
    """The exact numbers of bins with each pattern, of small tables: lists of persons, who are in these bins."""
    occupied = np.zeros((len(tables), max(bins) + 1), dtype=np.int64)
    for owner, persons in enumerate(tables):
        occupied[owner, [bins[person] for person in persons]] = 1
    counts = np.zeros((2,) * len(tables), dtype=np.int64)
    np.add.at(counts, tuple(1 - occupied), 1)
    return counts


@pytest.mark.parametrize("n_owners", [2, 3])
def test_no_person_moves_more_than_is_stated_and_some_person_moves_as_much(n_owners):
    """All memberships of two others in two bins, and of a person who is absent, present, or replaced by another one."""
    worst = {"coordinator": [0, 0], "coalition": [0, 0]}
    memberships = list(product((False, True), repeat=n_owners))
    for others in product(memberships, repeat=2):

        def counts_of(person, bin_of_person, others=others):
            tables = [[p for p in (0, 1) if others[p][o]] + [2] * person[o] for o in range(n_owners)]
            return counted(tables, [0, 1, bin_of_person])

        absent = counts_of((False,) * n_owners, 0)
        found = [counts_of(*one) for one in product(memberships, (0, 1))]
        for one in found:
            moved = {"coordinator": [one - absent], "coalition": [one - other for other in found]}
            for view, differences in moved.items():
                for difference in differences:
                    worst[view] = np.maximum(worst[view], [(difference**2).sum(), np.abs(difference).sum()]).tolist()
    stated = {view: [of.squared_l2, of.l1] for view, of in BIN_SENSITIVITY.items()}
    assert worst == stated


def test_ids_fall_into_bins_evenly_alike_at_all_owners_and_otherwise_in_another_job():
    ids, n_bins = digests_of_ids([[str(i) for i in range(40_000)]]), 1 << 10
    bins = bins_of(ids, b"one job", n_bins)
    counts = np.bincount(bins, minlength=n_bins)
    assert len(counts) == n_bins
    assert counts.var() == pytest.approx(40_000 / n_bins, rel=0.25)
    assert (bins_of(ids[::-1], b"one job", n_bins) == bins[::-1]).all()
    assert np.mean(bins_of(ids, b"another job", n_bins) == bins) < 0.003


def test_errors_are_those_of_hashing_and_noise_and_intervals_hold():
    rng, n_bins, noise, runs = np.random.default_rng(1), 1 << 13, 3.0, 150
    of_owner = [np.array(persons) for persons in PEOPLE.values()]
    exact = [(len(set.union(*some)), len(set.intersection(*some))) for some in _sets(list(map(set, PEOPLE.values())))]
    found = []
    for _ in range(runs):
        bins, occupied = rng.integers(0, n_bins, 2500), np.zeros((3, n_bins), dtype=np.int64)
        for owner, persons in enumerate(of_owner):
            occupied[owner, bins[persons]] = 1
        counts = np.zeros((2, 2, 2))
        np.add.at(counts, tuple(1 - occupied), 1)
        found.append([(p.union, p.common, p.union_error, p.common_error) for p in people(
            counts + rng.normal(0, noise, counts.shape), n_bins, noise)])  # fmt: skip
    values, errors = np.array(found)[..., :2], np.array(found)[..., 2:]
    assert values.std(axis=0) == pytest.approx(errors.mean(axis=0), rel=0.2)
    assert np.mean(np.abs(values - np.array(exact)) < 1.96 * errors) == pytest.approx(0.95, abs=0.02)


def _sets(tables):
    return [[tables[at] for at in of] for of in subsets(len(tables))]


@pytest.mark.parametrize("parties", [("bank", "clinic"), tuple(PEOPLE)])
def test_a_job_tells_unions_and_intersections_of_any_tables_within_its_errors(parties):
    tables = tables_of(parties)
    run = run_in_virtual_time(run_locally(job_of(parties), tables, entropy_of=_entropy_of))
    exact = reference_of_people(list(tables.values()), run.plan)
    assert exact["people"][-1]["union"] == 2500
    assert [one["parties"] for one in run.result["people"]] == [
        [parties[at] for at in of] for of in subsets(len(parties))
    ]
    for one, truth in zip(run.result["people"], exact["people"], strict=True):
        for name in ("union", "common"):
            assert abs(one[name] - truth[name]) < 4 * one[f"{name}_standard_error"] < 150
    assert run.reports["bank"].n_rows == 1500
    text = "\n".join(lines_of("joint-count", run.result))
    assert "each row of one of them: about 2," in str(result_of(run.plan.job, run.result))
    assert f"one of {run.plan.n_bins:,} bins" in text
    assert len(result_of(run.plan.job, run.result).table()["union"]) == len(exact["people"])
    assert len(picture_of(run.result).panels) == 1


def _entropy_of(member):
    return InsecureTestEntropy(f"bins {member}")


def test_the_cost_is_what_was_asked_for_and_what_the_checker_recomputes():
    plan = ANALYSIS.plan(job_of(), [table.schema for table in tables_of().values()])
    for view in ("coordinator", "coalition"):
        epsilon = composed_epsilon(plan.privacy_events(view), 1e-6).epsilon
        assert epsilon <= 1.0
    assert plan.n_bins == 1 << 14
    union, common = ANALYSIS.forecast(plan).quantities
    assert 10 < common.standard_error < union.standard_error < 50


@pytest.mark.parametrize(
    ("changes", "declared", "message"),
    [
        ({"analysis": "joint-mean"}, {}, "parameters.bins: joint-mean has none"),
        ({"bins": 1000}, {}, "must be a power of two"),
        ({"bins": 4096}, {}, "no less than the 6000 rows"),
        ({"matching": {"kind": "secret"}}, {}, "leave `matching` away"),
        ({"order": "trusted"}, {}, "order: joint-count joins no rows"),
        ({"parameters": {"bins": "auto", "unit": "person"}}, {}, "parameters.unit: bins protect"),
        ({}, {"matching": None}, "does not say what identifies its rows"),
        ({}, {"rows": None}, "does not declare"),
        ({"parameters": {"bins": "few"}}, {}, "parameters.bins"),
        ({"security": "malicious"}, {}, "security: joint-count does not prove"),
    ],
)
def test_what_cannot_be_counted_by_bins_is_refused(changes, declared, message):
    schemas = [table_of(party, range(200), **declared).schema for party in PEOPLE]
    with pytest.raises(JobError, match=message):
        ANALYSIS.plan(job_of(**changes), schemas)
