"""Masked sums of cohorts of devices: who is in which, what one member moves, and what all cohorts say together."""

from itertools import product

import numpy as np
import pytest

from analyses.job.job import JobError
from analyses.sums.records import DeclaredRecord, Record, contribution
from analyses.sums.secure_sum import SumParams, round_config
from dp.cost.views import VECTOR_UNIT, VIEWS
from questions.cohorts import MaskedQuestion, combined
from questions.reading import question_from_json, question_from_toml
from questions.responses import SurveyQuestion

FIELDS = {"record": "wage", "range": (0.0, 100.0), "buckets": 16, "method": "masked", "epsilon": 2.0, "colluding": 1}


def question(**changes) -> MaskedQuestion:
    return MaskedQuestion.from_tree({**FIELDS, **changes})


def contributed(params: SumParams, *values: float):
    return contribution(params, DeclaredRecord(), Record(np.array(values, dtype=float)))


def names(n):
    return tuple(f"d{i:03}" for i in range(n))


@pytest.mark.parametrize(("n", "cohort", "sizes"), [(3, 1000, [3]), (10, 4, [3, 3, 4]), (8, 4, [4, 4]), (7, 6, [3, 4])])
def test_every_member_is_in_one_cohort_and_sizes_differ_by_one_at_most(n, cohort, sizes):
    found = question(cohort=cohort).cohorts(names(n))
    assert sorted(map(len, found)) == sizes
    assert [name for one in found for name in one] == list(names(n))


@pytest.mark.parametrize(
    ("changes", "known", "what"),
    [
        ({"members": ["d000", "zoe", "d001"]}, names(3), "does not know 'zoe'"),
        ({"members": ["d000", "d001", "d000"]}, names(3), "more than once"),
        ({}, names(2), "at least 3 members"),
        ({"cohort": 3}, names(4), "at least 3 members"),
        ({"delta": 0.2}, names(5), "delta: must be smaller than 1 / 5"),
    ],
)
def test_members_that_cannot_be_asked_are_refused(changes, known, what):
    with pytest.raises(JobError, match=what):
        question(**changes).cohorts(known)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"range": [5, 1]}, "range"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"buckets": 1}, "buckets"),
        ({"buckets": 16385}, "buckets"),
        ({"cohort": 2}, "cohort"),
        ({"until": "2100-01-01T00:00:00Z"}, "until"),
        ({"fine": 32}, "fine"),
        ({"queries": [[0, 200]]}, "queries"),
    ],
)
def test_what_is_no_question_is_refused_by_the_name_of_its_field(changes, field):
    with pytest.raises(JobError, match=field):
        question(**changes)


def test_the_method_says_which_question_it_is():
    assert isinstance(question_from_json(question().canonical_json()), MaskedQuestion)
    text = 'record = "wage"\nrange = [0, 100]\nepsilon = 1.0\nmethod = "masked"\n'
    assert isinstance(question_from_toml(text), MaskedQuestion)
    until = "until = 2100-01-01T00:00:00Z\n"
    assert isinstance(question_from_toml(text.replace("masked", "wave") + until), SurveyQuestion)


@pytest.mark.parametrize("n_buckets", [2, 4, 5, 17])
def test_no_two_records_move_the_sum_further_than_the_noise_covers(n_buckets):
    """Every bucket, no number, several, and none that is finite, through the real code; in both views and norms."""
    params = question(buckets=n_buckets).sum_of(names(5))
    edges = np.linspace(0, 100, n_buckets + 1)
    records = [(), (1.0, 2.0), (float("nan"),), (-1e9,), (1e9,), *((float(x),) for x in (edges[1:] + edges[:-1]) / 2)]
    vectors = [contributed(params, *record).vector for record in records]
    moved = params.sensitivities
    for x, y in product(vectors, vectors):
        assert ((x - y) ** 2).sum() <= moved["coalition"].squared_l2
        assert np.abs(x - y).sum() <= moved["coalition"].l1
    for x in vectors:
        assert (x**2).sum() <= moved["coordinator"].squared_l2
        assert np.abs(x).sum() <= moved["coordinator"].l1
    assert max(((x - y) ** 2).sum() for x, y in product(vectors, vectors)) == moved["coalition"].squared_l2
    assert all(moved[view].unit == VECTOR_UNIT for view in VIEWS)


def test_a_record_that_cannot_be_used_counts_nowhere_and_one_outside_at_the_nearer_end():
    params = question().sum_of(names(3))
    for values in ((), (1.0, 2.0), (float("inf"),)):
        found = contributed(params, *values)
        assert not found.vector.any()
        assert found.not_used_because
    assert params.tree.split(contributed(params, 1e9).vector)[-1].tolist() == [0] * 15 + [1]


def test_a_declaration_of_several_values_is_refused_before_the_record_is_read():
    with pytest.raises(JobError, match="several values"):
        DeclaredRecord(length=3).check(question().sum_of(names(3)))
    DeclaredRecord(length=1).check(question().sum_of(names(3)))


def test_all_cohorts_together_say_how_the_numbers_are_distributed_and_what_the_dearest_costs():
    asked = question(epsilon=8.0, cohort=40, quantiles=(0.5,), queries=((0.0, 50.0),))
    cohorts = asked.cohorts(names(110))
    values = {name: float(10 + i % 40) for i, name in enumerate(names(110))}
    params = [asked.sum_of(cohort) for cohort in cohorts]
    answers = []
    for one, cohort in zip(params, cohorts, strict=True):
        config = round_config(one, "session", {name: name.encode().ljust(32) for name in cohort})
        noise = one.noise(config.topology)
        exact = sum(contributed(one, values[name]).vector.astype(np.int64) for name in cohort)
        report = noise.report(one.analysis, one.privacy.delta, len(cohort))
        answers.append(
            {
                "counts": exact.tolist(),
                "noise_variance": float(noise.variance(len(cohort))),
                "survivors": list(cohort),
                "vanished": {},
                "privacy": report,
            }
        )
    found = combined(asked, answers[:2], dict.fromkeys(cohorts[2], "too few"))
    n = len(cohorts[0]) + len(cohorts[1])
    assert found["rows"] == pytest.approx(n)
    assert (found["responses"], found["cohorts"], found["method"]) == (n, [len(c) for c in cohorts[:2]], "masked")
    assert found["vanished"] == dict.fromkeys(cohorts[2], "too few")
    assert found["quantiles"][0][1] == pytest.approx(30, abs=4)
    assert found["queries"] == [[0.0, 50.0, pytest.approx(1.0)]]
    lower, upper = found["intervals"]["mean"]
    assert lower < found["mean"] < upper
    dearest = max(answers[:2], key=lambda a: a["privacy"]["views"]["coalition"]["epsilon"])["privacy"]
    assert found["privacy"] == dearest
    assert dearest["views"]["coalition"]["epsilon"] <= 8.0
    one = combined(asked, answers[:1], {})
    assert found["intervals"]["probabilities"] != one["intervals"]["probabilities"]
