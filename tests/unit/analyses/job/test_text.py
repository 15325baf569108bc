"""Results as text: names of columns, patterns and clusters beside every number, in the order of the job."""

import json
import re

import numpy as np
import pytest
from analyst_results import view_of
from registry_jobs import VARIANTS, values_of

from analyses.job.text import MAX_LINES, lines_of_result, table_lines
from analyses.registry import ANALYSES, lines_of, picture_of
from analyses.run_locally import run_locally

BARE = re.compile(r"(^\s*|: )-?\d[\d.e+-]*(, -?\d[\d.e+-]*)+")
"""Two numbers or more in a row, before which there is no word, or the name of a field."""


def text_of(name, **changes):
    result = json.loads(view_of(name).result_json) | changes
    return "\n".join(lines_of(VARIANTS[name].analysis)(result)).split("\nprivacy")[0]


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


def test_coefficients_stand_beside_the_names_of_their_columns_with_half_an_interval():
    changes = {"features": ["a.x", "b.y"], "coefficients": [0.5, -2.0], "intercept": 1.0, "label": "c.z"}
    assert table_in(text_of("least-squares", **changes, standard_errors=None), ["column", "coefficient"]) == [
        ["a.x", "0.5"],
        ["b.y", "-2"],
    ]
    errors = {"standard_errors": [0.1, 0.5]}
    found = table_in(text_of("least-squares", **changes, **errors), ["column", "coefficient", "+-"])
    assert found == [["a.x", "0.5", "0.196"], ["b.y", "-2", "0.98"]]


def test_a_regression_without_an_answer_says_why():
    changes = {"coefficients": None, "intercept": None, "r_squared": None, "r_squared_interval": None}
    text = text_of("least-squares", **changes, note="too noisy")
    assert text.endswith("\n\ntoo noisy\n")
    assert "coefficient" not in text


def test_sums_and_bins_are_tables_and_what_is_empty_is_none():
    text = text_of("secure-sum", sum=[1.5, 2.5], standard_errors=[0.5, 0.25], worst_rounding=[2.0, 4.0])
    head = text.splitlines()[0].split()
    found = [dict(zip(head, row, strict=True)) for row in table_in(text, head)]
    assert found == [
        {"column": "x0", "sum": "1.5", "standard_errors": "0.5", "worst_rounding": "2"},
        {"column": "x1", "sum": "2.5", "standard_errors": "0.25", "worst_rounding": "4"},
    ]
    assert "vanished: none" in text
    bins = text_of("secure-histogram", edges=[0.0, 1.0, 2.5], counts=[3, 4], standard_errors=[0.5, 0.5])
    assert [row[:2] for row in table_in(bins, bins.splitlines()[0].split())] == [["0", "1"], ["1", "2.5"]]


def test_an_unknown_result_has_tables_intervals_and_numbered_rows():
    result = {"analysis": "new", "columns": ["a.x", "b.y", "c.z"], "found": [1, None, 2.5], "other": [7.0, 8.0]}
    table = ["column  found", "a.x         1", "b.y      none", "c.z       2.5"]
    assert lines_of_result(result) == [*table, "other:", "  1: 7", "  2: 8"]
    plain = {"its_interval": [0.25, 0.5], "names": ["a", "b"], "nobody": {}, "nested": {"a.x": {"b": 1}}}
    said = ["its_interval: 0.25 to 0.5", "names: a, b", "nobody: none", "nested:", "  a.x:", "    b: 1"]
    assert lines_of_result(plain) == said
    assert lines_of_result({"columns": ["a.x"], "moment": 3}) == ["moment: 3", "columns: a.x"]


def test_a_long_table_ends_and_says_how_many_rows_are_left():
    lines = table_lines({"at": list(range(MAX_LINES + 3)), "value": [0.5] * (MAX_LINES + 3)})
    assert len(lines) == 1 + MAX_LINES + 1
    assert lines[-1] == "and 3 more rows; --format json has them all"


ORDER = ("telco", "bank", "hospital")
"""Not that of the alphabet."""


async def test_patterns_stand_in_the_order_of_the_job_and_not_of_the_alphabet():
    variant = VARIANTS["pattern-count"]
    inputs = [{"party": owner, "table": "people", "columns": ["code"]} for owner in ORDER]
    result = (await run_locally(variant.job(inputs=inputs), variant.tables())).result
    result = json.loads(json.dumps(result, sort_keys=True))  # as a store may keep it
    assert result["columns"] == [f"{owner}.code" for owner in ORDER]
    codes = np.column_stack([values_of(owner)[:, 2] for owner in ORDER]).astype(int)
    text = "\n".join(lines_of("pattern-count")(result))
    rows = table_in(text, [*result["columns"], "rows", "+-"])
    assert len(rows) == MAX_LINES
    for *pattern, count, _ in rows:
        assert abs(float(count) - np.sum(np.all(codes == np.array(pattern, dtype=int), axis=1))) < 1
    (panel,) = picture_of(result).panels
    for label, count in zip(panel.labels, panel.values, strict=True):
        assert abs(count - np.sum(np.all(codes == np.array(label.split(", "), dtype=int), axis=1))) < 1
