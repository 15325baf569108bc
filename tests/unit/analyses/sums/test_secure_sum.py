import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from masked_sums import entropy_of, identity_of

from analyses.job.job import JobError
from analyses.sums.records import DeclaredRecord, Record, contribution, reference
from analyses.sums.secure_sum import SumParams, answer, round_config
from dp.cost.report import ceil_to_digits
from entropy import InsecureTestEntropy
from mpc.secagg.simulation import run_locally
from mpc.secagg.stage import Stage
from results.registry import device_text as text_of

NAMES = [f"party-{i}" for i in range(1, 8)]
IDENTITIES = {name: identity_of(i).public_bytes for i, name in enumerate(NAMES, start=1)}
HISTOGRAM = {"analysis": "secure-histogram", "largest": 5, "edges": [0.0, 1.0, 2.5]}
MEAN = {"analysis": "secure-mean", "largest_weight": 9, "length": 2}


def params(**changes):
    return SumParams.model_validate({"analysis": "secure-sum", "record": "steps", "largest": 10, **changes})


def integers_of(question, record):
    found = contribution(question, DeclaredRecord.as_asked(question), record)
    return question.encoding.encode(found.vector, InsecureTestEntropy("rounding"), found.weight).values


def run(question, records, dropouts=None):
    config = round_config(question, "session", IDENTITIES)

    def values_of(member):
        return integers_of(question, records[NAMES[member - 1]])

    noise = question.noise(config.topology)
    noise_of = None if noise is None else lambda m, seeds: noise.draw(entropy_of(m), seeds)
    identities = {i: identity_of(i) for i in range(1, 8)}
    opened = run_locally(config, values_of, identities, entropy_of, dropouts=dropouts, noise_of=noise_of)
    return answer(question, opened, config)


def make_records(length=2):
    rng = np.random.default_rng(3)
    return {name: Record(rng.uniform(-12, 12, length), weight=i) for i, name in enumerate(NAMES, start=1)}


@pytest.mark.parametrize(
    ("changes", "key"),
    [({"length": 2, "units": 8}, "sum"), ({**MEAN, "units": 1024}, "mean"), (HISTOGRAM, "counts")],
)
@pytest.mark.parametrize("dropouts", [{}, {2: Stage.MASK, 5: Stage.UNMASK}])
def test_the_answer_is_the_reference_over_the_survivors(changes, key, dropouts):
    question, records = params(**changes), make_records()
    result = run(question, records, dropouts)
    survivors = {name: records[name] for name in result["survivors"]}
    assert len(survivors) == 7 - (2 in dropouts)
    assert result[key] == pytest.approx(reference(question, survivors), rel=1e-12)
    json.dumps(result)


def test_the_answer_says_who_dropped_out_when():
    result = run(params(length=2), make_records(), {2: Stage.MASK, 3: Stage.ADVERTISE, 5: Stage.UNMASK})
    assert result["vanished"] == {"party-2": "masked input", "party-3": "advertise keys"}
    assert result["silent_after"] == {"party-5": "unmask"}


def test_a_mean_over_weight_zero_is_none():
    records = {name: Record(np.ones(2), weight=0) for name in NAMES}
    assert run(params(**MEAN), records)["mean"] is None


def test_a_histogram_counts_in_half_open_bins_the_last_one_closed():
    question = params(**HISTOGRAM)
    record = Record(np.array([-0.1, 0.0, 0.99, 1.0, 2.5, 2.6]))
    assert contribution(question, DeclaredRecord(), record).vector.tolist() == [2, 2]


def test_one_member_counts_only_so_often_in_a_bin():
    records = {name: Record(np.full(100, 0.5)) for name in NAMES}
    assert run(params(**HISTOGRAM), records)["counts"] == [7 * 5, 0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"analysis": "secure-mean"}, "must be given for a mean"),
        ({"largest_weight": 3}, "for a mean"),
        ({"edges": [0.0, 1.0]}, "for a histogram"),
        ({**HISTOGRAM, "edges": [1.0, 0.0]}, "ascending"),
        ({**HISTOGRAM, "edges": [1.0]}, "at least two edges"),
        ({**HISTOGRAM, "units": 2}, "must not be given for a histogram"),
        ({**HISTOGRAM, "largest": 1.5}, "must not be given for a histogram"),
        ({"length": 0}, "length"),
        ({"largest": float("inf")}, "finite"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_question_that_contradicts_itself_is_refused_by_field(changes, words):
    text = json.dumps({"analysis": "secure-sum", "record": "steps", "largest": 10, **changes})
    with pytest.raises(JobError, match=words):
        SumParams.from_json(text)


def test_a_question_reads_the_same_from_toml_and_json():
    question = SumParams.from_toml('analysis = "secure-sum"\nrecord = "steps"\nlargest = 10\n')
    assert SumParams.from_json(question.canonical_json()) == question == params()
    with pytest.raises(JobError, match="not valid TOML: Invalid"):
        SumParams.from_toml("analysis = ")
    with pytest.raises(JobError, match="record"):
        SumParams.from_toml('analysis = "secure-sum"')


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"members": ["party-1", "party-9", "party-2"]}, "members: this coordinator does not know 'party-9"),
        ({"members": ["party-1", "party-1", "party-2"]}, "more than once"),
        ({"colluding": 6}, "may contain a single honest member"),
        ({"largest": 2.0**60, "units": 1}, "2\\^53"),
        ({"largest": 2.0**53, "analysis": "secure-mean", "largest_weight": 1 << 52}, "exceed 2\\^63 - 1"),
        ({"largest": 2.0**53, "analysis": "secure-mean", "largest_weight": 1 << 9}, "add up to"),
    ],
)
def test_a_round_that_cannot_be_is_refused_before_it_starts(changes, words):
    with pytest.raises(JobError, match=words):
        round_config(params(**changes), "session", IDENTITIES)


@pytest.mark.parametrize("largest", [1, 1000, 4681, 4682, 2.0**40])
def test_the_ring_is_the_smallest_that_holds_the_sum(largest):
    config = round_config(params(largest=largest), "session", IDENTITIES)
    assert config.group.largest >= 7 * largest
    assert config.group.bits == 16 or config.group.largest // 2 < 7 * largest


def test_above_128_members_the_graph_is_a_ring():
    many = {f"party-{i}": identity_of(i).public_bytes for i in range(1, 131)}
    config = round_config(params(colluding=2, vanishing=6), "session", many)
    assert not config.topology.is_complete
    assert config.topology.fewest_survivors == 124


PRIVATE = {"privacy": {"epsilon": 2.0, "delta": 1e-6}, "colluding": 1}


@pytest.mark.parametrize("dropouts", [{}, {2: Stage.MASK, 5: Stage.UNMASK}])
def test_with_a_target_the_sum_has_the_stated_noise_and_the_report_meets_the_target(dropouts):
    """2000 coordinates: the variance is estimated within 3 % (one s.d.); accepted within 15 %."""
    question = params(length=2000, **PRIVATE)
    records = {name: Record(np.zeros(2000)) for name in NAMES}
    result = run(question, records, dropouts)
    report = result["privacy"]
    found = report["parameters"]
    assert len(result["survivors"]) == found["survivors"] == 7 - (2 in dropouts)
    assert np.var(result["sum_in_units"]) == pytest.approx(2 * found["mu"], rel=0.15)
    assert found["kept_mu"] == found["mu"]
    views = report["views"]
    assert 0 < views["coordinator"]["epsilon"] < views["coalition"]["epsilon"] <= 2.0
    assert (views["coordinator"]["adjacency"], views["coalition"]["adjacency"]) == ("add_or_remove_one", "replace_one")


def test_an_exact_answer_says_that_it_has_no_guarantee():
    result = run(params(length=2, colluding=1), make_records())
    assert result["privacy"]["guarantee"] == "none"
    assert (result["privacy"]["n_parties"], result["privacy"]["colluding"]) == (7, 1)
    assert "NO PRIVACY GUARANTEE" in text_of(result)


def test_the_text_of_a_noisy_answer_says_what_it_costs_whom():
    result = run(params(length=2, **PRIVATE), make_records())
    text = text_of(result)
    assert "Sensitivity: in integer units, add_or_remove_one: L2 14.1421, L1 20;" in text  # two entries of 10
    assert "Protected: one member's vector (that it took part is public). delta = 1e-06." in text
    assert f"Against the coordinator alone: epsilon = {ceil_to_digits(epsilon_of(result, 'coordinator'))}" in text
    assert (
        "Against the coordinator and 1 of 7 members together: epsilon = "
        f"{ceil_to_digits(epsilon_of(result, 'coalition'))} (replace_one)" in text
    )
    assert "NO PRIVACY GUARANTEE" not in text


def epsilon_of(result, view):
    return result["privacy"]["views"][view]["epsilon"]


@pytest.mark.parametrize("changes", [{"length": 4}, MEAN, HISTOGRAM, {**MEAN, "units": 100}])
def test_the_sensitivity_covers_every_contribution(changes):
    question = params(**changes)
    moved = question.sensitivities["coordinator"]
    rng = np.random.default_rng(1)
    for _ in range(50):
        record = Record(rng.uniform(-50, 50, question.length), weight=int(rng.integers(0, 10)))
        values = integers_of(question, record)
        assert np.sum(values**2) <= moved.squared_l2
        assert np.abs(values).sum() <= moved.l1
    largest = Record(np.full(question.length, 50.0), weight=9)
    if not question.edges:
        assert np.sum(integers_of(question, largest) ** 2) == moved.squared_l2


def test_the_group_has_room_for_the_noise():
    exact, noisy = (round_config(params(**c), "session", IDENTITIES) for c in ({}, PRIVATE))
    assert exact.noise_bound == 0
    assert noisy.noise_bound > 0
    assert noisy.surplus_levels[-1] == 7
    assert noisy.group.largest >= 7 * 10 + noisy.noise_bound


def test_a_target_that_no_noise_meets_is_refused():
    question = params(largest=2.0**52, privacy={"epsilon": 1e-9, "delta": 1e-12})
    with pytest.raises(JobError, match="privacy"):
        round_config(question, "session", IDENTITIES)


@pytest.mark.parametrize(
    ("changes", "key"),
    [({"length": 40, "units": 8}, "sum"), ({**MEAN, "units": 64}, "mean"), (HISTOGRAM, "counts")],
)
def test_the_stated_errors_are_those_of_the_noise(changes, key):
    records = make_records(changes.get("length", 1))
    generous = {"privacy": {"epsilon": 60.0, "delta": 1e-6}} if key == "mean" else PRIVATE
    private, exact = run(params(**changes, **generous), records), run(params(**changes), records)
    assert exact["standard_errors"] == [0.0] * len(exact[key])
    off = (np.array(private[key]) - exact[key]) / private["standard_errors"]
    assert 0.7 < np.sqrt(np.mean(off**2)) < 1.4 if key == "sum" else np.all(np.abs(off) < 5)
    assert "+- holds the noise in 19 of 20 cases" in text_of(private)
    assert "+-" not in text_of(exact)


def test_each_entry_has_a_line_of_its_own_with_its_number_or_its_bin():
    answer = run(params(length=50), make_records(50))
    values = [round(value, 9) for value in answer["sum"]]
    lines = text_of(answer).splitlines()
    assert lines[0].endswith(" members:")
    assert lines[1] == f"  entry 1: {values[0]:.12g}"
    assert lines[41] == "  and 10 more; --format json has them all"
    bins = run(params(**HISTOGRAM), make_records(1))
    first, second, *_ = bins["edges"]
    assert f"  from {first:g} to {second:g}: {bins['counts'][0]}" in text_of(bins).splitlines()
    assert text_of(run(params(length=1), make_records(1))).splitlines()[0].startswith("sum of ")


def test_of_a_noisy_weight_nobody_says_that_it_is_zero():
    answer = {
        "analysis": "secure-mean",
        "mean": None,
        "total_weight": -3,
        "standard_error_of_weight": 4.0,
        "record": "steps",
        "survivors": ["a"],
    }
    rest = {"vanished": {}, "silent_after": {}, "privacy": run(params(**PRIVATE), make_records(1))["privacy"]}
    assert "noisy total of the weights is -3 with a standard error of 4" in text_of(answer | rest)
    assert "weights add up to 0" in text_of(answer | rest | {"standard_error_of_weight": 0.0})


@pytest.mark.parametrize("units", [1, 64, 100_000])
def test_noise_hides_the_weight_no_more_than_the_entries(units):
    question = params(**MEAN, units=units, **PRIVATE)
    config = round_config(question, "session", IDENTITIES)
    deviation = float(question.noise(config.topology).variance(7)) ** 0.5
    relative = {"entry": deviation / (9 * 10 * units), "weight": deviation / (9 * question.encoding.weight_units)}
    assert relative["weight"] == pytest.approx(relative["entry"])


@given(
    weights=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    rows=st.lists(st.floats(-15, 15), min_size=4, max_size=4),
    units=st.sampled_from([1, 7, 64]),
)
def test_what_a_member_adds_to_a_noisy_mean_is_within_the_sensitivity(weights, rows, units):
    question = params(**MEAN, units=units, **PRIVATE)
    vectors = [
        integers_of(question, Record(np.array(rows[2 * i : 2 * i + 2]), weight=weight)).astype(object)
        for i, weight in enumerate(weights)
    ]
    limits = question.sensitivities
    assert sum(v**2 for v in vectors[0]) <= limits["coordinator"].squared_l2
    assert sum(v**2 for v in vectors[0] - vectors[1]) <= limits["coalition"].squared_l2
    assert sum(abs(v) for v in vectors[0] - vectors[1]) <= limits["coalition"].l1
