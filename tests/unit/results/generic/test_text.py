"""Results as text: names of columns, patterns and clusters beside every number, in the order of the job."""

import json
import re

import numpy as np
import pytest
from analyst_results import view_of
from registry_jobs import VARIANTS, values_of

from analyses.job.forecast import deviations_of_all
from analyses.job.job import Job
from analyses.registry import ANALYSES
from analyses.run_locally import run_locally
from entropy import InsecureTestEntropy
from results.generic.beyond_noise import beyond_noise
from results.generic.text import MAX_LINES, about_lines, lines_of_fields, rounded_alike, table_lines
from results.kinds.logistic_regression import weight_lines
from results.registry import lines_of, picture_of

BARE = re.compile(r"(^\s*|: )-?\d[\d.e+-]*(, -?\d[\d.e+-]*)+")
"""Two numbers or more in a row, before which there is no word, or the name of a field."""


def text_of(name, **changes):
    result = json.loads(view_of(name).result_json) | changes
    return "\n".join(lines_of(VARIANTS[name].analysis, result)).split("\nprivacy")[0]


def table_in(text, head):
    """Return the rows of the table whose first line has all words of a head, as lists of words."""
    lines = [line.split() for line in text.splitlines()]
    start = next(at for at, words in enumerate(lines) if words == head)
    rows = []
    for words in lines[start + 1 :]:
        if len(words) != len(head):
            break
        rows.append(words)
    return rows


@pytest.mark.parametrize("name", ANALYSES)
def test_no_result_is_a_bare_list_of_numbers(name):
    text = text_of(name)
    assert [line for line in text.splitlines() if BARE.search(line)] == []
    columns = [f"{owner}.x0" for owner in ("bank", "hospital", "telco")]
    if name in ("clustering", "low-rank", "pca", "logistic-regression"):
        assert [column for column in columns if column not in text] == []


def test_a_bare_list_of_numbers_is_found():
    assert BARE.search("counts: 31, 10, 0")
    assert BARE.search("  0: 1.84277, -1.5e-3")


REGRESSION = {
    "features": ["a.x", "b.y", "c.x"],
    "bounds": [[0.0, 10.0], [-1.0, 1.0], [0.0, 100.0]],
    "coefficients": [0.5, -2.0, 1.0],
    "intercept": 1.0,
    "label": "c.z",
}
HEAD = "column  per unit    +-  over its bounds"


def test_effects_that_are_larger_than_noise_stand_first_by_what_they_do_over_the_bounds():
    lines = text_of("least-squares", **REGRESSION, standard_errors=[0.1, 0.5, 0.5]).splitlines()
    at = lines.index(HEAD)
    assert [line.split() for line in lines[at + 1 : at + 3]] == [
        ["a.x", "0.50", "0.20", "5.0"],
        ["b.y", "-2.00", "0.98", "-4.0"],
    ]
    assert lines[at + 4] == "not distinguishable from 0: c.x"  # 2 standard errors: one of three columns often has that


def test_effects_without_stated_errors_are_not_ranked_and_may_be_noise():
    lines = text_of("least-squares", **REGRESSION, standard_errors=None).splitlines()
    assert [line.split()[0] for line in lines[2:5]] == REGRESSION["features"]
    assert lines[5] == "no errors are stated for these numbers: each of them may be noise"


def test_no_effect_is_listed_where_all_are_noise():
    text = text_of("least-squares", **REGRESSION, standard_errors=[1.0, 2.0, 1.0])
    assert "c.z = 1\nnot distinguishable from 0: a.x, b.y, c.x" in text  # no sentence that a table would have to end
    assert "over its bounds" not in text


@pytest.mark.parametrize(("n", "least"), [(1, 1.96), (37, 3.2), (1000, 4.0)])
def test_the_more_numbers_there_are_the_larger_a_finding_must_be(n, least):
    assert deviations_of_all(n) > least - 0.01
    noise = np.random.default_rng(n).normal(size=(400, n))
    found = np.mean([any(beyond_noise(row, [1.0] * n)) for row in noise])
    assert 0.01 < found < 0.1
    assert beyond_noise([10.0], [None]) == [False]


def test_a_regression_without_an_answer_says_why():
    changes = {"coefficients": None, "intercept": None, "r_squared": None, "r_squared_interval": None}
    text = text_of("least-squares", **changes, note="too noisy")
    assert text.startswith("no regression of bank.x0: too noisy\n")
    assert "per unit" not in text


def test_weights_of_noise_alone_are_no_zeros_but_a_sentence():
    noise = {"columns": ["a.x", "b.y"], "weights": [0.0, 0.0], "intercept": 0.0, "standard_errors": None, "note": ""}
    assert weight_lines(noise) == ["no weight is beyond noise"]
    assert weight_lines(noise | {"note": "too noisy"}) == ["too noisy"]
    text = text_of("logistic-regression", **noise)
    assert text.startswith("no regression of telco.label: no weight is beyond noise\n")
    assert "per unit" in "\n".join(weight_lines(noise | {"weights": [0.5, 0.0]}))


def test_sums_and_bins_are_tables_and_what_is_empty_is_none():
    text = text_of("secure-sum", sum=[1.5, 2.5], standard_errors=[0.5, 0.25], worst_rounding=[2.0, 4.0])
    assert text.splitlines()[:4] == [
        "column   sum    +-  rounding at most",
        "x0      1.50  0.98                 2",
        "x1      2.50  0.49                 4",
        "+- is half of a 95 % interval, by noise alone",
    ]
    assert "in it: bank, hospital, telco" in text
    assert "dropped out" not in text
    gone = text_of("secure-sum", vanished={"telco": "keys"}, survivors=["bank", "hospital"])
    assert "in it: bank, hospital\ndropped out: telco (keys)" in gone
    bins = text_of(
        "secure-histogram", edges=[0.0, 1.0, 2.5], counts=[3, 4], below=5, above=None, standard_errors=[1.0, 1.0]
    )
    assert [line.rsplit(maxsplit=2)[:2] for line in bins.splitlines()[1:4]] == [
        ["below 0", "5.0"],
        ["0 to 1", "3.0"],
        ["1 to 2.5", "4.0"],
    ]


def test_an_unknown_result_has_tables_intervals_and_numbered_rows():
    result = {"analysis": "new", "columns": ["a.x", "b.y", "c.z"], "found": [1, None, 2.5], "other": [7.0, 8.0]}
    table = ["column  found", "a.x         1", "b.y      none", "c.z       2.5"]
    assert lines_of_fields(result) == [*table, "other:", "  1: 7", "  2: 8"]
    plain = {"its_interval": [0.25, 0.5], "names": ["a", "b"], "nobody": {}, "nested": {"a.x": {"b": 1}}}
    said = ["its_interval: 0.25 to 0.5", "names: a, b", "nobody: none", "nested:", "  a.x:", "    b: 1"]
    assert lines_of_fields(plain) == said
    assert lines_of_fields({"columns": ["a.x"], "moment": 3}) == ["moment: 3", "columns: a.x"]


@pytest.mark.parametrize(
    ("value", "half", "said"),
    [
        (1234.5678, 6.71946, ("1234.6", "6.7")),
        (1234.5678, 13.2, ("1235", "13")),
        (98765432.1, 88200.0, ("98765000", "88000")),
        (0.25, 9.96e-3, ("0.250", "0.010")),
        (-0.001, 0.2, ("0.00", "0.20")),
        (3.0, 99.6, ("0", "100")),
        (3.5, None, ("3.5", "none")),
        (3.5, 0.0, ("3.5", "0")),
        (None, 1.0, ("none", "1")),
        (2e20, 3e18, ("2e+20", "3e+18")),
        (1.0, 1e-12, ("1", "1e-12")),
        (7, 0.31, ("7.00", "0.31")),
    ],
)
def test_an_error_has_two_significant_digits_and_its_value_ends_at_the_same_place(value, half, said):
    assert rounded_alike(value, half) == said


def test_a_long_table_ends_and_says_how_many_rows_are_left():
    lines = table_lines({"at": list(range(MAX_LINES + 3)), "value": [0.5] * (MAX_LINES + 3)})
    assert len(lines) == 1 + MAX_LINES + 1
    assert lines[-1] == "and 3 more rows; --format json has them all"


ORDER = ("telco", "bank", "hospital")
"""Not that of the alphabet."""


async def test_patterns_stand_in_the_order_of_the_job_and_not_of_the_alphabet():
    variant = VARIANTS["pattern-count"]
    inputs = [{"party": owner, "table": "people", "columns": ["code"]} for owner in ORDER]
    job, tables = variant.job(inputs=inputs), variant.tables()
    result = (await run_locally(job, tables, entropy_of=lambda m: InsecureTestEntropy(f"member {m}"))).result
    result = json.loads(json.dumps(result, sort_keys=True))  # as a store may keep it
    assert result["columns"] == [f"{owner}.code" for owner in ORDER]
    codes = np.column_stack([values_of(owner)[:, 2] for owner in ORDER]).astype(int)
    text = "\n".join(lines_of("pattern-count", result))
    rows = table_in(text, [*result["columns"], "rows", "+-"])
    assert 20 < len(rows) < MAX_LINES  # the others are 0 but for noise
    for *pattern, count, _ in rows:
        assert abs(float(count) - np.sum(np.all(codes == np.array(pattern, dtype=int), axis=1))) < 1
    (panel,) = picture_of(result).panels
    for label, count in zip(panel.labels, panel.values, strict=True):
        assert abs(count - np.sum(np.all(codes == np.array(label.split(", "), dtype=int), axis=1))) < 1


@pytest.mark.parametrize(("error", "shown"), [(0.0, "400 +- 0"), (0.1, "400 +- 1"), (2.0, "400 +- 4")])
def test_a_number_of_rows_with_an_error_is_never_shown_as_exact(error, shown):
    job = Job.from_json(view_of("pca").job_json)
    (line,) = about_lines(job, {"n_rows": 400.2, "n_rows_standard_error": error}, joins=True)
    assert line.endswith(f": about {shown}")


def test_components_whose_variances_come_in_another_order_say_that_it_is_not_known():
    fields = json.loads(view_of("pca").result_json)
    above = fields["explained_variance"][0]
    sentence = "  which of components 1 and 2 has more variance, the noise does not let tell"
    for second, is_said in ((0.9 * above, False), (1.1 * above, True)):
        changed = {
            "explained_variance": [above, second],
            "n_above_noise": 2,
            "components": fields["components"][:1] * 2,
        }
        changed |= {"explained_variance_ratio": [0.5, 0.4], "explained_variance_interval": None}
        assert (sentence in text_of("pca", **changed).splitlines()) is is_said
