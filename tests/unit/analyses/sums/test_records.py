"""What members declare, and that every record, whatever it holds, becomes a vector within the proven bounds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyses.job.job import JobError
from analyses.sums.records import DeclaredRecord, Record, contribution, no_contribution, reference
from analyses.sums.secure_sum import SumParams
from entropy import InsecureTestEntropy

HISTOGRAM = {"analysis": "secure-histogram", "edges": [0.0, 1.0, 2.5]}
MEAN = {"analysis": "secure-mean", "largest_weight": 9, "length": 2}


def params(**changes):
    return SumParams.model_validate({"analysis": "secure-sum", "record": "steps", "largest": 10, **changes})


def integers_of(question, declared, record):
    found = contribution(question, declared, record)
    return question.encoding.encode(found.vector, InsecureTestEntropy("rounding"), found.weight).values


@pytest.mark.parametrize(
    ("declared", "changes", "words"),
    [
        (DeclaredRecord(2, 9), {"length": 3}, "length: the question has 3, but steps is declared here with length 2"),
        (DeclaredRecord(2, 9), {"length": 1}, "length: the question has 1, but steps is declared here with length 2"),
        (DeclaredRecord(), {"length": 1}, "declared here without a length"),
        (DeclaredRecord(2), MEAN, "declared here without a largest_weight"),
        (
            DeclaredRecord(2, 10),
            MEAN,
            "question's 9 is smaller than the 10 declared here for steps; it must be at least 10",
        ),
        (DeclaredRecord(3, 9), MEAN, "length: the question has 2"),
    ],
)
def test_a_question_is_refused_by_the_declaration_alone(declared, changes, words):
    with pytest.raises(JobError, match=words):
        declared.check(params(**changes))
    for record in (Record(np.zeros(2)), Record(np.zeros(7), weight=99), Record(np.array([math.nan]))):
        with pytest.raises(JobError, match=words):
            contribution(params(**changes), declared, record)


@pytest.mark.parametrize(
    ("declared", "changes"),
    [
        (DeclaredRecord(2), {"length": 2}),
        (DeclaredRecord(2, 9), {"length": 2}),
        (DeclaredRecord(2, 9), MEAN),
        (DeclaredRecord(2, 1), MEAN),
        (DeclaredRecord(2, 9), HISTOGRAM),
        (DeclaredRecord(), HISTOGRAM),
    ],
)
def test_a_question_as_declared_is_answered_whatever_the_record_is(declared, changes):
    declared.check(params(**changes))
    for values in ([], [1.0], [1.0, 2.0], [math.inf, 1.0], [1.0] * 9):
        found = contribution(params(**changes), declared, Record(np.array(values), weight=-3))
        assert found.vector.shape == (2 if changes is not HISTOGRAM else len(HISTOGRAM["edges"]) - 1,)
        assert np.isfinite(found.vector).all()


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (Record(np.zeros(3)), "it has 3 values; 2 are declared"),
        (Record(np.zeros(0)), "it has 0 values; 2 are declared"),
        (Record(np.zeros((2, 1))), "must be a list of numbers"),
        (Record(np.array([6.25, math.nan])), "not finite"),
        (Record(np.array([6.25, -math.inf])), "not finite"),
        (Record(np.array([6.25, 7.5]), weight=True), "its weight a whole number"),
        (Record(np.array([6.25, 7.5]), weight=math.nan), "its weight a whole number"),
        (Record(np.array([6.25, 7.5]), weight=2.0), "its weight a whole number"),
    ],
)
@pytest.mark.parametrize("changes", [{"length": 2}, MEAN, HISTOGRAM])
def test_a_record_that_is_not_what_is_declared_counts_as_zeros(record, why, changes):
    found = contribution(params(**changes), DeclaredRecord(2, 9), record)
    assert not found.vector.any()
    assert found.weight == (0 if changes is MEAN else None)
    assert why in found.not_used_because
    assert "6.25" not in found.not_used_because
    assert repr(found) == "Contribution()"


@pytest.mark.parametrize(
    ("weight", "counts_as"), [(-(10**400), 0), (-1, 0), (0, 0), (1, 1), (5, 5), (6, 5), (9, 5), (10**400, 5)]
)
def test_a_weight_is_clipped_to_what_is_declared(weight, counts_as):
    found = contribution(params(**MEAN), DeclaredRecord(2, 5), Record(np.ones(2), weight))
    assert (found.weight, found.weight_was_clipped, found.not_used_because) == (counts_as, weight != counts_as, "")


def test_a_weight_is_no_part_of_sums_and_histograms():
    for changes in ({"length": 2}, HISTOGRAM):
        assert contribution(params(**changes), DeclaredRecord(2, 5), Record(np.ones(2), 10**400)).weight is None


floats = st.floats(allow_nan=True, allow_infinity=True)
records = st.builds(
    lambda values, weight: Record(np.array(values, dtype=np.float64), weight),
    st.lists(floats, max_size=4),
    st.integers(-(1 << 70), 1 << 70) | st.booleans() | floats,
)


@settings(deadline=None)
@given(
    record=records,
    largest=st.floats(1e-3, 1e6) | st.sampled_from([0.7, 8.2, 2.0**-1074]),
    units=st.sampled_from([1, 10, 100, 1 << 20]),
    kind=st.sampled_from(["secure-sum", "secure-mean", "secure-histogram"]),
)
def test_every_record_stays_within_the_sensitivities_of_the_question(record, largest, units, kind):
    """Against a vector of zeros, as the coordinator's view has it; two of them are at most twice as far apart."""
    changes = {"largest": largest, "units": units, "length": 2}
    if kind == "secure-mean":
        changes["largest_weight"] = 9
    if kind == "secure-histogram":
        changes = {**HISTOGRAM, "largest": math.ceil(largest)}
    question = params(analysis=kind, **{key: value for key, value in changes.items() if key != "analysis"})
    values = integers_of(question, DeclaredRecord(2, 7), record)
    moved = question.sensitivities["coordinator"]
    assert sum(int(v) ** 2 for v in values) <= moved.squared_l2
    assert sum(abs(int(v)) for v in values) <= moved.l1
    question.encoding.check_values(values)


def test_zeros_are_what_a_record_of_weight_0_is():
    zeros = no_contribution(params(**MEAN), "why")
    found = contribution(params(**MEAN), DeclaredRecord(2, 9), Record(np.zeros(2), 0))
    assert (zeros.vector.tolist(), zeros.weight) == (found.vector.tolist(), found.weight)


def test_the_reference_counts_records_as_members_do():
    records = {
        "ann": Record(np.array([1.0, 20.0]), 3),
        "ben": Record(np.array([1.0, math.nan]), 3),
        "cyd": Record(np.array([2.0, 2.0]), 30),
    }
    assert reference(params(length=2), records) == [3.0, 12.0]
    assert reference(params(**MEAN), records) == [(3 + 18) / 12, (30 + 18) / 12]
    assert reference(params(length=2, largest=0.7, units=10), {"ann": Record(np.ones(2))}) == [0.6, 0.6]
