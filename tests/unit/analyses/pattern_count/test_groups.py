"""Large groups and quantiles of released counts, beside NumPy on the rows, and what is refused."""

import numpy as np
import pytest

from analyses.kept_moments.answer import AnswerError
from analyses.pattern_count.questions import ask_counts

REGIONS = ["north", "south", "west"]
N_BINS = 20


def rows_of(n_rows=3000, seed=0):
    """Region, whether somebody owns, and the bin of a number whose quantiles grow with the region."""
    rng = np.random.default_rng(seed)
    region, owns = rng.choice(3, n_rows, p=[0.6, 0.38, 0.02]), rng.integers(0, 2, n_rows)
    number = np.clip(rng.gamma(4.0, 1.5, n_rows) + 2 * region, 0, N_BINS - 1e-9)
    return region, owns, number


def fields_of(rows, deviation=0.0, rng=None):
    region, owns, number = rows
    counts = np.zeros((2, N_BINS, 3))
    np.add.at(counts, (owns, number.astype(int), region), 1)
    counts = counts if rng is None else counts + rng.normal(0, deviation, counts.shape)
    return {
        "method": "mpc",
        "columns": ["bank.owns", "shop.spent", "clinic.region"],
        "categories": {"bank.owns": [0, 1], "shop.spent": [0, N_BINS - 1], "clinic.region": [0, 2]},
        "labels": {"clinic.region": REGIONS},
        "counts": counts.tolist(),
        "standard_errors": np.full(counts.shape, deviation).tolist(),
    }


def test_quantiles_by_group_are_those_of_the_rows_within_a_bin_and_their_intervals_hold():
    region, owns, number = rows_of()
    given = {"value": "shop.spent", "columns": ["clinic.region", "bank.owns"], "q": 0.25, "width": 2.0}
    found = ask_counts(fields_of((region, owns, number)), "quantiles", given)
    pairs = [(at, one) for at in range(3) for one in (0, 1)]
    assert found.table["clinic.region"] == [REGIONS[at] for at, _ in pairs]
    assert found.table["bank.owns"] == [str(one) for _, one in pairs]
    for at, (place, one) in enumerate(pairs):
        mine = number[(region == place) & (owns == one)]
        assert found.table["rows"][at] == len(mine)
        assert found.table["quantile"][at] == pytest.approx(2 * np.quantile(mine, 0.25), abs=0.5)
        low, high = found.table["interval"][at]
        assert low < found.table["quantile"][at] < high
    rng, held = np.random.default_rng(1), []
    true = np.quantile(np.random.default_rng(5).gamma(4.0, 1.5, 1_000_000), 0.5)
    for run in range(200):
        noisy = fields_of(rows_of(seed=run), 3.0, rng)
        answer = ask_counts(noisy, "quantiles", {"value": "shop.spent", "columns": ["clinic.region"]})
        low, high = answer.table["interval"][0]
        held.append(low <= true <= high)
    assert 0.9 < np.mean(held) < 0.995


def test_means_and_sums_by_three_keys_are_those_of_the_rows_and_their_intervals_hold():
    region, owns, number = rows_of()
    fields = fields_of((region, owns, number))
    given = {"value": "shop.spent", "columns": ["clinic.region", "bank.owns"]}
    found = ask_counts(fields, "group-means", given).table
    binned = ask_counts(fields, "group-means", {**given, "width": 2.0}).table
    for at, (place, one) in enumerate((place, one) for place in range(3) for one in (0, 1)):
        mine = number[(region == place) & (owns == one)]
        assert (found["clinic.region"][at], found["bank.owns"][at]) == (REGIONS[place], str(one))
        assert found["mean"][at] == pytest.approx(np.floor(mine).mean())
        assert found["sum"][at] == pytest.approx(np.floor(mine).sum())
        assert found["chance_error"][at] == pytest.approx(np.floor(mine).std() / np.sqrt(len(mine)))
        assert binned["mean"][at] == pytest.approx(2 * mine.mean(), abs=0.3)
        assert found["rows"][at] == len(mine)
    three = {**fields, "counts": np.array(fields["counts"])[None], "columns": ["audit.late", *fields["columns"]]}
    three["categories"] = {**fields["categories"], "audit.late": [0, 0]}
    three["standard_errors"] = np.zeros((1, 2, N_BINS, 3))
    of_three = ask_counts(three, "group-means", {**given, "columns": [*given["columns"], "audit.late"]}).table
    assert of_three["mean"] == found["mean"]
    rng, held, of_sums = np.random.default_rng(1), [], []
    true = np.floor(np.clip(np.random.default_rng(5).gamma(4.0, 1.5, 1_000_000), 0, N_BINS - 1e-9)).mean()
    for run in range(200):
        rows = rows_of(seed=run)
        answer = ask_counts(fields_of(rows, 3.0, rng), "group-means", {**given, "columns": ["clinic.region"]}).table
        held.append(answer["interval"][0][0] <= true <= answer["interval"][0][1])
        low, high = answer["sum_interval"][0]
        of_sums.append(low <= np.floor(rows[2][rows[0] == 0]).sum() <= high)
    assert 0.9 < np.mean(held) < 0.995
    assert 0.9 < np.mean(of_sums) < 0.995


def test_groups_are_left_out_by_their_noisy_count_and_those_near_the_limit_are_marked():
    region, owns, _ = rows = rows_of()
    found = ask_counts(
        fields_of(rows, 4.0, np.random.default_rng(2)), "groups", {"columns": ["clinic.region"], "at_least": 200}
    )
    assert found.table["clinic.region"] == ["north", "south"]
    assert found.table["surely"] == [True, True]
    assert (found.about["groups"], found.about["left_out"]) == (3, 1)
    near = float(np.sum(region == 1)) - 10
    again = ask_counts(
        fields_of(rows, 4.0, np.random.default_rng(2)), "groups", {"columns": ["clinic.region"], "at_least": near}
    )
    assert (again.table["clinic.region"], again.table["surely"]) == (["north", "south"], [True, False])
    exact = ask_counts(fields_of(rows), "groups", {"columns": ["bank.owns", "clinic.region"]})
    assert exact.table["count"] == [float(np.sum((owns == one) & (region == at))) for one in (0, 1) for at in range(3)]


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("means", {}, "no question 'means'; there are survival, hazard-ratios, groups, group-means, quantiles"),
        ("groups", {}, "the question groups needs columns"),
        ("groups", {"columns": ["bank.none"]}, r"the table has no column 'bank\.none'"),
        ("groups", {"columns": ["bank.owns"], "at_least": float("nan")}, "the limit must be a number of rows, got nan"),
        ("groups", {"columns": ["bank.owns"], "q": 0.5}, "the question groups takes no q"),
        ("quantiles", {"value": "clinic.region"}, r"'clinic\.region' is a category"),
        ("quantiles", {"value": "shop.spent", "columns": ["shop.spent"]}, "is named twice"),
        ("quantiles", {"value": "shop.spent", "q": 1.0}, "q must be above 0 and below 1, got 1"),
        ("group-means", {"value": "clinic.region"}, r"'clinic\.region' is a category: name a column of integers"),
        ("group-means", {"value": "shop.spent", "width": -1.0}, "the width of a bin must be above 0, got -1"),
        ("group-means", {"value": "shop.spent", "at_least": float("nan")}, "the limit must be a number of rows"),
        ("quantiles", {"value": "shop.spent", "width": 0.0}, "the width of a bin must be above 0, got 0"),
    ],
)
def test_what_counts_do_not_answer_is_refused_by_name(name, given, text):
    with pytest.raises(AnswerError, match=text):
        ask_counts(fields_of(rows_of(100)), name, given)


def test_a_group_of_noise_alone_has_no_quantile():
    found = ask_counts(
        fields_of(rows_of(300), 10.0, np.random.default_rng(2)),
        "quantiles",
        {"value": "shop.spent", "columns": ["clinic.region"]},
    )
    assert found.table["quantile"][2] is None
    assert found.notes[0].endswith("groups have rows that are not distinguishable from noise")
